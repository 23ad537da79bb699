// SPDX-License-Identifier: Apache-2.0
// The matrix of `nvidia-smi topo -m`, cell by cell.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/import_text.h"

namespace stepcast {

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

}  // namespace stepcast
