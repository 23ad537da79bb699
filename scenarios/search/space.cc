// SPDX-License-Identifier: Apache-2.0
// What a layout of a space is in words of a scenario, and what conditions say of it.
#include "scenarios/search/space.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace stepcast {
namespace {

// "Et*3|(t*4|)*14t*3L"; equal neighbours are written once.
std::string megatron_layout(std::span<const int64_t> layers) {
  const auto one = [](int64_t n) {
    return n == 0 ? std::string() : n == 1 ? std::string("t") : fmt::format("t*{}", n);
  };
  std::string text = "E" + one(layers.front()) + '|';
  for (size_t s = 1; s + 1 < layers.size();) {
    size_t end = s;
    while (end + 1 < layers.size() && layers[end] == layers[s]) ++end;
    const size_t run = end - s;
    text += run == 1 ? one(layers[s]) + '|' : fmt::format("({}|)*{}", one(layers[s]), run);
    s = end;
  }
  return text + one(layers.back()) + "L";
}

}  // namespace

std::string SearchSpace::split_word(const Layout& l) const {
  return std::string(kSplitWords[static_cast<size_t>(l.split)]);
}

int64_t SearchSpace::dp_of(const Layout& l) const {
  return places_[l.place].gpus / (int64_t{l.tp} * l.cp * l.pp);
}

int64_t SearchSpace::microbatches_of(const Layout& l) const {
  return places_[l.place].global_batch / (l.micro * dp_of(l));
}

double SearchSpace::value_of(Ask ask, const Layout& l, const SearchMeasure& m) const {
  const SearchPlace& place = places_[l.place];
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  switch (ask) {
    case Ask::gpus: return real(place.gpus);
    case Ask::nodes: return real(place.nodes);
    case Ask::tp: return real(l.tp);
    case Ask::cp: return real(l.cp);
    case Ask::pp: return real(l.pp);
    case Ask::vpp: return real(l.vpp);
    case Ask::dp: return real(dp_of(l));
    case Ask::ep: return real(l.ep);
    case Ask::etp: return real(l.etp);
    case Ask::zero: return real(l.zero);
    case Ask::micro: return real(l.micro);
    case Ask::microbatches: return real(microbatches_of(l));
    case Ask::layers: return real(place.scenario->model.layers);
    case Ask::recompute: return real(l.recompute);
    case Ask::schedule: return real(l.schedule);
    case Ask::split: return real(static_cast<int64_t>(l.split));
    case Ask::step_time: return m.step_time_s;
    case Ask::tokens_per_gpu_s: return m.tokens_per_gpu_s;
    case Ask::peak_memory: return m.peak_memory;
    case Ask::gpu_memory: return m.gpu_memory;
    case Ask::days: return m.days;
    case Ask::price: return m.price;
    case Ask::fits: return m.fits;
    case Ask::energy: return m.energy;
  }
  return 0;
}

std::vector<double> SearchSpace::values_of(size_t asks, const Layout& l,
                                           const SearchMeasure& m) const {
  std::vector<double> values(asks);
  for (size_t i = 0; i < asks; ++i) values[i] = value_of(static_cast<Ask>(i), l, m);
  return values;
}

bool SearchSpace::asks_whether_it_fits() const {
  return std::ranges::any_of(settings_.constraints, [](const Expression& c) {
    return c.uses(static_cast<size_t>(Ask::fits));
  });
}

bool SearchSpace::asks_for_energy() const {
  return std::ranges::count(settings_.objectives, SearchObjective::energy) > 0 ||
         std::ranges::any_of(settings_.constraints, [](const Expression& c) {
           return c.uses(static_cast<size_t>(Ask::energy));
         });
}

bool SearchSpace::may_keep_constraints(const Layout& layout, const SearchMeasure& m) const {
  if (settings_.constraints.empty()) return true;
  constexpr double kAny = std::numeric_limits<double>::infinity();
  std::vector<ValueRange> ranges;
  for (const double x : values_of(kAsks, layout, m)) {
    const auto ask = static_cast<Ask>(ranges.size());
    if (ask == Ask::fits)
      ranges.push_back({0, 1});
    else if (ask == Ask::tokens_per_gpu_s)
      ranges.push_back({0, x});
    else if (ranges.size() < kAsksOfLayouts || ask == Ask::gpu_memory)
      ranges.push_back({x, x});
    else
      ranges.push_back({x, kAny});
  }
  return std::ranges::all_of(settings_.constraints,
                             [&](const Expression& c) { return c.may_hold(ranges); });
}

std::vector<std::string> SearchSpace::broken_constraints(const Layout& layout,
                                                         const SearchMeasure& m) const {
  if (settings_.constraints.empty()) return {};
  const std::vector<double> values = values_of(kAsks, layout, m);
  std::vector<std::string> broken;
  for (const Expression& c : settings_.constraints)
    if (!c.holds(values)) broken.push_back(c.text());
  return broken;
}

std::vector<std::pair<std::string, std::string>> SearchSpace::changes(const Layout& l) const {
  const SearchPlace& place = places_[l.place];
  std::vector<std::pair<std::string, std::string>> set;
  for (const auto& [path, value] : place.set) set.emplace_back(path, to_flow(value));
  const auto number = [](int64_t n) { return fmt::to_string(n); };
  set.emplace_back("parallel.tp", number(l.tp));
  set.emplace_back("parallel.cp", number(l.cp));
  set.emplace_back("parallel.pp", number(l.pp));
  if (is_written_out(l.split)) {
    set.emplace_back("parallel.layout", megatron_layout(layers_of_stages(l)));
  } else if (l.vpp > 1) {
    set.emplace_back("parallel.vpp", number(l.vpp));
  }
  if (l.split != StageSplit::even && !is_written_out(l.split))
    set.emplace_back("parallel.split", std::string(kSplitWords[static_cast<size_t>(l.split)]));
  if (place.scenario->model.experts > 0) {
    set.emplace_back("parallel.ep", number(l.ep));
    set.emplace_back("parallel.etp", number(l.etp));
  }
  set.emplace_back("parallel.zero", number(l.zero));
  if (shards_beside_pipeline_ && l.zero == 3 && l.pp > 1 &&
      std::ranges::count(place.set, kReshard, &std::pair<std::string, Value>::first) == 0)
    set.emplace_back(kReshard, "false");
  set.emplace_back("batch.micro", number(l.micro));
  set.emplace_back("recompute.granularity", recompute_[l.recompute]);
  if (l.pp > 1) set.emplace_back("schedule.kind", schedules_[l.schedule]);
  return set;
}

std::string SearchSpace::key_of(const Layout& layout) const {
  std::string key;
  for (const auto& [path, value] : changes(layout)) key += path + '=' + value + ';';
  return key;
}

std::vector<std::pair<std::string, std::string>> SearchSpace::beside(const Layout& layout) const {
  std::vector<std::pair<std::string, std::string>> out;
  const SearchPlace& place = places_[layout.place];
  for (size_t i = 0; i < place.set.size(); ++i) {
    const auto& [path, value] = place.set[i];
    const std::string word = to_flow(value);
    if (path != "cluster.nodes" && std::ranges::any_of(places_, [&](const SearchPlace& p) {
          return to_flow(p.set[i].second) != word;
        }))
      out.emplace_back(path, word);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> SearchSpace::settings_of(
    const Layout& layout) const {
  const std::vector<std::pair<std::string, std::string>> made = changes(layout);
  std::vector<std::pair<std::string, std::string>> all;
  const auto is_made = [&](const std::string& path) {
    return std::ranges::count(made, path, &std::pair<std::string, std::string>::first) > 0;
  };
  for (const auto& setting : given_)
    if (!is_made(setting.first)) all.push_back(setting);
  for (const std::string& path : places_[layout.place].unset)
    if (!is_made(path)) all.emplace_back(path, "null");
  all.insert(all.end(), made.begin(), made.end());
  return all;
}

ScenarioDocument SearchSpace::document(const Layout& layout) const {
  ScenarioDocument document = *places_[layout.place].document;
  const size_t own = places_[layout.place].set.size();
  size_t i = 0;
  for (const auto& [path, value] : changes(layout))
    if (i++ >= own) document.set(path, scalar_value(value));
  return document;
}

std::variant<Scenario, InputError> SearchSpace::scenario(
    const Layout& layout, std::optional<int64_t> microbatches) const {
  ScenarioDocument made = document(layout);
  if (microbatches)
    made.set("batch.global",
             scalar_value(fmt::to_string(*microbatches * layout.micro * dp_of(layout))));
  auto resolved = made.try_resolve();
  if (Scenario* s = std::get_if<Scenario>(&resolved)) {
    // Read for each anew, they would not be known to be the same.
    s->calibration = places_[layout.place].scenario->calibration;
    s->own_runs = places_[layout.place].scenario->own_runs;
  }
  return resolved;
}

}  // namespace stepcast
