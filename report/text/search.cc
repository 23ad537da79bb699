// SPDX-License-Identifier: Apache-2.0
#include "report/text/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/json/result.h"
#include "report/json/writer.h"
#include "report/text/run.h"
#include "report/text/scatter.h"
#include "report/text/steps.h"
#include "sim/check.h"
#include "sim/graph/spend.h"
#include "sim/text.h"

namespace stepcast {
namespace {

std::string whole(int64_t n) {
  return fmt::to_string(n);
}

std::string count_of(double n) {
  return n < 1e15 ? grouped(static_cast<int64_t>(n)) : fmt::format("{:.3g}", n);
}

// What a share of the critical rank's time is.
double share_if(const FoundLayout& l, bool (*counts)(Spend)) {
  if (!l.result || l.result->account.by_role.empty()) return 0;
  const Account& a = l.result->account;
  return share_of(sum_if(a.by_role[a.critical_role], counts), l.result->makespan);
}

bool is_recompute(Spend s) {
  return s == Spend::recompute;
}

double free_share(const FoundLayout& l) {
  return l.usable.value > 0
             ? 1 - static_cast<double>(l.reserved.value) / static_cast<double>(l.usable.value)
             : 0;
}

// What is compared: what the first objective makes small.
double cost_of(const FoundLayout& l, SearchObjective o) {
  switch (o) {
    case SearchObjective::step_time: return to_seconds(l.step_time);
    case SearchObjective::tokens_per_gpu_s:
      return l.tokens_per_gpu_s > 0 ? 1 / l.tokens_per_gpu_s : 0;
    case SearchObjective::peak_memory: return static_cast<double>(l.reserved.value);
    case SearchObjective::days: return l.days;
    case SearchObjective::price: return l.price;
    case SearchObjective::energy: return l.joules_per_token;
  }
  return 0;
}

double versus(const FoundLayout& l, const FoundLayout& first, SearchObjective o) {
  const double base = cost_of(first, o);
  return base > 0 ? cost_of(l, o) / base - 1 : 0;
}

std::string change_text(double share) {
  return (share > 0 ? "+" : "") + fixed(100 * share, 1) + " %";
}

std::string words_of(const std::vector<int64_t>& stage_layers) {
  std::string text;
  for (const int64_t n : stage_layers) text += (text.empty() ? "" : " ") + whole(n);
  return text;
}

struct LayoutColumn {
  const char* title;
  char side;
  std::string (*cell)(const FoundLayout&);
  bool only_if_varied = false;  // left out where all layouts have the same
};

std::string seconds_text(const FoundLayout& l) {
  return step_seconds(l.step_time);
}

// Of those that were forecast whole.
std::string share_text(const FoundLayout& l, bool (*counts)(Spend)) {
  return l.result ? fixed(100 * share_if(l, counts), 1) : "";
}

// How many of such steps fit, as observed of forecasts of memory.
std::string fits_text(const FoundLayout& l) {
  return l.result && l.result->fits_share ? fixed(100 * *l.result->fits_share, 0) : "";
}

std::string mfu_text(const FoundLayout& l) {
  return l.result ? fixed(100 * l.result->utilization.mfu_full_attention, 1) : "";
}

const std::array kLayoutColumns{
    LayoutColumn{"GPUs", '>', [](const FoundLayout& l) { return whole(l.gpus); }, true},
    LayoutColumn{"TP", '>', [](const FoundLayout& l) { return whole(l.tp); }},
    LayoutColumn{"PP", '>', [](const FoundLayout& l) { return whole(l.pp); }},
    LayoutColumn{"VP", '>', [](const FoundLayout& l) { return whole(l.vpp); }},
    LayoutColumn{"CP", '>', [](const FoundLayout& l) { return whole(l.cp); }},
    LayoutColumn{"EP", '>', [](const FoundLayout& l) { return whole(l.ep); }},
    LayoutColumn{"ETP", '>', [](const FoundLayout& l) { return whole(l.etp); }},
    LayoutColumn{"DP", '>', [](const FoundLayout& l) { return whole(l.dp); }},
    LayoutColumn{"MBS", '>', [](const FoundLayout& l) { return whole(l.micro); }},
    LayoutColumn{"recompute", '<', [](const FoundLayout& l) { return l.recompute; }},
    LayoutColumn{"schedule", '<', [](const FoundLayout& l) { return l.schedule; }},
    LayoutColumn{"split", '<', [](const FoundLayout& l) { return l.split; }, true},
    LayoutColumn{"ZeRO", '>', [](const FoundLayout& l) { return whole(l.zero); }},
    LayoutColumn{"step s", '>', seconds_text},
    LayoutColumn{"tok/s/GPU", '>',
                 [](const FoundLayout& l) { return rate_text(l.tokens_per_gpu_s); }},
    LayoutColumn{"MFU %", '>', mfu_text},
    LayoutColumn{"peak GiB", '>', [](const FoundLayout& l) { return gib(l.reserved); }},
    LayoutColumn{"free %", '>', [](const FoundLayout& l) { return fixed(100 * free_share(l), 0); }},
    LayoutColumn{"fits %", '>', fits_text},
    LayoutColumn{"bubble %", '>', [](const FoundLayout& l) { return share_text(l, is_bubble); }},
    LayoutColumn{"exposed %", '>', [](const FoundLayout& l) { return share_text(l, is_exposed); }},
    LayoutColumn{"days", '>',
                 [](const FoundLayout& l) { return l.days > 0 ? fixed(l.days, 1) : ""; }},
    LayoutColumn{"kUSD", '>',
                 [](const FoundLayout& l) { return l.price > 0 ? fixed(l.price / 1000, 1) : ""; }},
    LayoutColumn{"J/token", '>',
                 [](const FoundLayout& l) {
                   return l.joules_per_token > 0 ? joules_text(l.joules_per_token) : "";
                 }},
    LayoutColumn{"twins", '>',
                 [](const FoundLayout& l) {
                   return l.twins.empty() ? "" : whole(static_cast<int64_t>(l.twins.size()));
                 }},
};

}  // namespace

CellTable layouts_table(const SearchResult& r) {
  CellTable table(r.best.size());
  std::vector<std::string> ranks, against;
  for (size_t i = 0; i < r.best.size(); ++i) {
    ranks.push_back(whole(static_cast<int64_t>(i) + 1));
    against.push_back(
        i == 0 ? "-" : change_text(versus(r.best[i], r.best.front(), r.objectives.front())));
  }
  std::vector<Utilization> rates;
  for (const FoundLayout& l : r.best)
    if (l.result) rates.push_back(l.result->utilization);
  table.add("#", '>', std::move(ranks));
  for (const LayoutColumn& column : kLayoutColumns) {
    std::vector<std::string> cells;
    for (const FoundLayout& l : r.best) cells.push_back(column.cell(l));
    const bool varied =
        std::ranges::any_of(cells, [&](const auto& c) { return c != cells.front(); });
    const bool says =
        std::ranges::any_of(cells, [](const auto& c) { return !c.empty() && c != "1"; });
    if (!says && !varied) continue;
    if (column.only_if_varied && !varied) continue;
    const bool utilization = column.cell == mfu_text;
    table.add(utilization ? mfu_title(rates, " %") : column.title, column.side, std::move(cells));
  }
  for (size_t a = 0; !r.best.empty() && a < r.best.front().beside.size(); ++a) {
    std::vector<std::string> cells;
    for (const FoundLayout& l : r.best) cells.push_back(l.beside[a].second);
    if (std::ranges::any_of(cells, [&](const auto& c) { return c != cells.front(); }))
      table.add(r.best.front().beside[a].first, '<', std::move(cells));
  }
  table.add("vs #1", '>', std::move(against));
  return table;
}

namespace {

// "PP 8 instead of 4, VP 1"
std::string step_words(const SearchStep& step) {
  std::string text = fmt::format("{} {} instead of {}", step.axis, step.to, step.from);
  for (const std::string& too : step.too) text += ", " + too;
  return text;
}

}  // namespace

CellTable neighbors_table(const SearchResult& r) {
  CellTable table(0);
  table.sides = "<>><";
  table.rows = {{"one step from #1", "vs #1", "peak GiB", ""}};
  if (r.best.empty()) return table;
  const FoundLayout& first = r.best.front();
  for (const SearchStep& s : r.steps) {
    const double more = static_cast<double>(s.layout.reserved.value - first.reserved.value) /
                        static_cast<double>(int64_t{1} << 30);
    table.rows.push_back({step_words(s),
                          s.fits ? change_text(versus(s.layout, first, r.objectives.front())) : "",
                          (more > 0 ? "+" : "") + fixed(more, 1),
                          !s.fits   ? "does not fit"
                          : s.keeps ? ""
                                    : "breaks a constraint"});
  }
  return table;
}

namespace {

std::string rule_table(const SearchResult& r) {
  std::string text;
  const auto line = [&](const std::string& count, std::string_view words) {
    text += "  " + pad_left(count, 17) + "  ";
    text.append(words) += '\n';
  };
  line(count_of(r.points), "points: all combinations of the axes");
  for (const SearchRule& rule : r.illegal) line("- " + grouped(rule.count), rule.words);
  line(grouped(r.layouts), "layouts");
  for (const SearchRule& rule : r.decided)
    line((rule.kind == SearchRule::Kind::keeps ? "" : "- ") + grouped(rule.count), rule.words);
  if (r.undecided > 0) line("- " + grouped(r.undecided), kNotLookedAt);
  return text;
}

// What users take for an axis and is none.
std::string kept_text(const SearchResult& r, const TextStyle& style) {
  if (r.kept.empty()) return {};
  std::string words;
  for (const auto& [path, value] : r.kept)
    words += (words.empty() ? "" : ", ") + path + ' ' + value;
  return wrap(escape_text("Kept as the file states: " + words +
                          ". search.space lists other axes; `" + r.kept.front().first +
                          ": auto` there frees that one."),
              "  ", style.width) +
         '\n';
}

// How many things a layout asks for beside replicas.
int64_t parts_of(const FoundLayout& l) {
  return (l.tp > 1) + (l.pp > 1) + 2 * (l.vpp > 1) + (l.cp > 1) + (l.ep > 1) +
         (l.etp > 1 && l.etp != l.tp) + (l.recompute != "none") + (l.zero > 1) +
         2 * (!l.stage_layers.empty());
}

constexpr double kWorthwhile = 0.05;  // what an alternative may cost

std::string alternative(const SearchResult& r, const char* what, const FoundLayout& l,
                        const std::string& gain) {
  const auto rank = &l - r.best.data() + 1;
  return fmt::format("{}: #{}, {}, {} for {}", what, rank, layout_text(l), gain,
                     change_text(versus(l, r.best.front(), r.objectives.front())));
}

// By how much another layout takes longer than the first, and in what, largest first.
std::string in_what(const FoundLayout& first, const FoundLayout& other) {
  struct Part {
    const char* name;
    int64_t more = 0;  // picoseconds
  };
  const auto more = [&](bool (*counts)(Spend)) {
    const auto of = [&](const FoundLayout& l) {
      const Account& a = l.result->account;
      return a.by_role.empty() ? 0 : sum_if(a.by_role[a.critical_role], counts).count();
    };
    return of(other) - of(first);
  };
  const auto computes = [](Spend s) { return !is_bubble(s) && !is_exposed(s) && !is_recompute(s); };
  std::vector<Part> parts{{"computation", more(computes)},
                          {"recomputation", more(is_recompute)},
                          {"bubble", more(is_bubble)},
                          {"exposed communication", more(is_exposed)}};
  const auto is_small = [&](const Part& p) {  // beside the step
    return std::abs(p.more) < first.step_time.count() / 2000;
  };
  std::erase_if(parts, is_small);
  std::ranges::stable_sort(parts, std::greater<>{}, [](const Part& p) { return std::abs(p.more); });
  const Part whole{"", (other.step_time - first.step_time).count()};
  const auto words = [](int64_t by, const char* up, const char* down) {
    return fmt::format("{} {}", format_time(Time{std::abs(by)}), by > 0 ? up : down);
  };
  std::string text = is_small(whole) ? "as long as #1" : words(whole.more, "longer", "less");
  for (size_t i = 0; i < parts.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? ": " : ", ", parts[i].name,
                        words(parts[i].more, "more", "less"));
  return text;
}

// What the first layout spends beside computation, and what another that is told apart takes longer
// in.
std::string why_first(const SearchResult& r) {
  const FoundLayout& first = r.best.front();
  if (!first.result) return "#1 is " + layout_text(first) + '.';
  std::string text = fmt::format("#1 ({}) spends {} % bubble, {} % exposed communication",
                                 layout_text(first), fixed(100 * share_if(first, is_bubble), 1),
                                 fixed(100 * share_if(first, is_exposed), 1));
  if (share_if(first, is_recompute) > 0)
    text += fmt::format(", {} % recomputation", fixed(100 * share_if(first, is_recompute), 1));
  if (r.best.size() > 1) {
    // The next one that is told apart, else the second.
    const auto apart = std::ranges::find_if(r.best, [&](const FoundLayout& l) {
      return versus(l, first, r.objectives.front()) > kDiscernment;
    });
    const FoundLayout& other = apart != r.best.end() ? *apart : r.best[1];
    if (!other.result) return text + '.';
    text += fmt::format(". #{} ({}) takes {}", &other - r.best.data() + 1, layout_text(other),
                        in_what(first, other));
  }
  return text + '.';
}

// The most that keys which were not searched would save, where forecasts can tell.
std::string switches_text(const SearchResult& r) {
  const SearchStep* best = nullptr;
  for (const SearchStep& s : r.steps)
    if (!s.searched && s.fits && s.keeps &&
        (best == nullptr ||
         cost_of(s.layout, r.objectives.front()) < cost_of(best->layout, r.objectives.front())))
      best = &s;
  if (best == nullptr) return {};
  const double saved = versus(best->layout, r.best.front(), r.objectives.front());
  constexpr double kWorthSaying = -0.005;
  if (saved > kWorthSaying) return {};
  std::string keys = best->axis + ' ' + best->to;
  for (const std::string& too : best->too) keys += ", " + too;
  return fmt::format(
      "Not searched, and {} for #1: {}. Set in the file, the search reckons with it.",
      change_text(saved), keys);
}

std::string words_of(const SearchResult& r, const TextStyle& style) {
  std::vector<std::string> lines;
  const FoundLayout& first = r.best.front();
  if (r.objectives.size() == 1 && r.within_discernment > 1)
    lines.push_back(fmt::format(
        "{} layouts lie within {:.0f} % of the first, closer than such forecasts tell apart: take "
        "the one that suits you, or measure a few.",
        grouped(r.within_discernment), 100 * kDiscernment));
  if (std::ranges::any_of(r.best, [](const FoundLayout& l) { return !l.twins.empty(); }))
    lines.push_back(
        fmt::format("Twins differ from their line in VP and split alone and take at most {} % "
                    "longer: --json has them.",
                    fixed(100 * kTwins, 1)));
  if (r.objectives.size() > 1)
    lines.push_back(
        fmt::format("{} layouts make the Pareto front: none is better in one objective "
                    "and no worse in the others.",
                    grouped(static_cast<int64_t>(r.best.size()))));
  lines.push_back(why_first(r));
  const FoundLayout* lighter = nullptr;
  const FoundLayout* simpler = nullptr;
  for (const FoundLayout& l : r.best) {
    if (versus(l, first, r.objectives.front()) > kWorthwhile) continue;
    constexpr double kMuchLess = 0.9;  // of the memory of the first
    if (static_cast<double>(l.reserved.value) <
            kMuchLess * static_cast<double>(first.reserved.value) &&
        (lighter == nullptr || l.reserved < lighter->reserved))
      lighter = &l;
    if (parts_of(l) < parts_of(first) && (simpler == nullptr || parts_of(l) < parts_of(*simpler)))
      simpler = &l;
  }
  if (lighter != nullptr && lighter == simpler) {
    lines.push_back(
        alternative(r, "Lighter and simpler", *lighter,
                    gib(first.reserved - lighter->reserved) + " GiB less and fewer features") +
        '.');
    lighter = simpler = nullptr;
  }
  if (lighter != nullptr)
    lines.push_back(
        alternative(r, "Lighter", *lighter, gib(first.reserved - lighter->reserved) + " GiB less") +
        '.');
  if (simpler != nullptr)
    lines.push_back(alternative(r, "Simpler", *simpler, "fewer features") + '.');
  if (!r.schedules_stated && !r.schedules.empty())
    lines.push_back(
        fmt::format("Schedules tried: {}, as this software runs; --schedules names others.",
                    join(r.schedules)));
  if (const std::string faster = switches_text(r); !faster.empty()) lines.push_back(faster);
  if (first.result && first.result->fits_share && *first.result->fits_share < 0.9)
    lines.push_back(
        fmt::format("{:.0f} % of steps with such a forecast of memory fit: "
                    "search.memory_margin leaves more room.",
                    100 * *first.result->fits_share));
  std::string text;
  for (const std::string& line : lines) text += wrap(line, "  ", style.width);
  return text;
}

std::string objectives_text(const std::vector<SearchObjective>& objectives) {
  std::string text;
  for (size_t i = 0; i < objectives.size(); ++i) {
    const bool most = objectives[i] == SearchObjective::tokens_per_gpu_s;
    const bool before = i > 0 && objectives[i - 1] == SearchObjective::tokens_per_gpu_s;
    text += i == 0 ? "" : i + 1 == objectives.size() ? " and " : ", ";
    if (i == 0 || most != before) text += most ? "the most " : "the least ";
    text += name_of(objectives[i]);
  }
  return text;
}

ScatterAxis axis_of(SearchObjective o) {
  switch (o) {
    case SearchObjective::step_time: return {"s a step", [](double s) { return fixed(s, 2); }};
    case SearchObjective::tokens_per_gpu_s:
      return {"tokens/s/GPU", [](double tokens) { return rate_text(tokens); }};
    case SearchObjective::peak_memory: return {"GiB", [](double gibis) { return fixed(gibis, 1); }};
    case SearchObjective::days: return {"days", [](double days) { return fixed(days, 1); }};
    case SearchObjective::price: return {"kUSD", [](double price) { return fixed(price, 1); }};
    case SearchObjective::energy:
      return {"J/token", [](double joules) { return joules_text(joules); }};
  }
  return {};
}

double shown_of(const FoundLayout& l, SearchObjective o) {
  switch (o) {
    case SearchObjective::step_time: return to_seconds(l.step_time);
    case SearchObjective::tokens_per_gpu_s: return l.tokens_per_gpu_s;
    case SearchObjective::peak_memory:
      return static_cast<double>(l.reserved.value) / static_cast<double>(int64_t{1} << 30);
    case SearchObjective::days: return l.days;
    case SearchObjective::price: return l.price / 1000;
    case SearchObjective::energy: return l.joules_per_token;
  }
  return 0;
}

// The front of two objectives, each layout by its number in the table.
std::string front_text(const SearchResult& r) {
  if (r.objectives.size() != 2) return {};
  std::vector<ScatterPoint> points;
  for (const FoundLayout& l : r.best)
    points.push_back({shown_of(l, r.objectives[0]), shown_of(l, r.objectives[1])});
  const std::string text = scatter(points, axis_of(r.objectives[0]), axis_of(r.objectives[1]));
  return text.empty() ? text : text + '\n';
}

// What to measure next.
std::string next_text(const SearchResult& r, const TextStyle& style) {
  if (r.next.empty()) return {};
  std::string text = wrap(
      "Worth measuring, fast and unlike each other; `stepcast calibrate runs` makes of their "
      "logs what ranks the list anew:",
      "  ", style.width);
  for (const FoundLayout& l : r.next) {
    text += fmt::format("    {} s  {}\n", seconds_text(l), layout_text(l));
    text += "      " + run_line(r, l) + '\n';
  }
  return text + '\n';
}

// What runs it, what it holds and takes.
void write_figures(JsonWriter& json, const FoundLayout& l) {
  std::vector<std::string> set;
  for (const auto& [path, value] : l.set) set.push_back(path + '=' + value);
  json.values("set", set);
  json.member("memory_reserved_bytes", l.reserved.value);
  json.member("memory_usable_bytes", l.usable.value);
  if (l.step_time > Time{}) json.member_time("step_time", l.step_time);
}

void write_layout(JsonWriter& json, const FoundLayout& l) {
  json.member("gpus", l.gpus);
  json.member("tp", l.tp);
  json.member("cp", l.cp);
  json.member("pp", l.pp);
  json.member("vpp", l.vpp);
  json.member("ep", l.ep);
  json.member("etp", l.etp);
  json.member("dp", l.dp);
  json.member("zero", l.zero);
  json.member("micro_batch", l.micro);
  json.member("microbatches", l.microbatches);
  json.member("recompute", l.recompute);
  json.member("schedule", l.schedule);
  json.member("split", l.split);
  json.values("stage_layers", l.stage_layers);
  write_figures(json, l);
  if (l.step_time > Time{}) json.member("tokens_per_s_per_gpu", l.tokens_per_gpu_s);
  if (l.days > 0) json.member("days", l.days);
  if (l.price > 0) json.member("price_usd", l.price);
  if (l.joules_per_token > 0) json.member("token_j", l.joules_per_token);
  if (!l.result) return;
  json.member("mfu", l.result->utilization.mfu_full_attention);
  json.member("bubble", share_if(l, is_bubble));
  json.member("exposed", share_if(l, is_exposed));
  json.member("recomputed", share_if(l, is_recompute));
  json.member("fits_share", l.result->fits_share);
  json.optional_object("interval", l.result->interval, [&](const Interval& i) {
    json.member_time("low", i.low);
    json.member_time("high", i.high);
    json.member("level", i.level);
  });
}

void write_rules(JsonWriter& json, const char* name, const std::vector<SearchRule>& rules) {
  json.objects(name, rules, [&](const SearchRule& rule) {
    json.member("rule", rule.name);
    json.member("count", rule.count);
    json.member("words", rule.words);
  });
}

void write_funnel(JsonWriter& json, const SearchResult& r) {
  json.member("points", r.points);
  write_rules(json, "no_layouts", r.illegal);
  json.member("layouts", r.layouts);
  write_rules(json, "decided", r.decided);
  json.member("simulated", r.simulated);
  json.member("part", r.part);
  json.member("parts", r.parts);
  json.member("undecided", r.undecided);
  json.member("all_seen", r.all_seen);
}

}  // namespace

std::string layout_text(const FoundLayout& l) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, int64_t n) {
    if (n > 1) parts.push_back(fmt::format("{} {}", name, n));
  };
  add("TP", l.tp);
  add("PP", l.pp);
  add("VPP", l.vpp);
  add("CP", l.cp);
  add("EP", l.ep);
  if (l.ep > 1 && l.etp != l.tp) parts.push_back(fmt::format("ETP {}", l.etp));
  add("DP", l.dp);
  parts.push_back(fmt::format("MBS {}", l.micro));
  if (l.zero > 0) parts.push_back(fmt::format("ZeRO-{}", l.zero));
  if (l.recompute != "none") parts.push_back(l.recompute + " recomputation");
  if (!l.stage_layers.empty()) parts.push_back("layers " + layers_text(words_of(l.stage_layers)));
  for (const auto& [path, value] : l.beside) parts.push_back(path + ' ' + value);
  std::string text;
  for (const std::string& p : parts) text += (text.empty() ? "" : " ") + p;
  return text;
}

std::string joules_text(double joules) {
  return fixed(joules, joules < 9.9995 ? 3 : joules < 99.995 ? 2 : 1);
}

std::string layers_text(std::string_view stage_layers) {
  std::string text;
  while (!stage_layers.empty()) {
    const std::string_view layers = stage_layers.substr(0, stage_layers.find(' '));
    int64_t stages = 0;
    while (!stage_layers.empty() && stage_layers.substr(0, stage_layers.find(' ')) == layers) {
      stage_layers.remove_prefix(std::min(stage_layers.size(), layers.size() + 1));
      ++stages;
    }
    if (!text.empty()) text += ' ';
    if (stages > 1) text += fmt::format("{}x", stages);
    text += layers;
  }
  return text;
}

std::string run_line(const SearchResult& r, const FoundLayout& l) {
  std::vector<std::string> words = r.run_words;
  if (words.empty()) words.push_back(r.file);
  for (const auto& [path, value] : l.set) {
    words.emplace_back("-s");
    words.push_back(path + '=' + value);
  }
  std::string text = "stepcast run";
  for (const std::string& word : words) text += ' ' + shell_word(escape_text(word));
  return text;
}

// " On 992 and on 1,008 GPUs there are legal ones: `--gpus 1008`."  Nothing if no number is known.
std::string legal_counts(const SearchResult& r) {
  std::string numbers;
  for (const int64_t gpus : r.legal_gpus)
    numbers += (numbers.empty() ? "" : " and on ") + grouped(gpus);
  if (numbers.empty()) return "";
  return fmt::format(" On {} GPUs there are legal ones: `--gpus {}`.", numbers,
                     r.legal_gpus.back());
}

NoLayout no_layout(const SearchResult& r) {
  STEPCAST_CHECK(r.best.empty(), "a search without a layout to show");
  if (r.breaking) {
    const FoundLayout& best = *r.breaking;
    std::string broken;
    for (const std::string& c : r.broken_constraints)
      broken += (broken.empty() ? "'" : " and '") + c + '\'';
    const std::string job = best.price > 0  ? fmt::format(", {} days, {} kUSD", fixed(best.days, 1),
                                                          fixed(best.price / 1000, 1))
                            : best.days > 0 ? fmt::format(", {} days", fixed(best.days, 1))
                                            : "";
    const std::string energy =
        best.joules_per_token > 0
            ? fmt::format(", {} J a token", joules_text(best.joules_per_token))
            : "";
    return {"layouts fit, but none keeps the constraints",
            {fmt::format(
                "The best of {} is {}: {} s a step, {} GiB of {} usable{}{}. It breaks {}.",
                r.stopped ? "those looked at before the stop" : "them", layout_text(best),
                seconds_text(best), gib(best.reserved), gib(best.usable), job, energy, broken)}};
  }
  if (r.undecided > 0 || !r.all_seen || r.stopped)
    return {"The search was stopped before it came to a layout that fits.",
            r.simple ? std::vector{"A simple one that does is " + layout_text(*r.simple) + '.'}
                     : std::vector<std::string>{},
            true};
  if (r.layouts == 0) {
    const auto where = std::ranges::find(r.illegal, SearchRule::Kind::where, &SearchRule::kind);
    return {
        "no layout fits: none is legal",
        {where != r.illegal.end()
             ? fmt::format("The conditions of `where` leave out all {} that are otherwise legal.",
                           grouped(where->count))
             : "The counts by rule say why." + legal_counts(r)}};
  }
  NoLayout none{
      fmt::format("no layout fits with {:.0f} % of the memory left free", 100 * r.memory_margin),
      {}};
  if (r.nearest) {
    const FoundLayout& n = *r.nearest;
    none.more.push_back(fmt::format("Nearest is {}: {} GiB of {} usable.", layout_text(n),
                                    gib(n.reserved), gib(n.usable)));
    none.more.push_back(
        n.reserved <= n.usable
            ? fmt::format("It fits with a smaller search.memory_margin: at most {:.0f}%.",
                          std::floor(100 * free_share(n)))
        : r.on_more_nodes
            ? fmt::format(
                  "On {} GPUs {} fits, {} GiB: `--gpus {}` finds the fastest there. Shorter "
                  "sequences or a smaller model need less too.",
                  r.on_more_nodes->gpus, layout_text(*r.on_more_nodes),
                  gib(r.on_more_nodes->reserved), r.on_more_nodes->gpus)
            : "More GPUs (--gpus), shorter sequences or a smaller model would make one fit; "
              "`stepcast size` finds the fewest GPUs.");
  }
  return none;
}

std::string search_text(const SearchResult& r, const TextStyle& style) {
  std::string text = paint(escape_text(r.name), Tone::strong, style) + "   search on " + r.gpu +
                     "   for " + objectives_text(r.objectives) + '\n';
  if (r.parts > 1) text += fmt::format("part {} of {}: its layouts alone\n", r.part, r.parts);
  text += '\n' + rule_table(r) + '\n' + kept_text(r, style);
  if (!r.all_seen) text += "  " + std::string(kNotAllSeen) + '\n';
  if (r.best.empty()) {
    const NoLayout none = no_layout(r);
    text += "  " + paint(none.verdict, none.stopped ? Tone::plain : Tone::bad, style) + '\n';
    for (const std::string& line : none.more) text += wrap(escape_text(line), "  ", style.width);
    return text;
  }
  text += layouts_table(r).text(style) + '\n' + front_text(r) + words_of(r, style) + '\n';
  if (!r.steps.empty()) text += neighbors_table(r).text(style) + '\n';
  text += next_text(r, style);
  text += "  The first, as a forecast of its own:\n    " + run_line(r, r.best.front()) + '\n';
  return text;
}

std::string search_json(const SearchResult& r, std::string_view version) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    json.member("version", version);
    json.object("scenario", [&] {
      json.member("name", r.name);
      json.member("file", r.file);
      json.member("gpu", r.gpu);
    });
    std::vector<std::string_view> objectives;
    for (const SearchObjective o : r.objectives) objectives.push_back(name_of(o));
    json.values("objectives", objectives);
    json.values("schedules", r.schedules);
    json.member("memory_margin", r.memory_margin);
    json.object("funnel", [&] { write_funnel(json, r); });
    json.member("within_discernment", r.within_discernment);
    json.objects("best", r.best, [&](const FoundLayout& l) {
      write_layout(json, l);
      json.objects("twins", l.twins, [&](const FoundLayout& twin) { write_figures(json, twin); });
    });
    json.objects("steps", r.steps, [&](const SearchStep& s) {
      json.member("axis", s.axis);
      json.member("from", s.from);
      json.member("to", s.to);
      json.values("too", s.too);
      json.member("fits", s.fits);
      json.member("searched", s.searched);
      json.member("keeps", s.keeps);
      write_figures(json, s.layout);
    });
    json.objects("next", r.next, [&](const FoundLayout& l) { write_layout(json, l); });
    json.optional_object("nearest", r.nearest,
                         [&](const FoundLayout& l) { write_layout(json, l); });
    json.optional_object("simple", r.simple, [&](const FoundLayout& l) { write_layout(json, l); });
    json.optional_object("on_more_nodes", r.on_more_nodes,
                         [&](const FoundLayout& l) { write_layout(json, l); });
    json.optional_object("breaking", r.breaking,
                         [&](const FoundLayout& l) { write_layout(json, l); });
    json.values("broken_constraints", r.broken_constraints);
    json.values("legal_gpus", r.legal_gpus);
  });
}

std::string funnel_json(const SearchResult& r) {
  return json_document([&](JsonWriter& json) { write_funnel(json, r); });
}

std::string search_csv(const SearchResult& r) {
  std::string text =
      "rank,gpus,tp,cp,pp,vpp,ep,etp,dp,zero,micro,microbatches,recompute,schedule,stage_layers,"
      "step_time_s,tokens_per_s_per_gpu,mfu,memory_reserved_bytes,memory_usable_bytes,bubble,"
      "exposed,days,price_usd,token_j,fits_share,twins\n";
  int64_t rank = 0;
  for (const FoundLayout& l : r.best) {
    const std::string layers = words_of(l.stage_layers);
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
        ++rank, l.gpus, l.tp, l.cp, l.pp, l.vpp, l.ep, l.etp, l.dp, l.zero, l.micro, l.microbatches,
        l.recompute, l.schedule, layers, exact_decimal(l.step_time.count(), 1'000'000'000'000),
        l.tokens_per_gpu_s,
        l.result ? fmt::to_string(l.result->utilization.mfu_full_attention) : "", l.reserved.value,
        l.usable.value, share_if(l, is_bubble), share_if(l, is_exposed),
        l.days > 0 ? fmt::to_string(l.days) : "", l.price > 0 ? fmt::to_string(l.price) : "",
        l.joules_per_token > 0 ? fmt::to_string(l.joules_per_token) : "",
        l.result && l.result->fits_share ? fmt::to_string(*l.result->fits_share) : "",
        l.twins.size());
  }
  return text;
}

}  // namespace stepcast
