// SPDX-License-Identifier: Apache-2.0
#include "scenarios/schema/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>

#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/schema/keys.h"
#include "scenarios/schema/tree.h"
#include "schedules/schedule.h"
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

// Of any schedule family: under `schedule` it belongs to schedule.params.
bool is_family_parameter(std::string_view key) {
  return std::ranges::any_of(schedule_families(), [&](const ScheduleFamily& family) {
    return std::ranges::count(family.parameters, key, &ScheduleParameter::key) > 0;
  });
}

// Writes the shorthand of every section out.
void expand_all(Value& root) {
  for (const Field& field : scenario_fields()) {
    if (field.type != FieldType::section || field.shorthand[0].empty()) continue;
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

std::string origin_of(const Mark& mark) {
  const Source& source = *mark.source;
  if (source.kind == Source::Kind::preset) return source.name;
  if (source.kind == Source::Kind::set) return "--set";
  return fmt::format("{}:{}:{}", source.name, mark.line, mark.column);
}

FieldValues::FieldValues(Value root, const std::string& prefix, Problems& problems)
    : root_(std::move(root)),
      prefix_(prefix.empty() ? prefix : prefix + '.'),
      problems_(problems),
      entries_(scenario_fields().size()) {
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
  if (section == "schedule" && is_family_parameter(m.key)) {
    suspects_.insert("schedule.params");
    problems_.add("E102", std::move(message), m.key_mark, length,
                  "did you mean 'schedule.params." + m.key + "'?");
    return;
  }
  std::vector<std::string_view> here;
  std::string list;
  for (const Field& field : scenario_fields()) {
    if (first_words(field.path) != section) continue;
    here.push_back(field.path.substr(section.empty() ? 0 : section.size() + 1));
    list += (list.empty() ? "" : ", ") + std::string(here.back());
  }
  // What is chosen from a list is called its kind.
  const bool names_kind = m.key == "name" && std::ranges::count(here, "kind") > 0;
  const std::string_view key = names_kind ? std::string_view("kind") : std::string_view(m.key);
  if (std::string label = did_you_mean(key, here); !label.empty()) {
    if (const std::string_view near = closest(key, here); !near.empty())
      suspects_.insert(key_path(section, near));
    problems_.add("E102", std::move(message), m.key_mark, length, std::move(label));
    return;
  }
  // It may be a key of ours in the wrong place, such as `tp` at top level: the keys of that name
  // that could have this value.
  std::vector<std::string> elsewhere;
  const Field* only = nullptr;
  for (const Field& field : scenario_fields()) {
    Problems none;
    if (last_word(field.path) == m.key &&
        field.path.find_first_of("[*") == std::string_view::npos &&
        (!is_leaf(field) || read_datum(m.value, field, m.key, none))) {
      const bool top = field.path == m.key;  // the same word, which needs its place
      elsewhere.push_back(fmt::format("'{}'{}", field.path, top ? " at the top level" : ""));
      only = &field;
    }
  }
  if (elsewhere.empty()) {
    constexpr size_t kMostListed = 24;
    problems_.add(
        "E102", std::move(message), m.key_mark, length, {},
        here.size() <= kMostListed ? "known here: " + list : "`stepcast schema` lists all keys");
    return;
  }
  if (elsewhere.size() == 1) suspects_.insert(std::string(only->path));
  problems_.add("E102", std::move(message), m.key_mark, length,
                "did you mean " + or_list(elsewhere) + '?');
}

// The word that the user wrote: of `precision: bf16`, precision, not the preset that it stands for.
std::string FieldValues::shown_name(const Field& field) const {
  const std::string key = last_word(field.path), section = first_words(field.path);
  const Field* around = find_field(section);
  const Mark a = key_mark_at(field.path), b = mark_at(field.path);
  const bool shorthand = around != nullptr && std::ranges::count(around->shorthand, key) > 0 &&
                         a.source == b.source && a.line == b.line && a.column == b.column;
  return shorthand ? last_word(section) : key;
}

void FieldValues::read_row(const Field& field) {
  const Key key(field);
  const Value* written = value(key);
  if (written == nullptr) {
    if (field.fallback.empty()) return;
    // Read once: a search resolves thousands of scenarios.
    static const std::vector<Datum> kDefaults = [] {
      std::vector<Datum> all(scenario_fields().size());
      for (const Field& f : scenario_fields())
        if (!f.fallback.empty() && is_leaf(f)) all[Key(f).index()] = default_datum(f);
      return all;
    }();
    put(key, kDefaults[key.index()], std::string(field.fallback),
        fmt::format("default: {}", field.reason));
    return;
  }
  if (!is_leaf(field)) return;
  std::optional<Datum> read = read_datum(*written, field, shown_name(field), problems_);
  if (!read) return;
  const bool number = std::holds_alternative<int64_t>(*read);
  if (number && !field.now.empty() && plain_text(*read) != field.now)
    problems_.add("E130",
                  fmt::format("{} = {} is not supported yet", shown_name(field), written->text),
                  written->mark, static_cast<int>(written->text.size()), {},
                  fmt::format("legal now: {}", field.now));
  put(key, std::move(*read), to_flow(*written), origin_of(written->mark));
}

void FieldValues::put(Key key, Datum datum, std::string shown, std::string origin) {
  if (shown.empty()) shown = plain_text(datum);
  entries_[key.index()] = {std::move(datum), std::move(shown), std::move(origin)};
}

bool FieldValues::given(Key key) const {
  return value(key) != nullptr || suspects_.contains(key.path());
}

bool FieldValues::stated(Key key) const {
  return given(key) || assumed_.contains(key.path());
}

bool FieldValues::says(std::string_view path, std::string_view word) const {
  const Field* field = find_field(path);
  return field != nullptr && has(Key(*field)) && plain_text(datum(Key(*field))) == word;
}

const Datum& FieldValues::datum(Key key) const {
  STEPCAST_CHECK(has(key), key.path());
  return entries_[key.index()]->datum;
}

const Value* FieldValues::value(Key key) const {
  return value_at(key.path());
}

const Value* FieldValues::value_at(std::string_view path) const {
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

Mark FieldValues::mark_at(std::string_view path) const {
  for (;;) {
    if (const Value* v = value_at(path); v != nullptr) return v->mark;
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos || dot < prefix_.size()) return root_.mark;
    path = path.substr(0, dot);
  }
}

Mark FieldValues::key_mark_at(std::string_view path) const {
  const std::string section = first_words(path), key = last_word(path);
  const Value* around =
      section.size() < prefix_.size() || section.empty() ? &root_ : value_at(section);
  if (around != nullptr)
    for (const Member& m : around->members)
      if (m.key == key) return m.key_mark;
  return mark_at(path);
}

int FieldValues::length(Key key) const {
  const Value* v = value(key);
  return v != nullptr && v->is_scalar() ? std::max(1, static_cast<int>(v->text.size())) : 1;
}

void FieldValues::refuse(std::string code, Key key, std::string message, std::string help,
                         std::string label) const {
  problems_.add(std::move(code), std::move(message), mark(key), length(key), std::move(label),
                std::move(help));
}

bool FieldValues::require(Key key, std::string help) {
  if (has(key)) return true;
  if (given(key)) return value(key) != nullptr && !is_leaf(key.row());
  const std::string path = key.path();
  std::string_view around = path;
  while (around.rfind('.') != std::string_view::npos) {
    around = around.substr(0, around.rfind('.'));
    if (around.size() >= prefix_.size() && value_at(around) != nullptr) {
      if (!value_at(around)->is_mapping()) return false;  // which has been said
      problems_.add("E126", fmt::format("'{}' is missing", path), key_mark_at(around),
                    static_cast<int>(last_word(around).size()), {}, std::move(help));
      return false;
    }
  }
  problems_.add("E126", fmt::format("'{}' is missing", path), root_.mark, 1, {}, std::move(help));
  return false;
}

void FieldValues::assume(std::string_view path, const Value& value, std::string origin) {
  const Field* field = find_field(path);
  if (field == nullptr || !is_leaf(*field)) {
    problems_.add("E102", '\'' + std::string(path) + "' is no key that takes a value", value.mark);
    return;
  }
  const Key key(*field);
  if (given(key)) return;
  std::optional<Datum> datum = read_datum(value, *field, last_word(path), problems_);
  if (!datum) return;
  put(key, std::move(*datum), to_flow(value), std::move(origin));
  assumed_.insert(std::string(path));
}

std::vector<Setting> FieldValues::settings() const {
  std::vector<Setting> all;
  for (const Field& field : scenario_fields()) {
    if (!field.path.starts_with(prefix_)) continue;
    const std::string section(field.path.substr(0, field.path.find('.')));
    const bool optional = section == "measured" || section == "compare" || section == "job";
    if (optional && value_at(section) == nullptr) continue;
    const Value* v = value_at(field.path);
    const bool stated = v != nullptr && v->mark.source != nullptr && !v->mark.in_preset();
    if (const std::optional<Entry>& entry = entries_[Key(field).index()]) {
      all.push_back({std::string(field.path), entry->shown, entry->origin, stated});
    } else if (field.type == FieldType::list || field.type == FieldType::noted) {
      if (v != nullptr)
        all.push_back({std::string(field.path), to_flow(*v), origin_of(v->mark), stated});
    }
  }
  return all;
}

std::string FieldValues::canonical(bool (*skip)(std::string_view path)) const {
  std::vector<std::pair<std::string_view, const Entry*>> by_path;
  for (const Field& field : scenario_fields())
    if (const std::optional<Entry>& entry = entries_[Key(field).index()];
        entry && !skip(field.path))
      by_path.emplace_back(field.path, &*entry);
  std::ranges::sort(by_path);
  std::string text;
  for (const auto& [path, entry] : by_path)
    text += fmt::format("{}={}\n", path, plain_text(entry->datum));
  for (const Field& field : scenario_fields())
    if (field.type == FieldType::list && field.path.starts_with(prefix_) && value_at(field.path))
      text += fmt::format("{}={}\n", field.path, to_flow(*value_at(field.path)));
  return text;
}

namespace {

template <class T>
std::optional<Datum> wrap(std::optional<T> x) {
  return x ? std::optional<Datum>(*x) : std::nullopt;
}

// A word of a closed list: E125 if it is none, E130 if it is not modelled yet.
std::optional<Datum> read_choice(const Value& value, const Field& field, std::string_view name,
                                 Problems& problems) {
  const int length = static_cast<int>(value.text.size());
  if (!value.is_scalar()) {
    problems.add("E107", '\'' + std::string(name) + "' must be one word", value.mark, 1, {},
                 "it is one of: " + choices_text(field.choices));
    return {};
  }
  const Word* word = field.choices.find(value.text);
  if (word == nullptr) {
    std::vector<std::string_view> words;
    for (const Word& w : field.choices.words) words.push_back(w.text);
    problems.add("E125", fmt::format("'{}' cannot be '{}'", name, value.text), value.mark, length,
                 did_you_mean(value.text, words), "it is one of: " + choices_text(field.choices));
    return {};
  }
  if (!word->modelled) {
    problems.add("E130", fmt::format("{} = {} is not supported yet", name, value.text), value.mark,
                 length, {}, "legal now: " + choices_text(field.choices, true));
    return {};
  }
  return value.text;
}

std::optional<Datum> read_list(const Value& value, const Field& field, std::string_view name,
                               Problems& problems) {
  std::vector<std::string> words;
  // One word is a list of one.
  const std::vector<Value> one{value.is_scalar() ? value : Value{}};
  if (value.is_mapping()) {
    problems.add("E107", '\'' + std::string(name) + "' must be a list", value.mark);
    return {};
  }
  for (const Value& item : value.is_scalar() ? one : value.items) {
    if (field.type == FieldType::choices) {
      const std::optional<Datum> word = read_choice(item, field, name, problems);
      if (!word) return {};
      words.push_back(std::get<std::string>(*word));
    } else {
      const std::optional<std::string> word = read_text(item, name, problems);
      if (!word) return {};
      words.push_back(*word);
    }
  }
  return words;
}

// "key=value" for each member; null stands for nothing.
std::optional<Datum> read_pairs(const Value& value, std::string_view name, Problems& problems) {
  std::vector<std::string> pairs;
  if (!value.is_mapping()) {
    problems.add("E107", '\'' + std::string(name) + "' must be a mapping of names and values",
                 value.mark, std::max(1, static_cast<int>(value.text.size())));
    return {};
  }
  bool ok = true;
  for (const Member& m : value.members) {
    if (m.value.kind == Value::Kind::null) continue;
    if (m.value.is_scalar()) {
      pairs.push_back(m.key + '=' + m.value.text);
      continue;
    }
    ok = false;
    problems.add("E107", '\'' + m.key + "' must be a single value", m.value.mark);
  }
  return ok ? std::optional<Datum>(std::move(pairs)) : std::nullopt;
}

constexpr int64_t kMostCount = 1'000'000'000;  // products of a few of them fit 128 bits
// The longest latency of a link or a switch: a ring of 10^6 ranks at twice this stays countable.
constexpr Time kMostLatency = std::chrono::seconds(1);

int64_t largest(const Field& field) {
  if (field.most > 0) return field.most;
  return field.type == FieldType::count ? kMostCount : std::numeric_limits<int64_t>::max();
}

Time longest(std::string_view name) {
  return name.starts_with("latency") ? kMostLatency : Time::max();
}

}  // namespace

bool is_leaf(const Field& field) {
  switch (field.type) {
    case FieldType::section:
    case FieldType::list:
    case FieldType::names:
    case FieldType::opaque:
    case FieldType::noted: return false;
    default: return true;
  }
}

std::optional<Datum> read_datum(const Value& value, const Field& field, std::string_view name,
                                Problems& problems) {
  const auto picoseconds = [](std::optional<Time> t) {
    return t ? std::optional<Datum>(int64_t{t->count()}) : std::nullopt;
  };
  const auto value_of = [](auto quantity) {
    return quantity ? std::optional<Datum>(quantity->value) : std::nullopt;
  };
  switch (field.type) {
    case FieldType::text: return wrap(read_text(value, name, problems));
    case FieldType::flag: return wrap(read_flag(value, name, problems));
    case FieldType::count: return wrap(read_whole(value, name, problems, 1, largest(field)));
    case FieldType::whole: return wrap(read_whole(value, name, problems, 0, largest(field)));
    case FieldType::number: return wrap(read_number(value, name, problems));
    case FieldType::share: return wrap(read_share(value, name, problems));
    case FieldType::tokens: return wrap(read_tokens(value, name, problems));
    case FieldType::bytes: return value_of(read_bytes(value, name, problems, !field.positive));
    case FieldType::bandwidth: return value_of(read_bandwidth(value, name, problems));
    case FieldType::flop_rate: return value_of(read_flop_rate(value, name, problems));
    case FieldType::power: return value_of(read_power(value, name, problems));
    case FieldType::time:
      return picoseconds(read_time(value, name, problems, false, longest(name)));
    case FieldType::choice: return read_choice(value, field, name, problems);
    case FieldType::choices:
    case FieldType::texts: return read_list(value, field, name, problems);
    case FieldType::pairs: return read_pairs(value, name, problems);
    default: return {};
  }
}

// A default is read as if it had been written, so the table cannot hold a wrong one.
Datum default_datum(const Field& field) {
  Problems none;
  Value value;
  if (field.type == FieldType::choices || field.type == FieldType::texts) {
    value = parse_embedded(none, "default", field.fallback);
  } else {
    value.kind = Value::Kind::scalar;
    value.text = std::string(field.fallback);
  }
  std::optional<Datum> datum = read_datum(value, field, field.path, none);
  STEPCAST_CHECK(datum && !none.any(), std::string(field.path));
  return std::move(*datum);
}

std::string plain_text(const Datum& datum) {
  struct Writer {
    std::string operator()(int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const {
      std::array<char, 40> text{};
      const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), x);
      return {text.data(), end};
    }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(const std::string& x) const { return x; }
    std::string operator()(const std::vector<std::string>& x) const {
      std::string text;
      for (const std::string& word : x) text += word + '\n';
      return text;
    }
  };
  return std::visit(Writer{}, datum);
}

}  // namespace stepcast
