// SPDX-License-Identifier: Apache-2.0
// `stepcast-measure collectives`: the collectives of all GPUs of this machine, or of those of many
// machines with one process a GPU.
#pragma once

#include <span>
#include <string>

namespace stepcast::measure {

// Returns the exit status, 0.  Throws InputError (wrong arguments, or no collectives to
// measure here), NoDevice, DeviceError, and InputError of plans and tables.  A rank that fails
// while others wait for it ends the program at once with status 1.
int collectives_command(std::span<const std::string> arguments);

}  // namespace stepcast::measure
