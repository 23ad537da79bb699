// SPDX-License-Identifier: Apache-2.0
// How large a model is before anyone has thought of a layout: the rules of thumb, and what was
// found out by simulation beside them, as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/result.h"

namespace stepcast {

// ----------------------------------------------------------------------------- rules of thumb
// Bytes of the states that mixed-precision training with Adam keeps of each parameter: the
// parameter itself, its gradient, and 12 of the optimizer (fp32 copy and two moments): 16 with
// 2-byte gradients, 18 with 4-byte ones (Rajbhandari et al. 2020, ZeRO, section 3.1; Narayanan et
// al. 2021).
constexpr double state_bytes(double parameters, double parameter_bytes, double gradient_bytes) {
  return (parameter_bytes + gradient_bytes + 12) * parameters;
}
// 18 bytes a parameter and a quarter more for activations and all else.
constexpr double training_bytes(double parameters) {
  return 18 * parameters * 1.25;
}
// Weights, and a fifth more for activations and a short context's cache (Anthony, Biderman,
// Schoelkopf 2023, Transformer Math 101).
constexpr double inference_bytes(double parameters, double parameter_bytes) {
  return 1.2 * parameters * parameter_bytes;
}
// The fewest GPUs that hold so much together.  REQUIRES: one GPU's memory > 0.
int64_t gpus_for(double bytes, double gpu_bytes);
// GPU-days of so many FLOPs at a share `mfu` of `peak` FLOP/s.  REQUIRES: mfu, peak > 0.
constexpr double gpu_days(double flops, double mfu, double peak) {
  return flops / (mfu * peak) / 86400;
}

// ------------------------------------------------------------------------------------ findings
// A layout that fits, simulated.
struct SizedLayout {
  int64_t gpus = 1, tp = 1, pp = 1, dp = 1, ep = 1;
  int zero = 0;
  std::string recompute;   // "none", "selective", "full"
  std::string set;         // what to set in a scenario: "parallel={tp: 8, pp: 6} recompute=full"
  int64_t parameters = 0;  // of the fullest rank
  Result result;
};

// A decode step of one sequence: one token.
struct SizedInference {
  std::string weights;  // what they are stored in: "bf16"
  double parameter_bytes = 2;
  std::optional<SizedLayout> layout;  // the one with the fewest GPUs
};

struct ModelSize {
  std::string model;  // "llama3-8b"
  std::string gpu;
  int gpus_per_node = 0;
  Bytes gpu_memory{}, gpu_usable{};  // as the device reports it; without the reserve
  double gpu_peak = 0;               // FLOP/s in the format of the parameters; 0: not stated

  int64_t parameters = 0, active_parameters = 0;  // active: met by one token
  int64_t embedding_parameters = 0;               // word and position embeddings and the head
  double parameter_bytes = 2, gradient_bytes = 4, optimizer_bytes = 12;  // of one parameter
  double cache_bytes_per_token = 0;  // keys and values of inference, in 16 bits

  // Of one step, all GPUs together.
  int64_t global_batch = 0, seq = 0;
  double flops = 0;             // model FLOPs: full attention, head counted
  double causal_flops = 0;      // attention to the keys a query sees
  double recomputed_flops = 0;  // what full recomputation executes: another forward of the layers

  double tokens = 0;          // of the whole training; 0: not asked for
  std::optional<double> mfu;  // as stated

  std::optional<SizedLayout> training;  // the fastest of those with the fewest GPUs that fit
  int64_t layouts_tried = 0, most_gpus_tried = 0;
  std::vector<SizedInference> inference;
};

}  // namespace stepcast
