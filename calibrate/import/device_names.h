// SPDX-License-Identifier: Apache-2.0
// GPUs by the name that CUDA gives them.
#pragma once

#include <string_view>

namespace stepcast {

// The preset of the GPU that cudaDeviceProp::name calls `device`, "h100-sxm" of "NVIDIA H100 80GB
// HBM3" (calibrate/data/device_names.csv); empty if there is none.
std::string_view gpu_of_device(std::string_view device);

}  // namespace stepcast
