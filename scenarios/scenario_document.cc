// SPDX-License-Identifier: Apache-2.0
#include "scenarios/scenario_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/older_software.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/schema/tree.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {

namespace {

// Whether there is nothing in the text of a value: blanks, or a comment.
bool is_blank_yaml(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || text[first] == '#';
}

// Whether the text of a value that is null says so.
bool says_null(std::string_view text) {
  const std::string_view word = trim(text);
  return word == "null" || word == "Null" || word == "NULL" || word == "~";
}

// What is written for people, or says nothing of a step: any text is right there.
bool is_free_text(std::string_view path) {
  if (path == "name" || path == "description") return true;
  const Field* field = find_field(path.substr(0, path.find('.')));
  return field != nullptr && field->type == FieldType::noted;
}

// "parallel.pp=2" of `parallel.tp=4,pp=2`: a key of the table, or of the same section, and its
// value behind a comma.
std::optional<std::string> second_value(std::string_view path, std::string_view text) {
  const size_t comma = text.find(',');
  if (is_free_text(path) || comma == text.npos || text.find_first_of("{[\"'") < comma) return {};
  const std::string_view second = trim(text.substr(comma + 1));
  const size_t equals = second.find('=');
  if (equals == second.npos) return {};
  const std::string key(second.substr(0, equals));
  if (find_field(key) != nullptr) return std::string(second);
  const std::string section(path.substr(0, path.rfind('.') + 1));  // npos + 1 = 0
  if (find_field(section + key) == nullptr) return {};
  return section + std::string(second);
}

// The number of nodes as the section `cluster` says it; empty if it says none.
std::string written_nodes(const Value& tree) {
  const Value* written = tree.find("cluster");
  if (written == nullptr) return {};
  Value cluster = *written;
  expand_shorthand(cluster, *find_field("cluster"));
  const Value* nodes = cluster.find("nodes");
  return nodes != nullptr ? nodes->text : std::string();
}

}  // namespace

ScenarioDocument::ScenarioDocument(const ScenarioDocument& other)
    : problems_(other.problems_),
      files_(other.files_, problems_),
      first_(other.first_),
      tree_(other.tree_),
      warnings_(other.warnings_),
      imported_(other.imported_) {}

ScenarioDocument ScenarioDocument::of_file(const std::string& path, const std::string& root) {
  ScenarioDocument document(root);
  SourceRef first = document.files_.open_first(path);
  document.problems_.throw_if_any();
  document.read(std::move(first));
  return document;
}

ScenarioDocument ScenarioDocument::of_text(std::string text, const std::string& name,
                                           const std::string& root, const std::string& path) {
  ScenarioDocument document(root);
  document.read(document.files_.add_first(std::move(text), name, path));
  return document;
}

ScenarioDocument ScenarioDocument::of_text(std::string text, const std::string& name,
                                           const std::string& root) {
  return of_text(std::move(text), name, root, name);
}

void ScenarioDocument::read(SourceRef first) {
  first_ = std::move(first);
  tree_ = files_.load(first_);
}

std::vector<std::pair<std::string, std::string>> ScenarioDocument::sets_again(
    std::vector<std::pair<std::string, std::string>> given) const {
  const Value* batch = tree_.find("batch");
  if (!imported_ || batch == nullptr) return given;
  for (const char* key : {"global", "micro"}) {
    const std::string path = std::string("batch.") + key;
    const Value* made = batch->find(key);
    const bool stated = std::ranges::any_of(
        given, [&](const auto& set) { return set.first == path || set.first == "batch"; });
    if (made != nullptr && made->is_scalar() && !stated) given.emplace_back(path, made->text);
  }
  return given;
}

void ScenarioDocument::set(const std::string& path, Value value, const Mark& key) {
  const SourceRef from = value.mark.source;
  // A source of no file: what it names is seen from the root.
  const SourceRef source = problems_.add_source(
      from != nullptr ? Source{from->name, from->text} : Source{"the value set for " + path, {}});
  const auto place = [&](auto& self, Value& v) -> void {
    v.mark = from != nullptr ? Mark{source, v.mark.line, v.mark.column} : Mark{source, 1, 1};
    for (Value& item : v.items) self(self, item);
    for (Member& m : v.members) {
      m.key_mark = from != nullptr ? Mark{source, m.key_mark.line, m.key_mark.column} : v.mark;
      self(self, m.value);
    }
  };
  place(place, value);
  Mark written{source, 1, 1};
  if (from != nullptr && key.source == from) {
    written = {source, key.line, key.column};
  } else if (from != nullptr) {  // the value stands for its key
    written = value.mark;
    written.column -= static_cast<int>(path.rfind('.') + 1);  // set_path() counts along the path
  }
  set_path(tree_, path, written, std::move(value), problems_);
}

void ScenarioDocument::set(const LoadOptions& options) {
  const std::string nodes = written_nodes(tree_);
  std::string cluster;  // as it is set
  for (const auto& [path, text] : options.set) {
    const SourceRef source = problems_.add_source({"--set " + path, text, Source::Kind::set});
    Value value = parse_yaml(problems_, source);
    const SourceRef whole =
        problems_.add_source({"--set " + path, path + '=' + text, Source::Kind::set});
    if (value.mark.line == 0 && !is_blank_yaml(text)) continue;  // it could not be read
    if (const std::optional<std::string> second = second_value(path, text)) {
      problems_.add("E107",
                    fmt::format("the value of '{}' has a second one in it: {}", escape_text(path),
                                escape_text(*second)),
                    {whole, 1, 1}, static_cast<int>(path.size() + 1 + text.size()), {},
                    fmt::format("--set (-s) takes one: -s {} -s {}",
                                path + '=' + text.substr(0, text.find(',')), *second));
      continue;
    }
    // As of a variable of the shell that is not set.
    if (value.kind == Value::Kind::null && !says_null(text)) {
      problems_.add("E107", fmt::format("the value of '{}' is empty", escape_text(path)),
                    {whole, 1, 1}, static_cast<int>(path.size() + 1), {},
                    fmt::format("{}=null takes out what is said", escape_text(path)));
      continue;
    }
    set_path(tree_, path, {whole, 1, 1}, std::move(value), problems_);
    if (path == "cluster") cluster = text;
  }
  if (!nodes.empty() && written_nodes(tree_).empty() && !cluster.empty() &&
      tree_.find("cluster") != nullptr) {
    const bool is_name = cluster.find_first_of("{:") == cluster.npos;
    warnings_.push_back(fmt::format(
        "--set cluster={} leaves 1 of {} nodes: {} keeps their number", escape_text(cluster), nodes,
        is_name ? fmt::format("'{} x {}'", escape_text(cluster), nodes)
                : fmt::format("--set cluster.nodes={} behind it", nodes)));
  }
  if (options.compare_case.empty()) return;
  const Value* compare = tree_.find("compare");
  const Value* cases = compare != nullptr ? compare->find("cases") : nullptr;
  const Value* changes = cases != nullptr ? cases->find(options.compare_case) : nullptr;
  STEPCAST_CHECK(changes != nullptr, options.compare_case);
  const std::vector<Member> members = changes->members;  // the tree is about to change
  for (const Member& m : members) set_path(tree_, m.key, m.key_mark, m.value, problems_);
  // A case has no cases.  Left there, each would be read as often as there are others.
  std::erase_if(tree_.members, [](const Member& m) { return m.key == "compare"; });
}

void ScenarioDocument::rename_files(
    const std::function<std::string(const std::string& absolute)>& name) {
  const auto move = [&](Value* value) {
    if (value == nullptr || !value->is_scalar() || value->text.empty()) return;
    value->text = name(files_.place_of(value->text, value->mark));
  };
  const auto below = [](Value* section, std::string_view key) {
    return section == nullptr ? nullptr : section->find(key);
  };
  move(below(tree_.find("model"), "hf"));
  move(below(below(tree_.find("distill"), "teacher"), "hf"));
  move(below(tree_.find("schedule"), "file"));
  move(below(below(tree_.find("moe"), "routing"), "trace"));
  if (Value* tables = tree_.find("calibration"); tables != nullptr) {
    const auto move_if_file = [&](Value& v) {
      if (!is_shipped_table(v.text)) move(&v);
    };
    if (tables->is_scalar()) move_if_file(*tables);
    for (Value& item : tables->items) move_if_file(item);
  }
}

std::vector<std::string> ScenarioDocument::files() const {
  std::vector<std::string> all;
  ScenarioDocument(*this).rename_files([&](const std::string& absolute) {
    all.push_back(absolute);
    return absolute;
  });
  // A case or an axis may name a file under any of these keys.
  const auto add_files = [&](auto& self, const Value& value) -> void {
    std::error_code none;
    if (value.text.find_first_not_of("0123456789") != std::string::npos) {  // lists are of numbers
      std::string path = files_.place_of(value.text, value.mark);
      if (std::filesystem::is_regular_file(path, none)) all.push_back(std::move(path));
    }
    for (const Value& item : value.items) self(self, item);
    for (const Member& m : value.members) self(self, m.value);
  };
  for (const char* section : {"compare", "search", "sweep"})
    if (const Value* value = tree_.find(section)) add_files(add_files, *value);
  for (std::string& path : files_.paths()) all.push_back(std::move(path));
  return all;
}

std::variant<Scenario, InputError> ScenarioDocument::try_resolve() && {
  if (!files_.incomplete() || !problems_.any()) {
    try {
      if (auto scenario = resolve_tree(std::move(tree_), first_->name, files_, problems_)) {
        scenario->warnings.insert(scenario->warnings.begin(), warnings_.begin(), warnings_.end());
        return std::move(*scenario);
      }
    } catch (InputError& e) {  // of the cost table
      return std::move(e);
    }
  }
  return InputError(problems_.diagnostics());
}

std::variant<Scenario, InputError> ScenarioDocument::try_resolve() const& {
  return ScenarioDocument(*this).try_resolve();  // resolving reads files and finds problems
}

Scenario ScenarioDocument::resolve() && {
  ScenarioDocument written(*this);
  auto resolved = std::move(*this).try_resolve();
  if (InputError* refused = std::get_if<InputError>(&resolved)) throw std::move(*refused);
  Scenario scenario = std::move(std::get<Scenario>(resolved));
  // Who has runs of their own has said by them whose software it is.
  if (scenario.own_runs != nullptr) return scenario;
  if (const auto profile = older_software(written.tree(), scenario)) {
    written.set("software", scalar_value(std::string(*profile)));
    auto older = std::move(written).try_resolve();
    if (Scenario* found = std::get_if<Scenario>(&older))
      scenario.with_older_software = std::make_shared<const Scenario>(std::move(*found));
  }
  return scenario;
}

Scenario ScenarioDocument::resolve() const& {
  return ScenarioDocument(*this).resolve();
}

Value scalar_value(std::string text) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = std::move(text);
  return value;
}

Value mapping_value(const std::vector<std::pair<std::string, std::string>>& members) {
  Value value;
  value.kind = Value::Kind::mapping;
  for (const auto& [key, text] : members) {
    Member& member = value.members.emplace_back();
    member.key = key;
    member.value = scalar_value(text);
  }
  return value;
}

}  // namespace stepcast
