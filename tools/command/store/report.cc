// SPDX-License-Identifier: Apache-2.0
// stepcast report DIR|FILE... -o FILE.html: what stores hold, to look at.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <set>

#include "report/html/page.h"
#include "scenarios/search/step_store.h"
#include "sim/results/step_ranking.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/page.h"
#include "tools/command/store/ranking.h"

namespace stepcast::cli {
namespace {

// All are in memory at once.
constexpr size_t kMostRows = 1'000'000;

int report_command(const Arguments& args, const Terminal&) {
  if (args.output.empty() || args.output == "-")
    usage_error("E003", "report needs -o FILE", "for example: -o runs.html");
  const std::vector<std::string> files = all_files(args);
  refuse_overwriting(files, args);
  refuse_existing(args.output, args.force);
  StorePage page;
  page.ranking = ranking_of(args);
  std::vector<StepRow> rows;
  for (const std::string& file : files)
    read_steps(file, [&](StepRow row) {
      if (rows.size() == kMostRows)
        usage_error(
            "E004",
            "the stores have more than " + grouped(kMostRows) + " rows, which no page shows",
            "name fewer of them; `stepcast top` ranks any number");
      rows.push_back(std::move(row));
    });
  std::set<std::string> names;
  for (const StepRow& row : rows) names.insert(row.name);
  page.names.assign(names.begin(), names.end());
  page.best = rank_steps(rows, page.ranking);
  if (page.best.empty()) require_figures(rows, page.ranking);
  page.steps = stored_steps(std::move(rows), page.ranking);
  page.steps.points.keep_first(kMostPagePoints);
  write_store_page(page, files, args);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "report", "Make a page of stores, to look at", chosen, report_command);
  sub->footer(
      "Stores are what `stepcast search` and `sweep` keep with --store (docs/store.md). Any "
      "browser\n"
      "opens the page offline (docs/report.md). `stepcast run`, `compare` and `search` write "
      "theirs\n"
      "with --html.\n\n"
      "  stepcast report runs/ -o runs.html");
  add_files(sub, args, "STORE", "folders of stores, or files");
  sub->add_option("-o,--output", args.output, "the page to write")->option_text("FILE");
  add_ranking(sub, args);
  add_force(sub, args);
  add_common(sub, args);
}

}  // namespace stepcast::cli
