// SPDX-License-Identifier: Apache-2.0
// compare.
#include <memory>
#include <utility>

#include "capi/answer.h"
#include "job/training.h"
#include "report/html/page.h"
#include "report/json/result.h"
#include "report/text/compare.h"
#include "report/text/train.h"
#include "scenarios/forecast/comparison.h"
#include "stepcast/page_facts.h"

namespace stepcast::capi {
namespace {

// Another comparison of the same, with every op.
std::string comparison_page(const std::vector<ComparedScenario>& scenarios,
                            CompareOptions options) {
  options.record = true;
  options.progress = [](int64_t, int64_t total) {
    if (total > int64_t{kMostPageCases})
      request_error("E004", "a report of " + std::to_string(total) + " cases",
                    "a report takes up to " + std::to_string(kMostPageCases));
  };
  std::vector<std::optional<TrainingPlan>> whole_runs;
  options.each = [&](const ScenarioDocument& document, const Scenario& scenario,
                     const Result& result) {
    whole_runs.push_back(whole_run(read_job(document), scenario, result));
  };
  const Comparison c = compare_scenarios(scenarios, options);
  PageFacts facts;
  facts.version = STEPCAST_VERSION;
  facts.model = model_facts_of(c.scenarios);
  std::string bytes;
  write_compare_page(page_cases_of(c.results, c.scenarios, c.names, whole_runs), c.baseline, facts,
                     c.left_out, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

}  // namespace

stepcast_answer compare(Request& request, Reporter& reporter) {
  std::vector<ComparedScenario> scenarios;
  CompareOptions options;
  request.each("cases", [&](Request& one) {
    const std::string name = one.text("case");
    scenarios.push_back({name, read_scenario(one)});
    options.keep_names = true;
  });
  if (scenarios.empty()) {
    const std::string name = request.text(request.has("file") ? "file" : "name");
    scenarios.push_back({name, read_scenario(request)});
  }
  options.schedules = request.texts("schedules");
  options.jobs = jobs_of(request);
  request.check_all_read();
  CompareOptions with_progress = options;
  with_progress.progress = [&](int64_t done, int64_t total) { reporter.show(done, total); };
  std::vector<std::optional<TrainingPlan>> whole_runs;
  with_progress.each = [&](const ScenarioDocument& document, const Scenario& scenario,
                           const Result& result) {
    whole_runs.push_back(whole_run(read_job(document), scenario, result));
  };
  const auto found =
      std::make_shared<const Comparison>(compare_scenarios(scenarios, with_progress));
  stepcast_answer answer;
  answer.bytes = compare_json(found->results, found->names, found->baseline, STEPCAST_VERSION,
                              found->left_out, whole_runs);
  answer.forms.emplace_back("text", [found, whole_runs](Request& r) {
    r.check_all_read();
    return compare_table(found->results, found->names, found->baseline, {}, found->left_out) +
           whole_runs_table(whole_runs, found->names);
  });
  answer.forms.emplace_back(
      "html", [given = std::make_shared<const std::vector<ComparedScenario>>(std::move(scenarios)),
               options](Request& r) {
        r.check_all_read();
        return comparison_page(*given, options);
      });
  return answer;
}

}  // namespace stepcast::capi
