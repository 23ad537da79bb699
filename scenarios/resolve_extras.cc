// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_extras.h"

#include <algorithm>

#include "scenarios/tree.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// `prefix` is "measured" or that of a variant.
Measured read_figures(const FieldValues& v, const std::string& prefix) {
  Measured m;
  const auto path = [&](const char* key) { return prefix + '.' + key; };
  // What a forecast is divided by.
  const auto positive = [&](const char* key, double value) {
    if (v.has(path(key)) && !(value > 0))
      v.refuse("E121", path(key), "'" + path(key) + "' must be above 0");
  };
  // Nobody measures more, and errors of more are no figures for a table.
  constexpr double kLowestRate = 1e-6, kHighestRate = 1e12;
  if (v.has(path("step_time"))) m.step_time_s = to_seconds(Time{v.whole(path("step_time"))});
  if (v.has(path("tokens_per_gpu_s"))) m.tokens_per_gpu_s = v.real(path("tokens_per_gpu_s"));
  if (v.has(path("peak_memory"))) m.peak_memory = Bytes{v.whole(path("peak_memory"))};
  positive("step_time", m.step_time_s.value_or(0));
  positive("tokens_per_gpu_s", m.tokens_per_gpu_s.value_or(0));
  if (const double rate = m.tokens_per_gpu_s.value_or(1);
      rate > 0 && !(rate >= kLowestRate && rate <= kHighestRate))
    v.refuse("E121", path("tokens_per_gpu_s"),
             "'" + path("tokens_per_gpu_s") + "' must lie from 1e-6 to 1e12");
  positive("peak_memory", static_cast<double>(m.peak_memory.value_or(Bytes{}).value));
  if (v.has(path("tolerance"))) m.tolerance = v.real(path("tolerance"));
  if (v.has(path("source"))) m.source = v.text(path("source"));
  return m;
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
  all.push_back(read_figures(v, "measured"));
  const Value* variants = v.value("measured.variants");
  if (variants == nullptr) return all;
  if (!variants->is_mapping()) {
    problems.add("E107", "'variants' must be a mapping of names", variants->mark);
    return all;
  }
  const std::string prefix = "measured.variants.*";
  for (const Member& m : variants->members) {
    FieldValues own(m.value, prefix, problems);
    Measured figures = read_figures(own, prefix);
    figures.variant = m.key;
    if (!own.has(prefix + ".tolerance")) figures.tolerance = all.front().tolerance;
    if (!own.has(prefix + ".source")) figures.source = all.front().source;
    figures.set = read_set(own.value(prefix + ".set"), problems);
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
