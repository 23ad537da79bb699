// SPDX-License-Identifier: Apache-2.0
// A cost table as `stepcast calibrate` shows it: where it is from, what it covers, how well its
// fits hold.  Plain data; the texts, JSON and CSV of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/format.h"
#include "report/json/writer.h"

namespace stepcast {

// Rows that are alike: products of one type and layout, one kernel, one group of a collective.
struct TableGroup {
  std::string family;  // "gemm"
  std::string what;    // "gemm bf16 tn", "all_reduce, 8 ranks on 1 node"
  int64_t measured = 0, derived = 0;
  std::string range;                    // of shapes: "m 64-32,768  n 768-57,344  k 768-28,672"
  double least_us = 0, longest_us = 0;  // times
  double spread = 0;                    // median, of rows that state one; 0: none does
  bool operator==(const TableGroup&) const = default;
};

struct TableSourceLine {
  std::string key, text;
  bool derived = false;
  int64_t rows = 0;
};

// A smooth form, or the alpha-beta line of a collective.
struct TableFit {
  std::string what;                       // "gemm bf16"
  double t0_us = 0, tflops = 0, gbs = 0;  // 0: that term is absent
  int64_t rows = 0;                       // 0: not stated
  double median_error = 0, p90_error = 0;
  std::string flag;    // "rate only"; empty: nothing is to be said
  std::string source;  // its key; empty: fitted for this view
};

// One number: a ratio, a launch.
struct TableNumber {
  std::string what, value, source;
};

// A row against what the fit of its family says of its shape.
struct TableRow {
  std::string family, shape, source;  // "gemm", "bf16 tn 4096 4096 4096 1", "azure"
  bool derived = false;
  double us = 0, fitted_us = 0;  // 0: no fit
};

struct TableView {
  std::string title;  // file, or "shipped"
  std::string gpu, about, software, hash;
  std::vector<std::string> conditions;
  double nvlink_gbs = 0;  // 0: not stated
  bool in_network_reduction = false;
  std::string shared;  // "gemm, attention of h100-sxm"; may be empty
  std::vector<TableGroup> groups;
  std::vector<TableFit> fits, lines;  // smooth forms; of collectives, gbs is the bus bandwidth
  std::vector<TableNumber> numbers;
  std::vector<TableSourceLine> sources;
  std::vector<TableRow> rows;  // for the CSV
};

// A screen or two, sources last.  Ends with '\n'.
std::string table_text(const TableView& view, const TextStyle& style = {});
// Rows by group and fits alone: what `calibrate fit` says of its result.
std::string table_summary(const TableView& view, const TextStyle& style = {});

// Everything but the rows, into an object that is open.
void write_table_view(JsonWriter& json, const TableView& view);

// A line for each row: family,shape,time_us,fitted_us,time_over_fitted,origin,source.
std::string table_csv(const TableView& view);

// "12.4 us", "3.02 ms": a time of a table.
std::string micros_text(double us);

}  // namespace stepcast
