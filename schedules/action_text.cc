// SPDX-License-Identifier: Apache-2.0
#include "schedules/action_text.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace stepcast {
namespace {

constexpr size_t kLongestQuote = 40;  // bytes of the user's text that a message repeats

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  std::string quoted(text.substr(0, kLongestQuote));
  if (text.size() > kLongestQuote) quoted += "...";
  throw ActionTextError('`' + quoted + "` is not an action: " + why, 0, text.size());
}

std::optional<ActionKind> kind_of(char letter) {
  switch (letter) {
    case 'F': return ActionKind::forward;
    case 'B': return ActionKind::backward;
    case 'I': return ActionKind::backward_input;
    case 'W': return ActionKind::backward_weight;
    default: return std::nullopt;
  }
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

uint64_t number(std::string_view digits, std::string_view whole, const char* what, uint64_t most) {
  if (digits.size() > 1 && digits.front() == '0')
    fail(whole, std::string("the ") + what + " is written with leading zeros");
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value > most)
    fail(whole, std::string("the ") + what + " must be at most " + std::to_string(most));
  return value;
}

}  // namespace

Action parse_action(std::string_view text) {
  static const char* const kForm = "write <stage><F, B, I or W><microbatch>, as in `5F12`";
  size_t letter = 0;
  while (letter < text.size() && is_digit(text[letter])) ++letter;
  if (letter == 0 || letter + 1 >= text.size()) fail(text, kForm);
  const std::optional<ActionKind> kind = kind_of(text[letter]);
  if (!kind) fail(text, kForm);
  const std::string_view microbatch = text.substr(letter + 1);
  for (const char c : microbatch)
    if (!is_digit(c)) fail(text, kForm);
  Action action;
  action.kind = *kind;
  action.stage = static_cast<uint16_t>(
      number(text.substr(0, letter), text, "stage", std::numeric_limits<uint16_t>::max()));
  // One less than the type holds, so that the number of microbatches fits it too.
  action.microbatch = static_cast<uint32_t>(
      number(microbatch, text, "microbatch", std::numeric_limits<uint32_t>::max() - 1));
  return action;
}

std::vector<Action> parse_actions(std::string_view row) {
  static const char* const kSeparators = " \t,\r";
  std::vector<Action> actions;
  size_t begin = 0;
  while ((begin = row.find_first_not_of(kSeparators, begin)) != std::string_view::npos) {
    const size_t end = std::min(row.find_first_of(kSeparators, begin), row.size());
    try {
      actions.push_back(parse_action(row.substr(begin, end - begin)));
    } catch (const ActionTextError& e) {
      throw ActionTextError(e.what(), begin, e.length);
    }
    begin = end;
  }
  return actions;
}

}  // namespace stepcast
