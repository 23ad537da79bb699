// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "calibrate/fit/fit.h"
#include "calibrate/table/curve.h"

namespace stepcast::accuracy {
namespace {

constexpr std::array kClassNames{"below 64 KiB", "64 KiB to 1 MiB", "1 to 256 MiB",
                                 "256 MiB and more"};
constexpr size_t kNoLog = std::numeric_limits<size_t>::max();

void note(Errors& errors, const Observation& o, double predicted) {
  errors[o.log][size_class(o.bytes)].push_back(predicted / o.seconds - 1);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  for (double& v : values) v = std::fabs(v);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool belongs(const Log& log, Pool pool) {
  const bool exchange = log.kind == WorkKind::all_to_all;
  switch (pool) {
    case Pool::all: return true;
    case Pool::collectives: return !exchange;
    case Pool::exchanges: return exchange;
    case Pool::racks: return !exchange && log.shape.ranks_per_node > 16;
    case Pool::one_node: return !exchange && log.shape.nodes == 1 && log.shape.ranks_per_node <= 16;
    case Pool::many_nodes:
      return !exchange && log.shape.nodes > 1 && log.shape.ranks_per_node <= 16;
  }
  return false;
}

std::vector<double> pooled(const Errors& errors, const std::vector<Log>& logs, Pool pool,
                           size_t size_class) {
  std::vector<double> values;
  for (size_t i = 0; i < logs.size(); ++i) {
    if (!belongs(logs[i], pool)) continue;
    values.insert(values.end(), errors[i][size_class].begin(), errors[i][size_class].end());
  }
  return values;
}

// Every so many of a log's rows as the points of a table, from the first on; the others are looked
// up.
void keep_some(const Log& log, size_t index, size_t every, Errors& errors) {
  Curve kept;
  for (size_t i = 0; i < log.points.size(); i += every) {
    kept.push_back({static_cast<int64_t>(log.points[i].bytes), log.points[i].seconds * 1e6, false});
  }
  if (kept.size() < 2) return;
  for (size_t i = 0; i < log.points.size(); ++i) {
    if (i % every == 0) continue;
    const Point& p = log.points[i];
    const CurveValue v = collective_on(kept, log.kind, {static_cast<int64_t>(p.bytes)}, log.shape,
                                       log.cluster, kept.front().us);
    errors[index][size_class(p.bytes)].push_back(v.us * 1e-6 / p.seconds - 1);
  }
}

std::string percent(double x) {
  return std::isnan(x) ? "-" : fmt::format("{:.1f}", 100 * x);
}

std::string cell(const Errors& errors, size_t log, size_t size_class) {
  const std::vector<double>& values = errors[log][size_class];
  return values.empty() ? "-" : fmt::format("{:.0f}", 100 * median_of(values));
}

}  // namespace

size_t size_class(double bytes) {
  constexpr double kMiB = 1 << 20;
  return bytes < kMiB / 16 ? 0 : bytes < kMiB ? 1 : bytes < 256 * kMiB ? 2 : 3;
}

Study study(const std::vector<Log>& logs) {
  const std::vector<Observation> all = observe(logs);
  Study s;
  for (Errors* e : {&s.left_out, &s.own, &s.alpha_beta, &s.quarter, &s.half})
    e->resize(logs.size());
  size_t fitted = kNoLog;
  Corrections others;
  AlphaBeta line;
  for (const Observation& o : all) {
    if (!logs[o.log].scored) continue;
    if (fitted != o.log) {
      fitted = o.log;
      others = fit(all, logs, o.log).corrections();
      std::vector<SizedTime> points;
      for (const Point& p : logs[o.log].points) points.push_back({p.bytes, p.seconds * 1e6});
      line = points.size() > 1 ? fit_alpha_beta(points) : AlphaBeta{};
    }
    const Log& log = logs[o.log];
    const auto ways = candidates(log.cluster, log.kind, log.shape);
    note(s.left_out, o,
         cheapest_seconds(ways, factors_of(ways, log.cluster, log.kind, log.shape, others),
                          o.bytes));
    note(s.own, o, nccl_seconds(o.picked, log.kind, o.bytes));
    note(s.alpha_beta, o, 1e-6 * (line.alpha_us + line.us_per_byte * o.bytes));
  }
  for (size_t i = 0; i < logs.size(); ++i) {
    if (logs[i].transfer || !logs[i].scored) continue;
    keep_some(logs[i], i, 4, s.quarter);
    keep_some(logs[i], i, 2, s.half);
  }
  return s;
}

double median(const Errors& errors, const std::vector<Log>& logs, Pool pool, size_t size_class) {
  return median_of(pooled(errors, logs, pool, size_class));
}

size_t points(const Errors& errors, const std::vector<Log>& logs, Pool pool, size_t size_class) {
  return pooled(errors, logs, pool, size_class).size();
}

double median(const Errors& errors) {
  std::vector<double> values;
  for (const auto& log : errors) {
    for (const auto& of_class : log) values.insert(values.end(), of_class.begin(), of_class.end());
  }
  return median_of(std::move(values));
}

double target(Pool pool, size_t size_class) {
  constexpr std::array<double, kSizeClasses> kTargets{0.25, 0.25, 0.15, 0.06};
  return pool == Pool::exchanges ? 0.12 : kTargets[size_class];
}

std::string report(const Study& s, const std::vector<Log>& logs) {
  constexpr std::pair<Pool, const char*> kPools[] = {{Pool::collectives, "all but all-to-all"},
                                                     {Pool::one_node, "of these: one node"},
                                                     {Pool::many_nodes, "of these: several nodes"},
                                                     {Pool::racks, "of these: NVLink racks"},
                                                     {Pool::exchanges, "all-to-all"}};
  std::string text =
      "| median error, % | size | points | factors of other logs | target | NCCL's own model | "
      "alpha-beta of the log itself |\n|---|---|---|---|---|---|---|\n";
  for (const auto& [pool, name] : kPools) {
    for (size_t c = 1; c < kSizeClasses; ++c) {
      const size_t n = points(s.left_out, logs, pool, c);
      if (n == 0) continue;
      const double error = median(s.left_out, logs, pool, c), most = target(pool, c);
      text += fmt::format("| {} | {} | {} | {} | {:.0f}{} | {} | {} |\n", name, kClassNames[c], n,
                          percent(error), 100 * most, error > most ? ", missed" : "",
                          percent(median(s.own, logs, pool, c)),
                          percent(median(s.alpha_beta, logs, pool, c)));
    }
  }
  text += fmt::format(
      "\nA log as its own table: every second row kept, the others are reproduced within {} % "
      "(median); every fourth row kept, within {} % (target 3).\n",
      percent(median(s.half)), percent(median(s.quarter)));
  text +=
      "\nBy log, median error in %: factors of the other logs / NCCL's own model / alpha-beta of "
      "the log itself.\n\n| log | 64 KiB to 1 MiB | 1 to 256 MiB | 256 MiB and more |\n"
      "|---|---|---|---|\n";
  for (size_t i = 0; i < logs.size(); ++i) {
    if (logs[i].transfer || !logs[i].scored) continue;
    text += fmt::format("| {} |", logs[i].id);
    for (size_t c = 1; c < kSizeClasses; ++c) {
      text += fmt::format(" {} / {} / {} |", cell(s.left_out, i, c), cell(s.own, i, c),
                          cell(s.alpha_beta, i, c));
    }
    text += "\n";
  }
  return text;
}

std::string corrections_file(const Fitted& fitted, const std::vector<Log>& logs) {
  std::string text =
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Factors on the terms of the collective model (topology/nccl/collective_time.h), by "
      "class.\n"
      "# Written by accuracy_collectives --corrections; fitted to these logs of\n"
      "# tests/data/collectives, each with its source there:\n";
  std::string line = "#";
  for (const Log& log : logs) {
    if (log.transfer) continue;
    if (line.size() + log.id.size() > 96) {
      text += line + "\n";
      line = "#";
    }
    line += " " + log.id;
  }
  text += line + "\nterm,class,factor\n";
  std::vector<size_t> order;
  for (size_t i = 0; i < fitted.classes.size(); ++i) {
    if (fitted.classes[i].name.front() != '(') order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const CorrectionClass &x = fitted.classes[a], &y = fitted.classes[b];
    return std::tie(x.term, x.name) < std::tie(y.term, y.name);
  });
  for (size_t i : order) {
    text += fmt::format("{},{},{:.4g}\n", name_of(fitted.classes[i].term), fitted.classes[i].name,
                        std::exp(fitted.logarithms[i]));
  }
  return text;
}

}  // namespace stepcast::accuracy
