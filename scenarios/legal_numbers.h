// SPDX-License-Identifier: Apache-2.0
// The numbers that would have been legal, in words for the help lines of messages.
#pragma once

#include <cstdint>
#include <string>

namespace stepcast {

// "1, 2, 4 or 8": the divisors of n up to `most`, at most a dozen of them.  REQUIRES: n >= 1.
std::string divisors(int64_t n, int64_t most = 1'000'000);

// "4 or 8": the divisors of `whole` around n.  REQUIRES: 1 <= n <= whole.
std::string nearest_divisors(int64_t whole, int64_t n);

// "the nearest are 24 and 32": the multiples of `unit` around n.
std::string nearest_multiples(int64_t n, int64_t unit);

}  // namespace stepcast
