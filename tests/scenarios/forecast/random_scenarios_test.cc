// SPDX-License-Identifier: Apache-2.0
// What holds of any scenario, on scenarios that nobody chose: every rank's account adds up, the
// order of keys does not matter, nor whether the file or -s states them, a part that is faster
// makes no step slower (links are not shared, and orders are fixed), what fits in some memory fits
// in more, and JSON says what the text says.
//
// The default suite draws two hundred for each, ten thousand are
//
//     STEPCAST_TIMES=50 test_forecast --gtest_filter=RandomScenarios.*
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "report/json/result.h"
#include "report/text/run.h"
#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"
#include "tests/random_cases.h"

namespace stepcast::random_scenarios_test {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

class RandomScenarios {
 public:
  explicit RandomScenarios(uint32_t seed) : random_(seed) {}

  // Keys of two words, "section.key", with their values.
  Sets next() {
    using Texts = std::initializer_list<const char*>;
    Sets sets;
    const auto draw = [&](const char* key, Texts values) {
      if (const std::string value = one_of(values); !value.empty()) sets.emplace_back(key, value);
    };
    const std::string model = one_of<const char*>(
        {"gpt3-1.3b", "gpt3-1.3b", "llama3-8b", "llama3-8b", "mixtral-8x7b", "gemma2-9b"});
    sets.emplace_back("model.preset", model);
    draw("model.num_hidden_layers", {"8", "16", "16", "24"});
    draw("model.vocab_size", {"", "", "50304", "128256"});
    draw("cluster.preset",
         {"dgx-a100-80g", "dgx-a100-40g", "dgx-h100", "dgx-h100", "dgx-b200", "dgx-1-v100"});
    sets.emplace_back("cluster.nodes", "2");
    const size_t tp = one_of<size_t>({1, 2, 4, 8}), pp = one_of<size_t>({1, 2, 4}),
                 cp = 16 / (tp * pp) > 1 ? one_of<size_t>({1, 1, 1, 2}) : 1;
    if (tp * pp * cp > 16) return next();
    const size_t dp = 16 / (tp * pp * cp), micro = one_of<size_t>({1, 1, 2, 4});
    sets.emplace_back("parallel.tp", fmt::to_string(tp));
    sets.emplace_back("parallel.pp", fmt::to_string(pp));
    sets.emplace_back("parallel.cp", fmt::to_string(cp));
    draw("parallel.sp", {"", "", "false"});
    draw("parallel.zero", {"", "0", "1", "2", "3"});
    if (model == "mixtral-8x7b") draw("parallel.ep", {"1", "2", "4", "8"});
    sets.emplace_back("batch.micro", fmt::to_string(micro));
    sets.emplace_back("batch.global",
                      fmt::to_string(micro * dp * pp * one_of<size_t>({1, 2, 3, 4})));
    draw("batch.seq", {"512", "1024", "2048", "4096"});
    if (pp > 1) {
      draw("schedule.kind", {"", "gpipe", "1f1b", "zb-h1", "interleaved"});
      if (sets.back().second == "interleaved") sets.emplace_back("parallel.vpp", "2");
      draw("schedule.p2p", {"", "", "async", "megatron"});
    }
    draw("recompute.granularity", {"", "none", "selective", "full"});
    draw("kernels.attention", {"", "", "unfused"});
    draw("kernels.expandable_segments", {"", "true"});
    draw("overlap.dp_grad", {"", "true", "false"});
    draw("precision.preset", {"", "", "", "fp8-delayed"});
    draw("offload.optimizer", {"", "", "", "0.5"});
    draw("contention.interference", {"", "off", "on"});
    if (below(3) == 0)
      sets.emplace_back("perturb", fmt::format("[{}]", part(one_of<double>({0.3, 0.8, 0.95}))));
    return sets;
  }

  // Something of 16 ranks, 8 a node, that runs at this speed.  (Links are only ever slower than
  // they are; faster_links_test.cc has clusters of faster ones.)
  std::string part(double speed) {
    const std::string where =
        one_of<const char*>({"all", "rank 0", "rank 9", "node 1", "stage 0", "gpu 15"});
    return speed > 1 || below(2) == 0 ? fmt::format("{{where: {}, compute: {}}}", where, speed)
                                      : fmt::format("{{where: {} nvlink, bw: {}}}", where, speed);
  }

  // As a file: sections, and keys within them, in a random order.
  std::string file(Sets sets) {
    std::shuffle(sets.begin(), sets.end(), random_);
    std::vector<std::string> sections;
    std::string text;
    for (const auto& [key, value] : sets) {
      const std::string section = key.substr(0, key.find('.'));
      if (std::ranges::count(sections, section) > 0) continue;
      sections.push_back(section);
      if (section == key) {
        text += fmt::format("{}: {}\n", key, value);
        continue;
      }
      std::string keys;
      for (const auto& [other, stated] : sets)
        if (other.starts_with(section + '.'))
          keys += fmt::format("{}{}: {}", keys.empty() ? "" : ", ",
                              other.substr(section.size() + 1), stated);
      text += fmt::format("{}: {{{}}}\n", section, keys);
    }
    return text;
  }

  size_t below(size_t n) { return random_() % n; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }

 private:
  std::mt19937 random_;
};

// Nothing if it is refused.
std::optional<Result> forecast_of(const std::string& text, const Sets& sets = {}) {
  LoadOptions load;
  load.set = sets;
  ForecastOptions quick;
  quick.what_if = false;
  try {
    return forecast(load_scenario_text(text, "run.yaml", load), quick);
  } catch (const InputError&) {
    return {};
  }
}

// So many scenarios that can be, each with what it gives.
void for_random(uint32_t seed,
                const std::function<void(RandomScenarios&, const Sets&, const std::string&,
                                         const Result&)>& check) {
  RandomScenarios random(seed);
  const uint64_t wanted = stepcast::testing::random_cases(200);
  uint64_t forecast = 0;
  for (uint64_t drawn = 0; forecast < wanted; ++drawn) {
    ASSERT_LT(drawn, 6 * wanted + 20) << "few of the scenarios can be";
    const Sets sets = random.next();
    const std::string text = random.file(sets);
    const std::optional<Result> result = forecast_of(text);
    if (!result) continue;
    ++forecast;
    check(random, sets, text, *result);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomScenarios, AccountsAddUpOnEveryRank) {
  for_random(1, [](RandomScenarios&, const Sets&, const std::string& text, const Result& r) {
    ASSERT_FALSE(r.account.by_role.empty());
    for (const SpendTable& table : r.account.by_role) {
      EXPECT_EQ(std::accumulate(table.begin(), table.end(), Time{}), r.step_time) << text;
      EXPECT_GE(*std::min_element(table.begin(), table.end()), Time{}) << text;
    }
  });
}

TEST(RandomScenarios, DoNotDependOnTheOrderOfKeysNorOnWhatSetStates) {
  for_random(
      2, [](RandomScenarios& random, const Sets& sets, const std::string& text, const Result& r) {
        const std::string answer = run_json(r, "0");
        const std::string other = random.file(sets);
        const std::optional<Result> ordered = forecast_of(other);
        ASSERT_TRUE(ordered) << other;
        EXPECT_EQ(run_json(*ordered, "0"), answer) << text << "\nand\n" << other;
        Sets in_file, set;
        for (const auto& stated : sets) (random.below(2) == 0 ? in_file : set).push_back(stated);
        const std::optional<Result> stated = forecast_of(random.file(in_file), set);
        ASSERT_TRUE(stated) << text;
        EXPECT_EQ(run_json(*stated, "0"), answer) << text << "\nwith the file\n"
                                                  << random.file(in_file);
      });
}

TEST(RandomScenarios, AreNoSlowerWithAFasterPart) {
  for_random(3, [](RandomScenarios& random, const Sets& sets, const std::string& text,
                   const Result&) {
    // Compute that slows communication down, and the other way round, is no sum of prices.
    const Sets alone{{"contention.interference", "off"}};
    Sets faster = alone;
    const auto perturbed = std::ranges::find(sets, "perturb", &Sets::value_type::first);
    const std::string before =
        perturbed != sets.end() ? perturbed->second.substr(1, perturbed->second.size() - 2) + ", "
                                : "";
    faster.emplace_back("perturb",
                        '[' + before + random.part(random.one_of<double>({1.01, 1.25, 2})) + ']');
    const std::optional<Result> was = forecast_of(text, alone), now = forecast_of(text, faster);
    ASSERT_TRUE(was) << text;
    ASSERT_TRUE(now) << text << faster.back().second;
    // Prices are rounded to picoseconds.
    EXPECT_LE(now->step_time, was->step_time + Time{1000}) << text << faster.back().second;
  });
}

TEST(RandomScenarios, FitInMoreMemoryWhereTheyFitInLess) {
  for_random(4, [](RandomScenarios& random, const Sets&, const std::string& text, const Result&) {
    const int64_t little = 8 + static_cast<int64_t>(random.below(80));
    const auto with = [&](int64_t gib) {
      return forecast_of(text, {{"cluster.node.gpu.memory", fmt::format("{}GiB", gib)}});
    };
    const auto small = with(little),
               large = with(little + 1 + static_cast<int64_t>(random.below(40)));
    ASSERT_EQ(small.has_value(), large.has_value()) << text;
    if (!small) return;
    EXPECT_LE(small->fits, large->fits) << text << little;
    EXPECT_EQ(small->step_time, large->step_time) << text << little;
  });
}

// A figure of the text, such as "  step time      13.62 s", with half a unit of its last digit.
struct Shown {
  double value = 0, unit = 0;
};
Shown shown(const std::string& text, const std::string& pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern + R"(\s+([0-9,]+(\.([0-9]+))?))")))
    return {};
  std::string digits = found[1];
  std::erase(digits, ',');
  return {std::stod(digits), 0.50001 * std::pow(10, -static_cast<double>(found[3].length()))};
}

TEST(RandomScenarios, SayInJsonWhatTheTextSays) {
  for_random(5, [](RandomScenarios&, const Sets&, const std::string& scenario, const Result& r) {
    const std::string text = text_report(r);
    const nlohmann::json json = nlohmann::json::parse(run_json(r, "0"));
    const Shown step = shown(text, "step time"), rate = shown(text, "tokens/s/GPU"),
                mfu = shown(text, "MFU"), memory = shown(text, "peak memory");
    ASSERT_GT(step.value, 0) << text;
    const bool in_ms = std::regex_search(text, std::regex(R"(step time\s+[0-9.,]+ ms)"));
    EXPECT_NEAR(step.value, json["step_time_s"].get<double>() * (in_ms ? 1000 : 1), step.unit)
        << scenario;
    EXPECT_NEAR(rate.value, json["tokens_per_s_per_gpu"].get<double>(), rate.unit) << scenario;
    EXPECT_NEAR(mfu.value, json["mfu"]["value"].get<double>() * 100, mfu.unit) << scenario;
    EXPECT_NEAR(memory.value, json["memory"]["reserved_bytes"].get<double>() / (1 << 30),
                memory.unit)
        << scenario;
    const bool fits = json["memory"]["fits"].get<bool>();
    const auto says = [&](const char* verdict) { return text.find(verdict) != std::string::npos; };
    // Near the edge the verdict is a share of steps like it.
    if (says("does NOT fit")) {
      EXPECT_FALSE(fits) << text;
    }
    if (!fits) {
      EXPECT_TRUE(says("does NOT fit") || says("may run out of memory") || says("probably fits"))
          << text;
    }
    EXPECT_EQ(json["step_time_ps"].get<int64_t>(), r.step_time.count()) << scenario;
  });
}

}  // namespace
}  // namespace stepcast::random_scenarios_test
