// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/memory_timing.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measure/families/memory_shapes.h"
#include "calibrate/measure/kernels/norms.h"
#include "calibrate/measure/kernels/optimizer.h"
#include "calibrate/measure/kernels/pointwise.h"
#include "calibrate/measure/kernels/quantize.h"
#include "calibrate/measure/kernels/reductions.h"
#include "calibrate/measure/kernels/tokens.h"

namespace stepcast::measure {
namespace {

using Bf16 = __nv_bfloat16;

constexpr float kDropped = 0.1F;
constexpr uint64_t kSeed = 17;
constexpr float kRotaryBase = 10000;

// The arrays of a kernel: `large` ones in rotating copies, `small` ones once.  All hold normal
// numbers.  Large ones that a kernel does not touch have no elements: they would make copies larger
// and fewer, and what it does touch might stay in the L2 cache.
class Arrays {
 public:
  // Elements of each array, by type, in the order in which they are asked for.
  struct Spec {
    DType dtype{};
    int64_t elements = 0;
  };

  Arrays(const Bench& bench, std::vector<Spec> large, std::vector<Spec> small = {}) {
    int64_t total = 0;
    for (const Spec& s : large) {
      places_.push_back(total);
      total += (size(s) + 255) / 256 * 256;
    }
    memory_.emplace(total, bench.device);
    uint64_t seed = kSeed;
    for (int64_t copy = 0; copy < memory_->copies(); ++copy) {
      for (size_t i = 0; i < large.size(); ++i) {
        fill_normal(at(i, copy), large[i].dtype, large[i].elements, ++seed, 1, bench.stream);
      }
    }
    for (const Spec& s : small) {
      small_.emplace_back(size(s));
      fill_normal(small_.back().data(), s.dtype, s.elements, ++seed, 1, bench.stream);
    }
  }

  Bf16* bf16(size_t i, int64_t call) const { return static_cast<Bf16*>(at(i, call)); }
  float* fp32(size_t i, int64_t call) const { return static_cast<float*>(at(i, call)); }
  uint8_t* bytes(size_t i, int64_t call) const { return static_cast<uint8_t*>(at(i, call)); }
  int32_t* whole(size_t i, int64_t call) const { return static_cast<int32_t*>(at(i, call)); }
  template <class T>
  T* small(size_t i) const {
    return small_[i].as<T>();
  }
  int copies() const { return memory_->copies(); }

 private:
  static int64_t size(const Spec& s) {
    return static_cast<int64_t>(bytes_per_element(s.dtype) * static_cast<double>(s.elements));
  }
  void* at(size_t i, int64_t call) const {
    return static_cast<char*>(memory_->at(call)) + places_[i];
  }

  std::vector<int64_t> places_;
  std::optional<Operands> memory_;
  std::vector<DeviceMemory> small_;
};

constexpr DType kBf16 = DType::bf16, kFp32 = DType::fp32, kBytes = DType::uint8;

Timing time_norm(const Bench& bench, Kernel kernel, MemoryShape x) {
  const int64_t n = x.elements(), w = x.width;
  const cudaStream_t s = bench.stream;
  const bool backward =
      kernel == Kernel::layer_norm_backward || kernel == Kernel::rms_norm_backward;
  const Arrays a(
      bench, {{kBf16, n}, {kBf16, n}, {kBf16, backward ? n : 0}},
      {{kBf16, w}, {kBf16, w}, {kFp32, x.rows}, {kFp32, x.rows}, {kFp32, w}, {kFp32, w}});
  const auto* const gain = a.small<Bf16>(0);
  const auto* const bias = a.small<Bf16>(1);
  auto* const mean = a.small<float>(2);
  auto* const rstd = a.small<float>(3);
  auto* const dgain = a.small<float>(4);
  auto* const dbias = a.small<float>(5);
  const auto call = [&](int64_t i) {
    switch (kernel) {
      case Kernel::layer_norm:
        return layer_norm(a.bf16(0, i), gain, bias, a.bf16(1, i), mean, rstd, x.rows, w, s);
      case Kernel::layer_norm_backward:
        return layer_norm_backward(a.bf16(0, i), a.bf16(1, i), gain, mean, rstd, a.bf16(2, i),
                                   dgain, dbias, x.rows, w, s);
      case Kernel::rms_norm: return rms_norm(a.bf16(0, i), gain, a.bf16(1, i), rstd, x.rows, w, s);
      default:
        return rms_norm_backward(a.bf16(0, i), a.bf16(1, i), gain, rstd, a.bf16(2, i), dgain,
                                 x.rows, w, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

Timing time_rotary(const Bench& bench, Kernel kernel, MemoryShape x) {
  constexpr int64_t kPositions = 4096;
  const int64_t heads = x.width / kHeadDim;
  const Arrays a(bench, {{kBf16, x.elements()}}, {{kFp32, kPositions * kHeadDim}});
  auto* const table = a.small<float2>(0);
  rotary_table(table, kPositions, kHeadDim, kRotaryBase, bench.stream);
  const bool backward = kernel == Kernel::rotary_backward;
  return time_calls(
      bench.stream,
      [&](int64_t i) {
        rotary(a.bf16(0, i), table, x.rows, x.width, heads, kHeadDim, kPositions, backward,
               bench.stream);
      },
      bench.timing);
}

// bias_add, dropout and what is made of them.
Timing time_dropout(const Bench& bench, Kernel kernel, MemoryShape x) {
  const int64_t n = x.elements(), w = x.width;
  const cudaStream_t s = bench.stream;
  const bool one = kernel == Kernel::bias_add, all = kernel == Kernel::bias_dropout_add;
  const Arrays a(bench,
                 {{kBf16, n}, {kBf16, one ? 0 : n}, {kBf16, all ? n : 0}, {kBytes, one ? 0 : n}},
                 {{kBf16, w}});
  const auto* const bias = a.small<Bf16>(0);
  const auto call = [&](int64_t i) {
    switch (kernel) {
      case Kernel::bias_add: return bias_add(a.bf16(0, i), bias, x.rows, w, s);
      case Kernel::dropout:
        return dropout(a.bf16(0, i), a.bf16(1, i), a.bytes(3, i), kDropped, kSeed, n, s);
      case Kernel::bias_dropout_add:
        return bias_dropout_add(a.bf16(0, i), bias, a.bf16(1, i), a.bf16(2, i), a.bytes(3, i),
                                kDropped, kSeed, x.rows, w, s);
      default:  // the gradient of bias_dropout_add's branch is dropout's
        return dropout_backward(a.bf16(0, i), a.bytes(3, i), a.bf16(1, i), kDropped, n, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

Timing time_activation(const Bench& bench, Kernel kernel, MemoryShape x) {
  const int64_t n = x.elements();
  const cudaStream_t s = bench.stream;
  const bool backward = kernel == Kernel::activation_backward;
  const Arrays a(bench, {{kBf16, 2 * n}, {kBf16, n}, {kBf16, backward ? 2 * n : 0}});
  const auto call = [&](int64_t i) {
    if (backward) {
      gated_silu_backward(a.bf16(0, i), a.bf16(1, i), a.bf16(2, i), x.rows, x.width, s);
    } else {
      gated_silu(a.bf16(0, i), a.bf16(1, i), x.rows, x.width, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

Timing time_plain(const Bench& bench, Kernel kernel, MemoryShape x) {
  const int64_t n = x.elements();
  const cudaStream_t s = bench.stream;
  const bool wide = kernel == Kernel::cast || kernel == Kernel::fill || kernel == Kernel::scale;
  const bool one = kernel == Kernel::fill || kernel == Kernel::scale;
  const bool three = kernel == Kernel::add;
  const Arrays a(bench, {{wide ? kFp32 : kBf16, n}, {kBf16, one ? 0 : n}, {kBf16, three ? n : 0}});
  const auto call = [&](int64_t i) {
    switch (kernel) {
      case Kernel::add: return add(a.bf16(0, i), a.bf16(1, i), a.bf16(2, i), n, s);
      case Kernel::cast: return cast(a.fp32(0, i), a.bf16(1, i), n, s);
      case Kernel::fill: return fill(a.fp32(0, i), 0, n, s);
      case Kernel::scale: return scale(a.fp32(0, i), nullptr, 0.999F, n, s);
      case Kernel::transpose: return transpose(a.bf16(0, i), a.bf16(1, i), 1, x.rows, x.width, s);
      default: return copy(a.bf16(0, i), a.bf16(1, i), n, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

Timing time_reduction(const Bench& bench, Kernel kernel, MemoryShape x) {
  const int64_t n = x.elements(), w = x.width;
  const cudaStream_t s = bench.stream;
  const bool loss = kernel == Kernel::cross_entropy || kernel == Kernel::cross_entropy_backward;
  const bool norm = kernel == Kernel::grad_norm;
  const bool second = kernel != Kernel::bias_backward && !norm;
  const Arrays a(bench, {{norm ? kFp32 : kBf16, n}, {loss ? kFp32 : kBf16, second ? n : 0}},
                 {{kFp32, w}, {kFp32, x.rows}, {kFp32, x.rows}});
  auto* const sums = a.small<float>(0);
  auto* const losses = a.small<float>(1);
  auto* const targets = a.small<int32_t>(2);
  fill_indices(targets, x.rows, static_cast<int32_t>(w), kSeed, s);
  const auto call = [&](int64_t i) {
    switch (kernel) {
      case Kernel::bias_backward: return bias_backward(a.bf16(0, i), sums, x.rows, w, s);
      case Kernel::softmax: return softmax(a.bf16(0, i), a.bf16(1, i), 0.125F, false, x.rows, w, s);
      case Kernel::softmax_backward:
        return softmax_backward(a.bf16(0, i), a.bf16(1, i), 0.125F, x.rows, w, s);
      case Kernel::cross_entropy:
        return cross_entropy(a.bf16(0, i), targets, a.fp32(1, i), losses, x.rows, w, s);
      case Kernel::cross_entropy_backward:
        return cross_entropy_backward(a.fp32(1, i), targets, a.bf16(0, i), 1, x.rows, w, s);
      default: return grad_norm(a.fp32(0, i), n, sums, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

Timing time_embedding(const Bench& bench, Kernel kernel, MemoryShape x) {
  const cudaStream_t s = bench.stream;
  const Arrays a(bench, {{kBf16, x.elements()}}, {{kBf16, kVocabulary * x.width}});
  auto* const table = a.small<Bf16>(0);
  // Other tokens for each copy: rows of the table that the call before has read are in the cache.
  const int64_t count = x.rows * a.copies();
  const DeviceMemory all_tokens(count * static_cast<int64_t>(sizeof(int32_t)));
  fill_indices(all_tokens.as<int32_t>(), count, static_cast<int32_t>(kVocabulary), kSeed, s);
  const auto call = [&](int64_t i) {
    const int32_t* const tokens = all_tokens.as<int32_t>() + i % a.copies() * x.rows;
    if (kernel == Kernel::embedding) {
      embedding(tokens, table, a.bf16(0, i), x.rows, x.width, s);
    } else {
      embedding_backward(tokens, a.bf16(0, i), table, x.rows, x.width, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

// Copy c of token t goes to place (t step + c) rows + ..., a fixed permutation that spreads a
// token's copies over all experts' parts.
std::vector<int32_t> places_of(int64_t tokens) {
  std::vector<int32_t> places;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < kTokenCopies; ++c) {
      places.push_back(static_cast<int32_t>(c * tokens + (t + c * 7919) % tokens));
    }
  }
  return places;
}

Timing time_permute(const Bench& bench, Kernel kernel, MemoryShape x) {
  const cudaStream_t s = bench.stream;
  const int64_t n = x.elements();
  const Arrays a(bench, {{kBf16, n}, {kBf16, n * kTokenCopies}},
                 {{kFp32, x.rows * kTokenCopies}, {kFp32, x.rows * kTokenCopies}});
  auto* const places = a.small<int32_t>(0);
  const auto* const weights = a.small<float>(1);
  const std::vector<int32_t> host = places_of(x.rows);
  check_cuda(
      cudaMemcpyAsync(places, host.data(), host.size() * sizeof host[0], cudaMemcpyHostToDevice, s),
      "places of tokens");
  check_cuda(cudaStreamSynchronize(s), "places of tokens");
  const auto call = [&](int64_t i) {
    if (kernel == Kernel::permute) {
      permute(a.bf16(0, i), places, a.bf16(1, i), x.rows, kTokenCopies, x.width, s);
    } else {
      unpermute(a.bf16(1, i), places, weights, a.bf16(0, i), x.rows, kTokenCopies, x.width, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

Timing time_router(const Bench& bench, Kernel kernel, MemoryShape x) {
  const cudaStream_t s = bench.stream;
  const int64_t n = x.elements();
  const bool backward = kernel == Kernel::router_backward;
  const Arrays a(
      bench,
      {{kBf16, n}, {kFp32, n}, {kFp32, n}, {kFp32, backward ? n : 0}, {kBytes, backward ? 0 : n}});
  const auto call = [&](int64_t i) {
    if (!backward) {
      router(a.bf16(0, i), a.fp32(1, i), a.fp32(2, i), a.bytes(4, i), x.rows, x.width, kTokenCopies,
             s);
    } else {
      router_backward(a.fp32(1, i), a.fp32(2, i), a.fp32(3, i), a.bf16(0, i), x.rows, x.width, s);
    }
  };
  return time_calls(s, call, bench.timing);
}

// The parameters as 16 tensors of equal size, or one where they are few.
Timing time_adam(const Bench& bench, MemoryShape x) {
  const int64_t n = x.elements();
  const int64_t parts = n % (16 * 8) == 0 ? 16 : 1;
  const Arrays a(bench, {{kFp32, n}, {kFp32, n}, {kFp32, n}, {kFp32, n}});
  std::vector<std::vector<AdamTensor>> lists;
  for (int64_t copy = 0; copy < a.copies(); ++copy) {
    lists.emplace_back();
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t at = n / parts * p;
      lists.back().push_back({a.fp32(0, copy) + at, a.fp32(1, copy) + at, a.fp32(2, copy) + at,
                              a.fp32(3, copy) + at, n / parts});
    }
    // Second moments are squares.
    check_cuda(
        cudaMemsetAsync(a.fp32(3, copy), 0, static_cast<size_t>(n) * sizeof(float), bench.stream),
        "moments");
  }
  const AdamStep step;
  return time_calls(
      bench.stream,
      [&](int64_t i) { adam(lists[static_cast<size_t>(i % a.copies())], step, bench.stream); },
      bench.timing);
}

Timing time_quantize(const Bench& bench, MemoryShape x) {
  const int64_t n = x.elements();
  const Arrays a(bench, {{kBf16, n}, {kBytes, n}, {kBytes, n}}, {{kFp32, n / (128 * 128)}});
  return time_calls(
      bench.stream,
      [&](int64_t i) {
        quantize(a.bf16(0, i), a.bytes(1, i), a.bytes(2, i), a.small<float>(0), x.rows, x.width,
                 bench.stream);
      },
      bench.timing);
}

}  // namespace

Timing time_memory(const Bench& bench, Kernel kernel, int64_t bytes) {
  const MemoryShape x = memory_shape(kernel, bytes);
  switch (kernel) {
    case Kernel::layer_norm:
    case Kernel::layer_norm_backward:
    case Kernel::rms_norm:
    case Kernel::rms_norm_backward: return time_norm(bench, kernel, x);
    case Kernel::rotary:
    case Kernel::rotary_backward: return time_rotary(bench, kernel, x);
    case Kernel::bias_add:
    case Kernel::dropout:
    case Kernel::dropout_backward:
    case Kernel::bias_dropout_add:
    case Kernel::bias_dropout_add_backward: return time_dropout(bench, kernel, x);
    case Kernel::activation:
    case Kernel::activation_backward: return time_activation(bench, kernel, x);
    case Kernel::add:
    case Kernel::transpose:
    case Kernel::cast:
    case Kernel::fill:
    case Kernel::copy:
    case Kernel::scale: return time_plain(bench, kernel, x);
    case Kernel::bias_backward:
    case Kernel::softmax:
    case Kernel::softmax_backward:
    case Kernel::cross_entropy:
    case Kernel::cross_entropy_backward:
    case Kernel::grad_norm: return time_reduction(bench, kernel, x);
    case Kernel::embedding:
    case Kernel::embedding_backward: return time_embedding(bench, kernel, x);
    case Kernel::permute:
    case Kernel::unpermute: return time_permute(bench, kernel, x);
    case Kernel::router:
    case Kernel::router_backward: return time_router(bench, kernel, x);
    case Kernel::adam: return time_adam(bench, x);
    case Kernel::quantize: return time_quantize(bench, x);
    case Kernel::none: break;
  }
  throw Unsupported("no such kernel");
}

}  // namespace stepcast::measure
