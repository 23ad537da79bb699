// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/table/gemm_prices.h"
#include "sim/check.h"
#include "sim/csv.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> roofline_files();

namespace {

struct Efficiency {
  double gemm = 0, attention_forward = 0, attention_backward = 0, memory = 0, t0_us = 0;
};
// By row of roofline.csv.
using Efficiencies = std::map<std::string, Efficiency, std::less<>>;

Efficiencies read_efficiencies(std::string_view text) {
  Efficiencies all;
  for (const CsvRow& row :
       csv_rows(text, "arch,gemm,attention_forward,attention_backward,memory,t0_us")) {
    all[std::string(row.cells[0])] = {row.number(1), row.number(2), row.number(3), row.number(4),
                                      row.number(5)};
  }
  return all;
}

const Efficiency& efficiency(GpuArch arch) {
  static const Efficiencies all = read_efficiencies(roofline_files()[0].second);
  const auto found = all.find(architecture(arch).roofline);
  STEPCAST_CHECK(found != all.end() && found->second.gemm > 0, "roofline.csv lacks a generation");
  return found->second;
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

double peak_rate(const Gpu& gpu, DType type) {
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

Time roofline_time(const Work& work, const Gpu& gpu, PriceParts* parts) {
  STEPCAST_CHECK(!is_communication(work.kind), describe(work));
  const Efficiency& e = efficiency(gpu.arch);
  double share = 0;
  if (work.kind == WorkKind::gemm || work.kind == WorkKind::grouped_gemm) share = e.gemm;
  if (work.kind == WorkKind::attention_forward) share = e.attention_forward;
  if (work.kind == WorkKind::attention_backward) share = e.attention_backward;
  const double rate = share * peak_rate(gpu, work.dtype);
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
