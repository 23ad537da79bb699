// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_log.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace stepcast {
namespace {

// One line after the other, without its end.
struct Lines {
  std::string_view rest;
  int number = 0;

  std::optional<std::string_view> next() {
    if (rest.empty()) return {};
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "name ..... value", perhaps after what a launcher puts before each line.
std::optional<Argument> printed_argument(std::string_view line, const SourceRef& source,
                                         int number) {
  const size_t dots = line.find(" ...");
  size_t begin = dots;
  if (dots == std::string_view::npos) return {};
  while (begin > 0 && is_name(line[begin - 1])) --begin;
  if (begin == dots) return {};
  size_t value = dots + 1;
  while (value < line.size() && line[value] == '.') ++value;
  if (value < line.size() && line[value] == ' ') ++value;
  Argument a;
  a.written = std::string(line.substr(begin, dots - begin));
  a.name = argument_name(a.written);
  std::string_view text = line.substr(value);
  while (text.ends_with(' ')) text.remove_suffix(1);
  a.value.kind = Value::Kind::scalar;
  a.value.mark = {source, number, static_cast<int>(value) + 1};
  a.value.text = std::string(text);
  return a;
}

// The number after `label` in the line, and where it stands.
struct Found {
  double value = 0;
  bool readable = false;
  size_t at = 0, length = 0;
};
std::optional<Found> number_after(std::string_view line, std::string_view label) {
  const size_t begin = line.find(label);
  if (begin == std::string_view::npos) return {};
  Found f;
  f.at = begin + label.size();
  while (f.at < line.size() && line[f.at] == ' ') ++f.at;
  size_t end = f.at;
  while (end < line.size() && line[end] != ' ' && line[end] != '|') ++end;
  f.length = end - f.at;
  const char* last = line.data() + end;
  const auto [stop, error] = std::from_chars(line.data() + f.at, last, f.value);
  constexpr double kMost = 1e9;
  f.readable = error == std::errc() && stop == last && f.value > 0 && f.value < kMost;
  return f;
}

struct Iteration {
  double milliseconds = 0;
  double batch = 0;  // 0: not printed
};

Time milliseconds(double ms) {
  return time_from_seconds(ms / 1000);
}

}  // namespace

std::vector<Argument> read_printed_arguments(const SourceRef& source) {
  std::vector<Argument> all;
  Lines lines{source->text};
  bool inside = false;
  while (const auto line = lines.next()) {
    if (line->find("--- end of arguments ---") != std::string_view::npos) break;
    if (line->find("--- arguments ---") != std::string_view::npos) {
      inside = true;
      all.clear();
      continue;
    }
    if (!inside && !all.empty()) {
      // Without a head the list ends where lines of another form begin.
      if (auto a = printed_argument(*line, source, lines.number)) {
        all.push_back(std::move(*a));
        continue;
      }
      if (all.size() > 20) break;
      all.clear();
      continue;
    }
    if (auto a = printed_argument(*line, source, lines.number)) all.push_back(std::move(*a));
  }
  return all;
}

MeasuredIterations read_iterations(Problems& problems, const SourceRef& source) {
  MeasuredIterations result;
  std::vector<Iteration> all;
  double most = 0;
  Lines lines{source->text};
  const auto readable = [&](const Found& f) {
    if (f.readable) return true;
    problems.add("E331", "this is no number that a measurement can be",
                 {source, lines.number, static_cast<int>(f.at) + 1},
                 static_cast<int>(std::max<size_t>(1, f.length)), {}, "was the log cut off?");
    return false;
  };
  while (const auto line = lines.next()) {
    if (const auto ms = number_after(*line, "elapsed time per iteration (ms):")) {
      if (!readable(*ms)) continue;
      Iteration i{ms->value, 0};
      if (const auto batch = number_after(*line, "global batch size:"); batch && readable(*batch))
        i.batch = batch->value;
      all.push_back(i);
    }
    if (line->find("memory (MB)") == std::string_view::npos) continue;
    if (const auto mib = number_after(*line, "max allocated:"); mib && readable(*mib))
      most = std::max(most, mib->value);
  }
  constexpr double kMebibyte = 1024.0 * 1024.0;  // what Megatron calls MB
  if (most > 0) result.most_allocated = Bytes{std::llround(most * kMebibyte)};
  result.printed = static_cast<int64_t>(all.size());
  if (all.empty()) return result;
  const double batch = all.back().batch;
  const size_t warm = all.size() < 2 ? 0 : std::max<size_t>(1, all.size() / 10);
  std::vector<double> times;
  for (size_t i = warm; i < all.size(); ++i)
    if (all[i].batch == batch) times.push_back(all[i].milliseconds);
  std::sort(times.begin(), times.end());
  result.used = static_cast<int64_t>(times.size());
  // Between the two in the middle of an even number.
  const auto at = [&](size_t quarter) {
    const size_t doubled = (times.size() - 1) * quarter;  // four times the place
    const double below = times[doubled / 4];
    const double above = times[std::min(doubled / 4 + 1, times.size() - 1)];
    return milliseconds(below + (above - below) * static_cast<double>(doubled % 4) / 4);
  };
  result.low = at(1);
  result.median = at(2);
  result.high = at(3);
  return result;
}

}  // namespace stepcast
