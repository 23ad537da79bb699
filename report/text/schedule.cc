// SPDX-License-Identifier: Apache-2.0
#include "report/text/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace stepcast {

namespace {

constexpr int kLeastWidth = 40;
constexpr size_t kMostLines = 64;   // of lanes and axes, at a readable scale
constexpr size_t kManyLines = 100;  // ... at one column an action
constexpr int64_t kWidestAction = 8;
constexpr char kIdle = '.';

// Entries of the 256-colour table: background of even and of odd chunks, and text on them.
struct CellColor {
  int even, odd, text;
};
constexpr std::array<CellColor, kActionKinds> kTerminalColors = {{{25, 68, 231},
                                                                  {167, 174, 231},
                                                                  {80, 116, 16},
                                                                  {28, 71, 231},
                                                                  {178, 186, 16},
                                                                  {90, 133, 231},
                                                                  {245, 250, 16},
                                                                  {37, 44, 231},
                                                                  {173, 216, 16},
                                                                  {60, 66, 231},
                                                                  {97, 140, 231}}};

// One column of a lane.
struct Cell {
  char text = kIdle;
  int8_t kind = -1;  // of ActionKind; -1: idle
  bool odd = false;
};

struct Scale {
  int64_t columns = 1, ticks = 1;  // so many columns for so many ticks
  int64_t of(Time t) const {
    return static_cast<int64_t>(static_cast<__int128>(t.count()) * columns / ticks);
  }
  // The first tick at or after the left edge of column c.
  Time at(int64_t c) const {
    return Time{static_cast<int64_t>((static_cast<__int128>(c) * ticks + columns - 1) / columns)};
  }
};

struct Layout {
  Scale scale;
  int64_t total = 0;  // columns of the whole time
  int64_t band = 0;   // columns of a band
  bool overview = false;
};

int64_t shortest(const ScheduleDrawing& d) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& lane : d.lanes)
    for (const DrawnAction& a : lane)
      if (a.end > a.begin) least = std::min(least, int64_t{(a.end - a.begin).count()});
  return least == std::numeric_limits<int64_t>::max() ? 1 : least;
}

int widest_label(const ScheduleDrawing& d) {
  size_t widest = 1;
  for (const auto& lane : d.lanes)
    for (const DrawnAction& a : lane)
      widest = std::max(widest, label_of(a.action, d.seq_splits).size());
  return static_cast<int>(widest);
}

int64_t columns_for(const ScheduleDrawing& d, int64_t per_action, int64_t action) {
  const __int128 n = (static_cast<__int128>(d.makespan.count()) * per_action + action - 1) / action;
  return n > std::numeric_limits<int64_t>::max() ? std::numeric_limits<int64_t>::max()
                                                 : static_cast<int64_t>(n);
}

Layout lay_out(const ScheduleDrawing& d, int64_t band) {
  const int64_t action = shortest(d);
  const int64_t readable = widest_label(d) + 1;  // a letter, or with colours a blank
  Layout layout{{1, action}, 0, band, false};
  const auto lines = [&](int64_t columns) {
    const int64_t bands = (columns - 1) / band + 1;
    return static_cast<__int128>(bands) * static_cast<int64_t>(d.lanes.size() + 2);
  };
  // Bands of equal length, cut at multiples of the shortest action where there is room.
  const auto take = [&](int64_t per_action) {
    layout.scale.columns = per_action;
    layout.total = columns_for(d, per_action, action);
    const int64_t bands = std::max<int64_t>(1, (layout.total + band - 1) / band);
    const int64_t even = (layout.total + bands - 1) / bands;
    layout.band = std::min(band, (even + per_action - 1) / per_action * per_action);
    return layout;
  };
  for (int64_t k = kWidestAction; k >= readable; --k)
    if (columns_for(d, k, action) <= band) return take(k);
  for (int64_t k = readable; k >= 1; --k)
    if (lines(columns_for(d, k, action)) <= static_cast<__int128>(kMostLines)) return take(k);
  if (lines(columns_for(d, 1, action)) <= static_cast<__int128>(kManyLines)) return take(1);
  layout.scale = {band, std::max<int64_t>(1, d.makespan.count())};
  layout.total = band;
  layout.overview = true;
  return layout;
}

// Kind and microbatch where they fit, then what fits of the microbatch's last digits.
std::string text_of(const DrawnAction& a, const ScheduleDrawing& d, int64_t width, bool color) {
  char letter = letter_of(a.action.kind);
  if (a.chunk % 2 == 1) letter = static_cast<char>(letter - 'A' + 'a');
  const std::string label = label_of(a.action, d.seq_splits);
  std::string text = color ? "" : std::string(1, letter);
  const int64_t room = width - static_cast<int64_t>(text.size());
  if (room >= static_cast<int64_t>(label.size()))
    text += label;
  else if (room > 0)
    text += label.substr(label.size() - static_cast<size_t>(room));
  text.append(static_cast<size_t>(width) - text.size(), color ? ' ' : '-');
  return text;
}

void fill(std::vector<Cell>& row, const DrawnAction& a, const ScheduleDrawing& d,
          const Layout& layout, bool color) {
  const int64_t first = layout.scale.of(a.begin);
  const int64_t last = std::min(layout.scale.of(a.end), layout.total);
  if (last <= first) return;
  const std::string text = text_of(a, d, last - first, color);
  for (int64_t c = first; c < last; ++c)
    row[static_cast<size_t>(c)] = {text[static_cast<size_t>(c - first)],
                                   static_cast<int8_t>(a.action.kind), a.chunk % 2 == 1};
}

// What takes most of each column; the first kind of equals.
std::vector<Cell> overview_of(const std::vector<DrawnAction>& lane, const Layout& layout,
                              bool color) {
  constexpr size_t kShades = 2 * kActionKinds;
  std::vector<std::array<int64_t, kShades>> taken(static_cast<size_t>(layout.total));
  for (const DrawnAction& a : lane) {
    const size_t shade = 2 * static_cast<size_t>(a.action.kind) + a.chunk % 2;
    for (Time t = a.begin; t < a.end;) {
      const int64_t c = std::min(layout.scale.of(t), layout.total - 1);
      const Time next = std::clamp(layout.scale.at(c + 1), t + Time{1}, a.end);
      taken[static_cast<size_t>(c)][shade] += (next - t).count();
      t = next;
    }
  }
  std::vector<Cell> row(taken.size());
  for (size_t c = 0; c < row.size(); ++c) {
    const auto at = static_cast<int64_t>(c);
    const int64_t whole = (layout.scale.at(at + 1) - layout.scale.at(at)).count();
    int64_t busy = 0;
    for (const int64_t t : taken[c]) busy += t;
    if (2 * busy < whole || busy == 0) continue;
    const auto most = std::max_element(taken[c].begin(), taken[c].end()) - taken[c].begin();
    char letter = letter_of(static_cast<ActionKind>(most / 2));
    if (most % 2 == 1) letter = static_cast<char>(letter - 'A' + 'a');
    row[c] = {color ? ' ' : letter, static_cast<int8_t>(most / 2), most % 2 == 1};
  }
  return row;
}

std::vector<Cell> row_of(const std::vector<DrawnAction>& lane, const ScheduleDrawing& d,
                         const Layout& layout, bool color) {
  if (layout.overview) return overview_of(lane, layout, color);
  std::vector<Cell> row(static_cast<size_t>(layout.total));
  for (const DrawnAction& a : lane) fill(row, a, d, layout, color);
  return row;
}

std::string escape_of(const Cell& cell) {
  const CellColor& color = kTerminalColors[static_cast<size_t>(cell.kind)];
  return fmt::format("\x1b[38;5;{};48;5;{}m", color.text, cell.odd ? color.odd : color.even);
}

// Columns [first, last) of a row; a change of colour only where it changes, and with colours
// nothing after the last action.
std::string paint_cells(const std::vector<Cell>& row, size_t first, size_t last,
                        const TextStyle& style) {
  std::string text;
  while (style.color && last > first && row[last - 1].kind < 0) --last;
  const Cell* before = nullptr;  // a cell of the colour that is on
  for (size_t c = first; c < last; ++c) {
    const Cell& cell = row[c];
    const bool same =
        before != nullptr ? before->kind == cell.kind && before->odd == cell.odd : cell.kind < 0;
    if (style.color && !same) {
      if (before != nullptr) text += "\x1b[0m";
      if (cell.kind >= 0) text += escape_of(cell);
      before = cell.kind >= 0 ? &cell : nullptr;
    }
    text += style.color && cell.kind < 0 ? ' ' : cell.text;
  }
  if (before != nullptr) text += "\x1b[0m";
  return text;
}

// Numbers where their time begins, from column `first` to `last`.
std::string axis_line(const ScheduleDrawing& d, const Layout& layout, int64_t first, int64_t last,
                      int64_t step) {
  std::string line;
  const int64_t begin = (layout.scale.at(first).count() + step - 1) / step * step;
  for (int64_t t = begin; t <= d.makespan.count(); t += step) {
    const int64_t column = layout.scale.of(Time{t});
    if (column >= last) break;
    const std::string label = exact_decimal(t, d.per_unit);
    if (column < first || column - first + static_cast<int64_t>(label.size()) > last - first)
      continue;
    line.append(static_cast<size_t>(column - first) - line.size(), ' ');
    line += label;
    if (t > std::numeric_limits<int64_t>::max() - step) break;
  }
  return line;
}

std::string legend(const ScheduleDrawing& d, const Layout& layout, const TextStyle& style) {
  std::vector<std::string> pieces;
  bool chunks = false;
  for (const auto& lane : d.lanes)
    for (const DrawnAction& a : lane) chunks = chunks || a.chunk % 2 == 1;
  for (const ActionKind kind : kinds_in(d)) {
    std::vector<Cell> sample = {{letter_of(kind), static_cast<int8_t>(kind), false}};
    if (style.color) {
      sample.insert(sample.begin(), {' ', static_cast<int8_t>(kind), false});
      sample.push_back({' ', static_cast<int8_t>(kind), false});
    }
    pieces.push_back(paint_cells(sample, 0, sample.size(), style) + ' ' +
                     std::string(name_of_kind(kind)));
  }
  if (!style.color) pieces.push_back(std::string(1, kIdle) + " idle");
  if (chunks) pieces.push_back(style.color ? "lighter: odd chunks" : "small letters: odd chunks");
  if (layout.overview) {
    pieces.push_back("each column shows what takes most of it");
  } else {
    const int64_t room = layout.scale.columns - (style.color ? 0 : 1);
    pieces.push_back(room >= widest_label(d) ? "numbers: microbatches"
                                             : "numbers: last digits of microbatches");
  }
  return flow(pieces, style.width);
}

}  // namespace

std::vector<ActionKind> kinds_in(const ScheduleDrawing& drawing) {
  std::array<bool, kActionKinds> seen{};
  for (const auto& lane : drawing.lanes)
    for (const DrawnAction& a : lane) seen[static_cast<size_t>(a.action.kind)] = true;
  std::vector<ActionKind> kinds;
  for (size_t k = 0; k < seen.size(); ++k)
    if (seen[k]) kinds.push_back(static_cast<ActionKind>(k));
  return kinds;
}

std::string_view name_of_kind(ActionKind kind) {
  static constexpr std::array<std::string_view, kActionKinds> kNames = {
      "forward", "backward", "input gradient", "weight gradient", "recompute",         "offload",
      "reload",  "head",     "head gradients", "embedding",       "embedding gradient"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t axis_step(int64_t least, int64_t per_unit) {
  // Down to the smallest power of ten that is whole ticks, then up through 1, 2, 5, 10, ...
  int64_t base = per_unit;
  while (base % 10 == 0 && base / 10 >= std::max<int64_t>(1, least / 10)) base /= 10;
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max() / 10;
  for (;; base *= 10)
    for (const int64_t factor : {1, 2, 5})
      if (base * factor >= least || base > kEnd) return base * factor;
}

std::string label_of(const Action& action, int64_t seq_splits) {
  if (seq_splits <= 1) return std::to_string(action.microbatch);
  const auto splits = static_cast<uint32_t>(seq_splits);
  return fmt::format("{}.{}", action.microbatch / splits, action.microbatch % splits);
}

std::string draw_schedule(const ScheduleDrawing& d, const TextStyle& given) {
  TextStyle style = given;
  style.width = std::max(style.width, kLeastWidth);
  const int name = static_cast<int>(std::to_string(std::max<size_t>(d.lanes.size(), 1) - 1).size());
  const int margin = 5 + name + 2;  // "rank 12 |"
  const Layout layout = lay_out(d, style.width - margin);
  std::string text = wrap(escape_text(d.title), "", style.width);
  std::vector<std::vector<Cell>> rows;
  rows.reserve(d.lanes.size());
  for (const auto& lane : d.lanes) rows.push_back(row_of(lane, d, layout, style.color));
  const int64_t widest = static_cast<int64_t>(exact_decimal(d.makespan.count(), d.per_unit).size());
  const int64_t step = axis_step(layout.scale.at(widest + 3).count(), d.per_unit);
  for (int64_t first = 0; first < layout.total; first += layout.band) {
    const int64_t last = std::min(first + layout.band, layout.total);
    const std::string axis = axis_line(d, layout, first, last, step);
    text +=
        '\n' + (axis.empty() ? "" : std::string(static_cast<size_t>(margin), ' ') + axis) + '\n';
    for (size_t r = 0; r < rows.size(); ++r)
      text += "rank " + pad_left(std::to_string(r), name) + " |" +
              paint_cells(rows[r], static_cast<size_t>(first), static_cast<size_t>(last), style) +
              '\n';
  }
  return text + '\n' + legend(d, layout, style) + flow(d.facts, style.width);
}

}  // namespace stepcast
