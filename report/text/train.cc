// SPDX-License-Identifier: Apache-2.0
#include "report/text/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "report/json/writer.h"
#include "report/text/roles.h"
#include "report/text/run.h"
#include "report/text/size.h"

namespace stepcast {

namespace {

std::string train_line(std::string_view name, const std::string& text) {
  return "  " + pad_right(name, 15) + text + '\n';
}

// The parts of the wall time that add up to it; those of nothing are left out but the first.
struct TimePart {
  TrainingPart part;
  double TrainingTimes::*seconds;
  std::string_view name, key;  // to read, and in JSON
};
constexpr std::array<TimePart, 7> kTimeParts{{
    {TrainingPart::useful, &TrainingTimes::useful, "useful", "useful_s"},
    {TrainingPart::slow_ranks, &TrainingTimes::slow_ranks, "slow ranks", "slow_ranks_s"},
    {TrainingPart::evaluation, &TrainingTimes::evaluation, "evaluation", "evaluation_s"},
    {TrainingPart::checkpoint, &TrainingTimes::checkpoint, "checkpoint", "checkpoint_s"},
    {TrainingPart::redo, &TrainingTimes::redo, "redo", "redo_s"},
    {TrainingPart::restart, &TrainingTimes::restart, "restart", "restart_s"},
    {TrainingPart::wait, &TrainingTimes::wait, "wait", "wait_s"},
}};

std::string waterfall_text(const TrainingTimes& t) {
  const Waterfall fall = waterfall_of(t);
  std::string text = fall.hours ? "\n  where the hours go\n" : "\n  where the days go\n";
  constexpr double kBar = 24;
  for (const WaterfallLine& l : fall.lines) {
    const auto bar = static_cast<size_t>(l.share * kBar + 0.5);
    std::string line = "  " + pad_right(l.name, 12) + pad_left(l.amount, 9) +
                       (fall.hours ? " h" : " d") + pad_left(percent(l.share), 9);
    if (bar > 0) line += "  " + std::string(bar, '#');
    text += line + '\n';
  }
  return text;
}

}  // namespace

std::string_view checkpoint_reason(const TrainingResult& r) {
  if (!r.checkpoint.automatic) return "as stated";
  return r.by_replicas ? "as longer ones would gain less than 0.1 %" : "which loses least";
}

namespace {

std::string checkpoint_lines(const TrainingResult& r) {
  const TrainingCheckpoint& c = r.checkpoint;
  std::string text =
      train_line("checkpoints", fmt::format("every {} ({} steps), {}", duration_text(c.every),
                                            number_text(c.steps), checkpoint_reason(r)));
  text += train_line("", fmt::format("{} each{}: steps stand {}, loading takes {}",
                                     metric(static_cast<double>(c.bytes.value), "B"),
                                     c.async ? ", complete after " + duration_text(c.save) : "",
                                     duration_text(c.block), duration_text(c.load)));
  if (!c.automatic && c.best_wall > 0)
    text += train_line(
        "", fmt::format("best every {}; as stated costs {} more ({})", duration_text(c.best_every),
                        duration_text(std::max(0.0, r.times.wall - c.best_wall)),
                        percent(std::max(0.0, r.times.wall / c.best_wall - 1))));
  return text;
}

std::string interruption_lines(const TrainingResult& r) {
  if (r.mtbf <= 0) return train_line("interruptions", "none");
  std::string text =
      train_line("interruptions",
                 fmt::format("{}, one every {}; {} until steps go on", number_text(r.interruptions),
                             duration_text(r.mtbf), duration_text(r.recovery)));
  if (r.spares_for_99)
    text += train_line("spares", fmt::format("{}{} nodes: with so many, 99 % of failures find one",
                                             r.spares ? fmt::format("{} stated; ", *r.spares) : "",
                                             grouped(*r.spares_for_99)));
  return text;
}

std::string energy_lines(const TrainingResult& r) {
  if (!r.energy) return {};
  const TrainingEnergy& e = *r.energy;
  std::string text = train_line("energy", fmt::format("{} MWh at the nodes, {:.2f} kW each",
                                                      number_text(e.mwh()), e.node_watts / 1e3));
  text += train_line("", e.basis);
  if (e.pue)
    text += train_line(
        "", fmt::format("{} MWh with PUE {:.3g}", number_text(e.mwh_with_pue()), *e.pue));
  if (const auto tonnes = e.tonnes_of_co2())
    text += train_line(
        "carbon", fmt::format("{} t CO2 at {:.4g} g/kWh", number_text(*tonnes), *e.grams_per_kwh));
  return text;
}

std::string phase_lines(const TrainingResult& r) {
  const CellTable table = phases_table(r);
  if (table.rows.size() < 2) return {};
  std::string text = "\n";
  for (const std::string& line : align_columns(table.rows, table.sides)) text += "  " + line + '\n';
  return text;
}

std::string plan_lines(const TrainingResult& r, const TextStyle& style) {
  const CellTable table = plans_table(r);
  if (table.rows.size() < 2 && r.plans_left_out.empty()) return {};
  std::string text = "\n  " + plans_title(r) + '\n';
  if (table.rows.size() >= 2)
    for (const std::string& line : align_columns(table.rows, table.sides))
      text += "  " + line + '\n';
  for (const std::string& why : r.plans_left_out) text += wrap(escape_text(why), "  ", style.width);
  return text;
}

std::string fact_lines(const TrainingResult& r, const TextStyle& style) {
  std::string text = "\n  what is assumed\n";
  for (const TrainingFact& f : r.facts)
    text += wrap(f.value + ": " + f.reason, "  " + pad_right(f.name, 15), style.width);
  return text;
}

}  // namespace

std::string days_of_seconds(double s) {
  const double days = s / kSecondsOfADay;
  return fixed(days, days < 99.95 ? 1 : 0) + " days";
}

std::string number_text(double n) {
  return n < 9.95 ? fixed(n, 1) : grouped(static_cast<int64_t>(std::min(n, 9e18) + 0.5));
}

std::string dollars(double usd) {
  return "$" + metric(usd, "");
}

// Hundredths of days that add up as they are shown.
Waterfall waterfall_of(const TrainingTimes& t) {
  std::vector<Time> parts;
  for (const TimePart& p : kTimeParts)
    parts.push_back(Time{
        static_cast<int64_t>(std::min(t.*p.seconds * 1e6, 9e18) + 0.5)});  // only in proportion
  Waterfall fall;
  fall.hours = t.wall < 2 * kSecondsOfADay;
  const double unit = fall.hours ? 36 : 864;  // seconds of a hundredth
  const std::vector<int64_t> shown =
      apportion(parts, static_cast<int64_t>(std::min(t.wall / unit, 9e18) + 0.5));
  for (size_t i = 0; i < kTimeParts.size(); ++i) {
    const TimePart& p = kTimeParts[i];
    const double seconds = t.*p.seconds;
    if (i > 0 && seconds <= 0) continue;
    fall.lines.push_back(
        {p.part, p.name, seconds, seconds / t.wall, fixed(static_cast<double>(shown[i]) / 100, 2)});
  }
  return fall;
}

CellTable phases_table(const TrainingResult& r) {
  CellTable table(0);
  if (r.phases.size() < 2) return table;
  table.rows = {{"phase", "tokens", "steps", "batch", "seq", "step s", "days"}};
  table.sides = "<>>>>>>";
  int64_t n = 0;
  for (const TrainingPhase& p : r.phases)
    table.rows.push_back({fmt::format("{}", ++n), metric(p.tokens, ""), number_text(p.steps),
                          grouped(p.global_batch), grouped(p.seq), fixed(to_seconds(p.step), 3),
                          fixed(p.steps * to_seconds(p.step) / kSecondsOfADay, 2)});
  return table;
}

CellTable plans_table(const TrainingResult& r) {
  CellTable table(0);
  if (r.plans.empty()) return table;
  table.rows = {{"", "GPUs", "step s", "useful", "days", "GPU-hours", r.price ? "price" : "", ""}};
  table.sides = "<>>>>>><";
  for (const TrainingPlan& p : r.plans)
    table.rows.push_back({p.chosen ? ">" : "", grouped(p.gpus), fixed(to_seconds(p.step), 3),
                          percent(p.useful_share), fixed(p.wall / kSecondsOfADay, 1),
                          metric(p.gpu_hours, ""), p.price ? dollars(*p.price) : "",
                          p.fits ? "" : "does not fit"});
  return table;
}

std::string plans_title(const TrainingResult& r) {
  return r.wanted_days ? fmt::format("the fewest GPUs for {:.4g} days", *r.wanted_days)
                       : "on other numbers of GPUs";
}

std::string replicas_mean(const TrainingReplicas& d) {
  if (d.count == 1) return "one run: " + days_of_seconds(d.mean);
  return fmt::format("{} runs: {} in the mean", grouped(d.count), days_of_seconds(d.mean));
}

std::string replicas_scatter(const TrainingReplicas& d) {
  if (d.count == 1) return {};
  return fmt::format("80 % of them within {} to {}, by the chance of failures alone",
                     days_of_seconds(d.p10), days_of_seconds(d.p90));
}

std::string_view interval_origin(const TrainingResult& r) {
  return r.published_rates ? "of the step and of published failure rates" : "of the step";
}

std::string training_text(const TrainingResult& r, const TextStyle& style) {
  std::string text = paint(escape_text(r.name), Tone::strong, style) +
                     fmt::format("   {} x {} in {} nodes\n", grouped(r.gpus), escape_text(r.gpu),
                                 grouped(r.nodes));
  text += fmt::format("{} tokens in {} steps\n\n", metric(r.tokens, ""), number_text(r.steps));
  text += train_line("training", days_of_seconds(r.times.wall));
  if (r.wall_low && r.wall_high)
    text += train_line("80 % interval", days_of_seconds(*r.wall_low) + " to " +
                                            days_of_seconds(*r.wall_high) + "   " +
                                            std::string(interval_origin(r)));
  if (fit_of(r.fullest) != Fit::fits) text += peak_memory_lines(r.fullest, style);
  text += train_line("GPU-hours", metric(r.gpu_hours, ""));
  if (r.price) text += train_line("price", dollars(*r.price));
  text +=
      train_line("useful", percent(r.useful_share) + " of the time is in steps that count (ETTR)");
  text += interruption_lines(r);
  text += checkpoint_lines(r);
  text += energy_lines(r);
  if (r.replicas) {
    text += train_line("replicas", replicas_mean(*r.replicas));
    const std::string scatter = replicas_scatter(*r.replicas);
    if (!scatter.empty()) text += train_line("", scatter);
  }
  text += waterfall_text(r.times);
  text += phase_lines(r);
  text += plan_lines(r, style);
  text += fact_lines(r, style);
  return text;
}

std::string training_json(const TrainingResult& r, std::string_view version) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    json.member("name", r.name);
    json.member("file", r.file);
    json.member("gpu", r.gpu);
    json.member("gpus", r.gpus);
    json.member("nodes", r.nodes);
    json.member("tokens", r.tokens);
    json.member("steps", r.steps);
    json.member("days", r.times.wall / kSecondsOfADay);
    json.key("interval");
    if (r.wall_low && r.wall_high) {
      json.begin_object();
      json.member("low_days", *r.wall_low / kSecondsOfADay);
      json.member("high_days", *r.wall_high / kSecondsOfADay);
      json.member("level", 0.8);
      json.end_object();
    } else {
      json.null();
    }
    json.member("gpu_hours", r.gpu_hours);
    json.member("price_usd", r.price);
    json.member("ettr", r.useful_share);
    json.object("waterfall", [&] {
      for (const TimePart& p : kTimeParts) json.member(p.key, r.times.*p.seconds);
      json.member("wall_s", r.times.wall);
    });
    json.member("interruptions", r.interruptions);
    json.member("mtbf_s", r.mtbf > 0 ? std::optional(r.mtbf) : std::nullopt);
    json.member("recovery_s", r.recovery);
    json.object("checkpoint", [&] {
      const TrainingCheckpoint& c = r.checkpoint;
      json.member("bytes", c.bytes.value);
      json.member("every_s", c.every);
      json.member("every_steps", c.steps);
      json.member("automatic", c.automatic);
      json.member("async", c.async);
      json.member("block_s", c.block);
      json.member("save_s", c.save);
      json.member("load_s", c.load);
      json.member("best_every_s", c.best_every);
      json.member("best_days",
                  c.best_wall > 0 ? std::optional(c.best_wall / kSecondsOfADay) : std::nullopt);
    });
    json.objects("intervals", r.intervals, [&](const TrainingInterval& i) {
      json.member("every_s", i.every);
      json.member("days", i.wall / kSecondsOfADay);
    });
    json.member("spares", r.spares);
    json.member("spares_for_99", r.spares_for_99);
    json.optional_object("energy", r.energy, [&](const TrainingEnergy& e) {
      json.member("mwh", e.mwh());
      json.member("node_w", e.node_watts);
      json.member("gpu_w", e.gpu_watts > 0 ? std::optional(e.gpu_watts) : std::nullopt);
      json.member("step_j", e.step_joules);
      json.member("pue", e.pue);
      json.member("mwh_with_pue", e.pue ? std::optional(e.mwh_with_pue()) : std::nullopt);
      json.member("co2_t", e.tonnes_of_co2());
      json.member("basis", e.basis);
    });
    json.optional_object("replicas", r.replicas, [&](const TrainingReplicas& d) {
      json.member("count", d.count);
      json.member("mean_days", d.mean / kSecondsOfADay);
      json.member("p10_days", d.p10 / kSecondsOfADay);
      json.member("p50_days", d.p50 / kSecondsOfADay);
      json.member("p90_days", d.p90 / kSecondsOfADay);
      json.member("error_days", d.error / kSecondsOfADay);
    });
    json.member("by_replicas", r.by_replicas);
    json.object("memory", [&] {
      json.member("reserved_bytes", r.fullest.memory_reserved.value);
      json.member("reserved_rank", pipeline_rank(r.fullest, r.fullest.reserved_role));
      json.member("usable_bytes", r.fullest.memory_usable.value);
      json.member("fits", r.fullest.fits);
      json.member("fits_share", r.fullest.fits_share);
    });
    json.objects("phases", r.phases, [&](const TrainingPhase& p) {
      json.member("tokens", p.tokens);
      json.member("steps", p.steps);
      json.member("global_batch", p.global_batch);
      json.member("seq", p.seq);
      json.member_time("step_time", p.step);
    });
    json.objects("plans", r.plans, [&](const TrainingPlan& p) {
      json.member("gpus", p.gpus);
      json.member("nodes", p.nodes);
      json.member_time("step_time", p.step);
      json.member("fits", p.fits);
      write_whole_run(json, p);
      json.member("chosen", p.chosen);
    });
    json.values("plans_left_out", r.plans_left_out);
    json.objects("assumed", r.facts, [&](const TrainingFact& f) {
      json.member("name", f.name);
      json.member("value", f.value);
      json.member("reason", f.reason);
    });
    json.values("warnings", r.warnings);
    json.member("version", version);
  });
}

std::string step_energy_text(const StepEnergy& e) {
  return train_line("energy", metric(e.joules, "J") + " a step, " +
                                  metric(e.joules_per_token, "J") + " a token") +
         train_line("", fmt::format("a GPU draws {:.0f} W, its share of the host {:.0f} W",
                                    e.gpu_watts, e.host_watts)) +
         (e.assumed.empty() ? "" : train_line("", "assumed: " + e.assumed));
}

void write_step_energy(JsonWriter& json, const StepEnergy& e) {
  json.object("energy", [&] {
    json.member("step_j", e.joules);
    json.member("token_j", e.joules_per_token);
    json.member("gpu_w", e.gpu_watts);
    json.member("host_w_per_gpu", e.host_watts);
    json.member("assumed", e.assumed);
  });
}

std::string step_energies_table(std::span<const std::optional<StepEnergy>> energies,
                                std::span<const std::string> names) {
  std::vector<std::vector<std::string>> rows{
      {"energy", "a token", "a step", "W a GPU", "W of hosts a GPU"}};
  std::string assumed, unknown;
  std::set<std::string> said;
  for (size_t i = 0; i < energies.size(); ++i) {
    if (const auto& e = energies[i]) {
      rows.push_back({"  " + escape_text(names[i]), metric(e->joules_per_token, "J"),
                      metric(e->joules, "J"), fixed(e->gpu_watts, 0), fixed(e->host_watts, 0)});
      if (!e->assumed.empty() && said.insert(e->assumed).second)
        assumed += "assumed: " + e->assumed + '\n';
    } else {
      rows.push_back({"  " + escape_text(names[i]), "-", "", "", ""});
      unknown = "-: the power of the GPU is not known (cluster.node.gpu.power)\n";
    }
  }
  std::string text = "\n";
  for (const std::string& line : align_columns(rows, "<>>>>")) text += line + '\n';
  return text + unknown + assumed;
}

std::vector<std::vector<std::string>> whole_run_cells(
    std::span<const std::optional<TrainingPlan>> runs, std::span<const std::string> names) {
  bool any = false, price = false;
  for (const auto& run : runs) {
    any = any || run;
    price = price || (run && run->price);
  }
  if (!any) return {};
  std::vector<std::vector<std::string>> rows{
      {"the whole training", "days", "useful", "GPU-hours", price ? "price" : ""}};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (const auto& run = runs[i])
      rows.push_back({names[i], fixed(run->wall / kSecondsOfADay, 1), percent(run->useful_share),
                      metric(run->gpu_hours, ""), run->price ? dollars(*run->price) : ""});
    else
      rows.push_back({names[i], "-", "", "", ""});
  }
  return rows;
}

std::string whole_runs_table(std::span<const std::optional<TrainingPlan>> runs,
                             std::span<const std::string> names) {
  std::vector<std::vector<std::string>> rows = whole_run_cells(runs, names);
  if (rows.empty()) return {};
  for (size_t i = 1; i < rows.size(); ++i) rows[i].front() = "  " + escape_text(rows[i].front());
  std::string text = "\n";
  for (const std::string& line : align_columns(rows, "<>>>>")) text += line + '\n';
  return text;
}

void write_whole_run(JsonWriter& json, const TrainingPlan& run) {
  json.member("days", run.wall / kSecondsOfADay);
  json.member("ettr", run.useful_share);
  json.member("gpu_hours", run.gpu_hours);
  json.member("price_usd", run.price);
}

}  // namespace stepcast
