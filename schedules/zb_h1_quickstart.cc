// SPDX-License-Identifier: Apache-2.0
// ZB-H1 as a small change to 1F1B: rank r splits only as many backwards as it has bubbles to fill
// (its first r, the last one of the steady phase and those of the cool-down), all others stay
// whole.
#include <algorithm>
#include <utility>

#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "zb-h1-quickstart";
constexpr std::string_view kAliases[] = {"zb-h1-quick-start", "zbh1-quickstart"};

// The order of rank `r`: weight gradients put off are made up for first come first served, from the
// end of the steady phase on.
std::vector<Action> order_of_rank(const RankActions& rank, int64_t pp, int64_t r) {
  const auto m = static_cast<int64_t>(rank.forwards.size());
  const int64_t warmup = std::min(pp - 1 - r, m);
  const int64_t steady = m - warmup;
  std::vector<Action> order(rank.forwards.begin(), rank.forwards.begin() + warmup);
  std::vector<Action> put_off;
  size_t made_up = 0;
  for (int64_t i = 0; i < m; ++i) {
    if (i < steady) order.push_back(rank.forwards[static_cast<size_t>(warmup + i)]);
    const Action& backward = rank.backwards[static_cast<size_t>(i)];
    const bool late = i + 1 >= steady;  // last of the steady phase, or cool-down
    if (r == 0 || (i >= r && !late)) {
      order.push_back(backward);
      continue;
    }
    const auto [input, weight] = split(backward);
    order.push_back(input);
    put_off.push_back(weight);
    if (late && i >= r) order.push_back(put_off[made_up++]);
  }
  order.insert(order.end(), put_off.begin() + static_cast<ptrdiff_t>(made_up), put_off.end());
  return order;
}

Schedule generate(const ScheduleParams& params) {
  require_one_chunk(kName, params, "interleaved-zero-bubble");
  Schedule schedule = loop_schedule(kName, params);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        order_of_rank(loop_actions(steps, params.pp, 1, r), params.pp, r);
  return schedule;
}

}  // namespace

ScheduleFamily zb_h1_quickstart() {
  return {kName,
          kAliases,
          "zb-h1 that splits only the backwards it must; bubble as zb-h1 for m >= p, holds p "
          "microbatches; vpp = 1, any m",
          "sail-sg zero-bubble, branch zb-h1-quick-start",
          generate,
          {},
          P2pStyle::megatron};  // a patch of Megatron-LM's 1F1B
}

}  // namespace stepcast
