// SPDX-License-Identifier: Apache-2.0
// Layouts in words of other frameworks: what they cannot be told is not written.
#include "scenarios/frameworks/megatron/export_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/frameworks/megatron/export.h"
#include "scenarios/schema/keys.h"
#include "tests/scenarios/loading.h"

namespace stepcast::testing::export_layout_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ExportLayout, TorchtitanIsToldDegreesScheduleAndModules) {
  const auto text = torchtitan_layout(load_with({{"model.num_hidden_layers", "6"},
                                                 {"model.preset", "llama3-8b"},
                                                 {"parallel.zero", "3"},
                                                 {"parallel.layout", "Et*2|t*4L"},
                                                 {"recompute", "full"},
                                                 {"schedule", "1f1b"}}));
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("local_batch_size = 64\nglobal_batch_size = 256\n"));
  EXPECT_THAT(*text, HasSubstr("data_parallel_shard_degree = 4\n"));
  EXPECT_THAT(*text, HasSubstr("tensor_parallel_degree = 2\n"));
  EXPECT_THAT(*text, HasSubstr("pipeline_parallel_degree = 2\n"
                               "pipeline_parallel_schedule = \"1F1B\"\n"
                               "pipeline_parallel_microbatch_size = 1\n"
                               "module_fqns_per_model_part = [\n"
                               "  [\"tok_embeddings\", \"layers.0\", \"layers.1\"],\n"
                               "  [\"layers.2\", \"layers.3\", \"layers.4\", \"layers.5\", "
                               "\"norm\", \"output\"]\n]\n"));
  EXPECT_THAT(*text, HasSubstr("mode = \"full\"\n"));
}

TEST(ExportLayout, TorchtitanHasNoOptimizerShardsAloneAndNoSelectiveModules) {
  EXPECT_FALSE(torchtitan_layout(load_with({{"parallel.zero", "1"}})).has_value());
  const Scenario by_operator = load_with({{"parallel.zero", "3"}, {"recompute", "per-op"}});
  EXPECT_THAT(torchtitan_layout(by_operator).value(),
              HasSubstr("mode = \"selective\"\nselective_ac_option = \"op\"\n"));
  EXPECT_FALSE(nemo_overrides(by_operator).has_value());
  EXPECT_THAT(why_not_nemo(load_with({{"recompute", "per-op"}})), HasSubstr("per-op"));
  EXPECT_THAT(export_megatron(by_operator).text,
              ::testing::AllOf(HasSubstr("per-op is not written"), Not(HasSubstr("--recompute"))));
  EXPECT_THAT(why_not_torchtitan(load_with({{"parallel.zero", "1"}})),
              HasSubstr("parallel.zero 1"));
  EXPECT_FALSE(torchtitan_layout(load_with({{"parallel.zero", "3"}, {"recompute", "selective"}}))
                   .has_value());
  EXPECT_FALSE(
      torchtitan_layout(load_with({{"parallel.zero", "3"}, {"schedule", "zb-h1"}})).has_value());
  EXPECT_TRUE(torchtitan_layout(load_with({{"parallel.zero", "3"}})).has_value());
}

TEST(ExportLayout, NemoOverlapsBesideSequenceParallelismAlone) {
  const auto overrides = [](const char* sp) {
    return nemo_overrides(
               load_with({{"software", "nemo"}, {"parallel.tp", "2"}, {"parallel.sp", sp}}))
        .value();
  };
  EXPECT_THAT(overrides("true"), HasSubstr("model.tp_comm_overlap=true\n"));
  EXPECT_THAT(overrides("false"), HasSubstr("model.tp_comm_overlap=false\n"));
}

TEST(ExportLayout, NemoIsToldSizesAndUnevenStages) {
  const auto text = nemo_overrides(load_with({{"model.num_hidden_layers", "6"},
                                              {"model.preset", "llama3-8b"},
                                              {"parallel.layout", "Et*2|t*4L"},
                                              {"recompute", "selective"}}));
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("train.global_batch_size=256\ntrain.micro_batch_size=1\n"));
  EXPECT_THAT(*text, HasSubstr("model.tensor_model_parallel_size=2\n"));
  EXPECT_THAT(*text, HasSubstr("model.virtual_pipeline_model_parallel_size=null\n"));
  EXPECT_THAT(*text, HasSubstr("model.pipeline_model_parallel_layout=[[embedding,decoder,decoder],"
                               "[decoder,decoder,decoder,decoder,loss]]\n"));
  EXPECT_THAT(*text, HasSubstr("model.recompute_granularity=selective\n"));
  EXPECT_THAT(*text, Not(HasSubstr("expert")));
}

TEST(ExportLayout, NemoHasNeitherFullShardingNorOtherOrders) {
  EXPECT_FALSE(nemo_overrides(load_with({{"parallel.zero", "3"}})).has_value());
  EXPECT_FALSE(nemo_overrides(load_with({{"schedule", "gpipe"}})).has_value());
  const auto even = nemo_overrides(load_with({{"recompute", "full"}}));
  ASSERT_TRUE(even.has_value());
  EXPECT_THAT(*even, Not(HasSubstr("layout")));
  EXPECT_THAT(*even, HasSubstr("model.recompute_method="));
}

TEST(ExportLayout, NemoIsToldOverlapAndPrecision) {
  const Sets base{{"parallel.pp", "1"}};
  const auto text = [&](Sets sets) {
    sets.insert(sets.begin(), base.begin(), base.end());
    return nemo_overrides(load_with(sets)).value();
  };
  EXPECT_THAT(text({{"overlap", "{dp_grad: true, dp_param: true}"}}),
              HasSubstr("ddp.overlap_grad_reduce=true\nddp.overlap_param_gather=true\n"
                        "optimizer.overlap_param_gather=true\n"));
  EXPECT_THAT(text({{"overlap", "{dp_grad: false, dp_param: false}"}}),
              HasSubstr("ddp.overlap_grad_reduce=false\nddp.overlap_param_gather=false\n"
                        "optimizer.overlap_param_gather=false\n"));
  EXPECT_THAT(text({{"parallel.zero", "0"}}),
              HasSubstr("ddp.use_distributed_optimizer=false\n"
                        "optimizer.use_distributed_optimizer=false\n"));
  EXPECT_THAT(text({}), HasSubstr("dataset.seq_length="));
  EXPECT_THAT(text({{"overlap.tp", "pipelined"}, {"parallel.sp", "true"}}),
              HasSubstr("model.tp_comm_overlap=true\n"));
  EXPECT_THAT(text({}), HasSubstr("mixed_precision=bf16_mixed\n"));
  const std::string delayed = text({{"precision", "fp8-delayed"}});
  EXPECT_THAT(delayed, HasSubstr("mixed_precision=bf16_with_fp8_delayed_scaling_mixed\n"));
  EXPECT_THAT(delayed, HasSubstr("# not said: precision.fp8_params false"));
  EXPECT_THAT(text({{"precision", "fp8-delayed"}, {"precision.fp8_params", "true"}}),
              Not(HasSubstr("fp8_params")));
  EXPECT_THAT(text({{"precision.grads", "bf16"}}),
              HasSubstr("# not said: precision.grads bf16, which this recipe has otherwise\n"));
  EXPECT_THAT(text({{"precision.grads", "fp32"}}), Not(HasSubstr("precision.grads")));
  EXPECT_THAT(text({{"precision", "fp32"}}), HasSubstr("# not said: precision.preset"));
}

// --- what a scenario states of its step is said, or named as what cannot be said

bool is_of_the_step(std::string_view path) {
  for (const std::string_view section :
       {"parallel.", "batch.", "schedule.", "precision.", "recompute.", "overlap.", "optimizer.",
        "kernels.", "moe.", "offload."})
    if (path.starts_with(section)) return true;
  return false;
}

std::vector<std::string> values_for(const Field& field) {
  std::vector<std::string> values;
  if (field.type == FieldType::flag) values = {"true", "false"};
  for (const Word& w : field.choices.words) values.emplace_back(w.text);
  if (field.choices.empty() && field.type != FieldType::flag)
    values = {"1", "2", "64", "0.5", "[2, 1]"};
  if (field.type == FieldType::choices)
    for (std::string& v : values) v = '[' + v + ']';
  return values;
}

std::optional<Scenario> legal(const Sets& sets) {
  try {
    return load_with(sets);
  } catch (const InputError&) {
    return {};
  }
}

using Export = std::function<std::optional<std::string>(const Scenario&)>;

// Of the values that change a scenario on `base`: whether what is written of it changes, added up
// over several bases, as many a key matters only beside others.
void add_told(const Export& written, const Sets& base, std::map<std::string, bool>& told) {
  const Scenario before = load_with(base);
  const std::optional<std::string> text = written(before);
  if (!text) return;
  for (const Field& field : scenario_fields()) {
    if (!is_of_the_step(field.path)) continue;
    for (const std::string& value : values_for(field)) {
      const std::string key = std::string(field.path) + '=' + value;
      if (const auto known = told.find(key); known != told.end() && known->second) continue;
      Sets sets = base;
      sets.emplace_back(field.path, value);
      const std::optional<Scenario> changed = legal(sets);
      if (!changed || changed->hash == before.hash) continue;
      const std::optional<std::string> now = written(*changed);
      told[key] = told[key] || !now || *now != *text;
    }
  }
}

// Values that change no step on the bases below: they matter only beside others that these lack.
bool changes_nothing(std::string_view value) {
  return std::ranges::any_of(
      std::array{"optimizer.kind=", "overlap.ep=", "parallel.cp_comm=a2a+p2p",
                 "parallel.cp_inner=", "parallel.dp_replicate=64", "parallel.sp=true",
                 "parallel.split=last", "parallel.vocab_multiple=", "precision.first_bf16_layers=",
                 "precision.last_bf16_layers=", "recompute.distribute=", "recompute.layers=64",
                 "recompute.modules="},
      [&](std::string_view beginning) { return value.starts_with(beginning); });
}

TEST(ExportLayout, WhateverChangesAStepChangesWhatIsWrittenOfIt) {
  const std::vector<Sets> bases{
      {{"parallel.sp", "true"}, {"recompute", "full"}},
      {{"parallel", "{tp: 1, pp: 2, zero: 1}"}, {"precision", "fp8-delayed"}},
      {{"parallel.zero", "3"}},
      {{"parallel", "{tp: 2, pp: 4, vpp: 2}"}, {"schedule", "interleaved"}},
      {{"model", "mixtral-8x7b"}, {"parallel", "{tp: 2, ep: 4}"}},
      {{"parallel", "{tp: 2, cp: 4, zero: 3}"}},
      {{"parallel", "{tp: 2, cp: 4, zero: 1, cp_comm: a2a+p2p, cp_inner: 2}"}}};
  const std::array<std::pair<const char*, Export>, 3> exports{
      {{"Megatron-LM", [](const Scenario& s) { return export_megatron(s).text; }},
       {"torchtitan", torchtitan_layout},
       {"NeMo", nemo_overrides}}};
  for (const auto& [name, written] : exports) {
    std::map<std::string, bool> told;
    for (const Sets& base : bases) add_told(written, base, told);
    std::string lost;
    for (const auto& [key, is_told] : told)
      if (!is_told && !changes_nothing(key)) lost += key + ' ';
    EXPECT_EQ(lost, "") << name;
    EXPECT_GT(told.size(), 60u) << name;
  }
}

TEST(ExportLayout, AKeyThatCannotBeSaidIsNamed) {
  const Sets sets{{"parallel.pp", "1"}, {"kernels.cuda_graph", "layer"}};
  const Scenario s = load_with(sets);
  EXPECT_THAT(nemo_overrides(s).value(), HasSubstr("# not said: kernels.cuda_graph layer\n"));
  EXPECT_THAT(export_megatron(s).text, HasSubstr("# kernels.cuda_graph layer is not written\n"));
  Sets fsdp = sets;
  fsdp.emplace_back("parallel.zero", "3");
  fsdp.emplace_back("kernels.cuda_graph", "none");
  fsdp.emplace_back("overlap.dp_grad", "false");
  EXPECT_THAT(torchtitan_layout(load_with(fsdp)).value(),
              HasSubstr("# not said: overlap.dp_grad false"));
}

}  // namespace
}  // namespace stepcast::testing::export_layout_test
