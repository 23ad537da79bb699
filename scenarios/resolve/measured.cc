// SPDX-License-Identifier: Apache-2.0
// The sections `measured` and `compare`: what a scenario is held against.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/schema/tree.h"
#include "sim/text.h"

namespace stepcast {

namespace {

// The keys of figures: the scenario's own, and those of a variant.
struct FigureKeys {
  KeyOf<Time> step_time;
  KeyOf<double> tokens_per_gpu_s;
  KeyOf<Bytes> peak_memory, reserved_memory;
  KeyOf<double> tolerance;
  KeyOf<std::string> source;
};
constexpr FigureKeys kOwn{"measured.step_time",   "measured.tokens_per_gpu_s",
                          "measured.peak_memory", "measured.reserved_memory",
                          "measured.tolerance",   "measured.source"};
constexpr FigureKeys kVariant{
    "measured.variants.*.step_time",   "measured.variants.*.tokens_per_gpu_s",
    "measured.variants.*.peak_memory", "measured.variants.*.reserved_memory",
    "measured.variants.*.tolerance",   "measured.variants.*.source"};

Measured read_figures(const FieldValues& v, const FigureKeys& keys) {
  Measured m;
  // What a forecast is divided by.
  const auto positive = [&](Key key, double value) {
    if (v.has(key) && !(value > 0))
      v.refuse("E121", key, fmt::format("'{}' must be above 0", key.path()));
  };
  // Nobody measures more, and errors of more are no figures for a table.
  constexpr double kLowestRate = 1e-6, kHighestRate = 1e12;
  if (v.has(keys.step_time)) m.step_time_s = to_seconds(v.get<Time>(keys.step_time));
  if (v.has(keys.tokens_per_gpu_s)) m.tokens_per_gpu_s = v.real(keys.tokens_per_gpu_s);
  for (const auto& [key, into] : {std::pair(keys.peak_memory, &Measured::peak_memory),
                                  std::pair(keys.reserved_memory, &Measured::reserved_memory)}) {
    if (v.has(key)) m.*into = v.get<Bytes>(key);
    positive(key, static_cast<double>((m.*into).value_or(Bytes{1}).value));
  }
  positive(keys.step_time, m.step_time_s.value_or(0));
  positive(keys.tokens_per_gpu_s, m.tokens_per_gpu_s.value_or(0));
  if (const double rate = m.tokens_per_gpu_s.value_or(1);
      rate > 0 && !(rate >= kLowestRate && rate <= kHighestRate))
    v.refuse("E121", keys.tokens_per_gpu_s,
             fmt::format("'{}' must lie from 1e-6 to 1e12", keys.tokens_per_gpu_s.path()));
  v.read(keys.tolerance, m.tolerance);
  v.read(keys.source, m.source);
  return m;
}

// Each is a run of its own.
constexpr size_t kMostCases = 1000;

// Whether `names` are few enough; adds E123 if not.
bool few_enough(const Value& names, const char* key, Problems& problems) {
  if (names.members.size() <= kMostCases) return true;
  problems.add(
      "E123", fmt::format("'{}' has {} names, more than {}", key, names.members.size(), kMostCases),
      names.members[kMostCases].key_mark, static_cast<int>(names.members[kMostCases].key.size()));
  return false;
}

// A mapping of dotted paths as pairs (path, YAML text).  E102 for paths that no scenario has.
std::vector<std::pair<std::string, std::string>> read_set(const Value* set, Problems& problems) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (set == nullptr) return pairs;
  if (!set->is_mapping()) {
    problems.add("E107", "this must be a mapping of paths to values", set->mark, 1, {},
                 "for example {parallel.tp: 4, batch.micro: 2}");
    return pairs;
  }
  for (const Member& m : set->members) {
    if (field_of_path(m.key) == nullptr) {
      std::vector<std::string_view> paths;
      for (const Field& f : scenario_fields()) paths.push_back(f.path);
      const std::string near = did_you_mean(m.key, paths);
      problems.add("E102", "unknown key '" + m.key + "' in a scenario", m.key_mark,
                   static_cast<int>(m.key.size()), near,
                   near.empty() ? "write the path of a key, as in parallel.tp" : "");
      continue;
    }
    pairs.emplace_back(m.key, to_flow(m.value));
  }
  return pairs;
}

}  // namespace

std::vector<Measured> resolve_measured(FieldValues& v, Problems& problems) {
  std::vector<Measured> all;
  if (v.value("measured") == nullptr) return all;
  all.push_back(read_figures(v, kOwn));
  const Value* variants = v.value("measured.variants");
  if (variants == nullptr) return all;
  if (!variants->is_mapping()) {
    problems.add("E107", "'variants' must be a mapping of names", variants->mark);
    return all;
  }
  if (!few_enough(*variants, "variants", problems)) return all;
  for (const Member& m : variants->members) {
    FieldValues own(m.value, "measured.variants.*", problems);
    Measured figures = read_figures(own, kVariant);
    figures.variant = m.key;
    if (!own.has(kVariant.tolerance)) figures.tolerance = all.front().tolerance;
    if (!own.has(kVariant.source)) figures.source = all.front().source;
    figures.set = read_set(own.value("measured.variants.*.set"), problems);
    all.push_back(std::move(figures));
  }
  return all;
}

void resolve_compare(FieldValues& v, Problems& problems, Scenario& scenario) {
  if (v.value("compare") == nullptr) return;
  if (!v.require("compare.cases", "compare: {cases: {NAME: {path: value, ...}, ...}}")) return;
  const Value& cases = *v.value("compare.cases");
  if (!cases.is_mapping() || cases.members.empty()) {
    problems.add("E107", "'cases' must be a mapping of names to what they change", cases.mark);
    return;
  }
  if (!few_enough(cases, "cases", problems)) return;
  for (const Member& m : cases.members)
    scenario.compare.push_back({m.key, read_set(&m.value, problems)});
  scenario.compare_baseline = scenario.compare.front().name;
  if (!v.has("compare.baseline")) return;
  const std::string& baseline = v.text("compare.baseline");
  std::vector<std::string_view> names;
  for (const CompareCase& c : scenario.compare) names.push_back(c.name);
  if (std::find(names.begin(), names.end(), baseline) == names.end())
    v.refuse("E125", "compare.baseline", "there is no case '" + baseline + '\'',
             "cases: " + join(names), did_you_mean(baseline, names));
  scenario.compare_baseline = baseline;
}

}  // namespace stepcast
