// SPDX-License-Identifier: Apache-2.0
// The file is the committed template (report/page/page.html) with its marks replaced; the script
// and the style sheet in it are as they were built, so that the hashes of its policy hold.
#include "report/html/page.h"

#include <embedded/page_files.h>
#include <fmt/format.h>

#include <array>

#include "report/html/compress.h"
#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/html/points_data.h"
#include "report/html/step_data.h"
#include "report/svg/canvas.h"
#include "report/text/run.h"
#include "report/text/size.h"
#include "report/text/train.h"
#include "sim/check.h"
#include "sim/results/step_ranking.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// The template up to each of its marks, then what follows the last.
std::array<std::string_view, 4> template_parts() {
  static constexpr std::array<std::string_view, 3> kMarks{"<!--title-->", "<!--body-->",
                                                          "<!--data-->"};
  STEPCAST_CHECK(page_files().size() == 1, "the page is one file");
  std::string_view rest = page_files().front().second;
  std::array<std::string_view, 4> parts;
  for (size_t i = 0; i < kMarks.size(); ++i) {
    const size_t at = rest.find(kMarks[i]);
    STEPCAST_CHECK(at != std::string_view::npos, "the template has all marks");
    parts[i] = rest.substr(0, at);
    rest.remove_prefix(at + kMarks[i].size());
  }
  parts.back() = rest;
  return parts;
}

// The model's line of a header, below what is said of the run.
std::string model_line(const PageFacts& facts) {
  return facts.model.empty() ? std::string() : '\n' + html_text(facts.model);
}

std::string header_of(const ScenarioSummary& s, const PageFacts& facts) {
  ScenarioSummary nameless = s;  // the name is the title above it
  nameless.name.clear();
  TextStyle wide;
  wide.width = 1000;
  return "<header><h1>" + html_text(s.name) + "</h1>\n<p class=\"headline\">" +
         xml_text(trim(headline(nameless, wide))) + model_line(facts) + "</p></header>\n";
}

}  // namespace

void write_run_page(const Result& r, const PageFacts& facts, const PageSink& sink) {
  const auto parts = template_parts();
  sink(parts[0]);
  sink(html_text(r.scenario.name));
  sink(parts[1]);
  sink(header_of(r.scenario, facts));
  sink("<main>\n");
  sink(verdict_panel(r, facts));
  sink(account_panel(r));
  sink(timeline_panel(r));
  sink(memory_panel(r));
  sink(bubble_panel(r));
  sink(communication_panel(r, facts));
  sink(cluster_panel(facts));
  sink(trust_panel(r));
  sink(scenario_panel(r, facts));
  sink("</main>\n");
  sink(parts[2]);
  sink(base64(deflated(step_data(r))));
  sink(parts[3]);
}

void write_search_page(const SearchResult& search, const StepPoints& points, const PageFacts& facts,
                       const PageSink& sink) {
  const auto parts = template_parts();
  sink(parts[0]);
  sink(html_text(search.name));
  sink(parts[1]);
  sink("<header><h1>" + html_text(search.name) + "</h1>\n<p class=\"headline\">" +
       html_text("search on " + search.gpu) + model_line(facts) + "</p></header>\n<main>\n");
  sink(search_verdict(search));
  sink(search_best_panel(search));
  sink(neighbors_panel(search));
  sink(points_panel(points));
  sink(funnel_panel(search));
  const bool forecast = !search.best.empty() && search.best.front().result;
  sink(scenario_panel(forecast ? *search.best.front().result : Result(), facts));
  sink("</main>\n");
  sink(parts[2]);
  if (!points.rows.empty()) sink(base64(deflated(points_data(points, search.run_words))));
  sink(parts[3]);
}

void write_train_page(const TrainingResult& run, const PageFacts& facts, const PageSink& sink) {
  const auto parts = template_parts();
  sink(parts[0]);
  sink(html_text(run.name));
  sink(parts[1]);
  sink("<header><h1>" + html_text(run.name) + "</h1>\n<p class=\"headline\">" +
       html_text(fmt::format("{} tokens in {} steps on {} x {}", metric(run.tokens, ""),
                             number_text(run.steps), grouped(run.gpus), run.gpu)) +
       model_line(facts) + "</p></header>\n<main>\n");
  sink(train_verdict(run));
  sink(waterfall_panel(run));
  sink(intervals_panel(run));
  sink(phases_panel(run));
  sink(train_plans_panel(run));
  sink(train_facts_panel(run));
  sink(scenario_panel(Result(), facts));
  sink("</main>\n");
  sink(parts[2]);
  sink(parts[3]);
}

void write_store_page(const StorePage& store, const PageFacts& facts, const PageSink& sink) {
  const std::string title = store.names.size() <= 3
                                ? join(store.names, ", ")
                                : fmt::format("{} scenarios", store.names.size());
  const auto parts = template_parts();
  sink(parts[0]);
  sink(html_text(title));
  sink(parts[1]);
  sink("<header><h1>" + html_text(title) + "</h1>\n<p class=\"headline\">" +
       html_text(counted(store.steps.rows, "forecast", "forecasts") + " from " +
                 counted(static_cast<int64_t>(facts.files.size()), "store", "stores")) +
       "</p></header>\n<main>\n");
  sink(store_verdict(store));
  sink(store_best_panel(store));
  sink(axes_panel(store.steps.points));
  sink(points_panel(store.steps.points));
  sink(store_funnel_panel(store));
  sink(scenario_panel(Result(), facts));
  sink("</main>\n");
  sink(parts[2]);
  if (!store.steps.points.rows.empty()) sink(base64(deflated(points_data(store.steps.points, {}))));
  sink(parts[3]);
}

void write_compare_page(std::span<const PageCase> cases, size_t baseline, const PageFacts& facts,
                        std::span<const LeftOut> left_out, const PageSink& sink) {
  STEPCAST_CHECK(!cases.empty() && cases.size() <= kMostPageCases && baseline < cases.size(),
                 "as many cases as a page takes, and the baseline among them");
  std::string names;
  for (const PageCase& c : cases) names += (names.empty() ? "" : ", ") + c.name;
  const auto parts = template_parts();
  sink(parts[0]);
  sink(html_text(names));
  sink(parts[1]);
  sink("<header><h1>" + html_text(names) + "</h1>\n<p class=\"headline\">" +
       std::to_string(cases.size()) + " cases side by side" + model_line(facts) +
       "</p></header>\n<main>\n");
  sink(cases_panel(cases, baseline, left_out));
  sink(whole_runs_panel(cases));
  sink(accounts_panel(cases));
  sink(case_waits_panel(cases));
  sink(timelines_panel(cases));
  sink(memories_panel(cases));
  sink(differences_panel(cases, facts));
  sink("</main>\n");
  sink(parts[2]);
  for (const PageCase& c : cases) sink(base64(deflated(step_data(*c.result))) + '\n');
  sink(parts[3]);
}

}  // namespace stepcast
