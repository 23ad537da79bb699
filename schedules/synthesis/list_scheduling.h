// SPDX-License-Identifier: Apache-2.0
// List scheduling of a pipeline: time runs forward, and a rank that is free decides what to run
// next from what has arrived, what is known to be under way, and its memory.
//
// Of every stage the microbatches go in turn.  An input gradient is taken before a forward, weight
// gradients fill the time in which nothing else can run; the rules below shift that.  The outcome
// is complete, free of deadlock and within the memory, whatever the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/synthesis/order_timing.h"
#include "sim/random.h"

namespace stepcast {

// Which of two actions of the same kind and of different stages of a rank goes first.
enum class ChunkOrder : uint8_t { later_stage, lower_microbatch };

struct RankRules {
  // A rank waits for an input gradient that is under way rather than start a forward (weight
  // gradient) if it arrives within this share of the time the action would take, in percent.
  int32_t forward_patience = 0;
  int32_t weight_patience = 0;
  // More weight gradients than these left behind go before anything else.
  int64_t most_weights_behind = INT64_MAX;
  // With split_backward: of every stage only this many backwards at the begin and at the end are
  // split, those between are whole.
  int64_t split_first = INT64_MAX;
  int64_t split_last = 0;
};

struct ListRules {
  bool split_backward = true;
  bool forward_first = false;  // a forward that is allowed goes before an input gradient
  ChunkOrder forwards = ChunkOrder::later_stage;
  ChunkOrder backwards = ChunkOrder::later_stage;
  std::vector<RankRules> ranks;  // one a rank
  // By stage, at least 1: how many microbatches may have begun their forward but not yet their
  // input gradient.
  std::vector<int64_t> most_in_flight;
};

// What a rank must have free before its next forward of each stage, so that the microbatch can get
// all the way through the rank: that forward and those of the later stages there, and what an input
// gradient may add.  An order that never starts a forward without it cannot get stuck for want of
// memory.  By stage.
std::vector<int64_t> memory_to_enter(const PipelineCosts& costs, bool split_backward);

// REQUIRES: memory_to_enter() is within the limit of the rank for every stage; rules.ranks has an
// entry for every rank, rules.most_in_flight one for every stage.  O(actions * (pp + stages of a
// rank)).
Order list_schedule(const PipelineCosts& costs, const ListRules& rules);

// ------------------------------------------------------------------------------------------------
// The rules that synthesis tries list scheduling with.

class RulesToTry {
 public:
  // `mixes`: whole backwards are worth trying beside split ones.  Keeps the reference.
  RulesToTry(const PipelineCosts& costs, bool split_backward, bool mixes);

  // The settings that are best most often, tried first: this many, in turn.
  size_t plain_count() const;
  ListRules plain(size_t i) const;
  // Any setting.
  ListRules drawn(CountedRandom& random) const;
  // `best` with another limit or patience, of one rank or of several from one on.
  ListRules varied(const ListRules& best, CountedRandom& random) const;

 private:
  bool has_chunks() const { return costs_.rank_of_stage.size() > static_cast<size_t>(costs_.pp); }
  ListRules alike(int64_t share, const RankRules& rank) const;
  void step(int64_t& split, int64_t by) const;

  const PipelineCosts& costs_;
  const bool split_backward_, mixes_;
  std::vector<int64_t> natural_;  // activations in flight, by stage, in hundredths
};

}  // namespace stepcast
