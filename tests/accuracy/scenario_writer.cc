// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/scenario_writer.h"

#include "scenarios/schema/tree.h"
#include "tests/accuracy/run_record.h"

namespace stepcast::accuracy {

Value ScenarioWriter::mapping() {
  Value v;
  v.kind = Value::Kind::mapping;
  return v;
}

void ScenarioWriter::set(std::string_view path, Value value) {
  Problems problems;
  set_path(root_, path, {}, std::move(value), problems);
  problems.throw_if_any();
}

void ScenarioWriter::set(std::string_view path, std::string_view text) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.text = std::string(text);
  set(path, std::move(v));
}

bool ScenarioWriter::has(std::string_view path) const {
  return find_at(root_, path) != nullptr;
}

std::string ScenarioWriter::text(std::string_view path) const {
  return text_at(root_, path);
}

void ScenarioWriter::erase(std::string_view section) {
  std::erase_if(root_.members, [&](const Member& m) { return m.key == section; });
}

std::string ScenarioWriter::yaml() const {
  std::string text;
  for (const Member& m : root_.members) text += m.key + ": " + to_flow(m.value) + '\n';
  return text;
}

}  // namespace stepcast::accuracy
