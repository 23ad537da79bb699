// SPDX-License-Identifier: Apache-2.0
#include "sim/results/step_ranking.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

// Whether what a row says of the job decides where it stands.
bool is_by_job(const StepRanking& ranking) {
  const auto asks = [&](SearchObjective o) { return std::ranges::count(ranking.by, o) > 0; };
  return (asks(SearchObjective::price) && !(ranking.tokens && ranking.price)) ||
         (asks(SearchObjective::days) && !ranking.tokens);
}

// What is said for all is of all.
void say_job(std::vector<StepRow>& rows, const StepRanking& ranking) {
  if (!ranking.tokens && !ranking.price) return;
  for (StepRow& row : rows) {
    const Hash128 step = row.step();
    if (ranking.tokens) row.job_tokens = ranking.tokens;
    if (ranking.price) row.price_usd_per_gpu_h = ranking.price;
    row.set_step(step);
  }
}

}  // namespace

std::vector<StepRow> distinct_steps(std::vector<StepRow> rows, const StepRanking& ranking) {
  const bool by_job = is_by_job(ranking);
  const auto identity = [&](const StepRow& row) { return by_job ? row.key : row.step(); };
  std::ranges::sort(rows, [&](const StepRow& a, const StepRow& b) {
    const Hash128 of_a = identity(a), of_b = identity(b);
    return of_a != of_b ? of_a < of_b : comes_first(a, b);
  });
  size_t kept = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (kept == 0 || identity(rows[kept - 1]) != identity(rows[i])) {
      if (kept != i) rows[kept] = std::move(rows[i]);
      ++kept;
    } else if (!rows[kept - 1].joules_per_token) {
      rows[kept - 1].joules_per_token = rows[i].joules_per_token;
    }
  }
  rows.resize(kept);
  return rows;
}

void StepPoints::keep_first(size_t most) {
  if (rows.size() <= most) return;
  left_out += rows.size() - most;
  rows.resize(most);
  counted = std::min(counted, most);
  std::erase_if(steps, [&](const Step& step) { return step.row >= most; });
}

StoredSteps stored_steps(std::vector<StepRow> rows, const StepRanking& ranking) {
  StoredSteps all;
  say_job(rows, ranking);
  rows = distinct_steps(std::move(rows), ranking);
  StepRanking whole = ranking;
  whole.pareto = false;
  whole.top = rows.size();
  all.rows = static_cast<int64_t>(rows.size());
  all.points.rows = rank_steps(rows, whole);
  all.points.counted = all.points.rows.size();
  int64_t stuck = 0, large = 0, unknown = 0;
  for (StepRow& row : rows) {
    const bool known =
        std::ranges::all_of(ranking.by, [&](SearchObjective o) { return row.cost(o).has_value(); });
    if (row.runs() && row.fits(ranking.memory_margin) && known) continue;
    ++(!row.runs() ? stuck : !row.fits(ranking.memory_margin) ? large : unknown);
    if (row.runs()) all.points.rows.push_back(std::move(row));
  }
  const auto add = [&](const char* name, const char* words, int64_t count,
                       SearchRule::Kind kind = SearchRule::Kind::drops) {
    if (count > 0) all.decided.push_back({name, words, count, kind});
  };
  add("impossible", "cannot run: a deadlock, or too large to simulate", stuck);
  add("out_of_memory", "do not fit, or leave less memory free than asked for", large);
  add("unknown", "say nothing of what is ranked by", unknown);
  add("fits", "fit", static_cast<int64_t>(all.points.counted), SearchRule::Kind::keeps);
  return all;
}

std::vector<StepRow> rank_steps(std::vector<StepRow> rows, const StepRanking& ranking) {
  using Costs = std::vector<double>;
  say_job(rows, ranking);
  rows = distinct_steps(std::move(rows), ranking);
  struct Ranked {
    Costs costs;
    size_t row = 0;
  };
  std::vector<Ranked> all;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = rows[i];
    if (!row.runs() || !row.fits(ranking.memory_margin)) continue;
    Ranked ranked{{}, i};
    for (const SearchObjective o : ranking.by)
      if (const std::optional<double> cost = row.cost(o)) ranked.costs.push_back(*cost);
    if (ranked.costs.size() == ranking.by.size()) all.push_back(std::move(ranked));
  }
  // Rows are in the order of their keys.
  std::ranges::sort(all, [](const Ranked& a, const Ranked& b) {
    return std::tie(a.costs, a.row) < std::tie(b.costs, b.row);
  });
  std::vector<StepRow> best;
  std::vector<Costs> front;
  for (Ranked& r : all) {
    if (ranking.pareto) {
      // What beats a row comes before it.
      if (std::ranges::any_of(front, [&](const Costs& f) { return dominates(f, r.costs); }))
        continue;
      front.push_back(r.costs);
    } else if (best.size() == ranking.top) {
      break;
    }
    best.push_back(std::move(rows[r.row]));
  }
  return best;
}

}  // namespace stepcast
