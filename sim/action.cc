// SPDX-License-Identifier: Apache-2.0
#include "sim/action.h"

#include "sim/check.h"

namespace stepcast {

char letter_of(ActionKind k) {
  switch (k) {
    case ActionKind::forward: return 'F';
    case ActionKind::backward: return 'B';
    case ActionKind::backward_input: return 'I';
    case ActionKind::backward_weight: return 'W';
  }
  fail_check("k is an ActionKind", __FILE__, __LINE__, std::to_string(static_cast<int>(k)));
}

std::string to_string(const Action& a) {
  return std::to_string(a.stage) + letter_of(a.kind) + std::to_string(a.microbatch);
}

}  // namespace stepcast
