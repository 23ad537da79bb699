// SPDX-License-Identifier: Apache-2.0
// Internal consistency: a failed check is a bug of Stepcast, never a mistake of the user (those are
// InputErrors, see diagnostic.h).
#pragma once

#include <stdexcept>
#include <string>

namespace stepcast {

// Thrown by STEPCAST_CHECK; the command reports it with exit status 1 and asks for a bug report.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

// Throws InternalError "sim/units.cc:12: WHAT (CONDITION)", with the path from the project's root.
[[noreturn]] void fail_check(const char* condition, const char* file, int line,
                             const std::string& what);

}  // namespace stepcast

#define STEPCAST_CHECK(condition, what) \
  ((condition) ? void() : ::stepcast::fail_check(#condition, __FILE__, __LINE__, (what)))
