// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/attention_grid.h"

#include <array>
#include <cstdint>

#include "calibrate/table/table_text.h"

namespace stepcast::measure {
namespace {

struct Dimensions {
  int64_t query = 0, value = 0;  // of a head
};

constexpr std::array<int64_t, 3> kSequences{2048, 4096, 8192};
constexpr int64_t kHeads = 32;

// Flops as the forecast counts them: queries times the keys they see, two products forward, five
// backward.
Work attention(bool backward, Dimensions dim, int64_t kv_heads, int64_t seq, bool causal) {
  Work w;
  w.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward;
  w.causal = causal;
  w.m = w.n = seq;
  w.k = dim.query;
  w.value_dim = dim.value == dim.query ? 0 : dim.value;
  w.heads = kHeads;
  w.kv_heads = kv_heads;
  const auto s = static_cast<double>(seq);
  const int64_t width = backward ? 3 * dim.query + 2 * dim.value : dim.query + dim.value;
  w.flops.value = 2 * s * (causal ? s - s / 2 : s) * static_cast<double>(width * kHeads);
  return w;
}

Work product(GemmLayout layout, int64_t m, int64_t n, int64_t k) {
  Work w = work_of(GemmRow{DType::bf16, layout, m, n, k, kHeads});
  w.accumulate = false;
  w.heads = kHeads;
  return w;
}

Work softmax(Kernel kernel, int64_t seq) {
  Work w;
  w.kernel = kernel;
  // 16-bit scores read and written; backward probabilities too.
  w.bytes.value = kHeads * seq * seq * 2 * (kernel == Kernel::softmax ? 2 : 3);
  return w;
}

}  // namespace

std::vector<Work> attention_grid(bool full) {
  std::vector<Work> works;
  const auto add = [&](Dimensions dim, int64_t kv_heads, bool causal) {
    for (const int64_t seq : kSequences)
      for (const bool backward : {false, true})
        works.push_back(attention(backward, dim, kv_heads, seq, causal));
  };
  add({128, 128}, 8, true);
  if (!full) return works;
  add({128, 128}, 8, false);
  for (const Dimensions dim : {Dimensions{128, 128}, Dimensions{64, 64}, Dimensions{192, 128}})
    for (const bool causal : {true, false}) add(dim, kHeads, causal);
  return works;
}

std::vector<Work> unfused_attention_grid(bool full) {
  std::vector<Work> works;
  for (const int64_t dim : {int64_t{128}, int64_t{64}}) {
    for (const int64_t seq : kSequences) {
      works.push_back(product(GemmLayout::tn, seq, seq, dim));
      works.push_back(product(GemmLayout::nn, seq, dim, seq));
      works.push_back(product(GemmLayout::nt, seq, dim, seq));
    }
    if (!full) break;
  }
  for (const int64_t seq : kSequences)
    for (const Kernel kernel : {Kernel::softmax, Kernel::softmax_backward})
      works.push_back(softmax(kernel, seq));
  return works;
}

}  // namespace stepcast::measure
