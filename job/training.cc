// SPDX-License-Identifier: Apache-2.0
// A training is one step, many times, and what comes between.  Say that Llama 3 405B trains on
// 15.6 T tokens with 2,048 nodes of 8 H100, on which a step of 16.8 M tokens takes 6.3 s:
//
//   make_part      forecasts the step: one Part for each batch size of a ramp and one for the rest,
//                  since their steps differ.  929,832 steps of 6.3 s are 67.7 days, which count.
//   long_run       puts job and cluster into the few figures that losses.h knows (LongRun): the
//                  rates of all that interrupts (of a node and day, so twice as many on twice the
//                  nodes; here one every 3.1 h), what is lost each time (a restart of 5 min and a
//                  checkpoint to load), how long steps stand while one is written (2.8 s), and how
//                  often that is: every 40 steps, which loses least.
//   expected_parts (losses.h) gives the mean in closed form: 23,000 checkpoints take 0.8 days, 553
//                  restarts 1.9, and steps since the last checkpoint, half of 4.2 min each time,
//                  0.8 more: 71.2 days.  Copies in memory have no closed form: draw_runs
//                  (replicas.h) draws a thousand such runs, and that is the answer.
//   set_interval   how sure that is: the doubts of the step and of the rates are independent, so
//                  their half widths add as squares.
//   energy_of      watts of the GPUs by what they do in a step, of hosts all the time (power.h).
//   add_plans      the same layout with more or fewer replicas, where other numbers of GPUs are
//                  asked for, or the fewest for so many days: a step and a run of their own each.
//
// train(), at the end, does this in order.  whole_run() and job_seconds() are short forms for
// `compare` and `search`, which have a step already and ask for its run.  check_job() refuses what
// cannot be before any step is forecast, endless() says of a run that never ends why.
#include "job/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "job/exponential.h"
#include "job/power.h"
#include "job/replicas.h"
#include "model/transformer.h"
#include "scenarios/forecast/forecast.h"
#include "sim/statistics.h"
#include "sim/text.h"
#include "sim/units.h"

namespace stepcast {

namespace {

// Llama 3's storage sustains 2 TB/s for 2,048 nodes (arXiv 2407.21783, section 3.3.1).
constexpr double kWritePerNode = 2e12 / 2048;
// Replicas that are drawn where there is no closed form: fewer where a run is interrupted so often
// that a few say as much and many would take minutes.
constexpr int64_t kDrawn = 1000, kLeastDrawn = 10;
constexpr double kDrawnInterruptions = 5e6;
// For means that are compared, which so many tell to some hundredths of a percent, and for twenty
// numbers of GPUs in about a second.
constexpr int64_t kDrawnToCompare = 100;
constexpr double kInterruptionsToCompare = 1e5;

int64_t nodes_of(const Scenario& s) {
  const int64_t gpus = s.plan.grid.world(), node = s.cluster.node.gpus;
  return std::max<int64_t>(1, (gpus + node - 1) / node);
}

std::string rate_of_bytes(double bytes_per_s) {
  return bytes_per_s < 1e12 ? fmt::format("{:.4g} GB/s", bytes_per_s / 1e9)
                            : fmt::format("{:.4g} TB/s", bytes_per_s / 1e12);
}

double write_bandwidth(const Job& job, const Scenario& s) {
  return job.write_bw.value_or(kWritePerNode * real(nodes_of(s)));
}

// What interrupts the job, with the rates of its nodes.
std::vector<Interruption> interruptions_of(const Job& job, const Scenario& s, double load) {
  std::vector<Interruption> all;
  for (const JobCause& c : job.causes) {
    Interruption i;
    i.name = c.name;
    double nodes = real(nodes_of(s));
    // A fleet's nodes may have more GPUs, or fewer.
    if (job.fleet != nullptr) nodes = real(s.plan.grid.world()) / real(job.fleet->gpus_per_node);
    i.rate = std::min((c.per_node_day * nodes + c.per_job_day) / kSecondsOfADay, 1e12);
    if (job.mtbf) i.rate = 1 / *job.mtbf;
    i.recovery = c.restart + load + job.warmup;
    i.takes_node = c.takes_node;
    i.repair = c.repair;
    if (i.rate > 0) all.push_back(std::move(i));
  }
  return all;
}

// A part of the run whose steps are alike.
struct Part {
  Scenario scenario;
  Result result;
  double steps = 0, tokens = 0;
  double undisturbed = 0;  // seconds of a step without slow ranks
};

// The document with the batch and the sequences of a phase of the ramp: what is wrong with them is
// shown where the phase says them.
ScenarioDocument document_of_phase(const ScenarioDocument& document, const JobPhase& phase) {
  ScenarioDocument changed = document;
  for (const Member& m : phase.section.members) {
    if (m.key == "batch" && phase.batch) changed.set("batch.global", m.value, m.key_mark);
    if (m.key == "seq" && phase.seq) changed.set("batch.seq", m.value, m.key_mark);
  }
  return changed;
}

Part make_part(const ScenarioDocument& document, const JobPhase* phase) {
  ScenarioDocument changed = phase != nullptr ? document_of_phase(document, *phase) : document;
  Part part;
  part.scenario = changed.resolve();
  ForecastOptions options;
  options.what_if = false;
  part.result = forecast(part.scenario, options);
  part.undisturbed = to_seconds(part.result.step_time);
  if (!part.scenario.perturb.empty()) {
    ScenarioDocument equal = changed;
    equal.set("perturb", Value{});
    // Which is left out beside perturbations (forecast/interference.h).
    if (part.scenario.interference == Scenario::Interference::automatic)
      equal.set("contention.interference", scalar_value("off"));
    part.undisturbed = to_seconds(forecast(equal.resolve(), options).step_time);
  }
  return part;
}

double tokens_of(const Part& p) {
  return real(p.scenario.plan.global_batch) * real(p.scenario.plan.seq);
}

double wall_of(const LongRun& run) {
  return expected_parts(run).wall;
}

int64_t replicas_of(const LongRun& run, double interruptions, int64_t most) {
  return static_cast<int64_t>(std::clamp(interruptions / std::max(1.0, run.work * run.rate()),
                                         real(kLeastDrawn), real(most)));
}

// The mean of a run with copies in memory, too, to compare it with others of the same seed.
double drawn_wall_of(const LongRun& run, int64_t count, uint64_t seed) {
  return run.memory_interval > 0 ? draw_runs(run, count, seed).mean.wall : wall_of(run);
}

// Independent doubts of the step and of the failure rate, as logarithms around the forecast, which
// is `forecast_wall`: half widths add as squares.  How far single runs lie apart by the chance of
// their failures is no part of it.
void set_interval(TrainingResult& out, const LongRun& run, const Job& job, const Interval* step,
                  double forecast_s, double forecast_wall, uint64_t seed) {
  const int64_t count = replicas_of(run, kInterruptionsToCompare, kDrawnToCompare);
  // The same run with steps and rates of another length: the checkpoints stay.
  const auto wall_with = [&](LongRun changed, double work_scale, double rate_scale) {
    changed.work *= work_scale;
    for (Interruption& i : changed.interruptions) i.rate *= rate_scale;
    return drawn_wall_of(changed, count, seed);
  };
  const double wall = wall_with(run, 1, 1);
  if (!std::isfinite(wall) || step == nullptr) return;
  const double quick = wall_with(run, to_seconds(step->low) / forecast_s, 1);
  if (!std::isfinite(quick)) return;
  double low = logarithm(quick / wall);
  const double slow = wall_with(run, to_seconds(step->high) / forecast_s, 1);
  if (!std::isfinite(slow)) return;
  double high = logarithm(slow / wall);
  if (job.fleet != nullptr) {
    out.published_rates = true;
    const double few = wall_with(run, 1, job.fleet->low / job.fleet->per_node_day);
    const double many = wall_with(run, 1, job.fleet->high / job.fleet->per_node_day);
    if (!std::isfinite(many)) return;
    const double less = logarithm(few / wall), more = logarithm(many / wall);
    const double middle = (low + high) / 2 + (less + more) / 2;
    const double half =
        std::sqrt((high - low) * (high - low) / 4 + (more - less) * (more - less) / 4);
    low = middle - half;
    high = middle + half;
  }
  out.wall_low = forecast_wall * exponential(low);
  out.wall_high = forecast_wall * exponential(high);
}

// Where and why a run never ends, in its own figures; `every`: seconds from one checkpoint to the
// next, 0 if that makes no difference.
struct Endless {
  std::string_view key;
  std::string message, help;
};

Endless endless(const Job& job, const LongRun& run, double every) {
  const double mtbf = 1 / run.rate();
  double recovery = 0;
  for (const Interruption& i : run.interruptions) recovery += i.recovery * i.rate * mtbf;
  const std::string often = duration_text(mtbf), restart = duration_text(recovery);
  const std::string_view key = job.mtbf ? "failures.mtbf" : "failures";
  if (every <= 0)
    return {key,
            fmt::format("the run never ends: it is interrupted every {}, while a restart takes {}",
                        often, restart),
            "fewer nodes, or a shorter restart"};
  return {key,
          fmt::format("the run never ends: it is interrupted every {}, while a restart takes {} "
                      "and a checkpoint comes every {}",
                      often, restart, duration_text(every)),
          fmt::format("fewer nodes, a shorter restart, or checkpoints below {} apart", often)};
}

[[noreturn]] void refuse_endless(const Job& job, const LongRun& run) {
  Endless why = endless(job, run, run.interval + run.block);
  refuse_job(job, why.key, std::move(why.message), std::move(why.help));
}

}  // namespace

double checkpoint_bytes(const Scenario& s) {
  const Precision& p = s.plan.precision;
  const double moments = 2 * bytes_per_element(p.moments);
  const double each = p.master ? bytes_per_element(p.params) + 4.0 + moments
                               : bytes_per_element(p.params) + moments;
  return each * real(parameters(s.model) + prediction_parameters(s.model));
}

LongRun long_run(const Job& job, const Scenario& s, double step, double work,
                 TrainingCheckpoint& c) {
  const double bytes = checkpoint_bytes(s);
  const double write = write_bandwidth(job, s);
  c.bytes = Bytes{static_cast<int64_t>(bytes)};
  c.async = job.async;
  c.automatic = job.automatic;
  c.save = job.save.value_or(bytes / write);
  c.load = job.load.value_or(bytes / job.read_bw.value_or(write));
  if (job.block) {
    c.block = *job.block;
  } else if (!job.async) {
    c.block = c.save;
  } else {
    // Each GPU copies its part to the host; without a known link it stands until all is written.
    const double link = s.cluster.node.gpu.host_bandwidth.value;
    c.block = link > 0 ? std::min(c.save, bytes / real(s.plan.grid.world()) / link) : c.save;
  }
  if (!job.async && job.block && !job.save) c.save = c.block;
  const double lag = job.async ? std::max(0.0, c.save - c.block) : 0;

  LongRun run;
  run.work = work;
  run.block = c.block;
  run.lag = lag;
  run.spares = job.spares.value_or(-1);
  run.interruptions = interruptions_of(job, s, c.load);
  run.storage_load = c.load;
  if (job.memory_copies) {
    run.memory_copies = *job.memory_copies;
    run.memory_interval = std::max(step, job.memory_every.in_seconds(step));
    run.memory_block = job.memory_block;
    run.memory_load = job.memory_load;
  }
  const double rate = run.rate();
  const auto in_steps = [&](double seconds) {
    return std::max(1.0, std::floor(std::max(seconds, std::max(0.0, lag - c.block)) / step + 0.5));
  };
  const double best = rate > 0 ? std::min(best_interval(1 / rate, c.block), work) : work;
  double steps = in_steps(best);
  if (best >= work) steps = std::max(steps, std::ceil(work / step));
  while (steps * step + c.block < lag) ++steps;
  c.best_every = steps * step;
  if (job.automatic) {
    c.steps = steps;
  } else {
    const double every = job.every.in_seconds(step);
    c.steps = std::max(1.0, std::floor(every / step + 0.5));
  }
  c.every = c.steps * step;
  run.interval = c.every;
  if (run.memory_interval > run.interval) run.memory_interval = 0;
  return run;
}

std::vector<TrainingFact> derived_settings(const Job& job, const Scenario& s) {
  std::vector<TrainingFact> all;
  TrainingCheckpoint c;
  constexpr double kSomeStep = 1, kSomeWork = 1e9;
  long_run(job, s, kSomeStep, kSomeWork, c);
  const std::string size = fmt::format("{:.4g} GB", static_cast<double>(c.bytes.value) / 1e9);
  if (!job.write_bw && !job.save)
    all.push_back(
        {"job.checkpoint.write_bw", rate_of_bytes(write_bandwidth(job, s)),
         "derived: as many GB/s a node as the 2 TB/s of Llama 3's 2,048 (arXiv 2407.21783)"});
  if (!job.read_bw && !job.load)
    all.push_back(
        {"job.checkpoint.read_bw", rate_of_bytes(write_bandwidth(job, s)), "derived: as write_bw"});
  if (!job.save)
    all.push_back({"job.checkpoint.save", duration_text(c.save),
                   !job.async && job.block ? "derived: as block"
                                           : "derived: a checkpoint of " + size + " at write_bw"});
  if (!job.block)
    all.push_back({"job.checkpoint.block", duration_text(c.block),
                   job.async ? "derived: each GPU copies its part to the host"
                             : "derived: steps stand until all is saved"});
  if (!job.load)
    all.push_back({"job.checkpoint.load", duration_text(c.load),
                   "derived: a checkpoint of " + size + " at read_bw"});
  const Gpu& gpu = s.cluster.node.gpu;
  if (const auto host = host_watts(gpu); !job.node_power && host && !check_power(gpu)) {
    const double most = (*gpu_watts(gpu, Draw::compute) + *host) * real(s.cluster.node.gpus);
    const std::string assumed = assumed_power(gpu);
    all.push_back({"job.power.node", fmt::format("up to {:.2f} kW", most / 1e3),
                   "derived: GPUs by kind of operation, " + host_words() +
                       (assumed.empty() ? "" : "; assumed: " + assumed)});
  }
  return all;
}

namespace {

std::string longer_than_its_interval(double takes, double every) {
  return fmt::format("a checkpoint takes {}, longer than the {} until the next one",
                     duration_text(takes), duration_text(every));
}

std::string apart(double takes) {
  return fmt::format("at least {} apart, or a higher write_bw", duration_text(takes));
}

// What is stated of checkpoints and cannot be, once the step is known.
// `shortest`: of all steps of a ramp.
void check_checkpoints(const Job& job, const LongRun& run, const TrainingCheckpoint& c, double step,
                       double shortest) {
  if (job.automatic) return;
  const double every = job.every.in_seconds(step);
  if (every < step * 0.999999)
    refuse_job(job, "checkpoint.every",
               fmt::format("a checkpoint every {} is more than one in a step of {}",
                           duration_text(every), duration_text(step)),
               "checkpoints are made between steps");
  const double takes = std::max(c.save, c.block);
  const double interval = job.every.steps > 0 ? c.steps * shortest : run.interval;
  if (takes > interval + (job.async ? c.block : 0))
    refuse_job(job, "checkpoint.every", longer_than_its_interval(takes, interval), apart(takes));
}

// Seconds that the tokens take at the fastest peak of the GPUs; without stated tokens as long as
// you like.
double least_work(const Job& job, const Scenario& s) {
  if (!job.tokens) return std::numeric_limits<double>::infinity();
  double peak = 0;
  for (const auto& [dtype, rate] : s.cluster.node.gpu.peak) peak = std::max(peak, rate.value);
  if (peak <= 0) return 0;
  const Plan& plan = s.plan;
  const double of_sequence =
      training_matmul_flops(s.model, 1, real(plan.seq), true, real(plan.encoder_seq));
  return of_sequence * *job.tokens / real(plan.seq) / (peak * real(plan.grid.world()));
}

// What is wrong with the steps of a ramp, where those of the scenario are right.
void add_ramp_problems(std::vector<Diagnostic>& found, const ScenarioDocument& document,
                       const Job& job) {
  for (const JobPhase& phase : job.rampup) {
    const auto resolved = document_of_phase(document, phase).try_resolve();
    const InputError* wrong = std::get_if<InputError>(&resolved);
    if (wrong == nullptr) continue;
    for (Diagnostic d : wrong->diagnostics) {
      d.note = fmt::format("in phase {} of job.rampup{}{}", phase.number,
                           d.note.empty() ? "" : "; ", d.note);
      found.push_back(std::move(d));
    }
  }
}

}  // namespace

void check_job(const Job& job, const Scenario& s, Problems& problems) {
  const auto add = [&](std::string_view key, std::string message, std::string help) {
    const JobPlace at = place_in_job(job, key);
    problems.add("E127", std::move(message), at.mark, at.length, {}, std::move(help));
  };
  const double step_tokens = real(s.plan.global_batch) * real(s.plan.seq);
  if (job.tokens && *job.tokens < step_tokens)
    add("tokens",
        fmt::format("{:.0f} tokens are less than the {:.0f} of one step", *job.tokens, step_tokens),
        "tokens of the whole training: 15T, 300B, 500M");
  const int64_t nodes = nodes_of(s);
  if (job.spares && *job.spares > nodes)
    add("spares", fmt::format("{} spares stand by for {} nodes", *job.spares, nodes),
        "as many as the nodes at most; spares_for_99 of the answer says how many find a use");
  if (job.memory_copies && *job.memory_copies > nodes)
    add("checkpoint.memory_copies",
        fmt::format("{} copies in the memory of {} nodes", *job.memory_copies, nodes),
        "each node keeps one copy of a state at most");
  // The step is not known, and of the work only what it takes at least.
  TrainingCheckpoint c;
  constexpr double kSomeStep = 1e-3, kSomeWork = 1e9;
  LongRun run = long_run(job, s, kSomeStep, kSomeWork, c);
  const double stated = job.automatic ? 0 : job.every.seconds, takes = std::max(c.save, c.block);
  const bool too_long = stated > 0 && takes > stated + (job.async ? c.block : 0);
  if (too_long) add("checkpoint.every", longer_than_its_interval(takes, stated), apart(takes));
  if (run.rate() <= 0) return;
  // At best each part of the work is interrupted as seldom as it is with the interval that is
  // stated, or the best; without knowing the step, "500 steps" may be as short as one likes.
  const bool known = (job.automatic || stated > 0) && !too_long;
  if (!known) {
    run.block = run.lag = 0;
    run.interval = 1e-9 / run.rate();
  }
  if (job.memory_copies) {
    for (Interruption& i : run.interruptions) i.recovery += job.memory_load - c.load;
    run.block = run.lag = 0;
    run.interval = 1e-9 / run.rate();
  }
  const double every = run.interval + run.block;
  // A run that is shorter than the interval is done again from its begin alone.
  run.interval = std::min(run.interval, std::max(least_work(job, s), 1e-9 / run.rate()));
  run.work = run.interval * 1e6;
  run.spares = -1;
  if (std::isfinite(wall_of(run))) return;
  Endless why = endless(job, run, known && !job.memory_copies ? every : 0);
  add(why.key, std::move(why.message), std::move(why.help));
}

void add_job_problems(std::vector<Diagnostic>& found, const ScenarioDocument& document,
                      const Scenario* scenario) {
  Problems problems;
  const Job job = read_job(document, problems);
  // A wrong value of the section itself hides nothing of what contradicts the cluster.
  const auto check = [&](const Scenario& s) {
    if (s.plan.trains()) check_job(job, s, problems);
  };
  if (scenario != nullptr) {
    check(*scenario);
  } else {
    ScenarioDocument without_job = document;
    without_job.set("job", Value{});
    const auto resolved = without_job.try_resolve();
    if (const Scenario* s = std::get_if<Scenario>(&resolved)) check(*s);
  }
  std::vector<Diagnostic> of_job = problems.diagnostics();
  if (scenario != nullptr && of_job.empty()) add_ramp_problems(of_job, document, job);
  for (Diagnostic& d : of_job) {
    // Values that are wrong by themselves are found by whoever resolves the document, too.
    const auto same = [&](const Diagnostic& other) {
      return std::tie(other.code, other.file, other.line, other.column) ==
             std::tie(d.code, d.file, d.line, d.column);
    };
    if (std::ranges::none_of(found, same)) found.push_back(std::move(d));
  }
  const auto of_one_file = [&](const Diagnostic& d) { return d.file == found.front().file; };
  if (std::ranges::all_of(found, of_one_file))
    std::ranges::stable_sort(found, {},
                             [](const Diagnostic& d) { return std::pair(d.line, d.column); });
}

namespace {

// The run of steps that all take as long.  `copies`: with those in memory, which have no closed
// form.  A checkpoint that takes longer than it is until the next one is complete by then.
LongRun run_of_steps(const Job& job, const Scenario& s, double step, double steps, bool copies,
                     TrainingCheckpoint& checkpoint) {
  LongRun run = long_run(job, s, step, step * steps, checkpoint);
  if (!copies) run.memory_interval = 0;
  run.lag = std::min(run.lag, run.interval + run.block);
  return run;
}

}  // namespace

double job_seconds(const Job& job, const Scenario& scenario, double step, double steps) {
  if (step <= 0 || steps <= 0 || !scenario.plan.trains()) return step * steps;
  TrainingCheckpoint checkpoint;
  return wall_of(run_of_steps(job, scenario, step, steps, false, checkpoint));
}

namespace {

// Copies in memory have no closed form, and with them storage is seldom read: the interval that
// loses least without them is doubled as long as drawn runs are a thousandth shorter.  (What is
// left is not worth the work that a lost copy would cost.)  `run` gets it unless another is stated.
void take_best_interval(LongRun& run, TrainingCheckpoint& c, double step, int64_t count,
                        uint64_t seed) {
  const auto wall = [&](double steps) {
    LongRun with = run;
    with.interval = steps * step;
    return draw_runs(with, count, seed).mean.wall;
  };
  double steps = std::max(1.0, std::floor(c.best_every / step + 0.5));
  while (steps * step < run.memory_interval) steps *= 2;
  c.best_wall = wall(steps);
  for (double more = 2 * steps; more * step < run.work; more *= 2) {
    const double with = wall(more);
    if (!(with < 0.999 * c.best_wall)) break;
    c.best_wall = with;
    steps = more;
  }
  c.best_every = steps * step;
  if (!c.automatic) return;
  c.steps = steps;
  c.every = run.interval = c.best_every;
}

// The whole training with this step alone.  `seed`: of the runs that are drawn where there are
// copies in memory; without one they are no part of it.
std::optional<TrainingPlan> plan_of(const Job& job, const Scenario& s, const Result& result,
                                    std::optional<uint64_t> seed) {
  if (!job.tokens || !s.plan.trains()) return {};
  TrainingPlan plan;
  plan.gpus = s.plan.grid.world();
  plan.nodes = nodes_of(s);
  plan.step = result.step_time;
  plan.fits = result.fits;
  const double step = to_seconds(result.step_time);
  const double steps = *job.tokens / (real(s.plan.global_batch) * real(s.plan.seq));
  TrainingCheckpoint checkpoint;
  LongRun run = run_of_steps(job, s, step, steps, seed.has_value(), checkpoint);
  const int64_t count = replicas_of(run, kInterruptionsToCompare, kDrawnToCompare);
  if (run.memory_interval > 0 && checkpoint.automatic)
    take_best_interval(run, checkpoint, step, count, *seed);
  plan.wall = drawn_wall_of(run, count, seed.value_or(0));
  if (!std::isfinite(plan.wall)) return {};
  plan.useful_share = step * steps / plan.wall;
  plan.gpu_hours = plan.wall / 3600 * real(plan.gpus);
  if (job.price) plan.price = plan.gpu_hours * *job.price;
  return plan;
}

}  // namespace

std::optional<TrainingPlan> whole_run(const Job& job, const Scenario& s, const Result& result) {
  return plan_of(job, s, result, {});
}

namespace {

TrainingTimes times_of(const RunParts& parts, double useful, double slow, double evaluation) {
  TrainingTimes t;
  t.useful = useful;
  t.slow_ranks = slow;
  t.evaluation = evaluation;
  t.checkpoint = parts.checkpoint;
  t.redo = parts.redo;
  t.restart = parts.restart;
  t.wait = parts.wait;
  t.wall = parts.wall;
  return t;
}

// Of all computers over the run: steps, steps again and pauses draw what steps do; the rest stands.
std::optional<TrainingEnergy> energy_of(const Job& job, const std::vector<Part>& parts,
                                        const TrainingTimes& t) {
  const Scenario& s = parts.back().scenario;
  const Gpu& gpu = s.cluster.node.gpu;
  const double gpus = real(s.plan.grid.world()), nodes = real(nodes_of(s));
  TrainingEnergy e;
  const double busy = t.useful + t.slow_ranks + t.evaluation + t.redo;
  const double standing = t.wall - busy;
  e.pue = job.pue;
  e.grams_per_kwh = job.carbon;
  if (job.node_power) {
    e.joules = *job.node_power * nodes * t.wall;
    e.step_joules = *job.node_power * nodes * to_seconds(parts.back().result.step_time);
    e.basis = "nodes at the power stated, whatever they do";
  } else {
    double joules = 0, seconds = 0;
    for (const Part& p : parts) {
      const auto watts = step_gpu_watts(gpu, p.result.account);
      if (!watts) return {};
      const double time = p.steps * to_seconds(p.result.step_time);
      joules += *watts * time;
      seconds += time;
    }
    const double in_steps = joules / seconds;
    const auto host = host_watts(gpu);
    if (!host) return {};
    e.gpu_watts = (in_steps * busy + *gpu_watts(gpu, Draw::idle) * standing) / t.wall;
    e.joules = (e.gpu_watts + *host) * gpus * t.wall;
    e.step_joules = (*step_gpu_watts(gpu, parts.back().result.account) + *host) * gpus *
                    to_seconds(parts.back().result.step_time);
    e.basis = "GPUs by kind of operation, " + host_words() + " as those of 8 x H100";
  }
  e.node_watts = e.joules / t.wall / nodes;
  return e;
}

// Wall times of other intervals, whole steps: from a 32nd of the best to 32 times of it, and as far
// as the stated one, four a doubling.  REQUIRES: no copies in memory.
std::vector<TrainingInterval> intervals_around(LongRun run, const TrainingCheckpoint& c,
                                               double step) {
  constexpr double kReach = 32;
  const double low = std::max(step, std::min(c.best_every, c.every) / kReach);
  const double high = std::min(run.work, std::max(c.best_every, c.every) * kReach);
  if (run.rate() <= 0 || run.block <= 0 || low >= high) return {};
  std::set<double> whole{c.every, c.best_every};
  for (double every = low; every <= high; every *= 1.189207115002721)  // fourth root of 2
    whole.insert(std::max(1.0, std::floor(every / step + 0.5)) * step);
  std::vector<TrainingInterval> all;
  for (const double every : whole) {
    run.interval = every;
    if (run.lag > every + run.block) continue;  // it would not be complete before the next
    if (const double wall = wall_of(run); std::isfinite(wall)) all.push_back({every, wall});
  }
  return all;
}

void add_facts(TrainingResult& out, const Job& job, const Scenario& s) {
  const auto add = [&](std::string name, std::string value, std::string reason) {
    out.facts.push_back({std::move(name), std::move(value), std::move(reason)});
  };
  if (job.fleet != nullptr)
    add("failures", fmt::format("{:.2e} a node and day", job.fleet->per_node_day),
        fmt::format("fleet {}{}; published fleets lie between {:.1e} and {:.1e}", job.fleet->name,
                    job.fleet->assumed ? ", a figure of which is assumed" : "", job.fleet->low,
                    job.fleet->high));
  if (!job.says_restart)
    add("restart", duration_text(job.causes.front().restart),
        "detection, replacement and initialization, as Kokolis et al. reckon");
  if (!job.write_bw && !job.save && !(job.block && !job.async))
    add("storage", rate_of_bytes(write_bandwidth(job, s)),
        "as many GB/s a node as the 2 TB/s of Llama 3's 2,048");
  add("checkpoint", fmt::format("{:.3g} TB", checkpoint_bytes(s) / 1e12),
      fmt::format(
          "{:.0f} bytes a parameter",
          checkpoint_bytes(s) / real(parameters(s.model) + prediction_parameters(s.model))));
  const std::string assumed = assumed_power(s.cluster.node.gpu);
  if (out.energy && !job.node_power && !assumed.empty())
    add("power", assumed, "assumed: no measurement of it was found");
}

// A run on as many replicas of the layout, copies in memory included.
std::optional<TrainingPlan> plan_for(const ScenarioDocument& document, const Job& job,
                                     int64_t nodes, int64_t node, uint64_t seed, std::string& why) {
  ScenarioDocument changed = document;
  changed.set("cluster.nodes", scalar_value(fmt::to_string(nodes)));
  changed.set("parallel.dp", Value{});
  auto resolved = changed.try_resolve();
  if (const InputError* wrong = std::get_if<InputError>(&resolved)) {
    why = wrong->diagnostics.front().message;
    return {};
  }
  const Scenario* s = std::get_if<Scenario>(&resolved);
  if (s->plan.grid.world() != nodes * node) {
    why = "the layout has no whole number of replicas there";
    return {};
  }
  if (job.memory_copies && *job.memory_copies > nodes) {
    why = fmt::format("{} copies in the memory of {}", *job.memory_copies,
                      nodes == 1 ? "one node" : fmt::format("{} nodes", nodes));
    return {};
  }
  ForecastOptions options;
  options.what_if = false;
  try {
    auto plan = plan_of(job, *s, forecast(*s, options), seed);
    if (!plan) why = "the run never ends there";
    return plan;
  } catch (const InputError& e) {
    why = e.diagnostics.front().message;
    return {};
  }
}

// Numbers of nodes with which the layout has a whole number of replicas that share the batch.
std::vector<int64_t> node_counts(const Scenario& s) {
  const int64_t node = s.cluster.node.gpus;
  const int64_t replica = s.plan.grid.world() / s.plan.grid.dp;
  const int64_t most = s.plan.global_batch / s.plan.micro_batch;
  std::vector<int64_t> nodes;
  for (int64_t dp = 1; dp <= most; ++dp)
    if (most % dp == 0 && replica * dp % node == 0) nodes.push_back(replica * dp / node);
  return nodes;
}

// What the answer says of its own number of GPUs, where its steps are all alike.
std::optional<TrainingPlan> plan_of_answer(const TrainingResult& r, const Scenario& s) {
  const bool fills_nodes = r.gpus == r.nodes * s.cluster.node.gpus;
  if (!fills_nodes || r.phases.size() > 1 || r.times.evaluation > 0) return {};
  TrainingPlan plan;
  plan.gpus = r.gpus;
  plan.nodes = r.nodes;
  plan.step = r.phases.back().step;
  plan.fits = r.fullest.fits;
  plan.useful_share = r.useful_share;
  plan.wall = r.times.wall;
  plan.gpu_hours = r.gpu_hours;
  plan.price = r.price;
  return plan;
}

void add_plans(TrainingResult& out, const ScenarioDocument& document, const Job& job,
               const Scenario& s, const TrainOptions& options) {
  const int64_t node = s.cluster.node.gpus;
  struct Known {
    std::optional<TrainingPlan> plan;
    std::string why;  // there is none
  };
  std::map<int64_t, Known> known;  // by nodes
  if (auto own = plan_of_answer(out, s)) known[own->nodes].plan = std::move(own);
  std::set<int64_t> asked;
  const auto at = [&](int64_t nodes) -> Known& {
    asked.insert(nodes);
    auto [place, added] = known.try_emplace(nodes);
    Known& here = place->second;
    Job there = job;
    // What is stated is of the nodes that the job has; more of them fail more often.
    if (there.mtbf) *there.mtbf *= real(nodes_of(s)) / real(nodes);
    if (added) here.plan = plan_for(document, there, nodes, node, options.seed, here.why);
    return here;
  };
  for (const int64_t gpus : options.gpus) {
    const std::string why =
        gpus % node != 0 ? fmt::format("nodes have {} GPUs", node) : at(gpus / node).why;
    if (!why.empty())
      out.plans_left_out.push_back(fmt::format(
          "{} left out: {}", gpus == 1 ? "1 GPU is" : fmt::format("{} GPUs are", gpus), why));
  }
  out.wanted_days = options.days;
  if (options.days) {
    std::string why;
    // From the fewest on: with more GPUs failures and waits may take more than the steps gain.
    const std::vector<int64_t> nodes = node_counts(s);
    size_t found = 0;
    while (found < nodes.size()) {
      const Known& here = at(nodes[found]);
      if (here.plan && here.plan->fits && here.plan->wall <= *options.days * kSecondsOfADay) break;
      why = here.why;
      ++found;
    }
    if (found < nodes.size()) {
      known[nodes[found]].plan->chosen = true;
      if (found + 1 < nodes.size()) at(nodes[found + 1]);
    } else {
      out.plans_left_out.push_back(
          fmt::format("no number of GPUs that this layout takes does it in {} days{}",
                      *options.days, why.empty() ? "" : "; with more: " + why));
    }
  }
  for (const auto& [nodes, here] : known)
    if (here.plan && asked.contains(nodes)) out.plans.push_back(*here.plan);
  const bool ramp = !job.rampup.empty(), evaluation = job.evaluation > 0;
  if (!out.plans.empty() && (ramp || evaluation))
    out.plans_left_out.push_back(
        fmt::format("these rows leave out {}", !evaluation ? "the ramp"
                                               : !ramp     ? "pauses for evaluation"
                                                           : "the ramp and pauses for evaluation"));
}

double shortest_step(const std::vector<Part>& parts) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const Part& p : parts) shortest = std::min(shortest, to_seconds(p.result.step_time));
  return shortest;
}

// The section, or all that is wrong with the scenario and with it.
Job checked_job(const ScenarioDocument& document) {
  const auto resolved = document.try_resolve();
  const Scenario* scenario = std::get_if<Scenario>(&resolved);
  std::vector<Diagnostic> wrong;
  if (const InputError* error = std::get_if<InputError>(&resolved)) wrong = error->diagnostics;
  add_job_problems(wrong, document, scenario);
  if (!wrong.empty()) throw InputError(std::move(wrong));
  Job job = read_job(document);
  if (!scenario->plan.trains()) refuse_job(job, "", "the scenario does not train", "mode: train");
  if (!job.tokens)
    throw file_error("E126", "it is not said how many tokens the model trains on", scenario->file,
                     "--tokens 15T, or job: {tokens: 15T}");
  return job;
}

}  // namespace

TrainingResult train(const ScenarioDocument& document, const TrainOptions& options) {
  const Job job = checked_job(document);
  std::vector<Part> parts;
  parts.push_back(make_part(document, nullptr));
  double left = *job.tokens;
  std::vector<Part> ramp;
  for (const JobPhase& phase : job.rampup) {
    ramp.push_back(make_part(document, &phase));
    ramp.back().tokens = phase.tokens;
    ramp.back().steps = phase.tokens / tokens_of(ramp.back());
    left -= phase.tokens;
  }
  parts.back().tokens = left;
  parts.back().steps = left / tokens_of(parts.back());
  parts.insert(parts.begin(), std::make_move_iterator(ramp.begin()),
               std::make_move_iterator(ramp.end()));
  const Part& main = parts.back();
  const Scenario& s = main.scenario;

  TrainingResult out;
  out.name = s.name;
  out.file = s.file;
  out.gpu = main.result.scenario.gpu;
  out.gpus = s.plan.grid.world();
  out.nodes = nodes_of(s);
  out.tokens = *job.tokens;
  double useful = 0, slow = 0, step_seconds = 0;
  for (const Part& p : parts) {
    const double step = to_seconds(p.result.step_time);
    out.steps += p.steps;
    step_seconds += p.steps * step;
    useful += p.steps * std::min(step, p.undisturbed);
    slow += p.steps * std::max(0.0, step - p.undisturbed);
    out.phases.push_back(
        {p.tokens, p.steps, p.scenario.plan.global_batch, p.scenario.plan.seq, p.result.step_time});
  }
  double evaluation = 0;
  if (job.evaluation > 0) {
    const double count = job.evaluate_every.steps > 0 ? out.steps / job.evaluate_every.steps
                                                      : step_seconds / job.evaluate_every.seconds;
    evaluation = std::floor(count) * job.evaluation;
  }
  // The mean, with its share of pauses: so many steps are as many checkpoints, however long the
  // steps of a ramp take.
  const double step = parts.size() == 1 && evaluation == 0
                          ? to_seconds(main.result.step_time)
                          : (step_seconds + evaluation) / out.steps;
  LongRun run = long_run(job, s, step, step_seconds + evaluation, out.checkpoint);
  check_checkpoints(job, run, out.checkpoint, step, shortest_step(parts));
  const bool copies = run.memory_interval > 0;
  RunParts found;
  if (!copies) {
    found = expected_parts(run);
    if (!std::isfinite(found.wall)) refuse_endless(job, run);
  }
  if (copies || options.replicas > 0) {
    const int64_t count =
        options.replicas > 0 ? options.replicas : replicas_of(run, kDrawnInterruptions, kDrawn);
    if (copies) take_best_interval(run, out.checkpoint, step, count, options.seed);
    const ReplicaRuns drawn = draw_runs(run, count, options.seed);
    if (!std::isfinite(drawn.mean.wall)) refuse_endless(job, run);
    if (copies) found = drawn.mean;
    out.by_replicas = copies;
    const std::span<const double> walls = drawn.walls;
    out.replicas = TrainingReplicas{count,
                                    options.seed,
                                    drawn.mean.wall,
                                    interpolated_quantile(walls, 0.1),
                                    interpolated_quantile(walls, 0.5),
                                    interpolated_quantile(walls, 0.9),
                                    drawn.deviation / std::sqrt(real(count))};
  }
  out.times = times_of(found, useful, slow, evaluation);
  out.useful_share = step_seconds / found.wall;
  out.interruptions = found.interruptions;
  if (const double rate = run.rate(); rate > 0) {
    out.mtbf = 1 / rate;
    double load = 0;
    for (const Interruption& i : run.interruptions) {
      out.recovery += i.recovery * i.rate / rate;
      if (i.takes_node) load += i.rate * i.repair;
    }
    out.spares = job.spares;
    if (load > 0) out.spares_for_99 = spares_for(load, 0.99);
  }
  // Most restarts read a copy in memory, which is sooner than the storage.
  if (copies && found.interruptions > 0) out.recovery = found.restart / found.interruptions;
  if (!copies) {
    LongRun best = run;
    best.interval = out.checkpoint.best_every;
    out.checkpoint.best_wall = wall_of(best);
  }
  if (!copies) out.intervals = intervals_around(run, out.checkpoint, step);
  set_interval(out, run, job, main.result.interval ? &*main.result.interval : nullptr,
               to_seconds(main.result.step_time), found.wall, options.seed);
  out.gpu_hours = found.wall / 3600 * real(out.gpus);
  if (job.price) out.price = out.gpu_hours * *job.price;
  out.energy = energy_of(job, parts, out.times);
  if (const auto wrong = check_power(s.cluster.node.gpu); wrong && !out.energy)
    out.warnings.push_back("no energy: " + wrong->message + "; " + wrong->help);
  out.fullest = std::ranges::max_element(parts, {}, [](const Part& p) {
                  return p.result.memory_reserved;
                })->result;
  if (!out.fullest.fits)
    out.warnings.push_back("a step does not fit in memory: `stepcast run` says more");
  for (const std::string& w : main.result.scenario.warnings) out.warnings.push_back(w);
  add_facts(out, job, s);
  add_plans(out, document, job, s, options);
  return out;
}

}  // namespace stepcast
