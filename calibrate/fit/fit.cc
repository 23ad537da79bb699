// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit/fit.h"

#include <Eigen/QR>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/log_exp.h"
#include "sim/statistics.h"

namespace stepcast {
namespace {

constexpr int kIterations = 100;
constexpr double kLargestStep = 0.7;  // of a logarithm: a factor of two an iteration
constexpr double kConverged = 1e-9;
constexpr double kHuber = 1.345;        // robust standard deviations
constexpr double kMadToSigma = 1.4826;  // of a normal distribution
constexpr double kLeastScale = 1e-4;    // of the weights: exact data have no scale of their own
constexpr double kLeastError = 0.01;    // that rows are taken to have, for standard errors
constexpr double kUnknown = 0.693;      // standard error of a logarithm: a factor of two
constexpr double kLn2 = 0.69314718055994530942;

// With the same bits everywhere, unlike libm's.
double ln(double x) {
  return exact_log2(x) * kLn2;
}

double exponential(double x) {
  return exact_exp2(x / kLn2);
}

double robust_scale(const Eigen::VectorXd& residuals) {
  std::vector<double> sizes(static_cast<size_t>(residuals.size()));
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = std::fabs(residuals[static_cast<Eigen::Index>(i)]);
  return std::max(kLeastScale, kMadToSigma * upper_quantile(std::move(sizes), 0.5));
}

// Square root of a row's weight.
double huber_weight(double residual, double scale) {
  const double far = std::fabs(residual) / (kHuber * scale);
  return far <= 1 ? 1 : std::sqrt(1 / far);
}

double huber_cost(const Eigen::VectorXd& residuals, double scale) {
  const double knee = kHuber * scale;
  double sum = 0;
  for (const double r : residuals) {
    const double size = std::fabs(r);
    sum += size <= knee ? r * r : 2 * knee * size - knee * knee;
  }
  return sum;
}

// Constants as logarithms: positive by construction.  In the order t0, rate, bandwidth.
class RooflineFit {
 public:
  RooflineFit(std::span<const KernelTime> points, const RooflineTerms& terms)
      : points_(points), present_{terms.t0, true, terms.gbs} {
    double shortest = std::numeric_limits<double>::max();
    double rate = 0;
    double bandwidth = 0;
    for (const KernelTime& p : points) {
      STEPCAST_CHECK(p.us > 0 && p.flops > 0 && (p.bytes > 0 || !terms.gbs),
                     "times, flops and bytes are positive");
      shortest = std::min(shortest, p.us);
      rate = std::max(rate, p.flops / p.us / 1e6);
      bandwidth = std::max(bandwidth, p.bytes / p.us / 1e3);
    }
    logs_ = {ln(shortest / 2), ln(rate), terms.gbs ? ln(bandwidth) : 0};
  }

  void iterate() {
    Eigen::VectorXd now = residuals(logs_);
    for (int i = 0; i < kIterations; ++i) {
      const double scale = robust_scale(now);
      const double cost = huber_cost(now, scale);
      Eigen::Vector3d step = newton_step(now, scale);
      const double largest = step.cwiseAbs().maxCoeff();
      if (largest > kLargestStep) step *= kLargestStep / largest;
      bool better = false;
      for (int halving = 0; halving < 20 && !better; ++halving, step *= 0.5) {
        const Eigen::Vector3d next = logs_ + step;
        const Eigen::VectorXd there = residuals(next);
        better = huber_cost(there, scale) <= cost;
        if (!better) continue;
        logs_ = next;
        now = there;
      }
      if (!better || largest < kConverged) break;
    }
  }

  SmoothRoofline result() const {
    SmoothRoofline f;
    f.t0_us = present_[0] ? exponential(logs_[0]) : 0;
    f.tflops = exponential(logs_[1]);
    f.gbs = present_[2] ? exponential(logs_[2]) : 0;
    const Eigen::VectorXd r = residuals(logs_);
    f.rms = std::sqrt(r.squaredNorm() / static_cast<double>(points_.size()));
    const Eigen::Vector3d errors = standard_errors(r);
    f.t0_error = errors[0];
    f.tflops_error = errors[1];
    f.gbs_error = errors[2];
    return f;
  }

 private:
  struct Parts {
    double t0, c, m;  // us
    double root() const { return std::sqrt(c * c + m * m); }
  };

  // Of the form with these constants, for each point.
  struct Form {
    double t0, rate, bandwidth;  // us; flops and bytes per us; bandwidth 0: absent
    Parts parts(const KernelTime& p) const {
      return {t0, p.flops / rate, bandwidth > 0 ? p.bytes / bandwidth : 0};
    }
  };

  Form form(const Eigen::Vector3d& logs) const {
    return {present_[0] ? exponential(logs[0]) : 0, exponential(logs[1]) * 1e6,
            present_[2] ? exponential(logs[2]) * 1e3 : 0};
  }

  Eigen::VectorXd residuals(const Eigen::Vector3d& logs) const {
    const Form f = form(logs);
    Eigen::VectorXd r(static_cast<Eigen::Index>(points_.size()));
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      const KernelTime& p = points_[static_cast<size_t>(i)];
      r[i] = ln(p.us / (f.t0 + f.parts(p).root()));
    }
    return r;
  }

  // Derivatives of ln t by the logarithms, rows weighted; columns of absent terms are zero.
  Eigen::MatrixXd sensitivities(const Eigen::VectorXd& r, double scale, Eigen::Index extra) const {
    const Form f = form(logs_);
    Eigen::MatrixXd a = Eigen::MatrixXd::Zero(r.size() + extra, 3);
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      const Parts t = f.parts(points_[static_cast<size_t>(i)]);
      const double root = t.root();
      const double all = (t.t0 + root) / huber_weight(r[i], scale);
      a(i, 0) = t.t0 / all;
      a(i, 1) = -t.c * t.c / root / all;
      a(i, 2) = -t.m * t.m / root / all;
    }
    return a;
  }

  // Solves the linearised problem; a little damping keeps a constant that no point depends on where
  // it is.
  Eigen::Vector3d newton_step(const Eigen::VectorXd& r, double scale) const {
    Eigen::MatrixXd a = sensitivities(r, scale, 3);
    Eigen::VectorXd b = Eigen::VectorXd::Zero(r.size() + 3);
    for (Eigen::Index i = 0; i < r.size(); ++i) b[i] = r[i] * huber_weight(r[i], scale);
    for (Eigen::Index i = 0; i < 3; ++i) a(r.size() + i, i) = 1e-6;
    return a.colPivHouseholderQr().solve(b);
  }

  Eigen::Vector3d standard_errors(const Eigen::VectorXd& r) const {
    const double scale = robust_scale(r);
    const Eigen::MatrixXd a = sensitivities(r, scale, 0);
    Eigen::Matrix3d information = a.transpose() * a;
    for (Eigen::Index i = 0; i < 3; ++i) {
      // A constant that nothing tells anything about is unknown, not a division by zero.
      information(i, i) += present_[static_cast<size_t>(i)] ? 1e-12 : 1.0;
    }
    const Eigen::Matrix3d inverse =
        information.colPivHouseholderQr().solve(Eigen::Matrix3d::Identity());
    Eigen::Vector3d errors;
    for (Eigen::Index i = 0; i < 3; ++i) {
      errors[i] = present_[static_cast<size_t>(i)]
                      ? std::max(kLeastError, scale) * std::sqrt(std::max(0.0, inverse(i, i)))
                      : 0;
    }
    return errors;
  }

  std::span<const KernelTime> points_;
  std::array<bool, 3> present_;
  Eigen::Vector3d logs_;
};

// Least squares of the columns that are used; the others' constants are 0.
Eigen::Vector2d weighted_line(const Eigen::MatrixXd& a, const Eigen::VectorXd& b, bool alpha,
                              bool beta) {
  if (alpha && beta) return a.colPivHouseholderQr().solve(b);
  const Eigen::VectorXd column = a.col(alpha ? 0 : 1);
  const double only = column.dot(b) / column.squaredNorm();
  return alpha ? Eigen::Vector2d(only, 0) : Eigen::Vector2d(0, only);
}

Eigen::Vector2d robust_line(const Eigen::MatrixXd& a, bool alpha, bool beta) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(a.rows());
  Eigen::VectorXd weights = ones;
  Eigen::Vector2d x = Eigen::Vector2d::Zero();
  for (int i = 0; i < kIterations; ++i) {
    const Eigen::Vector2d next =
        weighted_line(weights.asDiagonal() * a, weights.asDiagonal() * ones, alpha, beta);
    const bool done = (next - x).cwiseAbs().maxCoeff() <= kConverged * next.cwiseAbs().maxCoeff();
    x = next;
    if (done) break;
    const Eigen::VectorXd residuals = a * x - ones;
    const double scale = robust_scale(residuals);
    for (Eigen::Index r = 0; r < weights.size(); ++r)
      weights[r] = huber_weight(residuals[r], scale);
  }
  return x;
}

}  // namespace

AlphaBeta fit_alpha_beta(std::span<const SizedTime> points) {
  STEPCAST_CHECK(points.size() >= 2, "a line needs two points");
  const auto rows = static_cast<Eigen::Index>(points.size());
  // Sizes in units of the largest: both columns of like magnitude.
  double smallest = points[0].bytes;
  double largest = points[0].bytes;
  for (const SizedTime& p : points) {
    smallest = std::min(smallest, p.bytes);
    largest = std::max(largest, p.bytes);
  }
  STEPCAST_CHECK(smallest < largest, "a line needs two different sizes");
  Eigen::MatrixXd a(rows, 2);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const SizedTime& p = points[static_cast<size_t>(i)];
    STEPCAST_CHECK(p.us > 0, "a measured time must be positive");
    a(i, 0) = 1 / p.us;
    a(i, 1) = p.bytes / largest / p.us;
  }
  Eigen::Vector2d x = robust_line(a, true, true);
  if (x[0] < 0) x = robust_line(a, false, true);
  if (x[1] < 0) x = robust_line(a, true, false);
  const Eigen::VectorXd residuals = a * x - Eigen::VectorXd::Ones(rows);
  return {x[0], x[1] / largest, std::sqrt(residuals.squaredNorm() / static_cast<double>(rows))};
}

SmoothRoofline fit_smooth_roofline(std::span<const KernelTime> points, const RooflineTerms& terms) {
  const size_t constants = 1u + (terms.t0 ? 1u : 0u) + (terms.gbs ? 1u : 0u);
  STEPCAST_CHECK(points.size() >= constants, "as many points as constants");
  RooflineFit fit(points, terms);
  fit.iterate();
  return fit.result();
}

SmoothRoofline fit_known_terms(std::span<const KernelTime> points, RooflineTerms terms,
                               double assumed_t0_us) {
  STEPCAST_CHECK(!points.empty(), "a fit needs a point");
  if (points.size() < 5) terms.gbs = false;
  if (points.size() < 4) terms.t0 = false;
  std::vector<KernelTime> rest(points.begin(), points.end());
  double assumed = 0;
  const auto assume_t0 = [&] {
    assumed = std::min(assumed_t0_us, std::ranges::min(rest, {}, &KernelTime::us).us / 2);
    for (KernelTime& p : rest) p.us -= assumed;
  };
  if (!terms.t0) assume_t0();
  while (true) {
    SmoothRoofline fit = fit_smooth_roofline(rest, terms);
    const double worst = std::max({fit.t0_error, fit.tflops_error, fit.gbs_error});
    if ((!terms.t0 && !terms.gbs) || worst <= kUnknown) {
      fit.t0_us += assumed;
      return fit;
    }
    // The rate always stays: where it is the least known, what it is mixed up with goes.
    if (terms.gbs && (!terms.t0 || fit.gbs_error >= fit.t0_error)) {
      terms.gbs = false;
    } else {
      terms.t0 = false;
      assume_t0();
    }
  }
}

double fitted_us(const SmoothRoofline& fit, const KernelTime& p) {
  const double c = p.flops / (fit.tflops * 1e6);
  const double m = fit.gbs > 0 ? p.bytes / (fit.gbs * 1e3) : 0;
  return fit.t0_us + std::sqrt(c * c + m * m);
}

}  // namespace stepcast
