// SPDX-License-Identifier: Apache-2.0
// Branches of which any may hold, and loops: what they leave.
#include "scenarios/frameworks/shell/reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast {

void ShellReader::branch(const std::vector<Branch>& branches) {
  std::set<std::string> names;
  std::vector<Changes> outcomes;
  std::optional<size_t> if_unset;
  bool maybe = false, exhaustive = false, unset_is_known = true;
  for (const Branch& b : branches) {
    if (script_.cut) return;
    if (b.condition.truth == Truth::no) continue;
    const bool is_sure = b.condition.truth == Truth::yes && !maybe;
    const bool trained = trains_;
    if (!is_sure) {
      names.insert(b.condition.names.begin(), b.condition.names.end());
      spend(names.size() * kCopied);
      maybe = true;
      under_.push_back(names);
    }
    const bool is_unset_one = unset_is_known && !if_unset && b.condition.unset == Truth::yes;
    if (b.condition.unset == Truth::unknown) unset_is_known = false;
    const Changes changes = run_apart(b.body);
    if (!is_sure) under_.pop_back();
    const Ends ended = apart_ended_;
    // A branch that ends the script is not that of a training, unless it has trained.
    if (ended == Ends::script && !(trains_ && !trained)) {
      if (is_sure) names = {};
      if (is_sure) maybe = false;
      if (b.condition.truth == Truth::yes && maybe) exhaustive = true;
      if (is_sure) continue;
      if (exhaustive) break;
      continue;
    }
    if (is_sure) {
      apply(changes);
      positional_ = apart_positional_;  // "shift" in a `case`
      ends_ = ended;
      return;
    }
    if (ended == Ends::loop || ended == Ends::round) may_leave_ = true;
    if (is_unset_one) if_unset = outcomes.size();
    outcomes.push_back(changes);
    if (b.condition.truth == Truth::yes) {
      exhaustive = true;
      break;
    }
  }
  if (!maybe) return;
  if (!exhaustive) {
    if (unset_is_known && !if_unset) if_unset = outcomes.size();
    outcomes.emplace_back();
  }
  merge(outcomes, names, unset_is_known ? if_unset : std::nullopt);
}

std::string ShellReader::key_of(const std::optional<Variable>& v) {
  if (!v) return "-";
  std::string key = v->is_array ? "(" : "=";
  for (const auto& [k, text] : v->items) key += k + '\n' + text.text + '\n';
  return key;
}

void ShellReader::merge(const std::vector<Changes>& outcomes, const std::set<std::string>& names,
                        std::optional<size_t> if_unset) {
  if (outcomes.empty()) return;
  std::set<std::string> changed;
  for (const Changes& c : outcomes)
    for (const auto& [name, value] : c) changed.insert(name);
  for (const std::string& name : changed) {
    std::vector<std::optional<Variable>> values;
    for (const Changes& c : outcomes) {
      const auto found = c.find(name);
      if (found != c.end())
        values.push_back(found->second);
      else if (const Variable* v = find(name))
        values.push_back(*v);
      else
        values.emplace_back();
      if (values.back())
        for (const auto& [k, text] : values.back()->items) spend(text.text.size() + kCopied);
    }
    if (script_.cut) return;
    bool same = true;
    for (const auto& v : values) same = same && key_of(v) == key_of(values.front());
    if (same) {
      apply({{name, values.front()}});
      continue;
    }
    // Arguments that are added on demand are not asked for.
    if (if_unset && holds_options(values)) {
      const std::optional<Variable>& v = values[*if_unset];
      for (const std::string& n : names) script_.empty.insert(n);
      apply({{name, v ? v : std::optional(scalar({}))}});
      continue;
    }
    change(name) = one_of(values, name, names);
  }
}

bool ShellReader::holds_options(const std::vector<std::optional<Variable>>& values) const {
  for (const auto& v : values)
    if (v)
      for (const auto& [k, text] : v->items)
        if (text.text.find("--") != std::string::npos) return true;
  return false;
}

ShellReader::Variable ShellReader::one_of(const std::vector<std::optional<Variable>>& values,
                                          const std::string& name,
                                          const std::set<std::string>& names) {
  bool array = false;
  for (const auto& v : values) array = array || (v && v->is_array);
  std::vector<std::vector<ShellText>> words;
  for (const auto& v : values) {
    std::vector<ShellText>& all = words.emplace_back();
    if (!v) continue;
    for (const auto& [k, text] : v->items) {
      if (array)
        all.push_back(text);
      else
        for (ShellText& t : split_text(text)) all.push_back(std::move(t));
    }
  }
  size_t alike = 0;
  const auto all_have = [&](size_t i) {
    return std::all_of(words.begin(), words.end(), [&](const std::vector<ShellText>& w) {
      return i < w.size() && w[i].text == words.front()[i].text;
    });
  };
  while (all_have(alike)) ++alike;
  Items kept;
  for (size_t i = 0; i < alike; ++i) kept.emplace_back(fmt::format("{}", i), words.front()[i]);
  Open o{"$" + name, names};
  for (std::vector<ShellText>& w : words) {
    w.erase(w.begin(), w.begin() + static_cast<long>(alike));
    for (const ShellText& t : w) spend(t.text.size());
  }
  const Mark mark = [&] {
    for (const auto& w : words)
      if (!w.empty()) return w.front().mark_at(0);
    return Mark{source_, 0, 0};
  }();
  o.may_be = std::move(words);
  kept.emplace_back(fmt::format("{}", alike), open(std::move(o), mark));
  Variable v;
  v.is_array = array;
  if (array)
    v.items = std::move(kept);
  else
    v = scalar(joined(kept));
  return v;
}

void ShellReader::choice(const ShellNode& node) {
  const std::string subject = node.words.empty() ? "" : one_text(*node.in, node.words.front()).text;
  std::vector<Branch> branches;
  for (const ShellClause& clause : node.clauses) {
    Outcome any{Truth::no, Truth::no};
    for (const ShellRange& p : clause.patterns) {
      const std::string pattern = one_text(*node.in, p).text;
      const Outcome one = compared(subject, pattern);
      any.truth = both(any.truth, one.truth, false);
      any.unset = both(any.unset, one.unset, false);
      any.names.insert(one.names.begin(), one.names.end());
    }
    branches.push_back({any, [this, &clause] { run(clause.body); }});
  }
  branch(branches);
}

ShellReader::Outcome ShellReader::compared(const std::string& text, const std::string& pattern) {
  if (pattern == "*") return {};
  if (!has_open(text) && !has_open(pattern)) {
    const Truth t = truth_of(fits(pattern, text));
    return {t, t};
  }
  Outcome o{Truth::unknown, Truth::unknown};
  add_names(text, o.names);
  add_names(pattern, o.names);
  const std::string a = emptied(text), b = emptied(pattern);
  if (!has_open(a) && !has_open(b)) o.unset = truth_of(fits(b, a));
  for (const auto& [open, other] : {std::pair(&text, &pattern), std::pair(&pattern, &text)}) {
    const auto only = only_open(*open);
    if (!only || has_open(*other) || other->empty() || opens_[*only].names.size() != 1) continue;
    std::vector<std::string>& known = script_.choices[*opens_[*only].names.begin()];
    if (opens_[*only].may_be.empty() && known.size() < 12 &&
        std::find(known.begin(), known.end(), *other) == known.end())
      known.push_back(*other);
  }
  return o;
}

void ShellReader::each(const ShellNode& node) {
  if (!node.words.empty() && node.in->text[node.words.front().begin - 1] == '(')
    return counted(node);
  const std::string name =
      node.words.empty() ? ""
                         : node.in->text.substr(node.words.front().begin,
                                                node.words.front().end - node.words.front().begin);
  std::vector<ShellText> all;
  for (size_t i = 1; i < node.words.size(); ++i)
    for (ShellText& t : expand(*node.in, node.words[i], Split::words)) all.push_back(std::move(t));
  size_t round = 0;
  for (const ShellText& t : all) {
    if (script_.cut) return;
    if (++round > kMostRounds) return follow_in_part(node, name);
    const bool trained = trains_;
    if (only_open(t.text) && opens_[*only_open(t.text)].names.empty())
      assign(name, unknown(name, t.mark_at(0)));
    else
      assign(name, scalar(t));
    for (const ShellClause& c : node.clauses) run(c.body);
    if (may_leave_) return follow_in_part(node, name);
    // A loop that trains again and again: its first run.
    if (leaves_loop() || (trains_ && !trained)) return;
  }
}

bool ShellReader::leaves_loop() {
  if (ends_ != Ends::round && ends_ != Ends::loop) return ends_ != Ends::no;
  const bool is_last = ends_ == Ends::loop || leaves_ > 1;
  if (--leaves_ == 0) ends_ = Ends::no;
  return is_last;
}

void ShellReader::counted(const ShellNode& node) {
  const ShellRange all = node.words.front();
  std::vector<ShellRange> parts{{all.begin, all.begin}};
  for (size_t at = all.begin; at < all.end; ++at) {
    if (node.in->text[at] == ';')
      parts.push_back({at + 1, at + 1});
    else
      parts.back().end = at + 1;
  }
  if (parts.size() != 3) return follow_in_part(node, {});
  arithmetic(*node.in, parts[0]);
  for (size_t round = 0; !script_.cut; ++round) {
    const Outcome o = parts[1].empty() ? Outcome{} : arithmetic(*node.in, parts[1]);
    if (o.truth == Truth::no) return;
    const bool trained = trains_;
    if (o.truth == Truth::unknown || round >= kMostRounds) return follow_in_part(node, {});
    for (const ShellClause& c : node.clauses) run(c.body);
    if (may_leave_) return follow_in_part(node, {});
    if (leaves_loop() || (trains_ && !trained)) return;
    arithmetic(*node.in, parts[2]);
  }
}

void ShellReader::loop(const ShellNode& node) {
  const ShellClause& c = node.clauses.front();
  for (size_t round = 0; !script_.cut; ++round) {
    const Outcome asked = condition(c.condition, true);
    Outcome o = asked;
    if (node.until) o.truth = negated(o.truth);
    // `while true` goes on until something ends it.
    if (o.truth == Truth::no) return;
    const bool trained = trains_;
    if (o.truth == Truth::unknown && !o.names.empty()) {
      branch({{o, [&] { run(c.body); }}});
      leave_unknown_loop();
      return;
    }
    // How often a program succeeds is not known.
    if (o.truth == Truth::unknown || round >= kMostRounds) return follow_in_part(node, {});
    const size_t before = positional_->size();
    run(c.body);
    if (may_leave_) return follow_in_part(node, {});
    if (leaves_loop() || (trains_ && !trained)) return;
    if (o.is_test ? false : before == positional_->size()) return follow_in_part(node, {});
  }
}

void ShellReader::leave_unknown_loop() {
  may_leave_ = false;
  if (ends_ == Ends::round || ends_ == Ends::loop) ends_ = Ends::no;
}

void ShellReader::follow_in_part(const ShellNode& node, const std::string& name) {
  Changes changes = run_apart([&] {
    for (const ShellClause& c : node.clauses) run(c.body);
  });
  leave_unknown_loop();
  if (!name.empty()) changes.try_emplace(name, std::nullopt);
  for (const auto& [changed, value] : changes) {
    if (fixed_.contains(changed)) continue;
    const Mark mark = node.in->mark_at(place_of(node));
    // Of arguments that are collected what they may be is kept.
    if (holds_options({value})) {
      const Variable* old = find(changed);
      change(changed) =
          one_of({old ? std::optional(*old) : std::nullopt, value}, changed, {changed});
    } else {
      const bool is_array = value && value->is_array;
      change(changed) = unknown(changed, mark);
      variables_[changed].is_array = is_array;
    }
  }
}

ShellReader::Variable ShellReader::unknown(const std::string& name, const Mark& mark) {
  return scalar(open({"$" + name, {name}}, mark));
}

}  // namespace stepcast
