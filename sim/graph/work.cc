// SPDX-License-Identifier: Apache-2.0
// The one spelling of every enumerator that reaches a user.

#include "sim/graph/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "sim/check.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast {
namespace {

template <size_t N, class Enum>
std::string_view pick(const std::array<std::string_view, N>& names, Enum e) {
  return names[static_cast<size_t>(e)];
}

}  // namespace

std::string_view name_of(DType t) {
  static constexpr std::array<std::string_view, 8> kNames{"fp32", "tf32", "fp16", "bf16",
                                                          "fp8",  "int8", "fp4",  "uint8"};
  return pick(kNames, t);
}

double bytes_per_element(DType t) {
  static constexpr std::array<double, 8> kBytes{4, 4, 2, 2, 1, 1, 0.5, 1};
  return kBytes[static_cast<size_t>(t)];
}

std::string_view name_of(Axis a) {
  static constexpr std::array<std::string_view, kAxes> kNames{
      "none", "tp",  "cp",   "ep",    "dp",      "pp",       "embedding", "model",
      "etp",  "edp", "data", "shard", "replica", "cp_inner", "cp_outer"};
  return pick(kNames, a);
}

std::string_view name_of(WorkKind k) {
  static constexpr std::array<std::string_view, 15> kNames{
      "gemm",           "grouped_gemm", "attention_forward", "attention_backward", "memory_bound",
      "expert_wait",    "host_copy",    "host_adam",         "all_reduce",         "all_gather",
      "reduce_scatter", "all_to_all",   "broadcast",         "send_recv",          "shift"};
  return pick(kNames, k);
}

std::string_view name_of(Kernel k) {
  static constexpr std::array<std::string_view, 34> kNames{"none",
                                                           "embedding",
                                                           "embedding_backward",
                                                           "layer_norm",
                                                           "layer_norm_backward",
                                                           "rms_norm",
                                                           "rms_norm_backward",
                                                           "rotary",
                                                           "rotary_backward",
                                                           "bias_add",
                                                           "bias_backward",
                                                           "softmax",
                                                           "softmax_backward",
                                                           "dropout",
                                                           "dropout_backward",
                                                           "bias_dropout_add",
                                                           "bias_dropout_add_backward",
                                                           "activation",
                                                           "activation_backward",
                                                           "add",
                                                           "transpose",
                                                           "cross_entropy",
                                                           "cross_entropy_backward",
                                                           "cast",
                                                           "fill",
                                                           "copy",
                                                           "scale",
                                                           "grad_norm",
                                                           "adam",
                                                           "router",
                                                           "router_backward",
                                                           "permute",
                                                           "unpermute",
                                                           "quantize"};
  return pick(kNames, k);
}

std::string_view name_of(GemmLayout l) {
  static constexpr std::array<std::string_view, 3> kNames{"tn", "nn", "nt"};
  return pick(kNames, l);
}

std::string_view name_of(Protocol p) {
  static constexpr std::array<std::string_view, kProtocols> kNames{"LL", "LL128", "Simple"};
  return pick(kNames, p);
}

std::string_view name_of(Origin o) {
  static constexpr std::array<std::string_view, kOrigins> kNames{
      "measured", "interpolated", "extrapolated", "fitted", "roofline"};
  return pick(kNames, o);
}

std::string_view name_of(Stream s) {
  static constexpr std::array<std::string_view, kStreams> kNames{"compute", "tp", "cp",
                                                                 "ep",      "dp", "copy"};
  return pick(kNames, s);
}

std::string_view name_of(Phase p) {
  static constexpr std::array<std::string_view, 6> kNames{
      "forward", "backward_input", "backward_weight", "recompute", "gradient_sync", "optimizer"};
  return pick(kNames, p);
}

std::string_view name_of(MemoryCategory c) {
  static constexpr std::array<std::string_view, kMemoryCategories> kNames{
      "parameters",          "gradients", "optimizer_state", "activations",
      "recompute_workspace", "workspace", "communication",   "logits"};
  return pick(kNames, c);
}

std::string_view name_of(HostCall c) {
  static constexpr std::array<std::string_view, kHostCalls> kNames{"kernel",
                                                                   "eager_forward",
                                                                   "eager_backward",
                                                                   "product_forward",
                                                                   "product_backward",
                                                                   "view",
                                                                   "node",
                                                                   "function",
                                                                   "frame",
                                                                   "script",
                                                                   "fork",
                                                                   "region",
                                                                   "checkpoint",
                                                                   "module",
                                                                   "unshard",
                                                                   "collective",
                                                                   "transfer",
                                                                   "synchronize",
                                                                   "graph"};
  return pick(kNames, c);
}

std::string_view name_of(AttentionKernel k) {
  static constexpr std::array<std::string_view, 4> kNames{"table", "flash-1", "flash-1-triton",
                                                          "flash-2"};
  return pick(kNames, k);
}

std::string describe(const Work& w) {
  std::string s(w.kind == WorkKind::memory_bound ? name_of(w.kernel) : name_of(w.kind));
  const auto times = [](int64_t a, int64_t b, int64_t c) {
    return fmt::format("{}x{}x{}", a, b, c);
  };
  switch (w.kind) {
    case WorkKind::gemm:
    case WorkKind::grouped_gemm:
      if (w.batch > 1) s += fmt::format(" {} of", w.batch);
      s += fmt::format(" {} {} {}", times(w.m, w.n, w.k), name_of(w.dtype), name_of(w.layout));
      if (w.accumulate) s += " accumulate";
      if (w.accumulate && w.sum != DType::fp32) s += fmt::format(" in {}", name_of(w.sum));
      break;
    case WorkKind::attention_forward:
    case WorkKind::attention_backward:
      s += fmt::format(" {} x {} heads {}", w.batch, w.heads, times(w.m, w.n, w.k));
      if (w.value_dim > 0) s += fmt::format("/{}", w.value_dim);
      s += fmt::format(" {}{}", name_of(w.dtype), w.causal ? " causal" : "");
      if (w.attention != AttentionKernel::table) s += fmt::format(" {}", name_of(w.attention));
      break;
    case WorkKind::send_recv:
      s += fmt::format(" stage rank {} to {}, {} B", w.from, w.to, w.bytes.value);
      break;
    default:
      if (is_communication(w.kind)) s += fmt::format(" {}", name_of(w.axis));
      s += fmt::format(" {} B", w.bytes.value);
  }
  return s;
}

Launch& Launch::add(HostCall c, int times) {
  uint16_t& count = calls[static_cast<size_t>(c)];
  STEPCAST_CHECK(times >= 0 && count + times <= UINT16_MAX, "a number of calls");
  count = static_cast<uint16_t>(count + times);
  return *this;
}

std::string describe(const Launch& launch) {
  std::string s;
  for (size_t c = 0; c < kHostCalls; ++c) {
    if (launch.calls[c] == 0) continue;
    if (!s.empty()) s += " + ";
    if (launch.calls[c] > 1) s += fmt::format("{} ", launch.calls[c]);
    s += name_of(static_cast<HostCall>(c));
  }
  return s.empty() ? "nothing" : s;
}

double expected_destinations(int64_t places, int64_t experts, int64_t chosen) {
  STEPCAST_CHECK(places > 0 && chosen >= 0 && chosen <= experts, "a choice of so many experts");
  const auto all = static_cast<double>(experts);
  const auto parts = static_cast<double>(places);
  double none = 1;  // that no expert in one of the places is chosen
  for (int64_t i = 0; i < chosen; ++i) {
    const auto taken = static_cast<double>(i);
    none *= std::max(0.0, all - all / parts - taken) / (all - taken);
  }
  return parts * (1 - none);
}

}  // namespace stepcast
