// SPDX-License-Identifier: Apache-2.0
// What the system says of a call that failed.
#pragma once

#include <string>

namespace stepcast {

// "No such file or directory" for ENOENT: in English in every locale of the process that the
// library is part of, unlike strerror() and std::error_code::message().  "error 5000" for numbers
// that the system does not know.
std::string system_error_text(int error);

}  // namespace stepcast
