// SPDX-License-Identifier: Apache-2.0
// A link that is faster in any way never makes a step slower, on random scenarios: models, layouts,
// schedules and clusters are drawn, then some of their links are made faster.  Links are not shared
// (contention is off) and orders are fixed, so times are sums and maxima of prices, and it holds if
// no price grows: neither of the model nor where measured rows end.
//
// The default suite draws two hundred, ten thousand are
//
//     STEPCAST_TIMES=50 test_forecast --gtest_filter=FasterLinks.*
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"
#include "tests/random_cases.h"
#include "topology/cluster/fabric.h"

namespace stepcast::faster_links_test {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

class RandomLinks {
 public:
  explicit RandomLinks(uint32_t seed) : random_(seed) {}

  // A run of some GPUs whose links are all stated.
  Sets scenario() {
    const auto preset =
        one_of<std::string>({"dgx-a100-80g", "dgx-a100-40g", "p4d", "dgx-h100", "azure-ndv5", "p5",
                             "gcp-a3-mega", "gcp-a3-ultra", "dgx-h200", "hgx-h800", "dgx-b200",
                             "p6-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72", "dgx-1-v100"});
    const bool rack = preset.ends_with("nvl72");
    const int nodes = one_of({1, 2, 2, 2, 4, 8});
    Sets sets{{"contention.interference", "off"},
              {"cluster.preset", preset},
              {"cluster.nodes", std::to_string(nodes)}};
    if (rack) sets.emplace_back("cluster.node.gpus", one_of<std::string>({"64", "72"}));
    const int gpus = nodes * (rack ? (sets.back().second == "64" ? 64 : 72) : 8);
    const int tp = one_of({1, 2, 4, 8});
    const int pp = nodes == 1 || one_of({0, 1}) == 0 ? 1 : one_of({2, 4});
    sets.emplace_back("parallel.tp", std::to_string(tp));
    sets.emplace_back("parallel.pp", std::to_string(pp));
    if (tp > 1) sets.emplace_back("parallel.sp", one_of<std::string>({"true", "false"}));
    const int dp = gpus / (tp * pp);
    sets.emplace_back("batch.global", std::to_string(dp * one_of({pp, 2 * pp})));
    sets.emplace_back("batch.micro", "1");
    sets.emplace_back("batch.seq", one_of<std::string>({"1024", "2048", "8192"}));
    sets.emplace_back("parallel.zero", one_of<std::string>({"0", "1", "2", "3"}));
    sets.emplace_back("overlap.dp_grad", one_of<std::string>({"true", "false"}));
    if (pp > 1)
      sets.emplace_back("schedule", one_of<std::string>({"1f1b", "gpipe", "zb-h1", "zb-h1"}));
    const auto model = one_of<std::string>(
        {"gpt3-125m", "gpt3-350m", "gpt3-1.3b", "gpt3-6.7b", "llama3-8b", "gpt-oss-20b"});
    sets.emplace_back("model", model);
    if (model == "gpt-oss-20b")
      sets.emplace_back("parallel.ep", one_of<std::string>({"2", "4", "8"}));
    links(sets);
    return sets;
  }

  // The same with one to three kinds of its links faster.
  Sets faster(Sets sets) {
    int changes = one_of({1, 1, 1, 2, 3});
    while (changes-- > 0) {
      switch (below(6)) {
        case 0: nic_gbs_ *= growth(); break;
        case 1: nic_us_ /= growth(); break;
        case 2: intra_gbs_ *= growth(); break;
        case 3: intra_us_ /= growth(); break;
        case 4: oversub_ = std::max(1.0, oversub_ / growth()); break;
        default: hop_us_ /= growth(); break;
      }
    }
    state(sets);
    return sets;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int>(all.size()))];
  }
  // Small steps across the edges of what was measured, and large ones.
  double growth() { return one_of<double>({1.001, 1.01, 1.04, 1.06, 1.1, 1.25, 1.5, 2, 4}); }
  double around() { return one_of<double>({0.5, 0.8, 0.94, 0.96, 1, 1, 1, 1, 1.04, 1.06, 1.3}); }

  void links(Sets& sets) {
    nic_gbs_ = one_of<double>({6.25, 12.5, 25, 50, 50, 100}) * around();
    nic_us_ = one_of<double>({2, 2, 5, 12, 15, 35, 75}) * around();
    intra_gbs_ = one_of<double>({150, 200, 300, 450, 900}) * around();
    intra_us_ = one_of<double>({0.9, 1, 2});
    oversub_ = one_of<double>({1, 1, 1, 1.02, 2, 4});
    hop_us_ = one_of<double>({0.2, 0.3, 1});
    if (below(2) == 0)
      sets.emplace_back("cluster.node.nics.driver",
                        one_of<std::string>({"verbs", "roce", "gib", "efa", "tcpxo", "efa-v1"}));
    if (below(4) == 0) sets.emplace_back("cluster.fabric.sharp", "true");
    state(sets);
  }

  void state(Sets& sets) const {
    const auto set = [&](const std::string& key, const std::string& value) {
      for (auto& [known, stated] : sets)
        if (known == key) {
          stated = value;
          return;
        }
      sets.emplace_back(key, value);
    };
    set("cluster.node.nics.bw", fmt::format("{:.9f}GB/s", nic_gbs_));
    set("cluster.node.nics.latency", fmt::format("{:.6f}us", nic_us_));
    set("cluster.node.intra.bw", fmt::format("{:.9f}GB/s", intra_gbs_));
    set("cluster.node.intra.latency", fmt::format("{:.6f}us", intra_us_));
    set("cluster.fabric.oversub", fmt::format("{:.9f}", oversub_));
    set("cluster.fabric.latency_per_hop", fmt::format("{:.6f}us", hop_us_));
  }

  std::mt19937 random_;
  double nic_gbs_ = 0, nic_us_ = 0, intra_gbs_ = 0, intra_us_ = 0, oversub_ = 1, hop_us_ = 0;
};

Scenario scenario_of(const Sets& sets) {
  LoadOptions load;
  load.set = sets;
  return load_scenario_text("name: drawn\n", "run.yaml", load);
}

Result forecast_of(const Scenario& s) {
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(s, quick);
}

// With as many ports, a leaf switch of lower oversubscription has fewer nodes below it: other
// wires, not faster ones.
bool have_equal_switches(const Scenario& a, const Scenario& b) {
  return std::ranges::equal(fabric_tiers(a.cluster), fabric_tiers(b.cluster), {}, &Tier::size,
                            &Tier::size);
}

std::string text_of(const Sets& sets) {
  std::string text;
  for (const auto& [key, value] : sets) text += fmt::format(" -s {}={}", key, value);
  return text;
}

// The prices that grew, for the message.
std::string grown(const Result& slow, const Result& fast) {
  std::string text;
  const auto &before = slow.prices->by_work, &after = fast.prices->by_work;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i)
    if (after[i].time > before[i].time)
      text += fmt::format("\n  {}: {} -> {} ps\n    {}\n    {}", describe(slow.graph->works[i]),
                          before[i].time.count(), after[i].time.count(), before[i].basis,
                          after[i].basis);
  return text;
}

void check(int scenarios, uint32_t seed) {
  RandomLinks random(seed);
  int forecast = 0;
  for (int drawn = 0; forecast < scenarios; ++drawn) {
    ASSERT_LT(drawn, 4 * scenarios) << "few of the scenarios can be";
    const Sets slow = random.scenario();
    const Sets fast = random.faster(slow);
    std::optional<Result> before, after;
    try {
      const Scenario was = scenario_of(slow), now = scenario_of(fast);
      if (!have_equal_switches(was, now)) continue;
      before = forecast_of(was);
      after = forecast_of(now);
    } catch (const InputError&) {
      continue;
    }
    ++forecast;
    // Prices are rounded to picoseconds.
    const Time rounding{1000};
    EXPECT_LE(after->step_time, before->step_time + rounding)
        << "was:" << text_of(slow) << "\nnow:" << text_of(fast) << grown(*before, *after);
  }
}

TEST(FasterLinks, NeverMakeAStepSlower) {
  check(static_cast<int>(stepcast::testing::random_cases(200)), 20261123);
}

}  // namespace
}  // namespace stepcast::faster_links_test
