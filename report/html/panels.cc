// SPDX-License-Identifier: Apache-2.0
#include "report/html/panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "report/format.h"
#include "report/html/compress.h"
#include "report/html/exposed.h"
#include "report/html/gantt.h"
#include "report/html/markup.h"
#include "report/text/compare.h"
#include "report/text/explain.h"
#include "report/text/roles.h"
#include "report/text/run.h"
#include "sim/graph/spend.h"

namespace stepcast {
std::string spend_style(Spend s) {
  return "s-" + std::string(name_of(s));
}

// Times in one unit, so that a column lines up; the unit is said once.
std::string in_scale(Time t, const TimeScale& scale) {
  const int64_t half = scale.quantum_ps / 2;
  return format_quanta((t.count() + (t.count() < 0 ? -half : half)) / scale.quantum_ps, scale);
}

std::string swatch(std::string_view style) {
  return "<svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"" +
         std::string(style) + "\" width=\"10\" height=\"10\"/></svg>";
}

std::string note(std::string_view text) {
  return "<p class=\"note\">" + html_text(text) + "</p>\n";
}

namespace {

std::string paragraph(std::string_view text) {
  return "<p>" + html_text(text) + "</p>\n";
}

// ------------------------------------------------------------------------------------- verdict

std::string card(std::string_view name, std::string_view value, std::string_view more,
                 std::string_view style = {}) {
  return fmt::format("<div class=\"card {}\"><dt>{}</dt><dd><b>{}</b>{}</dd></div>\n", style,
                     html_text(name), html_text(value),
                     more.empty() ? "" : "<span>" + html_text(more) + "</span>");
}

std::string_view tone_style(Tone tone) {
  switch (tone) {
    case Tone::good: return "good";
    case Tone::warn: return "warn";
    case Tone::bad: return "bad";
    default: return "";
  }
}

// What was published, on the axis of the step time.
std::optional<double> published_step(const Result& r, const PublishedFigures& p) {
  if (p.step_time_s) return p.step_time_s;
  if (!p.tokens_per_gpu_s || r.scenario.gpus <= 0 || *p.tokens_per_gpu_s <= 0) return std::nullopt;
  return r.tokens_per_step / (*p.tokens_per_gpu_s * static_cast<double>(r.scenario.gpus));
}

// The interval of the step time as a line, with the forecast and what was published on it.
std::string interval_picture(const Result& r, const PageFacts& facts) {
  if (!r.interval) return {};
  const auto seconds = [](Time t) { return static_cast<double>(t.count()) / 1e12; };
  double low = std::min(seconds(r.interval->low), seconds(r.step_time));
  double high = std::max(seconds(r.interval->high), seconds(r.step_time));
  for (const PublishedFigures& p : facts.published)
    if (const auto s = published_step(r, p)) {
      low = std::min(low, *s);
      high = std::max(high, *s);
    }
  const double span = std::max(high - low, 1e-12) * 1.3, left = low - (high - low) * 0.15;
  const auto x = [&](double s) { return fixed(20 + (s - left) / span * 560, 1); };
  const double a = seconds(r.interval->low), b = seconds(r.interval->high);
  std::string s =
      "<svg class=\"interval\" viewBox=\"0 0 600 64\" role=\"img\" aria-label=\"Step time and its "
      "interval\">";
  s += "<path class=\"axis\" d=\"M20 34H580\"/>";
  s += fmt::format("<rect class=\"range\" x=\"{}\" y=\"27\" width=\"{}\" height=\"14\" rx=\"3\"/>",
                   x(a), fixed((b - a) / span * 560, 1));
  s += fmt::format(
      "<text x=\"{}\" y=\"58\" text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"58\" "
      "text-anchor=\"middle\">{}</text>",
      x(a), html_text(format_time(r.interval->low)), x(b),
      html_text(format_time(r.interval->high)));
  s += fmt::format(
      "<path class=\"forecast\" d=\"M{0} 22V46\"/><text class=\"strong\" x=\"{0}\" y=\"15\" "
      "text-anchor=\"middle\">forecast {1}</text>",
      x(seconds(r.step_time)), html_text(format_time(r.step_time)));
  for (const PublishedFigures& p : facts.published)
    if (const auto at = published_step(r, p))
      s += fmt::format(
          "<path class=\"published\" d=\"M{0} 34m-6 0l6-6l6 6l-6 6z\"><title>published {1} s"
          "</title></path>",
          x(*at), fixed(*at, 3));
  return s + "</svg>\n";
}

std::string published_lines(const Result& r, const PageFacts& facts) {
  std::string s;
  const auto line = [&](std::string_view what, std::string_view measured, double error,
                        const PublishedFigures& p) {
    s += "<li>" + swatch("published") +
         html_text(fmt::format("published {} {}: the forecast is {} % {}", what, measured,
                               fixed(std::abs(error) * 100, 1), error < 0 ? "below" : "above")) +
         (p.source.empty() ? "" : " <span class=\"dim\">" + html_text(p.source) + "</span>") +
         "</li>\n";
  };
  const double step = static_cast<double>(r.step_time.count()) / 1e12;
  for (const PublishedFigures& p : facts.published) {
    if (p.step_time_s && *p.step_time_s > 0)
      line("step time", short_decimal(*p.step_time_s, 4) + " s", step / *p.step_time_s - 1, p);
    if (p.tokens_per_gpu_s && *p.tokens_per_gpu_s > 0)
      line("speed", short_decimal(*p.tokens_per_gpu_s, 1) + " tokens/s/GPU",
           r.tokens_per_s_per_gpu / *p.tokens_per_gpu_s - 1, p);
    if (p.peak_memory && p.peak_memory->value > 0 && r.peak_role < r.memory.size())
      line("peak memory", format_bytes(*p.peak_memory),
           static_cast<double>(r.memory[r.peak_role].memory.peak.value) /
                   static_cast<double>(p.peak_memory->value) -
               1,
           p);
  }
  return s;
}

// What would help most, by how much shorter the step would be without each cost.
std::string helps(const Result& r) {
  std::vector<WhatIf> most = r.what_if;
  std::ranges::stable_sort(most,
                           [](const WhatIf& a, const WhatIf& b) { return a.saved > b.saved; });
  std::string s;
  int shown = 0;
  for (const WhatIf& w : most) {
    const double share = share_of(w.saved, r.step_time);
    if (share < 0.005 || shown++ == 3) break;
    s += "<li>" + swatch(spend_style(w.spend)) +
         html_text(fmt::format("if {} were free, the step would be {} ({}) shorter",
                               title_of(w.spend), format_time(w.saved), percent(share))) +
         "</li>\n";
  }
  if (const std::string next = next_step(r); !next.empty())
    s += "<li class=\"next\">" + html_text(next) + "</li>\n";
  return s;
}

}  // namespace

std::string verdict_panel(const Result& r, const PageFacts& facts) {
  std::string cards =
      card("Step time", format_time(r.step_time),
           r.interval ? interval_name(*r.interval) + ": " + interval_text(r.step_time, *r.interval)
                      : "no interval: nothing like it was measured",
           "wide");
  if (r.reserved_role < r.memory.size())
    cards += card("Peak memory", gib(r.memory_reserved) + " GiB",
                  fmt::format("of {} usable on {}: {}", gib(r.memory_usable),
                              role_name(r, r.reserved_role), memory_verdict(r)),
                  tone_style(tone_of(fit_of(r))));
  cards += card("Speed", rate_text(r.tokens_per_s_per_gpu), "tokens/s/GPU");
  cards += card("MFU", percent(r.utilization.mfu_full_attention),
                "full attention; causal " + percent(r.utilization.mfu_causal_attention) + ", HFU " +
                    percent(r.utilization.hfu));
  if (r.account.critical_role < r.account.by_role.size()) {
    cards += card("Bubble", percent(share_of(r.bubble, r.step_time)),
                  "on " + role_name(r, r.account.critical_role) + ", which is critical");
    const Time exposed = sum_if(r.account.by_role[r.account.critical_role], is_exposed);
    cards += card("Exposed communication", percent(share_of(exposed, r.step_time)), "of the step");
  }
  std::string s = "<dl class=\"cards\">\n" + cards + "</dl>\n" + interval_picture(r, facts);
  const std::string published = published_lines(r, facts), help = helps(r);
  if (!published.empty()) s += "<ul class=\"plain\">\n" + published + "</ul>\n";
  if (!help.empty()) s += "<h3>What would help</h3>\n<ul class=\"plain\">\n" + help + "</ul>\n";
  std::string warnings;
  for (const std::string& w : r.scenario.warnings) warnings += "<li>" + html_text(w) + "</li>\n";
  if (!warnings.empty()) s += "<h3>Warnings</h3>\n<ul class=\"warnings\">\n" + warnings + "</ul>\n";
  return html_section("verdict", "Verdict", s);
}

// ------------------------------------------------------------------------------------- account
namespace {

std::string_view tone_bar(const AccountLine& line) {
  switch (line.tone) {
    case Tone::good: return "t-compute";
    case Tone::warn: return "t-exposed";
    default: return "t-lost";
  }
}

}  // namespace

std::string account_panel(const Result& r) {
  const uint32_t role = r.account.critical_role;
  if (role >= r.account.by_role.size()) return {};
  const std::vector<AccountLine> lines = account_lines(r, role);
  std::vector<Time> times;
  Time whole{};
  for (const AccountLine& l : lines) {
    times.push_back(l.time);
    whole += l.time;
  }
  if (whole.count() <= 0) return {};
  const TimeScale scale = scale_of(whole);
  const std::vector<int64_t> quanta =
      apportion(times, (whole.count() + scale.quantum_ps / 2) / scale.quantum_ps);
  const std::vector<int64_t> tenths = apportion(times, 1000);
  const bool what_if = !r.what_if.empty();
  const std::string unit(scale.unit);
  std::vector<HtmlColumn> columns{
      {"spent on", false}, {"time, " + unit, true}, {"share, %", true}, {"", false}};
  if (what_if) columns.push_back({"if it were free, " + unit, true});
  HtmlTable table("Where the step goes on " + role_name(r, role) + ", the critical rank", columns);
  int64_t longest = 1;
  for (const int64_t t : tenths) longest = std::max(longest, t);
  for (size_t i = 0; i < lines.size(); ++i) {
    const AccountLine& l = lines[i];
    const std::string saved = l.saved ? in_scale(-*l.saved, scale) : "";
    if (quanta[i] == 0 && tenths[i] == 0 && (!l.saved || l.saved->count() == 0)) continue;
    const std::array<BarPart, 1> bar{
        {{static_cast<double>(tenths[i]) / static_cast<double>(longest),
          std::string(tone_bar(l)),
          {}}}};
    table.row()
        .text(l.title)
        .text(format_quanta(quanta[i], scale))
        .text(fixed(static_cast<double>(tenths[i]) / 10, 1))
        .html(html_bar(bar));
    if (what_if) table.text(saved);
  }
  std::string s = table.finish();
  s += note(std::string("Times add up to the step. ") +
            (what_if ? "If it were free: how the step would change if that cost took no time, "
                       "simulated anew for each"
                     : "") +
            (what_if && r.what_if_without_contention ? ", without contention."
             : what_if                               ? "."
                                                     : "") +
            (r.what_if_left_out
                 ? " What each cost is worth was left out where so many ranks differ; "
                   "--what-if asks for it."
                 : ""));
  return html_section("account", "Where the step goes", s);
}

// ------------------------------------------------------------------------------------ timeline

std::string timeline_legend() {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLegend{
      {{"a-F", "forward"},
       {"a-B", "backward"},
       {"a-W", "weight gradients"},
       {"a-R", "recompute"},
       {"a-U", "optimizer, gradients"},
       {"a-X", "communication"}}};
  std::string legend = "<ul class=\"legend\">";
  for (const auto& [style, words] : kLegend)
    legend += "<li>" + swatch(style) + std::string(words) + "</li>";
  return legend + "</ul>\n";
}

std::string timeline_panel(const Result& r) {
  const std::string picture = gantt_svg(r);
  if (picture.empty()) return {};
  const TimeScale scale = scale_of(r.timeline.makespan);
  const std::string unit(scale.unit);
  const std::array<HtmlColumn, 6> columns{{{"rank", false},
                                           {"equal ranks", true},
                                           {"first op, " + unit, true},
                                           {"first backward, " + unit, true},
                                           {"last forward, " + unit, true},
                                           {"end, " + unit, true}}};
  HtmlTable table("When each rank begins and ends", columns);
  for (uint32_t role = 0; role < r.timeline.roles.size(); ++role) {
    const RoleTimeline& t = r.timeline.roles[role];
    table.row()
        .text(role_name(r, role))
        .text(grouped(r.graph->roles[role].ranks))
        .text(in_scale(t.compute_begin, scale))
        .text(t.first_backward == Time::max() ? "" : in_scale(t.first_backward, scale))
        .text(in_scale(t.last_forward, scale))
        .text(in_scale(t.end, scale));
  }
  return html_section("timeline", "Timeline",
                      timeline_legend() + "<figure id=\"gantt\" class=\"timeline\">" + picture +
                          "</figure>\n" +
                          html_details("Begin and end of each rank as a table", table.finish()));
}

// -------------------------------------------------------------------------------------- memory
namespace {

std::string_view category_title(MemoryCategory c) {
  switch (c) {
    case MemoryCategory::parameters: return "parameters";
    case MemoryCategory::gradients: return "gradients";
    case MemoryCategory::optimizer_state: return "optimizer";
    case MemoryCategory::activations: return "activations";
    case MemoryCategory::recompute_workspace: return "recompute";
    case MemoryCategory::workspace: return "workspace";
    case MemoryCategory::communication: return "communication";
    case MemoryCategory::logits: return "logits";
  }
  return "";
}

std::string category_style(int c) {
  return "m-" + std::string(name_of(static_cast<MemoryCategory>(c)));
}

// Categories that hold something at the peak of any of the ranks.
std::vector<int> used_categories(std::span<const RankMemory> ranks) {
  std::vector<int> used;
  for (int c = 0; c < kMemoryCategories; ++c)
    if (std::ranges::any_of(ranks, [&](const RankMemory& m) {
          return m.memory.at_peak[static_cast<size_t>(c)].value > 0;
        }))
      used.push_back(c);
  return used;
}

}  // namespace

std::string memory_legend(std::span<const RankMemory> ranks) {
  std::string legend = "<ul class=\"legend\">";
  for (const int c : used_categories(ranks))
    legend += "<li>" + swatch(category_style(c)) +
              std::string(category_title(static_cast<MemoryCategory>(c))) + "</li>";
  return legend + "<li>" + swatch("m-gaps") + "reserved, not in use</li></ul>\n";
}

std::string memory_bar(const RankMemory& m, double whole) {
  std::vector<BarPart> parts;
  for (int c = 0; c < kMemoryCategories; ++c) {
    const Bytes bytes = m.memory.at_peak[static_cast<size_t>(c)];
    parts.push_back({static_cast<double>(bytes.value) / whole, category_style(c),
                     fmt::format("{}: {}", category_title(static_cast<MemoryCategory>(c)),
                                 format_bytes(bytes))});
  }
  parts.push_back({static_cast<double>((m.reserved - m.memory.peak).value) / whole, "m-gaps",
                   "reserved, not in use"});
  return html_bar(parts);
}

std::string memory_panel(const Result& r) {
  if (r.memory.empty()) return {};
  const std::vector<int> used = used_categories(r.memory);
  std::vector<HtmlColumn> columns{
      {"rank", false}, {"at the peak", false}, {"reserved, GiB", true}, {"allocated, GiB", true}};
  for (const int c : used)
    columns.push_back({std::string(category_title(static_cast<MemoryCategory>(c))), true});
  columns.push_back({"microbatches", true});
  HtmlTable table("Memory of each rank at its peak", columns);
  const double whole = static_cast<double>(
      std::max(r.memory_usable.value, std::max<int64_t>(1, r.memory_reserved.value)));
  for (uint32_t role = 0; role < r.memory.size(); ++role) {
    const RankMemory& m = r.memory[role];
    table.row(role == r.reserved_role ? "mark" : "")
        .text(role_name(r, role))
        .html(memory_bar(m, whole))
        .text(gib(m.reserved))
        .text(gib(m.memory.peak));
    for (const int c : used) table.text(gib(m.memory.at_peak[static_cast<size_t>(c)]));
    table.text(grouped(m.memory.peak_in_flight));
  }
  std::string s =
      memory_legend(r.memory) + "<figure id=\"memory-chart\"></figure>\n" + table.finish();
  s += note(fmt::format("Bars are as wide as the {} GiB that a GPU has for the step.",
                        gib(r.memory_usable)));
  if (r.reserved_role < r.memory.size()) {
    const RankMemory& fullest = r.memory[r.reserved_role];
    const std::array<HtmlColumn, 2> terms{{{"tensor", false}, {"GiB", true}}};
    HtmlTable list("Largest tensors at the peak of " + role_name(r, r.reserved_role), terms);
    size_t shown = 0;
    for (const auto& [name, bytes] : fullest.activation_terms) {
      if (shown++ == 25) break;
      list.row().text(name).text(gib(bytes));
    }
    if (shown > 0)
      s += html_details(fmt::format("What fills {} at its peak, {}", role_name(r, r.reserved_role),
                                    fullest.peak_at),
                        list.finish());
  }
  return html_section("memory", "Memory", s);
}

// -------------------------------------------------------------------------------------- bubble

std::string bubble_panel(const Result& r) {
  const auto& roles = r.account.by_role;
  if (roles.size() < 2) return {};
  std::vector<Spend> causes;
  for (int i = 0; i < kSpends; ++i) {
    const auto spend = static_cast<Spend>(i);
    const bool shown = is_bubble(spend) || is_exposed(spend) || spend == Spend::contention ||
                       spend == Spend::launch || spend == Spend::idle_end;
    const bool any = std::ranges::any_of(roles, [&](const SpendTable& t) {
      return share_of(t[static_cast<size_t>(i)], r.step_time) >= 0.0005;
    });
    if (shown && any) causes.push_back(spend);
  }
  if (causes.empty()) return {};
  double most = 1e-9;
  std::vector<double> sums;
  for (const SpendTable& t : roles) {
    double sum = 0;
    for (const Spend c : causes) sum += share_of(t[static_cast<size_t>(c)], r.timeline.makespan);
    sums.push_back(sum);
    most = std::max(most, sum);
  }
  std::string legend = "<ul class=\"legend\">";
  std::vector<HtmlColumn> columns{
      {"rank", false}, {"time not spent computing", false}, {"sum", true}};
  for (const Spend c : causes) {
    legend += "<li>" + swatch(spend_style(c)) + html_text(title_of(c)) + "</li>";
    columns.push_back({std::string(title_of(c)), true});
  }
  legend += "</ul>\n";
  HtmlTable table("Time not spent computing, of each rank by cause, in % of the step", columns);
  for (uint32_t role = 0; role < roles.size(); ++role) {
    std::vector<BarPart> parts;
    for (const Spend c : causes) {
      const Time t = roles[role][static_cast<size_t>(c)];
      parts.push_back({share_of(t, r.timeline.makespan) / most, spend_style(c),
                       fmt::format("{}: {}", title_of(c), format_time(t))});
    }
    table.row(role == r.account.critical_role ? "mark" : "")
        .text(role_name(r, role))
        .html(html_bar(parts))
        .text(fixed(sums[role] * 100, 1));
    for (const Spend c : causes)
      table.text(
          fixed(share_of(roles[role][static_cast<size_t>(c)], r.timeline.makespan) * 100, 1));
  }
  return html_section("bubble", "What each rank waits for", legend + table.finish());
}

// ------------------------------------------------------------------------------- communication

namespace {

// "TP", but "embedding".
std::string axis_title(Axis axis) {
  const std::string_view name = name_of(axis);
  return name.size() <= 3 ? upper_case(name) : std::string(name);
}

}  // namespace

std::string communication_panel(const Result& r) {
  const uint32_t role = r.account.critical_role;
  if (!r.graph || !r.prices || role >= r.timeline.roles.size()) return {};
  const std::vector<ExposedLine> lines = exposed_lines(r, role);
  if (lines.empty()) return {};
  const TimeScale scale = scale_of(r.step_time);
  const std::string unit(scale.unit);
  const std::array<HtmlColumn, 9> columns{{{"communication", false},
                                           {"over", false},
                                           {"algorithm", false},
                                           {"links", false},
                                           {"runs", true},
                                           {"total, " + unit, true},
                                           {"exposed, " + unit, true},
                                           {"", false},
                                           {"price", false}}};
  HtmlTable table("Communication of " + role_name(r, role) + ", the critical rank", columns);
  // Inside nodes, over the network.
  std::array<Time, 2> total{}, exposed{};
  for (const ExposedLine& l : lines) {
    const bool network = r.prices->by_work[static_cast<size_t>(l.work)].crosses_nodes;
    total[network ? 1 : 0] += l.total;
    exposed[network ? 1 : 0] += l.exposed;
  }
  const auto sentence = [&](size_t which, std::string_view where) {
    return total[which].count() == 0
               ? std::string()
               : fmt::format("{}: {} of {} exposed. ", where, format_time(exposed[which]),
                             format_time(total[which]));
  };
  double most = 1e-9;
  for (const ExposedLine& l : lines) most = std::max(most, share_of(l.total, r.step_time));
  size_t shown = 0;
  for (const ExposedLine& l : lines) {
    if (shown++ == 40) break;
    const Work& work = r.graph->works[static_cast<size_t>(l.work)];
    const Price& price = r.prices->by_work[static_cast<size_t>(l.work)];
    std::string algorithm(price.algorithm == Algorithm::none ? "" : name_of(price.algorithm));
    if (!algorithm.empty()) algorithm += ", " + std::string(name_of(price.protocol));
    const std::array<BarPart, 2> bar{
        {{share_of(l.exposed, r.step_time) / most, "t-exposed", "exposed"},
         {share_of(l.total - l.exposed, r.step_time) / most, "t-hidden", "beside compute"}}};
    table.row()
        .text(l.name)
        .text(axis_title(work.axis))
        .text(algorithm)
        .text(price.crosses_nodes ? "network" : "inside nodes")
        .text(grouped(l.runs))
        .text(in_scale(l.total, scale))
        .text(in_scale(l.exposed, scale))
        .html(html_bar(bar))
        .text(name_of(price.origin));
  }
  return html_section(
      "communication", "Communication",
      "<ul class=\"legend\"><li>" + swatch("t-exposed") + "exposed</li><li>" + swatch("t-hidden") +
          "beside compute</li></ul>\n" + "<p>" +
          html_text(sentence(0, "Inside nodes") + sentence(1, "Over the network")) + "</p>\n" +
          table.finish() +
          note("Exposed is communication while nothing computes on the rank; two at a time "
               "both count, so that the sum may exceed what the account has."));
}

// --------------------------------------------------------------------- cluster, trust, scenario

std::string cluster_panel(const PageFacts& facts) {
  if (facts.cluster_svg.empty()) return {};
  return html_section(
      "cluster", "Cluster",
      "<figure class=\"picture\"><img alt=\"The first node and the network of the cluster\" "
      "src=\"data:image/svg+xml;base64," +
          base64(facts.cluster_svg) + "\"></figure>\n");
}

std::string trust_panel(const Result& r) {
  std::vector<BarPart> parts;
  std::string legend = "<ul class=\"legend\">";
  for (int i = 0; i < kOrigins; ++i) {
    const double share = r.trust[static_cast<size_t>(i)];
    if (share <= 0) continue;
    const std::string style = "o-" + std::string(name_of(static_cast<Origin>(i)));
    parts.push_back({share, style, std::string(name_of(static_cast<Origin>(i)))});
    legend += "<li>" + swatch(style) + std::string(name_of(static_cast<Origin>(i))) + " " +
              percent(share) + "</li>";
  }
  legend += "</ul>\n";
  std::string s = "<div class=\"widebar\">" + html_bar(parts) + "</div>\n" + legend;
  s += paragraph(trust_sentence(r) + (r.calibration.empty() ? "" : " (" + r.calibration + ")"));
  if (r.interval) {
    s += paragraph(fmt::format("{}: {}. Forecasts like this one: {}.", interval_name(*r.interval),
                               interval_text(r.step_time, *r.interval), r.interval->like));
  }
  if (r.graph && r.prices) {
    const std::array<HtmlColumn, 6> columns{{{"work", false},
                                             {"runs", true},
                                             {"each", true},
                                             {"total", true},
                                             {"origin", false},
                                             {"how it is known", false}}};
    HtmlTable table("Prices that take most time, one rank of each stage", columns);
    size_t shown = 0;
    for (const CostLine& line : cost_lines(r)) {
      if (shown++ == 40) break;
      const Price& price = r.prices->by_work[static_cast<size_t>(line.work)];
      table.row()
          .text(describe(r.graph->works[static_cast<size_t>(line.work)]))
          .text(grouped(line.runs))
          .text(format_time(price.time))
          .text(format_time(line.total))
          .text(name_of(price.origin))
          .text(price.basis);
    }
    s += html_details("Where the largest prices come from", table.finish());
  }
  return html_section("trust", "How far to trust it", s);
}

std::string scenario_panel(const Result& r, const PageFacts& facts) {
  std::string s;
  if (!facts.description.empty()) s += paragraph(facts.description);
  s += "<dl class=\"facts\">\n";
  const auto fact = [&](std::string_view name, std::string_view value) {
    if (!value.empty())
      s += "<dt>" + html_text(name) + "</dt><dd><code>" + html_text(value) + "</code></dd>\n";
  };
  fact("command", facts.command);
  fact("stepcast", facts.version);
  fact("scenario hash", r.scenario.hash);
  fact("cost table", r.calibration);
  fact("its hash", r.calibration_hash);
  fact("hash of own runs", r.own_runs_hash);
  s += "</dl>\n";
  const std::array<HtmlColumn, 3> columns{{{"setting", false}, {"value", false}, {"from", false}}};
  HtmlTable table("Every setting, and where its value comes from", columns);
  for (const SettingLine& line : facts.settings)
    table.row().text(line.path).text(line.value).text(line.origin);
  if (facts.settings.empty()) return html_section("scenario", "Scenario", s);
  s += html_details(fmt::format("The resolved scenario: {} settings", facts.settings.size()),
                    table.finish());
  return html_section("scenario", "Scenario", s);
}

}  // namespace stepcast
