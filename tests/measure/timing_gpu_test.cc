// SPDX-License-Identifier: Apache-2.0
// Timing and products on a GPU: every family once, small.
#include <algorithm>
#include <cmath>

#include "calibrate/measure/families/gemm.h"
#include "calibrate/measure/families/launch_timing.h"
#include "calibrate/measure/families/memory_shapes.h"
#include "calibrate/measure/families/memory_timing.h"
#include "tests/measure/gpu_arrays.h"

namespace stepcast::measure::timing_gpu_test {
namespace {

class Timings : public OnGpu {
 protected:
  Bench bench() const {
    Bench b{device_, stream(), {}};
    b.timing.samples = 5;
    b.timing.warmup_seconds = 0.01;
    return b;
  }
};

void expect_sane(const Timing& t) {
  EXPECT_GT(t.us, 0);
  EXPECT_TRUE(std::isfinite(t.us) && std::isfinite(t.spread));
  EXPECT_GE(t.spread, 0);
}

TEST_F(Timings, EveryMemoryBoundKernel) {
  for (const MemoryKernel& k : memory_kernels()) {
    for (const int64_t bytes : {int64_t{4096}, int64_t{1} << 22}) {
      SCOPED_TRACE(std::string(name_of(k.kernel)) + ' ' + std::to_string(bytes));
      expect_sane(time_memory(bench(), k.kernel, bytes));
    }
  }
}

TEST_F(Timings, LaunchesAndCopies) {
  expect_sane(time_launch(bench()));
  expect_sane(time_graph_launch(bench(), 10));
  for (const CopyKind kind : {CopyKind::h2d, CopyKind::d2h, CopyKind::d2d}) {
    expect_sane(time_copy(bench(), kind, 1 << 20));
  }
}

TEST_F(Timings, TheDeviceIsLookedAtOnceWhileItIsBusy) {
  Bench b = bench();
  int looks = 0;
  bool busy = false;
  b.timing.while_busy = [&] {
    ++looks;
    busy = cudaStreamQuery(stream()) == cudaErrorNotReady;
    static_cast<void>(cudaGetLastError());  // "not ready" is kept as the thread's last error
  };
  expect_sane(time_memory(b, Kernel::copy, 1 << 26));
  EXPECT_EQ(looks, 1);
  EXPECT_TRUE(busy);
}

TEST_F(Timings, LargerProductsTakeLonger) {
  Blas blas(device_);
  Work w;
  w.kind = WorkKind::gemm;
  w.m = w.n = w.k = 1024;
  const Timing small = time_gemm(bench(), blas, w);
  w.m = w.n = w.k = 4096;
  EXPECT_GT(time_gemm(bench(), blas, w).us, 4 * small.us);
  w.m = w.n = w.k = 512;
  w.kind = WorkKind::grouped_gemm;
  w.batch = 6;
  for (const GemmLayout layout : {GemmLayout::tn, GemmLayout::nn, GemmLayout::nt}) {
    w.layout = layout;
    expect_sane(time_gemm(bench(), blas, w));
  }
}

// One element of each operand, row-major, as gemm.h lays them out.
double reference(const std::vector<double>& m_side, const std::vector<double>& n_side,
                 const Work& w, int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t i = 0; i < w.k; ++i) {
    const int64_t a = w.layout == GemmLayout::nt ? i * w.m + row : row * w.k + i;
    const int64_t b = w.layout == GemmLayout::tn ? column * w.k + i : i * w.n + column;
    sum += m_side[static_cast<size_t>(a)] * n_side[static_cast<size_t>(b)];
  }
  return sum;
}

TEST_F(Timings, ProductsAreWhatTheirLayoutsSay) {
  Blas blas(device_);
  for (const GemmLayout layout : {GemmLayout::tn, GemmLayout::nn, GemmLayout::nt}) {
    for (const bool accumulate : {false, true}) {
      Work w;
      w.kind = WorkKind::gemm;
      w.layout = layout;
      w.accumulate = accumulate;
      w.m = 48;
      w.n = 80;
      w.k = 160;
      const auto a = normal_numbers(w.m * w.k, 1), b = normal_numbers(w.n * w.k, 2);
      const auto ga = bf16_array(a), gb = bf16_array(b);
      const GpuArray<Bf16> narrow(w.m * w.n);
      const auto wide = fp32_array(std::vector<double>(static_cast<size_t>(w.m * w.n), 1));
      std::vector<double> expected;
      for (int64_t i = 0; i < w.m * w.n; ++i) {
        expected.push_back(reference(a, b, w, i / w.n, i % w.n) + (accumulate ? 1 : 0));
      }
      const Product product(blas, w);
      product.run(ga.data(), gb.data(),
                  accumulate ? static_cast<void*>(wide.data()) : narrow.data(), stream());
      if (accumulate) {
        expect_near(wide, expected, 1e-3, 1e-3);
      } else {
        expect_near(narrow, expected, kBf16Error, 0.02);
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::measure::timing_gpu_test
