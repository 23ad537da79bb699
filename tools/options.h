// SPDX-License-Identifier: Apache-2.0
// Options that several commands have, spelt and explained once, and what stands behind an option.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/document/value.h"
#include "tools/command.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stepcast::cli {

// Adds a subcommand; `chosen` becomes `function` when the command line names it.
CLI::App* add_command(CLI::App& parent, const char* name, const char* summary, Command& chosen,
                      Command function);

// --json, --color and --quiet, which every command has; they are added last.
void add_common(CLI::App* sub, Arguments& args);
// What the command is about: one of it, or as many as are named.
void add_file(CLI::App* sub, Arguments& args, const char* name, const char* summary);
CLI::Option* add_files(CLI::App* sub, Arguments& args, const char* name, const char* summary);
// --set; `example`: "parallel.tp=4".
void add_set(CLI::App* sub, Arguments& args, const std::string& example = "parallel.tp=4");
// --set and --root: how a scenario is read.
void add_scenario_options(CLI::App* sub, Arguments& args,
                          const std::string& example = "parallel.tp=4");
// One scenario: FILE and how it is read.
void add_scenario(CLI::App* sub, Arguments& args);
// Throws InputError E003 if they were given for `subject`, which is no scenario.
void refuse_scenario_options(const Arguments& args, const std::string& subject);
// --gpu: name of a preset.
void add_gpu(CLI::App* sub, Arguments& args, const char* summary);
// --svg, --output, --force: what is written, and whether over what is there.
void add_svg(CLI::App* sub, Arguments& args, const char* summary);
void add_output(CLI::App* sub, Arguments& args);
void add_force(CLI::App* sub, Arguments& args);

// A whole number not below `least`.  Throws InputError E004 that names `option`.
int64_t parse_count(std::string_view option, std::string_view text, int64_t least);

// Which of the `legal` words `word` is.  Throws InputError E004, "there is no WHAT 'WORD'", that
// lists them; `what`: "--p2p", "import of".
size_t parse_word(const std::string& what, const std::string& word,
                  std::span<const std::string_view> legal);
size_t parse_word(const std::string& what, const std::string& word,
                  std::initializer_list<std::string_view> legal);

// A quantity behind `option`, read as in a scenario: read(value, problems) is one of
// scenarios/number.h.  Throws InputError.
template <class Read>
auto parse_quantity(const std::string& option, const std::string& text, Read read) {
  Problems problems;
  const Value value = parse_yaml(problems, problems.add_source({option, text, false}));
  const auto quantity = read(value, problems);
  problems.throw_if_any();
  return *quantity;
}

}  // namespace stepcast::cli
