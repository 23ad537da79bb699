// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives_links.h"

#include <dlfcn.h>

#include <memory>

namespace stepcast::measure {
namespace {

// NVML's interface, as its documentation (NVML API reference, "NvLink Methods") has it; there is no
// header without the driver.  0 is success.
using NvmlDevice = void*;
using Plain = int (*)();
using ByBusId = int (*)(const char*, NvmlDevice*);
using OfLink = int (*)(NvmlDevice, unsigned link, unsigned* value);

constexpr unsigned kMostLinks = 18;
constexpr unsigned kSwitch = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH

struct Close {
  void operator()(void* library) const { dlclose(library); }
};

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

NvlinkState nvlinks_of(const std::string& pci_bus_id) {
  const std::unique_ptr<void, Close> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return {};
  const auto begin = symbol<Plain>(library.get(), "nvmlInit_v2");
  const auto end = symbol<Plain>(library.get(), "nvmlShutdown");
  const auto by_bus_id = symbol<ByBusId>(library.get(), "nvmlDeviceGetHandleByPciBusId_v2");
  const auto state = symbol<OfLink>(library.get(), "nvmlDeviceGetNvLinkState");
  const auto remote = symbol<OfLink>(library.get(), "nvmlDeviceGetNvLinkRemoteDeviceType");
  if (begin == nullptr || end == nullptr || by_bus_id == nullptr || state == nullptr ||
      begin() != 0) {
    return {};
  }
  NvlinkState found;
  int switches = 0;
  NvmlDevice device = nullptr;
  if (by_bus_id(pci_bus_id.c_str(), &device) == 0) {
    for (unsigned link = 0; link < kMostLinks; ++link) {
      unsigned up = 0, type = 0;
      if (state(device, link, &up) != 0 || up != 1) continue;
      ++found.links;
      if (remote != nullptr && remote(device, link, &type) == 0 && type == kSwitch) ++switches;
    }
  }
  found.to_switches = found.links > 0 && switches == found.links;
  end();
  return found;
}

}  // namespace stepcast::measure
