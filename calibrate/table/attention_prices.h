// SPDX-License-Identifier: Apache-2.0
// Time of fused attention from measured rates.
//
// The rate (flops over time) of the nearest measured shapes, where near means alike in parallel
// work (query rows x heads x sequences), key length, head dimension and mask.  Head dimensions
// that differ for keys and values stand in the table as their mean: same flops.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/table/neighbors.h"
#include "calibrate/table/table_price.h"
#include "calibrate/table/table_text.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"

namespace stepcast {

// 4 m n k a head and sequence, half of it under a causal mask; backward 2.5 times that (it
// recomputes the scores).  Rectangular causal shapes count half as well.
Flops attention_flops(const AttentionRow& row);

class AttentionPrices {
 public:
  AttentionPrices() = default;
  explicit AttentionPrices(const TableText& table);

  // REQUIRES: kind attention_forward or attention_backward; m, n, k, heads, batch, flops > 0.
  // `parts` takes how the answer is made, if given.
  std::optional<TablePrice> time(const Work& work, PriceParts* parts = nullptr) const;
  void mark_derived();

 private:
  struct Group {  // of one pass and type
    bool backward = false;
    DType dtype{};
    FitRow fit;
    std::vector<AttentionRow> rows;
    std::vector<Neighbor> points;  // of the same index
    NeighborIndex index;
    std::vector<std::pair<uint64_t, uint32_t>> by_shape;  // hash and index, ascending
    Place low{}, high{};
  };

  std::vector<Group> groups_;
};

// Fused attention of other versions than the one that a cost table measured: the rows of `kernel`
// on a GPU (calibrate/data/attention/KERNEL.GPU.csv), nullptr if there are none.  Read at first use
// and kept; safe to call from several threads.
const AttentionPrices* shipped_attention(AttentionKernel kernel, std::string_view gpu_name);

}  // namespace stepcast
