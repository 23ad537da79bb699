// SPDX-License-Identifier: Apache-2.0
// A cost table as it stands in its file: header and rows, checked one by one, nothing computed.
// docs/costs.md has the format.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/work.h"

namespace stepcast {

// Where rows come from.  Derived: carried over from other hardware or computed from other rows; a
// price that uses one is at best an extrapolation.
struct TableSource {
  std::string key;
  bool derived = false;
  std::string text;
};

struct GemmRow {
  DType dtype{};
  GemmLayout layout{};
  int64_t m = 0, n = 0, k = 0, batch = 1;
  double us = 0;
  uint16_t source = 0;  // index into TableText::sources
};

struct AttentionRow {
  bool backward = false;
  DType dtype{};
  bool causal = false;
  int64_t heads = 0, kv_heads = 0;
  int64_t m = 0, n = 0, k = 0, batch = 1;  // query length, key length, head dimension, sequences
  double us = 0;
  uint16_t source = 0;
};

struct MemoryRow {
  Kernel kernel{};
  int64_t bytes = 0;  // read + written
  double us = 0;
  uint16_t source = 0;
};

struct CollectiveRow {
  WorkKind kind{};
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0;
  double nic_gbs = 0;  // GB/s of one GPU's share of the NICs, one direction; 0 within a node
  int64_t bytes = 0;   // as nccl-tests counts it
  double us = 0;
  uint16_t source = 0;
};

// Constants of a smooth form: t = t0 + sqrt(c^2 + m^2), c = flops / tflops, m = bytes / gbs.
struct FitRow {
  WorkKind kind{};
  DType dtype{};
  double t0_us = 0, tflops = 0, gbs = 0;  // 0: that term is absent
  uint16_t source = 0;
};

// Families of rows that one table may take over from another one.
enum class Family : uint8_t { gemm, attention, memory, launch, collective };
constexpr int kFamilies = 5;

struct TableText {
  std::string gpu;
  std::string about;
  double nvlink_gbs = 0;              // the collectives were measured with; 0 = not stated
  bool in_network_reduction = false;  // ... and whether the NVSwitches reduced (NVLS)
  std::string share_from;             // GPU whose table answers for `shared`; may be empty
  std::array<bool, kFamilies> shared{};

  std::vector<TableSource> sources;
  std::vector<GemmRow> gemms;
  std::vector<AttentionRow> attentions;
  std::vector<MemoryRow> memories;
  std::vector<CollectiveRow> collectives;
  std::vector<FitRow> fits;
  std::optional<double> launch_us;
  // Times beside each other over times alone: of compute, of a collective.
  std::optional<std::pair<double, double>> interference;
  // Time of a layout against tn at the same shape, and of GEMMs with a side of at most 256.
  std::optional<double> ratio_nn, ratio_nt, ratio_skinny;
};

// Throws InputError with all problems (at most 20):
//   E301 not a cost table         E305 a number is missing, malformed or not positive
//   E302 a newer format           E306 an unknown word
//   E303 the header is incomplete E307 a row that was there before
//   E304 a row of the wrong form  E308 truncated, or rows added without counting them
TableText parse_table_text(std::string_view text, const std::string& file_name);

}  // namespace stepcast
