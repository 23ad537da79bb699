// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int kIterations = 60;
constexpr double kLargestStep = 0.7;  // of a logarithm: a factor of two an iteration
constexpr double kConverged = 1e-12;

// Constants as logarithms: positive by construction.
struct Logs {
  Eigen::Vector3d value;  // ln t0, ln tflops, ln gbs

  double time(const KernelTime& p) const { return std::exp(value[0]) + std::hypot(c(p), m(p)); }
  double c(const KernelTime& p) const { return p.flops / (std::exp(value[1]) * 1e6); }
  double m(const KernelTime& p) const { return p.bytes / (std::exp(value[2]) * 1e3); }
};

double cost(const Logs& logs, std::span<const KernelTime> points) {
  double sum = 0;
  for (const KernelTime& p : points) {
    const double r = std::log(p.us / logs.time(p));
    sum += r * r;
  }
  return sum;
}

// Solves the linearised problem; a little damping keeps a constant that no point depends on where
// it is.
Eigen::Vector3d newton_step(const Logs& logs, std::span<const KernelTime> points) {
  const auto rows = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(rows + 3, 3);
  Eigen::VectorXd b = Eigen::VectorXd::Zero(rows + 3);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const KernelTime& p = points[static_cast<size_t>(i)];
    const double c = logs.c(p);
    const double m = logs.m(p);
    const double root = std::hypot(c, m);
    const double t = logs.time(p);
    a(i, 0) = std::exp(logs.value[0]) / t;
    a(i, 1) = -c * c / root / t;
    a(i, 2) = -m * m / root / t;
    b(i) = std::log(p.us / t);
  }
  for (Eigen::Index i = 0; i < 3; ++i) a(rows + i, i) = 1e-6;
  return a.colPivHouseholderQr().solve(b);
}

}  // namespace

AlphaBeta fit_alpha_beta(std::span<const SizedTime> points) {
  STEPCAST_CHECK(points.size() >= 2, "a line needs two points");
  const auto rows = static_cast<Eigen::Index>(points.size());
  // Sizes in units of the largest: both columns of like magnitude.
  double largest = 0;
  for (const SizedTime& p : points) largest = std::max(largest, p.bytes);
  Eigen::MatrixXd a(rows, 2);
  const Eigen::VectorXd b = Eigen::VectorXd::Ones(rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const SizedTime& p = points[static_cast<size_t>(i)];
    STEPCAST_CHECK(p.us > 0, "a measured time must be positive");
    a(i, 0) = 1 / p.us;
    a(i, 1) = p.bytes / largest / p.us;
  }
  const auto qr = a.colPivHouseholderQr();
  STEPCAST_CHECK(qr.rank() == 2, "a line needs two different sizes");
  const Eigen::VectorXd x = qr.solve(b);
  return {x[0], x[1] / largest, std::sqrt((a * x - b).squaredNorm() / static_cast<double>(rows))};
}

SmoothRoofline fit_smooth_roofline(std::span<const KernelTime> points) {
  STEPCAST_CHECK(points.size() >= 3, "three constants need three points");
  double shortest = points[0].us;
  double rate = 0;
  double bandwidth = 0;
  for (const KernelTime& p : points) {
    STEPCAST_CHECK(p.us > 0 && p.flops > 0 && p.bytes > 0, "times, flops and bytes are positive");
    shortest = std::min(shortest, p.us);
    rate = std::max(rate, p.flops / p.us / 1e6);
    bandwidth = std::max(bandwidth, p.bytes / p.us / 1e3);
  }
  Logs logs{{std::log(shortest / 2), std::log(rate), std::log(bandwidth)}};
  double best = cost(logs, points);
  for (int i = 0; i < kIterations; ++i) {
    Eigen::Vector3d step = newton_step(logs, points);
    const double largest = step.cwiseAbs().maxCoeff();
    if (largest > kLargestStep) step *= kLargestStep / largest;
    Logs next = logs;
    double reached = best;
    for (int halving = 0; halving < 20; ++halving, step *= 0.5) {
      next.value = logs.value + step;
      reached = cost(next, points);
      if (reached <= best) break;
    }
    if (reached > best) break;
    const bool done = best - reached <= kConverged * best;
    logs = next;
    best = reached;
    if (done) break;
  }
  return {std::exp(logs.value[0]), std::exp(logs.value[1]), std::exp(logs.value[2]),
          std::sqrt(best / static_cast<double>(points.size()))};
}

}  // namespace stepcast
