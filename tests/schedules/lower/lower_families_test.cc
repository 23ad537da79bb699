// SPDX-License-Identifier: Apache-2.0
// The whole step of every family: as long as its schedule alone, and memory that comes back.
#include <gtest/gtest.h>

#include "schedules/formats/action_text.h"
#include "schedules/formats/schedule_csv.h"
#include "schedules/lower/lower.h"
#include "schedules/lower/lower_unit.h"
#include "sim/account/account.h"
#include "sim/engine/run.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"
#include "tests/schedules/lower/lower_sample.h"
#include "tests/schedules/written_actions.h"

namespace stepcast::lower_families_test {
namespace {

using testing::parse_actions;

using sample::cost_of;
using sample::only_products;
using sample::small_gpt;

// Equal stages of one layer, for the sizes of `schedule`.
Plan plan_of(const Schedule& schedule) {
  Plan plan = sample::plan(1, schedule.pp, 1, schedule.microbatches, 1, 256);
  plan.vpp = schedule.vpp;
  plan.stages.assign(schedule.rank_of_stage.size(), StageContent{.layers = 1});
  return plan;
}

Schedule generated(const char* family, int64_t pp, int64_t vpp, int64_t m) {
  return find_schedule_family(family)->generate({.pp = pp, .vpp = vpp, .microbatches = m});
}

Timeline run_alone(const Schedule& schedule, const StageTimes& times) {
  std::vector<Time> durations;
  const OpGraph graph = lower_unit(schedule, {.times = times, .by_stage = {}}, durations);
  Prices prices;
  for (const Time t : durations) prices.by_work.push_back({t, Origin::measured, ""});
  return run(compile(graph, prices));
}

StageTimes times_of(const Transformer& model, const Plan& plan) {
  Plan own = plan;
  own.pp = own.grid.pp = 1;
  own.stages.resize(1);
  own.global_batch = 2;
  const Schedule split = schedule_of_rows("custom", {parse_actions("0F0 0I0 0W0 0F1 0I1 0W1")});
  const OpGraph graph = lower(model, own, split);
  const Prices prices = only_products(graph);
  StageTimes times;
  times.forward = cost_of(graph, prices, "forward");
  times.backward_input = cost_of(graph, prices, "input gradient");
  times.backward_weight = cost_of(graph, prices, "weight gradient");
  return times;
}

// Both ways to the time of a schedule agree, with and without the optimizer's barrier; free
// transfers, equal stages.
TEST(LowerFamilies, TakeAsLongAsTheScheduleAlone) {
  const Transformer model = small_gpt();
  int tried = 0, pairs = 0;
  for (const ScheduleFamily& family : schedule_families()) {
    for (const auto& [pp, vpp] :
         {std::pair{2, 1}, std::pair{2, 2}, std::pair{4, 1}, std::pair{4, 2}}) {
      const ScheduleParams params{.pp = pp, .vpp = vpp, .microbatches = 8};
      if (check_params(family, params)) continue;
      const Schedule schedule = generate_schedule(family, params);
      if (schedule.seq_splits > 1) continue;      // its pieces do not cost the same
      if (family.name == "vocab-1f1b") continue;  // its ranks hold more than their stages
      ++tried;
      for (const auto& list : schedule.ranks)
        for (const Action& a : list) pairs += a.overlaps_next;
      const std::string name = std::string(family.name) + " pp " + std::to_string(pp);
      const Plan plan = plan_of(schedule);
      const Timeline alone = run_alone(schedule, times_of(model, plan));

      const OpGraph graph = lower(model, plan, schedule);
      check_graph(graph);
      const Prices prices = only_products(graph);
      EXPECT_EQ(run(compile(graph, prices)).makespan, alone.makespan) << name;
      for (const RoleMemory& memory : trace_memory(graph))
        EXPECT_EQ(memory.start, memory.end) << name;

      const OpGraph open = lower(model, plan, schedule, {.post_validation = true});
      check_graph(open);
      EXPECT_EQ(run(compile(open, only_products(open))).span, alone.span) << name;
    }
  }
  EXPECT_GT(tried, 40);
  EXPECT_GT(pairs, 0);
}

TEST(LowerFamilies, ZbH1TakesItsClosedForm) {
  const Transformer model = small_gpt();
  for (const auto& [pp, m] : {std::pair{2, 4}, std::pair{4, 8}, std::pair{8, 20}}) {
    const Schedule schedule = generated("zb-h1", pp, 1, m);
    const Plan plan = plan_of(schedule);
    const StageTimes t = times_of(model, plan);
    const OpGraph graph = lower(model, plan, schedule);
    const Time all = t.forward + t.backward_input + t.backward_weight;
    const Time bubble =
        std::max({t.forward + t.backward_input - t.backward_weight, t.forward, t.backward_input});
    EXPECT_EQ(run(compile(graph, only_products(graph))).makespan, all * m + bubble * (pp - 1));
  }
}

TEST(LowerFamilies, SplittingTheBackwardKeepsTheWork) {
  const Transformer model = small_gpt();
  const auto busy = [&](const char* family) {
    const Schedule schedule = generated(family, 4, 1, 8);
    const OpGraph graph = lower(model, plan_of(schedule), schedule);
    const Program program = compile(graph, only_products(graph));
    std::vector<Time> sums;
    for (const SpendTable& table : make_account(program, run(program)).by_role)
      sums.push_back(table[static_cast<size_t>(Spend::matmul)]);
    return sums;
  };
  EXPECT_EQ(busy("1f1b"), busy("zb-h1"));
  EXPECT_GT(busy("1f1b")[0], Time{});
}

// Weight gradients that are put off hold what they need until they run.
TEST(LowerFamilies, PuttingOffWeightGradientsCostsMemory) {
  const Transformer model = small_gpt();
  const auto peak = [&](const std::string& row) {
    const Schedule schedule = schedule_of_rows("custom", {parse_actions(row)});
    return trace_memory(lower(model, plan_of(schedule), schedule))[0].peak;
  };
  const Bytes at_once = peak("0F0 0I0 0W0 0F1 0I1 0W1");
  EXPECT_GT(peak("0F0 0I0 0F1 0I1 0W0 0W1"), at_once);
  EXPECT_LT(at_once, peak("0F0 0F1 0I0 0W0 0I1 0W1"));
}

TEST(LowerFamilies, TwoReplicasHoldEverythingTwiceAndSumTheirGradients) {
  const Transformer model = small_gpt();
  const auto static_bytes = [&](const Schedule& schedule, const OpGraph& graph) {
    std::vector<Bytes> sums(static_cast<size_t>(schedule.pp));
    for (size_t r = 0; r < sums.size(); ++r)
      for (const StaticMemory& m : graph.roles[r].memory) sums[r] += m.bytes;
    return sums;
  };
  const Schedule one = generated("1f1b", 4, 1, 8), two = generated("dualpipe", 4, 2, 8);
  const OpGraph single = lower(model, plan_of(one), one);
  const OpGraph graph = lower(model, plan_of(two), two);
  for (size_t r = 0; r < 4; ++r)
    EXPECT_EQ(static_bytes(two, graph)[r], static_bytes(one, single)[r] * 2);
  const int64_t gradients = graph.roles[0].memory[1].bytes.value;
  std::vector<std::pair<uint16_t, uint16_t>> pairs;
  for (const Rendezvous& r : graph.rendezvous) {
    const Work& w = graph.works[static_cast<size_t>(r.work)];
    if (w.kind != WorkKind::all_reduce || w.axis != Axis::pp) continue;
    EXPECT_EQ(r.parties, 2);
    EXPECT_EQ(w.bytes.value, gradients);
    pairs.emplace_back(w.from, w.to);
  }
  EXPECT_EQ(pairs, (std::vector<std::pair<uint16_t, uint16_t>>{{0, 3}, {1, 2}}));
}

// Once gradients are scattered over the data-parallel replicas, the two sum what is left.
TEST(LowerFamilies, TwoReplicasSumTheirSharesOfScatteredGradients) {
  const Schedule schedule = generated("dualpipe", 4, 2, 8);
  const auto exchanged = [&](int zero, bool overlapped) {
    Plan plan = plan_of(schedule);
    plan.dp = plan.grid.dp = 8;
    plan.global_batch *= 8;
    plan.zero = zero;
    plan.overlap.dp_grad = overlapped;
    const OpGraph graph = lower(small_gpt(), plan, schedule);
    for (const Rendezvous& r : graph.rendezvous) {
      const Work& w = graph.works[static_cast<size_t>(r.work)];
      if (w.kind == WorkKind::all_reduce && w.axis == Axis::pp) return w.bytes.value;
    }
    return int64_t{0};
  };
  const int64_t all = exchanged(0, false);
  EXPECT_GT(all, 0);
  EXPECT_EQ(exchanged(0, true), all);
  EXPECT_EQ(exchanged(1, false), all);
  EXPECT_EQ(exchanged(1, true), all / 8);
  EXPECT_EQ(exchanged(2, false), all / 8);
  EXPECT_EQ(exchanged(3, true), all / 8);
}

TEST(LowerFamilies, ATiedHeadOnTheRankOfTheEmbeddingSharesIt) {
  Transformer model = small_gpt();
  model.tied = true;
  const auto total = [&](const Schedule& schedule) {
    Plan plan = plan_of(schedule);
    plan.stages.front().embedding = plan.stages.back().head = true;
    const OpGraph graph = lower(model, plan, schedule);
    check_graph(graph);
    bool reduced = false;
    for (const Work& w : graph.works) reduced = reduced || w.axis == Axis::embedding;
    int64_t parameters = 0;
    for (const RoleOps& role : graph.roles) parameters += role.memory[0].bytes.value / 2;
    return std::pair{parameters, reduced};
  };
  const auto [apart, summed] = total(generated("interleaved", 4, 2, 8));
  const auto [together, not_summed] = total(generated("zb-v", 4, 2, 8));
  EXPECT_EQ(apart - together, model.vocab * model.hidden);
  EXPECT_TRUE(summed);
  EXPECT_FALSE(not_summed);
}

TEST(LowerFamilies, PostValidationWaitsForNoOtherStage) {
  const Transformer model = small_gpt();
  const Schedule schedule = generated("zb-h2", 4, 1, 8);
  const Plan plan = plan_of(schedule);
  const auto over_model = [](const OpGraph& graph) {
    int count = 0;
    for (const Rendezvous& r : graph.rendezvous)
      count += graph.works[static_cast<size_t>(r.work)].axis == Axis::model;
    return count;
  };
  const OpGraph barrier = lower(model, plan, schedule);
  const OpGraph open = lower(model, plan, schedule, {.post_validation = true});
  EXPECT_EQ(over_model(barrier), 1);
  EXPECT_EQ(over_model(open), 0);
  const Timeline with = run(compile(barrier, only_products(barrier)));
  const Timeline without = run(compile(open, only_products(open)));
  Time longest{};
  for (const RoleTimeline& role : without.roles)
    longest = std::max(longest, role.end - role.compute_begin);
  EXPECT_EQ(without.span, longest);
  EXPECT_LT(without.span, with.makespan);
}

// A piece of a sequence sees the keys of all pieces before it, so that all pieces together do the
// attention of the whole sequence.
TEST(LowerFamilies, PiecesOfASequenceDoTheWorkOfTheWhole) {
  const Transformer model = small_gpt();
  const auto flops = [&](const Schedule& schedule) {
    Plan plan = plan_of(schedule);
    plan.kernels.flash_attention = true;
    const OpGraph graph = lower(model, plan, schedule);
    check_graph(graph);
    for (const RoleMemory& memory : trace_memory(graph)) EXPECT_EQ(memory.start, memory.end);
    double attention = 0, products = 0;
    for (const RoleOps& role : graph.roles)
      for (const Item& item : role.items) {
        if (item.kind != ItemKind::pass) continue;
        for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops) {
          const Work& w = graph.works[static_cast<size_t>(op.work)];
          (w.kind == WorkKind::gemm ? products : attention) += w.flops.value;
        }
      }
    return std::pair{attention, products};
  };
  const Schedule whole = generated("1f1b", 4, 1, 4);
  const Schedule pieces =
      generate_schedule(*find_schedule_family("seq1f1b"),
                        {.pp = 4, .vpp = 1, .microbatches = 4, .more = {{"seq_splits", "4"}}});
  ASSERT_EQ(pieces.seq_splits, 4);
  EXPECT_DOUBLE_EQ(flops(pieces).first, flops(whole).first);
  EXPECT_DOUBLE_EQ(flops(pieces).second, flops(whole).second);
}

TEST(LowerFamilies, RecomputedAndOffloadedActivationsComeBack) {
  const Transformer model = small_gpt();
  const auto traced = [&](const std::string& row, Recompute recompute) {
    const Schedule schedule = schedule_of_rows("custom", {parse_actions(row)});
    Plan plan = plan_of(schedule);
    plan.recompute = recompute;
    const OpGraph graph = lower(model, plan, schedule);
    check_graph(graph);
    run(compile(graph, only_products(graph)));
    const RoleMemory memory = trace_memory(graph)[0];
    EXPECT_EQ(memory.start, memory.end) << row;
    return memory.peak;
  };
  const Bytes kept = traced("0F0 0F1 0F2 0B0 0B1 0B2", Recompute::none);
  EXPECT_LT(traced("0F0 0O0 0F1 0O1 0F2 0B2 0L1 0B1 0L0 0B0", Recompute::none), kept);
  EXPECT_LT(traced("0F0 0F1 0F2 0R0 0B0 0R1 0I1 0W1 0R2 0B2", Recompute::full), kept);
}

TEST(LowerFamilies, RanksMayHoldDifferentNumbersOfStages) {
  const Transformer model = small_gpt();
  const Schedule schedule =
      schedule_of_rows("custom", {parse_actions("0F0 1F0 0F1 1F1 4F0 4B0 4F1 4B1 1B0 0B0 1B1 0B1"),
                                  parse_actions("2F0 3F0 2F1 3F1 3B0 2B0 3B1 2B1")});
  const Plan plan = plan_of(schedule);
  const OpGraph graph = lower(model, plan, schedule);
  check_graph(graph);
  EXPECT_EQ(run(compile(graph, only_products(graph))).makespan,
            run_alone(schedule, times_of(model, plan)).makespan);
}

}  // namespace
}  // namespace stepcast::lower_families_test
