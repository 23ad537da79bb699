// SPDX-License-Identifier: Apache-2.0
// From text to a resolved scenario: defaults, derived values, and rules that tie values together.
#include "scenarios/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "scenarios/resolve/resolve.h"
#include "tests/scenarios/loading.h"

namespace stepcast::scenario_test {
namespace {

using ::testing::ElementsAre;
using testing::failure;
using testing::Failure;
using testing::failure_with;
using ::testing::HasSubstr;
using testing::kMinimal;
using testing::load_with;
using testing::setting;

std::string example(const std::string& name) {
  std::ifstream file(STEPCAST_SOURCE_DIR "/scenarios/examples/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_GT(text.str().size(), 50u) << name;
  return text.str();
}

Scenario load_example(const std::string& name) {
  return load_scenario(STEPCAST_SOURCE_DIR "/scenarios/examples/" + name);
}

TEST(Scenario, FiveLinesAreAScenario) {
  const Scenario s = testing::load(kMinimal);
  EXPECT_EQ(s.name, "run");
  EXPECT_EQ(s.plan.tp, 2);
  EXPECT_EQ(s.plan.pp, 2);
  EXPECT_EQ(s.plan.dp, 4);
  EXPECT_EQ(s.plan.microbatches(), 64);
  EXPECT_EQ(s.plan.grid.world(), 16);
  EXPECT_EQ(s.plan.stages.size(), 2u);
  EXPECT_EQ(s.plan.stages[0], (StageContent{16, true, false}));
  EXPECT_EQ(s.plan.stages[1], (StageContent{16, false, true}));
  EXPECT_EQ(s.schedule.name, "1f1b");
  EXPECT_EQ(s.schedule_title, "1F1B");
  EXPECT_EQ(s.schedule.ranks.size(), 2u);
  EXPECT_EQ(s.cluster.gpus(), 16);
  EXPECT_EQ(s.cluster.name, "dgx-h100");
  EXPECT_EQ(s.cluster.node.gpu.name, "h100-sxm");
  EXPECT_TRUE(s.warnings.empty());
}

TEST(Scenario, EveryDefaultStatesItsReason) {
  const Scenario s = testing::load(kMinimal);
  EXPECT_EQ(setting(s, "parallel.dp"), "4 (derived: 16 / (2*2*1))");
  EXPECT_EQ(setting(s, "parallel.sp"), "true (default: Megatron recommends it with tp > 1)");
  EXPECT_EQ(setting(s, "parallel.tp"), "2 (run.yaml:3:16)");
  EXPECT_EQ(setting(s, "cluster.nodes"), "2 (run.yaml:2:21)");
  EXPECT_EQ(setting(s, "cluster.node.intra.bw"), "450GB/s (preset dgx-h100)");
  EXPECT_EQ(setting(s, "cluster.node.gpu.arch"), "hopper (preset h100-sxm)");
  EXPECT_EQ(setting(s, "model"), "llama3-8b (run.yaml:1:8)");
  EXPECT_EQ(setting(s, "model.hidden_size"), "4096 (model llama3-8b)");
  EXPECT_THAT(setting(s, "precision.grads"), HasSubstr("fp32 (preset bf16-mixed"));
  for (const Setting& x : s.settings) EXPECT_FALSE(x.origin.empty() || x.value.empty()) << x.path;
}

TEST(Scenario, DefaultsAreThoseOfTheInterface) {
  const Scenario s = testing::load(kMinimal);
  const Plan& p = s.plan;
  EXPECT_EQ(p.zero, 0);
  EXPECT_EQ(p.vpp, 1);
  EXPECT_EQ(p.micro_batch, 1);
  EXPECT_EQ(p.precision.params, DType::bf16);
  EXPECT_EQ(p.precision.gradients, DType::fp32);
  EXPECT_TRUE(p.precision.master);
  EXPECT_EQ(p.recompute, Recompute::none);
  EXPECT_TRUE(p.kernels.flash_attention);
  EXPECT_EQ(s.model.attention_dropout, 0);
  EXPECT_EQ(p.overlap.tp, TpOverlap::backward);
  EXPECT_FALSE(p.overlap.dp_grad);
  EXPECT_FALSE(p.overlap.dp_param);
  EXPECT_EQ(s.p2p, P2pStyle::megatron);  // 1F1B as Megatron runs it
  EXPECT_FALSE(s.post_validation);
  EXPECT_TRUE(p.clip_gradients);
  EXPECT_EQ(p.grid.order, (std::array{Axis::tp, Axis::cp, Axis::dp, Axis::pp}));
}

TEST(Scenario, VocabularyIsPaddedAndThatIsSaid) {
  const Scenario s = load_with({{"parallel.tp", "8"}, {"parallel.pp", "2"}});
  EXPECT_EQ(s.model.vocab, 129'024);
  EXPECT_THAT(setting(s, "model.vocab_size"),
              HasSubstr("129024 (derived: 128256 padded to a multiple of parallel.vocab_multiple * "
                        "tp = 1024"));
  EXPECT_EQ(load_with({{"parallel.vocab_multiple", "1"}}).model.vocab, 128'256);
  EXPECT_EQ(load_with({{"parallel.vocab_multiple", "65536"}}).model.vocab, 131'072);
  EXPECT_EQ(testing::failure_with({{"parallel.vocab_multiple", "0"}}).codes, "E121");
  EXPECT_EQ(padded_vocab(50'257, 1, 128), 50'304);
  EXPECT_EQ(padded_vocab(51'200, 8, 128), 51'200);
}

TEST(Scenario, TheHashIsOfWhatHappensNotOfHowItIsWritten) {
  const std::string hash = testing::load(kMinimal).hash;
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(load_with({{"name", "other"}, {"description", "x"}}).hash, hash);
  EXPECT_EQ(load_with({{"measured.step_time", "1s"}}).hash, hash);
  EXPECT_EQ(load_with({{"cluster.node.nics.bw", "50GB/s"}}).hash, hash);  // 400Gb/s
  EXPECT_EQ(load_with({{"parallel.dp", "4"}, {"parallel.zero", "0"}}).hash, hash);
  EXPECT_EQ(testing::load("# a comment\n" + kMinimal).hash, hash);
  std::set<std::string> hashes{hash};
  for (const testing::Sets& sets :
       {testing::Sets{{"parallel.zero", "1"}}, testing::Sets{{"batch.global", "512"}},
        testing::Sets{{"cluster.node.nics.bw", "200Gb/s"}},
        testing::Sets{{"model.num_hidden_layers", "16"}}, testing::Sets{{"overlap.tp", "none"}},
        testing::Sets{{"kernels.dropout", "0.1"}}, testing::Sets{{"schedule", "gpipe"}},
        testing::Sets{{"cluster.fabric.tiers", "[{name: a, size: 64}]"}}})
    EXPECT_TRUE(hashes.insert(load_with(sets).hash).second) << sets[0].first;
}

TEST(Scenario, TheHashIsOfAllPartsOfTheModel) {
  std::set<std::string> hashes;
  const auto add = [&](const std::string& model) {
    const Scenario s =
        testing::load("model: " + model + "\ncluster: dgx-h100\nbatch: {global: 64, seq: 512}\n");
    EXPECT_TRUE(hashes.insert(s.hash).second) << model;
  };
  for (const char* change : {"num_experts: 8", "num_experts: 4", "num_experts_per_tok: 1"})
    add(std::string("{preset: mixtral-8x7b, ") + change + "}");
  for (const char* change : {"q_lora_rank: 1536", "q_lora_rank: 512", "kv_lora_rank: 256",
                             "v_head_dim: 64", "first_k_dense_replace: 4", "n_shared_experts: 2"})
    add(std::string("{preset: deepseek-v3, ") + change + "}");
}

TEST(Scenario, AllProblemsAreReportedInOneGo) {
  const Failure f = failure(
      "model: llama3-9b\n"
      "cluster: {preset: dgx-h100, nodes: 0, node: {nics: {bw: 400}}}\n"
      "parallel: {tp: two, zero: 3, ordr: tp-pp}\n"
      "batch: {micro: 1.5, seq: 8192}\n"
      "schedule: 1f2b\n"
      "calibration: {x: 1}\n");
  EXPECT_THAT(f.codes, HasSubstr("E125 E121 E120 E107 E102"));
  EXPECT_EQ(f.codes, "E125 E121 E120 E107 E102 E126 E123 E125 E107");
}

TEST(Scenario, MissingSectionsAreNamedOnce) {
  EXPECT_THAT(failure("model: llama3-8b\ncluster: dgx-h100\n").lines,
              ElementsAre("E126 1:1 'batch.global' is missing", "E126 1:1 'batch.seq' is missing"));
  EXPECT_THAT(failure("model: llama3-8b\ncluster: dgx-h100\nbatch: {global: 8}\n").lines,
              ElementsAre("E126 3:1 'batch.seq' is missing"));
}

TEST(Scenario, WrongKindsAreNamed) {
  EXPECT_EQ(failure_with({{"batch", "5"}}).codes, "E107");
  EXPECT_EQ(failure_with({{"parallel.tp", "[2]"}}).codes, "E107");
  EXPECT_EQ(failure_with({{"parallel.sp", "yes"}}).codes, "E107");
  EXPECT_EQ(failure_with({{"overlap", "[a]"}}).codes, "E107");
  EXPECT_EQ(failure_with({{"recompute.modules", "{a: b}"}}).codes, "E107");
  EXPECT_EQ(failure_with({{"name", "[a]"}}).codes, "E107");
}

TEST(Scenario, WordsOfAListAreChecked) {
  const Failure f = failure_with({{"recompute.granularity", "selectiv"}});
  ASSERT_EQ(f.codes, "E125");
  EXPECT_EQ(f.all[0].label, "did you mean 'selective'?");
  EXPECT_EQ(f.all[0].help, "it is one of: none, selective, full or per-op");
}

TEST(Scenario, WhatIsNotModelledYetIsAnErrorThatNamesWhatIs) {
  const std::pair<testing::Sets, const char*> cases[] = {
      {{{"precision.params", "fp8"}}, "params = fp8 is not supported yet"},
      {{{"optimizer", "muon"}}, "optimizer = muon is not supported yet"},
      {{{"schema", "2"}}, "schema = 2 is not supported yet"},
      {{{"cluster.fabric.kind", "dragonfly"}}, "kind = dragonfly is not supported yet"},
  };
  for (const auto& [sets, message] : cases) {
    const Failure f = failure_with(sets);
    bool said = false;
    for (const Diagnostic& d : f.all)
      said = said ||
             (d.code == "E130" && d.message.find(message) != std::string::npos && !d.help.empty());
    EXPECT_TRUE(said) << sets[0].first << ": " << f.codes;
  }
}

TEST(Scenario, SectionsOfOtherCommandsAreAccepted) {
  const Scenario s = load_with({{"job", "{tokens: 15T}"},
                                {"sweep", "{axes: {parallel.tp: [1]}}"},
                                {"tags", "[a]"},
                                {"env", "{A: b}"}});
  EXPECT_THAT(s.warnings, ::testing::IsEmpty());
}

TEST(Scenario, UnknownKeysSuggestOurs) {
  const auto label = [](const std::string& path) {
    const Failure f = failure_with({{path, "1"}});
    return f.all.empty() ? "" : f.all[0].code + ' ' + f.all[0].label;
  };
  EXPECT_EQ(label("parallel.tpp"), "E102 did you mean 'tp'?");
  EXPECT_EQ(label("constraints"), "E102 did you mean 'search.constraints'?");
  EXPECT_EQ(label("paralel"), "E102 did you mean 'parallel'?");
  EXPECT_EQ(label("tp"), "E102 did you mean 'parallel.tp'?");
  EXPECT_EQ(label("tensor_model_parallel_size"), "E102 did you mean 'parallel.tp'?");
  EXPECT_EQ(label("parallel.tensor_model_parallel_size"), "E102 did you mean 'tp'?");
  EXPECT_EQ(label("parallel.xyzzy"), "E102 ");
  EXPECT_EQ(label("*"), "E102 ");
  EXPECT_THAT(failure_with({{"parallel.xyzzy", "1"}}).all[0].help, HasSubstr("tp, cp, ep"));
}

TEST(Layout, GpusAreTheProductOfTheSizes) {
  EXPECT_THAT(failure_with({{"parallel.dp", "3"}}).lines,
              ElementsAre("E201 1:1 tp*cp*pp*dp = 12, but the cluster has 16 GPUs"));
  EXPECT_EQ(failure_with({{"parallel.dp", "3"}}).all[0].help, "dp = 4 fits, or leave dp out");
  EXPECT_EQ(failure_with({{"parallel.pp", "32"}}).codes, "E201");
  EXPECT_EQ(failure_with({{"parallel.pp", "1000000000"}, {"parallel.cp", "1000000000"}}).codes,
            "E204 E202 E201");
  EXPECT_EQ(failure_with({{"parallel.tp", "1000000001"}}).codes, "E123");
}

TEST(Layout, WhatFollowsFromASizeThatIsWrongIsNotReported) {
  const std::string experts =
      "model: mixtral-8x7b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2, ep: 4}\n"
      "batch: {global: 256, micro: 1, seq: 8192}\n";
  EXPECT_THAT(failure(experts, {{"parallel.tp", "4x"}}).lines,
              ElementsAre("E107 1:1 'tp' must be a plain number, not '4x'"));
  EXPECT_THAT(failure(experts, {{"parallel.cp", "3"}, {"batch.seq", "6144"}}).lines,
              ElementsAre(HasSubstr("E201 1:1 16 GPUs are not a multiple of tp*pp*cp = 12")));
  EXPECT_THAT(failure(experts, {{"parallel.pp", "4"}, {"parallel.ep", "8"}}).lines,
              ElementsAre(HasSubstr("ep*etp = 8*1 does not divide tp*cp*dp = 4")));
}

TEST(Batch, WhatIsSetIsWhatDoesNotDivide) {
  const Failure micro = failure_with({{"batch.micro", "3"}});
  EXPECT_THAT(micro.lines,
              ElementsAre("E203 1:1 batch.global = 256 is not a multiple of micro*dp = 12"));
  EXPECT_EQ(micro.all[0].file, "--set batch.micro");
  EXPECT_EQ(failure_with({{"batch.micro", "2"}, {"batch.global", "251"}}).all.at(0).file,
            "--set batch.global");
  EXPECT_EQ(
      failure("model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 256, micro: 3, seq: "
              "8192}\n")
          .lines,
      std::vector<std::string>{"E203 3:17 batch.global = 256 is not a multiple of micro*dp = 48"});
}

TEST(Layout, TpDividesTheModel) {
  EXPECT_THAT(failure_with({{"parallel.tp", "16"}}).lines,
              ElementsAre(HasSubstr("E201 1:1 ")));  // at the --set, not further down in the file
  // 16 ranks share 8 key-value heads two by two.
  EXPECT_EQ(load_with({{"parallel.tp", "16"}, {"parallel.pp", "1"}}).plan.tp, 16);
  EXPECT_THAT(load_with({{"parallel.tp", "16"}, {"parallel.pp", "1"}}).warnings,
              ElementsAre(HasSubstr("tp = 16 spans 2 nodes")));
  const Failure f = failure_with({{"model.intermediate_size", "14337"}});
  EXPECT_THAT(f.lines, ElementsAre("E210 3:16 tp = 2 does not divide intermediate_size = 14337"));
  EXPECT_THAT(f.all[0].help, HasSubstr("tp can be 1 here"));
}

TEST(Layout, LayersDivideOverTheStages) {
  const Failure f = failure_with({{"parallel.vpp", "3"}});
  EXPECT_EQ(f.all[0].message, "32 layers are not a multiple of pp*vpp = 2*3");
  EXPECT_THAT(f.all[0].help, HasSubstr("with pp = 2, vpp can be 1, 2, 4, 8 or 16"));
  EXPECT_EQ(failure_with({{"model.num_hidden_layers", "31"}}).all[0].message,
            "31 layers are not a multiple of pp = 2");
  const Scenario s = load_with({{"parallel.vpp", "4"}});
  EXPECT_EQ(s.plan.stages.size(), 8u);
  EXPECT_EQ(s.schedule.name, "interleaved-1f1b");
  EXPECT_EQ(s.schedule_title, "interleaved 1F1B");
  EXPECT_THAT(setting(s, "schedule.kind"), HasSubstr("default: vpp = 4"));
}

TEST(Layout, AWrittenLayoutStatesTheStages) {
  const Scenario s = load_with({{"parallel.layout", "\"Et*15|t*17L\""}});
  EXPECT_EQ(s.plan.stages[0], (StageContent{15, true, false}));
  EXPECT_EQ(s.plan.stages[1], (StageContent{17, false, true}));
  EXPECT_EQ(setting(s, "parallel.vpp"), "1 (derived: 2 stages of the layout / pp = 2)");
  EXPECT_EQ(load_with({{"parallel.layout", "\"Et*8|t*8|t*8|t*8L\""}}).plan.vpp, 2);

  const auto message = [](const std::string& layout, const testing::Sets& more = {}) {
    testing::Sets sets{{"parallel.layout", '"' + layout + '"'}};
    sets.insert(sets.end(), more.begin(), more.end());
    const Failure f = failure_with(sets);
    return f.codes == "E202" ? f.all[0].message : "codes: " + f.codes;
  };
  EXPECT_EQ(message("Et*15|t*16L"), "the layout holds 31 layers, the model has 32");
  EXPECT_EQ(message("Et*15|t*16|tL"), "the layout's 3 stages are not a multiple of pp = 2");
  EXPECT_EQ(message("Et*8|t*8|t*8|t*8L", {{"parallel.vpp", "3"}}),
            "the layout's 4 stages make vpp = 2, not 3");
  EXPECT_EQ(message("Et*16|t*16L", {{"schedule", "zb-v"}}),
            "the layout has 2 stages, zb-v needs 4 (pp * 2): write a layout of 4 stages, or use "
            "parallel.split: products instead");
  EXPECT_EQ(message("Et*16|t*16L", {{"schedule", "zb-v"}, {"parallel.vpp", "2"}}),
            message("Et*16|t*16L", {{"schedule", "zb-v"}}));
  // Two replicas of a model of pp stages, each of which two ranks hold.
  for (const std::string name : {"dualpipe", "chimera"}) {
    EXPECT_EQ(
        message("Et*8|t*8|t*8|t*8L", {{"schedule", name}}),
        "the layout has 4 stages, " + name + " runs two replicas of a model of pp = 2 stages");
    EXPECT_EQ(
        load_with({{"parallel.layout", "\"Et*16|t*16L\""}, {"schedule", name}}).plan.stages.size(),
        2u);
  }
  EXPECT_THAT(message("t*32"), HasSubstr("embedding"));
  EXPECT_THAT(message("E|(t|)*999999999L"), HasSubstr("more than"));
}

TEST(Limits, OfSchedulesAreStated) {
  const auto refused = [](const testing::Sets& sets) {
    const Failure f = failure_with(sets);
    return f.codes + ' ' + f.all[0].message + "; " + f.all[0].help;
  };
  EXPECT_EQ(refused({{"model.num_hidden_layers", "40000"}}),
            "E123 a stage of 20000 layers: at most 10000 are possible; more pipeline stages "
            "(parallel.pp, parallel.vpp) have fewer layers each");
  EXPECT_EQ(load_with({{"model.num_hidden_layers", "2000"}}).plan.stages[0].layers, 1000);
  EXPECT_EQ(
      refused({{"batch.global", "4000000"}}),
      "E123 a schedule of 2 stages and 1000000 microbatches is too large; at most 65536 stages, "
      "and 500000 microbatches in 2 of them");
  EXPECT_THAT(refused({{"schedule", "{kind: auto, params: {effort: 1000000000}}"}}),
              HasSubstr("effort = 1000000000 must be a whole number from 1 to 10000000"));
}

// What the message about layers that do not divide shows can be pasted.
TEST(Layout, TheSplitThatIsSuggestedRuns) {
  for (const char* layers : {"94", "9", "15", "8"}) {
    for (const char* pp : {"2", "4", "8"}) {
      testing::Sets sets{{"model.num_hidden_layers", layers},
                         {"parallel", std::string("{pp: ") + pp + "}"},
                         {"schedule", "1f1b"}};
      if (std::stoi(layers) % std::stoi(pp) == 0) continue;
      const std::string help = failure_with(sets).all[0].help;
      EXPECT_THAT(help, HasSubstr("parallel.split: products"));
      const size_t begin = help.find('\'') + 1;
      sets.emplace_back("parallel.layout",
                        '"' + help.substr(begin, help.rfind('\'') - begin) + '"');
      const std::vector<StageContent> stages = load_with(sets).plan.stages;
      EXPECT_EQ(stages.size(), std::stoul(pp));
      for (const StageContent& s : stages) {
        EXPECT_GE(s.layers, stages.back().layers);
        EXPECT_LE(s.layers, stages.back().layers + 1);
      }
    }
  }
}

TEST(Layout, RankOrder) {
  EXPECT_EQ(load_with({{"parallel.order", "tp-cp-ep-pp-dp"}}).plan.grid.order[3], Axis::dp);
  EXPECT_EQ(failure_with({{"parallel.order", "tp-tp-dp-pp"}}).codes, "E125");
}

TEST(Layout, SequenceParallelism) {
  EXPECT_FALSE(load_with({{"parallel.sp", "false"}}).plan.sp);
  EXPECT_FALSE(load_with({{"parallel.tp", "1"}}).plan.sp);
  const Scenario s = load_with({{"parallel.tp", "1"}, {"parallel.sp", "true"}});
  EXPECT_FALSE(s.plan.sp);
  EXPECT_THAT(s.warnings, ElementsAre("sp has no effect with tp = 1"));
  EXPECT_EQ(failure_with({{"batch.seq", "8191"}}).codes, "E204");
  EXPECT_EQ(load_with({{"batch.seq", "8191"}, {"parallel.sp", "false"}}).plan.seq, 8191);
}

// With sequence parallelism a rank has a part of each tensor anyway.
TEST(Layout, SentPartsThatNobodyGathersAreRemarkedOn) {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  const auto warnings = [](Settings set) {
    set.emplace_back("schedule.scatter_gather", "true");
    return load_with(set).warnings;
  };
  EXPECT_THAT(warnings({{"parallel.sp", "false"}}), ::testing::IsEmpty());
  EXPECT_THAT(warnings({{"parallel.sp", "true"}}),
              ElementsAre("schedule.scatter_gather has no effect with sp: what is sent is a part "
                          "already"));
  EXPECT_THAT(warnings({{"parallel.tp", "1"}}),
              ElementsAre("schedule.scatter_gather has no effect with tp = 1"));
  EXPECT_THAT(warnings({{"parallel.pp", "1"}, {"parallel.sp", "false"}}),
              ElementsAre("schedule.scatter_gather has no effect with pp = 1"));
  // The year of the software says it of all layouts.
  EXPECT_THAT(load_with({{"software", "megatron-lm-2022"}, {"parallel.sp", "true"}}).warnings,
              ::testing::Not(::testing::Contains(HasSubstr("scatter_gather"))));
}

TEST(Batch, GlobalBatchIsNeverRounded) {
  const Failure f = failure_with({{"batch.global", "250"}});
  EXPECT_THAT(f.lines,
              ElementsAre("E203 1:1 batch.global = 250 is not a multiple of micro*dp = 4"));
  EXPECT_EQ(f.all[0].help, "the nearest are 248 and 252");
  EXPECT_EQ(failure_with({{"batch.global", "2"}}).all[0].help, "the smallest is 4");
  EXPECT_EQ(load_with({{"batch.global", "1K"}, {"batch.micro", "2"}}).plan.microbatches(), 125);
}

TEST(Batch, SizesAreBounded) {
  EXPECT_EQ(failure_with({{"batch.global", "2B"}}).codes, "E123");
  EXPECT_EQ(failure_with({{"batch.seq", "4000000000"}}).codes, "E123");
  EXPECT_EQ(failure_with({{"batch.global", "400M"}}).codes,
            "E123");  // 10^8 microbatches on 2 stages
}

TEST(Batch, LearnedPositionsBoundTheSequence) {
  const std::string gpt = "model: gpt3-13b\ncluster: dgx-a100-80g\nbatch: {global: 8, seq: 2048}\n";
  EXPECT_EQ(testing::load(gpt).plan.seq, 2048);
  EXPECT_EQ(failure(gpt, {{"batch.seq", "2049"}}).codes, "E211");
  EXPECT_EQ(load_with({{"batch.seq", "131072"}}).plan.seq, 131'072);  // rotary: nothing runs out
}

TEST(Precision, PresetsAndOverrides) {
  const Precision fp16 = load_with({{"precision", "fp16-mixed"}}).plan.precision;
  EXPECT_EQ(fp16.params, DType::fp16);
  EXPECT_EQ(fp16.gradients, DType::fp16);
  EXPECT_EQ(fp16.reduce, DType::fp16);
  EXPECT_TRUE(fp16.master);
  const Precision fp32 = load_with({{"precision", "fp32"}}).plan.precision;
  EXPECT_EQ(fp32.params, DType::fp32);
  EXPECT_FALSE(fp32.master);
  const Precision own =
      load_with({{"precision", "{preset: bf16-mixed, reduce: bf16, moments: bf16}"}})
          .plan.precision;
  EXPECT_EQ(own.gradients, DType::fp32);
  EXPECT_EQ(own.reduce, DType::bf16);
  EXPECT_EQ(own.moments, DType::bf16);
}

TEST(Precision, TheGpuMustHaveIt) {
  const std::string v100 = "model: gpt2\ncluster: dgx-1-v100\nbatch: {global: 8, seq: 1024}\n";
  const Failure f = failure(v100);
  EXPECT_EQ(f.codes, "E230");
  EXPECT_EQ(f.all[0].message, "v100-sxm2-32g has no bf16 rate");
  // A rate that is wrong does not make another GPU of it.
  const Failure wrong = failure_with({{"cluster.node.gpu.peak.bf16", "-1TFLOP/s"}});
  EXPECT_EQ(wrong.codes, "E230 E122");
  EXPECT_EQ(wrong.all[0].message, "h100-sxm has no bf16 rate");
  EXPECT_EQ(testing::load(v100, {{"precision", "fp16-mixed"}}).plan.precision.params, DType::fp16);
}

TEST(Recompute, FormsAndLimits) {
  const Plan block =
      load_with({{"recompute", "{granularity: full, method: block, layers: 7}"}}).plan;
  EXPECT_EQ(block.recompute, Recompute::full);
  EXPECT_EQ(block.recompute_method, RecomputeMethod::block);
  EXPECT_EQ(block.recompute_layers, 7);
  EXPECT_EQ(load_with({{"recompute", "selective"}}).plan.recompute, Recompute::selective);
  EXPECT_EQ(failure_with({{"recompute", "{granularity: full, layers: 17}"}}).codes, "E127");
  EXPECT_EQ(failure_with({{"recompute.layers", "0"}}).codes, "E121");
}

TEST(Kernels, DropoutIsForBothOrEach) {
  const Scenario both = load_with({{"kernels", "{attention: unfused, dropout: 0.1}"}});
  EXPECT_FALSE(both.plan.kernels.flash_attention);
  EXPECT_EQ(both.model.attention_dropout, 0.1);
  EXPECT_EQ(both.model.hidden_dropout, 0.1);
  const Scenario one = load_with({{"kernels.dropout", "{hidden: 10%}"}});
  EXPECT_EQ(one.model.attention_dropout, 0);
  EXPECT_EQ(one.model.hidden_dropout, 0.1);
  EXPECT_EQ(failure_with({{"kernels.dropout", "2"}}).codes.substr(0, 4), "E123");
}

TEST(Measured, FiguresAndVariants) {
  const Scenario s = load_example("gpt3-175b-64xa100.yaml");
  ASSERT_EQ(s.measured.size(), 2u);
  EXPECT_EQ(s.measured[0].step_time_s, 13.75);
  EXPECT_EQ(s.measured[0].tolerance, 0.1);
  EXPECT_THAT(s.measured[0].source, HasSubstr("Korthikanti"));
  EXPECT_EQ(s.measured[1].variant, "full-recompute");
  EXPECT_EQ(s.measured[1].step_time_s, 18.13);
  EXPECT_THAT(s.measured[1].set,
              ElementsAre(std::pair("recompute", "full"), std::pair("parallel.sp", "false")));
  EXPECT_EQ(s.measured[1].source, s.measured[0].source);
  EXPECT_EQ(failure_with({{"measured", "{step_time: 5}"}}).codes, "E120");
  EXPECT_EQ(failure_with({{"measured", "{variants: {a: {set: {paralel.tp: 1}}}}"}}).codes, "E102");
  EXPECT_EQ(failure_with({{"measured", "{variants: {a: {stp: 1}}}"}}).codes, "E102");
  EXPECT_EQ(failure_with({{"measured", "{variants: 5}"}}).codes, "E107");
}

TEST(Compare, CasesAreSetsOfPaths) {
  const Scenario s = load_example("compare-schedules.yaml");
  EXPECT_EQ(s.compare_baseline, "1f1b");
  ASSERT_EQ(s.compare.size(), 10u);
  EXPECT_EQ(s.compare[0].name, "1f1b");
  EXPECT_THAT(s.compare[0].set,
              ElementsAre(std::pair("schedule", "1f1b"), std::pair("parallel.vpp", "1")));
  for (const CompareCase& c : s.compare) {
    LoadOptions options;
    options.set = c.set;
    const Scenario one =
        load_scenario(STEPCAST_SOURCE_DIR "/scenarios/examples/compare-schedules.yaml", options);
    EXPECT_EQ(one.plan.dp, 4);
    EXPECT_TRUE(c.name.starts_with(one.schedule.name.substr(0, 4))) << c.name;
  }
  EXPECT_TRUE(s.measured.empty());
  EXPECT_EQ(failure_with({{"compare", "{baseline: x, cases: {a: {parallel.tp: 1}}}"}}).codes,
            "E125");
  EXPECT_EQ(failure_with({{"compare", "{cases: {a: {tpp: 1}}}"}}).codes, "E102");
  EXPECT_EQ(failure_with({{"compare", "{baseline: a}"}}).codes, "E126");
  EXPECT_EQ(failure_with({{"compare", "{cases: [a]}"}}).codes, "E107");
  EXPECT_EQ(load_with({{"compare", "{cases: {a: {parallel.tp: 1}, b: {}}}"}}).compare_baseline,
            "a");
}

TEST(Examples, AreLegalAndSayWhatTheyAre) {
  const Scenario llama = load_example("llama3-405b-16384xh100.yaml");
  EXPECT_EQ(llama.plan.grid.world(), 16'384);
  EXPECT_EQ(llama.plan.vpp, 8);
  EXPECT_EQ(llama.plan.microbatches(), 16);
  EXPECT_EQ(llama.plan.zero, 2);
  EXPECT_EQ(llama.cluster.fabric.tiers.size(), 3u);
  EXPECT_EQ(llama.cluster.fabric.tiers[2].oversubscription, 7);
  const Scenario gpt3 = load_example("gpt3-175b-64xa100.yaml");
  EXPECT_EQ(gpt3.model.vocab, 51'200);
  EXPECT_FALSE(gpt3.plan.kernels.flash_attention);
  EXPECT_EQ(gpt3.model.hidden_dropout, 0.1);
  EXPECT_EQ(gpt3.plan.vpp, 3);
  const Scenario gpt13 = load_example("gpt-13b-8xa100.yaml");
  EXPECT_EQ(gpt13.plan.dp, 2);
  EXPECT_GE(gpt13.plan.microbatches(), 4);
  EXPECT_EQ(gpt13.plan.zero, 1);
  EXPECT_EQ(load_example("00-minimal.yaml").plan.dp, 4);
  for (const char* name : {"00-minimal.yaml", "gpt3-175b-64xa100.yaml", "compare-schedules.yaml",
                           "llama3-405b-16384xh100.yaml", "gpt-13b-8xa100.yaml"})
    EXPECT_TRUE(load_example(name).warnings.empty()) << name;
}

// A file that was cut or damaged on the way loads or is refused, and nothing else.
TEST(Examples, EveryPrefixLoadsOrIsRefused) {
  int loaded = 0, refused = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      load_scenario_text(text, "cut.yaml");
      ++loaded;
    } catch (const InputError& e) {
      EXPECT_FALSE(e.diagnostics.empty());
      ++refused;
    }
  };
  const std::string minimal = example("00-minimal.yaml"), gpt3 = example("gpt3-175b-64xa100.yaml");
  for (size_t n = 0; n <= minimal.size(); ++n) attempt(minimal.substr(0, n));
  for (size_t n = 0; n <= gpt3.size(); n += 7) attempt(gpt3.substr(0, n));
  EXPECT_GT(loaded, 10);
  EXPECT_GT(refused, 100);
}

// Words out of place: each key of an example takes each of these values.
TEST(Examples, OddValuesAreRefusedNotCrashedOn) {
  const char* odd[] = {
      "0",    "-1",   "1e18", ".nan", "[]",  "{}", "[[1]]",  "x",
      "\"\"", "5GiB", "null", "true", "1us", "7%", "{a: b}", "99999999999999999999"};
  for (const Setting& s : load_example("gpt3-175b-64xa100.yaml").settings)
    for (const char* value : odd) {
      try {
        load_with({{s.path, value}});
      } catch (const InputError&) {
        SUCCEED();
      }
    }
}

TEST(Scenario, TransfersWaitAsTheFrameworkOfTheScheduleDoes) {
  const Scenario plain = load_with({});
  EXPECT_EQ(setting(plain, "overlap.pp_p2p"),
            "false (default: Megatron waits for every exchange with its neighbours)");
  EXPECT_EQ(setting(plain, "schedule.p2p"),
            "megatron (default: Megatron waits for every exchange with its neighbours)");
  const auto style = [](const testing::Sets& sets) { return load_with(sets).p2p; };
  EXPECT_EQ(style({{"overlap.pp_p2p", "true"}}), P2pStyle::async);
  EXPECT_EQ(style({{"parallel.vpp", "2"}}), P2pStyle::megatron_overlap);
  EXPECT_EQ(style({{"schedule", "zb-h1"}}), P2pStyle::async);
  EXPECT_EQ(style({{"schedule", "zb-h1"}, {"overlap.pp_p2p", "false"}}), P2pStyle::megatron);
  EXPECT_EQ(style({{"schedule", "dualpipev"}}), P2pStyle::dualpipe);
  EXPECT_EQ(style({{"schedule", "{kind: 1f1b, p2p: deepspeed}"}}), P2pStyle::deepspeed);
  EXPECT_EQ(setting(load_with({{"schedule", "{kind: 1f1b, p2p: deepspeed}"}}), "overlap.pp_p2p"),
            "false (derived: schedule.p2p)");
}

// overlap_p2p_comm and overlap_p2p_comm_warmup_flush are arguments of Megatron-LM.
TEST(Scenario, MegatronsSwitchesChooseItsTransfers) {
  const auto loaded = [](const std::string& params) {
    return load_with({{"parallel.pp", "4"},
                      {"parallel.vpp", "2"},
                      {"schedule", "{kind: interleaved, params: {" + params + "}}"}});
  };
  EXPECT_EQ(loaded("overlap_p2p_comm: true").p2p, P2pStyle::megatron_overlap);
  EXPECT_EQ(loaded("overlap_p2p_comm_warmup_flush: false").p2p, P2pStyle::megatron_overlap);
  EXPECT_EQ(loaded("overlap_p2p_comm: true, overlap_p2p_comm_warmup_flush: true").p2p,
            P2pStyle::megatron_overlap_flush);
  const Scenario blocking = loaded("overlap_p2p_comm: false");
  EXPECT_EQ(blocking.p2p, P2pStyle::megatron);
  EXPECT_EQ(setting(blocking, "schedule.p2p"), "megatron (derived: schedule.params)");
  EXPECT_EQ(setting(blocking, "overlap.pp_p2p"), "false (derived: schedule.params)");
}

TEST(Scenario, TransferStylesMustSuitTheScheduleAndEachOther) {
  EXPECT_EQ(failure_with({{"schedule", "{kind: zb-v, p2p: deepspeed}"}}).codes, "E127");
  EXPECT_EQ(failure_with({{"schedule", "{kind: 1f1b, p2p: nccl}"}}).codes, "E125");
  EXPECT_EQ(
      failure_with({{"schedule", "{kind: 1f1b, p2p: megatron}"}, {"overlap.pp_p2p", "true"}}).codes,
      "E127");
}

TEST(Scenario, SchedulesWithChunksOfTheirOwnBringThem) {
  const Scenario v = load_with({{"schedule", "zb-v"}});
  EXPECT_EQ(v.plan.vpp, 2);
  EXPECT_EQ(setting(v, "parallel.vpp"), "2 (derived: schedule zb-v runs 2 chunks on each rank)");
  EXPECT_EQ(v.schedule.rank_of_stage, (std::vector<uint16_t>{0, 1, 1, 0}));
  // Two replicas of two stages, whatever vpp says.
  for (const char* vpp : {"null", "2"}) {
    const Scenario two = load_with({{"schedule", "dualpipe"}, {"parallel.vpp", vpp}});
    EXPECT_TRUE(two.schedule.is_bidirectional());
    EXPECT_EQ(two.plan.stages.size(), 2u);
  }
  EXPECT_EQ(failure_with({{"schedule", "zb-v"}, {"parallel.vpp", "1"}}).codes, "E205");
  // Not the layout: none goes with two replicas on an odd number of ranks.
  EXPECT_EQ(
      failure_with({{"schedule", "chimera"}, {"parallel.pp", "1"}, {"parallel.layout", "E|t*32|L"}})
          .codes,
      "E205");
}

TEST(Scenario, FamiliesTakeTheirParameters) {
  const Scenario s = load_with({{"schedule", "{kind: seq1f1b, params: {seq_splits: 4}}"}});
  EXPECT_EQ(s.schedule.seq_splits, 4);
  EXPECT_EQ(setting(s, "schedule.params").substr(0, 15), "{seq_splits: 4}");
  EXPECT_NE(load_with({{"schedule", "{kind: seq1f1b, params: {seq_splits: 2}}"}}).hash, s.hash);
  EXPECT_EQ(load_with({{"schedule.kind", "seq1f1b"}, {"schedule.params.seq_splits", "4"}}).hash,
            s.hash);
  const Failure unknown = failure_with({{"schedule", "{kind: seq1f1b, params: {seq_split: 4}}"}});
  EXPECT_EQ(unknown.codes, "E102");
  EXPECT_EQ(unknown.all[0].label, "did you mean 'seq_splits'?");
  const Failure wrong = failure_with({{"schedule", "{kind: seq1f1b, params: {seq_splits: two}}"}});
  EXPECT_EQ(wrong.codes, "E205");
  EXPECT_EQ(wrong.all[0].column, 38);  // of the value
  EXPECT_EQ(failure_with({{"schedule", "{kind: seq1f1b, params: {seq_splits: 3}}"}}).codes,
            "E205");  // 8192 tokens
  EXPECT_EQ(failure_with({{"schedule", "{kind: 1f1b, params: 4}"}}).codes, "E107");
  EXPECT_EQ(failure_with({{"schedule", "{kind: 1f1b, params: {a: [1]}}"}}).codes, "E107");
}

TEST(Scenario, SchedulesThatDependOnPricesAreMadeLater) {
  const Scenario family = load_with({{"schedule", "zb-1p"}});
  ASSERT_TRUE(family.to_make.has_value());
  EXPECT_EQ(family.to_make->family, "zb-1p-auto");
  EXPECT_EQ(family.schedule.microbatches, 64);
  const Scenario own =
      load_with({{"schedule", "{kind: zb-1p, params: {tF: 10, tB_input: 12, tW: 7, tComm: 1}}"}});
  EXPECT_FALSE(own.to_make.has_value());

  const Scenario made =
      load_with({{"schedule", "{kind: auto, memory_limit: 20GiB, params: {effort: 50}}"}});
  ASSERT_TRUE(made.to_make.has_value());
  EXPECT_EQ(made.to_make->memory_limit.value, int64_t{20} << 30);
  EXPECT_EQ(made.to_make->effort, 50);
  EXPECT_FALSE(made.to_make->v_placement);
  const Scenario v = load_with({{"schedule", "auto"}, {"parallel.vpp", "2"}});
  EXPECT_TRUE(v.to_make->v_placement);
  EXPECT_EQ(v.schedule.rank_of_stage, (std::vector<uint16_t>{0, 1, 1, 0}));
  EXPECT_EQ(failure_with({{"schedule", "{kind: auto, params: {placement: w}}"}}).codes, "E205");
  EXPECT_EQ(failure_with({{"schedule", "{kind: auto, params: {placement: v}}"}}).codes, "E205");
  EXPECT_EQ(failure_with({{"schedule", "{kind: 1f1b, memory_limit: 1GiB}"}}).codes, "E127");
  EXPECT_EQ(failure_with({{"schedule", "outo"}}).all[0].label, "did you mean 'auto'?");
}

TEST(Scenario, WhatCannotBeCountedIsAMessage) {
  EXPECT_EQ(failure_with({{"batch", "{global: 1000000000, micro: 1000000000, seq: 1000000000}"},
                          {"parallel", "{tp: 8, pp: 2}"}})
                .codes,
            "E123");
}

TEST(Scenario, WhatIsMeasuredIsAboveZero) {
  for (const char* key : {"step_time: 0s", "tokens_per_gpu_s: 0", "peak_memory: 0B"}) {
    EXPECT_EQ(failure_with({{"measured", '{' + std::string(key) + '}'}}).codes, "E121") << key;
    const auto f = failure_with(
        {{"measured", "{step_time: 1s, variants: {a: {" + std::string(key) + ", set: {}}}}"}});
    EXPECT_EQ(f.codes, "E121") << key;
  }
  EXPECT_EQ(failure_with({{"measured", "{step_time: 1s, peak_memory: 1B}"}}).codes, "");
}

TEST(Scenario, RatesThatNobodyMeasuresAreRefused) {
  for (const char* rate : {"1e300", "1e-300"})
    EXPECT_EQ(failure_with({{"measured.tokens_per_gpu_s", rate}}).codes, "E121") << rate;
  EXPECT_EQ(failure_with({{"measured.tokens_per_gpu_s", "9843"}}).codes, "");
}

TEST(Scenario, RecomputedModulesThatTheModelLacksAreRemarkedOn) {
  const auto warnings = [](const char* modules) {
    return load_with(
               {{"recompute", "{granularity: selective, modules: " + std::string(modules) + "}"}})
        .warnings;
  };
  EXPECT_TRUE(warnings("[core_attn, mlp, layernorm]").empty());
  for (const char* word : {"mla_up_proj", "moe", "moe_act", "shared_experts"})
    EXPECT_THAT(warnings(("[core_attn, " + std::string(word) + ']').c_str()),
                ElementsAre(HasSubstr(std::string(word) + " has no effect")));
}

TEST(Scenario, OverlapThatCanDoNothingIsRemarkedOn) {
  const Scenario s = load_with({{"overlap.dp_param", "true"}});
  ASSERT_EQ(s.warnings.size(), 1u);
  EXPECT_THAT(s.warnings[0], HasSubstr("no effect without parallel.zero: 1"));
  EXPECT_TRUE(load_with({{"overlap.dp_param", "true"}, {"parallel.zero", "1"}}).warnings.empty());
}

}  // namespace
}  // namespace stepcast::scenario_test
