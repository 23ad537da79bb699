// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table_text.h"

#include <algorithm>

#include "calibrate/table_reader.h"

namespace stepcast {

std::string_view name_of(CopyKind k) {
  static constexpr std::array<std::string_view, 3> kNames{"h2d", "d2h", "d2d"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(FitFlag f) {
  static constexpr std::array<std::string_view, 3> kNames{"none", "partial", "scattered"};
  return kNames[static_cast<size_t>(f)];
}

std::string_view name_of(Family f) {
  static constexpr std::array<std::string_view, kFamilies> kNames{"gemm", "attention", "memory",
                                                                  "launch", "collective"};
  return kNames[static_cast<size_t>(f)];
}

bool is_source_key(std::string_view key) {
  const auto fits = [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != ',' && c != '\x7f';
  };
  return !key.empty() && std::ranges::all_of(key, fits);
}

TableText parse_table_text(std::string_view text, const std::string& file_name,
                           const TableReadOptions& options) {
  return TableReader(text, file_name, options).read();
}

}  // namespace stepcast
