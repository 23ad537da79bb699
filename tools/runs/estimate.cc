// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/estimate.h"

#include <fmt/core.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "calibrate/fit/in_situ_fit.h"
#include "sim/csv.h"
#include "sim/diagnostic.h"
#include "tools/runs/summary.h"

namespace stepcast::accuracy {
namespace {

// Of the logarithm of a step time: the spread of runs of one source about its own mean, and of
// sources.
constexpr double kRunSpread = 0.08, kSourceSpread = 0.08;
constexpr double kFull = 3;  // runs that a source of any number counts as, at most
constexpr int kMostSteps = 12;
constexpr double kConverged = 1e-4;  // of a step's objective

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

class Estimator {
 public:
  Estimator(const std::vector<ModelledRun>& runs, std::vector<InSituParameter> parameters,
            int threads)
      : runs_(runs), parameters_(std::move(parameters)), threads_(threads) {
    for (const InSituParameter& p : parameters_) coordinates_.emplace_back(p);
    std::map<std::string, int> known;
    for (const ModelledRun& run : runs_) {
      const auto [at, fresh] = known.try_emplace(run.source, static_cast<int>(names_.size()));
      if (fresh) names_.push_back(run.source);
      source_.push_back(at->second);
      rows_.push_back(in_situ_rows(parameters_, run.model.node(), run.model.libraries()));
      measured_.push_back(std::log(run.measured_s));
    }
  }

  Estimate result() {
    optimise();
    Estimate e;
    e.parameters = with_values(u_);
    const Matrix inverse = normal_matrix(u_, b_, -1).inverse();
    for (size_t k = 0; k < parameters_.size(); ++k) describe_parameter(k, inverse, e.parameters[k]);
    for (size_t s = 0; s < names_.size(); ++s) e.effects[names_[s]] = b_[static_cast<long>(s)];
    std::vector<Vector> left_out;
    for (size_t s = 0; s < names_.size(); ++s) {
      left_out.push_back(without_source(static_cast<int>(s)));
      std::vector<double>& values = e.left_out[names_[s]];
      for (const InSituParameter& p : with_values(left_out.back())) values.push_back(p.value);
    }
    e.runs.resize(runs_.size());
    for_each_index(runs_.size(), threads_, [&](size_t i) {
      const auto s = static_cast<size_t>(source_[i]);
      e.runs[i] = {runs_[i].id,
                   runs_[i].source,
                   runs_[i].measured_s,
                   runs_[i].model.seconds(neutral_in_situ()),
                   std::exp(forecast_[static_cast<long>(i)]),
                   runs_[i].model.seconds(values_of(i, left_out[s])),
                   {}};
      for (long k = 0; k < parameters(); ++k)
        e.runs[i].derivatives.push_back(derivatives_(static_cast<long>(i), k));
    });
    return e;
  }

 private:
  long parameters() const { return static_cast<long>(parameters_.size()); }
  long sources() const { return static_cast<long>(names_.size()); }

  InSituValues values_of(size_t run, const Vector& u) const {
    InSituValues values = neutral_in_situ();
    for (size_t t = 0; t < values.size(); ++t) {
      const int k = rows_[run][t];
      if (k >= 0) values[t] = coordinates_[static_cast<size_t>(k)].value(u[k]);
    }
    return values;
  }

  bool is_subject_to(size_t run, long k) const {
    return std::ranges::find(rows_[run], static_cast<int>(k)) != rows_[run].end();
  }

  double log_seconds(size_t run, const Vector& u) const {
    constexpr double kShortest = 1e-9;  // a difference of steps may be none
    return std::log(std::max(kShortest, runs_[run].model.seconds(values_of(run, u))));
  }

  Vector forecasts(const Vector& u) const {
    Vector f(static_cast<long>(runs_.size()));
    for_each_index(runs_.size(), threads_,
                   [&](size_t i) { f[static_cast<long>(i)] = log_seconds(i, u); });
    return f;
  }

  // Derivatives of the logarithms by the coordinates.
  Matrix derivatives(const Vector& u, const Vector& f) const {
    Matrix j = Matrix::Zero(f.size(), parameters());
    for_each_index(runs_.size(), threads_, [&](size_t i) {
      for (long k = 0; k < parameters(); ++k) {
        if (!is_subject_to(i, k)) continue;
        const double step = kDifference * coordinates_[static_cast<size_t>(k)].width;
        Vector moved = u;
        moved[k] += step;
        j(static_cast<long>(i), k) = (log_seconds(i, moved) - f[static_cast<long>(i)]) / step;
      }
    });
    return j;
  }

  // Every source alike, of runs that the forecasts `f` come near.
  void set_weights(const Vector& f) {
    std::vector<double> count(names_.size());
    const auto is_near = [&](size_t i) {
      return std::abs(measured_[i] - f[static_cast<long>(i)]) <= std::log(kOtherProgram);
    };
    for (size_t i = 0; i < runs_.size(); ++i)
      if (is_near(i)) count[static_cast<size_t>(source_[i])] += 1;
    weight_.clear();
    for (size_t i = 0; i < runs_.size(); ++i)
      weight_.push_back(is_near(i) ? kFull / (kFull + count[static_cast<size_t>(source_[i])]) : 0);
  }

  // -2 log of the posterior density, but for a constant, without the source `left_out`.
  double objective(const Vector& f, const Vector& u, const Vector& b, int left_out) const {
    double sum = 0;
    for (long i = 0; i < f.size(); ++i) {
      const int s = source_[static_cast<size_t>(i)];
      if (s == left_out) continue;
      sum += weight_[static_cast<size_t>(i)] *
             student_loss((measured_[static_cast<size_t>(i)] - f[i] - b[s]) / kRunSpread);
    }
    for (long s = 0; s < sources(); ++s) sum += student_loss(b[s] / kSourceSpread);
    for (long k = 0; k < parameters(); ++k) {
      const Coordinate& c = coordinates_[static_cast<size_t>(k)];
      sum += std::pow((u[k] - c.mean) / c.width, 2);
    }
    return sum;
  }

  // Weights of the runs where the forecasts are f.
  Vector run_weights(const Vector& f, const Vector& b, int left_out) const {
    Vector w(f.size());
    for (long i = 0; i < f.size(); ++i) {
      const int s = source_[static_cast<size_t>(i)];
      const double z = (measured_[static_cast<size_t>(i)] - f[i] - b[s]) / kRunSpread;
      w[i] = s == left_out
                 ? 0
                 : weight_[static_cast<size_t>(i)] * student_weight(z) / (kRunSpread * kRunSpread);
    }
    return w;
  }

  Matrix normal_matrix(const Vector& u, const Vector& b, int left_out) const {
    return normal_equations(linear(u), u, b, left_out).first;
  }

  // Forecasts by the derivatives at the optimum.
  Vector linear(const Vector& u) const { return forecast_ + derivatives_ * (u - u_); }

  // Of the step in (u, b) from here: matrix and right-hand side.
  std::pair<Matrix, Vector> normal_equations(const Vector& f, const Vector& u, const Vector& b,
                                             int left_out) const {
    const long n = parameters() + sources();
    Matrix a = Matrix::Zero(n, n);
    Vector r = Vector::Zero(n);
    const Vector w = run_weights(f, b, left_out);
    for (long i = 0; i < f.size(); ++i) {
      if (w[i] == 0) continue;
      const long s = parameters() + source_[static_cast<size_t>(i)];
      const double residual = measured_[static_cast<size_t>(i)] - f[i] - b[s - parameters()];
      const auto row = derivatives_.row(i);
      a.topLeftCorner(parameters(), parameters()) += w[i] * row.transpose() * row;
      a.col(s).head(parameters()) += w[i] * row.transpose();
      a(s, s) += w[i];
      r.head(parameters()) += w[i] * residual * row.transpose();
      r[s] += w[i] * residual;
    }
    for (long s = 0; s < sources(); ++s) {
      const double weight = student_weight(b[s] / kSourceSpread) / (kSourceSpread * kSourceSpread);
      a(parameters() + s, parameters() + s) += weight;
      r[parameters() + s] -= weight * b[s];
    }
    for (long k = 0; k < parameters(); ++k) {
      const Coordinate& c = coordinates_[static_cast<size_t>(k)];
      const double weight = 1 / (c.width * c.width);
      a(k, k) += weight;
      r[k] -= weight * (u[k] - c.mean);
    }
    a.bottomLeftCorner(sources(), parameters()) =
        a.topRightCorner(parameters(), sources()).transpose();
    return {a, r};
  }

  // The step, where no constant becomes negative: those that would are kept at zero.
  Vector step_from(const Vector& f, const Vector& u, const Vector& b, int left_out,
                   double damping) const {
    auto [a, r] = normal_equations(f, u, b, left_out);
    a.diagonal() *= 1 + damping;
    std::vector<bool> kept(static_cast<size_t>(parameters()));
    for (;;) {
      const Vector step = a.ldlt().solve(r);
      bool all = true;
      for (long k = 0; k < parameters(); ++k) {
        const double lowest = coordinates_[static_cast<size_t>(k)].lowest();
        if (kept[static_cast<size_t>(k)] || u[k] + step[k] >= lowest) continue;
        // u[k] moves to its bound, whatever the others do.
        const double fixed = lowest - u[k];
        r -= a.col(k) * fixed;
        a.row(k).setZero();
        a.col(k).setZero();
        a(k, k) = 1;
        r[k] = fixed;
        kept[static_cast<size_t>(k)] = true;
        all = false;
      }
      if (all) return step;
      for (long k = 0; k < parameters(); ++k)
        if (kept[static_cast<size_t>(k)])
          r[k] = coordinates_[static_cast<size_t>(k)].lowest() - u[k];
    }
  }

  void optimise() {
    u_ = Vector(parameters());
    for (long k = 0; k < parameters(); ++k) u_[k] = coordinates_[static_cast<size_t>(k)].mean;
    b_ = Vector::Zero(sources());
    forecast_ = forecasts(u_);
    set_weights(forecast_);
    double damping = 1e-3;
    double now = objective(forecast_, u_, b_, -1);
    bool fresh = false;
    for (int i = 0; i < kMostSteps; ++i) {
      if (!fresh) derivatives_ = derivatives(u_, forecast_);
      fresh = true;
      const Vector step = step_from(forecast_, u_, b_, -1, damping);
      const Vector u = u_ + step.head(parameters()), b = b_ + step.tail(sources());
      const Vector f = forecasts(u);
      const double then = objective(f, u, b, -1);
      if (!(then <= now)) {  // not a number either
        damping = std::max(damping, 1e-2) * 10;
        continue;
      }
      const double gain = now - then;
      u_ = u;
      b_ = b;
      forecast_ = f;
      now = then;
      fresh = false;
      damping /= 10;
      if (gain < kConverged * now) break;
    }
    if (!fresh) derivatives_ = derivatives(u_, forecast_);
  }

  Vector without_source(int left_out) const {
    Vector u = u_, b = b_;
    b[left_out] = 0;
    for (int i = 0; i < 50; ++i) {
      const Vector step = step_from(linear(u), u, b, left_out, 0);
      u += step.head(parameters());
      b += step.tail(sources());
      if (step.cwiseAbs().maxCoeff() < 1e-6) break;
    }
    return u;
  }

  std::vector<InSituParameter> with_values(const Vector& u) const {
    std::vector<InSituParameter> parameters = parameters_;
    for (size_t k = 0; k < parameters.size(); ++k)
      parameters[k].value = coordinates_[k].value(u[static_cast<long>(k)]);
    return parameters;
  }

  void describe_parameter(size_t k, const Matrix& inverse, InSituParameter& p) const {
    const auto at = static_cast<long>(k);
    const double width = std::sqrt(inverse(at, at));
    p.sd = coordinates_[k].sd_of_value(p.value, width);
    std::set<int> sources;
    p.runs = 0;
    for (long i = 0; i < derivatives_.rows(); ++i) {
      if (weight_[static_cast<size_t>(i)] == 0) continue;
      if (std::abs(derivatives_(i, at)) * coordinates_[k].width < kSay) continue;
      ++p.runs;
      sources.insert(source_[static_cast<size_t>(i)]);
    }
    p.sources = static_cast<int64_t>(sources.size());
  }

  const std::vector<ModelledRun>& runs_;
  std::vector<InSituParameter> parameters_;
  int threads_;
  std::vector<Coordinate> coordinates_;
  std::vector<std::string> names_;
  std::vector<int> source_;       // by run
  std::vector<InSituRows> rows_;  // by run
  std::vector<double> measured_, weight_;
  // The optimum, with the forecasts and their derivatives there.
  Vector u_, b_, forecast_;
  Matrix derivatives_;
};

using BySource = std::map<std::string, std::vector<const EstimatedRun*>>;
using TimeOfRun = double EstimatedRun::*;

Errors errors_of_runs(const std::vector<const EstimatedRun*>& runs, TimeOfRun time) {
  std::vector<double> relative;
  for (const EstimatedRun* r : runs) relative.push_back(r->*time / r->measured - 1);
  return errors_of(relative);
}

// Every source alike.
std::string means_over_sources(const BySource& sources) {
  std::string text = fmt::format("{:<32}", "mean over sources of medians");
  for (const TimeOfRun t : {&EstimatedRun::without, &EstimatedRun::seen, &EstimatedRun::left_out}) {
    double sum = 0, worst = 0;
    for (const auto& [source, runs] : sources) {
      const double median = errors_of_runs(runs, t).median;
      sum += median;
      worst = std::max(worst, median);
    }
    text += fmt::format("  {:>6} {:>6} {:>6}",
                        percent(sum / static_cast<double>(std::max<size_t>(1, sources.size()))),
                        percent(worst), "");
  }
  return text + "  (second: the worst)\n";
}

std::string label_of(const InSituParameter& p) {
  return fmt::format("{} / {}", name_of(p.term), p.scope);
}

}  // namespace

Estimate estimate(const std::vector<ModelledRun>& runs, std::vector<InSituParameter> start,
                  int threads) {
  return Estimator(runs, std::move(start), threads).result();
}

std::string in_situ_csv(const std::vector<InSituParameter>& parameters) {
  return "# In-situ parameters (calibrate/price/in_situ.h; docs/trust.md): value and standard "
         "deviation, estimated from\n# published runs by `tools/accuracy --estimate`, beside the "
         "prior and its source.\n" +
         in_situ_text(parameters);
}

std::string stale_in_situ(std::span<const InSituParameter> shipped,
                          const std::vector<InSituParameter>& now) {
  constexpr double kTolerance = 0.2;
  if (shipped.size() != now.size()) return "other parameters\n";
  std::string stale;
  for (size_t k = 0; k < now.size(); ++k) {
    const bool same = shipped[k].term == now[k].term && shipped[k].scope == now[k].scope;
    if (same && std::abs(shipped[k].value - now[k].value) <= kTolerance * now[k].sd) continue;
    stale += fmt::format("{}: {:.4g}, in the file {} {:.4g}\n", label_of(now[k]), now[k].value,
                         label_of(shipped[k]), shipped[k].value);
  }
  return stale;
}

std::string left_out_csv(const Estimate& e) {
  std::string text =
      "# Values of the in-situ parameters (calibrate/in_situ.csv) by all runs but those of one "
      "source: what its\n# forecasts are judged with.  `tools/accuracy --estimate` rewrites "
      "this.\nsource";
  for (const InSituParameter& p : e.parameters) text += "," + label_of(p);
  text += '\n';
  for (const auto& [source, values] : e.left_out) {
    text += source;
    for (const double v : values) text += fmt::format(",{:.4g}", v);
    text += '\n';
  }
  return text;
}

LeftOut parse_left_out(const std::string& text, std::vector<InSituParameter> parameters) {
  std::string header = "source";
  for (const InSituParameter& p : parameters) header += "," + label_of(p);
  LeftOut sources;
  for (const CsvRow& row : csv_rows(text, header)) {
    for (size_t k = 0; k < parameters.size(); ++k) parameters[k].value = row.number(k + 1);
    sources[std::string(row.cells[0])] = parameters;
  }
  return sources;
}

std::string estimated_runs_csv(const Estimate& e) {
  std::string text = "id,source,measured_s,without_s,seen_s,left_out_s";
  for (const InSituParameter& p : e.parameters) text += "," + label_of(p);
  text += '\n';
  for (const EstimatedRun& r : e.runs) {
    text += fmt::format("\"{}\",{},{:.6g},{:.6g},{:.6g},{:.6g}", r.id, r.source, r.measured,
                        r.without, r.seen, r.left_out);
    for (const double d : r.derivatives) text += fmt::format(",{:.4g}", d);
    text += '\n';
  }
  return text;
}

std::string estimate_text(const Estimate& e) {
  std::string text = fmt::format("{:<28}{:<10}{:>10}{:>9}{:>10}{:>9}{:>7}{:>5}\n", "term", "scope",
                                 "value", "+-", "prior", "+-", "runs", "of");
  for (const InSituParameter& p : e.parameters)
    text += fmt::format("{:<28}{:<10}{:>10.4g}{:>9.2g}{:>10.4g}{:>9.2g}{:>7}{:>5}\n",
                        fmt::format("{}, {}", name_of(p.term), unit_of(p.term)), p.scope, p.value,
                        p.sd, p.prior, p.prior_sd, p.runs, p.sources);
  const auto line = [&](const std::string& name, const std::vector<const EstimatedRun*>& runs) {
    std::string s = fmt::format("{:<26}{:>6}", name, runs.size());
    for (const TimeOfRun t :
         {&EstimatedRun::without, &EstimatedRun::seen, &EstimatedRun::left_out}) {
      const Errors errors = errors_of_runs(runs, t);
      s += fmt::format("  {:>6} {:>6} {:>6}", percent(errors.median), percent(errors.p90),
                       signed_percent(errors.bias));
    }
    return s;
  };
  text += fmt::format("\n{:<26}{:>6}  {:<22}{:<22}{:<22} effect\n", "errors, %", "runs",
                      "off: median p90 bias", "seen", "left out");
  BySource by_source;
  std::vector<const EstimatedRun*> all;
  for (const EstimatedRun& r : e.runs) {
    by_source[r.source].push_back(&r);
    all.push_back(&r);
  }
  for (const auto& [source, runs] : by_source)
    text += line(source, runs) + fmt::format("  {:>+7.3f}\n", e.effects.at(source));
  return text + line("all", all) + '\n' + means_over_sources(by_source);
}

}  // namespace stepcast::accuracy
