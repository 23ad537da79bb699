// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "tools/command/command.h"

namespace stepcast::cli {

// What `stepcast search` would do for a scenario that does not fit, and a layout that does; or for
// one of several GPUs that states no layout.  Empty for others, and for what does not train.
std::string search_advice(const std::string& file, const Arguments& args, bool fits, int64_t gpus,
                          bool trains);

// load(); where the scenario states no layout and breaks a rule of layouts without one, the error
// says what `stepcast search` would do, and names a layout that fits.
Scenario load_or_advise(const std::string& file, const Arguments& args);

}  // namespace stepcast::cli
