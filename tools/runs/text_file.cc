// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/text_file.h"

#include <fmt/core.h>

#include <fstream>
#include <utility>

#include "calibrate/runs/run_record.h"
#include "sim/diagnostic.h"

namespace stepcast::accuracy {
namespace {

// Begin of the part between the marks, and its length.
std::pair<size_t, size_t> find_part(const std::string& whole, std::string_view name,
                                    const std::string& path) {
  const auto mark = [&](const char* end) { return fmt::format("<!-- {}: {} -->\n", name, end); };
  const std::string begin = mark("begin");
  const size_t at = whole.find(begin);
  const size_t end = at == whole.npos ? at : whole.find(mark("end"), at);
  if (end == whole.npos) refuse(fmt::format("there are no marks '{}' in {}", name, path));
  return {at + begin.size(), end - at - begin.size()};
}

}  // namespace

void write_text_file(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) refuse(fmt::format("cannot write {}", path));
}

std::string between_marks(const std::string& whole, std::string_view name,
                          const std::string& path) {
  const auto [begin, length] = find_part(whole, name, path);
  return whole.substr(begin, length);
}

void put_between_marks(const std::string& path, std::string_view name, std::string_view text) {
  std::string whole = read_text_file(path);
  const auto [begin, length] = find_part(whole, name, path);
  write_text_file(path, whole.replace(begin, length, text));
}

}  // namespace stepcast::accuracy
