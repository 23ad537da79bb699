// SPDX-License-Identifier: Apache-2.0
#include "calibrate/nccl_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

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

void describe_software(const NcclSweep& sweep, TableText& table) {
  std::string software;
  if (!sweep.nccl_version.empty()) software = "NCCL " + sweep.nccl_version;
  if (!sweep.tests_version.empty())
    software += (software.empty() ? "" : ", ") + ("nccl-tests " + sweep.tests_version);
  if (table.software.empty()) table.software = software;
  if (!software.empty() && software != table.software)
    add_unique(table.conditions, "another run with " + software);
}

// What tells the runs of a file apart, for their sources: "" or ", launched as CUDA graphs".
std::string way_of(const NcclSweep& sweep) {
  std::string way;
  if (sweep.graph) way += ", launched as CUDA graphs";
  if (sweep.aggregated > 1)
    way += ", " + std::to_string(sweep.aggregated) + " collectives in one launch, time of one";
  if (!sweep.checked) way += ", results not checked";
  return way;
}

struct RunKind {
  std::string way;
  std::set<std::string> programs;
  CollectiveSamples samples;
};

RunKind& kind_of(std::vector<RunKind>& kinds, const std::string& way) {
  for (RunKind& k : kinds)
    if (k.way == way) return k;
  return kinds.emplace_back(RunKind{way, {}, {}});
}

// Rows by shape, and the sources that they name.
void take_rows(const MeasurementInput& in, const std::vector<RunKind>& kinds, TableText& table) {
  std::map<CollectiveSamples::key_type, CollectiveRow> rows;
  for (const RunKind& k : kinds) {
    size_t met = 0;
    for (const auto& [key, times] : k.samples) {
      CollectiveRow row;
      std::tie(row.kind, row.ranks, row.nodes, row.ranks_per_node, row.nic_gbs, row.bytes) = key;
      const SampleSummary s = summarize_samples(times);
      row.us = s.median;
      row.spread = rounded_figure(s.spread);
      row.source = static_cast<uint16_t>(table.sources.size());
      if (!rows.try_emplace(key, row).second) ++met;
    }
    if (met > 0)
      in.note(std::to_string(met) + (met == 1 ? " row" : " rows") + " of another kind of run" +
              k.way + ", not used: a run before it has the same sizes");
    if (met == k.samples.size()) continue;
    std::string programs;
    for (const std::string& p : k.programs) programs += (programs.empty() ? "" : ", ") + p;
    const size_t number = table.sources.size() + 1;
    table.sources.push_back({number == 1 ? "nccl-tests" : "nccl-tests-" + std::to_string(number),
                             false, "nccl-tests " + programs + k.way + ": " + file_stem(in.file)});
  }
  for (const auto& [key, row] : rows) table.collectives.push_back(row);
}

// GPUs of the largest group within a node in the GPU's shipped table; 0: none.
int64_t largest_node_group(const std::string& gpu) {
  const std::string_view shipped = shipped_table_text(gpu);
  if (shipped.empty()) return 0;
  int64_t most = 0;
  for (const CollectiveRow& r : parse_table_text(shipped, gpu).collectives)
    most = std::max(most, r.ranks_per_node);
  return most;
}

// A log tells hosts; where NVLink joins several of them they are one node of the cluster.
void remark_on_nodes(const MeasurementInput& in, const TableText& table) {
  if (in.options.nodes > 0 || in.options.ranks_per_node > 0) return;
  int64_t several = 0;  // ranks a node of groups on several nodes
  for (const CollectiveRow& r : table.collectives)
    if (r.nodes > 1) several = std::max(several, r.ranks_per_node);
  const int64_t most = several > 0 ? largest_node_group(table.gpu) : 0;
  if (most <= several) return;
  in.note("each host is taken as a node, with " + std::to_string(several) +
          " ranks; NVLink joins " + std::to_string(most) + " GPUs of " + table.gpu +
          " in its shipped table: if it joined several of these hosts, state how many ranks of the "
          "group it joined, --ranks-per-node N, or the rows answer for single hosts only");
}

}  // namespace

bool take_link_conditions(const MeasurementInput& in, TableText& table) {
  table.nvlink_gbs = in.options.nvlink_gbs;
  table.in_network_reduction = in.options.in_network_reduction.value_or(false);
  const std::string_view shipped = shipped_table_text(table.gpu);
  if (shipped.empty()) return table.nvlink_gbs > 0;
  const TableText known = parse_table_text(shipped, std::string(table.gpu));
  if (table.nvlink_gbs == 0 && known.nvlink_gbs > 0) {
    table.nvlink_gbs = known.nvlink_gbs;
    table.conditions.push_back("NVLink bandwidth assumed: that of the shipped table");
  }
  if (!in.options.in_network_reduction && known.in_network_reduction) {
    table.in_network_reduction = true;
    table.conditions.push_back("reduction in the NVSwitches assumed: NCCL's default on this GPU");
  }
  return table.nvlink_gbs > 0;
}

TableText nccl_rows(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps) {
  TableText table;
  std::vector<RunKind> kinds;
  for (const NcclSweep& s : sweeps) {
    if (s.results.empty()) continue;
    RunKind& kind = kind_of(kinds, way_of(s));
    const std::string_view program = add_sweep(in, s, kind.samples);
    if (program.empty()) continue;
    kind.programs.emplace(program);
    describe_software(s, table);
  }
  if (std::all_of(kinds.begin(), kinds.end(), [](const RunKind& k) { return k.samples.empty(); }))
    refuse_measurements(in, "E330", "no results of nccl-tests that tables have rows of",
                        "lines of size, count, type, redop, root, time, ...");
  table.gpu = measured_gpu(in, device_name(in, sweeps));
  if (!take_link_conditions(in, table)) {
    refuse_measurements(in, "E334",
                        "over which NVLink was this measured? No table of " + table.gpu +
                            " is shipped that says it, and rows answer for that NVLink alone",
                        "state it, of a GPU in one direction: --nvlink RATE");
  }
  take_rows(in, kinds, table);
  remark_on_nodes(in, table);
  return table;
}

}  // namespace stepcast
