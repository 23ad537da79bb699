// SPDX-License-Identifier: Apache-2.0
#include "scenarios/own_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "calibrate/fit/own_runs_text.h"
#include "model/parameters.h"
#include "scenarios/pricing_table.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {

std::shared_ptr<const OwnRuns> read_own_runs(const std::string& text, const std::string& file,
                                             const Node& node, int64_t libraries) {
  const OwnRunsText own = parse_own_runs(text, file);
  OwnRuns runs{file, hex_of(hash_text(text)), own.prices, own.runs, {}, {}};
  runs.parameters.assign(in_situ_parameters().begin(), in_situ_parameters().end());
  const InSituRows rows = in_situ_rows(in_situ_parameters(), node, libraries);
  for (const InSituParameter& p : own.parameters) {
    const auto shared = std::ranges::find_if(runs.parameters, [&](const InSituParameter& s) {
      return s.term == p.term && s.scope == p.scope;
    });
    if (shared == runs.parameters.end())
      throw file_error(
          "E312", fmt::format("this version has no parameter '{}' of {}", name_of(p.term), p.scope),
          file, "`stepcast calibrate runs` makes the file anew");
    if (std::ranges::find(rows, static_cast<int>(shared - runs.parameters.begin())) == rows.end())
      throw file_error("E313",
                       fmt::format("these runs were on {}, and other parameters hold for {}",
                                   own.gpu, node.gpu.name),
                       file,
                       "a cluster of another generation, or software of another age "
                       "(kernels.libraries), has own runs of its own");
    constexpr double kRounding = 1e-3;
    if (std::abs(shared->value - p.prior) > kRounding * std::max(1.0, std::abs(shared->value)))
      runs.warning = "the own runs " + file +
                     " are of another version, whose published values were others: `stepcast "
                     "calibrate runs` makes the file anew";
    *shared = p;
  }
  return std::make_shared<const OwnRuns>(std::move(runs));
}

std::span<const InSituParameter> in_situ_parameters_of(const Scenario& scenario) {
  if (scenario.own_runs != nullptr) return scenario.own_runs->parameters;
  return in_situ_parameters();
}

std::string own_model_key(const Transformer& model) {
  return fmt::format("{} {} {} {}", model.layers, model.hidden, model.experts, parameters(model));
}

std::string prices_key(const Scenario& scenario) {
  const PricingTable pricing = pricing_table(scenario);
  if (pricing.table == nullptr) return "roofline";
  return pricing.table->name() + ' ' + pricing.hash;
}

std::string warning_of_other_prices(const Scenario& scenario) {
  if (scenario.own_runs == nullptr) return {};
  const std::string now = prices_key(scenario);
  const std::vector<std::string>& then = scenario.own_runs->prices;
  if (std::ranges::find(then, now) != then.end()) return {};
  return fmt::format(
      "the own runs {} were priced by the table {}, and this scenario is by {}: what was learnt "
      "may be of the table",
      scenario.own_runs->file, fmt::join(then, ", "), now);
}

}  // namespace stepcast
