// SPDX-License-Identifier: Apache-2.0
// What a row of a cost table answers for: all of it but time, spread and source.  Two rows of one
// shape answer the same question; rows are written in the order of their shapes, so that products
// of one weight and sizes of one curve stand together.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>

#include "calibrate/table_text.h"
#include "sim/work.h"

namespace stepcast {

inline auto shape(const GemmRow& r) {
  return std::tuple(r.dtype, r.layout, r.batch, r.n, r.k, r.m);
}
inline auto shape(const AttentionRow& r) {
  return std::tuple(r.backward, r.dtype, r.causal, r.k, r.heads, r.kv_heads, r.n, r.m, r.batch);
}
inline auto shape(const MemoryRow& r) {
  return std::tuple(r.kernel, r.bytes);
}
inline auto shape(const CopyRow& r) {
  return std::tuple(r.kind, r.bytes);
}
inline auto shape(const CollectiveRow& r) {
  return std::tuple(r.kind, r.nodes, r.ranks, r.ranks_per_node, r.nic_gbs, r.bytes);
}
inline auto shape(const FitRow& r) {
  return std::tuple(r.kind, r.dtype);
}

// Whether its nodes have the ranks: all nodes of a group have as many.  REQUIRES: sizes up to 2^50.
inline bool is_group(const CollectiveRow& r) {
  return r.ranks % r.nodes == 0 && r.ranks / r.nodes == r.ranks_per_node;
}

// What the row is the time of.  Weight gradients (nt) are measured as frameworks run them: added
// into an fp32 buffer.
Work work_of(const GemmRow& r);

// The shapes of works, times left out.  Of a grouped product: `batch` products in one launch.  Of
// attention: `k` is the head dimension of keys, whatever that of values is.
GemmRow gemm_row(const Work& w);
AttentionRow attention_row(const Work& w);

// The row up to its time: "gemm,bf16,tn,4096,576,5120,1".
std::string row_text(const GemmRow& r);
std::string row_text(const AttentionRow& r);
std::string row_text(const MemoryRow& r);
std::string row_text(const CopyRow& r);
std::string row_text(const CollectiveRow& r);
std::string row_text(const FitRow& r);

// The shortest decimal, without an exponent, that reads back as the same double.
std::string number_text(double value);

// With so many significant digits.
std::string number_text(double value, int digits);

std::string comma_joined(std::initializer_list<std::string_view> fields);

}  // namespace stepcast
