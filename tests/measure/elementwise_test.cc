// SPDX-License-Identifier: Apache-2.0
// What kernels compute of single elements, against double precision and finite differences.
#include "calibrate/measure/kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace stepcast::measure::elementwise_test {
namespace {

std::vector<double> arguments() {
  std::vector<double> out;
  for (double x = -8; x <= 8; x += 0.0625) out.push_back(x);
  return out;
}

double gelu_exactly(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double silu_exactly(double x) {
  return x / (1 + std::exp(-x));
}

template <class F>
double slope(const F& f, double x) {
  constexpr double kStep = 1e-5;
  return (f(x + kStep) - f(x - kStep)) / (2 * kStep);
}

TEST(Elementwise, ActivationsAndTheirSlopes) {
  for (const double x : arguments()) {
    const auto narrow = static_cast<float>(x);
    EXPECT_NEAR(gelu(narrow), gelu_exactly(x), 2e-6) << x;
    EXPECT_NEAR(gelu_gradient(narrow), slope(gelu_exactly, x), 3e-6) << x;
    EXPECT_NEAR(silu(narrow), silu_exactly(x), 2e-6) << x;
    EXPECT_NEAR(silu_gradient(narrow), slope(silu_exactly, x), 2e-6) << x;
  }
}

TEST(Elementwise, ActivationsStayFiniteFarOut) {
  for (const float x : {-1e4F, 1e4F}) {
    EXPECT_TRUE(std::isfinite(gelu(x)) && std::isfinite(gelu_gradient(x)));
    EXPECT_TRUE(std::isfinite(silu(x)) && std::isfinite(silu_gradient(x)));
  }
}

TEST(Elementwise, TurningBackUndoesTurning) {
  const float c = std::cos(0.7F), s = std::sin(0.7F);
  const Pair there = rotate({3, -2}, c, s);
  EXPECT_NEAR(there.first, 3 * std::cos(0.7) + 2 * std::sin(0.7), 1e-6);
  EXPECT_NEAR(there.second, -2 * std::cos(0.7) + 3 * std::sin(0.7), 1e-6);
  const Pair back = rotate(there, c, -s);
  EXPECT_NEAR(back.first, 3, 1e-6);
  EXPECT_NEAR(back.second, -2, 1e-6);
}

TEST(Elementwise, DropoutDropsItsShareAndTheSameEachTime) {
  int kept = 0;
  constexpr int kCount = 100'000;
  for (uint64_t i = 0; i < kCount; ++i) {
    kept += keeps(5, i, 0.1F) ? 1 : 0;
    ASSERT_EQ(keeps(5, i, 0.1F), keeps(5, i, 0.1F));
    ASSERT_TRUE(keeps(5, i, 0));
  }
  EXPECT_NEAR(kept, 0.9 * kCount, 0.005 * kCount);
}

TEST(Elementwise, AdamFollowsItsDefinition) {
  AdamStep step;
  step.decay = 0.1F;
  double w = 0.5, m = 0, v = 0;
  AdamState state{0.5F, 0, 0};
  for (int i = 1; i <= 20; ++i) {
    const double g = std::sin(i);
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    const double first = m / (1 - std::pow(0.9, i)), second = v / (1 - std::pow(0.95, i));
    w -= 1e-3 * (first / (std::sqrt(second) + 1e-8) + 0.1 * w);
    step.correction1 = static_cast<float>(1 - std::pow(0.9, i));
    step.correction2 = static_cast<float>(1 - std::pow(0.95, i));
    state = adam_update(state, static_cast<float>(g), step);
    EXPECT_NEAR(state.weight, w, 1e-6);
    EXPECT_NEAR(state.first, m, 1e-6);
    EXPECT_NEAR(state.second, v, 1e-6);
  }
}

TEST(Elementwise, SoftmaxSumsJoinInAnyOrder) {
  const std::vector<float> x{1, -3, 80, 79.5F, -INFINITY, 2};
  SoftmaxSum forward, backward;
  double exact = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    forward = join(forward, {x[i], x[i] == -INFINITY ? 0.0F : 1.0F});
    backward =
        join({x[x.size() - 1 - i], x[x.size() - 1 - i] == -INFINITY ? 0.0F : 1.0F}, backward);
    exact += std::exp(static_cast<double>(x[i]) - 80);
  }
  EXPECT_EQ(forward.largest, 80);
  EXPECT_EQ(backward.largest, 80);
  EXPECT_NEAR(forward.sum, exact, 1e-6);
  EXPECT_NEAR(backward.sum, exact, 1e-6);
  EXPECT_EQ(join({}, {}).sum, 0);
}

TEST(Elementwise, Fp8ScalesReachTheLargestNumber) {
  EXPECT_FLOAT_EQ(fp8_scale(7) * 7, 448);
  EXPECT_FLOAT_EQ(fp8_scale(0), 1);
}

TEST(Elementwise, RandomNumbersAreNormalAndReproducible) {
  double sum = 0, squares = 0;
  constexpr int kCount = 200'000;
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = normal(3, i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    seen.insert(mix(3, i));
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.01);
  EXPECT_EQ(seen.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(normal(3, 7), normal(3, 7));
  EXPECT_NE(normal(3, 7), normal(4, 7));
}

}  // namespace
}  // namespace stepcast::measure::elementwise_test
