// SPDX-License-Identifier: Apache-2.0
#include "report/text/steps.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "report/json/writer.h"
#include "report/text/search.h"
#include "sim/csv.h"
#include "sim/results/step_ranking.h"
#include "sim/text.h"

namespace stepcast {

std::string step_seconds(Time step) {
  const double s = to_seconds(step);
  return fixed(s, s < 9.9995 ? 4 : s < 99.995 ? 3 : 2);
}

std::string step_seconds(const StepRow& r) {
  return r.step_time_ps ? step_seconds(Time{*r.step_time_ps}) : "";
}

namespace {

// "parallel.tp=2 'a=b c'" -> " -s parallel.tp=2 -s 'a=b c'".  Read and written anew: a store may
// have it from anywhere, and people paste it into a shell.
std::string run_settings(std::string_view settings) {
  std::string text;
  for (const std::string& word : shell_words(settings))
    text += " -s " + escape_text(shell_word(word));
  return text;
}

std::string gib_of(std::optional<int64_t> bytes) {
  return bytes ? fixed(static_cast<double>(*bytes) / (int64_t{1} << 30), 1) : "";
}

struct StepCell {
  const char* title;
  char side;
  std::string (*cell)(const StepRow&);
  bool only_if_varied = false;  // left out where all rows have the same
};

const std::array kStepLayout{
    StepCell{"scenario", '<', [](const StepRow& r) { return escape_text(r.name); }, true},
    StepCell{"GPU", '<', [](const StepRow& r) { return escape_text(r.gpu); }, true},
    StepCell{"GPUs", '>', [](const StepRow& r) { return fmt::to_string(r.gpus); }, true},
    StepCell{"seq", '>', [](const StepRow& r) { return fmt::to_string(r.seq); }, true},
    StepCell{"GBS", '>', [](const StepRow& r) { return fmt::to_string(r.global_batch); }, true},
    StepCell{"TP", '>', [](const StepRow& r) { return fmt::to_string(r.tp); }},
    StepCell{"PP", '>', [](const StepRow& r) { return fmt::to_string(r.pp); }},
    StepCell{"VP", '>', [](const StepRow& r) { return fmt::to_string(r.vpp); }},
    StepCell{"CP", '>', [](const StepRow& r) { return fmt::to_string(r.cp); }},
    StepCell{"EP", '>', [](const StepRow& r) { return fmt::to_string(r.ep); }},
    StepCell{"ETP", '>', [](const StepRow& r) { return fmt::to_string(r.etp); }},
    StepCell{"DP", '>', [](const StepRow& r) { return fmt::to_string(r.dp); }},
    StepCell{"MBS", '>', [](const StepRow& r) { return fmt::to_string(r.micro_batch); }},
    StepCell{"recompute", '<', [](const StepRow& r) { return escape_text(r.recompute); }},
    StepCell{"schedule", '<', [](const StepRow& r) { return escape_text(r.schedule); }},
    StepCell{"layers", '<',
             [](const StepRow& r) { return escape_text(layers_text(r.stage_layers)); }, true},
    StepCell{"ZeRO", '>', [](const StepRow& r) { return fmt::to_string(r.zero); }},
};
const std::array kStepFigures{
    StepCell{"step s", '>', [](const StepRow& r) { return step_seconds(r); }},
    StepCell{
        "tok/s/GPU", '>',
        [](const StepRow& r) { return r.tokens_per_gpu_s ? rate_text(*r.tokens_per_gpu_s) : ""; }},
    StepCell{"MFU %", '>', [](const StepRow& r) { return r.mfu ? fixed(100 * *r.mfu, 1) : ""; }},
    StepCell{"allocated GiB", '>', [](const StepRow& r) { return gib_of(r.peak_bytes); }},
    StepCell{"peak GiB", '>', [](const StepRow& r) { return gib_of(r.reserved_bytes); }},
    StepCell{"free %", '>',
             [](const StepRow& r) {
               if (!r.reserved_bytes || r.usable_bytes <= 0) return std::string();
               return fixed(100 * (1 - static_cast<double>(*r.reserved_bytes) /
                                           static_cast<double>(r.usable_bytes)),
                            0);
             }},
    StepCell{"J/token", '>',
             [](const StepRow& r) {
               return r.joules_per_token ? joules_text(*r.joules_per_token) : "";
             }},
    StepCell{"USD/GPUh", '>',
             [](const StepRow& r) {
               return r.price_usd_per_gpu_h ? fixed(*r.price_usd_per_gpu_h, 2) : "";
             },
             true},
    StepCell{"days", '>', [](const StepRow& r) { return r.days() ? fixed(*r.days(), 1) : ""; }},
    StepCell{"kUSD", '>',
             [](const StepRow& r) { return r.price() ? fixed(*r.price() / 1000, 1) : ""; }},
};

template <class Columns>
void add_columns(CellTable& cells, const Columns& columns, const std::vector<StepRow>& rows) {
  for (const StepCell& c : columns) {
    std::vector<std::string> texts;
    for (const StepRow& r : rows) texts.push_back(c.cell(r));
    const bool varied =
        std::ranges::any_of(texts, [&](const std::string& t) { return t != texts.front(); });
    const bool says =
        std::ranges::any_of(texts, [](const std::string& t) { return !t.empty() && t != "1"; });
    if (varied || (says && !c.only_if_varied)) cells.add(c.title, c.side, std::move(texts));
  }
}

std::string csv_value(const StepRow& row, const StepColumn& column) {
  return std::visit(
      [&](auto member) -> std::string {
        using Pointer = decltype(member);
        if constexpr (std::is_same_v<Pointer, std::string StepRow::*>)
          return csv_cell(row.*member);
        else if constexpr (std::is_same_v<Pointer, int64_t StepRow::*>)
          return fmt::to_string(row.*member);
        else
          return row.*member ? fmt::to_string(*(row.*member)) : "";
      },
      column.member);
}

std::string csv_titles() {
  std::string text = "key";
  for (const StepColumn& c : step_columns()) text += ',' + std::string(c.name);
  return text + ",step_time_s,days,price_usd";
}

std::string csv_of(const StepRow& row) {
  std::string text = hex_of(row.key);
  for (const StepColumn& c : step_columns()) text += ',' + csv_value(row, c);
  text += ',';
  if (row.step_time_ps) text += exact_decimal(*row.step_time_ps, 1'000'000'000'000);
  for (const std::optional<double>& x : {row.days(), row.price()})
    text += ',' + (x ? fmt::to_string(*x) : "");
  return text;
}

void write_row(JsonWriter& json, const StepRow& row) {
  json.member("key", hex_of(row.key));
  for (const StepColumn& c : step_columns()) {
    if (c.name == "step_time_ps") {
      json.key("step_time_s");
      row.step_time_ps ? json.value(to_seconds(Time{*row.step_time_ps})) : json.null();
    }
    std::visit([&](auto member) { json.member(c.name, row.*member); }, c.member);
  }
  json.member("days", row.days());
  json.member("price_usd", row.price());
}

void write_point(JsonWriter& json, const SweepResult& result, const SweepPoint& point) {
  std::vector<std::string> set;
  for (size_t a = 0; a < result.axes.size(); ++a)
    set.push_back(result.axes[a] + '=' + point.values[a]);
  json.values("set", set);
  if (point.outcome == SweepPoint::Outcome::found) {
    write_row(json, point.row);
    return;
  }
  json.object("error", [&] {
    json.member("code", point.code);
    json.member("message", point.why);
  });
}

std::string number_of_points(const SweepResult& r) {
  const auto own = static_cast<int64_t>(r.points.size());
  return own == r.all ? counted(own, "point", "points")
                      : fmt::format("{} of {} points", grouped(own), grouped(r.all));
}

// A line each for what makes points no scenarios, the most frequent first.
std::string illegal_text(const SweepResult& r, const TextStyle& style) {
  std::map<std::string, std::pair<int64_t, std::string>> by_code;
  for (const SweepPoint& p : r.points)
    if (p.outcome == SweepPoint::Outcome::illegal) {
      auto& [count, example] = by_code[p.code];
      if (count++ == 0) example = p.why;
    }
  std::string text;
  for (const auto& [code, what] : by_code)
    text +=
        wrap(fmt::format("{} no scenario ({}): {}{}", counted(what.first, "point is", "points are"),
                         code, escape_text(what.second), what.first > 1 ? ", and others" : ""),
             "  ", style.width);
  return text;
}

constexpr size_t kShownPoints = 100;

}  // namespace

std::string steps_text(const std::vector<StepRow>& rows, const StepRanking& ranking,
                       const TextStyle& style) {
  if (rows.empty()) return wrap(no_step(ranking), "  ", style.width);
  return steps_table(rows).text(style) + "\n  The first, as a forecast of its own:\n    " +
         run_line(rows.front()) + '\n';
}

std::string no_step(const StepRanking& ranking) {
  const auto asks = [&](SearchObjective o) { return std::ranges::count(ranking.by, o) > 0; };
  std::string text = fmt::format("No row fits with {:.0f} % of the memory left free and has {}.",
                                 100 * ranking.memory_margin, objective_names(ranking));
  if (asks(SearchObjective::energy))
    text += " Energy is kept by `stepcast sweep --energy` and by searches that ask for it.";
  if (asks(SearchObjective::price) && !(ranking.tokens && ranking.price))
    text += " Of rows without a price --tokens 15T and --price 2USD/GPUh say what is missing.";
  else if (asks(SearchObjective::days) && !ranking.tokens)
    text += " Of rows without days --tokens 15T says what is missing.";
  return text;
}

std::string objective_names(const StepRanking& ranking) {
  std::string text;
  for (const SearchObjective o : ranking.by)
    text += (text.empty() ? "" : ", ") + std::string(name_of(o));
  return text;
}

CellTable steps_table(const std::vector<StepRow>& rows) {
  CellTable cells(rows.size());
  std::vector<std::string> ranks;
  for (size_t i = 0; i < rows.size(); ++i) ranks.push_back(fmt::to_string(i + 1));
  cells.add("#", '>', std::move(ranks));
  add_columns(cells, kStepLayout, rows);
  add_columns(cells, kStepFigures, rows);
  return cells;
}

std::string run_line(const StepRow& row, std::span<const std::string> words) {
  std::string text = "stepcast run";
  for (const std::string& word : words) text += ' ' + shell_word(escape_text(word));
  if (words.empty()) text += ' ' + escape_text(shell_word(row.file));
  return text + run_settings(row.settings);
}

std::string layout_text(const StepRow& row) {
  FoundLayout layout;
  layout.tp = row.tp;
  layout.cp = row.cp;
  layout.pp = row.pp;
  layout.vpp = row.vpp;
  layout.ep = row.ep;
  layout.etp = row.etp;
  layout.dp = row.dp;
  layout.micro = row.micro_batch;
  layout.zero = row.zero;
  layout.recompute = row.recompute;
  return layout_text(layout);
}

std::string steps_csv(const std::vector<StepRow>& rows) {
  std::string text = csv_titles() + '\n';
  for (const StepRow& r : rows) text += csv_of(r) + '\n';
  return text;
}

std::string steps_json(const std::vector<StepRow>& rows, const StepRanking& ranking,
                       std::string_view version) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    json.member("version", version);
    std::vector<std::string_view> by;
    for (const SearchObjective o : ranking.by) by.push_back(name_of(o));
    json.values("by", by);
    json.member("pareto", ranking.pareto);
    json.member("memory_margin", ranking.memory_margin);
    json.objects("rows", rows, [&](const StepRow& r) { write_row(json, r); });
  });
}

std::string sweep_text(const SweepResult& r, const TextStyle& style) {
  std::string text = paint(escape_text(r.name), Tone::strong, style) + "   sweep over " +
                     number_of_points(r) + "\n\n";
  std::vector<const SweepPoint*> found;
  int64_t open = 0;
  for (const SweepPoint& p : r.points) {
    if (p.outcome == SweepPoint::Outcome::found) found.push_back(&p);
    if (p.outcome == SweepPoint::Outcome::open) ++open;
  }
  const size_t shown = std::min(found.size(), kShownPoints);
  if (shown > 0) {
    CellTable cells(shown);
    std::vector<StepRow> rows;
    for (size_t i = 0; i < shown; ++i) rows.push_back(found[i]->row);
    for (size_t a = 0; a < r.axes.size(); ++a) {
      std::vector<std::string> values;
      for (size_t i = 0; i < shown; ++i) values.push_back(escape_text(found[i]->values[a]));
      cells.add(r.axes[a], '>', std::move(values));
    }
    add_columns(cells, kStepFigures, rows);
    std::vector<std::string> remarks;
    for (const StepRow& row : rows)
      remarks.emplace_back(!row.runs() ? "cannot run" : row.fits() ? "" : "out of memory");
    cells.add("", '<', std::move(remarks));
    text += cells.text(style) + '\n';
  }
  if (shown < found.size())
    text += fmt::format("  and {} more points: --csv has all\n",
                        grouped(static_cast<int64_t>(found.size() - shown)));
  text += illegal_text(r, style);
  if (open > 0)
    text += fmt::format("  {} not come to: the sweep was stopped\n",
                        counted(open, "point was", "points were"));
  return text;
}

std::string sweep_csv(const SweepResult& r) {
  std::string text;
  for (const std::string& axis : r.axes) text += csv_cell("axis:" + axis) + ',';
  text += csv_titles() + ",error\n";
  const std::string nothing(step_columns().size() + 3, ',');
  for (const SweepPoint& p : r.points) {
    if (p.outcome == SweepPoint::Outcome::open) continue;
    for (const std::string& value : p.values) text += csv_cell(value) + ',';
    if (p.outcome == SweepPoint::Outcome::found)
      text += csv_of(p.row) + ",\n";
    else
      text += nothing + ',' + csv_cell(p.code + ' ' + p.why) + '\n';
  }
  return text;
}

std::string sweep_json_lines(const SweepResult& r) {
  std::string text;
  for (const SweepPoint& p : r.points) {
    if (p.outcome == SweepPoint::Outcome::open) continue;
    JsonWriter json(0);
    json.begin_object();
    write_point(json, r, p);
    json.end_object();
    text += json.text() + '\n';
  }
  return text;
}

std::string sweep_json(const SweepResult& r, std::string_view version) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    json.member("version", version);
    json.member("points", r.all);
    json.values("axes", r.axes);
    std::vector<const SweepPoint*> known;
    for (const SweepPoint& p : r.points)
      if (p.outcome != SweepPoint::Outcome::open) known.push_back(&p);
    json.objects("rows", known, [&](const SweepPoint* p) { write_point(json, r, *p); });
  });
}

}  // namespace stepcast
