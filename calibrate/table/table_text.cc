// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {

double bus_scale(WorkKind kind) {
  switch (kind) {
    case WorkKind::all_reduce: return 2;
    case WorkKind::all_gather:
    case WorkKind::reduce_scatter:
    case WorkKind::all_to_all: return 1;
    default: return 0;
  }
}

double bus_factor(WorkKind kind, int64_t ranks) {
  const double scale = bus_scale(kind);
  const auto n = static_cast<double>(ranks);
  return scale == 0 ? 1 : scale * (n - 1) / n;
}

std::string_view name_of(CopyKind k) {
  static constexpr std::array<std::string_view, 3> kNames{"h2d", "d2h", "d2d"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(FitFlag f) {
  static constexpr std::array<std::string_view, 3> kNames{"none", "partial", "scattered"};
  return kNames[static_cast<size_t>(f)];
}

std::string_view name_of(TimingKind k) {
  static constexpr std::array<std::string_view, kTimingKinds> kNames{
      "unstated", "single", "loop", "layer", "best", "training"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(TimingData d) {
  static constexpr std::array<std::string_view, kTimingData> kNames{"unstated", "random",
                                                                    "low-entropy", "constant"};
  return kNames[static_cast<size_t>(d)];
}

std::string_view name_of(Family f) {
  static constexpr std::array<std::string_view, kFamilies> kNames{"gemm", "attention", "memory",
                                                                  "launch", "collective"};
  return kNames[static_cast<size_t>(f)];
}

bool is_source_key(std::string_view key) {
  const auto fits = [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != ',' && c != '\x7f';
  };
  return !key.empty() && std::ranges::all_of(key, fits);
}

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

std::string number_text(double value, int digits) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::general, digits);
  STEPCAST_CHECK(end.ec == std::errc(), "a number of a cost table");
  return {buffer.data(), end.ptr};
}

double rounded(double value, int digits) {
  return parse_number<double>(number_text(value, digits)).value_or(value);
}

std::string comma_joined(std::initializer_list<std::string_view> fields) {
  return join(std::span(fields.begin(), fields.size()), ",");
}

std::string row_text(const GemmRow& r) {
  return fmt::format("gemm,{},{},{},{},{},{}", name_of(r.dtype), name_of(r.layout), r.m, r.n, r.k,
                     r.batch);
}

std::string row_text(const AttentionRow& r) {
  return fmt::format("attention,{},{},{},{},{},{},{},{},{}", r.backward ? "bwd" : "fwd",
                     name_of(r.dtype), r.causal ? 1 : 0, r.heads, r.kv_heads, r.m, r.n, r.k,
                     r.batch);
}

std::string row_text(const MemoryRow& r) {
  return fmt::format("memory,{},{}", name_of(r.kernel), r.bytes);
}

std::string row_text(const CopyRow& r) {
  return fmt::format("copy,{},{}", name_of(r.kind), r.bytes);
}

std::string row_text(const CollectiveRow& r) {
  return fmt::format("collective,{},{},{},{},{},{}", name_of(r.kind), r.ranks, r.nodes,
                     r.ranks_per_node, exact_text(r.nic_gbs), r.bytes);
}

std::string row_text(const FitRow& r) {
  return fmt::format("fit,{},{}", name_of(r.kind), name_of(r.dtype));
}

void drop_unused_sources(TableText& t) {
  std::vector<uint16_t*> uses;
  const auto use_all = [&](auto& rows) {
    for (auto& r : rows) uses.push_back(&r.source);
  };
  use_all(t.gemms);
  use_all(t.attentions);
  use_all(t.memories);
  use_all(t.copies);
  use_all(t.collectives);
  use_all(t.fits);
  const auto use_if = [&](bool is_there, uint16_t& source) {
    source = is_there ? source : 0;
    if (is_there) uses.push_back(&source);
  };
  use_if(t.launch_us.has_value(), t.launch_source);
  use_if(t.graph_launch_us.has_value(), t.graph_launch_source);
  use_if(t.interference.has_value(), t.interference_source);
  use_if(t.ratio_nn.has_value(), t.ratio_nn_source);
  use_if(t.ratio_nt.has_value(), t.ratio_nt_source);
  use_if(t.ratio_skinny.has_value(), t.ratio_skinny_source);
  std::vector<bool> used(t.sources.size(), false);
  for (const uint16_t* u : uses) used[*u] = true;
  std::vector<TableSource> kept;
  std::vector<uint16_t> place(t.sources.size(), 0);
  for (size_t i = 0; i < used.size(); ++i) {
    place[i] = static_cast<uint16_t>(kept.size());
    if (used[i]) kept.push_back(std::move(t.sources[i]));
  }
  for (uint16_t* u : uses) *u = place[*u];
  t.sources = std::move(kept);
}

}  // namespace stepcast
