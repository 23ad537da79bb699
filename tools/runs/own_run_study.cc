// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/own_run_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "calibrate/fit/in_situ_fit.h"
#include "calibrate/fit/own_runs.h"
#include "scenarios/own_runs.h"
#include "sim/statistics.h"
#include "tools/runs/summary.h"

namespace stepcast::accuracy {
namespace {

constexpr int kKnown[] = {1, 3};
constexpr size_t kLeastOthers = 4;  // that a cluster is judged by
constexpr double kUnusable = 0.5;   // a median error of runs most of which are doubtful

struct StudiedRun {
  const ModelledRun* run = nullptr;
  const RunRow* row = nullptr;
  int64_t gpus = 0;
  double before_s = 0;  // by what other sources say
  OwnEvidence evidence;
  bool doubtful() const { return is_other_program(run->measured_s, before_s); }
};

// Runs of one source on one generation of GPUs, the fewest GPUs first.
struct ClusterRuns {
  std::string source;
  std::vector<InSituParameter> prior;
  std::vector<StudiedRun> runs;
  size_t smaller() const { return (runs.size() + 1) / 2; }
  bool allows(int known) const {
    return smaller() >= static_cast<size_t>(known) &&
           runs.size() >= static_cast<size_t>(known) + kLeastOthers;
  }
};

using Draw = std::vector<size_t>;  // of runs known, ascending

// What a draw leaves to forecast.
struct DrawnErrors {
  std::vector<double> without, with;  // by other run: |forecast / measured - 1|
  std::vector<double> forecast_s;     // ... with what is learnt
  std::vector<size_t> others;
};

std::vector<ClusterRuns> clusters_of(const std::vector<ModelledRun>& runs,
                                     const std::vector<RunRow>& rows, const LeftOut& left_out,
                                     int threads) {
  std::map<std::string, const RunRow*> by_id;
  for (const RunRow& row : rows) by_id[row.id] = &row;
  std::map<std::pair<std::string, std::string>, ClusterRuns> found;
  for (const ModelledRun& run : runs) {
    const auto values = left_out.find(run.source);
    const auto row = by_id.find(run.id);
    if (values == left_out.end() || row == by_id.end()) continue;
    // GPUs and hosts that other parameters hold for are another cluster.
    std::string kind;
    for (const int k : in_situ_rows(values->second, run.model.node(), run.model.libraries()))
      kind += fmt::format(" {}", k);
    ClusterRuns& cluster = found[{run.source, kind}];
    cluster.source = run.source;
    if (cluster.prior.empty())
      cluster.prior = own_prior(values->second, run.model.node(), run.model.libraries());
    cluster.runs.push_back({&run, row->second, run.model.scenario().plan.grid.world(), 0, {}});
  }
  std::vector<ClusterRuns> clusters;
  for (auto& [key, cluster] : found) {
    std::ranges::stable_sort(cluster.runs, {},
                             [](const StudiedRun& r) { return std::tuple(r.gpus, r.run->id); });
    for_each_index(cluster.runs.size(), threads, [&cluster = cluster](size_t i) {
      StudiedRun& r = cluster.runs[i];
      r.before_s = r.run->model.seconds(values_of(cluster.prior));
      r.evidence = evidence_of({r.run->measured_s, own_model_key(r.run->model.scenario().model),
                                [&r](const InSituValues& v) { return r.run->model.seconds(v); },
                                r.run->model.scenario().model.experts > 0},
                               cluster.prior);
    });
    clusters.push_back(std::move(cluster));
  }
  return clusters;
}

Draw draw_from(size_t pool, int known, std::mt19937_64& random) {
  std::vector<size_t> all(pool);
  for (size_t i = 0; i < pool; ++i) all[i] = i;
  for (size_t i = 0; i < static_cast<size_t>(known); ++i)
    std::swap(all[i], all[i + random() % (pool - i)]);
  all.resize(static_cast<size_t>(known));
  std::ranges::sort(all);
  return all;
}

DrawnErrors errors_of_draw(const ClusterRuns& cluster, const Draw& draw) {
  std::vector<OwnEvidence> known;
  for (const size_t i : draw)
    if (!cluster.runs[i].doubtful()) known.push_back(cluster.runs[i].evidence);
  const InSituValues values = values_of(own_values(known, cluster.prior));
  DrawnErrors errors;
  for (size_t i = 0; i < cluster.runs.size(); ++i) {
    if (std::ranges::binary_search(draw, i)) continue;
    const StudiedRun& r = cluster.runs[i];
    errors.others.push_back(i);
    errors.forecast_s.push_back(known.empty() ? r.before_s : r.run->model.seconds(values));
    errors.with.push_back(std::abs(errors.forecast_s.back() / r.run->measured_s - 1));
    errors.without.push_back(std::abs(r.before_s / r.run->measured_s - 1));
  }
  return errors;
}

void add(std::vector<double> errors, OtherRuns& to) {
  std::ranges::sort(errors);
  ++to.draws;
  to.median += median(errors);
  to.p90 += nearest_rank<double>(errors, 90);
}

void take_mean(OtherRuns& sum) {
  if (sum.draws == 0) return;
  sum.median /= static_cast<double>(sum.draws);
  sum.p90 /= static_cast<double>(sum.draws);
}

// Puts forecasts beside what was measured.
class Observer {
 public:
  explicit Observer(OwnRunStudy& study) : study_(study) {}

  // Run number `other` of those that the draw leaves.
  void add(const ClusterRuns& cluster, const Draw& draw, const DrawnErrors& errors, size_t other) {
    const StudiedRun& r = cluster.runs[errors.others[other]];
    if (r.row->run_class.empty()) return;
    const auto known = static_cast<int64_t>(draw.size());
    for (std::string wider = r.row->run_class; !wider.empty(); wider = wider_class_of(wider))
      if (ids_[{known, wider}].insert(r.run->id).second) ++study_.runs_of_class[{known, wider}];
    const auto observed = [&](int64_t own_runs, double forecast_s) {
      return ObservedRun{cluster.source,
                         r.row->run_class,
                         time_from_seconds(forecast_s),
                         time_from_seconds(r.run->measured_s),
                         r.row->cost_error,
                         own_runs};
    };
    study_.observed.push_back(observed(known, errors.forecast_s[other]));
    study_.none.push_back(observed(0, r.before_s));
  }

 private:
  static std::string wider_class_of(const std::string& name) {
    const size_t cut = name.rfind(" / ");
    return cut == std::string::npos ? "" : name.substr(0, cut);
  }

  OwnRunStudy& study_;
  std::map<std::pair<int64_t, std::string>, std::set<std::string>> ids_;
};

bool learns(const ClusterRuns& cluster, const Draw& draw) {
  return std::ranges::any_of(draw, [&](size_t i) { return !cluster.runs[i].doubtful(); });
}

struct SourceDraw {
  const ClusterRuns* cluster = nullptr;
  Draw draw;
};

// Draws of one source: a run of the smaller halves, then the others from the same cluster's.
std::vector<SourceDraw> draws_of(const std::vector<const ClusterRuns*>& clusters, int known,
                                 int64_t draws) {
  std::vector<const ClusterRuns*> of_run;
  for (const ClusterRuns* c : clusters)
    if (c->allows(known)) of_run.insert(of_run.end(), c->smaller(), c);
  std::vector<SourceDraw> all;
  if (of_run.empty()) return all;
  std::mt19937_64 random(static_cast<uint64_t>(known));
  for (int64_t d = 0; d < draws; ++d) {
    const ClusterRuns* c = of_run[random() % of_run.size()];
    all.push_back({c, draw_from(c->smaller(), known, random)});
  }
  return all;
}

using ErrorsOfDraws = std::map<std::pair<const ClusterRuns*, Draw>, DrawnErrors>;

// Each run once, so that a source counts as many runs as without any known; of the draws that leave
// it out, each run has its own turn.
void observe(const std::vector<SourceDraw>& drawn, const ErrorsOfDraws& errors,
             Observer& observer) {
  constexpr size_t kTurn = 37;
  std::set<const ClusterRuns*> clusters;
  for (const SourceDraw& first : drawn) {
    if (!clusters.insert(first.cluster).second) continue;
    for (size_t run = 0; run < first.cluster->runs.size(); ++run)
      for (size_t t = 0; t < drawn.size(); ++t) {
        const SourceDraw& d = drawn[(run * kTurn + t) % drawn.size()];
        // Without a run to learn from there is no file of own runs.
        if (d.cluster != first.cluster || !learns(*d.cluster, d.draw)) continue;
        const DrawnErrors& e = errors.at({d.cluster, d.draw});
        const auto other = std::ranges::lower_bound(e.others, run);
        if (other == e.others.end() || *other != run) continue;
        observer.add(*d.cluster, d.draw, e, static_cast<size_t>(other - e.others.begin()));
        break;
      }
  }
}

double percent_of(double share) {
  return 100 * share;
}

// Whether most runs of a source are something else than what is forecast.
bool is_usable(const std::map<int, KnownRuns>& known) {
  const auto one = known.find(1);
  return one != known.end() && one->second.without.median < kUnusable;
}

std::string means(const OwnRunStudy& study, int known, double OtherRuns::*figure,
                  OtherRuns KnownRuns::*which) {
  double sum = 0;
  int64_t n = 0;
  for (const auto& [source, by_known] : study.by_source) {
    const auto at = by_known.find(known);
    if (at == by_known.end() || !is_usable(by_known)) continue;
    sum += at->second.*which.*figure;
    ++n;
  }
  return n == 0 ? "-" : fmt::format("{:.1f}", percent_of(sum / static_cast<double>(n)));
}

std::string cells(const std::map<int, KnownRuns>& by_known, int known) {
  const auto at = by_known.find(known);
  if (at == by_known.end()) return " - | - | - | - |";
  const KnownRuns& k = at->second;
  return fmt::format(" {:.1f} | {:.1f} | {:+.1f} | {:.1f} |", percent_of(k.without.median),
                     percent_of(k.with.median), percent_of(k.with.median - k.without.median),
                     percent_of(k.with.p90));
}

std::string worst_of(const OwnRunStudy& study, int known) {
  double worst = -1;
  std::string name;
  for (const auto& [source, by_known] : study.by_source) {
    const auto at = by_known.find(known);
    if (at == by_known.end()) continue;
    const double more = at->second.with.median - at->second.without.median;
    if (more <= worst) continue;
    worst = more;
    name = source;
  }
  return fmt::format("{} ({:+.1f})", name, percent_of(worst));
}

std::string width_text(const std::vector<ClassErrors>& table, const std::string& name,
                       int64_t own_runs) {
  const ClassErrors* like = errors_like(table, name, own_runs);
  if (like == nullptr || like->name != name) return "-";
  return fmt::format("{:.0f} to {:+.0f}", percent_of(like->low - 1), percent_of(like->high - 1));
}

}  // namespace

OwnRunStudy own_run_study(const std::vector<ModelledRun>& runs, const std::vector<RunRow>& rows,
                          const LeftOut& left_out, int64_t draws, int threads) {
  OwnRunStudy study;
  study.draws = draws;
  const std::vector<ClusterRuns> clusters = clusters_of(runs, rows, left_out, threads);
  std::map<std::string, std::vector<const ClusterRuns*>> by_source;
  for (const ClusterRuns& c : clusters) by_source[c.source].push_back(&c);
  Observer observer(study);
  for (const auto& [source, of_source] : by_source) {
    for (const int known : kKnown) {
      const std::vector<SourceDraw> drawn = draws_of(of_source, known, draws);
      if (drawn.empty()) continue;
      // Draws that are the same are simulated once.
      ErrorsOfDraws errors;
      for (const SourceDraw& d : drawn) errors[{d.cluster, d.draw}];
      std::vector<std::pair<const std::pair<const ClusterRuns*, Draw>, DrawnErrors>*> todo;
      for (auto& entry : errors) todo.push_back(&entry);
      for_each_index(todo.size(), threads, [&](size_t i) {
        todo[i]->second = errors_of_draw(*todo[i]->first.first, todo[i]->first.second);
      });
      KnownRuns& result = study.by_source[source][known];
      for (const SourceDraw& d : drawn) {
        const DrawnErrors& e = errors.at({d.cluster, d.draw});
        add(e.without, result.without);
        add(e.with, result.with);
      }
      observe(drawn, errors, observer);
      take_mean(result.without);
      take_mean(result.with);
    }
  }
  return study;
}

std::string own_runs_markdown(const OwnRunStudy& study) {
  std::string text = fmt::format(
      "Runs that nobody here has seen become own runs: {} times, by fixed seeds, one run or three "
      "are drawn from the\nsmaller half (by GPUs) of a source's runs on one generation of GPUs, "
      "`stepcast "
      "calibrate runs` learns from them with what all other\nsources say as its prior, and the "
      "source's other runs there are forecast. The median error of a draw, in the mean\nof "
      "the draws, in %:\n\n"
      "| source | none known | one known | difference | p90 | none known | three known | "
      "difference "
      "| p90 |\n|---|---|---|---|---|---|---|---|---|\n",
      study.draws);
  for (const auto& [source, by_known] : study.by_source)
    text += fmt::format("| {} |{}{}\n", source, cells(by_known, 1), cells(by_known, 3));
  const auto mean = [&](int known) {
    return fmt::format(" {} | {} | | {} |",
                       means(study, known, &OtherRuns::median, &KnownRuns::without),
                       means(study, known, &OtherRuns::median, &KnownRuns::with),
                       means(study, known, &OtherRuns::p90, &KnownRuns::with));
  };
  text += fmt::format("| **mean of the sources** |{}{}\n", mean(1), mean(3));
  text += fmt::format(
      "\nThe mean is without sources most of whose runs take more than twice as long as forecast: "
      "their own runs are doubtful,\nand nothing is learnt of them. Where it is worst, one run "
      "known: {}; three: {} points.\n",
      worst_of(study, 1), worst_of(study, 3));
  if (study.observed.empty()) return text;
  const double level = Interval{}.level;
  const Coverages own = coverages_at_level(study.observed);
  const std::vector<ClassErrors> table =
      class_errors(study.observed, share_that_covers(study.observed, level));
  const std::vector<ClassErrors> none =
      class_errors(study.none, share_that_covers(study.none, level));
  text += fmt::format(
      "\nIntervals of {:.0f} % that these draws make, in % of the forecast, beside those of the "
      "same "
      "runs without any known. Made\nwithout the run's source they cover {:.1f} % of the runs, "
      "{:.1f} "
      "% in the mean of the sources.\n\n| class | none known | one known | three known |\n"
      "|---|---|---|---|\n",
      percent_of(level), percent_of(own.source_unseen.by_run),
      percent_of(own.source_unseen.by_source));
  for (const ClassErrors& c : none)
    text += fmt::format("| {} | {} | {} | {} |\n", c.name, width_text(none, c.name, 0),
                        width_text(table, c.name, 1), width_text(table, c.name, 3));
  return text;
}

std::string own_run_errors_csv(const OwnRunStudy& study) {
  const double level = Interval{}.level;
  const double share = study.observed.empty() ? level : share_that_covers(study.observed, level);
  std::string text = fmt::format(
      "# Measured / forecast step times of published runs, where others of the same source and GPU "
      "were known, by class:\n# where {:.1f} % of the weight lie, by which {:.0f} % of runs of "
      "sources left out are covered (docs/trust.md).\n# tools/accuracy --update rewrites this.\n"
      "own_runs,class,runs,sources,low,high,cost_error\n",
      percent_of(share), percent_of(level));
  for (const ClassErrors& c : class_errors(study.observed, share))
    text += fmt::format("{},{},{},{},{:.3f},{:.3f},{:.3f}\n", c.own_runs, c.name,
                        study.runs_of_class.at({c.own_runs, c.name}), c.sources, c.low, c.high,
                        c.cost_error);
  return text;
}

}  // namespace stepcast::accuracy
