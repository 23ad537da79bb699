// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/schedule_contest.h"
#include "scenarios/forecast/step_memory.h"
#include "scenarios/forecast/step_prices.h"

#include <algorithm>

#include "schedules/lower/lower.h"
#include "schedules/lower/vocabulary.h"
#include "schedules/transfers/transfers.h"
#include "sim/engine/run.h"

namespace stepcast {
namespace {

bool takes(const ScheduleFamily& family, std::string_view key) {
  return std::any_of(family.parameters.begin(), family.parameters.end(),
                     [&](const ScheduleParameter& p) { return p.key == key; });
}

}  // namespace

std::optional<StepOutcome> step_outcome(const Scenario& s, const CostTable* table,
                                        const Schedule& schedule) {
  if (check_transfers(schedule, s.p2p)) return {};
  try {
    OpGraph graph =
        lower(s.model, s.plan, schedule, {.p2p = s.p2p, .post_validation = s.post_validation});
    const Prices prices = price_step(graph, s, table);
    const Timeline timeline = run(compile(graph, prices), Record::nothing);
    StepOutcome out;
    out.time = s.post_validation ? timeline.span : timeline.makespan;
    for (const RoleMemory& role : trace_memory(graph)) out.peak = std::max(out.peak, role.peak);
    return out;
  } catch (const Deadlock&) {
    return {};
  }
}

Bytes beyond_memory(const Scenario& s, const Schedule& schedule) {
  const OpGraph graph =
      lower(s.model, s.plan, schedule, {.p2p = s.p2p, .post_validation = s.post_validation});
  const Gpu& gpu = s.cluster.node.gpu;
  const Bytes usable = gpu.memory - gpu.reserve;
  return step_memory(graph, trace_memory(graph), usable).reserved - usable;
}

bool better(const StepOutcome& a, const StepOutcome& b) {
  return std::pair{a.time, a.peak} < std::pair{b.time, b.peak};
}

std::vector<Schedule> families_with(const ScheduleParams& sizes,
                                    const std::vector<uint16_t>& rank_of_stage,
                                    const std::map<std::string, std::string, std::less<>>& prices) {
  std::vector<Schedule> found;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.order_by == OrderBy::search) continue;
    ScheduleParams params{sizes.pp, sizes.vpp, sizes.microbatches, 0, {}};
    for (const auto& [key, value] : prices)
      if (takes(family, key)) params.more[key] = value;
    const auto suits = [&](const Schedule& s) {
      // A shared vocabulary is another layout, with stages of other costs.
      return s.rank_of_stage == rank_of_stage && !s.is_bidirectional() && s.seq_splits == 1 &&
             vocabulary_split(s) == VocabularySplit::none;
    };
    // Families that are made for times take some to make: first whether the placement is right.
    ScheduleParams one = params;
    one.microbatches = 1;
    if (family.order_by == OrderBy::times &&
        (check_params(family, one) || !suits(generate_schedule(family, one))))
      continue;
    if (check_params(family, params)) continue;  // not for these sizes
    Schedule schedule = generate_schedule(family, params);
    if (suits(schedule)) found.push_back(std::move(schedule));
  }
  return found;
}

}  // namespace stepcast
