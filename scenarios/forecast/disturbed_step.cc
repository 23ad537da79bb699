// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/disturbed_step.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/forecast/lane_set.h"
#include "scenarios/forecast/what_if.h"
#include "sim/graph/program.h"

namespace stepcast {
namespace {

Time compute_of(const SpendTable& table) {
  Time sum{};
  for (int s = 0; s < static_cast<int>(Spend::exposed_tp); ++s)
    sum += table[static_cast<size_t>(s)];
  return sum;
}

// What slowness adds to `compute`, rounded down.
Time added(Time compute, Slowness slowness) {
  __extension__ using Wide = __int128;
  const Wide more = static_cast<Wide>(compute.count()) * (slowness - kNominal);
  return Time{static_cast<int64_t>(more >> kLaneFractionBits)};
}

using ByLane = std::vector<std::vector<Time>>;  // [role][lane]

// How much longer each lane computes than priced.  In a window: no longer than if it computed all
// the time.
ByLane own_delay(const LaneSet& lanes, const Account& undisturbed, Time step) {
  ByLane delay(undisturbed.by_role.size(),
               std::vector<Time>(static_cast<size_t>(lanes.lanes()), Time{}));
  for (size_t role = 0; role < delay.size(); ++role) {
    if (lanes.slowness.empty()) break;
    const Time compute = compute_of(undisturbed.by_role[role]);
    for (size_t lane = 0; lane < delay[role].size(); ++lane)
      delay[role][lane] = added(compute, lanes.slowness[role][lane]);
  }
  for (uint32_t role = 0; role < delay.size(); ++role) {
    for (size_t lane = 0; lane < delay[role].size(); ++lane) {
      for (const LaneWindow& w : lanes.windows_of(role, static_cast<int64_t>(lane))) {
        if (w.slowness <= kNominal) continue;
        const Time length = std::max(Time{}, std::min(w.until, step) - std::min(w.from, step));
        delay[role][lane] +=
            length -
            Time{static_cast<int64_t>(static_cast<double>(length.count()) * kNominal / w.slowness)};
      }
    }
  }
  return delay;
}

// Slower for a while at least; faster for a while at least and never slower.
std::pair<int64_t, int64_t> slower_and_faster_ranks(const LaneSet& lanes, size_t roles) {
  std::pair<int64_t, int64_t> count;
  for (uint32_t role = 0; role < roles; ++role) {
    for (int64_t lane = 0; lane < lanes.lanes(); ++lane) {
      const Slowness own =
          lanes.slowness.empty() ? kNominal : lanes.slowness[role][static_cast<size_t>(lane)];
      bool slow = own > kNominal, fast = own < kNominal;
      for (const LaneWindow& w : lanes.windows_of(role, lane)) {
        slow = slow || w.slowness > kNominal;
        fast = fast || w.slowness < kNominal;
      }
      count.first += slow ? 1 : 0;
      count.second += fast && !slow ? 1 : 0;
    }
  }
  return count;
}

Time step_without_contention(const StepInputs& in, const OpGraph& graph, const Prices& prices,
                             Time LaneResult::*step) {
  const StepInputs alone{in.scenario, graph, prices, in.table, false};
  return run_ranks(alone, in.scenario.seed, {}).ranks.lanes.*step;
}

}  // namespace

bool is_disturbed(const Scenario& scenario) {
  return !scenario.perturb.empty() || scenario.share_links ||
         scenario.interference != Scenario::Interference::off;
}

StepTimes step_times(const StepInputs& in, Time LaneResult::*step, Time undisturbed, Time now) {
  const bool contended =
      in.scenario.share_links || in.scenario.interference != Scenario::Interference::off;
  StepTimes times{now, now, undisturbed};
  if (!contended) return times;
  times.without_contention = in.scenario.perturb.empty()
                                 ? undisturbed
                                 : step_without_contention(in, in.graph, in.prices, step);
  return times;
}

std::vector<WhatIf> what_if_of_ranks(const StepInputs& in, const SpendTable& account,
                                     Time LaneResult::*step, const StepTimes& times) {
  const Time before = times.without_contention;
  std::vector<WhatIf> answers =
      what_if(in.graph, in.prices, account, before, [&](const Variation& variation) {
        const VariedStep varied = vary(in.graph, in.prices, variation);
        return step_without_contention(in, varied.graph, varied.prices, step);
      });
  const auto add = [&](Spend spend, Time saved) {
    if (account[static_cast<size_t>(spend)] != Time{}) answers.push_back({spend, saved});
  };
  add(Spend::straggler, before - times.undisturbed);
  add(Spend::contention, times.now - before);
  return answers;
}

Disturbance compare_with_equal_ranks(const StepInputs& in, const RankRun& run,
                                     const Account& undisturbed, Time now, Time before) {
  const Scenario& scenario = in.scenario;
  const OpGraph& graph = in.graph;
  const LaneSet& lanes = run.lanes;
  const LaneResult& ranks = run.ranks.lanes;
  Disturbance d;
  d.shared_links = run.shared_links;
  d.interference = run.interference;
  d.undisturbed = before;
  d.ranks = scenario.plan.grid.world();
  d.jitter = lanes.jitter.has_value();
  d.last_rank = rank_name(in, ranks.last_role, ranks.last_lane);
  d.lanes = ranks.lanes_run * static_cast<int64_t>(graph.roles.size());
  std::tie(d.slow_ranks, d.fast_ranks) = slower_and_faster_ranks(lanes, graph.roles.size());
  d.slow_links = ranks_on_slow_links(scenario, graph);
  if (d.jitter || d.shared_links || d.interference) return d;
  const Time worth_telling = before / 1000;
  Time sum{};
  for (const auto& of_role : own_delay(lanes, undisturbed, now)) {
    for (const Time own : of_role) {
      const Time waited = now - before - own;
      if (waited <= worth_telling) continue;
      ++d.waiting;
      sum += waited;
    }
  }
  if (d.waiting > 0) d.mean_wait = sum / d.waiting;
  return d;
}

void book_longer_waits(Account& account, const Account& undisturbed, Spend cause) {
  constexpr std::array kWaits{Spend::imbalance, Spend::drain, Spend::fill};
  const auto waiting = [&](const SpendTable& of) {
    Time sum{};
    for (const Spend s : kWaits) sum += of[static_cast<size_t>(s)];
    return sum;
  };
  for (size_t r = 0; r < account.by_role.size(); ++r) {
    SpendTable& table = account.by_role[r];
    Time left = std::max(Time{}, waiting(table) - waiting(undisturbed.by_role[r]));
    for (const Spend s : kWaits) {
      Time& here = table[static_cast<size_t>(s)];
      const Time taken = std::min(left, here);
      here -= taken;
      left -= taken;
      table[static_cast<size_t>(cause)] += taken;
    }
    Time& late = table[static_cast<size_t>(Spend::straggler)];
    if (cause != Spend::straggler) table[static_cast<size_t>(cause)] += std::exchange(late, Time{});
  }
}

}  // namespace stepcast
