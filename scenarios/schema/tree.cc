// SPDX-License-Identifier: Apache-2.0
#include "scenarios/schema/tree.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/presets.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

void erase(Value& mapping, std::string_view key) {
  std::erase_if(mapping.members, [&](const Member& m) { return m.key == key; });
}

std::string child(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : std::string(path) + '.' + std::string(key);
}

Member member(std::string_view key, const Value& value) {
  return {std::string(key), value.mark, value};
}

// "dgx-h100 x 2": the name, and where the number begins.
struct Times {
  std::string_view name;
  size_t number = 0;  // offset; 0 = none
};
Times split_times(std::string_view text) {
  const size_t x = text.rfind(" x ");
  if (x == std::string_view::npos) return {text, 0};
  size_t number = x + 3, end = x;
  while (number < text.size() && text[number] == ' ') ++number;
  while (end > 0 && text[end - 1] == ' ') --end;
  return number < text.size() ? Times{text.substr(0, end), number} : Times{text, 0};
}

}  // namespace

void expand_shorthand(Value& value, const Field& field) {
  if (!value.is_scalar() || field.shorthand[0].empty()) return;
  Value mapping;
  mapping.kind = Value::Kind::mapping;
  mapping.mark = value.mark;
  if (field.path == "cluster") {
    const Times times = split_times(value.text);
    Value name = value;
    name.text = std::string(times.name);
    mapping.members.push_back(member("preset", name));
    if (times.number > 0) {
      Value nodes = value;
      nodes.quoted = false;
      nodes.text = value.text.substr(times.number);
      nodes.mark.column += static_cast<int>(times.number) + (value.quoted ? 1 : 0);
      mapping.members.push_back(member("nodes", nodes));
    }
  } else {
    for (const std::string_view key : field.shorthand)
      if (!key.empty()) mapping.members.push_back(member(key, value));
  }
  value = std::move(mapping);
}

// ----------------------------------------------------------------------------------------- presets

namespace {

// As merge for the value of the row `path`, but where one side is a shorthand scalar ("dgx-h100 x
// 2") and the other a mapping, the scalar is written out first.
void merge_expanded(Value& base, Value over, const std::string& path) {
  if (base.kind != over.kind) {
    if (const Field* field = find_field(path); field != nullptr) {
      if (over.is_mapping()) expand_shorthand(base, *field);
      if (base.is_mapping()) expand_shorthand(over, *field);
    }
  }
  if (!base.is_mapping() || !over.is_mapping()) {
    base = std::move(over);
    return;
  }
  base.mark = over.mark;
  for (Member& m : over.members) {
    Value* old = base.find(m.key);
    if (m.value.kind == Value::Kind::null) {
      erase(base, m.key);
    } else if (old == nullptr) {
      base.members.push_back(std::move(m));
    } else {
      merge_expanded(*old, std::move(m.value), child(path, m.key));
    }
  }
}

// "dgx-h100 x16", "dgx-h100x16" and "dgx-h100 16" as a preset and a number of nodes: "dgx-h100 x
// 16"; empty for other texts.
std::string cluster_with_nodes(std::string_view text, std::span<const std::string_view> names) {
  const size_t number = text.find_last_not_of("0123456789") + 1;
  if (number == 0 || number == text.size()) return {};
  std::string_view name = trim(text.substr(0, number), " ");
  const bool apart = name.size() < number;
  const bool x = name.ends_with('x') || name.ends_with('X') || name.ends_with('*');
  if (x) name = trim(name.substr(0, name.size() - 1), " ");
  if (!(x || apart) || std::ranges::count(names, name) == 0) return {};
  if (text.substr(number).find_first_not_of('0') == std::string_view::npos) return {};
  return std::string(name) + " x " + std::string(text.substr(number));
}

// What to write where a cluster is called by the name of a GPU, `count` of them: "128 h100-sxm are
// dgx-h100 x 16 or p5 x 16".  `count` 0: it is not said.
std::string clusters_of_gpu(std::string_view gpu, int64_t count,
                            std::span<const std::string_view> clusters) {
  std::vector<std::string> all;
  for (const std::string_view name : clusters) {
    Problems none;
    const Value preset =
        parse_embedded(none, std::string(name), *preset_text(PresetKind::cluster, name));
    const Value* node = preset.find("node");
    const Value* of = node != nullptr ? node->find("gpu") : nullptr;
    if (of == nullptr || of->text != gpu) continue;
    const Value* gpus = node->find("gpus");
    const int64_t each = gpus != nullptr ? parse_index(gpus->text).value_or(0) : 0;
    if (count > 0 && (each == 0 || count % each != 0)) continue;  // no whole number of nodes
    all.push_back(std::string(name) + (count > 0 ? " x " + std::to_string(count / each) : ""));
  }
  if (all.empty()) return {};
  return "'" + std::string(gpu) + "' is a GPU; " +
         (count > 0 ? std::to_string(count) + " of them are " : "clusters of it are ") +
         or_list(all);
}

// Merges `section` over the preset it names.  `path` is the section's.
bool apply_preset(Value& section, PresetKind kind, const std::string& path, Problems& problems) {
  const Value* named = section.find("preset");
  if (named == nullptr || named->kind == Value::Kind::null) return true;
  const std::string what = kind == PresetKind::gpu ? "GPU" : "cluster";
  if (!named->is_scalar()) {
    problems.add("E107", "'preset' must be the name of a " + what + " preset", named->mark);
    return false;
  }
  const std::string name = named->text;
  const std::optional<std::string_view> text = preset_text(kind, name);
  if (!text) {
    const std::vector<std::string_view> names = preset_names(kind);
    std::string label, help = "`stepcast presets gpus` lists them";
    if (kind == PresetKind::cluster) {
      help = "`stepcast presets clusters` lists them; two nodes: dgx-h100 x 2";
      if (const std::string meant = cluster_with_nodes(name, names); !meant.empty())
        label = "did you mean '" + meant + "'?";
      if (preset_text(PresetKind::gpu, name)) {
        const Value* nodes = section.find("nodes");
        const int64_t count = nodes != nullptr ? parse_index(nodes->text).value_or(0) : 0;
        if (std::string meant = clusters_of_gpu(name, count, names); !meant.empty())
          help = std::move(meant);
      }
    }
    if (label.empty()) label = did_you_mean(name, names);
    problems.add("E125", "there is no " + what + " preset '" + name + '\'', named->mark,
                 static_cast<int>(name.size()), std::move(label), std::move(help));
    return false;
  }
  Value preset = parse_embedded(problems, "preset " + name, *text);
  if (!preset.is_mapping()) return false;
  merge_expanded(preset, std::move(section), path);
  section = std::move(preset);
  return true;
}

// The section at `key`, shorthand written out; nullptr if it is no mapping.
Value* section_at(Value& around, const std::string& key, const std::string& path) {
  Value* section = around.find(key);
  if (section == nullptr) return nullptr;
  expand_shorthand(*section, *find_field(path));
  return section->is_mapping() ? section : nullptr;
}

void insert(Value& mapping, const std::string& key, const Value& value) {
  mapping.members.push_back({key, value.mark, value});
}

// Takes what the first of `cluster.topology.nodes` says of itself (preset, gpu, gpus) for what all
// nodes are, where `cluster` does not say so itself.
void lift_node_kind(Value& cluster) {
  const Value* topology = cluster.find("topology");
  const Value* nodes = topology == nullptr ? nullptr : topology->find("nodes");
  if (nodes == nullptr || nodes->items.empty()) return;
  const Value first = nodes->items.front();
  if (const Value* preset = first.find("preset"); preset && cluster.find("preset") == nullptr)
    insert(cluster, "preset", *preset);
  for (const char* key : {"gpu", "gpus"}) {
    const Value* said = first.find(key);
    if (said == nullptr) continue;
    if (cluster.find("node") == nullptr) {
      Value node;
      node.kind = Value::Kind::mapping;
      node.mark = said->mark;
      insert(cluster, "node", node);
    }
    Value& node = *cluster.find("node");
    if (node.is_mapping() && node.find(key) == nullptr) insert(node, key, *said);
  }
}

}  // namespace

bool apply_cluster_presets(Value& root, Problems& problems) {
  Value* cluster = section_at(root, "cluster", "cluster");
  if (cluster == nullptr) return true;
  lift_node_kind(*cluster);
  bool ok = apply_preset(*cluster, PresetKind::cluster, "cluster", problems);
  Value* node = cluster->find("node");
  if (node == nullptr || !node->is_mapping()) return ok;
  Value* gpu = section_at(*node, "gpu", "cluster.node.gpu");
  if (gpu == nullptr) return ok;
  return apply_preset(*gpu, PresetKind::gpu, "cluster.node.gpu", problems) && ok;
}

// ------------------------------------------------------------------------------------------- --set

namespace {

// The item of a list that `key` is the number of; a null pointer, and a problem, if there is none.
Value* item_at(Value& list, std::string_view key, const std::string& path, const Mark& mark,
               Problems& problems) {
  size_t i = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), i);
  const bool number = error == std::errc{} && end == key.data() + key.size();
  if (number && i < list.items.size()) return &list.items[i];
  const std::string count = std::to_string(list.items.size());
  std::string message = '\'' + path + "' is a list: " + std::string(key) + " is no number";
  if (number) message = '\'' + path + "' has no item " + std::string(key) + ": there are " + count;
  problems.add(
      "E102", std::move(message), mark, 1, {},
      list.items.empty() ? "set the whole list" : "items are counted from 0, as in " + path + ".0");
  return nullptr;
}

// Row of an item of a list, "perturb[]" of "perturb.3".
std::string below(const std::string& path, std::string_view key) {
  const Field* field = find_field(path);
  const bool item = field != nullptr && field->type == FieldType::list && !key.empty() &&
                    key.find_first_not_of("0123456789") == std::string_view::npos;
  return item ? path + "[]" : child(path, key);
}

void set_key(Value& mapping, std::string_view key, const Mark& written, Value value) {
  if (value.kind == Value::Kind::null) return erase(mapping, key);
  Value* old = mapping.find(key);
  if (old == nullptr) {
    mapping.members.push_back({std::string(key), written, std::move(value)});
    return;
  }
  std::ranges::find(mapping.members, key, &Member::key)->key_mark = written;
  merge(*old, std::move(value));
}

}  // namespace

void set_path(Value& root, std::string_view path, const Mark& written, Value value,
              Problems& problems) {
  if (path.empty() || path.starts_with('.') || path.ends_with('.') ||
      path.find("..") != std::string_view::npos || path.starts_with("extends")) {
    problems.add("E102", '\'' + std::string(path) + "' cannot be set", written,
                 static_cast<int>(path.size()), {}, "write the path of a key, as in parallel.tp=4");
    return;
  }
  Value* at = &root;
  std::string row, so_far;
  Mark here = written;  // of the key
  for (;;) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    const bool last = dot == std::string_view::npos;
    row = below(row, key);
    Value* next = nullptr;
    if (at->kind == Value::Kind::sequence) {
      next = item_at(*at, key, so_far, here, problems);
      if (next == nullptr) return;
      if (last) return merge(*next, std::move(value));
    } else if (last) {
      return set_key(*at, key, here, std::move(value));
    } else if (next = at->find(key); next == nullptr) {
      at->members.push_back({std::string(key), here, Value{}});
      next = &at->members.back().value;
    }
    so_far = child(so_far, key);
    path.remove_prefix(dot + 1);
    here.column += static_cast<int>(dot) + 1;
    if (const Field* field = find_field(row); field != nullptr) {
      expand_shorthand(*next, *field);
      // What a preset lists is not there yet.
      if (field->type == FieldType::list && next->kind != Value::Kind::sequence) {
        next->kind = Value::Kind::sequence;
        next->mark = value.mark;
      }
    }
    if (!next->is_mapping() && next->kind != Value::Kind::sequence) {
      *next = Value{};
      next->kind = Value::Kind::mapping;
      next->mark = value.mark;
    }
    at = next;
  }
}

const Field* field_of_path(std::string_view dotted) {
  std::string path;
  const Field* field = nullptr;
  while (!dotted.empty()) {
    const size_t dot = dotted.find('.');
    const std::string_view key = dotted.substr(0, dot);
    const bool free_name =
        field != nullptr && field->type == FieldType::names && field->path == path;
    path = free_name ? child(path, "*") : below(path, key);
    const bool item = path.ends_with("[]");
    const Field* next = find_field(path);
    // Free names whose content has rows have none themselves, nor do items of lists.
    if (next == nullptr && !free_name && !item) return nullptr;
    if (next != nullptr) field = next;
    const bool open = field->type == FieldType::opaque || field->type == FieldType::pairs ||
                      field->type == FieldType::noted;
    if (open || dot == std::string_view::npos) return field;
    dotted.remove_prefix(dot + 1);
  }
  return nullptr;
}

}  // namespace stepcast
