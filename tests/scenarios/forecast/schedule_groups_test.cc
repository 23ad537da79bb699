// SPDX-License-Identifier: Apache-2.0
// Whole forecasts beside published groups of runs that differ in the pipeline schedule alone.
// Nothing is fitted to them: which schedule needs more memory, which one is faster and by how much,
// has to come out of the scenario as one would write it down from the publication.  Single figures
// are properties of the tests: --gtest_output=json writes them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/make_schedule.h"
#include "scenarios/forecast/stage_costs.h"
#include "tests/csv_rows.h"

namespace stepcast::schedule_groups_test {
namespace {

using testing::number;
using testing::read_rows;
using testing::Row;
using testing::whole;

std::vector<Row> table(const std::string& file) {
  return read_rows(std::string(STEPCAST_TEST_DATA) + "/schedules/" + file);
}

// Layers of each stage, in order; the first also has the embedding, the last the output layer.
std::string layout_of(const std::vector<int64_t>& layers) {
  std::string out = "E";
  for (size_t s = 0; s < layers.size(); ++s) {
    if (s > 0) out += '|';
    out.append(static_cast<size_t>(layers[s]), 't');
  }
  return out + "L";
}

// What both publications' programs share: forks of Megatron-LM, whose launch scripts train in fp16
// with untied embeddings and --transformer-impl local (sail-sg/zero-bubble-pipeline-parallelism
// @064369d examples/pretrain_zero_bubble.sh); dropout is Megatron-LM's default.  The publications
// do not print these.
std::string scenario_text(const Row& row, int64_t vpp, const std::string& layout,
                          const std::string& schedule, const std::string& attention,
                          const std::string& vocabulary) {
  const int64_t pp = whole(row, "pp"), hidden = whole(row, "hidden"), seq = whole(row, "seq");
  const int64_t micro = row.count("micro_batch") != 0 ? whole(row, "micro_batch") : 1;
  return fmt::format(
      "model: {{preset: gpt, num_hidden_layers: {}, hidden_size: {}, num_attention_heads: {},\n"
      "        intermediate_size: {}, max_position_embeddings: {}, vocab_size: {},\n"
      "        tie_word_embeddings: false}}\n"
      "cluster: dgx-a100-80g x {}\n"
      "parallel: {{pp: {}, vpp: {}, layout: \"{}\"}}\n"
      "batch: {{global: {}, micro: {}, seq: {}}}\n"
      "schedule: {}\n"
      "precision: fp16-mixed\n"
      "kernels: {{modules: megatron, attention: {}, dropout: 0.1}}\n",
      row.at("layers"), hidden, row.at("heads"), 4 * hidden, seq, vocabulary, pp / 8, pp, vpp,
      layout, micro * whole(row, "microbatches"), micro, seq, schedule, attention);
}

// The memory table of the publication counts 5as bytes of attention scores a token, so attention
// was not fused; its vocabulary is not printed: GPT-2's, Megatron-LM's default.  A layer less on
// the first and on the last stage, which with several chunks a rank are the first and last chunk.
std::string zero_bubble_scenario(const Row& row) {
  const int64_t vpp = whole(row, "vpp"), stages = whole(row, "pp") * vpp;
  std::vector<int64_t> layers(static_cast<size_t>(stages), (whole(row, "layers") + 2) / stages);
  --layers.front();
  --layers.back();
  const std::string& name = row.at("schedule");
  // The zero-bubble runs, but for the rows with a barrier, validate the step afterwards.
  const bool open = name.starts_with("zb-") && row.at("barrier") == "0";
  const std::string schedule = fmt::format("{{kind: {}, post_validation: {}}}", name, open);
  return scenario_text(row, vpp, layout_of(layers), schedule, "unfused", "50257");
}

struct Forecast {
  Row row;
  double peak_gb = 0, peak_gib = 0, reserved_gib = 0, step_s = 0, span_s = 0, bubble = 0, mfu = 0;
  std::string stage;
  bool fits = false;
};

Forecast forecast_of(const Row& row, const std::string& text) {
  ForecastOptions quick;
  quick.what_if = false;
  const Result r = forecast(load_scenario_text(text, row.at("group")), quick);
  const RankMemory& most = *std::max_element(r.memory.begin(), r.memory.end(),
                                             [](const RankMemory& a, const RankMemory& b) {
                                               return a.memory.peak.value < b.memory.peak.value;
                                             });
  Forecast out;
  out.row = row;
  out.peak_gb = static_cast<double>(most.memory.peak.value) / 1e9;
  out.peak_gib = static_cast<double>(most.memory.peak.value) / (1 << 30);
  out.reserved_gib = static_cast<double>(r.memory_reserved.value) / (1 << 30);
  out.step_s = to_seconds(r.step_time);
  out.span_s = to_seconds(r.span);
  out.bubble = to_seconds(r.bubble) / to_seconds(r.step_time);
  out.mfu = 100 * r.utilization.mfu_full_attention;
  out.stage = most.name;
  out.fits = r.fits;
  return out;
}

std::vector<Forecast> zero_bubble_group(const std::string& group, const char* barrier) {
  std::vector<Forecast> out;
  for (const Row& row : table("zero_bubble_profiles.csv"))
    if (row.at("group") == group && row.at("barrier") == barrier)
      out.push_back(forecast_of(row, zero_bubble_scenario(row)));
  return out;
}

const Forecast& of_schedule(const std::vector<Forecast>& group, const std::string& name) {
  return *std::find_if(group.begin(), group.end(),
                       [&](const Forecast& f) { return f.row.at("schedule") == name; });
}

void record(const Forecast& f, double measured_s) {
  ::testing::Test::RecordProperty(
      f.row.at("group") + ' ' + f.row.at("schedule"),
      fmt::format(
          "peak {} GB, {:.1f} GB ({:.1f} GiB, reserved {:.1f}) on {}; step {:.3f} s, {:.3f} "
          "s ({:+.1f} %), bubble {:.1f} %",
          f.row.at("peak_gb"), f.peak_gb, f.peak_gib, f.reserved_gib, f.stage, measured_s, f.step_s,
          100 * (f.step_s / measured_s - 1), 100 * f.bubble));
}

class ZeroBubbleGroup : public ::testing::TestWithParam<const char*> {};

TEST_P(ZeroBubbleGroup, OrderOfPeakMemoryAndGainsAreThoseMeasured) {
  const std::vector<Forecast> group = zero_bubble_group(GetParam(), "0");
  ASSERT_EQ(group.size(), 4u);
  for (const Forecast& f : group) record(f, number(f.row, "step_s"));

  for (const Forecast& a : group) {
    EXPECT_TRUE(a.fits) << a.row.at("schedule");
    // Whether GB are 10^9 or 2^30 bytes, allocated or reserved, the publication does not say.
    // The order of zb-2p is made for the times of stages: forecast ones, which are not those
    // measured, leave up to half a microbatch more in flight.
    const double tolerance = a.row.at("schedule") == "zb-2p" ? 0.065 : 0.05;
    EXPECT_NEAR(a.peak_gb / number(a.row, "peak_gb"), 1, tolerance) << a.row.at("schedule");
    for (const Forecast& b : group) {
      if (number(a.row, "peak_gb") >= number(b.row, "peak_gb")) continue;
      EXPECT_LT(a.peak_gb, b.peak_gb) << a.row.at("schedule") << ", " << b.row.at("schedule");
    }
  }

  // The fastest and the slowest are those measured; what a schedule gains over 1F1B is a ratio, in
  // which the errors of the kernels' prices cancel.
  const Forecast& base = of_schedule(group, "1f1b");
  const Forecast& best = of_schedule(group, "zb-2p");
  for (const Forecast& f : group) {
    EXPECT_LE(best.step_s, f.step_s) << f.row.at("schedule");
    EXPECT_GE(base.step_s, f.step_s) << f.row.at("schedule");
    const double measured = number(f.row, "step_s") / number(base.row, "step_s");
    EXPECT_NEAR(f.step_s / base.step_s / measured, 1, 0.08) << f.row.at("schedule");
  }
}

// Without optimization the forecasts take seconds: of each model the run with fewest microbatches.
constexpr const char* kGroups[] = {
    "zb-t4-1.5B-m24",  "zb-t4-6.2B-m24",   "zb-t4-14.6B-m48",  "zb-t4-28.3B-m96",
#ifdef NDEBUG
    "zb-t4-1.5B-m32",  "zb-t4-1.5B-m64",   "zb-t4-6.2B-m32",   "zb-t4-6.2B-m64",
    "zb-t4-14.6B-m64", "zb-t4-14.6B-m128", "zb-t4-28.3B-m128", "zb-t4-28.3B-m256",
#endif
};

INSTANTIATE_TEST_SUITE_P(Published, ZeroBubbleGroup, ::testing::ValuesIn(kGroups),
                         [](const ::testing::TestParamInfo<const char*>& of) {
                           std::string name = of.param + std::string("zb-t4-").size();
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return c == '.' || c == '-'; }, '_');
                           return name;
                         });

// Rows measured with the optimizer's usual synchronisation beside those without, which cost the
// span.
TEST(ZeroBubbleGroups, TheOptimizersBarrierCostsWhatItWasMeasuredToCost) {
  int pairs = 0;
  for (const Row& with : table("zero_bubble_profiles.csv")) {
    if (with.at("barrier") != "1") continue;
    const Forecast f = forecast_of(with, zero_bubble_scenario(with));
    for (const Row& row : table("zero_bubble_profiles.csv")) {
      if (row.at("barrier") != "0" || row.at("group") != with.at("group") ||
          row.at("schedule") != with.at("schedule"))
        continue;
      const double measured = number(with, "step_s") / number(row, "step_s");
      RecordProperty(
          with.at("group") + " barrier",
          fmt::format("measured x{:.3f}, forecast x{:.3f}", measured, f.step_s / f.span_s));
      EXPECT_NEAR(f.step_s / f.span_s, measured, 0.03) << with.at("group");
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 4);
}

// Medians over the stages, as the publication's profile, which was taken during the run with fewest
// microbatches of each model.
TEST(ZeroBubbleGroups, StagesArePricedNearTheirProfile) {
  for (const Row& row : table("zero_bubble_profiles.csv")) {
    if (row.at("barrier") != "1") continue;
    const Scenario scenario = load_scenario_text(zero_bubble_scenario(row), row.at("group"));
    const PipelineCosts costs =
        stage_costs(scenario, shipped_table(scenario.cluster.node.gpu.name));
    const auto median_ms = [&](Time StageTimes::*pass) {
      std::vector<double> ms;
      for (const StageTimes& stage : costs.times) ms.push_back(1e3 * to_seconds(stage.*pass));
      std::sort(ms.begin(), ms.end());
      return (ms[(ms.size() - 1) / 2] + ms[ms.size() / 2]) / 2;
    };
    const double f = median_ms(&StageTimes::forward), i = median_ms(&StageTimes::backward_input),
                 w = median_ms(&StageTimes::backward_weight);
    const double hop = 1e3 * to_seconds(*std::max_element(costs.hops.begin(), costs.hops.end()));
    RecordProperty(
        row.at("group") + " ms",
        fmt::format("F {}, {:.3f}  I {}, {:.3f}  W {}, {:.3f}  hop {}, {:.3f}", row.at("t_f"), f,
                    row.at("t_b"), i, row.at("t_w"), w, row.at("t_comm"), hop));
    EXPECT_NEAR(f / number(row, "t_f"), 1, 0.2) << row.at("group");
    EXPECT_NEAR(i / number(row, "t_b"), 1, 0.2) << row.at("group");
    EXPECT_NEAR(w / number(row, "t_w"), 1, 0.2) << row.at("group");
  }
}

// ------------------------------------------------------------------------- large vocabularies ----

// Layers of each stage if the longest stage is to be as short as can be, by the publication's count
// of operations: 72h + 12s of a layer, 6V of the output layer.  How they were split is not printed;
// of equally long splits this one leaves the most on the last stage and begins with the fewest,
// since it is the first stage that holds most microbatches.
std::vector<int64_t> balanced_layers(const Row& row) {
  const int64_t pp = whole(row, "pp"), layers = whole(row, "layers");
  const int64_t layer = 72 * whole(row, "hidden") + 12 * whole(row, "seq");
  const int64_t head = 6 * whole(row, "vocab");
  const auto longest = [&](int64_t last) {
    return std::max((layers - last + pp - 2) / (pp - 1) * layer, last * layer + head);
  };
  int64_t last = 0;
  for (int64_t i = 1; i <= layers / pp; ++i)
    if (longest(i) <= longest(last)) last = i;
  std::vector<int64_t> out;
  for (int64_t s = 0; s + 1 < pp; ++s) out.push_back((layers - last + s) / (pp - 1));
  out.push_back(last);
  return out;
}

// The fork's launch script uses flash attention; its memory grows in proportion to the sequence.
Forecast vocabulary_forecast(const Row& row, bool balanced) {
  const int64_t pp = whole(row, "pp");
  const std::vector<int64_t> even(static_cast<size_t>(pp), whole(row, "layers") / pp);
  return forecast_of(row, scenario_text(row, 1, layout_of(balanced ? balanced_layers(row) : even),
                                        "1f1b", "flash", row.at("vocab")));
}

TEST(VocabularyGroups, PeakMemoryIsTheOneMeasuredAndRedistributionPaysWhereItDid) {
  const std::vector<Row> even = table("vocabulary_groups.csv");
  const std::vector<Row> redistributed = table("vocabulary_redistributed.csv");
  ASSERT_EQ(even.size(), 16u);
  ASSERT_EQ(even.size(), redistributed.size());
  std::vector<Forecast> all;
  for (size_t i = 0; i < even.size(); ++i) {
    const Row& other = redistributed[i];
    ASSERT_EQ(even[i].at("group"), other.at("group"));
    const Forecast base = vocabulary_forecast(even[i], false);
    const Forecast moved = vocabulary_forecast(even[i], true);
    const double mfu = number(even[i], "mfu"), peak = number(even[i], "peak_gb");
    RecordProperty(
        even[i].at("group"),
        fmt::format("peak {:.2f}, {:.2f} GiB  MFU {:.2f}, {:.2f} %; redistributed: {}, {:.2f} GiB  "
                    "MFU {}, {:.2f} %",
                    peak, base.peak_gib, mfu, base.mfu, other.at("peak_gb"), moved.peak_gib,
                    other.at("mfu"), moved.mfu));
    // What the publication calls GB is read as GiB, of allocated bytes.
    EXPECT_NEAR(base.peak_gib / peak, 1, 0.01) << even[i].at("group");
    EXPECT_NEAR(moved.peak_gib / number(other, "peak_gb"), 1, 0.01) << even[i].at("group");
    EXPECT_EQ(base.stage, "stage 0");
    // At 32K the output layer is less than a layer and there is nothing to redistribute.
    if (number(other, "mfu") > mfu + 0.5) {
      EXPECT_GT(moved.mfu, base.mfu) << even[i].at("group");
    } else {
      EXPECT_EQ(moved.mfu, base.mfu) << even[i].at("group");
    }
    all.push_back(base);
  }
  for (const Forecast& a : all) {
    for (const Forecast& b : all) {
      if (number(a.row, "peak_gb") < number(b.row, "peak_gb")) {
        EXPECT_LT(a.peak_gib, b.peak_gib) << a.row.at("group") << ", " << b.row.at("group");
      }
      // Rows of one pipeline that differ in the vocabulary alone.
      const bool alike = a.row.at("pp") == b.row.at("pp") && a.row.at("seq") == b.row.at("seq");
      if (alike && number(a.row, "mfu") < number(b.row, "mfu")) {
        EXPECT_LT(a.mfu, b.mfu) << a.row.at("group") << ", " << b.row.at("group");
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::schedule_groups_test
