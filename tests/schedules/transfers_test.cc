// SPDX-License-Identifier: Apache-2.0
// Transfers between actions, held against what the frameworks issue and wait for.
#include "schedules/transfers/transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "schedules/families/families.h"
#include "schedules/lower/lower_unit.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "tests/schedules/vectors.h"

namespace stepcast::transfers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One trace: what every rank does, as text, and how long the whole takes with tF = tI = tW = 1.
struct Trace {
  std::string id;
  Schedule schedule;
  P2pStyle style = P2pStyle::async;
  std::vector<std::string> rows;
  double with_latency = 0, without = 0;  // c = 0.1 and c = 0
};

ActionKind kind_of(char letter) {
  for (int k = 0; k < kActionKinds; ++k)
    if (letter_of(static_cast<ActionKind>(k)) == letter) return static_cast<ActionKind>(k);
  throw std::runtime_error("no kind " + std::string(1, letter));
}

// The actions of a row: `0F1`, and both halves of `(0F1;1B0)OVERLAP_F_B`.
std::vector<Action> actions_of(const std::string& row) {
  std::vector<Action> actions;
  std::istringstream in(row);
  const auto add = [&](const std::string& text) {
    size_t letter = 0;
    const int stage = std::stoi(text, &letter);
    actions.emplace_back(kind_of(text[letter]), static_cast<uint16_t>(stage),
                         static_cast<uint32_t>(std::stoul(text.substr(letter + 1))));
  };
  for (std::string token; in >> token;) {
    if (token[0] == '(') {
      const size_t middle = token.find(';');
      add(token.substr(1, middle - 1));
      actions.back().overlaps_next = true;
      add(token.substr(middle + 1));
    } else if (std::isdigit(static_cast<unsigned char>(token[0])) != 0) {
      add(token);
    }
  }
  return actions;
}

Schedule empty_schedule(const std::string& name, const ScheduleParams& params) {
  if (name == "dualpipe") {
    Schedule s = bidirectional_schedule(name, params);
    s.reversed.resize(static_cast<size_t>(params.microbatches));
    for (size_t m = s.reversed.size() / 2; m < s.reversed.size(); ++m) s.reversed[m] = true;
    return s;
  }
  return name == "dualpipev" ? snake_schedule(name, params) : loop_schedule(name, params);
}

P2pStyle style_of(const nlohmann::json& json, const std::string& file) {
  if (file == "deepspeed.jsonl") return P2pStyle::deepspeed;
  if (file == "dualpipe.jsonl") return P2pStyle::dualpipe;
  if (!json.contains("params") || !json["params"]["overlap_p2p_comm"].get<bool>())
    return P2pStyle::megatron;
  return json["params"]["overlap_p2p_comm_warmup_flush"].get<bool>()
             ? P2pStyle::megatron_overlap_flush
             : P2pStyle::megatron_overlap;
}

std::vector<Trace> read_traces(const std::string& file) {
  std::istringstream in(testing::read_file("comm/" + file));
  std::vector<Trace> traces;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    Trace t;
    const ScheduleParams params{json["pp"], json["vpp"], json["microbatches"], 0};
    t.schedule = empty_schedule(json["schedule"], params);
    t.style = style_of(json, file);
    t.rows = json["ranks"].get<std::vector<std::string>>();
    t.schedule.ranks.resize(t.rows.size());
    for (size_t r = 0; r < t.rows.size(); ++r) t.schedule.ranks[r] = actions_of(t.rows[r]);
    t.with_latency = json["eval_rendezvous_makespan"]["tF1_tB2_c0.1"];
    t.without = json["eval_rendezvous_makespan"]["tF1_tB2_c0"];
    t.id = json["schedule"].get<std::string>() + " pp=" + std::to_string(params.pp) +
           " vpp=" + std::to_string(params.vpp) + " m=" + std::to_string(params.microbatches) +
           ' ' + std::string(name_of(t.style));
    traces.push_back(std::move(t));
  }
  return traces;
}

class TracedTransfers : public ::testing::TestWithParam<const char*> {};

TEST_P(TracedTransfers, AreThoseOfTheFrameworkTokenByToken) {
  for (const Trace& t : read_traces(GetParam())) {
    SCOPED_TRACE(t.id);
    const std::vector<RankProgram> programs = with_transfers(t.schedule, t.style);
    ASSERT_EQ(programs.size(), t.rows.size());
    for (size_t r = 0; r < t.rows.size(); ++r)
      EXPECT_EQ(to_string(t.schedule, r, programs[r]), t.rows[r]) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TracedTransfers,
                         ::testing::Values("megatron.jsonl", "zb_h1_quickstart.jsonl",
                                           "dualpipe.jsonl", "deepspeed.jsonl"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find('.'));
                         });

constexpr int64_t kUnit = 1000;  // ps

UnitCosts unit_costs(int64_t forward, int64_t input, int64_t weight, int64_t hop_ps) {
  UnitCosts costs;
  costs.times.forward = Time{forward * kUnit};
  costs.times.backward_input = Time{input * kUnit};
  costs.times.backward_weight = Time{weight * kUnit};
  costs.hop = Time{hop_ps};
  return costs;
}

int64_t makespan_ps(const Schedule& schedule, const UnitCosts& costs, P2pStyle style) {
  std::vector<Time> durations;
  const OpGraph graph = lower_unit(schedule, costs, durations, style);
  check_graph(graph);
  Prices prices;
  for (const Time t : durations) prices.by_work.push_back({t, Origin::measured, {}});
  return run(compile(graph, prices), Record::nothing).makespan.count();
}

TEST_P(TracedTransfers, ExposeTheLatencyOfTheTrace) {
  for (const Trace& t : read_traces(GetParam())) {
    SCOPED_TRACE(t.id);
    const auto ps = [](double units) { return std::llround(units * kUnit); };
    EXPECT_EQ(makespan_ps(t.schedule, unit_costs(1, 1, 1, kUnit / 10), t.style),
              ps(t.with_latency));
    EXPECT_EQ(makespan_ps(t.schedule, unit_costs(1, 1, 1, 0), t.style), ps(t.without));
  }
}

Schedule generate(std::string_view name, const ScheduleParams& params) {
  return generate_schedule(*find_schedule_family(name), params);
}

// What latency adds to the makespan, in hops, for equal stages.  The hop is short against every
// action.
int64_t exposed_hops(const Schedule& schedule, P2pStyle style) {
  int64_t hops = -1;
  for (const auto& [forward, input, weight] :
       {std::array{1000, 1000, 1000}, std::array{1000, 1200, 700}, std::array{2000, 700, 700}}) {
    const int64_t with = makespan_ps(schedule, unit_costs(forward, input, weight, kUnit), style);
    const int64_t without = makespan_ps(schedule, unit_costs(forward, input, weight, 0), style);
    const int64_t now = (with - without) / kUnit;
    EXPECT_EQ(now * kUnit, with - without);
    if (hops >= 0) {
      EXPECT_EQ(now, hops) << "depends on the times of actions";
    }
    hops = now;
  }
  return hops;
}

TEST(ExposedLatency, OfOneForwardOneBackwardHasAClosedFormForEveryStyle) {
  for (int64_t p = 2; p <= 8; ++p)
    for (int64_t k = 1; k <= 4; ++k) {
      const int64_t m = k * p;
      SCOPED_TRACE("p=" + std::to_string(p) + " m=" + std::to_string(m));
      const Schedule s = generate("1f1b", {p, 1, m, 0});
      EXPECT_EQ(exposed_hops(s, P2pStyle::async), 2 * (p - 1) * k + 2 * (p - 2));
      EXPECT_EQ(exposed_hops(s, P2pStyle::megatron), p == 2 ? m + 1 : 2 * m + 2 * p - 5);
      if (p != 3) {
        EXPECT_EQ(exposed_hops(s, P2pStyle::deepspeed), p == 2 ? 2 * m : 4 * m + 2 * p - 8);
      }
    }
}

TEST(ExposedLatency, OfInterleavedScheduleIsPaidOnceUnlessTransfersBlock) {
  for (int64_t p = 2; p <= 6; ++p)
    for (int64_t v = 2; v <= 4; ++v)
      for (int64_t m = p; m <= 3 * p; m += p) {
        SCOPED_TRACE("p=" + std::to_string(p) + " v=" + std::to_string(v) +
                     " m=" + std::to_string(m));
        const Schedule s = generate("interleaved-1f1b", {p, v, m, 0});
        const int64_t once = 2 * (v * p - 1);
        EXPECT_EQ(exposed_hops(s, P2pStyle::async), once);
        EXPECT_EQ(exposed_hops(s, P2pStyle::megatron_overlap), once);
        EXPECT_EQ(exposed_hops(s, P2pStyle::megatron_overlap_flush), once);
        if (p == 2) continue;  // blocking: refused
        const UnitCosts costs = unit_costs(1000, 1000, 1000, kUnit);
        EXPECT_GT(makespan_ps(s, costs, P2pStyle::megatron),
                  makespan_ps(s, costs, P2pStyle::megatron_overlap));
      }
}

TEST(ExposedLatency, IsNeverLessThanWithSendsThatNobodyWaitsFor) {
  const std::vector<ScheduleParams> sizes = {{4, 1, 8, 0}, {4, 2, 8, 0}, {3, 2, 9, 0}};
  for (const ScheduleFamily& family : schedule_families())
    for (const ScheduleParams& params : sizes) {
      if (check_params(family, params)) continue;  // another number of chunks
      const Schedule s = generate_schedule(family, params);
      SCOPED_TRACE(s.name);
      const UnitCosts costs = unit_costs(10, 12, 7, kUnit);
      const int64_t free = makespan_ps(s, costs, P2pStyle::async);
      for (const P2pStyle style : legal_p2p_styles(s))
        EXPECT_GE(makespan_ps(s, costs, style), free) << name_of(style);
    }
}

std::vector<std::string> legal_names(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const P2pStyle style : legal_p2p_styles(schedule)) names.emplace_back(name_of(style));
  return names;
}

TEST(LegalStyles, AreThoseWhoseRuleHasAMeaning) {
  EXPECT_THAT(legal_names(generate("1f1b", {4, 1, 8, 0})),
              ElementsAre("async", "megatron", "deepspeed"));
  // DeepSpeed would wait for a gradient before it lets the last forward's output go.
  EXPECT_THAT(legal_names(generate("gpipe", {4, 1, 8, 0})), ElementsAre("async", "megatron"));
  EXPECT_THAT(legal_names(generate("interleaved-1f1b", {4, 2, 8, 0})),
              ElementsAre("async", "megatron", "megatron-overlap", "megatron-overlap-flush"));
  EXPECT_THAT(legal_names(generate("interleaved-1f1b", {2, 2, 8, 0})),
              ElementsAre("async", "megatron-overlap", "megatron-overlap-flush"));
  EXPECT_THAT(legal_names(generate("chimera", {4, 2, 8, 0})), ElementsAre("async"));
}

TEST(LegalStyles, HoldForFewerMicrobatchesThanRanks) {
  for (int64_t p = 2; p <= 5; ++p)
    for (int64_t m = 1; m <= 6; ++m)
      EXPECT_THAT(legal_names(generate("1f1b", {p, 1, m, 0})),
                  ElementsAre("async", "megatron", "deepspeed"))
          << p << ' ' << m;
}

TEST(LegalStyles, AreAllOnOneRank) {
  EXPECT_EQ(legal_p2p_styles(generate("1f1b", {1, 1, 3, 0})).size(), 6u);
  EXPECT_EQ(legal_p2p_styles(generate("interleaved-zero-bubble", {1, 2, 3, 0})).size(), 6u);
}

TEST(LegalStyles, OfMegatronHoldForEveryGroupWithAndWithoutMergedPairs) {
  int cases = 0;
  for (const char* name : {"interleaved-1f1b", "interleaved-1f1b-ep-overlap"})
    for (int64_t p = 2; p <= 5; ++p)
      for (int64_t v = 2; v <= 4; ++v)
        for (int64_t m = p; m <= 3 * p + 1; ++m)
          for (int64_t n = p; n <= m; ++n) {
            if (m % n != 0 && m % n < p) continue;
            SCOPED_TRACE(std::string(name) + " p=" + std::to_string(p) + " v=" + std::to_string(v) +
                         " m=" + std::to_string(m) + " N=" + std::to_string(n));
            const Schedule s = generate(name, {p, v, m, n});
            if (p > 2) {
              EXPECT_NO_THROW(with_transfers(s, P2pStyle::megatron));
            }
            EXPECT_NO_THROW(with_transfers(s, P2pStyle::megatron_overlap));
            EXPECT_NO_THROW(with_transfers(s, P2pStyle::megatron_overlap_flush));
            ++cases;
          }
  EXPECT_GT(cases, 400);
}

TEST(LegalStyles, OfDualPipeHoldForEverySize) {
  for (int64_t p = 1; p <= 8; ++p)
    for (int64_t m = 2 * p; m <= 4 * p + 2; ++m) {
      SCOPED_TRACE("p=" + std::to_string(p) + " m=" + std::to_string(m));
      EXPECT_NO_THROW(with_transfers(generate("dualpipev", {p, 2, m, 0}), P2pStyle::dualpipe));
      if (p % 2 == 0 && m % 2 == 0) {
        EXPECT_NO_THROW(with_transfers(generate("dualpipe", {p, 2, m, 0}), P2pStyle::dualpipe));
      }
    }
}

TEST(LegalStyles, IncludeTheDefaultOfEveryFamily) {
  int blocking = 0;
  for (const ScheduleFamily& family : schedule_families()) {
    const P2pStyle style = default_p2p_style(family.name);
    if (style == P2pStyle::async) continue;  // goes with everything
    ++blocking;
    for (int64_t p = 1; p <= 4; ++p)
      for (int64_t v = 1; v <= 3; ++v)
        for (int64_t m = 1; m <= 3 * p; ++m) {
          const ScheduleParams params{p, v, m, 0};
          if (check_params(family, params)) continue;
          const Schedule s = generate_schedule(family, params);
          SCOPED_TRACE(s.name + " p=" + std::to_string(p) + " v=" + std::to_string(v) +
                       " m=" + std::to_string(m));
          const auto wrong = check_transfers(s, style);
          EXPECT_EQ(wrong ? wrong->message : "", "");
        }
  }
  EXPECT_GE(blocking, 7);
}

std::string refusal(const Schedule& schedule, P2pStyle style) {
  try {
    with_transfers(schedule, style);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(RefusedStyle, NamesThoseThatWork) {
  EXPECT_EQ(refusal(generate("1f1b", {4, 1, 8, 0}), P2pStyle::megatron_overlap),
            "transfers of style megatron-overlap do not go with the schedule 1f1b: Megatron-LM "
            "overlaps transfers of interleaved schedules only (vpp >= 2); styles that do: async, "
            "megatron and deepspeed");
  EXPECT_EQ(refusal(generate("interleaved-1f1b", {2, 2, 4, 0}), P2pStyle::megatron),
            "transfers of style megatron do not go with the schedule interleaved-1f1b: "
            "Megatron-LM needs overlap_p2p_comm for an interleaved schedule on pp = 2 ranks; "
            "styles that do: async, megatron-overlap and megatron-overlap-flush");
  EXPECT_THAT(refusal(generate("zb-v", {4, 2, 8, 0}), P2pStyle::megatron),
              HasSubstr("stages that go round the ranks in a loop; styles that do: async"));
  EXPECT_THAT(refusal(generate("interleaved-zero-bubble", {4, 2, 8, 0}), P2pStyle::megatron),
              HasSubstr("then one forward and one backward in turn"));
  EXPECT_THAT(refusal(generate("interleaved-1f1b", {4, 2, 8, 0}), P2pStyle::deepspeed),
              HasSubstr("one stage on each rank"));
  EXPECT_THAT(refusal(generate("1f1b", {4, 1, 8, 0}), P2pStyle::dualpipe),
              HasSubstr("two stages on each rank"));
}

// Legal by itself, but rank 0 wants to send its second forward before it takes the gradient that
// rank 1 insists on sending first.
TEST(RefusedStyle, IsOneThatWouldDeadlock) {
  Schedule s = loop_schedule("own", {2, 1, 3, 0});
  s.ranks = {actions_of("0F0 0F1 0F2 0B0 0B1 0B2"), actions_of("1F0 1B0 1F1 1B1 1F2 1B2")};
  EXPECT_EQ(refusal(s, P2pStyle::async), "accepted");
  EXPECT_THAT(refusal(s, P2pStyle::deepspeed),
              HasSubstr("it would deadlock: rank 0 waits for ever at {0SEND_F1}"));
}

TEST(AsyncTransfers, WaitForInputsAndLeaveOutputsAlone) {
  Schedule s = snake_schedule("own", {2, 2, 2, 0});
  s.ranks = {actions_of("0F0 0F1 3F0 (3F1;3B0)OVERLAP_F_B 3B1 0B0 0B1"),
             actions_of("1F0 2F0 1F1 2F1 2I0 1I0 2W0 1W0 2B1 1B1")};
  const std::vector<RankProgram> programs = with_transfers(s, P2pStyle::async);
  EXPECT_EQ(to_string(s, 0, programs[0]),
            "0F0 <0SEND_F0> 0F1 <0SEND_F1> ?3RECV_F0 3F0 ?3RECV_F1 (3F1;3B0)OVERLAP_F_B <3SEND_B0> "
            "3B1 <3SEND_B1> ?0RECV_B0 0B0 ?0RECV_B1 0B1");
  EXPECT_EQ(to_string(s, 1, programs[1]),
            "?1RECV_F0 1F0 2F0 <2SEND_F0> ?1RECV_F1 1F1 2F1 <2SEND_F1> ?2RECV_B0 2I0 1I0 "
            "<1SEND_B0> 2W0 1W0 ?2RECV_B1 2B1 1B1 <1SEND_B1>");
}

TEST(AsyncTransfers, NameSequenceSplits) {
  Schedule s = loop_schedule("own", {2, 1, 1, 0});
  s.seq_splits = 2;
  s.ranks = {actions_of("0F0 0F1 0B1 0B0"), actions_of("1F0 1F1 1B1 1B0")};
  const std::vector<RankProgram> programs = with_transfers(s, P2pStyle::async);
  EXPECT_EQ(to_string(s, 0, programs[0]),
            "0F0.0 <0SEND_F0.0> 0F0.1 <0SEND_F0.1> ?0RECV_B0.1 0B0.1 ?0RECV_B0.0 0B0.0");
}

TEST(BlockingTransfers, LeaveRecomputeAndOffloadAlone) {
  Schedule s = loop_schedule("own", {2, 1, 2, 0});
  s.ranks = {actions_of("0F0 0O0 0F1 0L0 0R0 0B0 0B1"), actions_of("1F0 1R0 1B0 1F1 1B1")};
  const std::vector<RankProgram> programs = with_transfers(s, P2pStyle::megatron);
  EXPECT_EQ(to_string(s, 0, programs[0]),
            "0F0 {0SEND_F0} 0O0 0F1 {0SEND_F1;0RECV_B0} 0L0 0R0 0B0 {0RECV_B1} 0B1");
  EXPECT_EQ(to_string(s, 1, programs[1]),
            "{1RECV_F0} 1F0 1R0 1B0 {1SEND_B0;1RECV_F1} 1F1 1B1 {1SEND_B1}");
}

TEST(Messages, AreNumberedByHopAndMicrobatch) {
  const Schedule s = generate("zb-v", {3, 2, 5, 0});  // stages 2 and 3 share a rank
  const Messages messages(s);
  ASSERT_EQ(messages.hops().size(), 8u);
  EXPECT_EQ(messages.count(), 40u);
  std::vector<int> seen(messages.count());
  for (const auto& rank : s.ranks)
    for (const Action& a : rank)
      if (const auto t = received_by(s, a)) ++seen[messages.number(*t)];
  EXPECT_THAT(seen, ::testing::Each(1));
  for (const auto& rank : s.ranks)
    for (const Action& a : rank)
      if (const auto t = sent_by(s, a)) ++seen[messages.number(*t)];
  EXPECT_THAT(seen, ::testing::Each(2));
}

TEST(P2pStyle, OfAFamilyIsThatOfItsProgram) {
  EXPECT_EQ(default_p2p_style("1f1b"), P2pStyle::megatron);
  EXPECT_EQ(default_p2p_style("interleaved-1f1b"), P2pStyle::megatron_overlap);
  EXPECT_EQ(default_p2p_style("dualpipev"), P2pStyle::dualpipe);
  EXPECT_EQ(default_p2p_style("zb-h2"), P2pStyle::async);
  EXPECT_EQ(default_p2p_style("mine.csv"), P2pStyle::async);
}

}  // namespace
}  // namespace stepcast::transfers_test
