// SPDX-License-Identifier: Apache-2.0
// How one compute work is priced: each function asks the one before it.
//
//   price_alone     the cost table; where it says nothing, that of a GPU that is like this one
//                   (Gpu::like), x the data sheet's price of this one over that of the other and
//                   what more power brings; else the data sheet (roofline.h)
//   price_aligned   x 1.5 or 2.5, for batched products whose rows begin on odd bytes
//   price_limited   x 1 or more, where the GPU may draw less power than it was measured with
//   price_on_sms    x sms / (sms - held), while communication holds some multiprocessors
//   price_wait      of the time that the experts of this rank wait for the busiest rank: the
//                   difference of the prices of two works
//
// A batched bf16 product of an A100 with heads of 108 values: the table says 100 us for a product
// of its size.  108 values are 216 bytes, whose rows begin on 8 bytes and not on 16, and
// alignment.csv has a ratio of 1.5 for that, so it is priced at 0.15 ms.  Beside a collective that
// holds 8 of the 108 multiprocessors it takes 0.15 x 108 / 100 = 0.17 ms.
#include "calibrate/price/compute_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/price/power_limit.h"
#include "calibrate/price/roofline.h"
#include "sim/check.h"
#include "sim/csv.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> alignment_files();

namespace {

constexpr int64_t kAligned = 16;  // bytes

struct MisalignedRatio {
  std::string_view arch, dtype;
  int64_t bytes = 0;
  double ratio = 1;
  int64_t until = 0;  // year of the last libraries that it holds for; 0: of all
};

const std::vector<MisalignedRatio>& misaligned_ratios() {
  static const std::vector<MisalignedRatio> all = [] {
    std::vector<MisalignedRatio> read;
    for (const CsvRow& row : csv_rows(alignment_files()[0].second, "arch,dtype,bytes,ratio,until"))
      read.push_back({row.cells[0], row.cells[1], row.number<int64_t>(2), row.number(3),
                      row.number<int64_t>(4)});
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

double misalignment_ratio(const Work& work, GpuArch arch, int64_t libraries) {
  const bool wide = work.dtype == DType::fp16 || work.dtype == DType::bf16;
  if (work.kind != WorkKind::gemm || work.batch <= 1 || !wide) return 1;
  const int64_t bytes = bytes_aligned(work);
  if (bytes == kAligned) return 1;
  for (const MisalignedRatio& r : misaligned_ratios()) {
    const bool of_then = r.until == 0 || (libraries > 0 && libraries <= r.until);
    if (of_then && r.arch == name_of(arch) && r.dtype == name_of(work.dtype) && r.bytes == bytes)
      return r.ratio;
  }
  return 1;
}

namespace {

Price price_alone(const Work& work, const Gpu& gpu, const CostTable* table,
                  PriceParts* parts = nullptr);

// A factor of a price that was measured on another GPU.
void multiply(Price& price, double factor, const std::string& why, PriceParts* parts) {
  price.origin = std::max(price.origin, Origin::extrapolated);
  if (factor == 1) return;
  if (parts != nullptr) parts->factors.push_back({why, factor, {}});
  price.time = time_from_seconds(to_seconds(price.time) * factor);
  price.basis += ", times " + why;
}

// What the table of `measured` has, as far as data sheets and power differ; nothing if it has
// nothing.  A GPU that may draw more computes faster, as one does whose limit is raised; one that
// may draw less, slower.
std::optional<Price> price_like(const Work& work, const Gpu& gpu, const Gpu& measured,
                                const CostTable& table, PriceParts* parts) {
  Price price = price_alone(work, measured, &table, parts);
  if (price.origin == Origin::roofline) return {};
  multiply(price, to_seconds(roofline_time(work, gpu)) / to_seconds(roofline_time(work, measured)),
           fmt::format("data sheet of {} over that of {}", gpu.name, measured.name), parts);
  if (measured.power > Power{} && gpu.power > Power{}) {
    Gpu held = gpu;
    held.power_limit = std::min(gpu.power, measured.power);
    const double slower = slower_at_limit(work, held, std::max(gpu.power, measured.power));
    multiply(price, gpu.power > measured.power ? 1 / slower : slower,
             fmt::format("{:.0f} W over the {:.0f} W of {}", gpu.power.value, measured.power.value,
                         measured.name),
             parts);
  }
  return price;
}

// By the table; where that says nothing by that of the GPU that this one is like; else by the data
// sheet.
Price price_alone(const Work& work, const Gpu& gpu, const CostTable* table, PriceParts* parts) {
  if (work.flops.value <= 0 && work.bytes.value <= 0) {
    return {Time{}, Origin::measured, "nothing to do"};
  }
  if (table != nullptr && !reads_cache(work)) {
    const Gpu* const like = gpu.like.get();
    const bool is_own = like == nullptr || table->name() != like->name;
    if (is_own)
      if (auto found = table->compute(work, gpu, parts)) return *found;
    const CostTable* other = like == nullptr ? nullptr : table;
    if (other != nullptr && is_own) other = shipped_table(like->name);
    if (other != nullptr)
      if (auto found = price_like(work, gpu, *like, *other, parts)) return *found;
  }
  return {roofline_time(work, gpu, parts), Origin::roofline, "data sheet of " + gpu.name};
}

// The same for products whose rows begin on odd bytes, unless that very product was measured.
Price price_aligned(const Work& work, const Gpu& gpu, const CostTable* table, int64_t libraries,
                    PriceParts* parts) {
  Price price = price_alone(work, gpu, table, parts);
  const double ratio = misalignment_ratio(work, gpu.arch, libraries);
  if (ratio <= 1 || price.origin == Origin::measured) return price;
  if (parts != nullptr)
    parts->factors.push_back({"rows not on 16 bytes: alignment.csv", ratio, {}});
  price.time = time_from_seconds(to_seconds(price.time) * ratio);
  price.origin = std::max(price.origin, Origin::extrapolated);
  price.basis += ", rows not on 16 bytes";
  return price;
}

// The same under the limit of the GPU's power.
Price price_limited(const Work& work, const Gpu& gpu, const CostTable* table, int64_t libraries,
                    PriceParts* parts) {
  Price price = price_aligned(work, gpu, table, libraries, parts);
  const bool by_table = table != nullptr && price.origin != Origin::roofline;
  const Power measured_at = by_table && table->power().value > 0 ? table->power() : gpu.power;
  const double ratio = slower_at_limit(work, gpu, measured_at);
  if (ratio <= 1) return price;
  const std::string here =
      fmt::format("at {:.0f} of {:.0f} W", gpu.power_limit.value, measured_at.value);
  if (parts != nullptr) parts->factors.push_back({here + ": power_limit.csv", ratio, {}});
  price.time = time_from_seconds(to_seconds(price.time) * ratio);
  price.origin = std::max(price.origin, Origin::extrapolated);
  price.basis += ", " + here;
  return price;
}

// Arithmetic by the SMs that communication leaves it; whoever is limited by memory is not faster.
Price price_on_sms(const Work& work, const Gpu& gpu, const CostTable* table, int64_t libraries,
                   PriceParts* parts) {
  Work alone = work;
  alone.comm_sms = 0;
  Price price = price_limited(alone, gpu, table, libraries, parts);
  if (work.comm_sms == 0) return price;
  STEPCAST_CHECK(work.comm_sms < gpu.sms, "SMs are left for compute");
  const double left = static_cast<double>(gpu.sms - work.comm_sms);
  price.time = time_from_seconds(to_seconds(price.time) * static_cast<double>(gpu.sms) / left);
  price.origin = std::max(price.origin, Origin::extrapolated);
  const std::string here = fmt::format("on {} of {} SMs", gpu.sms - work.comm_sms, gpu.sms);
  price.basis += ", " + here;
  if (parts != nullptr) parts->factors.push_back({here, static_cast<double>(gpu.sms) / left, {}});
  return price;
}

// The work that a wait's sizes say.
Work mean_work(const Work& wait) {
  Work w = wait;
  w.busiest = 0;
  if (wait.kernel != Kernel::none) {
    w.kind = WorkKind::memory_bound;
    return w;
  }
  w.kind = WorkKind::grouped_gemm;
  w.flops = {2.0 * static_cast<double>(w.batch) * static_cast<double>(w.m) *
             static_cast<double>(w.n) * static_cast<double>(w.k)};
  return w;
}

// What the busiest rank does longer than this one, which does the mean.
Price price_wait(const Work& wait, const Gpu& gpu, const CostTable* table, int64_t libraries) {
  Price price = price_limited(busiest_work(wait), gpu, table, libraries, nullptr);
  const Price mean = price_limited(mean_work(wait), gpu, table, libraries, nullptr);
  price.time = std::max(Time{}, price.time - mean.time);
  return price;
}

}  // namespace

bool reads_cache(const Work& work) {
  return work.kind == WorkKind::attention_forward && work.bytes.value > 0;
}

Work busiest_work(const Work& wait) {
  Work most = wait;
  if (wait.kernel != Kernel::none) {
    most.bytes = {wait.busiest};
  } else {
    (wait.layout == GemmLayout::nt ? most.k : most.m) = wait.busiest;
  }
  return mean_work(most);
}

Price compute_price(const Work& work, const Gpu& gpu, const CostTable* table, PriceParts* parts,
                    int64_t libraries) {
  STEPCAST_CHECK(!is_communication(work.kind), describe(work));
  if (parts != nullptr) *parts = {};
  return work.kind == WorkKind::expert_wait ? price_wait(work, gpu, table, libraries)
                                            : price_on_sms(work, gpu, table, libraries, parts);
}

}  // namespace stepcast
