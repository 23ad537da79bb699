// SPDX-License-Identifier: Apache-2.0
#include "tests/schedules/random_pipelines.h"

#include <algorithm>
#include <numeric>

#include "sim/random.h"

namespace stepcast::testing {
namespace {

// Nearly normal, mean 0 and variance 1: the sum of 12 uniform numbers.
double nearly_normal(CountedRandom& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.next() >> 11) * 0x1p-53;
  return sum;
}

// e^x by its series, from nothing but sums and products, for |x| <= 2.
double exponential(double x) {
  double term = 1, sum = 1;
  for (int i = 1; i < 30; ++i) sum += term *= x / i;
  return sum;
}

}  // namespace

RandomPipeline random_pipeline(uint64_t index, uint64_t seed) {
  constexpr double kSigma = 0.3, kHeavier = 1.5, kMillisecond = 1e9;
  constexpr StageMemory kMemory{100, -57, -43};
  CountedRandom random(seed + index);
  RandomPipeline p;
  const auto pp = static_cast<int64_t>(2 + random.below(15));
  const auto microbatches = static_cast<int64_t>(4 + random.below(61));
  p.cap = index % 3 == 0 ? 2 : 1 + static_cast<double>(random.below(101)) / 100;
  std::vector<uint16_t> ranks(static_cast<size_t>(pp));
  std::iota(ranks.begin(), ranks.end(), uint16_t{0});
  const Time hop{static_cast<int64_t>(random.below(100)) * 1'000'000};
  const int64_t held = std::min(pp, microbatches) * kMemory.forward;
  p.costs = level_costs(pp, microbatches, std::move(ranks), {}, kMemory, hop,
                        static_cast<int64_t>(p.cap * static_cast<double>(held)));
  for (StageTimes& times : p.costs.times) {
    const bool heavy = index % 2 == 1 && &times == &p.costs.times.back();
    const auto draw = [&](double milliseconds) {
      const double t = milliseconds * kMillisecond * exponential(kSigma * nearly_normal(random));
      return Time{static_cast<int64_t>(heavy ? t * kHeavier : t)};
    };
    times.forward = draw(1.0);
    times.backward_input = draw(1.1);
    times.backward_weight = draw(0.7);
  }
  p.name = "case " + std::to_string(index) + ", p = " + std::to_string(pp) +
           ", m = " + std::to_string(microbatches) + ", cap " + std::to_string(p.cap);
  return p;
}

}  // namespace stepcast::testing
