// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/run_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "report/json/writer.h"
#include "tests/accuracy/aims.h"
#include "tests/accuracy/observed.h"
#include "tests/accuracy/summary.h"

namespace stepcast::accuracy {
namespace {

std::string errors_line(const Errors& e) {
  if (e.count == 0) return fmt::format("{:>5} {:>7} {:>7} {:>7}", "-", "-", "-", "-");
  return fmt::format("{:>5} {:>7} {:>7} {:>7}", e.count, percent(e.median), percent(e.p90),
                     signed_percent(e.bias));
}

std::string oom_text(const OutOfMemory& oom) {
  const size_t all = oom.hit + oom.missed;
  if (all == 0) return "-";
  return fmt::format("{}/{}", oom.hit, all);
}

std::string pool_line(const std::string& name, const PoolSummary& p) {
  return fmt::format("{:<26} {:>5} {:>5}  {}  {}  {:>8} {:>6}\n", name, p.records, p.predicted,
                     errors_line(p.time), errors_line(p.memory), oom_text(p.oom), p.oom.alarms);
}

std::string aims_text(const std::vector<RunRow>& rows) {
  std::string text;
  for (const Aim& aim : aims_of(rows))
    text += fmt::format("{:>7.1f} %  {:<14} {:<5} {}\n", aim.reached, aim.wanted,
                        aim.is_met ? "" : "no", aim.what);
  return text.empty() ? "" : "\nReached, wanted, met\n" + text;
}

void write_maybe(JsonWriter& json, const char* key, const std::optional<double>& x) {
  json.key(key);
  x ? json.value(*x) : json.null();
}

void write_maybe(JsonWriter& json, const char* key, const std::optional<bool>& x) {
  json.key(key);
  x ? json.value(*x) : json.null();
}

void write_row(JsonWriter& json, const RunRow& row) {
  json.member("id", row.id);
  json.member("source", row.source);
  write_maybe(json, "measured_step_time_s", row.measured.step_time_s);
  write_maybe(json, "predicted_step_time_s", row.step_time_s);
  write_maybe(json, "measured_peak_memory_bytes", row.measured.peak_memory);
  write_maybe(json, "predicted_peak_memory_bytes", row.peak_memory);
  write_maybe(json, "measured_oom", row.measured.out_of_memory);
  write_maybe(json, "predicted_oom", row.out_of_memory);
  json.optional_object("interval", row.interval, [&](const RunInterval& i) {
    json.member("low_s", i.low_s);
    json.member("high_s", i.high_s);
    json.member("level", i.level);
  });
  json.key("cost_origins");
  if (row.step_time_s) {
    json.begin_object();
    for (size_t o = 0; o < row.origins.size(); ++o)
      json.member(name_of(static_cast<Origin>(o)), row.origins[o]);
    json.end_object();
  } else {
    json.null();
  }
  json.key("skipped");
  if (row.skipped.empty()) return json.null();
  std::string why;
  for (const std::string& reason : row.skipped) why += (why.empty() ? "" : "; ") + reason;
  json.value(why);
}

}  // namespace

std::string scenario_text(const RunRow& row) {
  std::string text;
  for (std::string what : row.assumed) {
    std::replace(what.begin(), what.end(), '\n', ' ');
    text += "# assumed: " + what + '\n';
  }
  return text + row.scenario;
}

std::string runs_text(const std::vector<RunRow>& rows) {
  std::string text = fmt::format(
      "{:<26} {:>5} {:>5}  {:>5} {:>7} {:>7} {:>7}  {:>5} {:>7} {:>7} {:>7}  {:>8} {:>6}\n",
      "source, errors in %", "runs", "pred.", "times", "median", "p90", "bias", "mem.", "median",
      "p90", "bias", "OOM", "alarms");
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source))
    text += pool_line(name, summarize(pool));
  text += pool_line("all", summarize(all_of(rows))) + aims_text(rows);
  if (const std::string covered = coverage_text(rows); !covered.empty()) text += '\n' + covered;
  const std::vector<Reason> why = reasons(rows);
  if (!why.empty()) text += "\nNot predicted: records, of these only for this reason, reason\n";
  for (const Reason& r : why)
    text += fmt::format("{:>6} {:>6}  {} ({})\n", r.records, r.alone, r.text, r.example);
  return text;
}

std::string runs_json(const std::vector<RunRow>& rows) {
  JsonWriter json;
  json.begin_array();
  for (const RunRow& row : rows) {
    json.begin_object();
    write_row(json, row);
    json.end_object();
  }
  json.end_array();
  return json.text() + '\n';
}

}  // namespace stepcast::accuracy
