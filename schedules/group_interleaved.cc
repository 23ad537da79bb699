// SPDX-License-Identifier: Apache-2.0
// Group-interleaved 1F1B (GIS): a building block of g microbatches, repeated, in which a chunk
// starts as soon after the one before as the hops allow, so that fewer activations are held than
// with groups of p.  A backward is followed by its weight gradient at once.
//
// In slots of one action (tF = tI = tW), a microbatch j of group k runs on rank r
//     F of chunk c            in slot  s(c) + 3 j + 3 g v k + r,
//     I of chunk v-1-c        in slot  s(c) + 3 j + 3 g v k + s(v-1) + 1 + 3 (p-1) - 2 r,
//     W right behind I,       with     s(c) = 3 g (q c + c div (v / gcd(v, q))),
// where q = ceil(ceil(p/2) / g) groups lie between two chunks of a microbatch; the last term keeps
// chunks from meeting in a slot where v and q have a common factor.  The order of a rank is the
// order of its slots.
#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/params.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "group-interleaved";
constexpr std::string_view kAliases[] = {"gis", "group-interleaved-1f1b", "grouped-interleaved",
                                         "pipeoffload-gis", "pipeoffload"};
constexpr std::string_view kGroup = "interleave_group_size";
constexpr ScheduleParameter kParameters[] = {
    {kGroup,
     "microbatches of a building block, 1 to pp; fewer hold less and wait longer for hops; default "
     "(pp + 1) / 2"}};

struct Slot {
  int64_t time = 0;
  Action action{};
};

std::vector<Action> order_of_rank(const ScheduleParams& params, int64_t group, int64_t r) {
  const int64_t p = params.pp, v = params.vpp;
  const int64_t apart = ((p + 1) / 2 + group - 1) / group;
  const int64_t cycle = v / std::gcd(v, apart);
  const auto start = [&](int64_t c) { return 3 * group * (apart * c + c / cycle); };
  std::vector<Slot> slots;
  slots.reserve(static_cast<size_t>(3 * v * params.microbatches));
  for (int64_t m = 0; m < params.microbatches; ++m)
    for (int64_t c = 0; c < v; ++c) {
      const int64_t time = start(c) + 3 * (m % group) + 3 * group * v * (m / group);
      const int64_t back = time + start(v - 1) + 1 + 3 * (p - 1) - 2 * r;
      const auto [input, weight] = split(backward_of((v - 1 - c) * p + r, m));
      slots.push_back({time + r, forward_of(c * p + r, m)});
      slots.push_back({back, input});
      slots.push_back({back + 1, weight});
    }
  std::sort(slots.begin(), slots.end(),
            [](const Slot& a, const Slot& b) { return a.time < b.time; });
  std::vector<Action> order;
  order.reserve(slots.size());
  for (const Slot& slot : slots) order.push_back(slot.action);
  return order;
}

Schedule generate(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kName, params);
  const int64_t group = group_param(params, kGroup).value_or((params.pp + 1) / 2);
  if (group > params.pp)
    throw std::invalid_argument(std::string(kGroup) + " = " + std::to_string(group) +
                                " must be at most pp = " + std::to_string(params.pp));
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] = order_of_rank(params, group, r);
  return schedule;
}

}  // namespace

ScheduleFamily group_interleaved() {
  return {
      kName,
      kAliases,
      "chunks in groups of g <= p microbatches, each weight gradient at once; for p even, g = p/2 "
      "(the default) and tF = tI = tW bubble ((v+3)p/2-2) tF, holds (v+1)p/2 chunks, half of "
      "interleaved-1f1b's; any m",
      "Wan et al. 2025, PipeOffload (arXiv:2503.01328); sail-sg zero-bubble group_interleaved",
      generate,
      kParameters};
}

}  // namespace stepcast
