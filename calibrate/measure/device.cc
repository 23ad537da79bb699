// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/device.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace stepcast::measure {
namespace {

// Every type fits at a multiple of it, and vectorised loads need 16.
constexpr int64_t kAlignment = 256;

std::string version_text(int version) {  // 13000 -> "13.0"
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "a property of the GPU");
  return value;
}

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const std::string text = std::string(what) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // this error does not stick
    throw Unsupported(text);
  }
  throw DeviceError(text);
}

Device open_device(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    int driver = 0;  // stays 0 where there is none
    static_cast<void>(cudaDriverGetVersion(&driver));
    throw NoDevice(std::string("no GPU to measure: ") + (driver == 0 ? "there is no NVIDIA driver"
                                                         : status == cudaSuccess
                                                             ? "CUDA sees no device"
                                                             : cudaGetErrorString(status)));
  }
  if (index < 0 || index >= count) {
    throw NoDevice("there is no device " + std::to_string(index) + ", they are 0 to " +
                   std::to_string(count - 1));
  }
  check_cuda(cudaSetDevice(index), "taking the GPU");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index), "the properties of the GPU");
  Device d;
  d.index = index;
  d.name = properties.name;
  d.major = properties.major;
  d.minor = properties.minor;
  d.sms = properties.multiProcessorCount;
  d.l2_bytes = attribute(cudaDevAttrL2CacheSize, index);
  d.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  std::snprintf(d.pci_bus_id.data(), d.pci_bus_id.size(), "%08x:%02x:%02x.0",
                static_cast<unsigned>(properties.pciDomainID),
                static_cast<unsigned>(properties.pciBusID),
                static_cast<unsigned>(properties.pciDeviceID));
  int runtime = 0, driver = 0;
  check_cuda(cudaRuntimeGetVersion(&runtime), "the version of CUDA");
  check_cuda(cudaDriverGetVersion(&driver), "the version of the driver");
  d.software = "CUDA " + version_text(runtime) + ", driver for CUDA " + version_text(driver);
  return d;
}

DeviceMemory::DeviceMemory(int64_t bytes) : bytes_(bytes) {
  check_cuda(cudaMalloc(&data_, static_cast<size_t>(std::max<int64_t>(bytes, 1))), "device memory");
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  cudaFree(data_);
}

HostMemory::HostMemory(int64_t bytes) {
  check_cuda(cudaMallocHost(&data_, static_cast<size_t>(bytes)), "pinned host memory");
}

HostMemory::~HostMemory() {
  cudaFreeHost(data_);
}

Stream::Stream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

Event::Event() {
  check_cuda(cudaEventCreate(&event_), "an event");
}

Event::~Event() {
  cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) {
  check_cuda(cudaEventRecord(event_, stream), "recording an event");
}

void Event::wait() const {
  check_cuda(cudaEventSynchronize(event_), "waiting for the GPU");
}

double microseconds(const Event& begin, const Event& end) {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()),
             "the time between events");
  return static_cast<double>(milliseconds) * 1e3;
}

Operands::Operands(int64_t bytes, const Device& device)
    : bytes_((std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment) {
  constexpr int64_t kMostCopies = 4096;  // smaller operands stay in the cache: a matter of launches
  size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "the free memory of the GPU");
  const int64_t wanted = (2 * device.l2_bytes + bytes_ - 1) / bytes_;
  const int64_t fit = static_cast<int64_t>(free_bytes) / 3 / bytes_;
  copies_ = static_cast<int>(std::clamp<int64_t>(std::min(wanted, fit), 1, kMostCopies));
  memory_ = DeviceMemory(bytes_ * copies_);
}

void* Operands::at(int64_t call) const {
  return memory_.as<char>() + call % copies_ * bytes_;
}

}  // namespace stepcast::measure
