// SPDX-License-Identifier: Apache-2.0
#include "tools/command/calibrate/calibrate_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <optional>
#include <utility>

#include "calibrate/fit/own_runs_text.h"
#include "calibrate/table/cost_table.h"
#include "scenarios/document/number.h"
#include "scenarios/presets.h"
#include "sim/diagnostic.h"
#include "sim/results/step_row.h"
#include "sim/text.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

bool is_table(std::string_view text) {
  return text.starts_with("# stepcast cost table");
}

// "a100-pcie-80g, ..."
std::string shipped_names() {
  std::vector<std::string_view> shipped = preset_names(PresetKind::gpu);
  std::erase_if(shipped, [](std::string_view gpu) { return shipped_table_text(gpu).empty(); });
  return join(shipped);
}

CalibrateInput read(const std::string& input) {
  CalibrateInput in;
  in.name = shown_name(input);
  const bool file = input == "-" || ::access(input.c_str(), F_OK) == 0;
  if (file) {
    in.text = read_whole_file(input);
    return in;
  }
  in.text = shipped_table_text(input);
  in.name = "shipped table " + input;
  if (!in.text.empty()) return in;
  throw file_error("E101", "there is no file '" + input + "', and no table of that name is shipped",
                   {}, "shipped are " + shipped_names());
}

MeasurementOptions options_of(const Arguments& args) {
  const MeasuredArguments& a = args.measured;
  MeasurementOptions o;
  o.kind = args.kind;
  o.gpu = args.gpu;
  o.collective = a.collective;
  o.dtype = a.dtype;
  o.ranks = a.ranks.value_or(0);
  o.nodes = a.nodes.value_or(0);
  o.ranks_per_node = a.ranks_per_node.value_or(0);
  o.nic_gbs = a.nic.value_or(Bandwidth{}).value * 1e-9;
  o.nvlink_gbs = a.nvlink.value_or(Bandwidth{}).value * 1e-9;
  o.in_network_reduction = a.nvls;
  o.sharp = a.sharp;
  o.one_process = a.one_process;
  if (!a.network.empty()) {
    o.network = nic_driver(a.network);
    if (!o.network)
      usage_error("E004", "--network: there is no '" + a.network + "'",
                  "one of " + nic_driver_words());
  }
  if (!a.inside.empty()) {
    o.inside = inside_link(a.inside);
    if (!o.inside)
      usage_error("E004", "--inside: there is no '" + a.inside + "'",
                  "one of " + std::string(kInsideLinkWords));
  }
  return o;
}

}  // namespace

void add_measurement_options(CLI::App* sub, MeasuredArguments& a) {
  sub->add_option("--collective", a.collective,
                  "of nccl-tests' text without its program's name: all_gather")
      ->option_text("NAME");
  sub->add_option("--dtype", a.dtype, "of mamf-finder's products: bf16")->option_text("TYPE");
  add_count(sub, "--ranks", a.ranks, 1, "GPUs together, of a log that does not say");
  add_count(sub, "--nodes", a.nodes, 1, "of a log that does not say");
  add_count(sub, "--ranks-per-node", a.ranks_per_node, 1, "of a log that does not say");
  add_quantity(sub, "--nic", a.nic, read_bandwidth,
               "a GPU's share of the NICs, one direction: 400Gb/s", "RATE");
  add_quantity(sub, "--nvlink", a.nvlink, read_bandwidth,
               "all of a GPU's links, one direction: 450GB/s", "RATE");
  add_word(
      sub, "--nvls", {"no", "yes"}, [&a](size_t i) { a.nvls = i == 1; },
      "whether the NVSwitches reduced: yes or no", "yes|no");
  sub->add_option("--network", a.network,
                  "what drove the NICs: verbs (InfiniBand), roce, gib, efa, tcpxo, efa-v1, tcpx")
      ->option_text("NAME");
  sub->add_option("--inside", a.inside,
                  "links inside a node: nvlink4 (through NVSwitches), nvlink3-mesh, pcie5, shm")
      ->option_text("NAME");
  add_word(
      sub, "--sharp", {"no", "yes"}, [&a](size_t i) { a.sharp = i == 1; },
      "whether network switches reduced: yes or no", "yes|no");
  add_word(
      sub, "--processes", {"each", "one"}, [&a](size_t i) { a.one_process = i == 1; },
      "a process or thread for each GPU, or one for all of a host", "each|one");
}

void refuse_measurement_options(const MeasuredArguments& a, const std::string& kind) {
  const std::array<std::pair<const char*, bool>, 12> options{
      {{"--collective", !a.collective.empty()},
       {"--dtype", !a.dtype.empty()},
       {"--ranks", a.ranks.has_value()},
       {"--nodes", a.nodes.has_value()},
       {"--ranks-per-node", a.ranks_per_node.has_value()},
       {"--nic", a.nic.has_value()},
       {"--nvlink", a.nvlink.has_value()},
       {"--nvls", a.nvls.has_value()},
       {"--network", !a.network.empty()},
       {"--inside", !a.inside.empty()},
       {"--sharp", a.sharp.has_value()},
       {"--processes", a.one_process.has_value()}}};
  for (const auto& [option, given] : options)
    if (given)
      usage_error("E003",
                  std::string(option) + " is for files of measurements, and " + kind + " is none",
                  "read are " + join(measurement_kinds()));
}

CalibrateInput read_table(const std::string& input, bool accept_edits) {
  CalibrateInput in = read(input);
  if (is_own_runs(in.text))
    throw file_error(
        "E301", "this is no cost table: it has what own runs say", in.name,
        fmt::format("`stepcast explain FILE -s calibration={} --in-situ` shows it beside "
                    "what is shipped",
                    shell_word(in.name)));
  in.table =
      parse_table_text(in.text, in.name, accept_edits ? TableFile::edited : TableFile::as_written);
  return in;
}

CalibrateInput read_measurements(const std::string& input, const Arguments& args) {
  if (!args.kind.empty()) parse_word("--kind", args.kind, measurement_kinds());
  const MeasurementOptions options = options_of(args);
  CalibrateInput in = read(input);
  if (is_table(in.text)) {
    in.table = parse_table_text(
        in.text, in.name, args.calibrate.accept_edits ? TableFile::edited : TableFile::as_written);
    return in;
  }
  if (args.kind.empty() && recognise_measurements(in.text).empty())
    throw file_error(
        "E343",
        in.text.find_first_not_of(" \t\r\n") == std::string::npos
            ? "the file is empty"
            : "neither a cost table nor measurements of a tool that is read",
        in.name, "read are cost tables and " + join(measurement_kinds()) + "; --kind names one");
  in.table = import_measurements(in.text, in.name, options, &in.notes);
  return in;
}

}  // namespace stepcast::cli
