// SPDX-License-Identifier: Apache-2.0
#include "schedules/formats/action_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "schedules/schedule.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr size_t kLongestQuote = 40;  // bytes of the user's text that a message repeats
constexpr std::string_view kPairSuffix = "OVERLAP_F_B";
constexpr uint32_t kLargestMicrobatch = std::numeric_limits<uint32_t>::max() - 1;
constexpr uint32_t kLargestSplit = 65'535;

// What is quoted of the user's text may have zero bytes, which would end what().
std::string without_zeros(std::string sentence) {
  std::replace(sentence.begin(), sentence.end(), '\0', '?');
  return sentence;
}

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  std::string quoted(text.substr(0, kLongestQuote));
  if (text.size() > kLongestQuote) quoted += "...";
  throw ActionTextError('`' + quoted + "` is not an action: " + why, 0, text.size());
}

[[noreturn]] void fail_form(std::string_view text) {
  fail(text, "write <stage><F, B, I, W, R, O, L, S, T, E or G><microbatch>, as in `5F12`");
}

std::optional<ActionKind> kind_of(char letter) {
  switch (letter) {
    case 'F': return ActionKind::forward;
    case 'B': return ActionKind::backward;
    case 'I': return ActionKind::backward_input;
    case 'W': return ActionKind::backward_weight;
    case 'R': return ActionKind::recompute;
    case 'O': return ActionKind::offload;
    case 'L': return ActionKind::reload;
    case 'S': return ActionKind::vocabulary_forward;
    case 'T': return ActionKind::vocabulary_backward;
    case 'E': return ActionKind::embedding_forward;
    case 'G': return ActionKind::embedding_backward;
    default: return std::nullopt;
  }
}

size_t digits_before(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

uint32_t number(std::string_view digits, std::string_view whole, const char* what, uint64_t most) {
  if (!is_digits(digits)) fail_form(whole);
  if (digits.size() > 1 && digits.front() == '0')
    fail(whole, fmt::format("the {} is written with leading zeros", what));
  const std::optional<uint64_t> value = parse_number<uint64_t>(digits);
  if (!value || *value > most) fail(whole, fmt::format("the {} must be at most {}", what, most));
  return static_cast<uint32_t>(*value);
}

WrittenAction parse_one(std::string_view text) {
  const size_t letter = digits_before(text);
  if (letter == 0 || letter == text.size()) fail_form(text);
  const std::optional<ActionKind> kind = kind_of(text[letter]);
  if (!kind) fail_form(text);
  const bool bw = text.substr(letter).starts_with("BW");
  WrittenAction a = parse_numbers(text, text.substr(letter, bw ? 2 : 1));
  a.action.kind = *kind;
  a.bw = bw;
  return a;
}

void parse_pair(std::string_view text, std::vector<WrittenAction>& to) {
  static const char* const kForm =
      "a pair is (<forward>;<backward>)OVERLAP_F_B, as in `(5F3;2B1)OVERLAP_F_B`";
  const size_t close = text.find(')');
  if (close == std::string_view::npos || text.substr(close + 1) != kPairSuffix) fail(text, kForm);
  const std::string_view inner = text.substr(1, close - 1);
  const size_t middle = inner.find(';');
  if (middle == std::string_view::npos || inner.find(';', middle + 1) != std::string_view::npos)
    fail(text, kForm);
  WrittenAction first, second;
  try {
    first = parse_one(trim(inner.substr(0, middle)));
    second = parse_one(trim(inner.substr(middle + 1)));
  } catch (const ActionTextError& e) {
    throw ActionTextError(e.what(), 0, text.size());
  }
  if (is_backward(first.action.kind)) std::swap(first, second);
  if (first.action.kind != ActionKind::forward || !is_backward(second.action.kind))
    fail(text, "a pair is a forward and a backward (B or I)");
  if (first.action.microbatch == second.action.microbatch)
    fail(text, "the forward and the backward of a pair are of different microbatches");
  first.action.overlaps_next = true;
  to.push_back(first);
  to.push_back(second);
}

}  // namespace

ActionTextError::ActionTextError(const std::string& sentence, size_t offset_in_text,
                                 size_t length_of_text)
    : InputError(refusal(without_zeros(sentence))),
      offset(offset_in_text),
      length(length_of_text) {}

WrittenAction parse_numbers(std::string_view text, std::string_view name) {
  const size_t digits = digits_before(text);
  const std::string_view rest = text.substr(digits + name.size());
  const size_t point = rest.find('.');
  WrittenAction a;
  a.action.stage = static_cast<uint16_t>(
      number(text.substr(0, digits), text, "stage", std::numeric_limits<uint16_t>::max()));
  // One less than the type holds, so that the number of microbatches fits it too.
  a.action.microbatch = number(rest.substr(0, point), text, "microbatch", kLargestMicrobatch);
  if (point != std::string_view::npos)
    a.split = number(rest.substr(point + 1), text, "sequence split", kLargestSplit);
  return a;
}

void parse_cell(std::string_view text, std::vector<WrittenAction>& to) {
  if (text.starts_with('('))
    parse_pair(text, to);
  else
    to.push_back(parse_one(text));
}

ActionRows combine_rows(std::vector<std::vector<WrittenAction>> rows) {
  uint32_t largest_split = 0, largest_microbatch = 0;
  bool some_split = false, some_whole = false, old_names = false;
  for (const std::vector<WrittenAction>& row : rows)
    for (const WrittenAction& a : row) {
      const bool split = a.split != WrittenAction::kNoSplit;
      if (split) largest_split = std::max(largest_split, a.split);
      (split ? some_split : some_whole) = true;
      largest_microbatch = std::max(largest_microbatch, a.action.microbatch);
      old_names = old_names || a.bw;
    }
  if (some_split && some_whole)
    refuse("some actions have a sequence split, as `0F1.0`, and some have none: all need one");
  ActionRows all;
  all.seq_splits = int64_t{largest_split} + 1;
  all.names_pieces = some_split;
  if ((int64_t{largest_microbatch} + 1) * all.seq_splits > int64_t{kLargestMicrobatch} + 1)
    refuse(fmt::format("microbatches times sequence splits must be at most {}",
                       int64_t{kLargestMicrobatch} + 1));
  all.ranks.reserve(rows.size());
  for (std::vector<WrittenAction>& row : rows) {
    std::vector<Action>& actions = all.ranks.emplace_back();
    actions.reserve(row.size());
    for (const WrittenAction& a : row) {
      Action& action = actions.emplace_back(a.action);
      if (old_names && !a.bw && action.kind == ActionKind::backward)
        action.kind = ActionKind::backward_input;
      if (some_split)
        action.microbatch =
            static_cast<uint32_t>(action.microbatch * all.seq_splits + int64_t{a.split});
    }
    row = {};  // a long file should not be in memory twice
  }
  return all;
}

ActionRows parse_rows(std::span<const std::string_view> rows, std::vector<ActionRowError>& errors) {
  static constexpr std::string_view kSeparators = " \t,\r";
  std::vector<std::vector<WrittenAction>> written(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::string_view row = rows[r];
    size_t begin = 0;
    while ((begin = row.find_first_not_of(kSeparators, begin)) != std::string_view::npos) {
      const size_t end = std::min(row.find_first_of(kSeparators, begin), row.size());
      try {
        parse_cell(row.substr(begin, end - begin), written[r]);
      } catch (const ActionTextError& e) {
        errors.push_back({r, ActionTextError(e.what(), begin, e.length)});
        if (errors.size() >= kMostCellErrors) return {};
      }
      begin = end;
    }
  }
  if (!errors.empty()) return {};
  return combine_rows(std::move(written));
}

std::string unit_text(std::span<const Action> row, size_t position, int64_t seq_splits,
                      bool names_pieces) {
  const auto text = [&](const Action& a) {
    return to_string(a, seq_splits) + (names_pieces && seq_splits == 1 ? ".0" : "");
  };
  if (!row[position].overlaps_next || position + 1 == row.size()) return text(row[position]);
  return '(' + text(row[position]) + ';' + text(row[position + 1]) + ')' + std::string(kPairSuffix);
}

std::string to_text(std::span<const Action> row, int64_t seq_splits, bool names_pieces) {
  std::string text;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) text += ',';
    text += unit_text(row, i, seq_splits, names_pieces);
    if (row[i].overlaps_next) ++i;
  }
  return text;
}

std::optional<CsvField> next_cell(std::string_view line, CsvPlace& place) {
  std::optional<CsvField> cell = next_field(line, place);
  while (cell && cell->text.empty()) cell = next_field(line, place);
  return cell;
}

}  // namespace stepcast
