// SPDX-License-Identifier: Apache-2.0
// Which build this is: what keys of stores hold.
#pragma once

#include <string_view>

namespace stepcast {

// The version and a hash of what forecasts are made of, sources and tables: "0.2.0 1f0c...".
std::string_view build();

}  // namespace stepcast
