// SPDX-License-Identifier: Apache-2.0
// Clocks, temperature, power and NVLinks of a GPU through NVML, the driver's library, if it is
// there.
#pragma once

#include <string>

#include "calibrate/measure/conditions.h"
#include "calibrate/measure/device.h"

namespace stepcast::measure {

struct NvlinkState {
  int links = 0;             // that are up
  bool to_switches = false;  // all of them lead to NVSwitches
};

// Loaded at run time: the toolkit does not bring it, the driver does.
class Nvml {
 public:
  explicit Nvml(const Device& device);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  // All zero without the library.
  DeviceState state() const;
  NvlinkState nvlinks() const;
  std::string driver() const;  // "580.65.06"; empty if not known

 private:
  void* library_ = nullptr;
  void* handle_ = nullptr;  // nvmlDevice_t; null: nothing to ask
};

}  // namespace stepcast::measure
