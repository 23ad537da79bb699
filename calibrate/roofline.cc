// SPDX-License-Identifier: Apache-2.0
#include "calibrate/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sim/check.h"
#include "sim/csv.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> roofline_files();

namespace {

struct Efficiency {
  double gemm = 0, attention_forward = 0, attention_backward = 0, memory = 0, t0_us = 0;
};
constexpr size_t kArchs = 5;
using Efficiencies = std::array<Efficiency, kArchs>;

constexpr std::array<std::string_view, kArchs> kArchNames{"volta", "ampere", "hopper", "blackwell",
                                                          "other"};

Efficiencies read_efficiencies(std::string_view text) {
  Efficiencies all{};
  for (const CsvRow& row :
       csv_rows(text, "arch,gemm,attention_forward,attention_backward,memory,t0_us")) {
    const auto arch = std::ranges::find(kArchNames, row.cells[0]);
    STEPCAST_CHECK(arch != kArchNames.end(), "roofline.csv: " + std::string(row.cells[0]));
    all[static_cast<size_t>(arch - kArchNames.begin())] = {
        row.number(1), row.number(2), row.number(3), row.number(4), row.number(5)};
  }
  for (const Efficiency& e : all) STEPCAST_CHECK(e.gemm > 0, "roofline.csv lacks a generation");
  return all;
}

const Efficiency& efficiency(GpuArch arch) {
  static const Efficiencies all = read_efficiencies(roofline_files()[0].second);
  return all[static_cast<size_t>(arch)];
}

// Peak of the type, or of the one that the hardware would run it as; 0 if the GPU states none.
double peak(const Gpu& gpu, DType type) {
  const auto stated = [&](DType t) {
    const auto found = gpu.peak.find(t);
    return found == gpu.peak.end() ? 0 : found->second.value;
  };
  static constexpr std::array<std::array<DType, 4>, 8> kInstead{{
      /* fp32 */ {DType::fp32, DType::tf32, DType::bf16, DType::fp16},
      /* tf32 */ {DType::tf32, DType::fp32, DType::bf16, DType::fp16},
      /* fp16 */ {DType::fp16, DType::bf16, DType::tf32, DType::fp32},
      /* bf16 */ {DType::bf16, DType::fp16, DType::tf32, DType::fp32},
      /* fp8 */ {DType::fp8, DType::bf16, DType::fp16, DType::fp32},
      /* int8 */ {DType::int8, DType::fp8, DType::bf16, DType::fp16},
      /* fp4 */ {DType::fp4, DType::fp8, DType::bf16, DType::fp16},
      /* uint8 */ {DType::int8, DType::fp8, DType::bf16, DType::fp16},
  }};
  for (const DType t : kInstead[static_cast<size_t>(type)]) {
    if (const double rate = stated(t); rate > 0) return rate;
  }
  return 0;
}

double gemm_bytes(const Work& w) {
  const auto m = static_cast<double>(w.m);
  const auto n = static_cast<double>(w.n);
  const auto k = static_cast<double>(w.k);
  const double in = bytes_per_element(w.dtype);
  // fp8 and fp4 products are written in 16 bits; an accumulating one reads its output as well.
  const double out = w.accumulate ? 2 * bytes_per_element(w.sum) : std::max(in, 2.0);
  return static_cast<double>(w.batch) * (in * (m * k + k * n) + out * m * n);
}

// Forward: reads Q, K, V, writes O.  Backward: reads those and dO, writes dQ, dK, dV.
double attention_bytes(const Work& w) {
  const auto rows = static_cast<double>(w.m) * static_cast<double>(w.heads);
  const auto columns = static_cast<double>(w.n) * static_cast<double>(w.kv_heads);
  const double tensors =
      w.kind == WorkKind::attention_forward ? 2 * rows + 2 * columns : 4 * rows + 4 * columns;
  // As many tensors are as wide as queries as are as wide as values.
  const double width = static_cast<double>(w.value_dim > 0 ? w.k + w.value_dim : 2 * w.k) / 2;
  return tensors * width * static_cast<double>(w.batch) * bytes_per_element(w.dtype);
}

// More than any memory holds where sizes are made up.
Bytes whole_bytes(double bytes) {
  return {static_cast<int64_t>(std::min(std::ceil(bytes), 9e18))};
}

// cudaMemcpyAsync between device and pinned host memory: 26 to 27 of the 31.5 GB/s of PCIe 4.0 x16,
// 54 to 55 of the 63 GB/s of PCIe 5.0 x16.
constexpr double kHostCopyShare = 0.85;

// Streaming kernels on the host: STREAM triad of two EPYC 7742 reaches about 340 of the 409.6 GB/s
// of their 16 channels of DDR4-3200.  CPU Adam of ZeRO-Offload (Ren et al. 2021, arXiv 2101.06840,
// section 5) is vectorised and bound by memory like it.
constexpr double kHostMemoryShare = 0.83;

// Share of a bandwidth of the data sheet, bytes a second, that a kernel reaches.
struct MemoryRate {
  double share = 0, of = 0;
};

MemoryRate memory_rate(const Work& work, const Gpu& gpu, const Efficiency& e) {
  if (work.kind == WorkKind::host_copy) return {kHostCopyShare, gpu.host_bandwidth.value};
  if (work.kind == WorkKind::host_adam) return {kHostMemoryShare, gpu.host_memory.value};
  return {e.memory, gpu.memory_bandwidth.value};
}

}  // namespace

std::string_view name_of(GpuArch arch) {
  return kArchNames[static_cast<size_t>(arch)];
}

Bytes operand_bytes(const Work& w) {
  if (w.bytes.value > 0) return w.bytes;
  switch (w.kind) {
    case WorkKind::gemm:
    case WorkKind::grouped_gemm: return whole_bytes(gemm_bytes(w));
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: return whole_bytes(attention_bytes(w));
    default: return w.bytes;
  }
}

Time roofline_time(const Work& work, const Gpu& gpu, PriceParts* parts) {
  STEPCAST_CHECK(!is_communication(work.kind), describe(work));
  const Efficiency& e = efficiency(gpu.arch);
  double share = 0;
  if (work.kind == WorkKind::gemm || work.kind == WorkKind::grouped_gemm) share = e.gemm;
  if (work.kind == WorkKind::attention_forward) share = e.attention_forward;
  if (work.kind == WorkKind::attention_backward) share = e.attention_backward;
  const double rate = share * peak(gpu, work.dtype);
  const double c = rate > 0 ? work.flops.value / rate : 0;
  const MemoryRate memory = memory_rate(work, gpu, e);
  const double bandwidth = memory.share * memory.of;
  const auto bytes = static_cast<double>(operand_bytes(work).value);
  const double m = bandwidth > 0 ? bytes / bandwidth : 0;
  const double seconds = e.t0_us * 1e-6 + std::sqrt(c * c + m * m);
  if (parts != nullptr)
    parts->form = {.source = "data sheet of " + gpu.name,
                   .t0_us = e.t0_us,
                   .flops = work.flops.value,
                   .tflops = rate * 1e-12,
                   .bytes = bytes,
                   .gbs = bandwidth * 1e-9,
                   .tflops_share = share,
                   .gbs_share = memory.share,
                   .us = seconds * 1e6};
  return time_from_seconds(seconds);
}

}  // namespace stepcast
