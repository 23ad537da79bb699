// SPDX-License-Identifier: Apache-2.0
// One lane a role through the contention engine, and what tells two such runs apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "scenarios/forecast/step.h"
#include "sim/account/account.h"
#include "sim/contention/contention.h"
#include "sim/contention/equal_ranks.h"
#include "sim/graph/program.h"
#include "sim/lanes/lane_speeds.h"

namespace stepcast::testing {

inline LaneSet one_lane() {
  LaneSet lanes;
  lanes.digits = {{Axis::tp, 1}};
  return lanes;
}

// The engine that runs every op beside everything else.
inline ContentionResult run_every_op(const PricedStep& step, const Interference& interference,
                                     bool record = true) {
  return run_contended(step.graph, step.prices, one_lane(), {}, interference,
                       {.fold = false, .record = record});
}

// That of equal ranks.  Factors in 1/4096.
inline ContentionResult run_as_equal_ranks(const PricedStep& step, int64_t compute,
                                           int64_t communication, bool record = true) {
  return contention::run_equal_ranks(step.graph, step.prices, fold_lanes(one_lane(), true), compute,
                                     communication, true, record);
}

// What differs between two records of one step; nothing if neither has any.
inline std::string difference_of(const PricedStep& step, const Timeline& a, const Timeline& b) {
  std::string out;
  if (a.roles.size() != b.roles.size()) return "roles ";
  if (a.roles.empty()) return {};
  for (size_t r = 0; r < a.roles.size(); ++r) {
    const RoleTimeline &x = a.roles[r], &y = b.roles[r];
    const auto same_item = [](const ItemTime& i, const ItemTime& j) {
      return i.begin == j.begin && i.end == j.end;
    };
    const auto same_gap = [](const Gap& i, const Gap& j) {
      return i.begin == j.begin && i.end == j.end && i.cause == j.cause &&
             i.only_sends == j.only_sends && i.item == j.item && i.id == j.id;
    };
    if (!std::ranges::equal(x.items, y.items, same_item)) out += "items ";
    if (!std::ranges::equal(x.gaps, y.gaps, same_gap)) out += "gaps ";
    if (x.inside != y.inside) out += "inside ";
    if (x.compute_begin != y.compute_begin || x.compute_end != y.compute_end || x.end != y.end)
      out += "compute ";
    if (x.first_backward != y.first_backward || x.last_forward != y.last_forward) out += "turn ";
  }
  const auto same_rendezvous = [](const RendezvousTime& i, const RendezvousTime& j) {
    return i.begin == j.begin && i.end == j.end && i.last_role == j.last_role &&
           i.last_item == j.last_item && i.contended == j.contended;
  };
  if (!std::ranges::equal(a.rendezvous, b.rendezvous, same_rendezvous)) out += "rendezvous ";
  if (a.makespan != b.makespan || a.span != b.span || a.rank_ops != b.rank_ops) out += "whole ";
  const Program program = compile(step.graph, step.prices);
  if (make_account(program, a).by_role != make_account(program, b).by_role) out += "account ";
  return out;
}

inline std::string difference_of(const PricedStep& step, const ContentionResult& got,
                                 const ContentionResult& want) {
  std::string out;
  const LaneResult &a = got.lanes, &b = want.lanes;
  if (a.end != b.end) out += "ends ";
  if (a.makespan != b.makespan) out += "makespan ";
  if (a.span != b.span) out += "span ";
  if (a.rank_ops != b.rank_ops) out += "rank_ops ";
  if (a.last_role != b.last_role) out += "last_role ";
  if (got.shared_ops != want.shared_ops) out += "shared_ops ";
  return out + difference_of(step, a.timeline, b.timeline);
}

}  // namespace stepcast::testing
