// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/gemm.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stepcast::measure {
namespace {

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": " + cublasGetStatusString(status);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw Unsupported(text);
  }
  throw DeviceError(text);
}

cudaDataType_t cuda_type(DType t) {
  switch (t) {
    case DType::fp32:
    case DType::tf32: return CUDA_R_32F;
    case DType::fp16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::fp8: return CUDA_R_8F_E4M3;
    case DType::int8: return CUDA_R_8I;
    case DType::fp4:
    case DType::uint8: break;
  }
  throw Unsupported("no matrix products in " + std::string(name_of(t)));
}

bool is_eight_bits(DType t) {
  return t == DType::fp8 || t == DType::int8;
}

cudaDataType_t out_type(const Work& w) {
  return w.dtype == DType::int8 ? CUDA_R_32I : cuda_type(out_dtype(w));
}

cublasComputeType_t compute_type(DType t) {
  if (t == DType::tf32) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return t == DType::int8 ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F;
}

// A matrix as cuBLAS sees it: `rows` are the dimension that lies together in memory.
struct Matrix {
  int64_t rows = 0, columns = 0;
  bool turned = false;  // used as its transpose
};

// cuBLAS' first operand is the n side, its second the m side.
Matrix n_side_matrix(const Work& w) {
  if (w.layout == GemmLayout::tn || is_eight_bits(w.dtype)) return {w.k, w.n, true};
  return {w.n, w.k, false};
}

Matrix m_side_matrix(const Work& w) {
  if (w.layout == GemmLayout::nt && !is_eight_bits(w.dtype)) return {w.m, w.k, true};
  return {w.k, w.m, false};
}

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_blas(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value),
             "describing a product");
}

template <class T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check_blas(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value),
             "describing a matrix");
}

cublasLtMatrixLayout_t describe(cudaDataType_t type, Matrix x, const Lie& lie, int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  const int64_t leading = lie.row != 0 ? lie.row : x.rows;
  check_blas(cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(x.rows),
                                        static_cast<uint64_t>(x.columns), leading),
             "describing a matrix");
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        lie.batch != 0 ? lie.batch : leading * x.columns);
  }
  return layout;
}

cublasOperation_t operation(const Matrix& x) {
  return x.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
}

int64_t matrix_bytes(DType t, int64_t elements) {
  return static_cast<int64_t>(bytes_per_element(t) * static_cast<double>(elements));
}

constexpr int64_t kKiB = 1024;

}  // namespace

DType out_dtype(const Work& w) {
  if (w.accumulate || w.dtype == DType::int8) return DType::fp32;  // int32 is as wide
  return w.dtype == DType::fp8 ? DType::bf16 : w.dtype;
}

int64_t m_side_bytes(const Work& w) {
  return matrix_bytes(w.dtype, w.m * w.k * w.batch);
}
int64_t n_side_bytes(const Work& w) {
  return matrix_bytes(w.dtype, w.n * w.k * w.batch);
}
int64_t out_bytes(const Work& w) {
  return matrix_bytes(out_dtype(w), w.m * w.n * w.batch);
}

Blas::Blas(const Device& device)
    : workspace_((device.major >= 9 ? 32 * kKiB : 8 * kKiB + 128) * kKiB) {
  check_blas(cublasLtCreate(&lt_), "cuBLASLt");
  check_blas(cublasCreate(&handle_), "cuBLAS");
  check_blas(
      cublasSetWorkspace(handle_, workspace_.data(), static_cast<size_t>(workspace_.bytes())),
      "cuBLAS' workspace");
}

Blas::~Blas() {
  cublasDestroy(handle_);
  cublasLtDestroy(lt_);
}

std::string Blas::version() const {
  const size_t v = cublasLtGetVersion();  // 130002: 13.0.2
  return "cuBLAS " + std::to_string(v / 10000) + '.' + std::to_string(v / 100 % 100) + '.' +
         std::to_string(v % 100);
}

struct Product::Prepared {
  Blas* blas = nullptr;
  DType dtype{};
  bool accumulate = false;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t n_side = nullptr, m_side = nullptr, out = nullptr;
  cublasLtMatmulHeuristicResult_t best{};
  DeviceMemory scale;  // fp8: 1.0

  ~Prepared() {
    if (out != nullptr) cublasLtMatrixLayoutDestroy(out);
    if (m_side != nullptr) cublasLtMatrixLayoutDestroy(m_side);
    if (n_side != nullptr) cublasLtMatrixLayoutDestroy(n_side);
    if (desc != nullptr) cublasLtMatmulDescDestroy(desc);
  }

  void set_scales(const Work& w) {
    if (w.dtype != DType::fp8) return;
    constexpr float kOne = 1;
    scale = DeviceMemory(sizeof kOne);
    check_cuda(cudaMemcpy(scale.data(), &kOne, sizeof kOne, cudaMemcpyHostToDevice), "fp8 scales");
    check_cuda(cudaDeviceSynchronize(), "fp8 scales");  // for streams other than this copy's
    set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale.data());
    set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale.data());
    // Forward products are summed fast, gradients are not: the default of Transformer Engine.
    set(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM,
        static_cast<int8_t>(w.layout == GemmLayout::tn ? 1 : 0));
  }

  // `dense`: operands begin where memory is aligned to 256 bytes; heads within rows do not.
  void choose(const Work& w, bool dense) {
    cublasLtMatmulPreference_t preference = nullptr;
    check_blas(cublasLtMatmulPreferenceCreate(&preference), "choosing an algorithm");
    const auto room = static_cast<uint64_t>(blas->workspace().bytes());
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    const uint32_t alignment = dense ? 256 : 16;
    for (const auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof alignment);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulAlgoGetHeuristic(blas->lt(), desc, n_side, m_side, out, out,
                                              preference, 1, &best, &found);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    check_blas(status, "choosing an algorithm");
    if (found == 0) throw Unsupported("cuBLASLt has no algorithm for " + stepcast::describe(w));
  }
};

Product::Product(Blas& blas, const Work& w, Lie m_side, Lie n_side, Lie out)
    : prepared_(std::make_unique<Prepared>()) {
  Prepared& p = *prepared_;
  p.blas = &blas;
  p.dtype = w.dtype;
  p.accumulate = w.accumulate;
  const Matrix first = n_side_matrix(w), second = m_side_matrix(w);
  check_blas(cublasLtMatmulDescCreate(&p.desc, compute_type(w.dtype),
                                      w.dtype == DType::int8 ? CUDA_R_32I : CUDA_R_32F),
             "describing a product");
  set(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(first));
  set(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(second));
  p.set_scales(w);
  p.n_side = measure::describe(cuda_type(w.dtype), first, n_side, w.batch);
  p.m_side = measure::describe(cuda_type(w.dtype), second, m_side, w.batch);
  p.out = measure::describe(out_type(w), {w.n, w.m, false}, out, w.batch);
  p.choose(w, m_side.row == 0 && n_side.row == 0 && out.row == 0);
}

Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;
Product::~Product() = default;

void Product::run(const void* m_side, const void* n_side, void* out, cudaStream_t stream,
                  float alpha, bool adds) const {
  const Prepared& p = *prepared_;
  const float beta = p.accumulate || adds ? 1 : 0;
  const auto whole_alpha = static_cast<int32_t>(alpha);
  const int32_t whole_beta = p.accumulate || adds ? 1 : 0;
  const bool whole = p.dtype == DType::int8;
  const void* const by = whole ? static_cast<const void*>(&whole_alpha) : &alpha;
  const void* const keep = whole ? static_cast<const void*>(&whole_beta) : &beta;
  check_blas(cublasLtMatmul(p.blas->lt(), p.desc, by, n_side, p.n_side, m_side, p.m_side, keep, out,
                            p.out, out, p.out, &p.best.algo, p.blas->workspace().data(),
                            static_cast<size_t>(p.blas->workspace().bytes()), stream),
             "a product");
}

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
