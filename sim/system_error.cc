// SPDX-License-Identifier: Apache-2.0
#include "sim/system_error.h"

#include <cstring>

namespace stepcast {

std::string system_error_text(int error) {
  const char* const text = ::strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

}  // namespace stepcast
