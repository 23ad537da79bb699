// SPDX-License-Identifier: Apache-2.0
#include "calibrate/alignment.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/roofline.h"
#include "sim/csv.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> alignment_files();

namespace {

constexpr int64_t kAligned = 16;  // bytes

struct MisalignedRatio {
  std::string_view arch, dtype;
  int64_t bytes = 0;
  double ratio = 1;
};

const std::vector<MisalignedRatio>& misaligned_ratios() {
  static const std::vector<MisalignedRatio> all = [] {
    std::vector<MisalignedRatio> read;
    for (const CsvRow& row : csv_rows(alignment_files()[0].second, "arch,dtype,bytes,ratio"))
      read.push_back({row.cells[0], row.cells[1], row.number<int64_t>(2), row.number(3)});
    return read;
  }();
  return all;
}

}  // namespace

int64_t bytes_aligned(const Work& w) {
  const int64_t other = w.layout == GemmLayout::nt ? w.m : w.k;
  int64_t bytes = kAligned;
  while (bytes > 2 && (2 * w.n % bytes != 0 || 2 * other % bytes != 0)) bytes /= 2;
  return bytes;
}

double misalignment_ratio(const Work& work, GpuArch arch) {
  const bool wide = work.dtype == DType::fp16 || work.dtype == DType::bf16;
  if (work.kind != WorkKind::gemm || work.batch <= 1 || !wide) return 1;
  const int64_t bytes = bytes_aligned(work);
  if (bytes == kAligned) return 1;
  for (const MisalignedRatio& r : misaligned_ratios())
    if (r.arch == name_of(arch) && r.dtype == name_of(work.dtype) && r.bytes == bytes)
      return r.ratio;
  return 1;
}

}  // namespace stepcast
