// SPDX-License-Identifier: Apache-2.0
// Random layouts of random models and clusters: no bound is above what is simulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <string>

#include <fmt/format.h>

#include "scenarios/search/search.h"
#include "tests/random_cases.h"

namespace stepcast::random_spaces_test {
namespace {

class RandomSpace {
 public:
  explicit RandomSpace(uint32_t seed) : random_(seed) {}

  std::string text() {
    const bool experts = below(3) == 0;
    const char* const model =
        experts ? one_of({"mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b"})
                : one_of({"llama3-8b", "gpt3-1.3b", "llama3-70b", "gpt2-xl", "gpt-oss-20b"});
    const char* const cluster = one_of({"dgx-h100", "dgx-a100-80g", "dgx-b200"});
    const char* const software = one_of(
        {"megatron-core", "nemo", "megatron-bridge", "torchtitan", "megatron-deepspeed-2022"});
    std::string text = fmt::format(
        "model: {{preset: {}, num_hidden_layers: {}, max_position_embeddings: 65536}}\ncluster: {} "
        "x {}\n"
        "batch: {{global: {}, seq: {}}}\nsoftware: {}\nparallel: {{order: {}}}\n",
        model, 4 + below(13), cluster, 2 + below(3), 24 * (1 + below(4)), 1024 << below(4),
        software, below(4) == 0 ? "tp-cp-pp-dp" : "tp-cp-dp-pp");
    if (below(3) == 0) text += "schedule: {p2p: async}\n";
    if (below(4) == 0)
      text += "search: {schedules: [1f1b, interleaved-1f1b, gpipe, zb-h1, zb-v]}\n";
    return text;
  }

  size_t below(size_t n) { return random_() % n; }

 private:
  const char* one_of(std::initializer_list<const char*> words) {
    return words.begin()[below(words.size())];
  }

  std::mt19937 random_;
};

class RandomSpaces : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomSpaces, HaveNoBoundAboveWhatIsSimulated) {
  RandomSpace random(GetParam());
  const std::string text = random.text();
  SCOPED_TRACE(text);
  const ScenarioDocument document = ScenarioDocument::of_text(text, "random.yaml", "");
  const auto layouts = static_cast<int64_t>(SearchSpace(document).layouts().all.size());
  ASSERT_GT(layouts, 0);
  const int64_t wanted = static_cast<int64_t>(testing::random_cases(40));
  SearchRun run;
  run.forecasts = false;
  run.exhaustive = true;
  run.shard.count = std::max<int64_t>(1, layouts / wanted);
  // Where a space has few layouts that its software runs, a part may have none.
  const auto first = static_cast<int64_t>(random.below(static_cast<size_t>(run.shard.count)));
  int64_t simulated = 0;
  for (int64_t i = 0; i < run.shard.count && simulated == 0; ++i) {
    run.shard.index = (first + i) % run.shard.count;
    const SearchAnswer answer = search_layouts(document, {}, run);
    simulated = answer.result.simulated;
    EXPECT_EQ(answer.bounds_too_high, 0);
  }
  EXPECT_GT(simulated, 0);
}

INSTANTIATE_TEST_SUITE_P(Search, RandomSpaces, ::testing::Range(uint32_t{1}, uint32_t{26}));

}  // namespace
}  // namespace stepcast::random_spaces_test
