// SPDX-License-Identifier: Apache-2.0
// What one rank has to do for the experts of a layer: which of them it holds, and how many tokens
// they get.
//
// Each token goes to `experts_per_token` experts: so many copies of it are made.  Experts lie on
// the ep ranks in blocks, each split over etp.  Copies are counted in rows of the matrix that an
// expert multiplies.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan.h"
#include "model/shard.h"
#include "model/transformer.h"

namespace stepcast {

struct ExpertShard {
  int64_t local = 1;    // experts of this rank, each of them ...
  int64_t ffn = 0;      // ... of this width (1 / etp of it)
  int64_t up = 0;       // output width of its first product: ffn, or 2 ffn when gated
  int64_t tokens = 0;   // of this rank: what its router sees
  int64_t copies = 0;   // of them, that reach an expert (or pad its input)
  int64_t sent = 0;     // what the exchange counts: copies, or one a rank that a token goes to
  int64_t rows = 0;     // of the experts on a rank, in the mean
  int64_t busiest = 0;  // of the experts on the rank with most
  // Experts of this rank that any token chose, in the mean over the ranks, whose weights are read:
  // all of them in training.  A forward alone may have few tokens, each of which goes to an expert
  // with chance k times its share, whatever the others chose.
  int64_t met = 1;
};
ExpertShard expert_shard(const Shard& shard);

// Shares of all copies that each expert gets, their sum is 1.  No expert gets more than one copy of
// a token: shares above 1 / experts_per_token are spread over the others.  Routing::zipf deals the
// experts out in the order of their popularity, one to each rank in turn; Routing::shares lists
// them as they lie on the ranks.
std::vector<double> expert_shares(const Transformer& model, const Plan& plan);

}  // namespace stepcast
