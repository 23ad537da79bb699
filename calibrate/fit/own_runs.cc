// SPDX-License-Identifier: Apache-2.0
// The most likely values are found by weighted least squares.  Take one run of one parameter, a
// factor on products that the published runs put at 1.07, where a cluster's own may lie 5 % beside
// that.  The run took 6 % longer than forecast, and 0.8 of its step are products.  Products 7.5 %
// slower would explain it; so would a run that is 6 % off by itself, where runs of one source
// scatter by 7 %.  Both are about as likely, and the value goes a third of the way: the weight of
// a source's own mean among all sources, tau^2 / (tau^2 + sigma^2 / n), for n runs of n models.
// Errors far out have less weight (Student), which makes it a matter of a few rounds.
#include "calibrate/fit/own_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "calibrate/fit/in_situ_fit.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// How far the value of one cluster lies from everybody's: shares of the width that the value had
// before any run was seen.  Networks of two clusters differ more than their GPUs.  Published
// sources lie about twice as far apart as this; but half of that is what their models have alone,
// and with more a single run that is something else makes the next ones worse.  These shares, the
// spreads below and their form were chosen by hand, among some two hundred, by how well published
// runs are forecast when others of their source are known; docs/accuracy.md says so beside it.
constexpr double kOwnShare = 0.4, kOwnShareOfBandwidth = 1.4;
// Of the logarithm of a step time: the spread of runs of one model, and of models.
constexpr double kRunSpread = 0.05, kModelSpread = 0.06;
// What adds to the former (squares add): published runs whose host sets the pace scatter by about
// as much (docs/trust.md, short kernels), those with experts half as much again as others.
constexpr double kHostSpread = 0.2;  // of the share of the step that is the host's
constexpr double kExpertsSpread = 0.15;
constexpr double kCauchy = 1;  // degrees of freedom

double own_share(InSituTerm term) {
  const bool bandwidth =
      term == InSituTerm::node_bandwidth || term == InSituTerm::network_bandwidth;
  return bandwidth ? kOwnShareOfBandwidth : kOwnShare;
}

// Square, symmetric and positive definite, by rows.
using SquareMatrix = std::vector<std::vector<double>>;

// Lower triangle L with L L^T = a.
SquareMatrix cholesky(SquareMatrix a) {
  for (size_t j = 0; j < a.size(); ++j) {
    for (size_t i = j; i < a.size(); ++i) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      if (i == j) STEPCAST_CHECK(sum > 0, "the prior makes the matrix definite");
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  return a;
}

std::vector<double> solve(const SquareMatrix& lower, std::vector<double> b) {
  const size_t n = lower.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= lower[i][k] * b[k];
    b[i] /= lower[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= lower[k][i] * b[k];
    b[i] /= lower[i][i];
  }
  return b;
}

double square(double x) {
  return x * x;
}

// What is sought: a shift of each coordinate from its prior, then what each model has alone.
class OwnFit {
 public:
  OwnFit(std::span<const OwnEvidence> runs, std::span<const Coordinate> coordinates)
      : runs_(runs), coordinates_(coordinates) {
    for (const OwnEvidence& run : runs) {
      const auto [at, fresh] = models_.try_emplace(run.model, models_.size());
      model_.push_back(at->second);
    }
    x_.assign(coordinates.size() + models_.size(), 0);
    constexpr int kMostSolves = 100;
    constexpr double kStill = 1e-10;
    for (int step = 0; step < kMostSolves; ++step)
      if (improve() < kStill) break;
  }

  double shift(size_t k) const { return x_[k]; }
  double sd(size_t k) const {
    std::vector<double> unit(x_.size());
    unit[k] = 1;
    return std::sqrt(solve(lower_, std::move(unit))[k]);
  }

 private:
  double left(size_t i) const {
    double left = runs_[i].excess - x_[coordinates_.size() + model_[i]];
    for (size_t k = 0; k < coordinates_.size(); ++k) left -= runs_[i].derivatives[k] * x_[k];
    return left;
  }

  // One round; returns how far it moved, in widths squared.
  double improve() {
    const size_t n = coordinates_.size();
    SquareMatrix a(x_.size(), std::vector<double>(x_.size()));
    std::vector<double> b(x_.size());
    for (size_t k = 0; k < x_.size(); ++k)
      a[k][k] = k < n ? 1 / square(coordinates_[k].width)
                      : student_weight(x_[k] / kModelSpread, kCauchy) / square(kModelSpread);
    for (size_t i = 0; i < runs_.size(); ++i) {
      std::vector<double> row = runs_[i].derivatives;
      row.resize(x_.size());
      row[n + model_[i]] = 1;
      const double spread = runs_[i].spread;
      const double weight = student_weight(left(i) / spread) / square(spread);
      for (size_t k = 0; k < x_.size(); ++k) {
        b[k] += weight * runs_[i].excess * row[k];
        for (size_t m = 0; m < x_.size(); ++m) a[k][m] += weight * row[k] * row[m];
      }
    }
    lower_ = cholesky(std::move(a));
    std::vector<double> next = solve(lower_, std::move(b));
    double moved = 0;
    for (size_t k = 0; k < x_.size(); ++k)
      moved = std::max(moved,
                       square((next[k] - x_[k]) / (k < n ? coordinates_[k].width : kModelSpread)));
    x_ = std::move(next);
    return moved;
  }

  std::span<const OwnEvidence> runs_;
  std::span<const Coordinate> coordinates_;
  std::map<std::string_view, size_t> models_;
  std::vector<size_t> model_;  // by run
  std::vector<double> x_;
  SquareMatrix lower_;
};

// As the file has it, so that what is said of the values is what they do.
double to_digits(double x, int digits) {
  const std::string text = fmt::format("{:.{}g}", x, digits);
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

std::vector<Coordinate> coordinates_of(std::span<const InSituParameter> prior) {
  std::vector<Coordinate> coordinates;
  for (const InSituParameter& p : prior) coordinates.emplace_back(p);
  return coordinates;
}

double coordinate_of(const Coordinate& c, double value) {
  return c.factor ? exact_ln(value) : value;
}

InSituValues values_at(std::span<const InSituParameter> own, std::span<const Coordinate> c,
                       std::span<const double> u) {
  InSituValues values = neutral_in_situ();
  for (size_t k = 0; k < own.size(); ++k)
    values[static_cast<size_t>(own[k].term)] = c[k].value(std::max(u[k], c[k].lowest()));
  return values;
}

// The share of a step that the host sets the pace of.
double host_share(std::span<const double> derivatives, std::span<const InSituParameter> own,
                  std::span<const Coordinate> c, std::span<const double> u) {
  double share = 0;
  for (size_t k = 0; k < own.size(); ++k) {
    if (own[k].term == InSituTerm::host_calls) share += derivatives[k];
    if (own[k].term == InSituTerm::module_calls) share += derivatives[k] * c[k].value(u[k]);
  }
  return share;
}

// Around the coordinates u; the excess is that over the forecast which the derivatives say for the
// priors.
OwnEvidence evidence_at(const OwnRun& run, std::span<const InSituParameter> own,
                        std::span<const Coordinate> c, std::span<const double> u) {
  constexpr double kShortest = 1e-9;  // a difference of steps may be none
  const auto log_seconds = [&](std::span<const double> at) {
    return exact_ln(std::max(kShortest, run.seconds(values_at(own, c, at))));
  };
  OwnEvidence e;
  e.model = run.model;
  const double here = log_seconds(u);
  e.excess = exact_ln(run.measured_s) - here;
  for (size_t k = 0; k < own.size(); ++k) {
    std::vector<double> moved(u.begin(), u.end());
    const double step = kDifference * c[k].width;
    moved[k] += step;
    e.derivatives.push_back((log_seconds(moved) - here) / step);
    e.excess += e.derivatives[k] * (u[k] - c[k].mean);
  }
  e.spread =
      std::sqrt(square(kRunSpread) + square(kHostSpread * host_share(e.derivatives, own, c, u)) +
                square(run.experts ? kExpertsSpread : 0));
  return e;
}

std::vector<InSituParameter> described(const OwnFit& fit, std::span<const OwnEvidence> runs,
                                       std::span<const Coordinate> c,
                                       std::vector<InSituParameter> own) {
  for (size_t k = 0; k < own.size(); ++k) {
    InSituParameter& p = own[k];
    p.value = to_digits(c[k].value(std::max(c[k].lowest(), c[k].mean + fit.shift(k))), 4);
    p.sd = to_digits(c[k].sd_of_value(p.value, fit.sd(k)), 2);
    p.runs = std::ranges::count_if(runs, [&](const OwnEvidence& e) {
      return std::abs(e.derivatives[k]) * c[k].width >= kSay;
    });
    p.sources = p.runs > 0 ? 1 : 0;
  }
  return own;
}

}  // namespace

std::vector<InSituParameter> own_prior(std::span<const InSituParameter> shared, const Node& node,
                                       int64_t libraries) {
  std::vector<InSituParameter> own;
  for (const int row : in_situ_rows(shared, node, libraries)) {
    if (row < 0) continue;
    InSituParameter p = shared[static_cast<size_t>(row)];
    const bool factor = neutral_value(p.term) == 1;
    const double wide = own_share(p.term) * p.prior_sd * (factor ? p.value / p.prior : 1);
    p.prior = p.value;
    p.prior_sd = to_digits(std::sqrt(p.sd * p.sd + wide * wide), 2);
    p.sd = p.prior_sd;
    p.runs = p.sources = 0;
    p.prior_source = "published runs, and how far clusters lie apart";
    own.push_back(std::move(p));
  }
  return own;
}

InSituValues values_of(std::span<const InSituParameter> own) {
  InSituValues values = neutral_in_situ();
  for (const InSituParameter& p : own) values[static_cast<size_t>(p.term)] = p.value;
  return values;
}

OwnEvidence evidence_of(const OwnRun& run, std::span<const InSituParameter> own) {
  const std::vector<Coordinate> c = coordinates_of(own);
  std::vector<double> u;
  for (size_t k = 0; k < own.size(); ++k) u.push_back(coordinate_of(c[k], own[k].value));
  return evidence_at(run, own, c, u);
}

std::vector<InSituParameter> own_values(std::span<const OwnEvidence> runs,
                                        std::vector<InSituParameter> prior) {
  const std::vector<Coordinate> c = coordinates_of(prior);
  return described(OwnFit(runs, c), runs, c, std::move(prior));
}

OwnEstimate estimate_own_values(std::span<const OwnRun> runs, std::vector<InSituParameter> prior) {
  constexpr int kRounds = 6;
  constexpr double kStill = 0.01;  // widths
  const std::vector<Coordinate> c = coordinates_of(prior);
  std::vector<double> u;
  for (const Coordinate& at : c) u.push_back(at.mean);
  OwnEstimate best;
  for (int round = 0; round < kRounds; ++round) {
    best.runs.clear();
    for (const OwnRun& run : runs) best.runs.push_back(evidence_at(run, prior, c, u));
    const OwnFit fit(best.runs, c);
    double moved = 0;
    for (size_t k = 0; k < c.size(); ++k) {
      const double wanted = std::max(c[k].lowest(), c[k].mean + fit.shift(k));
      // A step that changes what limits a run may be too long: the later rounds go half of it.
      const double step = (round < 2 ? 1 : 0.5) * (wanted - u[k]);
      moved = std::max(moved, std::abs(step) / c[k].width);
      u[k] += step;
    }
    best.parameters = described(fit, best.runs, c, prior);
    if (moved < kStill) break;
  }
  return best;
}

}  // namespace stepcast
