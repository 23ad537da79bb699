// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.h"

#include <algorithm>
#include <utility>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

constexpr std::array<std::string_view, kP2pStyles> kNames = {
    "async", "megatron", "megatron-overlap", "megatron-overlap-flush", "dualpipe", "deepspeed"};

}  // namespace

Diagnostic refusal(std::string message) {
  Diagnostic d;
  d.message = std::move(message);
  return d;
}

bool Schedule::stages_are_ranks() const {
  if (is_bidirectional() || rank_of_stage.size() != ranks.size()) return false;
  for (size_t s = 0; s < ranks.size(); ++s)
    if (rank_of_stage[s] != s) return false;
  return true;
}

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

Schedule forwards_of(const Schedule& schedule) {
  if (schedule.is_bidirectional() || schedule.seq_splits > 1)
    refuse("a forward alone runs whole microbatches in one direction, not " + schedule.name);
  Schedule forwards = schedule;
  forwards.name = "forwards";
  forwards.forward_only = true;
  for (std::vector<Action>& list : forwards.ranks) {
    std::erase_if(list, [](const Action& a) { return a.kind != ActionKind::forward; });
    for (Action& a : list) a.overlaps_next = false;  // with a backward
  }
  return forwards;
}

std::string_view name_of(P2pStyle style) {
  return kNames[static_cast<size_t>(style)];
}

P2pStyle default_p2p_style(std::string_view family) {
  const ScheduleFamily* found = find_schedule_family(family);
  return found != nullptr && found->name == family ? found->p2p : P2pStyle::async;
}

}  // namespace stepcast
