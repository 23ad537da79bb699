// SPDX-License-Identifier: Apache-2.0
// What the whole project needs to read and write text: cutting it into parts, numbers, "did you
// mean", and UTF-8.
//
// Letters and blanks are ASCII whatever the locale is; other bytes pass through unchanged.  Views
// that are returned refer to the text that was given.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace stepcast {
// --- Parts of a text

inline constexpr std::string_view kBlankCharacters = " \t\r\n";

// The text without the characters of `blanks` at its two ends.
std::string_view trim(std::string_view text, std::string_view blanks = kBlankCharacters);

// The parts between separators, one more than there are separators; of an empty text one empty
// part.
std::vector<std::string_view> split(std::string_view text, char separator);

// The parts between runs of `blanks`, none of which is empty.
std::vector<std::string_view> split_words(std::string_view text,
                                          std::string_view blanks = kBlankCharacters);

// The lines without their ends (LF or CRLF).  A line feed at the end of the text begins no line.
std::vector<std::string_view> split_lines(std::string_view text);

// "1, 2, 4".
std::string join(std::span<const std::string_view> words, std::string_view between = ", ");
std::string join(std::span<const std::string> words, std::string_view between = ", ");

// "1, 2, 4 or 8".
std::string or_list(std::span<const std::string> words);

std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Whether the text is one digit or more and nothing else.
bool is_digits(std::string_view text);

// --- Numbers

// The number that takes up the whole text, as std::from_chars reads it; nothing if the text is not
// one, or it does not fit, or it is infinite or not a number.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// With at most this many decimals, rounded to nearest, without zeros at the end: "12.5", "3",
// "-0.25". REQUIRES: 0 <= most_decimals <= 40.
std::string short_decimal(double value, int most_decimals);

// The shortest fixed notation that reads back as the same double: "0.1", "120000000000".
// REQUIRES: finite.
std::string exact_text(double value);

// "34 ms", "12.3 min", "76.2 days": of what takes from moments to a whole training.  "-" if it is
// not finite.
std::string duration_text(double seconds);

// --- Spelling

// Edits (insert, delete, replace, swap neighbours) that make `b` of `a`: the optimal string
// alignment distance.  O(|a| |b|).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that `word` comes closest to (of equals one that begins alike, else the first),
// compared without case and with '_' = ' ' = '-'; empty if none is close: more than a third of it
// would be wrong, or half of a word of two letters.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);

// The label of a message about `word`: "did you mean 'global'?", empty if nothing comes to mind.
// Up to four names that go on where the word ends ("bf16-mixed" for "bf16") come before the
// closest, those that contain it ("dgx-h100" for "h100") after it.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

// --- UTF-8 (RFC 3629)

struct CodePoint {
  uint32_t value = 0;
  size_t length = 1;   // bytes; 1 if invalid, so that decoding goes on behind the bad byte
  bool valid = false;  // overlong forms, surrogates and values above U+10FFFF are not
};

// The code point at text[at].  REQUIRES: at < text.size().
CodePoint decode_utf8(std::string_view text, size_t at);

// Characters that move, hide or break text: C1 controls, bidirectional marks and isolates, zero
// width characters, line and paragraph separators, tags, the byte order mark.
bool is_deceptive(uint32_t code_point);

// The text in a form that is safe on a terminal: control characters (line feeds and tabs too) and
// bytes that are no UTF-8 become "\x1b", deceptive characters "\u202e".
std::string escape_text(std::string_view text);

// --- Arguments of a shell

// "parallel.tp=2" or "'parallel.layout=E(t|)*3L'": an argument as a shell reads it.
std::string shell_word(std::string_view text);
// "parallel.tp=2 'a=b c'" -> {"parallel.tp=2", "a=b c"}: what shell_word() wrote, with blanks
// between.
std::vector<std::string> shell_words(std::string_view text);

// -------------------------------------------------------------------------------------------------
// FNV-1a of 64 bits (draft-eastlake-fnv): tells that a text was changed by accident.  Not against
// someone who wants to deceive.

constexpr uint64_t kHashStart = 0xcbf29ce484222325u;

// `so_far`: the hash of what stands before `text`.
constexpr uint64_t hash_text(std::string_view text, uint64_t so_far = kHashStart) {
  for (const char c : text) so_far = (so_far ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return so_far;
}

// 16 digits.
inline std::string hex_of(uint64_t hash) {
  std::string hex;
  for (int shift = 60; shift >= 0; shift -= 4) hex += "0123456789abcdef"[(hash >> shift) & 15u];
  return hex;
}

// The same of 128 bits, for what must differ among millions: two texts in 10^9 are alike with a
// chance of 10^-21.
struct Hash128 {
  uint64_t high = 0x6c62272e07bb0142u, low = 0x62b821756295c58du;
  friend constexpr auto operator<=>(const Hash128&, const Hash128&) = default;
};
constexpr Hash128 hash_text_128(std::string_view text, Hash128 so_far = {}) {
  using Wide = unsigned __int128;
  constexpr Wide kPrime = (Wide{1} << 88) + 0x13b;
  Wide hash = (Wide{so_far.high} << 64) | so_far.low;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return {static_cast<uint64_t>(hash >> 64), static_cast<uint64_t>(hash)};
}

// 32 digits.
inline std::string hex_of(const Hash128& hash) {
  return hex_of(hash.high) + hex_of(hash.low);
}

}  // namespace stepcast
