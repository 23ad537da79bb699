// SPDX-License-Identifier: Apache-2.0
#include "sim/results/step_row.h"

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
  return to_seconds(Time{*step_time_ps}) * steps / kSecondsOfADay / useful_share.value_or(1);
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

}  // namespace

Hash128 StepRow::step() const {
  return combined(key, hash_of_job(*this));
}

void StepRow::set_step(Hash128 step) {
  key = combined(step, hash_of_job(*this));
}

}  // namespace stepcast
