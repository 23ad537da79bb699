// SPDX-License-Identifier: Apache-2.0
// How long the step takes and why: figures, what was published, what would help; the account.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/compare.h"
#include "report/text/intervals.h"
#include "report/text/roles.h"
#include "report/text/run.h"
#include "sim/graph/spend.h"

namespace stepcast {
namespace {

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

std::string step_picture(const Result& r, const PageFacts& facts) {
  if (!r.interval) return {};
  IntervalPicture p{"Step time and its interval",  to_seconds(r.interval->low),
                    to_seconds(r.step_time),       to_seconds(r.interval->high),
                    format_time(r.interval->low),  "forecast " + format_time(r.step_time),
                    format_time(r.interval->high), {}};
  for (const PublishedFigures& f : facts.published)
    if (const auto at = published_step(r, f))
      p.published.emplace_back(*at, "published " + fixed(*at, 3) + " s");
  return interval_picture(p);
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

std::string interval_picture(const IntervalPicture& p) {
  double low = std::min(p.low, p.forecast), high = std::max(p.high, p.forecast);
  for (const auto& [at, words] : p.published) {
    low = std::min(low, at);
    high = std::max(high, at);
  }
  const double span = std::max(high - low, 1e-12) * 1.3, left = low - (high - low) * 0.15;
  const auto x = [&](double v) { return fixed(20 + (v - left) / span * 560, 1); };
  std::string s =
      fmt::format("<svg class=\"interval\" viewBox=\"0 0 600 64\" role=\"img\" aria-label=\"{}\">",
                  html_text(p.title));
  s += "<path class=\"axis\" d=\"M20 34H580\"/>";
  s += fmt::format("<rect class=\"range\" x=\"{}\" y=\"27\" width=\"{}\" height=\"14\" rx=\"3\"/>",
                   x(p.low), fixed((p.high - p.low) / span * 560, 1));
  s += fmt::format(
      "<text x=\"{}\" y=\"58\" text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"58\" "
      "text-anchor=\"middle\">{}</text>",
      x(p.low), html_text(p.low_text), x(p.high), html_text(p.high_text));
  s += fmt::format(
      "<path class=\"forecast\" d=\"M{0} 22V46\"/><text class=\"strong\" x=\"{0}\" y=\"15\" "
      "text-anchor=\"middle\">{1}</text>",
      x(p.forecast), html_text(p.forecast_text));
  for (const auto& [at, words] : p.published)
    s += fmt::format(
        "<path class=\"published\" d=\"M{0} 34m-6 0l6-6l6 6l-6 6z\"><title>{1}</title></path>",
        x(at), html_text(words));
  return s + "</svg>\n";
}

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
  std::string s = "<dl class=\"cards\">\n" + cards + "</dl>\n" + step_picture(r, facts);
  const std::string published = published_lines(r, facts), help = helps(r);
  if (!published.empty()) s += "<ul class=\"plain\">\n" + published + "</ul>\n";
  if (!help.empty()) s += "<h3>What would help</h3>\n<ul class=\"plain\">\n" + help + "</ul>\n";
  std::string warnings;
  for (const std::string& w : r.scenario.warnings) warnings += "<li>" + html_text(w) + "</li>\n";
  if (!warnings.empty()) s += "<h3>Warnings</h3>\n<ul class=\"warnings\">\n" + warnings + "</ul>\n";
  return html_section("verdict", "Verdict", s);
}

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

}  // namespace stepcast
