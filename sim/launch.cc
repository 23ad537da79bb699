// SPDX-License-Identifier: Apache-2.0
#include "sim/launch.h"

#include "sim/check.h"

namespace stepcast {

Launch& Launch::add(HostCall c, int times) {
  uint16_t& count = calls[static_cast<size_t>(c)];
  STEPCAST_CHECK(times >= 0 && count + times <= UINT16_MAX, "a number of calls");
  count = static_cast<uint16_t>(count + times);
  return *this;
}

std::string describe(const Launch& launch) {
  std::string s;
  for (size_t c = 0; c < kHostCalls; ++c) {
    if (launch.calls[c] == 0) continue;
    if (!s.empty()) s += " + ";
    if (launch.calls[c] > 1) s += std::to_string(launch.calls[c]) + ' ';
    s += name_of(static_cast<HostCall>(c));
  }
  return s.empty() ? "nothing" : s;
}

}  // namespace stepcast
