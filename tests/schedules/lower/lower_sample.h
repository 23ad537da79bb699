// SPDX-License-Identifier: Apache-2.0
// A small model and prices that make the times of its passes easy to reckon with.
#pragma once

#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "tests/model/sample.h"

namespace stepcast::sample {

inline Transformer small_gpt() {
  Transformer model = gpt(8, 512, 8, 1024, 256);
  model.tied = false;
  return model;
}

// Nothing but matrix products takes time.
inline Prices only_products(const OpGraph& graph) {
  Prices prices;
  for (const Work& work : graph.works)
    prices.by_work.push_back(
        {Time{work.kind == WorkKind::gemm ? work.m + work.n + work.k : 0}, Origin::measured, ""});
  return prices;
}

// Of the first pass whose name begins so.  Throws std::runtime_error if there is none.
inline Time cost_of(const OpGraph& graph, const Prices& prices, std::string_view pass_name) {
  for (const Pass& pass : graph.passes) {
    if (!pass.name.starts_with(pass_name)) continue;
    return std::accumulate(pass.ops.begin(), pass.ops.end(), Time{}, [&](Time sum, const Op& op) {
      return sum + prices.by_work[static_cast<size_t>(op.work)].time;
    });
  }
  throw std::runtime_error("no pass " + std::string(pass_name));
}

}  // namespace stepcast::sample
