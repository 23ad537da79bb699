// SPDX-License-Identifier: Apache-2.0
// A cost table as it stands in its file: header and rows, checked one by one, nothing computed.
//
// docs/costs.md has the format; parse_table_text reads it, write_table.h writes it, cost_table.h
// answers questions with it.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/table/wires.h"
#include "sim/graph/work.h"

namespace stepcast {

// Where rows come from.  Derived: carried over from other hardware or computed from other rows; a
// price that uses one is at best an extrapolation.
//
// How its runs were made says what its rates are of, and that differs by more than most of a
// table's own errors: clocks rise on a GPU that rests between calls (A100: 278 TFLOP/s in single
// calls, 254 in a loop), zeros draw less power than random data (H200: 894 and 788 TFLOP/s), and
// the best of a hundred variants beats the library's choice (by 5 %: arXiv 2512.02551).
enum class TimingKind : uint8_t {
  unstated,
  single,    // each call waited for: clocks of a GPU that rests
  loop,      // back to back, the library's own choice of kernel
  layer,     // the same in its place among the kernels of a layer
  best,      // of many kernels, or of many shapes
  training,  // kernels of a step
};
constexpr size_t kTimingKinds = 6;
std::string_view name_of(TimingKind k);
enum class TimingData : uint8_t { unstated, random, low_entropy, constant };
constexpr size_t kTimingData = 4;
std::string_view name_of(TimingData d);

struct TableSource {
  std::string key;  // see is_source_key
  bool derived = false;
  std::string text;
  Wires wires{};  // that its collectives ran on
  TimingKind kind = TimingKind::unstated;
  TimingData data = TimingData::unstated;
  bool in_training() const { return kind == TimingKind::training; }
  bool operator==(const TableSource&) const = default;
};

// Not empty; no blanks, commas and control characters.
bool is_source_key(std::string_view key);

// In all rows: `us` is the time in microseconds; `spread` the interquartile range of its samples
// over their median, 0 = not stated; `source` an index into TableText::sources.
struct GemmRow {
  DType dtype{};
  GemmLayout layout{};
  int64_t m = 0, n = 0, k = 0, batch = 1;
  double us = 0;
  uint16_t source = 0;
  double spread = 0;
  bool operator==(const GemmRow&) const = default;
};

struct AttentionRow {
  bool backward = false;
  DType dtype{};
  bool causal = false;
  int64_t heads = 0, kv_heads = 0;
  int64_t m = 0, n = 0, k = 0, batch = 1;  // query length, key length, head dimension, sequences
  double us = 0;
  uint16_t source = 0;
  double spread = 0;
  bool operator==(const AttentionRow&) const = default;
};

struct MemoryRow {
  Kernel kernel{};
  int64_t bytes = 0;  // read + written
  double us = 0;
  uint16_t source = 0;
  double spread = 0;
  bool operator==(const MemoryRow&) const = default;
};

struct CollectiveRow {
  WorkKind kind{};
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0;
  double nic_gbs = 0;  // GB/s of one GPU's share of the NICs, one direction; 0 within a node
  int64_t bytes = 0;   // as nccl-tests counts it
  double us = 0;
  uint16_t source = 0;
  double spread = 0;
  bool operator==(const CollectiveRow&) const = default;
};

// nccl-tests gives each size two bandwidths, algorithm and bus (NVIDIA/nccl-tests
// doc/PERFORMANCE.md).  The bus bandwidth of n ranks is the other times bus_scale (n - 1) / n;
// times 1 where bus_scale is 0.
double bus_scale(WorkKind kind);
double bus_factor(WorkKind kind, int64_t ranks);

// Copies by the copy engines: from pinned host memory to the device, back, within the device.
enum class CopyKind : uint8_t { h2d, d2h, d2d };
std::string_view name_of(CopyKind k);

struct CopyRow {
  CopyKind kind{};
  int64_t bytes = 0;  // copied (within a device they are read and written)
  double us = 0;
  double spread = 0;
  uint16_t source = 0;
  bool operator==(const CopyRow&) const = default;
};

// What is to be known about a fit beside its residuals.
enum class FitFlag : uint8_t {
  none,
  partial,    // too few or too similar rows to tell every constant: t0 is assumed, gbs absent
  scattered,  // a tenth of the rows is off by more than a factor of two
};
std::string_view name_of(FitFlag f);

// Constants of a smooth form: t = t0 + sqrt(c^2 + m^2), c = flops / tflops, m = bytes / gbs.
struct FitRow {
  WorkKind kind{};
  DType dtype{};
  double t0_us = 0, tflops = 0, gbs = 0;  // 0: that term is absent
  uint16_t source = 0;
  int64_t rows = 0;                        // that were fitted; 0 = not stated
  double median_error = 0, p90_error = 0;  // of |measured / fitted - 1| over these rows
  FitFlag flag = FitFlag::none;
  bool operator==(const FitRow&) const = default;
};

// Families of rows that one table may take over from another one.
enum class Family : uint8_t { gemm, attention, memory, launch, collective };
constexpr int kFamilies = 5;
std::string_view name_of(Family f);

// Key of the source that the fits and ratios have which fit_table (fit_table.h) made of a table's
// own rows.
constexpr std::string_view kFitSource = "fit";

struct TableText {
  std::string gpu;
  std::string about;
  std::string software;                 // "CUDA 12.4, cuBLAS 12.4.5, NCCL 2.21.5"; may be empty
  std::vector<std::string> conditions;  // clocks, temperature, driver, date: one line each
  double power_watts = 0;               // limit of the GPU measured on; 0 = its rating
  double nvlink_gbs = 0;                // the collectives were measured with; 0 = not stated
  bool in_network_reduction = false;    // ... and whether the NVSwitches reduced (NVLS)
  std::string share_from;               // GPU whose table answers for `shared`; may be empty
  std::array<bool, kFamilies> shared{};

  std::vector<TableSource> sources;
  std::vector<GemmRow> gemms;
  std::vector<AttentionRow> attentions;
  std::vector<MemoryRow> memories;
  std::vector<CopyRow> copies;
  std::vector<CollectiveRow> collectives;
  std::vector<FitRow> fits;

  // Rows that are single numbers.
  std::optional<double> launch_us;        // host time of one kernel launch
  std::optional<double> graph_launch_us;  // host time of replaying one CUDA graph
  // Times beside each other over times alone: of compute, of a collective.
  std::optional<std::pair<double, double>> interference;
  // Time of a layout against tn at the same shape, and of GEMMs with a side of at most 256.
  std::optional<double> ratio_nn, ratio_nt, ratio_skinny;
  // Their sources and spreads; meaningless where the number is not there.
  uint16_t launch_source = 0, graph_launch_source = 0, interference_source = 0;
  uint16_t ratio_nn_source = 0, ratio_nt_source = 0, ratio_skinny_source = 0;
  double launch_spread = 0, graph_launch_spread = 0;

  bool operator==(const TableText&) const = default;
};

// Removes the sources that no row names.  REQUIRES: rows name existing sources.
void drop_unused_sources(TableText& table);

// The first line of a file, and the newest version of the format.
constexpr std::string_view kTableMagic = "# stepcast cost table";
constexpr int64_t kNewestTableFormat = 3;

// Numbers that a row may have: a time above a picosecond, in microseconds; sizes from 1.
constexpr double kLeastTime = 1e-6, kMostNumber = 1e15;
constexpr int64_t kMostSize = int64_t{1} << 50;

// What a file has checksums of, in the order in which it is written: the keys of its header, and
// the rows by the word that they begin with.
constexpr std::array<std::string_view, 11> kChecked{
    "header", "gemm",         "attention",    "memory", "copy", "collective",
    "launch", "graph_launch", "interference", "fit",    "ratio"};

// What a file has to be.
enum class TableFile : uint8_t {
  as_written,
  edited,  // rows may have been changed, added or removed since it was written, or it was never
           // finished: the number of rows and the checksums are not looked at
};

// Reads formats 1 to 3.  Throws InputError with all problems (at most 20):
//   E301 not a cost table         E306 an unknown word
//   E302 a newer format           E307 a row that was there before
//   E303 the header is incomplete E308 truncated, or rows added without counting them
//   E304 a row of the wrong form  E309 edited since it was written
//   E305 a number is missing, malformed or not positive
TableText parse_table_text(std::string_view text, const std::string& file_name,
                           TableFile state = TableFile::as_written);

// What a row of a cost table answers for: all of it but time, spread and source.  Two rows of one
// shape answer the same question; rows are written in the order of their shapes, so that products
// of one weight and sizes of one curve stand together.
inline auto shape(const GemmRow& r) {
  return std::tuple(r.dtype, r.layout, r.batch, r.n, r.k, r.m);
}
inline auto shape(const AttentionRow& r) {
  return std::tuple(r.backward, r.dtype, r.causal, r.k, r.heads, r.kv_heads, r.n, r.m, r.batch);
}
inline auto shape(const MemoryRow& r) {
  return std::tuple(r.kernel, r.bytes);
}
inline auto shape(const CopyRow& r) {
  return std::tuple(r.kind, r.bytes);
}
// The wires of a collective stand beside its source: see curve_of and row_key.
inline auto shape(const CollectiveRow& r) {
  return std::tuple(r.kind, r.nodes, r.ranks, r.ranks_per_node, r.nic_gbs, r.bytes);
}
inline auto shape(const FitRow& r) {
  return std::tuple(r.kind, r.dtype);
}

// All that rows of one curve of time over bytes have in common, and what no two rows of a table do.
inline auto curve_of(const TableText& t, const CollectiveRow& r) {
  const Wires wires = r.source < t.sources.size() ? t.sources[r.source].wires : Wires{};
  return std::tuple(r.kind, r.nodes, r.ranks, r.ranks_per_node, r.nic_gbs, wires);
}
inline auto row_key(const TableText& t, const CollectiveRow& r) {
  return std::tuple_cat(curve_of(t, r), std::tuple(r.bytes));
}
template <class Row>
auto row_key(const TableText&, const Row& r) {
  return shape(r);
}

// Whether ranks = nodes x ranks_per_node.  REQUIRES: sizes from 1 to 2^50.
inline bool is_group(const CollectiveRow& r) {
  return r.ranks % r.nodes == 0 && r.ranks / r.nodes == r.ranks_per_node;
}

// What the row is the time of.  Weight gradients (nt) are measured as frameworks run them: added
// into an fp32 buffer.
Work work_of(const GemmRow& r);

// The shapes of works, times left out.  Of a grouped product: `batch` products in one launch.  Of
// attention: `k` is the head dimension of keys, whatever that of values is.
GemmRow gemm_row(const Work& w);
AttentionRow attention_row(const Work& w);

// The row up to its time: "gemm,bf16,tn,4096,576,5120,1".
std::string row_text(const GemmRow& r);
std::string row_text(const AttentionRow& r);
std::string row_text(const MemoryRow& r);
std::string row_text(const CopyRow& r);
std::string row_text(const CollectiveRow& r);
std::string row_text(const FitRow& r);

// With `digits` significant digits, as printf's %g.
std::string number_text(double value, int digits);

// The number that number_text(value, digits) reads back as: tables have what was computed so.
double rounded(double value, int digits);

// "gemm,bf16,tn" of its fields.
std::string comma_joined(std::initializer_list<std::string_view> fields);

}  // namespace stepcast
