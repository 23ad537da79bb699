// SPDX-License-Identifier: Apache-2.0
// The GPU that is measured: its facts, its memory, and what goes wrong with it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "sim/graph/work.h"

namespace stepcast::measure {

// The GPU failed: the run ends.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// There is none to measure.
struct NoDevice : DeviceError {
  using DeviceError::DeviceError;
};

// One point cannot be measured here (no kernel for the type, too little memory): it is skipped, and
// the reason shown.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws DeviceError "what: text of CUDA"; Unsupported where memory is all that is missing.
void check_cuda(cudaError_t status, const char* what);

struct Device {
  int index = 0;
  std::string name;  // as CUDA gives it: "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;
  int sms = 0;
  int64_t l2_bytes = 0, memory_bytes = 0;
  std::array<char, 24> pci_bus_id{};  // as NVML takes it: "00000000:1b:00.0"
  std::string software;               // "CUDA 13.0, driver API 13.0": of a table's identity
};

// Makes device `index` the current one of this thread.  Throws NoDevice, with one line that says
// what is missing, where there is none.
Device open_device(int index);

// Memory of the current device, freed at the end.  Throws Unsupported if there is not enough.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(int64_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Pinned memory of the host, freed at the end.
class HostMemory {
 public:
  explicit HostMemory(int64_t bytes);
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();
  void record(cudaStream_t stream);
  void wait() const;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Microseconds between two events that have happened.
double microseconds(const Event& begin, const Event& end);

// Several copies of the operands of one call in one allocation.  Calls that go through all copies
// in turn find none of them in the L2 cache, as in a training step, where other kernels come
// between.
class Operands {
 public:
  // As many copies of `bytes` as make up twice the L2 cache, at least one, as far as a third of the
  // device's free memory goes.  Throws Unsupported if one copy does not fit.
  Operands(int64_t bytes, const Device& device);

  int copies() const { return copies_; }
  int64_t bytes() const { return bytes_; }  // of one copy, rounded up to 256
  // Where copy `call` modulo copies() begins; aligned to 256 bytes.
  void* at(int64_t call) const;
  void* data() const { return memory_.data(); }

 private:
  int64_t bytes_ = 0;
  int copies_ = 1;
  DeviceMemory memory_;
};

// Writes `elements` numbers of a normal distribution with the given deviation, the same for the
// same seed on every device: zeros and repeated data draw less power and run faster than training
// does. int8: rounded after scaling to a deviation of 32.
void fill_normal(void* data, DType dtype, int64_t elements, uint64_t seed, float deviation,
                 cudaStream_t stream);
// Whole numbers from 0 to below `limit`, uniformly.
void fill_indices(int32_t* data, int64_t elements, int32_t limit, uint64_t seed,
                  cudaStream_t stream);

}  // namespace stepcast::measure
