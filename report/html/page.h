// SPDX-License-Identifier: Apache-2.0
// A report as one HTML file to look at, to mail and to attach: it opens offline and asks nobody for
// anything.
//
// Tables and a static picture of the timeline are in its text, and are there without JavaScript and
// on paper; its script (report/page/) draws what moves out of the numbers that come along
// (step_data.h).  A content security policy allows that script and that style sheet by their hashes
// and nothing else.  Names that files brought along are text wherever they stand.
//
// Equal results are equal bytes, for one version of zlib.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/text/compare.h"
#include "report/text/explain.h"
#include "sim/results/link_loads.h"
#include "sim/results/result.h"
#include "sim/results/search_result.h"
#include "sim/results/step_ranking.h"
#include "sim/results/step_row.h"
#include "sim/results/training_result.h"
#include "sim/units.h"

namespace stepcast {

// What was published or measured of the scenario itself.
struct PublishedFigures {
  std::optional<double> step_time_s, tokens_per_gpu_s;
  std::optional<Bytes> peak_memory;
  double tolerance = 0.1;  // share
  std::string source;
};

// What a report says besides its result.
struct PageFacts {
  std::string version;      // of the command
  std::string command;      // that makes it again; empty: none
  std::string description;  // the scenario's own
  std::string model;        // "llama3-8b, 8.030 B parameters"; several with "; " between them
  std::vector<SettingLine> settings;
  std::vector<PublishedFigures> published;
  std::string settings_of;  // whose settings these are, if not the page's: " of the best layout"
  std::string cluster_svg;  // a whole document (report/svg/topology.h); empty: no picture
  std::optional<LinkLoads> links;
  std::vector<std::string> files;  // stores that were read
};

// What stores hold, as `stepcast report` shows it.
struct StorePage {
  StoredSteps steps;
  StepRanking ranking;             // `top`: lines of the table
  std::vector<StepRow> best;       // rank_steps() of the same rows
  std::vector<std::string> names;  // of the scenarios
};

// Points that one page takes; the best are shown.
constexpr size_t kMostPagePoints = 100'000;

// A result beside others.  Both are needed while the page is written.
struct PageCase {
  std::string name;
  const Result* result = nullptr;
  std::vector<SettingLine> settings;
  std::vector<PublishedFigures> published;
  std::optional<TrainingPlan> whole_run{};  // of which it is a step, if that is known
};

// Timelines that a browser draws above each other without trouble.
constexpr size_t kMostPageCases = 8;

// Called with pieces of the file, in order.
using PageSink = std::function<void(std::string_view)>;

// REQUIRES: as step_data().  What `sink` throws passes through.
void write_run_page(const Result& result, const PageFacts& facts, const PageSink& sink);

// The same of several results side by side, on shared axes.  Of `facts` version and command are
// shown.  REQUIRES: 1 to kMostPageCases cases, each as step_data(); baseline is one of them.
void write_compare_page(std::span<const PageCase> cases, size_t baseline, const PageFacts& facts,
                        std::span<const LeftOut> left_out, const PageSink& sink);

// What a search found, and all that it simulated to the end.  Of `facts` version, command and
// settings, those of the best layout, are shown.
void write_search_page(const SearchResult& search, const StepPoints& points, const PageFacts& facts,
                       const PageSink& sink);

// A whole training run.  Of `facts` version, command, description and settings are shown.
void write_train_page(const TrainingResult& run, const PageFacts& facts, const PageSink& sink);

// Of `facts` version, command and files are shown.
void write_store_page(const StorePage& store, const PageFacts& facts, const PageSink& sink);

}  // namespace stepcast
