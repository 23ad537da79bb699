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
// 2407.14679); one is always left.  The first layers stay.  Throws std::invalid_argument with a
// sentence for the user if a token has more experts than are left, or the parts of a model cannot
// be told apart any more (an encoder and a decoder lose layers).
Transformer pruned(const Transformer& model, const Pruning& pruning);

}  // namespace stepcast
