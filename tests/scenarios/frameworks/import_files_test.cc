// SPDX-License-Identifier: Apache-2.0
// Files of other tools than Megatron's arguments: what each row of the tables becomes, and what is
// said about broken ones.
#include "scenarios/frameworks/import_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/frameworks/import_log.h"
#include "scenarios/frameworks/import_shell.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/python_list.h"
#include "scenarios/resolve/model_families.h"
#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::import_files_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::import_failure;
using testing::import_sample;
using testing::imported;
using ::testing::Not;
using testing::notes;
using testing::request;
using testing::unknown;
using testing::value_of;

// --- python ---

TEST(PythonList, ReadsWhatPatternsOfLayersAreWrittenIn) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(python_list("[0, 1]"), (List{0, 1}));
  EXPECT_EQ(python_list("([0]*2+[1]*3)"), (List{0, 0, 1, 1, 1}));
  EXPECT_EQ(python_list("3*[1,]"), (List{1, 1, 1}));
  EXPECT_EQ(python_list("([1]+[0]*1)*2"), (List{1, 0, 1, 0}));
  EXPECT_EQ(python_list("[]"), List{});
  EXPECT_EQ(python_whole(" 8*4 + 1"), 33);
  EXPECT_EQ(python_whole("32/8"), 4);
}

TEST(PythonList, RefusesEverythingElse) {
  for (const char* text :
       {"", "[0", "[0]*[1]", "[0]+1", "(1", "1 2", "__import__('os')", "[[0]]", "[0]*1000000",
        "1/0", "-1", "[0]*1000*1000", "1.5", "0x10", "999999999*999999999*999999999"}) {
    EXPECT_FALSE(python_list(text)) << text;
    EXPECT_FALSE(python_whole(text)) << text;
  }
  EXPECT_FALSE(python_whole(std::string(10'000, '(') + "1"));
}

// --- shell ---

std::string arguments_in(const std::string& script) {
  Problems problems;
  const ShellScript s = read_shell(problems.add_source({"file", script, false}));
  std::string all;
  for (const auto& command : s.commands)
    for (const Argument& a : arguments_of(command)) {
      all += a.name + '=' + to_flow(a.value) + '@' + std::to_string(a.value.mark.line) + ':' +
             std::to_string(a.value.mark.column) + ' ';
    }
  return all;
}

TEST(ShellArguments, AreReadWithTheirPlaces) {
  EXPECT_EQ(arguments_in("train --a 1 --b=2 --c\n"), "a=1@1:11 b=2@1:13 c=true@1:19 ");
  EXPECT_EQ(arguments_in("train \\\n  --a 1 \\\n  --b-c 2 3\n"), "a=1@2:7 b_c=[2, 3]@3:9 ");
  EXPECT_EQ(arguments_in("train --a '1 2' # --b 3\n"), "a=1 2@1:11 ");
}

TEST(ShellArguments, VariablesAreWhatTheFileSays) {
  EXPECT_EQ(arguments_in("N=8\ntrain --a $N --b ${N} --c \"$N\""), "a=8@1:3 b=8@1:3 c=8@2:27 ");
  EXPECT_EQ(arguments_in("A=(--x 1\n --y 2)\ntrain \"${A[@]}\""), "x=1@1:8 y=2@2:6 ");
  EXPECT_EQ(arguments_in("A=\"--x 1 \\\n --y 2\"\nA+=\" --z\"\ntrain $A"),
            "x=1@1:8 y=2@2:6 z=true@3:6 ");
  EXPECT_EQ(arguments_in("N=2\nM=$((N * 4))\ntrain --a $M"), "a=8@2:3 ");
  EXPECT_EQ(arguments_in("train --a ${N:-4}"), "a=4@1:11 ");
  EXPECT_EQ(arguments_in("N=2\ntrain --a ${N:-4}"), "a=2@1:3 ");
}

TEST(ShellArguments, WhatIsNotKnownStaysAsItIsWritten) {
  EXPECT_EQ(arguments_in("train --a $N --b $(nproc) --c x$N"),
            "a=$N@1:11 b=$(nproc)@1:18 c=x$N@1:31 ");
}

TEST(ShellArguments, RedirectedStreamsAreNoArguments) {
  EXPECT_EQ(arguments_in("train --a 1 2>&1 | tee --log x > y"), "a=1@1:11 log=x@1:30 ");
}

TEST(ShellArguments, TextThatGrowsWithoutEndIsCut) {
  std::string script = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) script += "A=$A$A\n";
  EXPECT_LT(arguments_in(script + "train --a $A").size(), size_t{100} << 20);
  std::string list = "A=(1 2)\n";
  for (int i = 0; i < 60; ++i) list += "A+=(\"${A[@]}\")\n";
  EXPECT_LT(arguments_in(list + "train --a \"${A[@]}\"").size(), size_t{100} << 20);
}

// --- hf ---

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
  const Value config = parse_yaml(problems, problems.add_source({"config.json", text, false}));
  EXPECT_TRUE(draft_config_model(config, problems, draft, counts));
  problems.throw_if_any();
  ImportedRun run;
  run.scenario = draft.text("");
  run.used = counts.used;
  return run;
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
  EXPECT_THAT(f.all.front().help, HasSubstr("preset: llama"));
}

TEST(ImportHf, BrokenFilesSayWhere) {
  EXPECT_THAT(import_failure("hf", "{\"model_type\": \"llama\",\n \"a\": [1, 2\n").codes, "E100");
  EXPECT_THAT(import_failure("hf", "[1, 2]").lines,
              ElementsAre(HasSubstr("E330 1:1 a config.json is a mapping")));
  EXPECT_THAT(import_failure("hf", "{}").codes, "E126");
  EXPECT_THAT(import_failure("hf", "{\"model_type\": \"llama\", \"model_type\": \"gpt2\"}").codes,
              "E103");
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
  // Scenarios may say what cannot be simulated yet.
  EXPECT_EQ(value_of(imported("hf", kLlama + ", \"add_cross_attention\": true}"),
                     "model.add_cross_attention"),
            "true");
}

// --- megatron-log ---

TEST(ImportLog, ArgumentsAndMeasuredIterations) {
  const ImportedRun run = imported("megatron-log", import_sample("train.log"));
  EXPECT_EQ(unknown(run), "");
  // The first of five is warm-up; the others have the last batch size: 4.0, 4.1, 4.2, 6.0 s.
  EXPECT_EQ(value_of(run, "measured.step_time"), "4150000us");
  EXPECT_EQ(value_of(run, "measured.peak_memory"), "32212779008B");  // 30720.5 MiB
  EXPECT_EQ(run.measured, "4 of 5 iterations (median 4.15 s, IQR 0.58)");
  const Scenario s = testing::load(run.scenario);
  EXPECT_EQ(s.plan.dp, 2);
  EXPECT_EQ(s.plan.zero, 1);
  EXPECT_EQ(s.model.attention_dropout, 0.1);
  ASSERT_EQ(s.measured.size(), 1U);
  EXPECT_NEAR(s.measured[0].step_time_s.value_or(0), 4.15, 1e-9);
}

TEST(ImportLog, ALauncherMayPutSomethingBeforeEachLine) {
  std::string text;
  std::istringstream lines(import_sample("train.log"));
  for (std::string line; std::getline(lines, line);) text += "[default0]:" + line + "\r\n";
  const ImportedRun run = imported("megatron-log", text);
  EXPECT_EQ(value_of(run, "measured.step_time"), "4150000us");
  EXPECT_EQ(value_of(run, "model.num_hidden_layers"), "40");
}

TEST(ImportLog, WithoutIterationsNothingIsMeasured) {
  const std::string text = import_sample("train.log");
  const ImportedRun run = imported("megatron-log", text.substr(0, text.find("> setting")));
  EXPECT_EQ(value_of(run, "measured"), "");
  EXPECT_THAT(notes(run), HasSubstr("nothing is measured"));
}

TEST(ImportLog, WhatCannotBeReadHasItsPlace) {
  EXPECT_EQ(import_failure("megatron-log", "hello\n").codes, "E330");
  std::string text = import_sample("train.log");
  const size_t at = text.find("4100.0");
  text.replace(at, 6, "41nan0");
  EXPECT_THAT(import_failure("megatron-log", text).lines,
              ElementsAre(HasSubstr("E331 62:120 this is no number")));
}

TEST(ImportLog, EveryBeginningOfALogIsReadOrRefused) {
  const std::string text = import_sample("train.log");
  for (size_t n = 0; n < text.size(); n += 97) import_failure("megatron-log", text.substr(0, n));
}

// --- bridge ---

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
           {"bf16_with_nvfp4_mixed", "nvfp4"}})
    EXPECT_EQ(
        value_of(imported("bridge", model + "mixed_precision: " + recipe), "precision.preset"),
        preset);
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
  const ImportedRun run =
      imported("torchtitan", titan(R"("context_parallel_degree": 2, "expert_parallel_degree": 4,
               "pipeline_parallel_degree": 2, "pipeline_parallel_schedule_csv": "s.csv",
               "enable_async_tensor_parallel": false, "num_pp_microbatches": 8)"));
  EXPECT_EQ(value_of(run, "parallel.cp"), "2");
  EXPECT_EQ(value_of(run, "parallel.ep"), "4");
  EXPECT_EQ(value_of(run, "schedule.file"), "s.csv");
  EXPECT_EQ(unknown(run), "");
}

TEST(ImportTorchtitan, WhatIsWrongIsRefusedWhereItStands) {
  EXPECT_THAT(import_failure("torchtitan", "{\"a\": 1}").codes, "E330");
  EXPECT_THAT(
      import_failure("torchtitan", R"({"model": {"name": "llama3", "flavor": "debugmodel"}})")
          .lines,
      ElementsAre(HasSubstr("no preset 'llama3-debugmodel'")));
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
           {"overlap.bucket", "6553600"},
           {"precision.preset", "bf16-mixed"},
           {"precision.grads", "fp32"},
           {"optimizer.clip", "true"},
           {"optimizer.kind", "adamw"}})
    EXPECT_EQ(value_of(run, path), value) << path;
  EXPECT_EQ(testing::load(run.scenario).plan.dp, 4);
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

// --- all of them ---

TEST(ImportRun, WhatTheUserStatesIsNotAssumed) {
  ImportRequest r = request("hf", import_sample("llama3_8b.config.json"));
  r.cluster = {"dgx-a100-80g", "", false};
  r.set = {{"batch.global", "512"}, {"parallel.tp", "2"}};
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, "batch.global"), "512");
  EXPECT_EQ(value_of(run, "parallel.tp"), "2");
  EXPECT_EQ(value_of(run, "cluster.preset"), "dgx-a100-80g");
  EXPECT_THAT(notes(run), Not(HasSubstr("batch.global")));
  EXPECT_THAT(notes(run), Not(HasSubstr("cluster.preset")));
  EXPECT_EQ(testing::load(run.scenario).plan.tp, 2);
}

struct Sample {
  const char *kind, *file;
};
constexpr Sample kSamples[] = {{"hf", "llama3_8b.config.json"},
                               {"hf", "deepseek_v3.config.json"},
                               {"megatron-args", "llama3_70b.args"},
                               {"megatron-args", "deepseek_v3.yaml"},
                               {"megatron-args", "train.log"},
                               {"megatron-log", "train.log"},
                               {"bridge", "bridge.yaml"},
                               {"torchtitan", "torchtitan.json"},
                               {"deepspeed", "deepspeed.json"},
                               {"nanotron", "nanotron.yaml"}};

ImportRequest sample_request(const Sample& sample) {
  ImportRequest r = request(sample.kind, import_sample(sample.file));
  if (r.kind == "deepspeed") {
    r.model_file = "config.json";
    r.model_text = import_sample("llama3_8b.config.json");
  }
  return r;
}

// Scenarios of models and layouts that are not modelled yet say so, and nothing else is wrong.
TEST(ImportRun, WhatIsWrittenIsAScenario) {
  for (const Sample& sample : kSamples) {
    const ImportedRun run = import_run(sample_request(sample));
    for (const std::string& line : testing::failure(run.scenario).lines)
      EXPECT_THAT(line,
                  ::testing::AnyOf(::testing::StartsWith("E130"), HasSubstr("not supported yet")))
          << sample.file << '\n'
          << run.scenario;
  }
}

// Bytes of the samples replaced, dropped and doubled.
TEST(ImportRun, DamagedFilesAreRefusedOrBecomeReadableScenarios) {
  uint32_t state = 1;
  const auto draw = [&](size_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<size_t>(state >> 8) % below;
  };
  constexpr std::string_view kBytes = "{}[]:,\"'$\\\n -#0()*|&";
  for (const Sample& sample : kSamples) {
    ImportRequest r = sample_request(sample);
    const std::string whole = r.text;
    for (int i = 0; i < 25; ++i) {
      r.text = whole;
      for (size_t n = draw(4) + 1; n > 0; --n) {
        const size_t at = draw(r.text.size()), length = draw(20);
        if (draw(3) == 0)
          r.text.erase(at, length);
        else if (draw(2) == 0)
          r.text[at] = kBytes[draw(kBytes.size())];
        else
          r.text.insert(at, whole.substr(draw(whole.size()), length));
      }
      testing::failure_of([&] {
        const ImportedRun run = import_run(r);
        Problems problems;
        parse_yaml(problems, problems.add_source({"written", run.scenario, false}));
        EXPECT_FALSE(problems.any()) << run.scenario;
      });
    }
  }
}

TEST(ImportRun, StatedValuesMayLieDeep) {
  ImportRequest r = request("hf", import_sample("llama3_8b.config.json"));
  r.set = {{"cluster.node.nics.count", "4"}, {"cluster.node.gpus", "4"}, {"precision", "fp32"}};
  const ImportedRun run = import_run(r);
  const Scenario s = testing::load(run.scenario);
  EXPECT_EQ(s.cluster.node.nics, 4);
  EXPECT_EQ(s.cluster.node.gpus, 4);
  EXPECT_EQ(s.plan.precision.params, DType::fp32);
}

TEST(ImportRun, EveryKindRefusesWhatIsNoFileOfItsOwn) {
  for (const std::string_view kind : import_kinds())
    for (const char* text : {"", "\x01\x02", "just words\n", "[1, 2, 3]", "{", "a: &x 1"})
      EXPECT_FALSE(import_failure(std::string(kind), text).codes.empty()) << kind << ' ' << text;
}

TEST(ImportRun, TextOfAFileStaysInItsComment) {
  const ImportedRun run =
      imported("megatron-args",
               "{\"num_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4,"
               "\"seq_length\": 128, \"vocab_size\": 1000, \"normalization\": "
               "\"RMSNorm\\ncluster: dgx-a100-80g\", \"fp8\": null}");
  EXPECT_EQ(value_of(run, "cluster.preset"), "dgx-h100");
}

}  // namespace
}  // namespace stepcast::import_files_test
