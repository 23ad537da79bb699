// SPDX-License-Identifier: Apache-2.0
// Actions as text, read strictly.
//
// The notation is that of torch.distributed.pipelining ("compute_only"), with additions:
//
//   5F12                 <stage><kind><microbatch>, decimal, no signs, no leading zeros
//   (5F3;2B1)OVERLAP_F_B a forward and a B or I of different microbatches, run as one unit
//   5F12.1               with sequence splits: <microbatch>.<split>, all actions or none
//
// PyTorch's kinds are F, B, I and W; the others (sim/graph/action.h) and the splits are not.  Its
// older files write `B` for I and `BW` for B: if a `BW` occurs anywhere, all rows are read like
// that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/csv.h"
#include "sim/diagnostic.h"
#include "sim/graph/action.h"

namespace stepcast {

// Most wrong cells of a file that are named.
constexpr size_t kMostCellErrors = 20;

// A text that is not an action, with where it stands.  Its diagnostic has the sentence for the
// user; whoever knows the file adds the place.
struct ActionTextError : InputError {
  ActionTextError(const std::string& sentence, size_t offset_in_text, size_t length_of_text);
  size_t offset = 0;  // first byte of the wrong action in the text that was given
  size_t length = 0;  // bytes of it
};

// An action as it stands in a text.  What it means depends on the others: see combine_rows().
struct WrittenAction {
  static constexpr uint32_t kNoSplit = UINT32_MAX;
  Action action;              // of microbatch <microbatch>, whatever the split
  uint32_t split = kNoSplit;  // `5F12.1`: 1
  bool bw = false;            // written `BW`; `action` is a B
};

// An action, or the two of an overlapped pair, the forward first.  Appends to `to`; throws
// ActionTextError with a sentence for the user and the whole text's place.  A stage must be at most
// 65,535 and a microbatch at most 4,294,967,294.
void parse_cell(std::string_view text, std::vector<WrittenAction>& to);

// The numbers of `<stage><name><microbatch>` or `<stage><name><microbatch>.<split>`, as an F.
// Throws as parse_cell.  REQUIRES: the text is digits, then `name`, then anything.
WrittenAction parse_numbers(std::string_view text, std::string_view name);

// The actions of all ranks, once everything is read.
struct ActionRows {
  std::vector<std::vector<Action>> ranks;
  int64_t seq_splits = 1;     // largest split + 1; Action::microbatch counts pieces
  bool names_pieces = false;  // there were splits, if only `.0`
};

// A wrong action of several rows: `error.offset` counts from the start of the row.
struct ActionRowError {
  size_t row = 0;
  ActionTextError error;
};

// Resolves splits and the meaning of `B`.  Throws InputError with a sentence for the user if only
// some actions have a split, or if there are too many pieces to count.
ActionRows combine_rows(std::vector<std::vector<WrittenAction>> rows);

// Rows of actions separated by blanks or commas; nothing between two separators is an idle slot of
// PyTorch's CSV and stands for no action.  Appends what is wrong to `errors`, at most
// kMostCellErrors.  Throws as combine_rows, if nothing is wrong with the single actions.
// O(characters).
ActionRows parse_rows(std::span<const std::string_view> rows, std::vector<ActionRowError>& errors);

// The number of actions in a cell that parse_cell() accepts, without reading it: 1 or 2.
inline size_t actions_in_cell(std::string_view text) {
  return text.starts_with('(') ? 2 : 1;
}

// A row as the files have it: "0F0,(5F3;2B1)OVERLAP_F_B".  An action that overlaps_next forms a
// pair with the next one, if there is one.  `names_pieces`: "0F0.0" even if there is one split.
std::string to_text(std::span<const Action> row, int64_t seq_splits = 1, bool names_pieces = false);
// The unit at `position`: an action or a pair.
std::string unit_text(std::span<const Action> row, size_t position, int64_t seq_splits = 1,
                      bool names_pieces = false);

// The next cell of a line of a schedule file that is no idle slot; else as next_field() of
// sim/csv.h.
std::optional<CsvField> next_cell(std::string_view line, CsvPlace& place);

}  // namespace stepcast
