// SPDX-License-Identifier: Apache-2.0
// Schedules whose ranks share the vocabulary, against Yeung et al. 2025 (arXiv 2411.05288).
#include "schedules/lower/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedules/check.h"
#include "schedules/formats/action_text.h"
#include "schedules/formats/schedule_csv.h"
#include "schedules/lower/lower_unit.h"
#include "schedules/transfers/transfers.h"
#include "sim/engine/run.h"
#include "sim/memory/memory.h"
#include "tests/schedules/vectors.h"
#include "tests/schedules/written_actions.h"

namespace stepcast::vocabulary_test {
namespace {

using ::testing::HasSubstr;
using testing::parse_actions;

constexpr const char* kMethods[] = {"vocab-1", "vocab-2", "interlaced"};

Schedule shared(const std::string& method, int64_t pp, int64_t m) {
  return generate_schedule(*find_schedule_family("vocab-1f1b"),
                           {pp, 1, m, 0, {{"method", method}}});
}

Timeline run_unit(const Schedule& schedule, const StageTimes& times, Time hop = {}) {
  std::vector<Time> durations;
  const OpGraph graph =
      lower_unit(schedule, {.times = times, .by_stage = {}, .hop = hop}, durations);
  check_graph(graph);
  Prices prices;
  for (const Time t : durations) prices.by_work.push_back({t, Origin::measured, ""});
  return run(compile(graph, prices));
}

StageTimes usual_times() {
  StageTimes t;
  t.forward = Time{1000};
  t.backward_input = t.backward_weight = Time{1000};
  t.vocabulary_forward = Time{400};
  t.vocabulary_backward = Time{300};
  return t;
}

// A rank's list without the word embedding.
std::string text_of(const Schedule& s, size_t rank) {
  std::string text;
  for (const Action& a : s.ranks[rank]) {
    if (a.kind == ActionKind::embedding_forward || a.kind == ActionKind::embedding_backward)
      continue;
    text += (text.empty() ? "" : " ") + to_string(a);
  }
  return text;
}

// Figure 10: one (two) more forwards than in 1F1B, then B, the gradients of the microbatch after,
// the head of the next and F in turn.
TEST(Vocabulary, LastRankRunsTheOrderOfThePaper) {
  EXPECT_EQ(text_of(shared("vocab-2", 4, 4), 3),
            "3F0 3S0 3F1 3B0 3T0 3S1 3F2 3B1 3T1 3S2 3F3 3B2 3T2 3S3 3B3 3T3");
  EXPECT_EQ(text_of(shared("vocab-1", 4, 4), 3),
            "3F0 3S0 3F1 3T0 3S1 3F2 3B0 3T1 3S2 3F3 3B1 3T2 3S3 3B2 3T3 3B3");
  EXPECT_EQ(text_of(shared("interlaced", 4, 3), 3),
            "3F0 3S0 3T0 3B0 3F1 3S1 3T1 3B1 3F2 3S2 3T2 3B2");
}

TEST(Vocabulary, EveryRankRunsEveryPassOnce) {
  for (const char* method : kMethods) {
    const Schedule s = shared(method, 4, 6);
    for (const auto& list : s.ranks) {
      EXPECT_EQ(list.size(), 6 * 6u);
      for (const ActionKind kind : {ActionKind::vocabulary_forward, ActionKind::vocabulary_backward,
                                    ActionKind::embedding_forward, ActionKind::embedding_backward})
        EXPECT_EQ(std::ranges::count(list, kind, &Action::kind), 6) << method;
    }
  }
}

TEST(Vocabulary, NeverGetsStuck) {
  for (const char* method : kMethods) {
    for (int64_t pp = 2; pp <= 8; ++pp) {
      for (int64_t m = 1; m <= 16; ++m) {
        SCOPED_TRACE(std::string(method) + " p=" + std::to_string(pp) + " m=" + std::to_string(m));
        const Schedule s = shared(method, pp, m);
        ASSERT_EQ(testing::faults_of(s), "");
        EXPECT_GT(run_unit(s, usual_times()).makespan, Time{});
      }
    }
  }
}

// Section 5.3: p + 2 and p + 1 microbatches on the first rank; interlaced 1.5 p (appendix B.1).
TEST(Vocabulary, HoldsAsManyMicrobatchesAsThePaperSays) {
  const auto in_flight = [](const char* method, int64_t pp, size_t rank) {
    std::vector<Time> durations;
    return trace_memory(lower_unit(shared(method, pp, 40), {}, durations))[rank].peak_in_flight;
  };
  for (const int64_t pp : {2, 4, 6, 8}) {
    EXPECT_EQ(in_flight("vocab-1", pp, 0), pp + 2);
    EXPECT_EQ(in_flight("vocab-2", pp, 0), pp + 1);
    EXPECT_EQ(in_flight("interlaced", pp, 0), pp * 3 / 2);
    const auto last = static_cast<size_t>(pp - 1);
    EXPECT_EQ(in_flight("vocab-1", pp, last), 3);
    EXPECT_EQ(in_flight("vocab-2", pp, last), 2);
    EXPECT_EQ(in_flight("interlaced", pp, last), 1);
  }
}

// In the steady state nobody waits: a microbatch more takes as long as its passes.
TEST(Vocabulary, SteadyStateHasNoBubble) {
  const StageTimes times = usual_times();
  const Time passes =
      times.forward + whole_backward(times) + times.vocabulary_forward + times.vocabulary_backward;
  for (const char* method : kMethods) {
    for (const int64_t pp : {2, 4, 5, 8}) {
      const Time few = run_unit(shared(method, pp, 30), times).makespan;
      const Time more = run_unit(shared(method, pp, 50), times).makespan;
      EXPECT_EQ(more - few, passes * 20) << method << ' ' << pp;
    }
  }
}

// Warm-up and cool-down are those of 1F1B, but for the second barrier of Vocab-1.
TEST(Vocabulary, HasTheBubbleOfOneForwardOneBackward) {
  StageTimes times;
  times.forward = times.backward_input = times.backward_weight = Time{1};
  for (const int64_t pp : {4, 8, 16}) {
    const Time ideal = Time{3} * 40, bubble = Time{3} * (pp - 1);
    EXPECT_EQ(run_unit(shared("vocab-2", pp, 40), times).makespan, ideal + bubble);
    EXPECT_EQ(run_unit(shared("interlaced", pp, 40), times).makespan, ideal + bubble);
    EXPECT_EQ(run_unit(shared("vocab-1", pp, 40), times).makespan, ideal + bubble + Time{2});
  }
}

TEST(Vocabulary, WaitsForWhatOtherRanksMake) {
  StageTimes times = usual_times();
  const Schedule s = shared("vocab-2", 4, 1);
  // F of all ranks one after the other, the head everywhere at once, B of all ranks; T meanwhile.
  const Time once = times.forward * 4 + times.vocabulary_forward + whole_backward(times) * 4;
  EXPECT_EQ(run_unit(s, times).makespan, once);
  // Rows for the first F, three hops of F, the head's input, the sums and after them the gradient,
  // three hops of B, the gradient of the rows.
  EXPECT_EQ(run_unit(s, times, Time{10}).makespan, once + Time{10} * (1 + 3 + 1 + 2 + 3 + 1));
}

TEST(Vocabulary, SplitIsReadOffTheOrder) {
  EXPECT_EQ(vocabulary_split(shared("vocab-1", 4, 1)), VocabularySplit::two_barriers);
  EXPECT_EQ(vocabulary_split(shared("vocab-2", 4, 1)), VocabularySplit::one_barrier);
  EXPECT_EQ(vocabulary_split(shared("interlaced", 3, 2)), VocabularySplit::two_barriers);
  const Schedule plain = generate_schedule(*find_schedule_family("1f1b"), {4, 1, 4, 0});
  EXPECT_EQ(vocabulary_split(plain), VocabularySplit::none);
}

TEST(Vocabulary, FilesKeepIt) {
  for (const char* method : kMethods) {
    const Schedule s = shared(method, 3, 5);
    const Schedule read = load_schedule_csv(write_schedule_csv(s), "x.csv");
    EXPECT_EQ(read.ranks, s.ranks);
    EXPECT_EQ(vocabulary_split(read), vocabulary_split(s));
  }
}

std::string problem_of(const std::vector<std::string>& rows) {
  std::vector<std::vector<Action>> lists;
  for (const std::string& row : rows) lists.push_back(parse_actions(row));
  const auto problems = check_schedule(schedule_of_rows("custom", std::move(lists)));
  return problems.empty() ? "" : problems.front().message;
}

TEST(Vocabulary, WrittenSchedulesMustBeWhole) {
  EXPECT_EQ(problem_of({"0E0 0F0 0S0 0T0 0B0 0G0", "1E0 1F0 1S0 1T0 1B0 1G0"}), "");
  EXPECT_THAT(problem_of({"0E0 0F0 0S0 0T0 0B0 0G0", "1E0 1F0 1S0 1B0 1G0"}),
              HasSubstr("`1T0` is missing"));
  EXPECT_THAT(problem_of({"0E0 0F0 0T0 0S0 0B0 0G0", "1E0 1F0 1S0 1T0 1B0 1G0"}),
              HasSubstr("`0T0` comes before `0S0`"));
  // B of the last stage needs S of all ranks, which the first one runs after its own B.
  EXPECT_EQ(problem_of({"0E0 0F0 0B0 0S0 0T0 0G0", "1E0 1F0 1S0 1B0 1T0 1G0"}),
            "the schedule deadlocks");
  // F of the first stage needs the rows of all ranks.
  EXPECT_EQ(problem_of({"0E0 0F0 0S0 0T0 0B0 0G0", "1F0 1E0 1S0 1T0 1B0 1G0"}),
            "the schedule deadlocks");
  EXPECT_THAT(problem_of({"0E0 0F0 1F0 0S0 0T0 1S0 1T0 1B0 0B0 0G0"}), HasSubstr("one stage each"));
}

std::string refusal(const ScheduleParams& params) {
  try {
    generate_schedule(*find_schedule_family("vocab-1f1b"), params);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Vocabulary, RefusesWhatItCannotRun) {
  EXPECT_THAT(refusal({1, 1, 4, 0}), HasSubstr("pp = 1 must be at least 2"));
  EXPECT_THAT(refusal({4, 2, 8, 0}), HasSubstr("vpp = 2 must be 1"));
  EXPECT_THAT(refusal({4, 1, 8, 0, {{"method", "vocab-3"}}}), HasSubstr("method = vocab-3"));
  EXPECT_THROW(with_transfers(shared("vocab-2", 4, 8), P2pStyle::megatron), InputError);
}

}  // namespace
}  // namespace stepcast::vocabulary_test
