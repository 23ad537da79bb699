// SPDX-License-Identifier: Apache-2.0
#include "calibrate/row_shape.h"

#include <array>
#include <charconv>

#include "sim/check.h"

namespace stepcast {
namespace {

std::string text(int64_t value) {
  return std::to_string(value);
}

}  // namespace

Work work_of(const GemmRow& r) {
  Work w;
  w.kind = WorkKind::gemm;
  w.dtype = r.dtype;
  w.layout = r.layout;
  w.accumulate = r.layout == GemmLayout::nt;
  w.m = r.m;
  w.n = r.n;
  w.k = r.k;
  w.batch = r.batch;
  w.flops = {2.0 * static_cast<double>(r.batch) * static_cast<double>(r.m) *
             static_cast<double>(r.n) * static_cast<double>(r.k)};
  return w;
}

GemmRow gemm_row(const Work& w) {
  GemmRow r;
  r.dtype = w.dtype;
  r.layout = w.layout;
  r.m = w.m;
  r.n = w.n;
  r.k = w.k;
  r.batch = w.batch;
  return r;
}

AttentionRow attention_row(const Work& w) {
  AttentionRow r;
  r.backward = w.kind == WorkKind::attention_backward;
  r.dtype = w.dtype;
  r.causal = w.causal;
  r.heads = w.heads;
  r.kv_heads = w.kv_heads;
  r.m = w.m;
  r.n = w.n;
  r.k = w.k;
  r.batch = w.batch;
  return r;
}

std::string number_text(double value) {
  std::array<char, 400> buffer{};  // the longest fixed decimal of a double has 325 characters
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  STEPCAST_CHECK(end.ec == std::errc(), "a number of a cost table");
  return {buffer.data(), end.ptr};
}

std::string number_text(double value, int digits) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::general, digits);
  STEPCAST_CHECK(end.ec == std::errc(), "a number of a cost table");
  return {buffer.data(), end.ptr};
}

std::string comma_joined(std::initializer_list<std::string_view> fields) {
  std::string all;
  for (const std::string_view f : fields) {
    if (!all.empty()) all += ',';
    all += f;
  }
  return all;
}

std::string row_text(const GemmRow& r) {
  return comma_joined({"gemm", name_of(r.dtype), name_of(r.layout), text(r.m), text(r.n), text(r.k),
                       text(r.batch)});
}

std::string row_text(const AttentionRow& r) {
  return comma_joined({"attention", r.backward ? "bwd" : "fwd", name_of(r.dtype),
                       r.causal ? "1" : "0", text(r.heads), text(r.kv_heads), text(r.m), text(r.n),
                       text(r.k), text(r.batch)});
}

std::string row_text(const MemoryRow& r) {
  return comma_joined({"memory", name_of(r.kernel), text(r.bytes)});
}

std::string row_text(const CopyRow& r) {
  return comma_joined({"copy", name_of(r.kind), text(r.bytes)});
}

std::string row_text(const CollectiveRow& r) {
  return comma_joined({"collective", name_of(r.kind), text(r.ranks), text(r.nodes),
                       text(r.ranks_per_node), number_text(r.nic_gbs), text(r.bytes)});
}

std::string row_text(const FitRow& r) {
  return comma_joined({"fit", name_of(r.kind), name_of(r.dtype)});
}

}  // namespace stepcast
