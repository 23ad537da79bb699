// SPDX-License-Identifier: Apache-2.0
#include "scenarios/field_datum.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "scenarios/number.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
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
  if (!one_of(value.text, field.choices)) {
    std::vector<std::string_view> words;
    Words list{field.choices};
    while (const auto w = list.next()) words.push_back(*w);
    problems.add("E125", '\'' + std::string(name) + "' cannot be '" + value.text + '\'', value.mark,
                 length, did_you_mean(value.text, words),
                 "it is one of: " + choices_text(field.choices));
    return {};
  }
  if (!field.now.empty() && !one_of(value.text, field.now))
    problems.add("E130", std::string(name) + " = " + value.text + " is not supported yet",
                 value.mark, length, {}, "legal now: " + choices_text(field.now));
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
// Of a link, a switch: a ring of 10^6 ranks at twice this stays countable.
constexpr Time kMostLatency = std::chrono::seconds(1);

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
    case FieldType::noted:
    case FieldType::later: return false;
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
    case FieldType::count: return wrap(read_whole(value, name, problems, 1, kMostCount));
    case FieldType::whole: return wrap(read_whole(value, name, problems));
    case FieldType::number: return wrap(read_number(value, name, problems));
    case FieldType::share: return wrap(read_share(value, name, problems));
    case FieldType::tokens: return wrap(read_tokens(value, name, problems));
    case FieldType::bytes: return value_of(read_bytes(value, name, problems, true));
    case FieldType::bandwidth: return value_of(read_bandwidth(value, name, problems));
    case FieldType::flop_rate: return value_of(read_flop_rate(value, name, problems));
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
  none.add_source({"default", std::string(field.fallback), false});
  Value value;
  if (field.type == FieldType::choices || field.type == FieldType::texts) {
    value = parse_yaml(none, 0);
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
