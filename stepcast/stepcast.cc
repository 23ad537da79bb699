// SPDX-License-Identifier: Apache-2.0
// The public interface over the library's parts: load_scenario(), forecast() and report/.
#include "stepcast/stepcast.h"

#include "report/diagnostics.h"
#include "report/json/result.h"
#include "report/text/run.h"
#include "report/trace/perfetto.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"
#include "sim/diagnostic.h"
#include "sim/results/result.h"

namespace stepcast {
namespace {

LoadOptions options_of(const LoadSettings& settings) {
  return {settings.set, settings.compare_case, settings.root};
}

}  // namespace

std::string describe(const InputError& error) {
  return render_diagnostics(error.diagnostics);
}

LoadedScenario::LoadedScenario(Scenario scenario)
    : scenario_(std::make_shared<const Scenario>(std::move(scenario))) {}

LoadedScenario LoadedScenario::from_file(const std::string& path, const LoadSettings& settings) {
  return LoadedScenario(load_scenario(path, options_of(settings)));
}

LoadedScenario LoadedScenario::from_text(const std::string& text, const std::string& name,
                                         const LoadSettings& settings) {
  return LoadedScenario(load_scenario_text(text, name, options_of(settings)));
}

const std::string& LoadedScenario::name() const {
  return scenario_->name;
}

const std::string& LoadedScenario::hash() const {
  return scenario_->hash;
}

const std::vector<std::string>& LoadedScenario::warnings() const {
  return scenario_->warnings;
}

std::vector<ResolvedValue> LoadedScenario::values() const {
  std::vector<ResolvedValue> values;
  for (const Setting& s : scenario_->settings) values.push_back({s.path, s.value, s.origin});
  return values;
}

std::vector<std::string> LoadedScenario::compare_cases() const {
  std::vector<std::string> names;
  for (const CompareCase& c : scenario_->compare) names.push_back(c.name);
  return names;
}

Forecast::Forecast(const LoadedScenario& scenario, const ForecastSettings& settings) {
  ForecastOptions options;
  options.what_if = settings.what_if;
  options.trace = settings.trace;
  options.all_ranks = settings.all_ranks;
  result_ = std::make_shared<const Result>(forecast(scenario.resolved(), options));
}

ForecastFigures Forecast::figures() const {
  const Result& r = *result_;
  ForecastFigures f;
  f.step_time_s = to_seconds(r.step_time);
  if (r.interval) f.interval_s = {to_seconds(r.interval->low), to_seconds(r.interval->high)};
  f.tokens_per_s_per_gpu = r.tokens_per_s_per_gpu;
  f.mfu = r.utilization.mfu_full_attention;
  f.hfu = r.utilization.hfu;
  f.bubble_s = to_seconds(r.bubble);
  f.critical_rank = r.account.critical_role;
  f.peak_bytes = r.memory[r.peak_role].memory.peak.value;
  f.reserved_bytes = r.memory_reserved.value;
  f.usable_bytes = r.memory_usable.value;
  f.fits = r.fits;
  f.warnings = r.scenario.warnings;
  for (size_t role = 0; role < r.memory.size(); ++role) {
    RankFigures& rank = f.ranks.emplace_back();
    rank.name = r.memory[role].name;
    rank.peak_bytes = r.memory[role].memory.peak.value;
    for (int s = 0; s < kSpends; ++s) {
      const Time spent = r.account.by_role[role][static_cast<size_t>(s)];
      if (spent != Time{})
        rank.account.emplace_back(name_of(static_cast<Spend>(s)), to_seconds(spent));
    }
  }
  return f;
}

std::string Forecast::text(int width) const {
  return text_report(*result_, {.color = false, .width = width});
}

std::string Forecast::json() const {
  return run_json(*result_, STEPCAST_VERSION);
}

void Forecast::write_trace(const std::function<void(std::string_view)>& sink) const {
  if (result_->timeline.roles.empty() || result_->timeline.roles[0].op_start.empty())
    refuse("nothing was recorded to write a trace of", "ForecastSettings::trace records it");
  write_perfetto(*result_, {}, sink);
}

}  // namespace stepcast
