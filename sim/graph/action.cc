// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/action.h"

#include <fmt/format.h>

#include "sim/check.h"

namespace stepcast {

char letter_of(ActionKind k) {
  switch (k) {
    case ActionKind::forward: return 'F';
    case ActionKind::backward: return 'B';
    case ActionKind::backward_input: return 'I';
    case ActionKind::backward_weight: return 'W';
    case ActionKind::recompute: return 'R';
    case ActionKind::offload: return 'O';
    case ActionKind::reload: return 'L';
    case ActionKind::vocabulary_forward: return 'S';
    case ActionKind::vocabulary_backward: return 'T';
    case ActionKind::embedding_forward: return 'E';
    case ActionKind::embedding_backward: return 'G';
  }
  fail_check("k is an ActionKind", __FILE__, __LINE__, fmt::format("{}", static_cast<int>(k)));
}

std::string to_string(const Action& a) {
  return to_string(a, 1);
}

std::string to_string(const Action& a, int64_t seq_splits) {
  const char letter = letter_of(a.kind);
  if (seq_splits == 1) return fmt::format("{}{}{}", a.stage, letter, a.microbatch);
  return fmt::format("{}{}{}.{}", a.stage, letter, a.microbatch / seq_splits,
                     a.microbatch % seq_splits);
}

}  // namespace stepcast
