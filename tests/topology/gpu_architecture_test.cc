// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/gpu_architecture.h"

#include <gtest/gtest.h>

namespace stepcast::gpu_architecture_test {
namespace {

TEST(GpuArchitecture, NamesAreEntriesOfTheTable) {
  EXPECT_EQ(name_of(GpuArch::volta), "volta");
  EXPECT_EQ(name_of(GpuArch::ampere), "ampere");
  EXPECT_EQ(name_of(GpuArch::hopper), "hopper");
  EXPECT_EQ(name_of(GpuArch::blackwell), "blackwell");
  EXPECT_EQ(name_of(GpuArch::other), "other");
}

TEST(GpuArchitecture, IsToldByItsComputeCapability) {
  const auto told = [](int64_t capability) { return name_of(gpu_arch_of_capability(capability)); };
  EXPECT_EQ(told(70), "volta");
  EXPECT_EQ(told(72), "volta");
  EXPECT_EQ(told(86), "ampere");
  EXPECT_EQ(told(90), "hopper");
  EXPECT_EQ(told(103), "blackwell");
  EXPECT_EQ(told(60), "other");
  EXPECT_EQ(told(0), "other");
  for (const GpuArchitecture& a : kGpuArchitectures) {
    if (a.compute_capability == 0) continue;
    EXPECT_EQ(told(a.compute_capability), a.name);
  }
}

TEST(GpuArchitecture, TraitsAreThoseOfTheTable) {
  const GpuArchitecture& hopper = architecture(GpuArch::hopper);
  EXPECT_EQ(hopper.nvlinks, 18);
  EXPECT_DOUBLE_EQ(hopper.nvlink_gbs, 25);
  EXPECT_DOUBLE_EQ(hopper.nvlink_fraction(), 20.6 / 25);
  EXPECT_DOUBLE_EQ(hopper.ll_max_gbs[2], 20.4);
  EXPECT_DOUBLE_EQ(hopper.nvls_tree_channel_gbs[1], 57.7);
  EXPECT_EQ(architecture(GpuArch::other).error_class, "");
  EXPECT_EQ(architecture(GpuArch::volta).error_class, "Volta or Ampere");
  EXPECT_TRUE(architecture(GpuArch::blackwell).mxfp8);
  EXPECT_EQ(hopper.channels, NcclChannels::hopper);
  EXPECT_FALSE(hopper.needs_flush);
  EXPECT_TRUE(architecture(GpuArch::ampere).needs_flush);
  EXPECT_EQ(architecture(GpuArch::other).channels, NcclChannels::before_hopper);
  EXPECT_FALSE(hopper.mxfp8);
  for (const GpuArchitecture& a : kGpuArchitectures) {
    EXPECT_GT(a.nvlink_gbs, 0) << a.name;
    EXPECT_GT(a.p2p_fraction, 0) << a.name;
    EXPECT_FALSE(a.correction_class.empty()) << a.name;
  }
}

}  // namespace
}  // namespace stepcast::gpu_architecture_test
