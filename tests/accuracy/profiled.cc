// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/profiled.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include "schedules/synthesis/order_timing.h"
#include "tests/accuracy/run_record.h"

namespace stepcast::accuracy {
namespace {

struct Profile {
  double forward = 0, input = 0, weight = 0, hop = 0;  // ms
};

std::optional<Profile> profile_of(const Value& record) {
  const auto f = number_at(record, "profiled_ms.T_F"), b = number_at(record, "profiled_ms.T_B"),
             w = number_at(record, "profiled_ms.T_W"), c = number_at(record, "profiled_ms.T_comm");
  if (!f || !b || !w || !c) return {};
  if (!(*f > 0 && *b > 0 && *w > 0 && *c >= 0 && *f + *b + *w + *c < 1e9)) return {};
  return Profile{*f, *b, *w, *c};
}

// Activations of a layer without fused attention in bytes a token, 34h + 5as (Korthikanti et al.
// 2022, eq. 1), of which W frees 32h (docs/schedules.md).  Schedules look at the ratios only.
StageMemory memory_of(const Value& record) {
  const int64_t h = whole_at(record, "model.hidden").value_or(1);
  const int64_t as =
      whole_at(record, "model.heads").value_or(0) * whole_at(record, "model.seq").value_or(0);
  return {34 * h + 5 * as, -2 * h - 5 * as, -32 * h};
}

Schedule schedule_of(const ScheduleFamily& family, ScheduleParams params, const Profile& p,
                     const StageMemory& m) {
  for (const ScheduleParameter& known : family.parameters) {
    if (known.key == "tF") params.more["tF"] = std::to_string(p.forward);
    if (known.key == "tB_input") params.more["tB_input"] = std::to_string(p.input);
    if (known.key == "tW") params.more["tW"] = std::to_string(p.weight);
    if (known.key == "tComm") params.more["tComm"] = std::to_string(p.hop);
    if (known.key == "mem_F") params.more["mem_F"] = std::to_string(m.forward);
    if (known.key == "mem_B") params.more["mem_B"] = std::to_string(m.backward_input);
    if (known.key == "mem_W") params.more["mem_W"] = std::to_string(m.backward_weight);
  }
  return generate_schedule(family, params);
}

}  // namespace

std::optional<double> profiled_step_s(const Value& record) {
  const std::optional<Profile> p = profile_of(record);
  const ScheduleFamily* family = find_schedule_family(text_at(record, "parallelism.schedule"));
  const int64_t pp = whole_at(record, "parallelism.pp").value_or(0);
  const int64_t vpp = whole_at(record, "parallelism.vpp").value_or(1);
  const int64_t microbatches = whole_at(record, "batch.num_microbatches").value_or(0);
  if (!p || family == nullptr || pp < 1 || vpp < 1 || microbatches < 1) return {};
  const auto time = [](double ms) { return Time{std::llround(ms * 1e9)}; };  // in picoseconds
  const auto share = [&](double ms) { return time(ms / static_cast<double>(vpp)); };
  StageTimes times;
  times.forward = share(p->forward);
  times.backward_input = share(p->input);
  times.backward_weight = share(p->weight);
  try {
    const StageMemory memory = memory_of(record);
    const Schedule s = schedule_of(*family, {pp, vpp, microbatches, 0}, *p, memory);
    const PipelineCosts costs =
        level_costs(pp, microbatches, s.rank_of_stage, times, memory, time(p->hop), std::nullopt);
    const std::optional<OrderTimes> ends = time_order(costs, s.ranks);
    if (!ends) return {};
    return to_seconds(ends->makespan);
  } catch (const std::invalid_argument&) {
    return {};
  }
}

}  // namespace stepcast::accuracy
