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
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

constexpr std::string_view kGis = "group-interleaved";
constexpr std::string_view kGisAliases[] = {"gis", "group-interleaved-1f1b", "grouped-interleaved",
                                            "pipeoffload-gis", "pipeoffload"};
constexpr std::string_view kGisGroup = "interleave_group_size";
constexpr ScheduleParameter kGisParameters[] = {
    {kGisGroup,
     "microbatches of a building block, 1 to pp; fewer hold less and wait longer for hops; default "
     "(pp + 1) / 2"}};

// A forward of the building blocks, in slots of rank 0; the same order on every rank.
struct TimedStep {
  int64_t time = 0;
  ChunkStep step = {};
};

// s(c) of the head of this file.
int64_t start_of_chunk(const ScheduleParams& params, int64_t group, int64_t chunk) {
  const int64_t apart = ((params.pp + 1) / 2 + group - 1) / group;
  return 3 * group * (apart * chunk + chunk / (params.vpp / std::gcd(params.vpp, apart)));
}

std::vector<TimedStep> timed_steps(const ScheduleParams& params, int64_t group) {
  std::vector<TimedStep> steps;
  steps.reserve(static_cast<size_t>(params.vpp * params.microbatches));
  for (const ChunkStep& step : grouped_steps(params.vpp, params.microbatches, group)) {
    const int64_t block = step.microbatch / group, within = step.microbatch % group;
    steps.push_back(
        {start_of_chunk(params, group, step.chunk) + 3 * within + 3 * group * params.vpp * block,
         step});
  }
  std::sort(steps.begin(), steps.end(),
            [](const TimedStep& a, const TimedStep& b) { return a.time < b.time; });
  return steps;
}

// Forwards and backwards by the slot they run in: no two of a rank share one, since F, I and W
// differ modulo 3.  Backward k is `lag` slots behind forward k.
std::vector<Action> merged(const RankActions& rank, std::span<const TimedStep> steps, int64_t lag) {
  std::vector<Action> order;
  order.reserve(3 * steps.size());
  size_t next = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    while (next < steps.size() && steps[next].time < steps[k].time + lag)
      order.push_back(rank.forwards[next++]);
    const auto [input, weight] = split(rank.backwards[k]);
    order.push_back(input);
    order.push_back(weight);
  }
  return order;
}

std::optional<Diagnostic> check_gis(const ScheduleParams& params) {
  ParamReader in(params);
  const int64_t group = in.group(kGisGroup).value_or(1);
  if (group > params.pp)
    in.refuse(fmt::format("{} = {} must be at most pp = {}", kGisGroup, group, params.pp));
  return in.wrong();
}

Schedule gis_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kGis, params);
  const int64_t group = ParamReader(params).group(kGisGroup).value_or((params.pp + 1) / 2);
  const std::vector<TimedStep> timed = timed_steps(params, group);
  std::vector<ChunkStep> steps;
  for (const TimedStep& t : timed) steps.push_back(t.step);
  const int64_t turn = start_of_chunk(params, group, params.vpp - 1) + 1 + 3 * (params.pp - 1);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        merged(loop_actions(steps, params.pp, params.vpp, r), timed, turn - 3 * r);
  return schedule;
}

}  // namespace

ScheduleFamily group_interleaved() {
  ScheduleFamily family{
      kGis,
      "group-interleaved",
      kGisAliases,
      "chunks in groups of g <= p microbatches, each weight gradient at once; for p even, g = p/2 "
      "(the default) and tF = tI = tW bubble ((v+3)p/2-2) tF, holds (v+1)p/2 chunks, half of "
      "interleaved-1f1b's; any m",
      "Wan et al. 2025, PipeOffload (arXiv:2503.01328); sail-sg zero-bubble group_interleaved",
      check_gis,
      gis_order,
      kGisParameters};
  family.takes_group = true;
  return family;
}

}  // namespace stepcast
