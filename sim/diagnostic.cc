// SPDX-License-Identifier: Apache-2.0
#include "sim/diagnostic.h"

#include <fmt/format.h>

#include <utility>

namespace stepcast {

InputError::InputError(std::vector<Diagnostic> all) : diagnostics(std::move(all)) {
  for (const Diagnostic& d : diagnostics) {
    if (!text_.empty()) text_ += '\n';
    if (!d.file.empty()) text_ += fmt::format("{}:{}:{}: ", d.file, d.line, d.column);
    if (!d.code.empty()) text_ += d.code + ' ';
    text_ += d.message;
  }
}

InputError::InputError(Diagnostic one) : InputError(std::vector<Diagnostic>{std::move(one)}) {}

int exit_status_of(std::span<const Diagnostic> problems) {
  int status = 2;
  for (const Diagnostic& d : problems) {
    if (d.code == "E101" || d.code.starts_with("E5")) return 7;
    if (d.code == "E401") status = 4;
  }
  return status;
}

void refuse(std::string message, std::string help) {
  Diagnostic d;
  d.message = std::move(message);
  d.help = std::move(help);
  throw InputError(std::move(d));
}

InputError file_error(std::string code, std::string message, std::string file, std::string help) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.file = std::move(file);
  d.help = std::move(help);
  return InputError(std::move(d));
}

InputError with_code_and_file(InputError error, const std::string& code, const std::string& file) {
  for (Diagnostic& d : error.diagnostics) {
    if (d.code.empty()) d.code = code;
    if (d.file.empty()) d.file = file;
  }
  return InputError(std::move(error.diagnostics));
}

}  // namespace stepcast
