// SPDX-License-Identifier: Apache-2.0
// Operators of PyTorch whose kernels are rows of a table: what their arguments say.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include "calibrate/kineto_trace.h"
#include "sim/graph/work.h"

namespace stepcast {

// A row of gemm, or of attention (heads > 0).
struct OpShape {
  DType dtype{};
  GemmLayout layout{};
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t heads = 0, kv_heads = 0;
  bool causal = false, backward = false;
  auto operator<=>(const OpShape&) const = default;
};

// Whether an operator of this name may be one.
bool is_shaped_op(std::string_view name);

// nullopt: the shape or the layout is not recorded, or tables have no rows of its form.
std::optional<OpShape> shape_of_op(const TraceOp& op);

}  // namespace stepcast
