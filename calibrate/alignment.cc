// SPDX-License-Identifier: Apache-2.0
#include "calibrate/alignment.h"

#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/roofline.h"
#include "sim/check.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> alignment_files();

namespace {

constexpr int64_t kAligned = 16;  // bytes

// The number behind `start` in a line of its own; 1 if no line begins so.
double ratio_of(std::string_view text, const std::string& start) {
  const size_t at = text.find('\n' + start);
  if (at == std::string_view::npos) return 1;
  const std::string_view number = text.substr(at + 1 + start.size());
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  STEPCAST_CHECK(error == std::errc() && value >= 1, "alignment.csv: " + start);
  return value;
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
  return ratio_of(alignment_files()[0].second, std::string(name_of(arch)) + ',' +
                                                   std::string(name_of(work.dtype)) + ',' +
                                                   std::to_string(bytes) + ',');
}

}  // namespace stepcast
