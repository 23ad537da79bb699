// SPDX-License-Identifier: Apache-2.0
#include "scenarios/file_error.h"

#include <utility>

namespace stepcast {

InputError file_error(std::string code, std::string message, std::string file, std::string help,
                      int exit_status) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.file = std::move(file);
  d.help = std::move(help);
  return InputError(std::move(d), exit_status);
}

}  // namespace stepcast
