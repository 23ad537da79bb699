// SPDX-License-Identifier: Apache-2.0
// Time of a matrix product from measured ones.
//
//   1. the row of this very shape, layout and type;
//   2. rows of the same (n, k) on both sides of m: the residual against the smooth roofline,
//      linear in log m;
//   3. the 8 nearest rows in (log m, log n, log k): residual by inverse distance.
// A layout without rows is tn times the layout's ratio.  Batched products have rows of their own.
// fp16 and bf16 share rows: the tensor cores run them at one speed.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/neighbors.h"
#include "calibrate/table_text.h"
#include "sim/price.h"
#include "sim/work.h"

namespace stepcast {

// A price before it has the table's name in front of its basis.
struct TablePrice {
  double us = 0;
  Origin origin = Origin::extrapolated;
  std::string basis;
};

// t0 + sqrt(c^2 + m^2), microseconds: c = flops / tflops, m = operand_bytes / gbs.
double smooth_time(const Work& work, const FitRow& fit);

// fp16 -> bf16, everything else as it is.
DType table_dtype(DType t);

const FitRow* find_fit(const std::vector<FitRow>& fits, WorkKind kind, DType dtype);

class GemmPrices {
 public:
  GemmPrices() = default;
  explicit GemmPrices(const TableText& table);

  // REQUIRES: work.kind == gemm; m, n, k, batch > 0.
  std::optional<TablePrice> time(const Work& work) const;
  // Of a grouped one: by the rows of batched products; where none is near, as efficient as the
  // product of all groups' rows with one matrix, whose tiles are as many, with what is read and
  // written more added.  REQUIRES: as time, kind grouped_gemm.
  std::optional<TablePrice> grouped_time(const Work& work) const;
  void mark_derived();

 private:
  struct Row {
    int64_t m = 0;
    double us = 0;
    double residual = 0;
    bool derived = false;
  };
  // Rows of one type, layout and of one batch or of any more.
  struct Group {
    std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<Row>> by_nk;  // batch, n, k; by m
    std::vector<Neighbor> points;
    std::array<double, 3> low{}, high{};  // hull in log2 of m, n, k
  };
  using Key = std::tuple<DType, GemmLayout, bool>;

  // `borrowed`: the rows are of another layout, whose times hold only relative to the smooth form.
  static std::optional<TablePrice> along_m(const Group& group, const Work& work, double smooth,
                                           bool borrowed);
  TablePrice from_neighbors(const Group& group, const Work& work, double smooth) const;

  std::map<Key, Group> groups_;
  std::vector<FitRow> fits_;
  std::array<double, 3> layout_ratio_{1, 1, 1};  // by GemmLayout
  double skinny_ = 1;
};

}  // namespace stepcast
