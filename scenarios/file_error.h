// SPDX-License-Identifier: Apache-2.0
// What is wrong with a file as a whole, or with what was asked of it: there is no line to show.
#pragma once

#include <string>

#include "sim/diagnostic.h"

namespace stepcast {

// To be thrown.  `file` as the user named it; empty if none is at fault.
InputError file_error(std::string code, std::string message, std::string file,
                      std::string help = {}, int exit_status = 2);

}  // namespace stepcast
