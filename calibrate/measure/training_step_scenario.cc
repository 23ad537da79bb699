// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_scenario.h"

#include <fmt/format.h>

#include <cmath>

#include "calibrate/measure/training_step_works.h"
#include "sim/check.h"

namespace stepcast::measure {
namespace {

// A YAML scalar in double quotes, of one line.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

std::string scenario_text(const TrainingStep& s, const StepMeasurement& m) {
  STEPCAST_CHECK(!m.gpu.empty() && m.step_s > 0, "a scenario needs its GPU and its step time");
  std::string text = "# SPDX-License-Identifier: Apache-2.0\n";
  text += fmt::format("name: {}\n", quoted(fmt::format("training step, {} layers of {}, {}",
                                                       s.layers, s.hidden, m.gpu)));
  text += fmt::format("description: {}\n",
                      quoted("a stack of layers trained by stepcast-measure training-step"));
  text += fmt::format(
      "model:\n  preset: llama\n  num_hidden_layers: {}\n  hidden_size: {}\n"
      "  num_attention_heads: {}\n  num_key_value_heads: {}\n  intermediate_size: {}\n"
      "  vocab_size: {}\n  max_position_embeddings: {}\n  hidden_act: {}\n  gated_mlp: {}\n"
      "  tie_word_embeddings: false\n",
      s.layers, s.hidden, s.heads, s.kv_heads, s.ffn, s.vocab, s.seq, s.gated ? "silu" : "gelu",
      s.gated);
  text += fmt::format("cluster: {{nodes: 1, node: {{gpu: {}, gpus: 1}}}}\n", m.gpu);
  if (!m.calibration.empty()) text += fmt::format("calibration: {}\n", quoted(m.calibration));
  text += "parallel: {tp: 1, pp: 1, dp: 1}\n";
  text += fmt::format("batch: {{global: {}, micro: {}, seq: {}}}\n", s.micro * s.microbatches,
                      s.micro, s.seq);
  text += "precision: bf16-mixed\nrecompute: none\noptimizer: {kind: adam, clip: true}\n";
  text += fmt::format(
      "kernels:\n  attention: {}\n  dropout: 0\n  fused_softmax: true\n  fused_activation: true\n"
      "  fused_cross_entropy: true\n  fused_norm: true\n  gradient_accumulation_fusion: true\n"
      "  blas_workspace: 0B\n"  // tensors alone
      "  modules: torch\n  cuda_graph: {}\n",
      s.fused_attention ? "flash" : "unfused", m.cuda_graph ? "step" : "none");
  text += fmt::format("measured:\n  step_time: {:.6g}ms\n", m.step_s * 1e3);
  if (m.peak_bytes > 0) text += fmt::format("  peak_memory: {}B\n", m.peak_bytes);
  text += fmt::format(
      "  source: {}\n",
      quoted(fmt::format("stepcast-measure training-step on {}, {}: median of {} steps, spread "
                         "{:.1f} %",
                         m.device, m.software, m.steps, m.spread * 100)));
  return text;
}

std::string measurement_text(const TrainingStep& s, const StepMeasurement& m) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const StepWorks works = step_works(s);
  std::string text = fmt::format("step time    {:.3f} ms, median of {} steps (spread {:.1f} %)\n",
                                 m.step_s * 1e3, m.steps, m.spread * 100);
  text += fmt::format("rate         {:.1f} TFLOP/s of {:.2f} TFLOP in products and attention\n",
                      works.flops / m.step_s * 1e-12, works.flops * 1e-12);
  text += fmt::format("tokens       {:.0f} a second\n",
                      static_cast<double>(s.tokens() * s.microbatches) / m.step_s);
  if (m.peak_bytes > 0)
    text += fmt::format("memory       {:.2f} GiB taken, {:.2f} GiB of tensors at the peak\n",
                        static_cast<double>(m.peak_bytes) / kGiB,
                        static_cast<double>(works.peak_bytes) / kGiB);
  text += fmt::format("loss         {:.3f} at first, {:.3f} at the end{}\n", m.first_loss,
                      m.last_loss, has_learned(m) ? "" : ": IT DOES NOT LEARN");
  return text;
}

bool has_learned(const StepMeasurement& m) {
  return std::isfinite(m.last_loss) && m.last_loss < 0.9 * m.first_loss;
}

}  // namespace stepcast::measure
