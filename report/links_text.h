// SPDX-License-Identifier: Apache-2.0
// `stepcast explain --links`: which groups cross which links, and the fullest link of each kind.
#pragma once

#include <string>
#include <string_view>

#include "report/format.h"
#include "report/json_writer.h"
#include "sim/result.h"
#include "sim/units.h"

namespace stepcast {

// `where`: how ranks lie on the cluster, one line.  Shares are of `step`.
std::string explain_links(const LinkLoads& loads, std::string_view where, Time step,
                          const TextStyle& style = {});
void write_links(JsonWriter& json, const LinkLoads& loads);

}  // namespace stepcast
