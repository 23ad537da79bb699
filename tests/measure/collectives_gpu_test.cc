// SPDX-License-Identifier: Apache-2.0
// Collectives and interference on the GPUs of this machine.
#include "calibrate/measure/collectives/collectives.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "calibrate/measure/device.h"
#include "calibrate/measure/families/interference.h"

namespace stepcast::measure::collectives_gpu_test {
namespace {

using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::SizeIs;

int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

TEST(CollectivesOnGpus, AreRightAndTakeTime) {
  if (!why_no_collectives(gpus()).empty()) GTEST_SKIP() << why_no_collectives(gpus());
  Collectives collectives(gpus(), fail);
  for (SweepPoint point : collective_points(gpus(), false)) {
    // Sizes that are checked, and one that is not.
    const int64_t bytes = point.work.bytes.value;
    if (bytes > (1 << 20) && bytes != (64 << 20)) continue;
    const auto measured = collectives.measure(point);
    EXPECT_EQ(measured.skipped, "") << point.key;
    ASSERT_THAT(measured.values, SizeIs(1)) << point.key;
    EXPECT_GT(measured.values[0], 0) << point.key;
  }
}

TEST(CollectivesOnGpus, AGroupThatIsNotHereIsSkipped) {
  if (!why_no_collectives(gpus()).empty()) GTEST_SKIP() << why_no_collectives(gpus());
  Collectives collectives(gpus(), fail);
  SweepPoint point = collective_points(gpus(), false).front();
  point.nodes = 2;
  EXPECT_THAT(collectives.measure(point).skipped, HasSubstr("on 2 nodes"));
}

TEST(CollectivesOnGpus, ProductsAndAllReducesSlowEachOtherDown) {
  if (!why_no_collectives(gpus()).empty()) GTEST_SKIP() << why_no_collectives(gpus());
  Collectives collectives(gpus(), fail);
  const InterferenceFound found = interference_with_collectives(collectives);
  EXPECT_EQ(found.measured.skipped, "");
  EXPECT_THAT(found.measured.values, ::testing::ElementsAre(Ge(1), Ge(1)));
  EXPECT_FALSE(found.of_copies);
}

TEST(CollectivesOnGpus, OnOneGpuCopiesStandIn) {
  if (gpus() == 0) GTEST_SKIP() << "no GPU";
  const InterferenceFound found = interference_with_copies(open_device(0));
  EXPECT_EQ(found.measured.skipped, "");
  EXPECT_THAT(found.measured.values, ::testing::ElementsAre(Ge(1), Ge(1)));
  EXPECT_TRUE(found.of_copies);
}

}  // namespace
}  // namespace stepcast::measure::collectives_gpu_test
