// SPDX-License-Identifier: Apache-2.0
// import_nemo: NeMo's YAML.  Of NeMo 1 (and its launcher) `trainer` and `model`, where the model
// has layout, batch and optimizer too; of NeMo 2 what its recipes export: `trainer.strategy`,
// `model.config`, `data`.
//
// Both end in Megatron's arguments, of which NeMo has many under their own names.  Names and
// defaults: examples/nlp/language_modeling/conf and nemo/collections/nlp/models/language_modeling/
// of https://github.com/NVIDIA/NeMo (r1.23), nemo/lightning/pytorch/strategies (2.0).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/composition.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/interpolation.h"
#include "scenarios/frameworks/megatron/import.h"
#include "scenarios/frameworks/nemo_purpose.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr std::string_view kNoEffect = "hf_model_id";  // a name without effect on Megatron's list

// NeMo's name, and Megatron's for the same with the same values.
struct NemoName {
  std::string_view nemo, megatron;
};
constexpr NemoName kNemoNames[] = {
    {"trainer.num_nodes", "nnodes"},
    {"trainer.gradient_clip_val", "clip_grad"},
    {"model.encoder_seq_length", "seq_length"},
    {"model.data.seq_length", "seq_length"},
    {"model.data.encoder_seq_length", "seq_length"},
    {"model.data.seq_length_dec", "decoder_seq_length"},
    {"model.data.decoder_seq_length", "decoder_seq_length"},
    {"model.data.train_ds.max_seq_length", "seq_length"},
    {"model.data.train_ds.global_batch_size", "global_batch_size"},
    {"model.data.train_ds.micro_batch_size", "micro_batch_size"},
    {"model.bias", "add_bias_linear"},
    {"model.qkv_bias", "add_qkv_bias"},
    {"model.num_moe_experts", "num_experts"},
    {"model.mamba_ssm_ngroups", "mamba_num_groups"},
    {"model.activations_checkpoint_granularity", "recompute_granularity"},
    {"model.activations_checkpoint_method", "recompute_method"},
    {"model.use_flash_attention", "use_flash_attn"},
    {"model.ub_tp_comm_overlap", "tp_comm_overlap"},
    {"model.bias_dropout_add_fusion", "bias_dropout_fusion"},
    {"model.override_vocab_size", "padded_vocab_size"},
    {"model.share_decoder_tokens_head_embeddings", "share_embeddings_and_output_weights"},
    {"model.optim.overlap_grad_sync", "overlap_grad_reduce"},
    {"model.optim.overlap_param_sync", "overlap_param_gather"},
    {"trainer.strategy.gradient_accumulation_fusion", "gradient_accumulation_fusion"},
    {"data.seq_length", "seq_length"},
    {"data.global_batch_size", "global_batch_size"},
    {"data.micro_batch_size", "micro_batch_size"},
    {"optim.config.use_distributed_optimizer", "use_distributed_optimizer"},
    {"optim.config.clip_grad", "clip_grad"},
    {"optim.config.optimizer", "optimizer"},
    {"model.fp8_params", "fp8_param_gather"},
    {"trainer.plugins.fp8", "fp8"},
    {"trainer.plugins.fp8_recipe", "fp8_recipe"},
    {"trainer.plugins.fp8_params", "fp8_param_gather"},
    {"trainer.plugins.fp8_param_gather", "fp8_param_gather"},
};

// Of NeMo 1 these do nothing to the step, wherever they stand: how the data is read, what is saved,
// profiled and tuned afterwards.
constexpr std::string_view kWithoutEffectBelow[] = {"run.",
                                                    "exp_manager.",
                                                    "hydra.",
                                                    "defaults",
                                                    "model.data.",
                                                    "model.tokenizer.",
                                                    "model.optim.",
                                                    "model.nsys_profile.",
                                                    "model.peft.",
                                                    "model.ub_tp_comm_overlap_cfg",
                                                    "model.restore_from",
                                                    "model.mm_cfg.",
                                                    "trainer.",
                                                    "model.decoder.",
                                                    "model.encoder.",
                                                    "data.",
                                                    "log.",
                                                    "resume.",
                                                    "optim.",
                                                    "tokenizer.",
                                                    "model.tokens_head",
                                                    "model.mcore_customization_config."};

bool is_mapping(const Value* v) {
  return v != nullptr && v->is_mapping();
}

class NemoFile {
 public:
  explicit NemoFile(const ImportSources& in) : in_(in) {}

  std::vector<Argument> read(const Value& file) {
    const Value* model = file.find("model");
    newer_ = is_mapping(model) && is_mapping(model->find("config"));
    sees_ = is_mapping(model) && is_mapping(model->find("mm_cfg"));
    const std::vector<Argument> all = flatten(file);
    for (const Argument& a : all)
      if (const std::string_view to = renamed(a.name); !to.empty()) add(std::string(to), a);
    for (const Argument& a : all) {
      if (!renamed(a.name).empty() || known(a)) continue;
      translate(a);
    }
    if (is_mapping(model)) add_stacks(*model);
    if (has("mamba_num_groups") && !has("hybrid_override_pattern"))  // all layers
      add_word("is_hybrid_model", "true",
               *std::ranges::find(all_, "mamba_num_groups", &Argument::name));
    if (!newer_) add_defaults();
    refuse_parts(all);
    return std::move(all_);
  }

  // Whether the file is NeMo 2's.
  bool newer() const { return newer_; }

  // Keys of the model that Megatron has no argument for.
  void draft(ScenarioDraft& draft) const {
    if (sees_) draft.left_out("model.mm_cfg");
    if (hybrid_ && has("use_torch_fsdp2"))
      draft.left_out(fmt::format("{} {}", hybrid_->written, hybrid_->value.text));
    if (!all_devices_.empty())
      draft.note_about("cluster.node",
                       fmt::format("{} means all GPUs of a node, 8 are assumed", all_devices_));
    note_casts(draft);
    // Lightning's default is one; who starts a job of many nodes may say so on the command line.
    const bool is_said = has("nnodes") || std::ranges::any_of(draft.notes(), [](const auto& note) {
                           return note.starts_with("cluster.nodes: ");
                         });
    if (!is_said)
      draft.note_about("cluster.nodes",
                       "1 is assumed: the file does not say trainer.num_nodes; -s cluster.nodes=N");
    if (!parallel_ || !of_falcon_) return;
    draft.set("model.parallel_attn", true, {parallel_->written, parallel_->value.mark});
    draft.set("model.shared_input_norm", !two_norms_, {parallel_->written, parallel_->value.mark});
  }

 private:
  static std::string_view renamed(std::string_view name) {
    for (const NemoName& n : kNemoNames)
      if (n.nemo == name) return n.megatron;
    return {};
  }

  // Without megatron_amp_O2 NeMo 1 has parameters of fp32, and autocast makes them narrow wherever
  // they are multiplied (megatron_base_model.py, build_model_parallel_config: enable_autocast).
  // FSDP, which gathers them narrow, needs it so.
  void note_casts(ScenarioDraft& draft) const {
    if (newer_ || (!has("bf16") && !has("fp16")) || has("use_torch_fsdp2")) return;
    if (level_2_ && truth(level_2_->value.text) == true) return;
    const char* narrow = has("bf16") ? "bf16" : "fp16";
    draft.note(
        fmt::format("{}: NeMo casts fp32 parameters to {} in each pass, which is not modelled; "
                    "parameters in {} beside an fp32 copy are forecast",
                    level_2_ ? fmt::format("{} {}", level_2_->written, level_2_->value.text)
                             : "NeMo 1's default megatron_amp_O2 False",
                    narrow, narrow));
  }

  static bool is_null(const Argument& a) {
    return a.value.kind == Value::Kind::null || a.value.text == "null" || a.value.text == "None" ||
           a.value.text == "???" || a.value.text.find("${") != std::string::npos;
  }

  static bool is_off(const Argument& a) { return is_null(a) || truth(a.value.text) == false; }

  bool has(std::string_view name) const { return names_.contains(name); }

  void put(Argument a) {
    names_.insert(a.name);
    all_.push_back(std::move(a));
  }

  // A value that is not known counts as one that is not given; the first that is given counts.
  void add(std::string name, const Argument& from) {
    if (is_null(from) || has(name)) return;
    put({std::move(name), from.written, from.value});
  }
  // What a value means in Megatron's words; comments say what the file has, too.
  void add_word(const char* name, const char* value, const Argument& from) {
    if (has(name)) return;
    const bool same = from.value.text == value || lower_case(from.value.text) == value;
    const char* then = std::string_view(value) == "true" ? "" : ":";
    put({name, same ? from.written : fmt::format("{} {}{}", from.written, from.value.text, then),
         word_value(value, from.value.mark)});
  }
  void ignore(const Argument& a) { put({std::string(kNoEffect), a.written, a.value}); }

  // What has a meaning of its own.  Returns whether it was such a name.
  bool known(const Argument& a) {
    const std::string& v = a.value.text;
    const std::string_view n = a.name;
    if (n == "trainer.devices") {
      const auto devices = a.value.kind == Value::Kind::sequence
                               ? std::optional(static_cast<int64_t>(a.value.items.size()))
                               : python_whole(v);
      if (devices && *devices > 0) {
        put({"nproc_per_node", a.written, word_value(fmt::format("{}", *devices), a.value.mark)});
      } else if (!is_null(a)) {  // -1, auto
        all_devices_ = fmt::format("{} {}", a.written, v);
      }
      return true;
    }
    if (n == "trainer.precision" || n == "model.precision" || n == "trainer.plugins.precision") {
      if (v.starts_with("bf16")) add_word("bf16", "true", a);
      if (v.starts_with("16")) add_word("fp16", "true", a);
      return true;
    }
    if (n == "model.activation") return activation(a);
    if (n == "model.optim.name") {
      if (v == "distributed_fused_adam" || v == "mcore_distributed_optim")
        add_word("use_distributed_optimizer", "true", a);
      // Names of Adam's kinds in nemo/core/optim/optimizers.py and of Megatron's.
      constexpr std::array<std::string_view, 6> kAdam{
          "adam",
          "adamw",
          "fused_adam",
          "megatron_fused_adam",
          "distributed_fused_adam",
          "mcore_distributed_optim",
      };
      const bool adam = std::ranges::find(kAdam, v) != kAdam.end();
      if (adam || !is_null(a)) add_word("optimizer", adam ? "adam" : v.c_str(), a);
      if (v == "distributed_fused_adam") add_word("overlap_grad_reduce", "true", a);
      return true;
    }
    if (n == "model.optim.grad_sync_dtype") {
      if (v == "bf16") add_word("grad_reduce_in_bf16", "true", a);
      return true;
    }
    if (n == "model.transformer_engine" || n == "model.mcore_gpt" || n == "model.mcore_bert" ||
        n == "model.mcore_t5") {
      (truth(v) == true ? engine_ : own_layers_) = a;
      ignore(a);
      return true;
    }
    if (n == "model.megatron_amp_O2") {
      if (!is_null(a)) level_2_ = a;
      ignore(a);
      return true;
    }
    if (n == "model.fp8") {
      if (truth(v) == true) add_word("fp8", "hybrid", a);
      return true;
    }
    if (n == "model.activations_checkpoint_num_layers") {  // 0: whatever the method's default is
      if (python_whole(v).value_or(0) > 0) add("recompute_num_layers", a);
      return true;
    }
    if (n == "model.name") {
      of_falcon_ = v == "megatron_falcon_gpt";
      ignore(a);
      return true;
    }
    if (n == "model.mcore_customization_config.parallel_attention") {
      if (truth(v) == true) parallel_ = a;
      return true;
    }
    if (n == "model.mcore_customization_config.new_decoder_architecture") {
      two_norms_ = truth(v) == true;
      return true;
    }
    if (n == "model.fsdp_sharding_strategy") {  // NLPFSDPStrategy in nlp/parts/nlp_overrides.py
      if (v == "grad") add_word("torch_fsdp2_reshard_after_forward", "false", a);
      if (v == "hybrid") hybrid_ = a;
      if (v != "grad") ignore(a);
      return true;
    }
    if (n == "model.fsdp") {
      if (truth(v) == true) add_word("use_torch_fsdp2", "true", a);
      return true;
    }
    if (n == "model.position_embedding_type") {
      put({"position_embedding_type", a.written,
           word_value(v == "ALiBi" || v == "alibi" ? "none" : v, a.value.mark)});
      return true;
    }
    if (n == "model.num_query_groups" || n == "model.config.num_query_groups") {
      if (is_null(a)) return true;
      add_word("group_query_attention", "true", a);
      add("num_query_groups", a);
      return true;
    }
    return tokenizer(a);
  }

  // What is no transformer, or more than one, by the key or the name that says so.
  void refuse_parts(const std::vector<Argument>& all) {
    struct Part {
      std::string_view key, part;
    };
    constexpr std::string_view kTeacher = "learning from another model";
    constexpr std::array<Part, 7> kParts{
        {{"model.hyena.", "layers of convolutions (Hyena)"},
         {"model.retro.", "retrieval (RETRO)"},
         {"model.dec_cross_attention", "retrieval (RETRO)"},
         {"model.virtual_prompt_style", "training of a part of the parameters"},
         {"model.kd_teacher_restore_from_path", kTeacher},
         {"model.data.hard_negatives_to_train", "training of embeddings by pairs of texts"},
         {"model.output_sequence", "training by preferences or rewards"}}};
    std::vector<std::string_view> refused;
    const auto refuse = [&](std::string_view part, const Argument& a) {
      if (std::find(refused.begin(), refused.end(), part) != refused.end()) return;
      refused.push_back(part);
      if (part == kTeacher) {  // in a checkpoint
        if (!in_.states_any_of("distill"))
          in_.problems.add(
              "E332",
              fmt::format("'{}': the file does not say what model the teacher is", a.written),
              a.value.mark, 1, {},
              "-s distill=PRESET states it; it has the vocabulary of the model that learns");
        return;
      }
      in_.problems.add("E130", fmt::format("not supported yet: {} ({})", part, a.written),
                       a.value.mark, 1, {},
                       "what is forecast trains all parameters of a decoder or of T5 on one loss");
    };
    for (const Argument& a : all) {
      // What is yet to be said ("???") is there.
      // So is a teacher, which no other configurations name.
      const bool null = (a.value.kind == Value::Kind::null || a.value.text == "null") &&
                        !a.name.starts_with("model.kd_teacher");
      for (const Part& p : kParts)
        if (a.name.starts_with(p.key) && !null) refuse(p.part, a);
      if (a.name.starts_with("model.model_transform") && !is_off(a))
        refuse("training of a part of the parameters", a);
      // null: all parameters are trained.
      if (a.name == "model.peft.peft_scheme" && !is_off(a) && a.value.text != "none")
        refuse(a.value.text == "lora" ? "adapters of low rank"
                                      : "training of a part of the parameters",
               a);
      if (a.name == "model.mm_cfg.llm.freeze" && !is_off(a))
        refuse("training of a part of the parameters", a);
      const bool stack = a.name == "model.encoder_arch" || a.name == "model.decoder_arch" ||
                         a.name == "model.encoder.arch" || a.name == "model.decoder.arch";
      if (stack && !is_null(a) && a.value.text != "transformer")
        refuse("an encoder or a decoder of another kind", a);
      const bool names =
          a.name == "name" || a.name == "run.name" || a.name == "model.tokenizer.type";
      if (names && (a.value.text.find("griffin") != std::string::npos ||
                    a.value.text.find("recurrentgemma") != std::string::npos))
        refuse("recurrent layers", a);
    }
  }

  // "fast-swiglu" is swiglu in one kernel.
  bool activation(const Argument& a) {
    std::string_view v = a.value.text;
    if (v.starts_with("fast-")) v.remove_prefix(5);
    if (v == "swiglu") add_word("swiglu", "true", a);
    if (v == "geglu") add_word("quick_geglu", "true", a);
    if (v == "squared-relu") add_word("squared_relu", "true", a);
    if (v == "gelu" || v == "relu" || v == "silu")
      put({"activation_func", a.written, word_value(std::string(v), a.value.mark)});
    if (v == "reglu")
      in_.problems.add("E130", "a gated MLP with relu is not supported yet", a.value.mark, 1);
    return true;
  }

  bool tokenizer(const Argument& a) {
    if (a.name == "model.tokenizer.type") {
      add("tokenizer_type", a);
      return true;
    }
    if (a.name == "model.tokenizer.model") {  // wherever it lies, its name may be known
      if (a.value.is_scalar() && a.value.text != "null" && a.value.text != "???")
        put({"tokenizer_model", a.written, a.value});
      return true;
    }
    if (a.name == "model.tokenizer.num_sentinel_tokens") {
      add("vocab_extra_ids", a);
      return true;
    }
    if (a.name == "model.tokenizer.vocab_size") {
      add("vocab_size", a);
      return true;
    }
    return false;
  }

  // Of NeMo 1 the model's own keys; of NeMo 2 those of its config and of the strategy.
  void translate(const Argument& a) {
    const std::string_view n = a.name;
    const std::string_view own = newer_ ? "model.config." : "model.";
    for (const std::string_view prefix : {own, std::string_view("trainer.strategy.")})
      if (n.starts_with(prefix) && n.find('.', prefix.size()) == std::string_view::npos) {
        if (is_null(a) || n.find("_target_") != std::string_view::npos ||
            without_effect("nemo", n.substr(prefix.size())))
          return ignore(a);
        return add(std::string(n.substr(prefix.size())), a);
      }
    for (const std::string_view below : kWithoutEffectBelow)
      if (n.starts_with(below)) return ignore(a);
    // What the run does around the step stands at the top level.
    if (n.find('.') == std::string_view::npos || newer_ || !n.starts_with("model."))
      return ignore(a);
    put({a.name, a.written, a.value});
  }

  // T5: `encoder` and `decoder` are mappings of the same keys; in 2022 one set of keys for both,
  // with `decoder_arch`.
  void add_stacks(const Value& model) {
    const Value* encoder = model.find("encoder");
    const Value* decoder = model.find("decoder");
    if (const Value* both = model.find("num_layers");
        both != nullptr && model.find("decoder_arch") != nullptr)
      for (const char* name : {"encoder_num_layers", "decoder_num_layers"})
        add(name, {name, "model.num_layers", *both});
    if (!is_mapping(encoder) || !is_mapping(decoder) || encoder->find("num_layers") == nullptr)
      return;
    for (Argument a : flatten(*encoder)) {
      a.written = "model.encoder." + a.written;
      const std::string name = a.name;
      a.name = "model." + name;
      if (name == "num_layers")
        add("encoder_num_layers", a);
      else if (const std::string_view to = renamed(a.name); !to.empty())
        add(std::string(to), a);
      else if (!known(a))
        translate(a);
    }
    for (Argument a : flatten(*decoder)) {
      a.written = "model.decoder." + a.written;
      if (a.name == "num_layers") add("decoder_num_layers", a);
    }
  }

  // NeMo 1 builds layers of Transformer Engine, keeps weights in fp8, overlaps tensor parallelism
  // in its buffers and fuses the loss only where the file says so (megatron_gpt_model.py:
  // get('fp8_params', False), get('ub_tp_comm_overlap', False); megatron_base_model.py,
  // build_model_parallel_config: fields of ModelParallelConfig that the file has, else its
  // defaults, of which cross_entropy_loss_fusion is False).  The profile has what the launcher's
  // files say.
  void add_defaults() {
    if (has("fp8") && !has("fp8_param_gather"))
      put({"fp8_param_gather", "NeMo 1's default: fp8_params", word_value("false", {})});
    if (!has("tp_comm_overlap"))
      put({"tp_comm_overlap", "NeMo 1's default: ub_tp_comm_overlap", word_value("false", {})});
    if (!has("cross_entropy_loss_fusion"))
      put({"cross_entropy_loss_fusion", "NeMo 1's default: cross_entropy_loss_fusion",
           word_value("false", {})});
    if (has("transformer_impl")) return;
    if (engine_)
      add_word("transformer_impl", "transformer_engine", *engine_);
    else if (own_layers_)
      add_word("transformer_impl", "local", *own_layers_);
  }

  const ImportSources& in_;
  std::vector<Argument> all_;
  std::set<std::string, std::less<>> names_;  // of all_
  bool newer_ = false;
  bool sees_ = false;                 // with an encoder of images, whose sizes are in another file
  std::optional<Argument> level_2_;   // of mixed precision
  std::string all_devices_;           // what says that all GPUs of a node are taken
  bool of_falcon_ = false;            // layers that may stand side by side; no others read that
  std::optional<Argument> parallel_;  // what says that attention and MLP stand side by side
  bool two_norms_ = false;            // ... each with a norm of its own
  std::optional<Argument> hybrid_;    // what says that each node has a copy
  std::optional<Argument> engine_, own_layers_;  // what says that layers are Transformer Engine's
};

// Groups of the launcher's configuration that train, and what of it is not modelled; empty: it is.
struct TrainingGroup {
  std::string_view name, part;
};
constexpr std::string_view kPartOfParameters = "training of a part of the parameters";
constexpr TrainingGroup kTrainingGroups[] = {{"training", ""},
                                             {"fine_tuning", ""},
                                             {"peft", ""},
                                             {"prompt_learning", kPartOfParameters},
                                             {"adapter_learning", kPartOfParameters},
                                             {"ia3_learning", kPartOfParameters},
                                             {"rlhf_rm", "training by preferences or rewards"},
                                             {"rlhf_ppo", "training by preferences or rewards"}};

const TrainingGroup* training_group(std::string_view name) {
  const auto* const found = std::ranges::find(kTrainingGroups, name, &TrainingGroup::name);
  return found == std::end(kTrainingGroups) ? nullptr : found;
}

// The group of the launcher's configuration that is trained: that which `stages` names, and without
// it the first whose file has a model.  Empty: the file itself is the configuration.  Adds E336
// where no stage trains, E130 for trainings that are not modelled.
std::string_view trained_group(const Value& file, const ImportSources& in, ScenarioDraft& draft) {
  if (file.find("model") != nullptr) return {};
  const Value* stages = file.find("stages");
  if (stages == nullptr || stages->items.empty()) {
    for (const TrainingGroup& group : kTrainingGroups)
      if (const Value* v = file.find(group.name); is_mapping(v) && is_mapping(v->find("model")))
        return group.name;
    return {};
  }
  const Value* first = nullptr;
  std::vector<std::string> others;
  for (const Value& stage : stages->items) {
    if (training_group(stage.text) == nullptr) continue;
    if (first == nullptr)
      first = &stage;
    else if (stage.text != first->text)
      others.push_back(stage.text);
  }
  if (first == nullptr) {
    in.problems.add("E336", "this configuration trains no model: none of its stages does",
                    stages->mark, 1, {}, "import a configuration that trains");
    return {};
  }
  const TrainingGroup& group = *training_group(first->text);
  if (!group.part.empty())
    in.problems.add("E130",
                    fmt::format("not supported yet: {} (stages: {})", group.part, group.name),
                    first->mark, static_cast<int>(first->text.size()));
  if (!others.empty())
    draft.note(
        fmt::format("stages: {} is read, {} is left out", group.name, fmt::join(others, ", ")));
  return group.name;
}

// The launcher's fine-tuning goes on with a model that a training of its own made: the one in
// training/FAMILY/ whose run.name is this file's run.model_train_name, where this file lies in
// fine_tuning/FAMILY/.  Puts that model below the file's own, without what is the run's.
void add_trained_model(Value& file, const ImportSources& in, ScenarioDraft& draft) {
  const Value* run = file.find("run");
  const Value* named = is_mapping(run) ? run->find("model_train_name") : nullptr;
  Value* own = file.find("model");
  if (named == nullptr || !named->is_scalar() || in.folder.empty() || !in.files) return;
  if (own->find("num_layers") != nullptr || own->find("encoder") != nullptr) return;
  const std::string& name = named->text;
  if (name.find('/') != std::string::npos) return;
  std::string dashes = name;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  const std::string short_name =
      name.starts_with(in.folder + "_") ? name.substr(in.folder.size() + 1) : name;
  for (const std::string& candidate : {name, dashes, short_name}) {
    const std::string path = fmt::format("training/{}/{}.yaml", in.folder, candidate);
    const std::optional<std::string> text = in.files("../../" + path);
    if (!text) continue;
    std::vector<RepeatedKey> repeated;
    Value training =
        parse_foreign_yaml(in.problems, in.problems.add_source({path, *text}), repeated);
    note_repeated(in, repeated);
    if (in.problems.any()) return;
    const Value* its_run = training.find("run");
    const Value* its_name = is_mapping(its_run) ? its_run->find("name") : nullptr;
    if (its_name == nullptr || its_name->text != name || !is_mapping(training.find("model")))
      continue;
    resolve_interpolations(training, in.given);
    Value model = *training.find("model");
    std::erase_if(model.members, [](const Member& m) {
      return m.key == "data" || m.key == "optim" || m.key == "encoder_seq_length" ||
             m.key.ends_with("_parallel_size") || m.key.starts_with("ub_tp_comm_overlap") ||
             m.key.starts_with("fp8");
    });
    merge(model, std::move(*own));
    *own = std::move(model);
    draft.note(fmt::format("run.model_train_name {}: the model is that of {}", name, path));
    return;
  }
}

// Whether the file says on what to test and not on what to train.
bool only_evaluates(const Value& file) {
  const Value* data = file.find("model")->find("data");
  if (!is_mapping(data) || data->find("test_ds") == nullptr) return false;
  return data->find("train_ds") == nullptr && data->find("data_prefix") == nullptr;
}

}  // namespace

void import_nemo(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                 ImportCounts& counts) {
  Value file = read_mapping(in, in.file, "a configuration of NeMo");
  if (in.problems.any()) return;
  if (const auto other = other_purpose_of_nemo(file))
    return in.problems.add(
        other->trains ? "E130" : "E336",
        other->trains
            ? fmt::format("not supported yet: {} ({})", other->what, other->key)
            : fmt::format("this configuration trains no model: {} ({})", other->what, other->key),
        {in.file, 1, 1}, 1, {}, "import the configuration of a training of a language model");
  const std::vector<MissingFile> missing = compose_defaults(file, in);
  if (in.problems.any()) return;
  const std::string_view group = trained_group(file, in, draft);
  if (in.problems.any()) return;
  for (const MissingFile& m : missing)
    if (m.package.starts_with(group)) draft.note(fmt::format("defaults: {} {}", m.written, m.why));
  resolve_interpolations(file, in.given);
  if (const Value* v = file.find(group); v != nullptr && !group.empty()) file = Value(*v);
  refuse_peft(file, in);
  if (in.problems.any()) return;
  if (!is_mapping(file.find("model")))
    return in.problems.add("E330", "there is no section 'model' in this file", {in.file, 1, 1}, 1,
                           {}, "a configuration of NeMo has trainer and model");
  if (only_evaluates(file))
    return in.problems.add("E336", "this configuration trains no model: it evaluates one",
                           {in.file, 1, 1}, 1, {}, "import the configuration of the training");
  add_trained_model(file, in, draft);
  if (in.problems.any()) return;
  if (const Value* model = file.find("model"); model->find("num_layers") == nullptr)
    if (const Value* from = model->find("restore_from_path"); from != nullptr && from->is_scalar())
      draft.note(fmt::format("model.restore_from_path {}: what is in a checkpoint is not read",
                             from->text));
  NemoFile nemo(in);
  std::vector<Argument> arguments = nemo.read(file);
  if (in.problems.any()) return;
  draft_megatron_file(std::move(arguments), in, cluster, draft, counts);
  draft.set_text("software", nemo.newer() ? "nemo" : "nemo-24.07", "");
  nemo.draft(draft);
}

}  // namespace stepcast
