// SPDX-License-Identifier: Apache-2.0
// Lists of actions that tests write as text.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "schedules/formats/action_text.h"

namespace stepcast::testing {

// One row of actions without splits (parse_rows).  Throws the first problem, with its place in the
// row.
inline std::vector<Action> parse_actions(std::string_view row) {
  std::vector<ActionRowError> errors;
  ActionRows rows = parse_rows({&row, 1}, errors);
  if (!errors.empty()) throw errors.front().error;
  return std::move(rows.ranks.front());
}

}  // namespace stepcast::testing
