// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/processes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "sim/diagnostic.h"

namespace stepcast::measure {
namespace {

// Variables of a launcher: rank and number of processes.
struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
};
// Open MPI: orte/ompi environment; PMI: MPICH, Intel MPI; Slurm: srun (the step's tasks: the job's
// are also set in a batch script that srun did not start); torchrun.
constexpr std::array<Launcher, 4> kLaunchers{{
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"torchrun", "RANK", "WORLD_SIZE"},
}};

int whole(std::string_view text, std::string_view what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    refuse(std::string(what) + " is not a number of a process: '" + std::string(text) + "'");
  }
  return value;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  refuse("not a string of hexadecimal digits");
}

}  // namespace

std::optional<ProcessPlace> place_of_launcher(
    const std::function<const char*(const char*)>& variable) {
  for (const Launcher& launcher : kLaunchers) {
    const char* rank = variable(launcher.rank);
    const char* ranks = variable(launcher.ranks);
    if (rank == nullptr || ranks == nullptr) continue;
    const ProcessPlace place{whole(rank, launcher.rank), whole(ranks, launcher.ranks)};
    if (place.rank >= place.ranks) {
      refuse(std::string(launcher.name) + " says that this is process " + rank + " of " + ranks +
             " (" + launcher.rank + ", " + launcher.ranks + ")");
    }
    return place;
  }
  return std::nullopt;
}

std::string write_record(const ProcessRecord& record) {
  std::array<char, 64> nic{};
  const auto end = std::to_chars(nic.data(), nic.data() + nic.size(), record.nic_gbs).ptr;
  return record.host + " " + std::to_string(record.devices) + " " + std::string(nic.data(), end) +
         " " + (record.token.empty() ? "-" : record.token);
}

ProcessRecord read_record(std::string_view text) {
  std::istringstream words{std::string(text)};
  ProcessRecord record;
  std::string rest;
  if (!(words >> record.host >> record.devices >> record.nic_gbs >> record.token) ||
      words >> rest || record.devices < 0 || !(record.nic_gbs >= 0)) {
    refuse("not what a process of this measurement says: '" + std::string(text) + "'");
  }
  if (record.token == "-") record.token.clear();
  return record;
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string bytes_of_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) refuse("half a byte in hexadecimal digits");
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(hex_digit(hex[i]) * 16 + hex_digit(hex[i + 1]));
  }
  return bytes;
}

std::vector<RankPlace> place_ranks(std::span<const ProcessRecord> processes, int most,
                                   int hosts_per_node) {
  std::vector<RankPlace> ranks;
  for (const ProcessRecord& p : processes) {
    if (p.devices < 1) refuse("a process on " + p.host + " sees no GPU");
  }
  if (processes.size() == 1) {
    const int devices = most > 0 ? std::min(most, processes[0].devices) : processes[0].devices;
    for (int device = 0; device < devices; ++device) ranks.push_back({0, device, 0});
    return ranks;
  }
  struct Host {
    int number;
    int processes;
  };
  std::map<std::string_view, Host> hosts;
  std::vector<std::pair<int, RankPlace>> by_host;
  for (size_t i = 0; i < processes.size(); ++i) {
    const ProcessRecord& p = processes[i];
    const auto [host, added] = hosts.try_emplace(p.host, Host{static_cast<int>(hosts.size()), 0});
    const int device = p.devices == 1 ? 0 : host->second.processes;
    if (device >= p.devices) {
      refuse("more processes on " + p.host + " than GPUs that they see (" +
             std::to_string(p.devices) + ")");
    }
    ++host->second.processes;
    const int number = host->second.number;
    by_host.push_back({number, {static_cast<int>(i), device, number / hosts_per_node}});
  }
  std::stable_sort(by_host.begin(), by_host.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [number, rank] : by_host) ranks.push_back(rank);
  return ranks;
}

double nic_share_gbs(std::span<const ProcessRecord> processes) {
  struct Host {
    int processes = 0;
    int devices = 0;
    double nic_gbs = 0;
  };
  std::map<std::string_view, Host> hosts;
  for (const ProcessRecord& p : processes) {
    Host& host = hosts[p.host];
    ++host.processes;
    host.devices = std::max(host.devices, p.devices);
    host.nic_gbs = p.nic_gbs;
  }
  double least = 0;
  for (const auto& [name, host] : hosts) {
    const int gpus = std::max({1, host.devices, host.processes});
    const double share = host.nic_gbs / gpus;
    if (name == hosts.begin()->first || share < least) least = share;
  }
  return least;
}

}  // namespace stepcast::measure
