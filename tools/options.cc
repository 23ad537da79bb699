// SPDX-License-Identifier: Apache-2.0
#include "tools/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>

#include "sim/text.h"

namespace stepcast::cli {

CLI::App* add_command(CLI::App& parent, const char* name, const char* summary, Command& chosen,
                      Command function) {
  CLI::App* sub = parent.add_subcommand(name, summary);
  sub->group("Commands");
  sub->callback([&chosen, function = std::move(function)] { chosen = function; });
  return sub;
}

void add_common(CLI::App* sub, Arguments& args) {
  sub->add_flag("--json", args.json, "print JSON, errors included");
  sub->add_option("--color", args.color,
                  "colours: auto (the default: on a terminal), always, never")
      ->option_text("WHEN");
  sub->add_flag("-q,--quiet", args.quiet, "say nothing on standard error but errors");
}

void add_file(CLI::App* sub, Arguments& args, const char* name, const char* summary) {
  sub->add_option(name, args.file, summary)->required()->option_text(" ");
}

CLI::Option* add_files(CLI::App* sub, Arguments& args, const char* name, const char* summary) {
  return sub->add_option(name, args.files, summary)->required()->option_text("...");
}

void add_set(CLI::App* sub, Arguments& args, const std::string& example) {
  sub->add_option("-s,--set", args.set,
                  "set a value of the scenario, as often as needed: -s " + example)
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
}

void add_scenario_options(CLI::App* sub, Arguments& args, const std::string& example) {
  add_set(sub, args, example);
  sub->add_option("--root", args.root,
                  "folder of all files that the scenario names; by default its own")
      ->option_text("DIR");
}

void add_scenario(CLI::App* sub, Arguments& args) {
  add_file(sub, args, "FILE", "scenario, in YAML or JSON; - is standard input");
  add_scenario_options(sub, args);
}

void refuse_scenario_options(const Arguments& args, const std::string& subject) {
  if (!args.set.empty() || !args.root.empty())
    usage_error("E003", std::string(args.set.empty() ? "--root" : "--set") +
                            " is for scenarios, and '" + subject + "' is none");
}

void add_gpu(CLI::App* sub, Arguments& args, const char* summary) {
  sub->add_option("--gpu", args.gpu, summary)->option_text("NAME");
}

void add_svg(CLI::App* sub, Arguments& args, const char* summary) {
  sub->add_option("--svg", args.svg, summary)->option_text("FILE");
}

void add_output(CLI::App* sub, Arguments& args) {
  sub->add_option("-o,--output", args.output, "write to a file instead of standard output")
      ->option_text("FILE");
  add_force(sub, args);
}

void add_force(CLI::App* sub, Arguments& args) {
  sub->add_flag("--force", args.force, "overwrite files that exist");
}

int64_t parse_count(std::string_view option, std::string_view text, int64_t least) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || value < least)
    usage_error("E004", "'" + std::string(text) + "' in " + std::string(option) +
                            " is not a whole number of at least " + std::to_string(least));
  return value;
}

size_t parse_word(const std::string& what, const std::string& word,
                  std::span<const std::string_view> legal) {
  for (size_t i = 0; i < legal.size(); ++i)
    if (legal[i] == word) return i;
  const std::string near = did_you_mean(word, legal);
  usage_error("E004", "there is no " + what + " '" + word + "'",
              (near.empty() ? "" : near + ' ') + "legal: " + join(legal));
}

size_t parse_word(const std::string& what, const std::string& word,
                  std::initializer_list<std::string_view> legal) {
  return parse_word(what, word, std::span(legal.begin(), legal.size()));
}

}  // namespace stepcast::cli
