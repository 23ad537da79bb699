// SPDX-License-Identifier: Apache-2.0
#include "schedules/all_forwards_then_backwards.h"

#include <algorithm>
#include <utility>

#include "schedules/placement.h"

namespace stepcast {

Schedule all_forwards_then_backwards(std::vector<uint16_t> rank_of_stage, int64_t pp,
                                     int64_t microbatches, bool split_backward) {
  Schedule out;
  out.name = "all-forward-all-backward";
  out.pp = pp;
  out.microbatches = microbatches;
  out.ranks.resize(static_cast<size_t>(pp));
  std::vector<int64_t> chunks(static_cast<size_t>(pp));
  const auto stages = static_cast<int64_t>(rank_of_stage.size());
  const auto list = [&](int64_t s) -> std::vector<Action>& {
    return out.ranks[rank_of_stage[static_cast<size_t>(s)]];
  };
  for (int64_t s = 0; s < stages; ++s) {
    out.vpp = std::max(out.vpp, ++chunks[rank_of_stage[static_cast<size_t>(s)]]);
    for (int64_t m = 0; m < microbatches; ++m) list(s).push_back(forward_of(s, m));
  }
  for (int64_t s = stages; s-- > 0;) {
    for (int64_t m = 0; m < microbatches; ++m) {
      Action a = backward_of(s, m);
      if (split_backward) a.kind = ActionKind::backward_input;
      list(s).push_back(a);
      if (!split_backward) continue;
      a.kind = ActionKind::backward_weight;
      list(s).push_back(a);
    }
  }
  out.rank_of_stage = std::move(rank_of_stage);
  return out;
}

}  // namespace stepcast
