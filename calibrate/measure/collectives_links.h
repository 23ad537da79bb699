// SPDX-License-Identifier: Apache-2.0
// The NVLinks of a GPU, from NVIDIA's management library (NVML), which comes with the driver and is
// looked for when asked: neither the toolkit nor a GPU is needed to build or call this.
#pragma once

#include <string>

namespace stepcast::measure {

struct NvlinkState {
  int links = 0;             // that are up; 0 also where NVML is missing or does not know the GPU
  bool to_switches = false;  // all of them lead to NVSwitches
};

// `pci_bus_id` as in Device (device.h): "00000000:1b:00.0".
NvlinkState nvlinks_of(const std::string& pci_bus_id);

}  // namespace stepcast::measure
