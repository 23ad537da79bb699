// SPDX-License-Identifier: Apache-2.0
#include "scenarios/legal_numbers.h"

#include <algorithm>
#include <vector>

#include "sim/text.h"

namespace stepcast {

std::string divisors(int64_t n, int64_t most) {
  constexpr size_t kMostListed = 12;
  std::vector<std::string> all;
  for (int64_t i = 1; i <= std::min(n, most) && all.size() < kMostListed; ++i)
    if (n % i == 0) all.push_back(std::to_string(i));
  return or_list(all);
}

std::string nearest_divisors(int64_t whole, int64_t n) {
  int64_t below = n, above = n;
  while (whole % below != 0) --below;
  while (whole % above != 0) ++above;
  return std::to_string(below) + " or " + std::to_string(above);
}

std::string nearest_multiples(int64_t n, int64_t unit) {
  const int64_t below = n / unit * unit, above = below + unit;
  return below == 0 ? "the smallest is " + std::to_string(above)
                    : "the nearest are " + std::to_string(below) + " and " + std::to_string(above);
}

}  // namespace stepcast
