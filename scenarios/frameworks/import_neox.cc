// SPDX-License-Identifier: Apache-2.0
// import_neox: GPT-NeoX's YAML, whose keys are Megatron's for the model and DeepSpeed's for the
// run.
//
// Names and defaults: megatron/neox_arguments/ of https://github.com/EleutherAI/gpt-neox; the
// shapes: megatron/model/transformer.py, moe_mlp.py and tokenizer/tokenizer.py.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "scenarios/frameworks/importers.h"

namespace stepcast {
namespace {

constexpr int64_t kMostOfNeox = 10'000'000;  // GPUs, sequences of a step
constexpr int64_t kWidestOfNeox = int64_t{1} << 30;

int64_t neox_size(const Importing& i, const char* name, int64_t fallback) {
  if (!i.a.given(name)) return fallback;
  const std::optional<int64_t> n = i.a.whole(name);
  if (!n || (*n >= 1 && *n <= kMostOfNeox)) return n.value_or(fallback);
  i.a.refuse(name, fmt::format("must be from 1 to {}", kMostOfNeox));
  return fallback;
}

int64_t neox_tp(const Importing& i) {
  return neox_size(i, "model_parallel_size", 1);
}

// 0: a plain module instead of a pipeline of one stage.
int64_t neox_pp(const Importing& i) {
  const char* name = "pipe_parallel_size";
  return i.a.whole(name, 0) == 0 ? 1 : neox_size(i, name, 1);
}

// --- model

// Every word in a list of lists: the kinds of layers in [[["flash", "local"], 12]].
void words_in(const Value& v, std::vector<const Value*>& words) {
  if (v.is_scalar()) words.push_back(&v);
  for (const Value& item : v.items) words_in(item, words);
}

struct NeoxLayer {
  std::string_view word, part;  // part: what is missing; empty: attention to all
};
constexpr NeoxLayer kNeoxLayers[] = {
    {"global", ""},
    {"flash", ""},
    {"local", "attention to blocks of keys"},
    {"sparse_fixed", "attention to blocks of keys"},
    {"sparse_variable", "attention to blocks of keys"},
    {"bigbird", "attention to blocks of keys"},
    {"bslongformer", "attention to blocks of keys"},
    {"gmlp", "gated MLPs instead of attention (gMLP)"},
    {"amlp", "gated MLPs beside attention (aMLP)"},
    {"mamba", "state-space layers of the first Mamba"},
    {"rwkv", "recurrent layers of RWKV"},
};

void neox_parts(Importing& i) {
  const auto refuse = [&](const char* name, std::string_view part, std::string_view word) {
    i.a.problems().add("E130", fmt::format("not supported yet: {} ({} {})", part, name, word),
                       i.a.mark(name), 1, {}, "what is forecast trains a decoder on one loss");
  };
  if (const std::string train = i.a.word("train_impl", "normal"); train != "normal")
    refuse("train_impl", "training by preferences or rewards", train);
  const char* name = "attention_config";
  if (!i.a.given(name)) return;
  std::vector<const Value*> words;
  words_in(*i.a.value(name), words);
  bool flash = false, unfused = false;
  for (const Value* w : words) {
    if (w->text == "all" || python_whole(w->text)) continue;
    const auto* const known = std::ranges::find(kNeoxLayers, w->text, &NeoxLayer::word);
    if (known == std::end(kNeoxLayers))
      return i.a.refuse(name, "has a kind of layers that is not known: " + w->text,
                        "known: global, flash, local, sparse_fixed, ..., gmlp, amlp, mamba, rwkv");
    if (!known->part.empty()) return refuse(name, known->part, w->text);
    flash = flash || w->text == "flash";
    unfused = unfused || w->text == "global";
  }
  if (flash && unfused)
    i.draft.note(fmt::format("{}: all layers are taken for the fused kind", i.a.why(name)));
  i.draft.set_text("kernels.attention", flash ? "flash" : "unfused", i.a.origin(name));
}

// Whether the MLP is gated, by its activation.  The grouped MLPs of experts never are.
bool neox_is_gated(const Importing& i) {
  const std::string activation = i.a.word("activation", "gelu");
  return activation == "geglu" || activation == "reglu" || activation == "swiglu";
}

void neox_activation(Importing& i) {
  const char* name = "activation";
  const std::string written = i.a.word(name, "gelu");
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kWords{
      {{"gelu", "gelu"},
       {"relu", "relu"},
       {"silu", "silu"},
       {"swish", "silu"},
       {"geglu", "gelu"},
       {"reglu", "relu"},
       {"swiglu", "silu"}}};
  const auto* const known =
      std::ranges::find(kWords, written, &decltype(kWords)::value_type::first);
  if (known != kWords.end())
    return i.draft.set_text("model.hidden_act", known->second,
                            i.a.origin(name, "GPT-NeoX's default"));
  for (const std::string_view other : {"glu", "bilinear", "mish", "softsign"})
    if (written == other)
      return i.a.problems().add("E130", fmt::format("not supported yet: the activation {}", other),
                                i.a.mark(name), static_cast<int>(other.size()), {},
                                "gelu, relu, silu, swish, geglu, reglu and swiglu are");
  i.a.refuse(name, "is no activation of GPT-NeoX's",
             "known: gelu, relu, silu, swish, geglu, reglu and swiglu");
}

struct NeoxWidth {
  int64_t width = 0;
  Origin why;
};

// 4 times the model's unless stated, in multiples of mlp_multiple_of.  Of that gated MLPs have 2/3
// in both up projections together.
NeoxWidth neox_width(const Importing& i, int64_t hidden) {
  if (i.a.given("intermediate_size"))
    return {i.a.whole("intermediate_size", 0), i.a.origin("intermediate_size")};
  if (!i.a.given("expansion_factor"))
    return {4 * hidden, "GPT-NeoX's default: 4 times hidden_size"};
  const double factor = i.a.real("expansion_factor").value_or(4);
  if (factor > 0 && factor < 1024)
    return {static_cast<int64_t>(factor * static_cast<double>(hidden)),
            i.a.origin("expansion_factor")};
  i.a.refuse("expansion_factor", "must be above 0");
  return {1, ""};
}

// ParallelMLP; of experts ParallelGroupedMLP, which has no biases and neither gates nor
// mlp_multiple_of: as wide as stated, else 4 times the model's in multiples of 256.  Until August
// 2024 MLPs of `mlp_type: llama`, experts' too, were gated, without biases, and as wide as stated,
// else 8/3 of the model's in multiples of 256 (LLaMAParallelMLP).
void neox_mlp(Importing& i) {
  if (i.in.problems.any()) return;
  const int64_t hidden = i.a.whole("hidden_size", 0);
  const bool older = i.a.word("mlp_type") == "llama";
  const bool experts = i.a.whole("moe_num_experts", 1) > 1;
  const bool gated = older || (!experts && neox_is_gated(i));
  NeoxWidth w{1, ""};
  int64_t unit = 1;
  if (!older && !experts) {
    unit = i.a.whole("mlp_multiple_of", 1);
    w = neox_width(i, hidden);
    if (i.in.problems.any()) return;
  } else if (i.a.given("intermediate_size")) {
    w = {i.a.whole("intermediate_size", 0), i.a.origin("intermediate_size")};
  } else {
    unit = 256;
    w = older
            ? NeoxWidth{2 * hidden * 4 / 3,
                        "GPT-NeoX's default: 8/3 of hidden_size, in multiples of 256"}
            : NeoxWidth{4 * hidden, "GPT-NeoX's default: 4 times hidden_size, in multiples of 256"};
  }
  if (w.width < 1 || w.width > kWidestOfNeox || unit < 1 || unit > kWidestOfNeox)
    return i.a.refuse(i.a.given("intermediate_size") ? "intermediate_size" : "mlp_multiple_of",
                      "must be from 1 to 2^30");
  if (gated && !older) {
    w.width = w.width * 2 / 3 / 2;
    w.why.text += ", of which gated MLPs have a third on either side";
  }
  const bool plain = older || experts;
  i.draft.set("model.gated_mlp", gated,
              experts && !older
                  ? Origin("the MLPs of experts have no gate")
                  : i.a.origin(older ? "mlp_type" : "activation", "GPT-NeoX's default"));
  i.draft.set("model.mlp_bias", !plain && i.a.flag("use_bias_in_mlp", true),
              plain ? Origin("this kind of MLP has none")
                    : i.a.origin("use_bias_in_mlp", "GPT-NeoX's default"));
  i.draft.set(experts ? "model.moe_intermediate_size" : "model.intermediate_size",
              (w.width + unit - 1) / unit * unit, w.why);
}

void neox_experts(Importing& i) {
  if (i.a.whole("moe_num_experts", 1) < 2) return;
  i.draft.set("model.num_experts", i.a.whole("moe_num_experts", 1), i.a.origin("moe_num_experts"));
  i.draft.set("model.num_experts_per_tok", i.a.whole("moe_top_k", 1),
              i.a.origin("moe_top_k", "GPT-NeoX's default"));
  if (i.a.whole("moe_expert_interval", 1) != 1)
    i.a.refuse("moe_expert_interval", "must be 1: no other has been seen");
  // Experts are split over the ranks of tensor parallelism (moe.py), each whole.
  const int64_t tp = neox_tp(i);
  if (tp > 1) {
    i.draft.set("parallel.ep", tp, i.a.origin("model_parallel_size"));
    i.draft.set("parallel.etp", int64_t{1}, "experts are whole on their rank");
  }
}

// Tokens of the tokenizers that the project publishes models with.
void neox_vocabulary(Importing& i) {
  const int64_t unit = i.a.whole("make_vocab_size_divisible_by", 128);
  if (unit < 1 || unit > kMostOfNeox)
    return i.a.refuse("make_vocab_size_divisible_by", "must be from 1 to 10,000,000");
  if (unit != 128)
    i.draft.set("parallel.vocab_multiple", unit, i.a.origin("make_vocab_size_divisible_by"));
  if (i.a.given("padded_vocab_size"))
    return i.draft.set("model.vocab_size", i.a.whole("padded_vocab_size", 1),
                       i.a.origin("padded_vocab_size"));
  // Tokens of EleutherAI's tokenizer: with them Pythia's vocabularies are 50304, 50432 and 50688
  // rows for 1, 2 and 4 ranks, as its config.json files have it.
  constexpr int64_t kOfNeox = 50277, kOfGpt2 = 50257, kOfLlama = 32000;
  const std::string type = i.a.word("tokenizer_type", "GPT2BPETokenizer");
  const std::string file = i.a.word("vocab_file");
  const auto of = [&](int64_t tokens, const char* by) {
    i.draft.set("model.vocab_size", tokens, i.a.origin(by, "GPT-NeoX's default: GPT-2's"));
  };
  if (file.find("20B_tokenizer") != std::string::npos) return of(kOfNeox, "vocab_file");
  if (!i.a.given("tokenizer_type") && file.empty())
    return i.draft.assume("model.vocab_size", fmt::format("{}", kOfGpt2),
                          "GPT-NeoX's default tokenizer is GPT-2's, and the file names none, which "
                          "another may; -s model.vocab_size=N states it");
  if (type == "GPT2BPETokenizer" || type == "HFGPT2Tokenizer") return of(kOfGpt2, "tokenizer_type");
  constexpr int64_t kOfCharacters = 512;  // build_tokenizer()
  if (type == "CharLevelTokenizer") return of(kOfCharacters, "tokenizer_type");
  i.draft.assume("model.vocab_size", fmt::format("{}", type == "SPMTokenizer" ? kOfLlama : kOfNeox),
                 fmt::format("{} does not say how many tokens there are, {} has as many; "
                             "-s model.vocab_size=N states it",
                             i.a.why("tokenizer_type"),
                             type == "SPMTokenizer" ? "Llama 2's" : "GPT-NeoX's own tokenizer"));
}

void neox_attention_bias(Importing& i) {
  const char* name = "use_bias_in_attn_linear";
  i.draft.set("model.attention_bias", i.a.flag(name, true), i.a.origin(name, "GPT-NeoX's default"));
}

void neox_positions(Importing& i) {
  const char* name = "pos_emb";
  const std::string kind = i.a.word(name, "learned");
  struct Word {
    std::string_view theirs, ours;
  };
  constexpr std::array<Word, 6> kWords{{{"learned", "learned"},
                                        {"rotary", "rotary"},
                                        {"sinusoidal", "none"},
                                        {"alibi", "alibi"},
                                        {"none", "none"},
                                        {"rpe", "relative"}}};
  const auto* const known = std::ranges::find(kWords, kind, &Word::theirs);
  if (known == kWords.end())
    return i.a.refuse(name, "is not known here",
                      "known: learned, rotary, sinusoidal, alibi, rpe and none");
  i.draft.set_text("model.position_embedding_type", known->ours,
                   i.a.origin(name, "GPT-NeoX's default"));
  if (kind == "rpe")
    i.draft.set("model.relative_attention_num_buckets", i.a.whole("rpe_num_buckets", 32),
                i.a.origin("rpe_num_buckets", "GPT-NeoX's default"));
  const char* most =
      i.a.given("max_position_embeddings") ? "max_position_embeddings" : "seq_length";
  if (i.a.given(most))
    i.draft.set("model.max_position_embeddings",
                i.a.whole(most, 1) + (kind == "learned" ? i.a.whole("opt_pos_emb_offset", 0) : 0),
                i.a.origin(most));
}

// --- run

void neox_sequence(Importing& i) {
  const char* name = "sequence_parallel";
  const bool split = i.a.flag(name);
  if (!split && neox_tp(i) > 1 && i.a.whole("moe_num_experts", 1) > 1)
    return refuse_unsplit_experts(i.in, i.a.mark("moe_num_experts"));
  if (i.a.given(name) || i.a.given("model_parallel_size"))
    i.draft.set("parallel.sp", split, i.a.origin(name, "GPT-NeoX's default"));
}

// What calculate_batch_parameters() makes of those of the three that are given.
struct NeoxBatch {
  int64_t global = 0, micro = 0, steps = 0;  // 0: not given
};

NeoxBatch neox_whole_batch(NeoxBatch b, int64_t dp) {
  if (b.global > 0 && b.micro > 0 && b.steps == 0) b.steps = b.global / b.micro / dp;
  if (b.steps == 0) b.steps = 1;
  if (b.micro == 0) b.micro = b.global > 0 ? b.global / dp / b.steps : 1;
  if (b.global == 0) b.global = b.micro * b.steps * dp;
  return b;
}

void neox_batch(Importing& i) {
  const int64_t tp = neox_tp(i), pp = neox_pp(i);
  const NeoxBatch given{neox_size(i, "train_batch_size", 0),
                        neox_size(i, "train_micro_batch_size_per_gpu", 0),
                        neox_size(i, "gradient_accumulation_steps", 0)};
  const int64_t micro = std::max<int64_t>(1, given.micro),
                steps = std::max<int64_t>(1, given.steps);
  const char* all = i.a.given("global_num_gpus") ? "global_num_gpus" : "world_size";
  int64_t gpus = neox_size(i, all, 0);
  Origin of_gpus = i.a.origin(all);
  // What DeepSpeed's launcher is told (megatron/neox_arguments/deepspeed_args.py): -1 and null are
  // all that there are.
  std::optional<int64_t> each;
  const auto told = [&](const char* name) {
    return i.a.word(name).starts_with('-') ? 0 : i.a.whole(name, 0);
  };
  if (const int64_t nodes = told("num_nodes"), of_node = told("num_gpus");
      gpus == 0 && nodes > 0 && of_node > 0) {
    if (nodes > kMostOfNeox / of_node) return i.a.refuse("num_nodes", "is too large");
    gpus = nodes * of_node;
    each = of_node;
    of_gpus = {fmt::format("{} x {}", i.a.why("num_nodes"), i.a.why("num_gpus")),
               i.a.mark("num_nodes")};
    all = "num_nodes";
  }
  if (i.in.problems.any()) return;
  const auto refuse = [&](const std::string& message, const char* at, const char* help) {
    i.in.problems.add("E332", message, i.a.mark(at), 1, {}, help);
  };
  if (tp > kMostOfNeox / pp || micro > kMostOfNeox / steps)
    return refuse("the sizes of this file make no job of a sensible size", "model_parallel_size",
                  "at most 10,000,000 GPUs and sequences of a step");
  if (gpus % (tp * pp) != 0)
    return refuse(fmt::format("the {} GPUs are no multiple of model_parallel_size x "
                              "pipe_parallel_size = {}",
                              gpus, tp * pp),
                  all, "every replica of the model takes as many");
  constexpr int64_t kUsual = 8;
  int64_t dp = std::max<int64_t>(1, kUsual / (tp * pp));
  Origin why = "the file does not say how many GPUs there are";
  if (gpus > 0) {
    dp = gpus / (tp * pp);
    why = of_gpus;
  } else if (given.global > 0 && given.micro > 0) {
    dp = std::max<int64_t>(1, given.global / (micro * steps));
    why = {"train_batch_size = micro batch x accumulation x replicas",
           i.a.mark("train_batch_size")};
  } else {
    while (given.global > 0 && dp > 1 && given.global % (dp * steps) != 0) --dp;
    i.draft.note_about("cluster.nodes", fmt::format("{} GPUs are assumed: {}; -s cluster.nodes=N",
                                                    dp * tp * pp, why.text));
  }
  if (dp > kMostOfNeox / (tp * pp) || dp > kMostOfNeox / (micro * steps))
    return i.a.refuse(gpus > 0 ? all : "train_batch_size", "is too large");
  const NeoxBatch batch = neox_whole_batch(given, dp);
  if (batch.global != batch.micro * batch.steps * dp)
    return refuse(fmt::format("a step of {} sequences cannot be split into micro batches of {}, {} "
                              "on each of {} replicas",
                              batch.global, batch.micro, batch.steps, dp),
                  "train_batch_size", "train_batch_size = micro batch x accumulation x replicas");
  draft_cluster(i.cluster, dp * tp * pp, why, i.draft, each);
  i.draft.set("parallel.tp", tp, i.a.origin("model_parallel_size"));
  i.draft.set("parallel.pp", pp, i.a.origin("pipe_parallel_size"));
  const Origin of_micro =
      i.a.origin("train_micro_batch_size_per_gpu",
                 given.global > 0 ? "train_batch_size / replicas / accumulation" : "default");
  if (given.micro == 0 && given.global > 0)
    i.draft.derive("batch.micro", {DerivedBatch::Rule::split, batch.steps, dp}, of_micro);
  else
    i.draft.set("batch.micro", batch.micro, of_micro);
  const Origin of_global = i.a.origin("train_batch_size", "micro batch x accumulation x replicas");
  if (given.global > 0)
    i.draft.set("batch.global", batch.global, of_global);
  else
    i.draft.derive("batch.global", {DerivedBatch::Rule::microbatches, batch.steps, dp}, of_global);
}

void neox_precision(Importing& i) {
  const std::string stated = i.a.word("precision");
  const bool bf16 = stated == "bfloat16" || i.a.flag("bf16.enabled") ||
                    (i.a.flag("fp16.enabled") && i.a.word("fp16.type") == "bfloat16");
  const bool fp16 = stated == "fp16" || i.a.flag("fp16.enabled") || i.a.flag("fp16.fp16");
  const char* by = !stated.empty()            ? "precision"
                   : i.a.flag("bf16.enabled") ? "bf16.enabled"
                   : bf16                     ? "fp16.type"
                   : i.a.flag("fp16.fp16")    ? "fp16.fp16"
                                              : "fp16.enabled";
  i.draft.set_text("precision.preset",
                   bf16   ? "bf16-mixed"
                   : fp16 ? "fp16-mixed"
                          : "fp32",
                   i.a.origin(by, "neither fp16 nor bf16 is enabled"));
  if (i.a.flag("fp32_allreduce"))
    i.draft.set_text("precision.reduce", "fp32", i.a.origin("fp32_allreduce"));
}

void neox_recompute(Importing& i) {
  if (!i.a.flag("checkpoint_activations")) return;
  i.draft.set_text("recompute.granularity", "full", i.a.origin("checkpoint_activations"));
  if (i.a.given("checkpoint_num_layers"))
    i.draft.set("recompute.layers", i.a.whole("checkpoint_num_layers", 1),
                i.a.origin("checkpoint_num_layers"));
  if (i.a.flag("partition_activations") && neox_tp(i) > 1)
    i.draft.set("recompute.distribute", true, i.a.origin("partition_activations"));
}

// Layers are what is counted, unless a stage is to have as many parameters as another.
void neox_partition(Importing& i) {
  const char* name = "pipe_partition_method";
  const std::string method = i.a.word(name, "uniform");
  if (method != "uniform" && !method.starts_with("type:")) i.draft.left_out(i.a.why(name));
}

void neox_clip(Importing& i) {
  const char* name = "gradient_clipping";
  i.draft.set("optimizer.clip", !i.a.given(name) || i.a.real(name).value_or(0) > 0,
              i.a.origin(name, "GPT-NeoX's default: 1"));
}

void neox_dropout(Importing& i) {
  for (const auto& [name, path] : {std::pair{"attention_dropout", "kernels.dropout.attention"},
                                   std::pair{"hidden_dropout", "kernels.dropout.hidden"}})
    if (i.a.real(name)) i.draft.set(path, i.a.word(name), i.a.origin(name));
}

void neox_norm_kernel(Importing& i) {
  const bool rms = i.a.word("norm").ends_with("rmsnorm");
  if (rms && !i.a.word("norm").starts_with("te_"))
    i.draft.set("kernels.fused_norm", i.a.flag("rmsnorm_fusion"),
                i.a.origin("rmsnorm_fusion", "GPT-NeoX's default"));
}

// The profile is version 1.0's.  What only later versions have came in 2024, after FlashAttention 2
// (8903a969, September 2023) and with PyTorch's LayerNorm of one kernel.  Published files of models
// that earlier versions trained have been given these keys since, switched off (configs/20B.yml
// @ea7aefd8), so that only what is switched on tells the version.
void neox_version(Importing& i) {
  struct Key {
    const char* name;
    std::string_view off = "";  // beside false
  };
  constexpr Key kLater[] = {{"num_kv_heads"},
                            {"intermediate_size"},
                            {"sliding_window_width"},
                            {"moe_num_experts", "1"},
                            {"mlp_multiple_of", "1"},
                            {"sequence_parallel"},
                            {"rope_fusion"},
                            {"rmsnorm_fusion"},
                            {"layernorm_fusion"},
                            {"te_columnparallel"},
                            {"te_rowparallel"},
                            {"te_layernorm_mlp"},
                            {"te_mha"},
                            {"te_fp8_mha"}};
  for (const Key& later : kLater) {
    if (!i.a.given(later.name)) continue;
    const std::string word = i.a.word(later.name);
    if (truth(word) == false || word == later.off) continue;
    i.draft.set_text("kernels.flash_kernel", "flash-2", i.a.origin(later.name));
    i.draft.set_text("kernels.layer_norm", "fused", i.a.origin(later.name));
    return;
  }
}

// DeepSpeed's engine for pipelines, which one of one stage is too, reduces gradients when the last
// backward has ended, all of them to all ranks (DeeperSpeed deepspeed/runtime/pipe/engine.py,
// _exec_reduce_grads).  pipe_parallel_size 0 is its other engine.
void neox_reduction(Importing& i) {
  const char* engine = "pipe_parallel_size";
  const char* name = "zero_optimization.overlap_comm";
  if (i.a.whole(engine, 0) != 0) return i.draft.set("overlap.dp_grad", false, i.a.origin(engine));
  if (i.a.given(name)) i.draft.set("overlap.dp_grad", i.a.flag(name), i.a.origin(name));
  if (i.a.whole("zero_optimization.stage", 0) == 1)
    i.draft.set_text("parallel.zero_exchange", "scatter",
                     i.a.origin(engine, "GPT-NeoX's default: pipe_parallel_size 0"));
}

// Its timers synchronize the device when they are started and stopped (DeeperSpeed
// deepspeed/utils/timer.py).
void neox_timers(Importing& i) {
  const char* name = "wall_clock_breakdown";
  if (i.a.flag(name)) i.draft.set_text("kernels.host_waits", "passes", i.a.origin(name));
}

constexpr std::string_view kOfNeoxItself = "GPT-NeoX's default";

constexpr CostArgument kNeox[] = {
    {"train_impl", "model", As::code(neox_parts)},
    {"attention_config", "model"},
    {"num_layers", "model.num_hidden_layers", As::size_to(100'000).needed()},
    {"hidden_size", "model.hidden_size", As::size_to(kWidestOfNeox / 8).needed()},
    {"num_attention_heads", "model.num_attention_heads", As::size_to(65'536).needed()},
    {"num_kv_heads", "model.num_key_value_heads", As::size_to(65'536)},
    {"intermediate_size", "model.intermediate_size", As::code(neox_mlp)},
    {"expansion_factor", "model.intermediate_size"},
    {"mlp_multiple_of", "model.intermediate_size"},
    {"activation", "model.hidden_act", As::code(neox_activation)},
    {"norm", "model.normalization",
     As::word("layernorm=layer_norm|te_layernorm=layer_norm|rmsnorm=rms_norm|te_rmsnorm=rms_norm")
         .otherwise("layernorm", kOfNeoxItself)},
    {"use_bias_in_attn_linear", "model.attention_bias", As::code(neox_attention_bias)},
    {"use_bias_in_mlp", "model.mlp_bias"},
    {"mlp_type", "model.gated_mlp"},
    {"no_weight_tying", "model.tie_word_embeddings",
     As::flag("true=false|false=true").otherwise("false", kOfNeoxItself)},
    {"gpt_j_residual", "model.parallel_attn", As::flag()},
    {"gpt_j_tied", "model.shared_input_norm", As::flag()},
    {"sliding_window_width", "model.sliding_window", As::whole()},
    {"pos_emb", "model.position_embedding_type", As::code(neox_positions)},
    {"rpe_num_buckets", "model.relative_attention_num_buckets"},
    {"max_position_embeddings", "model.max_position_embeddings"},
    {"opt_pos_emb_offset", "model.max_position_embeddings"},
    {"tokenizer_type", "model.vocab_size", As::code(neox_vocabulary)},
    {"vocab_file", "model.vocab_size"},
    {"padded_vocab_size", "model.vocab_size"},
    {"make_vocab_size_divisible_by", "parallel.vocab_multiple"},
    {"moe_num_experts", "model.num_experts", As::code(neox_experts)},
    {"moe_top_k", "model.num_experts_per_tok"},
    {"moe_expert_interval", "model.num_experts"},

    {"model_parallel_size", "parallel.tp", As::code(neox_batch)},
    {"pipe_parallel_size", "parallel.pp"},
    {"train_batch_size", "batch.global"},
    {"train_micro_batch_size_per_gpu", "batch.micro"},
    {"gradient_accumulation_steps", "batch.global", As::input(), "gas"},  // of Pythia's files
    {"global_num_gpus", "cluster.nodes"},
    {"world_size", "cluster.nodes"},
    {"num_nodes", "cluster.nodes"},
    {"num_gpus", "cluster.nodes"},
    {"seq_length", "batch.seq", As::whole().needed()},
    {"sequence_parallel", "parallel.sp", As::code(neox_sequence)},

    {"precision", "precision.preset", As::code(neox_precision)},
    {"fp16.enabled", "precision.preset"},
    {"fp16.fp16", "precision.preset"},
    {"fp16.type", "precision.preset"},
    {"bf16.enabled", "precision.preset", As::input(), "bf16.bf16|bfloat16.enabled"},
    {"fp32_allreduce", "precision.reduce"},
    {"checkpoint_activations", "recompute.granularity", As::code(neox_recompute)},
    {"checkpoint_num_layers", "recompute.layers"},
    {"partition_activations", "recompute.distribute"},
    {"gradient_clipping", "optimizer.clip", As::code(neox_clip)},
    {"attention_dropout", "kernels.dropout.attention", As::code(neox_dropout)},
    {"hidden_dropout", "kernels.dropout.hidden"},
    {"scaled_upper_triang_masked_softmax_fusion", "kernels.fused_softmax",
     As::flag().otherwise("false", kOfNeoxItself)},
    {"attention_softmax_in_fp32", "kernels.softmax_fp32", As::flag()},
    {"bias_gelu_fusion", "kernels.fused_activation", As::flag().otherwise("false", kOfNeoxItself)},
    {"bias_dropout_fusion", "kernels.fused_bias_dropout_add",
     As::flag().otherwise("false", kOfNeoxItself)},
    {"rope_fusion", "kernels.fused_rotary", As::flag().otherwise("false", kOfNeoxItself)},
    {"rmsnorm_fusion", "kernels.fused_norm", As::code(neox_norm_kernel)},
    {"", "kernels.flash_kernel", As::code(neox_version)},
    {"layernorm_fusion", "kernels.layer_norm"},
    {"zero_optimization.overlap_comm", "overlap.dp_grad", As::code(neox_reduction)},
    {"wall_clock_breakdown", "kernels.host_waits", As::code(neox_timers)},
    {"use_bnb_optimizer", "optimizer", As::left_out("false")},
    {"use_qk_layernorm", "model.use_qk_norm", As::left_out("false")},
    {"num_unique_layers", "model.num_hidden_layers", As::left_out("null")},
    {"soft_prompt_tuning", "model", As::left_out("null")},
    {"checkpoint_in_cpu", "offload", As::left_out("false")},
    {"pipe_partition_method", "parallel.layout", As::code(neox_partition)},
    {"te_columnparallel", "kernels", As::left_out("false")},
    {"te_rowparallel", "kernels", As::left_out("false")},
    {"te_layernorm_mlp", "kernels", As::left_out("false")},
    {"te_mha", "kernels", As::left_out("false")},
    {"te_fp8_mha", "kernels", As::left_out("false")},
};

// The rows of the model and those that DeepSpeed's own files have.
std::span<const CostArgument> neox_arguments() {
  static const std::vector<CostArgument> kRows = [] {
    std::vector<CostArgument> rows(std::begin(kNeox), std::end(kNeox));
    const std::span<const CostArgument> sharding = deepspeed_sharding();
    std::ranges::copy_if(sharding, std::back_inserter(rows), [](const CostArgument& row) {
      return std::ranges::none_of(kNeox, [&](const CostArgument& own) {
        return !own.name.empty() && own.name == row.name;
      });
    });
    return rows;
  }();
  return kRows;
}

}  // namespace

void import_neox(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                 ImportCounts& counts) {
  const Value file = read_mapping(in, in.file, "a configuration of GPT-NeoX");
  if (in.problems.any()) return;
  const ArgumentReader reader(neox_arguments(), "neox", flatten(file), in.problems);
  if (!reader.given("num_layers") && !reader.given("hidden_size"))
    return in.problems.add("E330", "this file does not say the sizes of a model", {in.file, 1, 1},
                           1, {},
                           "GPT-NeoX takes several files; the one with num_layers has the model");
  counts.add(reader);
  draft.set("model.preset", std::string("gpt"), "a decoder; what differs is stated");
  draft.set_text("software", "gpt-neox", "");
  draft.note_about(
      "software",
      "forecast as version 1.0 of GPT-NeoX; no run of it is among the measured ones that "
      "intervals are made of");
  Importing importing{reader, in, cluster, draft};
  draft_rows(importing);
}

}  // namespace stepcast
