// SPDX-License-Identifier: Apache-2.0
// Whether a table's times can be those of its GPU.
//
// A table is taken at its word: a forecast with one whose times are a thousandth of what was
// measured (a unit mistaken, a column shifted) has a utilization of more than 100 % and looks like
// any other.  So products, fused attention and memory-bound kernels are held against the data
// sheet:
//
//   faster than plausible   Products and attention at more than 1.1 times the peak of their type.
//                           The clock may be above the one for which the peak is stated, by 8 % on
//                           an H100 (1980 against 1830 MHz); the fastest shipped row reaches 0.93.
//                           Kernels at more than 4 times the memory bandwidth, which caches can do.
//   slower than plausible   More than 100 times (peak roofline + 20 us); the slowest shipped row,
//                           an unfused predecessor of today's attention, takes 13 times that.
//
//   launches                More than 10 ms, by the host: those of the shipped tables take some
//                           microseconds, and a thousand times that is a mistake of the unit.
//
// Copies and collectives are not checked: the data sheet does not have all that bounds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/table/table_text.h"
#include "sim/diagnostic.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// E311 for the rows that are faster than is plausible on `gpu`, and for those that are slower: each
// names the first such row, what is plausible for it, and how many there are.  `file` is the
// table's name and `text` what it was read from, which gives the row its line; a table made in
// memory has neither.  A rate that the GPU does not state bounds nothing.
std::vector<Diagnostic> implausible_times(const TableText& table, const Gpu& gpu,
                                          const std::string& file = {}, std::string_view text = {});

// Throws them as an InputError, if there are any.
void check_plausible(const TableText& table, const Gpu& gpu, const std::string& file = {},
                     std::string_view text = {});

}  // namespace stepcast
