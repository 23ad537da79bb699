// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "scenarios/search/search.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

// A batch for which as many layouts are legal and the same ones fit, which hangs on the first
// microbatches: of steps of very many each takes long.
int64_t shorter_batch(const SearchPlace& place) {
  constexpr int64_t kMicrobatches = 32;  // of each GPU
  const int64_t most = kMicrobatches * place.gpus, batch = place.global_batch;
  if (batch <= most) return batch;
  // Replicas that divide the one divide the other.
  const int64_t times = batch / std::gcd(batch, place.gpus);
  int64_t parts = batch / most;
  while (times % parts != 0) --parts;
  return batch / parts;
}

}  // namespace

std::optional<FoundLayout> simple_layout_that_fits(const ScenarioDocument& document) {
  ScenarioDocument simple = document;
  const Value* search = document.tree().find("search");
  const Value* margin = search != nullptr ? search->find("memory_margin") : nullptr;
  const std::optional<Value> asked = margin != nullptr ? std::optional(*margin) : std::nullopt;
  simple.set("search", {});
  if (asked) simple.set("search.memory_margin", *asked);
  simple.set("search.top", scalar_value("1"));
  const Value* software = document.tree().find("software");
  const auto with_zero = [&](const char* zero) -> std::optional<FoundLayout> {
    simple.set("search.space", mapping_value({{"parallel.tp", "auto"},
                                              {"parallel.pp", "auto"},
                                              {"parallel.ep", "auto"},
                                              {"recompute", "auto"},
                                              {"parallel.cp", "1"},
                                              {"parallel.vpp", "1"},
                                              {"parallel.etp", "1"},
                                              {"parallel.zero", zero},
                                              {"parallel.split", "auto"},
                                              {"schedule", "auto"},
                                              {"batch.micro", "1"}}));
    SearchRun run;
    run.any = true;
    run.forecasts = false;
    SearchAnswer answer = search_layouts(simple, {}, run);
    if (answer.result.best.empty()) return {};
    return std::move(answer.result.best.front());
  };
  simple.set("contention.interference", scalar_value("off"));
  try {
    const SearchSpace space(simple);
    simple.set("batch.global", scalar_value(fmt::to_string(shorter_batch(space.places().front()))));
    if (software_runs_zero(software != nullptr ? software->text : "", 1))
      if (auto found = with_zero("1")) return found;
    return with_zero("auto");
  } catch (const InputError&) {  // which the scenario itself is refused for
  }
  return {};
}

std::vector<int64_t> nearest_legal_gpus(const ScenarioDocument& document,
                                        const SearchOptions& options,
                                        const std::function<bool()>& stopped) {
  const SearchSpace space(document, options);
  const SearchPlace& here = space.places().front();
  if (!std::ranges::all_of(space.places(), [&](const SearchPlace& p) {
        return p.gpus == here.gpus && p.nodes == here.nodes;
      }))
    return {};
  int64_t looks = 2000;  // some seconds at most
  const auto give_up = [&] { return --looks < 0 || stopped(); };
  const auto has_layouts = [&](int64_t nodes) {
    SearchOptions there = options;
    there.fewest_gpus = there.most_gpus = here.gpus / here.nodes * nodes;
    try {
      const SearchSpace elsewhere(document, there);
      return elsewhere.places().front().nodes == nodes && elsewhere.any_layout(give_up);
    } catch (const InputError&) {  // no cluster has so many
      return false;
    }
  };
  constexpr int64_t kNodesAway = 32;
  std::vector<int64_t> gpus;
  for (const int64_t direction : {-1, 1})
    for (int64_t away = 1; away <= kNodesAway && looks > 0 && !stopped(); ++away) {
      const int64_t nodes = here.nodes + direction * away;
      if (nodes < 1 || !has_layouts(nodes)) continue;
      gpus.push_back(here.gpus / here.nodes * nodes);
      break;
    }
  return gpus;
}

}  // namespace stepcast
