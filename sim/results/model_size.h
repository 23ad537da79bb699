// SPDX-License-Identifier: Apache-2.0
// How large a model is before anyone has thought of a layout: what it has to store and to compute,
// and the smallest layouts that simulation found, as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/results/result.h"
#include "sim/units.h"

namespace stepcast {

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
  int64_t mtp_layers = 0, mtp_parameters = 0;     // multi-token prediction, beside `parameters`
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
