// SPDX-License-Identifier: Apache-2.0
#include "model/host/library_memory.h"

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

constexpr int64_t kGroupedStreams = 4;

// Whether Transformer Engine makes a product itself: those of linear layers; not the head, the
// router, scores and context.
bool by_engine(const Plan& plan, const Work& w, OpRole role) {
  if (plan.kernels.modules != Modules::transformer_engine) return false;
  return w.heads == 0 && role != OpRole::head && role != OpRole::router;
}

struct Products {
  bool torch = false, engine = false, grouped = false;
  std::vector<std::pair<int64_t, int64_t>> shapes;  // of weights with placeholders; a handful
};

bool has_placeholders(const Plan& plan) {
  return plan.kernels.gradient_placeholders && plan.kernels.modules == Modules::transformer_engine;
}

Products products_of(const OpGraph& graph, const Plan& plan, const std::vector<PassId>& passes) {
  const bool placeholders = has_placeholders(plan);
  Products found;
  for (const PassId id : passes) {
    for (const Op& op : graph.passes[static_cast<size_t>(id)].ops) {
      const Work& w = graph.works[static_cast<size_t>(op.work)];
      const bool grouped = w.kind == WorkKind::grouped_gemm;
      if (w.kind != WorkKind::gemm && !grouped) continue;
      const bool engine = by_engine(plan, w, op.role);
      found.torch = found.torch || !engine;
      found.engine = found.engine || engine;
      found.grouped = found.grouped || (grouped && engine);
      if (!placeholders) continue;
      const std::pair shape{w.m, w.n};
      if (w.accumulate && w.layout == GemmLayout::nt &&
          std::ranges::find(found.shapes, shape) == found.shapes.end())
        found.shapes.push_back(shape);
    }
  }
  return found;
}

}  // namespace

Bytes library_memory(const OpGraph& graph, const Plan& plan, const std::vector<PassId>& passes) {
  const Kernels& k = plan.kernels;
  const Products found = products_of(graph, plan, passes);
  const int64_t threads = plan.trains() ? 2 : 1;
  Bytes bytes{};
  if (found.torch) bytes += k.blas_workspace * threads;
  if (found.engine) bytes += k.engine_workspace;
  if (found.grouped) bytes += k.engine_workspace * kGroupedStreams;
  for (const auto& [m, n] : found.shapes)
    bytes += Bytes{m * n} * static_cast<int64_t>(bytes_per_element(plan.precision.params));
  return bytes;
}

}  // namespace stepcast
