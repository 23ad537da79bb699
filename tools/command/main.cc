// SPDX-License-Identifier: Apache-2.0
// The `stepcast` command: reads the command line, calls a subcommand, turns exceptions into exit
// statuses.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "report/diagnostics.h"
#include "sim/text.h"
#include "tools/command/command.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

constexpr std::string_view kMainFooter =
    "`stepcast COMMAND --help` explains a command. A scenario is a YAML file that says what trains "
    "on\n"
    "what, and how (docs/scenario.md); four lines are enough, such as\n"
    "  model: llama3-8b\n"
    "  cluster: dgx-h100 x 2\n"
    "  parallel: {tp: 2, pp: 2}\n"
    "  batch: {global: 256, seq: 8192}\n\n"
    "Exit status: 0 ok, 1 internal error, 2 usage or scenario, 3 out of memory (--fail-on-oom),\n"
    "             4 the schedule deadlocks, 6 check: outside the tolerance, 7 input or output";

// As `stepcast --help` lists them.
constexpr std::array kCommands{add_run,    add_validate, add_explain,  add_compare,  add_check,
                               add_size,   add_train,    add_search,   add_sweep,    add_top,
                               add_merge,  add_report,   add_schedule, add_topology, add_calibrate,
                               add_import, add_export,   add_presets,  add_schema,   add_help};

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// https://no-color.org, https://bixense.com/clicolors
bool wants_color(ColorChoice choice, int fd) {
  if (choice == ColorChoice::always) return true;
  if (choice == ColorChoice::never || is_set("NO_COLOR")) return false;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::string_view(force) != "0") return true;
  const char* term = std::getenv("TERM");
  return ::isatty(fd) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

Terminal terminal_for(ColorChoice color) {
  Terminal t;
  t.out.color = wants_color(color, STDOUT_FILENO);
  t.err.color = wants_color(color, STDERR_FILENO);
  struct winsize size {};
  t.interactive = ::isatty(STDOUT_FILENO) != 0;
  if (t.interactive && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    t.columns = size.ws_col;
  return t;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string one_of_these(std::string_view word, std::span<const std::string> names) {
  return did_you_mean(word, std::vector<std::string_view>(names.begin(), names.end()));
}

// A first word that is no command, or a second one that is none of a command with subcommands.
void check_command_word(const CLI::App& app, std::string_view word, const std::string& path) {
  if (word.empty() || word.starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  for (const std::string& name : names)
    if (name == word) return;
  std::string help = one_of_these(word, names);
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
    const std::string help = one_of_these(option, names);
    usage_error("E002", "unknown option '" + word + "'", help.empty() ? usage : help);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !app.remaining(true).empty())
    usage_error("E003", "'" + app.remaining(true).front() + "' is one argument too many", usage);
  std::string what = e.what();
  const size_t missing = what.find(": 1 required");
  if (missing != std::string::npos) what = "'" + what.substr(0, missing) + "' needs a value";
  usage_error("E003", what, usage);
}

int parse_and_run(int argc, char** argv, Arguments& args) {
  CLI::App app{"Stepcast forecasts one training step of a transformer on a GPU cluster.",
               "stepcast"};
  Command command;
  args.words.assign(argv + 1, argv + argc);
  app.get_formatter()->label("Positionals", "Arguments");
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  for (const auto add : kCommands) add(app, args, command);
  app.set_version_flag("--version", "stepcast " + std::string(version()));
  app.footer(std::string(kMainFooter));
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
  if (!command) {
    if (app.get_subcommands().empty())
      usage_error("E003", "no command is given", "`stepcast --help` lists them");
    write_stderr(app.get_subcommands().front()->help("stepcast"));
    return kExitUsage;
  }
  refuse_overwriting(args);
  return command(args, terminal_for(args.color));
}

// Colour and form of an error that may have happened before the command line was understood.
void read_presentation(int argc, char** argv, Arguments& args) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") args.json = true;
    const bool next = word == "--color" && i + 1 < argc;
    const std::string_view color = next                           ? argv[i + 1]
                                   : word.starts_with("--color=") ? word.substr(8)
                                                                  : "";
    if (color == "always") args.color = ColorChoice::always;
    if (color == "never") args.color = ColorChoice::never;
  }
}

int report(const InputError& e, const Arguments& args) {
  const int status = exit_status_of(e.diagnostics);
  if (args.json) {
    write_stdout(diagnostics_json(e.diagnostics));
    return status;
  }
  const bool before = status != kExitIo && !e.diagnostics.front().code.starts_with("E0");
  write_stderr(render_diagnostics(e.diagnostics, terminal_for(args.color).err,
                                  before ? "Nothing was run." : ""));
  return status;
}

// What no change of the command line or the scenario mends.
int internal_error(std::string_view what, std::string_view advice, const Arguments& args) {
  if (args.json) {
    Diagnostic d;
    d.code = "internal";
    d.message = what;
    write_stdout(diagnostics_json({&d, 1}));
  }
  write_stderr("stepcast: " + escape_text(what) + '\n' + std::string(advice));
  return kExitInternal;
}

// Takes no memory, which may all be gone.
void say_out_of_memory(bool json) noexcept {
  constexpr std::string_view kText =
      "stepcast: this machine has not enough memory for the scenario\n";
  // As diagnostics_json() writes it.
  constexpr std::string_view kJson = R"({
  "error": {
    "code": "internal",
    "message": "this machine has not enough memory for the scenario"
  },
  "errors": [
    {
      "code": "internal",
      "message": "this machine has not enough memory for the scenario"
    }
  ]
}
)";
  if (json) draw_on_stdout(kJson);
  draw_on_stderr(kText);
}

std::terminate_handler end_of_library = nullptr;

// Where nobody can catch it: in what is set up before main(), in a function that must not throw.
// Without an exception there was no memory even for that.
[[noreturn]] void end_without_memory() {
  bool out_of_memory = std::current_exception() == nullptr;
  try {
    if (!out_of_memory) throw;
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
  } catch (...) {
  }
  remove_temporary_files();
  if (!out_of_memory && end_of_library != nullptr) end_of_library();  // which says what it was
  if (!out_of_memory) std::abort();
  say_out_of_memory(false);
  std::_Exit(kExitInternal);
}

// Before all that the program sets up before main(); shared libraries begin earlier.
[[gnu::constructor(101)]] void prepare_for_end() {
  end_of_library = std::set_terminate(end_without_memory);
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
      throw;
    } catch (const std::exception& e) {
      const auto* system = dynamic_cast<const std::system_error*>(&e);
      if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
        return internal_error("the system lets this user start no more threads",
                              "`ulimit -u` says how many there may be.\n", shown);
      return internal_error(std::string("internal error: ") + e.what(),
                            "This is a bug in Stepcast " STEPCAST_VERSION
                            ", not in your scenario. Please report it with this text, the command "
                            "line\nand the scenario file.\n",
                            shown);
    }
  } catch (const std::bad_alloc&) {
    say_out_of_memory(shown.json);
    return kExitInternal;
  } catch (const InputError& e) {  // standard output is gone while an error is printed there
    write_stderr(render_diagnostics(e.diagnostics, {}, ""));
    return kExitIo;
  } catch (...) {
    return kExitIo;
  }
}

}  // namespace
}  // namespace stepcast::cli

int main(int argc, char** argv) {
  return stepcast::cli::guarded_main(argc, argv);
}
