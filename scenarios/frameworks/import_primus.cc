// SPDX-License-Identifier: Apache-2.0
// import_primus: AMD's Primus, whose YAML starts Megatron-LM or torchtitan.
//
// The file names two others of Primus's tree, each of which `extends` more: `config` the defaults
// of the framework, `model` the sizes.  What it says itself, below `overrides`, counts most; then
// the defaults, then the model.  With `model: llama3_8B.yaml` and `framework: megatron` the latter
// is primus/configs/models/megatron/llama3_8B.yaml of the nearest folder above that has one.  A
// file that Primus writes out (--export_config) has everything in it and names none.
//
// Rules of the files: primus/core/config/yaml_loader.py and primus/core/launcher/parser.py of
// https://github.com/AMD-AGI/Primus; names of its own: primus/configs/modules/megatron/.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/import.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int kMostLevelsOfPrimus = 8;  // of files that extend files, and of folders above
constexpr int kMostFilesOfPrimus = 64;  // of one configuration
constexpr int64_t kMostGpusOfPrimus = 100'000;
constexpr size_t kMostTextOfPrimus = size_t{4} << 20;

// The file's variables "${NAME:default}", which the environment sets.
class PrimusVariables {
 public:
  explicit PrimusVariables(std::span<const std::string> given) : given_(given) {}

  std::optional<std::string> given(std::string_view name) const {
    asked_.emplace(name);
    for (const std::string& g : given_)
      if (g.size() > name.size() && g.starts_with(name) && g[name.size()] == '=')
        return g.substr(name.size() + 1);
    return {};
  }

  // What is not known stays as it is written.  Truths are read in letters of any case, as by
  // Primus.
  void resolve(Value& value) const {
    for (Value& item : value.items) resolve(item);
    for (Member& m : value.members) resolve(m.value);
    if (!value.is_scalar()) return;
    const bool is_open = value.text.find("${") != std::string::npos;
    if (is_open) value.text = expand(value.text);
    if (is_open && value.text == "null") value.kind = Value::Kind::null;
    if (value.quoted && !is_open) return;
    const std::string low = lower_case(value.text);
    if (low == "true" || low == "false") value.text = low;
  }

  // The words that were given and that nothing has asked for.
  std::vector<std::string> unread() const {
    std::vector<std::string> words;
    for (const std::string& g : given_)
      if (g.find('=') == g.npos || !asked_.contains(g.substr(0, g.find('=')))) words.push_back(g);
    return words;
  }

 private:
  // "${NAME:"[0]*1+[1]*3"}": Primus reads such a text until it is none.
  static std::string_view without_quotes(std::string_view text) {
    const bool quoted = text.size() > 1 && text.front() == text.back() &&
                        (text.front() == '"' || text.front() == '\'');
    return quoted ? text.substr(1, text.size() - 2) : text;
  }

  std::string expand(std::string_view text) const {
    std::string result;
    while (true) {
      const size_t begin = text.find("${");
      const size_t end = begin == text.npos ? text.npos : text.find('}', begin);
      result += text.substr(0, end == text.npos ? text.npos : begin);
      if (end == text.npos) return result;
      const std::string_view inside = text.substr(begin + 2, end - begin - 2);
      const size_t colon = inside.find(':');
      if (const auto value = given(inside.substr(0, colon)))
        result += *value;
      else
        result += colon == inside.npos ? text.substr(begin, end + 1 - begin)
                                       : without_quotes(inside.substr(colon + 1));
      text.remove_prefix(end + 1);
    }
  }

  std::span<const std::string> given_;
  mutable std::set<std::string, std::less<>> asked_;
};

// The variables by which Primus's launcher is told how many GPUs there are.
struct GivenNodes {
  explicit GivenNodes(const PrimusVariables& variables) {
    const auto n = variables.given("NNODES"), gpus = variables.given("GPUS_PER_NODE");
    said = n || gpus;
    nodes = n.value_or("1");
    gpus_per_node = gpus.value_or("8");
  }
  std::string nodes, gpus_per_node;
  bool said = false;
};

// Files below primus/configs.
class PrimusTree {
 public:
  PrimusTree(const ImportSources& in, const PrimusVariables& variables)
      : in_(in), variables_(variables) {}

  // "models/megatron/llama3_8B.yaml" with all that it extends.  Nothing, and E332, where it is not
  // there; nothing, and another problem, where it cannot be read.
  std::optional<Value> read(const std::string& path, const Mark& mark, int level = 0) {
    if (level > kMostLevelsOfPrimus || ++files_ > kMostFilesOfPrimus)
      return fail("E106", "the files that this one names are too many", mark,
                  "at most 64, which extend each other 8 times");
    const std::optional<std::string> name = inside(path);
    if (!name)
      return fail("E111", fmt::format("'{}' lies outside primus/configs", path), mark,
                  "Primus reads files of that folder alone");
    const std::optional<std::string> text = text_of(*name);
    if (!text)
      return fail("E332",
                  fmt::format("this file names primus/configs/{}, which is not there", *name), mark,
                  "import it where it lies in Primus's tree (below examples/), or import what "
                  "--export_config writes");
    bytes_ += text->size();
    if (bytes_ > kMostTextOfPrimus)
      return fail("E106", "the files that this one names have more than 4 MiB together", mark, {});
    std::vector<RepeatedKey> repeated;
    const SourceRef source = in_.problems.add_source({"primus/configs/" + *name, *text});
    Value own = parse_foreign_yaml(in_.problems, source, repeated);
    note_repeated(in_, repeated);
    if (in_.problems.any()) return {};
    if (own.kind == Value::Kind::null) return mapping();
    if (!own.is_mapping())
      return fail("E331", "this file must be a mapping of names to values", {source, 1, 1}, {});
    read_old_numbers(own);
    variables_.resolve(own);
    Value all = mapping();
    const std::string folder = name->substr(0, name->rfind('/') + 1);
    if (const Value* list = own.find("extends"); list != nullptr)
      for (const Value& other :
           list->kind == Value::Kind::sequence ? list->items : std::vector{*list}) {
        if (other.kind == Value::Kind::null) continue;
        if (!other.is_scalar())
          return fail("E331", "'extends' must be the names of files", other.mark, {});
        std::optional<Value> base = read(folder + other.text, other.mark, level + 1);
        if (!base) return {};
        merge(all, std::move(*base));
      }
    std::erase_if(own.members, [](const Member& m) { return m.key == "extends"; });
    merge(all, std::move(own));
    return all;
  }

  static Value mapping() {
    Value v;
    v.kind = Value::Kind::mapping;
    return v;
  }

 private:
  std::nullopt_t fail(const char* code, const std::string& message, const Mark& mark,
                      std::string help) {
    in_.problems.add(code, message, mark, 1, {}, std::move(help));
    return std::nullopt;
  }

  // The path without "..", if it stays inside.
  static std::optional<std::string> inside(const std::string& path) {
    std::vector<std::string_view> parts;
    for (const std::string_view part : split(path, '/')) {
      if (part == ".." && parts.empty()) return {};
      if (part == "..")
        parts.pop_back();
      else if (part != "." && !part.empty())
        parts.push_back(part);
    }
    return fmt::format("{}", fmt::join(parts, "/"));
  }

  // The tree is that of the nearest folder above which has the first file.
  std::optional<std::string> text_of(const std::string& name) {
    if (!in_.files) return {};
    if (root_) return in_.files(*root_ + name);
    std::string up;
    for (int level = 0; level <= kMostLevelsOfPrimus; ++level, up += "../") {
      std::string root = up + "primus/configs/";
      if (std::optional<std::string> text = in_.files(root + name)) {
        root_ = std::move(root);
        return text;
      }
    }
    return {};
  }

  const ImportSources& in_;
  const PrimusVariables& variables_;
  std::optional<std::string> root_;
  size_t bytes_ = 0;
  int files_ = 0;
};

// The trainer: the first of `modules` that says its framework.
const Value* primus_trainer(const Value& file) {
  const Value* modules = file.find("modules");
  if (modules == nullptr) return nullptr;
  for (const Member& m : modules->members)
    if (const Value* f = m.value.find("framework"); f != nullptr && f->is_scalar()) return &m.value;
  return nullptr;
}

// What a framework trains that is neither Megatron-LM nor torchtitan; empty: those two.
std::string_view other_framework(std::string_view framework) {
  if (framework == "megatron" || framework == "torchtitan") return {};
  if (framework == "maxtext") return "training with MaxText (JAX)";
  if (framework == "megatron_bridge") return "recipes of Megatron-Bridge, which are programs";
  if (framework == "nemo_automodel") return "training with NeMo AutoModel";
  return "models that make pictures, or another framework";
}

// All values in one mapping: those of the file over the defaults over the model.
std::optional<Value> primus_values(const Value& trainer, const ImportSources& in,
                                   const PrimusVariables& variables) {
  Value all = PrimusTree::mapping();
  const Value* config = trainer.find("config");
  const std::string framework = trainer.find("framework")->text;
  if (config != nullptr) {
    PrimusTree tree(in, variables);
    for (const auto& [key, folder] :
         {std::pair{"model", "models"}, std::pair{"config", "modules"}}) {
      const Value* named = trainer.find(key);
      if (named == nullptr || !named->is_scalar()) {
        in.problems.add("E332", fmt::format("the trainer of this file does not say its {}", key),
                        trainer.mark, 1, {}, "Primus needs both: config, model");
        return {};
      }
      const std::string_view ending = named->text.ends_with(".yaml") ? "" : ".yaml";
      std::optional<Value> values =
          tree.read(fmt::format("{}/{}/{}{}", folder, framework, named->text, ending), named->mark);
      if (!values) return {};
      merge(all, std::move(*values));
    }
  }
  // Of a file that Primus writes out the values stand beside the framework.
  Value beside = trainer;
  std::erase_if(beside.members, [](const Member& m) {
    return m.key == "overrides" || m.key == "config" || m.key == "framework" ||
           (m.key == "model" && !m.value.is_mapping());
  });
  merge(all, std::move(beside));
  const Value* own = trainer.find("overrides");
  if (own == nullptr || own->kind == Value::Kind::null) return all;
  if (!own->is_mapping()) {
    in.problems.add("E331", "'overrides' must be a mapping of names to values", own->mark);
    return {};
  }
  merge(all, *own);
  return all;
}

// --- names that Megatron-LM does not have

struct PrimusPart {
  std::string_view key, part;
};
constexpr PrimusPart kPrimusParts[] = {
    {"lfm_layer_types", "layers of convolutions (LFM2)"},
    {"recompute_layer_ids", "recomputing of layers that are named one by one"},
    {"decoder_pipeline_manual_split_list", "stages that are listed by Primus"},
    {"patch_primus_pipeline", "schedules of Primus's own pipeline"},
    {"use_turbo_mega_moe", "experts in one kernel"},
    {"compress_ratios", "attention to compressed keys"},
    {"kda_gate_lower_bound", "linear attention (KDA)"},
    {"use_megatron_fsdp", "Megatron's own FSDP"},
    {"use_custom_fsdp", "Megatron's own FSDP"},
    {"lora", "adapters of low rank"},
};

// Kernels and transfers of Primus-Turbo, which have no cost tables of their own, and what else it
// adds that is left out aloud.
constexpr std::string_view kLeftOutOfPrimus[] = {
    "enable_primus_turbo",      "enable_odc",        "patch_moe_overlap",
    "final_logit_softcapping",  "torch_compile",     "attn_logit_softcapping",
    "router_logit_softcapping", "use_sink_attention"};

bool is_on(const Value& v) {
  if (v.kind == Value::Kind::null) return false;
  for (const char* key : {"enabled", "enable"})
    if (const Value* on = v.find(key)) return is_on(*on);
  if (!v.is_scalar()) return !v.items.empty() || !v.members.empty();
  return v.text != "false" && v.text != "False" && v.text != "null" && v.text != "0" &&
         v.text != "";
}

// The layers that Megatron-LM has by this name, in Primus too; its others are its own.
bool of_mamba(const Value& spec) {
  return spec.items.size() == 2 && spec.items[0].text.ends_with(".mamba_layer_specs") &&
         spec.items[1].text == "mamba_stack_spec";
}

// Options of the zero-bubble schedules count where `patch_zero_bubble` is on.
bool of_zero_bubble(std::string_view name) {
  return name.find("zero_bubble") != name.npos || name == "enable_1f1b_v" ||
         name == "interleave_group_size" || name == "num_seq_splits" || name == "cpu_offload" ||
         name == "offload_chunk_num";
}

void import_primus_megatron(const Value& values, const PrimusVariables& variables,
                            const ImportSources& in, const ImportCluster& cluster,
                            ScenarioDraft& draft, ImportCounts& counts) {
  const auto on = [&](std::string_view key) {
    const Value* v = values.find(key);
    return v != nullptr && is_on(*v);
  };
  const bool zero_bubble = on("patch_zero_bubble");
  // Before it trains, Megatron-LM switches this on for bf16 where nothing says that gradients are
  // bf16 (validate_args in megatron/training/arguments.py).
  const Value* of_gradients = values.find("main_grads_dtype");
  const bool fp32_gradients =
      of_gradients == nullptr || !is_on(*of_gradients) || of_gradients->text.ends_with("32");
  std::vector<Argument> all;
  for (const Member& m : values.members) {
    const std::string name = argument_name(m.key);
    if (const auto* const part = std::ranges::find(kPrimusParts, name, &PrimusPart::key);
        part != std::end(kPrimusParts) && is_on(m.value))
      in.problems.add("E130", fmt::format("not supported yet: {} ({})", part->part, m.key),
                      m.value.mark);
    if (name == "model_type" && m.value.is_scalar() && m.value.text != "gpt" &&
        m.value.text != "mamba" && m.value.text != "null")
      in.problems.add("E130", fmt::format("not supported yet: a model of type {}", m.value.text),
                      m.value.mark);
    if (name == "spec" && is_on(m.value) && !of_mamba(m.value))
      in.problems.add("E130", fmt::format("not supported yet: layers of {}", to_flow(m.value)),
                      m.value.mark);
    const bool left_out = std::ranges::find(kLeftOutOfPrimus, name) != std::end(kLeftOutOfPrimus);
    if (left_out && is_on(m.value))
      draft.left_out(m.value.is_mapping() ? m.key : fmt::format("{} {}", m.key, m.value.text));
    const bool switched_on =
        name == "accumulate_allreduce_grads_in_fp32" && !is_on(m.value) && fp32_gradients;
    // Off, they are Megatron's of years ago.
    const bool of_old = name == "checkpoint_activations" && !is_on(m.value);
    if (m.value.is_mapping() || of_old || switched_on || left_out ||
        (of_zero_bubble(name) && !zero_bubble) || without_effect("primus", name))
      all.push_back({"hf_model_id", m.key, m.value, true});  // without effect to Megatron
    else
      all.push_back({name, m.key, m.value, true});
  }
  if (in.problems.any()) return;
  const Mark top{in.file, 1, 1};
  // Both are for Primus-Turbo alone; experts without synchronization switch on what they need
  // (rocm_arg_validation.py).
  const Value* stage_of = values.find("turbo_sync_free_moe_stage");
  const int64_t stage = stage_of == nullptr ? 0 : python_whole(stage_of->text).value_or(0);
  if (on("enable_primus_turbo") && (on("use_turbo_deepep") || stage >= 2))
    all.push_back({"moe_token_dispatcher_type", "use_turbo_deepep", word_value("flex", top), true});
  if (on("enable_primus_turbo") && stage >= 1)
    all.push_back(
        {"moe_permute_fusion", "turbo_sync_free_moe_stage", word_value("true", top), true});
  const GivenNodes nodes(variables);
  all.push_back({"nnodes", "NNODES", word_value(nodes.nodes, top), true});
  all.push_back({"nproc_per_node", "GPUS_PER_NODE", word_value(nodes.gpus_per_node, top), true});
  if (!nodes.said)
    draft.note_about("cluster.nodes",
                     "a node of 8 GPUs is assumed where the layout does not need more; "
                     "NNODES=N after the file says how many there are");
  draft_megatron_file(std::move(all), in, cluster, draft, counts);
}

void import_primus_torchtitan(Value values, const PrimusVariables& variables,
                              const ImportSources& in, const ImportCluster& cluster,
                              ScenarioDraft& draft, ImportCounts& counts) {
  const GivenNodes nodes(variables);
  const int64_t count = python_whole(nodes.nodes).value_or(0);
  const int64_t gpus_of_each = python_whole(nodes.gpus_per_node).value_or(0);
  if (count < 1 || gpus_of_each < 1 || gpus_of_each > kMostGpusOfPrimus / count)
    return in.problems.add("E331",
                           fmt::format("NNODES {} and GPUS_PER_NODE {} must be numbers of at most "
                                       "{} GPUs together",
                                       nodes.nodes, nodes.gpus_per_node, kMostGpusOfPrimus),
                           {in.file, 1, 1});
  if (const Value* turbo = values.find("primus_turbo"); turbo != nullptr && turbo->is_mapping())
    if (const Value* on = turbo->find("enable_primus_turbo"); on != nullptr && is_on(*on))
      draft.left_out("enable_primus_turbo true");
  std::erase_if(values.members, [](const Member& m) {
    return m.key == "primus_turbo" || without_effect("primus", argument_name(m.key));
  });
  draft_torchtitan(values, nodes.said ? count * gpus_of_each : 0, in, cluster, draft, counts);
}

}  // namespace

void import_primus(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                   ImportCounts& counts) {
  Value file = read_mapping(in, in.file, "a configuration of Primus");
  if (in.problems.any()) return;
  const PrimusVariables variables(in.given);
  variables.resolve(file);
  const Value* trainer = primus_trainer(file);
  if (trainer == nullptr)
    return in.problems.add("E330", "there is no trainer in this file", {in.file, 1, 1}, 1, {},
                           "a configuration of Primus has modules.pre_trainer with framework, "
                           "config and model");
  const Value& framework = *trainer->find("framework");
  if (const std::string_view other = other_framework(framework.text); !other.empty())
    return in.problems.add(
        "E130", fmt::format("not supported yet: {} (framework {})", other, framework.text),
        framework.mark, 1, {}, "Megatron-LM and torchtitan are");
  const std::optional<Value> values = primus_values(*trainer, in, variables);
  if (!values) return;
  if (framework.text == "torchtitan")
    import_primus_torchtitan(*values, variables, in, cluster, draft, counts);
  else
    import_primus_megatron(*values, variables, in, cluster, draft, counts);
  for (const std::string& word : variables.unread())
    draft.note(fmt::format("{}: nothing in these files reads it", word));
}

}  // namespace stepcast
