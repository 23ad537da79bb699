// SPDX-License-Identifier: Apache-2.0
// Primus's YAML, which names its defaults and its model in other files of its tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::import_primus_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::import_sample;
using testing::notes;
using testing::value_of;

// A sample with the files around it.
ImportRequest sample(const std::string& file, const std::string& words = "") {
  ImportRequest r = testing::request("auto", import_sample("primus/" + file));
  r.file = file;
  std::istringstream in(words);
  for (std::string word; in >> word;) r.given.push_back(word);
  const auto folder =
      std::filesystem::path(STEPCAST_TEST_DATA "/imports/primus/" + file).parent_path();
  r.files = [folder](std::string_view name) -> std::optional<std::string> {
    std::ifstream at(folder / std::filesystem::path(name), std::ios::binary);
    if (!at || std::filesystem::is_directory(folder / std::filesystem::path(name))) return {};
    std::ostringstream text;
    text << at.rdbuf();
    return text.str();
  };
  return r;
}

using Files = std::map<std::string, std::string>;

// A trainer in the folder `examples` beside files below primus/configs.
ImportRequest trainer(const std::string& text, const Files& files) {
  ImportRequest r = testing::request("primus", text);
  r.files = [files](std::string_view path) -> std::optional<std::string> {
    constexpr std::string_view kTree = "../primus/configs/";
    if (!path.starts_with(kTree)) return {};
    const auto at = files.find(std::string(path.substr(kTree.size())));
    if (at == files.end()) return {};
    return at->second;
  };
  return r;
}

const std::string kTrainer =
    "modules:\n  pre_trainer:\n    framework: megatron\n    config: c.yaml\n    model: m.yaml\n"
    "    overrides:\n      micro_batch_size: 1\n";
const std::string kDefaults =
    "global_batch_size: 8\nseq_length: 512\nbf16: true\ncheckpoint_activations: false\n";
const std::string kModel =
    "num_layers: 4\nhidden_size: 256\nnum_attention_heads: 4\nvocab_size: 1024\n"
    "max_position_embeddings: 512\n";

Files tree(const std::string& more_defaults = "", const std::string& more_of_model = "") {
  return {{"modules/megatron/c.yaml", kDefaults + more_defaults},
          {"models/megatron/m.yaml", kModel + more_of_model}};
}

ImportedRun run_of(const std::string& overrides, const Files& files = tree()) {
  return import_run(trainer(kTrainer + overrides, files));
}

std::string refusal(const ImportRequest& r) {
  try {
    import_run(r);
  } catch (const InputError& e) {
    const Diagnostic& d = e.diagnostics.front();
    return d.code + " " + d.message + " | " + d.help;
  }
  return "";
}

TEST(ImportPrimus, FilesInTheirTreeGiveWhatTheirModelsHave) {
  std::istringstream lines(import_sample("primus/expected.csv"));
  int files = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#') || line.starts_with("file,")) continue;
    std::vector<std::string> row;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) row.push_back(field);
    SCOPED_TRACE(line);
    ++files;
    const ImportRequest request = sample(row[0], row[1]);
    EXPECT_EQ(kind_of_file(request.text), "primus");
    try {
      const ImportedRun run = import_run(request);
      const auto size = [&](const char* path) {
        const std::string v = value_of(run, path);
        return v.empty() ? "1" : v;
      };
      EXPECT_EQ(std::to_string(run.parameters), row[2]);
      EXPECT_EQ(std::to_string(run.gpus), row[3]);
      EXPECT_EQ(size("parallel.tp"), row[4]);
      EXPECT_EQ(size("parallel.pp"), row[5]);
      EXPECT_EQ(size("batch.global"), row[6]);
      EXPECT_EQ(testing::unknown(run), "");
    } catch (const InputError& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GE(files, 20);
}

TEST(ImportPrimus, OverridesCountOverDefaultsAndTheseOverTheModel) {
  const Files files =
      tree("num_query_groups: 2\ngroup_query_attention: true\nhidden_dropout: 0.0\n",
           "num_query_groups: 1\nhidden_dropout: 0.1\n");
  EXPECT_EQ(value_of(run_of("", files), "model.num_key_value_heads"), "2");
  EXPECT_EQ(value_of(run_of("      num_query_groups: 4\n", files), "model.num_key_value_heads"),
            "4");
  EXPECT_EQ(
      value_of(run_of("      group_query_attention: false\n", files), "model.num_key_value_heads"),
      "4");
  // null is what Megatron has without the argument.
  EXPECT_EQ(value_of(run_of("      num_query_groups: null\n", files), "model.num_key_value_heads"),
            "1");
}

TEST(ImportPrimus, VariablesHaveTheirDefaultsOrWhatIsGiven) {
  ImportRequest r = trainer(
      kTrainer + "      tensor_model_parallel_size: ${TP:2}\n      save: ${SAVE:null}\n", tree());
  EXPECT_EQ(value_of(import_run(r), "parallel.tp"), "2");
  r.given = {"TP=4", "NNODES=4"};
  EXPECT_EQ(value_of(import_run(r), "parallel.tp"), "4");
  EXPECT_EQ(import_run(r).gpus, 32);
  EXPECT_THAT(notes(run_of("")), HasSubstr("NNODES=N"));
  EXPECT_THAT(notes(import_run(r)), ::testing::Not(HasSubstr("NNODES=N")));
  // One without a default is asked for where it counts.
  EXPECT_THAT(refusal(trainer(kTrainer + "      tensor_model_parallel_size: ${TP}\n", tree())),
              AllOf(HasSubstr("E331"), HasSubstr("${TP}")));
}

// Before it trains, Megatron-LM accumulates in fp32 for bf16, whatever Primus's defaults say.
TEST(ImportPrimus, GradientsAreFp32UnlessTheFileSaysBf16) {
  const Files files = tree("accumulate_allreduce_grads_in_fp32: false\n");
  const auto grads = [&](const std::string& overrides) {
    return value_of(run_of(overrides, files), "precision.grads");
  };
  EXPECT_EQ(grads(""), "");  // fp32, as the preset
  EXPECT_EQ(value_of(run_of("", files), "precision.preset"), "bf16-mixed");
  EXPECT_EQ(grads("      main_grads_dtype: fp32\n"), "");
  EXPECT_EQ(grads("      main_grads_dtype: null\n"), "");
  EXPECT_EQ(grads("      main_grads_dtype: bf16\n"), "bf16");
  EXPECT_EQ(grads("      grad_reduce_in_bf16: true\n"), "bf16");
}

TEST(ImportPrimus, TorchtitanTakesTheNodesThatAreGiven) {
  const std::string file = "examples/torchtitan/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml";
  const auto run = [&](const std::string& words) { return import_run(sample(file, words)); };
  EXPECT_THAT(notes(run("")), HasSubstr("8 GPUs are assumed"));
  EXPECT_THAT(notes(run("NNODES=4")), ::testing::Not(HasSubstr("are assumed: data_parallel")));
  EXPECT_EQ(run("NNODES=2 GPUS_PER_NODE=4").gpus, 8);
  EXPECT_EQ(run("GPUS_PER_NODE=4").gpus, 4);
  for (const char* words :
       {"NNODES=0", "NNODES=x", "NNODES=100000", "NNODES=-1", "NNODES=99999999999999999999"})
    EXPECT_THAT(refusal(sample(file, words)), HasSubstr("E331")) << words;
  // Its degrees make 8.
  EXPECT_THAT(refusal(sample("examples/torchtitan/configs/MI300X/"
                             "llama3.1_405B-20layers-pretrain.yaml",
                             "NNODES=1 GPUS_PER_NODE=12")),
              AllOf(HasSubstr("E332"), HasSubstr("12 GPUs")));
}

TEST(ImportPrimus, WordsThatNothingReadsAreNamed) {
  ImportRequest r =
      trainer(kTrainer + "      tensor_model_parallel_size: ${PRIMUS_TP:2}\n", tree());
  r.given = {"PRIMUS_TPP=4", "NNODES=1", "PRIMUS_TP=1", "word"};
  EXPECT_THAT(
      notes(import_run(r)),
      AllOf(HasSubstr("PRIMUS_TPP=4: nothing"), HasSubstr("word: nothing"),
            ::testing::Not(HasSubstr("PRIMUS_TP=1:")), ::testing::Not(HasSubstr("NNODES=1:"))));
}

TEST(ImportPrimus, TruthsAndNumbersAreReadAsPrimusDoes) {
  for (const char* truth : {"TRUE", "True", "${G:TRUE}", "\"${G:True}\""})
    EXPECT_EQ(value_of(run_of(std::string("      swiglu: ") + truth + "\n"), "model.gated_mlp"),
              "true")
        << truth;
  EXPECT_EQ(value_of(run_of("", tree("", "ffn_hidden_size: 0x100\n")), "model.intermediate_size"),
            "256");
}

TEST(ImportPrimus, WindowsMayBeAListThatBeginsWithOne) {
  const std::string windows = "      window_size: [128, 0]\n      window_attn_skip_freq: ";
  for (const char* list : {"[1, 0, 1, 0]", "\"[1, 0, 1, 0]\""})
    EXPECT_EQ(value_of(run_of(windows + list + "\n"), "model.layer_types"),
              "[sliding_attention, full_attention, sliding_attention, full_attention]")
        << list;
  const std::string experts =
      "      num_experts: 8\n      moe_router_topk: 2\n      moe_layer_freq: [1, 0, 1, 0]\n";
  EXPECT_EQ(value_of(run_of(experts), "model.mlp_only_layers"), "[1, 3]");
}

TEST(ImportPrimus, ItsDispatcherOfExpertsNeedsPrimusTurbo) {
  const std::string experts = "      num_experts: 8\n      expert_model_parallel_size: 4\n";
  const auto value = [&](const std::string& turbo, const char* path) {
    return value_of(run_of(experts + turbo), path);
  };
  const std::string on = "      enable_primus_turbo: true\n";
  const std::string deepep = "      use_turbo_deepep: true\n";
  const std::string stage = "      turbo_sync_free_moe_stage: ";
  EXPECT_EQ(value(on + deepep, "moe.dispatcher"), "deepep");
  EXPECT_NE(value(deepep, "moe.dispatcher"), "deepep");
  EXPECT_EQ(value(on + stage + "2\n", "moe.dispatcher"), "deepep");
  EXPECT_NE(value(on + stage + "1\n", "moe.dispatcher"), "deepep");
  EXPECT_EQ(value(on + stage + "1\n", "moe.permute_fusion"), "true");
  EXPECT_EQ(value(on, "moe.permute_fusion"), "false");
}

TEST(ImportPrimus, FilesThatAreNotThereAreNamed) {
  EXPECT_THAT(refusal(trainer(kTrainer, {})),
              AllOf(HasSubstr("E332"), HasSubstr("primus/configs/models/megatron/m.yaml"),
                    HasSubstr("--export_config")));
  Files files = tree("", "extends: [base.yaml]\n");
  EXPECT_THAT(refusal(trainer(kTrainer, files)),
              AllOf(HasSubstr("E332"), HasSubstr("models/megatron/base.yaml")));
  files["models/megatron/base.yaml"] = "swiglu: true\n";
  EXPECT_EQ(value_of(run_of("", files), "model.gated_mlp"), "true");
}

TEST(ImportPrimus, OnlyFilesOfItsTreeAreRead) {
  for (const std::string model : {"../../../../secret", "../../../m"}) {
    const std::string text =
        "modules:\n  t:\n    framework: megatron\n    config: c.yaml\n    model: " + model +
        ".yaml\n";
    EXPECT_THAT(refusal(trainer(text, tree())), HasSubstr("E111")) << model;
  }
  EXPECT_THAT(refusal(trainer(kTrainer, tree("", "extends: ../../../../x.yaml\n"))),
              HasSubstr("E111"));
}

TEST(ImportPrimus, FilesThatExtendEachOtherEnd) {
  EXPECT_THAT(refusal(trainer(kTrainer, tree("", "extends: m.yaml\n"))), HasSubstr("E106"));
  Files files = tree("", "extends: [b.yaml, b.yaml]\n");
  for (const char* name : {"b", "c", "d", "e", "f", "g"})
    files[std::string("models/megatron/") + name + ".yaml"] =
        std::string("extends: [") + static_cast<char>(name[0] + 1) + ".yaml, " +
        static_cast<char>(name[0] + 1) + ".yaml]\n";
  files["models/megatron/h.yaml"] = "swiglu: true\n";
  EXPECT_THAT(refusal(trainer(kTrainer, files)), HasSubstr("E106"));
  EXPECT_THAT(refusal(trainer(kTrainer, tree("", std::string(size_t{5} << 20, '#')))),
              HasSubstr("E106"));
}

TEST(ImportPrimus, PartsThatAreNotForecastAreNamed) {
  struct Case {
    const char *overrides, *part;
  };
  for (const auto& [overrides, part] :
       {Case{"      lora: {enabled: true, dim: 8}\n", "adapters"},
        Case{"      lfm_layer_types: [conv, full_attention]\n", "convolutions"},
        Case{"      recompute_layer_ids: \"0,3\"\n", "one by one"},
        Case{"      spec: [primus.backends.hybrid.specs, kda_stack]\n", "kda_stack"},
        Case{"      model_type: deepseek_v4\n", "deepseek_v4"},
        Case{"      patch_primus_pipeline: true\n", "Primus's own pipeline"}})
    EXPECT_THAT(refusal(trainer(kTrainer + overrides, tree())),
                AllOf(HasSubstr("E130"), HasSubstr(part)))
        << overrides;
  EXPECT_NO_THROW(run_of("      lora: {enabled: false, dim: 8}\n"));
  for (const char* framework : {"maxtext", "megatron_bridge", "diffusion", "something"}) {
    const std::string text =
        std::string("modules: {t: {framework: ") + framework + ", config: a, model: b}}\n";
    EXPECT_THAT(refusal(trainer(text, {})), AllOf(HasSubstr("E130"), HasSubstr(framework)));
  }
}

TEST(ImportPrimus, ZeroBubbleCountsWhereItIsSwitchedOn) {
  const std::string options =
      "      pipeline_model_parallel_size: 4\n      enable_zero_bubble: true\n"
      "      zero_bubble_max_pending_backward: 4\n";
  EXPECT_EQ(value_of(run_of(options), "schedule.kind"), "\"1f1b\"");
  EXPECT_THAT(value_of(run_of(options + "      patch_zero_bubble: true\n"), "schedule.kind"),
              HasSubstr("zb"));
}

TEST(ImportPrimus, KernelsOfItsOwnAreLeftOutAloud) {
  EXPECT_THAT(notes(run_of("      enable_primus_turbo: true\n")),
              HasSubstr("enable_primus_turbo true: not modelled"));
  EXPECT_THAT(notes(run_of("      enable_primus_turbo: false\n")),
              ::testing::Not(HasSubstr("enable_primus_turbo")));
}

TEST(ImportPrimus, FilesOfAnotherShapeAreRefused) {
  EXPECT_THAT(refusal(trainer(kTrainer, {{"modules/megatron/c.yaml", kDefaults},
                                         {"models/megatron/m.yaml", "- a\n"}})),
              HasSubstr("E331 this file must be a mapping"));
  Files with_empty = tree("", "extends: e.yaml\n");
  with_empty["models/megatron/e.yaml"] = "# nothing\n";
  EXPECT_NO_THROW(run_of("", with_empty));
  for (const char* extends : {"extends: {a: b}\n", "extends: [[base.yaml]]\n"})
    EXPECT_THAT(refusal(trainer(kTrainer, tree("", extends))), HasSubstr("E331")) << extends;
  EXPECT_NO_THROW(run_of("", tree("", "extends: null\n")));
  EXPECT_THAT(refusal(trainer("modules: {t: {framework: megatron, config: c.yaml, model: m.yaml, "
                              "overrides: 3}}\n",
                              tree())),
              AllOf(HasSubstr("E331"), HasSubstr("overrides")));
  for (const char* text : {"modules: 3\n", "modules: {t: {config: a}}\n", "[1, 2]\n", "a: b\n"})
    EXPECT_THAT(refusal(trainer(text, {})), HasSubstr("E330")) << text;
  EXPECT_THAT(refusal(trainer("modules: {t: {framework: megatron, config: a.yaml}}\n", {})),
              AllOf(HasSubstr("E332"), HasSubstr("model")));
  EXPECT_THAT(refusal(trainer("modules: {t: {framework: [megatron], config: a.yaml}}\n", {})),
              HasSubstr("E330"));
}

}  // namespace
}  // namespace stepcast::import_primus_test
