// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/known_causes.h"

#include "sim/diagnostic.h"
#include "tests/accuracy/text_file.h"

namespace stepcast::accuracy {
namespace {

void read_part(const Member& part, KnownCause& cause, Problems& problems) {
  if (part.key == "cause") {
    cause.cause = part.value.text;
  } else if (part.key != "when") {
    problems.add("E102", "unknown key '" + part.key + "' in a cause", part.key_mark);
  } else if (!part.value.is_mapping()) {
    problems.add("E107", "'when' must be a mapping", part.value.mark);
  } else {
    for (const Member& m : part.value.members) {
      if (m.key == "source") {
        cause.source = m.value.text;
      } else {
        add_condition(m, cause.rule, problems);
      }
    }
  }
}

}  // namespace

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
    if (cause.source.empty() && cause.rule.when.empty())
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
  return (cause.source.empty() || cause.source == record.source) &&
         applies(cause.rule, record.value);
}

std::string cause_of(const RunRecord& record, const std::vector<KnownCause>& causes) {
  std::string last;
  for (const KnownCause& cause : causes)
    if (applies(cause, record)) last = cause.cause;
  return last;
}

}  // namespace stepcast::accuracy
