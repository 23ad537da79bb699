// SPDX-License-Identifier: Apache-2.0
// The units that times are written in, by scenarios and in conditions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stepcast {

struct TimeUnit {
  std::string_view text;
  int64_t picoseconds;
  std::string_view word = {};  // refused, with the advice to write `text`; a plural s may follow
};

inline constexpr std::array<TimeUnit, 8> kTimeUnits{{{"ps", 1, "picosecond"},
                                                     {"ns", 1'000, "nanosecond"},
                                                     {"us", 1'000'000, "microsecond"},
                                                     {"ms", 1'000'000'000, "millisecond"},
                                                     {"s", 1'000'000'000'000, "second"},
                                                     {"min", 60'000'000'000'000, "minute"},
                                                     {"h", 3'600'000'000'000'000, "hour"},
                                                     {"d", 86'400'000'000'000'000, "day"}}};

// Null if the text is no unit of time.
constexpr const TimeUnit* find_time_unit(std::string_view text) {
  for (const TimeUnit& u : kTimeUnits)
    if (u.text == text) return &u;
  return nullptr;
}

// The unit that a word means which is none: of "hour" and "hours".  Null for others.
constexpr const TimeUnit* time_unit_of_word(std::string_view word) {
  if (word.ends_with('s')) word.remove_suffix(1);
  for (const TimeUnit& u : kTimeUnits)
    if (u.word == word) return &u;
  return nullptr;
}

}  // namespace stepcast
