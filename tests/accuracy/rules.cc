// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/rules.h"

#include <algorithm>

#include "sim/diagnostic.h"
#include "tests/accuracy/run_record.h"
#include "tests/accuracy/text_file.h"

namespace stepcast::accuracy {
namespace {

bool is_digit(char c) {
  return '0' <= c && c <= '9';
}

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
  if (word.empty() || !std::all_of(word.begin(), word.end(), is_digit))
    return text.find(word) != std::string::npos;
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

void read_part(const Member& part, Rule& rule, Problems& problems) {
  const Value& v = part.value;
  if (part.key == "when" || part.key == "set") {
    if (!v.is_mapping())
      return problems.add("E107", '\'' + part.key + "' must be a mapping", v.mark);
    for (const Member& m : v.members) {
      if (part.key == "set") {
        rule.set.emplace_back(m.key, m.value);
      } else {
        add_condition(m, rule, problems);
      }
    }
  } else if (part.key == "skip") {
    rule.skip = v.text;
  } else if (part.key == "assumed") {
    rule.assumed = v.text;
  } else if (part.key == "source") {
    rule.source = v.text;
  } else {
    problems.add("E102", "unknown key '" + part.key + "' in a rule", part.key_mark);
  }
}

}  // namespace

void add_condition(const Member& m, Rule& rule, Problems& problems) {
  const bool listed = m.value.kind == Value::Kind::sequence && !m.value.items.empty();
  for (const Value& word : listed ? m.value.items : std::vector<Value>{m.value}) {
    if (!word.is_scalar() || word.text.empty())
      problems.add("E107", "'" + m.key + "' must be a word, or a list of words", word.mark);
    rule.when.emplace_back(m.key, word.text);
  }
}

std::vector<Rule> parse_rules(const std::string& text, const std::string& name) {
  Problems problems;
  const SourceRef source = problems.add_source({name, text});
  const Value root = parse_yaml(problems, source);
  problems.throw_if_any();
  std::vector<Rule> rules;
  if (root.kind != Value::Kind::sequence) problems.add("E107", "rules must be a list", root.mark);
  for (const Value& item : root.items) {
    Rule rule;
    for (const Member& part : item.members) read_part(part, rule, problems);
    if (rule.when.empty()) problems.add("E126", "a rule needs 'when'", item.mark);
    if (rule.source.empty() && rule.assumed.empty() && rule.skip.empty())
      problems.add("E126", "a rule needs a source, or to say that it is assumed", item.mark);
    rules.push_back(std::move(rule));
  }
  problems.throw_if_any();
  return rules;
}

std::vector<Rule> read_rules(const std::string& path) {
  return parse_rules(read_text_file(path), path);
}

bool applies(const Rule& rule, const Value& record) {
  return std::all_of(rule.when.begin(), rule.when.end(), [&](const auto& condition) {
    const Value* v = find_at(record, condition.first);
    return v != nullptr && contains(*v, condition.second);
  });
}

}  // namespace stepcast::accuracy
