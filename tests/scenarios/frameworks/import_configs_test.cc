// SPDX-License-Identifier: Apache-2.0
// Configurations of other tools than Megatron: what each row of the tables becomes, and what is
// said about broken ones.
#include "scenarios/document/files.h"
#include "scenarios/frameworks/importers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>

#include "scenarios/resolve/model_families.h"
#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::import_configs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::import_failure;
using testing::import_sample;
using testing::imported;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::notes;
using testing::request;
using testing::unknown;
using testing::value_of;

// --- gpt-neox ---

std::string neox(const std::string& keys) {
  return "{\"num_layers\": 4, \"hidden_size\": 768, \"num_attention_heads\": 12, \"seq_length\": "
         "2048,\n"
         "\"pipe_parallel_size\": 1, " +
         keys + "}\n";
}

TEST(ImportNeox, LayersThatAreNotAttentionAreNamed) {
  const auto refusal = [](const std::string& keys) {
    return import_failure("auto", neox(keys)).all.at(0).message;
  };
  EXPECT_THAT(refusal("attention_config: [[[\"mamba\"], 4]]"), HasSubstr("the first Mamba"));
  EXPECT_THAT(refusal("attention_config: [[[\"rwkv\"], 4]]"), HasSubstr("RWKV"));
  EXPECT_THAT(refusal("attention_config: [[[\"global\", \"local\"], \"all\"]]"),
              HasSubstr("attention to blocks of keys"));
  EXPECT_THAT(refusal("attention_config: [[[\"glibal\"], 4]]"), HasSubstr("glibal"));
  EXPECT_THAT(refusal("train_impl: dpo"), HasSubstr("preferences"));
  EXPECT_THAT(refusal("moe_num_experts: 8, moe_expert_interval: 2"), HasSubstr("must be 1"));
  EXPECT_THAT(refusal("norm: scalenorm"), HasSubstr("'norm' must be layernorm"));
  EXPECT_THAT(refusal("pos_emb: spiral"), HasSubstr("pos_emb"));
}

TEST(ImportNeox, ItsDefaultsAreThoseOfItsCode) {
  const ImportedRun run = imported("auto", neox(""));
  EXPECT_EQ(value_of(run, "model.intermediate_size"), "3072");
  EXPECT_EQ(value_of(run, "model.tie_word_embeddings"), "true");
  EXPECT_EQ(value_of(run, "model.position_embedding_type"), "learned");
  EXPECT_EQ(value_of(run, "model.max_position_embeddings"), "2048");
  EXPECT_EQ(value_of(run, "model.vocab_size"), "50257");
  EXPECT_EQ(value_of(run, "precision.preset"), "fp32");
  EXPECT_EQ(value_of(run, "recompute.granularity"), "");
  EXPECT_EQ(value_of(run, "optimizer.clip"), "true");
  EXPECT_THAT(notes(run), HasSubstr("8 GPUs are assumed"));
  EXPECT_THAT(unknown(run), IsEmpty());
}

TEST(ImportNeox, GatedMlpsHaveTwoThirdsOfTheWidthAndTheOlderKindAllOfIt) {
  const ImportedRun now = imported("auto", neox("activation: swiglu, intermediate_size: 3000"));
  EXPECT_EQ(value_of(now, "model.intermediate_size"), "1000");
  EXPECT_EQ(value_of(now, "model.gated_mlp"), "true");
  EXPECT_EQ(value_of(now, "model.mlp_bias"), "true");
  const ImportedRun older =
      imported("auto", neox("activation: silu, mlp_type: llama, intermediate_size: 3000"));
  EXPECT_EQ(value_of(older, "model.intermediate_size"), "3000");
  EXPECT_EQ(value_of(older, "model.mlp_bias"), "false");
  const ImportedRun usual = imported("auto", neox("activation: silu, mlp_type: llama"));
  EXPECT_EQ(value_of(usual, "model.intermediate_size"), "2048");
}

// ParallelGroupedMLP, whatever the activation is.
TEST(ImportNeox, ExpertsHaveNoGatesAndAWidthOfTheirOwn) {
  const auto of = [](const std::string& more) {
    return imported("auto", neox("moe_num_experts: 8, activation: swiglu, "
                                 "mlp_multiple_of: 7, " +
                                 more));
  };
  const ImportedRun usual = of("moe_top_k: 2");
  EXPECT_EQ(value_of(usual, "model.gated_mlp"), "false");
  EXPECT_EQ(value_of(usual, "model.moe_intermediate_size"), "3072");
  EXPECT_EQ(value_of(usual, "model.mlp_bias"), "false");
  EXPECT_EQ(value_of(of("intermediate_size: 3000"), "model.moe_intermediate_size"), "3000");
  EXPECT_EQ(value_of(of("mlp_type: llama"), "model.gated_mlp"), "true");
  EXPECT_EQ(value_of(of("mlp_type: llama"), "model.moe_intermediate_size"), "2048");
}

TEST(ImportNeox, ExpertsOverTensorParallelRanksNeedASplitSequence) {
  const std::string experts = neox("moe_num_experts: 8, model_parallel_size: 2");
  const testing::Failure f = import_failure("auto", experts);
  EXPECT_EQ(f.codes, "E130");
  EXPECT_THAT(f.all.at(0).help, HasSubstr("-s parallel.sp=true"));
  ImportRequest r = request("auto", experts);
  r.set = {{"parallel.sp", "true"}};
  EXPECT_TRUE(testing::load(import_run(r).scenario).plan.sp);
  EXPECT_EQ(value_of(imported("auto", neox("model_parallel_size: 2")), "parallel.sp"), "false");
}

TEST(ImportNeox, PartsThatAreNotModelledAreNoImpossibleOnes) {
  for (const std::string other : {"glu", "bilinear", "mish", "softsign"})
    EXPECT_EQ(import_failure("auto", neox("activation: " + other)).codes, "E130") << other;
  EXPECT_EQ(import_failure("auto", neox("activation: other")).codes, "E331");
  EXPECT_EQ(value_of(imported("auto", neox("activation: geglu")), "model.hidden_act"), "gelu");
  const ImportedRun plain = imported("auto", neox("use_bias_in_norms: false"));
  EXPECT_EQ(value_of(plain, "model.norm_bias"), "");
  EXPECT_THAT(unknown(plain), IsEmpty());
  EXPECT_EQ(
      value_of(imported("auto", neox("tokenizer_type: CharLevelTokenizer")), "model.vocab_size"),
      "512");
}

// It stands in another file mostly.
TEST(ImportNeox, ATokenizerThatTheFileDoesNotNameIsAssumed) {
  const ImportedRun none = imported("auto", neox("train_iters: 10"));
  EXPECT_EQ(value_of(none, "model.vocab_size"), "50257");
  EXPECT_THAT(notes(none), HasSubstr("model.vocab_size: 50257 is assumed"));
  const ImportedRun named = imported("auto", neox("tokenizer_type: GPT2BPETokenizer"));
  EXPECT_EQ(value_of(named, "model.vocab_size"), "50257");
  EXPECT_THAT(notes(named), Not(HasSubstr("model.vocab_size")));
}

// calculate_batch_parameters()
TEST(ImportNeox, WhatTheBatchDoesNotSayFollowsFromTheRest) {
  const auto of = [](const std::string& batch) {
    const ImportedRun run = imported("auto", neox("global_num_gpus: 8, " + batch));
    return value_of(run, "batch.global") + " of " + value_of(run, "batch.micro");
  };
  const std::string global = "train_batch_size: 64", micro = "train_micro_batch_size_per_gpu: 2",
                    steps = "gradient_accumulation_steps: 4";
  EXPECT_EQ(of(global + ", " + micro + ", " + steps), "64 of 2");
  EXPECT_EQ(of(global + ", " + micro), "64 of 2");
  EXPECT_EQ(of(global + ", " + steps), "64 of 2");
  EXPECT_EQ(of(micro + ", " + steps), "64 of 2");
  EXPECT_EQ(of(global), "64 of 8");
  EXPECT_EQ(of(micro), "16 of 2");
  const auto refused = [](const std::string& keys) {
    return import_failure("auto", neox(keys)).codes;
  };
  EXPECT_EQ(refused("global_num_gpus: 12, model_parallel_size: 8"), "E332");
  EXPECT_EQ(refused("global_num_gpus: 8, train_batch_size: 4"), "E332");
  EXPECT_EQ(refused("global_num_gpus: 8, train_batch_size: 65, " + micro), "E332");
}

// As the files of Pythia have it.
TEST(ImportNeox, AccumulationHasAShortName) {
  const ImportedRun run =
      imported("auto", neox("global_num_gpus: 8, train_micro_batch_size_per_gpu: 2, \"gas\": 4"));
  EXPECT_EQ(value_of(run, "batch.global"), "64");
  EXPECT_EQ(unknown(run), "");
}

TEST(ImportNeox, TheBatchSaysHowManyReplicasThereAre) {
  const ImportedRun run =
      imported("auto", neox("model_parallel_size: 2, train_batch_size: 64, "
                            "train_micro_batch_size_per_gpu: 4, gradient_accumulation_steps: 2"));
  EXPECT_EQ(run.gpus, 16);
  EXPECT_EQ(value_of(run, "batch.global"), "64");
  EXPECT_EQ(imported("auto", neox("global_num_gpus: 24")).gpus, 24);
  EXPECT_EQ(import_failure("auto", neox("global_num_gpus: 99999999999")).codes, "E331");
  const ImportedRun launched = imported("auto", neox("num_nodes: 4, num_gpus: 8"));
  EXPECT_EQ(launched.gpus, 32);
  EXPECT_THAT(notes(launched), Not(HasSubstr("GPUs are assumed")));
  EXPECT_EQ(imported("auto", neox("num_nodes: 4, num_gpus: 8, global_num_gpus: 16")).gpus, 16);
  EXPECT_THAT(notes(imported("auto", neox("num_nodes: -1, num_gpus: 8"))),
              HasSubstr("8 GPUs are assumed"));
  EXPECT_EQ(
      import_failure("auto", neox("model_parallel_size: 10000000, train_micro_batch_size_per_gpu: "
                                  "4, gradient_accumulation_steps: 9999999"))
          .codes,
      "E332");
}

TEST(ImportNeox, WidthsThatCannotBeAreRefusedWithTheirPlace) {
  EXPECT_EQ(import_failure("gpt-neox", neox("intermediate_size: 99999999999")).codes, "E331");
  EXPECT_EQ(import_failure("gpt-neox", neox("expansion_factor: -1")).codes, "E331");
  EXPECT_EQ(import_failure("gpt-neox", neox("mlp_multiple_of: 0")).codes, "E331");
  EXPECT_EQ(import_failure("gpt-neox", "{save: x}").codes, "E330");
  EXPECT_EQ(import_failure("gpt-neox", "[1, 2]").codes, "E330");
}

TEST(ImportNeox, GradientsAreReducedAfterTheLastBackwardOfAPipeline) {
  const std::string overlaps =
      "\"zero_optimization\": {\"stage\": 1, \"overlap_comm\": true}, \"wall_clock_breakdown\": "
      "true";
  const ImportedRun run = imported("gpt-neox", neox(overlaps));  // one stage is a pipeline, too
  EXPECT_EQ(value_of(run, "software"), "gpt-neox");
  EXPECT_EQ(value_of(run, "overlap.dp_grad"), "false");
  EXPECT_EQ(value_of(run, "parallel.zero_exchange"), "");
  EXPECT_EQ(value_of(run, "kernels.host_waits"), "passes");
  const ImportedRun plain =
      imported("gpt-neox",
               "{\"num_layers\": 4, \"hidden_size\": 768, \"num_attention_heads\": 12, "
               "\"seq_length\": 2048, " +
                   overlaps + "}");
  EXPECT_EQ(value_of(plain, "overlap.dp_grad"), "true");
  EXPECT_EQ(value_of(plain, "parallel.zero_exchange"), "scatter");
}

TEST(ImportNeox, WhatOnlyLaterVersionsReadTellsThem) {
  const auto kernel = [](const std::string& keys) {
    return value_of(imported("gpt-neox", neox(keys)), "kernels.flash_kernel");
  };
  const std::string flash = "\"attention_config\": [[[\"flash\"], 4]]";
  EXPECT_EQ(kernel(flash), "");
  EXPECT_EQ(kernel(flash + ", \"rope_fusion\": false"), "");
  EXPECT_EQ(kernel(flash + ", \"layernorm_fusion\": False, \"moe_num_experts\": 1"), "");
  EXPECT_EQ(kernel(flash + ", \"mlp_multiple_of\": 1, \"sliding_window_width\": null"), "");
  EXPECT_EQ(kernel(flash + ", \"moe_num_experts\": 8"), "flash-2");
  EXPECT_EQ(kernel(flash + ", \"rope_fusion\": true"), "flash-2");
  EXPECT_EQ(kernel(flash + ", \"num_kv_heads\": 4"), "flash-2");
}

// --- nemo ---

std::string nemo(const std::string& model) {
  return "name: some_gpt\ntrainer: {num_nodes: 2, devices: 8, precision: bf16}\nmodel:\n"
         "  micro_batch_size: 1\n  global_batch_size: 32\n  encoder_seq_length: 2048\n"
         "  num_layers: 4\n  hidden_size: 512\n  num_attention_heads: 8\n" +
         model;
}

TEST(ImportNemo, InterpolationsAreCalculated) {
  const ImportedRun run =
      imported("nemo", nemo("  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n"
                            "  max_position_embeddings: ${training.model.encoder_seq_length}\n"
                            "  tensor_model_parallel_size: ${oc.env:TP,2}\n"
                            "  data: {seq_length: \"${..encoder_seq_length}\"}\n"));
  EXPECT_EQ(value_of(run, "model.intermediate_size"), "2048");
  EXPECT_EQ(value_of(run, "model.max_position_embeddings"), "2048");
  EXPECT_EQ(value_of(run, "parallel.tp"), "2");
  EXPECT_EQ(value_of(run, "cluster.nodes"), "2");
}

TEST(ImportNemo, OneNodeIsAssumedWhereTheFileDoesNotSayHowMany) {
  std::string text = nemo("");
  const auto at = text.find("num_nodes: 2, ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(notes(imported("nemo", text)).find("assumed: the file does not say trainer.num_nodes"),
            std::string::npos);
  text.erase(at, std::string("num_nodes: 2, ").size());
  const ImportedRun run = imported("nemo", text);
  EXPECT_EQ(value_of(run, "cluster.nodes"), "1");
  EXPECT_THAT(notes(run), HasSubstr("cluster.nodes: 1 is assumed: the file does not say "
                                    "trainer.num_nodes; -s cluster.nodes=N"));
  ImportRequest stated = request("nemo", text);
  stated.set.emplace_back("cluster.nodes", "4");
  EXPECT_THAT(notes(import_run(stated)), Not(HasSubstr("trainer.num_nodes")));
  // Where one node is too small, what is assumed is said once.
  const ImportedRun larger = imported("nemo", text + "  context_parallel_size: 16\n");
  EXPECT_THAT(notes(larger), Not(HasSubstr("trainer.num_nodes; -s")));
}

TEST(ImportNemo, ParametersOfFp32ThatAreCastAreNotLostInSilence) {
  const auto said = [](const std::string& model) { return notes(imported("nemo", nemo(model))); };
  const std::string cast = "casts fp32 parameters to bf16 in each pass";
  EXPECT_THAT(said("  megatron_amp_O2: false\n"),
              HasSubstr("model.megatron_amp_O2 false: NeMo " + cast));
  EXPECT_THAT(said(""), HasSubstr("NeMo 1's default megatron_amp_O2 False: NeMo " + cast));
  EXPECT_THAT(said("  megatron_amp_O2: True\n"), Not(HasSubstr(cast)));
  EXPECT_THAT(said("  fsdp: true\n"), Not(HasSubstr(cast)));
  std::string wide = nemo("  megatron_amp_O2: false\n");
  wide.replace(wide.find("precision: bf16"), std::string("precision: bf16").size(),
               "precision: 32");
  EXPECT_THAT(notes(imported("nemo", wide)), Not(HasSubstr("megatron_amp_O2")));
}

TEST(ImportNemo, AnInterpolationOfItselfOrOfNothingIsLeftOut) {
  const ImportedRun run = imported("nemo", nemo("  ffn_hidden_size: ${.ffn_hidden_size}\n"
                                                "  kv_channels: ${multiply:${nothing},2}\n"
                                                "  num_query_groups: ${divide:1,0}\n"));
  EXPECT_EQ(value_of(run, "model.intermediate_size"), "2048");
  EXPECT_EQ(value_of(run, "model.head_dim"), "");
}

TEST(ImportNemo, ManyInterpolationsEndInBoundedTime) {
  std::string deep = "1";
  for (int i = 0; i < 20'000; ++i) deep = "${" + deep;
  std::string fan;
  for (int i = 1; i < 200; ++i) {
    std::string sum = "${add:0";
    for (int k = 0; k < 20; ++k) sum += ",${.x" + std::to_string(i - 1) + "}";
    fan += "  x" + std::to_string(i) + ": \"" + sum + "}\"\n";
  }
  EXPECT_NO_THROW(imported("nemo", nemo("  x0: 1\n" + fan)));
  EXPECT_NO_THROW(imported("nemo", nemo("  x0: \"" + deep + "\"\n")));
}

TEST(ImportNemo, ActivationsAndNormsHaveNamesOfTheirOwn) {
  const ImportedRun run =
      imported("nemo", nemo("  activation: fast-swiglu\n  normalization: rmsnorm\n  bias: False\n"
                            "  share_embeddings_and_output_weights: False\n  num_query_groups: 2\n"
                            "  optim: {name: distributed_fused_adam}\n"));
  EXPECT_EQ(value_of(run, "model.gated_mlp"), "true");
  EXPECT_EQ(value_of(run, "model.normalization"), "RMSNorm");
  EXPECT_EQ(value_of(run, "model.tie_word_embeddings"), "false");
  EXPECT_EQ(value_of(run, "model.num_key_value_heads"), "2");
  EXPECT_EQ(value_of(run, "parallel.zero"), "1");
}

TEST(ImportNemo, WhatIsNoTransformerIsRefusedByName) {
  EXPECT_THAT(import_failure("nemo", nemo("  retro: {retro_num_neighbors: 2}\n")).lines,
              ElementsAre(HasSubstr("not supported yet: retrieval")));
  EXPECT_THAT(import_failure("nemo", nemo("  dec_cross_attention: [4]\n")).lines,
              ElementsAre(HasSubstr("not supported yet: retrieval")));
}

// MegatronMambaModel: without a pattern all layers are state spaces.
TEST(ImportNemo, StateSpaceLayersAreReadByTheirGroups) {
  const ImportedRun run =
      imported("nemo", nemo("  mamba_ssm_ngroups: 2\n  hybrid_override_pattern: null\n"
                            "  position_embedding_type: none\n"));
  EXPECT_EQ(value_of(run, "model.hybrid_override_pattern"), "MMMM");
  EXPECT_EQ(value_of(run, "model.n_groups"), "2");
}

TEST(ImportNemo, TrainingOfAPartOfTheParametersIsRefusedByName) {
  const auto lines = [](const std::string& keys) {
    return import_failure("nemo", nemo(keys)).lines;
  };
  EXPECT_THAT(lines("  peft: {peft_scheme: lora}\n"),
              ElementsAre(HasSubstr("adapters of low rank (model.peft.peft_scheme)")));
  EXPECT_THAT(lines("  peft: {peft_scheme: ptuning}\n"),
              ElementsAre(HasSubstr("training of a part of the parameters")));
  EXPECT_THAT(lines("  virtual_prompt_style: no-prompts\n"),
              ElementsAre(HasSubstr("training of a part of the parameters")));
  EXPECT_THAT(lines("  mm_cfg: {llm: {freeze: true}}\n"),
              ElementsAre(HasSubstr("training of a part of the parameters")));
  EXPECT_THAT(lines("  output_sequence: false\n"), ElementsAre(HasSubstr("preferences")));
  EXPECT_GT(imported("nemo", nemo("  peft: {peft_scheme: null}\n")).parameters, 0);
  EXPECT_EQ(import_failure("nemo", nemo("  data: {test_ds: {file: x}}\n")).codes, "E336");
  EXPECT_GT(imported("nemo", nemo("  data: {test_ds: {x: 1}, train_ds: {x: 1}}\n")).parameters, 0);
}

TEST(ImportNemo, AnEncoderOfImagesIsLeftOutAloud) {
  EXPECT_THAT(notes(imported("nemo", nemo("  mm_cfg: {llm: {freeze: false}}\n"))),
              HasSubstr("model.mm_cfg: not modelled, left out"));
}

// --- nemo: files that `defaults` names

// By their paths; how often each was read.
struct Beside {
  std::map<std::string, std::string> texts;
  std::shared_ptr<std::map<std::string, int>> reads =
      std::make_shared<std::map<std::string, int>>();
  std::optional<std::string> operator()(std::string_view path) const {
    ++(*reads)[std::string(path)];
    const auto found = texts.find(std::string(path));
    return found == texts.end() ? std::nullopt : std::optional(found->second);
  }
};

ImportedRun composed(const std::string& text, const Beside& beside,
                     std::vector<std::string> given = {}) {
  ImportRequest r = request("auto", text);
  r.files = beside;
  r.given = std::move(given);
  return import_run(r);
}

TEST(ImportNemoDefaults, FilesBesideSayTheSizesAndTheFileItselfHasTheLastWord) {
  const std::string text =
      "defaults:\n  - .@model.encoder: base\n  - .@model.decoder: base\n"
      "trainer: {devices: 8}\n"
      "model:\n  micro_batch_size: 4\n  global_batch_size: 64\n  seq_length: 512\n"
      "  tensor_model_parallel_size: 1\n  decoder: {num_layers: 6}\n"
      "  data: {seq_length_dec: 128}\n";
  const ImportedRun run =
      composed(text, {{{"base.yaml",
                        "num_layers: 12\nhidden_size: 768\nnum_attention_heads: 12\n"
                        "activation: geglu\n"}}});
  EXPECT_EQ(value_of(run, "model.num_encoder_layers"), "12");
  EXPECT_EQ(value_of(run, "model.num_decoder_layers"), "6");
  EXPECT_EQ(value_of(run, "model.hidden_size"), "768");
}

const std::string kLauncher =
    "defaults:\n  - _self_\n  - cluster: bcm\n  - training: gpt3/small\n  - peft: null\n"
    "  - override hydra/job_logging: stdout\nstages: [training]\ndata_dir: /data\n";

TEST(ImportNemoDefaults, TheLaunchersConfigurationIsThatOfItsTraining) {
  const Beside beside{{{"training/gpt3/small.yaml", nemo("  max_position_embeddings: "
                                                         "${training.model.encoder_seq_length}\n")},
                       {"training/large.yaml", nemo("  ffn_hidden_size: 4096\n")}}};
  const ImportedRun run = composed(kLauncher, beside);
  EXPECT_EQ(run.kind, "nemo");
  EXPECT_EQ(value_of(run, "model.max_position_embeddings"), "2048");
  EXPECT_THAT(notes(run), Not(HasSubstr("defaults:")));  // what the cluster is called costs nothing
  EXPECT_EQ(value_of(composed(kLauncher, beside, {"training=large"}), "model.intermediate_size"),
            "4096");
}

TEST(ImportNemoDefaults, AFileThatIsMissingIsNamed) {
  const ImportedRun run = composed(
      "defaults:\n  - .@model: sizes\n  - optional tp@model.ub_tp_comm_overlap_cfg: none\n" +
          nemo(""),
      {});
  EXPECT_THAT(notes(run),
              HasSubstr("defaults: .@model: sizes is another file, which is not there"));
  EXPECT_THAT(notes(run), Not(HasSubstr("optional")));
  EXPECT_THAT(testing::failure_of([] { composed(kLauncher, {}); }).codes, "E330");
}

TEST(ImportNemoDefaults, FilesThatNameEachOtherEndInBoundedTime) {
  std::string many = "defaults:\n";
  for (int i = 0; i < 50; ++i) many += "  - .@model: a\n";
  const Beside beside{{{"a.yaml", many}}};
  EXPECT_NO_THROW(composed(many + nemo(""), beside));
  EXPECT_LE((*beside.reads)["a.yaml"], 64);
  const Beside broken{{{"a.yaml", "{"}}};
  EXPECT_EQ(testing::failure_of([&] { composed(many + nemo(""), broken); }).codes.substr(0, 4),
            "E100");
}

TEST(ImportNemoDefaults, APackageIsNoDeeperThanAText) {
  std::string package = "a";
  for (int i = 1; i < 40; ++i) package += ".a";
  const auto of = [&](const std::string& name, const Beside& beside) {
    return testing::failure_of(
               [&] { composed("defaults: [{? \".@" + name + "\" : a}]\n" + nemo(""), beside); })
        .codes;
  };
  const Beside leaf{{{"a.yaml", "x: 1\n"}}};
  EXPECT_EQ(of(package, leaf), "");
  EXPECT_EQ(of(package + '.' + package, leaf), "E105");
  // The package of the file that names it counts.
  EXPECT_EQ(of(package,
               {{{"a.yaml", "defaults: [{? \".@" + package + "\" : b}]\n"}, {"b.yaml", "x: 1\n"}}}),
            "E105");
  std::string deep;
  for (int i = 0; i < 50'000; ++i) deep += ".a";
  EXPECT_EQ(of("a" + deep, leaf), "E105");
}

TEST(ImportNemoDefaults, WhatIsUnknownIsPlacedInItsFile) {
  const ImportedRun run = composed("defaults:\n  - .@model: sizes\n" + nemo("  of_the_root: 2\n"),
                                   {{{"sizes.yaml", "\n\n  of_the_other: 1\n"}}});
  ASSERT_EQ(run.unknown.size(), 2U);
  EXPECT_EQ(run.unknown[0].file, "sizes.yaml");
  EXPECT_EQ(run.unknown[0].line, 3);
  EXPECT_EQ(run.unknown[1].file, "file");
  EXPECT_THAT(run.scenario, HasSubstr("of_the_other in line 3 of sizes.yaml"));
}

TEST(ImportNemoDefaults, OnlyFilesOfTheFolderAreRead) {
  const Beside beside{
      {{"../out/secret.yaml", "num_layers: 7\n"}, {"sizes/../x.yaml", "num_layers: 8\n"}}};
  const auto of = [&](const std::string& entry) {
    return testing::failure_of(
               [&] { composed("defaults:\n  - " + entry + "\n" + nemo(""), beside); })
        .codes;
  };
  EXPECT_EQ(of(".@model: ../out/secret"), "E111");
  EXPECT_EQ(of("../out@model: secret"), "E111");
  EXPECT_EQ(of("a/../../out@model: secret"), "E111");
  EXPECT_EQ(of(".@model: sizes/../x"), "");
  EXPECT_EQ((*beside.reads)["../out/secret.yaml"], 0);
}

TEST(ImportNemoDefaults, TheTextOfAllFilesIsBounded) {
  const Beside beside{{{"a.yaml", "x: " + std::string(1'000'000, 'x') + "\n"}}};
  std::string some = "defaults:\n", many = some;
  for (int i = 0; i < 4; ++i) some += "  - .@model.exp: a\n";
  for (int i = 0; i < 60; ++i) many += "  - .@model.exp: a\n";
  EXPECT_NO_THROW(composed(some + nemo(""), beside));
  EXPECT_EQ(testing::failure_of([&] { composed(many + nemo(""), beside); }).codes, "E106");
  EXPECT_LE((*beside.reads)["a.yaml"], 10);
}

// What an entry of the list means: the layers that the model then has, or what is noted.
struct DefaultsRow {
  const char *name, *list, *layers, *note;
};
class NemoDefaults : public ::testing::TestWithParam<DefaultsRow> {};

TEST_P(NemoDefaults, MeanWhatHydraMeans) {
  const DefaultsRow& row = GetParam();
  const Beside beside{{{"model/a.yaml", "num_layers: 8\n"},
                       {"model/b.yaml", "num_layers: 16\n"},
                       {"base.yaml", "num_layers: 24\n"},
                       {"global.yaml", "# @package _global_\nmodel: {num_layers: 32}\n"},
                       {"whole.yaml", "model: {num_layers: 40}\n"},
                       {"list.yaml", "- 1\n"},
                       {"empty.yaml", "\n"},
                       {"sub/outer.yaml", "defaults: [{/model@_global_.model: a}]\nx: 1\n"},
                       {"sub/chosen.yaml", "defaults: [{model: b}, {override model: c}]\nx: 1\n"},
                       {"sub/model/b.yaml", "x: 1\n"},
                       {"sub/model/c.yaml", "num_layers: 48\n"}}};
  const std::string text =
      "defaults: " + std::string(row.list) +
      "\ntrainer: {num_nodes: 1, devices: 8}\nmodel:\n  micro_batch_size: 1\n  global_batch_size: "
      "8\n  encoder_seq_length: 2048\n  hidden_size: 512\n  num_attention_heads: 8\n";
  ImportRequest r = request("nemo", text);
  r.files = beside;
  try {
    const ImportedRun run = import_run(r);
    EXPECT_EQ(value_of(run, "model.num_hidden_layers"), row.layers);
    EXPECT_THAT(notes(run), HasSubstr(row.note));
    if (*row.note == '\0') {
      EXPECT_THAT(notes(run), Not(HasSubstr("defaults:")));
    }
  } catch (const InputError& e) {
    EXPECT_STREQ(row.layers, "") << e.what();
    EXPECT_THAT(e.diagnostics.back().note, HasSubstr(row.note));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Entries, NemoDefaults,
    ::testing::Values(
        DefaultsRow{"AFileOfAGroup", "[model/a]", "8", ""},
        DefaultsRow{"AFileWithAPackage", "[base@model]", "24", ""},
        DefaultsRow{"SeveralFiles", "[{model: [a, b]}]", "16", ""},
        DefaultsRow{"AnotherChoice", "[{model: a}, {override model: b}]", "16", ""},
        DefaultsRow{"AChoiceOfTheRoot", "[{model: a}, {override /model: b}]", "16", ""},
        DefaultsRow{"AChoiceOfNothing", "[{model: a}, {override other: b}]", "8",
                    "defaults: override other: b overrides nothing that is chosen"},
        DefaultsRow{"FromTheRoot", "[{/model: a}]", "8", ""},
        DefaultsRow{"FromTheRootOfANestedFile", "[{sub: outer}]", "8", ""},
        DefaultsRow{"AChoiceWithinAFile", "[{sub@_global_: chosen}]", "48", ""},
        DefaultsRow{"TheGlobalPackage", "[{.@_global_: whole}]", "40", ""},
        DefaultsRow{"TheGroupAsPackage", "[{model@_group_: a}]", "8", ""},
        DefaultsRow{"APackageInTheFile", "[{.: global}]", "32", ""},
        DefaultsRow{"NoMapping", "[{model: a}, list]", "8",
                    "defaults: list is no mapping of names to values"},
        DefaultsRow{"AnEmptyFile", "[{model: a}, empty]", "8", ""},
        DefaultsRow{"AVariable", "[{model: a}, {model: '${x}'}]", "8",
                    "defaults: model: ${x} hangs on what the file does not say"},
        DefaultsRow{"NotUnderstood", "[{model: a}, {x: {y: 1}}]", "8", "is not understood"},
        DefaultsRow{"Missing", "[{model: c}]", "",
                    "defaults: model: c is another file, which is not there"},
        DefaultsRow{"Nothing", "[{model: a}, {model: null}, null, {hydra: x}]", "8", ""}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(ImportNemoDefaults, OfTheLauncherTheStageThatTrainsIsRead) {
  const Beside beside{{{"training/small.yaml", nemo("")},
                       {"fine_tuning/squad.yaml", nemo("  ffn_hidden_size: 4096\n")},
                       {"peft/squad.yaml", nemo("  peft: {peft_scheme: lora}\n")}}};
  const auto launcher = [](const std::string& stages) {
    return "defaults:\n  - training: small\n  - fine_tuning: squad\n  - peft: squad\n"
           "stages: " +
           stages + "\ndata_dir: /data\n";
  };
  const auto codes = [&](const std::string& stages) {
    return testing::failure_of([&] { composed(launcher(stages), beside); }).codes;
  };
  EXPECT_EQ(codes("[training]"), "");
  EXPECT_EQ(codes("[peft]"), "E130");
  EXPECT_EQ(codes("[data_preparation, ia3_learning]"), "E130");
  EXPECT_EQ(codes("[rlhf_ppo]"), "E130");
  EXPECT_EQ(codes("[data_preparation, evaluation]"), "E336");
  const ImportedRun two = composed(launcher("[data_preparation, fine_tuning, peft]"), beside);
  EXPECT_EQ(value_of(two, "model.intermediate_size"), "4096");
  EXPECT_THAT(notes(two), HasSubstr("stages: fine_tuning is read, peft is left out"));
}

TEST(ImportNemo, WhatIsKeptInFp8IsWhatTheFileSays) {
  const auto kept = [](const std::string& model) {
    return value_of(imported("nemo", nemo("  transformer_engine: true\n" + model)),
                    "precision.fp8_params");
  };
  EXPECT_EQ(kept("  fp8: true\n  fp8_params: true\n"), "true");
  EXPECT_EQ(kept("  fp8: true\n  fp8_params: false\n"), "false");
  EXPECT_EQ(kept("  fp8: true\n"), "false");
  EXPECT_EQ(kept(""), "");
}

TEST(ImportNemo, WhatOverlapsAndWhatIsFusedIsWhatTheFileSays) {
  const auto of = [](const char* path, const std::string& model) {
    return value_of(imported("nemo", nemo("  tensor_model_parallel_size: 2\n" + model)), path);
  };
  EXPECT_EQ(of("overlap.tp", "  ub_tp_comm_overlap: true\n"), "pipelined");
  EXPECT_EQ(of("overlap.tp", "  ub_tp_comm_overlap: false\n"), "backward");
  EXPECT_EQ(of("overlap.tp", ""), "backward");
  EXPECT_EQ(of("kernels.fused_cross_entropy", ""), "false");
  EXPECT_EQ(of("kernels.fused_cross_entropy", "  cross_entropy_loss_fusion: true\n"), "true");
  EXPECT_EQ(value_of(imported("nemo", nemo("")), "overlap.tp"), "");  // one rank
}

TEST(ImportNemo, FilesOfNemo1AreOfItsLastContainers) {
  EXPECT_EQ(value_of(imported("nemo", nemo("")), "software"), "nemo-24.07");
}

TEST(ImportNemo, ShardingOfFsdpKeepsParametersWhereOnlyGradientsAreSplit) {
  const ImportedRun grad = imported("nemo", nemo("  fsdp: true\n  fsdp_sharding_strategy: grad\n"));
  EXPECT_EQ(value_of(grad, "parallel.zero"), "3");
  EXPECT_EQ(value_of(grad, "parallel.reshard_after_forward"), "false");
  const ImportedRun full = imported("nemo", nemo("  fsdp: true\n  fsdp_sharding_strategy: full\n"));
  EXPECT_EQ(value_of(full, "parallel.reshard_after_forward"), "");
  EXPECT_THAT(notes(imported("nemo", nemo("  fsdp: true\n  fsdp_sharding_strategy: hybrid\n"))),
              HasSubstr("model.fsdp_sharding_strategy hybrid: not modelled, left out"));
  EXPECT_THAT(notes(imported("nemo", nemo("  fsdp: false\n  fsdp_sharding_strategy: hybrid\n"))),
              Not(HasSubstr("fsdp")));
}

TEST(ImportNemo, OptimizersOfOtherKindsAreLeftOutByName) {
  const ImportedRun run = imported("nemo", nemo("  optim: {name: adafactor}\n"));
  EXPECT_EQ(value_of(run, "optimizer.kind"), "");
  EXPECT_THAT(notes(run), HasSubstr("model.optim.name adafactor: not modelled, left out"));
  EXPECT_THAT(imported("nemo", nemo("  optim: {name: distributed_fused_adam}\n")).scenario,
              HasSubstr("kind: adam  # model.optim.name distributed_fused_adam: adam"));
  for (const char* name : {"fused_adam", "distributed_fused_adam", "mcore_distributed_optim"})
    EXPECT_EQ(value_of(imported("nemo", nemo("  optim: {name: " + std::string(name) + "}\n")),
                       "optimizer.kind"),
              "adam");
}

TEST(ImportNemo, AnExperimentsNameRefusesNothing) {
  EXPECT_GT(imported("nemo", "run: {name: llama_distilled_retro}\n" + nemo("")).parameters, 0);
  EXPECT_THAT(import_failure("nemo", nemo("  kd_teacher_restore_from_path: ???\n")).lines,
              ElementsAre(HasSubstr("does not say what model the teacher is")));
  // The program that reads it stops without a teacher.
  ImportRequest r = request("nemo", nemo("  kd_teacher_restore_from_path: null\n"));
  EXPECT_EQ(testing::failure_of([&] { import_run(r); }).codes, "E332");
  r.set = {{"distill", "llama3-8b"}};
  EXPECT_EQ(value_of(import_run(r), "distill"), "llama3-8b");
  EXPECT_GT(imported("nemo", nemo("  virtual_prompt_style: null\n  dec_cross_attention: null\n"))
                .parameters,
            0);
}

// A fine-tuning of the launcher's, whose model is that of a training in another folder.
TEST(ImportNemo, AModelThatATrainingOfTheLauncherMadeIsReadThere) {
  const std::string tuning =
      "run: {name: squad, model_train_name: gpt3_5b, task_name: squad}\n"
      "trainer: {num_nodes: 1, devices: 8, precision: bf16}\n"
      "model:\n  restore_from_path: /results/megatron.nemo\n  global_batch_size: 32\n"
      "  micro_batch_size: 4\n  tensor_model_parallel_size: 1\n"
      "  data: {train_ds: {max_seq_length: 1024}}\n  optim: {name: distributed_fused_adam}\n";
  std::string training = nemo(
      "  tensor_model_parallel_size: 4\n  fp8: True\n"
      "  max_position_embeddings: ${.encoder_seq_length}\n"
      "  tokenizer: {type: GPT2BPETokenizer}\n");
  training = "run: {name: gpt3_5b}\n" + training.substr(training.find("trainer"));
  ImportRequest r = request("nemo", tuning);
  r.folder = "gpt3";
  r.files = [&](std::string_view path) -> std::optional<std::string> {
    if (path != "../../training/gpt3/5b.yaml") return {};
    return training;
  };
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, "model.num_hidden_layers"), "4");
  EXPECT_EQ(value_of(run, "model.vocab_size"), "50257");
  EXPECT_EQ(value_of(run, "model.max_position_embeddings"), "2048");
  EXPECT_EQ(value_of(run, "batch.seq"), "1024");
  EXPECT_EQ(value_of(run, "batch.micro"), "4");
  EXPECT_EQ(value_of(run, "parallel.tp"), "1");
  EXPECT_EQ(run.gpus, 8);
  EXPECT_THAT(value_of(run, "precision.preset"), Not(HasSubstr("fp8")));
  EXPECT_THAT(notes(run), HasSubstr("training/gpt3/5b.yaml"));
  // Another training of that name's file, or none: the model is asked for.
  training = "run: {name: other}\n" + training.substr(training.find("trainer"));
  EXPECT_EQ(testing::failure_of([&] { import_run(r); }).codes, "E332");
  r.folder = "";
  EXPECT_EQ(testing::failure_of([&] { import_run(r); }).codes, "E332");
}

TEST(ImportNemo, DevicesMayBeAListOrAllThereAre) {
  const auto with_devices = [](const std::string& devices) {
    std::string text = nemo("");
    text.replace(text.find("devices: 8"), 10, "devices: " + devices);
    return imported("nemo", text);
  };
  EXPECT_EQ(with_devices("[0, 1, 2, 3]").gpus, 8);
  for (const char* all : {"-1", "auto"}) {
    EXPECT_EQ(with_devices(all).gpus, 16);
    EXPECT_THAT(notes(with_devices(all)), HasSubstr("8 are assumed")) << all;
  }
}

// PyYAML reads YAML 1.1.
TEST(ImportNemo, NumbersMayBeOctalOrHexadecimal) {
  const auto width = [](const std::string& number) {
    return value_of(imported("nemo", nemo("  ffn_hidden_size: " + number + "\n")),
                    "model.intermediate_size");
  };
  EXPECT_EQ(width("02000"), "1024");
  EXPECT_EQ(width("0x400"), "1024");
  EXPECT_EQ(width("1_024"), "1024");
  EXPECT_EQ(import_failure("nemo", nemo("  ffn_hidden_size: 0b11\n")).codes, "E331");
}

TEST(ImportNemo, WhatTrainsNoLanguageModelIsRefusedByName) {
  const std::string trainer = "trainer: {devices: 8, num_nodes: 1}\n";
  struct Case {
    std::string text;
    const char *code, *what;
  };
  for (const auto& [text, code, what] :
       {Case{trainer + "model: {sample_rate: 16000, preprocessor: {}, optim: {name: adamw}}\n",
             "E130", "speech"},
        Case{trainer + "model: {perception: {}, optimizer: {lr: 1}}\n", "E130", "speech"},
        Case{trainer + "model: {unet_config: {}, micro_batch_size: 1}\n", "E130", "pictures"},
        Case{trainer + "inference: {greedy: false}\ngpt_model_file: x\n", "E336", "generates"},
        Case{"run: {name: convert}\nmodel: {tensor_model_parallel_size: 2}\n", "E336", "converts"},
        Case{nemo("  optim: {name: adam}\n") + "run: {huggingface_ckpt_path: x}\n", "E336",
             "huggingface_ckpt_path"},
        Case{nemo("  optim: {name: adam}\n") + "run: {nemo_file_name: x.nemo}\n", "E336",
             "nemo_file_name"},
        Case{trainer + "model_type: gpt\ntensor_model_parallel_size: 1\ncheckpoint_dir: null\n",
             "E336", "checkpoint_dir"}}) {
    EXPECT_EQ(kind_of_file(text), "nemo") << text;
    EXPECT_EQ(import_failure("auto", text).codes, code) << text;
    EXPECT_THAT(import_failure("auto", text).lines, ElementsAre(HasSubstr(what))) << text;
    EXPECT_EQ(import_failure("nemo", text).codes, code) << text;
  }
  EXPECT_EQ(kind_of_file(trainer + "model_type: t5\n"), "");
  // A training may generate text on the way.
  EXPECT_GT(
      imported("auto", nemo("  optim: {name: adam}\n") + "inference: {greedy: true}\n").parameters,
      0);
}

// Until 2022 one set of keys was for the encoder and the decoder.
TEST(ImportNemo, AnEncoderAndADecoderMayShareTheirKeys) {
  const std::string stacks = "  encoder_arch: transformer\n  decoder_arch: transformer\n";
  const ImportedRun run = imported(
      "nemo", nemo(stacks + "  data: {seq_length_dec: 128}\n"
                            "  tokenizer: {type: BertWordPieceCase, num_sentinel_tokens: 100}\n"));
  EXPECT_EQ(value_of(run, "model.num_encoder_layers"), "4");
  EXPECT_EQ(value_of(run, "model.num_decoder_layers"), "4");
  EXPECT_EQ(value_of(run, "model.vocab_size"), "29096");
  EXPECT_THAT(
      import_failure("nemo", nemo("  encoder_arch: perceiver\n  decoder_arch: transformer\n"))
          .lines,
      ElementsAre(HasSubstr("encoder_arch")));
}

TEST(ImportNemo, EmbeddingsOfTextsAreRefusedByName) {
  EXPECT_THAT(import_failure("nemo", nemo("  data: {hard_negatives_to_train: 4}\n")).lines,
              ElementsAre(HasSubstr("pairs of texts")));
}

// Others may have the key, and do not read it.
TEST(ImportNemo, OnlyFalconsLayersStandSideBySide) {
  const std::string beside = "  mcore_customization_config: {parallel_attention: true}\n";
  EXPECT_EQ(value_of(imported("nemo", nemo(beside)), "model.parallel_attn"), "");
  EXPECT_EQ(value_of(imported("nemo", nemo(beside + "  name: megatron_falcon_gpt\n")),
                     "model.parallel_attn"),
            "true");
}

TEST(ImportNemo, TokenizersOfKnownModelsSayHowLargeTheVocabularyIs) {
  const auto vocab = [](const std::string& tokenizer) {
    return value_of(imported("nemo", nemo("  tokenizer: " + tokenizer + "\n")), "model.vocab_size");
  };
  EXPECT_EQ(vocab("{library: huggingface, type: mistralai/Mixtral-8x7B-v0.1}"), "32000");
  EXPECT_EQ(
      vocab("{library: sentencepiece, type: null, model: \"${data}/llama/llama_tokenizer.model\"}"),
      "32000");
  EXPECT_EQ(vocab("{library: sentencepiece, type: null, model: \"???\"}"), "128256");  // assumed
}

TEST(ImportNemo, AdaptersOfNemo2AreRefused) {
  const std::string lora = "peft: {_target_: nemo.collections.llm.peft.LoRA, dim: 8}\n";
  EXPECT_THAT(import_failure("nemo", nemo("") + lora).lines,
              ElementsAre(HasSubstr("training of a part of the parameters (peft)")));
  EXPECT_EQ(import_failure("nemo", nemo("  model_transform: {_target_: x.LoRA}\n")).codes, "E130");
  EXPECT_GT(imported("nemo", nemo("  model_transform: null\n") + "peft: null\n").parameters, 0);
  const std::string bridge =
      "model: {num_layers: 4, hidden_size: 512, num_attention_heads: 8, seq_length: 2048}\n"
      "train: {global_batch_size: 8, micro_batch_size: 1}\n";
  EXPECT_EQ(import_failure("bridge", bridge + lora).codes, "E130");
  EXPECT_GT(imported("bridge", bridge + "peft: null\n").parameters, 0);
}

TEST(ImportNemo, DataToTestOnBesideDataToTrainOnIsATraining) {
  EXPECT_GT(imported("nemo", nemo("  data: {data_prefix: [x], test_ds: {x: 1}}\n")).parameters, 0);
}

TEST(ImportNemo, AModelInACheckpointIsAskedFor) {
  const std::string tuning =
      "trainer: {num_nodes: 1, devices: 8}\nmodel: {restore_from_path: null, micro_batch_size: 1, "
      "global_batch_size: 8, tensor_model_parallel_size: 2, encoder_seq_length: 64}\n";
  EXPECT_EQ(import_failure("nemo", tuning).codes, "E332");
  ImportRequest with_model = request("auto", tuning);
  with_model.model_file = "config.json";
  with_model.model_text = import_sample("llama3_8b.config.json");
  const ImportedRun run = import_run(with_model);
  EXPECT_EQ(run.kind, "nemo");
  EXPECT_EQ(run.parameters, 8'030'261'248);
  EXPECT_EQ(value_of(run, "parallel.tp"), "2");
}

TEST(ImportNemo, AModelMayBeStated) {
  for (const char* key : {"model", "model.preset"})
    for (const char* kind : {"nemo", "bridge"}) {
      ImportRequest r =
          request(kind,
                  "trainer: {num_nodes: 1, devices: 8}\nmodel: {tensor_model_parallel_"
                  "size: 2, seq_length: 4096}\ntrain: {global_batch_size: 64, "
                  "micro_batch_size: 1}\n");
      r.set = {{key, "llama3-8b"}, {"batch.global", "64"}};
      const ImportedRun run = import_run(r);
      EXPECT_EQ(run.parameters, 8'030'261'248) << key << kind;
      EXPECT_EQ(value_of(run, "parallel.tp"), "2");
    }
}

// Ten times as many keys take ten times as long, and not a hundred times.
TEST(ImportNemo, ManyKeysAreReadInBoundedTime) {
  std::string keys, root;
  for (int i = 0; i < 20'000; ++i) {
    keys += fmt::format("  k{}: ${{zz}}\n", i);
    root += fmt::format("q{}: 1\n", i);
  }
  EXPECT_NO_THROW(imported("nemo", nemo(keys) + root + "zz: 1\n"));
  EXPECT_NO_THROW(imported("bridge",
                           "model:\n  num_layers: 4\n  hidden_size: 512\n"
                           "  num_attention_heads: 8\n  seq_length: 2048\n" +
                               keys + "train: {global_batch_size: 8, micro_batch_size: 1}\n"));
}

// --- kinds ---

TEST(KindOfFile, ModelsOfOtherKindsAreOfNone) {
  EXPECT_EQ(kind_of_file("name: some\ntrainer: {devices: 1}\nmodel: {d_model: 512, optim: {}}\n"),
            "");
  EXPECT_EQ(kind_of_file("run: {name: prepare}\nfile_numbers: 0-29\n"), "");
  EXPECT_EQ(kind_of_file("defaults:\n  - common_crawl/filter\nstages: [filter]\n"), "");
}

TEST(KindOfFile, AScenarioIsNoneWhateverItsCommentsSay) {
  EXPECT_EQ(kind_of_file("schema: 1\nmodel: llama3-8b  # --num-layers 32\n"), "");
  EXPECT_EQ(kind_of_file("model: llama3-8b\nparallel: {tp: 2}  # --num-layers 32\n"), "");
  const std::string scenario = "model: llama3-8b\ncluster: dgx-h100\n";
  EXPECT_EQ(kind_of_file("# torchrun pretrain_gpt.py --num-layers 32\n" + scenario), "");
  EXPECT_EQ(kind_of_file(scenario + "\n#SBATCH --nodes 4\n"), "");
  EXPECT_EQ(kind_of_file("# elapsed time per iteration (ms): 1234.5 | global batch size: 64\n" +
                         scenario),
            "");
  EXPECT_EQ(kind_of_file("#!/bin/bash\n# " + scenario + "torchrun x.py --num-layers 32\n"),
            "megatron-args");
}

// --- accelerate and axolotl ---

TEST(ImportAxolotl, AModelOfTheHubWithThatPresetNeedsNoConfigJson) {
  const std::string keys = "micro_batch_size: 2\ndatasets: []\nsequence_len: 4096\n";
  const ImportedRun run = imported("auto", "base_model: NousResearch/Meta-Llama-3.1-8B\n" + keys);
  EXPECT_EQ(value_of(run, "model.preset"), "llama3.1-8b");
  EXPECT_EQ(run.parameters, 8'030'261'248);
  EXPECT_EQ(import_failure("auto", "base_model: some/model\n" + keys).codes, "E332");
  EXPECT_EQ(import_failure("auto", "base_model: a/b\nreward_model: true\n" + keys).codes, "E130");
  // What is missing does not hang on the model.
  EXPECT_EQ(import_failure("auto", "base_model: some/model\nadapter: lora\n" + keys).codes, "E130");
}

// Each names a preset that there is.
TEST(ImportAxolotl, ModelsOfTheHubArePresets) {
  std::ifstream lines(STEPCAST_SOURCE_DIR "/scenarios/frameworks/imports/hub_models.yaml");
  int models = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    ++models;
    const std::string text = "base_model: " + line.substr(0, line.find(':')) +
                             "\nmicro_batch_size: 1\ndatasets: []\nsequence_len: 64\n";
    EXPECT_GT(imported("auto", text).parameters, 0) << line;
  }
  EXPECT_GT(models, 20);
}

// The corpus has config.json files of the same models, and their parameters.
TEST(ImportAxolotl, ModelsOfTheHubHaveTheParametersOfTheirConfigJson) {
  std::map<std::string, std::string> parameters;  // by the preset
  std::istringstream rows(import_sample("corpus/expected.csv"));
  for (std::string row; std::getline(rows, row);)
    if (const size_t at = row.find(".config.json,hf,,"); at != std::string::npos)
      parameters[row.substr(0, at)] = row.substr(at + 17, row.find(',', at + 17) - at - 17);
  std::ifstream lines(STEPCAST_SOURCE_DIR "/scenarios/frameworks/imports/hub_models.yaml");
  int compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with('#') || !parameters.contains(line.substr(colon + 2))) continue;
    ++compared;
    const std::string text = "base_model: " + line.substr(0, colon) +
                             "\nmicro_batch_size: 1\ndatasets: []\nsequence_len: 64\n";
    EXPECT_EQ(std::to_string(imported("auto", text).parameters),
              parameters.at(line.substr(colon + 2)))
        << line;
  }
  EXPECT_GE(compared, 8);
}

TEST(ImportAxolotl, SequencesThatAreAssumedFitThePreset) {
  const std::string keys = "micro_batch_size: 2\ndatasets: []\n";
  EXPECT_EQ(value_of(imported("auto", "base_model: gpt2\n" + keys), "batch.seq"), "1024");
  EXPECT_EQ(value_of(imported("auto", "base_model: Qwen/Qwen3-8B\n" + keys), "batch.seq"), "4096");
}

TEST(ImportAxolotl, ChangesOfTheModelAreNoPreset) {
  const std::string file = "base_model: gpt2\nmicro_batch_size: 2\ndatasets: []\n";
  EXPECT_EQ(import_failure("auto", file + "base_model_config: a/b\n").codes, "E332");
  EXPECT_EQ(import_failure("auto", file + "overrides_of_model_config: {n_layer: 2}\n").codes,
            "E332");
  EXPECT_GT(imported("auto", file + "base_model_config: gpt2\n").parameters, 0);
}

TEST(ImportAxolotl, AdaptersAndRewardsAreRefusedByName) {
  ImportRequest lora = request("auto", "base_model: a/b\nadapter: qlora\nmicro_batch_size: 1\n");
  lora.model_file = "config.json";
  lora.model_text = import_sample("llama3_8b.config.json");
  EXPECT_THAT(testing::failure_of([&] { import_run(lora); }).lines,
              ElementsAre(HasSubstr("adapters of low rank (adapter qlora)")));
}

// axolotl's file of a stated model.
ImportRequest axolotl(const std::string& more) {
  ImportRequest r = request("axolotl", "base_model: a/b\nmicro_batch_size: 1\n" + more);
  r.set = {{"model", "llama3-8b"}};
  return r;
}

TEST(ImportAxolotl, TheNameOfDeepSpeedsFileSaysTheStageAndItsFolderDoesNot) {
  EXPECT_THAT(testing::failure_of([] {
                import_run(axolotl("deepspeed: runs/zero3-trial/stage2.json\n"));
              }).lines,
              ElementsAre(HasSubstr("what DeepSpeed does is in another file")));
  const ImportedRun run = import_run(axolotl("deepspeed: my/zero9/zero2.json\n"));
  EXPECT_EQ(value_of(run, "parallel.zero"), "2");
  EXPECT_THAT(notes(run), Not(HasSubstr("not modelled")));
  EXPECT_THAT(notes(import_run(axolotl("deepspeed: zero3_bf16_cpuoffload_all.json\n"))),
              HasSubstr("zero3_bf16_cpuoffload_all.json moves to the host's memory: not modelled"));
}

TEST(ImportAxolotl, StrategiesOfShardingAreRead) {
  EXPECT_EQ(value_of(import_run(axolotl("fsdp: [no_shard]\n")), "parallel.zero"), "0");
  EXPECT_EQ(value_of(import_run(axolotl("fsdp_config: {sharding_strategy: NO_SHARD}\n")),
                     "parallel.zero"),
            "0");
  const ImportedRun full = import_run(axolotl("fsdp: full_shard auto_wrap\n"));
  EXPECT_EQ(value_of(full, "parallel.zero"), "3");
  EXPECT_EQ(value_of(full, "parallel.reshard_after_forward"), "");
  const ImportedRun keeps = import_run(axolotl("fsdp: [shard_grad_op, auto_wrap]\n"));
  EXPECT_EQ(value_of(keeps, "parallel.zero"), "3");
  EXPECT_EQ(value_of(keeps, "parallel.reshard_after_forward"), "false");
  ImportRequest hybrid = axolotl("fsdp: [hybrid_shard]\n");
  EXPECT_EQ(value_of(import_run(hybrid), "parallel.dp_replicate"), "");
  hybrid.set.insert(hybrid.set.end(), {{"cluster.nodes", "4"}, {"batch.global", "64"}});
  EXPECT_EQ(value_of(import_run(hybrid), "parallel.dp_replicate"), "4");
}

// FSDP's CPU offloading, if there are shards to offload.
TEST(ImportAxolotl, OffloadedParametersOfFsdpAreOffloaded) {
  for (const char* text : {"fsdp_version: 2\nfsdp_config: {offload_params: true}\n",
                           "fsdp: full_shard offload\n", "fsdp: [full_shard, offload]\n"}) {
    const ImportedRun run = import_run(axolotl(text));
    EXPECT_EQ(value_of(run, "offload.parameters"), "true") << text;
    EXPECT_THAT(notes(run), Not(HasSubstr("not modelled"))) << text;
  }
  for (const char* text : {"fsdp_config: {sharding_strategy: NO_SHARD, offload_params: true}\n",
                           "fsdp: [no_shard, offload]\n"}) {
    const ImportedRun whole = import_run(axolotl(text));
    EXPECT_EQ(value_of(whole, "offload.parameters"), "") << text;
    EXPECT_THAT(notes(whole), HasSubstr("not modelled")) << text;
  }
}

// axolotl shards by FSDP wherever fsdp_config says anything (core/builders/base.py).
TEST(ImportAxolotl, AnyKeyOfItsConfigurationIsFsdp) {
  for (const char* key :
       {"transformer_layer_cls_to_wrap: LlamaDecoderLayer", "offload_params: false",
        "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"}) {
    const ImportedRun run =
        import_run(axolotl(std::string("bf16: true\nfsdp_config: {") + key + "}\n"));
    EXPECT_EQ(value_of(run, "parallel.zero"), "3") << key;
    EXPECT_EQ(value_of(run, "parallel.fsdp"), "fsdp1") << key;
    EXPECT_EQ(value_of(run, "precision.master"), "") << key;
    EXPECT_EQ(unknown(run), "") << key;
  }
  for (const char* nothing : {"fsdp_config:\n", "fsdp_config: {}\n", "fsdp_config: {a: null}\n"})
    EXPECT_EQ(value_of(import_run(axolotl(nothing)), "parallel.zero"), "") << nothing;
}

TEST(ImportAxolotl, AFormatIsSwitchedOnInAnySpellingOfYaml) {
  for (const char* on : {"true", "True", "yes", "on"}) {
    const auto preset = [](const std::string& keys) {
      return value_of(import_run(axolotl(keys)), "precision.preset");
    };
    EXPECT_EQ(preset(std::string("bf16: ") + on + "\n"), "bf16-mixed") << on;
    EXPECT_EQ(preset(std::string("bf16: no\nfp16: ") + on + "\n"), "fp16-mixed") << on;
    const ImportedRun full =
        import_run(axolotl(std::string("gradient_checkpointing: ") + on + "\n"));
    EXPECT_EQ(value_of(full, "recompute.granularity"), "full") << on;
    EXPECT_THAT(notes(full), Not(HasSubstr("gradient_checkpointing"))) << on;
  }
  for (const char* off : {"false", "no", "Off"})
    EXPECT_EQ(value_of(import_run(axolotl(std::string("gradient_checkpointing: ") + off + "\n")),
                       "recompute.granularity"),
              "")
        << off;
}

TEST(ImportAxolotl, DegreesSayHowManyGpusThereAre) {
  const ImportedRun run = import_run(axolotl(
      "dp_replicate_size: 2\ndp_shard_size: 4\ncontext_parallel_size: 2\nfsdp_version: 2\n"));
  EXPECT_EQ(run.gpus, 16);
  EXPECT_THAT(run.scenario, HasSubstr("16 GPUs: dp_replicate_size 2 x dp_shard_size 4 x "
                                      "context_parallel_size 2\n"));
  EXPECT_THAT(run.scenario, Not(HasSubstr("does not say how many GPUs")));
}

TEST(ImportAxolotl, ActivationCheckpointingOfFsdpIsRecomputation) {
  for (const char* key : {"activation_checkpointing", "fsdp_activation_checkpointing"}) {
    const auto granularity = [&](const char* value) {
      return value_of(import_run(axolotl(std::string("fsdp_config: {") + key + ": " + value +
                                         ", reshard_after_forward: true}\n")),
                      "recompute.granularity");
    };
    EXPECT_EQ(granularity("true"), "full") << key;
    EXPECT_EQ(granularity("false"), "") << key;
  }
  EXPECT_THAT(unknown(import_run(axolotl("fsdp_config: {fsdp_checkpointing: true}\n"))),
              HasSubstr("fsdp_checkpointing"));
}

TEST(ImportAxolotl, KernelsOfLigerAreWhatTheyFuse) {
  const std::string plugin = "plugins:\n  - axolotl.integrations.liger.LigerPlugin\n";
  const std::string all =
      "liger_rms_norm: true\nliger_glu_activation: true\nliger_rope: true\n"
      "liger_layer_norm: true\n";
  const ImportedRun fused = import_run(axolotl(plugin + all));
  for (const char* key : {"fused_norm", "fused_activation", "fused_rotary"})
    EXPECT_EQ(value_of(fused, std::string("kernels.") + key), "true") << key;
  EXPECT_EQ(value_of(fused, "kernels.loss"), "");
  EXPECT_EQ(unknown(fused), "");
  const ImportedRun loss = import_run(axolotl(plugin + "liger_fused_linear_cross_entropy: true\n"));
  EXPECT_EQ(value_of(loss, "kernels.loss"), "in-place");
  EXPECT_EQ(value_of(loss, "kernels.fused_norm"), "");
  EXPECT_THAT(notes(loss), HasSubstr("liger_fused_linear_cross_entropy: logits"));
  EXPECT_EQ(value_of(import_run(axolotl(plugin + "liger_rms_norm: false\n")), "kernels.fused_norm"),
            "");
  EXPECT_EQ(
      value_of(import_run(axolotl(plugin + "liger_swiglu: true\n")), "kernels.fused_activation"),
      "true");
  const ImportedRun without = import_run(axolotl(all));
  EXPECT_EQ(value_of(without, "kernels.fused_norm"), "");
  EXPECT_THAT(notes(without), HasSubstr("liger_rms_norm: does nothing without"));
}

TEST(ImportAxolotl, MomentsHaveTheFormatOfTheOptimizer) {
  const auto of = [](const std::string& optimizer, const std::string& more) {
    return import_run(axolotl("optimizer: " + optimizer + "\nbf16: true\n" + more));
  };
  const std::string fsdp = "fsdp: [full_shard]\n";
  EXPECT_EQ(value_of(of("adamw_bnb_8bit", fsdp), "precision.moments"), "int8");
  EXPECT_EQ(value_of(of("paged_adamw_32bit", ""), "precision.moments"), "fp32");
  EXPECT_EQ(value_of(of("adamw_torch_fused", fsdp), "precision.moments"), "");
  EXPECT_EQ(value_of(of("adamw_torch_fused", fsdp), "optimizer.kernel"), "fused");
  const ImportedRun four = of("adamw_torch_4bit", fsdp);
  EXPECT_EQ(value_of(four, "precision.moments"), "int8");
  EXPECT_THAT(notes(four), HasSubstr("optimizer adamw_torch_4bit: its moments of 4 bits count"));
  EXPECT_THAT(notes(of("adafactor", fsdp)),
              HasSubstr("optimizer adafactor: not modelled, left out"));
  EXPECT_THAT(of("muon", fsdp).unsupported, HasSubstr("muon"));
}

// Names of transformers' OptimizerNames and of axolotl's own.
TEST(ImportAxolotl, AdamHasManyNames) {
  for (const auto& [name, moments] : std::initializer_list<std::pair<const char*, const char*>>{
           {"adamw_torch_xla", "bf16"},
           {"adamw_torch_npu_fused", "bf16"},
           {"adamw_apex_fused", "fp32"},
           {"adamw_anyprecision", "fp32"},
           {"optimi_adamw", "bf16"},
           {"stable_adamw", "bf16"},
           {"adopt_adamw", "bf16"},
           {"schedule_free_adamw", "bf16"}}) {
    const ImportedRun run =
        import_run(axolotl(std::string("bf16: true\noptimizer: ") + name + "\n"));
    EXPECT_EQ(value_of(run, "optimizer.kind"), "adamw") << name;
    EXPECT_EQ(value_of(run, "precision.moments"), moments) << name;
    EXPECT_EQ(value_of(run, "optimizer.kernel"),
              std::string_view(name).ends_with("fused") ? "fused" : "")
        << name;
  }
  EXPECT_THAT(notes(import_run(axolotl("optimizer: optimi_adamw\n"))), HasSubstr("is left out"));
  EXPECT_THAT(notes(import_run(axolotl("optimizer: lion_8bit\n"))), HasSubstr("left out"));
}

TEST(ImportAxolotl, WhatIsDoneBesideTrainingIsNotLostInSilence) {
  const ImportedRun run = import_run(axolotl(
      "tiled_mlp: true\nqat: {weight_dtype: int4}\ndiffusion: {eps: 1e-3, mask_token_id: 9}\n"));
  EXPECT_EQ(unknown(run), "");
  for (const char* part : {"tiled_mlp: not", "qat: not", "diffusion: not"})
    EXPECT_THAT(notes(run), HasSubstr(part));
  EXPECT_EQ(notes(import_run(axolotl("qat:\n"))).find("qat"), std::string::npos);
  EXPECT_THAT(testing::failure_of([] { import_run(axolotl("lisa_n_layers: 4\n")); }).lines,
              ElementsAre(HasSubstr("training of a part of the parameters (lisa_n_layers 4)")));
  EXPECT_THAT(testing::failure_of([] { import_run(axolotl("hatchery: {lora_rank: 16}\n")); }).lines,
              ElementsAre(HasSubstr("adapters of low rank (hatchery.lora_rank 16)")));
}

TEST(ImportAxolotl, OnlyShardedTrainingKeepsParametersInFp32) {
  const ImportedRun plain = import_run(axolotl("bf16: auto\n"));
  EXPECT_EQ(value_of(plain, "precision.master"), "false");
  EXPECT_EQ(value_of(plain, "precision.grads"), "bf16");
  EXPECT_EQ(value_of(plain, "precision.moments"), "bf16");
  for (const char* sharded : {"fsdp: [full_shard]\n", "deepspeed: zero3_bf16.json\n"})
    EXPECT_EQ(
        value_of(import_run(axolotl(std::string("bf16: true\n") + sharded)), "precision.master"),
        "")
        << sharded;
}

TEST(ImportAxolotl, ProductsMayBeInFp8) {
  const ImportedRun run =
      import_run(axolotl("fp8: true\nfp8_enable_fsdp_float8_all_gather: true\nfsdp_version: 2\n"));
  EXPECT_EQ(value_of(run, "precision.preset"), "fp8-tensorwise");
  EXPECT_THAT(notes(run), HasSubstr("fp8_enable_fsdp_float8_all_gather: not modelled, left out"));
  EXPECT_EQ(testing::unknown(run), "");
}

TEST(ImportAxolotl, TrainingOfAPartOfTheParametersIsRefused) {
  EXPECT_THAT(testing::failure_of([] {
                import_run(axolotl("unfrozen_parameters: [lm_head.weight]\n"));
              }).lines,
              ElementsAre(HasSubstr("training of a part of the parameters")));
  EXPECT_NO_THROW(import_run(axolotl("unfrozen_parameters: []\n")));
  EXPECT_NO_THROW(import_run(axolotl("unfrozen_parameters:\n")));
}

ImportRequest accelerate(const std::string& text) {
  ImportRequest r = request("accelerate", text);
  r.set = {{"model", "llama3-8b"}};
  return r;
}

TEST(ImportAccelerate, SizesThatMakeNoStepAreRefused) {
  ImportRequest r = accelerate(
      "distributed_type: MULTI_GPU\nnum_processes: 10000000\n"
      "gradient_accumulation_steps: 10000000\n");
  r.set.emplace_back("batch.micro", "10000000");
  EXPECT_THAT(testing::failure_of([&] { import_run(r); }).lines,
              ElementsAre(HasSubstr("no step of a sensible size")));
}

TEST(ImportAccelerate, TwoSizesOfOneThingAreRefusedByName) {
  for (const char* text :
       {"parallelism_config: {parallelism_config_cp_size: 2, parallelism_config_sp_size: 2}\n",
        "parallelism_config: {parallelism_config_tp_size: 4}\n"
        "megatron_lm_config: {megatron_lm_tp_degree: 2}\n"})
    EXPECT_THAT(
        testing::failure_of([&] {
          import_run(accelerate("distributed_type: FSDP\nnum_processes: 8\n" + std::string(text)));
        }).lines,
        ElementsAre(HasSubstr("are two sizes of one thing")));
}

TEST(ImportAccelerate, DegreesWithoutACountOfProcessesAreRefused) {
  EXPECT_THAT(
      testing::failure_of([&] {
        import_run(
            accelerate("distributed_type: FSDP\n"
                       "parallelism_config: {parallelism_config_tp_size: 8}\n"));
      }).lines,
      ElementsAre(HasSubstr(
          "'num_processes', which is not given, is no multiple of the 8 GPUs of a replica")));
}

TEST(ImportAccelerate, TheTypeOfTheJobMayBeInLowerCase) {
  for (const char* type : {"deepspeed", "DEEPSPEED"})
    EXPECT_EQ(value_of(import_run(accelerate(
                           fmt::format("distributed_type: {}\nnum_processes: 8\n"
                                       "deepspeed_config: {{gradient_accumulation_steps: 4}}\n",
                                       type))),
                       "batch.global"),
              "32");
}

// FSDP's CPU offloading, if there are shards to offload.
TEST(ImportAccelerate, OffloadedParametersOfFsdpAreOffloaded) {
  const auto run_with = [](const std::string& keys) {
    return import_run(accelerate("distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {" + keys +
                                 "fsdp_offload_params: true}\n"));
  };
  EXPECT_EQ(value_of(run_with("fsdp_version: 2, "), "offload.parameters"), "true");
  EXPECT_THAT(notes(run_with({})), Not(HasSubstr("not modelled")));
  const ImportedRun whole = run_with("fsdp_sharding_strategy: NO_SHARD, ");
  EXPECT_EQ(value_of(whole, "offload.parameters"), "");
  EXPECT_THAT(notes(whole), HasSubstr("not modelled"));
}

TEST(ImportAccelerate, AStatedModelIsEnough) {
  ImportRequest r = request("auto", "distributed_type: FSDP\nnum_processes: 16\n");
  r.set = {{"model", "llama3-8b"}, {"batch.global", "64"}};
  const ImportedRun run = import_run(r);
  EXPECT_EQ(run.kind, "accelerate");
  EXPECT_EQ(run.gpus, 16);
  EXPECT_EQ(value_of(run, "parallel.zero"), "3");
}

TEST(ImportAccelerate, AModelMayBeStatedByItsPreset) {
  ImportRequest r = request("accelerate", "distributed_type: FSDP\nnum_processes: 8\n");
  r.set = {{"model.preset", "llama3-8b"}};
  EXPECT_EQ(import_run(r).parameters, 8'030'261'248);
}

// --- hf ---

TEST(ImportHf, TheVocabularyIsNotPaddedWhateverItsSizeAndTp) {
  ImportRequest r = request("hf", import_sample("llama3_8b.config.json"));
  r.set = {{"parallel.tp", "8"}};
  EXPECT_EQ(testing::load(import_run(r).scenario).model.vocab, 128'256);
}

TEST(ImportHf, AFlagOfNullIsFalseWhateverTheDefaultOfTheClass) {
  const ImportedRun run = imported("hf", R"({"model_type": "gemma", "tie_word_embeddings": null})");
  EXPECT_FALSE(testing::load(run.scenario).model.tied);
}

TEST(ImportHf, ANullReplacesTheDefaultOfTheClass) {
  const ImportedRun run = imported(
      "hf",
      R"({"model_type": "mistral", "num_attention_heads": 32, "sliding_window": null, "num_key_value_heads": null})");
  EXPECT_EQ(testing::load(run.scenario).model.sliding_window, 0);
  EXPECT_EQ(testing::load(run.scenario).model.kv_heads, 32);
}

const std::string kLlama =  // without its end
    R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128,)"
    R"( "num_attention_heads": 4, "intermediate_size": 128)";

TEST(ImportHf, KeysAreTakenAsTheyAre) {
  const ImportedRun run = imported("hf", import_sample("llama3_8b.config.json"));
  EXPECT_EQ(value_of(run, "model.model_type"), "llama");
  EXPECT_EQ(value_of(run, "model.num_key_value_heads"), "8");
  EXPECT_EQ(value_of(run, "batch.seq"), "4096");
  EXPECT_EQ(run.used, 11);
  EXPECT_EQ(run.ignored, 4);
  EXPECT_EQ(unknown(run), "");
  EXPECT_THAT(notes(run), HasSubstr("batch.global: 64 is assumed"));
  const Scenario s = testing::load(run.scenario);
  EXPECT_EQ(s.model.layers, 32);
  EXPECT_EQ(s.model.ffn, 14336);
}

TEST(ImportHf, ExpertsAndLatentAttentionAreTaken) {
  const ImportedRun run = imported("hf", import_sample("deepseek_v3.config.json"));
  EXPECT_EQ(unknown(run), "");
  EXPECT_EQ(value_of(run, "model.n_routed_experts"), "256");
  EXPECT_EQ(value_of(run, "model.kv_lora_rank"), "512");
  EXPECT_EQ(value_of(run, "model.first_k_dense_replace"), "3");
}

// What is taken from a config.json, whether or not it is a whole model.
ImportedRun of_config(const std::string& text) {
  Problems problems;
  ScenarioDraft draft;
  ImportCounts counts;
  const Value config = parse_yaml(problems, problems.add_source({"config.json", text}));
  EXPECT_TRUE(draft_config_model(config, {problems, {}, {}}, draft, counts));
  problems.throw_if_any();
  ImportedRun run;
  run.scenario = draft.text("").text;
  run.used = counts.used;
  return run;
}

TEST(ScenarioDraft, NotesAboutWhatTheUserStatesGoAndOthersThatReadAlikeStay) {
  ScenarioDraft draft;
  draft.note_about("batch.micro", "one is assumed");
  draft.note_about("batch.micro_of_others", "two are assumed");
  draft.assume("parallel.tp", "2", "most have it");
  draft.left_out("parallel.strategy");  // a name of the file's own
  draft.override_with("batch.micro", "4");
  draft.override_with("parallel", "{tp: 4}");
  EXPECT_THAT(draft.notes(), ::testing::ElementsAre("batch.micro_of_others: two are assumed",
                                                    "parallel.strategy: not modelled, left out"));
}

TEST(ImportHf, EveryFamilyOfTheTableIsRead) {
  for (const ModelFamily& f : model_types()) {
    const ImportedRun run =
        of_config("{\"model_type\": \"" + std::string(f.name) + "\"}");  // defaults of the class
    EXPECT_EQ(value_of(run, "model.model_type"), f.name);
  }
}

struct ConfigRow {
  const char* family;
  const char* keys;  // "a b c"
};

// What changes the cost, by the names that the families' files have for it.
constexpr ConfigRow kConfigRows[] = {
    {"llama",
     "num_hidden_layers hidden_size num_attention_heads num_key_value_heads head_dim "
     "intermediate_size attention_bias mlp_bias tie_word_embeddings vocab_size "
     "max_position_embeddings hidden_act"},
    {"mistral", "sliding_window num_key_value_heads head_dim tie_word_embeddings"},
    {"qwen2", "use_sliding_window sliding_window max_window_layers layer_types"},
    {"qwen3", "head_dim attention_bias use_sliding_window"},
    {"mixtral", "num_local_experts num_experts_per_tok intermediate_size sliding_window"},
    {"qwen2_moe",
     "num_experts num_experts_per_tok moe_intermediate_size shared_expert_intermediate_size "
     "decoder_sparse_step mlp_only_layers"},
    {"qwen3_moe",
     "num_experts num_experts_per_tok moe_intermediate_size decoder_sparse_step mlp_only_layers "
     "head_dim attention_bias"},
    {"deepseek_v3",
     "n_routed_experts num_experts_per_tok n_shared_experts moe_intermediate_size "
     "intermediate_size first_k_dense_replace moe_layer_freq q_lora_rank kv_lora_rank "
     "qk_nope_head_dim qk_rope_head_dim v_head_dim attention_bias"},
    {"gpt_oss",
     "num_local_experts num_experts_per_tok intermediate_size head_dim sliding_window layer_types "
     "attention_bias"},
    {"gpt2", "n_layer n_embd n_head n_inner n_positions activation_function tie_word_embeddings"},
    {"gpt_neox",
     "num_hidden_layers hidden_size num_attention_heads intermediate_size attention_bias "
     "tie_word_embeddings"},
};

TEST(ImportHf, EveryFieldThatCostsIsTaken) {
  for (const ConfigRow& row : kConfigRows) {
    std::istringstream keys(row.keys);
    for (std::string key; keys >> key;) {
      const ImportedRun run =
          of_config(std::string("{\"model_type\": \"") + row.family + "\", \"" + key + "\": 3}");
      EXPECT_EQ(value_of(run, "model." + key), "3") << row.family;
      EXPECT_EQ(run.used, 2) << row.family << ' ' << key;
    }
  }
}

TEST(ImportHf, NamesOfLaterTransformersAreKnown) {
  const ImportedRun run =
      imported("hf", kLlama +
                         R"(, "dtype": "bfloat16", "rope_parameters": {"rope_theta": 5e5},
          "torch_dtype": "bfloat16", "rope_theta": 5e5, "rope_scaling": null,
          "quantization_config": {"quant_method": "fp8"}})");
  EXPECT_EQ(unknown(run), "");
  EXPECT_EQ(run.ignored, 6);
}

TEST(ImportHf, UnknownTypesListTheKnownOnes) {
  const auto f = import_failure("hf", "{\"hidden_size\": 64,\n \"model_type\": \"lama\"}");
  ASSERT_EQ(f.all.size(), 1U);
  EXPECT_EQ(f.lines.front(), "E125 2:16 unknown model_type 'lama'");
  EXPECT_EQ(f.all.front().label, "did you mean 'llama'?");
  EXPECT_THAT(f.all.front().help, HasSubstr("deepseek_v3"));
}

// The offer to take a model as a decoder like Llama says what it would be then: Mistral-7B's sizes
// give Mistral-7B's parameters.
TEST(ImportHf, AnUnknownTypeIsOfferedAsLlamaWithItsParameters) {
  const std::string text =
      R"({"model_type": "mustral", "hidden_size": 4096, "num_hidden_layers": 32, "new_part": 3,
 "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
 "vocab_size": 32000})";
  const auto f = import_failure("hf", text);
  ASSERT_EQ(f.codes, "E125");
  EXPECT_THAT(f.all.front().help, HasSubstr("7241732096 parameters"));
  EXPECT_THAT(f.all.front().help, HasSubstr("the keys new_part would not count"));
  ImportRequest taken = request("hf", text);
  taken.set = {{"model.preset", "llama"}};
  const ImportedRun run = import_run(taken);
  EXPECT_EQ(run.parameters, 7'241'732'096);
  EXPECT_EQ(unknown(run), "new_part@1:73 ");
}

TEST(ImportHf, PartsThatAreMissingAreNamed) {
  EXPECT_THAT(
      import_failure("hf", kLlama + ",\n\"mamba_num_heads\": 64}").lines,
      ElementsAre("E130 2:20 not supported yet: state-space layers (mamba_num_heads = 64)"));
  EXPECT_THAT(import_failure("hf", R"({"model_type": "any", "index_topk": 2048})").codes, "E130");
  EXPECT_THAT(import_failure("hf", R"({"model_type": "any", "attn_type_list": [0, 1]})").lines,
              ElementsAre(HasSubstr("not supported yet: lightning attention")));
  EXPECT_EQ(imported("hf", kLlama + ", \"attn_type_list\": [1, 1]}").kind, "hf");
  EXPECT_EQ(
      imported("hf", kLlama + ", \"mamba_num_heads\": 0, \"add_cross_attention\": false}").kind,
      "hf");
}

TEST(ImportHf, AValueUnderBothOfItsNamesIsOne) {
  EXPECT_EQ(value_of(imported("hf", kLlama + ", \"n_layer\": 2}"), "model.num_hidden_layers"), "2");
  EXPECT_THAT(import_failure("hf", kLlama + ", \"n_layer\": 3}").codes, "E103");
}

// Text is one part of a model that sees images: its keys are in a mapping of their own.
TEST(ImportHf, TheDecoderOfSeveralPartsIsTaken) {
  const ImportedRun run = imported(
      "hf",
      R"({"model_type": "qwen3_vl", "tie_word_embeddings": true, "vision_config": {"depth": 24},
 "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 2048, "num_hidden_layers": 28,
 "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 6144,
 "vocab_size": 151936}})");
  EXPECT_EQ(value_of(run, "model.model_type"), "qwen3");
  EXPECT_EQ(run.parameters, 1'720'574'976);  // of Qwen3-1.7B, whose sizes these are
  EXPECT_THAT(notes(run), HasSubstr("vision_config: not modelled"));
}

TEST(ImportHf, BrokenFilesSayWhere) {
  EXPECT_THAT(import_failure("hf", "{\"model_type\": \"llama\",\n \"a\": [1, 2\n").codes, "E100");
  EXPECT_THAT(import_failure("hf", "[1, 2]").lines,
              ElementsAre(HasSubstr("E330 1:1 a config.json is a mapping")));
  EXPECT_THAT(import_failure("hf", "{}").codes, "E126");
  EXPECT_THAT(import_failure("hf", "{\"model_type\": \"llama\"\n, \"rope\": \x01}").lines,
              ElementsAre(HasSubstr("E100 2:11 there is a control character")));
  EXPECT_THAT(import_failure("hf", "").codes, "E330");
}

TEST(ImportHf, UnknownKeysAreReported) {
  const ImportedRun run = imported("hf", kLlama + ",\n\"flux\": 3, \"sliding_windw\": 64}");
  EXPECT_EQ(unknown(run), "flux@2:1 sliding_windw@2:12 ");
  EXPECT_THAT(run.scenario, HasSubstr("# - not understood: flux in line 2\n"));
  EXPECT_EQ(run.unknown[1].near, "sliding_window");
}

TEST(ImportHf, WhatLoadingRefusesIsRefusedInTheFile) {
  EXPECT_THAT(import_failure("hf", "{\"model_type\": \"qwen2\", \"hidden_size\": null}").lines,
              ElementsAre("E126 1:1 the model needs hidden_size"));
  const std::string experts =
      R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128,
 "num_attention_heads": 4, "num_key_value_heads": 4, "moe_intermediate_size": 64,
 "intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 9})";
  EXPECT_THAT(import_failure("hf", experts).lines,
              ElementsAre("E127 3:68 num_experts_per_tok = 9 is more than the 8 experts"));
  ImportRequest stated = request("hf", experts);
  stated.set = {{"model.num_experts_per_tok", "2"}};
  EXPECT_EQ(value_of(import_run(stated), "model.num_experts_per_tok"), "2");
  stated.set = {{"model", "llama3-8b"}};
  EXPECT_EQ(value_of(import_run(stated), "model"), "llama3-8b");
}

// --- bridge ---

// NeMo's files name an argument of Megatron-LM v2 and leave it unset.
TEST(ImportBridge, AnArgumentThatIsUnsetDatesNoFile) {
  std::string text = import_sample("bridge.yaml");
  const std::string section = "\nmodel:\n";
  ASSERT_NE(text.find(section), std::string::npos);
  text.insert(text.find(section) + section.size(), "  activations_checkpoint_method: null\n");
  EXPECT_EQ(value_of(imported("bridge", text), "software"),
            value_of(imported("bridge", import_sample("bridge.yaml")), "software"));
}

TEST(ImportBridge, HasMegatronsNamesInSections) {
  const ImportedRun run = imported("bridge", import_sample("bridge.yaml"));
  EXPECT_EQ(unknown(run), "");
  for (const auto& [path, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model.num_key_value_heads", "8"},
           {"model.gated_mlp", "true"},
           {"model.hidden_act", "silu"},
           {"model.tie_word_embeddings", "false"},
           {"model.attention_bias", "false"},
           {"model.vocab_size", "128257"},  // NullTokenizer
           {"parallel.tp", "4"},
           {"parallel.pp", "4"},
           {"parallel.vpp", "5"},
           {"parallel.sp", "true"},
           {"parallel.zero", "1"},
           {"batch.global", "128"},
           {"batch.micro", "1"},
           {"batch.seq", "8192"},
           {"overlap.dp_grad", "true"},
           {"overlap.dp_param", "true"},
           {"precision.preset", "fp8-tensorwise"},
           {"kernels.fused_activation", "true"},
           {"env.NVLINK_DOMAIN_SIZE", "\"72\""}})
    EXPECT_EQ(value_of(run, path), value) << path;
}

TEST(ImportBridge, RecipesOfMixedPrecisionHaveNames) {
  const std::string model =
      "model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, seq_length: 128, "
      "vocab_size: 1000}\n";
  for (const auto& [recipe, preset] : std::initializer_list<std::pair<const char*, const char*>>{
           {"bf16_mixed", "bf16-mixed"},
           {"fp16_mixed", "fp16-mixed"},
           {"bf16_with_fp8_delayed_scaling_mixed", "fp8-delayed"},
           {"bf16_with_fp8_current_scaling_mixed", "fp8-tensorwise"},
           {"bf16_with_fp8_subchannel_scaling_mixed", "fp8-blockwise"},
           {"bf16_with_mxfp8_mixed", "mxfp8"},
           {"bf16_with_nvfp4_mixed", "nvfp4"}}) {
    ImportRequest r = request("bridge", model + "mixed_precision: " + recipe);
    r.cluster = {"dgx-b200", "", false};  // has rates of all formats
    EXPECT_EQ(value_of(import_run(r), "precision.preset"), preset);
  }
}

// A file without a model is laid over a recipe, whose defaults are not Megatron's.
TEST(ImportBridge, WhatARecipeSetsIsAssumedOfAFileThatChangesOne) {
  const std::string file =
      "model: {seq_length: 4096, tensor_model_parallel_size: 2}\n"
      "train: {global_batch_size: 8, micro_batch_size: 1}\n";
  const auto changed = [&](const std::string& more) {
    ImportRequest r = request("bridge", file + more);
    r.set = {{"model", "llama3-8b"}};
    return import_run(r);
  };
  const ImportedRun run = changed("");
  for (const auto& [path, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"precision.preset", "bf16-mixed"},
           {"parallel.zero", "1"},
           {"overlap.dp_grad", "true"},
           {"overlap.dp_param", "true"},
           {"kernels.dropout.hidden", "0"},
           {"kernels.dropout.attention", "0"},
           {"kernels.fused_cross_entropy", "true"}})
    EXPECT_EQ(value_of(run, path), value) << path;
  EXPECT_THAT(notes(run), HasSubstr("bf16 true, use_distributed_optimizer true"));

  const ImportedRun states = changed(
      "mixed_precision: bf16_with_fp8_current_scaling_mixed\n"
      "ddp: {use_distributed_optimizer: false, overlap_param_gather: false}\n");
  EXPECT_EQ(value_of(states, "precision.preset"), "fp8-tensorwise");
  EXPECT_EQ(value_of(states, "parallel.zero"), "0");
  EXPECT_EQ(value_of(states, "overlap.dp_param"), "");
  EXPECT_THAT(notes(states), Not(HasSubstr("bf16 true")));
  EXPECT_EQ(value_of(changed("mixed_precision: fp16_mixed\n"), "precision.preset"), "fp16-mixed");
  EXPECT_EQ(value_of(changed("mixed_precision: null\n"), "precision.preset"), "fp32");

  const ImportedRun tuning = changed("checkpoint: {pretrained_checkpoint: /x}\n");
  EXPECT_EQ(value_of(tuning, "overlap.dp_grad"), "");
  EXPECT_EQ(value_of(tuning, "parallel.zero"), "1");
  const ImportedRun pretraining = changed("checkpoint: {pretrained_checkpoint: null}\n");
  EXPECT_EQ(value_of(pretraining, "overlap.dp_grad"), "true");
  EXPECT_THAT(notes(pretraining), HasSubstr("pretraining recipes"));
  EXPECT_THAT(notes(imported("bridge", import_sample("bridge.yaml"))), Not(HasSubstr("recipe")));
}

TEST(ImportBridge, WhatARecipeSetsIsNoArgumentOfTheFile) {
  ImportRequest r = request("bridge",
                            "model: {seq_length: 4096, tensor_model_parallel_size: 2}\n"
                            "train: {global_batch_size: 8, micro_batch_size: 1}\n");
  r.set = {{"model", "llama3-8b"}};
  EXPECT_EQ(import_run(r).used, 4);
}

TEST(ImportBridge, TheNoteOnARecipeSaysWhatNobodyStates) {
  const auto noted = [](const std::string& file,
                        std::vector<std::pair<std::string, std::string>> set) {
    ImportRequest r = request("bridge", file);
    r.set = std::move(set);
    r.set.emplace_back("model", "llama3-8b");
    return notes(import_run(r));
  };
  const std::string file = "model: {seq_length: 4096}\n";
  const std::string all = noted(file, {});
  EXPECT_THAT(all, HasSubstr("bf16 true, use_distributed_optimizer true"));
  EXPECT_THAT(all, HasSubstr("global_batch_size 32, micro_batch_size 2"));
  EXPECT_THAT(all, Not(HasSubstr("seq_length 4096")));
  const std::string stated =
      noted(file, {{"precision.preset", "fp32"}, {"parallel.zero", "0"}, {"batch.global", "8"}});
  EXPECT_THAT(stated, HasSubstr("overlap_grad_reduce true"));
  EXPECT_THAT(stated, Not(HasSubstr("bf16")));
  EXPECT_THAT(stated, Not(HasSubstr("use_distributed_optimizer")));
  EXPECT_THAT(stated, Not(HasSubstr("global_batch_size")));
  EXPECT_THAT(stated, HasSubstr("micro_batch_size 2"));
  EXPECT_THAT(noted(file, {{"batch", "{global: 8, micro: 1, seq: 4096}"}}),
              Not(HasSubstr("batch_size")));
  EXPECT_THAT(noted(file + "checkpoint: {pretrained_checkpoint: /x}\n", {}),
              HasSubstr("global_batch_size 128, micro_batch_size 1"));
}

TEST(ImportBridge, LayoutMayBeAListOfStages) {
  const ImportedRun run = imported(
      "bridge",
      "model:\n  num_layers: 3\n  hidden_size: 64\n  num_attention_heads: 4\n  seq_length: 128\n"
      "  vocab_size: 1000\n  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout:\n"
      "  - [embedding, decoder]\n  - [decoder, decoder, loss]\n");
  EXPECT_EQ(value_of(run, "parallel.layout"), "\"Et|ttL\"");
}

TEST(ImportBridge, AFileOfAnotherKindIsRefused) {
  EXPECT_EQ(import_failure("bridge", "train: {micro_batch_size: 1}").codes, "E330");
}

// --- torchtitan ---

TEST(ImportTorchtitan, KeysOfAHundredThousandDotsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_EQ(import_failure("torchtitan", "[training]\nseq_len = 4\n" + key + " = 1\n").codes,
            "E105");
  EXPECT_EQ(import_failure("torchtitan", "[" + key + "]\nb = 1\n").codes, "E105");
}

// toml++ goes astray when it asks of such a letter whether it is a blank.
TEST(ImportTorchtitan, LettersThatAreNoAsciiStandInQuotesAndCommentsAlone) {
  const auto refused = import_failure("torchtitan", "[training]\nseq_len = 4\n\u00e9 = 1\n");
  EXPECT_EQ(refused.codes, "E100");
  EXPECT_EQ(refused.all.front().line, 3);
  EXPECT_EQ(import_failure("torchtitan", "[training]\na = \"x\" \u00e9\n").codes, "E100");
  const std::string quoted =
      "# \u00e9t\u00e9\n[model]\nname = \"llama3\"\nflavor = '8B'\n[job]\n"
      "description = \"\u00e9 \\\" # \u00e9\"\ndump_folder = '''\n\u00e9\n'''\n"
      "[training]\nseq_len = 4096\n";
  EXPECT_EQ(imported("torchtitan", quoted).kind, "torchtitan");
}

TEST(ImportTorchtitan, EveryFieldHasItsPlace) {
  const ImportedRun run = imported("torchtitan", import_sample("torchtitan.json"));
  EXPECT_EQ(unknown(run), "");
  for (const auto& [path, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model.preset", "llama3-70b"},
           {"parallel.tp", "8"},
           {"parallel.sp", "true"},
           {"parallel.zero", "3"},
           {"cluster.nodes", "32"},
           {"batch.micro", "2"},
           {"batch.global", "256"},
           {"batch.seq", "8192"},
           {"precision.preset", "fp8-tensorwise"},
           {"recompute.granularity", "full"},
           {"optimizer.kind", "adamw"},
           {"optimizer.clip", "true"}})
    EXPECT_EQ(value_of(run, path), value) << path;
  EXPECT_THAT(notes(run), HasSubstr("compile.enable: not modelled"));
}

TEST(ImportTorchtitan, WhatIsStoredInBf16IsSoThroughout) {
  const auto of = [](const std::string& training, const std::string& optimizer) {
    return imported("torchtitan", R"({"model": {"name": "llama3", "flavor": "8B"}, )"
                                  R"("training": {)" +
                                      training + R"(}, "optimizer": {)" + optimizer + "}}");
  };
  const ImportedRun run = of(R"("dtype": "bfloat16", "mixed_precision_reduce": "bfloat16")",
                             R"("early_step_in_backward": true)");
  EXPECT_EQ(value_of(run, "precision.grads"), "bf16");
  EXPECT_EQ(value_of(run, "precision.reduce"), "bf16");
  EXPECT_EQ(value_of(run, "precision.master"), "false");
  EXPECT_EQ(value_of(run, "precision.moments"), "bf16");
  EXPECT_THAT(notes(run), HasSubstr("optimizer.early_step_in_backward: not modelled, left out"));
  EXPECT_THAT(notes(run), Not(HasSubstr("training.dtype")));
  EXPECT_EQ(value_of(of(R"("dtype": "bfloat16")", ""), "precision.reduce"), "fp32");
  const ImportedRun wide = of(R"("dtype": "float32")", R"("early_step_in_backward": false)");
  EXPECT_EQ(value_of(wide, "precision.master"), "");
  EXPECT_THAT(notes(wide), Not(HasSubstr("early_step")));
  EXPECT_THAT(notes(wide), Not(HasSubstr("training.dtype")));
  const ImportedRun half = of(R"("dtype": "float16")", "");
  EXPECT_EQ(value_of(half, "precision.master"), "");
  EXPECT_THAT(notes(half), HasSubstr("training.dtype float16: not modelled, left out"));
}

TEST(ImportTorchtitan, OptimizersKernelIsTheOneNamedAndFusedByDefault) {
  const auto kernel = [](const std::string& optimizer) {
    return value_of(imported("torchtitan", R"({"model": {"name": "llama3", "flavor": "8B"}, )"
                                           R"("optimizer": {)" +
                                               optimizer + "}}"),
                    "optimizer.kernel");
  };
  EXPECT_EQ(kernel(""), "fused");
  EXPECT_EQ(kernel(R"("implementation": "foreach")"), "foreach");
  EXPECT_EQ(kernel(R"("implementation": "for-loop")"), "foreach");
  EXPECT_EQ(kernel(R"("fused": false)"), "foreach");
  EXPECT_EQ(kernel(R"("fused": true)"), "fused");
  EXPECT_EQ(import_failure("torchtitan", R"({"model": {"name": "llama3", "flavor": "8B"}, )"
                                         R"("optimizer": {"implementation": "quick"}})")
                .codes,
            "E331");
}

std::string titan(const std::string& parallelism, const std::string& training = "") {
  return R"({"model": {"name": "llama3", "flavor": "8B"}, "parallelism": {)" + parallelism +
         R"(}, "training": {)" + training + "}}";
}

TEST(ImportConfig, ControlCharactersAreEscaped) {
  EXPECT_EQ(value_of(imported("hf",
                              "{\"model_type\": \"llama\", \"layer_types\": "
                              "[{\"a\\rb\": \"a\\u0001b\"}]}"),
                     "model.layer_types"),
            "[{\"a\\x0db\": \"a\\x01b\"}]");
}

TEST(ImportConfig, WhatNoScenarioCanSayIsRefused) {
  // As deep as a file may be, and one level deeper in a scenario.
  const std::string deep = std::string(63, '[') + std::string(63, ']');
  EXPECT_THAT(
      import_failure("hf", "{\"model_type\": \"llama\", \"layer_types\": " + deep + '}').lines,
      ElementsAre(HasSubstr("cannot be written as a scenario: nested deeper than 64 levels")));
}

TEST(ImportTorchtitan, StagesAreDealtOutAsItDoes) {
  const auto layout = [](const std::string& parallelism) {
    return value_of(imported("torchtitan", titan("\"pipeline_parallel_degree\": 4" + parallelism)),
                    "parallel.layout");
  };
  // 32 layers and one each for the embedding and the head: 34 = 9 + 9 + 8 + 8.
  EXPECT_EQ(layout(""), "\"Et*8|t*9|t*8|t*7L\"");
  EXPECT_EQ(layout(R"(, "pipeline_parallel_first_stage_less_layers": 0,
                      "pipeline_parallel_last_stage_less_layers": 0)"),
            "\"Et*8|t*8|t*8|t*8L\"");
  EXPECT_EQ(layout(R"(, "pipeline_parallel_schedule": "Interleaved1F1B")"),
            "\"Et*4|t*5|t*4|t*4|t*4|t*4|t*4|t*3L\"");
  EXPECT_EQ(layout(R"(, "pipeline_parallel_schedule": "Interleaved1F1B",
                      "pipeline_parallel_layers_per_stage": 3)"),
            "\"Et*2|t*3|t*3|t*3|t*3|t*3|t*3|t*3|t*3|t*3|t*2|t*1L\"");
}

TEST(ImportTorchtitan, StagesThatAreWrittenOutAreTaken) {
  const auto parts = [](const std::string& text) {
    return titan(R"("pipeline_parallel_degree": 2, "module_fqns_per_model_part": [)" + text + "]");
  };
  const auto layers = [](int first, int last) {
    std::string text;
    for (int i = first; i <= last; ++i)
      text += (i > first ? ", \"layers." : "\"layers.") + std::to_string(i) + '"';
    return text;
  };
  EXPECT_EQ(value_of(imported("torchtitan", parts("[\"tok_embeddings\", " + layers(0, 19) + "], [" +
                                                  layers(20, 31) + ", \"norm\", \"output\"]")),
                     "parallel.layout"),
            "\"Et*20|t*12L\"");
  EXPECT_THAT(
      import_failure("torchtitan", parts('[' + layers(0, 9) + "], [" + layers(11, 31) + ']')).lines,
      ElementsAre(HasSubstr("names layers.11 where layers.10 comes next")));
  EXPECT_THAT(import_failure("torchtitan", parts('[' + layers(0, 9) + "], [\"output\"]")).lines,
              ElementsAre(HasSubstr("names 10 of 32 layers")));
  EXPECT_THAT(import_failure("torchtitan", parts('[' + layers(0, 31) + ']')).lines,
              ElementsAre(HasSubstr("has 1 stages")));
}

TEST(ImportTorchtitan, ReshardingFollowsThePolicy) {
  const auto reshard = [](const std::string& parallelism) {
    return value_of(imported("torchtitan", titan(parallelism)), "parallel.reshard_after_forward");
  };
  EXPECT_EQ(reshard(R"("data_parallel_shard_degree": 8)"), "");
  EXPECT_EQ(reshard(R"("data_parallel_shard_degree": 8, "fsdp_reshard_after_forward": "never")"),
            "false");
  EXPECT_EQ(reshard(R"("data_parallel_shard_degree": 8, "pipeline_parallel_degree": 2)"), "false");
  EXPECT_EQ(value_of(imported("torchtitan", titan(R"("data_parallel_shard_degree": 1)")),
                     "parallel.zero"),
            "");
  const ImportedRun all = imported("torchtitan", titan(R"("data_parallel_shard_degree": -1)"));
  EXPECT_THAT(notes(all), HasSubstr("8 GPUs are assumed"));
  EXPECT_EQ(value_of(imported("torchtitan", titan(R"("data_parallel_replicate_degree": 2,
                     "data_parallel_shard_degree": 4)")),
                     "parallel.dp_replicate"),
            "2");
}

TEST(ImportTorchtitan, BatchesAreTokensOrSequences) {
  const ImportedRun tokens = imported("torchtitan", titan(R"("data_parallel_shard_degree": 8)"));
  EXPECT_EQ(value_of(tokens, "batch.micro"), "8");  // 16384 / 2048, the defaults
  EXPECT_EQ(value_of(tokens, "batch.global"), "64");
  const ImportedRun sequences = imported(
      "torchtitan",
      titan(R"("data_parallel_shard_degree": 8)", R"("local_batch_size": 2, "seq_len": 8192)"));
  EXPECT_EQ(value_of(sequences, "batch.micro"), "2");
  EXPECT_EQ(value_of(sequences, "batch.global"), "16");
  EXPECT_EQ(value_of(sequences, "batch.seq"), "8192");
}

TEST(ImportTorchtitan, ContextExpertsAndScheduleFiles) {
  const ImportedRun run = imported("torchtitan", titan(R"("context_parallel_degree": 2,
               "pipeline_parallel_degree": 2, "pipeline_parallel_schedule_csv": "s.csv",
               "enable_async_tensor_parallel": false, "num_pp_microbatches": 8)"));
  EXPECT_EQ(value_of(run, "parallel.cp"), "2");
  EXPECT_EQ(value_of(run, "schedule.file"), "s.csv");  // is looked for beside the scenario
  EXPECT_EQ(unknown(run), "");
  const ImportedRun experts =
      imported("torchtitan", R"({"model": {"name": "deepseek_v3", "flavor": "671B"},
               "parallelism": {"expert_parallel_degree": 8}})");
  EXPECT_EQ(value_of(experts, "parallel.ep"), "8");
  EXPECT_THAT(import_failure("torchtitan", titan("\"expert_parallel_degree\": 4")).lines,
              ElementsAre(HasSubstr("parallel.ep > 1, but the model has no experts")));
}

// A model of somebody's own fork.
TEST(ImportTorchtitan, AModelMayBeStated) {
  ImportRequest r = request(
      "torchtitan",
      R"({"model": {"name": "llama3", "flavor": "9B"}, "parallelism": {"pipeline_parallel_degree": 4},
          "training": {"seq_len": 4096, "local_batch_size": 4}})");
  for (const auto& [path, value] : {std::pair{"model", "llama3-8b"},
                                    {"model.preset", "llama3-8b"},
                                    {"model", "{preset: llama3-8b}"}}) {
    r.set = {{path, value}};
    EXPECT_EQ(import_run(r).parameters, 8'030'261'248) << path << " " << value;
  }
  r.set = {{"model", "llama3-9b"}};
  EXPECT_EQ(testing::failure_of([&] { import_run(r); }).codes, "E125");
}

TEST(ImportTorchtitan, WhatIsWrongIsRefusedWhereItStands) {
  EXPECT_THAT(import_failure("torchtitan", "{\"a\": 1}").codes, "E330");
  EXPECT_THAT(
      import_failure("torchtitan", R"({"model": {"name": "llama3", "flavor": "9B"}})").lines,
      ElementsAre(HasSubstr("the sizes of the model 'llama3-9b' are not known")));
  EXPECT_THAT(import_failure("torchtitan", titan("\"tensor_parallel_degree\": 0")).lines,
              ElementsAre(HasSubstr("E331 1:")));
  EXPECT_THAT(import_failure("torchtitan", titan(R"("pipeline_parallel_degree": 4,
              "pipeline_parallel_layers_per_stage": 4)"))
                  .lines,
              ElementsAre(HasSubstr("9 stages do not fit on 4 pipeline ranks")));
  EXPECT_THAT(import_failure("torchtitan", titan(R"("fsdp_reshard_after_forward": "often")")).lines,
              ElementsAre(HasSubstr("must be default, always or never")));
}

// --- deepspeed ---

ImportRequest deepspeed(const std::string& text) {
  ImportRequest r = request("deepspeed", text);
  r.model_file = "config.json";
  r.model_text = import_sample("llama3_8b.config.json");
  return r;
}

TEST(ImportDeepSpeed, ApexSaysThePrecisionToo) {
  const auto of = [](const std::string& amp) {
    return import_run(deepspeed("{\"train_micro_batch_size_per_gpu\": 1, \"amp\": " + amp + "}"));
  };
  EXPECT_EQ(value_of(of(R"({"enabled": true, "opt_level": "O2"})"), "precision.preset"),
            "fp16-mixed");
  const ImportedRun products = of(R"({"enabled": true})");
  EXPECT_EQ(value_of(products, "precision.preset"), "fp32");
  EXPECT_THAT(notes(products), HasSubstr("amp.opt_level O1 (some kernels in fp16): not modelled"));
  EXPECT_THAT(notes(of(R"({"enabled": false, "opt_level": "O2"})")), Not(HasSubstr("amp")));
  EXPECT_THAT(unknown(of("true")), HasSubstr("amp@"));
}

// The Trainer of transformers fills "auto" in, and does not ask for Apex unless it is told to.
TEST(ImportDeepSpeed, ApexThatIsLeftToTheTrainerIsOff) {
  const auto of = [](const std::string& more) {
    return import_run(deepspeed("{\"train_micro_batch_size_per_gpu\": 1, " + more + "}"));
  };
  const std::string left = R"("amp": {"enabled": "auto", "opt_level": "auto"})";
  EXPECT_EQ(value_of(of(left), "precision.preset"), "fp32");
  const ImportedRun both = of(R"("bf16": {"enabled": "auto"}, )" + left);
  EXPECT_EQ(value_of(both, "precision.preset"), "bf16-mixed");
  EXPECT_THAT(notes(both), HasSubstr("precision.preset: bf16-mixed is assumed"));
  const ImportedRun apex =
      of(R"("bf16": {"enabled": "auto"}, "amp": {"enabled": true, "opt_level": "auto"})");
  EXPECT_EQ(value_of(apex, "precision.preset"), "fp32");
  EXPECT_THAT(notes(apex), HasSubstr("amp.opt_level O1 (some kernels in fp16): not modelled"));
  EXPECT_THAT(notes(apex), Not(HasSubstr("is assumed: the file leaves it to the Trainer")));
}

TEST(ImportDeepSpeed, EveryFieldHasItsPlace) {
  const ImportedRun run = import_run(deepspeed(import_sample("deepspeed.json")));
  EXPECT_EQ(unknown(run), "");
  for (const auto& [path, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model.model_type", "llama"},
           {"batch.global", "64"},
           {"batch.micro", "2"},
           {"cluster.nodes", "1"},  // 64 = 2 x 4 x 8
           {"parallel.zero", "3"},
           {"overlap.dp_grad", "true"},
           {"overlap.bucket", "200000000"},
           {"offload.optimizer", "1"},
           {"precision.preset", "bf16-mixed"},
           {"optimizer.kind", "adamw"},
           {"optimizer.clip", "true"}})
    EXPECT_EQ(value_of(run, path), value) << path;
  EXPECT_THAT(notes(run), HasSubstr("stage3_prefetch_bucket_size 5e7: not modelled"));
}

TEST(ImportDeepSpeed, WhatIsLeftToTheTrainerIsAskedFor) {
  ImportRequest r = deepspeed(
      "{\"train_batch_size\": \"auto\",\n \"train_micro_batch_size_per_gpu\": \"auto\",\n "
      "\"gradient_accumulation_steps\": \"auto\", \"bf16\": {\"enabled\": \"auto\"}}");
  const auto f = testing::failure_of([&] { import_run(r); });
  EXPECT_EQ(f.codes, "E332 E332 E332");
  EXPECT_THAT(f.all.front().help, HasSubstr("-s batch.global=N"));
  r.set = {{"batch.global", "32"}, {"batch.micro", "4"}};
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, "batch.global"), "32");
  EXPECT_EQ(value_of(run, "batch.micro"), "4");
  EXPECT_THAT(notes(run), HasSubstr("precision.preset: bf16-mixed is assumed"));
}

// Files that a script fills in with sed.
TEST(ImportDeepSpeed, ATemplateIsFilledInByWordsBehindIt) {
  ImportRequest r = deepspeed(
      "{\"train_batch_size\": GLOBAL_SIZE, \"train_micro_batch_size_per_gpu\": MBSIZE, "
      "\"steps_per_print\": LOG_EVERY,\n\"zero_optimization\": {\"stage\": ZERO_STAGE}, "
      "\"bf16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"LAMB\"}}");
  const auto open = testing::failure_of([&] { import_run(r); });
  EXPECT_THAT(open.lines,
              ElementsAre(HasSubstr("E332 1:22 this file is a template: it does not say "
                                    "GLOBAL_SIZE, MBSIZE, ZERO_STAGE")));
  EXPECT_THAT(open.all.front().help, HasSubstr("GLOBAL_SIZE=... MBSIZE=... ZERO_STAGE=..."));
  r.given = {"GLOBAL_SIZE=64", "MBSIZE=4", "ZERO_STAGE=1"};
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, "batch.global"), "64");
  EXPECT_EQ(value_of(run, "parallel.zero"), "1");
  r.given = {"MBSIZE=4", "ZERO_STAGE=1"};
  r.set.emplace_back("batch.global", "32");
  EXPECT_EQ(value_of(import_run(r), "batch.global"), "32");
}

TEST(ImportDeepSpeed, ItsOwnValuesInCapitalsAreNoPlaceholders) {
  const auto with = [](const std::string& text) {
    return import_run(deepspeed("{\"train_micro_batch_size_per_gpu\": 1, " + text + "}"));
  };
  EXPECT_EQ(value_of(with("\"communication_data_type\": \"FP32\""), "precision.reduce"), "fp32");
  EXPECT_EQ(value_of(with("\"communication_data_type\": \"BF16\""), "precision.reduce"), "bf16");
  EXPECT_EQ(value_of(with("\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": "
                          "{\"device\": \"CPU\"}}"),
                     "offload.optimizer"),
            "1");
  EXPECT_THAT(notes(with("\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": "
                         "{\"device\": \"NVME\"}}")),
              HasSubstr("device NVME"));
}

TEST(ImportDeepSpeed, StagesAndDefaults) {
  const auto zero = [](const std::string& text) {
    return import_run(deepspeed("{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": {" +
                                text + "}}"));
  };
  EXPECT_EQ(value_of(zero("\"stage\": 2"), "parallel.zero"), "2");
  EXPECT_EQ(value_of(zero("\"stage\": 2"), "overlap.dp_grad"), "false");
  EXPECT_EQ(value_of(zero("\"stage\": 3"), "overlap.dp_grad"), "true");
  EXPECT_EQ(value_of(zero("\"stage\": 1"), "overlap.bucket"), "500000000");
  EXPECT_EQ(value_of(zero("\"stage\": 2, \"allgather_bucket_size\": 2e8"), "overlap.gather_bucket"),
            "200000000");
  EXPECT_EQ(value_of(zero("\"stage\": 3"), "parallel.fsdp"), "deepspeed");
  EXPECT_EQ(value_of(zero("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}"),
                     "offload.parameters"),
            "true");
  EXPECT_THAT(notes(zero("\"stage\": 3, \"zero_hpz_partition_size\": 8")),
              HasSubstr("zero_hpz_partition_size 8: not modelled"));
  EXPECT_EQ(value_of(zero("\"stage\": 1"), "optimizer.clip"), "false");
}

TEST(ImportDeepSpeed, CommunicationAndCheckpoints) {
  const auto with = [](const std::string& text) {
    return import_run(deepspeed("{\"train_micro_batch_size_per_gpu\": 1, " + text + '}'));
  };
  EXPECT_EQ(value_of(with("\"communication_data_type\": \"bf16\""), "precision.reduce"), "bf16");
  const auto checkpoints = [&](const std::string& text) {
    return notes(with("\"activation_checkpointing\": {" + text + '}'));
  };
  EXPECT_THAT(checkpoints("\"partition_activations\": true"), HasSubstr("distribute: true"));
  EXPECT_THAT(checkpoints("\"partition_activations\": false"), Not(HasSubstr("distribute")));
  EXPECT_THAT(checkpoints("\"cpu_checkpointing\": true"), HasSubstr("not modelled, left out"));
}

TEST(ImportDeepSpeed, WrongFilesAreRefused) {
  EXPECT_EQ(import_failure("deepspeed", "{\"train_batch_size\": 8}").codes, "E332");  // no model
  EXPECT_EQ(import_failure("deepspeed", "{\"lr\": 8}").codes, "E330");
  const auto failed = [](const std::string& text) {
    return testing::failure_of([&] { import_run(deepspeed(text)); }).lines;
  };
  EXPECT_THAT(failed("{\"zero_optimization\": {\"stage\": 4}}"),
              ElementsAre("E331 1:33 'zero_optimization.stage' must be 0, 1, 2 or 3"));
  EXPECT_THAT(failed("{\"train_batch_size\": 9, \"train_micro_batch_size_per_gpu\": 2, "
                     "\"gradient_accumulation_steps\": 2}"),
              ElementsAre(HasSubstr("is no multiple of")));
  EXPECT_THAT(failed("{\"train_batch_size\": -1}"), ElementsAre(HasSubstr("E331 1:22")));
  EXPECT_THAT(failed("{\"train_micro_batch_size_per_gpu\": 1, "
                     "\"sequence_parallel_size\": 1000000000}"),
              ElementsAre(HasSubstr("'sequence_parallel_size' is too large")));
}

// --- nanotron ---

TEST(ImportNanotron, EveryFieldHasItsPlace) {
  const ImportedRun run = imported("nanotron", import_sample("nanotron.yaml"));
  EXPECT_EQ(unknown(run), "");
  for (const auto& [path, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model.model_type", "llama"},
           {"model.num_key_value_heads", "8"},
           {"parallel.dp", "4"},
           {"parallel.pp", "2"},
           {"parallel.tp", "4"},
           {"parallel.sp", "true"},
           {"cluster.nodes", "4"},
           {"batch.micro", "2"},
           {"batch.global", "64"},
           {"batch.seq", "4096"},
           {"parallel.zero", "1"},
           {"schedule.kind", "\"1f1b\""},
           {"overlap.tp", "backward"},
           {"overlap.bucket", "13107200"},
           {"precision.preset", "bf16-mixed"},
           {"precision.grads", "fp32"},
           {"optimizer.clip", "true"},
           {"optimizer.kind", "adamw"}})
    EXPECT_EQ(value_of(run, path), value) << path;
  EXPECT_EQ(testing::load(run.scenario).plan.dp, 4);
}

// What nanotron launches for its Qwen2, SmolLM3's kind of model, whose norm before attention is
// PyTorch's operators whatever the file says.
TEST(ImportNanotron, Qwen2HasTheNormsAndBiasesOfNanotronsLayer) {
  const auto qwen = [](const std::string& keys) {
    std::string text = import_sample("nanotron.yaml");
    const std::string from = "    is_llama_config: true\n";
    return imported("nanotron", text.replace(text.find(from), from.size(),
                                             "    is_qwen2_config: true\n" + keys));
  };
  const ImportedRun run =
      qwen("    _fused_rms_norm: true\n    _use_doc_masking: true\n    attention_bias: false\n");
  EXPECT_EQ(unknown(run), "");
  EXPECT_EQ(value_of(run, "kernels.fused_input_norm"), "false");
  EXPECT_EQ(value_of(run, "kernels.fused_norm"), "");
  EXPECT_FALSE(testing::load(run.scenario).model.attention_bias);
  EXPECT_THAT(notes(run), HasSubstr("_use_doc_masking: not modelled, left out"));
  EXPECT_EQ(value_of(qwen("    _fused_rms_norm: false\n"), "kernels.fused_norm"), "false");
  EXPECT_TRUE(testing::load(qwen("    attention_bias: true\n").scenario).model.attention_bias);
  const ImportedRun defaults = qwen("");
  EXPECT_FALSE(testing::load(defaults.scenario).model.attention_bias);
  EXPECT_EQ(value_of(defaults, "kernels.fused_norm"), "false");
  EXPECT_EQ(value_of(defaults, "kernels.fused_rotary"), "false");
  EXPECT_EQ(value_of(qwen("    _use_qkv_packed: true\n"), "kernels.fused_rotary"), "");
  EXPECT_EQ(
      value_of(imported("nanotron", import_sample("nanotron.yaml")), "kernels.fused_input_norm"),
      "");  // Llama's
}

TEST(ImportNanotron, OtherValuesOfTheSameFields) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = import_sample("nanotron.yaml");
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const auto value = [&](const char* from, const char* to, const char* path) {
    return value_of(imported("nanotron", changed(from, to)), path);
  };
  EXPECT_EQ(value("pp_engine: 1f1b", "pp_engine: afab", "schedule.kind"), "gpipe");
  EXPECT_EQ(value("REDUCE_SCATTER", "ALL_REDUCE", "parallel.sp"), "false");
  EXPECT_EQ(value("recompute_layer: false", "recompute_layer: true", "recompute.granularity"),
            "full");
  EXPECT_EQ(value("async_communication: true", "async_communication: false", "overlap.tp"), "none");
  EXPECT_EQ(value("expert_parallel_size: 1", "context_parallel_size: 2", "parallel.cp"), "2");
  EXPECT_EQ(value("dtype: bfloat16", "dtype: float32", "precision.preset"), "fp32");
  EXPECT_THAT(import_failure("nanotron", changed("pp_engine: 1f1b", "pp_engine: zigzag")).lines,
              ElementsAre(HasSubstr("'parallelism.pp_engine' must be 1f1b or afab")));
  EXPECT_THAT(import_failure("nanotron", changed("  tp: 4", "  tp: many")).lines,
              ElementsAre(HasSubstr("'parallelism.tp' must be a whole number")));
  EXPECT_EQ(import_failure("nanotron", "parallelism: {dp: 2}").codes, "E330");
}

// Experts stand in a mapping of their own, whose defaults are nanotron's; PyYAML takes the last of
// a key that is there twice.
TEST(ImportNanotron, ExpertsStandInAMappingOfTheirOwn) {
  const auto with = [](const std::string& experts) {
    std::string text = import_sample("nanotron.yaml");
    const std::string kind = "is_llama_config: true";
    text.replace(text.find(kind), kind.size(),
                 "is_qwen2_config: true\n    moe_config: null\n    moe_config: " + experts);
    return imported("nanotron", text);
  };
  const ImportedRun plain = with("{num_experts: 16, moe_intermediate_size: 512}");
  EXPECT_EQ(unknown(plain), "");
  EXPECT_EQ(value_of(plain, "model.model_type"), "qwen2_moe");
  EXPECT_EQ(value_of(plain, "model.num_experts"), "16");
  EXPECT_EQ(value_of(plain, "model.num_experts_per_tok"), "2");
  EXPECT_EQ(value_of(plain, "model.moe_intermediate_size"), "512");
  EXPECT_EQ(value_of(plain, "model.qkv_bias"), "false");  // transformers' Qwen2 has it
  EXPECT_THAT(notes(plain), HasSubstr("'moe_config' is given again in line"));
  // Matrices of Q, K, V, of attention's output, of the router and of the experts.
  const int64_t h = 4096, kv = 1024, layers = 32, vocabulary = 128256;
  const int64_t attention = 2 * h * h + 2 * h * kv, norms = 2 * h;
  const int64_t dense = layers * (attention + norms) + 2 * vocabulary * h + h;
  EXPECT_EQ(plain.parameters, dense + layers * (16 * 3 * h * 512 + 16 * h));
  const ImportedRun shared = with(
      "{num_experts: 16, top_k: 4, moe_intermediate_size: 512, enable_shared_expert: true, "
      "shared_expert_intermediate_size: 1024}");
  EXPECT_EQ(shared.parameters, plain.parameters + layers * (3 * h * 1024 + h));
  const ImportedRun two = with("{num_experts: 16, moe_intermediate_size: 512, layers: [0, 31]}");
  EXPECT_EQ(two.parameters, dense + 30 * 3 * h * 14336 + 2 * (16 * 3 * h * 512 + 16 * h));
}

// PyYAML reads all of these as booleans.
TEST(ImportNanotron, FlagsOfTheModelAreReadInAllSpellingsOfYaml) {
  const auto with = [](const std::string& kind, const std::string& shared) {
    std::string text = import_sample("nanotron.yaml");
    const std::string from = "is_llama_config: true";
    text.replace(text.find(from), from.size(),
                 "is_llama_config: Off\n    is_qwen2_config: " + kind +
                     "\n    moe_config: {num_experts: 16, moe_intermediate_size: 512, "
                     "enable_shared_expert: " +
                     shared + "}");
    return text;
  };
  const ImportedRun shared = imported("nanotron", with("true", "true"));
  const ImportedRun none = imported("nanotron", with("true", "false"));
  EXPECT_GT(shared.parameters, none.parameters);
  EXPECT_EQ(value_of(shared, "kernels.fused_norm"), "false");
  for (const char* yes : {"True", "TRUE", "yes", "Yes", "On"}) {
    const ImportedRun run = imported("nanotron", with(yes, yes));
    EXPECT_EQ(value_of(run, "model.model_type"), "qwen2_moe") << yes;
    EXPECT_EQ(run.parameters, shared.parameters) << yes;
    EXPECT_EQ(value_of(run, "kernels.fused_norm"), "false") << yes;
  }
  for (const char* no : {"False", "NO", "off", "null", "~"})
    EXPECT_EQ(imported("nanotron", with("true", no)).parameters, none.parameters) << no;
  EXPECT_THAT(import_failure("nanotron", with("true", "maybe")).lines,
              ElementsAre(HasSubstr("'enable_shared_expert' must be true or false, not 'maybe'")));
  EXPECT_THAT(import_failure("nanotron", with("[true]", "true")).lines,
              ElementsAre(HasSubstr("'is_qwen2_config' must be true or false, not '[true]'")));
}

TEST(ImportNanotron, KeysOfItsOwnAreKnown) {
  std::string text = import_sample("nanotron.yaml");
  const std::string kind = "is_llama_config: true";
  text.replace(text.find(kind), kind.size(),
               kind +
                   "\n    rope_interleaved: false\n    z_loss_enabled: true\n    "
                   "_use_doc_masking: true");
  text += "doremi: {domain_names: [a], ref_model_resume_checkpoint_path: b}\n";
  const ImportedRun run = imported("nanotron", text);
  EXPECT_EQ(unknown(run), "");
  EXPECT_THAT(notes(run), HasSubstr("_use_doc_masking: not modelled"));
  EXPECT_THAT(notes(run), HasSubstr("doremi.ref_model_resume_checkpoint_path b: not modelled"));
}

TEST(ImportNanotron, AModelThatItsFlagNamesAndNobodyKnowsIsRefusedByThatName) {
  std::string text = import_sample("nanotron.yaml");
  const std::string kind = "is_llama_config";
  text.replace(text.find(kind), kind.size(), "is_llamoe_config");
  EXPECT_THAT(import_failure("nanotron", text).lines.front(),
              HasSubstr("unknown model_type 'llamoe'"));
}

}  // namespace
}  // namespace stepcast::import_configs_test
