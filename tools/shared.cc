// SPDX-License-Identifier: Apache-2.0
#include "sim/diagnostic.h"
#include "tools/command.h"
#include "tools/output.h"

namespace stepcast::cli {

std::string_view version() {
  return STEPCAST_VERSION;
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
  LoadOptions options;
  options.set = parse_sets(args.set);
  options.set.insert(options.set.end(), extra.begin(), extra.end());
  options.compare_case = compare_case;
  options.root = args.root;
  if (file == "-") return load_scenario_text(standard_input(), shown_name(file), options);
  return load_scenario(file, options);
}

std::string shown_name(const std::string& file) {
  return file == "-" ? "<stdin>" : file;
}

}  // namespace stepcast::cli
