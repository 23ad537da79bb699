// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace stepcast::accuracy {
namespace {

constexpr double kNoise = 0.1;         // natural logarithm, of one point
constexpr double kSmallest = 4 << 10;  // below it latency alone is seen
constexpr double kLatencyOnly = 64 << 10;
constexpr int kRounds = 14;

// Logarithm of the model and its derivatives by the logarithms of the six factors.
struct Modelled {
  double value = 0;
  std::array<double, kTerms> slope{};
};

Modelled model(const Candidate& a, const Factors& f, double bytes) {
  constexpr double kStep = 1e-5;
  Modelled m;
  m.value = std::log(corrected_seconds(a, f, bytes));
  for (size_t t = 0; t < kTerms; ++t) {
    Factors g = f;
    g[t] *= 1 + kStep;
    m.slope[t] = (std::log(corrected_seconds(a, g, bytes)) - m.value) / kStep;
  }
  return m;
}

// Observations with their classes as columns.
struct Problem {
  std::vector<CorrectionClass> classes;
  std::vector<std::set<size_t>> seen;
  std::vector<const Observation*> rows;
  std::vector<std::vector<std::pair<size_t, double>>> columns;  // and their weights
  std::vector<double> weights;
};

// Single processes that drive a whole node wait for each other at every call: their own matter,
// which must not be taken for the links'.
bool slow_harness(const Log& log) {
  return log.one_process && log.shape.ranks == 8;
}

Problem problem_of(const std::vector<Observation>& all, const std::vector<Log>& logs,
                   size_t without) {
  Problem p;
  std::map<std::pair<Term, std::string>, size_t> index;
  const auto column = [&](const CorrectionClass& c, size_t log) {
    const auto [at, is_new] = index.try_emplace({c.term, c.name}, p.classes.size());
    if (is_new) {
      p.classes.push_back(c);
      p.seen.emplace_back();
    }
    p.seen[at->second].insert(log);
    return at->second;
  };
  for (const Observation& o : all) {
    if (o.log == without) continue;
    std::vector<std::pair<size_t, double>> columns;
    for (const CorrectionClass& c : o.classes) columns.emplace_back(column(c, o.log), c.weight);
    const Log& log = logs[o.log];
    if (slow_harness(log)) {
      columns.emplace_back(column({Term::base, "(" + log.id + ")", 1.5}, o.log), 1);
    }
    p.rows.push_back(&o);
    p.columns.push_back(std::move(columns));
    // A log's points say much the same; many of them count less each.
    const double share = 8 / (8 + static_cast<double>(log.points.size()));
    p.weights.push_back(share * (o.bytes < kLatencyOnly ? 0.2 : 1));
  }
  return p;
}

Factors factors_at(const Problem& p, size_t row, const Eigen::VectorXd& theta) {
  std::array<double, kTerms> sum{};
  for (const auto& [c, weight] : p.columns[row]) {
    sum[static_cast<size_t>(p.classes[c].term)] += weight * theta[static_cast<Eigen::Index>(c)];
  }
  Factors f;
  for (size_t t = 0; t < kTerms; ++t) f[t] = std::exp(sum[t]);
  return f;
}

// One step; `scale` is where outliers begin to lose weight.
void step(const Problem& p, double scale, const Eigen::VectorXd& mean, Eigen::VectorXd& theta) {
  const auto n = theta.size();
  Eigen::MatrixXd normal = Eigen::MatrixXd::Zero(n, n);
  Eigen::VectorXd right = Eigen::VectorXd::Zero(n);
  for (size_t r = 0; r < p.rows.size(); ++r) {
    const Observation& o = *p.rows[r];
    const Modelled m = model(o.picked, factors_at(p, r, theta), o.bytes);
    const double residual = std::log(o.seconds) - m.value;
    const double weight = p.weights[r] / (1 + (residual / scale) * (residual / scale));
    for (const auto& [i, wi] : p.columns[r]) {
      const double si = weight * wi * m.slope[static_cast<size_t>(p.classes[i].term)];
      const auto a = static_cast<Eigen::Index>(i);
      right[a] += si * residual;
      for (const auto& [j, wj] : p.columns[r]) {
        normal(a, static_cast<Eigen::Index>(j)) +=
            si * wj * m.slope[static_cast<size_t>(p.classes[j].term)];
      }
    }
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    const double spread = p.classes[static_cast<size_t>(i)].spread;
    const double prior = kNoise * kNoise / (spread * spread);
    normal(i, i) += prior;
    right[i] -= prior * (theta[i] - mean[i]);
  }
  const Eigen::VectorXd change = normal.ldlt().solve(right);
  for (Eigen::Index i = 0; i < n; ++i) theta[i] += std::clamp(change[i], -0.7, 0.7);
}

}  // namespace

std::vector<Observation> observe(const std::vector<Log>& logs) {
  std::vector<Observation> all;
  for (size_t i = 0; i < logs.size(); ++i) {
    const Log& log = logs[i];
    if (log.transfer) continue;
    const std::vector<Candidate> ways = candidates(log.cluster, log.kind, log.shape);
    for (const Point& point : log.points) {
      if (point.bytes < kSmallest) continue;
      Observation o{
          .log = i, .bytes = point.bytes, .seconds = point.seconds, .picked = {}, .classes = {}};
      o.picked = nccl_choice(ways, log.kind, point.bytes);
      o.classes = correction_classes(log.cluster, log.kind, log.shape, o.picked);
      all.push_back(std::move(o));
    }
  }
  return all;
}

Corrections Fitted::corrections() const {
  Corrections c;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].name.front() == '(') continue;  // of one harness
    c.set(classes[i].term, classes[i].name, std::exp(logarithms[i]));
  }
  return c;
}

Fitted fit(const std::vector<Observation>& all, const std::vector<Log>& logs, size_t without) {
  const Problem p = problem_of(all, logs, without);
  const auto n = static_cast<Eigen::Index>(p.classes.size());
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    if (p.classes[static_cast<size_t>(i)].term == Term::copy) mean[i] = std::log(0.4);
  }
  Eigen::VectorXd theta = mean;
  for (int round = 0; round < kRounds; ++round) {
    step(p, round < 3 ? 0.5 : round < 6 ? 0.25 : kNoise, mean, theta);
  }
  Fitted fitted;
  fitted.classes = p.classes;
  for (Eigen::Index i = 0; i < n; ++i) {
    fitted.logarithms.push_back(theta[i]);
    fitted.logs.push_back(static_cast<int>(p.seen[static_cast<size_t>(i)].size()));
  }
  return fitted;
}

}  // namespace stepcast::accuracy
