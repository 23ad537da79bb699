// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/network.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>
#include <tuple>

namespace stepcast::measure {
namespace {

namespace fs = std::filesystem;

// NVLS came with NCCL 2.17 (release notes).
constexpr int kFirstNvls = 21700;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A whole number at the beginning of `text`.
std::optional<int> leading_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    all.push_back(i->path());
  }
  return all;
}

std::string in_capitals(std::string_view text) {
  std::string capitals(text);
  for (char& c : capitals) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return capitals;
}

// Whether an entry of NCCL_IB_HCA, "NAME" or "NAME:PORT", means the port.
bool means(std::string_view entry, const NetworkPort& port, bool whole_name) {
  const size_t colon = entry.find(':');
  const std::string_view name = entry.substr(0, colon);
  if (name.empty()) return false;
  if (colon != std::string_view::npos && leading_number(entry.substr(colon + 1)) != port.port) {
    return false;
  }
  return whole_name ? port.device == name : port.device.compare(0, name.size(), name) == 0;
}

// Calls `each` with the parts of a list, blanks around them removed.
template <class Each>
void for_each_part(std::string_view list, char separator, Each each) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(separator), list.size());
    each(trimmed(list.substr(0, end)));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

}  // namespace

std::optional<double> gbits_of_rate(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value > 0) || !(value < 1e6)) return std::nullopt;
  const std::string_view unit = trimmed(text.substr(static_cast<size_t>(end - text.data())));
  if (unit.compare(0, 6, "Gb/sec") != 0) return std::nullopt;
  return value;
}

bool is_active(std::string_view state) {
  return leading_number(trimmed(state)) == 4;
}

std::vector<NetworkPort> read_network_ports(const fs::path& root) {
  std::vector<NetworkPort> ports;
  for (const fs::path& device : entries(root)) {
    for (const fs::path& folder : entries(device / "ports")) {
      const auto number = leading_number(folder.filename().string());
      const auto gbits = gbits_of_rate(text_of(folder / "rate"));
      if (!number || !gbits) continue;
      ports.push_back({device.filename().string(), *number, is_active(text_of(folder / "state")),
                       *gbits, std::string(trimmed(text_of(folder / "link_layer")))});
    }
  }
  std::sort(ports.begin(), ports.end(), [](const NetworkPort& a, const NetworkPort& b) {
    // mlx5_2 before mlx5_10.
    return std::tuple(a.device.size(), a.device, a.port) <
           std::tuple(b.device.size(), b.device, b.port);
  });
  return ports;
}

bool is_selected(const NetworkPort& port, std::string_view nccl_ib_hca) {
  std::string_view list = trimmed(nccl_ib_hca);
  const bool excluded = !list.empty() && list.front() == '^';
  if (excluded) list.remove_prefix(1);
  const bool whole_name = !list.empty() && list.front() == '=';
  if (whole_name) list.remove_prefix(1);
  if (list.empty()) return true;
  bool found = false;
  for_each_part(list, ',',
                [&](std::string_view entry) { found = found || means(entry, port, whole_name); });
  return found != excluded;
}

double nic_total_gbs(std::span<const NetworkPort> ports, std::string_view nccl_ib_hca) {
  double gbits = 0;
  for (const NetworkPort& port : ports) {
    if (port.active && is_selected(port, nccl_ib_hca)) gbits += port.gbits;
  }
  return gbits / 8;
}

std::optional<NicDriver> driver_of(std::span<const NetworkPort> ports,
                                   std::string_view nccl_ib_hca) {
  std::optional<NicDriver> all;
  for (const NetworkPort& port : ports) {
    if (!port.active || !is_selected(port, nccl_ib_hca)) continue;
    std::optional<NicDriver> one;
    if (port.device.starts_with("efa") || port.device.starts_with("rdmap"))
      one = NicDriver::efa;
    else if (port.link_layer == "InfiniBand")
      one = NicDriver::verbs;
    else if (port.link_layer == "Ethernet")
      one = NicDriver::roce;
    if (!one || (all && all != one)) return std::nullopt;
    all = one;
  }
  return all;
}

double nvlink_gbs_per_link(int major, int minor) {
  switch (major * 10 + minor) {
    case 60: return 20;
    case 70:
    case 80:
    case 90: return 25;
    case 86: return 14.0625;
    case 100:
    case 103: return 50;
    default: return 0;
  }
}

SwitchReduction switch_reduction(bool multicast, int version, std::string_view nccl_nvls_enable,
                                 std::string_view nccl_algo) {
  if (!multicast) return {false, "the GPUs have no multicast over NVSwitches"};
  if (version < kFirstNvls) return {false, "this NCCL has no NVLS"};
  if (trimmed(nccl_nvls_enable) == "0") return {false, "NCCL_NVLS_ENABLE=0"};
  std::string algorithms = in_capitals(trimmed(nccl_algo));
  if (!algorithms.empty()) {
    const bool excluded = algorithms.front() == '^';
    const bool named = algorithms.find("NVLS") != std::string::npos;
    if (named == excluded) return {false, "NCCL_ALGO=" + std::string(trimmed(nccl_algo))};
  }
  return {true, "multicast over NVSwitches, not switched off"};
}

}  // namespace stepcast::measure
