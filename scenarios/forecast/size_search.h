// SPDX-License-Identifier: Apache-2.0
// The fewest GPUs on which a model trains: layouts are tried, fewest GPUs first, until one fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scenarios/scenario.h"
#include "sim/result.h"

namespace stepcast {

// A scenario that is loaded once for each layout.
struct SizeSubject {
  std::string name;                 // of the file
  std::optional<std::string> text;  // of the scenario; nothing: it is in the file
  LoadOptions load;
  int64_t node = 8;     // GPUs of a node
  bool infers = false;  // its mode is no training
};

// A layout in the words of a scenario.
struct LayoutChoice {
  int64_t gpus = 1, tp = 1, pp = 1, ep = 1;
  int zero = 1;
  std::string recompute = "none";
  std::string weights{};  // one sequence is decoded with weights in this format; "": training
};

// The subject, trained or decoded, with this layout, microbatches of one sequence, and 1F1B. Throws
// InputError if the layout is illegal.
Scenario load_candidate(const SizeSubject& subject, const LayoutChoice& choice);

// Fills in what the search finds.  A layout is tried on 1, 2, 4, ... GPUs of a node, then on whole
// nodes; of those with the fewest GPUs that fit it takes the fastest.
// The same for inference of decoders, with weights in 2, 1 and 0.5 bytes; other models have none.
void find_smallest(const SizeSubject& subject, int64_t most_gpus, ModelSize& size);

}  // namespace stepcast
