// SPDX-License-Identifier: Apache-2.0
#include "topology/import/link_speeds.h"

#include <gtest/gtest.h>

namespace stepcast::link_speeds_test {
namespace {

TEST(LinkSpeeds, InfinibandIsWidthTimesSpeed) {
  EXPECT_DOUBLE_EQ(infiniband_speed("4xNDR").nominal.value, 50e9);
  EXPECT_DOUBLE_EQ(infiniband_speed("2xHDR").nominal.value, 12.5e9);
  EXPECT_DOUBLE_EQ(infiniband_speed("4xXDR").nominal.value, 100e9);
  EXPECT_DOUBLE_EQ(infiniband_speed("4xFDR10").nominal.value, 5e9);
  EXPECT_DOUBLE_EQ(infiniband_speed("12xQDR").nominal.value, 15e9);
  for (const char* none : {"4xABC", "3xNDR", "NDR", "", "x", "4x", "-4xNDR"})
    EXPECT_EQ(infiniband_speed(none).nominal.value, 0) << none;
}

TEST(LinkSpeeds, PcieGoesByGenerationAndWidth) {
  EXPECT_NEAR(pcie_speed(8, 16).nominal.value, 15.75e9, 0.01e9);
  EXPECT_NEAR(pcie_speed(32, 16).nominal.value, 63.02e9, 0.01e9);
  EXPECT_DOUBLE_EQ(pcie_speed(8, 16).nccl.value, 12e9);
  EXPECT_DOUBLE_EQ(pcie_speed(16, 16).nccl.value, 24e9);
  EXPECT_DOUBLE_EQ(pcie_speed(64, 16).nccl.value, 96e9);
  EXPECT_DOUBLE_EQ(pcie_speed(32, 8).nccl.value, 24e9);
  EXPECT_EQ(pcie_generation(2.5), 1);
  EXPECT_EQ(pcie_generation(5), 2);
  EXPECT_EQ(pcie_generation(1e9), 6);
}

TEST(LinkSpeeds, NvlinkFiveIsTwiceAsFast) {
  EXPECT_DOUBLE_EQ(nvlink_speed(GpuArch::hopper).nominal.value * 18, 450e9);
  EXPECT_DOUBLE_EQ(nvlink_speed(GpuArch::hopper).nccl.value * 18, 370.8e9);
  EXPECT_DOUBLE_EQ(nvlink_speed(GpuArch::blackwell).nominal.value * 18, 900e9);
}

}  // namespace
}  // namespace stepcast::link_speeds_test
