// SPDX-License-Identifier: Apache-2.0
// The model that the training-step check trains, what it was told on the command line, and where
// each parameter stands.  Needs no CUDA.
//
// A decoder like Llama: RMS norms, rotary positions, grouped queries, no biases, no dropout, an MLP
// with a gate (SiLU) or without (GELU), head and embedding not tied.  bf16 compute, fp32 gradients,
// master weights and Adam's moments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stepcast::measure {

struct TrainingStep {
  int64_t layers = 4;
  int64_t hidden = 4096;
  int64_t heads = 32;
  int64_t kv_heads = 8;
  int64_t ffn = 14336;
  int64_t vocab = 32000;
  int64_t seq = 4096;
  int64_t micro = 1;         // sequences in a microbatch
  int64_t microbatches = 4;  // in a step: their gradients accumulate
  bool gated = true;
  bool fused_attention = false;  // one kernel each way instead of products and softmax

  int64_t head_dim() const { return hidden / heads; }
  int64_t group() const { return heads / kv_heads; }  // query heads of one key-value head
  int64_t tokens() const { return micro * seq; }      // of a microbatch
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  int64_t up_width() const { return gated ? 2 * ffn : ffn; }
};

// Throws std::invalid_argument with a sentence that says what is wrong and what would be legal:
// sizes not above zero or beyond 2^40 values a tensor, heads that do not divide, a head dimension
// that is no multiple of 16 up to 256, widths that are no multiple of 8 (16-byte loads) or beyond
// 16384 (norms), a vocabulary that is no multiple of 128 (the forecast pads it to that, as
// Megatron-LM does).
void check_shape(const TrainingStep& shape);

enum class AttentionChoice : uint8_t { automatic, fused, unfused };

struct TrainingRun {
  TrainingStep shape;
  AttentionChoice attention = AttentionChoice::automatic;  // fused if the library can
  int64_t steps = 20;
  double learning_rate = 0;  // 0: usual_learning_rate()
  int device = 0;
  std::string gpu;           // preset of the written scenario; empty: by the device's name
  std::string scenario_out;  // file; empty: none is written
  std::string calibration;   // cost table that the scenario names; empty: none
  bool help = false;
};

// 0.3 / hidden: an update by the rate in all weights of a row, as Adam's first one is, moves a
// logit by a third, so that a few steps learn a batch without overshooting.
double usual_learning_rate(const TrainingStep& shape);

// "--layers 4 --hidden 4096 ..."; training_step_usage() tells all.  Throws std::invalid_argument as
// check_shape, and for options that are unknown, stand twice, lack their value or have no number.
TrainingRun parse_training_run(std::span<const std::string> arguments);
std::string training_step_usage();

// ------------------------------------------------------------------------------------ parameters
// A matrix of rows x width in the flat array of all parameters (and of all gradients, masters,
// moments).
struct Parameter {
  int64_t offset = 0, rows = 0, width = 0;
  int64_t count() const { return rows * width; }
};

struct LayerParameters {
  Parameter norm1, qkv, projection, norm2, up, down;  // matrices as [output][input]
};

struct ParameterMap {
  Parameter embedding, final_norm, head;
  std::vector<LayerParameters> layers;
  int64_t count = 0;
};

ParameterMap map_parameters(const TrainingStep& shape);

// How a parameter begins: a constant, or a normal distribution of that deviation: 0.02, for the two
// matrices of each layer that add to the residual stream 0.02 / sqrt(2 layers) (Radford et al.
// 2019, section 2.3).
struct InitialValue {
  Parameter where;
  double constant = 0, deviation = 0;
};
std::vector<InitialValue> initial_values(const TrainingStep& shape);

// -------------------------------------------------------------------------------------- the batch
// Tokens and, for each, the one that comes next, which is to be predicted.
struct Microbatch {
  std::vector<int32_t> tokens, targets;  // shape.tokens() each, sequence by sequence
};
// The same for the same index: training on it is learning it by heart.
Microbatch fixed_microbatch(const TrainingStep& shape, int64_t index);

}  // namespace stepcast::measure
