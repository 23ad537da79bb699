// SPDX-License-Identifier: Apache-2.0
#include "sim/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/check.h"
#include "sim/units.h"

namespace stepcast {
namespace {

// Names are compared in this form.
std::string spelling_of(std::string_view word) {
  std::string s = lower_case(word);
  std::ranges::replace_if(
      s, [](char c) { return c == '_' || c == ' '; }, '-');
  return s;
}

template <class Words>
std::string joined(const Words& words, std::string_view between) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += between;
    text += words[i];
  }
  return text;
}

}  // namespace

std::string_view trim(std::string_view text, std::string_view blanks) {
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view text, std::string_view blanks) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(blanks), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string join(std::span<const std::string_view> words, std::string_view between) {
  return joined(words, between);
}

std::string join(std::span<const std::string> words, std::string_view between) {
  return joined(words, between);
}

std::string or_list(std::span<const std::string> words) {
  if (words.size() < 2) return joined(words, "");
  return joined(words.first(words.size() - 1), ", ") + " or " + words.back();
}

std::string lower_case(std::string_view text) {
  std::string s(text);
  for (char& c : s)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return s;
}

std::string upper_case(std::string_view text) {
  std::string s(text);
  for (char& c : s)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return s;
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

std::string short_decimal(double value, int most_decimals) {
  STEPCAST_CHECK(most_decimals >= 0 && most_decimals <= 40, "decimals of a number");
  std::array<char, 400> buffer;  // the longest whole part of a double has 309 digits
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, most_decimals);
  std::string s(buffer.data(), end.ptr);
  if (s.find('.') == std::string::npos) return s;
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s;
}

std::string exact_text(double value) {
  std::array<char, 400> buffer;  // the longest fixed notation of a double has 327 characters
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  STEPCAST_CHECK(end.ec == std::errc(), "a number that can be written");
  return {buffer.data(), end.ptr};
}

std::string duration_text(double s) {
  if (!std::isfinite(s)) return "-";
  if (s < 0.9995) return fmt::format("{:.0f} ms", s * 1e3);
  if (s < 99.95) return fmt::format("{:.1f} s", s);
  if (s < 5999.5) return fmt::format("{:.1f} min", s / 60);
  if (s < 2 * kSecondsOfADay) return fmt::format("{:.1f} h", s / 3600);
  return fmt::format("{:.1f} days", s / kSecondsOfADay);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::string_view closest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLongest = 64;  // nothing that long is a misspelt name
  if (word.empty() || word.size() > kLongest) return {};
  const std::string from = spelling_of(word);
  std::string_view best;
  size_t best_distance = std::max<size_t>(word.size() / 3, 1) + 1;
  bool best_begins = false;  // one begins as the other
  for (const std::string_view candidate : candidates) {
    const std::string to = spelling_of(candidate);
    // At least so many letters are missing: of thousands of names most are told apart by that.
    const size_t gap = std::max(from.size(), to.size()) - std::min(from.size(), to.size());
    if (gap > best_distance) continue;
    const size_t distance = edit_distance(from, to);
    const bool begins = to.starts_with(from) || from.starts_with(to);
    // Of a word of one or two letters nothing would be left to recognise.
    if (2 * distance >= std::max(from.size(), to.size())) continue;
    const bool nearer = distance < best_distance;
    if (!nearer && !(distance == best_distance && begins && !best_begins && !best.empty()))
      continue;
    best = candidate;
    best_distance = distance;
    best_begins = begins;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kMostNames = 4;
  const std::string from = spelling_of(word);
  std::vector<std::string> longer, around;
  for (const std::string_view candidate : candidates) {
    const std::string to = spelling_of(candidate);
    if (to.starts_with(from + '-')) longer.push_back('\'' + std::string(candidate) + '\'');
    if (('-' + to + '-').find('-' + from + '-') != std::string::npos)
      around.push_back('\'' + std::string(candidate) + '\'');
  }
  std::vector<std::string> names;
  if (const std::string_view near = closest(word, candidates); !near.empty())
    names.push_back('\'' + std::string(near) + '\'');
  if (names.empty() && around.size() <= kMostNames) names = std::move(around);
  if (!longer.empty() && longer.size() <= kMostNames) names = std::move(longer);
  return names.empty() || word.empty() ? "" : "did you mean " + or_list(names) + '?';
}

CodePoint decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return {lead, 1, false};
  uint32_t value = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {lead, 1, false};
    value = value << 6 | (byte(at + i) & 0x3Fu);
  }
  static constexpr std::array<uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[length] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
    return {lead, 1, false};
  return {value, length, true};
}

bool is_deceptive(uint32_t c) {
  return (c >= 0x80 && c < 0xA0) || c == 0xAD || c == 0x61C || c == 0x180E ||
         (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
         (c >= 0xE0000 && c <= 0xE007F);
}

std::string escape_text(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string s;
  s.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (!c.valid || c.value < 0x20 || c.value == 0x7f) {
      const auto byte = static_cast<unsigned char>(text[at]);
      s += "\\x";
      s += kHex[byte >> 4];
      s += kHex[byte & 15];
    } else if (is_deceptive(c.value)) {
      s += c.value > 0xffff ? "\\U" : "\\u";
      for (int shift = c.value > 0xffff ? 28 : 12; shift >= 0; shift -= 4)
        s += kHex[(c.value >> shift) & 15];
    } else {
      s += text.substr(at, c.length);
    }
    at += c.length;
  }
  return s;
}

std::string shell_word(std::string_view text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("._-+/=:,%@").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + '\'';
}

std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, any = false;
  const auto end = [&] {
    if (any) words.push_back(word);
    word.clear();
    any = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && c == ' ') {
      end();
    } else {
      if (!quoted && c == '\\' && i + 1 < text.size()) ++i;
      word += text[i];
      any = true;
    }
  }
  end();
  return words;
}

}  // namespace stepcast
