// SPDX-License-Identifier: Apache-2.0
#include "scenarios/routing_trace.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

struct Cell {
  double count = 0;
  Mark mark;
};

// The cells of each line that has any; adds a problem and returns nothing at the first bad one.
std::optional<std::vector<std::vector<Cell>>> read_cells(std::string_view text, uint32_t source,
                                                         Problems& problems) {
  std::vector<std::vector<Cell>> lines;
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(row.size() + 1, text.size()));
    std::string_view rest = row.substr(0, row.find('#'));
    std::vector<Cell> cells;
    while (rest.find_first_not_of(" \t\r,") != std::string_view::npos) {
      rest.remove_prefix(rest.find_first_not_of(" \t\r,"));
      const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r,"));
      Cell cell{0, {source, line, static_cast<int>(word.data() - row.data()) + 1}};
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), cell.count);
      if (error != std::errc{} || end != word.data() + word.size() ||
          !(cell.count >= 0 && cell.count <= 1e15)) {
        problems.add("E125", "a count of tokens cannot be '" + std::string(word) + '\'', cell.mark,
                     static_cast<int>(word.size()), {}, "counts are numbers from 0");
        return {};
      }
      cells.push_back(cell);
      rest.remove_prefix(word.size());
    }
    if (!cells.empty()) lines.push_back(std::move(cells));
  }
  return lines;
}

}  // namespace

void resolve_routing_trace(const PlanInputs& in, ScenarioFiles& files, Plan& plan) {
  const FieldValues& v = in.values;
  const char* key = "moe.routing.trace";
  if (!v.has(key) || in.model == nullptr || in.model->experts == 0) return;
  const auto refuse = [&](std::string message, const Mark& mark, std::string help) {
    in.problems.add("E127", std::move(message), mark, 1, {}, std::move(help));
  };
  for (const char* other : {"moe.routing.kind", "moe.routing.shares"})
    if (v.value(other) != nullptr)
      return refuse(std::string(key) + " and " + other + " both say where tokens go", v.mark(other),
                    "leave one of them out");
  const std::optional<uint32_t> source = files.open(v.text(key), v.mark(key));
  if (!source) return;
  const std::string text = in.problems.source(*source).text;
  const auto lines = read_cells(text, *source, in.problems);
  if (!lines) return;
  const auto experts = static_cast<size_t>(in.model->experts);
  const std::string count = std::to_string(experts);
  std::vector<double> sums(experts);
  double all = 0;
  const bool column = lines->size() == experts && lines->front().size() == 1;
  for (size_t l = 0; l < lines->size(); ++l) {
    const std::vector<Cell>& cells = (*lines)[l];
    if (cells.size() != (column ? 1 : experts))
      return refuse(
          "a line of " + std::to_string(cells.size()) + " counts, for " + count + " experts",
          cells.front().mark, "one column an expert, or one line an expert");
    for (size_t c = 0; c < cells.size(); ++c) {
      sums[column ? l : c] += cells[c].count;
      all += cells[c].count;
    }
  }
  if (!(all > 0))
    return refuse("the trace counts no tokens", {*source, 1, 1},
                  "moe.routing: balanced sends every expert as many");
  for (double& s : sums) s /= all;
  plan.moe.routing.kind = Routing::Kind::shares;
  plan.moe.routing.shares = std::move(sums);
}

}  // namespace stepcast
