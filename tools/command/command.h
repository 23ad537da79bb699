// SPDX-License-Identifier: Apache-2.0
// What the commands of `stepcast` share: the parsed command line, exit statuses, and their list.
//
// A command writes its answer to standard output and everything else to standard error, throws
// InputError for whatever the user can mend, and returns the exit status:
//   0 ok   1 internal error   2 usage or scenario   3 out of memory with --fail-on-oom
//   4 the schedule deadlocks   6 check: outside the tolerance   7 input or output
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/format.h"
#include "scenarios/scenario.h"
#include "scenarios/scenario_document.h"
#include "schedules/schedule.h"
#include "sim/results/result.h"

namespace CLI {
class App;
}

namespace stepcast::cli {

// stepcast schedule
struct ScheduleArguments {
  std::optional<int64_t> pp, vpp, microbatches;
  std::vector<std::string> params;       // KEY=VALUE
  std::string costs, stages, straggler;  // stages: file
  P2pStyle p2p = P2pStyle::async;
  enum class Format : uint8_t { compute, compute_comms } format = Format::compute;  // export
  std::optional<int64_t> columns;                                                   // show
  std::optional<int64_t> memory_limit, effort;                                      // synth
  enum class Placement : uint8_t { loop, v } placement = Placement::loop;           // synth
};

// stepcast calibrate
struct CalibrateArguments {
  std::string plan;  // file
  bool accept_edits = false, csv = false;
  std::string budget, grid, families, device;  // run
  bool list = false;
};

// What files of measurements may leave open: `calibrate fit`, `import`.
struct MeasuredArguments {
  std::string collective, dtype;
  std::optional<int64_t> ranks, nodes, ranks_per_node;
  std::optional<Bandwidth> nic, nvlink;
  std::optional<bool> nvls, sharp, one_process;
  std::string network, inside;
};

// stepcast train
struct TrainArguments {
  std::string tokens;  // as --set takes it
  std::optional<double> days;
  std::vector<std::string> gpus;
  std::optional<int64_t> replicas, seed;
};

enum class ColorChoice : uint8_t { automatic, always, never };
enum class ProgressStyle : uint8_t { automatic, plain, none };

// The command line: what was typed, with numbers and words read and checked.  Empty means not
// given.
struct Arguments {
  // Several commands have these.
  std::vector<std::string> files;    // "-" = standard input
  std::string file;                  // of a command that takes one thing: a file, a name, "-"
  std::string kind;                  // of it, or of presets
  std::vector<std::string> given{};  // what a script that is imported is started with
  std::vector<std::string> set;      // path=value
  std::string root;                  // directory
  std::string gpu, preset, model;    // model: a config.json
  std::string output, svg;           // files to write
  bool force = false;                // ... over those that exist
  bool fail_on_oom = false;
  bool json = false;
  bool quiet = false;
  // Files whose import has been told of: some commands read their file more than once.
  mutable std::set<std::string> told{};
  ColorChoice color = ColorChoice::automatic;

  // run
  std::string trace;  // file
  std::string html;   // file
  std::string trace_ranks = "all";
  std::string ranks;     // "all": each simulated by itself; "0,40-47": for the trace
  bool what_if = false;  // every one, however long it takes
  bool energy = false;
  ProgressStyle progress = ProgressStyle::automatic;
  // check
  std::optional<double> tolerance;
  std::string log;  // of the run that the scenario describes
  // compare
  std::vector<std::string> schedules;
  // explain
  bool memory = false, bubble = false, critical_path = false, costs = false, links = false;
  bool stages = false, in_situ = false;
  std::string price;  // a work
  // presets
  std::string show;
  // size
  std::optional<double> tokens, mfu;
  bool no_search = false;
  // search
  std::vector<std::string> where, objectives, with_schedules;
  std::string gpus;
  std::optional<int64_t> top, jobs, next;
  std::optional<Time> budget;
  bool csv = false;
  // sweep, search, top, merge
  std::string store, shard, slurm;
  std::vector<std::string> words;  // of the whole command line
  std::vector<std::string> axes;
  bool zip = false, json_lines = false, pareto = false;
  std::optional<double> memory_margin, gpu_price;  // gpu_price: USD for a GPU and hour
  // help
  std::vector<std::string> topic;  // one word, or a command of two

  ScheduleArguments schedule;
  CalibrateArguments calibrate;
  MeasuredArguments measured;
  TrainArguments train;
};

// Where the output goes, as far as its looks depend on it.
struct Terminal {
  TextStyle out, err;
  bool interactive = false;  // standard output is a terminal
  int columns = 80;          // of standard output, for what is drawn
};

constexpr int kExitInternal = 1;
constexpr int kExitUsage = 2;
constexpr int kExitOutOfMemory = 3;
constexpr int kExitOutsideTolerance = 6;
constexpr int kExitIo = 7;

using Command = std::function<int(const Arguments&, const Terminal&)>;

// Each adds the command of its name, with options and subcommands, to the command line.  When the
// line is parsed, its values are stored in `args`, and the command that it names in `chosen`.
void add_run(CLI::App& app, Arguments& args, Command& chosen);
void add_validate(CLI::App& app, Arguments& args, Command& chosen);
void add_explain(CLI::App& app, Arguments& args, Command& chosen);
void add_compare(CLI::App& app, Arguments& args, Command& chosen);
void add_check(CLI::App& app, Arguments& args, Command& chosen);
void add_size(CLI::App& app, Arguments& args, Command& chosen);
void add_train(CLI::App& app, Arguments& args, Command& chosen);
void add_search(CLI::App& app, Arguments& args, Command& chosen);
void add_sweep(CLI::App& app, Arguments& args, Command& chosen);
void add_top(CLI::App& app, Arguments& args, Command& chosen);
void add_merge(CLI::App& app, Arguments& args, Command& chosen);
void add_report(CLI::App& app, Arguments& args, Command& chosen);
void add_schedule(CLI::App& app, Arguments& args, Command& chosen);
void add_topology(CLI::App& app, Arguments& args, Command& chosen);
void add_calibrate(CLI::App& app, Arguments& args, Command& chosen);
void add_import(CLI::App& app, Arguments& args, Command& chosen);
void add_export(CLI::App& app, Arguments& args, Command& chosen);
void add_presets(CLI::App& app, Arguments& args, Command& chosen);
void add_schema(CLI::App& app, Arguments& args, Command& chosen);
void add_help(CLI::App& app, Arguments& args, Command& chosen);

// --- shared by several commands ---

std::string_view version();  // "0.2.0"

// The words by which a command reads the scenario as it was read: "my.yaml -s parallel.tp=4".
std::string scenario_words(const std::string& file, const Arguments& args);

// The --set options as pairs.  Throws InputError E004 for one without '='.
std::vector<std::pair<std::string, std::string>> parse_sets(std::span<const std::string> sets);

// `file` as it is written, standard input for "-", with what --set says.  A file of another tool is
// imported, which is said on standard error once (scenario_input.cc).
ScenarioDocument read_scenario(const std::string& file, const Arguments& args);

// Loads `file`, standard input for "-".  `extra` is applied after --set, then what the case of that
// name changes.
Scenario load(const std::string& file, const Arguments& args,
              std::span<const std::pair<std::string, std::string>> extra = {},
              const std::string& compare_case = {});

// What a file is called in messages: itself, <stdin> for "-".
std::string shown_name(const std::string& file);

// Throws an InputError of one diagnostic without a place.
[[noreturn]] void usage_error(std::string code, std::string message, std::string help = {});
// What --energy asks for is not known: E126.
[[noreturn]] void refuse_energy(const Gpu& gpu);

}  // namespace stepcast::cli
