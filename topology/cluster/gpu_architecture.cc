// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/gpu_architecture.h"

#include <map>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/csv.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> gpu_architecture_files();

namespace {

constexpr double kGigabyte = 1e9;

// One cell of the table; a shipped file is right, so that what is wrong with it is a bug.
struct TraitCell {
  const CsvRow* row = nullptr;
  size_t column = 0;

  std::string_view text() const { return row->cells[column]; }
  double number() const { return row->number(column); }
  int64_t whole() const { return row->number<int64_t>(column); }
  bool flag() const { return whole() != 0; }
  double bandwidth() const { return number() * kGigabyte; }
  // Three numbers between blanks.
  ByNodes by_nodes() const {
    ByNodes values{};
    std::string_view rest = text();
    for (double& value : values) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const CsvRow one{row->line, {rest.substr(0, end)}};
      value = one.number(0) * kGigabyte;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    STEPCAST_CHECK(rest.empty(), "three numbers for a trait of groups by nodes");
    return values;
  }
};

class ArchitectureTable {
 public:
  ArchitectureTable() {
    const std::string_view text = gpu_architecture_files().front().second;
    const size_t begin = text.find("\ntrait,") + 1;
    const std::string_view header = text.substr(begin, text.find('\n', begin) - begin);
    for (const CsvRow& row : csv_rows(text, header))
      STEPCAST_CHECK(rows_.emplace(row.cells[0], row).second, "a trait has one row");
    std::string_view names = header.substr(header.find(',') + 1);
    for (size_t column = 1; !names.empty(); ++column) {
      const size_t end = std::min(names.find(','), names.size());
      add(std::string(names.substr(0, end)), column);
      names.remove_prefix(std::min(end + 1, names.size()));
    }
    STEPCAST_CHECK(read_.size() == rows_.size(), "a trait that nothing reads");
  }

  const std::vector<GpuArchitecture>& all() const { return all_; }
  const std::string& choices() const { return choices_; }

 private:
  TraitCell cell(const char* trait, size_t column) {
    const auto row = rows_.find(trait);
    STEPCAST_CHECK(row != rows_.end(), "every trait has a row");
    read_.emplace(trait, true);
    return {&row->second, column};
  }

  void add(std::string name, size_t column) {
    const auto of = [&](const char* trait) { return cell(trait, column); };
    GpuArchitecture a;
    a.name = std::move(name);
    a.compute_capability = of("compute_capability").whole();
    a.nvlink_generation = of("nvlink_generation").whole();
    a.nvlinks = of("nvlinks").whole();
    a.nvlink = of("nvlink_gbs").bandwidth();
    a.nccl_nvlink = of("nccl_nvlink_gbs").bandwidth();
    a.nvlink_fraction = of("nccl_nvlink_gbs").number() / of("nvlink_gbs").number();
    a.pcie_generation = of("pcie_generation").whole();
    a.ll_max = of("ll_max_gbs").by_nodes();
    a.ring_ll128_channel = of("ring_ll128_channel_gbs").bandwidth();
    a.tree_channel = of("tree_channel_gbs").by_nodes();
    a.tree_ll128_channel = of("tree_ll128_channel_gbs").by_nodes();
    a.nvls_tree_channel = of("nvls_tree_channel_gbs").by_nodes();
    a.nvls_efficiency = of("nvls_efficiency").number();
    a.ring_simple_penalty = of("ring_simple_penalty").number();
    a.exchange_fraction = of("exchange_fraction").number();
    a.p2p_fraction = of("p2p_fraction").number();
    a.p2p_nic_fraction = of("p2p_nic_fraction").number();
    a.correction_class = of("correction_class").text();
    a.own_nvls_factor = of("own_nvls_factor").flag();
    a.roofline = of("roofline").text();
    a.table_has_flash2 = of("table_has_flash2").flag();
    a.blas_workspace_kib = of("blas_workspace_kib").whole();
    a.engine_workspace_mib = of("engine_workspace_mib").whole();
    a.fp8_any_layout = of("fp8_any_layout").flag();
    a.mxfp8 = of("mxfp8").flag();
    a.error_class = of("error_class").text();
    if (a.error_class == "-") a.error_class.clear();
    if (!choices_.empty()) choices_ += '|';
    choices_ += a.name;
    all_.push_back(std::move(a));
  }

  std::map<std::string, CsvRow, std::less<>> rows_;
  std::map<std::string, bool> read_;
  std::vector<GpuArchitecture> all_;
  std::string choices_;
};

const ArchitectureTable& architecture_table() {
  static const ArchitectureTable table;
  return table;
}

}  // namespace

std::span<const GpuArchitecture> gpu_architectures() {
  return architecture_table().all();
}

const GpuArchitecture& architecture(GpuArch arch) {
  const std::span<const GpuArchitecture> all = gpu_architectures();
  STEPCAST_CHECK(static_cast<size_t>(arch) < all.size(), "an architecture of the table");
  return all[static_cast<size_t>(arch)];
}

std::string_view name_of(GpuArch arch) {
  return architecture(arch).name;
}

std::optional<GpuArch> gpu_arch_named(std::string_view name) {
  const std::span<const GpuArchitecture> all = gpu_architectures();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name == name) return static_cast<GpuArch>(i);
  return std::nullopt;
}

GpuArch gpu_arch_of_capability(int64_t capability) {
  const std::span<const GpuArchitecture> all = gpu_architectures();
  GpuArch newest = GpuArch::other;
  int64_t highest = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t own = all[i].compute_capability;
    if (own <= highest || own > capability) continue;
    highest = own;
    newest = static_cast<GpuArch>(i);
  }
  return newest;
}

const char* gpu_architecture_choices() {
  return architecture_table().choices().c_str();
}

}  // namespace stepcast
