// SPDX-License-Identifier: Apache-2.0
// Random layouts of random models and clusters: no bound is above what is simulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <string>

#include <fmt/format.h>

#include "scenarios/search/search.h"
#include "schedules/schedule.h"
#include "tests/random_cases.h"

namespace stepcast::random_spaces_test {
namespace {

class RandomSpace {
 public:
  explicit RandomSpace(uint32_t seed) : random_(seed) {}

  // Models whose layers differ in more than experts and windows.
  std::string text_of_mixers() {
    const char* const model = one_of(
        {"{model_type: nemotron_h, hidden_size: 2048, intermediate_size: 4096, "
         "num_attention_heads: 16, num_key_value_heads: 8, mamba_num_heads: 32, n_groups: 8, "
         "hybrid_override_pattern: 'M-M-M*-M-M-M*-M-'}",
         "{model_type: nemotron_h, hidden_size: 2048, intermediate_size: 4096, "
         "num_attention_heads: 16, num_key_value_heads: 8, mamba_num_heads: 32, n_groups: 8, "
         "n_routed_experts: 16, moe_intermediate_size: 1024, moe_latent_size: 512, "
         "moe_shared_expert_intermediate_size: 2048, hybrid_override_pattern: 'MEMEM*EMEMEM*EME'}",
         "{model_type: qwen3_5_text, hidden_size: 2048, intermediate_size: 4096, "
         "num_hidden_layers: 12, num_attention_heads: 16, num_key_value_heads: 8}",
         "{model_type: deepseek_v32, hidden_size: 2048, intermediate_size: 4096, "
         "num_hidden_layers: 8, num_attention_heads: 16, n_routed_experts: 16, "
         "moe_intermediate_size: 1024, num_experts_per_tok: 4, n_group: 1, topk_group: 1, "
         "indexer_types: [full, full, full, shared, shared, full, shared, shared]}"});
    return fmt::format(
        "model: {}\ncluster: {} x 2\nbatch: {{global: {}, seq: 4096}}\n"
        "software: megatron-core\n",
        model, one_of({"dgx-h100", "dgx-a100-80g"}), 24 * (1 + below(4)));
  }

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
    if (below(4) == 0) text += "search: {schedules: [" + searched_families() + "]}\n";
    return text;
  }

  size_t below(size_t n) { return random_() % n; }

 private:
  // All that a search takes: orders that sizes decide.
  static std::string searched_families() {
    std::string names;
    for (const ScheduleFamily& family : schedule_families())
      if (std::ranges::none_of(family.parameters, [](const auto& p) { return p.key == "tF"; }))
        names += (names.empty() ? "" : ", ") + std::string(family.name);
    return names;
  }

  const char* one_of(std::initializer_list<const char*> words) {
    return words.begin()[below(words.size())];
  }

  std::mt19937 random_;
};

class RandomSpaces : public ::testing::TestWithParam<uint32_t> {};

void expect_no_bound_above(const std::string& text, RandomSpace& random) {
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

TEST_P(RandomSpaces, HaveNoBoundAboveWhatIsSimulated) {
  RandomSpace random(GetParam());
  expect_no_bound_above(random.text(), random);
}

class SpacesOfMixers : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SpacesOfMixers, HaveNoBoundAboveWhatIsSimulated) {
  RandomSpace random(GetParam());
  expect_no_bound_above(random.text_of_mixers(), random);
}

INSTANTIATE_TEST_SUITE_P(Search, SpacesOfMixers, ::testing::Range(uint32_t{1}, uint32_t{7}));

INSTANTIATE_TEST_SUITE_P(Search, RandomSpaces, ::testing::Range(uint32_t{1}, uint32_t{26}));

}  // namespace
}  // namespace stepcast::random_spaces_test
