// SPDX-License-Identifier: Apache-2.0
// Statements one after the other, in subshells, and apart from what is known.
#include "scenarios/frameworks/shell/reader.h"

namespace stepcast {

void ShellReader::follow(const ShellText& in, const std::vector<ShellText>* arguments) {
  const ShellNodes& nodes = parsed(in, {0, in.text.size()});
  const Positional before = positional_;
  if (arguments != nullptr) set_positional(*arguments);
  if (++follows_ < kMostCalls) run(nodes);
  --follows_;
  positional_ = before;
}

const ShellNodes& ShellReader::parsed(const ShellText& in, ShellRange range) {
  const auto [known, is_new] = parsed_.try_emplace({&in, range.begin, range.end});
  if (is_new) known->second = parse_shell(in, range, nodes_left_);
  if (nodes_left_ == 0 && !script_.cut) script_.cut = in.mark_at(range.begin);
  return known->second;
}

void ShellReader::apply(const Changes& changes) {
  for (const auto& [name, value] : changes) {
    if (value) spend_copy(*value);
    change(name) = value ? *value : Variable{};
    if (!value) variables_.erase(name);
  }
}

ShellReader::Outcome ShellReader::run(const ShellNodes& nodes) {
  Outcome last;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ShellNode& node = nodes[i];
    if (ends_ != Ends::no || script_.cut) return last;
    if (node.joined == ShellNode::Joined::if_yes || node.joined == ShellNode::Joined::if_no) {
      const bool wanted = node.joined == ShellNode::Joined::if_yes;
      if (last.truth == truth_of(!wanted)) continue;
      if (last.truth == Truth::unknown && !last.names.empty()) {
        // [ $A = 1 ] && B=2: a branch.
        Outcome condition = last;
        if (!wanted) {
          condition.truth = negated(condition.truth);
          condition.unset = negated(condition.unset);
        }
        Outcome inner;
        branch({{condition, [&] { inner = run_one(node); }}});
        if (inner.is_test) {
          last.names.insert(inner.names.begin(), inner.names.end());
          last.unset = both(last.unset, inner.unset, wanted);
        }
        continue;
      }
      if (last.truth == Truth::unknown && !wanted) continue;  // a program: it succeeds
      // "[ -f FILE ] || exit" is not what a training does.
      Outcome next;
      branch({{Outcome{}, [&] { next = run_one(node); }}});
      last = next;
      continue;
    }
    const bool in_pipe = node.joined == ShellNode::Joined::pipe ||
                         (i + 1 < nodes.size() && nodes[i + 1].joined == ShellNode::Joined::pipe);
    if (in_pipe)
      run_in_subshell([&] { last = run_one(node); });
    else
      last = run_one(node);
  }
  return last;
}

ShellReader::Truth ShellReader::both(Truth a, Truth b, bool is_and) {
  const Truth decides = is_and ? Truth::no : Truth::yes;
  if (a == decides || b == decides) return decides;
  return a == Truth::unknown || b == Truth::unknown ? Truth::unknown : negated(decides);
}

ShellReader::Outcome ShellReader::condition(const ShellNodes& nodes, bool of_loop) {
  Outcome all;
  bool first = true;
  for (const ShellNode& node : nodes) {
    if (ends_ != Ends::no || script_.cut) break;
    const bool joins = !first && (node.joined == ShellNode::Joined::if_yes ||
                                  node.joined == ShellNode::Joined::if_no);
    const bool is_and = node.joined == ShellNode::Joined::if_yes;
    if (joins && all.truth == truth_of(!is_and)) continue;
    Outcome next = run_one(node);
    if (joins) {
      next.truth = both(all.truth, next.truth, is_and);
      next.unset = both(all.unset, next.unset, is_and);
      next.names.insert(all.names.begin(), all.names.end());
      if (next.truth != Truth::unknown) next.names.clear();
    }
    all = next;
    first = false;
  }
  // A program is not known to succeed: a branch about it is none that a training needs.
  if (all.truth == Truth::unknown && all.names.empty() && !of_loop) {
    all.truth = Truth::no;
    all.unset = Truth::no;
  }
  return all;
}

ShellReader::Outcome ShellReader::run_one(const ShellNode& node) {
  const size_t at = !node.words.empty()    ? node.words.front().begin
                    : node.clauses.empty() ? 0
                                           : place_of(node);
  if (node.in == nullptr || !may_go_on(node.in->mark_at(at))) return {};
  if (++depth_ > 300) {
    --depth_;
    return {};
  }
  Outcome outcome;
  switch (node.kind) {
    case ShellNode::Kind::command: outcome = command(node); break;
    case ShellNode::Kind::branches: {
      // Conditions are asked only as long as none holds.
      std::vector<Branch> branches;
      for (const ShellClause& clause : node.clauses) {
        const bool is_else = clause.condition.empty();
        branches.push_back({is_else ? Outcome{} : condition(clause.condition),
                            [this, &clause] { run(clause.body); }});
      }
      branch(branches);
      break;
    }
    case ShellNode::Kind::choice: choice(node); break;
    case ShellNode::Kind::each: each(node); break;
    case ShellNode::Kind::loop: loop(node); break;
    case ShellNode::Kind::function:
      functions_[std::string(node.in->text, node.words.front().begin,
                             node.words.front().end - node.words.front().begin)] = &node;
      break;
    case ShellNode::Kind::group: {
      const auto inside = [&] {
        for (const ShellClause& clause : node.clauses) outcome = run(clause.body);
      };
      if (node.is_subshell)
        run_in_subshell(inside);
      else
        inside();
      break;
    }
  }
  --depth_;
  if (node.negated) {
    outcome.truth = negated(outcome.truth);
    outcome.unset = negated(outcome.unset);
  }
  return outcome;
}

size_t ShellReader::place_of(const ShellNode& node) {
  for (const ShellClause& c : node.clauses)
    for (const ShellNodes* nodes : {&c.condition, &c.body})
      for (const ShellNode& n : *nodes)
        if (!n.words.empty()) return n.words.front().begin;
  return 0;
}

}  // namespace stepcast
