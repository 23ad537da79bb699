// SPDX-License-Identifier: Apache-2.0
// train.
#include "job/training.h"

#include <memory>
#include <utility>

#include "capi/answer.h"
#include "report/html/page.h"
#include "report/text/train.h"
#include "stepcast/page_facts.h"

namespace stepcast::capi {

stepcast_answer train(Request& request) {
  ScenarioDocument document = read_scenario(request);
  if (const std::string tokens = request.text("tokens"); !tokens.empty()) {
    LoadOptions more;
    more.set = {{"job.tokens", tokens}};
    document.set(more);
  }
  TrainOptions options;
  options.replicas = request.count("replicas", 1).value_or(0);
  if (options.replicas > kMostReplicas)
    request_error("E004", "'replicas' of the request are too many",
                  "at most " + std::to_string(kMostReplicas));
  options.seed = static_cast<uint64_t>(request.count("seed", 0).value_or(0));
  options.days = request.above_zero("days");
  options.gpus = request.counts("gpus", 1);
  request.check_all_read();
  const auto run = std::make_shared<const TrainingResult>(stepcast::train(document, options));
  stepcast_answer answer;
  answer.bytes = training_json(*run, STEPCAST_VERSION);
  answer.forms.emplace_back("text", [run](Request& r) {
    r.check_all_read();
    return training_text(*run);
  });
  answer.forms.emplace_back(
      "html", [run, given = std::make_shared<const ScenarioDocument>(document)](Request& r) {
        r.check_all_read();
        const Scenario scenario = given->resolve();
        PageFacts facts;
        facts.version = STEPCAST_VERSION;
        facts.description = scenario.description;
        facts.model = model_facts_of({&scenario, 1});
        facts.settings = setting_lines_of(scenario);
        std::string bytes;
        write_train_page(*run, facts, [&](std::string_view piece) { bytes += piece; });
        return bytes;
      });
  return answer;
}

}  // namespace stepcast::capi
