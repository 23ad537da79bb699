// SPDX-License-Identifier: Apache-2.0
// The order of the stack in double precision: its loss against the formulas, its gradients against
// finite differences of them.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "tests/measure/reference_transformer.h"

namespace stepcast::measure {
namespace {

void run_all(ReferenceBackend& b, const TrainingStep& s) {
  const ParameterMap map = map_parameters(s);
  for (int64_t i = 0; i < s.microbatches; ++i) {
    const Microbatch batch = fixed_microbatch(s, i);
    run_microbatch(b, s, map, b.whole_numbers(batch.tokens), b.whole_numbers(batch.targets));
  }
}

double mean_loss(const TrainingStep& s, const std::vector<double>& parameters) {
  double sum = 0;
  for (int64_t i = 0; i < s.microbatches; ++i)
    sum += reference_loss(s, parameters, fixed_microbatch(s, i));
  return sum / static_cast<double>(s.microbatches);
}

struct Case {
  const char* name;
  int64_t kv_heads;
  bool gated, fused;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class StackInDoublePrecision : public testing::TestWithParam<Case> {
 protected:
  TrainingStep shape() const {
    return tiny_step(8, GetParam().kv_heads, GetParam().gated, GetParam().fused);
  }
};

TEST_P(StackInDoublePrecision, HasTheLossOfTheFormulas) {
  const TrainingStep s = shape();
  ReferenceBackend b(s, reference_parameters(s, 8));
  run_all(b, s);
  EXPECT_NEAR(b.loss / static_cast<double>(s.microbatches), mean_loss(s, b.parameters), 1e-11);
}

TEST_P(StackInDoublePrecision, FreesWhatItAllocates) {
  const TrainingStep s = shape();
  ReferenceBackend b(s, reference_parameters(s, 8));
  run_all(b, s);
  EXPECT_EQ(b.live_tensors, 0);
}

// How the loss changes along +-1 in each of the elements [begin, end): by the gradients, and by
// central differences of the formulas.
void expect_slope(const TrainingStep& s, const ReferenceBackend& b, int64_t begin, int64_t end,
                  uint32_t seed) {
  std::vector<double> direction(b.parameters.size(), 0.0);
  double slope = 0;
  for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
    seed = seed * 1664525 + 1013904223;
    direction[i] = seed >> 31 ? 1 : -1;
    slope += direction[i] * b.gradients[i];
  }
  const auto loss_at = [&](double step) {
    std::vector<double> there = b.parameters;
    for (size_t i = 0; i < there.size(); ++i) there[i] += step * direction[i];
    return mean_loss(s, there);
  };
  constexpr double kStep = 1e-5;
  const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  EXPECT_NEAR(slope, difference, 1e-6 + 1e-5 * std::fabs(difference)) << "tensor at " << begin;
  EXPECT_GT(std::fabs(slope), 1e-6) << "tensor at " << begin;
}

TEST_P(StackInDoublePrecision, HasTheGradientOfItsLoss) {
  const TrainingStep s = shape();
  ReferenceBackend b(s, reference_parameters(s, 8));
  run_all(b, s);
  for (uint32_t seed = 1; seed <= 3; ++seed) expect_slope(s, b, 0, map_parameters(s).count, seed);
}

TEST(GradientOfEachParameter, IsThatOfTheLoss) {
  const TrainingStep s = tiny_step(8, 2, true, false);
  ReferenceBackend b(s, reference_parameters(s, 8));
  run_all(b, s);
  for (const InitialValue& v : initial_values(s))
    expect_slope(s, b, v.where.offset, v.where.offset + v.where.count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, StackInDoublePrecision,
                         testing::Values(Case{"unfused", 4, true, false},
                                         Case{"unfused_grouped_queries", 2, true, false},
                                         Case{"unfused_one_key_head_plain_mlp", 1, false, false},
                                         Case{"fused_grouped_queries", 2, true, true}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(ReferenceLoss, OfEqualLogitsIsTheLogarithmOfTheVocabulary) {
  const TrainingStep s = tiny_step(8, 2, true, false);
  std::vector<double> parameters = reference_parameters(s, 1);
  const ParameterMap map = map_parameters(s);
  for (int64_t i = 0; i < map.head.count(); ++i)
    parameters[static_cast<size_t>(map.head.offset + i)] = 0;
  EXPECT_NEAR(mean_loss(s, parameters), std::log(128), 1e-12);
}

TEST(ReferenceLoss, DoesNotSeeTokensThatComeLater) {
  const TrainingStep s = tiny_step(8, 2, true, false);
  const std::vector<double> parameters = reference_parameters(s, 8);
  const ParameterMap map = map_parameters(s);
  // The residual stream after the layers: with another last token of the first sequence only that
  // position's may move.
  const auto row_of = [&](const Microbatch& batch, int64_t position) {
    ReferenceBackend b(s, parameters);
    std::vector<KeptLayer> layers(map.layers.size());
    Tensor x = b.allocate(s.tokens() * s.hidden, DType::bf16);
    b.embedding(b.whole_numbers(batch.tokens), map.embedding, x);
    for (size_t i = 0; i < layers.size(); ++i) x = layer_forward(b, s, map.layers[i], x, layers[i]);
    const double* row = static_cast<const double*>(x.data) + position * s.hidden;
    return std::vector<double>(row, row + s.hidden);
  };
  const Microbatch before = fixed_microbatch(s, 0);
  Microbatch after = before;
  after.tokens[static_cast<size_t>(s.seq - 1)] ^= 1;
  for (int64_t i = 0; i + 1 < s.seq; ++i) EXPECT_EQ(row_of(before, i), row_of(after, i));
  EXPECT_NE(row_of(before, s.seq - 1), row_of(after, s.seq - 1));
  // Nor does a sequence see another one.
  EXPECT_EQ(row_of(before, s.seq), row_of(after, s.seq));
}

// Adam at the usual rate learns the fixed batch, well beyond what has_learned() asks for.
TEST(ReferenceTraining, LearnsTheBatchByHeart) {
  TrainingStep s = tiny_step(8, 2, true, false);
  s.layers = 1;
  std::vector<double> parameters = reference_parameters(s, 1);
  std::vector<double> first(parameters.size()), second(parameters.size());
  const double begin = mean_loss(s, parameters), rate = usual_learning_rate(s);
  for (int step = 1; step <= 10; ++step) {
    ReferenceBackend b(s, parameters);
    run_all(b, s);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double g = b.gradients[i];
      first[i] = 0.9 * first[i] + 0.1 * g;
      second[i] = 0.95 * second[i] + 0.05 * g * g;
      const double m = first[i] / (1 - std::pow(0.9, step));
      const double v = second[i] / (1 - std::pow(0.95, step));
      parameters[i] -= rate * m / (std::sqrt(v) + 1e-8);
    }
  }
  EXPECT_LT(mean_loss(s, parameters), 0.8 * begin);
}

}  // namespace
}  // namespace stepcast::measure
