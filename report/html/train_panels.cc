// SPDX-License-Identifier: Apache-2.0
// A whole training run: how long, where the days go, how often to checkpoint, on how many GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/run.h"
#include "report/text/size.h"
#include "report/text/train.h"
#include "sim/units.h"

namespace stepcast {
namespace {

std::string checkpoint_words(const TrainingResult& r) {
  const TrainingCheckpoint& c = r.checkpoint;
  return fmt::format("{} steps, {}; steps stand {} each", number_text(c.steps),
                     checkpoint_reason(r), duration_text(c.block));
}

std::string energy_cards(const TrainingResult& r) {
  if (!r.energy) return {};
  const TrainingEnergy& e = *r.energy;
  std::string s =
      card("Energy, MWh", number_text(e.mwh_with_pue()),
           e.pue ? fmt::format("with PUE {:.3g}; {} MWh at the nodes", *e.pue, number_text(e.mwh()))
                 : "at the nodes; " + e.basis);
  if (const auto tonnes = e.tonnes_of_co2())
    s += card("Carbon, t", number_text(*tonnes),
              fmt::format("CO2 at {:.4g} g/kWh", *e.grams_per_kwh));
  return s;
}

// Base-2 logarithm but for bends between powers of two, the same on every machine.
double bent_log2(double v) {
  int exponent = 0;
  const double mantissa = std::frexp(v, &exponent);  // 0.5 to 1
  return exponent + (mantissa - 0.5) * 2 - 1;
}

std::string_view part_style(TrainingPart part) {
  switch (part) {
    case TrainingPart::useful: return "t-compute";
    case TrainingPart::slow_ranks: return "s-straggler";
    case TrainingPart::evaluation: return "s-fill";
    case TrainingPart::checkpoint: return "a-U";
    case TrainingPart::redo: return "t-exposed";
    case TrainingPart::restart: return "a-R";
    case TrainingPart::wait: return "s-blocked";
  }
  return {};
}

}  // namespace

std::string train_verdict(const TrainingResult& r) {
  const bool interval = r.wall_low && r.wall_high;
  std::string s = "<dl class=\"cards\">\n";
  s += card("Training", days_of_seconds(r.times.wall),
            interval ? fmt::format("80 % interval: {} to {}, {}", days_of_seconds(*r.wall_low),
                                   days_of_seconds(*r.wall_high), interval_origin(r))
                     : "no interval",
            "wide");
  if (fit_of(r.fullest) != Fit::fits)
    s += card("Peak memory, GiB", gib(r.fullest.memory_reserved),
              "of " + gib(r.fullest.memory_usable) + " usable: " + memory_verdict(r.fullest));
  s += card("GPU-hours", metric(r.gpu_hours, ""),
            fmt::format("{} GPUs in {} nodes", grouped(r.gpus), grouped(r.nodes)));
  if (r.price) s += card("Price", dollars(*r.price), "of the GPUs");
  s += card("Useful", percent(r.useful_share), "of the time is in steps that count (ETTR)");
  s += r.mtbf > 0 ? card("Interruptions", number_text(r.interruptions),
                         fmt::format("one every {}; {} until steps go on", duration_text(r.mtbf),
                                     duration_text(r.recovery)))
                  : card("Interruptions", "none", "");
  if (r.spares_for_99)
    s += card("Spares", grouped(*r.spares_for_99),
              fmt::format("nodes, with which 99 % of failures find one{}",
                          r.spares ? fmt::format("; {} stated", *r.spares) : ""));
  s += card("Checkpoint every", duration_text(r.checkpoint.every), checkpoint_words(r));
  s += energy_cards(r) + "</dl>\n";
  if (interval)
    s += interval_picture({"Days and their interval",
                           *r.wall_low,
                           r.times.wall,
                           *r.wall_high,
                           days_of_seconds(*r.wall_low),
                           "forecast " + days_of_seconds(r.times.wall),
                           days_of_seconds(*r.wall_high),
                           {}});
  if (r.replicas) {
    const std::string scatter = replicas_scatter(*r.replicas);
    s += note("Drawn with failures at random: " + replicas_mean(*r.replicas) +
              (scatter.empty() ? "." : "; " + scatter + "."));
  }
  std::string warnings;
  for (const std::string& w : r.warnings) warnings += "<li>" + html_text(w) + "</li>\n";
  if (!warnings.empty()) s += "<h3>Warnings</h3>\n<ul class=\"warnings\">\n" + warnings + "</ul>\n";
  return html_section("verdict", "Verdict", s);
}

std::string waterfall_panel(const TrainingResult& r) {
  const Waterfall fall = waterfall_of(r.times);
  const bool hours = fall.hours;
  const std::array<HtmlColumn, 5> columns{{{"part", false},
                                           {hours ? "hours" : "days", true},
                                           {"share, %", true},
                                           {"GPU-hours", true},
                                           {"", false}}};
  HtmlTable table("Parts of the wall time, on all GPUs", columns);
  double before = 0;
  for (const WaterfallLine& l : fall.lines) {
    const std::string title = fmt::format("{}: {} {}", l.name, l.amount, hours ? "hours" : "days");
    const std::array<BarPart, 2> bar{
        {{before, "t-none", {}}, {l.share, std::string(part_style(l.part)), title}}};
    table.row()
        .text(l.name)
        .text(l.amount)
        .text(fixed(l.share * 100, l.share < 0.001 ? 3 : 1))
        .text(metric(l.seconds / 3600 * static_cast<double>(r.gpus), ""))
        .html(html_bar(bar));
    before += l.share;
  }
  const std::array<BarPart, 1> whole{{{1, "t-lost", {}}}};
  table.row("mark")
      .text("wall time")
      .text(fixed(r.times.wall / (hours ? 3600 : kSecondsOfADay), 2))
      .text("100.0")
      .text(metric(r.gpu_hours, ""))
      .html(html_bar(whole));
  std::string s = table.finish();
  s += note("The parts add up to the wall time: each begins where the one before it ends.");
  return html_section("waterfall", hours ? "Where the hours go" : "Where the days go", s);
}

namespace {

constexpr double kCurveWidth = 640, kCurveHeight = 240, kCurveLeft = 56, kCurveRight = 616,
                 kCurveTop = 24, kCurveBottom = 196;

// Wall time by interval: logarithmic across, as far up as the stated interval or a tenth more than
// the least reaches.
class Curve {
 public:
  explicit Curve(const TrainingResult& r) : result_(r) {
    low_ = high_ = r.checkpoint.best_wall;
    for (const TrainingInterval& i : r.intervals) low_ = std::min(low_, i.wall);
    high_ = std::max(low_ * 1.1, r.times.wall + (r.times.wall - low_) * 0.25);
    for (const TrainingInterval& i : r.intervals)
      if (i.wall <= high_) shown_.push_back(i);
    if (shown_.size() < 2) return;
    first_ = bent_log2(shown_.front().every);
    span_ = std::max(bent_log2(shown_.back().every) - first_, 1e-9);
  }

  std::string svg() const {
    if (shown_.size() < 2) return {};
    std::string s = fmt::format(
        "<svg class=\"interval\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Days by "
        "checkpoint "
        "interval: least at {}\">\n",
        kCurveWidth, kCurveHeight, html_text(duration_text(result_.checkpoint.best_every)));
    s += axes();
    std::string path;
    for (const TrainingInterval& i : shown_)
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", fixed(x(i.every), 1),
                          fixed(y(i.wall), 1));
    s += "<path class=\"line\" d=\"" + path + "\"/>\n";
    const TrainingCheckpoint& c = result_.checkpoint;
    s += fmt::format(
        "<circle class=\"first\" cx=\"{}\" cy=\"{}\" r=\"6\"><title>best: {}</title></circle>\n",
        fixed(x(c.best_every), 1), fixed(y(c.best_wall), 1),
        html_text(duration_text(c.best_every)));
    if (!c.automatic)
      s += fmt::format(
          "<path class=\"published\" d=\"M{} {}m-6 0l6-6l6 6l-6 6z\"><title>stated: "
          "{}</title></path>\n",
          fixed(x(c.every), 1), fixed(y(result_.times.wall), 1), html_text(duration_text(c.every)));
    return s + "</svg>\n";
  }

 private:
  double x(double every) const {
    return kCurveLeft + (bent_log2(every) - first_) / span_ * (kCurveRight - kCurveLeft);
  }
  double y(double wall) const {
    return kCurveBottom - (wall - low_) / (high_ - low_) * (kCurveBottom - kCurveTop);
  }

  std::string axes() const {
    std::string s;
    constexpr int kLines = 4;
    for (int i = 0; i <= kLines; ++i) {
      const double wall = low_ + (high_ - low_) * i / kLines, days = wall / kSecondsOfADay;
      s += fmt::format(
          "<path class=\"tick\" d=\"M{0} {1}H{2}\"/><text x=\"{3}\" y=\"{1}\" dy=\"4\" "
          "text-anchor=\"end\">{4}</text>",
          kCurveLeft, fixed(y(wall), 1), kCurveRight, kCurveLeft - 6,
          fixed(days, days < 9.95 ? 2 : 1));
    }
    // Some of the intervals that a person would name, as far apart as their words need.
    static constexpr std::array<double, 18> kNamed{1,
                                                   2,
                                                   5,
                                                   10,
                                                   20,
                                                   30,
                                                   60,
                                                   120,
                                                   300,
                                                   600,
                                                   1200,
                                                   3600,
                                                   7200,
                                                   18000,
                                                   43200,
                                                   kSecondsOfADay,
                                                   kSecondsOfADay * 4,
                                                   kSecondsOfADay * 16};
    double last = -1e9;
    for (const double every : kNamed) {
      if (every < shown_.front().every || every > shown_.back().every) continue;
      const double at = x(every);
      if (at - last < 58) continue;
      last = at;
      s += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", fixed(at, 1),
                       kCurveBottom + 18, html_text(duration_text(every)));
    }
    return s + fmt::format(
                   "<text x=\"{}\" y=\"14\">days</text><text x=\"{}\" y=\"{}\" "
                   "text-anchor=\"end\">from one checkpoint to the next</text>\n",
                   kCurveLeft, kCurveRight, kCurveHeight - 6);
  }

  const TrainingResult& result_;
  std::vector<TrainingInterval> shown_;
  double low_ = 0, high_ = 1, first_ = 0, span_ = 1;
};

}  // namespace

std::string intervals_panel(const TrainingResult& r) {
  if (r.intervals.size() < 2) return {};
  const TrainingCheckpoint& c = r.checkpoint;
  const std::array<HtmlColumn, 4> columns{{{"a checkpoint every", false},
                                           {"days", true},
                                           {"more than the best, %", true},
                                           {"", false}}};
  HtmlTable table("Days by checkpoint interval", columns);
  for (const TrainingInterval& i : r.intervals) {
    const bool best = i.every == c.best_every, stated = i.every == c.every;
    table.row(best || stated ? "mark" : "")
        .text(duration_text(i.every))
        .text(fixed(i.wall / kSecondsOfADay, 2))
        .text(fixed((i.wall / c.best_wall - 1) * 100, 2))
        .text(best     ? (stated && c.automatic ? "best, and taken" : "best")
              : stated ? "stated"
                       : "");
  }
  std::string words = fmt::format("Ring: {} loses least.", duration_text(c.best_every));
  if (!c.automatic)
    words += fmt::format(" Diamond: {} as stated costs {} more ({}).", duration_text(c.every),
                         duration_text(std::max(0.0, r.times.wall - c.best_wall)),
                         percent(std::max(0.0, r.times.wall / c.best_wall - 1)));
  return html_section("intervals", "How often to checkpoint",
                      note(words) + "<figure>" + Curve(r).svg() + "</figure>\n" +
                          html_details("Intervals as a table", table.finish()));
}

std::string phases_panel(const TrainingResult& r) {
  const CellTable phases = phases_table(r);
  if (phases.rows.size() < 2) return {};
  return html_section("phases", "Phases", cell_table("The ramp, phase after phase", phases));
}

std::string train_plans_panel(const TrainingResult& r) {
  const CellTable plans = plans_table(r);
  if (plans.rows.size() < 2 && r.plans_left_out.empty()) return {};
  std::string title = plans_title(r);
  title.front() = upper_case(title.substr(0, 1)).front();
  std::string s =
      plans.rows.size() < 2 ? "" : cell_table("The same layout with more or fewer replicas", plans);
  for (const std::string& why : r.plans_left_out) s += note(why);
  return html_section("plans", title, s);
}

std::string train_facts_panel(const TrainingResult& r) {
  if (r.facts.empty()) return {};
  const std::array<HtmlColumn, 3> columns{{{"what", false}, {"value", false}, {"why", false}}};
  HtmlTable table("What nobody stated, and what is taken for it", columns);
  for (const TrainingFact& f : r.facts) table.row().text(f.name).text(f.value).text(f.reason);
  return html_section("assumed", "What is assumed", table.finish());
}

}  // namespace stepcast
