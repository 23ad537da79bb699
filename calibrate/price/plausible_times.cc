// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/plausible_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "calibrate/price/roofline.h"
#include "calibrate/table/attention_prices.h"
#include "calibrate/table/gemm_prices.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr double kFastestOfPeak = 1.1;       // times the peak rate
constexpr double kFastestOfBandwidth = 4;    // times the memory bandwidth
constexpr double kSlowest = 100;             // times the data sheet's time
constexpr double kStartUs = 20;              // that any call may take beside its work
constexpr double kSlowestLaunchUs = 10'000;  // of a kernel or a CUDA graph, by the host

// What the data sheet says of a row.
struct Bounds {
  double flops = 0;  // with a rate of `peak`
  double peak = 0;   // flops a second; 0: not stated
  double bytes = 0;
  double least_us = 0;  // the shortest plausible time
  double sheet_us = 0;  // at peak rate and bandwidth, and the start of a kernel
};

Bounds bounds_of(double flops, double peak, double bytes, double bandwidth, bool by_memory) {
  const double c = peak > 0 ? flops / peak * 1e6 : 0;
  const double m = bandwidth > 0 ? bytes / bandwidth * 1e6 : 0;
  return {flops, peak, bytes, by_memory ? m / kFastestOfBandwidth : c / kFastestOfPeak,
          kStartUs + std::sqrt(c * c + m * m)};
}

// fp32 products may have run in the tensor cores, which tables call tf32 where it is known.
double peak_of(const Gpu& gpu, DType type) {
  const double rate = peak_rate(gpu, type);
  return type == DType::fp32 ? std::max(rate, peak_rate(gpu, DType::tf32)) : rate;
}

// The rows on one side of what is plausible: the first of them, and how many.
struct Found {
  std::string row;
  double us = 0;
  Bounds bounds;
  size_t count = 0;
};

class PlausibleTimes {
 public:
  explicit PlausibleTimes(const Gpu& gpu) : gpu_(gpu) {}

  template <class Row>
  void look_at(const Row& row) {
    const Bounds b = bounds(row);
    if (row.us < b.least_us) {
      take(fast_, row, b);
    } else if (row.us > kSlowest * b.sheet_us) {
      take(slow_, row, b);
    }
  }

  void look_at_launch(const char* name, std::optional<double> us) {
    if (us.value_or(0) > kSlowestLaunchUs) launches_.push_back({name, *us, {}, 1});
  }

  std::vector<Diagnostic> problems(const std::string& file, std::string_view text) const {
    std::vector<Diagnostic> all;
    if (fast_.count > 0) {
      Diagnostic d = problem(fast_, file, text);
      d.message = fmt::format("{} of {:.4g} us is {}", fast_.row, fast_.us, rate(fast_));
      d.help = fmt::format(
          "plausible is a time from {:.4g} us on: {}; times of tables are in microseconds",
          fast_.bounds.least_us,
          fast_.bounds.flops > 0
              ? fmt::format("{} times the peak", kFastestOfPeak)
              : fmt::format("{} times the memory bandwidth", kFastestOfBandwidth));
      all.push_back(std::move(d));
    }
    if (slow_.count > 0) {
      Diagnostic d = problem(slow_, file, text);
      d.message =
          fmt::format("{} of {:.4g} us takes {:.4g} times as long as the data sheet of {} says",
                      slow_.row, slow_.us, slow_.us / slow_.bounds.sheet_us, gpu_.name);
      d.help = fmt::format(
          "plausible is a time up to {:.4g} us, {} times the data sheet's; times of tables are in "
          "microseconds",
          kSlowest * slow_.bounds.sheet_us, kSlowest);
      all.push_back(std::move(d));
    }
    for (const Found& launch : launches_) {
      Diagnostic d = problem(launch, file, text);
      d.message =
          fmt::format("{} of {:.4g} us is longer than any host takes", launch.row, launch.us);
      d.help = fmt::format("plausible is a time up to {} us; times of tables are in microseconds",
                           kSlowestLaunchUs);
      all.push_back(std::move(d));
    }
    return all;
  }

 private:
  Bounds bounds(const GemmRow& r) const {
    const Work w = work_of(r);
    return bounds_of(w.flops.value, peak_of(gpu_, r.dtype),
                     static_cast<double>(operand_bytes(w).value), gpu_.memory_bandwidth.value,
                     false);
  }
  Bounds bounds(const AttentionRow& r) const {
    return bounds_of(attention_flops(r).value, peak_of(gpu_, r.dtype), 0, 0, false);
  }
  Bounds bounds(const MemoryRow& r) const {
    return bounds_of(0, 0, static_cast<double>(r.bytes), gpu_.memory_bandwidth.value, true);
  }

  template <class Row>
  static void take(Found& found, const Row& row, const Bounds& bounds) {
    if (found.count++ == 0) found = {row_text(row), row.us, bounds, 1};
  }

  // "9.894e+08 TFLOP/s, the peak of h100-sxm is 989.4"
  std::string rate(const Found& f) const {
    if (f.bounds.flops > 0)
      return fmt::format("{:.4g} TFLOP/s, and the peak of {} is {:.4g}",
                         f.bounds.flops / f.us * 1e-6, gpu_.name, f.bounds.peak * 1e-12);
    const double gbs = f.bounds.bytes / f.us * 1e-3;
    return fmt::format("{} GB/s, and the memory of {} has {:.0f}",
                       gbs < 1000 ? fmt::format("{:.4g}", gbs) : fmt::format("{:.0f}", gbs),
                       gpu_.name, gpu_.memory_bandwidth.value * 1e-9);
  }

  static Diagnostic problem(const Found& found, const std::string& file, std::string_view text) {
    Diagnostic d;
    d.code = "E311";
    d.file = file;
    if (found.count > 1) d.note = fmt::format("the first of {} such rows", found.count);
    const size_t before = text.find('\n' + found.row + ',');
    if (before == text.npos) return d;
    const std::string_view line = text.substr(before + 1);
    d.line = static_cast<int>(std::count(
                 text.begin(), text.begin() + static_cast<std::ptrdiff_t>(before), '\n')) +
             2;
    d.column = 1;
    d.source_line = std::string(line.substr(0, line.find_first_of("\r\n")));
    d.length = static_cast<int>(d.source_line.size());
    return d;
  }

  const Gpu& gpu_;
  Found fast_, slow_;
  std::vector<Found> launches_;
};

}  // namespace

std::vector<Diagnostic> implausible_times(const TableText& table, const Gpu& gpu,
                                          const std::string& file, std::string_view text) {
  PlausibleTimes times(gpu);
  for (const GemmRow& r : table.gemms) times.look_at(r);
  for (const AttentionRow& r : table.attentions) times.look_at(r);
  for (const MemoryRow& r : table.memories) times.look_at(r);
  times.look_at_launch("launch", table.launch_us);
  times.look_at_launch("graph_launch", table.graph_launch_us);
  return times.problems(file, text);
}

void check_plausible(const TableText& table, const Gpu& gpu, const std::string& file,
                     std::string_view text) {
  std::vector<Diagnostic> problems = implausible_times(table, gpu, file, text);
  if (!problems.empty()) throw InputError(std::move(problems));
}

}  // namespace stepcast
