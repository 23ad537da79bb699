// SPDX-License-Identifier: Apache-2.0
// Options that several commands have, spelt and explained once, and how the values of options are
// read.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "tools/command/command.h"

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
// --svg, --html, --output, --force: what is written, and whether over what is there.
void add_svg(CLI::App* sub, Arguments& args, const char* summary);
void add_html(CLI::App* sub, Arguments& args);
void add_output(CLI::App* sub, Arguments& args);
void add_force(CLI::App* sub, Arguments& args);

// An option whose value is a whole number not below `least`; anything else is E004.
CLI::Option* add_count(CLI::App* sub, const char* names, std::optional<int64_t>& value,
                       int64_t least, const char* summary);

// -j: threads.
void add_jobs(CLI::App* sub, Arguments& args);
// What it says; without it one for each core.
int jobs_of(const Arguments& args);

// An option whose value is one of `words`; anything else is E004.
void add_word(CLI::App* sub, const char* names, std::vector<std::string_view> words,
              std::function<void(size_t)> take, const char* summary, const char* shown);
// `value` becomes the enumerator in the place that the word has among `words`.
template <class Enum>
void add_choice(CLI::App* sub, const char* names, std::vector<std::string_view> words, Enum& value,
                const char* summary, const char* shown) {
  add_word(
      sub, names, std::move(words), [&value](size_t i) { value = static_cast<Enum>(i); }, summary,
      shown);
}

// An option whose value is a quantity, read as in a scenario: read(value, what, problems) is one of
// scenarios/document/number.h, whose errors it has.
template <class Quantity, class Read>
void add_quantity(CLI::App* sub, const char* name, std::optional<Quantity>& value, Read read,
                  const char* summary, const char* shown);

// A whole number not below `least`.  Throws InputError E004 that names `option`.
int64_t parse_count(std::string_view option, std::string_view text, int64_t least);

// "64" is that number; "64..1024" are 64, 128, ... up to the second.  At least one, ascending.
// Throws InputError E004.
std::vector<int64_t> parse_gpus(const std::string& text);

// Which of the `legal` words `word` is.  Throws InputError E004, "there is no WHAT 'WORD'", that
// lists them; `what`: "--p2p", "import of".
size_t parse_word(const std::string& what, const std::string& word,
                  std::span<const std::string_view> legal);
size_t parse_word(const std::string& what, const std::string& word,
                  std::initializer_list<std::string_view> legal);

// The option behind add_quantity(): `take` gets the text.
void add_text(CLI::App* sub, const char* name, std::function<void(const std::string&)> take,
              const char* summary, const char* shown);

template <class Quantity, class Read>
void add_quantity(CLI::App* sub, const char* name, std::optional<Quantity>& value, Read read,
                  const char* summary, const char* shown) {
  const auto take = [&value, read, name](const std::string& text) {
    Problems problems;
    const Value written = parse_yaml(problems, problems.add_source({name, text}));
    const auto quantity = read(written, name, problems);
    problems.throw_if_any();
    value = static_cast<Quantity>(*quantity);
  };
  add_text(sub, name, take, summary, shown);
}

}  // namespace stepcast::cli
