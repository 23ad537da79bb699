// SPDX-License-Identifier: Apache-2.0
// The funnel of a search: every layout is decided, most of them by bounds and few by simulation.
//
// Layouts are gone through best bound first, in rounds.  Say three lines are asked for, and a round
// is of two layouts; bounds and steps in seconds:
//
//     bound    7    8    9    9.5   11   12
//     step    10    9.8 12   10.4
//
// The first round simulates 7 and 8, the second 9 and 9.5.  Now the third best takes 10.4 s, and
// what is slower by its bound can no longer be among the first three: 11 and 12 are not simulated.
// Within a round all are held against the threshold that the round before left, so that it does not
// matter how many threads there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/forecast/evaluator.h"
#include "scenarios/search/bounds.h"
#include "scenarios/search/objectives.h"
#include "scenarios/search/search.h"
#include "scenarios/search/space.h"
#include "sim/results/step_row.h"

namespace stepcast {

// By which rule a layout was decided, in the order in which they are asked.
enum class Decided : uint8_t {
  open,
  memory_bound,
  time_bound,
  illegal,
  plan_memory_bound,
  plan_time_bound,
  constraint_bound,
  impossible,
  out_of_memory,
  constraint,
  slower,
  fits,
};

// A layout that fits, or breaks a constraint.
struct FoundStep {
  ObjectiveValues values;
  uint32_t layout = 0;
  StepFigures figures;  // memory: reserved
  Bytes usable{};
  Layout family;  // the layout, with chunks and split left out
  friend bool operator<(const FoundStep& a, const FoundStep& b) {
    return std::tie(a.values, a.layout) < std::tie(b.values, b.layout);
  }
};

class Funnel {
 public:
  // REQUIRES: all but the layouts outlive this.
  Funnel(const SearchSpace& space, const Objectives& objectives, const SearchRun& run,
         std::vector<Layout> layouts);

  // Decides the layouts.
  void run();

  const std::vector<Layout>& layouts() const { return layouts_; }
  // By which rule each was decided.
  const std::vector<Decided>& decided() const { return decided_; }
  // How many layouts each rule decided, of rules that decided any.
  std::vector<SearchRule> rules() const;
  // Those that fit and keep the constraints, as far as they are of interest, best first.  Of
  // several objectives: the Pareto front.
  const std::vector<FoundStep>& found() const { return found_; }
  // The best of those that fit and break a constraint.
  const std::optional<FoundStep>& breaking() const { return breaking_; }
  // What was simulated, in that order.
  const std::vector<SearchRow>& rows() const { return rows_; }
  int64_t bounds_too_high() const { return bounds_too_high_; }
  const LayoutBound& bound(uint32_t layout) const { return bounds_[layout]; }

  // Which of found() begin a line of the answer, as far as `most` lines: each stands for those of
  // its family that take up to kTwins more.  A layout that is found in addition never lets the k-th
  // line begin later: of one family as few lines as possible cover all, and more layouts need no
  // fewer.
  std::vector<size_t> heads(size_t most) const;

  // As forecast, or at least; 0 if nobody asks.
  double joules(uint32_t layout, Time time) const;
  // Rows of what was simulated to its end, by layout, where they are asked for.
  std::map<uint32_t, StepRow>& points() { return points_; }
  // Of a step of that layout; nothing where no points are asked for.
  std::optional<StepRow> point_of(const Scenario& scenario, const Layout& layout,
                                  const Evaluator::Trial& step) const;

  // Asks whether the search is to end; once it is, for good.
  bool stopped();
  void stop() { stopped_ = true; }
  // Whether it was ended before all was decided.
  bool was_stopped() const { return stopped_; }
  size_t threads() const;
  // Hundreds of thousands; nothing else may be asked afterwards.
  std::vector<Layout> take_layouts() { return std::move(layouts_); }
  std::vector<SearchRow> take_rows() { return std::move(rows_); }

  // Of a thread.
  Evaluator& evaluator(size_t thread) { return *evaluators_[thread]; }

 private:
  struct Trial {
    Decided decided = Decided::open;
    SearchRow row;
    bool simulated = false, bound_too_high = false;
    double joules = 0;  // a token; 0: not worked out
    std::optional<StepRow> point{};
  };

  void find_bounds();
  void simulate_all();
  void simulate(std::vector<uint32_t> order, const std::vector<ObjectiveValues>& least);
  Trial attempt(uint32_t index, Evaluator& evaluator) const;
  Evaluator::Trial remembered(const Scenario& scenario, const Layout& layout, Evaluator& evaluator,
                              Bytes room) const;
  Decided judge(const Layout& layout, const Scenario& scenario, const Evaluator::Trial& step,
                const LayoutBound& bound, Trial& trial) const;
  void take(Trial trial);
  void add_found(FoundStep found);
  bool is_beaten(const ObjectiveValues& least) const;
  bool may_keep(const Layout& layout, const StepFigures& least) const;
  void set_threshold();
  Time longest() const;

  const SearchSpace& space_;
  const Objectives& objectives_;
  const SearchRun& run_;
  const SearchSettings& settings_;
  std::vector<Layout> layouts_;
  std::vector<Bytes> most_room_;  // that a layout of each place can have
  std::vector<LayoutBound> bounds_;
  std::vector<Decided> decided_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  std::vector<FoundStep> found_;
  std::optional<FoundStep> breaking_;
  std::vector<SearchRow> rows_;
  int64_t bounds_too_high_ = 0;
  bool breaking_only_ = false;  // what is looked at now keeps none of the constraints
  double threshold_ = std::numeric_limits<double>::infinity();
  std::map<uint32_t, double> joules_;  // a token, by layout
  std::map<uint32_t, StepRow> points_;
  bool stopped_ = false;
};

// Whether a layout is so close behind the head of a line that it is told there.
bool is_twin(const FoundStep& found, const FoundStep& head);

}  // namespace stepcast
