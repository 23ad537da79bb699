// SPDX-License-Identifier: Apache-2.0
#include "sim/diagnostic.h"

#include <utility>

namespace stepcast {

InputError::InputError(std::vector<Diagnostic> all, int status)
    : diagnostics(std::move(all)), exit_status(status) {
  for (const Diagnostic& d : diagnostics) {
    if (!text_.empty()) text_ += '\n';
    if (!d.file.empty())
      text_ += d.file + ':' + std::to_string(d.line) + ':' + std::to_string(d.column) + ": ";
    text_ += d.code + ' ' + d.message;
  }
}

InputError::InputError(Diagnostic one, int status)
    : InputError(std::vector<Diagnostic>{std::move(one)}, status) {}

}  // namespace stepcast
