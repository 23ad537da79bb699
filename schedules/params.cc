// SPDX-License-Identifier: Apache-2.0
#include "schedules/params.h"

#include <charconv>
#include <cmath>
#include <stdexcept>

namespace stepcast {
namespace {

constexpr std::string_view kSpaces = " \t";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

// Lower case and without spaces around it; nullopt if not set.
std::optional<std::string> value_of(const ScheduleParams& params, std::string_view key) {
  const auto found = params.more.find(key);
  if (found == params.more.end()) return std::nullopt;
  std::string value = lower_case(trimmed(found->second));
  if (value.empty() || value == "none" || value == "null" || value == "default")
    return std::nullopt;
  return value;
}

[[noreturn]] void refuse(std::string_view key, std::string_view value, const std::string& must) {
  constexpr size_t kLongest = 40;  // bytes of the user's text that a message repeats
  std::string shown(value.substr(0, kLongest));
  if (value.size() > kLongest) shown += "...";
  throw std::invalid_argument(std::string(key) + " = " + shown + " must be " + must);
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> whole_param(const ScheduleParams& params, std::string_view key,
                                   int64_t least, int64_t most) {
  const std::optional<std::string> text = value_of(params, key);
  if (!text) return std::nullopt;
  std::string_view digits = *text;
  if (const size_t point = digits.find('.');
      point != std::string_view::npos && point > 0 &&
      digits.find_first_not_of('0', point + 1) == std::string_view::npos)
    digits = digits.substr(0, point);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size() && value >= least &&
      value <= most)
    return value;
  std::string must = "a whole number from " + std::to_string(least);
  if (most != std::numeric_limits<int64_t>::max()) must += " to " + std::to_string(most);
  refuse(key, *text, must);
}

std::optional<bool> flag_param(const ScheduleParams& params, std::string_view key) {
  const std::optional<std::string> text = value_of(params, key);
  if (!text) return std::nullopt;
  for (const char* yes : {"true", "yes", "on", "1"})
    if (*text == yes) return true;
  for (const char* no : {"false", "no", "off", "0"})
    if (*text == no) return false;
  refuse(key, *text, "true or false");
}

std::optional<std::string> word_param(const ScheduleParams& params, std::string_view key,
                                      const std::vector<std::string>& words) {
  std::optional<std::string> text = value_of(params, key);
  if (!text) return std::nullopt;
  std::string legal;
  for (size_t i = 0; i < words.size(); ++i) {
    if (*text == words[i]) return text;
    if (i > 0) legal += i + 1 == words.size() ? " or " : ", ";
    legal += words[i];
  }
  refuse(key, *text, legal);
}

std::optional<double> number_param(const ScheduleParams& params, std::string_view key) {
  const std::optional<std::string> text = value_of(params, key);
  if (!text) return std::nullopt;
  const std::optional<double> value = number_of(*text);
  if (!value) refuse(key, *text, "a number");
  return value;
}

std::vector<double> numbers_param(const ScheduleParams& params, std::string_view key) {
  const std::optional<std::string> text = value_of(params, key);
  if (!text) return {};
  std::string_view rest = *text;
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  std::vector<double> values;
  while (true) {
    const size_t comma = rest.find(',');
    const std::optional<double> value = number_of(trimmed(rest.substr(0, comma)));
    if (!value) refuse(key, *text, "a number, or numbers separated by commas");
    values.push_back(*value);
    if (comma == std::string_view::npos) return values;
    rest = rest.substr(comma + 1);
  }
}

std::optional<int64_t> group_param(const ScheduleParams& params, std::string_view key) {
  const std::optional<int64_t> named = whole_param(params, key);
  if (params.group == 0) return named;
  if (named && *named != params.group)
    throw std::invalid_argument(std::string(key) + " = " + std::to_string(*named) +
                                " and group = " + std::to_string(params.group) +
                                " are the same parameter and must agree");
  return params.group;
}

void expect_param(const ScheduleParams& params, std::string_view key, int64_t value,
                  std::string_view rule) {
  const std::optional<int64_t> given = whole_param(params, key);
  if (given && *given != value)
    refuse(key, std::to_string(*given), std::to_string(value) + ": " + std::string(rule));
}

}  // namespace stepcast
