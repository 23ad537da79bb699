// SPDX-License-Identifier: Apache-2.0
// How many random cases a test takes.  STEPCAST_TIMES says how many times as many as by default:
// those that prove the most are for `tools/test -C full` (tests/CMakeLists.txt), under sanitizers
// there are fewer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace stepcast::testing {

// At least one.
inline uint64_t random_cases(uint64_t usual) {
  const char* text = std::getenv("STEPCAST_TIMES");
  const double times = text == nullptr ? 1 : std::strtod(text, nullptr);
  return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(usual) * times));
}

}  // namespace stepcast::testing
