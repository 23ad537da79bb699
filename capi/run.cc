// SPDX-License-Identifier: Apache-2.0
// load and run.
#include <memory>
#include <utility>

#include "capi/answer.h"
#include "report/html/page.h"
#include "report/json/ops.h"
#include "report/json/result.h"
#include "report/text/run.h"
#include "report/trace/perfetto.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"
#include "stepcast/page_facts.h"

namespace stepcast::capi {
namespace {

// The scenario with all that it needs to be forecast again: what people look at is made when they
// ask for it, and costs others nothing.
struct RunAnswer {
  Scenario scenario;
  ForecastOptions options;

  Result traced() const {
    ForecastOptions with_trace = options;
    with_trace.trace = true;
    with_trace.what_if = false;
    return forecast(scenario, with_trace);
  }
};

std::string perfetto_of(const RunAnswer& run) {
  std::string bytes;
  write_perfetto(run.traced(), {}, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

std::string page_of(const RunAnswer& run) {
  ForecastOptions with_trace = run.options;
  with_trace.trace = true;
  std::string bytes;
  const Result result = forecast(run.scenario, with_trace);
  write_run_page(result, page_facts_of(result, run.scenario, STEPCAST_VERSION, ""),
                 [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

template <class Make>
Render of_run(const std::shared_ptr<const RunAnswer>& run, Make make) {
  return [run, make](Request& request) {
    request.check_all_read();
    return make(*run);
  };
}

}  // namespace

stepcast_answer load(Request& request) {
  const ScenarioDocument document = read_scenario(request);
  request.check_all_read();
  const Scenario scenario = document.resolve();
  stepcast_answer answer;
  answer.bytes = json_document([&](JsonWriter& json) {
    json.member("version", STEPCAST_VERSION);
    json.member("name", scenario.name);
    json.member("hash", scenario.hash);
    json.objects("settings", scenario.settings, [&](const Setting& s) {
      json.member("path", s.path);
      json.member("value", s.value);
      json.member("origin", s.origin);
    });
    json.values("warnings", scenario.warnings);
  });
  return answer;
}

stepcast_answer run(Request& request, Reporter& reporter) {
  ScenarioDocument document = read_scenario(request);
  ForecastOptions options;
  const std::string ranks = request.text("ranks");
  if (!ranks.empty() && ranks != "all")
    request_error("E004", "'" + ranks + "' in 'ranks' of the request", "legal: all");
  options.all_ranks = ranks == "all";
  options.every_what_if = request.flag("what_if", false);
  options.jobs = jobs_of(request);
  request.check_all_read();
  const auto made =
      std::make_shared<RunAnswer>(RunAnswer{std::move(document).resolve(), std::move(options)});
  ForecastOptions with_progress = made->options;
  with_progress.progress = [&](int64_t done, int64_t total) { reporter.show(done, total); };
  const Result result = forecast(made->scenario, with_progress);
  stepcast_answer answer;
  answer.bytes = run_json(result, STEPCAST_VERSION);
  answer.forms.emplace_back("text", [text = text_report(result)](Request& r) {
    r.check_all_read();
    return text;
  });
  answer.forms.emplace_back("perfetto", of_run(made, perfetto_of));
  answer.forms.emplace_back("html", of_run(made, page_of));
  answer.forms.emplace_back(
      "ops", of_run(made, [](const RunAnswer& run) { return ops_json(run.traced()); }));
  return answer;
}

}  // namespace stepcast::capi
