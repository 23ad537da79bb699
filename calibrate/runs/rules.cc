// SPDX-License-Identifier: Apache-2.0
#include "calibrate/runs/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/document/files.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

bool is_alphanumeric(char c) {
  return is_digit(c) || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z');
}

// Whether what stands at [begin, end) is no part of a longer word or number: not the 1 of 16, of
// fp16 or of 1.5.
bool stands_alone(const std::string& text, size_t begin, size_t end) {
  const auto at = [&](size_t i) { return i < text.size() ? text[i] : ' '; };
  if (begin > 0 && is_alphanumeric(text[begin - 1])) return false;
  if (begin > 1 && text[begin - 1] == '.' && is_digit(text[begin - 2])) return false;
  return !is_alphanumeric(at(end)) && !(at(end) == '.' && is_digit(at(end + 1)));
}

bool contains(const std::string& text, const std::string& word) {
  if (!is_digits(word)) return text.find(word) != std::string::npos;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (stands_alone(text, at, at + word.size())) return true;
  return false;
}

bool contains(const Value& value, const std::string& word) {
  if (value.is_scalar()) return contains(value.text, word);
  return value.kind == Value::Kind::sequence &&
         std::any_of(value.items.begin(), value.items.end(),
                     [&](const Value& item) { return contains(item, word); });
}

bool hold(const RunConditions& conditions, const Value& record) {
  return std::all_of(conditions.begin(), conditions.end(), [&](const auto& condition) {
    const Value* v = find_at(record, condition.first);
    return v != nullptr && contains(*v, condition.second);
  });
}

// `m` of a `when`: one word, or a list of them.  Adds E107 for anything else.
void add_condition(const Member& m, RunConditions& when, Problems& problems) {
  const bool listed = m.value.kind == Value::Kind::sequence && !m.value.items.empty();
  for (const Value& word : listed ? m.value.items : std::vector<Value>{m.value}) {
    if (!word.is_scalar() || word.text.empty())
      problems.add("E107", fmt::format("'{}' must be a word, or a list of words", m.key),
                   word.mark);
    when.emplace_back(m.key, word.text);
  }
}

void read_part(const Member& part, RunRule& rule, Problems& problems) {
  const Value& v = part.value;
  if (part.key == "when" || part.key == "set") {
    if (!v.is_mapping())
      return problems.add("E107", fmt::format("'{}' must be a mapping", part.key), v.mark);
    for (const Member& m : v.members) {
      if (part.key == "set") {
        rule.set.emplace_back(m.key, m.value);
      } else {
        add_condition(m, rule.when, problems);
      }
    }
  } else if (part.key == "skip") {
    rule.skip = v.text;
  } else if (part.key == "assumed") {
    rule.assumed = v.text;
  } else if (part.key == "source") {
    rule.source = v.text;
  } else {
    problems.add("E102", fmt::format("unknown key '{}' in a rule", part.key), part.key_mark);
  }
}

void read_part(const Member& part, KnownCause& cause, Problems& problems) {
  if (part.key == "cause") {
    cause.cause = part.value.text;
  } else if (part.key != "when") {
    problems.add("E102", fmt::format("unknown key '{}' in a cause", part.key), part.key_mark);
  } else if (!part.value.is_mapping()) {
    problems.add("E107", "'when' must be a mapping", part.value.mark);
  } else {
    for (const Member& m : part.value.members) {
      if (m.key == "source") {
        cause.source = m.value.text;
      } else {
        add_condition(m, cause.when, problems);
      }
    }
  }
}

}  // namespace

std::vector<RunRule> parse_run_rules(const std::string& text, const std::string& name) {
  Problems problems;
  const SourceRef source = problems.add_source({name, text});
  const Value root = parse_yaml(problems, source);
  problems.throw_if_any();
  std::vector<RunRule> rules;
  if (root.kind != Value::Kind::sequence) problems.add("E107", "rules must be a list", root.mark);
  for (const Value& item : root.items) {
    RunRule rule;
    for (const Member& part : item.members) read_part(part, rule, problems);
    if (rule.when.empty()) problems.add("E126", "a rule needs 'when'", item.mark);
    if (rule.source.empty() && rule.assumed.empty() && rule.skip.empty())
      problems.add("E126", "a rule needs a source, or to say that it is assumed", item.mark);
    rules.push_back(std::move(rule));
  }
  problems.throw_if_any();
  return rules;
}

std::vector<RunRule> read_run_rules(const std::string& path) {
  return parse_run_rules(read_text_file(path), path);
}

bool applies(const RunRule& rule, const RunRecord& record) {
  return hold(rule.when, record.value);
}

std::vector<KnownCause> parse_known_causes(const std::string& text, const std::string& name) {
  Problems problems;
  const SourceRef source = problems.add_source({name, text});
  const Value root = parse_yaml(problems, source);
  problems.throw_if_any();
  if (root.kind != Value::Kind::sequence) problems.add("E107", "causes must be a list", root.mark);
  std::vector<KnownCause> causes;
  for (const Value& item : root.items) {
    KnownCause cause;
    cause.line = item.mark.line;
    for (const Member& part : item.members) read_part(part, cause, problems);
    if (cause.source.empty() && cause.when.empty())
      problems.add("E126", "a cause needs 'when'", item.mark);
    if (cause.cause.empty()) problems.add("E126", "a cause needs 'cause'", item.mark);
    causes.push_back(std::move(cause));
  }
  problems.throw_if_any();
  return causes;
}

std::vector<KnownCause> read_known_causes(const std::string& path) {
  return parse_known_causes(read_text_file(path), path);
}

bool applies(const KnownCause& cause, const RunRecord& record) {
  return (cause.source.empty() || cause.source == record.source) && hold(cause.when, record.value);
}

std::string cause_of(const RunRecord& record, const std::vector<KnownCause>& causes) {
  std::string last;
  for (const KnownCause& cause : causes)
    if (applies(cause, record)) last = cause.cause;
  return last;
}

}  // namespace stepcast
