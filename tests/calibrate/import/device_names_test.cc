// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import/device_names.h"

namespace stepcast::import_device_names_test {
namespace {

TEST(DeviceNames, CudaNamesArePresets) {
  EXPECT_EQ(gpu_of_device("NVIDIA H100 80GB HBM3"), "h100-sxm");
  EXPECT_EQ(gpu_of_device("A100-SXM4-40GB"), "a100-sxm-40g");
  EXPECT_EQ(gpu_of_device("Tesla V100-SXM2-32GB "), "v100-sxm2-32g");
}

TEST(DeviceNames, OthersAreNot) {
  EXPECT_EQ(gpu_of_device("NVIDIA GeForce RTX 4090"), "");
  EXPECT_EQ(gpu_of_device("NVIDIA H100 80GB HBM"), "");
  EXPECT_EQ(gpu_of_device("name"), "");
  EXPECT_EQ(gpu_of_device(""), "");
}

}  // namespace
}  // namespace stepcast::import_device_names_test
