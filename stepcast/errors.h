// SPDX-License-Identifier: Apache-2.0
// Public.  What is wrong with a scenario: InputError carries one Diagnostic a problem, each with
// file, line, what, why and what would be legal.
#pragma once

#include <string>

#include "sim/diagnostic.h"

namespace stepcast {

// All problems of an error as the command prints them, with the lines they are in.
std::string describe(const InputError& error);

}  // namespace stepcast
