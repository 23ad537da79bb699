// SPDX-License-Identifier: Apache-2.0
#include "report/html/points_data.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "report/html/varints.h"
#include "report/json/writer.h"
#include "report/text/axis_lines.h"
#include "report/text/steps.h"
#include "sim/results/step_ranking.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr double kMillionths = 1e6;

// What of a row follows from other columns, or is said by `run`.
bool is_sent(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kNot{
      "file", "settings", "job_tokens", "price_usd_per_gpu_h", "useful_share", "token_j"};
  for (const std::string_view not_sent : kNot)
    if (name == not_sent) return false;
  return true;
}

// Line ends part the settings of "others".
std::string escaped_lines(std::string_view text) {
  std::string escaped;
  while (true) {
    const size_t end = text.find('\n');
    escaped += escape_text(text.substr(0, end));
    if (end == std::string_view::npos) return escaped;
    escaped += '\n';
    text.remove_prefix(end + 1);
  }
}

class Columns {
 public:
  Columns(JsonWriter& header, const std::vector<StepRow>& rows) : header_(header), rows_(rows) {}

  // Equal texts are one word.
  void text(std::string_view name, const std::function<std::string(const StepRow&)>& of) {
    std::unordered_map<std::string, uint64_t> ids;
    std::vector<std::string> words;
    Varints numbers(bytes_);
    for (const StepRow& row : rows_) {
      const auto [at, fresh] = ids.try_emplace(of(row), ids.size());
      if (fresh) words.push_back(escaped_lines(at->first));
      numbers.add(at->second);
    }
    column(name, "text", [&] { header_.values("words", words); });
  }
  void whole(std::string_view name,
             const std::function<std::optional<int64_t>(const StepRow&)>& of) {
    Varints numbers(bytes_);
    int64_t last = 0;
    for (const StepRow& row : rows_) {
      const std::optional<int64_t> value = of(row);
      if (!value) {
        numbers.add(0);
        continue;
      }
      // Zigzag, and one more: wraps around where the difference does, as unsigned numbers do.
      const auto by =
          static_cast<int64_t>(static_cast<uint64_t>(*value) - static_cast<uint64_t>(last));
      numbers.add((static_cast<uint64_t>(by) << 1U ^ static_cast<uint64_t>(by >> 63)) + 1);
      last = *value;
    }
    column(name, kind_, [] {});
  }
  void million(std::string_view name,
               const std::function<std::optional<double>(const StepRow&)>& of) {
    constexpr double kMost = 9e12;  // larger ones have no use on a page
    kind_ = "million";
    whole(name, [&](const StepRow& row) -> std::optional<int64_t> {
      const std::optional<double> value = of(row);
      if (!value || !(std::abs(*value) < kMost)) return {};
      return std::llround(*value * kMillionths);
    });
    kind_ = "whole";
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void column(std::string_view name, std::string_view kind, const std::function<void()>& more) {
    header_.begin_object();
    header_.member("name", name);
    header_.member("kind", kind);
    more();
    header_.end_object();
  }

  JsonWriter& header_;
  const std::vector<StepRow>& rows_;
  std::string_view kind_ = "whole";
  std::string bytes_;
};

}  // namespace

std::string points_data(const StepPoints& points, std::span<const std::string> run_words) {
  JsonWriter header(0);
  header.begin_object();
  header.member("rows", static_cast<int64_t>(points.rows.size()));
  header.member("counted", static_cast<int64_t>(points.counted));
  header.objects("steps", points.steps, [&](const StepPoints::Step& step) {
    header.member("axis", step.axis);
    header.member("row", static_cast<int64_t>(step.row));
  });
  header.objects("axes", row_axes(), [&](const RowAxis& axis) {
    header.member("title", axis.title);
    header.member("column", axis.column);
  });
  header.key("columns");
  header.begin_array();
  Columns columns(header, points.rows);
  for (const StepColumn& c : step_columns()) {
    if (!is_sent(c.name)) continue;
    std::visit(
        [&](auto member) {
          using Pointer = decltype(member);
          if constexpr (std::is_same_v<Pointer, std::string StepRow::*>)
            columns.text(c.name, [&](const StepRow& row) { return row.*member; });
          else if constexpr (std::is_same_v<Pointer, std::optional<double> StepRow::*>)
            columns.million(c.name, [&](const StepRow& row) { return row.*member; });
          else
            columns.whole(c.name,
                          [&](const StepRow& row) { return std::optional<int64_t>(row.*member); });
        },
        c.member);
  }
  columns.text("others", other_settings);
  columns.text("run", [&](const StepRow& row) { return run_line(row, run_words); });
  columns.million("days", [](const StepRow& row) { return row.days(); });
  columns.million("price_usd", [](const StepRow& row) { return row.price(); });
  header.end_array();
  header.end_object();
  std::string bytes;
  Varints(bytes).add(header.text().size());
  return bytes + header.text() + columns.bytes();
}

}  // namespace stepcast
