// SPDX-License-Identifier: Apache-2.0
#include "sim/check.h"

#include <fmt/format.h>

#include <string_view>

namespace stepcast {
namespace {

// The path from the root of the project, on whatever machine it was compiled: this file lies at
// sim/check.cc, so what stands before that is the root.
std::string_view path_in_project(std::string_view file) {
  constexpr std::string_view kThis = __FILE__;
  constexpr std::string_view kRoot = kThis.substr(0, kThis.rfind("sim/check.cc"));
  return file.starts_with(kRoot) ? file.substr(kRoot.size()) : file;
}

}  // namespace

void fail_check(const char* condition, const char* file, int line, const std::string& what) {
  throw InternalError(fmt::format("{}:{}: {} ({})", path_in_project(file), line, what, condition));
}

}  // namespace stepcast
