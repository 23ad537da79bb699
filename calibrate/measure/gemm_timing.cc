// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "calibrate/measure/gemm.h"

namespace stepcast::measure {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// A strided batch is one array, each expert's matrices are arrays of their own.
int64_t experts(const Work& w) {
  return w.kind == WorkKind::grouped_gemm ? w.batch : 1;
}

// Copies of the three matrices of a product, filled.  Those of each expert are aligned to 256
// bytes, as kernels are chosen for.
struct Matrices {
  int64_t m_side_step, n_side_step, out_step;  // bytes from one expert's to the next one's
  int64_t n_side_at, out_at, out_all;
  Operands memory;

  Matrices(const Bench& bench, const Work& w)
      : m_side_step(aligned(m_side_bytes(w) / experts(w))),
        n_side_step(aligned(n_side_bytes(w) / experts(w))),
        out_step(aligned(out_bytes(w) / experts(w))),
        n_side_at(m_side_step * experts(w)),
        out_at(n_side_at + n_side_step * experts(w)),
        out_all(out_step * experts(w)),
        memory(out_at + out_all, bench.device) {
    const auto elements = [&](int64_t bytes) {
      return static_cast<int64_t>(static_cast<double>(bytes) / bytes_per_element(w.dtype));
    };
    for (int64_t copy = 0; copy < memory.copies(); ++copy) {
      // Activations of deviation 1, weights of about 1 / sqrt(k): sums stay finite in every type.
      fill_normal(m_side(copy), w.dtype, elements(n_side_at), 2 * static_cast<uint64_t>(copy), 1,
                  bench.stream);
      fill_normal(n_side(copy), w.dtype, elements(out_at - n_side_at),
                  2 * static_cast<uint64_t>(copy) + 1, 0.02F, bench.stream);
      check_cuda(cudaMemsetAsync(out(copy), 0, static_cast<size_t>(out_all), bench.stream),
                 "clearing a result");
    }
  }

  char* m_side(int64_t call) const { return static_cast<char*>(memory.at(call)); }
  char* n_side(int64_t call) const { return m_side(call) + n_side_at; }
  char* out(int64_t call) const { return m_side(call) + out_at; }
};

cudaDataType_t grouped_type(DType t) {
  return t == DType::bf16 ? CUDA_R_16BF : t == DType::fp16 ? CUDA_R_16F : CUDA_R_32F;
}

// What cublasGemmGroupedBatchedEx takes: each expert's product is a group of one, as their rows
// differ in training.  Lists of pointers lie on the device, one for each copy of the operands.
class GroupedCall {
 public:
  GroupedCall(const Work& w, const Matrices& x)
      : turn_n_(static_cast<size_t>(w.batch),
                w.layout == GemmLayout::tn ? CUBLAS_OP_T : CUBLAS_OP_N),
        turn_m_(static_cast<size_t>(w.batch),
                w.layout == GemmLayout::nt ? CUBLAS_OP_T : CUBLAS_OP_N),
        m_(static_cast<size_t>(w.batch), static_cast<int>(w.m)),
        n_(static_cast<size_t>(w.batch), static_cast<int>(w.n)),
        k_(static_cast<size_t>(w.batch), static_cast<int>(w.k)),
        ones_(static_cast<size_t>(w.batch), 1),
        alpha_(static_cast<size_t>(w.batch), 1.0F),
        beta_(static_cast<size_t>(w.batch), w.accumulate ? 1.0F : 0.0F),
        batch_(w.batch),
        copies_(x.memory.copies()),
        type_(grouped_type(w.dtype)),
        pointers_(3 * w.batch * copies_ * static_cast<int64_t>(sizeof(void*))) {
    std::vector<char*> all;
    const int64_t b = w.batch;
    for (int64_t copy = 0; copy < copies_; ++copy) {
      for (int64_t i = 0; i < b; ++i) all.push_back(x.n_side(copy) + x.n_side_step * i);
      for (int64_t i = 0; i < b; ++i) all.push_back(x.m_side(copy) + x.m_side_step * i);
      for (int64_t i = 0; i < b; ++i) all.push_back(x.out(copy) + x.out_step * i);
    }
    check_cuda(cudaMemcpy(pointers_.data(), all.data(), all.size() * sizeof(char*),
                          cudaMemcpyHostToDevice),
               "pointers of a grouped product");
    check_cuda(cudaDeviceSynchronize(), "pointers of a grouped product");
  }

  bool run(cublasHandle_t handle, int64_t call) const {
    void** const lists = pointers_.as<void*>() + 3 * batch_ * (call % copies_);
    const std::vector<int>& lead_n = turn_n_[0] == CUBLAS_OP_T ? k_ : n_;
    const std::vector<int>& lead_m = turn_m_[0] == CUBLAS_OP_T ? m_ : k_;
    return cublasGemmGroupedBatchedEx(
               handle, turn_n_.data(), turn_m_.data(), n_.data(), m_.data(), k_.data(),
               alpha_.data(), lists, type_, lead_n.data(), lists + batch_, type_, lead_m.data(),
               beta_.data(), lists + 2 * batch_, type_, n_.data(), static_cast<int>(batch_),
               ones_.data(), CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  std::vector<cublasOperation_t> turn_n_, turn_m_;
  std::vector<int> m_, n_, k_, ones_;
  std::vector<float> alpha_, beta_;
  int64_t batch_, copies_;
  cudaDataType_t type_;
  DeviceMemory pointers_;
};

// The experts' products one by one over four streams that begin and end together, each with a
// workspace of its own.
class StreamedCall {
 public:
  StreamedCall(const Bench& bench, const Work& grouped) : one_(grouped) {
    one_.kind = WorkKind::gemm;
    one_.batch = 1;
    for (Lane& lane : lanes_) {
      lane.blas.emplace(bench.device);
      lane.product.emplace(*lane.blas, one_);
    }
  }

  void run(const Matrices& x, int64_t call, int64_t batch, cudaStream_t stream) {
    begin_.record(stream);
    for (Lane& lane : lanes_) {
      check_cuda(cudaStreamWaitEvent(lane.stream.get(), begin_.get(), 0), "a stream that waits");
    }
    for (int64_t i = 0; i < batch; ++i) {
      Lane& lane = lanes_[static_cast<size_t>(i) % lanes_.size()];
      lane.product->run(x.m_side(call) + x.m_side_step * i, x.n_side(call) + x.n_side_step * i,
                        x.out(call) + x.out_step * i, lane.stream.get());
    }
    for (Lane& lane : lanes_) {
      lane.end.record(lane.stream.get());
      check_cuda(cudaStreamWaitEvent(stream, lane.end.get(), 0), "a stream that waits");
    }
  }

 private:
  struct Lane {
    Stream stream;
    Event end;
    std::optional<Blas> blas;
    std::optional<Product> product;
  };
  Work one_;
  Event begin_;
  std::array<Lane, 4> lanes_;
};

Timing time_grouped(const Bench& bench, Blas& blas, const Work& w) {
  const Matrices x(bench, w);
  const bool one_call =
      !w.accumulate && (w.dtype == DType::bf16 || w.dtype == DType::fp16 || w.dtype == DType::fp32);
  if (one_call) {
    const GroupedCall grouped(w, x);
    cublasSetStream(blas.handle(), bench.stream);
    // cublasSetStream takes the workspace back.
    cublasSetWorkspace(blas.handle(), blas.workspace().data(),
                       static_cast<size_t>(blas.workspace().bytes()));
    if (grouped.run(blas.handle(), 0)) {
      return time_calls(
          bench.stream,
          [&](int64_t call) {
            if (!grouped.run(blas.handle(), call)) throw DeviceError("a grouped product failed");
          },
          bench.timing);
    }
    static_cast<void>(cudaGetLastError());  // of a call that was refused, not of those that follow
  }
  StreamedCall streamed(bench, w);
  return time_calls(
      bench.stream, [&](int64_t call) { streamed.run(x, call, w.batch, bench.stream); },
      bench.timing);
}

}  // namespace

Timing time_gemm(const Bench& bench, Blas& blas, const Work& work) {
  Work w = work;
  w.accumulate = w.layout == GemmLayout::nt && (w.kind == WorkKind::grouped_gemm || w.batch == 1);
  if (w.kind == WorkKind::grouped_gemm) return time_grouped(bench, blas, w);
  const Product product(blas, w);
  const Matrices x(bench, w);
  return time_calls(
      bench.stream,
      [&](int64_t call) { product.run(x.m_side(call), x.n_side(call), x.out(call), bench.stream); },
      bench.timing);
}

}  // namespace stepcast::measure
