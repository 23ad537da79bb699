// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/sweep_points.h"

#include <string>
#include <utility>

#include "calibrate/measure/families/attention_grid.h"
#include "calibrate/measure/families/memory_shapes.h"
#include "calibrate/table/table_text.h"

namespace stepcast::measure {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// Parts of the grid's weight.
constexpr double kGemmPart = 0.5, kAttentionPart = 0.25, kMemoryPart = 0.2, kCopyPart = 0.05;

SweepPoint point_of(const Work& work) {
  SweepPoint p;
  p.work = work;
  p.key = row_key(p);
  return p;
}

SweepPoint copy_point(CopyKind kind, Bytes bytes) {
  SweepPoint p;
  p.work.kind = WorkKind::host_copy;
  p.work.bytes = bytes;
  p.key = "copy," + std::string(name_of(kind)) + ',' + std::to_string(bytes.value);
  // Within the device a copy is as fast as its memory: it is read and written.
  if (kind == CopyKind::d2d) p.expected_us = nominal_memory_us(bytes * 2);
  return p;
}

Work product(DType dtype, GemmLayout layout, int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
  return work_of(GemmRow{dtype, layout, m, n, k, batch});
}

// Forward products of every size, gradients and other types of fewer.
std::vector<Work> plain_products(bool full) {
  std::vector<int64_t> sizes{1024, 2048, 4096, 8192, 16384};
  std::vector<int64_t> rows{2048, 4096, 8192, 16384};
  if (full) {
    sizes = {512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384, 28672};
    rows = {128, 512, 1024, 2048, 3072, 4096, 8192, 16384};
  }
  std::vector<Work> works;
  for (const int64_t n : sizes) {
    for (const int64_t k : sizes) {
      for (const int64_t m : rows) {
        works.push_back(product(DType::bf16, GemmLayout::tn, m, n, k));
        if (!full && m != 8192) continue;
        works.push_back(product(DType::bf16, GemmLayout::nn, m, n, k));
        works.push_back(product(DType::fp8, GemmLayout::tn, m, n, k));
      }
      for (const int64_t tokens : {int64_t{4096}, int64_t{16384}}) {
        if (full || tokens == 4096) {
          works.push_back(product(DType::bf16, GemmLayout::nt, n, k, tokens));
        }
      }
    }
  }
  for (const DType dtype : {DType::fp16, DType::tf32, DType::fp32, DType::int8}) {
    for (const int64_t size : {2048, 4096, 8192}) {
      works.push_back(product(dtype, GemmLayout::tn, size, size, size));
    }
  }
  return works;
}

// Experts: as many rows in all as 4096 or 16384 tokens with 8 copies each make.
std::vector<Work> grouped_products(bool full) {
  std::vector<Work> works;
  for (const int64_t experts : {8, 32}) {
    for (const int64_t copies : {int64_t{32768}, int64_t{131072}}) {
      for (const int64_t width : {int64_t{2048}, int64_t{4096}, int64_t{7168}}) {
        if (!full && (width != 4096 || copies != 32768)) continue;
        const int64_t m = copies / experts, inner = 2048;
        for (Work w : {product(DType::bf16, GemmLayout::tn, m, 2 * inner, width, experts),
                       product(DType::bf16, GemmLayout::tn, m, width, inner, experts),
                       product(DType::bf16, GemmLayout::nn, m, width, 2 * inner, experts),
                       product(DType::bf16, GemmLayout::nt, width, inner, m, experts)}) {
          w.kind = WorkKind::grouped_gemm;
          works.push_back(w);
        }
      }
    }
  }
  return works;
}

std::vector<SweepPoint> memory_points(bool full) {
  std::vector<int64_t> sizes{256 * kKiB, 4 * kMiB, 64 * kMiB, 512 * kMiB};
  if (full) {
    sizes.clear();
    for (int64_t bytes = 64 * kKiB; bytes <= 2 * kGiB; bytes *= 2) sizes.push_back(bytes);
  }
  std::vector<SweepPoint> points;
  for (const MemoryKernel& k : memory_kernels()) {
    for (const int64_t bytes : sizes) {
      Work w;
      w.kernel = k.kernel;
      w.bytes = {bytes};
      points.push_back(point_of(w));
    }
  }
  return points;
}

std::vector<SweepPoint> copy_points(bool full) {
  std::vector<SweepPoint> points;
  for (const CopyKind kind : {CopyKind::h2d, CopyKind::d2h, CopyKind::d2d}) {
    for (int64_t bytes = 64 * kKiB; bytes <= kGiB; bytes *= full ? 2 : 16) {
      points.push_back(copy_point(kind, {bytes}));
    }
  }
  return points;
}

// Appends `part` with `weight` in all.
void take(std::vector<SweepPoint>& points, std::vector<SweepPoint> part, double weight) {
  for (SweepPoint& p : part) {
    p.weight = weight / static_cast<double>(part.size());
    points.push_back(std::move(p));
  }
}

std::vector<SweepPoint> points_of(const std::vector<Work>& works) {
  std::vector<SweepPoint> points;
  for (const Work& w : works) points.push_back(point_of(w));
  return points;
}

}  // namespace

std::vector<SweepPoint> planned_points(const PlanText& plan) {
  std::vector<SweepPoint> points;
  for (const PlanRow& row : plan.rows) {
    if (is_communication(row.work.kind)) continue;
    std::vector<SweepPoint> made;
    if (row.work.kind == WorkKind::host_copy) {
      made = {copy_point(CopyKind::h2d, row.work.bytes), copy_point(CopyKind::d2h, row.work.bytes)};
    } else {
      made = {point_of(row.work)};
    }
    for (SweepPoint& p : made) {
      p.weight = row.weight;
      p.origin = row.origin;
      points.push_back(std::move(p));
    }
  }
  return points;
}

std::vector<SweepPoint> grid_points(Grid grid) {
  std::vector<SweepPoint> points;
  if (grid == Grid::none) return points;
  const bool full = grid == Grid::full;
  std::vector<Work> products = plain_products(full);
  for (const Work& w : grouped_products(full)) products.push_back(w);
  take(points, points_of(products), kGemmPart);
  std::vector<Work> attention = attention_grid(full);
  for (const Work& w : unfused_attention_grid(full)) attention.push_back(w);
  take(points, points_of(attention), kAttentionPart);
  take(points, memory_points(full), kMemoryPart);
  take(points, copy_points(full), kCopyPart);
  return points;
}

std::vector<SweepPoint> single_points() {
  std::vector<SweepPoint> points;
  for (const char* const key : {"launch", "graph_launch", "interference"}) {
    SweepPoint p;
    p.key = key;
    p.expected_us = 5;
    points.push_back(p);
  }
  points.back().expected_us = 50'000;  // several sizes, alone and side by side
  return points;
}

std::string_view family_word(std::string_view key) {
  const std::string_view family = family_of(key);
  return family == "graph_launch" ? "launch" : family;
}

}  // namespace stepcast::measure
