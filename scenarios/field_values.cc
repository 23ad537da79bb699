// SPDX-License-Identifier: Apache-2.0
#include "scenarios/field_values.h"

#include <algorithm>

#include "scenarios/foreign_names.h"
#include "scenarios/tree.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

std::string first_words(std::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot));
}

std::string key_path(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : std::string(section) + '.' + std::string(key);
}

// "links, interference" of "contention".
std::string keys_of(std::string_view section) {
  std::string list;
  for (const Field& field : scenario_fields()) {
    if (first_words(field.path) != section) continue;
    list += (list.empty() ? "" : ", ") + last_word(field.path);
  }
  return list;
}

// Writes the shorthand of every section out.
void expand_all(Value& root) {
  for (const Field& field : scenario_fields()) {
    if (field.type != FieldType::section || field.shorthand.empty()) continue;
    Value* at = &root;
    std::string_view rest = field.path;
    while (at != nullptr && !rest.empty()) {
      const size_t dot = rest.find('.');
      at = at->find(rest.substr(0, dot));
      rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
    }
    if (at != nullptr) expand_shorthand(*at, field);
  }
}

}  // namespace

std::string origin_of(const Mark& mark, const Problems& problems) {
  const Source& source = problems.source(mark.source);
  if (source.is_preset) return source.name;
  if (source.name.starts_with("--set ")) return "--set";
  return source.name + ':' + std::to_string(mark.line) + ':' + std::to_string(mark.column);
}

FieldValues::FieldValues(Value root, const std::string& prefix, Problems& problems)
    : root_(std::move(root)), prefix_(prefix.empty() ? prefix : prefix + '.'), problems_(problems) {
  if (prefix.empty()) expand_all(root_);
  if (!root_.is_mapping())
    problems_.add("E107", "each item of '" + first_words(prefix + '.') + "' must be a mapping",
                  root_.mark, std::max(1, static_cast<int>(root_.text.size())));
  check_keys(root_, prefix);
  for (const Field& field : scenario_fields()) {
    if (!field.path.starts_with(prefix_)) continue;
    const std::string_view rest = field.path.substr(prefix_.size());
    if (rest.find('[') != std::string_view::npos || rest.find('*') != std::string_view::npos)
      continue;
    read_row(field);
  }
}

FieldValues::FieldValues(const FieldValues& other, Problems& problems)
    : root_(other.root_),
      prefix_(other.prefix_),
      problems_(problems),
      entries_(other.entries_),
      assumed_(other.assumed_),
      suspects_(other.suspects_),
      warnings_(other.warnings_),
      unknown_(other.unknown_) {}

void FieldValues::check_keys(const Value& section, const std::string& path) {
  for (const Member& m : section.members) {
    const std::string full = key_path(path, m.key);
    const Field* field = find_field(full);
    if (field == nullptr || m.key == "*") {
      unknown_key(m, path);
      continue;
    }
    if (m.value.kind == Value::Kind::null || field->type != FieldType::section) continue;
    if (m.value.is_mapping()) {
      check_keys(m.value, full);
    } else {
      problems_.add("E107", '\'' + m.key + "' must be a mapping", m.value.mark,
                    static_cast<int>(m.value.text.size()), {}, "its keys are: " + keys_of(full));
    }
  }
}

void FieldValues::unknown_key(const Member& m, const std::string& section) {
  constexpr int kMostExplained = 50;  // more than are ever reported
  if (++unknown_ > kMostExplained) return;
  std::string message = "unknown key '" + m.key + "'";
  if (!section.empty()) message += " in '" + section + "'";
  const int length = static_cast<int>(m.key.size());
  if (const ForeignName* foreign = find_foreign_name(m.key); foreign != nullptr) {
    const bool here = first_words(foreign->path) == section;
    const std::string ours = here ? last_word(foreign->path) : std::string(foreign->path);
    suspects_.insert(std::string(foreign->path));
    problems_.add("E102", std::move(message), m.key_mark, length, "did you mean '" + ours + "'?",
                  {}, std::string(foreign->note));
    return;
  }
  std::vector<std::string_view> here;
  std::string list;
  for (const Field& field : scenario_fields()) {
    if (first_words(field.path) != section) continue;
    here.push_back(field.path.substr(section.empty() ? 0 : section.size() + 1));
    list += (list.empty() ? "" : ", ") + std::string(here.back());
  }
  if (std::string label = did_you_mean(m.key, here); !label.empty()) {
    if (const std::string_view near = closest(m.key, here); !near.empty())
      suspects_.insert(key_path(section, near));
    problems_.add("E102", std::move(message), m.key_mark, length, std::move(label));
    return;
  }
  // A key of ours in the wrong place, `tp` at top level: where its value would do.
  std::vector<std::string> elsewhere;
  for (const Field& field : scenario_fields()) {
    Problems none;
    if (last_word(field.path) == m.key &&
        field.path.find_first_of("[*") == std::string_view::npos &&
        (!is_leaf(field) || read_datum(m.value, field, m.key, none)))
      elsewhere.push_back('\'' + std::string(field.path) + '\'');
  }
  if (elsewhere.empty()) {
    constexpr size_t kMostListed = 20;
    problems_.add(
        "E102", std::move(message), m.key_mark, length, {},
        here.size() <= kMostListed ? "known here: " + list : "`stepcast schema` lists all keys");
    return;
  }
  if (elsewhere.size() == 1) suspects_.insert(elsewhere[0].substr(1, elsewhere[0].size() - 2));
  problems_.add("E102", std::move(message), m.key_mark, length,
                "did you mean " + or_list(elsewhere) + '?');
}

// The word that the user wrote: of `precision: bf16`, precision, not the preset that it stands for.
std::string FieldValues::shown_name(const Field& field) const {
  const std::string key = last_word(field.path), section = first_words(field.path);
  const Field* around = find_field(section);
  const Mark a = key_mark(field.path), b = mark(field.path);
  const bool shorthand = around != nullptr && one_of(key, around->shorthand) &&
                         a.source == b.source && a.line == b.line && a.column == b.column;
  return shorthand ? last_word(section) : key;
}

void FieldValues::read_row(const Field& field) {
  const Value* written = value(field.path);
  const std::string key = last_word(field.path);
  if (written == nullptr) {
    if (field.fallback.empty()) return;
    entries_[std::string(field.path)] = {default_datum(field), std::string(field.fallback),
                                         "default: " + std::string(field.reason)};
    return;
  }
  if (field.type == FieldType::later) {
    warnings_.push_back('\'' + key + "' does not change this result");
  }
  if (!is_leaf(field)) return;
  std::optional<Datum> datum = read_datum(*written, field, shown_name(field), problems_);
  if (!datum) return;
  const bool number = std::holds_alternative<int64_t>(*datum);
  if (number && !field.now.empty() && plain_text(*datum) != field.now)
    problems_.add("E130", shown_name(field) + " = " + written->text + " is not supported yet",
                  written->mark, static_cast<int>(written->text.size()), {},
                  "legal now: " + std::string(field.now));
  entries_[std::string(field.path)] = {std::move(*datum), to_flow(*written),
                                       origin_of(written->mark, problems_)};
}

bool FieldValues::has(std::string_view path) const {
  return entries_.find(path) != entries_.end();
}

bool FieldValues::given(std::string_view path) const {
  return value(path) != nullptr || suspects_.find(path) != suspects_.end();
}

bool FieldValues::stated(std::string_view path) const {
  return given(path) || assumed_.find(path) != assumed_.end();
}

bool FieldValues::is(std::string_view path, std::string_view word) const {
  const auto it = entries_.find(path);
  return it != entries_.end() && plain_text(it->second.datum) == word;
}

const FieldValues::Entry& FieldValues::entry(std::string_view path) const {
  const auto it = entries_.find(path);
  STEPCAST_CHECK(it != entries_.end(), std::string(path));
  return it->second;
}

int64_t FieldValues::whole(std::string_view path) const {
  return std::get<int64_t>(entry(path).datum);
}
double FieldValues::real(std::string_view path) const {
  return std::get<double>(entry(path).datum);
}
bool FieldValues::flag(std::string_view path) const {
  return std::get<bool>(entry(path).datum);
}
const std::string& FieldValues::text(std::string_view path) const {
  return std::get<std::string>(entry(path).datum);
}
const std::vector<std::string>& FieldValues::texts(std::string_view path) const {
  return std::get<std::vector<std::string>>(entry(path).datum);
}

const Value* FieldValues::value(std::string_view path) const {
  STEPCAST_CHECK(path.starts_with(prefix_), std::string(path));
  path.remove_prefix(prefix_.size());
  const Value* at = &root_;
  while (at != nullptr) {
    const size_t dot = path.find('.');
    at = at->find(path.substr(0, dot));
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  return at == nullptr || at->kind == Value::Kind::null ? nullptr : at;
}

Mark FieldValues::mark(std::string_view path) const {
  for (;;) {
    if (const Value* v = value(path); v != nullptr) return v->mark;
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos || dot < prefix_.size()) return root_.mark;
    path = path.substr(0, dot);
  }
}

Mark FieldValues::key_mark(std::string_view path) const {
  const std::string section = first_words(path), key = last_word(path);
  const Value* around =
      section.size() < prefix_.size() || section.empty() ? &root_ : value(section);
  if (around != nullptr)
    for (const Member& m : around->members)
      if (m.key == key) return m.key_mark;
  return mark(path);
}

int FieldValues::length(std::string_view path) const {
  const Value* v = value(path);
  return v != nullptr && v->is_scalar() ? std::max(1, static_cast<int>(v->text.size())) : 1;
}

void FieldValues::refuse(std::string code, std::string_view path, std::string message,
                         std::string help, std::string label) const {
  problems_.add(std::move(code), std::move(message), mark(path), length(path), std::move(label),
                std::move(help));
}

bool FieldValues::require(std::string_view path, std::string help) {
  if (has(path)) return true;
  if (given(path)) return value(path) != nullptr && !is_leaf(*find_field(path));
  std::string_view around = path;
  while (around.rfind('.') != std::string_view::npos) {
    around = around.substr(0, around.rfind('.'));
    if (around.size() >= prefix_.size() && value(around) != nullptr) {
      if (!value(around)->is_mapping()) return false;  // which has been said
      problems_.add("E126", '\'' + std::string(path) + "' is missing", key_mark(around),
                    static_cast<int>(last_word(around).size()), {}, std::move(help));
      return false;
    }
  }
  problems_.add("E126", '\'' + std::string(path) + "' is missing", root_.mark, 1, {},
                std::move(help));
  return false;
}

void FieldValues::derive(std::string_view path, Datum datum, std::string shown,
                         std::string origin) {
  STEPCAST_CHECK(find_field(path) != nullptr, std::string(path));
  entries_[std::string(path)] = {std::move(datum), std::move(shown), std::move(origin)};
}

void FieldValues::assume(std::string_view path, const Value& value, std::string origin) {
  const Field* field = find_field(path);
  if (field == nullptr || !is_leaf(*field)) {
    problems_.add("E102", '\'' + std::string(path) + "' is no key that takes a value", value.mark);
    return;
  }
  if (given(path)) return;
  std::optional<Datum> datum = read_datum(value, *field, last_word(path), problems_);
  if (!datum) return;
  entries_[std::string(path)] = {std::move(*datum), to_flow(value), std::move(origin)};
  assumed_.insert(std::string(path));
}

std::vector<Setting> FieldValues::settings() const {
  std::vector<Setting> all;
  for (const Field& field : scenario_fields()) {
    if (!field.path.starts_with(prefix_)) continue;
    const std::string section(field.path.substr(0, field.path.find('.')));
    const bool optional = section == "measured" || section == "compare";
    if (optional && value(section) == nullptr) continue;
    if (const auto it = entries_.find(field.path); it != entries_.end()) {
      all.push_back({it->first, it->second.shown, it->second.origin});
    } else if (field.type == FieldType::list || field.type == FieldType::noted ||
               field.type == FieldType::later) {
      if (const Value* v = value(field.path); v != nullptr)
        all.push_back({std::string(field.path), to_flow(*v), origin_of(v->mark, problems_)});
    }
  }
  return all;
}

std::string FieldValues::canonical(bool (*skip)(std::string_view path)) const {
  std::string text;
  for (const auto& [path, entry] : entries_)
    if (!skip(path)) text += path + '=' + plain_text(entry.datum) + '\n';
  for (const Field& field : scenario_fields())
    if (field.type == FieldType::list && field.path.starts_with(prefix_) && value(field.path))
      text += std::string(field.path) + '=' + to_flow(*value(field.path)) + '\n';
  return text;
}

}  // namespace stepcast
