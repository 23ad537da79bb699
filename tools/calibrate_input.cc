// SPDX-License-Identifier: Apache-2.0
#include "tools/calibrate_input.h"

#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <optional>

#include "calibrate/cost_table.h"
#include "scenarios/number.h"
#include "scenarios/presets.h"
#include "scenarios/value.h"
#include "sim/diagnostic.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

bool is_table(std::string_view text) {
  return text.starts_with("# stepcast cost table");
}

// "a100-pcie-80g, ..."
std::string shipped_names() {
  std::string all;
  for (const std::string_view gpu : preset_names(PresetKind::gpu))
    if (!shipped_table_text(gpu).empty()) all += (all.empty() ? "" : ", ") + std::string(gpu);
  return all;
}

CalibrateInput read(const std::string& input) {
  CalibrateInput in;
  in.name = input == "-" ? "<stdin>" : input;
  const bool file = input == "-" || ::access(input.c_str(), F_OK) == 0;
  if (file) {
    in.text = read_whole_file(input);
    return in;
  }
  in.text = shipped_table_text(input);
  in.name = "shipped table " + input;
  if (!in.text.empty()) return in;
  Diagnostic d;
  d.code = "E101";
  d.message = "there is no file '" + input + "', and no table of that name is shipped";
  d.help = "shipped are " + shipped_names();
  throw InputError(std::move(d), kExitIo);
}

int64_t count_of(const char* option, const std::string& text) {
  if (text.empty()) return 0;
  int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last || value < 1 || value > 1'000'000)
    usage_error("E004", '\'' + std::string(option) + ' ' + text + "' is no count",
                "a whole number from 1");
  return value;
}

// GB/s.
double rate_of(const char* option, const std::string& text) {
  if (text.empty()) return 0;
  Problems problems;
  const Value value = parse_yaml(problems, problems.add_source({option, text, false}));
  const std::optional<Bandwidth> rate = read_bandwidth(value, option, problems);
  problems.throw_if_any();
  return rate->value * 1e-9;
}

std::string kinds_text() {
  std::string all;
  for (const std::string_view kind : measurement_kinds())
    all += (all.empty() ? "" : ", ") + std::string(kind);
  return all;
}

MeasurementOptions options_of(const CalibrateArguments& a) {
  MeasurementOptions o;
  o.kind = a.kind;
  o.gpu = a.gpu;
  o.collective = a.collective;
  o.dtype = a.dtype;
  o.ranks = count_of("--ranks", a.ranks);
  o.nodes = count_of("--nodes", a.nodes);
  o.ranks_per_node = count_of("--ranks-per-node", a.ranks_per_node);
  o.nic_gbs = rate_of("--nic", a.nic_bandwidth);
  o.nvlink_gbs = rate_of("--nvlink", a.nvlink_bandwidth);
  if (!a.nvls.empty() && a.nvls != "yes" && a.nvls != "no")
    usage_error("E004", "'--nvls " + a.nvls + "' is neither yes nor no", "yes or no");
  if (!a.nvls.empty()) o.in_network_reduction = a.nvls == "yes";
  return o;
}

void check_kind(const std::string& kind) {
  if (kind.empty()) return;
  for (const std::string_view known : measurement_kinds())
    if (kind == known) return;
  usage_error("E004", "there is no kind of measurements '" + kind + '\'', kinds_text());
}

}  // namespace

void add_measurement_options(CLI::App* sub, CalibrateArguments& a) {
  sub->add_option("--collective", a.collective, "of nccl-tests' text without its program's name")
      ->option_text("NAME");
  sub->add_option("--dtype", a.dtype, "of mamf-finder's products: bf16")->option_text("TYPE");
  sub->add_option("--ranks", a.ranks, "of a log that does not say")->option_text("N");
  sub->add_option("--nodes", a.nodes, "of a log that does not say")->option_text("N");
  sub->add_option("--ranks-per-node", a.ranks_per_node, "of a log that does not say")
      ->option_text("N");
  sub->add_option("--nic", a.nic_bandwidth, "a GPU's share of the NICs, one direction: 400Gb/s")
      ->option_text("RATE");
  sub->add_option("--nvlink", a.nvlink_bandwidth, "of a GPU, one direction: 450GB/s")
      ->option_text("RATE");
  sub->add_option("--nvls", a.nvls, "whether the NVSwitches reduced: yes or no")
      ->option_text("yes|no");
}

CalibrateInput read_table(const std::string& input, bool accept_edits) {
  CalibrateInput in = read(input);
  in.table = parse_table_text(in.text, in.name, {accept_edits});
  return in;
}

CalibrateInput read_measurements(const std::string& input, const CalibrateArguments& args) {
  check_kind(args.kind);
  CalibrateInput in = read(input);
  if (is_table(in.text)) {
    in.table = parse_table_text(in.text, in.name, {args.accept_edits});
    return in;
  }
  if (args.kind.empty() && recognise_measurements(in.text).empty()) {
    Diagnostic d;
    d.code = "E343";
    d.message = in.text.find_first_not_of(" \t\r\n") == std::string::npos
                    ? "the file is empty"
                    : "neither a cost table nor measurements of a tool that is read";
    d.file = in.name;
    d.help = "read are cost tables and " + kinds_text() + "; --as names one";
    throw InputError(std::move(d));
  }
  in.table = import_measurements(in.text, in.name, options_of(args), &in.notes);
  return in;
}

}  // namespace stepcast::cli
