// SPDX-License-Identifier: Apache-2.0
// The training step on the GPU against the one in double precision: the same bf16 parameters, so
// that only the rounding of activations differs.
#include "calibrate/measure/training_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <ostream>

#include "calibrate/measure/training_step_device.h"
#include "tests/measure/gpu_arrays.h"
#include "tests/measure/reference_transformer.h"

namespace stepcast::measure {
namespace {

std::vector<double> downloaded(const __nv_bfloat16* from, int64_t count) {
  std::vector<uint16_t> raw(static_cast<size_t>(count));
  check_cuda(cudaMemcpy(raw.data(), from, raw.size() * 2, cudaMemcpyDeviceToHost), "parameters");
  std::vector<double> values;
  for (const uint16_t upper : raw) {
    const uint32_t bits = static_cast<uint32_t>(upper) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(static_cast<double>(value));
  }
  return values;
}

std::vector<double> downloaded(const float* from, int64_t count) {
  std::vector<float> raw(static_cast<size_t>(count));
  check_cuda(cudaMemcpy(raw.data(), from, raw.size() * 4, cudaMemcpyDeviceToHost), "gradients");
  return {raw.begin(), raw.end()};
}

// Length of the difference over the length of the reference.
double relative_error(const std::vector<double>& a, const std::vector<double>& b, Parameter p) {
  double difference = 0, length = 0;
  for (auto i = static_cast<size_t>(p.offset); i < static_cast<size_t>(p.offset + p.count()); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    length += b[i] * b[i];
  }
  return std::sqrt(difference / length);
}

struct Case {
  const char* name;
  int64_t kv_heads;
  bool gated, fused;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class StepOnTheGpu : public testing::TestWithParam<Case> {};

TEST_P(StepOnTheGpu, HasTheLossAndGradientsOfDoublePrecision) {
  const std::optional<Device> gpu = device();
  if (!gpu) GTEST_SKIP() << "no GPU";
  const TrainingStep s = tiny_step(64, GetParam().kv_heads, GetParam().gated, GetParam().fused);
  const Stream stream;
  std::unique_ptr<DeviceBackend> backend;
  try {
    backend = std::make_unique<DeviceBackend>(s, *gpu, stream.get());
  } catch (const Unsupported& e) {
    GTEST_SKIP() << e.what();
  }
  const ParameterMap map = map_parameters(s);
  ReferenceBackend reference(s, downloaded(backend->parameters(), map.count));
  backend->zero_gradients();
  backend->zero_loss();
  for (int64_t i = 0; i < s.microbatches; ++i) {
    const Microbatch batch = fixed_microbatch(s, i);
    run_microbatch(*backend, s, map, backend->upload(batch.tokens), backend->upload(batch.targets));
    run_microbatch(reference, s, map, reference.whole_numbers(batch.tokens),
                   reference.whole_numbers(batch.targets));
  }
  EXPECT_NEAR(backend->loss(), reference.loss, 0.01 * reference.loss);
  const std::vector<double> gradients = downloaded(backend->gradients(), map.count);
  for (const InitialValue& v : initial_values(s))
    EXPECT_LT(relative_error(gradients, reference.gradients, v.where), 0.05)
        << "tensor at " << v.where.offset;
}

INSTANTIATE_TEST_SUITE_P(Shapes, StepOnTheGpu,
                         testing::Values(Case{"unfused", 4, true, false},
                                         Case{"unfused_grouped_queries_plain_mlp", 2, false, false},
                                         Case{"fused", 4, true, true},
                                         Case{"fused_grouped_queries", 2, true, true}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(TrainingStepCheck, LearnsItsBatchAndMeasuresItsSteps) {
  const std::optional<Device> gpu = device();
  if (!gpu) GTEST_SKIP() << "no GPU";
  TrainingRun run;
  run.shape = tiny_step(64, 2, true, false);
  run.steps = 20;
  const StepMeasurement m = measure_training_step(run, *gpu, [](const std::string&) {});
  EXPECT_TRUE(has_learned(m)) << m.first_loss << " to " << m.last_loss;
  EXPECT_NEAR(m.first_loss, std::log(128), 0.2);
  EXPECT_GT(m.step_s, 0);
  EXPECT_GE(m.peak_bytes, 18 * map_parameters(run.shape).count);
}

TEST(TrainingStepCommand, EndsWithStatusTwoWithoutADeviceOrWithWrongArguments) {
  const std::vector<std::string> wrong{"--layers", "none"};
  EXPECT_EQ(run_training_step(wrong), 2);
  if (device()) return;
  EXPECT_EQ(run_training_step({}), 2);
}

}  // namespace
}  // namespace stepcast::measure
