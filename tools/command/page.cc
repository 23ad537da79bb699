// SPDX-License-Identifier: Apache-2.0
#include "tools/command/page.h"

#include "report/html/page.h"
#include "report/svg/topology.h"
#include "sim/text.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

// As a shell takes it for one word.
std::string shell_word(const std::string& word) {
  static constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// What makes the report again; where it was written is left out, so that equal reports are equal.
std::string command_of(const Arguments& args) {
  std::string command = "stepcast run " + shell_word(args.file);
  for (const std::string& set : args.set) command += " -s " + shell_word(set);
  if (!args.root.empty()) command += " --root " + shell_word(args.root);
  if (!args.ranks.empty()) command += " --ranks " + shell_word(args.ranks);
  if (args.what_if) command += " --what-if";
  return command;
}

PageFacts page_facts(const Scenario& scenario, const Arguments& args) {
  PageFacts facts;
  facts.version = version();
  facts.command = command_of(args);
  facts.description = scenario.description;
  for (const Setting& s : scenario.settings) facts.settings.push_back({s.path, s.value, s.origin});
  for (const Measured& m : scenario.measured)
    if (m.variant.empty())
      facts.published.push_back(
          {m.step_time_s, m.tokens_per_gpu_s, m.peak_memory, m.tolerance, m.source});
  TopologyView view = cluster_view(scenario.cluster);
  view.title = scenario.cluster.name;
  facts.cluster_svg = topology_svg(view);
  return facts;
}

}  // namespace

void write_page(const Result& result, const Scenario& scenario, const Arguments& args) {
  const PageFacts facts = page_facts(scenario, args);
  OutputFile file(args.html, args.force);
  write_run_page(result, facts, [&](std::string_view piece) { file.write(piece); });
  file.commit();
  if (!args.quiet) write_stderr("report: " + escape_text(args.html) + "; any browser opens it\n");
}

}  // namespace stepcast::cli
