// SPDX-License-Identifier: Apache-2.0
// One scenario under another schedule: what has to change in it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/command.h"

namespace stepcast::cli {

struct UnderSchedule {
  std::string name;                                      // "zb-v vpp 2"
  std::vector<std::pair<std::string, std::string>> set;  // after --set
  std::vector<std::string> dropped;  // keys of the section `schedule` that it cannot take
};

// Throws InputError if a key of the section `schedule` is wrong under the scenario's own schedule:
// then no other is to blame.
void check_own_schedule(const Arguments& args);

// The scenario under the schedule `name`, with its own parallel.vpp if the schedule takes it, else
// with one or two chunks, and with all keys of its section `schedule` but those that the schedule
// cannot take.  Throws InputError with the reason if it cannot be.
UnderSchedule under_schedule(const std::string& name, const Arguments& args);

}  // namespace stepcast::cli
