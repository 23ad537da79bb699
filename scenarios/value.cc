// SPDX-License-Identifier: Apache-2.0
#include "scenarios/value.h"

#include <algorithm>
#include <tuple>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr size_t kMostReported = 20;
constexpr size_t kMostKept = 1000;  // a hostile file makes problems by the million

// Characters in the first `bytes` bytes of UTF-8 text.
int characters(std::string_view line, size_t bytes) {
  const std::string_view head = line.substr(0, bytes);
  return static_cast<int>(std::count_if(head.begin(), head.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

}  // namespace

std::string_view Source::line(int n) const {
  if (n < 1) return {};
  std::string_view rest = text;
  for (int i = 1; i < n; ++i) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

const Value* Value::find(std::string_view key) const {
  for (const Member& m : members)
    if (m.key == key) return &m.value;
  return nullptr;
}

Value* Value::find(std::string_view key) {
  for (Member& m : members)
    if (m.key == key) return &m.value;
  return nullptr;
}

uint32_t Problems::add_source(Source source) {
  sources_.push_back(std::move(source));
  return static_cast<uint32_t>(sources_.size() - 1);
}

void Problems::add(std::string code, std::string message, const Mark& mark, int length,
                   std::string label, std::string help, std::string note) {
  if (found_.size() >= kMostKept) return;
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.label = std::move(label);
  d.help = std::move(help);
  d.note = std::move(note);
  if (mark.source < sources_.size()) {
    const Source& source = sources_[mark.source];
    d.file = source.name;
    d.line = mark.line;
    // Marks count bytes, people count characters.
    const std::string_view line = source.line(mark.line);
    const size_t before = mark.column > 0 ? static_cast<size_t>(mark.column - 1) : 0;
    const auto under = static_cast<size_t>(std::max(length, 1));
    d.column = mark.column > 0 ? characters(line, before) + 1 : 0;
    d.length = before < line.size() ? std::max(1, characters(line.substr(before), under)) : 1;
    constexpr size_t kLongestLine = 2000;  // a whole file may be one line
    if (line.size() <= kLongestLine) d.source_line = std::string(line);
  }
  found_.push_back(std::move(d));
}

void Problems::throw_if_any() const {
  if (found_.empty()) return;
  // Files in the order they were read, then by place.
  const auto place = [&](const Diagnostic& d) {
    const auto at = std::find_if(sources_.begin(), sources_.end(),
                                 [&](const Source& s) { return s.name == d.file; });
    return std::tuple(at - sources_.begin(), d.line, d.column);
  };
  std::vector<Diagnostic> all = found_;
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  if (all.size() > kMostReported) all.resize(kMostReported);
  throw InputError(std::move(all), exit_status);
}

}  // namespace stepcast
