// SPDX-License-Identifier: Apache-2.0
// A table before it is text or HTML: the same cells in both.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/format.h"

namespace stepcast {

// The first row has the titles.
struct CellTable {
  std::vector<std::vector<std::string>> rows;
  std::string sides;  // of each column: '<' flush left, '>' flush right

  explicit CellTable(size_t lines) : rows(lines + 1) {}

  // REQUIRES: a cell for each line.
  void add(std::string title, char side, std::vector<std::string> cells) {
    rows[0].push_back(std::move(title));
    sides += side;
    for (size_t i = 0; i < cells.size(); ++i) rows[i + 1].push_back(std::move(cells[i]));
  }
  std::string text(const TextStyle& style) const { return titled_table(rows, sides, style); }
};

}  // namespace stepcast
