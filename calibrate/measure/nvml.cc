// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/nvml.h"

#include <dlfcn.h>

#include <array>

namespace stepcast::measure {
namespace {

// Of the NVML API reference; nvmlReturn_t is an enumeration whose success is 0, nvmlDevice_t a
// pointer.
constexpr int kSuccess = 0;
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr unsigned kMostNvlinks = 18;
constexpr unsigned kNvlinkToSwitch = 2, kNvlinkUp = 1;

// Calls a function of the library by name; false if there is none or it fails.
template <class... Arguments>
bool call(void* library, const char* name, Arguments... arguments) {
  void* const symbol = ::dlsym(library, name);
  if (symbol == nullptr) return false;
  return reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...) == kSuccess;
}

}  // namespace

Nvml::Nvml(const Device& device) : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr || !call(library_, "nvmlInit_v2")) return;
  const char* const bus = device.pci_bus_id.data();
  if (!call(library_, "nvmlDeviceGetHandleByPciBusId_v2", bus, &handle_)) handle_ = nullptr;
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  call(library_, "nvmlShutdown");
  ::dlclose(library_);
}

DeviceState Nvml::state() const {
  DeviceState s;
  if (handle_ == nullptr) return s;
  // First what is gone as soon as the device is idle.
  unsigned long long reasons = 0;
  if (call(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", handle_, &reasons)) {
    s.slowed_by = reasons;
  }
  unsigned value = 0;
  if (call(library_, "nvmlDeviceGetClockInfo", handle_, kClockSm, &value)) s.sm_mhz = value;
  if (call(library_, "nvmlDeviceGetClockInfo", handle_, kClockMemory, &value)) s.memory_mhz = value;
  if (call(library_, "nvmlDeviceGetTemperature", handle_, kTemperatureGpu, &value)) {
    s.temperature_c = value;
  }
  if (call(library_, "nvmlDeviceGetPowerUsage", handle_, &value)) s.power_w = value / 1e3;
  if (call(library_, "nvmlDeviceGetEnforcedPowerLimit", handle_, &value)) {
    s.power_limit_w = value / 1e3;
  }
  return s;
}

NvlinkState Nvml::nvlinks() const {
  NvlinkState found;
  int switches = 0;
  if (handle_ == nullptr) return found;
  for (unsigned link = 0; link < kMostNvlinks; ++link) {
    unsigned up = 0, remote = 0;
    if (!call(library_, "nvmlDeviceGetNvLinkState", handle_, link, &up) || up != kNvlinkUp)
      continue;
    ++found.links;
    const bool known =
        call(library_, "nvmlDeviceGetNvLinkRemoteDeviceType", handle_, link, &remote);
    if (known && remote == kNvlinkToSwitch) ++switches;
  }
  found.to_switches = found.links > 0 && switches == found.links;
  return found;
}

std::string Nvml::driver() const {
  std::array<char, 96> text{};
  if (library_ == nullptr) return {};
  if (!call(library_, "nvmlSystemGetDriverVersion", text.data(),
            static_cast<unsigned>(text.size())))
    return {};
  return text.data();
}

}  // namespace stepcast::measure
