// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/run_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/json_writer.h"
#include "tests/accuracy/summary.h"

namespace stepcast::accuracy {
namespace {

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f}", 100 * share);
}

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

std::string ranking_text(const std::vector<RunRow>& rows) {
  const Rankings r = rank_groups(rows);
  return fmt::format(
      "Fastest run of its group named in {} of {} groups; speed against the fastest within {} % "
      "(median of {} runs).\n",
      r.winners, r.groups, percent(r.ratio.median), r.ratio.count);
}

std::string markdown_errors(const Errors& e) {
  if (e.count == 0) return "- | - | - | -";
  return fmt::format("{} | {} | {} | {}", e.count, percent(e.median), percent(e.p90),
                     signed_percent(e.bias));
}

std::string markdown_pools(const std::string& what, const std::vector<RunRow>& rows,
                           std::string RunRow::*key) {
  std::string text = "| " + what +
                     " | records | predicted | times | median | p90 | bias | memories | median | "
                     "p90 | bias | out of memory | false alarms |\n|---|";
  for (int i = 0; i < 12; ++i) text += "---|";
  text += '\n';
  const auto line = [](const std::string& name, const PoolSummary& p) {
    return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name, p.records, p.predicted,
                       markdown_errors(p.time), markdown_errors(p.memory), oom_text(p.oom),
                       p.oom.alarms);
  };
  for (const auto& [name, pool] : summarize_by(rows, key)) text += line(name, pool);
  return text + line("all", summarize_all(rows));
}

std::string markdown_worst(const std::vector<RunRow>& rows) {
  constexpr size_t kShown = 10;
  std::vector<const RunRow*> worst;
  for (const RunRow& row : rows)
    if (time_error(row)) worst.push_back(&row);
  std::stable_sort(worst.begin(), worst.end(), [](const RunRow* a, const RunRow* b) {
    return std::abs(*time_error(*a)) > std::abs(*time_error(*b));
  });
  if (worst.size() > kShown) worst.resize(kShown);
  std::string text =
      "| run | measured, s | predicted, s | error, % | not printed by the source |\n"
      "|---|---|---|---|---|\n";
  for (const RunRow* row : worst) {
    std::string assumed;
    for (const std::string& a : row->assumed) assumed += (assumed.empty() ? "" : "; ") + a;
    text += fmt::format("| {} | {:.4g} | {:.4g} | {} | {} |\n", row->id, *row->measured.step_time_s,
                        *row->step_time_s, signed_percent(*time_error(*row)), assumed);
  }
  return text;
}

std::string markdown_reasons(const std::vector<RunRow>& rows) {
  std::string text =
      "| why there is no prediction | records | only for this | for example |\n"
      "|---|---|---|---|\n";
  for (const Reason& r : reasons(rows))
    text += fmt::format("| {} | {} | {} | {} |\n", r.text, r.records, r.alone, r.example);
  return text;
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

std::string runs_text(const std::vector<RunRow>& rows) {
  std::string text = fmt::format(
      "{:<26} {:>5} {:>5}  {:>5} {:>7} {:>7} {:>7}  {:>5} {:>7} {:>7} {:>7}  {:>8} {:>6}\n",
      "source, errors in %", "runs", "pred.", "times", "median", "p90", "bias", "mem.", "median",
      "p90", "bias", "OOM", "alarms");
  for (const auto& [name, pool] : summarize_by(rows, &RunRow::source))
    text += pool_line(name, pool);
  text += pool_line("all", summarize_all(rows)) + ranking_text(rows);
  const std::vector<Reason> why = reasons(rows);
  if (!why.empty()) text += "\nNot predicted: records, of these only for this reason, reason\n";
  for (const Reason& r : why)
    text += fmt::format("{:>6} {:>6}  {} ({})\n", r.records, r.alone, r.text, r.example);
  return text;
}

std::string runs_markdown(const std::vector<RunRow>& rows) {
  return "# Predicted against measured runs\n\nErrors are predicted / measured - 1 in %: median "
         "and 90th percentile of their absolute values, and the median with its sign (bias).  Out "
         "of memory: called so, of the runs that were; false alarms: of the runs that were "
         "not.\n\n" +
         markdown_pools("source", rows, &RunRow::source) + '\n' +
         markdown_pools("GPU", rows, &RunRow::hardware) + '\n' + ranking_text(rows) +
         "\n## Largest errors of step time\n\n" + markdown_worst(rows) + "\n## Not predicted\n\n" +
         markdown_reasons(rows);
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
