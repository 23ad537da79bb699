// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/interference.h"

#include <algorithm>

#include "sim/diagnostic.h"

namespace stepcast {
namespace {

std::optional<Interference> measured_interference(const CostTable* table) {
  if (table == nullptr) return {};
  return table->interference();
}

// Nothing takes longer than by the larger factor, so the step does not either.
bool can_be_counted(const Interference& factors, Time undisturbed) {
  constexpr double kLongestPs = 1125899906842624.0;  // 2^50
  return static_cast<double>(undisturbed.count()) *
             std::max(factors.compute, factors.communication) <
         kLongestPs;
}

}  // namespace

std::string interference_left_out(std::string_view why) {
  return "contention.interference: auto leaves out that compute and communication slow each other "
         "down " +
         std::string(why);
}

bool is_perturbed(const Scenario& scenario) {
  return !scenario.perturb.empty() || scenario.share_links;
}

bool may_leave_out_interference(const Scenario& scenario) {
  const bool links_are_tried = scenario.share_links && scenario.links == Scenario::Links::automatic;
  return scenario.interference == Scenario::Interference::automatic && is_perturbed(scenario) &&
         !links_are_tried;
}

InterferenceChoice choose_interference(const Scenario& scenario, const CostTable* table,
                                       Time undisturbed) {
  using enum Scenario::Interference;
  if (scenario.interference == off) return {};
  const std::optional<Interference> measured = measured_interference(table);
  if (scenario.interference == on) {
    if (!measured)
      throw file_error("E127",
                       "contention.interference is on, but nobody has measured it on " +
                           scenario.cluster.node.gpu.name,
                       scenario.file, "auto leaves it out where it was not measured");
    return {measured, {}};
  }
  // Nothing runs beside anything else.
  if (!measured || scenario.plan.kernels.host_waits == HostWaits::launches) return {};
  if (!can_be_counted(*measured, undisturbed))
    return {{}, interference_left_out("in a step of more than 2^50 ps (19 minutes)")};
  return {measured, {}};
}

}  // namespace stepcast
