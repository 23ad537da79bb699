// SPDX-License-Identifier: Apache-2.0
#include "topology/import_nvidia_smi.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "topology/import_parts.h"
#include "topology/import_text.h"
#include "topology/smi_matrix.h"

namespace stepcast {
namespace {

// Groups of devices that are at most so far apart.
std::vector<size_t> groups(const SmiMatrix& m, Near near) {
  const size_t n = m.names.size();
  std::vector<size_t> root(n);
  std::iota(root.begin(), root.end(), size_t{0});
  const auto find = [&](size_t d) {
    while (root[d] != d) d = root[d] = root[root[d]];
    return d;
  };
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      const SmiCell& c = m.cells[i][j];
      const bool told = i != j && c.near <= near;
      // NVLinks hide the PCIe between two GPUs; their sockets may still tell.
      const bool same_socket =
          near >= Near::node && c.near == Near::nvlink && m.numa[i] == m.numa[j];
      if (!told && !same_socket) continue;
      const size_t a = find(i), b = find(j);
      root[std::max(a, b)] = std::min(a, b);
    }
  }
  for (size_t i = 0; i < n; ++i) root[i] = find(i);
  return root;
}

int32_t links_of(const std::vector<SmiCell>& row) {
  int32_t sum = 0;
  for (const SmiCell& c : row) sum += c.nvlinks;
  return sum;
}

int32_t most_in_row(const std::vector<SmiCell>& row) {
  int32_t most = 0;
  for (const SmiCell& c : row) most = std::max(most, c.nvlinks);
  return most;
}

class NodeBuilder {
 public:
  NodeBuilder(const SmiMatrix& m, std::optional<GpuArch> arch) : m_(m) {
    for (const auto& row : m.cells) {
      switched_ = switched_ || links_of(row) > kMostGpuLinks;
      links_ = std::max(links_, links_of(row));
    }
    if (switched_) {
      links_ = 0;
      for (const auto& row : m.cells) links_ = std::max(links_, most_in_row(row));
    }
    arch_ = arch.value_or(links_ > 12  ? GpuArch::hopper
                          : links_ > 6 ? GpuArch::ampere
                          : links_ > 0 ? GpuArch::volta
                                       : GpuArch::other);
    guessed_ = !arch;
  }

  ImportedTopology build() {
    add_devices();
    add_pcie();
    add_nvlinks();
    warn_of_asymmetry();
    warn_of_uneven_nvlinks(parts_);
    place_nics();
    assumptions();
    return finished(std::move(parts_));
  }

 private:
  void add_devices() {
    int32_t nics = 0;
    for (size_t i = 0; i < m_.names.size(); ++i) {
      const std::string& name = m_.names[i];
      if (is_smi_gpu(name)) {
        parts_.add(DeviceKind::gpu, "gpu" + name.substr(3), 0, m_.lines[i]);
      } else {
        const auto known = m_.legend.find(name);
        std::string own = known == m_.legend.end() ? "" : " " + known->second;
        parts_.add(DeviceKind::nic, name.starts_with("NIC") ? "nic" + name.substr(3) + own : name,
                   0, m_.lines[i]);
        parts_.devices.back().rail = nics++;
      }
    }
  }

  LinkSpeed pcie() const {
    const double gt = arch_ == GpuArch::volta                                   ? 8
                      : arch_ == GpuArch::hopper || arch_ == GpuArch::blackwell ? 32
                                                                                : 16;
    return pcie_speed(gt, 16);
  }

  // A device for each group of `of` that has more than one member of `members`.
  uint32_t group_device(std::map<size_t, uint32_t>& made, size_t group, DeviceKind kind,
                        const char* name) {
    const auto [it, fresh] = made.try_emplace(group, 0);
    if (fresh) it->second = parts_.add(kind, name + std::to_string(parts_.count(kind)));
    return it->second;
  }

  void add_pcie() {
    const size_t n = m_.names.size();
    const std::vector<size_t> pix = groups(m_, Near::pix), pxb = groups(m_, Near::pxb),
                              host = groups(m_, Near::node);
    std::map<size_t, size_t> in_pix;              // members
    std::map<size_t, std::vector<size_t>> below;  // PIX groups in each PXB group
    for (size_t i = 0; i < n; ++i) {
      ++in_pix[pix[i]];
      if (pix[i] == i) below[pxb[i]].push_back(i);
    }
    std::map<size_t, uint32_t> low, high, cpus;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t cpu = group_device(cpus, host[i], DeviceKind::cpu, "cpu");
      auto at = static_cast<uint32_t>(i);
      const auto climb = [&](std::map<size_t, uint32_t>& made, size_t group) {
        const bool fresh = !made.contains(group);
        const uint32_t up = group_device(made, group, DeviceKind::pcie_switch, "pcie");
        parts_.join(at, up, LinkKind::pcie, pcie());
        at = up;
        return fresh;
      };
      if (in_pix[pix[i]] > 1 && !climb(low, pix[i])) continue;
      if (below[pxb[i]].size() > 1 && !climb(high, pxb[i])) continue;
      parts_.join(at, cpu, LinkKind::pcie, pcie());
    }
    for (auto a = cpus.begin(); a != cpus.end(); ++a)
      for (auto b = std::next(a); b != cpus.end(); ++b)
        parts_.join(a->second, b->second, LinkKind::host, {pcie().nominal, {}});
  }

  void add_nvlinks() {
    const size_t n = m_.names.size();
    if (links_ == 0) return;
    const LinkSpeed one = nvlink_speed(arch_);
    if (switched_) {
      const uint32_t plane = parts_.add(DeviceKind::nvswitch, "nvswitch");
      for (size_t i = 0; i < n; ++i) {
        if (const int32_t links = most_in_row(m_.cells[i]); links > 0)
          parts_.join(static_cast<uint32_t>(i), plane, LinkKind::nvlink, one, links);
      }
      return;
    }
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        if (const int32_t links = m_.cells[i][j].nvlinks; links > 0)
          parts_.join(static_cast<uint32_t>(i), static_cast<uint32_t>(j), LinkKind::nvlink, one,
                      links);
      }
    }
  }

  void warn_of_asymmetry() {
    for (size_t i = 0; i < m_.names.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const SmiCell &a = m_.cells[i][j], &b = m_.cells[j][i];
        if (a.near == b.near && a.nvlinks == b.nvlinks) continue;
        parts_.warn(m_.lines[i], "the rows of " + m_.names[j] + " and " + m_.names[i] +
                                     " contradict each other on their link; the first is taken");
      }
    }
  }

  // Which NICs are for GPUs: those nearer to some of them than a host bridge, if any is.
  void place_nics() {
    std::vector<std::string> far;
    std::vector<size_t> near;
    for (size_t i = 0; i < m_.names.size(); ++i) {
      if (is_smi_gpu(m_.names[i])) continue;
      bool close = false;
      for (size_t j = 0; j < m_.names.size(); ++j)
        close = close || (is_smi_gpu(m_.names[j]) && m_.cells[i][j].near <= Near::pxb);
      if (close)
        near.push_back(i);
      else
        far.push_back(m_.names[i]);
    }
    if (near.empty() || far.empty()) return;
    for (size_t i = 0; i < m_.names.size(); ++i)
      if (!is_smi_gpu(m_.names[i])) parts_.devices[i].rail = -1;
    for (size_t r = 0; r < near.size(); ++r) parts_.devices[near[r]].rail = static_cast<int32_t>(r);
    parts_.fact("nics_beside_no_gpu", static_cast<int64_t>(far.size()),
                some_of(far) + " share no PCIe switch with a GPU: for storage or management");
  }

  void assumptions() {
    const int64_t pcie_gen = arch_ == GpuArch::volta                                   ? 3
                             : arch_ == GpuArch::hopper || arch_ == GpuArch::blackwell ? 5
                                                                                       : 4;
    if (switched_)
      parts_.fact("nvswitched", 1,
                  "a row has more NVLinks than a GPU: they go through NVSwitches, shown as one");
    if (guessed_ && links_ > 0)
      parts_.fact("assumed_nvlink_gbs", 25,
                  "taken: 25 GB/s a NVLink, as up to Hopper (Blackwell has 50: --gpu b200-sxm)");
    parts_.fact("assumed_pcie_generation", pcie_gen,
                "taken: PCIe " + std::to_string(pcie_gen) +
                    ".0 x16 everywhere; the matrix names no generation");
  }

  const SmiMatrix& m_;
  ImportParts parts_;
  bool switched_ = false, guessed_ = false;
  int32_t links_ = 0;  // of a GPU
  GpuArch arch_ = GpuArch::other;
};

}  // namespace

ImportedTopology import_nvidia_smi(std::string_view text, const std::string& file,
                                   std::optional<GpuArch> arch) {
  const ImportText lines = lines_of(text, file);
  const SmiMatrix matrix = read_smi_matrix(lines);
  return NodeBuilder(matrix, arch).build();
}

}  // namespace stepcast
