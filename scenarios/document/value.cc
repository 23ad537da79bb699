// SPDX-License-Identifier: Apache-2.0
#include "scenarios/document/value.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace stepcast {
namespace {

constexpr size_t kMostReported = 20;
constexpr size_t kMostKept = 1000;  // a hostile file makes problems by the million

// Characters in the first `bytes` bytes of UTF-8 text.
int characters(std::string_view line, size_t bytes) {
  const std::string_view head = line.substr(0, bytes);
  return static_cast<int>(std::count_if(head.begin(), head.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

// Marks and lengths count bytes; people count characters.
void fill_in_place(Diagnostic& d, const Source& source, const Mark& mark) {
  d.file = source.name;
  d.line = mark.line;
  const std::string_view line = source.line(mark.line);
  const size_t before = mark.column > 0 ? static_cast<size_t>(mark.column - 1) : 0;
  const auto under = static_cast<size_t>(std::max(d.length, 1));
  d.column = mark.column > 0 ? characters(line, before) + 1 : 0;
  d.length = before < line.size() ? std::max(1, characters(line.substr(before), under)) : 1;
  constexpr size_t kLongestLine = 2000;  // a whole file may be one line
  if (line.size() <= kLongestLine) d.source_line = std::string(line);
}

bool needs_escape(char c) {
  return (c >= 0 && c < 0x20) || c == 0x7f;
}

// Whether a text may stand without quotes inside [] and {}.
bool is_plain(std::string_view text) {
  return !text.empty() && text.find_first_of(",[]{}\"#\\") == std::string_view::npos &&
         std::none_of(text.begin(), text.end(), needs_escape) &&
         text.find(": ") == std::string_view::npos && !text.ends_with(':') &&
         std::string_view("&*!|>%@`'-?: ").find(text.front()) == std::string_view::npos;
}

}  // namespace

std::string_view Source::line(int n) const {
  if (n < 1) return {};
  std::string_view rest = text;
  for (int i = 1; i < n; ++i) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

const Value* Value::find(std::string_view key) const {
  for (const Member& m : members)
    if (m.key == key) return &m.value;
  return nullptr;
}

Value* Value::find(std::string_view key) {
  for (Member& m : members)
    if (m.key == key) return &m.value;
  return nullptr;
}

void merge(Value& base, Value over) {
  if (!over.is_mapping()) {
    base = std::move(over);
    return;
  }
  if (!base.is_mapping()) {  // nulls delete nothing here, but are no values either
    base = Value{};
    base.kind = Value::Kind::mapping;
  }
  base.mark = over.mark;
  std::map<std::string, size_t> places;  // of the keys that both may have
  for (size_t i = 0; i < base.members.size(); ++i) places[base.members[i].key] = i;
  bool erased = false;
  for (Member& m : over.members) {
    const auto place = places.find(m.key);
    const bool null = m.value.kind == Value::Kind::null;
    if (place == places.end()) {
      if (null) continue;
      base.members.push_back({std::move(m.key), m.key_mark, Value{}});
      merge(base.members.back().value, std::move(m.value));
    } else {
      Member& old = base.members[place->second];
      old.key_mark = m.key_mark;
      erased = erased || null;
      merge(old.value, std::move(m.value));
    }
  }
  if (erased)
    std::erase_if(base.members, [](const Member& m) { return m.value.kind == Value::Kind::null; });
}

std::string to_flow(const Value& value) {
  const auto digit = [](int n) { return "0123456789abcdef"[n]; };
  std::string text;
  switch (value.kind) {
    case Value::Kind::null: return "null";
    case Value::Kind::scalar: {
      if (!value.quoted && is_plain(value.text)) return value.text;
      text = "\"";
      for (const char c : value.text) {
        if (c == '"' || c == '\\') text += '\\';
        if (c == '\n')
          text += "\\n";
        else if (needs_escape(c))
          text += std::string("\\x") + digit(c / 16) + digit(c % 16);
        else
          text += c;
      }
      return text + '"';
    }
    case Value::Kind::sequence:
      for (const Value& item : value.items) text += (text.empty() ? "" : ", ") + to_flow(item);
      return '[' + text + ']';
    case Value::Kind::mapping:
      for (const Member& m : value.members) {
        Value key;
        key.kind = Value::Kind::scalar;
        key.text = m.key;
        text += (text.empty() ? "" : ", ") + to_flow(key) + ": " + to_flow(m.value);
      }
      return '{' + text + '}';
  }
  return text;
}

SourceRef Problems::add_source(Source source) {
  source.number = sources_++;
  const SourceRef added = std::make_shared<const Source>(std::move(source));
  if (first_ == nullptr) first_ = added;
  return added;
}

void Problems::add(std::string code, std::string message, const Mark& mark, int length,
                   std::string label, std::string help, std::string note) {
  if (found_.size() >= kMostKept) return;
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.length = length;
  d.label = std::move(label);
  d.help = std::move(help);
  d.note = std::move(note);
  found_.push_back(std::move(d));
  marks_.push_back(mark);
}

std::vector<Diagnostic> Problems::diagnostics() const {
  // Sources in the order they were read, then by place.
  std::vector<size_t> order(found_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto place = [&](size_t i) {
    const Mark& m = marks_[i];
    return std::tuple(m.source == nullptr ? 0 : m.source->number, m.line, m.column);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return place(a) < place(b); });
  if (order.size() > kMostReported) order.resize(kMostReported);
  std::vector<Diagnostic> all;
  for (const size_t i : order) {
    all.push_back(found_[i]);
    const SourceRef& source = marks_[i].source == nullptr ? first_ : marks_[i].source;
    if (source != nullptr) fill_in_place(all.back(), *source, marks_[i]);
  }
  return all;
}

void Problems::throw_if_any() const {
  if (any()) throw InputError(diagnostics());
}

}  // namespace stepcast
