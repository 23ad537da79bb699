// SPDX-License-Identifier: Apache-2.0
// What rows of a cost table are called and measured against in views and pictures.
#pragma once

#include <optional>
#include <string>

#include "calibrate/table/table_text.h"
#include "sim/graph/work.h"

namespace stepcast::cli {

// By the fit of its type; nothing if there is none.  Microseconds.
std::optional<double> fitted_us(const TableText& table, const GemmRow& row);
std::optional<double> fitted_us(const TableText& table, const AttentionRow& row);
std::optional<double> fitted_us(const TableText& table, const MemoryRow& row);

// Bus bandwidth over size / time, as nccl-tests defines it (NVIDIA/nccl-tests doc/PERFORMANCE.md).
double bus_factor(WorkKind kind, int64_t ranks);

// "8 ranks on 1 node", "16 ranks on 2 nodes, 50 GB/s": GB/s of one GPU's share of the NICs.
std::string group_text(int64_t ranks, int64_t nodes, double nic_gbs);

}  // namespace stepcast::cli
