// SPDX-License-Identifier: Apache-2.0
#include "report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Bytes of the colour that text[at] begins: "\x1b[1;31m"; 0 if none does.
size_t color_length(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", at + 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 - at : 0;
}

}  // namespace

std::string paint(std::string_view text, Tone tone, const TextStyle& style) {
  static constexpr std::array<std::string_view, 6> kCodes{"", "1", "32", "1;31", "33", "2"};
  if (!style.color || tone == Tone::plain || text.empty()) return std::string(text);
  std::string s = "\x1b[";
  s += kCodes[static_cast<size_t>(tone)];
  s += 'm';
  s += text;
  s += "\x1b[0m";
  return s;
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  std::array<char, 400> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, decimals);
  std::string s(buffer.data(), end.ptr);
  const bool is_zero = s.find_first_not_of("-0.") == std::string::npos;
  return is_zero && s.front() == '-' ? s.substr(1) : s;
}

std::string grouped(int64_t value) {
  std::string s = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = s.size(); i > first + 3; i -= 3) s.insert(i - 3, 1, ',');
  return s;
}

std::string counted(int64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", grouped(n), n == 1 ? one : many);
}

std::string exact_decimal(int64_t count, int64_t per_unit) {
  const uint64_t unit = static_cast<uint64_t>(per_unit);
  const uint64_t magnitude =
      count < 0 ? uint64_t{0} - static_cast<uint64_t>(count) : static_cast<uint64_t>(count);
  std::string s = count < 0 ? "-" : "";
  s += std::to_string(magnitude / unit);
  unsigned __int128 rest = magnitude % unit;
  if (rest > 0) s += '.';
  for (int i = 0; rest > 0 && i < 64; ++i) {
    rest *= 10;
    s += static_cast<char>('0' + static_cast<int>(rest / unit));
    rest %= unit;
  }
  return s;
}

std::string rate_text(double per_second) {
  if (per_second >= 9e15) return "above 9e15";
  const bool small = !(per_second >= 1000);
  return small ? fixed(per_second, 1) : grouped(static_cast<int64_t>(per_second + 0.5));
}

TimeScale scale_of(Time whole) {
  struct Unit {
    int64_t ps;
    std::string_view name;
  };
  static constexpr std::array<Unit, 4> kUnits{
      {{1'000'000'000'000, "s"}, {1'000'000'000, "ms"}, {1'000'000, "us"}, {1'000, "ns"}}};
  const int64_t t = whole.count() < 0 ? -whole.count() : whole.count();
  for (const Unit& unit : kUnits) {
    if (t < unit.ps) continue;
    const int64_t tens = t / unit.ps;
    const int decimals = tens >= 100 ? 1 : tens >= 10 ? 2 : 3;
    int64_t quantum = unit.ps;
    for (int i = 0; i < decimals; ++i) quantum /= 10;
    return {quantum, decimals, unit.name};
  }
  return {1, 3, "ns"};
}

std::string format_quanta(int64_t quanta, const TimeScale& scale) {
  int64_t base = 1;
  for (int i = 0; i < scale.decimals; ++i) base *= 10;
  const int64_t magnitude = quanta < 0 ? -quanta : quanta;
  std::string s = quanta < 0 ? "-" : "";
  s += std::to_string(magnitude / base);
  if (scale.decimals == 0) return s;
  const std::string fraction = std::to_string(magnitude % base);
  s += '.';
  s.append(static_cast<size_t>(scale.decimals) - fraction.size(), '0');
  return s + fraction;
}

std::string format_time(Time t) {
  if (t.count() == 0) return "0 s";
  const TimeScale scale = scale_of(t);
  const int64_t half = t.count() < 0 ? -scale.quantum_ps / 2 : scale.quantum_ps / 2;
  return format_quanta((t.count() + half) / scale.quantum_ps, scale) + ' ' +
         std::string(scale.unit);
}

std::string format_bytes(Bytes b) {
  static constexpr std::array<std::string_view, 4> kUnits{"KiB", "MiB", "GiB", "TiB"};
  const double v = static_cast<double>(b.value);
  if (std::fabs(v) < 1024) return fmt::format("{} B", b.value);
  size_t unit = 0;
  double scaled = v / 1024;
  while (std::fabs(scaled) >= 1023.95 && unit + 1 < kUnits.size()) {
    scaled /= 1024;
    ++unit;
  }
  return fixed(scaled, 1) + ' ' + std::string(kUnits[unit]);
}

std::string gib(Bytes b) {
  return fixed(static_cast<double>(b.value) / (1024.0 * 1024.0 * 1024.0), 1);
}

double share_of(Time part, Time whole) {
  if (whole.count() == 0) return 0;
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

std::string percent(double share) {
  if (share > 0 && share < 0.0005) return "<0.1 %";
  return fixed(share * 100, 1) + " %";
}

std::vector<int64_t> apportion(std::span<const Time> parts, int64_t units) {
  std::vector<int64_t> result(parts.size(), 0);
  __int128 sum = 0;
  for (const Time p : parts) sum += p.count();
  if (sum == 0) return result;
  std::vector<__int128> remainder(parts.size());
  int64_t left = units;
  for (size_t i = 0; i < parts.size(); ++i) {
    const __int128 scaled = static_cast<__int128>(parts[i].count()) * units;
    result[i] = static_cast<int64_t>(scaled / sum);
    remainder[i] = scaled % sum;
    left -= result[i];
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainder[a] > remainder[b]; });
  for (size_t i = 0; left > 0; ++i, --left) ++result[order[i]];
  return result;
}

int display_width(std::string_view text) {
  int width = 0;
  bool in_escape = false;
  for (const char c : text) {
    if (c == '\x1b') in_escape = true;
    if (!in_escape && (static_cast<unsigned char>(c) & 0xC0) != 0x80) ++width;
    if (in_escape && c == 'm') in_escape = false;
  }
  return width;
}

std::string pad_right(std::string_view text, int width) {
  std::string s(text);
  const int have = display_width(text);
  if (have < width) s.append(static_cast<size_t>(width - have), ' ');
  return s;
}

std::string pad_left(std::string_view text, int width) {
  const int have = display_width(text);
  std::string s;
  if (have < width) s.append(static_cast<size_t>(width - have), ' ');
  s += text;
  return s;
}

std::vector<std::string> align_columns(std::span<const std::vector<std::string>> rows,
                                       std::string_view sides) {
  std::vector<int> widths(sides.size(), 0);
  for (const auto& row : rows) {
    STEPCAST_CHECK(row.size() <= sides.size(), "a side for each column");
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    bool first = true;
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths[c] == 0) continue;
      if (!std::exchange(first, false)) line += "  ";
      line += sides[c] == '<' ? pad_right(row[c], widths[c]) : pad_left(row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string titled_table(std::span<const std::vector<std::string>> rows, std::string_view sides,
                         const TextStyle& style) {
  std::string s;
  for (const std::string& line : align_columns(rows, sides))
    s += s.empty() ? paint("  " + line, Tone::dim, style) + '\n' : "  " + line + '\n';
  return s;
}

std::string terminal_text(std::string_view text) {
  std::string s;
  s.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t length = text[at] == '\n' || text[at] == '\t' ? 1 : color_length(text, at);
    if (length > 0) {
      s += text.substr(at, length);
    } else {
      length = decode_utf8(text, at).length;
      s += escape_text(text.substr(at, length));
    }
    at += length;
  }
  return s;
}

std::string flow(std::span<const std::string> pieces, int width) {
  std::string text, line;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    if (!line.empty() && display_width(line) + 3 + display_width(piece) > width) {
      text += line + '\n';
      line.clear();
    }
    if (!line.empty()) line += "   ";
    line += piece;
  }
  return line.empty() ? text : text + line + '\n';
}

std::string wrap(std::string_view text, std::string_view first, int width) {
  std::string result, line(first);
  const std::string indent(static_cast<size_t>(display_width(first)), ' ');
  bool has_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (has_word && display_width(line) + 1 + display_width(word) > width) {
      result += line + '\n';
      line = indent;
      has_word = false;
    }
    if (has_word) line += ' ';
    line += word;
    has_word = true;
  }
  return result + line + '\n';
}

}  // namespace stepcast
