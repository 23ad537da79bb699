// SPDX-License-Identifier: Apache-2.0
// The answer of `stepcast size`: what a model takes, by rule of thumb and by simulation.
#pragma once

#include <string>
#include <string_view>

#include "report/format.h"
#include "sim/result.h"

namespace stepcast {

// About 40 lines; ends with '\n'.
std::string size_text(const ModelSize& size, const TextStyle& style = {});

// One object with everything the text has, sizes in bytes and FLOPs.
std::string size_json(const ModelSize& size, std::string_view version);

// "2.794 TB", "428.6 ZFLOP": four digits and a decimal prefix.
std::string metric(double value, std::string_view unit);

}  // namespace stepcast
