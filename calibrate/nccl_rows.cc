// SPDX-License-Identifier: Apache-2.0
#include "calibrate/nccl_rows.h"

#include <algorithm>
#include <set>
#include <string>

#include "calibrate/cost_table.h"

namespace stepcast {
namespace {

// The one name of all devices; throws E334 if there are several.
std::string device_name(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps) {
  std::string name;
  for (const NcclSweep& s : sweeps) {
    for (const NcclRank& d : s.devices) {
      if (d.name.empty() || d.name == name) continue;
      if (!name.empty())
        refuse_measurements(in, "E334", "several kinds of GPU took part: " + name + ", " + d.name,
                            "a table is about one");
      name = d.name;
    }
  }
  return name;
}

void add_unique(std::vector<std::string>& lines, std::string line) {
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
}

void describe(const NcclSweep& sweep, TableText& table) {
  std::string software;
  if (!sweep.nccl_version.empty()) software = "NCCL " + sweep.nccl_version;
  if (!sweep.tests_version.empty())
    software += (software.empty() ? "" : ", ") + ("nccl-tests " + sweep.tests_version);
  if (table.software.empty()) table.software = software;
  if (!software.empty() && software != table.software)
    add_unique(table.conditions, "another run with " + software);
  if (sweep.graph) add_unique(table.conditions, "launched as CUDA graphs");
  if (sweep.aggregated > 1)
    add_unique(table.conditions,
               std::to_string(sweep.aggregated) + " collectives in one launch, time of one");
  if (!sweep.checked) add_unique(table.conditions, "results not checked by nccl-tests");
}

}  // namespace

void take_link_conditions(const MeasurementInput& in, TableText& table) {
  table.nvlink_gbs = in.options.nvlink_gbs;
  table.in_network_reduction = in.options.in_network_reduction.value_or(false);
  const std::string_view shipped = shipped_table_text(table.gpu);
  if (shipped.empty()) return;
  const TableText known = parse_table_text(shipped, std::string(table.gpu));
  if (table.nvlink_gbs == 0 && known.nvlink_gbs > 0) {
    table.nvlink_gbs = known.nvlink_gbs;
    table.conditions.push_back("NVLink bandwidth assumed: that of the shipped table");
  }
  if (!in.options.in_network_reduction && known.in_network_reduction) {
    table.in_network_reduction = true;
    table.conditions.push_back("reduction in the NVSwitches assumed: NCCL's default on this GPU");
  }
}

TableText nccl_rows(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps) {
  TableText table;
  CollectiveSamples samples;
  std::set<std::string> programs;
  for (const NcclSweep& s : sweeps) {
    const std::string_view program = s.results.empty() ? "" : add_sweep(in, s, samples);
    if (program.empty()) continue;
    programs.emplace(program);
    describe(s, table);
  }
  if (samples.empty())
    refuse_measurements(in, "E330", "no results of nccl-tests that tables have rows of",
                        "lines of size, count, type, redop, root, time, ...");
  table.gpu = measured_gpu(in, device_name(in, sweeps));
  take_link_conditions(in, table);
  std::string about;
  for (const std::string& p : programs) about += (about.empty() ? "" : ", ") + p;
  table.sources.push_back({"nccl-tests", false, "nccl-tests " + about + ": " + file_stem(in.file)});
  for (const auto& [key, times] : samples) {
    const auto& [kind, ranks, nodes, per_node, nic, bytes] = key;
    const SampleSummary s = summarise(times);
    CollectiveRow row;
    row.kind = kind;
    row.ranks = ranks;
    row.nodes = nodes;
    row.ranks_per_node = per_node;
    row.nic_gbs = nic;
    row.bytes = bytes;
    row.us = s.median;
    row.spread = rounded_figure(s.spread);
    table.collectives.push_back(row);
  }
  return table;
}

}  // namespace stepcast
