// SPDX-License-Identifier: Apache-2.0
// The rules that synthesis tries list scheduling with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/counted_random.h"
#include "schedules/list_scheduling.h"

namespace stepcast {

class RulesToTry {
 public:
  // `mixes`: whole backwards are worth trying beside split ones.  Keeps the reference.
  RulesToTry(const PipelineCosts& costs, bool split_backward, bool mixes);

  // The settings that are best most often, tried first: so many, in turn.
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
