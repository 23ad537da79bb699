// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/gemm.h"

#include <array>
#include <string>
#include <utility>

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

}  // namespace stepcast::measure
