// SPDX-License-Identifier: Apache-2.0
// resolve_context: how sequences are split over context-parallel ranks.
#include <string>

#include "scenarios/legal_numbers.h"
#include "scenarios/resolve_plan.h"

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
           "cp_inner = " + std::to_string(plan.cp_inner) +
               " does not divide cp = " + std::to_string(plan.cp),
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
  const bool heads = m.heads % (plan.tp * ranks) == 0;
  if (ranks == 1 || (heads && (latent || m.kv_heads % (plan.tp * ranks) == 0))) return;
  const bool inner = plan.cp_comm == CpComm::hierarchical;
  const std::string what = heads ? "num_key_value_heads = " + std::to_string(m.kv_heads)
                                 : "num_attention_heads = " + std::to_string(m.heads);
  in.values.refuse("E210", inner ? "parallel.cp_inner" : "parallel.cp",
                   std::string("tp * ") + (inner ? "cp_inner" : "cp") + " = " +
                       std::to_string(plan.tp * ranks) + " does not divide " + what +
                       ", which an all-to-all spreads over these ranks",
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
             "batch.seq = " + std::to_string(plan.seq) + " is not a multiple of 2 * cp = " +
                 std::to_string(2 * plan.cp) + ", the parts of a sequence that ranks hold two of",
             nearest_multiples(plan.seq, 2 * plan.cp));
  else if (v.has("batch.seq") && plan.sp && plan.seq % plan.tp == 0 &&
           plan.seq / plan.cp % plan.tp != 0)
    v.refuse("E204", "batch.seq",
             "batch.seq = " + std::to_string(plan.seq) + " is not a multiple of tp * cp = " +
                 std::to_string(plan.tp * plan.cp) + ", over which it is split",
             nearest_multiples(plan.seq, plan.tp * plan.cp) + "; or set parallel.sp to false");
  if (v.has("kernels.attention") && v.text("kernels.attention") != "flash")
    v.refuse("E127", "kernels.attention",
             "unfused attention does not go with cp = " + std::to_string(plan.cp),
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
  if (v.has("parallel.cp_comm")) {
    const std::string& way = v.text("parallel.cp_comm");
    plan.cp_comm = way == "a2a"         ? CpComm::all_to_all
                   : way == "allgather" ? CpComm::all_gather
                   : way == "a2a+p2p"   ? CpComm::hierarchical
                                        : CpComm::p2p;
  }
  if (plan.cp == 1) {
    for (const char* path : {"parallel.cp_comm", "parallel.cp_inner"})
      if (v.value(path) != nullptr)
        in.warnings.push_back(std::string(path) + " has no effect: cp = 1");
    plan.cp_comm = CpComm::p2p;
    return;
  }
  resolve_inner(in, plan);
  plan.grid.cp_inner = plan.cp_inner;
  check_heads(in, plan);
  check_parts(in, plan);
}

}  // namespace stepcast
