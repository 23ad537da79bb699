// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt, called as training frameworks call them.
//
// Everything is row-major here, as in those frameworks: out[m][n] = sum over k.  The two operands
// lie in memory as the layout says (cuBLAS, column-major, sees them turned round, whence the
// names):
//
//   tn  Y = X W^T, forward            m_side [m][k]   n_side [n][k]
//   nn  dX = dY W, input gradient     m_side [m][k]   n_side [k][n]
//   nt  dW += dY^T X, weight gradient m_side [k][m]   n_side [k][n]
//
// Types: out has the operands' type, fp32 where the work accumulates (weight gradients, which add
// to it).  fp8 is e4m3 with one fp32 scale an operand and out in bf16, int8 has out in int32; both
// lie as in tn whatever the layout, as frameworks keep transposed copies for them.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstdint>
#include <memory>

#include "calibrate/measure/timing.h"
#include "sim/graph/work.h"

namespace stepcast::measure {

// Handles of cuBLAS and cuBLASLt and their workspace: 32 MiB from compute capability 9.0 on, before
// that 8 MiB and 128 KiB, which is what PyTorch takes (CUBLAS_WORKSPACE_CONFIG's default).
class Blas {
 public:
  explicit Blas(const Device& device);
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas();

  cublasLtHandle_t lt() const { return lt_; }
  cublasHandle_t handle() const { return handle_; }
  const DeviceMemory& workspace() const { return workspace_; }
  std::string version() const;  // "cuBLAS 13.0.2"

 private:
  cublasLtHandle_t lt_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
};

// How an operand lies in memory, in elements; 0 = densely.
struct Lie {
  int64_t row = 0;    // from one row to the next
  int64_t batch = 0;  // from one product of a batch to the next
};

// One product (or a strided batch), prepared: the algorithm is the first that cuBLASLt's heuristics
// name, as PyTorch takes it.
class Product {
 public:
  // `work` is a gemm; layout, dtype, accumulate, m, n, k and batch count.  Throws Unsupported if
  // cuBLASLt has no algorithm for it.
  Product(Blas& blas, const Work& work, Lie m_side = {}, Lie n_side = {}, Lie out = {});
  Product(Product&&) noexcept;
  Product& operator=(Product&&) noexcept;
  ~Product();

  // Enqueues it: out = alpha * product, or out += alpha * product if the work accumulates or `adds`
  // (to the operands' type then).  fp8 scales are 1.  REQUIRES: operands aligned to 256 bytes; to
  // 16 where a Lie was given.
  void run(const void* m_side, const void* n_side, void* out, cudaStream_t stream, float alpha = 1,
           bool adds = false) const;

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

// Type of a product's result, and bytes of its three matrices over the whole batch.
DType out_dtype(const Work& work);
int64_t m_side_bytes(const Work& work);
int64_t n_side_bytes(const Work& work);
int64_t out_bytes(const Work& work);

// Time of a `gemm` (batched if batch > 1: then weight gradients do not accumulate, as in unfused
// attention) or of a `grouped_gemm`: `batch` products of m rows each, in one call where cuBLAS has
// a grouped one for the types, else over four streams.
Timing time_gemm(const Bench& bench, Blas& blas, const Work& work);

}  // namespace stepcast::measure
