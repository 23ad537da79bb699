// SPDX-License-Identifier: Apache-2.0
#include "report/text/intervals.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

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

// An Interval may be of runs of which some were known; a MemoryInterval never is.
std::string known_text(const Interval& i) {
  if (i.own_runs == 0) return "";
  return i.own_runs < 3 ? " of which one was known" : " of which three were known";
}
std::string known_text(const MemoryInterval&) {
  return "";
}

// Of an Interval or a MemoryInterval.
template <class AnyInterval>
std::string runs_text(const AnyInterval& i) {
  return grouped(i.runs) + (i.runs == 1 ? " run" : " runs") + " of " + grouped(i.sources) +
         (i.sources == 1 ? " source" : " sources") + known_text(i);
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

std::string excess_text(Time step, Time end) {
  return whole_percent(excess(step, end));
}

std::string step_text(Time step, const Interval& i) {
  const double below = -excess(step, i.low), above = excess(step, i.high);
  const std::string text = format_time(step);
  if (below <= 0 || above <= 0 || std::fabs(above - below) > 1) return text;
  return text + " \u00b1 " + fixed((below + above) / 2, 0) + " %";
}

std::string interval_name(const Interval& i) {
  return fixed(100 * i.level, 0) + " % interval";
}

std::string interval_name(const MemoryInterval& i) {
  return "memory, " + fixed(100 * i.level, 0) + " %";
}

std::string interval_text(Bytes forecast, const MemoryInterval& i) {
  const auto more = [&](Bytes end) {
    const auto whole = static_cast<double>(std::max<int64_t>(1, forecast.value));
    return whole_percent(100 * static_cast<double>((end - forecast).value) / whole);
  };
  return gib(i.low) + " to " + gib(i.high) + " GiB   " + more(i.low) + " to " + more(i.high) +
         ", as " + runs_text(i);
}

std::string interval_text(Time step, const Interval& i) {
  return ends(i) + "   " + excess_text(step, i.low) + " to " + excess_text(step, i.high) + ", as " +
         runs_text(i);
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

namespace {

// The table ends at one step of twenty: runs of a few sources say no more.
std::string fits_text(const Result& r) {
  constexpr double kEnd = 0.05;
  const double share = *r.fits_share;
  const std::string open = share >= 1 - kEnd ? " or more" : share <= kEnd ? " or less" : "";
  return fixed(100 * share, 0) + " %" + open + " of such steps fit in " + gib(r.memory_usable) +
         " GiB, going by how much larger all tensors could be";
}

}  // namespace

std::string explain_memory_interval(const Result& r, const TextStyle& style) {
  if (!r.reserved_interval) return {};
  const MemoryInterval& i = *r.reserved_interval;
  const std::string level = fixed(100 * i.level, 0) + " %";
  std::string s = paint("how far to trust " + gib(r.memory_reserved) + " GiB: " + level +
                            " of such steps reserve " + gib(i.low) + " to " + gib(i.high) + " GiB",
                        Tone::dim, style) +
                  '\n';
  const auto paragraph = [&](const std::string& name, const std::string& text) {
    s += wrap(text, pad_right("  " + name, 13), style.width);
  };
  paragraph("like runs", escape_text(i.like) + ": " + level + " of " + runs_text(i) +
                             " were measured at " + fixed(i.like_low, 2) + " to " +
                             fixed(i.like_high, 2) +
                             " of what was forecast, every source weighing about alike");
  if (r.fits_share) paragraph("fits", fits_text(r));
  return s;
}

void write_interval(JsonWriter& json, const std::optional<Interval>& interval) {
  json.optional_object("interval", interval, [&](const Interval& i) { write_members(json, i); });
}

void write_interval(JsonWriter& json, const std::optional<MemoryInterval>& interval) {
  json.optional_object("interval", interval, [&](const MemoryInterval& i) {
    json.member("low_bytes", i.low.value);
    json.member("high_bytes", i.high.value);
    json.member("level", i.level);
    json.member("like", i.like);
    json.member("runs", i.runs);
    json.member("sources", i.sources);
    json.member("like_low", i.like_low);
    json.member("like_high", i.like_high);
  });
}

void write_interval_basis(JsonWriter& json, const std::optional<Interval>& interval) {
  json.optional_object("interval", interval, [&](const Interval& i) {
    write_members(json, i);
    json.member("like", i.like);
    json.member("runs", i.runs);
    json.member("sources", i.sources);
    json.member("own_runs", i.own_runs);
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
