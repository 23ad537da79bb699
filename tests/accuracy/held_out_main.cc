// SPDX-License-Identifier: Apache-2.0
// accuracy_held_out DATA [--markdown FILE]
//
// How well tables predict rows kept from them (held_out.h): prints the section "Measured against
// predicted", or writes it between its marks in FILE.  Exit status 2 for wrong arguments or files.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tests/accuracy/held_out.h"

namespace {

constexpr std::string_view kBegin = "<!-- held out: begin -->\n";
constexpr std::string_view kEnd = "<!-- held out: end -->";

void replace_section(const std::string& path, const std::string& section) {
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw std::runtime_error(path + " has no section of rows held out");
  text.replace(begin + kBegin.size(), end - begin - kBegin.size(), section);
  std::ofstream(path) << text;
}

}  // namespace

int main(int argc, char** argv) {
  const bool writes = argc == 4 && std::string_view(argv[2]) == "--markdown";
  if (argc != 2 && !writes) {
    fmt::print(stderr, "usage: accuracy_held_out DATA [--markdown FILE]\n");
    return 2;
  }
  try {
    const std::string section = stepcast::accuracy::held_out_report(argv[1]);
    if (writes) {
      replace_section(argv[3], section);
    } else {
      fmt::print("{}", section);
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "accuracy_held_out: {}\n", e.what());
    return 2;
  }
}
