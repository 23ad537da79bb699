// SPDX-License-Identifier: Apache-2.0
// `stepcast size`: what a model takes, asked without a layout: parameters, FLOPs, memory, and the
// smallest layout that fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/results/model_size.h"

namespace stepcast {

struct SizeOptions {
  LoadOptions load;   // --set, --root
  double tokens = 0;  // of the whole training; 0: not asked for
  std::string gpu;    // a GPU preset or its beginning ("h100"), or a cluster preset; "" = as the
                      // scenario says, else an H100
  std::optional<double> mfu;
  bool search = true;         // for the smallest layout that fits
  int64_t most_gpus = 16384;  // that it looks at
};

// The subject is a model preset, a Hugging Face config.json or a scenario, whose layout is not
// used; what it does not say is an H100 and a batch of 4 Mi tokens.  `text`: of the file; nothing
// for a preset.  Throws InputError: E006 for a GPU that is in no cluster preset, E101 for a name
// that is neither preset nor file, and all that loading a scenario can say.
ModelSize size_model(const std::string& subject, const std::optional<std::string>& text,
                     const SizeOptions& options);

}  // namespace stepcast
