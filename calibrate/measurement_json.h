// SPDX-License-Identifier: Apache-2.0
// Measurements that are JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "calibrate/measurement_input.h"

namespace stepcast {

// Throws InputError E333 at the place where the text is broken, cut off, or has a number that no
// double holds.
nlohmann::json parse_json(const MeasurementInput& in);

}  // namespace stepcast
