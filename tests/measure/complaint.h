// SPDX-License-Identifier: Apache-2.0
// What a command line, a file or an environment is refused with.
#pragma once

#include <string>

#include "sim/diagnostic.h"

namespace stepcast::measure {

// "" if it is not.
template <class Call>
std::string complaint_of(Call call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace stepcast::measure
