// SPDX-License-Identifier: Apache-2.0
// Reads the text of a cost table line by line and collects what is wrong with it.  Use
// parse_table_text (table_text.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/table_text.h"
#include "sim/diagnostic.h"

namespace stepcast {

class TableReader {
 public:
  TableReader(std::string_view text, const std::string& file);

  // Throws InputError.
  TableText read();

 private:
  bool next_line();
  size_t split();  // row_ into fields_; returns how many there are, more than fit included
  void problem(std::string code, std::string_view at, std::string message, std::string help = "");

  int64_t whole(std::string_view field, std::string_view what, int64_t least = 1);
  double number(std::string_view field, std::string_view what, bool zero = false);
  DType dtype(std::string_view field);
  WorkKind kind(std::string_view field);
  uint16_t source(std::string_view field, const TableText& table);

  void header(TableText& out);
  void share(std::string_view value, TableText& out);
  void new_source(std::string_view value, TableText& out);

  void row(TableText& out);
  void gemm(TableText& out);
  void attention(TableText& out);
  void memory(TableText& out);
  void collective(TableText& out);
  void fit(TableText& out);
  void ratio(TableText& out);
  void launch(TableText& out);
  void interference(TableText& out);

  void finish(const TableText& out, int64_t rows);
  template <class Row, class Key>
  void refuse_duplicates(const std::vector<Row>& rows, std::string_view family, Key key);
  void find_duplicate(std::string_view family);

  std::string_view text_;
  std::string file_;
  size_t position_ = 0;
  int line_ = 0;
  std::string_view row_;
  std::array<std::string_view, 12> fields_;
  uint16_t last_source_ = 0;
  int64_t format_ = 0;
  std::optional<int64_t> announced_;
  std::vector<Diagnostic> problems_;
};

}  // namespace stepcast
