// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/importers.h"

#include <algorithm>

namespace stepcast {

void ImportCounts::add(const ArgumentReader& reader) {
  used += reader.used();
  ignored += reader.ignored();
  unknown.insert(unknown.end(), reader.unknown().begin(), reader.unknown().end());
}

bool ImportSources::states(std::string_view path) const {
  return std::any_of(set.begin(), set.end(), [&](const auto& s) { return s.first == path; });
}

Value read_mapping(const ImportSources& in, const SourceRef& source, const std::string& what) {
  const bool clean = !in.problems.any();
  Value value = parse_yaml(in.problems, source);
  if (value.is_mapping()) return value;
  if (clean && !in.problems.any())
    in.problems.add("E330", what + " is a mapping of names to values, and this is none",
                    {source, 1, 1});
  value = {};
  value.kind = Value::Kind::mapping;
  return value;
}

std::vector<Argument> flatten(const Value& value) {
  std::vector<Argument> all;
  for (const Member& m : value.members) {
    if (!m.value.is_mapping()) {
      all.push_back({argument_name(m.key), m.key, m.value});
      if (all.back().value.mark.line == 0) all.back().value.mark = m.key_mark;
      continue;
    }
    for (Argument& inner : flatten(m.value)) {
      inner.name = argument_name(m.key) + '.' + inner.name;
      inner.written = m.key + '.' + inner.written;
      all.push_back(std::move(inner));
    }
  }
  return all;
}

}  // namespace stepcast
