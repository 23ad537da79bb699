// SPDX-License-Identifier: Apache-2.0
// Two chunks a rank in the form of a V within any limit on the activations held: the best of the
// schedules that all building blocks of one kind make for the costs given.
//
// A block starts on rank 0 with any slots of the period for the four passes; down the ranks the
// passes of both directions shift by a uniform offset, which may change once along the pipeline.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "schedules/families/families.h"
#include "schedules/families/v_blocks.h"
#include "schedules/synthesis/local_search.h"
#include "schedules/synthesis/order_timing.h"
#include "sim/check.h"

namespace stepcast {
namespace {

constexpr std::string_view kControllable = "v-controllable-memory";
constexpr std::string_view kControllableAliases[] = {"v-controllable", "v-auto", "v-auto-schedule",
                                                     "controllable-memory-v", "v-flexible"};
constexpr ScheduleParameter kControllableParameters[] = {
    {"max_mem_chunks",
     "most chunk activations held on a rank, at least 2; default p + 2, as v-half"},
    {"tF", "time of F of one chunk, any unit; default 1"},
    {"tB_input", "time of I; default tF"},
    {"tW", "time of W; default tF"},
    {"tComm", "latency of a hop between ranks; default 0"},
};

// A slot of the period for every pass of a rank.
using Pattern = std::array<int64_t, kVPasses>;

// Gives each weight gradient the first free slot of the period behind its input gradient.
// REQUIRES: the four other passes have different slots.
void place_weights(Pattern& pattern) {
  std::array<bool, kVPeriod> taken{};
  for (size_t pass = 0; pass < 4; ++pass) taken[static_cast<size_t>(pattern[pass])] = true;
  for (const auto& [input, weight] : {std::pair<size_t, size_t>{2, 4}, {3, 5}}) {
    auto slot = static_cast<size_t>(pattern[input]);
    while (taken[slot]) slot = (slot + 1) % kVPeriod;
    taken[slot] = true;
    pattern[weight] = static_cast<int64_t>(slot);
  }
}

// The pattern of the next rank; false if two passes fall on one slot.
bool shifted(const Pattern& from, int64_t down, Pattern& to) {
  std::array<bool, kVPeriod> taken{};
  for (size_t pass = 0; pass < 4; ++pass) {
    const bool goes_down = pass == 0 || pass == 2;
    to[pass] = (from[pass] + (goes_down ? down : kVPeriod - 1)) % kVPeriod;
    bool& slot = taken[static_cast<size_t>(to[pass])];
    if (slot) return false;
    slot = true;
  }
  place_weights(to);
  return true;
}

// Follows a microbatch through the pipeline, every pass in the first slot of its rank's pattern.
std::vector<VBlock> block_through(const std::vector<Pattern>& patterns) {
  std::vector<VBlock> block(patterns.size());
  int64_t slot = 0;
  const auto first_from = [](int64_t from, int64_t place) {
    return from + (place - from % kVPeriod + kVPeriod) % kVPeriod;
  };
  for (size_t pass = 0; pass < 4; ++pass)
    for (size_t i = 0; i < patterns.size(); ++i) {
      const size_t rank = pass == 0 || pass == 2 ? i : patterns.size() - 1 - i;
      block[rank][pass] = first_from(slot, patterns[rank][pass]);
      slot = block[rank][pass] + 1;
      if (pass >= 2) block[rank][pass + 2] = first_from(slot, patterns[rank][pass + 2]);
    }
  return block;
}

// All blocks of pp ranks, each once.
std::vector<std::vector<VBlock>> all_blocks(int64_t pp) {
  std::vector<std::vector<VBlock>> blocks;
  std::vector<Pattern> starts;
  for (int64_t f1 = 1; f1 < kVPeriod; ++f1)
    for (int64_t i1 = 1; i1 < kVPeriod; ++i1)
      for (int64_t i0 = 1; i0 < kVPeriod; ++i0) {
        if (f1 == i1 || f1 == i0 || i1 == i0) continue;
        starts.push_back({0, f1, i1, i0, 0, 0});
        place_weights(starts.back());
      }
  for (const Pattern& start : starts)
    for (int64_t early = 1; early < kVPeriod; ++early)
      for (int64_t late = 1; late <= early; ++late)
        for (int64_t change = 1; change < std::max<int64_t>(pp, 2); ++change) {
          std::vector<Pattern> patterns{start};
          Pattern next{};
          while (static_cast<int64_t>(patterns.size()) < pp &&
                 shifted(patterns.back(),
                         static_cast<int64_t>(patterns.size()) <= change ? early : late, next))
            patterns.push_back(next);
          if (static_cast<int64_t>(patterns.size()) == pp)
            blocks.push_back(block_through(patterns));
        }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

int64_t peak_held(const VRows& rows) {
  int64_t peak = 0;
  for (const VRow& row : rows) peak = std::max(peak, stepcast::peak_held(row));
  return peak;
}

// What is to be scheduled.
struct VProblem {
  int64_t pp = 1, microbatches = 1;
  int64_t limit = 2;  // chunk activations held on a rank
  VTimes times;
  bool level = false;   // F, I and W take as long as each other, a hop no time
  PipelineCosts costs;  // the same, for the evaluator
};

struct TimedOrder {
  OrderTimes times;
  Order order;
};

bool shorter(const TimedOrder& a, const TimedOrder& b) {
  return std::tie(a.times.makespan, a.times.span) < std::tie(b.times.makespan, b.times.span);
}

// The four best orders, the shortest first.  Of orders with the same times only the first that was
// found is kept; it is made of the block that holds more (repeated_blocks).
struct BestOrders {
  static constexpr size_t kMost = 4;
  std::vector<TimedOrder> all = {};

  bool wants(const OrderTimes& times) const {
    if (all.size() < kMost) return true;
    const OrderTimes& worst = all.back().times;
    return std::tie(times.makespan, times.span) < std::tie(worst.makespan, worst.span);
  }
  void offer(TimedOrder candidate) {
    const auto at = std::lower_bound(all.begin(), all.end(), candidate, shorter);
    if (at != all.end() && !shorter(candidate, *at)) return;
    all.insert(at, std::move(candidate));
    if (all.size() > kMost) all.pop_back();
  }
};

Order order_of(const VRows& rows) {
  Order order;
  for (size_t r = 0; r < rows.size(); ++r)
    order.push_back(
        actions_of(rows[r], static_cast<int64_t>(r), static_cast<int64_t>(rows.size()), false));
  return order;
}

void offer(const VProblem& problem, Order order, BestOrders& best) {
  const std::optional<OrderTimes> times = time_order(problem.costs, order);
  STEPCAST_CHECK(times.has_value(), "a V schedule gets stuck");
  if (!best.wants(*times)) return;
  best.offer({*times, std::move(order)});
}

// What can be made of the rows by closing gaps with time running forward and backward in turn, in
// slots and in the times given: in all ways for `rounds` runs.
void explore(const VProblem& problem, const VRows& rows, int rounds, bool backward,
             BestOrders& best) {
  if (rounds == 0) return;
  for (const VTimes& times : {VTimes{}, problem.times}) {
    if (times == problem.times && problem.level) continue;  // the same as slots
    for (const VChoice choice : {VChoice::first_of_row, VChoice::inputs_first_late}) {
      if (backward && choice != VChoice::first_of_row) continue;
      const VRows closed = run_ahead(rows, times, {choice, problem.limit, backward}).rows;
      offer(problem, order_of(closed), best);
      explore(problem, closed, rounds - 1, !backward, best);
    }
  }
}

// How much is tried, counted in passes looked at so that the outcome does not hang on the machine;
// each step takes some tenths of a second at most, up to a thousand passes or so a rank.
constexpr int64_t kBlockEffort = 600'000;  // all blocks, with two runs after each other
constexpr int kQuickRounds = 2;
constexpr int64_t kDeepEffort = 10'000;        // the most promising blocks, with more runs
constexpr size_t kMostDeep = 10;               // ... and no more blocks than these
constexpr int64_t kSearchEffort = 12'000'000;  // local search
constexpr int64_t kTriesOfPass = 16;           // ... and no more tries than these for each pass
int deep_rounds(const VProblem& problem) {
  return problem.pp * problem.microbatches <= 1000 ? 5 : 3;
}

// How many orders may be tried for this many passes; at least `least`.
size_t affordable(const VProblem& problem, int64_t passes, int64_t least) {
  return static_cast<size_t>(std::max(least, passes / (6 * problem.pp * problem.microbatches)));
}

// The repeated blocks that keep to the limit.  Those that hold most have the shortest period of
// waiting and come first, as many as the effort allows.
std::vector<VRows> repeated_blocks(const VProblem& problem) {
  struct Fitting {
    int64_t peak, latency;
    const std::vector<VBlock>* block;
  };
  const std::vector<std::vector<VBlock>> blocks = all_blocks(problem.pp);
  std::vector<Fitting> fitting;
  for (const std::vector<VBlock>& block : blocks) {
    // Holding does not grow any more once the first microbatches have left.
    const int64_t enough = std::min(problem.microbatches, 2 * problem.pp + 2);
    const int64_t peak = peak_held(repeat_block(block, enough));
    if (peak <= problem.limit) fitting.push_back({peak, block[0][3], &block});
  }
  std::stable_sort(fitting.begin(), fitting.end(), [](const Fitting& a, const Fitting& b) {
    return a.peak != b.peak ? a.peak > b.peak : a.latency < b.latency;
  });
  fitting.resize(std::min(fitting.size(), affordable(problem, kBlockEffort, 8)));
  std::vector<VRows> repeated;
  for (const Fitting& f : fitting) repeated.push_back(repeat_block(*f.block, problem.microbatches));
  return repeated;
}

// The rows that make the shortest schedules in a quick exploration.
std::vector<VRows> most_promising(const VProblem& problem, std::vector<VRows> all) {
  struct Ranked {
    TimedOrder best;
    VRows* rows;
  };
  std::vector<Ranked> ranked;
  for (VRows& rows : all) {
    BestOrders best;
    explore(problem, rows, kQuickRounds, false, best);
    ranked.push_back({std::move(best.all.front()), &rows});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return shorter(a.best, b.best); });
  ranked.resize(std::min({ranked.size(), affordable(problem, kDeepEffort, 2), kMostDeep}));
  std::vector<VRows> promising;
  for (const Ranked& r : ranked) promising.push_back(std::move(*r.rows));
  return promising;
}

// For limits that no block of the full rate keeps to: V-Min's passes, which follow each other
// without a gap, in the shortest period that does.  The longest is a microbatch at a time.
VRows slow_block(const VProblem& problem) {
  const int64_t pp = problem.pp;
  std::vector<VBlock> block;
  for (int64_t r = 0; r < pp; ++r)
    block.push_back({r, 2 * pp - 1 - r, 2 * pp + r, 4 * pp - 1 - r, kNoSlot, kNoSlot});
  const auto apart = [&](int64_t period) {
    for (const VBlock& first : block)
      for (size_t a = 0; a < 4; ++a)
        for (size_t b = 0; b < a; ++b)
          if ((first[a] - first[b]) % period == 0) return false;
    return true;
  };
  for (int64_t period = kVPeriod;; ++period) {
    if (!apart(period)) continue;
    VRows rows = repeat_block(block, problem.microbatches, period);
    for (VRow& row : rows) fill_weights(row, true);
    if (peak_held(rows) <= problem.limit) return rows;
    STEPCAST_CHECK(period <= 4 * pp + 2, "a microbatch at a time holds too much");
  }
}

// Shortens the orders by moving single passes, the shortest order first.
Order improved(const VProblem& problem, BestOrders best) {
  const auto most = static_cast<int64_t>(affordable(problem, kSearchEffort, 50));
  const int64_t tries = std::min(most, kTriesOfPass * 6 * problem.pp * problem.microbatches);
  const OrderTimes bounds = schedule_bounds(problem.costs, true);
  BestOrders outcome;
  for (TimedOrder& c : best.all) {
    SearchGoal goal;
    goal.good_enough = {bounds.makespan, bounds.span};
    goal.tries = tries / static_cast<int64_t>(best.all.size());
    SearchOutcome found = improve_order(problem.costs, c.order, goal);
    offer(problem, std::move(found.order), outcome);
  }
  return std::move(outcome.all.front().order);
}

// Times as whole numbers that keep three decimals.
VTimes times_of(ParamReader& in) {
  constexpr double kScale = 1000, kMost = 1e7;
  const auto read = [&](std::string_view key, double otherwise, bool positive) {
    const double least = positive ? 1 / kScale : 0;
    const std::optional<double> given = in.number(key);
    if (given && !(*given >= least && *given <= kMost))
      in.refuse(fmt::format("{} = {} must lie between {} and 10000000; any unit will do", key,
                            in.params().more.find(key)->second, least));
    return static_cast<int64_t>(std::floor(given.value_or(otherwise) * kScale + 0.5));
  };
  const double forward = in.number("tF").value_or(1);
  return {read("tF", 1, true), read("tB_input", forward, true), read("tW", forward, true),
          read("tComm", 0, false)};
}

std::optional<int64_t> most_chunks_of(ParamReader& in) {
  return in.whole("max_mem_chunks", 2);
}

std::optional<Diagnostic> check_controllable(const ScheduleParams& params) {
  if (auto wrong = check_two_chunks(kControllable, params)) return wrong;
  ParamReader in(params);
  most_chunks_of(in);
  times_of(in);
  return in.wrong();
}

VProblem problem_of(const ScheduleParams& params, const Schedule& schedule) {
  VProblem problem;
  problem.pp = params.pp;
  problem.microbatches = params.microbatches;
  // No schedule in the form of a V is the better for holding more than 1F1B.
  ParamReader in(params);
  problem.limit = std::min(most_chunks_of(in).value_or(params.pp + 2), 2 * params.pp);
  problem.limit = std::max<int64_t>(problem.limit, 2);
  problem.times = times_of(in);
  const VTimes& t = problem.times;
  problem.level = t == VTimes{t.forward, t.forward, t.forward, 0};
  problem.costs = level_costs(params.pp, params.microbatches, schedule.rank_of_stage,
                              {Time{t.forward}, Time{t.input}, Time{t.weight}, {}, {}, {}},
                              {1, 0, -1}, Time{t.hop}, problem.limit);
  return problem;
}

Schedule controllable_order(const ScheduleParams& params) {
  Schedule schedule = snake_schedule(kControllable, params);
  const VProblem problem = problem_of(params, schedule);
  BestOrders best;
  std::vector<VRows> rows = repeated_blocks(problem);
  if (rows.empty()) rows.push_back(slow_block(problem));
  for (const VRows& promising : most_promising(problem, std::move(rows)))
    explore(problem, promising, deep_rounds(problem), false, best);
  schedule.ranks = improved(problem, std::move(best));
  return schedule;
}

}  // namespace

ScheduleFamily v_controllable() {
  return {kControllable,
          "v controllable memory",
          kControllableAliases,
          "two chunks a rank in a V, split backward, made for the times and the limit given: holds "
          "at most max_mem_chunks chunks (2p is 1f1b; bubble of zb-v there, grows as it falls); "
          "vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); zero-bubble's search over building blocks",
          check_controllable,
          controllable_order,
          kControllableParameters,
          P2pStyle::async,
          OrderBy::search};
}

}  // namespace stepcast
