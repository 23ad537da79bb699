// SPDX-License-Identifier: Apache-2.0
// $((...)) and ((...)): arithmetic, and the variables that it sets.
#include "scenarios/frameworks/shell/reader.h"

#include <fmt/format.h>

namespace stepcast {

ShellText ShellReader::computed(const ShellText& in, ShellRange inside, ShellRange all) {
  const Mark mark = in.mark_at(all.begin);
  std::set<std::string> names;
  if (const auto value = number_of(in, inside, names))
    return plain(fmt::format("{}", *value), mark);
  return open({in.text.substr(all.begin, all.end - all.begin), names}, mark);
}

std::optional<int64_t> ShellReader::number_of(const ShellText& in, ShellRange inside,
                                              std::set<std::string>& names, bool unset_is_0) {
  std::string text;
  if (++nested_ < 100) text = one_text(in, inside).text;
  --nested_;
  if (unset_is_0) text = emptied(text);
  std::string plain_text;
  for (const char c : text)
    if (c != '"' && c != '\'') plain_text += c;
  if (has_open(plain_text)) {
    for (const std::string& name : shell_assigned(plain_text).names)
      assign(name, unknown(name, in.mark_at(inside.begin)));
    add_names(plain_text, names);
    add_names_in_arithmetic(plain_text, names);
    return {};
  }
  const ShellAssigned assigned = shell_assigned(plain_text);
  if (!assigned.names.empty()) return set_number(assigned, in.mark_at(inside.begin), names);
  const auto value =
      shell_number(plain_text, [&](const std::string& name) -> std::optional<std::string> {
        if (const Variable* v = find(name)) {
          const std::string t = joined(v->items).text;
          spend(t.size() / kCopied);
          if (!has_open(t)) return t;
          add_names(t, names);
          return {};
        }
        if (unset_is_0) return "0";
        names.insert(name);
        return {};
      });
  return value;
}

std::optional<int64_t> ShellReader::set_number(const ShellAssigned& assigned, const Mark& mark,
                                               std::set<std::string>& names) {
  if (assigned.value) {
    const std::string& name = assigned.names.front();
    const auto value_of = [&](const std::string& wanted) -> std::optional<std::string> {
      const Variable* v = find(wanted);
      const std::string t = v == nullptr ? "" : joined(v->items).text;
      spend(t.size() / kCopied);
      add_names(t, names);
      if (v == nullptr) names.insert(wanted);
      return v == nullptr || has_open(t) ? std::nullopt : std::optional(t.empty() ? "0" : t);
    };
    if (const auto value = shell_number(*assigned.value, value_of)) {
      const auto before = assigned.is_before ? shell_number(name, value_of) : value;
      assign(name, scalar(plain(fmt::format("{}", *value), mark)));
      return before;
    }
  }
  for (const std::string& name : assigned.names) assign(name, unknown(name, mark));
  return {};
}

void ShellReader::add_names_in_arithmetic(std::string_view text,
                                          std::set<std::string>& names) const {
  for (size_t at = 0; at < text.size();) {
    if (!is_shell_name_start(text[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && is_shell_name(text[at])) ++at;
    const Variable* v = find(text.substr(begin, at - begin));
    if (v != nullptr) add_names(joined(v->items).text, names);
  }
}

ShellReader::Outcome ShellReader::arithmetic(const ShellText& in, ShellRange inside) {
  std::set<std::string> names;
  Outcome o{Truth::unknown, Truth::unknown};
  o.is_test = true;
  if (const auto value = number_of(in, inside, names)) {
    o.truth = o.unset = truth_of(*value != 0);
  } else {
    o.names = names;
    std::set<std::string> ignored;
    if (const auto empty = number_of(in, inside, ignored, true)) o.unset = truth_of(*empty != 0);
  }
  return o;
}

}  // namespace stepcast
