// SPDX-License-Identifier: Apache-2.0
#include "tools/command/options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <charconv>
#include <thread>

#include "job/power.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/text.h"
#include "tools/command/command.h"
#include "tools/command/output.h"
#include "topology/cluster/cluster.h"

namespace stepcast::cli {
namespace {

// "--microbatches" of "-m,--microbatches".
std::string long_name(std::string_view names) {
  return std::string(names.substr(names.rfind(',') + 1));
}

}  // namespace

CLI::App* add_command(CLI::App& parent, const char* name, const char* summary, Command& chosen,
                      Command function) {
  CLI::App* sub = parent.add_subcommand(name, summary);
  sub->group("Commands");
  sub->callback([&chosen, function = std::move(function)] { chosen = function; });
  return sub;
}

void add_common(CLI::App* sub, Arguments& args) {
  sub->add_flag("--json", args.json, "print JSON, errors included");
  add_choice(sub, "--color", {"auto", "always", "never"}, args.color,
             "colours: auto (the default: on a terminal), always, never", "WHEN");
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
  add_file(sub, args, "FILE",
           "scenario, in YAML or JSON, or a file to import; - is standard input");
  sub->add_option("VALUES", args.given, "of a script: NAME=VALUE, or its words $1, $2, ...")
      ->option_text(" ");
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

void add_html(CLI::App* sub, Arguments& args) {
  sub->add_option("--html", args.html,
                  "write a report to look at, in one file that any browser opens offline")
      ->option_text("FILE");
}

void add_output(CLI::App* sub, Arguments& args) {
  sub->add_option("-o,--output", args.output, "write to a file instead of standard output")
      ->option_text("FILE");
  add_force(sub, args);
}

void add_force(CLI::App* sub, Arguments& args) {
  sub->add_flag("--force", args.force, "overwrite files that exist");
}

CLI::Option* add_count(CLI::App* sub, const char* names, std::optional<int64_t>& value,
                       int64_t least, const char* summary) {
  // CLI11 itself would take 010 to be eight.
  const auto check = [option = long_name(names), least](std::string& text) {
    text = std::to_string(parse_count(option, text, least));
    return std::string();
  };
  return sub->add_option(names, value, summary)
      ->transform(CLI::Validator(check, ""))
      ->option_text("N");
}

void add_jobs(CLI::App* sub, Arguments& args) {
  add_count(sub, "-j,--jobs", args.jobs, 1, "threads; default: one for each core");
}

int jobs_of(const Arguments& args) {
  // Each has caches of its own; more than this serve no machine.
  constexpr int64_t kMostJobs = 256;
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp<int64_t>(args.jobs.value_or(cores), 1, kMostJobs));
}

void add_word(CLI::App* sub, const char* names, std::vector<std::string_view> words,
              std::function<void(size_t)> take, const char* summary, const char* shown) {
  const auto choose = [option = long_name(names), words = std::move(words), take = std::move(take)](
                          const std::string& word) { take(parse_word(option, word, words)); };
  add_text(sub, names, choose, summary, shown);
}

void add_text(CLI::App* sub, const char* name, std::function<void(const std::string&)> take,
              const char* summary, const char* shown) {
  sub->add_option_function<std::string>(name, take, summary)->option_text(shown);
}

int64_t parse_count(std::string_view option, std::string_view text, int64_t least) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || value < least)
    usage_error("E004", fmt::format("'{}' in {} is not a whole number of at least {}", text, option,
                                    least));
  return value;
}

std::vector<int64_t> parse_gpus(const std::string& text) {
  const size_t dots = text.find("..");
  const auto number = [&](std::string_view part) {
    int64_t n = 0;
    const char* const end = part.data() + part.size();
    const auto read = std::from_chars(part.data(), end, n);
    return read.ec == std::errc{} && read.ptr == end && n <= kMostGpus ? n : 0;
  };
  const std::string_view all = text;
  const int64_t first = number(all.substr(0, dots));
  const int64_t last = dots == std::string::npos ? first : number(all.substr(dots + 2));
  if (first < 1 || last < first)
    usage_error("E004", "'--gpus " + text + "' is no number of GPUs",
                "a number, or two as in 64..1024, which is doubled from the first to the second");
  std::vector<int64_t> gpus;
  for (int64_t n = first; n <= last; n *= 2) gpus.push_back(n);
  return gpus;
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

std::string_view version() {
  return STEPCAST_VERSION;
}

void refuse_energy(const Gpu& gpu) {
  const std::optional<Diagnostic> wrong = check_power(gpu);
  STEPCAST_CHECK(wrong, "a GPU and a host whose power is known");
  usage_error("E126", wrong->message, wrong->help);
}

void usage_error(std::string code, std::string message, std::string help) {
  throw file_error(std::move(code), std::move(message), {}, std::move(help));
}

std::vector<std::pair<std::string, std::string>> parse_sets(std::span<const std::string> sets) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      usage_error("E004", "'--set " + set + "' is not of the form path=value",
                  "for example: --set parallel.tp=4");
    pairs.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  }
  return pairs;
}

Scenario load(const std::string& file, const Arguments& args,
              std::span<const std::pair<std::string, std::string>> extra,
              const std::string& compare_case) {
  ScenarioDocument document = read_scenario(file, args);
  LoadOptions options;
  options.set.assign(extra.begin(), extra.end());
  options.compare_case = compare_case;
  document.set(options);
  return std::move(document).resolve();
}

std::string scenario_words(const std::string& file, const Arguments& args) {
  std::vector<std::string> words;
  if (!args.root.empty()) words = {"--root", args.root};
  words.push_back(file);
  words.insert(words.end(), args.given.begin(), args.given.end());
  for (const std::string& set : args.set) words.insert(words.end(), {"-s", set});
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + shell_word(escape_text(word));
  return text;
}

std::string shown_name(const std::string& file) {
  return file == "-" ? "<stdin>" : file;
}

}  // namespace stepcast::cli
