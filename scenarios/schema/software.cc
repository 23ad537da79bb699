// SPDX-License-Identifier: Apache-2.0
#include "scenarios/schema/software.h"

#include <algorithm>

#include "scenarios/document/files.h"
#include "scenarios/presets.h"
#include "sim/text.h"

namespace stepcast {
namespace {

void read_mapping_of(const Value& v, std::string_view key, Problems& problems,
                     std::vector<std::pair<std::string, Value>>& to) {
  if (!v.is_mapping())
    return problems.add("E107", '\'' + std::string(key) + "' must be a mapping", v.mark);
  for (const Member& m : v.members) to.emplace_back(m.key, m.value);
}

SoftwareFact read_fact(const Value& item, const std::string& profile, Problems& problems) {
  SoftwareFact fact;
  fact.profile = profile;
  for (const Member& part : item.members) {
    if (part.key == "set") {
      read_mapping_of(part.value, part.key, problems, fact.set);
    } else if (part.key == "when") {
      std::vector<std::pair<std::string, Value>> when;
      read_mapping_of(part.value, part.key, problems, when);
      for (auto& [path, value] : when) fact.when.emplace_back(path, value.text);
    } else if (part.key == "source") {
      fact.source = part.value.text;
    } else {
      problems.add("E102", "unknown key '" + part.key + "' in a fact", part.key_mark);
    }
  }
  if (fact.set.empty()) problems.add("E126", "a fact needs 'set'", item.mark);
  if (fact.source.empty()) problems.add("E126", "a fact needs a source", item.mark);
  return fact;
}

void unknown_profile(std::string_view name, const Mark& from, Problems& problems) {
  problems.add("E125", "there is no software '" + std::string(name) + '\'', from,
               std::max(1, static_cast<int>(name.size())),
               did_you_mean(name, preset_names(PresetKind::software)),
               "`stepcast presets software` lists them");
}

void add_facts(std::string_view name, const Mark& from, std::vector<std::string>& open,
               Problems& problems, std::vector<SoftwareFact>& facts) {
  const auto text = preset_text(PresetKind::software, name);
  if (!text) return unknown_profile(name, from, problems);
  if (std::find(open.begin(), open.end(), name) != open.end())
    return problems.add("E110", "software '" + std::string(name) + "' is its own base", from);
  open.emplace_back(name);
  const Value root = parse_embedded(problems, "software " + std::string(name), *text);
  if (const Value* base = root.find("base"); base != nullptr)
    add_facts(base->text, base->mark, open, problems, facts);
  for (const Member& m : root.members)
    if (m.key != "summary" && m.key != "base" && m.key != "facts")
      problems.add("E102", "unknown key '" + m.key + "' in a software profile", m.key_mark);
  if (const Value* list = root.find("facts"); list != nullptr)
    for (const Value& item : list->items)
      facts.push_back(read_fact(item, std::string(name), problems));
}

}  // namespace

std::vector<SoftwareFact> software_facts(std::string_view name, const Mark& from,
                                         Problems& problems) {
  std::vector<SoftwareFact> facts;
  std::vector<std::string> open;
  add_facts(name, from, open, problems, facts);
  return facts;
}

void apply_software(FieldValues& values, Problems& problems) {
  // The field table itself describes the profile that is the default.
  if (values.value("software") == nullptr || !values.has("software")) return;
  for (const SoftwareFact& fact :
       software_facts(values.text("software"), values.mark("software"), problems)) {
    const bool holds = std::all_of(fact.when.begin(), fact.when.end(), [&](const auto& condition) {
      return values.says(condition.first, condition.second);
    });
    if (!holds) continue;
    for (const auto& [path, value] : fact.set)
      values.assume(path, value, "software " + fact.profile + " (" + fact.source + ')');
  }
}

}  // namespace stepcast
