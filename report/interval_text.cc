// SPDX-License-Identifier: Apache-2.0
#include "report/interval_text.h"

#include <cmath>

namespace stepcast {
namespace {

// Percent of `step` that `end` is longer.
double excess(Time step, Time end) {
  const auto whole = static_cast<double>(step.count());
  return whole > 0 ? 100 * static_cast<double>((end - step).count()) / whole : 0;
}

std::string whole_percent(double percent) {
  return (percent >= 0.5 ? "+" : "") + fixed(percent, 0) + " %";
}

std::string runs_text(const Interval& i) {
  return grouped(i.runs) + (i.runs == 1 ? " run" : " runs") + " of " + grouped(i.sources) +
         (i.sources == 1 ? " source" : " sources");
}

std::string ends(const Interval& i) {
  return format_time(i.low) + " to " + format_time(i.high);
}

void write_members(JsonWriter& json, const Interval& i) {
  json.key("low_s");
  json.seconds(i.low);
  json.key("high_s");
  json.seconds(i.high);
  json.member("level", i.level);
}

}  // namespace

std::string step_text(Time step, const Interval& i) {
  const double below = -excess(step, i.low), above = excess(step, i.high);
  const std::string text = format_time(step);
  if (below <= 0 || above <= 0 || std::fabs(above - below) > 1) return text;
  return text + " \u00b1 " + fixed((below + above) / 2, 0) + " %";
}

std::string interval_name(const Interval& i) {
  return fixed(100 * i.level, 0) + " % interval";
}

std::string interval_text(Time step, const Interval& i) {
  return ends(i) + "   " + whole_percent(excess(step, i.low)) + " to " +
         whole_percent(excess(step, i.high)) + ", as " + runs_text(i);
}

std::string explain_interval(Time step, const std::optional<Interval>& interval,
                             const TextStyle& style) {
  if (!interval)
    return wrap("no run like this one was published and forecast, so it has no interval",
                "how far to trust " + format_time(step) + ": ", style.width);
  const Interval& i = *interval;
  const std::string level = fixed(100 * i.level, 0) + " %";
  std::string s = paint("how far to trust " + format_time(step) + ": " + level + " of such steps " +
                            "take " + ends(i),
                        Tone::dim, style) +
                  '\n';
  const auto paragraph = [&](const std::string& name, const std::string& text) {
    s += wrap(text, pad_right("  " + name, 13), style.width);
  };
  paragraph("like runs", escape_text(i.like) + ": " + level + " of " + runs_text(i) + " took " +
                             fixed(i.like_low, 2) + " to " + fixed(i.like_high, 2) +
                             " of what was forecast, every source weighing about alike; the " +
                             "forecast is not corrected by that");
  const std::string open = percent(i.cost_error), theirs = percent(i.like_cost_error);
  std::string costs = "their errors leave " + open + " of the step open";
  std::string parts;
  for (const auto& [family, error] : i.cost_parts)
    if (error > 0)
      parts += (parts.empty() ? " (" : ", ") + std::string(family) + ' ' + percent(error);
  if (!parts.empty()) costs += parts + ", added in squares)";
  costs += ", those of these runs " + theirs;
  const bool as_good = open == theirs || i.cost_error <= i.like_cost_error;
  costs += as_good ? ": the interval is theirs" : ": the interval is wider by what they leave more";
  paragraph("costs", costs);
  return s;
}

void write_interval(JsonWriter& json, const std::optional<Interval>& interval) {
  json.optional_object("interval", interval, [&](const Interval& i) { write_members(json, i); });
}

void write_interval_basis(JsonWriter& json, const std::optional<Interval>& interval) {
  json.optional_object("interval", interval, [&](const Interval& i) {
    write_members(json, i);
    json.member("like", i.like);
    json.member("runs", i.runs);
    json.member("sources", i.sources);
    json.member("like_low", i.like_low);
    json.member("like_high", i.like_high);
    json.member("like_cost_error", i.like_cost_error);
    json.member("cost_error", i.cost_error);
    json.object("cost_parts", [&] {
      for (const auto& [family, error] : i.cost_parts) json.member(family, error);
    });
  });
}

}  // namespace stepcast
