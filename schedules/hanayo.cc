// SPDX-License-Identifier: Apache-2.0
// Hanayo: w waves, that is 2w chunks a rank laid out like a snake, so that a microbatch turns round
// on the outer ranks without a hop.
//
// The order is made by list scheduling in slots (F one, B two): a rank that is free runs a backward
// if one is ready, otherwise a forward, of the latest chunk that has one; the next microbatch
// enters while fewer than p are on their way, so that no rank holds more than 1F1B's first rank.
#include <algorithm>
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/params.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "hanayo";
constexpr std::string_view kAliases[] = {"wave", "waves", "hanayo-wave", "wave-pipeline"};
constexpr std::string_view kWaves = "waves";
constexpr ScheduleParameter kParameters[] = {{kWaves, "vpp / 2; each wave is two chunks a rank"}};

constexpr int64_t kForwardSlots = 1, kBackwardSlots = 2;

// Passes of a stage.  Microbatches go through every stage in the same order, so counts say it all.
struct StageProgress {
  int64_t forwards_begun = 0, forwards_done = 0, backwards_begun = 0, backwards_done = 0;
};

struct Rank {
  int64_t free_at = 0;
  int64_t running = -1;  // stage, if busy
  bool backward = false;
};

// All ranks' lists, written slot by slot.
struct WaveOrder {
  explicit WaveOrder(Schedule& target)
      : schedule(target),
        stages(target.rank_of_stage.size()),
        ranks(static_cast<size_t>(target.pp)) {}

  void run() {
    const int64_t last = static_cast<int64_t>(stages.size()) * schedule.microbatches * 2;
    int64_t begun = 0;
    for (int64_t now = 0; begun < last; ++now) {
      for (Rank& rank : ranks)
        if (rank.running >= 0 && rank.free_at == now) finish(rank);
      for (int64_t r = 0; r < schedule.pp; ++r)
        if (ranks[static_cast<size_t>(r)].running < 0 && start(r, now)) ++begun;
    }
  }

  StageProgress& at(int64_t stage) { return stages[static_cast<size_t>(stage)]; }

  // Chunk c runs down the ranks if it is even, up if it is odd.
  int64_t stage_of(int64_t rank, int64_t chunk) const {
    return chunk * schedule.pp + (chunk % 2 == 0 ? rank : schedule.pp - 1 - rank);
  }

  void finish(Rank& rank) {
    StageProgress& stage = at(rank.running);
    ++(rank.backward ? stage.backwards_done : stage.forwards_done);
    rank.running = -1;
  }

  bool backward_ready(int64_t s) {
    const auto next = s + 1 < static_cast<int64_t>(stages.size()) ? at(s + 1).backwards_done
                                                                  : at(s).forwards_done;
    return at(s).backwards_begun < next;
  }

  bool forward_ready(int64_t s) {
    if (s > 0) return at(s).forwards_begun < at(s - 1).forwards_done;
    return at(0).forwards_begun < schedule.microbatches &&
           at(0).forwards_begun - at(0).backwards_done < schedule.pp;
  }

  bool start(int64_t r, int64_t now) {
    for (const bool backward : {true, false})
      for (int64_t chunk = schedule.vpp; chunk-- > 0;) {
        const int64_t s = stage_of(r, chunk);
        if (!(backward ? backward_ready(s) : forward_ready(s))) continue;
        Rank& rank = ranks[static_cast<size_t>(r)];
        std::vector<Action>& list = schedule.ranks[static_cast<size_t>(r)];
        list.push_back(backward ? backward_of(s, at(s).backwards_begun++)
                                : forward_of(s, at(s).forwards_begun++));
        rank = {now + (backward ? kBackwardSlots : kForwardSlots), s, backward};
        return true;
      }
    return false;
  }

  Schedule& schedule;
  std::vector<StageProgress> stages;
  std::vector<Rank> ranks;
};

Schedule generate(const ScheduleParams& params) {
  if (params.vpp % 2 != 0)
    throw std::invalid_argument(std::string(kName) + " runs two chunks a rank and wave: vpp = " +
                                std::to_string(params.vpp) + " must be even");
  Schedule schedule = snake_schedule(kName, params);
  expect_param(params, kWaves, params.vpp / 2, "vpp / 2");
  WaveOrder(schedule).run();
  return schedule;
}

}  // namespace

ScheduleFamily hanayo() {
  return {kName,
          kAliases,
          "w = vpp/2 waves over a snake of chunks, greedy 1F1B; holds at most v p chunks; vpp even",
          "Liu et al. 2023 (arXiv:2308.15762); the paper's rule, no program was compared",
          generate,
          kParameters};
}

}  // namespace stepcast
