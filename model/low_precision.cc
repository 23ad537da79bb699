// SPDX-License-Identifier: Apache-2.0
#include "model/low_precision.h"

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int64_t kMaximumBytes = 4;  // bytes of a tensor's maximum, and of its scale

}  // namespace

LowFormat low_format(const Precision& p) {
  LowFormat f;
  f.dtype = DType::fp8;
  switch (p.scaling) {
    case Scaling::none: STEPCAST_CHECK(false, "there is no low precision"); break;
    case Scaling::delayed:
      f.two_copies = p.low_transposes;
      f.norm_quantizes = true;
      break;
    case Scaling::tensorwise:
      f.two_copies = p.low_transposes;
      f.maximum_first = true;
      break;
    case Scaling::blockwise: f.scaled = 128, f.scale_bytes = 4, f.two_copies = true; break;
    case Scaling::mxfp8:
      f.scaled = 32, f.scale_bytes = 1, f.two_copies = true;
      f.swizzles = true;
      break;
    case Scaling::nvfp4:
      f.dtype = DType::fp4;
      f.scaled = 16, f.scale_bytes = 1, f.two_copies = true;
      f.maximum_first = f.own_kernels = f.swizzles = true;
      break;
    case Scaling::int8:
      f.dtype = DType::int8;
      f.two_copies = f.own_kernels = true;
      break;
  }
  return f;
}

Bytes LowFormat::scale_bytes_of(int64_t values) const {
  return {scaled == 0 ? 0 : (values + scaled - 1) / scaled * scale_bytes};
}

Bytes LowFormat::bytes(int64_t values) const {
  const auto data = static_cast<int64_t>(static_cast<double>(values) * bytes_per_element(dtype));
  return Bytes{data} + scale_bytes_of(values);
}

Bytes quantize_bytes(const LowFormat& format, int64_t values, DType wide, int copies) {
  const auto read = static_cast<int64_t>(static_cast<double>(values) * bytes_per_element(wide));
  return Bytes{read} + format.bytes(values) * copies;
}

Bytes kept_bytes(KeptFormat format, int64_t values, DType wide) {
  const auto with_scales = [values](int64_t bits) {
    constexpr int64_t kScaled = 128, kScaleBytes = 4;
    return Bytes{(values * bits + 7) / 8 + (values + kScaled - 1) / kScaled * kScaleBytes};
  };
  switch (format) {
    case KeptFormat::params: break;
    case KeptFormat::fp8: return with_scales(8);
    case KeptFormat::e5m6: return with_scales(1 + 5 + 6);
  }
  return {static_cast<int64_t>(static_cast<double>(values) * bytes_per_element(wide))};
}

// ---------------------------------------------------------------------------------------- weights
std::vector<int64_t> low_weights(const OpGraph& graph, PassId forward) {
  std::vector<int64_t> values;
  for (const Op& op : graph.passes[static_cast<size_t>(forward)].ops) {
    const Work& w = graph.works[static_cast<size_t>(op.work)];
    const bool gemm = w.kind == WorkKind::gemm || w.kind == WorkKind::grouped_gemm;
    const bool low = w.dtype == DType::fp8 || w.dtype == DType::int8 || w.dtype == DType::fp4;
    if (!gemm || !low || w.layout != GemmLayout::tn) continue;
    if (op.role == OpRole::later_piece) continue;  // its weights have been counted
    values.push_back(w.n * w.k * w.batch);
  }
  return values;
}

std::vector<Work> weight_casts(const Shard& shard, int64_t values) {
  const Precision& p = shard.plan.precision;
  const LowFormat f = low_format(p);
  std::vector<Work> works;
  const auto kernel = [&](Bytes moved) {
    works.push_back(shard.memory_bound(Kernel::quantize, moved));
  };
  if (kept_low(p)) {
    // The copy along rows has been gathered.
    if (f.two_copies) kernel(f.bytes(values) * 2);
    return works;
  }
  if (f.maximum_first) {
    kernel(shard.bytes(values, 1));
    kernel({2 * kMaximumBytes});
  }
  const int copies = f.two_copies ? 2 : 1;
  const int kernels = f.own_kernels ? copies : 1;
  for (int i = 0; i < kernels; ++i)
    kernel(quantize_bytes(f, values, p.params, f.own_kernels ? 1 : copies));
  return works;
}

// MXFP8's two copies are not transposes of each other: 16 bits are gathered (in a buffer that is
// there anyway) and converted.
bool kept_low(const Precision& p) {
  return p.low_params && p.scaling != Scaling::none && p.scaling != Scaling::mxfp8;
}

}  // namespace stepcast
