// SPDX-License-Identifier: Apache-2.0
#include "sim/check.h"

namespace stepcast {

void fail_check(const char* condition, const char* file, int line, const std::string& what) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + what + " (" +
                      condition + ")");
}

}  // namespace stepcast
