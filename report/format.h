// SPDX-License-Identifier: Apache-2.0
// Numbers and names as a reader sees them: fixed decimals, units, columns.
//
// Everything here is independent of the locale and gives the same bytes on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/text.h"
#include "sim/units.h"

namespace stepcast {

// How text for people is written.  Lines stay within `width` where names allow it.
struct TextStyle {
  bool color = false;  // ANSI colours; only for terminals
  int width = 80;
};

enum class Tone : uint8_t { plain, strong, good, bad, warn, dim };

// `text` between the escape sequences of `tone`, or as it is without colours.
std::string paint(std::string_view text, Tone tone, const TextStyle& style);

// "12.30" with 2 decimals, rounded to nearest; "-" if not finite.
std::string fixed(double value, int decimals);
// "1,234,567"
std::string grouped(int64_t value);

// "1 rank", "4,096 ranks"
std::string counted(int64_t n, std::string_view one, std::string_view many);

// "74.5": count / per_unit without rounding.  REQUIRES: per_unit >= 1 divides a power of ten.
std::string exact_decimal(int64_t count, int64_t per_unit);

// "150.4", "9,997": a rate, with a decimal while that says something.
std::string rate_text(double per_second);

// A unit of time and the decimals that show `whole` with four to five digits, so that a column of
// its parts has one unit.
struct TimeScale {
  int64_t quantum_ps = 1;  // one unit of the last decimal shown
  int decimals = 0;
  std::string_view unit;  // "s", "ms", "us", "ns"
};
TimeScale scale_of(Time whole);
// "13.62": `quanta` of the scale, without the unit.
std::string format_quanta(int64_t quanta, const TimeScale& scale);
// "13.62 s", "812.4 us"
std::string format_time(Time t);

// "58.9 GiB", "512 B": binary units.
std::string format_bytes(Bytes b);
// "58.9": in GiB.
std::string gib(Bytes b);
// Part / whole, 0 of nothing.
double share_of(Time part, Time whole);
// "8.1 %" of a share 0.081; a share that is not zero but would read 0.0 is "<0.1 %".
std::string percent(double share);

// Splits `units` into whole numbers in proportion to `parts` by largest remainder, so that what is
// shown adds up to what is shown as the sum.  REQUIRES: parts >= 0, units >= 0.  All zero if the
// parts are.
std::vector<int64_t> apportion(std::span<const Time> parts, int64_t units);

// Columns a text takes on a terminal: code points, escape sequences not counted.
int display_width(std::string_view text);
// Padded with blanks to `width` columns; longer texts stay as they are.
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// Rows of cells as lines: each column as wide as its widest cell, two blanks between them, columns
// that are empty in all rows left out, no blanks at the end.  `sides`: '<' for each column that is
// flush left, '>' for one flush right.  REQUIRES: no row is longer than `sides`.
std::vector<std::string> align_columns(std::span<const std::vector<std::string>> rows,
                                       std::string_view sides);
// The same as a table: two blanks before each line, the first in dim letters.
std::string titled_table(std::span<const std::vector<std::string>> rows, std::string_view sides,
                         const TextStyle& style);

// The last filter before a terminal, whatever a text is made of: as escape_text(), but line feeds,
// tabs and colours ("\x1b[1;31m") stay.
std::string terminal_text(std::string_view text);

// Words of `pieces`, three blanks between them, broken into lines of at most `width` columns;
// each line ends with '\n'.  Empty pieces are left out.
std::string flow(std::span<const std::string> pieces, int width);

// Text broken at blanks into lines of at most `width` columns; the first line starts with `first`,
// the others with as many blanks.  Each line ends with '\n'.
std::string wrap(std::string_view text, std::string_view first, int width);

}  // namespace stepcast
