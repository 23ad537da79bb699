// SPDX-License-Identifier: Apache-2.0
// The answer of `stepcast size`: what a model takes, by rule of thumb and by simulation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/format.h"
#include "sim/results/model_size.h"
#include "sim/units.h"

namespace stepcast {

// About 40 lines; ends with '\n'.
std::string size_text(const ModelSize& size, const TextStyle& style = {});

// One object with everything the text has, sizes in bytes and FLOPs.
std::string size_json(const ModelSize& size, std::string_view version);

// "2.794 TB", "428.6 ZFLOP": four digits and a decimal prefix.
std::string metric(double value, std::string_view unit);

// ---------------------------------------------------------------------------------- rules of thumb

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

// The fewest GPUs that hold this much together.  REQUIRES: one GPU's memory > 0.
int64_t gpus_for(double bytes, double gpu_bytes);

// GPU-days of this many FLOPs at a share `mfu` of `peak` FLOP/s.  REQUIRES: mfu, peak > 0.
constexpr double gpu_days(double flops, double mfu, double peak) {
  return flops / (mfu * peak) / kSecondsOfADay;
}

}  // namespace stepcast
