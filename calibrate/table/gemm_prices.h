// SPDX-License-Identifier: Apache-2.0
// Time of a matrix product from measured ones.  gemm_prices.cc goes through an example.
//
//   1. the row of this very shape, layout and type;
//   2. rows of the same (n, k) on both sides of m, at most a factor of 1.25 apart: the ratio to the
//      smooth roofline, linear in log m;
//   3. the 16 nearest rows, where a factor in m counts four times as much as one in n or k, and
//      idle tensor cores in the last wave of tiles count as well (idle_shares): the mean
//      residual.  Where rows of the same (n, k) lie below and above m, what these differ from their
//      own neighbours is added.
// 1 needs no fit.  In 3 a layout of less than 8 rows is tn times the layout's ratio.  Batched
// products have rows of their own.
// fp16 and bf16 share rows: tensor cores run them at one speed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calibrate/table/neighbors.h"
#include "calibrate/table/table_price.h"
#include "calibrate/table/table_text.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"

namespace stepcast {

// Bytes that a product or fused attention reads and writes at least once: work.bytes where it says
// them, else each operand and result once.
Bytes operand_bytes(const Work& work);

// t0 + sqrt(c^2 + m^2), microseconds: c = flops / tflops, m = operand_bytes / gbs.
double smooth_time(const Work& work, const FitRow& fit);

// fp16 -> bf16, everything else as it is.
DType table_dtype(DType t);

const FitRow* find_fit(const std::vector<FitRow>& fits, WorkKind kind, DType dtype);

// The same as a part of a price.
PriceForm form_of(const Work& work, const FitRow& fit);

// A product with a side up to this is skinny: it is below two tiles of 128.
constexpr int64_t kSkinnySide = 256;

// How a product's output falls into tiles and waves.
//
// Each multiprocessor computes one tile of the output at a time; tiles that the shape does not fill
// and multiprocessors that the last wave leaves without a tile are idle (NVIDIA, Matrix
// Multiplication Background User's Guide, "Tile Quantization" and "Wave Quantization", which also
// lists the tile sizes).  Which size the library picks is not known, so a shape is described by
// what each of several would leave idle: for tiles of 128x128, 128x256, 256x128 and 64x128 the
// share of the multiprocessors' time, 0 to 1.  Here for tests.  REQUIRES: all > 0.
using IdleShares = std::array<double, 4>;
IdleShares idle_shares(int64_t m, int64_t n, int64_t batch, int64_t sms);

class GemmPrices {
 public:
  GemmPrices() = default;
  explicit GemmPrices(const TableText& table);

  // `sms`: of the GPU that the rows were measured on; 0 = not known: waves do not count.  `parts`
  // takes how the answer is made, if given.  REQUIRES: work.kind == gemm; m, n, k, batch > 0.
  std::optional<TablePrice> time(const Work& work, int64_t sms, PriceParts* parts = nullptr) const;
  // Of a grouped one: by the rows of batched products; where none is near, as efficient as the
  // product of all groups' rows with one matrix, whose tiles are as many, with what is read and
  // written more added.  REQUIRES: as time, kind grouped_gemm.
  std::optional<TablePrice> grouped_time(const Work& work, int64_t sms,
                                         PriceParts* parts = nullptr) const;
  void mark_derived();

 private:
  struct Row {
    int64_t m = 0, n = 0, k = 0, batch = 1;
    double log_m = 0;
    double us = 0;
    double ratio = 0;  // to the smooth roofline
    bool derived = false;
    bool in_training = false;
    DType dtype{};
  };
  struct RowAt {
    int64_t m = 0;
    uint32_t row = 0;
  };
  struct Weights {  // what products of one weight matrix share
    int64_t batch = 0, n = 0, k = 0;
    bool operator==(const Weights&) const = default;
  };
  struct Hash {
    size_t operator()(const Weights& w) const;
  };
  using Range = std::pair<uint32_t, uint32_t>;
  // Rows of one type, layout and of one batch or of any more, in the order of the table.
  struct Group {
    DType dtype{};
    GemmLayout layout{};
    bool batched = false;
    std::vector<Row> rows;
    std::vector<Neighbor> points;  // of the same index
    NeighborIndex index;
    std::vector<RowAt> by_m;                              // those of the same weights together
    std::unordered_map<Weights, Range, Hash> by_weights;  // of by_m; is only looked up
    Place low{}, high{};                                  // hull of the points
  };
  struct Beside {  // rows of the same (n, k): the last below m, the first from m on; -1 = none
    int64_t below = -1, from = -1;
  };

  const Group* find(DType dtype, GemmLayout layout, bool batched) const;
  // Without a fit its time alone counts.
  static void add(Group& group, const GemmRow& row, const FitRow* fit, const TableSource& source);
  static void finish(Group& group);
  // Whether batched rows say something of this product.
  static bool is_near(const Group& group, Beside rows, const Work& work);
  static Beside beside(const Group& group, const Work& work);
  static PriceRow part_of(const Group& group, int64_t row);
  static std::optional<TablePrice> exact(const Group& group, Beside rows, const Work& work,
                                         PriceParts* parts);
  static std::optional<TablePrice> along_m(const Group& group, Beside rows, const Work& work,
                                           double smooth, PriceParts* parts);
  static Residual residual(const Group& group, const Place& at, const Row& shape, double prior,
                           int64_t sms, uint32_t without, PriceParts* parts);
  // What rows of the same weights on both sides differ from their own neighbours, log2.
  double own_residual(const Group& group, Beside rows, double log_m, int64_t sms,
                      PriceParts* parts) const;
  TablePrice from_neighbors(const Group& group, Beside rows, const Work& work, double smooth,
                            int64_t sms, PriceParts* parts) const;
  TablePrice far_from_rows(const Work& work, double smooth, PriceParts* parts) const;
  double prior(int64_t m, int64_t n, int64_t k) const;

  std::vector<Group> groups_;
  std::vector<FitRow> fits_;
  std::array<double, 3> layout_ratio_{1, 1, 1};  // by GemmLayout
  double skinny_ = 0;                            // log2
};

}  // namespace stepcast
