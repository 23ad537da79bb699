// SPDX-License-Identifier: Apache-2.0
// resolve_batch: sequences of a step and of a microbatch, tokens of a sequence.
#include <algorithm>
#include <string>
#include <string_view>

#include "scenarios/legal_numbers.h"
#include "scenarios/resolve_plan.h"

namespace stepcast {
namespace {

constexpr int64_t kMostBatch = 1'000'000'000;  // sequences, and tokens of one: products fit 64 bits

bool in_range(const PlanInputs& in, std::string_view path) {
  const FieldValues& v = in.values;
  if (v.whole(path) <= kMostBatch) return true;
  v.refuse("E123", path,
           '\'' + std::string(path) + "' is too large: " + std::to_string(v.whole(path)),
           "at most " + std::to_string(kMostBatch));
  return false;
}

void check_global_batch(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const int64_t unit = plan.micro_batch * plan.dp;  // < 1e9 * 1e7
  if (plan.global_batch % unit == 0) return;
  v.refuse("E203", "batch.global",
           "batch.global = " + std::to_string(plan.global_batch) +
               " is not a multiple of micro*dp = " + std::to_string(unit),
           nearest_multiples(plan.global_batch, unit));
}

// Of the sequence whose length stands at `path`.
void check_sequence(const PlanInputs& in, const Plan& plan, std::string_view path, int64_t tokens) {
  const FieldValues& v = in.values;
  const Transformer* m = in.model;
  const std::string shown = std::string(path) + " = " + std::to_string(tokens);
  const bool tp_fits = m == nullptr || divides(*m, plan.tp);
  if (plan.sp && v.has("parallel.tp") && tp_fits && tokens % plan.tp != 0)
    v.refuse("E204", path,
             shown + " is not a multiple of tp = " + std::to_string(plan.tp) +
                 ", over which sequence parallelism splits it",
             nearest_multiples(tokens, plan.tp) + "; or set parallel.sp to false");
  if (m != nullptr && m->positions == Positions::learned && m->max_positions > 0 &&
      tokens > m->max_positions)
    v.refuse("E211", path,
             shown + " exceeds the model's learned positions, max_position_embeddings = " +
                 std::to_string(m->max_positions),
             "set model.max_position_embeddings to train longer sequences");
}

// The sequence of an encoder whose output a decoder attends to.
void resolve_encoder(const PlanInputs& in, Plan& plan) {
  constexpr std::string_view kPath = "batch.encoder_seq";
  FieldValues& v = in.values;
  if (in.model == nullptr || in.model->encoder_layers == 0) {
    if (in.model != nullptr && v.value(kPath) != nullptr)
      in.warnings.push_back("batch.encoder_seq has no effect: the model has no encoder");
    return;
  }
  if (plan.cp > 1)
    v.refuse("E130", "parallel.cp",
             "context parallelism of an encoder and a decoder is not supported yet", "cp = 1 is");
  if (!v.has("batch.seq")) return;
  if (v.value(kPath) == nullptr)
    v.derive(kPath, plan.seq, std::to_string(plan.seq), "default: as long as batch.seq");
  if (!v.has(kPath) || !in_range(in, kPath)) return;
  plan.encoder_seq = v.whole(kPath);
  if (v.value(kPath) != nullptr) check_sequence(in, plan, kPath, plan.encoder_seq);
}

// Sequences are mostly as long as a power of two, which K and M do not say.
void warn_thousands(const PlanInputs& in, const std::string& path) {
  const Value* written = in.values.value(path);
  if (written == nullptr || !in.values.has(path)) return;
  const std::string& text = written->text;
  const int64_t n = in.values.whole(path);
  if (n > kMostBatch || !(text.ends_with('K') || text.ends_with('M'))) return;
  const int64_t binary = text.ends_with('K') ? n * 1024 / 1000 : n * 1'048'576 / 1'000'000;
  in.warnings.push_back(path + " = " + text + " is " + std::to_string(n) + "; " + text + "i is " +
                        std::to_string(binary));
}

}  // namespace

void resolve_batch(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (v.has("batch.micro")) plan.micro_batch = v.whole("batch.micro");
  const bool global = v.require("batch.global", "sequences of a step: batch: {global: 256, ...}");
  if (global && in_range(in, "batch.global")) {
    plan.global_batch = v.whole("batch.global");
    const bool dp_known = in.cluster != nullptr && v.has("parallel.dp");
    if (dp_known && v.has("batch.micro")) check_global_batch(in, plan);
  }
  if (v.require("batch.seq", "tokens of a sequence: batch: {seq: 4096, ...}") &&
      in_range(in, "batch.seq")) {
    plan.seq = v.whole("batch.seq");
    check_sequence(in, plan, "batch.seq", plan.seq);
  }
  resolve_encoder(in, plan);
  warn_thousands(in, "batch.seq");
  warn_thousands(in, "batch.encoder_seq");
}

// The largest tensor of a microbatch has to be countable in bytes.
void check_tensor_sizes(const PlanInputs& in, const Plan& plan) {
  if (in.model == nullptr || !in.values.has("batch.seq")) return;
  const auto seq = static_cast<double>(plan.seq);
  const auto wide = [](int64_t n) { return static_cast<double>(n); };
  const Transformer& m = *in.model;
  const int64_t multiple =
      in.values.has("parallel.vocab_multiple") ? in.values.whole("parallel.vocab_multiple") : 1;
  const double row =
      std::max({wide(m.hidden), 2 * wide(m.ffn), wide(m.vocab) + wide(multiple) * wide(plan.tp),
                wide(m.heads) * seq, wide(m.heads + 2 * m.kv_heads) * wide(m.head_dim),
                wide(plan.ep) * wide(plan.etp) * wide(m.hidden),
                wide(m.experts_per_token) * wide(plan.etp) * wide(2 * m.moe_ffn + m.hidden)});
  const double bytes =
      seq * wide(plan.micro_batch) * row * 4 * wide(std::max<int64_t>(1, m.layers));
  if (bytes < 1e18) return;
  in.values.refuse("E123", "batch.seq",
                   "a microbatch of " + std::to_string(plan.micro_batch) + " x " +
                       std::to_string(plan.seq) + " tokens needs more bytes than can be counted",
                   "at most 10^18: take a smaller batch.seq, batch.micro or model");
}

}  // namespace stepcast
