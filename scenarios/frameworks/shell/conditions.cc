// SPDX-License-Identifier: Apache-2.0
// What "[ ... ]", "[[ ... ]]" and `test` say, as far as it is known.
#include "scenarios/frameworks/shell/reader.h"

#include <algorithm>

namespace stepcast {

ShellReader::Outcome ShellReader::test(const std::vector<std::string>& words) {
  size_t at = 0;
  Outcome o = test_or(words, at, 0);
  o.is_test = true;
  if (o.truth != Truth::unknown) o.names.clear();
  return o;
}

ShellReader::Outcome ShellReader::test_or(const std::vector<std::string>& w, size_t& at,
                                          int depth) {
  Outcome all = test_and(w, at, depth);
  while (at < w.size() && (w[at] == "||" || w[at] == "-o"))
    all = join_tests(all, test_and(w, ++at, depth), false);
  return all;
}

ShellReader::Outcome ShellReader::test_and(const std::vector<std::string>& w, size_t& at,
                                           int depth) {
  Outcome all = test_one(w, at, depth);
  while (at < w.size() && (w[at] == "&&" || w[at] == "-a"))
    all = join_tests(all, test_one(w, ++at, depth), true);
  return all;
}

ShellReader::Outcome ShellReader::join_tests(const Outcome& a, const Outcome& b, bool is_and) {
  Outcome o{both(a.truth, b.truth, is_and), both(a.unset, b.unset, is_and), a.names};
  o.names.insert(b.names.begin(), b.names.end());
  return o;
}

bool ShellReader::is_binary(std::string_view op) {
  for (const std::string_view known : {"=", "==", "!=", "-eq", "-ne", "-gt", "-ge", "-lt", "-le",
                                       "<", ">", "=~", "-ef", "-nt", "-ot"})
    if (op == known) return true;
  return false;
}

ShellReader::Outcome ShellReader::test_one(const std::vector<std::string>& w, size_t& at,
                                           int depth) {
  if (at >= w.size()) return {Truth::no, Truth::no};
  if (w[at] == "!" && depth < 50) {
    Outcome o = test_one(w, ++at, depth + 1);
    return {negated(o.truth), negated(o.unset), o.names};
  }
  if (w[at] == "(" && depth < 50) {
    Outcome o = test_or(w, ++at, depth + 1);
    if (at < w.size() && w[at] == ")") ++at;
    return o;
  }
  if (at + 2 < w.size() && is_binary(w[at + 1])) {
    const std::string a = w[at], op = w[at + 1], b = w[at + 2];
    at += 3;
    return binary(a, op, b);
  }
  // "[ $NAME = ]" and "[ = 1 ]" come of empty variables.
  if (at + 1 < w.size() && is_binary(w[at])) {
    at += 2;
    return {Truth::no, Truth::no};
  }
  if (w[at].size() == 2 && w[at][0] == '-' && w[at] != "-a" && w[at] != "-o") {
    const char kind = w[at][1];
    ++at;
    const std::string value = at < w.size() ? w[at++] : "";
    if (kind == 'z' || kind == 'n') {
      const Outcome o = is_empty(value);
      return kind == 'z' ? o : Outcome{negated(o.truth), negated(o.unset), o.names};
    }
    if (kind == 'v') {
      const Truth t = truth_of(find(value) != nullptr);
      return {t, t};
    }
    return {Truth::no, Truth::no};  // about files
  }
  const Outcome o = is_empty(w[at++]);
  return {negated(o.truth), negated(o.unset), o.names};
}

ShellReader::Outcome ShellReader::is_empty(const std::string& value) const {
  Outcome o{Truth::no, Truth::no};
  if (!has_open(value)) {
    const Truth t = truth_of(value.empty());
    return {t, t};
  }
  bool may_be_empty = false, all_unset = shown(value, true).empty();
  each_open(value, [&](size_t i, size_t, size_t) {
    for (const auto& words : opens_[i].may_be) may_be_empty = may_be_empty || words.empty();
  });
  if (all_unset) return {Truth::yes, Truth::yes};
  if (may_be_empty && only_open(value)) {
    o = {Truth::unknown, Truth::unknown};
    add_names(value, o.names);
  }
  return o;
}

ShellReader::Outcome ShellReader::binary(const std::string& a, const std::string& op,
                                         const std::string& b) {
  if (op == "=" || op == "==") return compared(a, b);
  if (op == "!=") {
    const Outcome o = compared(a, b);
    return {negated(o.truth), negated(o.unset), o.names};
  }
  if (op == "=~" && !has_open(a) && !has_open(b)) {
    // Of expressions only plain text, "^" and "$".
    std::string pattern = b;
    const bool begins = pattern.starts_with('^'), ends = pattern.ends_with('$');
    if (begins) pattern.erase(0, 1);
    if (ends && !pattern.empty()) pattern.pop_back();
    if (pattern.find_first_of(".*+?()[]{}|\\^$") != pattern.npos)
      return {Truth::unknown, Truth::unknown};
    const Truth t = truth_of(fits((begins ? "" : "*") + pattern + (ends ? "" : "*"), a));
    return {t, t};
  }
  if (op == "-ef" || op == "-nt" || op == "-ot") return {Truth::no, Truth::no};
  Outcome o{Truth::unknown, Truth::unknown};
  add_names(a, o.names);
  add_names(b, o.names);
  if (o.names.empty() && (has_open(a) || has_open(b))) return {Truth::no, Truth::no};
  if (o.names.empty()) o.truth = ordered(a, op, b);
  const std::string ea = emptied(a), eb = emptied(b);
  if (!has_open(ea) && !has_open(eb)) o.unset = ordered(ea, op, eb);
  return o;
}

ShellReader::Truth ShellReader::ordered(const std::string& a, const std::string& op,
                                        const std::string& b) {
  const auto names = [&](const std::string& name) -> std::optional<std::string> {
    const Variable* v = find(name);
    const std::string t = v == nullptr ? "" : joined(v->items).text;
    spend(t.size() / kCopied);
    return has_open(t) || t.empty() ? std::nullopt : std::optional(t);
  };
  const auto x = shell_number(a, names), y = shell_number(b, names);
  if (!x || !y) return Truth::no;
  if (op == "-eq") return truth_of(*x == *y);
  if (op == "-ne") return truth_of(*x != *y);
  if (op == "-gt" || op == ">") return truth_of(*x > *y);
  if (op == "-ge") return truth_of(*x >= *y);
  if (op == "-lt" || op == "<") return truth_of(*x < *y);
  if (op == "-le") return truth_of(*x <= *y);
  return Truth::unknown;
}

}  // namespace stepcast
