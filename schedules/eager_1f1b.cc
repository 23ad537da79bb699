// SPDX-License-Identifier: Apache-2.0
// Eager 1F1B: 1F1B with a warm-up twice as long, 2(p-r)-1 forwards before the first backward, so
// that every message has the time of one action to arrive.
#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "eager-1f1b";
constexpr std::string_view kAliases[] = {"eager1f1b", "1f1b-eager", "scheduleeager1f1b"};

Schedule generate(const ScheduleParams& params) {
  require_one_chunk(kName, params, "interleaved-1f1b");
  return one_chunk_schedule(kName, params,
                            [&](int64_t rank) { return 2 * (params.pp - 1 - rank); });
}

}  // namespace

ScheduleFamily eager_1f1b() {
  return {kName, kAliases,
          "1F1B with twice the warm-up, hides transfers; bubble (p-1)(tF+tB), rank r holds "
          "min(2(p-r)-1, m) microbatches; vpp = 1",
          "Zhuang et al. 2022 (arXiv:2211.05322); the rule, no program was compared", generate};
}

}  // namespace stepcast
