// SPDX-License-Identifier: Apache-2.0
// Context parallelism: how the ranks of cp share a sequence.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "scenarios/document/number.h"
#include "scenarios/schema/values.h"

namespace stepcast {

namespace {

void resolve_inner(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (plan.cp_comm != CpComm::hierarchical) {
    if (v.value("parallel.cp_inner") != nullptr)
      in.warnings.push_back("parallel.cp_inner has no effect without parallel.cp_comm: a2a+p2p");
    return;
  }
  if (!v.require("parallel.cp_inner", "ranks that exchange heads: cp_comm: a2a+p2p, cp_inner: 2"))
    return;
  plan.cp_inner = v.whole("parallel.cp_inner");
  if (plan.cp % plan.cp_inner == 0) return;
  v.refuse("E210", "parallel.cp_inner",
           fmt::format("cp_inner = {} does not divide cp = {}", plan.cp_inner, plan.cp),
           "cp_inner can be " + divisors(plan.cp));
  plan.cp_inner = 1;
}

// Heads are exchanged for tokens: each rank needs a whole number of them.
void check_heads(const PlanInputs& in, const Plan& plan) {
  if (in.model == nullptr) return;
  const int64_t ranks = plan.cp_comm == CpComm::all_to_all     ? plan.cp
                        : plan.cp_comm == CpComm::hierarchical ? plan.cp_inner
                                                               : 1;
  const Transformer& m = *in.model;
  const bool latent = m.kv_rank > 0;
  const auto splits = [&](const LayerShape& s) {
    return s.heads % (plan.tp * ranks) == 0 && (latent || s.kv_heads % (plan.tp * ranks) == 0);
  };
  const std::vector<LayerShape> shapes = all_shapes(m);
  const auto whole = std::ranges::find_if_not(shapes, splits);
  if (ranks == 1 || whole == shapes.end()) return;
  const bool inner = plan.cp_comm == CpComm::hierarchical;
  const std::string what = whole->heads % (plan.tp * ranks) == 0
                               ? fmt::format("num_key_value_heads = {}", whole->kv_heads)
                               : fmt::format("num_attention_heads = {}", whole->heads);
  in.values.refuse(
      "E210", inner ? Key("parallel.cp_inner") : Key("parallel.cp"),
      fmt::format("tp * {} = {} does not divide {}, which an all-to-all spreads over these ranks",
                  inner ? "cp_inner" : "cp", plan.tp * ranks, what),
      "cp_comm: p2p or allgather split no heads");
}

bool has_windows(const Transformer& m, int64_t seq) {
  for (int64_t layer = 0; layer < m.layers; ++layer) {
    const int64_t window = layer_kind(m, layer).window;
    if (window > 0 && window < seq) return true;
    if (m.windows.empty()) break;
  }
  return false;
}

// The length of the sequences, and the kernels that know their parts.
void check_parts(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  if (v.has("batch.seq") && plan.seq % (2 * plan.cp) != 0)
    v.refuse("E204", "batch.seq",
             fmt::format("batch.seq = {} is not a multiple of 2 * cp = {}, the parts of a sequence "
                         "that ranks hold two of",
                         plan.seq, 2 * plan.cp),
             nearest_multiples(plan.seq, 2 * plan.cp));
  else if (v.has("batch.seq") && plan.sp && plan.seq % plan.tp == 0 &&
           plan.seq / plan.cp % plan.tp != 0)
    v.refuse("E204", "batch.seq",
             fmt::format("batch.seq = {} is not a multiple of tp * cp = {}, over which it is split",
                         plan.seq, plan.tp * plan.cp),
             nearest_multiples(plan.seq, plan.tp * plan.cp) + "; or set parallel.sp to false");
  if (v.is("kernels.attention", false))
    v.refuse("E127", "kernels.attention",
             fmt::format("unfused attention does not go with cp = {}", plan.cp),
             "kernels: {attention: flash}");
  const bool ring = plan.cp_comm == CpComm::p2p || plan.cp_comm == CpComm::hierarchical;
  if (in.model != nullptr && ring && has_windows(*in.model, plan.seq))
    v.refuse("E127", "parallel.cp_comm",
             "sliding windows do not go with keys and values that travel around a ring",
             "cp_comm: allgather or a2a, as in Transformer Engine");
}

}  // namespace

void resolve_context(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  v.read("parallel.cp_comm", plan.cp_comm);
  if (plan.cp == 1) {
    for (const Key key : Keys{"parallel.cp_comm", "parallel.cp_inner"})
      if (v.value(key) != nullptr) in.warnings.push_back(key.path() + " has no effect: cp = 1");
    plan.cp_comm = CpComm::p2p;
    return;
  }
  resolve_inner(in, plan);
  plan.grid.cp_inner = plan.cp_inner;
  check_heads(in, plan);
  check_parts(in, plan);
}

}  // namespace stepcast
