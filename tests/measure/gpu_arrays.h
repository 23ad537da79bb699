// SPDX-License-Identifier: Apache-2.0
// Arrays on the device for tests, and the tests' way of skipping themselves where there is none.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "calibrate/measure/device.h"
#include "calibrate/measure/kernels/hash.h"

namespace stepcast::measure {

using Bf16 = __nv_bfloat16;

template <class T>
class GpuArray {
 public:
  explicit GpuArray(const std::vector<T>& values)
      : memory_(static_cast<int64_t>(values.size() * sizeof(T))), size_(values.size()) {
    check_cuda(cudaMemcpy(memory_.data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
               "to the device");
    check_cuda(cudaDeviceSynchronize(), "to the device");  // kernels run on another stream
  }
  explicit GpuArray(int64_t size) : GpuArray(std::vector<T>(static_cast<size_t>(size))) {}

  T* data() const { return memory_.as<T>(); }
  std::vector<T> values() const {
    std::vector<T> out(size_);
    check_cuda(cudaGetLastError(), "launching a kernel");
    check_cuda(cudaDeviceSynchronize(), "a kernel");
    check_cuda(cudaMemcpy(out.data(), memory_.data(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
               "from the device");
    return out;
  }

 private:
  DeviceMemory memory_;
  size_t size_;
};

// Normal numbers as bf16 holds them.
inline std::vector<double> normal_numbers(int64_t count, uint64_t seed, double deviation = 1) {
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    const float x = normal(seed, static_cast<uint64_t>(i)) * static_cast<float>(deviation);
    out.push_back(static_cast<double>(__bfloat162float(__float2bfloat16(x))));
  }
  return out;
}

inline GpuArray<Bf16> bf16_array(const std::vector<double>& values) {
  std::vector<Bf16> out;
  for (const double v : values) out.push_back(__float2bfloat16(static_cast<float>(v)));
  return GpuArray<Bf16>(out);
}

inline GpuArray<float> fp32_array(const std::vector<double>& values) {
  std::vector<float> out;
  for (const double v : values) out.push_back(static_cast<float>(v));
  return GpuArray<float>(out);
}

inline double number(float x) {
  return static_cast<double>(x);
}
inline double number(Bf16 x) {
  return static_cast<double>(__bfloat162float(x));
}

// bf16 keeps 8 bits: half of 2^-8 relative, and some for the sums before it.
constexpr double kBf16Error = 0.006;

template <class T>
void expect_near(const GpuArray<T>& found, const std::vector<double>& expected, double relative,
                 double absolute) {
  const std::vector<T> values = found.values();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(number(values[i]), expected[i], absolute + relative * std::abs(expected[i]))
        << "element " << i;
  }
}

// The GPU that tests run on, if there is one.
inline std::optional<Device> device() {
  try {
    return open_device(0);
  } catch (const DeviceError&) {
    return {};
  }
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = open_device(0);
    } catch (const NoDevice& e) {
      GTEST_SKIP() << e.what();
    }
    stream_.emplace();
  }
  cudaStream_t stream() const { return stream_->get(); }

  Device device_;
  std::optional<Stream> stream_;
};

}  // namespace stepcast::measure
