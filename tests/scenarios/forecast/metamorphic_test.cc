// SPDX-License-Identifier: Apache-2.0
// What must not change a forecast, or must change it in a known way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>
#include <string>

#include "scenarios/forecast/forecast.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "sim/lanes/lanes.h"

namespace stepcast::metamorphic_test {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

// 16 ranks on two nodes: tp 2, pp 4, dp 2.
const std::string kBase =
    "model: {preset: gpt3-1.3b, tie_word_embeddings: false}\n"
    "cluster: dgx-a100-80g x 2\n"
    "parallel: {tp: 2, pp: 4, dp: 2}\n"
    "batch: {global: 16, micro: 1, seq: 2048}\n";

// Without interference, which perturbations leave out, and which is no (max,+) sum of prices.
Result forecast_of(const std::string& text, const Sets& sets = {}) {
  LoadOptions load;
  load.set = sets;
  load.set.emplace_back("contention.interference", "off");
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(load_scenario_text(text, "run.yaml", load), quick);
}

Time step_of(const Sets& sets) {
  return forecast_of(kBase, sets).step_time;
}

std::string slow(const std::string& where, double speed) {
  return "{where: " + where + ", compute: " + std::to_string(speed) + "}";
}

TEST(Metamorphic, TimesScaleWithAllPrices) {
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1"}) {
    Sets sets{{"schedule", schedule}, {"overlap.dp_grad", "true"}};
    if (std::string(schedule) == "interleaved") sets.emplace_back("parallel.vpp", "2");
    const Result r = forecast_of(kBase, sets);
    for (const int64_t k : {2, 7}) {
      Prices scaled = *r.prices;
      for (Price& p : scaled.by_work) p.time *= k;
      for (Time& launch : scaled.by_launch) launch *= k;
      EXPECT_EQ(run(compile(*r.graph, scaled), Record::nothing).makespan, r.makespan * k);
      LaneSet lanes;
      lanes.digits = {{Axis::tp, 2}, {Axis::cp, 1}, {Axis::dp, 2}};
      EXPECT_EQ(run_lanes(*r.graph, scaled, lanes).makespan, r.makespan * k);
    }
  }
}

TEST(Metamorphic, BitsAndBytesAreTheSameBandwidth) {
  EXPECT_EQ(step_of({{"cluster.node.nics.bw", "400Gb/s"}}),
            step_of({{"cluster.node.nics.bw", "50GB/s"}}));
  EXPECT_EQ(step_of({{"cluster.node.intra.bw", "2400Gb/s"}}),
            step_of({{"cluster.node.intra.bw", "300GB/s"}}));
}

// A GPU that is a little better than a preset is priced as that one was measured.
TEST(Metamorphic, ABetterGpuIsNeverSlowerThanItsPreset) {
  for (const char* text :
       {"model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2}\n"
        "batch: {global: 32, micro: 1, seq: 8192}\n",
        "model: gpt3-1.3b\ncluster: dgx-a100-80g x 2\nparallel: {tp: 2, pp: 4}\n"
        "batch: {global: 16, micro: 1, seq: 2048}\n",
        "model: llama3-8b\ncluster: dgx-b200 x 1\nbatch: {global: 16, micro: 1, seq: 4096}\n"}) {
    const Result preset = forecast_of(text);
    const Gpu gpu = load_scenario_text(text, "run.yaml").cluster.node.gpu;
    const auto with = [&](double memory, double peak) {
      const double bf16 = gpu.peak.at(DType::bf16).value;
      return forecast_of(
          text,
          {{"cluster.node.gpu.mem_bw",
            fmt::format("{:.3f}GB/s", gpu.memory_bandwidth.value * memory * 1e-9)},
           {"cluster.node.gpu.peak.bf16", fmt::format("{:.3f}TFLOP/s", bf16 * peak * 1e-12)}});
    };
    EXPECT_EQ(with(1, 1).step_time, preset.step_time) << text;
    EXPECT_LT(with(1.02, 1).step_time, preset.step_time) << text;
    EXPECT_LT(with(1, 1.02).step_time, preset.step_time) << text;
    EXPECT_GT(with(0.9, 1).step_time, preset.step_time) << text;
    EXPECT_LT(with(2, 2).step_time, with(1.02, 1.02).step_time) << text;
  }
}

// Ranks of one tensor-parallel group are equal, and so are replicas that lie alike.
TEST(Metamorphic, WhichOfEqualRanksIsSlowDoesNotMatter) {
  const auto step = [](int rank) {
    return step_of({{"perturb", '[' + slow("rank " + std::to_string(rank), 0.7) + ']'}});
  };
  // tp is innermost, then dp, then pp: ranks 0 to 3 are the first stage.
  EXPECT_EQ(step(0), step(1));
  EXPECT_EQ(step(0), step(2));
  EXPECT_EQ(step(12), step(15));
}

TEST(Metamorphic, ANodeThatNobodyUsesChangesNothing) {
  const Time two = step_of({});
  EXPECT_EQ(step_of({{"cluster.nodes", "3"}, {"cluster.placement.nodes", "[0, 1]"}}), two);
  EXPECT_EQ(step_of({{"cluster.nodes", "3"}, {"cluster.placement.nodes", "[2, 0]"}}), two);
  EXPECT_EQ(step_of({{"cluster.nodes", "3"},
                     {"cluster.placement.nodes", "[0, 1]"},
                     {"perturb", "[{where: node 2, compute: 0.5, bw: 0.5}]"}}),
            two);
}

TEST(Metamorphic, OrderOfTheListDoesNotMatter) {
  const std::string a = slow("rank 3", 0.7), b = slow("stage 2", 0.9),
                    c = "{where: node 1, bw: 0.5}";
  EXPECT_EQ(step_of({{"perturb", '[' + a + ',' + b + ',' + c + ']'}}),
            step_of({{"perturb", '[' + c + ',' + a + ',' + b + ']'}}));
}

TEST(Metamorphic, FactorsOfOnePlaceMultiply) {
  EXPECT_EQ(step_of({{"perturb", "[{where: rank 3, compute: 0.5}, {where: gpu 3, compute: 0.5}]"}}),
            step_of({{"perturb", "[{where: rank 3, compute: 0.25}]"}}));
}

TEST(Metamorphic, ExtendsIsTheSameAsWritingItOut) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/base.yaml") << kBase;
  std::ofstream(folder + "/derived.yaml")
      << "extends: base.yaml\nname: x\nperturb: [{where: rank 3, compute: 0.8}]\n";
  ForecastOptions quick;
  quick.what_if = false;
  const Result derived = forecast(load_scenario(folder + "/derived.yaml"), quick);
  const std::string written_out = kBase + "name: x\nperturb: [{where: rank 3, compute: 0.8}]\n";
  const Result flat = forecast(load_scenario_text(written_out, "run.yaml"), quick);
  EXPECT_EQ(derived.step_time, flat.step_time);
  EXPECT_EQ(derived.scenario.hash, flat.scenario.hash);
}

// 16 ranks of several layouts and networks, on which links of different kinds bind.
const std::vector<Sets> kLayouts{
    {},
    {{"schedule", "zb-h1"}},
    {{"parallel.tp", "2"}, {"parallel.pp", "8"}, {"parallel.dp", "1"}},
    {{"parallel.tp", "8"}, {"parallel.pp", "1"}, {"parallel.dp", "2"}, {"overlap.dp_grad", "true"}},
    {{"parallel.tp", "2"},
     {"parallel.pp", "2"},
     {"parallel.dp", "4"},
     {"cluster.nodes", "4"},
     {"cluster.placement.nodes", "[0, 3]"},
     {"cluster.fabric.tiers",
      "[{name: leaf, size: 8}, {name: pod, size: 16, oversub: 4}, "
      "{name: spine, size: 64, oversub: 4}]"}},
};

class RandomItems {
 public:
  explicit RandomItems(unsigned seed) : random_(seed) {}

  // Something that makes a part of 16 ranks, 8 a node, slower.
  std::string next() {
    const bool windowed = below(3) == 0;
    std::string item = "{where: " + place();
    if (links_ || below(2) == 0) {
      if (below(4) > 0)
        item += ", bw: " + factor();
      else
        item += ", latency: " + std::to_string(1 + below(200)) + "us";
    } else {
      item += ", compute: " + factor();
    }
    if (windowed) {
      const int from = below(100);
      item += ", from: " + std::to_string(from) +
              "ms, until: " + std::to_string(from + 1 + below(400)) + "ms";
    }
    return item + '}';
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string factor() {
    static const char* const kFactors[] = {"0.9", "0.6", "0.3", "0.1", "0.02"};
    return kFactors[below(5)];
  }
  std::string place() {
    links_ = true;
    if (below(5) == 0)
      return "node " + std::to_string(below(2)) + " nic " + std::to_string(below(8));
    std::string where;
    switch (below(5)) {
      case 0: where = "all"; break;
      case 1: where = "node " + std::to_string(below(2)); break;
      case 2: where = "stage 0"; break;
      case 3: where = "gpu " + std::to_string(below(16)); break;
      default: where = "rank " + std::to_string(below(16)); break;
    }
    links_ = below(2) == 0;
    return links_ ? where + " nvlink" : where;
  }

  std::mt19937 random_;
  bool links_ = false;  // of the place drawn last: it names links
};

// Random sets of slow ranks, nodes and links; then one more.  Orders are fixed and no capacity is
// shared, so times are (max,+) sums of prices.
TEST(Metamorphic, ASlowerPartNeverMakesTheStepFaster) {
  RandomItems random(20260726);
  for (size_t round = 0; round < 60; ++round) {
    const Sets& layout = kLayouts[round % kLayouts.size()];
    std::string items;
    Time last{};
    for (int i = 0; i < 5; ++i) {
      Sets sets = layout;
      if (!items.empty()) sets.emplace_back("perturb", '[' + items + ']');
      const Result now = forecast_of(kBase, sets);
      EXPECT_GE(now.step_time, last) << "layout " << round % kLayouts.size() << ": " << items;
      for (const SpendTable& table : now.account.by_role)
        EXPECT_EQ(std::accumulate(table.begin(), table.end(), Time{}), now.step_time) << items;
      last = now.step_time;
      items += (items.empty() ? "" : ", ") + random.next();
    }
  }
}

// What holds from begin to end is the same whether or not a window says so.
TEST(Metamorphic, AWindowOverTheWholeStepIsNoWindow) {
  RandomItems random(7);
  for (size_t round = 0; round < 20; ++round) {
    std::string items, windowed;
    for (int i = 0; i < 2; ++i) {
      std::string item = random.next();
      item = item.substr(0, item.find(", from")) + (item.find(", from") < item.size() ? "}" : "");
      items += (items.empty() ? "" : ", ") + item;
      item.insert(item.size() - 1, ", from: 0s, until: 1000s");
      windowed += (windowed.empty() ? "" : ", ") + item;
    }
    Sets sets = kLayouts[round % kLayouts.size()];
    sets.emplace_back("perturb", '[' + items + ']');
    const Time always = forecast_of(kBase, sets).step_time;
    sets.back().second = '[' + windowed + ']';
    EXPECT_EQ(forecast_of(kBase, sets).step_time, always) << items;
  }
}

}  // namespace
}  // namespace stepcast::metamorphic_test
