// SPDX-License-Identifier: Apache-2.0
#include "tools/calibrate_input.h"

#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <optional>

#include "calibrate/table/cost_table.h"
#include "scenarios/document/number.h"
#include "scenarios/presets.h"
#include "sim/diagnostic.h"
#include "sim/text.h"
#include "tools/options.h"
#include "tools/output.h"

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
                   {}, "shipped are " + shipped_names(), kExitIo);
}

// 0 if it is not given.
int64_t count_of(const char* option, const std::string& text) {
  return text.empty() ? 0 : parse_count(option, text, 1);
}

// GB/s; 0 if it is not given.
double rate_of(const char* option, const std::string& text) {
  if (text.empty()) return 0;
  const Bandwidth rate = parse_quantity(option, text, [&](const Value& v, Problems& problems) {
    return read_bandwidth(v, option, problems);
  });
  return rate.value * 1e-9;
}

MeasurementOptions options_of(const Arguments& args) {
  const MeasuredArguments& a = args.measured;
  MeasurementOptions o;
  o.kind = args.kind;
  o.gpu = args.gpu;
  o.collective = a.collective;
  o.dtype = a.dtype;
  o.ranks = count_of("--ranks", a.ranks);
  o.nodes = count_of("--nodes", a.nodes);
  o.ranks_per_node = count_of("--ranks-per-node", a.ranks_per_node);
  o.nic_gbs = rate_of("--nic", a.nic_bandwidth);
  o.nvlink_gbs = rate_of("--nvlink", a.nvlink_bandwidth);
  if (!a.nvls.empty()) o.in_network_reduction = parse_word("--nvls", a.nvls, {"no", "yes"}) == 1;
  return o;
}

}  // namespace

void add_measurement_options(CLI::App* sub, MeasuredArguments& a) {
  sub->add_option("--collective", a.collective,
                  "of nccl-tests' text without its program's name: all_gather")
      ->option_text("NAME");
  sub->add_option("--dtype", a.dtype, "of mamf-finder's products: bf16")->option_text("TYPE");
  sub->add_option("--ranks", a.ranks, "GPUs together, of a log that does not say")
      ->option_text("N");
  sub->add_option("--nodes", a.nodes, "of a log that does not say")->option_text("N");
  sub->add_option("--ranks-per-node", a.ranks_per_node, "of a log that does not say")
      ->option_text("N");
  sub->add_option("--nic", a.nic_bandwidth, "a GPU's share of the NICs, one direction: 400Gb/s")
      ->option_text("RATE");
  sub->add_option("--nvlink", a.nvlink_bandwidth, "all of a GPU's links, one direction: 450GB/s")
      ->option_text("RATE");
  sub->add_option("--nvls", a.nvls, "whether the NVSwitches reduced: yes or no")
      ->option_text("yes|no");
}

CalibrateInput read_table(const std::string& input, bool accept_edits) {
  CalibrateInput in = read(input);
  in.table = parse_table_text(in.text, in.name, {accept_edits});
  return in;
}

CalibrateInput read_measurements(const std::string& input, const Arguments& args) {
  if (!args.kind.empty()) parse_word("--kind", args.kind, measurement_kinds());
  const MeasurementOptions options = options_of(args);
  CalibrateInput in = read(input);
  if (is_table(in.text)) {
    in.table = parse_table_text(in.text, in.name, {args.calibrate.accept_edits});
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
