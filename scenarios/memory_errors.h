// SPDX-License-Identifier: Apache-2.0
// What forecasts of the memory of published runs, set beside what was measured, say of the error of
// the next one (memory_errors.csv; docs/trust.md).
//
// Sources print one of two quantities: what the framework allocated, or what its caching allocator
// reserved.  Each has a class of its own, as errors of the second are those of the first and of the
// allocator's gaps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/results/result.h"
#include "sim/units.h"

namespace stepcast {

// Shares of measured / forecast that lie below a column of the table: nine sources, of which
// four print what is reserved, say nothing of one run in a hundred.
inline constexpr std::array<double, 11> kMemoryShares{0.05, 0.1, 0.2, 0.3, 0.4, 0.5,
                                                      0.6,  0.7, 0.8, 0.9, 0.95};

inline constexpr std::string_view kAnyMemory = "memory", kAllocatedMemory = "memory / allocated",
                                  kReservedMemory = "memory / reserved";

struct MemoryErrors {
  std::string name;                                   // one of the above
  int64_t runs = 0, sources = 0;                      // who published them
  std::array<double, kMemoryShares.size()> ratios{};  // measured / forecast, by kMemoryShares
};

// Rows of a table.  Throws InputError if it is none.
std::vector<MemoryErrors> parse_memory_errors(std::string_view text);
std::string memory_errors_csv(std::span<const MemoryErrors> table, std::string_view remark);
// The shipped table.
std::span<const MemoryErrors> memory_errors();
// The class of that name, else the next wider one that is in the table; nullptr if none is.
const MemoryErrors* memory_errors_like(std::span<const MemoryErrors> table, std::string_view name);

// Around the forecast of a memory of that class: the ratios that 80 % of its runs lie between.  The
// forecast lies in its own interval.
MemoryInterval make_memory_interval(Bytes forecast, const MemoryErrors& like);

// Ratios that are told apart where it is asked whether a step fits.
inline constexpr double kLeastMemoryRoom = 0.8, kMostMemoryRoom = 1.25;

// The share of steps that fit, where one fits if measured / forecast is at most `room`
// (room_to_grow in forecast/step.h); between the first and the last of kMemoryShares.
double share_that_fits(const MemoryErrors& like, double room);

}  // namespace stepcast
