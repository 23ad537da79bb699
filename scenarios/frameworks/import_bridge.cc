// SPDX-License-Identifier: Apache-2.0
// import_bridge: the configuration that Megatron-Bridge (and NeMo) writes as YAML, or a log with
// it and the steps.
//
// Its sections hold Megatron's arguments under the same names; where two sections say one thing,
// the one that is applied last counts: mixed_precision and comm_overlap.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/import.h"
#include "scenarios/frameworks/run_log.h"

namespace stepcast {
namespace {

// Sections in the order in which they are applied.  Nothing in the other sections changes the cost.
constexpr std::string_view kSections[] = {
    "dist", "tokenizer", "checkpoint", "optimizer",  "model",           "dataset",
    "ddp",  "train",     "training",   "validation", "mixed_precision", "comm_overlap"};
constexpr std::string_view kIgnoredSections[] = {"scheduler",
                                                 "logger",
                                                 "rng",
                                                 "profiling",
                                                 "ft",
                                                 "straggler",
                                                 "nvrx_straggler",
                                                 "rerun_state_machine",
                                                 "peft",
                                                 "inprocess_restart",
                                                 "tensor_inspect",
                                                 "inspect",
                                                 "data",
                                                 "optimizer_config_override_provider"};

// Names that differ from Megatron's.  '*' at one end of a name stands for anything.
struct Renamed {
  std::string_view section;  // empty: any
  std::string_view name;
  std::string_view megatron;  // empty: the same name
};
constexpr std::string_view kWithoutEffect = "hf_model_id";
// The first row that fits counts.
constexpr Renamed kRenamed[] = {
    {"", "*_target_", kWithoutEffect},  // Python's own
    {"", "*_call_", kWithoutEffect},       {"", "*_partial_", kWithoutEffect},
    {"", "*_args_", kWithoutEffect},       {"dataset", "sequence_length", ""},
    {"dataset", "seq_length", ""},         {"dataset", "*", "data_path"},
    {"tokenizer", "vocab_size", ""},       {"tokenizer", "tokenizer_type", ""},
    {"tokenizer", "*", "tokenizer_model"}, {"", "tp_comm_overlap_cfg.*", "tp_comm_overlap_cfg"},
};

bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

std::string megatron_name(std::string_view section, const std::string& name) {
  for (const Renamed& r : kRenamed)
    if ((r.section.empty() || r.section == section) && fits(r.name, name))
      return r.megatron.empty() ? name : std::string(r.megatron);
  return name;
}

// [[embedding, decoder], [decoder, loss]] -> "Et|tL".
std::string layout_of(const Value& stages) {
  std::string text;
  for (size_t i = 0; i < stages.items.size(); ++i) {
    if (i > 0) text += '|';
    for (const Value& layer : stages.items[i].items)
      text += layer.text == "embedding" ? "E"
              : layer.text == "loss"    ? "L"
              : layer.text == "mtp"     ? "m"
                                        : "t";
  }
  return text;
}

// What a named recipe of mixed precision stands for: "bf16_with_fp8_current_scaling_mixed".
void add_recipe(const Value& recipe, std::vector<Argument>& all) {
  const std::string& name = recipe.text;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  const auto add = [&](const char* argument, const char* value) {
    all.push_back(
        {argument, fmt::format("mixed_precision {}", name), word_value(value, recipe.mark)});
  };
  add(has("bf16") ? "bf16" : "fp16", "true");
  if (has("nvfp4")) return add("fp4", "e2m1");
  const char* scaling = has("mxfp8")                                  ? "mxfp8"
                        : has("subchannel") || has("blockwise")       ? "blockwise"
                        : has("current_scaling") || has("tensorwise") ? "tensorwise"
                        : has("fp8")                                  ? "delayed"
                                                                      : nullptr;
  if (scaling == nullptr) return;
  add("fp8", "hybrid");
  add("fp8_recipe", scaling);
}

// What recipes set that a file is laid over.  Of
// https://github.com/NVIDIA-NeMo/Megatron-Bridge (August 2026), src/megatron/bridge/:
// recipes/common.py, _pretrain_common() and _sft_common(): bf16_mixed of
// training/mixed_precision.py (gradients in fp32), overlap of the first alone, an optimizer of
// recipes/utils/optimizer_utils.py, which is distributed (training/config.py makes the section ddp
// agree with it); models/*_bridge.py and, of attention, the model's config.json: no dropout;
// models/gpt_provider.py: the fused loss.
struct RecipeDefault {
  const char* name;
  const char* path;  // of what it becomes
  const char* value;
  bool of_pretraining = false;  // not of fine-tuning
};
constexpr RecipeDefault kRecipe[] = {
    {"bf16", "precision.preset", "true"},
    {"use_distributed_optimizer", "parallel.zero", "true"},
    {"overlap_grad_reduce", "overlap.dp_grad", "true", true},
    {"overlap_param_gather", "overlap.dp_param", "true", true},
    {"hidden_dropout", "kernels.dropout.hidden", "0"},
    {"attention_dropout", "kernels.dropout.attention", "0"},
    {"cross_entropy_loss_fusion", "kernels.fused_cross_entropy", "true"},
};

// What the same functions begin with and most recipes change: too little to be assumed.
struct RecipeSize {
  const char* name;
  const char* path;
  int64_t pretraining, tuning;
};
constexpr RecipeSize kRecipeSizes[] = {
    {"global_batch_size", "batch.global", 32, 128},
    {"micro_batch_size", "batch.micro", 2, 1},
    {"seq_length", "batch.seq", 4096, 2048},
};

// Whether the file is no whole configuration, but what a recipe is changed by: all of those say the
// sizes of the model.
bool is_override(const std::vector<Argument>& arguments) {
  return std::ranges::none_of(arguments, [](const Argument& a) {
    return a.name == "num_layers" || a.name == "hidden_size";
  });
}

bool is_null(const Value& v) {
  return v.kind == Value::Kind::null || v.text == "null";
}

bool is_fine_tuning(const Value& file) {
  const Value* checkpoint = file.find("checkpoint");
  const Value* trained =
      checkpoint == nullptr ? nullptr : checkpoint->find("pretrained_checkpoint");
  return trained != nullptr && !is_null(*trained);
}

// Adds what the recipe says where the file says nothing, and notes what of it the user does not
// state.
void add_recipe_defaults(const Value& file, const ImportSources& in,
                         std::vector<Argument>& arguments, ScenarioDraft& draft) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(arguments, [&](const Argument& a) { return a.name == name; });
  };
  const bool tunes = is_fine_tuning(file);
  const Value* precision = file.find("mixed_precision");
  const bool names_precision = has("fp16") || (precision != nullptr && !precision->is_mapping());
  std::vector<Argument> added;
  std::vector<std::string> assumed, left;
  for (const RecipeDefault& d : kRecipe) {
    if (has(d.name) || (tunes && d.of_pretraining)) continue;
    if (names_precision && std::string_view(d.name) == "bf16") continue;
    added.push_back(
        {d.name, fmt::format("Megatron-Bridge's recipes: {}", d.name), word_value(d.value, {})});
    if (!in.states_any_of(d.path)) assumed.push_back(fmt::format("{} {}", d.name, d.value));
  }
  for (const RecipeSize& s : kRecipeSizes)
    if (!has(s.name) && !in.states_any_of(s.path))
      left.push_back(fmt::format("{} {}", s.name, tunes ? s.tuning : s.pretraining));
  arguments.insert(arguments.begin(), added.begin(), added.end());
  const std::string recipes =
      fmt::format("Megatron-Bridge's {} recipes", tunes ? "fine-tuning" : "pretraining");
  if (!assumed.empty())
    draft.note(
        fmt::format("the file changes a recipe, which is not read: {} are assumed, as in {}; what "
                    "else it sets, the layout too, -s states",
                    fmt::join(assumed, ", "), recipes));
  if (!left.empty())
    draft.note(fmt::format(
        "the recipe's batch is not read: {} begin with {}, and most change that; -s states it",
        recipes, fmt::join(left, ", ")));
}

class BridgeFile {
 public:
  // The arguments of the file under Megatron's names.
  std::vector<Argument> read(const Value& file) {
    for (const std::string_view section : kSections)
      if (const Value* v = file.find(section)) add_section(section, *v);
    for (const Member& m : file.members) {
      const bool known =
          std::find(std::begin(kSections), std::end(kSections), m.key) != std::end(kSections);
      if (known) continue;
      if (m.key == "env_vars" || m.key == "env") {
        for (const Member& e : m.value.members) environment_.emplace_back(e.key, e.value.text);
      } else {
        add_other(m);
      }
    }
    return std::move(all_);
  }

  const std::vector<std::pair<std::string, std::string>>& environment() const {
    return environment_;
  }

 private:
  void add_section(std::string_view section, const Value& value) {
    if (section == "mixed_precision" && value.is_scalar() && value.text != "null")
      return add_recipe(value, all_);
    for (Argument& a : flatten(value)) {
      a.written = fmt::format("{}.{}", section, a.written);
      if (a.name == "pipeline_model_parallel_layout" && a.value.kind == Value::Kind::sequence)
        a.value = word_value(layout_of(a.value), a.value.mark);
      if (!is_value_of_enum(a)) a.name = megatron_name(section, a.name);
      add(std::move(a));
    }
  }

  // "activation_func._target_: torch.nn.functional.silu", "attention_backend._args_: [5]".
  static bool is_value_of_enum(Argument& a) {
    if (a.name == "activation_func._target_") {
      a.name = "activation_func";
      return true;
    }
    if (a.name != "attention_backend._args_" || a.value.items.size() != 1) return false;
    constexpr std::array<const char*, 6> kBackends{"auto",    "flash", "fused",
                                                   "unfused", "local", "auto"};
    const auto n = python_whole(a.value.items.front().text);
    if (!n || *n < 1 || *n >= static_cast<int64_t>(kBackends.size())) return false;
    a.name = "attention_backend";
    a.value = word_value(kBackends[static_cast<size_t>(*n)], a.value.mark);
    return true;
  }

  void add(Argument a) {
    const bool null = is_null(a.value);
    if (!names_.insert(a.name).second && null)
      return;                                   // does not erase what an earlier section states
    if (a.name == "num_query_groups" && !null)  // Megatron-Bridge has no flag for it
      all_.push_back({"group_query_attention", a.written, word_value("true", a.value.mark)});
    all_.push_back(std::move(a));
  }

  void add_other(const Member& m) {
    const bool ignored =
        m.key == "_target_" || std::find(std::begin(kIgnoredSections), std::end(kIgnoredSections),
                                         m.key) != std::end(kIgnoredSections);
    Value section;
    section.kind = Value::Kind::mapping;
    section.members.push_back(m);
    for (Argument& a : flatten(section)) {
      if (ignored || a.name.ends_with("_target_") || a.name.ends_with("_call_"))
        a.name = kWithoutEffect;
      all_.push_back(std::move(a));
    }
  }

  std::vector<Argument> all_;
  std::set<std::string> names_;  // of the sections
  std::vector<std::pair<std::string, std::string>> environment_;
};

}  // namespace

void draft_megatron_file(std::vector<Argument> arguments, const ImportSources& in,
                         const ImportCluster& cluster, ScenarioDraft& draft, ImportCounts& counts) {
  const bool has_model = std::any_of(arguments.begin(), arguments.end(), [](const Argument& a) {
    return a.name == "num_layers" || a.name == "encoder_num_layers" || a.name == "hidden_size";
  });
  const bool stated = in.config == nullptr && in.states_a_model();
  if (!has_model && in.config == nullptr && !stated)
    return in.problems.add("E332", "this file does not say the sizes of the model it trains",
                           {in.file, 1, 1}, 1, {},
                           "--model config.json names it, or -s model=PRESET");
  if (has_model && in.config != nullptr) draft.note("--model: not read, the file says its model");
  if (!has_model && !stated) {
    const Value config = read_mapping(in, in.config, "a config.json");
    if (in.problems.any()) return;
    const auto model = draft_config_model(config, in, draft, counts);
    if (!model) return;
    check_config_model(in, *model);
    for (const auto& [key, name] :
         {std::pair{"num_hidden_layers", "num_layers"}, std::pair{"n_layer", "num_layers"},
          std::pair{"num_experts", "num_experts"}, std::pair{"n_routed_experts", "num_experts"},
          std::pair{"num_local_experts", "num_experts"},
          std::pair{"max_position_embeddings", "max_position_embeddings"}})
      if (const Value* v = model->keys.find(key); v != nullptr && v->is_scalar())
        arguments.insert(arguments.begin(), {name, fmt::format("{} (--model)", key), *v});
  }
  const ArgumentReader reader(megatron_arguments(), "megatron", arguments, in.problems);
  counts.add(reader);
  draft_megatron(reader, {}, in, cluster, draft, has_model);
}

void refuse_peft(const Value& file, const ImportSources& in) {
  const Value* peft = file.find("peft");
  if (peft == nullptr || peft->kind == Value::Kind::null) return;
  if (peft->is_scalar() && (peft->text == "null" || peft->text == "None")) return;
  if (peft->kind != Value::Kind::scalar && peft->members.empty()) return;
  in.problems.add("E130", "not supported yet: training of a part of the parameters (peft)",
                  peft->mark, 1, {}, "what is forecast trains all parameters on one loss");
}

void import_bridge(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                   ImportCounts& counts) {
  const SourceRef written = bridge_configuration(in);
  if (written == nullptr) return;
  const Value file = read_mapping(in, written, "a configuration of Megatron-Bridge");
  if (in.problems.any()) return;
  if (file.find("model") == nullptr || !file.find("model")->is_mapping())
    return in.problems.add("E330", "there is no section 'model' in this file", {in.file, 1, 1}, 1,
                           {}, "a configuration of Megatron-Bridge has model, train, ddp, ...");
  refuse_peft(file, in);
  if (in.problems.any()) return;
  BridgeFile bridge;
  std::vector<Argument> arguments = bridge.read(file);
  if (is_override(arguments)) add_recipe_defaults(file, in, arguments, draft);
  draft_megatron_file(arguments, in, cluster, draft, counts);
  for (const auto& [name, value] : bridge.environment()) draft_environment(name, value, draft);
  if (written != in.file) draft_measured(in, draft, counts);
}

}  // namespace stepcast
