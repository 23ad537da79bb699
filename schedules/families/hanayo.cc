// SPDX-License-Identifier: Apache-2.0
// Hanayo: w waves, that is 2w chunks a rank laid out like a snake, so that a microbatch turns round
// on the outer ranks without a hop.
//
// The order is made by list scheduling in slots of one action: every rank runs a backward if one is
// ready, otherwise a forward, of the latest chunk that has one, and holds at most v p activations,
// as many as 1F1B's first rank.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

constexpr std::string_view kHanayo = "hanayo";
constexpr std::string_view kHanayoAliases[] = {"wave", "waves", "hanayo-wave", "wave-pipeline"};
constexpr std::string_view kWaves = "waves";
constexpr ScheduleParameter kHanayoParameters[] = {
    {kWaves, "vpp / 2; each wave is two chunks a rank"}};

// Passes of a stage.  Microbatches go through every stage in the same order, so counts say it all.
struct WaveStage {
  int64_t forwards_begun = 0, forwards_done = 0, backwards_begun = 0, backwards_done = 0;
};

struct WaveRank {
  std::vector<int64_t> stages;  // by chunk
  int64_t running = -1;         // stage, if busy
  bool backward = false;
  int64_t held = 0;  // activations
};

// All ranks' lists, written slot by slot.
struct WaveOrder {
  explicit WaveOrder(Schedule& target)
      : schedule(target),
        stages(target.rank_of_stage.size()),
        ranks(static_cast<size_t>(target.pp)) {
    for (size_t s = 0; s < stages.size(); ++s)
      ranks[target.rank_of_stage[s]].stages.push_back(static_cast<int64_t>(s));
    for (std::vector<Action>& list : target.ranks)
      list.reserve(static_cast<size_t>(2 * target.vpp * target.microbatches));
  }

  // Only ranks that have just finished something, or got an input, can begin something.
  void run() {
    std::vector<size_t> running, woken{schedule.rank_of_stage.front()};
    while (!woken.empty()) {
      running.clear();
      for (const size_t r : woken)
        if (ranks[r].running < 0 && start(r)) running.push_back(r);
      woken = running;
      for (const size_t r : running) {
        const size_t next = finish(ranks[r]);
        if (next < stages.size()) woken.push_back(schedule.rank_of_stage[next]);
      }
    }
  }

  WaveStage& at(int64_t stage) { return stages[static_cast<size_t>(stage)]; }

  // The stage that waits for what the rank has done; beyond the last one if none does.
  size_t finish(WaveRank& rank) {
    const auto stage = static_cast<size_t>(rank.running);
    rank.running = -1;
    if (!rank.backward) {
      ++stages[stage].forwards_done;
      return stage + 1;
    }
    ++stages[stage].backwards_done;
    --rank.held;
    return stage > 0 ? stage - 1 : stages.size();
  }

  bool backward_ready(int64_t s) {
    const auto next = s + 1 < static_cast<int64_t>(stages.size()) ? at(s + 1).backwards_done
                                                                  : at(s).forwards_done;
    return at(s).backwards_begun < next;
  }

  // Every later chunk of a rank keeps one place free, so that the microbatch that is furthest can
  // always go on.
  bool forward_ready(const WaveRank& rank, int64_t chunk, int64_t s) {
    const int64_t arrived = s > 0 ? at(s - 1).forwards_done : schedule.microbatches;
    return at(s).forwards_begun < arrived &&
           rank.held + schedule.vpp - 1 - chunk < schedule.pp * schedule.vpp;
  }

  bool start(size_t r) {
    WaveRank& rank = ranks[r];
    for (const bool backward : {true, false})
      for (int64_t chunk = schedule.vpp; chunk-- > 0;) {
        const int64_t s = rank.stages[static_cast<size_t>(chunk)];
        if (!(backward ? backward_ready(s) : forward_ready(rank, chunk, s))) continue;
        if (!backward) ++rank.held;
        rank.running = s;
        rank.backward = backward;
        schedule.ranks[r].push_back(backward ? backward_of(s, at(s).backwards_begun++)
                                             : forward_of(s, at(s).forwards_begun++));
        return true;
      }
    return false;
  }

  Schedule& schedule;
  std::vector<WaveStage> stages;
  std::vector<WaveRank> ranks;
};

std::optional<Diagnostic> check_hanayo(const ScheduleParams& params) {
  ParamReader in(params);
  if (params.vpp % 2 != 0)
    in.refuse(fmt::format("{} runs two chunks a rank and wave: vpp = {} must be even", kHanayo,
                          params.vpp));
  in.expect(kWaves, params.vpp / 2, "vpp / 2");
  return in.wrong();
}

Schedule hanayo_order(const ScheduleParams& params) {
  Schedule schedule = snake_schedule(kHanayo, params);
  WaveOrder(schedule).run();
  return schedule;
}

}  // namespace

ScheduleFamily hanayo() {
  return {kHanayo,
          "hanayo",
          kHanayoAliases,
          "w = vpp/2 waves over a snake of chunks, greedy 1F1B; bubble (p-1)(tF+tB) of a chunk for "
          "tF = tB and p dividing m, holds at most v p chunks; vpp even",
          "Liu et al. 2023 (arXiv:2308.15762); the paper's rule, no program was compared",
          check_hanayo,
          hanayo_order,
          kHanayoParameters};
}

}  // namespace stepcast
