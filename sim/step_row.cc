// SPDX-License-Identifier: Apache-2.0
#include "sim/step_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace stepcast {

bool StepRow::fits(double margin) const {
  return reserved_bytes && static_cast<double>(*reserved_bytes) <=
                               std::floor(static_cast<double>(usable_bytes) * (1 - margin));
}

std::optional<double> StepRow::days() const {
  if (!step_time_ps || !job_tokens || useful_share == 0.0) return {};
  const double steps = static_cast<double>(*job_tokens) /
                       (static_cast<double>(global_batch) * static_cast<double>(seq));
  return to_seconds(Time{*step_time_ps}) * steps / 86400 / useful_share.value_or(1);
}

std::optional<double> StepRow::price() const {
  const std::optional<double> d = days();
  if (!d || !price_usd_per_gpu_h) return {};
  return *d * 24 * static_cast<double>(gpus) * *price_usd_per_gpu_h;
}

std::optional<double> StepRow::cost(SearchObjective objective) const {
  switch (objective) {
    case SearchObjective::step_time:
      return step_time_ps ? std::optional(static_cast<double>(*step_time_ps)) : std::nullopt;
    case SearchObjective::tokens_per_gpu_s:
      return tokens_per_gpu_s ? std::optional(-*tokens_per_gpu_s) : std::nullopt;
    case SearchObjective::peak_memory:
      return reserved_bytes ? std::optional(static_cast<double>(*reserved_bytes)) : std::nullopt;
    case SearchObjective::days: return days();
    case SearchObjective::price: return price();
    case SearchObjective::energy: return joules_per_token;
  }
  return {};
}

std::span<const StepColumn> step_columns() {
  static const std::array kColumns{
      StepColumn{"name", &StepRow::name},
      StepColumn{"file", &StepRow::file},
      StepColumn{"settings", &StepRow::settings},
      StepColumn{"gpu", &StepRow::gpu},
      StepColumn{"gpus", &StepRow::gpus},
      StepColumn{"nodes", &StepRow::nodes},
      StepColumn{"tp", &StepRow::tp},
      StepColumn{"cp", &StepRow::cp},
      StepColumn{"pp", &StepRow::pp},
      StepColumn{"vpp", &StepRow::vpp},
      StepColumn{"ep", &StepRow::ep},
      StepColumn{"etp", &StepRow::etp},
      StepColumn{"dp", &StepRow::dp},
      StepColumn{"zero", &StepRow::zero},
      StepColumn{"micro_batch", &StepRow::micro_batch},
      StepColumn{"microbatches", &StepRow::microbatches},
      StepColumn{"global_batch", &StepRow::global_batch},
      StepColumn{"seq", &StepRow::seq},
      StepColumn{"recompute", &StepRow::recompute},
      StepColumn{"schedule", &StepRow::schedule},
      StepColumn{"stage_layers", &StepRow::stage_layers},
      StepColumn{"step_time_ps", &StepRow::step_time_ps},
      StepColumn{"memory_peak_bytes", &StepRow::peak_bytes},
      StepColumn{"memory_reserved_bytes", &StepRow::reserved_bytes},
      StepColumn{"memory_usable_bytes", &StepRow::usable_bytes},
      StepColumn{"tokens_per_s_per_gpu", &StepRow::tokens_per_gpu_s},
      StepColumn{"mfu", &StepRow::mfu},
      StepColumn{"job_tokens", &StepRow::job_tokens},
      StepColumn{"price_usd_per_gpu_h", &StepRow::price_usd_per_gpu_h},
      StepColumn{"useful_share", &StepRow::useful_share},
      StepColumn{"token_j", &StepRow::joules_per_token, true},
  };
  return kColumns;
}

std::string shell_word(std::string_view text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("._-+/=:,%@").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + '\'';
}

std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, any = false;
  const auto end = [&] {
    if (any) words.push_back(word);
    word.clear();
    any = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && c == ' ') {
      end();
    } else {
      if (!quoted && c == '\\' && i + 1 < text.size()) ++i;
      word += text[i];
      any = true;
    }
  }
  end();
  return words;
}

bool comes_first(const StepRow& a, const StepRow& b) {
  for (const StepColumn& column : step_columns()) {
    if (column.only_if_asked) continue;
    const int order = std::visit(
        [&](auto member) { return a.*member < b.*member   ? -1
                                  : b.*member < a.*member ? 1
                                                          : 0; },
        column.member);
    if (order != 0) return order < 0;
  }
  return false;
}

namespace {

// Of nothing it is 0, so that the key of such a row is that of its step.
Hash128 hash_of_job(const StepRow& row) {
  if (!row.job_tokens && !row.price_usd_per_gpu_h && !row.useful_share) return {0, 0};
  std::string text = "job";
  if (row.job_tokens) text += " tokens " + fmt::to_string(*row.job_tokens);
  if (row.price_usd_per_gpu_h) text += " price " + fmt::to_string(*row.price_usd_per_gpu_h);
  if (row.useful_share) text += " useful " + fmt::to_string(*row.useful_share);
  return hash_text_128(text);
}

Hash128 combined(Hash128 a, Hash128 b) {
  return {a.high ^ b.high, a.low ^ b.low};
}

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

Hash128 StepRow::step() const {
  return combined(key, hash_of_job(*this));
}

void StepRow::set_step(Hash128 step) {
  key = combined(step, hash_of_job(*this));
}

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
