// SPDX-License-Identifier: Apache-2.0
// `stepcast-measure collectives`: the collectives of all GPUs of this machine, or of those of many
// machines with one process a GPU.
#pragma once

#include <span>
#include <string>

namespace stepcast::measure {

// Exit status: 0 all done (or the budget used up), 1 a GPU or NCCL failed, 2 wrong arguments or
// nothing to measure here, 7 the table cannot be written.
int collectives_command(std::span<const std::string> arguments);

}  // namespace stepcast::measure
