// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/steps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <tuple>

#include <fmt/format.h>

namespace stepcast {
namespace {

struct StepAxis {
  const char* name;
  int64_t (*value)(const Layout&);
  std::string (*word)(const SearchSpace&, const Layout&);  // null: the number
  bool minor = false;                                      // may change together with another axis
};

// ETP is followed as a choice, 1 or tp, so that a step of tp takes it along.
int64_t choice_of_etp(const Layout& l) {
  return l.etp == 1 ? 1 : l.etp == l.tp ? 0 : int64_t{l.etp};
}

constexpr std::array<StepAxis, 11> kStepAxes{
    {{"TP", [](const Layout& l) { return int64_t{l.tp}; }, nullptr},
     {"CP", [](const Layout& l) { return int64_t{l.cp}; }, nullptr},
     {"PP", [](const Layout& l) { return int64_t{l.pp}; }, nullptr},
     {"VP", [](const Layout& l) { return int64_t{l.vpp}; }, nullptr, true},
     {"EP", [](const Layout& l) { return int64_t{l.ep}; }, nullptr},
     {"ETP", choice_of_etp,
      [](const SearchSpace&, const Layout& l) { return fmt::to_string(l.etp); }},
     {"MBS", [](const Layout& l) { return int64_t{l.micro}; }, nullptr},
     {"ZeRO", [](const Layout& l) { return int64_t{l.zero}; }, nullptr},
     {"recompute", [](const Layout& l) { return int64_t{l.recompute}; },
      [](const SearchSpace& s, const Layout& l) { return s.recompute_words()[l.recompute]; }},
     {"schedule", [](const Layout& l) { return int64_t{l.schedule}; },
      [](const SearchSpace& s, const Layout& l) {
        return l.pp > 1 ? s.schedules()[l.schedule] : std::string("none");
      },
      true},
     {"split", [](const Layout& l) { return static_cast<int64_t>(l.split); },
      [](const SearchSpace& s, const Layout& l) { return s.split_word(l); }, true}}};

std::string word_of(const StepAxis& axis, const SearchSpace& space, const Layout& l) {
  return axis.word != nullptr ? axis.word(space, l) : fmt::to_string(axis.value(l));
}

// How far the axes but one are apart; nothing if one differs that need not.
std::optional<int64_t> distance(const Layout& a, const Layout& b, const StepAxis& but) {
  int64_t sum = 0;
  for (const StepAxis& axis : kStepAxes) {
    const int64_t apart = std::abs(axis.value(a) - axis.value(b));
    if (&axis == &but || apart == 0) continue;
    const bool one_rank = a.tp == 1 || b.tp == 1;  // where etp 1 is etp that is tp
    if (axis.value == choice_of_etp && one_rank) continue;
    if (!axis.minor) return {};
    sum += apart;
  }
  return sum;
}

// Of what is no part of the layout one axis differs, and nothing else.  Other GPUs and other
// batches are other questions: their steps say nothing of each other.
std::optional<LayoutStep> step_beside(const SearchSpace& space, const Layout& a, const Layout& b) {
  Layout moved = b;
  moved.place = a.place;
  const SearchPlace &here = space.places()[a.place], &there = space.places()[b.place];
  if (moved != a || here.gpus != there.gpus || here.nodes != there.nodes ||
      here.global_batch != there.global_batch ||
      here.scenario->plan.seq != there.scenario->plan.seq)
    return {};
  const auto from = space.beside(a), to = space.beside(b);
  std::optional<LayoutStep> step;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    if (step) return {};
    step = LayoutStep{0, from[i].first, from[i].second, to[i].second, {}};
  }
  return step;
}

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

// Of an axis of numbers, whether no other is between; words are all next to each other.
bool is_nearest(const LayoutStep& step, std::span<const LayoutStep> all) {
  const std::optional<double> from = number_of(step.from), to = number_of(step.to);
  if (!from || !to) return true;
  return std::ranges::none_of(all, [&](const LayoutStep& other) {
    const std::optional<double> value = number_of(other.to);
    return other.axis == step.axis && value && std::min(*from, *to) < *value &&
           *value < std::max(*from, *to);
  });
}

}  // namespace

std::vector<LayoutStep> steps_from(const SearchSpace& space, std::span<const Layout> layouts,
                                   uint32_t from) {
  // The nearest layout below and above on each axis: by the step, then by what else changes.
  using Near = std::tuple<int64_t, int64_t, uint32_t>;
  std::array<std::array<std::optional<Near>, 2>, kStepAxes.size()> nearest;
  const Layout& at = layouts[from];
  std::vector<LayoutStep> beside;
  for (uint32_t i = 0; i < layouts.size(); ++i) {
    const Layout& l = layouts[i];
    if (l.place != at.place) {
      if (auto step = step_beside(space, at, l)) {
        step->layout = i;
        beside.push_back(*std::move(step));
      }
      continue;
    }
    for (size_t a = 0; a < kStepAxes.size(); ++a) {
      const int64_t step = kStepAxes[a].value(l) - kStepAxes[a].value(at);
      if (step == 0) continue;
      const std::optional<int64_t> apart = distance(l, at, kStepAxes[a]);
      if (!apart) continue;
      std::optional<Near>& best = nearest[a][step > 0 ? 1 : 0];
      const Near near{std::abs(step), *apart, i};
      if (!best || near < *best) best = near;
    }
  }
  std::vector<LayoutStep> steps;
  for (size_t a = 0; a < kStepAxes.size(); ++a) {
    for (const std::optional<Near>& near : nearest[a]) {
      if (!near) continue;
      // A step of the chunks that takes the order along is one of the order too.
      if (std::ranges::count(steps, std::get<uint32_t>(*near), &LayoutStep::layout) > 0) continue;
      const Layout& l = layouts[std::get<uint32_t>(*near)];
      LayoutStep step{std::get<uint32_t>(*near),
                      kStepAxes[a].name,
                      word_of(kStepAxes[a], space, at),
                      word_of(kStepAxes[a], space, l),
                      {}};
      for (size_t other = 0; other < kStepAxes.size(); ++other) {
        const std::string word = word_of(kStepAxes[other], space, l);
        if (other != a && word != word_of(kStepAxes[other], space, at))
          step.too.push_back(fmt::format("{} {}", kStepAxes[other].name, word));
      }
      steps.push_back(std::move(step));
    }
  }
  for (const LayoutStep& step : beside)
    if (is_nearest(step, beside)) steps.push_back(step);
  return steps;
}

}  // namespace stepcast
