// SPDX-License-Identifier: Apache-2.0
#include "sim/places_reached.h"

#include <algorithm>

#include "sim/check.h"

namespace stepcast {

double places_reached(int64_t places, int64_t experts, int64_t chosen) {
  STEPCAST_CHECK(places > 0 && chosen >= 0 && chosen <= experts, "a choice of so many experts");
  const auto all = static_cast<double>(experts);
  const auto parts = static_cast<double>(places);
  double none = 1;  // that no expert in one of the places is chosen
  for (int64_t i = 0; i < chosen; ++i) {
    const auto taken = static_cast<double>(i);
    none *= std::max(0.0, all - all / parts - taken) / (all - taken);
  }
  return parts * (1 - none);
}

}  // namespace stepcast
