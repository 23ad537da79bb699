// SPDX-License-Identifier: Apache-2.0
#include "scenarios/older_software.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "topology/cluster/gpu_architecture.h"

namespace stepcast {
namespace {

// What was written at a path of two keys; nullptr: nothing.
const Value* written_at(const Value& tree, std::string_view section, std::string_view key) {
  const Value* const at = tree.find(section);
  return at == nullptr ? nullptr : at->find(key);
}

bool writes(const Value& tree, std::string_view section, std::string_view key,
            std::string_view word) {
  const Value* const value = written_at(tree, section, key);
  return value != nullptr && value->text == word;
}

// Decoders, encoders and T5 as Megatron-LM of 2021 had them.
bool is_of_that_time(const Transformer& model) {
  return model.norm == Norm::layer_norm && !model.gated && model.kv_heads == model.heads &&
         model.shapes.empty() && model.kv_rank == 0 && model.experts == 0 && model.mtp_layers == 0;
}

bool is_of_that_time(const Plan& plan) {
  return plan.trains() && plan.cp == 1 && plan.zero <= 1 && !plan.teacher &&
         plan.precision.scaling == Scaling::none && plan.recompute != Recompute::per_op;
}

bool is_of_that_time(const Schedule& schedule) {
  return schedule.name == "gpipe" || schedule.name == "1f1b" || schedule.name == "interleaved-1f1b";
}

}  // namespace

std::optional<std::string_view> older_software(const Value& tree, const Scenario& scenario) {
  const bool old_gpus = architecture(scenario.cluster.node.gpu.arch).older_software;
  if (!old_gpus || tree.find("software") != nullptr || !is_of_that_time(scenario.model) ||
      !is_of_that_time(scenario.plan) || scenario.to_make || !is_of_that_time(scenario.schedule))
    return {};
  // Flash attention came in December 2022, Transformer Engine with it (megatron/arguments.py).
  if (writes(tree, "kernels", "attention", "flash") ||
      writes(tree, "kernels", "modules", "transformer-engine"))
    return {};
  // v3.0 of 2022 brought both, so who says anything of sequence parallelism means that at least.
  const bool of_2022 = written_at(tree, "parallel", "sp") != nullptr ||
                       scenario.plan.recompute == Recompute::selective;
  return of_2022 ? "megatron-lm-2022" : "megatron-lm-2021";
}

std::optional<OlderSoftware> compare_with_older_software(std::string_view profile, Time today,
                                                         Time then, bool fits) {
  const double change = to_seconds(then) / to_seconds(today) - 1;
  if (!(std::abs(change) >= 0.05)) return {};
  return OlderSoftware{std::string(profile), change, fits};
}

std::string remark_on_older_software(std::span<const OlderSoftware> steps) {
  std::set<std::string_view> profiles;
  for (const OlderSoftware& step : steps) profiles.insert(step.profile);
  auto [least, most] = std::ranges::minmax(steps, {}, &OlderSoftware::change);
  if (most.change < 0) std::swap(least, most);  // the smaller figure first
  const auto percent = [](double change) { return std::lround(100 * std::abs(change)); };
  const auto than = [](double change) { return change > 0 ? "longer" : "less"; };
  std::string changes;
  if ((least.change > 0) != (most.change > 0))
    changes = fmt::format("{} % {} to ", percent(least.change), than(least.change));
  else if (percent(least.change) != percent(most.change))
    changes = fmt::format("{} to ", percent(least.change));
  const auto lost = std::ranges::count(steps, false, &OlderSoftware::fits);
  return fmt::format(
      "no software is named, so it is today's; with that of the years when these GPUs were new "
      "(software: {}) the step takes {}{} % {}{}",
      fmt::join(profiles, " or "), changes, percent(most.change), than(most.change),
      lost == 0 ? ""
      : lost == std::ssize(steps)
          ? " and does not fit"
          : fmt::format(" and does not fit in {} of {}", lost, steps.size()));
}

}  // namespace stepcast
