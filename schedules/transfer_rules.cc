// SPDX-License-Identifier: Apache-2.0
// The rules for schedules of any order: async, and blocking transfers of one chunk a rank.
#include "schedules/transfer_rules.h"

#include <algorithm>

namespace stepcast {
namespace {

// Actions that run as one unit from position i.
uint16_t unit_size(const std::vector<Action>& actions, size_t i) {
  return actions[i].overlaps_next ? 2 : 1;
}

// Positions of the actions that may have transfers.  Recompute, offload and reload of an activation
// belong to the action behind them: what that one receives is received before them.
std::vector<size_t> units_of(const std::vector<Action>& actions) {
  std::vector<size_t> units;
  for (size_t i = 0; i < actions.size(); ++i) {
    const ActionKind kind = actions[i].kind;
    if (kind != ActionKind::recompute && kind != ActionKind::offload && kind != ActionKind::reload)
      units.push_back(i);
  }
  return units;
}

bool changes_direction(const Action& a, const Action& b) {
  const bool weight =
      a.kind == ActionKind::backward_weight || b.kind == ActionKind::backward_weight;
  return !weight && (a.kind == ActionKind::forward) != (b.kind == ActionKind::forward);
}

// Megatron-LM, forward_backward_pipelining_without_interleaving: in the steady phase a send and the
// receive for the next action are one exchange; in warm-up (the first pp - 1 - rank forwards) and
// cool-down they follow each other.  DeepSpeed, TrainSchedule: one call at a time, and before a
// backward its gradient is received first, then the activation of the forward before it sent.
void write_blocking(ProgramWriter& out, int64_t warmup, bool serial) {
  const std::vector<Action>& actions = out.actions();
  const std::vector<size_t> units = units_of(actions);
  size_t position = 0;
  int64_t forwards = 0;
  bool received = false;  // the input of the next unit, by the exchange before it
  for (size_t u = 0; u < units.size(); ++u) {
    const Action& a = actions[units[u]];
    if (!received) out.exchange({out.in(a)});
    received = false;
    for (; position <= units[u]; ++position) out.run(position);
    const bool last = u + 1 == units.size();
    if (a.kind == ActionKind::forward) ++forwards;
    const bool in_warmup = a.kind == ActionKind::forward && forwards <= warmup;
    if (last || in_warmup || !changes_direction(a, actions[units[u + 1]])) {
      out.exchange({out.out(a)});
      continue;
    }
    const std::optional<Transfer> next = out.in(actions[units[u + 1]]);
    received = true;
    if (!serial) {
      out.exchange({out.out(a), next});
    } else if (a.kind == ActionKind::forward) {
      out.exchange({next});
      out.exchange({out.out(a)});
    } else {
      out.exchange({out.out(a)});
      out.exchange({next});
    }
  }
  for (; position < actions.size(); ++position) out.run(position);
}

bool has_one_stage_a_rank(const Schedule& schedule) {
  if (schedule.is_bidirectional()) return false;
  std::vector<int> stages(schedule.ranks.size());
  for (const uint16_t rank : schedule.rank_of_stage) ++stages[rank];
  return std::all_of(stages.begin(), stages.end(), [](int n) { return n == 1; });
}

}  // namespace

void ProgramWriter::add(Step::Kind kind, Transfers transfers) {
  const auto first = static_cast<uint32_t>(program_.transfers.size());
  for (const std::optional<Transfer>& t : transfers)
    if (t) program_.transfers.push_back(*t);
  const auto count = static_cast<uint16_t>(program_.transfers.size() - first);
  if (count > 0) program_.steps.push_back({kind, count, first});
}

void ProgramWriter::exchange(const std::vector<Transfer>& transfers) {
  if (transfers.empty()) return;
  program_.steps.push_back({Step::Kind::exchange, static_cast<uint16_t>(transfers.size()),
                            static_cast<uint32_t>(program_.transfers.size())});
  program_.transfers.insert(program_.transfers.end(), transfers.begin(), transfers.end());
}

RuleResult async_transfers(const Schedule& schedule) {
  RuleResult result;
  result.ranks.resize(schedule.ranks.size());
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    ProgramWriter out(schedule, r, result.ranks[r]);
    const std::vector<Action>& actions = out.actions();
    for (size_t i = 0; i < actions.size();) {
      const uint16_t count = unit_size(actions, i);
      const Action& second = actions[i + count - 1];
      out.wait({out.in(actions[i])});
      if (count == 2) out.wait({out.in(second)});
      out.run(i, count);
      out.issue({out.out(actions[i])});
      if (count == 2) out.issue({out.out(second)});
      i += count;
    }
  }
  return result;
}

RuleResult blocking_transfers(const Schedule& schedule, bool serial) {
  RuleResult result;
  if (!has_one_stage_a_rank(schedule)) {
    result.refusal = "its rule is for one stage on each rank";
    return result;
  }
  for (const std::vector<Action>& list : schedule.ranks)
    if (std::any_of(list.begin(), list.end(), [](const Action& a) { return a.overlaps_next; })) {
      result.refusal = "it knows no overlapped pairs";
      return result;
    }
  result.ranks.resize(schedule.ranks.size());
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    ProgramWriter out(schedule, r, result.ranks[r]);
    const std::vector<Action>& actions = out.actions();
    const int64_t stage = actions.empty() ? 0 : actions.front().stage;
    write_blocking(out, schedule.pp - 1 - stage, serial);
  }
  return result;
}

}  // namespace stepcast
