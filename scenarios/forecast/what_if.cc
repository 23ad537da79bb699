// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/what_if.h"

#include <algorithm>
#include <map>
#include <optional>

namespace stepcast {
namespace {

std::optional<Variation> without(const Variation& levelled, Spend spend) {
  Variation v;
  const auto free = [&](Axis axis) { v.axis_scale[static_cast<size_t>(axis)] = 0; };
  switch (spend) {
    case Spend::exposed_tp: free(Axis::tp); return v;
    case Spend::exposed_cp:
      for (const Axis axis : {Axis::cp, Axis::cp_inner, Axis::cp_outer}) free(axis);
      return v;
    case Spend::exposed_ep:
      free(Axis::ep);
      free(Axis::etp);
      return v;
    case Spend::exposed_pp: free(Axis::pp); return v;
    case Spend::exposed_dp:
      for (const Axis axis : {Axis::dp, Axis::edp, Axis::data, Axis::shard, Axis::replica})
        free(axis);
      return v;
    case Spend::exposed_other:
      free(Axis::embedding);
      free(Axis::model);
      return v;
    case Spend::recompute: v.recompute_scale = 0; return v;
    case Spend::optimizer: v.optimizer_scale = 0; return v;
    case Spend::launch: v.launch_scale = 0; return v;
    case Spend::imbalance: return levelled;
    default: return std::nullopt;
  }
}

// Of levelled stages: they were equal but for the rounding of their means.
bool changes_nothing(const Variation& levelled) {
  constexpr double kRounding = 1e-9;
  return std::all_of(levelled.pass_scale.begin(), levelled.pass_scale.end(),
                     [](double scale) { return scale > 1 - kRounding && scale < 1 + kRounding; });
}

}  // namespace

Variation level_stages(const PricedStep& step, const Program& program) {
  const OpGraph& graph = step.graph;
  std::vector<double> cost(graph.passes.size());
  for (size_t p = 0; p < cost.size(); ++p) {
    for (int64_t ps : program.passes[p].busy) cost[p] += static_cast<double>(ps);
  }
  // Pairs are levelled among themselves.
  const auto kind_of = [](const Item& i) { return std::pair{i.action.kind, i.has_second}; };
  std::map<std::pair<ActionKind, bool>, std::pair<double, double>> sums;  // total cost, runs
  for (const RoleOps& role : graph.roles) {
    for (const Item& item : role.items) {
      if (item.kind != ItemKind::pass || !item.has_action) continue;
      auto& [total, runs] = sums[kind_of(item)];
      total += cost[static_cast<size_t>(item.pass)];
      runs += 1;
    }
  }
  Variation levelled;
  std::vector<double>& scale = levelled.pass_scale;
  scale.assign(graph.passes.size(), 1);
  for (const RoleOps& role : graph.roles) {
    for (const Item& item : role.items) {
      if (item.kind != ItemKind::pass || !item.has_action) continue;
      const auto& [total, runs] = sums[kind_of(item)];
      const double own = cost[static_cast<size_t>(item.pass)];
      if (own > 0) scale[static_cast<size_t>(item.pass)] = total / runs / own;
    }
  }
  return levelled;
}

std::vector<WhatIf> what_if(const SpendTable& account, const Variation& levelled, Time now,
                            const std::function<Time(const Variation&)>& time_of) {
  std::vector<WhatIf> answers;
  for (int i = 0; i < kSpends; ++i) {
    const auto spend = static_cast<Spend>(i);
    const bool none = account[static_cast<size_t>(i)] == Time{0};
    // The slowest stage waits for no other: unequal stages cost most where the account has nothing.
    if (none && spend != Spend::imbalance) continue;
    const std::optional<Variation> variation = without(levelled, spend);
    if (!variation || (none && changes_nothing(*variation))) continue;
    const Time saved = now - time_of(*variation);
    // Nor do they cost anything where equal ones take as long or longer.
    if (none && saved <= Time{}) continue;
    answers.push_back({spend, saved});
  }
  return answers;
}

}  // namespace stepcast
