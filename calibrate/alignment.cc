// SPDX-License-Identifier: Apache-2.0
#include "calibrate/alignment.h"

#include <array>
#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sim/check.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> alignment_files();

namespace {

constexpr int64_t kValues = 8;  // of 16 bits in 16 bytes

constexpr std::array<std::string_view, 5> kArchs{"volta", "ampere", "hopper", "blackwell", "other"};

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

bool is_aligned(const Work& w) {
  const int64_t other = w.layout == GemmLayout::nt ? w.m : w.k;
  return w.n % kValues == 0 && other % kValues == 0;
}

double misalignment_ratio(const Work& work, GpuArch arch) {
  const bool wide = work.dtype == DType::fp16 || work.dtype == DType::bf16;
  if (work.kind != WorkKind::gemm || work.batch <= 1 || !wide || is_aligned(work)) return 1;
  return ratio_of(alignment_files()[0].second, std::string(kArchs[static_cast<size_t>(arch)]) +
                                                   ',' + std::string(name_of(work.dtype)) + ',');
}

}  // namespace stepcast
