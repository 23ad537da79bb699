// SPDX-License-Identifier: Apache-2.0
#include "calibrate/compute_price.h"

#include <algorithm>
#include <string>

#include "calibrate/alignment.h"
#include "calibrate/roofline.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// By the table, or by the data sheet.
Price price_alone(const Work& work, const Gpu& gpu, const CostTable* table,
                  PriceParts* parts = nullptr) {
  if (work.flops.value <= 0 && work.bytes.value <= 0) {
    return {Time{}, Origin::measured, "nothing to do"};
  }
  // Tables know attention of many queries, which is limited by arithmetic; that of one query to a
  // cache is limited by reading it.
  const bool cached = work.kind == WorkKind::attention_forward && work.bytes.value > 0;
  if (table != nullptr && !cached) {
    if (auto found = table->compute(work, gpu, parts)) return *found;
  }
  return {roofline_time(work, gpu, parts), Origin::roofline, "data sheet of " + gpu.name};
}

// The same for products whose rows begin on odd bytes, unless that very product was measured.
Price price_aligned(const Work& work, const Gpu& gpu, const CostTable* table, PriceParts* parts) {
  Price price = price_alone(work, gpu, table, parts);
  const double ratio = misalignment_ratio(work, gpu.arch);
  if (ratio <= 1 || price.origin == Origin::measured) return price;
  if (parts != nullptr)
    parts->factors.push_back({"rows not on 16 bytes: alignment.csv", ratio, {}});
  price.time = time_from_seconds(to_seconds(price.time) * ratio);
  price.origin = std::max(price.origin, Origin::extrapolated);
  price.basis += ", rows not on 16 bytes";
  return price;
}

// Arithmetic by the SMs that communication leaves it; whoever is limited by memory is not faster.
Price price_on_sms(const Work& work, const Gpu& gpu, const CostTable* table, PriceParts* parts) {
  Work alone = work;
  alone.comm_sms = 0;
  Price price = price_aligned(alone, gpu, table, parts);
  if (work.comm_sms == 0) return price;
  STEPCAST_CHECK(work.comm_sms < gpu.sms, "SMs are left for compute");
  const double left = static_cast<double>(gpu.sms - work.comm_sms);
  price.time = time_from_seconds(to_seconds(price.time) * static_cast<double>(gpu.sms) / left);
  price.origin = std::max(price.origin, Origin::extrapolated);
  const std::string here =
      "on " + std::to_string(gpu.sms - work.comm_sms) + " of " + std::to_string(gpu.sms) + " SMs";
  price.basis += ", " + here;
  if (parts != nullptr) parts->factors.push_back({here, static_cast<double>(gpu.sms) / left, {}});
  return price;
}

// What the busiest rank does longer than this one.
Price price_wait(const Work& work, const Gpu& gpu, const CostTable* table) {
  Work mean = work;
  mean.kind = work.kernel == Kernel::none ? WorkKind::grouped_gemm : WorkKind::memory_bound;
  mean.busiest = 0;
  Work most = mean;
  if (mean.kind == WorkKind::memory_bound) {
    most.bytes = {work.busiest};
  } else {
    (work.layout == GemmLayout::nt ? most.k : most.m) = work.busiest;
    for (Work* w : {&mean, &most}) {
      w->flops = {2.0 * static_cast<double>(w->batch) * static_cast<double>(w->m) *
                  static_cast<double>(w->n) * static_cast<double>(w->k)};
    }
  }
  Price price = price_alone(most, gpu, table);
  price.time = std::max(Time{}, price.time - price_alone(mean, gpu, table).time);
  return price;
}

}  // namespace

Price compute_price(const Work& work, const Gpu& gpu, const CostTable* table, PriceParts* parts) {
  STEPCAST_CHECK(!is_communication(work.kind), describe(work));
  if (parts != nullptr) *parts = {};
  return work.kind == WorkKind::expert_wait ? price_wait(work, gpu, table)
                                            : price_on_sms(work, gpu, table, parts);
}

}  // namespace stepcast
