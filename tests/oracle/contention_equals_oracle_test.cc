// SPDX-License-Identifier: Apache-2.0
// The contention engine against the naive one, to the picosecond: random graphs on random lanes
// (their speeds, links, windows and jitter), shared links and slow-downs: a thousand by default
// (random_cases.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "sim/account/account.h"
#include "sim/contention/contention.h"
#include "sim/contention/contention_program.h"
#include "sim/graph/program.h"
#include "sim/lanes/lane_speeds.h"
#include "tests/hand_graph.h"
#include "tests/oracle/contention.h"
#include "tests/oracle/random_graph.h"
#include "tests/oracle/random_lanes.h"
#include "tests/random_cases.h"

namespace stepcast::contention_equals_oracle_test {
namespace {

struct ContendedCase {
  oracle::RandomCase base;
  LaneSet lanes;
  Traffic traffic;
  Interference interference;
};

enum class Sharing { none, links, slowing, both };

template <class T>
T pick(oracle::Draws& draws, std::initializer_list<T> values) {
  return *(values.begin() + draws.below(static_cast<uint32_t>(values.size())));
}

void draw_lanes(oracle::Draws& draws, ContendedCase& c) {
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp}) {
    if (draws.chance(50)) c.lanes.digits.push_back({axis, draws.between(1, 2)});
  }
  if (draws.chance(30)) {
    std::reverse(c.lanes.digits.begin(), c.lanes.digits.end());
  }
  const auto lanes = static_cast<size_t>(c.lanes.lanes());
  if (draws.chance(60)) {
    for (size_t r = 0; r < c.base.graph.roles.size(); ++r) {
      c.lanes.slowness.emplace_back();
      for (size_t l = 0; l < lanes; ++l) {
        c.lanes.slowness.back().push_back(
            pick(draws, {kNominal, kNominal, kNominal + 1, 5000, 2 * kNominal}));
      }
    }
  }
  if (!draws.chance(30)) return;
  c.lanes.class_ps.emplace_back();
  for (const Price& price : c.base.prices.by_work) {
    c.lanes.class_ps.back().push_back(2 * price.time.count() + 1);
  }
  for (const Axis axis : {Axis::pp, Axis::model}) {
    auto& classes = c.lanes.group_class[static_cast<size_t>(axis)];
    for (size_t r = 0; r < c.base.graph.roles.size(); ++r) {
      classes.emplace_back();
      for (size_t l = 0; l < lanes; ++l) {
        classes.back().push_back(axis == Axis::pp && draws.chance(20) ? 1 : 0);
      }
    }
  }
}

void draw_traffic(oracle::Draws& draws, ContendedCase& c) {
  const uint32_t links = draws.between(1, 5);
  for (uint32_t i = 0; i < links; ++i) {
    c.traffic.capacity.push_back(
        pick<int64_t>(draws, {1'000'000'000'000, 1'700'000'000'000, 3'000'000'000'001}));
  }
  const uint32_t patterns = draws.between(1, 6);
  for (uint32_t i = 0; i < patterns; ++i) {
    std::vector<LinkUse> uses;
    for (uint32_t l = 0; l < links; ++l) {
      if (draws.chance(60)) {
        uses.push_back({l, pick<uint32_t>(draws, {kFullLoad, kFullLoad, kFullLoad / 2, 98304})});
      }
    }
    if (uses.empty()) uses.push_back({draws.below(links)});
    c.traffic.patterns.push_back(std::move(uses));
  }
  const size_t ranks = c.base.graph.roles.size() * static_cast<size_t>(c.lanes.lanes());
  for (Work& work : c.base.graph.works) {
    c.traffic.pattern_of.emplace_back();
    // Long enough that windows begin and end in it.
    c.traffic.latency.push_back(Time{pick<int64_t>(draws, {0, 1, 12, 25})});
    if (!is_communication(work.kind) || !draws.chance(70)) continue;
    work.bytes = Bytes{pick<int64_t>(draws, {0, 1, 7, 20, 20, 40})};
    for (size_t r = 0; r < ranks; ++r) {
      c.traffic.pattern_of.back().push_back(draws.chance(10) ? Traffic::kPrivate
                                                             : draws.below(patterns));
    }
  }
}

// The lanes of the group of `axis` that the lane is in, ascending.
std::vector<uint32_t> group_of(const LaneSet& lanes, Axis axis, uint32_t lane) {
  std::vector<uint32_t> group;
  for (uint32_t other = 0; other < lanes.lanes(); ++other) {
    uint32_t a = lane, b = other;
    bool same = true;
    for (const LaneDigit& d : lanes.digits) {
      const auto size = static_cast<uint32_t>(d.size);
      same = same && (covers(axis, d) || a % size == b % size);
      a /= size;
      b /= size;
    }
    if (same) group.push_back(other);
  }
  return group;
}

// Every rank has a port, which the groups that it is in use alike, and equal lanes of some digits
// have a cable in common; now and then one rank or one group is not like the others.
void draw_alike_traffic(oracle::Draws& draws, ContendedCase& c) {
  Traffic& traffic = c.traffic;
  const auto width = static_cast<uint32_t>(c.lanes.lanes());
  const auto roles = static_cast<uint32_t>(c.base.graph.roles.size());
  const uint32_t ranks = roles * width;
  const uint32_t on_a_cable = draws.between(1, width);  // lanes in a row
  const uint32_t cables = (width + on_a_cable - 1) / on_a_cable;
  traffic.capacity.assign(ranks + cables, 1'700'000'000'000);
  for (uint32_t i = ranks; i < ranks + cables; ++i) traffic.capacity[i] = 3'000'000'000'001;
  if (draws.chance(25)) traffic.capacity[draws.below(ranks + cables)] = 1'000'000'000'000;
  for (Work& work : c.base.graph.works) {
    std::vector<uint32_t>& pattern_of = traffic.pattern_of.emplace_back();
    traffic.latency.push_back(Time{pick<int64_t>(draws, {0, 1, 12, 25})});
    if (!is_communication(work.kind) || !draws.chance(70)) continue;
    work.bytes = Bytes{pick<int64_t>(draws, {0, 1, 7, 20, 20, 40})};
    const uint32_t load = pick<uint32_t>(draws, {kFullLoad, kFullLoad / 2, 98304});
    const bool by_cable = draws.chance(50);
    pattern_of.assign(ranks, Traffic::kPrivate);
    for (uint32_t role = 0; role < roles; ++role) {
      for (uint32_t lane = 0; lane < width; ++lane) {
        const std::vector<uint32_t> group = group_of(c.lanes, work.axis, lane);
        uint32_t& pattern = pattern_of[role * width + lane];
        pattern = pattern_of[role * width + group.front()];
        if (group.front() != lane || draws.chance(1)) continue;
        pattern = static_cast<uint32_t>(traffic.patterns.size());
        std::vector<LinkUse>& uses = traffic.patterns.emplace_back();
        std::vector<uint32_t> cables_used;
        for (const uint32_t member : group) {
          uses.push_back({role * width + member, load});
          cables_used.push_back(ranks + member / on_a_cable);
        }
        cables_used.erase(std::unique(cables_used.begin(), cables_used.end()), cables_used.end());
        for (const uint32_t cable : cables_used) {
          if (by_cable) uses.push_back({cable, load});
        }
      }
    }
  }
}

// Lanes that are alike for the most part, and what they put on links too.
ContendedCase draw_alike_case(uint64_t seed, bool slowing) {
  ContendedCase c;
  c.base = oracle::random_case(seed);
  oracle::Draws draws(seed + 99);
  if (draws.chance(30)) {
    c.lanes = oracle::random_lanes(c.base.graph, draws);
  } else {
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp})
      c.lanes.digits.push_back({axis, draws.between(1, 3)});
  }
  draw_alike_traffic(draws, c);
  if (slowing) c.interference = {pick(draws, {1.161, 1.5}), pick(draws, {1.0, 1.106})};
  return c;
}

ContendedCase draw_case(uint64_t seed, Sharing sharing) {
  ContendedCase c;
  c.base = oracle::random_case(seed);
  oracle::Draws draws(seed + 77);
  if (draws.chance(40)) {
    c.lanes = oracle::random_lanes(c.base.graph, draws);
  } else {
    draw_lanes(draws, c);
  }
  if (draws.chance(20)) c.lanes.jitter = Jitter{.sigma = 0.3, .seed = seed};
  if (sharing == Sharing::links || sharing == Sharing::both) draw_traffic(draws, c);
  if (sharing == Sharing::slowing || sharing == Sharing::both) {
    c.interference = {pick(draws, {1.0, 1.161, 1.5, 2.0}), pick(draws, {1.0, 1.106, 1.481})};
  }
  return c;
}

// Three stages of tp groups: the one in the middle sends what it made, and then posts that it can
// receive, lane by lane; the lanes meet in the collective of the next pass.
OpGraph draw_pipeline(oracle::Draws& draws, Prices& prices) {
  HandGraph g(draws.between(0, 3));
  const auto duration = [&] { return static_cast<int64_t>(draws.between(1, 30)); };
  const auto draw_pass = [&] {
    std::vector<HandOp> ops{{duration()}, {duration(), Stream::tp}, {duration()}};
    std::vector<Wait> waits{{.op = 1, .on = 0}};
    if (draws.chance(80)) waits.push_back({.op = 2, .on = 1});
    if (draws.chance(50)) ops.push_back({duration()});
    return g.pass(ops, waits);
  };
  const PassId forward = draw_pass(), backward = draw_pass();
  constexpr uint16_t kStages = 3;
  for (uint32_t r = 0; r < kStages; ++r) g.graph.roles[g.role()].pipeline_rank = r;
  const uint32_t microbatches = draws.between(2, 5);
  for (uint32_t m = 0; m < microbatches; ++m) {
    for (uint16_t r = 0; r + 1 < kStages; ++r) {
      const RendezvousId id = g.rendezvous(2, duration());
      const WorkId sent = g.graph.rendezvous[static_cast<size_t>(id)].work;
      g.graph.works[static_cast<size_t>(sent)].from = r;
      g.graph.works[static_cast<size_t>(sent)].to = static_cast<uint16_t>(r + 1);
      if (r == 0) g.run(r, draws.chance(50) ? forward : backward);
      for (uint32_t party = r; party <= r + 1U; ++party) {
        g.post(party, id);
        g.join(party, id);
        if (draws.chance(50)) g.sync(party, Stream::compute);
      }
      g.run(r + 1U, draws.chance(50) ? forward : backward);
    }
  }
  prices = g.prices;
  return g.graph;
}

ContendedCase draw_pipeline_case(uint64_t seed) {
  ContendedCase c;
  oracle::Draws draws(seed + 55);
  c.base.graph = draw_pipeline(draws, c.base.prices);
  c.lanes.digits = {{Axis::tp, draws.between(2, 4)}, {Axis::dp, draws.between(1, 2)}};
  if (draws.chance(30)) {
    c.lanes.slowness.assign(c.base.graph.roles.size(),
                            std::vector<Slowness>(static_cast<size_t>(c.lanes.lanes()), kNominal));
    for (std::vector<Slowness>& of_role : c.lanes.slowness) {
      for (Slowness& slowness : of_role) slowness = pick<Slowness>(draws, {kNominal, 5000});
    }
  }
  draw_traffic(draws, c);
  for (size_t w = 0; w < c.base.graph.works.size(); ++w) {
    if (c.base.graph.works[w].axis == Axis::tp) c.traffic.pattern_of[w].clear();
  }
  return c;
}

uint32_t drawn_factor(const LaneSet& lanes, uint32_t role, int64_t lane, uint64_t instance) {
  static const JitterTable table = jitter_table(0.3);
  const auto rank = static_cast<uint64_t>(role * lanes.lanes() + lane);
  return table.factor[jitter_index(jitter_rank_key(lanes.jitter->seed, rank),
                                   jitter_instance_key(instance))];
}

std::string compare(const ContendedCase& c, const LaneOptions& options) {
  const oracle::ContendedTimes want = oracle::play_contended(
      c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference, drawn_factor);
  if (want.stuck) return "the oracle is stuck\n";
  const ContentionResult got =
      run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference, options);
  std::string text;
  for (size_t r = 0; r < want.end.size(); ++r) {
    for (size_t l = 0; l < want.end[r].size(); ++l) {
      const Time end{(want.end[r][l] + kNominal / 2) / kNominal};  // half up
      if (got.lanes.end[r][l] == end) continue;
      text += "role " + std::to_string(r) + " lane " + std::to_string(l) + ": engine " +
              std::to_string(got.lanes.end[r][l].count()) + ", oracle " +
              std::to_string(end.count()) + "\n";
    }
  }
  return text;
}

// Private links and no slow-down: what the lanes engine says.
std::string compare_with_lanes(const ContendedCase& c) {
  const LaneResult want = run_lanes(c.base.graph, c.base.prices, c.lanes);
  const LaneResult got =
      run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference).lanes;
  std::string text;
  if (got.end != want.end) text += "ends\n";
  if (got.makespan != want.makespan) text += "makespan\n";
  if (got.span != want.span) text += "span\n";
  if (got.rank_ops != want.rank_ops) text += "rank_ops\n";
  if (got.last_role != want.last_role || got.last_lane != want.last_lane) text += "last\n";
  return text;
}

// Each rank by itself and equal ones merged: all that is told of the step, its account included.
std::string compare_folded(const ContendedCase& c) {
  const auto run = [&](bool fold) {
    return run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference,
                         {.fold = fold, .record = true});
  };
  const ContentionResult want = run(false), got = run(true);
  std::string text;
  const auto expect = [&](bool same, const char* what) {
    if (!same) text += std::string(what) + "\n";
  };
  expect(got.lanes.end == want.lanes.end, "ends");
  expect(got.lanes.makespan == want.lanes.makespan, "makespan");
  expect(got.lanes.span == want.lanes.span, "span");
  expect(got.lanes.rank_ops == want.lanes.rank_ops, "rank_ops");
  expect(got.lanes.last_role == want.lanes.last_role, "last role");
  expect(got.lanes.last_lane == want.lanes.last_lane, "last lane");
  expect(got.shared_ops == want.shared_ops, "shared_ops");
  expect(got.flow_events == want.flow_events, "flow_events");
  expect(got.lanes.timeline.rank_ops == want.lanes.timeline.rank_ops, "rank_ops of the lane");
  const Program program = compile(c.base.graph, c.base.prices);
  expect(make_account(program, got.lanes.timeline).by_role ==
             make_account(program, want.lanes.timeline).by_role,
         "account");
  return text;
}

// What is told of the lane that ends last, if it is known beforehand and if not.
std::string compare_known_lane(const ContendedCase& c, bool fold) {
  const auto run = [&](int64_t lane) {
    return run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference,
                         {.fold = fold, .record = true, .lane = lane});
  };
  const LaneResult got = run(-1).lanes, want = run(got.last_lane).lanes;
  const Program program = compile(c.base.graph, c.base.prices);
  std::string text;
  if (make_account(program, got.timeline).by_role != make_account(program, want.timeline).by_role)
    text += "account\n";
  for (size_t i = 0; i < want.timeline.rendezvous.size(); ++i) {
    const RendezvousTime &a = got.timeline.rendezvous[i], &b = want.timeline.rendezvous[i];
    if (a.begin != b.begin || a.end != b.end || a.last_role != b.last_role ||
        a.last_item != b.last_item || a.contended != b.contended)
      text += "rendezvous " + std::to_string(i) + "\n";
  }
  if (got.timeline.makespan != want.timeline.makespan) text += "makespan\n";
  return text;
}

uint64_t cases() {
  return testing::random_cases(1000);
}

// What is told of the step where one lane is recorded, of which every op is run, and where none is.
std::string compare_recorded(const ContendedCase& c) {
  const auto run = [&](bool record) {
    return run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference,
                         {.fold = false, .record = record});
  };
  const ContentionResult want = run(true), got = run(false);
  std::string text;
  if (got.lanes.end != want.lanes.end) text += "ends\n";
  if (got.lanes.span != want.lanes.span) text += "span\n";
  if (got.shared_ops != want.shared_ops) text += "shared_ops\n";
  if (got.flow_events != want.flow_events) text += "flow_events\n";
  return text;
}

class RandomContention : public ::testing::TestWithParam<Sharing> {};

TEST_P(RandomContention, TakesTheSameTimeInTheEngineAndInTheOracle) {
  const uint64_t count = cases() / 4;
  for (uint64_t seed = 0; seed < count; ++seed) {
    const ContendedCase c = draw_case(seed, GetParam());
    ASSERT_EQ(compare(c, {}), "") << "seed " << seed;
    if (seed % 4 > 0) continue;
    ASSERT_EQ(compare(c, {.merge = false}), "") << "unmerged, seed " << seed;
    ASSERT_EQ(compare(c, {.fold = false}), "") << "unfolded, seed " << seed;
    ASSERT_EQ(compare_known_lane(c, seed % 8 > 0), "") << "recorded, seed " << seed;
  }
}

TEST(ContentionOfEqualLanes, IsThatOfEachByItself) {
  for (uint64_t seed = 0; seed < cases() / 4; ++seed) {
    ContendedCase c = draw_case(seed, Sharing::slowing);
    c.lanes.jitter.reset();
    ASSERT_EQ(compare_folded(c), "") << "seed " << seed;
    c.lanes = {};
    c.lanes.digits = {{Axis::tp, 2}, {Axis::cp, 1}, {Axis::dp, 3}};
    ASSERT_EQ(compare_folded(c), "") << "equal lanes, seed " << seed;
  }
}

TEST(ContentionOfRanksAlike, IsThatOfEachByItself) {
  uint64_t folded = 0;
  for (uint64_t seed = 0; seed < cases() / 2; ++seed) {
    const ContendedCase c = draw_alike_case(seed, seed % 2 == 1);
    ASSERT_EQ(compare_folded(c), "") << "seed " << seed;
    if (seed % 8 == 0) {
      ASSERT_EQ(compare(c, {}), "") << "against the oracle, seed " << seed;
    }
    const LaneResult ranks =
        run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference).lanes;
    folded += ranks.lanes_run < c.lanes.lanes() ? 1 : 0;
  }
  EXPECT_GT(folded, cases() / 20);
}

TEST(ContentionOfStagesInTheMiddle, TakesTheSameTimeInTheEngineAndInTheOracle) {
  for (uint64_t seed = 0; seed < cases() / 4; ++seed) {
    const ContendedCase c = draw_pipeline_case(seed);
    ASSERT_EQ(compare(c, {.fold = false}), "") << "seed " << seed;
    ASSERT_EQ(compare(c, {}), "") << "folded, seed " << seed;
    ASSERT_EQ(compare_folded(c), "") << "recorded, seed " << seed;
    ASSERT_EQ(compare_known_lane(c, false), "") << "of a known lane, seed " << seed;
  }
}

// Stages of tp groups that slow their own compute: passes that begin with compute or with a
// collective, beside which compute goes on or which it waits for, that leave a collective to the
// items after them or to the next pass, with gradients of dp beside some; one after the other or
// with transfers between.
class SlowingPipeline {
 public:
  explicit SlowingPipeline(oracle::Draws& draws) : draws_(draws), g_(draws.between(0, 12)) {}

  OpGraph draw(Prices& prices) {
    for (int i = 0; i < 4; ++i) passes_.push_back(draw_pass(i == 3));
    for (uint32_t r = 0; r < 2; ++r) g_.graph.roles[g_.role()].pipeline_rank = r;
    const uint32_t microbatches = draws_.between(2, 6);
    for (uint32_t m = 0; m < microbatches; ++m) {
      add_pass(0);
      if (draws_.chance(30)) add_pass(0);
      const RendezvousId id = g_.rendezvous(draws_.chance(80) ? 2 : 1, duration());
      const WorkId sent = g_.graph.rendezvous[static_cast<size_t>(id)].work;
      g_.graph.works[static_cast<size_t>(sent)].to = 1;
      const bool waits_at_once = draws_.chance(85);
      for (uint32_t r = 0; r < 2; ++r) {
        if (r == 0 || g_.graph.rendezvous[static_cast<size_t>(id)].parties == 2) g_.post(r, id);
        if (!waits_at_once) add_pass(r);
        g_.join(r, id);
        if (draws_.chance(50)) g_.sync(r, Stream::compute);
      }
      add_pass(1);
    }
    prices = g_.prices;
    return g_.graph;
  }

 private:
  int64_t duration() { return draws_.between(draws_.chance(10) ? 0 : 1, 30); }

  PassId draw_pass(bool gradients) {
    std::vector<HandOp> ops;
    std::vector<Wait> waits;
    const auto at = [&] { return static_cast<uint32_t>(ops.size()); };
    for (uint32_t i = draws_.below(3); i > 0; --i) ops.push_back({duration()});
    for (uint32_t i = draws_.between(0, 3); i > 0; --i) {
      if (at() > 0 && draws_.chance(90)) waits.push_back({.op = at(), .on = at() - 1});
      ops.push_back({duration(), draws_.chance(90) ? Stream::tp : Stream::cp});
      const uint32_t collective = at() - 1;
      if (draws_.chance(30)) ops.push_back({duration()});
      if (draws_.chance(85)) waits.push_back({.op = at(), .on = collective});
      if (draws_.chance(90) || !waits.empty()) ops.push_back({duration()});
      if (draws_.chance(30)) ops.push_back({duration()});
      if (!gradients || draws_.chance(50)) continue;
      if (draws_.chance(80)) waits.push_back({.op = at(), .on = at() - 1});
      ops.push_back({duration(), Stream::dp});
    }
    if (draws_.chance(30)) {
      if (at() > 0) waits.push_back({.op = at(), .on = at() - 1});
      ops.push_back({duration(), Stream::tp});
    }
    if (ops.empty()) ops.push_back({duration()});
    return g_.pass(ops, waits);
  }

  // With events around it, as gradients and what it leaves on the stream of tp have.
  void add_pass(uint32_t role) {
    if (draws_.chance(50)) {
      g_.record(role, event_, Stream::compute);
      g_.wait(role, event_++, draws_.chance(80) ? Stream::tp : Stream::dp);
    }
    g_.run(role, passes_[draws_.below(static_cast<uint32_t>(passes_.size()))]);
    if (!draws_.chance(60)) return;
    g_.record(role, event_, draws_.chance(80) ? Stream::tp : Stream::dp);
    g_.wait(role, event_++, Stream::compute);
  }

  oracle::Draws& draws_;
  HandGraph g_;
  std::vector<PassId> passes_;
  uint32_t event_ = 0;
};

ContendedCase draw_slowing_pipeline(uint64_t seed) {
  ContendedCase c;
  oracle::Draws draws(seed + 44);
  c.base.graph = SlowingPipeline(draws).draw(c.base.prices);
  c.lanes.digits = {{Axis::tp, draws.between(1, 4)}, {Axis::dp, draws.between(1, 2)}};
  if (draws.chance(20)) {
    c.lanes.slowness.assign(c.base.graph.roles.size(),
                            std::vector<Slowness>(static_cast<size_t>(c.lanes.lanes()), kNominal));
    c.lanes.slowness.front().back() = 5000;
  }
  draw_traffic(draws, c);
  for (size_t w = 0; w < c.base.graph.works.size(); ++w) {
    const Axis axis = c.base.graph.works[w].axis;
    if (axis == Axis::tp || axis == Axis::cp) c.traffic.pattern_of[w].clear();
  }
  c.interference = {pick(draws, {1.161, 1.5, 1.007}), pick(draws, {1.0, 1.106, 1.481})};
  return c;
}

TEST(ContentionOfUndisturbedPasses, TakesTheSameTimeInTheEngineAndInTheOracle) {
  int64_t at_once = 0;
  for (uint64_t seed = 0; seed < cases(); ++seed) {
    const ContendedCase c = draw_slowing_pipeline(seed);
    ASSERT_EQ(compare(c, {.fold = false}), "") << "seed " << seed;
    ASSERT_EQ(compare(c, {}), "") << "folded, seed " << seed;
    at_once += run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference)
                   .passes_at_once;
    if (seed % 4 > 0) continue;
    ASSERT_EQ(compare(c, {.fold = false, .merge = false}), "") << "unmerged, seed " << seed;
    ASSERT_EQ(compare_folded(c), "") << "folded and recorded, seed " << seed;
    ASSERT_EQ(compare_recorded(c), "") << "recorded, seed " << seed;
    ASSERT_EQ(compare_known_lane(c, seed % 8 > 0), "") << "of a known lane, seed " << seed;
  }
  EXPECT_GT(at_once, static_cast<int64_t>(cases()));
}

// A stage of two tp ranks, of which one gets its input over a link that is half as fast.  Hosts
// wait for it, so that they come to the pass one after the other, and its first ops wait for
// launches.  A collective that the pass leaves on the stream is waited for after the next post.
ContendedCase draw_hosts_apart(const std::vector<HandOp>& ops, std::vector<Wait> waits) {
  constexpr int64_t kLaunch = 10;
  constexpr uint32_t kMicrobatches = 3;
  ContendedCase c;
  HandGraph g(kLaunch);
  for (uint32_t r = 0; r < 2; ++r) g.graph.roles[g.role()].pipeline_rank = r;
  const PassId made = g.pass_of(5), pass = g.pass(ops, std::move(waits));
  for (uint32_t m = 0; m < kMicrobatches; ++m) {
    g.run(0, made);
    const RendezvousId id = g.rendezvous(2, 20);
    Work& sent =
        g.graph.works[static_cast<size_t>(g.graph.rendezvous[static_cast<size_t>(id)].work)];
    sent.to = 1;
    sent.bytes = Bytes{20};
    for (uint32_t r = 0; r < 2; ++r) {
      g.post(r, id);
      if (r == 1 && m > 0) g.wait(1, m - 1, Stream::compute);
      g.join(r, id);
    }
    g.sync(1, Stream::compute);
    g.run(1, pass);
    g.record(1, m, Stream::tp);
  }
  c.base.graph = g.graph;
  c.base.prices = g.prices;
  c.lanes.digits = {{Axis::tp, 2}};
  c.traffic.capacity = {1'000'000'000'000, 500'000'000'000};
  c.traffic.patterns = {{{0}}, {{1}}};
  for (const Work& work : c.base.graph.works) {
    c.traffic.pattern_of.emplace_back();
    if (work.kind == WorkKind::send_recv) c.traffic.pattern_of.back() = {0, 1, 0, 1};
  }
  c.traffic.latency.assign(c.base.graph.works.size(), Time{0});
  c.interference = {1.5, 1.481};
  return c;
}

TEST(ContentionOfUndisturbedPasses, AreRunAtOnceWhereCollectivesMakeUpForHostsThatComeApart) {
  const ContendedCase c = draw_hosts_apart(
      {{1}, {3, Stream::tp}, {4}, {5}, {3, Stream::tp}, {20}, {100, Stream::tp}, {50}},
      {{.op = 1, .on = 0},
       {.op = 2, .on = 1},
       {.op = 4, .on = 3},
       {.op = 5, .on = 4},
       {.op = 6, .on = 5},
       {.op = 7, .on = 6}});
  EXPECT_EQ(compare(c, {.fold = false}), "");
  EXPECT_EQ(run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference,
                          {.fold = false})
                .passes_at_once,
            3);
}

TEST(ContentionOfUndisturbedPasses, AreRunRankByRankWhereHostsThatComeApartMatterToTheEnd) {
  const ContendedCase c =
      draw_hosts_apart({{1}, {3, Stream::tp}, {4}, {5}}, {{.op = 1, .on = 0}, {.op = 2, .on = 1}});
  EXPECT_EQ(compare(c, {.fold = false}), "");
  EXPECT_EQ(run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference,
                          {.fold = false})
                .passes_at_once,
            0);
}

// Compute goes on beside the second collective, so how late it begins matters to both.
TEST(ContentionOfUndisturbedPasses, AreRunRankByRankWhereLateComputeIsBesideCollectives) {
  const ContendedCase c =
      draw_hosts_apart({{1}, {3, Stream::tp}, {4}, {9, Stream::tp}, {30}, {100, Stream::tp}, {50}},
                       {{.op = 1, .on = 0},
                        {.op = 2, .on = 1},
                        {.op = 3, .on = 2},
                        {.op = 5, .on = 4},
                        {.op = 6, .on = 5}});
  EXPECT_EQ(compare(c, {.fold = false}), "");
  EXPECT_EQ(run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference,
                          {.fold = false})
                .passes_at_once,
            0);
}

// The fourth op goes on beside the second collective, which only the fifth waits for: the rank
// whose host comes first begins it before that collective, by itself.
TEST(ContentionOfUndisturbedPasses, AreRunRankByRankWhereComputeGoesOnBesideTheCollectiveAfterIt) {
  const ContendedCase c = draw_hosts_apart(
      {{1}, {3, Stream::tp}, {25}, {9, Stream::tp}, {30}, {50}},
      {{.op = 1, .on = 0}, {.op = 2, .on = 1}, {.op = 3, .on = 2}, {.op = 5, .on = 3}});
  EXPECT_EQ(compare(c, {.fold = false}), "");
}

// What another stream does begins before the second collective, after compute that the rank whose
// host comes first has begun earlier.
TEST(ContentionOfUndisturbedPasses, AreRunRankByRankWhereAnotherStreamStartsBeforeACollective) {
  const ContendedCase c =
      draw_hosts_apart({{1}, {3, Stream::tp}, {45}, {9, Stream::tp}, {30}, {40, Stream::cp}, {50}},
                       {{.op = 1, .on = 0},
                        {.op = 2, .on = 1},
                        {.op = 3, .on = 2},
                        {.op = 4, .on = 3},
                        {.op = 5, .on = 2},
                        {.op = 6, .on = 5}});
  EXPECT_EQ(compare(c, {.fold = false}), "");
}

// So long after that compute is the last op, which the others do not hold up.
TEST(ContentionOfUndisturbedPasses, AreRunRankByRankWhereAnOpWaitsLongForOneBeforeACollective) {
  const ContendedCase c =
      draw_hosts_apart({{1}, {3, Stream::tp}, {25}, {9, Stream::tp}, {30}, {50}},
                       {{.op = 1, .on = 0},
                        {.op = 2, .on = 1},
                        {.op = 3, .on = 2},
                        {.op = 4, .on = 3},
                        {.op = 5, .on = 2, .delay = Time{400}}});
  EXPECT_EQ(compare(c, {.fold = false}), "");
}

// Compute has ended before the last collective begins, and a post follows.
TEST(ContentionOfUndisturbedPasses, AreRunRankByRankWhereTheirComputeEndsBeforeTheLastCollective) {
  const ContendedCase c =
      draw_hosts_apart({{1}, {3, Stream::tp}, {25}, {9, Stream::tp}},
                       {{.op = 1, .on = 0}, {.op = 2, .on = 1}, {.op = 3, .on = 2}});
  EXPECT_EQ(compare(c, {.fold = false}), "");
}

// Compute and collectives in turns, now and then beside each other.
ContendedCase draw_turns(uint64_t seed) {
  oracle::Draws draws(seed + 45);
  std::vector<HandOp> ops = {{1}, {3, Stream::tp}};
  std::vector<Wait> waits = {{.op = 1, .on = 0}};
  uint32_t collective = 1;
  const auto add = [&](Stream stream, uint32_t may_wait, uint32_t on) {
    const auto op = static_cast<uint32_t>(ops.size());
    ops.push_back({draws.between(1, 60), stream});
    if (draws.chance(may_wait)) waits.push_back({.op = op, .on = on});
    if (draws.chance(5))
      waits.push_back({.op = op,
                       .on = draws.below(op),
                       .from_start = draws.chance(50),
                       .delay = Time{draws.between(0, 200)}});
  };
  for (uint32_t i = draws.between(1, 3); i > 0; --i) {
    add(Stream::compute, 95, collective);
    if (draws.chance(30)) add(Stream::compute, 30, collective);
    add(draws.chance(90) ? Stream::tp : Stream::cp, 90, static_cast<uint32_t>(ops.size()) - 1);
    collective = static_cast<uint32_t>(ops.size()) - 1;
    if (draws.chance(20)) add(Stream::tp, 50, collective);
    if (draws.chance(40)) add(Stream::compute, 30, collective);
  }
  if (draws.chance(85)) add(Stream::compute, 90, collective);
  return draw_hosts_apart(ops, waits);
}

TEST(ContentionOfHostsApart, TakesTheSameTimeInTheEngineAndInTheOracle) {
  int64_t at_once = 0;
  for (uint64_t seed = 0; seed < cases(); ++seed) {
    const ContendedCase c = draw_turns(seed);
    ASSERT_EQ(compare(c, {.fold = false}), "") << "seed " << seed;
    at_once += run_contended(c.base.graph, c.base.prices, c.lanes, c.traffic, c.interference,
                             {.fold = false})
                   .passes_at_once;
  }
  EXPECT_GT(at_once, static_cast<int64_t>(cases()) / 4);
}

TEST(ContentionOfStagesInTheMiddle, RunsOnlyTheirPassesInLockstep) {
  const ContendedCase c = draw_pipeline_case(0);
  std::vector<Scope> scopes;
  for (const Work& work : c.base.graph.works)
    scopes.push_back(work.axis == Axis::tp ? Scope::block : Scope::outside);
  const std::vector<bool> whole(scopes.size());
  const std::array<bool, kStreams> streams = lockstep_streams(c.base.graph, scopes);
  const ContentionProgram program = compile_threads(c.base.graph, c.base.prices, streams, true);
  EXPECT_EQ(plan_lockstep(c.base.graph, program, {streams, scopes, whole, 2}),
            (std::vector{Lockstep::whole, Lockstep::passes, Lockstep::whole}));
}

TEST(ContentionWithoutSharing, TakesTheTimesOfTheLanesEngine) {
  for (uint64_t seed = 0; seed < cases(); ++seed) {
    ASSERT_EQ(compare_with_lanes(draw_case(seed, Sharing::none)), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Kind, RandomContention,
                         ::testing::Values(Sharing::none, Sharing::links, Sharing::slowing,
                                           Sharing::both));

}  // namespace
}  // namespace stepcast::contention_equals_oracle_test
