// SPDX-License-Identifier: Apache-2.0
#include "scenarios/document/files.h"
#include "scenarios/resolve/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/presets.h"
#include "scenarios/resolve/model_families.h"

namespace stepcast::model_config_test {
namespace {

using ::testing::HasSubstr;

using Files = std::map<std::string, std::string>;

struct Outcome {
  std::optional<Transformer> model;
  std::vector<Diagnostic> problems;
};

// Resolves the `model:` of a scenario text.
Outcome resolve(const std::string& scenario, const Files& files = {}) {
  Problems problems;
  const SourceRef source = problems.add_source({"run.yaml", scenario});
  const Value root = parse_yaml(problems, source);
  const Value* model = root.find("model");
  Outcome outcome;
  if (model == nullptr) {
    ADD_FAILURE() << "no model in: " << scenario;
    return outcome;
  }
  const FileReader read_file = [&](const std::string& path, const Mark& from) -> SourceRef {
    const auto file = files.find(path);
    if (file != files.end()) return problems.add_source({path, file->second});
    problems.add("E101", "cannot read '" + path + "'", from);
    return {};
  };
  outcome.model = resolve_model(*model, problems, read_file);
  try {
    problems.throw_if_any();
  } catch (const InputError& e) {
    outcome.problems = e.diagnostics;
  }
  EXPECT_EQ(outcome.model.has_value(), outcome.problems.empty()) << scenario;
  return outcome;
}

// The model of a text that must be fine.
Transformer model_of(const std::string& scenario, const Files& files = {}) {
  const Outcome outcome = resolve(scenario, files);
  for (const Diagnostic& d : outcome.problems)
    ADD_FAILURE() << d.file << ':' << d.line << ' ' << d.code << ' ' << d.message;
  return outcome.model.value_or(Transformer{});
}

// The only problem of a text that must have one.
Diagnostic problem_of(const std::string& scenario, const Files& files = {}) {
  const Outcome outcome = resolve(scenario, files);
  EXPECT_EQ(outcome.problems.size(), 1u) << scenario;
  return outcome.problems.empty() ? Diagnostic{} : outcome.problems.front();
}

// ----------------------------------------------------------------------------------------- presets

struct Published {
  const char* preset;
  int64_t parameters;
};

class PresetParameters : public ::testing::TestWithParam<Published> {};

TEST_P(PresetParameters, EqualThePublishedFigure) {
  const Transformer t = model_of(std::string("model: ") + GetParam().preset);
  EXPECT_EQ(parameters(t), GetParam().parameters);
  EXPECT_EQ(t.name, GetParam().preset);
}

// GPT-2 to Qwen: the size of the checkpoint on Hugging Face.  GPT-3 and Korthikanti's: the formula
// of Narayanan et al. 2021, eq. 2, plus the final norm (published, rounded, in the comments).
constexpr Published kPublished[] = {
    {"gpt2", 124'439'808},
    {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},
    {"gpt2-xl", 1'557'611'200},
    {"gpt3-125m", 125'950'464},      // 125M
    {"gpt3-350m", 356'837'376},      // 350M
    {"gpt3-760m", 761'748'480},      // 760M
    {"gpt3-1.3b", 1'317'654'528},    // 1.3B
    {"gpt3-2.7b", 2'653'967'360},    // 2.7B
    {"gpt3-6.7b", 6'662'266'880},    // 6.7B
    {"gpt3-13b", 12'858'214'400},    // 13.0B
    {"gpt3-175b", 174'615'846'912},  // 175.0B
    {"gpt-22b", 22'074'273'792},     // 22B
    {"gpt-175b", 174'615'846'912},   // 175B
    {"gpt-530b", 529'600'819'200},   // 530B
    {"gpt-1t", 1'008'038'758'400},   // 1T
    {"mpt-13b", 12'853'954'560},     // LLM Foundry's throughput tables
    {"llama2-7b", 6'738'415'616},
    {"llama2-13b", 13'015'864'320},
    {"llama2-70b", 68'976'648'192},
    {"llama3-8b", 8'030'261'248},
    {"llama3-70b", 70'553'706'496},
    {"llama3-405b", 405'853'388'800},
    {"llama3.1-8b", 8'030'261'248},
    {"llama3.1-70b", 70'553'706'496},
    {"llama3.1-405b", 405'853'388'800},
    {"llama3.2-1b", 1'235'814'400},
    {"llama3.2-3b", 3'212'749'824},
    {"mistral-7b", 7'241'732'096},
    {"mistral-nemo-12b", 12'247'782'400},
    {"mixtral-8x7b", 46'702'792'704},
    {"qwen2.5-0.5b", 494'032'768},
    {"qwen2.5-1.5b", 1'543'714'304},
    {"qwen2.5-3b", 3'085'938'688},
    {"qwen2.5-7b", 7'615'616'512},
    {"qwen2.5-14b", 14'770'033'664},
    {"qwen2.5-32b", 32'763'876'352},
    {"qwen2.5-72b", 72'706'203'648},
    {"qwen3-0.6b", 596'049'920},
    {"qwen3-1.7b", 1'720'574'976},
    {"qwen3-4b", 4'022'468'096},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-14b", 14'768'307'200},
    {"qwen3-32b", 32'762'123'264},
    {"mixtral-8x22b", 140'620'634'112},
    {"qwen1.5-moe-a2.7b", 14'315'784'192},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen3-235b-a22b", 235'093'634'560},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    {"dbrx", 131'596'523'520},
    {"deepseek-v2-lite", 15'706'484'224},
    {"deepseek-v2", 235'741'434'880},
    {"deepseek-v3", 671'026'419'200},
    // Text models; the checkpoints have 109 and 402 billion with vision.
    {"llama4-scout", 107'769'861'120},
    {"llama4-maverick", 400'711'848'960},
    // The checkpoints have all heads of pretraining; BertModel alone is 109,482,240 and
    // 335,141,888.
    {"bert-base", 110'106'428},
    {"bert-large", 336'226'108},
    {"t5-small", 60'506'624},
    {"t5-base", 222'903'552},
    {"t5-large", 737'668'096},
    {"t5-3b", 2'851'598'336},
    {"t5-11b", 11'307'321'344},
};

INSTANTIATE_TEST_SUITE_P(All, PresetParameters, ::testing::ValuesIn(kPublished),
                         [](const auto& param) {
                           std::string name = param.param.preset;
                           for (char& c : name)
                             if (c == '-' || c == '.') c = '_';
                           return name;
                         });

TEST(Presets, AreAllHeldToAPublishedFigure) {
  std::vector<std::string> tested;
  for (const Published& p : kPublished) tested.emplace_back(p.preset);
  const std::vector<std::string_view> names = preset_names(PresetKind::model);
  EXPECT_THAT(tested, ::testing::UnorderedElementsAreArray(names));
}

TEST(Presets, SayWhereTheyComeFrom) {
  for (const std::string_view name : preset_names(PresetKind::model)) {
    const std::string_view text = *preset_text(PresetKind::model, name);
    const size_t second = text.find('\n') + 1;
    EXPECT_EQ(text.substr(second, 2), "# ") << name;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 25) << name;
  }
}

TEST(Presets, OfExpertsHaveTheirActiveParameters) {
  EXPECT_EQ(active_parameters(model_of("model: deepseek-v3")), 37'552'297'472);
  EXPECT_EQ(active_parameters(model_of("model: mixtral-8x7b")), 12'879'925'248);  // "12.9B"
}

TEST(Presets, OfGptHaveItsArchitecture) {
  const Transformer t = model_of("model: gpt3-175b");
  EXPECT_EQ(t.layers, 96);
  EXPECT_EQ(t.hidden, 12288);
  EXPECT_EQ(t.heads, 96);
  EXPECT_EQ(t.kv_heads, 96);
  EXPECT_EQ(t.head_dim, 128);
  EXPECT_EQ(t.ffn, 49152);
  EXPECT_EQ(t.vocab, 51200);
  EXPECT_EQ(t.max_positions, 2048);
  EXPECT_FALSE(t.gated);
  EXPECT_TRUE(t.tied);
  EXPECT_EQ(t.norm, Norm::layer_norm);
  EXPECT_EQ(t.activation, Activation::gelu);
  EXPECT_EQ(t.positions, Positions::learned);
  EXPECT_TRUE(t.attention_bias && t.attention_output_bias && t.mlp_bias && t.norm_bias);
  EXPECT_EQ(t.attention_dropout, 0);
  EXPECT_EQ(t.hidden_dropout, 0);
}

TEST(Presets, OfLlamaHaveItsArchitecture) {
  const Transformer t = model_of("model: llama3-8b");
  EXPECT_EQ(t.kv_heads, 8);
  EXPECT_EQ(t.head_dim, 128);
  EXPECT_EQ(t.ffn, 14336);
  EXPECT_TRUE(t.gated);
  EXPECT_FALSE(t.tied);
  EXPECT_EQ(t.norm, Norm::rms_norm);
  EXPECT_EQ(t.activation, Activation::silu);
  EXPECT_EQ(t.positions, Positions::rotary);
  EXPECT_FALSE(t.attention_bias || t.attention_output_bias || t.mlp_bias || t.norm_bias);
  EXPECT_EQ(t.sliding_window, 0);
  EXPECT_EQ(t.experts, 0);
}

TEST(Presets, HaveTheirSlidingWindows) {
  EXPECT_EQ(model_of("model: mistral-7b").sliding_window, 4096);
  EXPECT_EQ(model_of("model: mistral-nemo-12b").sliding_window, 0);
  EXPECT_EQ(model_of("model: qwen2.5-7b").sliding_window, 0);
  EXPECT_EQ(model_of("model: mixtral-8x7b").sliding_window, 0);
}

TEST(Presets, CanHaveKeysReplaced) {
  const Transformer t = model_of("model: {preset: llama3-8b, num_hidden_layers: 16, head_dim: 64}");
  EXPECT_EQ(t.layers, 16);
  EXPECT_EQ(t.head_dim, 64);
  EXPECT_EQ(t.hidden, 4096);
  EXPECT_EQ(t.name, "llama3-8b");
}

TEST(Presets, CanHaveKeysReplacedUnderAnotherOfTheirNames) {
  EXPECT_EQ(model_of("model: {preset: gpt2, n_layer: 6}").layers, 6);
  EXPECT_EQ(model_of("model: {preset: mixtral-8x7b, num_experts: 4}").experts, 4);
  EXPECT_EQ(model_of("model: {preset: mixtral-8x7b, intermediate_size: 1024}").moe_ffn, 1024);
}

TEST(Presets, AsAMappingAreThePresetItself) {
  EXPECT_EQ(parameters(model_of("model: {preset: qwen3-8b}")),
            parameters(model_of("model: qwen3-8b")));
}

TEST(Presets, UnknownGetASuggestion) {
  const Diagnostic d = problem_of("name: x\nmodel: llama3-8bb\n");
  EXPECT_EQ(d.code, "E125");
  EXPECT_EQ(d.message, "there is no model preset 'llama3-8bb'");
  EXPECT_EQ(d.label, "did you mean 'llama3-8b'?");
  EXPECT_EQ(d.line, 2);
  EXPECT_EQ(d.column, 8);
  EXPECT_EQ(d.length, 10);
  EXPECT_THAT(d.help, HasSubstr("`stepcast presets models` lists them"));
  EXPECT_EQ(problem_of("model: {preset: LLaMA3_8B}").label, "did you mean 'llama3-8b'?");
  EXPECT_EQ(problem_of("model: {preset: lama, vocab_size: 5}").label, "did you mean 'llama'?");
  EXPECT_EQ(problem_of("model: zebra").label, "");
}

TEST(Presets, AreNamedByWords) {
  EXPECT_EQ(problem_of("model: {preset: [gpt2]}").code, "E107");
  EXPECT_EQ(problem_of("model: {preset: }").code, "E107");
  EXPECT_EQ(problem_of("model: ''").code, "E107");
}

TEST(Presets, AreNotMixedWithAModelType) {
  const Diagnostic d = problem_of("model: {preset: llama3-8b, model_type: qwen2}");
  EXPECT_EQ(d.code, "E127");
  EXPECT_EQ(d.column, 40);
}

// --------------------------------------------------------------------------- kinds of architecture

constexpr const char* kTinyGpt =
    "preset: gpt, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 1000, "
    "max_position_embeddings: 512";
constexpr const char* kTinyLlama =
    "preset: llama, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, "
    "vocab_size: 1000, intermediate_size: 256";

std::string mapping(const std::string& keys, const std::string& more = "") {
  return "model: {" + keys + (more.empty() ? "" : ", " + more) + "}";
}

TEST(Families, OfPresetTakeSizesFromTheScenario) {
  const Transformer gpt = model_of(mapping(kTinyGpt));
  EXPECT_EQ(gpt.ffn, 4 * 64);
  EXPECT_TRUE(gpt.tied);
  EXPECT_EQ(gpt.name, "gpt");
  const Transformer llama = model_of(mapping(kTinyLlama));
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_FALSE(llama.tied);
}

TEST(Families, NameAllSizesThatAreMissing) {
  const Diagnostic gpt = problem_of("model: gpt");
  EXPECT_EQ(gpt.code, "E126");
  EXPECT_EQ(gpt.message,
            "the model needs num_hidden_layers, hidden_size, num_attention_heads, vocab_size and "
            "max_position_embeddings");
  EXPECT_EQ(problem_of("model: {preset: llama, num_hidden_layers: 2, hidden_size: 64, "
                       "num_attention_heads: 4, vocab_size: 1000}")
                .message,
            "the model needs intermediate_size");
}

TEST(Families, CanBeBentByKeys) {
  const Transformer t = model_of(
      mapping(kTinyGpt,
              "position_embedding_type: rope, normalization: RMSNorm, hidden_act: silu, "
              "gated_mlp: true, intermediate_size: 176, attention_bias: false, mlp_bias: false, "
              "use_qk_norm: true, num_key_value_heads: 2, tie_word_embeddings: false"));
  EXPECT_EQ(t.positions, Positions::rotary);
  EXPECT_EQ(t.norm, Norm::rms_norm);
  EXPECT_EQ(t.activation, Activation::silu);
  EXPECT_TRUE(t.gated && t.qk_norm);
  EXPECT_FALSE(t.attention_bias || t.attention_output_bias || t.mlp_bias || t.norm_bias || t.tied);
  EXPECT_EQ(t.kv_heads, 2);
}

TEST(Families, KnowNormsWithoutBias) {
  const Transformer t = model_of(mapping(kTinyGpt, "norm_bias: false"));
  EXPECT_EQ(parameters(model_of(mapping(kTinyGpt))) - parameters(t), (2 * 2 + 1) * 64);
}

TEST(Families, KnowBiasesOfQueriesKeysAndValuesOnly) {
  const Transformer t = model_of(mapping(kTinyLlama, "qkv_bias: true"));
  EXPECT_TRUE(t.attention_bias);
  EXPECT_FALSE(t.attention_output_bias);
}

TEST(Families, KnowPositionsThatCostNothing) {
  EXPECT_EQ(model_of(mapping(kTinyGpt, "position_embedding_type: alibi")).positions,
            Positions::none);
}

// ------------------------------------------------------------------------------------- config.json

// A null stands for what a class does without the key, not for the family's own value.
TEST(ConfigJson, KeysThatAreTheValuesNeedNoWidthOfTheirOwn) {
  const auto shapes = [](const std::string& keys) {
    return model_of("model: {hf: models/config.json}",
                    {{"models/config.json",
                      "{\"model_type\": \"gemma4_text\", \"num_hidden_layers\": 6, "
                      "\"global_head_dim\": null, " +
                          keys + "}"}})
        .shapes;
  };
  EXPECT_THAT(shapes("\"attention_k_eq_v\": false"), ::testing::IsEmpty());
  EXPECT_EQ(shapes("\"attention_k_eq_v\": true, \"num_global_key_value_heads\": 2"),
            (std::vector<LayerShape>{{8, 2, 256, 256, false, true, 9216}}));
  EXPECT_EQ(shapes("\"attention_k_eq_v\": true, \"num_global_key_value_heads\": null"),
            (std::vector<LayerShape>{{8, 4, 256, 256, false, true, 9216}}));
}

// Hugging Face deepseek-ai/DeepSeek-V3, config.json, shortened to what is not about generation.
constexpr const char* kDeepSeekV3 =
    R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
 "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
 "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
 "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
 "qk_rope_head_dim": 64, "v_head_dim": 128, "num_nextn_predict_layers": 1, "vocab_size": 129280,
 "max_position_embeddings": 163840, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false,
 "rms_norm_eps": 1e-06, "torch_dtype": "bfloat16",
 "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})";

TEST(ConfigJson, IsReadFromAFile) {
  const Transformer t =
      model_of("model: {hf: models/config.json}", {{"models/config.json", kDeepSeekV3}});
  EXPECT_EQ(parameters(t), 671'026'419'200);
  EXPECT_EQ(active_parameters(t), 37'552'297'472);
  EXPECT_EQ(t.name, "models/config.json");
  EXPECT_EQ(t.kv_rank, 512);
  EXPECT_EQ(t.q_rank, 1536);
  EXPECT_EQ(t.head_dim, 192);
  EXPECT_EQ(t.dense_layers, 3);
  EXPECT_EQ(t.shared_ffn, 2048);
}

TEST(ConfigJson, IsReadWhereItIsPasted) {
  EXPECT_EQ(parameters(model_of(std::string("model: ") + kDeepSeekV3)), 671'026'419'200);
}

TEST(ConfigJson, GivesWayToKeysBesideIt) {
  const Transformer t =
      model_of("model: {hf: c.json, num_hidden_layers: 8}", {{"c.json", kDeepSeekV3}});
  EXPECT_EQ(t.layers, 8);
  EXPECT_EQ(t.hidden, 7168);
}

TEST(ConfigJson, InTreeHeadDimOfLatentAttentionIsNotItsWidth) {
  EXPECT_EQ(parameters(model_of("model: {preset: deepseek-v3, head_dim: 64}")), 671'026'419'200);
}

TEST(ConfigJson, WithNullQueryRankProjectsQueriesDirectly) {
  EXPECT_EQ(model_of("model: {preset: deepseek-v3, q_lora_rank: null}").q_rank, 0);
}

// The classes' defaults are, but for Qwen, the first model of the family.
TEST(ConfigJson, LeavesOutWhatTheClassSays) {
  const auto absent = [](const char* type) {
    return model_of(std::string("model: {model_type: ") + type + "}");
  };
  EXPECT_EQ(parameters(absent("llama")), 6'738'415'616);      // Llama-2-7B
  EXPECT_EQ(parameters(absent("gpt2")), 124'439'808);         // GPT-2
  EXPECT_EQ(parameters(absent("gpt_neox")), 20'554'567'680);  // GPT-NeoX-20B
  EXPECT_EQ(parameters(absent("mistral")), 7'241'732'096);    // Mistral-7B-v0.1
  EXPECT_EQ(parameters(absent("mixtral")), 46'702'792'704);   // Mixtral-8x7B
  EXPECT_EQ(parameters(absent("deepseek_v3")), 671'026'419'200);
  EXPECT_EQ(parameters(absent("gpt_oss")), 116'829'156'672);   // gpt-oss-120b
  EXPECT_EQ(parameters(absent("qwen2_moe")), 14'315'784'192);  // Qwen1.5-MoE-A2.7B
  // The class's defaults are the first model of these families; the figures are those of their
  // checkpoints on Hugging Face.
  EXPECT_EQ(parameters(absent("gemma")), 8'537'680'896);       // Gemma-7B
  EXPECT_EQ(parameters(absent("gemma2")), 2'614'341'888);      // Gemma-2-2B
  EXPECT_EQ(parameters(absent("phi3")), 3'821'079'552);        // Phi-3-mini-4k
  EXPECT_EQ(parameters(absent("falcon")), 6'921'720'704);      // Falcon-7B
  EXPECT_EQ(parameters(absent("starcoder2")), 3'030'371'328);  // StarCoder2-3B
  EXPECT_EQ(parameters(absent("cohere")), 34'980'831'232);     // Command-R v01
}

TEST(ConfigJson, OfEveryModelTypeHasAllItsSizes) {
  for (const ModelFamily& f : model_types())
    EXPECT_GT(parameters(model_of("model: {model_type: " + std::string(f.name) + "}")), 0);
}

TEST(ConfigJson, TiesTheHeadAsTheClassDoes) {
  EXPECT_TRUE(model_of("model: {model_type: gpt2}").tied);
  EXPECT_FALSE(model_of("model: {model_type: llama}").tied);
  EXPECT_FALSE(model_of("model: {model_type: gpt2, tie_word_embeddings: false}").tied);
  // Which Python takes for false.
  EXPECT_FALSE(model_of("model: {model_type: gpt2, tie_word_embeddings: null}").tied);
}

TEST(ConfigJson, GroupsQueriesAsTheClassDoes) {
  EXPECT_EQ(model_of("model: {model_type: mistral}").kv_heads, 8);
  EXPECT_EQ(model_of("model: {model_type: mistral, num_key_value_heads: null}").kv_heads, 32);
  EXPECT_EQ(model_of("model: {model_type: llama}").kv_heads, 32);
  EXPECT_EQ(model_of("model: {model_type: qwen3}").head_dim, 128);
  EXPECT_EQ(model_of("model: {model_type: qwen2, hidden_size: 2048}").head_dim, 64);
}

TEST(ConfigJson, KnowsWhatFamiliesHaveWithoutAKey) {
  const Transformer qwen2 = model_of("model: {model_type: qwen2}");
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.attention_output_bias);
  EXPECT_FALSE(qwen2.qk_norm);
  EXPECT_TRUE(model_of("model: {model_type: qwen3}").qk_norm);
  EXPECT_TRUE(model_of("model: {model_type: qwen3_moe}").qk_norm);
  const Transformer neox = model_of("model: {model_type: gpt_neox}");
  EXPECT_EQ(neox.positions, Positions::rotary);
  EXPECT_TRUE(neox.attention_bias && neox.attention_output_bias && neox.mlp_bias);
}

TEST(ConfigJson, OfQwen3MoeCountsItsExperts) {
  // Hugging Face Qwen/Qwen3-30B-A3B: 30,532,122,624 parameters, "3.3B activated".
  const Transformer t = model_of(R"(model: {"model_type": "qwen3_moe", "hidden_size": 2048,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
    "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936,
    "max_window_layers": 48, "sliding_window": null, "use_sliding_window": false,
    "rope_scaling": null, "norm_topk_prob": true, "router_aux_loss_coef": 0.001,
    "output_router_logits": false, "tie_word_embeddings": false})");
  EXPECT_EQ(parameters(t), 30'532'122'624);
  EXPECT_EQ(active_parameters(t), 3'353'032'704);
}

TEST(ConfigJson, OfGptOssHasHeadsWiderThanTheModel) {
  // Hugging Face openai/gpt-oss-20b: 20,914,757,184 parameters.
  const Transformer t = model_of(R"(model: {"model_type": "gpt_oss", "num_hidden_layers": 24,
    "num_local_experts": 32, "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_experts_per_tok": 4,
    "experts_per_token": 4, "sliding_window": 128, "swiglu_limit": 7.0, "vocab_size": 201088,
    "attention_bias": true})");
  EXPECT_EQ(parameters(t), 20'914'757'184);
  EXPECT_EQ(t.windows[0], 128);
  EXPECT_EQ(t.windows[1], 0);
  EXPECT_EQ(t.heads * t.head_dim, 4096);
}

TEST(ConfigJson, InTheWordsOfTransformers5IsTheSame) {
  const std::string v4 = R"(model: {"model_type": "llama", "torch_dtype": "bfloat16",
      "rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 2.0}})";
  const std::string v5 = R"(model: {"model_type": "llama", "dtype": "bfloat16",
      "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})";
  EXPECT_EQ(parameters(model_of(v4)), parameters(model_of(v5)));
}

TEST(ConfigJson, SaysNothingAboutDropout) {
  const Transformer t = model_of(
      "model: {model_type: gpt2, attn_pdrop: 0.1, resid_pdrop: 0.1, embd_pdrop: 0.1, "
      "attention_dropout: 0.1, hidden_dropout: 0.1}");
  EXPECT_EQ(t.attention_dropout, 0);
  EXPECT_EQ(t.hidden_dropout, 0);
}

TEST(ConfigJson, OfGpt2HasItsOwnNames) {
  // Hugging Face openai-community/gpt2-medium.
  const Transformer t = model_of(R"(model: {"activation_function": "gelu_new", "attn_pdrop": 0.1,
    "bos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2", "n_ctx": 1024, "n_embd": 1024, "n_head": 16, "n_inner": null,
    "n_layer": 24, "n_positions": 1024, "n_special": 0, "predict_special_tokens": true,
    "summary_first_dropout": 0.1, "use_cache": true, "vocab_size": 50257})");
  EXPECT_EQ(parameters(t), 354'823'168);
  EXPECT_EQ(t.ffn, 4096);
}

TEST(ConfigJson, OfAnUnknownModelTypeOffersAWayOn) {
  const Files files = {{"c.json", R"({"model_type": "falcom", "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000,
    "intermediate_size": 256})"}};
  const Diagnostic d = problem_of("model: {hf: c.json}", files);
  EXPECT_EQ(d.code, "E125");
  EXPECT_EQ(d.message, "unknown model_type 'falcom'");
  EXPECT_EQ(d.file, "c.json");
  EXPECT_EQ(d.line, 1);
  EXPECT_EQ(d.column, 16);
  EXPECT_THAT(d.help, HasSubstr("llama, mistral, qwen2"));
  EXPECT_THAT(d.help, HasSubstr("preset: llama"));
  EXPECT_EQ(model_of("model: {hf: c.json, preset: llama}", files).layers, 2);
  EXPECT_EQ(model_of("model: {preset: llama, model_type: falcom, hidden_size: 64, "
                     "num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 1000, "
                     "intermediate_size: 256}")
                .ffn,
            256);
  EXPECT_EQ(problem_of("model: {model_type: qwen4}").label, "did you mean 'qwen2'?");
}

TEST(ConfigJson, WithoutAModelTypeIsAskedForIt) {
  EXPECT_EQ(problem_of("model: {hidden_size: 64}").code, "E126");
  EXPECT_EQ(problem_of("model: {}").code, "E126");
  const Diagnostic d = problem_of("model: {hf: c.json}", {{"c.json", R"({"hidden_size": 64})"}});
  EXPECT_EQ(d.code, "E126");
  EXPECT_THAT(d.help, HasSubstr("preset: llama"));
}

TEST(ConfigJson, ThatCannotBeReadIsTheReadersProblem) {
  const Diagnostic d = problem_of("model: {hf: nowhere.json}");
  EXPECT_EQ(d.code, "E101");
  EXPECT_EQ(d.column, 13);
}

TEST(ConfigJson, ThatIsNoMappingIsRefused) {
  EXPECT_EQ(problem_of("model: {hf: c.json}", {{"c.json", "[1, 2]"}}).code, "E107");
  EXPECT_EQ(problem_of("model: {hf: c.json}", {{"c.json", "words"}}).code, "E107");
  EXPECT_EQ(problem_of("model: {hf: c.json}", {{"c.json", ""}}).code, "E107");
  EXPECT_EQ(problem_of("model: {hf: c.json}", {{"c.json", "null"}}).code, "E107");
  EXPECT_EQ(problem_of("model: {hf: c.json}", {{"c.json", "{\"a\": "}}).code, "E100");
  EXPECT_EQ(problem_of("model: {hf: [c.json]}").code, "E107");
}

TEST(ConfigJson, CutShortIsAModelOrAProblem) {
  const std::string whole = kDeepSeekV3;
  for (size_t n = 0; n < whole.size(); n += 7) {
    const Outcome outcome = resolve("model: {hf: c.json}", {{"c.json", whole.substr(0, n)}});
    EXPECT_FALSE(outcome.problems.empty()) << n;  // resolve() holds the two against each other
  }
}

TEST(ConfigJson, AndAPresetAreTwoModels) {
  const Files files = {{"c.json", kDeepSeekV3}};
  EXPECT_EQ(problem_of("model: {hf: c.json, preset: llama3-8b}", files).code, "E127");
  EXPECT_EQ(problem_of("model: {hf: c.json, preset: []}", files).code, "E107");
}

// --------------------------------------------------------------------------------------- bad input

TEST(ModelKeys, UnknownGetASuggestion) {
  const Diagnostic d = problem_of("model:\n  preset: llama3-8b\n  num_hiden_layers: 16\n");
  EXPECT_EQ(d.code, "E102");
  EXPECT_EQ(d.message, "unknown key 'num_hiden_layers' in 'model'");
  EXPECT_EQ(d.label, "did you mean 'num_hidden_layers'?");
  EXPECT_EQ(d.line, 3);
  EXPECT_EQ(d.column, 3);
  EXPECT_EQ(d.length, 16);
}

TEST(ModelKeys, UnknownInAFileAreNamed) {
  const Diagnostic d = problem_of("model: {hf: c.json}",
                                  {{"c.json", R"({"model_type": "llama", "moon_phase": 3})"}});
  EXPECT_EQ(d.code, "E102");
  EXPECT_EQ(d.message, "unknown key 'moon_phase' in the config.json");
  EXPECT_EQ(d.file, "c.json");
  EXPECT_THAT(d.help, HasSubstr("remove it"));
}

TEST(ModelKeys, ThatSelectAModelDoNotBelongInAFile) {
  EXPECT_EQ(problem_of("model: {hf: c.json}",
                       {{"c.json", R"({"model_type": "llama", "preset": "gpt2"})"}})
                .code,
            "E102");
}

TEST(ModelKeys, AreAllCheckedInOneGo) {
  const Outcome outcome = resolve("model: {preset: gpt2, n_lair: 2, n_hat: 4, zzz: 1}");
  EXPECT_EQ(outcome.problems.size(), 3u);
  const Outcome values = resolve(mapping(
      kTinyLlama, "head_dim: -1, num_key_value_heads: many, hidden_act: tanh, gated_mlp: 3"));
  EXPECT_EQ(values.problems.size(), 4u);
}

TEST(ModelKeys, UnderTwoNamesAreRefused) {
  const Diagnostic d = problem_of("model: {model_type: gpt2, n_layer: 2, num_hidden_layers: 2}");
  EXPECT_EQ(d.code, "E103");
  EXPECT_EQ(d.message, "'num_hidden_layers' and 'n_layer' are two names of the same");
}

TEST(ModelKeys, OfEncodersAreRefusedUnlessFalse) {
  EXPECT_EQ(problem_of("model: {model_type: gpt2, add_cross_attention: true}").code, "E130");
  EXPECT_EQ(problem_of("model: {model_type: gpt2, is_encoder_decoder: 3}").code, "E130");
  EXPECT_EQ(model_of("model: {model_type: gpt2, add_cross_attention: false}").layers, 12);
}

TEST(ModelKeys, WithWrongValuesAreRefused) {
  const auto code = [](const std::string& more) {
    return problem_of(mapping(kTinyLlama, more)).code;
  };
  EXPECT_EQ(code("max_position_embeddings: 1.5"), "E123");
  EXPECT_EQ(code("num_key_value_heads: -2"), "E122");
  EXPECT_EQ(code("head_dim: 99999999"), "E123");
  EXPECT_EQ(code("head_dim: '64'"), "E107");
  EXPECT_EQ(code("head_dim: [64]"), "E107");
  EXPECT_EQ(code("tie_word_embeddings: yes"), "E107");
  EXPECT_EQ(code("hidden_act: [silu]"), "E107");
  EXPECT_EQ(code("layer_types: full, sliding_window: 8"), "E107");
  EXPECT_EQ(problem_of("model: {preset: llama3-8b, num_hidden_layers: 0}").code, "E121");
  EXPECT_EQ(problem_of("model: {preset: llama3-8b, hidden_size: 1e30}").code, "E123");
}

TEST(ModelKeys, WithUnknownWordsGetASuggestion) {
  const Diagnostic d = problem_of(mapping(kTinyLlama, "hidden_act: sillu"));
  EXPECT_EQ(d.code, "E125");
  EXPECT_EQ(d.message, "'hidden_act' cannot be 'sillu'");
  EXPECT_EQ(d.label, "did you mean 'silu'?");
  EXPECT_THAT(d.help, HasSubstr("gelu_new"));
  EXPECT_EQ(problem_of(mapping(kTinyLlama, "normalization: batch_norm")).code, "E125");
  EXPECT_EQ(problem_of(mapping(kTinyLlama, "position_embedding_type: t5")).code, "E125");
}

TEST(ModelKeys, ThatSayNoModelAreRefused) {
  EXPECT_EQ(problem_of("model: [llama3-8b]").code, "E107");
  EXPECT_EQ(problem_of("model:").code, "E107");
}

TEST(Heads, MustDivideTheWidthUnlessTheyHaveTheirOwn) {
  const Diagnostic d = problem_of("model: {preset: llama3-8b, num_attention_heads: 24}");
  EXPECT_EQ(d.code, "E127");
  EXPECT_EQ(d.message, "num_attention_heads = 24 does not divide hidden_size = 4096");
  EXPECT_THAT(d.help, HasSubstr("head_dim"));
  EXPECT_EQ(d.column, 49);
  const Transformer t =
      model_of("model: {preset: llama3-8b, num_attention_heads: 24, head_dim: 128}");
  EXPECT_EQ(t.heads * t.head_dim, 3072);
}

TEST(Heads, ProblemStandsWhereTheUserWroteSomething) {
  const Diagnostic d = problem_of("model: {preset: llama3-8b, hidden_size: 4100}");
  EXPECT_EQ(d.file, "run.yaml");
  EXPECT_EQ(d.column, 41);
}

TEST(Heads, AreSharedEvenlyByKeyValueHeads) {
  const Diagnostic d = problem_of("model: {preset: llama3-8b, num_key_value_heads: 5}");
  EXPECT_EQ(d.code, "E127");
  EXPECT_EQ(d.message, "num_key_value_heads = 5 does not divide num_attention_heads = 32");
  EXPECT_EQ(problem_of("model: {preset: llama3-8b, num_key_value_heads: 64}").code, "E127");
}

TEST(Window, HoldsForAllLayersOrNone) {
  const auto window = [](const std::string& more) {
    return model_of(mapping(kTinyLlama, more)).sliding_window;
  };
  EXPECT_EQ(window("sliding_window: 128"), 128);
  EXPECT_EQ(window("sliding_window: null"), 0);
  EXPECT_EQ(window("sliding_window: 0"), 0);
  EXPECT_EQ(window("sliding_window: 128, use_sliding_window: false"), 0);
  EXPECT_EQ(window("sliding_window: 128, max_window_layers: 0"), 128);
  EXPECT_EQ(window("sliding_window: 128, max_window_layers: 2"), 0);
  EXPECT_EQ(window("sliding_window: 128, layer_types: [full_attention, full_attention]"), 0);
  EXPECT_EQ(window("sliding_window: 128, layer_types: [sliding_attention, sliding_attention]"),
            128);
}

TEST(Window, MayBeInSomeLayersOnly) {
  const auto windows = [](const std::string& more) {
    return model_of(mapping(kTinyLlama, "sliding_window: 128, " + more)).windows;
  };
  EXPECT_EQ(windows("max_window_layers: 1"), (std::vector<int64_t>{0, 128}));
  EXPECT_EQ(windows("layer_types: [sliding_attention, full_attention]"),
            (std::vector<int64_t>{128, 0}));
}

TEST(Window, OfUnknownTypesOrTooFewLayersIsRefused) {
  const auto problem = [](const std::string& more) {
    return problem_of(mapping(kTinyLlama, "sliding_window: 128, " + more));
  };
  EXPECT_EQ(problem("layer_types: [linear_attention, full_attention]").message,
            "not supported yet: linear attention (layers of type 'linear_attention')");
  EXPECT_EQ(problem("layer_types: [full_attention, magic]").message,
            "layers of type 'magic' are not supported yet");
  EXPECT_EQ(problem("layer_types: [full_attention]").code, "E127");
}

TEST(Experts, LeadingDenseLayersMayBeListed) {
  const auto moe = [](const std::string& more) {
    return "model: {model_type: qwen3_moe, " + more + "}";
  };
  EXPECT_EQ(model_of(moe("mlp_only_layers: [1, 0]")).dense_layers, 2);
  EXPECT_EQ(model_of(moe("mlp_only_layers: []")).dense_layers, 0);
  EXPECT_EQ(problem_of(moe("mlp_only_layers: 3")).code, "E107");
  EXPECT_EQ(problem_of(moe("mlp_only_layers: [x]")).code, "E107");
  EXPECT_EQ(problem_of(moe("num_experts_per_tok: 129")).code, "E127");
  EXPECT_EQ(problem_of("model: {preset: deepseek-v3, first_k_dense_replace: 62}").code, "E127");
}

TEST(Experts, LiePerhapsInSomeLayersOnly) {
  const auto layers = [](const std::string& more) {
    return model_of("model: {model_type: qwen3_moe, num_hidden_layers: 6, " + more + "}")
        .expert_layers;
  };
  using Layers = std::vector<uint8_t>;
  EXPECT_EQ(layers("mlp_only_layers: [3]"), (Layers{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(layers("decoder_sparse_step: 2"), (Layers{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(layers("mlp_only_layers: [0]"), Layers{});  // dense_layers says it
  const Transformer t = model_of("model: {preset: deepseek-v3, moe_layer_freq: 2}");
  EXPECT_EQ(t.expert_layers[3], 0);
  EXPECT_EQ(t.expert_layers[4], 1);
  EXPECT_EQ(t.router_groups, 8);
  EXPECT_EQ(t.router_top_groups, 4);
}

// "17B active": nearly all of them in the text model.
TEST(Experts, OfLlama4LieInEveryLayerOrInEverySecond) {
  const Transformer scout = model_of("model: llama4-scout");
  const Transformer maverick = model_of("model: llama4-maverick");
  EXPECT_TRUE(scout.expert_layers.empty());
  EXPECT_EQ(maverick.expert_layers[0], 0);
  EXPECT_EQ(maverick.expert_layers[1], 1);
  for (const Transformer* t : {&scout, &maverick})
    EXPECT_NEAR(static_cast<double>(active_parameters(*t)), 17.2e9, 0.2e9);
}

TEST(Experts, OfABentFamilyNeedTheirSizes) {
  EXPECT_EQ(problem_of(mapping(kTinyLlama, "num_experts: 8")).message,
            "the model needs num_experts_per_tok and moe_intermediate_size");
  const Transformer t = model_of(
      mapping(kTinyLlama, "num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 32"));
  EXPECT_EQ(t.experts, 8);
  EXPECT_EQ(t.moe_ffn, 32);
}

TEST(Size, BeyondCountingIsRefused) {
  const Diagnostic d = problem_of(
      "model: {preset: llama, num_hidden_layers: 100000, hidden_size: 1048576, "
      "num_attention_heads: 1024, intermediate_size: 16777216, vocab_size: 1000000}");
  EXPECT_EQ(d.code, "E123");
  EXPECT_EQ(d.message, "the model has more than 10^15 parameters");
  EXPECT_EQ(problem_of("model: {preset: deepseek-v3, num_experts: 65536, hidden_size: 1048576, "
                       "moe_intermediate_size: 1048576, num_hidden_layers: 100000}")
                .code,
            "E123");
  EXPECT_EQ(problem_of("model: {preset: llama3-8b, num_hidden_layers: 1000000}").code, "E123");
}

}  // namespace
}  // namespace stepcast::model_config_test
