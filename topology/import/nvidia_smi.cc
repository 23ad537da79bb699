// SPDX-License-Identifier: Apache-2.0
// import_nvidia_smi: first the matrix is read cell by cell, then devices and links are made of it.
//
// An example, of four GPUs (the lines behind the matrix are left out):
//
//          GPU0  GPU1  GPU2  GPU3
//   GPU0    X    NV4   NV4   SYS        GPU0 and GPU1 are each other's NVLink neighbours, GPU3 is
//   GPU1   NV4    X    SYS   NV4        behind the other socket
//   ...
//
// Devices that a cell joins at most by PIX are one group: they hang on one PCIe switch.  The groups
// by PXB, which contain those by PIX, are below a common switch, and the groups by NODE on one CPU.
// So each device climbs from its innermost group outwards, and whoever comes first to a group adds
// the device that stands for it.
#include "sim/text.h"
#include "topology/import/imported_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster/components_internal.h"
#include "topology/import/import_internal.h"

namespace stepcast {
namespace {

// The matrix of `nvidia-smi topo -m`, cell by cell.

constexpr int kMostGpuLinks = 18;  // of one GPU, of any generation so far

// How far apart two devices are over PCIe; nvlink: not told.
enum class Near : uint8_t { self, pix, pxb, phb, node, sys, nvlink };

struct SmiCell {
  Near near = Near::self;
  int32_t nvlinks = 0;
};

struct SmiMatrix {
  std::vector<std::string> names;  // "GPU0", "NIC3", "mlx5_0"
  std::vector<int> lines;
  std::vector<std::vector<SmiCell>> cells;
  std::vector<std::string> numa;              // affinity as written; "" if there is none
  std::map<std::string, std::string> legend;  // NIC0 -> mlx5_0
};

// A device of the matrix: "GPU0", and not a NIC.
bool is_smi_gpu(std::string_view name);

// Throws InputError: E320 if there is no matrix, E321 for a word or row that is none of it, E322 if
// rows are missing.
SmiMatrix read_smi_matrix(const ImportText& text);

constexpr size_t kMostDevices = 512;

// GPU0, NIC3, or a NIC by its own name: mlx5_0, rocep145s0.
bool is_device(std::string_view word) {
  if (is_smi_gpu(word) || (word.starts_with("NIC") && is_digits(word.substr(3)))) return true;
  if (word.front() < 'a' || word.front() > 'z') return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::optional<SmiCell> cell_of(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, Near>, 7> kWords = {{{"X", Near::self},
                                                                        {"PIX", Near::pix},
                                                                        {"PXB", Near::pxb},
                                                                        {"PHB", Near::phb},
                                                                        {"NODE", Near::node},
                                                                        {"SYS", Near::sys},
                                                                        {"SOC", Near::sys}}};
  for (const auto& [name, near] : kWords)
    if (word == name) return SmiCell{near, 0};
  constexpr size_t kLongest = 4;  // NV18
  if (word.size() > kLongest || !word.starts_with("NV") || !is_digits(word.substr(2))) return {};
  const int64_t links = whole_number(word.substr(2));
  if (links < 1 || links > kMostGpuLinks) return {};
  return SmiCell{Near::nvlink, static_cast<int32_t>(links)};
}

// The word with which `word` begins, if a device or a cell is followed by more: "SYS" of "SYSSYS".
// Nothing of a long word, which takes long to look through.
std::string_view glued_part(std::string_view word) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  for (size_t n = word.size() - 1; n > 0; --n) {
    const std::string_view part = word.substr(0, n), rest = word.substr(n);
    const bool cells = cell_of(part) && (cell_of(rest) || !glued_part(rest).empty());
    const bool device = (is_smi_gpu(part) || part.starts_with("NIC")) && is_device(part) &&
                        !is_digits(rest.substr(0, 1));
    if (cells || device) return part;
  }
  return {};
}

// Escape sequences become blanks: columns stay.
std::string without_escapes(std::string_view line) {
  std::string s(line);
  for (size_t at = s.find('['); at != std::string::npos; at = s.find('[', at + 1)) {
    const size_t end = s.find_first_not_of("0123456789;", at + 1);
    if (end == std::string::npos || s[end] != 'm') continue;
    const size_t begin = at > 0 && s[at - 1] == '\x1b' ? at - 1 : at;
    std::fill(s.begin() + static_cast<long>(begin), s.begin() + static_cast<long>(end) + 1, ' ');
  }
  return s;
}

class MatrixReader {
 public:
  explicit MatrixReader(const ImportText& text) : text_(text) {}

  // Throws InputError.
  SmiMatrix read() {
    size_t line = 0;
    while (line < text_.lines.size() && !header(line)) ++line;
    if (matrix_.names.empty())
      throw InputError(problem_at(text_, "E320", 1, 1, 1, "no matrix of `nvidia-smi topo -m` here",
                                  "its first line names the devices: GPU0 GPU1 ..."));
    throw_if_any(problems_);
    for (++line; matrix_.cells.size() < matrix_.names.size(); ++line) {
      if (line < text_.lines.size() && trim(text_.lines[line]).empty()) continue;
      if (line == text_.lines.size() || !row(line)) cut_off(line);
    }
    throw_if_any(problems_);
    for (; line < text_.lines.size(); ++line) legend(line);
    return std::move(matrix_);
  }

 private:
  void problem(size_t line, const ImportWord& word, std::string message, std::string help = "") {
    problems_.push_back(problem_at(text_, "E321", static_cast<int>(line) + 1, word.column,
                                   word.text.size(), std::move(message), std::move(help)));
  }

  // A word that is neither a device nor a cell.
  void strange(size_t line, const ImportWord& word, const char* wanted) {
    const std::string_view part = glued_part(word.text);
    std::string shown(word.text.substr(0, 40));
    if (part.empty())
      problem(line, word, "'" + shown + "' is no " + wanted,
              "X, NV1 to NV18, PIX, PXB, PHB, NODE or SYS");
    else
      problem(line, word, "'" + shown + "' is two words that have run together",
              "a blank is missing after '" + std::string(part) + "'");
  }

  // The line that names the columns.
  bool header(size_t line) {
    const std::string plain = without_escapes(text_.lines[line]);
    const std::vector<ImportWord> words = words_of(plain);
    if (words.empty() || !words[0].text.starts_with("GPU")) return false;
    if (words.size() > 1 && cell_of(words[1].text)) return false;  // a row
    if (!is_smi_gpu(words[0].text) && glued_part(words[0].text).empty()) return false;
    for (const ImportWord& w : words) {
      if (w.text == "CPU" || w.text == "NUMA" || w.text == "GPU") break;
      if (is_device(w.text))
        matrix_.names.emplace_back(w.text);
      else
        strange(line, w, "device");
    }
    if (matrix_.names.empty()) matrix_.names.emplace_back("GPU0");  // problems_ says why
    if (matrix_.names.size() > kMostDevices)
      problem(line, words[0], "more than 512 devices in one node");
    return true;
  }

  // False if this line is no row of the matrix.
  bool row(size_t line) {
    const std::string plain = without_escapes(text_.lines[line]);
    const std::vector<ImportWord> words = words_of(plain);
    const std::string& wanted = matrix_.names[matrix_.cells.size()];
    if (words.empty()) return false;
    if (words[0].text != wanted) {
      if (!is_device(words[0].text)) return false;
      problem(line, words[0], "the row of " + wanted + " should stand here",
              "rows stand in the order of the columns");
      throw_if_any(problems_);
    }
    const size_t n = matrix_.names.size();
    std::vector<SmiCell> cells;
    for (size_t i = 1; i < words.size() && cells.size() < n; ++i) {
      const std::optional<SmiCell> cell = cell_of(words[i].text);
      if (!cell) strange(line, words[i], "cell of the matrix");
      if (!cell && glued_part(words[i].text).empty()) break;
      cells.push_back(cell.value_or(SmiCell{}));
    }
    if (cells.size() < n && problems_.empty()) {
      problem(line, words.back(),
              fmt::format("the row of {} has {} cells, not {}", wanted, cells.size(), n),
              "the line was cut off, or the header names other devices");
    }
    cells.resize(n);
    const size_t self = matrix_.cells.size();
    if (problems_.empty() && cells[self].near != Near::self)
      problem(line, words[self + 1], "the cell of " + wanted + " and itself should be X");
    for (size_t i = 0; i < n && problems_.empty(); ++i) {
      if (i != self && cells[i].near == Near::self)
        problem(line, words[i + 1], wanted + " is not " + matrix_.names[i]);
    }
    matrix_.numa.push_back(problems_.empty() && words.size() > n + 1 && is_smi_gpu(wanted)
                               ? numa_of(plain, words[n])
                               : "");
    matrix_.cells.push_back(std::move(cells));
    matrix_.lines.push_back(static_cast<int>(line) + 1);
    return true;
  }

  // The second of the columns behind the matrix, which may be empty between tabs.
  static std::string numa_of(std::string_view line, const ImportWord& last_cell) {
    std::string_view rest =
        line.substr(static_cast<size_t>(last_cell.column) - 1 + last_cell.text.size());
    std::string_view numa;
    if (rest.find('\t') != std::string_view::npos) {
      std::vector<std::string_view> fields;
      for (size_t tab = rest.find('\t'); tab != std::string_view::npos; tab = rest.find('\t')) {
        fields.push_back(trim(rest.substr(0, tab)));
        rest.remove_prefix(tab + 1);
      }
      fields.push_back(trim(rest));
      if (fields.size() > 2) numa = fields[2];  // [0] is what stands before the first tab
    } else if (const std::vector<ImportWord> words = words_of(rest); words.size() > 1) {
      numa = words[1].text;
    }
    return numa == "N/A" ? "" : std::string(numa);
  }

  void legend(size_t line) {
    const std::vector<ImportWord> words = words_of(text_.lines[line]);
    if (words.size() != 2 || !words[0].text.starts_with("NIC") || !words[0].text.ends_with(':'))
      return;
    matrix_.legend[std::string(words[0].text.substr(0, words[0].text.size() - 1))] = words[1].text;
  }

  [[noreturn]] void cut_off(size_t line) {
    throw_if_any(problems_);
    const auto at = static_cast<int>(std::min(line + 1, text_.lines.size()));
    throw InputError(problem_at(text_, "E322", at, 1, 1,
                                fmt::format("the matrix has {} rows for {} devices: the row of {} "
                                            "is missing",
                                            matrix_.cells.size(), matrix_.names.size(),
                                            matrix_.names[matrix_.cells.size()])));
  }

  const ImportText& text_;
  SmiMatrix matrix_;
  std::vector<Diagnostic> problems_;
};

bool is_smi_gpu(std::string_view name) {
  return name.starts_with("GPU") && is_digits(name.substr(3));
}

SmiMatrix read_smi_matrix(const ImportText& text) {
  return MatrixReader(text).read();
}

// Groups of devices that are at most so far apart.
std::vector<uint32_t> groups(const SmiMatrix& m, Near near) {
  const auto n = static_cast<uint32_t>(m.names.size());
  GraphEdges edges;
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t j = 0; j < n; ++j) {
      const SmiCell& c = m.cells[i][j];
      const bool told = i != j && c.near <= near;
      // NVLinks hide the PCIe between two GPUs; their sockets may still tell.
      const bool same_socket =
          near >= Near::node && c.near == Near::nvlink && m.numa[i] == m.numa[j];
      if (told || same_socket) edges.emplace_back(i, j);
    }
  }
  return component_roots(n, edges);
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

// The first generation whose GPUs have this many NVLinks; `other` for none.
GpuArch oldest_with(int64_t nvlinks) {
  const auto& all = kGpuArchitectures;
  for (size_t i = 0; i < all.size() && nvlinks > 0; ++i)
    if (all[i].nvlinks >= nvlinks) return static_cast<GpuArch>(i);
  return GpuArch::other;
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
    arch_ = arch.value_or(oldest_with(links_));
    guessed_ = !arch;
  }

  ImportedTopology build() {
    add_devices();
    add_pcie();
    add_nvlinks();
    warn_of_asymmetry();
    warn_of_uneven_nvlinks(builder_);
    place_nics();
    assumptions();
    return finished(std::move(builder_));
  }

 private:
  void add_devices() {
    int32_t nics = 0;
    for (size_t i = 0; i < m_.names.size(); ++i) {
      const std::string& name = m_.names[i];
      if (is_smi_gpu(name)) {
        builder_.add(DeviceKind::gpu, "gpu" + name.substr(3), 0, m_.lines[i]);
      } else {
        const auto known = m_.legend.find(name);
        std::string own = known == m_.legend.end() ? "" : " " + known->second;
        builder_.add(DeviceKind::nic, name.starts_with("NIC") ? "nic" + name.substr(3) + own : name,
                     0, m_.lines[i]);
        builder_.devices.back().rail = nics++;
      }
    }
  }

  LinkSpeed pcie() const {
    return pcie_speed(pcie_gigatransfers(architecture(arch_).pcie_generation), 16);
  }

  // A device for each group of `of` that has more than one member of `members`.
  uint32_t group_device(std::map<size_t, uint32_t>& made, size_t group, DeviceKind kind,
                        const char* name) {
    const auto [it, fresh] = made.try_emplace(group, 0);
    if (fresh) it->second = builder_.add(kind, fmt::format("{}{}", name, builder_.count(kind)));
    return it->second;
  }

  void add_pcie() {
    const size_t n = m_.names.size();
    const std::vector<uint32_t> pix = groups(m_, Near::pix), pxb = groups(m_, Near::pxb),
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
        builder_.join(at, up, LinkKind::pcie, pcie());
        at = up;
        return fresh;
      };
      if (in_pix[pix[i]] > 1 && !climb(low, pix[i])) continue;
      if (below[pxb[i]].size() > 1 && !climb(high, pxb[i])) continue;
      builder_.join(at, cpu, LinkKind::pcie, pcie());
    }
    for (auto a = cpus.begin(); a != cpus.end(); ++a)
      for (auto b = std::next(a); b != cpus.end(); ++b)
        builder_.join(a->second, b->second, LinkKind::host, {pcie().nominal, {}});
  }

  void add_nvlinks() {
    const size_t n = m_.names.size();
    if (links_ == 0) return;
    const LinkSpeed one = nvlink_speed(arch_);
    if (switched_) {
      const uint32_t plane = builder_.add(DeviceKind::nvswitch, "nvswitch");
      for (size_t i = 0; i < n; ++i) {
        if (const int32_t links = most_in_row(m_.cells[i]); links > 0)
          builder_.join(static_cast<uint32_t>(i), plane, LinkKind::nvlink, one, links);
      }
      return;
    }
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        if (const int32_t links = m_.cells[i][j].nvlinks; links > 0)
          builder_.join(static_cast<uint32_t>(i), static_cast<uint32_t>(j), LinkKind::nvlink, one,
                        links);
      }
    }
  }

  void warn_of_asymmetry() {
    for (size_t i = 0; i < m_.names.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const SmiCell &a = m_.cells[i][j], &b = m_.cells[j][i];
        if (a.near == b.near && a.nvlinks == b.nvlinks) continue;
        builder_.warn(m_.lines[i], "the rows of " + m_.names[j] + " and " + m_.names[i] +
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
      if (!is_smi_gpu(m_.names[i])) builder_.devices[i].rail = -1;
    for (size_t r = 0; r < near.size(); ++r)
      builder_.devices[near[r]].rail = static_cast<int32_t>(r);
    builder_.fact("nics_beside_no_gpu", static_cast<int64_t>(far.size()),
                  some_of(far) + " share no PCIe switch with a GPU: for storage or management");
  }

  void assumptions() {
    const int64_t pcie_gen = architecture(arch_).pcie_generation;
    if (switched_)
      builder_.fact("nvswitched", 1,
                    "a row has more NVLinks than a GPU: they go through NVSwitches, shown as one");
    if (guessed_ && links_ > 0)
      builder_.fact("assumed_nvlink_gbs", 25,
                    "taken: 25 GB/s a NVLink, as up to Hopper (Blackwell has 50: --gpu b200-sxm)");
    builder_.fact(
        "assumed_pcie_generation", pcie_gen,
        fmt::format("taken: PCIe {}.0 x16 everywhere; the matrix names no generation", pcie_gen));
  }

  const SmiMatrix& m_;
  TopologyBuilder builder_;
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
