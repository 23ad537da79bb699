// SPDX-License-Identifier: Apache-2.0
#include "scenarios/value.h"

#include <algorithm>
#include <numeric>
#include <tuple>

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

// Marks and lengths count bytes; people count characters.
void fill_in_place(Diagnostic& d, const Source& source, const Mark& mark) {
  d.file = source.name;
  d.line = mark.line;
  const std::string_view line = source.line(mark.line);
  const size_t before = mark.column > 0 ? static_cast<size_t>(mark.column - 1) : 0;
  const auto under = static_cast<size_t>(std::max(d.length, 1));
  d.column = mark.column > 0 ? characters(line, before) + 1 : 0;
  d.length = before < line.size() ? std::max(1, characters(line.substr(before), under)) : 1;
  constexpr size_t kLongestLine = 2000;  // a whole file may be one line
  if (line.size() <= kLongestLine) d.source_line = std::string(line);
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
  d.length = length;
  d.label = std::move(label);
  d.help = std::move(help);
  d.note = std::move(note);
  found_.push_back(std::move(d));
  marks_.push_back(mark);
}

void Problems::throw_if_any() const {
  if (found_.empty()) return;
  // Sources in the order they were read, then by place.
  std::vector<size_t> order(found_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto place = [&](size_t i) {
    return std::tuple(marks_[i].source, marks_[i].line, marks_[i].column);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return place(a) < place(b); });
  if (order.size() > kMostReported) order.resize(kMostReported);
  std::vector<Diagnostic> all;
  for (const size_t i : order) {
    all.push_back(found_[i]);
    if (marks_[i].source < sources_.size())
      fill_in_place(all.back(), sources_[marks_[i].source], marks_[i]);
  }
  throw InputError(std::move(all), exit_status);
}

}  // namespace stepcast
