// SPDX-License-Identifier: Apache-2.0
// A model with a part of it taken away: layers (depth), or heads, MLP and hidden width, experts.
#pragma once

#include "model/transformer.h"

namespace stepcast {

// Shares that are removed, each from 0 to below 1.
struct Pruning {
  double layers = 0;
  double heads = 0;    // of key-value heads, each with the query heads that share it
  double ffn = 0;      // width of the MLP, of each expert, of the shared experts
  double hidden = 0;   // width of the residual stream; heads keep theirs
  double experts = 0;  // routed ones, in every layer
};

// What is kept is rounded to the nearest whole number, widths from 1,024 on to the nearest multiple
// of 128, as pruned models are cut for the sake of their GEMMs (Muralidharan et al. 2024, arXiv
// 2407.14679); one is always left.  The first layers stay.  Refuses (sim/diagnostic.h)
// to leave a token with fewer experts than it goes to, and to take layers from a model that has an
// encoder and a decoder, where the share does not say which of the two loses them.
Transformer pruned(const Transformer& model, const Pruning& pruning);

}  // namespace stepcast
