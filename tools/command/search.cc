// SPDX-License-Identifier: Apache-2.0
// stepcast search FILE: the best layouts of a model on a cluster.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/text/search.h"
#include "scenarios/document/number.h"
#include "scenarios/search/nearest.h"
#include "scenarios/search/search.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/page.h"
#include "tools/command/search_advice.h"
#include "tools/command/search_folder.h"
#include "tools/command/store/session.h"

namespace stepcast::cli {
namespace {

// "64", or "64..1024".
void read_gpus(const std::string& text, SearchOptions& options) {
  if (text.empty()) return;
  const std::vector<int64_t> all = parse_gpus(text);
  options.fewest_gpus = all.front();
  options.most_gpus = all.back();
}

// What the options say of the section, as --set would.
std::vector<std::pair<std::string, std::string>> sets_of_options(const Arguments& args) {
  std::vector<std::pair<std::string, std::string>> set;
  const auto list = [](const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& w : words) text += (text.empty() ? "[" : ", ") + w;
    return text + ']';
  };
  if (!args.objectives.empty()) set.emplace_back("search.objective", list(args.objectives));
  if (!args.with_schedules.empty()) set.emplace_back("search.schedules", list(args.with_schedules));
  if (args.top) set.emplace_back("search.top", fmt::to_string(*args.top));
  return set;
}

// What `stepcast run` is told to read the same file.
std::vector<std::string> run_words(const Arguments& args) {
  std::vector<std::string> words;
  if (!args.root.empty()) words = {"--root", args.root};
  words.push_back(args.file);
  words.insert(words.end(), args.given.begin(), args.given.end());
  return words;
}

// Which search is about the same: of the file, with what was set beside it.
std::string search_line(const std::string& file, const Arguments& args) {
  return "`stepcast search " + scenario_words(file, args) + '`';
}

// With the scenario of the best layout.
void write_page_of(SearchAnswer& answer, const Arguments& args) {
  answer.points.keep_first(kMostPagePoints);
  if (answer.documents.empty()) {
    write_search_page(answer.result, answer.points, nullptr, args);
    return;
  }
  const auto best = answer.documents.front().try_resolve();
  write_search_page(answer.result, answer.points, std::get_if<Scenario>(&best), args);
}

int search_command(const Arguments& args, const Terminal& terminal) {
  using Clock = std::chrono::steady_clock;
  check_page_options(args);
  const Clock::time_point begin = Clock::now();
  ScenarioDocument document = read_scenario(args.file, args);
  LoadOptions of_options;
  of_options.set = sets_of_options(args);
  document.set(of_options);
  SearchOptions options;
  options.where = args.where;
  options.given = parse_sets(args.set);
  read_gpus(args.gpus, options);
  SearchRun run;
  run.next = args.next.value_or(0);
  run.jobs = jobs_of(args);
  run.shard = shard_of(args);
  // Before anybody waits for it in a queue, and before there is a file.
  if (!args.slurm.empty() || !args.store.empty()) const SearchSpace checked(document, options);
  if (wrote_batch_script(args)) return 0;
  // Before the search: what cannot be written is said at once.
  std::optional<SearchFolder> folder;
  if (!args.output.empty()) folder.emplace(args.output, args.force);
  std::optional<NotedSignals> noted(std::in_place, !args.store.empty());
  std::optional<StoreSession> store;
  if (!args.store.empty()) store.emplace(args, "search", run.shard);
  if (store) run.remember = store->remember();
  if (store) run.remember_energy = store->remember_energy();
  run.points = !args.html.empty();
  int64_t decided = 0, layouts = 0;
  std::optional<SearchAnswer> found = [&]() -> std::optional<SearchAnswer> {
    ProgressLine line(args.quiet ? ProgressStyle::none : args.progress, "layouts");
    ProgressLine bounds(args.quiet ? ProgressStyle::none : args.progress, "classes with bounds");
    run.progress_of_bounds = [&](int64_t done, int64_t total) { bounds.show(done, total); };
    run.progress = [&](int64_t done, int64_t total) { line.show(decided = done, layouts = total); };
    run.stop = [&](std::optional<Time> budget) {
      if (was_interrupted()) return true;
      if (store) store->throw_if_terminated();
      if (args.budget) budget = args.budget;
      return budget &&
             std::chrono::duration<double>(Clock::now() - begin).count() > to_seconds(*budget);
    };
    try {
      SearchAnswer all = search_layouts(document, options, run);
      if (store) store->close();
      return all;
    } catch (const Terminated&) {
      store->end_early(decided, layouts, "layouts");
      return {};
    }
  }();
  noted.reset();
  if (!found) return kExitTerminated;
  SearchAnswer& answer = *found;
  answer.result.run_words = run_words(args);
  TextStyle style = terminal.out;
  style.width = std::max(style.width, terminal.columns);
  if (args.json)
    write_stdout(search_json(answer.result, version()));
  else if (args.csv)
    write_stdout(search_csv(answer.result));
  else
    write_stdout(search_text(answer.result, style));
  if (folder) folder->write(answer, search_line(args.file, args));
  if (!args.html.empty()) write_page_of(answer, args);
  if (was_interrupted()) return kExitInterrupted;
  return args.fail_on_oom && answer.result.best.empty() ? kExitOutOfMemory : 0;
}

}  // namespace

std::string search_advice(const std::string& file, const Arguments& args, bool fits, int64_t gpus,
                          bool trains) {
  if (!trains) return {};
  const std::string command = search_line(file, args);
  const ScenarioDocument document = read_scenario(file, args);
  if (fits && gpus > 1 && document.tree().find("parallel") == nullptr)
    return "no layout is stated, so that every GPU is a replica: " + command + " finds the fastest";
  if (fits) return {};
  const std::optional<FoundLayout> layout = simple_layout_that_fits(document);
  return layout ? command + " finds layouts that fit, such as " + layout_text(*layout)
                : command + " looks for layouts that fit; no simple one does";
}

Scenario load_or_advise(const std::string& file, const Arguments& args) {
  try {
    return load(file, args);
  } catch (const InputError& e) {
    std::vector<Diagnostic> all = e.diagnostics;
    const auto is_of_layouts = [](const Diagnostic& d) { return d.code.starts_with("E2"); };
    if (!std::ranges::all_of(all, is_of_layouts)) throw;
    const ScenarioDocument document = read_scenario(file, args);
    if (document.tree().find("parallel") != nullptr || !all.back().note.empty()) throw;
    const std::optional<FoundLayout> layout = simple_layout_that_fits(document);
    all.back().note =
        "no layout is stated, so that every GPU is a replica: " + search_line(file, args) +
        " finds the fastest" + (layout ? "; one that fits is " + layout_text(*layout) : "");
    throw InputError(std::move(all));
  }
}

void add_search(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "search", "Find the best layouts of a model on a cluster",
                              chosen, search_command);
  sub->footer(
      "FILE names a model, a cluster and a batch; its layout is not used. Tried are all layouts\n"
      "that the software can run, in its section search what it lists (docs/search.md). The\n"
      "fastest that fit are printed with what each costs, and how to run the first.\n\n"
      "  stepcast search run.yaml --gpus 64..512 --objective price --where 'tp <= 8' -o best/");
  add_scenario(sub, args);
  sub->add_option("--where", args.where, "a condition on layouts: 'tp * cp <= 16'; may be repeated")
      ->option_text("TEXT");
  sub->add_option("--objective", args.objectives,
                  "step_time (the default), tokens_per_gpu_s, peak_memory, days, price, energy;\n"
                  "several, with commas between them, ask for the Pareto front")
      ->delimiter(',')
      ->option_text("NAME");
  sub->add_option("--schedules", args.with_schedules,
                  "orders of the pipeline, with commas between them, instead of the software's")
      ->delimiter(',')
      ->option_text("NAMES");
  sub->add_option("--gpus", args.gpus, "how many: 256, or 64..1024, doubled each time")
      ->option_text("N");
  add_count(sub, "--top", args.top, 1, "how many layouts to show; default 10");
  add_count(sub, "--next", args.next, 1,
            "also name so many layouts that are worth measuring: fast, unlike each other");
  add_many_steps(sub, args);
  add_quantity(
      sub, "--budget", args.budget,
      [](const Value& v, std::string_view what, Problems& problems) {
        return read_time(v, what, problems, true);
      },
      "stop after so long with what has been found: 60s", "TIME");
  sub->add_flag("--csv", args.csv, "the table as CSV");
  sub->add_option("-o,--out", args.output,
                  "also write into this folder: the best layouts as scenarios, as arguments of\n"
                  "Megatron-LM, torchtitan's TOML and NeMo's overrides where these have them;\n"
                  "results.csv, funnel.json")
      ->option_text("DIR");
  add_choice(sub, "--progress", {"auto", "plain", "none"}, args.progress,
             "on standard error: auto (the default: a bar on a terminal, else a line every 30\n"
             "seconds), plain (lines), none",
             "WHEN");
  add_html(sub, args);
  add_force(sub, args);
  sub->add_flag("--fail-on-oom", args.fail_on_oom, "exit with 3 if no layout fits");
  add_common(sub, args);
}

}  // namespace stepcast::cli
