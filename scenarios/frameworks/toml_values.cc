// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/toml_values.h"

#define TOML_MAX_NESTED_VALUES 64
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

namespace stepcast {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;

constexpr int kMostTomlLevels = 64;

// A key of dots, "a.a.a...", is as many tables, which toml++ 3.3 does not limit and frees by
// recursion.
bool has_long_key(std::string_view text) {
  int dots = 0;
  char before = '\n';
  for (const char c : text) {
    if (c == '.' && before != '.' && ++dots > kMostTomlLevels) return true;
    if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') dots = 0;
    before = c;
  }
  return false;
}

struct TooDeep {
  Mark mark;
};

Mark mark_of(const SourceRef& source, const toml::source_region& region) {
  return {source, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

std::string text_of(const toml::node& node) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* i = node.as_integer()) return fmt::format("{}", i->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "true" : "false";
  if (const auto* f = node.as_floating_point()) return fmt::format("{}", f->get());
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

Value value_of(const SourceRef& source, const toml::node& node, int level = 0) {
  Value v;
  v.mark = mark_of(source, node.source());
  if (level > kMostTomlLevels) throw TooDeep{v.mark};
  if (const toml::table* table = node.as_table()) {
    v.kind = Value::Kind::mapping;
    for (const auto& [key, child] : *table)
      v.members.push_back({std::string(key.str()), mark_of(source, key.source()),
                           value_of(source, child, level + 1)});
    // The library sorts by name; the order of the file is that of the places.
    std::stable_sort(v.members.begin(), v.members.end(), [](const Member& a, const Member& b) {
      return std::pair(a.key_mark.line, a.key_mark.column) <
             std::pair(b.key_mark.line, b.key_mark.column);
    });
  } else if (const toml::array* array = node.as_array()) {
    v.kind = Value::Kind::sequence;
    for (const toml::node& item : *array) v.items.push_back(value_of(source, item, level + 1));
  } else {
    v.kind = Value::Kind::scalar;
    v.quoted = node.is_string();
    v.text = text_of(node);
  }
  return v;
}

// Where a string that begins at `at` has ended; a long one between three quotes.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const bool is_long = text.substr(at, 3) == std::string(3, quote);
  const std::string close(is_long ? 3 : 1, quote);
  for (at += close.size(); at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"')
      ++at;
    else if (text.substr(at, close.size()) == close)
      return at + close.size();
    else if (text[at] == '\n' && !is_long)
      return at;
  }
  return text.size();
}

// Where a character that is no ASCII stands outside of strings and comments, or npos.  It may not,
// and toml++ 3.3 goes astray when it asks whether such a one is a blank.
size_t foreign_character(std::string_view text) {
  for (size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text.size();) {
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (text[at] == '"' || text[at] == '\'') {
      at = end_of_string(text, at);
    } else if (static_cast<unsigned char>(text[at]) >= 0x80) {
      return at;
    } else {
      ++at;
    }
  }
  return std::string_view::npos;
}

bool is_well_formed(const std::string& text) {
  try {
    static_cast<void>(toml::parse(std::string_view(text)));
    return true;
  } catch (const toml::parse_error&) {
    return false;
  }
}

}  // namespace

Value parse_toml(Problems& problems, const SourceRef& source) {
  if (source->text.size() > kMostBytes) {
    problems.add("E106",
                 fmt::format("the text is larger than {} MiB: {} bytes", kMostBytes >> 20,
                             source->text.size()),
                 Mark{source, 0, 0});
    return {};
  }
  const auto refuse_depth = [&](const Mark& mark) {
    problems.add("E105", fmt::format("nested deeper than {} levels", kMostTomlLevels), mark);
    return Value{};
  };
  if (has_long_key(source->text)) return refuse_depth(Mark{source, 0, 0});
  if (const size_t at = foreign_character(source->text); at != std::string::npos) {
    const std::string_view before = std::string_view(source->text).substr(0, at);
    const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
    const size_t begin = before.rfind('\n') + 1;  // 0 in the first line
    problems.add("E100",
                 "this is not valid TOML: this character stands in quotes or comments alone",
                 Mark{source, line, static_cast<int>(at - begin) + 1});
    return {};
  }
  try {
    return value_of(source, toml::parse(std::string_view(source->text)));
  } catch (const TooDeep& e) {
    return refuse_depth(e.mark);
  } catch (const toml::parse_error& e) {
    // Its streams take memory that runs out for a number that is none: the text is well formed if
    // it can be parsed now.
    if (is_well_formed(source->text)) throw std::bad_alloc();
    const bool deep = e.description().find("nesting") != std::string_view::npos;
    problems.add(deep ? "E105" : "E100", fmt::format("this is not valid TOML: {}", e.description()),
                 mark_of(source, e.source()));
    return {};
  }
}

}  // namespace stepcast
