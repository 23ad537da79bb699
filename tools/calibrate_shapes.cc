// SPDX-License-Identifier: Apache-2.0
#include "tools/calibrate_shapes.h"

#include "calibrate/table/attention_prices.h"
#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/table_text.h"
#include "report/format.h"

namespace stepcast::cli {

std::optional<double> fitted_us(const TableText& table, const GemmRow& row) {
  const FitRow* fit = find_fit(table.fits, WorkKind::gemm, table_dtype(row.dtype));
  if (fit == nullptr) return std::nullopt;
  const double ratio = row.layout == GemmLayout::nn   ? table.ratio_nn.value_or(1)
                       : row.layout == GemmLayout::nt ? table.ratio_nt.value_or(1)
                                                      : 1;
  return smooth_time(work_of(row), *fit) * ratio;
}

std::optional<double> fitted_us(const TableText& table, const AttentionRow& row) {
  const FitRow* fit = find_fit(
      table.fits, row.backward ? WorkKind::attention_backward : WorkKind::attention_forward,
      table_dtype(row.dtype));
  if (fit == nullptr) return std::nullopt;
  return fit->t0_us + attention_flops(row).value / (fit->tflops * 1e6);
}

std::optional<double> fitted_us(const TableText& table, const MemoryRow& row) {
  const FitRow* fit = find_fit(table.fits, WorkKind::memory_bound, DType::bf16);
  if (fit == nullptr || fit->gbs <= 0) return std::nullopt;
  return fit->t0_us + static_cast<double>(row.bytes) / (fit->gbs * 1e3);
}

double bus_factor(WorkKind kind, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  switch (kind) {
    case WorkKind::all_reduce: return 2 * (n - 1) / n;
    case WorkKind::all_gather:
    case WorkKind::reduce_scatter:
    case WorkKind::all_to_all: return (n - 1) / n;
    default: return 1;
  }
}

std::string group_text(int64_t ranks, int64_t nodes, double nic_gbs) {
  return std::to_string(ranks) + " ranks on " + std::to_string(nodes) +
         (nodes == 1 ? " node" : " nodes") + (nodes > 1 ? ", " + rate_text(nic_gbs) + " GB/s" : "");
}

}  // namespace stepcast::cli
