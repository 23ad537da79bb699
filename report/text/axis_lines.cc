// SPDX-License-Identifier: Apache-2.0
#include "report/text/axis_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <system_error>
#include <type_traits>

#include "report/format.h"
#include "report/text/steps.h"
#include "sim/results/step_ranking.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// The value of an axis, or of a column, as it is shown.
std::string value_of(const StepRow& row, const RowAxis& axis) {
  return std::visit(
      [&](auto member) -> std::string {
        if constexpr (std::is_same_v<decltype(member), std::string StepRow::*>)
          return row.*member;
        else
          return std::to_string(row.*member);
      },
      axis.member);
}

bool same(const StepRow& a, const StepRow& b, const RowAxis& axis) {
  return std::visit([&](auto member) { return a.*member == b.*member; }, axis.member);
}

// Whether columns say what this word sets.
bool has_column(std::string_view word) {
  static constexpr std::array<std::string_view, 7> kKeys{
      "parallel.", "batch.", "recompute", "schedule=", "schedule.", "cluster.nodes=", "cluster="};
  return std::ranges::any_of(kKeys, [&](std::string_view key) { return word.starts_with(key); });
}

std::pair<std::string, std::string> split_at_equals(const std::string& word) {
  const size_t at = word.find('=');
  if (at == std::string::npos) return {word, ""};
  return {word.substr(0, at), word.substr(at + 1)};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// By number where both are numbers.
bool value_less(const std::string& a, const std::string& b) {
  double x = 0, y = 0;
  const bool numbers = std::from_chars(a.data(), a.data() + a.size(), x).ec == std::errc{} &&
                       std::from_chars(b.data(), b.data() + b.size(), y).ec == std::errc{};
  return numbers && x != y ? x < y : a < b;
}

// The setting that alone differs, and its value in `other`.
std::optional<std::pair<std::string, std::string>> one_difference(
    const std::vector<std::string>& from, const std::vector<std::string>& other) {
  if (from.size() != other.size()) return {};
  std::optional<std::pair<std::string, std::string>> found;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == other[i]) continue;
    auto [path, value] = split_at_equals(other[i]);
    if (found || split_at_equals(from[i]).first != path) return {};
    found = {path, value};
  }
  return found;
}

}  // namespace

std::span<const RowAxis> row_axes() {
  static const std::array kRowAxes{RowAxis{"GPU", "gpu", &StepRow::gpu},
                                   RowAxis{"GPUs", "gpus", &StepRow::gpus},
                                   RowAxis{"seq", "seq", &StepRow::seq},
                                   RowAxis{"GBS", "global_batch", &StepRow::global_batch},
                                   RowAxis{"TP", "tp", &StepRow::tp},
                                   RowAxis{"PP", "pp", &StepRow::pp},
                                   RowAxis{"VP", "vpp", &StepRow::vpp},
                                   RowAxis{"CP", "cp", &StepRow::cp},
                                   RowAxis{"EP", "ep", &StepRow::ep},
                                   RowAxis{"ETP", "etp", &StepRow::etp},
                                   RowAxis{"MBS", "micro_batch", &StepRow::micro_batch},
                                   RowAxis{"recompute", "recompute", &StepRow::recompute},
                                   RowAxis{"schedule", "schedule", &StepRow::schedule},
                                   RowAxis{"ZeRO", "zero", &StepRow::zero}};
  return kRowAxes;
}

std::string other_settings(const StepRow& row) {
  std::vector<std::string> words = shell_words(row.settings);
  std::erase_if(words, [](const std::string& word) { return has_column(word); });
  std::ranges::sort(words);
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "\n") + escape_text(word);
  return text;
}

std::vector<AxisLine> axis_lines(const StepPoints& points, size_t through) {
  const StepRow& first = points.rows[through];
  const std::string other = other_settings(first);
  const std::vector<std::string> settings = lines_of(other);
  using Values = std::map<std::string, size_t>;
  std::vector<Values> by_axis(row_axes().size());
  std::map<std::string, Values> by_setting;
  for (size_t i = 0; i < points.rows.size(); ++i) {
    const StepRow& row = points.rows[i];
    if (i == through || row.name != first.name) continue;
    size_t axis = row_axes().size(), differ = 0;
    for (size_t a = 0; a < row_axes().size(); ++a) {
      if (same(row, first, row_axes()[a])) continue;
      axis = a;
      ++differ;
    }
    if (differ > 1) continue;
    const std::string own = other_settings(row);
    if (differ == 1 && own == other) by_axis[axis].try_emplace(value_of(row, row_axes()[axis]), i);
    if (differ == 0)
      if (const auto one = one_difference(settings, lines_of(own)))
        by_setting[one->first].try_emplace(one->second, i);
  }
  std::vector<AxisLine> lines;
  const auto add = [&](const std::string& axis, const std::string& value, Values& values) {
    if (values.empty()) return;
    values[value] = through;
    AxisLine& line = lines.emplace_back(AxisLine{axis, {values.begin(), values.end()}});
    std::ranges::sort(line.points,
                      [](const auto& a, const auto& b) { return value_less(a.first, b.first); });
  };
  for (size_t a = 0; a < by_axis.size(); ++a)
    add(std::string(row_axes()[a].title), value_of(first, row_axes()[a]), by_axis[a]);
  for (const std::string& word : settings) {
    const auto [path, value] = split_at_equals(word);
    if (const auto at = by_setting.find(path); at != by_setting.end()) add(path, value, at->second);
  }
  return lines;
}

CellTable axis_lines_table(const StepPoints& points) {
  CellTable table(0);
  table.sides = "<>>>><";
  table.rows = {{"axis", "value", "step s", "vs #1", "peak GiB", ""}};
  if (points.rows.empty()) return table;
  const StepRow& first = points.rows.front();
  for (const AxisLine& line : axis_lines(points, 0)) {
    bool begins = true;
    for (const auto& [value, row] : line.points) {
      const StepRow& r = points.rows[row];
      const double more = static_cast<double>(r.step_time_ps.value_or(0)) /
                              static_cast<double>(first.step_time_ps.value_or(1)) -
                          1;
      table.rows.push_back({begins ? escape_text(line.axis) : "", escape_text(value),
                            step_seconds(r),
                            row == 0 ? "-" : (more > 0 ? "+" : "") + fixed(100 * more, 1) + " %",
                            r.reserved_bytes ? gib(Bytes{*r.reserved_bytes}) : "",
                            row >= points.counted ? "does not fit" : ""});
      begins = false;
    }
  }
  return table;
}

}  // namespace stepcast
