// SPDX-License-Identifier: Apache-2.0
// The `stepcast` command: reads the command line, calls a subcommand, turns exceptions into exit
// statuses.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <new>

#include "report/diagnostics.h"
#include "scenarios/spelling.h"
#include "tools/calibrate.h"
#include "tools/command.h"
#include "tools/export.h"
#include "tools/import.h"
#include "tools/output.h"
#include "tools/schedule_options.h"
#include "tools/size.h"
#include "tools/topology.h"

namespace stepcast::cli {
namespace {

constexpr std::string_view kFooter =
    "Exit status: 0 ok, 1 internal error, 2 usage or scenario, 3 out of memory (--fail-on-oom),\n"
    "             4 the schedule deadlocks, 6 check: outside the tolerance, 7 input or output";

void add_scenario(CLI::App* sub, Arguments& args, bool many) {
  // Several are always taken, so that one too many is explained in our words.
  sub->add_option("FILE", args.files, "scenario; - is standard input")
      ->required()
      ->option_text(many ? "..." : " ");
  sub->add_option("-s,--set", args.set, "set a value, as often as needed: -s parallel.tp=4")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  sub->add_option("--root", args.root, "directory that `extends` may not leave")
      ->option_text("DIR");
}

// Adds the subcommands; the chosen one is stored in `command`.
void define(CLI::App& app, Arguments& args, Command& command) {
  const auto add = [&](const char* name, const char* summary, Command function) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->callback([&command, function] { command = function; });
    return sub;
  };
  CLI::App* run = add("run", "Simulate a training step and print the answer", run_command);
  add_scenario(run, args, false);
  run->add_option("--trace", args.trace, "write a Perfetto trace")->option_text("FILE");
  run->add_option("--trace-ranks", args.trace_ranks,
                  "pipeline ranks in the trace: all, slowest, or numbers such as 0-2,5")
      ->option_text("RANKS");
  run->add_option("--ranks", args.ranks,
                  "all: simulate every rank by itself, otherwise equal ones once; with --trace,\n"
                  "ranks of the job for the trace such as 0,40-47, each with its own times")
      ->option_text("RANKS");
  run->add_flag("--what-if", args.what_if,
                "simulate the step with each cost removed even where many ranks differ");
  run->add_option("--progress", args.progress, "of replicas: auto, plain or none")
      ->option_text("WHEN");
  run->add_flag("--force", args.force, "overwrite existing outputs");
  run->add_flag("--fail-on-oom", args.fail_on_oom,
                "exit with 3 if the step does not fit in memory");
  add_common(run, args);

  CLI::App* validate = add("validate", "Read, resolve and check scenarios only", validate_command);
  add_scenario(validate, args, true);
  add_common(validate, args);

  CLI::App* explain = add("explain", "Show every setting and where it comes from", explain_command);
  add_scenario(explain, args, false);
  explain->add_flag("--memory", args.memory, "what fills the memory of each rank");
  explain->add_flag("--bubble", args.bubble, "why ranks wait");
  explain->add_flag("--critical-path", args.critical_path, "the longest chain of the step");
  explain->add_flag("--costs", args.costs, "every price, and how it is known");
  explain->add_flag("--links", args.links, "which groups cross which links, and how full they are");
  add_common(explain, args);

  CLI::App* compare =
      add("compare", "Put several scenarios, or the cases of one, side by side", compare_command);
  add_scenario(compare, args, true);
  compare
      ->add_option("--schedules", args.schedules,
                   "one scenario under each of these: 1f1b,interleaved,zb-v,dualpipe,auto")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("NAME,...");
  compare->add_flag("--fail-on-oom", args.fail_on_oom, "exit with 3 if a case does not fit");
  compare->footer(
      "With --schedules the first is the baseline; each runs with the scenario's parallel.vpp if\n"
      "it can, else with one or two chunks.\n\n"
      "span: the longest time that a rank works on the step, which is what the step takes without\n"
      "the optimizer's barrier.  on: the rank with the peak.  Waits are those of the critical\n"
      "rank: fill, drain, imbalance and blocked make the bubble, transfers and collectives are\n"
      "exposed communication.");
  add_common(compare, args);

  CLI::App* check =
      add("check", "Put predicted figures beside the measured ones of scenarios", check_command);
  add_scenario(check, args, true);
  check->add_option("--preset", args.import.preset, "cluster preset, for logs")
      ->option_text("NAME");
  check
      ->add_option_function<std::string>(
          "--tolerance", [&args](const std::string& share) { args.tolerance = share; },
          "largest error, 10% or 0.1, for all files; else what each says, or 10 %")
      ->option_text("SHARE");
  check->footer(
      "Scenarios say what was measured under measured:.  A file that ends in .log is "
      "Megatron-LM's:\n"
      "its arguments and iterations are imported first.  Doubts are the works that take longest\n"
      "among those whose prices were not measured.  Files that cannot be checked are named after\n"
      "the others are.  Exit status 6: an error is larger than the tolerance.");
  add_common(check, args);

  add_size(app, args, command);
  add_schedule(app, args, command);
  add_topology(app, args, command);
  add_calibrate(app, args, command);
  add_import(app, args, command);
  add_export(app, args, command);

  CLI::App* presets = add("presets", "List what has a name already", presets_command);
  presets->add_option("KIND", args.kind, "models, gpus, clusters, software or schedules")
      ->option_text(" ");
  presets->add_option("--show", args.show, "print one of them")->option_text("NAME");
  add_common(presets, args);

  add_common(add("schema", "Print the JSON Schema of scenario files", schema_command), args);

  CLI::App* help = add("help", "Explain an error code or a command", help_code_command);
  help->add_option("TOPIC", args.topic, "E102, run, or codes for all codes")->option_text(" ");
  add_common(help, args);
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// https://no-color.org, https://bixense.com/clicolors
bool wants_color(const std::string& choice, int fd) {
  if (choice == "always") return true;
  if (choice == "never" || is_set("NO_COLOR")) return false;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::string_view(force) != "0") return true;
  const char* term = std::getenv("TERM");
  return ::isatty(fd) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

Terminal terminal_for(const std::string& color) {
  Terminal t;
  t.out.color = wants_color(color, STDOUT_FILENO);
  t.err.color = wants_color(color, STDERR_FILENO);
  struct winsize size {};
  t.interactive = ::isatty(STDOUT_FILENO) != 0;
  if (t.interactive && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    t.columns = size.ws_col;
  return t;
}

// Commands that take several files.
bool takes_many(Command command) {
  return command == validate_command || command == compare_command || command == check_command;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  const std::string_view near = closest(word, views);
  return near.empty() ? "" : "did you mean '" + std::string(near) + "'?";
}

// A first word that is no command, or a second one that is none of a command with subcommands.
void check_command_word(const CLI::App& app, std::string_view word, const std::string& path) {
  if (word.empty() || word.starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  for (const std::string& name : names)
    if (name == word) return;
  std::string help = did_you_mean(word, names);
  if (path.empty() &&
      (word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json")))
    help = "`stepcast run " + std::string(word) + "` simulates a scenario";
  if (help.empty()) help = "`stepcast" + path + " --help` lists the commands";
  usage_error(
      "E001",
      "unknown command '" + (path.empty() ? "" : path.substr(1) + ' ') + std::string(word) + "'",
      help);
}

void check_command_words(const CLI::App& app, int argc, char** argv) {
  check_command_word(app, argv[1], "");
  if (argc < 3) return;
  for (const CLI::App* sub : app.get_subcommands({}))
    if (sub->get_name() == argv[1] && !sub->get_subcommands({}).empty())
      check_command_word(*sub, argv[2], ' ' + sub->get_name());
}

// The command that the line has chosen so far, and its words: " schedule show".
const CLI::App* chosen_command(const CLI::App& app, std::string& path) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().back();
    path += ' ' + chosen->get_name();
  }
  return chosen;
}

// What CLI11 found wrong, in our words.
[[noreturn]] void rethrow(const CLI::App& app, const CLI::ParseError& e) {
  std::string name;
  const CLI::App* chosen = chosen_command(app, name);
  const std::string usage = "`stepcast" + name + " --help` shows what is legal";
  for (const std::string& word : app.remaining(true)) {
    if (word.size() < 2 || !word.starts_with('-')) continue;
    const std::vector<std::string> names = option_names(*chosen);
    const std::string option = word.substr(0, word.find('='));
    if (std::find(names.begin(), names.end(), option) != names.end())
      usage_error("E002", "'" + word + "' stands before the command",
                  "options follow it: stepcast" + name + ' ' + word);
    const std::string help = did_you_mean(option, names);
    usage_error("E002", "unknown option '" + word + "'", help.empty() ? usage : help);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !app.remaining(true).empty())
    usage_error("E003", "'" + app.remaining(true).front() + "' is one argument too many", usage);
  std::string what = e.what();
  const size_t missing = what.find(": 1 required");
  if (missing != std::string::npos) what = "'" + what.substr(0, missing) + "' needs a value";
  usage_error("E003", what, usage);
}

// `stepcast help`, `help run`, `help schedule show`; false if `topic` is no command.
bool print_help_of_command(const CLI::App& app, std::span<const std::string> topic) {
  const CLI::App* chosen = &app;
  std::string path;
  for (const std::string& word : topic) {
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : chosen->get_subcommands({}))
      if (sub->get_name() == word) next = sub;
    if (next == nullptr) return false;
    path += (path.empty() ? "stepcast" : " ") + (chosen == &app ? "" : chosen->get_name());
    chosen = next;
  }
  write_stdout(chosen == &app ? app.help() : chosen->help(path));
  return true;
}

int parse_and_run(int argc, char** argv, Arguments& args) {
  CLI::App app{"Stepcast forecasts one training step of a transformer on a GPU cluster.",
               "stepcast"};
  Command command = nullptr;
  define(app, args, command);
  app.set_version_flag("--version", "stepcast " + std::string(version()));
  app.footer(std::string(kFooter));
  app.require_subcommand(0, 1);  // `help run` names no second command
  if (argc < 2) {
    write_stderr(app.help());
    return kExitUsage;
  }
  check_command_words(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    write_stdout(chosen.empty() ? app.help() : chosen.front()->help("stepcast"));
    return 0;
  } catch (const CLI::CallForVersion&) {
    write_stdout("stepcast " + std::string(version()) + '\n');
    return 0;
  } catch (const CLI::ParseError& e) {
    rethrow(app, e);
  }
  if (command == help_code_command && print_help_of_command(app, args.topic)) return 0;
  if (args.files.size() > 1 && !takes_many(command))
    usage_error("E003", "one scenario at a time, not " + std::to_string(args.files.size()),
                "`stepcast compare` takes several");
  if (command == nullptr) {
    if (app.get_subcommands().empty())
      usage_error("E003", "no command is given", "`stepcast --help` lists them");
    write_stderr(app.get_subcommands().front()->help("stepcast"));
    return kExitUsage;
  }
  return command(args, terminal_for(args.color));
}

// Colour and form of an error that may have happened before the command line was understood.
void read_presentation(int argc, char** argv, Arguments& args) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") args.json = true;
    if (word == "--color=always" || word == "--color=never") args.color = word.substr(8);
  }
}

int report(const InputError& e, const Arguments& args) {
  if (args.json) {
    write_stdout(diagnostics_json(e.diagnostics));
    return e.exit_status;
  }
  const bool before = e.exit_status != kExitIo && !e.diagnostics.front().code.starts_with("E0");
  write_stderr(render_diagnostics(e.diagnostics, terminal_for(args.color).err,
                                  before ? "Nothing was run." : ""));
  return e.exit_status;
}

int internal_error(std::string_view what, const Arguments& args) {
  if (args.json) {
    JsonWriter json;
    json.begin_object();
    json.key("error");
    json.begin_object();
    json.member("code", "internal");
    json.member("message", what);
    json.end_object();
    json.end_object();
    write_stdout(json.text() + '\n');
  }
  write_stderr("stepcast: internal error: " + escape_text(what) + "\nThis is a bug in Stepcast " +
               std::string(version()) +
               ", not in your scenario. Please report it with this text, the command line\n"
               "and the scenario file.\n");
  return kExitInternal;
}

int guarded_main(int argc, char** argv) {
  prepare_standard_streams();
  Arguments args, shown;
  read_presentation(argc, argv, shown);
  try {
    try {
      return parse_and_run(argc, argv, args);
    } catch (const InputError& e) {
      return report(e, shown);
    } catch (const ClosedPipe&) {
      return kExitIo;
    } catch (const std::bad_alloc&) {
      write_stderr("stepcast: this machine has not enough memory for the scenario\n");
      return kExitInternal;
    } catch (const std::exception& e) {
      return internal_error(e.what(), shown);
    }
  } catch (...) {  // standard output is gone while an error is printed there
    return kExitIo;
  }
}

}  // namespace
}  // namespace stepcast::cli

int main(int argc, char** argv) {
  return stepcast::cli::guarded_main(argc, argv);
}
