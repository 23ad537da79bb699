// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/power_limit.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/price/roofline.h"
#include "sim/check.h"
#include "sim/csv.h"
#include "sim/log_exp.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> power_limit_files();

namespace {

// Logarithms of power and rate, the rating first.
struct Point {
  double power = 0, rate = 0;
};

const std::vector<Point>& points() {
  static const std::vector<Point> all = [] {
    std::vector<Point> read;
    for (const CsvRow& row : csv_rows(power_limit_files()[0].second, "power,rate"))
      read.push_back({exact_log2(row.number(0)), exact_log2(row.number(1))});
    STEPCAST_CHECK(read.size() >= 2, "power_limit.csv");
    return read;
  }();
  return all;
}

}  // namespace

double rate_at_limit(Power limit, Power rating) {
  if (limit >= rating) return 1;
  const std::vector<Point>& all = points();
  const double power = exact_log2(limit / rating);
  size_t i = 1;
  while (i + 1 < all.size() && power < all[i].power) ++i;
  const Point &high = all[i - 1], &low = all[i];
  const double slope = (high.rate - low.rate) / (high.power - low.power);
  return exact_exp2(high.rate + slope * (power - high.power));
}

double slower_at_limit(const Work& work, const Gpu& gpu, Power measured_at) {
  if (gpu.power_limit.value <= 0 || measured_at.value <= 0) return 1;
  const double rate = rate_at_limit(gpu.power_limit, measured_at);
  if (rate >= 1) return 1;
  Gpu limited = gpu;
  for (auto& [type, peak] : limited.peak) peak = peak * rate;
  return to_seconds(roofline_time(work, limited)) / to_seconds(roofline_time(work, gpu));
}

}  // namespace stepcast
