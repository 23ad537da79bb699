// SPDX-License-Identifier: Apache-2.0
// A case of a comparison that could not be run.
#pragma once

#include <string>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {

// A case without a result, and why it has none.
struct LeftOut {
  std::string name;
  std::vector<Diagnostic> problems;  // at least one
};

}  // namespace stepcast
