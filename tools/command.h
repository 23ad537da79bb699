// SPDX-License-Identifier: Apache-2.0
// What the subcommands of `stepcast` share: the parsed command line, and their entry points.
//
// A command writes its answer to standard output and everything else to standard error, throws
// InputError for whatever the user can mend, and returns the exit status:
//   0 ok   1 internal error   2 usage or scenario   3 out of memory with --fail-on-oom
//   4 the schedule deadlocks   6 check: outside the tolerance   7 input or output
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/format.h"
#include "scenarios/scenario.h"
#include "sim/result.h"

namespace stepcast::cli {

// stepcast schedule: all of it as it was typed; empty = not given.
struct ScheduleArguments {
  std::string subject;  // a family, a file, "-"
  std::string pp, vpp, microbatches;
  std::vector<std::string> params;            // KEY=VALUE
  std::string costs, stages, straggler, p2p;  // stages: file
  std::string format = "compute";
  std::string output;                                    // file
  std::string svg;                                       // show
  std::string columns;                                   // show
  std::string memory_limit, placement = "loop", effort;  // synth
};

// stepcast topology: as it was typed; empty = not given.
struct TopologyArguments {
  std::string file;  // "-" = standard input
  std::string kind, gpu, svg;
};

// stepcast import: as it was typed; empty = not given.
struct ImportArguments {
  std::string kind, file;  // file: "-" = standard input
  std::string preset, gpu, output;
  std::string model;  // a config.json
};

// stepcast size: as it was typed; empty = not given.
struct SizeArguments {
  std::string subject;  // a file, a model preset; "-" = standard input
  std::string tokens, gpu, mfu;
  bool no_search = false;
};

// stepcast calibrate: as it was typed; empty = not given.
struct CalibrateArguments {
  std::vector<std::string> inputs;  // scenarios; tables and files of other tools; "-" = stdin
  std::string output, plan, svg;    // files
  std::string kind, gpu;
  std::string collective, dtype;                                                    // of inputs
  std::string ranks, nodes, ranks_per_node, nic_bandwidth, nvlink_bandwidth, nvls;  // of inputs
  bool accept_edits = false, csv = false;
  std::string budget, grid, families, device;  // run
  bool list = false;
};

struct Arguments {
  std::vector<std::string> files;  // "-" = standard input
  std::vector<std::string> set;    // path=value
  std::string root;
  bool json = false;
  bool quiet = false;
  std::string color = "auto";

  // run
  std::string trace;  // file, or empty
  std::string trace_ranks = "all";
  bool what_if = false;           // every one, however long it takes
  std::string ranks;              // "all": each simulated by itself; "0,40-47": for the trace
  std::string progress = "auto";  // auto, plain, none
  bool force = false;
  bool fail_on_oom = false;
  // check
  std::optional<std::string> tolerance;  // as it was typed
  // compare
  std::vector<std::string> schedules;
  // explain
  bool memory = false, bubble = false, critical_path = false, costs = false, links = false;
  // presets
  std::string kind, show;
  // schedule
  ScheduleArguments schedule;
  TopologyArguments topology;
  ImportArguments import;
  SizeArguments size;
  CalibrateArguments calibrate;
  // help
  std::vector<std::string> topic;  // one word, or a command of two
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
constexpr int kExitDeadlock = 4;
constexpr int kExitOutsideTolerance = 6;
constexpr int kExitIo = 7;

std::string_view version();  // "0.1.0"

int run_command(const Arguments& args, const Terminal& terminal);
int validate_command(const Arguments& args, const Terminal& terminal);
int explain_command(const Arguments& args, const Terminal& terminal);
int compare_command(const Arguments& args, const Terminal& terminal);
int check_command(const Arguments& args, const Terminal& terminal);
int presets_command(const Arguments& args, const Terminal& terminal);
int schema_command(const Arguments& args, const Terminal& terminal);
int schedule_show_command(const Arguments& args, const Terminal& terminal);
int schedule_check_command(const Arguments& args, const Terminal& terminal);
int schedule_export_command(const Arguments& args, const Terminal& terminal);
int schedule_eval_command(const Arguments& args, const Terminal& terminal);
int schedule_synth_command(const Arguments& args, const Terminal& terminal);
int topology_show_command(const Arguments& args, const Terminal& terminal);
int help_code_command(const Arguments& args, const Terminal& terminal);

// --- shared by several commands (shared.cc) ---

// The --set options as pairs.  Throws InputError E004 for one without '='.
std::vector<std::pair<std::string, std::string>> parse_sets(std::span<const std::string> sets);

// Loads `file`, standard input for "-".  `extra` is applied after --set.
Scenario load(const std::string& file, const Arguments& args,
              std::span<const std::pair<std::string, std::string>> extra = {});

// Throws an InputError of one diagnostic without a place.
[[noreturn]] void usage_error(std::string code, std::string message, std::string help = {});

}  // namespace stepcast::cli
