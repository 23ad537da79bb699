// SPDX-License-Identifier: Apache-2.0
// Reads the text of a cost table: its header (table_header.cc) and its rows (table_reader.cc), and
// collects what is wrong with them.  Use parse_table_text (table_text.h).  One reader reads one
// text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/row_reader.h"
#include "calibrate/table_text.h"
#include "sim/text.h"

namespace stepcast {

// What checksums are over, in the order of a written table: the header's keys, and the rows by the
// word they begin with.
constexpr std::array<std::string_view, 11> kChecked{
    "header", "gemm",         "attention",    "memory", "copy", "collective",
    "launch", "graph_launch", "interference", "fit",    "ratio"};
constexpr int64_t kNewestTableFormat = 2;
constexpr std::string_view kTableMagic = "# stepcast cost table";

class TableReader {
 public:
  TableReader(std::string_view text, const std::string& file, const TableReadOptions& options);

  // Throws InputError.
  TableText read();

 private:
  // What rows and checksum lines say of one of kChecked.
  struct Checked {
    uint64_t hash = kHashStart;  // of its lines, each with a line feed
    int first_line = 0;          // 0: none
    std::string_view first_row;
    std::optional<std::string_view> stated;  // by the header
  };

  // Of the fields of a row.
  int64_t whole(size_t at, std::string_view what, int64_t least = 1);
  double positive(size_t at, std::string_view what);
  double from_zero(size_t at, std::string_view what);
  double time(size_t at);
  DType dtype(size_t at);
  uint16_t source(size_t at, const TableText& table);
  double spread(size_t at);  // of the optional field there

  void header(TableText& out);
  void share(std::string_view value, TableText& out);
  void new_source(std::string_view value, TableText& out);
  void checksum(std::string_view value);
  void add_to_checksum(size_t checked);

  void row(TableText& out);
  template <class Row>
  void add(std::vector<Row>& rows, const Row& row);
  void gemm(TableText& out);
  void attention(TableText& out);
  void memory(TableText& out);
  void collective(TableText& out);
  void fit(TableText& out);
  void ratio(TableText& out);
  void copy(TableText& out);
  void launch(TableText& out);
  void graph_launch(TableText& out);
  void interference(TableText& out);

  void finish(const TableText& out, int64_t rows);
  void compare_checksums();
  template <class Row>
  void refuse_duplicates(const std::vector<Row>& rows, std::string_view family);
  void find_duplicate(std::string_view family);
  struct Form;
  static std::span<const Form> forms();
  static size_t least_fields(std::string_view family);

  std::string_view text_;
  std::string file_;
  TableReadOptions options_;
  RowReader in_;
  size_t count_ = 0;  // of fields in the row
  std::array<Checked, kChecked.size()> checked_;
  uint16_t last_source_ = 0;
  int64_t format_ = 0;
  std::optional<int64_t> announced_;
};

}  // namespace stepcast
