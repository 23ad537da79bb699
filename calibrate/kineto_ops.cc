// SPDX-License-Identifier: Apache-2.0
#include "calibrate/kineto_ops.h"

#include <array>

namespace stepcast {
namespace {

constexpr int64_t kLongestSide = int64_t{1} << 30;

// Which argument is what (native_functions.yaml of PyTorch 2.x; flash_attn 2.x).
struct ProductOp {
  std::string_view name;
  size_t a;  // b is the next one
  bool batched;
};
constexpr std::array<ProductOp, 5> kProducts{{{"aten::mm", 0, false},
                                              {"aten::addmm", 1, false},
                                              {"aten::_scaled_mm", 0, false},
                                              {"aten::bmm", 0, true},
                                              {"aten::baddbmm", 1, true}}};

struct AttentionOp {
  std::string_view name;
  size_t query;  // key and value are the next two
  size_t causal;
  bool heads_first;  // [batch, heads, length, dim]; else [batch, length, heads, dim]
  bool backward;
};
constexpr std::array<AttentionOp, 10> kAttentions{{
    {"aten::_flash_attention_forward", 0, 8, false, false},
    {"aten::_scaled_dot_product_flash_attention", 0, 4, true, false},
    {"aten::_scaled_dot_product_cudnn_attention", 0, 6, true, false},
    {"aten::_cudnn_attention_forward", 0, 10, true, false},
    {"flash_attn::_flash_attn_forward", 0, 5, false, false},
    {"aten::_flash_attention_backward", 1, 11, false, true},
    {"aten::_scaled_dot_product_flash_attention_backward", 1, 11, true, true},
    {"aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, true, true},
    {"aten::_cudnn_attention_backward", 1, 14, true, true},
    {"flash_attn::_flash_attn_backward", 1, 11, false, true},
}};

template <class Table>
auto find_op(const Table& table, std::string_view name) -> const typename Table::value_type* {
  for (const auto& op : table)
    if (op.name == name) return &op;
  return nullptr;
}

// The shape of an argument with `rank` sizes, all of them above 0; nullptr if it has another one.
const std::vector<int64_t>* sizes_of(const std::vector<TraceArgument>& all, size_t i, size_t rank) {
  if (i >= all.size() || all[i].nested || all[i].sizes.size() != rank) return nullptr;
  for (const int64_t s : all[i].sizes)
    if (s < 1 || s > kLongestSide) return nullptr;
  return &all[i].sizes;
}

// Whether the last two dimensions lie transposed; nullopt: strides are not recorded or neither is
// dense.
std::optional<bool> transposed(const TraceOp& op, size_t i, const std::vector<int64_t>& sizes) {
  if (i >= op.strides.size() || op.strides[i].sizes.size() != sizes.size()) return std::nullopt;
  const std::vector<int64_t>& strides = op.strides[i].sizes;
  const size_t last = sizes.size() - 1;
  if (strides[last] == 1 || sizes[last] == 1) return false;
  if (strides[last - 1] == 1 || sizes[last - 1] == 1) return true;
  return std::nullopt;
}

std::optional<DType> type_of(const TraceOp& op, size_t i) {
  if (i >= op.types.size()) return std::nullopt;
  return foreign_dtype(op.types[i].word);
}

std::optional<OpShape> product(const TraceOp& op, const ProductOp& form) {
  const size_t rank = form.batched ? 3 : 2;
  const std::vector<int64_t>* a = sizes_of(op.dims, form.a, rank);
  const std::vector<int64_t>* b = sizes_of(op.dims, form.a + 1, rank);
  if (a == nullptr || b == nullptr || (*a)[rank - 1] != (*b)[rank - 2]) return std::nullopt;
  if (form.batched && (*a)[0] != (*b)[0]) return std::nullopt;
  const std::optional<DType> type = type_of(op, form.a);
  const std::optional<bool> a_lies = transposed(op, form.a, *a);
  const std::optional<bool> b_lies = transposed(op, form.a + 1, *b);
  if (!type || !a_lies || !b_lies || (*a_lies && *b_lies)) return std::nullopt;
  OpShape s;
  s.dtype = *type;
  // x W^T is the forward product, dy W the input gradient, dy^T x the weight gradient.
  s.layout = *b_lies ? GemmLayout::tn : *a_lies ? GemmLayout::nt : GemmLayout::nn;
  s.m = (*a)[rank - 2];
  s.k = (*a)[rank - 1];
  s.n = (*b)[rank - 1];
  s.batch = form.batched ? (*a)[0] : 1;
  return s;
}

std::optional<OpShape> attention(const TraceOp& op, const AttentionOp& form) {
  const std::vector<int64_t>* q = sizes_of(op.dims, form.query, 4);
  const std::vector<int64_t>* k = sizes_of(op.dims, form.query + 1, 4);
  const std::vector<int64_t>* v = sizes_of(op.dims, form.query + 2, 4);
  if (q == nullptr || k == nullptr || v == nullptr) return std::nullopt;
  const std::optional<DType> type = type_of(op, form.query);
  if (!type || form.causal >= op.concrete.size()) return std::nullopt;
  const std::string& causal = op.concrete[form.causal].word;
  if (causal != "True" && causal != "False") return std::nullopt;
  const size_t heads = form.heads_first ? 1 : 2, length = form.heads_first ? 2 : 1;
  const int64_t dims = (*q)[3] + (*v)[3];
  if (dims % 2 != 0 || (*k)[length] != (*v)[length] || (*q)[0] != (*k)[0]) return std::nullopt;
  OpShape s;
  s.dtype = *type;
  s.causal = causal == "True";
  s.backward = form.backward;
  s.batch = (*q)[0];
  s.heads = (*q)[heads];
  s.kv_heads = (*k)[heads];
  s.m = (*q)[length];
  s.n = (*k)[length];
  s.k = dims / 2;
  return s;
}

}  // namespace

bool is_shaped_op(std::string_view name) {
  return find_op(kProducts, name) != nullptr || find_op(kAttentions, name) != nullptr;
}

std::optional<OpShape> shape_of_op(const TraceOp& op) {
  if (const ProductOp* form = find_op(kProducts, op.name)) return product(op, *form);
  if (const AttentionOp* form = find_op(kAttentions, op.name)) return attention(op, *form);
  return std::nullopt;
}

}  // namespace stepcast
