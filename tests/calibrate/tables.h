// SPDX-License-Identifier: Apache-2.0
// Cost tables that tests of reading, writing, fitting and comparing them begin with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/fit/fit.h"
#include "calibrate/table/table_text.h"
#include "sim/diagnostic.h"
#include "tests/calibrate/works.h"

namespace stepcast::test {

// A GPU's name and two sources: 0 measured, 1 derived.
inline TableText empty_table() {
  TableText t;
  t.gpu = "test-gpu";
  t.sources = {{"bench", false, "a benchmark, 2 runs"}, {"other", true, "from another GPU"}};
  return t;
}

// Of every family one row or more, sorted by shape.
inline TableText full_table() {
  TableText t = empty_table();
  t.about = "a GPU: with a colon";
  t.software = "CUDA 13.0, NCCL 2.28.3";
  t.conditions = {"SM clock 1410 MHz", "2026-01-31"};
  t.nvlink_gbs = 450.5;
  t.in_network_reduction = true;
  t.share_from = "h100-sxm";
  t.shared[static_cast<size_t>(Family::launch)] = true;
  t.gemms = {{DType::bf16, GemmLayout::tn, 4096, 576, 5120, 1, 155.87, 0, 0.012},
             {DType::bf16, GemmLayout::tn, 64, 768, 1024, 1, 5, 0, 0},
             {DType::bf16, GemmLayout::nt, 4096, 576, 5120, 8, 1e7, 1, 0}};
  t.attentions = {{false, DType::bf16, true, 32, 8, 4096, 4096, 128, 1, 778.3, 0, 0.5},
                  {true, DType::bf16, true, 32, 8, 4096, 4096, 128, 1, 2001, 1, 0}};
  t.memories = {{Kernel::layer_norm, 1 << 20, 12.5, 0, 0.1}, {Kernel::add, 4096, 2.6, 0, 0}};
  t.copies = {{CopyKind::h2d, 1 << 20, 40.25, 0.02, 0}, {CopyKind::d2d, 1 << 20, 2.5, 0, 0}};
  t.collectives = {{WorkKind::all_reduce, 8, 1, 8, 0, 1 << 20, 41, 0, 0.3},
                   {WorkKind::all_reduce, 16, 2, 8, 6.25, 1 << 20, 120.1, 0, 0}};
  t.launch_us = 4.1;
  t.launch_spread = 0.2;
  t.graph_launch_us = 1.6;
  t.graph_launch_source = 1;
  t.interference = {1.161, 1.481};
  t.fits = {{WorkKind::gemm, DType::bf16, 5.3, 230, 1695, 1, 12, 0.03, 0.11, FitFlag::partial},
            {WorkKind::memory_bound, DType::bf16, 2.5, 0, 0, 0, 0, 0, 0, FitFlag::none}};
  t.ratio_nn = 0.99;
  t.ratio_nt = 1.01;
  t.ratio_nt_source = 1;
  t.ratio_skinny = 1.2;
  return t;
}

// Products with the times of a smooth roofline: overhead t0 (us), tflops, gbs.
inline std::vector<GemmRow> smooth_gemms(double t0, double tflops, double gbs) {
  std::vector<GemmRow> rows;
  for (int64_t m = 64; m <= 16384; m *= 2) {
    for (int64_t n = 1024; n <= 8192; n *= 2) {
      GemmRow r{DType::bf16, GemmLayout::tn, m, n, 4096, 1, 0, 0, 0};
      const auto size = [](int64_t a, int64_t b) { return static_cast<double>(a * b); };
      r.us =
          fitted_us({.t0_us = t0, .tflops = tflops, .gbs = gbs},
                    {2 * size(m, n) * 4096, 2 * (size(m, n) + size(m, 4096) + size(n, 4096)), 0});
      rows.push_back(r);
    }
  }
  return rows;
}

// The diagnostics that a call throws; none if it does not.
template <class Call>
std::vector<Diagnostic> problems_of(Call call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.diagnostics;
  }
  return {};
}

}  // namespace stepcast::test
