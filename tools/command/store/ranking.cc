// SPDX-License-Identifier: Apache-2.0
#include "tools/command/store/ranking.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <utility>

#include <fmt/format.h>

#include "scenarios/document/number.h"
#include "scenarios/search/step_store.h"
#include "sim/results/step_ranking.h"
#include "tools/command/options.h"

namespace stepcast::cli {

std::vector<std::string> all_files(const Arguments& args) {
  std::vector<std::string> files;
  for (const std::string& name : args.files)
    for (std::string& file : store_files(name)) files.push_back(std::move(file));
  return files;
}

StepRanking ranking_of(const Arguments& args) {
  StepRanking ranking;
  if (!args.objectives.empty()) ranking.by.clear();
  for (const std::string& word : args.objectives) {
    std::vector<std::string_view> names;
    for (int i = 0; i < kSearchObjectives; ++i)
      names.push_back(name_of(static_cast<SearchObjective>(i)));
    ranking.by.push_back(static_cast<SearchObjective>(parse_word("--by", word, names)));
  }
  ranking.pareto = args.pareto;
  ranking.top = static_cast<size_t>(args.top.value_or(10));
  ranking.memory_margin = args.memory_margin.value_or(ranking.memory_margin);
  if (args.tokens) ranking.tokens = static_cast<int64_t>(*args.tokens);
  ranking.price = args.gpu_price;
  return ranking;
}

void require_figures(const std::vector<StepRow>& rows, const StepRanking& ranking) {
  const auto ranked = [&](SearchObjective by) {
    StepRanking alone = ranking;
    alone.by = {by};
    return !rank_steps(rows, alone).empty();
  };
  if (!ranked(SearchObjective::step_time)) return;  // nothing fits
  for (const SearchObjective by : ranking.by)
    if (!ranked(by))
      usage_error("E004", fmt::format("no row has what --by {} asks for", name_of(by)),
                  by == SearchObjective::energy
                      ? "`stepcast sweep --energy` and searches that ask for energy keep it"
                      : "--tokens 15T and --price 2USD/GPUh say what the rows do not");
}

void add_ranking(CLI::App* sub, Arguments& args) {
  sub->add_option(
         "--by", args.objectives,
         "step_time (the default), tokens_per_gpu_s, peak_memory, days, price, energy; of\n"
         "several the first counts most")
      ->delimiter(',')
      ->option_text("NAMES");
  sub->add_flag("--pareto", args.pareto,
                "the rows than which none is better in one of --by and no worse in all");
  add_count(sub, "-n,--top", args.top, 1, "how many rows; default 10");
  add_quantity(
      sub, "--memory-margin", args.memory_margin,
      [](const Value& v, std::string_view what, Problems& problems) {
        return read_share(v, what, problems);
      },
      "of the usable memory that stays free; default 5%", "SHARE");
  add_quantity(
      sub, "--tokens", args.tokens,
      [](const Value& v, std::string_view what, Problems& problems) {
        return read_tokens(v, what, problems);
      },
      "that the whole job trains on, instead of what rows say: 15T", "N");
  add_quantity(
      sub, "--price", args.gpu_price,
      [](const Value& v, std::string_view, Problems& problems) { return read_price(v, problems); },
      "of a GPU, instead of what rows say: 2.5USD/GPUh", "PRICE");
}

}  // namespace stepcast::cli
