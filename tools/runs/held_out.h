// SPDX-License-Identifier: Apache-2.0
// How well tables predict rows that were kept from them: of the shipped tables the measured ones,
// and whole logs of collectives.  Beside it, for contrast, the data sheet's roofline (the larger of
// flops / peak and bytes / bandwidth) and a straight line over bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/table/table_text.h"
#include "sim/graph/price.h"

namespace stepcast::accuracy {

enum class Holdout { rows, weights };  // a fifth of the rows at random; of the (n, k) whole

// |predicted / measured - 1| of the rows held out, by both ways to predict.
struct HeldOutErrors {
  std::vector<double> table, contrast;
  // The table's by the origin it names; under roofline those of Stepcast's own roofline, of all.
  std::array<std::vector<double>, kOrigins> by_origin;
  void add(const HeldOutErrors& other);
};
double percentile(std::vector<double> values, double share);  // NaN without any

// The table answers for the rows that it lost, its fits made anew from those it kept.  Judged are
// measured rows (derived ones were made from others) of batch 1 and of at least 50 us: some clocks
// tick whole microseconds.  The same seed holds out the same rows everywhere.
HeldOutErrors held_out_gemms(const TableText& table, Holdout how, uint32_t seed);
HeldOutErrors held_out_attention(const TableText& table, uint32_t seed);
// Judged are kernels of at least 10 us.
HeldOutErrors held_out_memory(const TableText& table, uint32_t seed);
// Every fourth size of each log kept, from the first on; the others are looked up.
HeldOutErrors thinned_collectives(const std::string& folder, int every);

// Tables that ship, by name, and have measured rows of their own.
std::vector<TableText> tables_with_rows();

// The section of docs/calibration.md, Markdown.  `data` is the folder of the tests' data.
std::string held_out_report(const std::string& data);

}  // namespace stepcast::accuracy
