// SPDX-License-Identifier: Apache-2.0
#include "stepcast/page_facts.h"

#include <algorithm>
#include <utility>

#include "report/svg/topology.h"
#include "report/text/size.h"
#include "stepcast/topology_view.h"

namespace stepcast {

std::vector<SettingLine> setting_lines_of(const Scenario& scenario) {
  std::vector<SettingLine> lines;
  for (const Setting& s : scenario.settings) lines.push_back({s.path, s.value, s.origin});
  return lines;
}

namespace {

std::vector<PublishedFigures> published_in(const Scenario& scenario) {
  std::vector<PublishedFigures> published;
  for (const Measured& m : scenario.measured)
    if (m.variant.empty())
      published.push_back(
          {m.step_time_s, m.tokens_per_gpu_s, m.peak_memory, m.tolerance, m.source});
  return published;
}

}  // namespace

std::string model_facts_of(std::span<const Scenario> scenarios) {
  std::vector<std::string> models;
  for (const Scenario& s : scenarios) {
    std::string model =
        s.model.name + ", " + metric(static_cast<double>(parameters(s.model)), "") + " parameters";
    if (std::ranges::find(models, model) == models.end()) models.push_back(std::move(model));
  }
  std::string text;
  for (const std::string& m : models) text += (text.empty() ? "" : "; ") + m;
  return text;
}

PageFacts page_facts_of(const Result& result, const Scenario& scenario, std::string_view version,
                        std::string command) {
  PageFacts facts;
  facts.version = version;
  facts.command = std::move(command);
  facts.description = scenario.description;
  facts.model = model_facts_of({&scenario, 1});
  facts.settings = setting_lines_of(scenario);
  facts.published = published_in(scenario);
  if (result.graph && result.prices) facts.links = links_of(scenario, result);
  TopologyView view = cluster_view(scenario.cluster);
  view.title = scenario.cluster.name;
  facts.cluster_svg = topology_svg(view);
  return facts;
}

std::vector<PageCase> page_cases_of(std::span<const Result> results,
                                    std::span<const Scenario> scenarios,
                                    std::span<const std::string> names,
                                    std::span<const std::optional<TrainingPlan>> whole_runs) {
  std::vector<PageCase> cases;
  for (size_t i = 0; i < results.size(); ++i)
    cases.push_back({names[i], &results[i], setting_lines_of(scenarios[i]),
                     published_in(scenarios[i]),
                     i < whole_runs.size() ? whole_runs[i] : std::nullopt});
  return cases;
}

}  // namespace stepcast
