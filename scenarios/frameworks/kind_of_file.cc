// SPDX-License-Identifier: Apache-2.0
// kind_of_file: which importer reads a text.  The name of a file says nothing: a log may be a .txt,
// and config.json is what half of all tools write.
//
// A log has steps or the list of arguments that a framework prints.  A mapping (JSON, YAML) is told
// by its keys, TOML by its sections, and anything else that has "--num-layers 32" in it is a
// script.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/import_run.h"
#include "scenarios/frameworks/nemo_purpose.h"
#include "scenarios/frameworks/toml_values.h"

namespace stepcast {
namespace {

bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool has_key(const Value& v, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (v.find(key) != nullptr) return true;
  return false;
}

bool is_mapping_at(const Value& v, std::string_view key) {
  const Value* at = v.find(key);
  return at != nullptr && at->is_mapping();
}

// Names by which Megatron's arguments are kept in YAML and JSON.
bool has_arguments(const Value& v) {
  return std::any_of(v.members.begin(), v.members.end(), [](const Member& m) {
    return m.key.starts_with("--") || m.key == "num-layers" || m.key == "num_layers" ||
           m.key == "hidden-size";
  });
}

bool is_scenario(const Value& v) {
  return has_key(v, {"schema", "extends"}) ||
         (has_key(v, {"model", "cluster"}) &&
          has_key(v, {"parallel", "batch", "schedule", "kernels", "measured"})) ||
         (has_key(v, {"model"}) && has_key(v, {"cluster"}));
}

// NeMo's and Megatron-Bridge's files have a section `model`, as have those of models of other kinds
// (speech, images): what tells them is how a transformer is laid out, or its sizes.
std::string_view kind_of_sections(const Value& v, const Value& model) {
  const bool layout = has_key(model, {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                                      "context_parallel_size", "sequence_parallel"});
  const bool sizes = has_key(model, {"num_layers"}) && has_key(model, {"hidden_size"});
  if (is_mapping_at(v, "trainer")) {
    if (is_mapping_at(model, "config") &&
        has_key(*model.find("config"), {"_target_", "num_layers"}))
      return "nemo";
    const bool trains = has_key(model, {"micro_batch_size", "global_batch_size", "optim"});
    return (layout || sizes) && trains ? "nemo" : "";
  }
  if (is_mapping_at(v, "run")) return {};  // NeMo's launcher: other files of its stages
  const bool sections = has_key(v, {"train", "ddp", "dist", "mixed_precision", "comm_overlap",
                                    "dataset", "checkpoint", "recipe", "optimizer"});
  return layout || sizes || (sections && has_key(model, {"seq_length"})) ? "bridge" : "";
}

// A model's sizes beside keys that only GPT-NeoX has, which takes '-' for '_'.
bool is_neox(const Value& v) {
  return has_key(v, {"num_layers", "num-layers"}) &&
         has_key(v, {"pipe_parallel_size", "pipe-parallel-size", "output_layer_parallelism",
                     "output-layer-parallelism", "no_weight_tying", "no-weight-tying",
                     "gpt_j_residual", "gpt-j-residual", "attention_config", "attention-config"});
}

// Primus: a trainer that says its framework.
bool is_primus(const Value& v) {
  const Value* modules = v.find("modules");
  return modules != nullptr &&
         std::any_of(modules->members.begin(), modules->members.end(),
                     [](const Member& m) { return m.value.find("framework") != nullptr; });
}

// The configuration of NeMo's launcher, put together from groups of files.
bool is_nemo_launcher(const Value& v) {
  const Value* defaults = v.find("defaults");
  return defaults != nullptr && v.find("stages") != nullptr &&
         std::any_of(defaults->items.begin(), defaults->items.end(),
                     [](const Value& item) { return item.find("training") != nullptr; });
}

std::string_view kind_of_mapping(const Value& v, bool is_json) {
  if (has_key(v, {"distributed_type"})) return "accelerate";
  if (is_nemo_launcher(v)) return "nemo";
  if (is_primus(v)) return "primus";
  if (has_key(v, {"base_model"}) && has_key(v, {"micro_batch_size", "datasets", "adapter"}))
    return "axolotl";
  if (is_neox(v)) return "gpt-neox";
  if (has_key(v, {"zero_optimization", "train_micro_batch_size_per_gpu", "deepspeed_config"}))
    return "deepspeed";
  if (has_key(v, {"train_batch_size"}) &&
      has_key(v, {"fp16", "bf16", "optimizer", "steps_per_print"}))
    return "deepspeed";
  for (const std::string_view section : {"MODEL_ARGS", "model_args", "arguments", "args"})
    if (const Value* at = v.find(section); at != nullptr && has_arguments(*at))
      return "megatron-args";
  if (other_purpose_of_nemo(v)) return "nemo";  // which refuses it by name
  const Value* model = v.find("model");
  if (model != nullptr && is_mapping_at(*model, "model_config")) return "nanotron";
  const bool parts = has_key(v, {"training", "parallelism"});
  if (parts && (has_key(v, {"job", "model_spec", "metrics", "activation_checkpoint"}) ||
                (model != nullptr && has_key(*model, {"flavor"}))))
    return "torchtitan";
  if (model != nullptr && model->is_mapping())
    if (const std::string_view kind = kind_of_sections(v, *model); !kind.empty()) return kind;
  // Beside a trainer they name a model for a program.  In YAML, which transformers does not write,
  // other tools have a model_type, too.
  const bool names = has_key(v, {"model_type", "architectures", "text_config", "llm_config"});
  const bool sizes = has_key(v, {"hidden_size", "n_embd", "d_model"});
  const bool layers = has_key(v, {"num_hidden_layers", "n_layer"});
  if (!is_mapping_at(v, "trainer") &&
      (is_json ? names || (sizes && (layers || has_key(v, {"num_attention_heads"})))
               : sizes && layers))
    return "hf";
  // The model of NeMo's or Primus's file without the file.
  const bool is_part = has_key(v, {"bases", "activation"}) || is_mapping_at(v, "tokenizer") ||
                       is_mapping_at(v, "optim") || is_mapping_at(v, "data");
  return has_arguments(v) && !is_part ? "megatron-args" : "";
}

// "[training]" alone on its line, and "seq_len = 8192" somewhere.
bool looks_like_toml(std::string_view text) {
  bool section = false, value = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[')) line = line.substr(0, line.find('#'));
    while (!line.empty() && std::string_view(" \t\r").find(line.back()) != line.npos)
      line.remove_suffix(1);
    if (line.size() > 2 && line.front() == '[' && line.back() == ']' &&
        line.find_first_of(" ,\"'{}:") == std::string_view::npos)
      section = true;
    const size_t equals = line.find(" = ");
    value = value || (section && equals != std::string_view::npos && equals > 0);
    if (line.starts_with("#!")) return false;
  }
  return section && value;
}

// A parsed text, whatever is wrong with it; nothing if it is no mapping.
Value mapping_of(const std::string& text) {
  Problems problems;
  std::vector<RepeatedKey> repeated;
  const SourceRef source = problems.add_source({"text", text});
  if (looks_like_toml(text)) return parse_toml(problems, source);
  return parse_foreign_yaml(problems, source, repeated);
}

bool is_marked(const std::string& text) {
  return text.starts_with("\xEF\xBB\xBF");  // byte order mark
}

std::string_view kind_of_unmarked(const std::string& text) {
  if (!name_of_page(text).empty()) return {};
  const bool called = text.starts_with("#!");
  const Value v = called ? Value{} : mapping_of(text);
  if (v.is_mapping() && is_json_answer(v)) return {};
  // The comments of a scenario may quote the script or the log that its values come from.
  if (v.is_mapping() && is_scenario(v)) return {};
  const bool script = called || mentions(text, "\n#SBATCH") || mentions(text, "torchrun ");
  if (!script) {
    if (const std::string_view log = kind_of_log(text); !log.empty()) return log;
    if (v.is_mapping()) {
      const size_t first = text.find_first_not_of(" \t\r\n");
      const std::string_view kind = kind_of_mapping(v, first != text.npos && text[first] == '{');
      if (!kind.empty() || !mentions(text, "--num-layers")) return kind;
    }
  }
  for (const std::string_view argument : {"--num-layers", "--hidden-size", "num_layers ....",
                                          "hidden_size ....", "model.num_layers="})
    if (mentions(text, argument)) return "megatron-args";
  // Programs of many kinds spell sizes so: it takes one more of Megatron's names.
  if ((mentions(text, "--num_layers") || mentions(text, "--hidden_size")) &&
      (mentions(text, "--num_attention_heads") ||
       mentions(text, "--num_layers_per_virtual_pipeline_stage")))
    return "megatron-args";
  // A text that is broken JSON of a kind is refused by its importer, with the place.
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') return {};
  if (mentions(text, "\"zero_optimization\"")) return "deepspeed";
  return mentions(text, "\"model_type\"") || mentions(text, "\"hidden_size\"") ? "hf" : "";
}

std::optional<MistakenFile> mistaken_unmarked(const std::string& text, std::string_view asked,
                                              const std::string& file) {
  const std::string name = escape_text(file);
  const std::string answer = "name a file of the tool, not what Stepcast said of it";
  if (const std::string page = name_of_page(text); !page.empty()) return MistakenFile{page, answer};
  if (text.starts_with("#!")) return {};
  const Value v = mapping_of(text);
  if (!v.is_mapping()) return {};
  if (is_json_answer(v)) return MistakenFile{"an answer of Stepcast (--json)", answer};
  if (is_scenario(v))
    return MistakenFile{"a scenario of Stepcast", "it needs no import: stepcast run " + name};
  // Lists of Megatron's arguments have sizes of the same names.
  const bool of_megatron = has_arguments(v) && !has_key(v, {"model_type", "architectures"});
  if (asked != "hf" && !of_megatron && kind_of_unmarked(text) == "hf")
    return MistakenFile{"a config.json", "stepcast import hf " + name};
  return {};
}

}  // namespace

// One mark alone: another one is text.
std::string_view kind_of_file(const std::string& text) {
  return is_marked(text) ? kind_of_unmarked(text.substr(3)) : kind_of_unmarked(text);
}

std::optional<MistakenFile> mistaken_file(const std::string& text, std::string_view asked,
                                          const std::string& file) {
  return is_marked(text) ? mistaken_unmarked(text.substr(3), asked, file)
                         : mistaken_unmarked(text, asked, file);
}

bool reads_words(std::string_view script) {
  for (size_t at = script.find('$'); at != script.npos; at = script.find('$', at + 1)) {
    const size_t next = script.find_first_not_of("{#!", at + 1);
    if (next != script.npos && std::string_view("123456789@*").find(script[next]) != script.npos)
      return true;
    if (script.substr(at).starts_with("$#")) return true;
  }
  return script.find("shift") != script.npos || script.find("getopts") != script.npos;
}

}  // namespace stepcast
