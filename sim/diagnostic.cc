// SPDX-License-Identifier: Apache-2.0
#include "sim/diagnostic.h"

#include <fmt/format.h>

#include <utility>

namespace stepcast {

InputError::InputError(std::vector<Diagnostic> all, int status)
    : diagnostics(std::move(all)), exit_status(status) {
  for (const Diagnostic& d : diagnostics) {
    if (!text_.empty()) text_ += '\n';
    if (!d.file.empty()) text_ += fmt::format("{}:{}:{}: ", d.file, d.line, d.column);
    if (!d.code.empty()) text_ += d.code + ' ';
    text_ += d.message;
  }
}

InputError::InputError(Diagnostic one, int status)
    : InputError(std::vector<Diagnostic>{std::move(one)}, status) {}

void refuse(std::string message, std::string help) {
  Diagnostic d;
  d.message = std::move(message);
  d.help = std::move(help);
  throw InputError(std::move(d));
}

InputError file_error(std::string code, std::string message, std::string file, std::string help,
                      int exit_status) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.file = std::move(file);
  d.help = std::move(help);
  return InputError(std::move(d), exit_status);
}

InputError with_code_and_file(InputError error, const std::string& code, const std::string& file) {
  for (Diagnostic& d : error.diagnostics) {
    if (d.code.empty()) d.code = code;
    if (d.file.empty()) d.file = file;
  }
  return InputError(std::move(error.diagnostics), error.exit_status);
}

}  // namespace stepcast
