// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/logs.h"

#include <map>
#include <regex>
#include <stdexcept>

#include "tests/csv_rows.h"

namespace stepcast::accuracy {
namespace {

using testing::Row;

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

std::vector<Point> read_points(const std::string& path) {
  std::vector<Point> points;
  for (const Row& row : testing::read_rows(path)) {
    const std::string& bytes = row.at(row.count("bytes") ? "bytes" : "size_b");
    const std::string& us = row.at(row.count("time_us") ? "time_us" : "oop_time_us");
    if (us.empty()) continue;
    points.push_back({std::stod(bytes), std::stod(us) * 1e-6});
  }
  return points;
}

WorkKind kind_of(const std::string& collective) {
  if (collective == "all_reduce") return WorkKind::all_reduce;
  if (collective == "all_gather") return WorkKind::all_gather;
  if (collective == "reduce_scatter") return WorkKind::reduce_scatter;
  if (collective == "broadcast") return WorkKind::broadcast;
  if (collective == "alltoall" || collective == "alltoallv") return WorkKind::all_to_all;
  if (collective == "sendrecv") return WorkKind::send_recv;
  throw std::runtime_error("collective " + collective);
}

struct GpuFacts {
  const char* word;
  GpuArch arch;
  double nvlink_gbs;  // one direction
};

// First match counts.
constexpr GpuFacts kGpus[] = {
    {"V100", GpuArch::volta, 150},      {"A100", GpuArch::ampere, 300},
    {"H800", GpuArch::hopper, 200},     {"H100", GpuArch::hopper, 450},
    {"GH200", GpuArch::hopper, 450},    {"H200", GpuArch::hopper, 450},
    {"GB200", GpuArch::blackwell, 900}, {"GB300", GpuArch::blackwell, 900},
    {"B200", GpuArch::blackwell, 900},  {"B300", GpuArch::blackwell, 900},
    {"MI300", GpuArch::other, 448},     {"MI35", GpuArch::other, 537.6}};

void set_gpu(Node& node, const Row& row) {
  const std::string& gpu = row.at("gpu");
  const std::string& link = row.at("link_intra");
  node.gpu.name = gpu;
  node.intra_latency = Time{1'000'000};
  node.intra = IntraKind::nvswitch;
  for (const GpuFacts& f : kGpus) {
    if (!has(gpu, f.word)) continue;
    node.gpu.arch = f.arch;
    node.intra_bandwidth = {f.nvlink_gbs * 1e9};
    node.sharp = architecture(f.arch).nvls_efficiency > 0;
    if (has(link + gpu, "mesh") || has(link, "pair") || has(link, "xGMI")) {
      node.intra = IntraKind::nvlink_mesh;
      node.sharp = false;
    }
    if (has(gpu, "4-GPU")) node.gpus = 4;
    return;
  }
  node.gpu.arch = GpuArch::other;
  node.intra = IntraKind::pcie;
  node.intra_bandwidth = {16e9};
}

// "8x200G HDR IB", "4x400G NDR IB per node", "RoCE".
void set_network(Node& node, Fabric& fabric, const std::string& text, int64_t hosts_per_node) {
  std::smatch m;
  int64_t gbits = node.gpu.arch == GpuArch::other ? 50 : 400;  // of a card that is not described
  int64_t count = node.gpu.arch == GpuArch::other ? 1 : node.gpus;
  if (std::regex_search(text, m, std::regex(R"((\d+)x(\d+)G)"))) {
    count = std::stoll(m[1]) * hosts_per_node;
    gbits = std::stoll(m[2]);
  } else if (std::regex_search(text, m, std::regex(R"((\d+)x\?)"))) {
    count = std::stoll(m[1]);
    gbits = 200;
  }
  node.nics = count;
  node.nic_bandwidth = {static_cast<double>(gbits) / 8 * 1e9};
  struct Driver {
    const char* word;
    NicDriver driver;
    int64_t us;
  };
  // First match counts.  Latencies are those of the presets.
  constexpr Driver kDrivers[] = {{"EFA v1", NicDriver::efa_v1, 75}, {"EFA", NicDriver::efa, 15},
                                 {"TCPXO", NicDriver::tcpxo, 35},   {"TCP", NicDriver::tcpx, 300},
                                 {"gIB", NicDriver::gib, 12},       {"", NicDriver::verbs, 2}};
  const bool google = has(node.gpu.name, "GCP") && has(text, "RoCE");
  const std::string words = google ? text + " gIB" : text;
  for (const Driver& d : kDrivers) {
    if (!has(words, d.word)) continue;
    node.nic_driver = d.driver;
    node.nic_latency = Time{d.us * 1'000'000};
    break;
  }
  fabric.sharp = has(text, "SHARP");
}

Log log_of(const Row& row, const std::string& folder) {
  Log log;
  log.id = row.at("id");
  log.gpu = row.at("gpu");
  log.network = row.at("network");
  log.source = row.at("source");
  log.kind = kind_of(row.at("collective"));
  log.scored = row.at("quality") == "ok";
  log.one_process = has(row.at("notes"), "single process");
  log.transfer = log.kind == WorkKind::send_recv;
  int64_t hosts = std::stoll(row.at("nodes"));
  const int64_t per_host = std::stoll(row.at("gpus_per_node"));
  const int64_t gpus = hosts * per_host;
  Node& node = log.cluster.node;
  // A rack of 72 is one NVLink domain; a job that spans several fills them evenly.
  int64_t nodes = hosts;
  if (has(row.at("link_intra"), "MNNVL")) nodes = (gpus + 71) / 72;
  node.gpus = gpus / nodes;
  set_gpu(node, row);
  set_network(node, log.cluster.fabric, log.network, hosts / nodes);
  log.cluster.nodes = nodes;
  log.cluster.fabric.hop_latency = Time{200'000};
  log.shape.ranks = gpus;
  log.shape.nodes = nodes;
  log.shape.ranks_per_node = gpus / nodes;
  log.shape.tier = nodes == 1 ? -1 : 0;
  log.points = read_points(folder + "/" + (row.count("file") ? row.at("file") : log.id + ".csv"));
  return log;
}

}  // namespace

std::vector<Log> read_logs(const std::string& folder) {
  std::vector<Log> logs;
  for (const Row& row : testing::read_rows(folder + "/manifest.csv")) {
    const std::string& quality = row.at("quality");
    if (quality == "ok" || quality == "large_only") logs.push_back(log_of(row, folder));
  }
  return logs;
}

}  // namespace stepcast::accuracy
