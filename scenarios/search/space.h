// SPDX-License-Identifier: Apache-2.0
// What a search looks at: the layouts that the section `search` of a scenario describes.
//
// A layout says how the work is spread: tp, cp, pp, vpp, ep, etp, zero, microbatch, recomputation,
// schedule, which layers each stage holds.  What else varies (the number of nodes, the precision,
// any key) makes places: within one, everything but the layout is the same.  A layout of a place is
// a scenario: what to set in the file is what changes() says.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/plan.h"
#include "scenarios/document/value.h"
#include "scenarios/scenario.h"
#include "scenarios/scenario_document.h"
#include "scenarios/search/ask.h"
#include "scenarios/search/expression.h"
#include "sim/diagnostic.h"
#include "sim/results/search_result.h"
#include "sim/units.h"

namespace stepcast {

// How layers are spread over the stages: parallel.split, or a layout in Megatron's notation.
enum class StageSplit : uint8_t {
  even,
  counted,  // a layout: embedding and head count as a layer each
  products,
  balanced,  // a layout: of alike layers no rank has more than it must, with head and predictions
  last,
  modules
};
inline constexpr std::array<std::string_view, 6> kSplitWords{"even",     "counted", "products",
                                                             "balanced", "last",    "modules"};
inline bool is_written_out(StageSplit split) {
  return split == StageSplit::counted || split == StageSplit::balanced;
}

struct Layout {
  uint16_t place = 0;  // index into SearchSpace::places()
  uint16_t tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1, etp = 1, micro = 1;
  uint8_t zero = 0;
  uint8_t recompute = 0;  // index into SearchSpace::recompute_words()
  uint8_t schedule = 0;   // index into SearchSpace::schedules()
  StageSplit split = StageSplit::even;
  bool operator==(const Layout&) const = default;
};

// One combination of all that is no part of the layout.
struct SearchPlace {
  std::vector<std::pair<std::string, Value>> set;    // beside the layout
  std::vector<std::string> unset;                    // what the file states of a layout of its own
  std::shared_ptr<const ScenarioDocument> document;  // with that set, and no layout
  std::shared_ptr<const Scenario> scenario;          // of it, on as many GPUs, of another layout
  int64_t gpus = 0, nodes = 0, global_batch = 0;
  CpComm cp_comm = CpComm::p2p;  // of layouts with cp: `scenario` has none, and does not say
};

struct SearchOptions {
  std::vector<std::string> where;                 // beside those of the section
  std::optional<int64_t> fewest_gpus, most_gpus;  // in steps of two, whole nodes; to kMostGpus
  // What the command line has set in the document: it is no part of the file.
  std::vector<std::pair<std::string, std::string>> given;
};

// The rest of the section.
struct SearchSettings {
  std::vector<SearchObjective> objectives{SearchObjective::step_time};
  std::vector<Expression> constraints;
  bool fast = false;  // rules of thumb too
  int64_t top = 10;
  std::optional<Time> budget;
  double memory_margin = kMemoryMargin;  // share of the usable memory that stays free
  double tokens = 0, price = 0;          // of the whole job; USD for a GPU and hour; 0: not stated
};

// What constraints may ask beside what `where` may.
struct SearchMeasure {
  double step_time_s = 0, tokens_per_gpu_s = 0, peak_memory = 0, gpu_memory = 0, days = 0,
         price = 0;
  double fits = 1;    // share of steps with such a forecast of memory
  double energy = 0;  // joules a token
};

class SearchSpace {
 public:
  // Reads the section and makes the places.  Throws InputError with all problems: of the scenario
  // without its layout, and of the section (E102 for a path that is none, E107, E120 to E127; E123
  // for more than kMostPlaces places or kMostLayouts layouts).
  SearchSpace(const ScenarioDocument& document, const SearchOptions& options = {});

  const SearchSettings& settings() const { return settings_; }
  const std::vector<SearchPlace>& places() const { return places_; }
  const std::vector<std::string>& schedules() const { return schedules_; }
  // Whether the user lists them: else they are those that the software runs.
  bool schedules_stated() const { return schedules_stated_; }
  const std::vector<std::string>& recompute_words() const { return recompute_; }

  // All legal layouts, in an order that depends on nothing but the section, and how many
  // combinations of the axes went by which rule.
  struct Layouts {
    std::vector<Layout> all;
    std::vector<SearchRule> rules;
    double points = 0;     // the product of all axes
    bool all_seen = true;  // false: `stop` said so before the end
  };
  // `stop` is asked now and then; empty: never.  Throws InputError E123 for too many.
  Layouts layouts(const std::function<bool()>& stop = {}) const;
  // Whether there is any, of however many; false too if `stop` said so before the first.
  bool any_layout(const std::function<bool()>& stop = {}) const;

  // What makes this layout of one that states none, in words of a scenario.
  std::vector<std::pair<std::string, std::string>> changes(const Layout& layout) const;
  // The same for the file as it is, which may state another layout, ranks that differ or shared
  // links: "null" takes a key back.  Begins with what the command line has set.
  std::vector<std::pair<std::string, std::string>> settings_of(const Layout& layout) const;
  // A text that no other layout of the space has.
  std::string key_of(const Layout& layout) const;

  // The file with that layout in place of the one it states.
  ScenarioDocument document(const Layout& layout) const;
  // The scenario of the layout, or why it is illegal after all.  `microbatches`: with so many
  // instead of those of the batch.
  std::variant<Scenario, InputError> scenario(
      const Layout& layout, std::optional<int64_t> microbatches = std::nullopt) const;

  // Layers of each stage.  Empty if they cannot be spread so.
  std::vector<int64_t> layers_of_stages(const Layout& layout) const;
  // What of the file, beside the layout, is searched: the values of this one, of axes that have
  // several.  Without the number of nodes.
  std::vector<std::pair<std::string, std::string>> beside(const Layout& layout) const;
  // What the file states of the layout and stays, because `space` lists other axes.
  const std::vector<std::pair<std::string, std::string>>& kept() const { return kept_; }
  // Whether the software overlaps the communication of replicas and tensor parallelism if told to.
  bool overlaps_if_told() const { return overlaps_if_told_; }
  // "even", "counted", ...
  std::string split_word(const Layout& layout) const;
  int64_t dp_of(const Layout& layout) const;
  int64_t microbatches_of(const Layout& layout) const;

  // Whether a constraint needs SearchMeasure::fits.
  bool asks_whether_it_fits() const;
  // Whether an objective or a constraint needs the energy of a step.
  bool asks_for_energy() const;
  // False only if a layout keeps the constraints with no figures that are these or worse: more
  // time, memory, days, price and energy, and any share of steps that fit.
  bool may_keep_constraints(const Layout& layout, const SearchMeasure& least) const;
  // The constraints that a layout with these figures breaks, as they are written.
  std::vector<std::string> broken_constraints(const Layout& layout,
                                              const SearchMeasure& measure) const;

 private:
  struct Axis {
    bool automatic = true;
    std::vector<int64_t> values;
  };
  struct FreeAxis {
    std::string path;
    Mark key;  // where the path is written
    std::vector<Value> values;
  };
  class Reader;
  class Enumeration;
  static constexpr std::string_view kReshard = "parallel.reshard_after_forward";

  double value_of(Ask ask, const Layout& layout, const SearchMeasure& measure) const;
  // Of the first so many.
  std::vector<double> values_of(size_t asks, const Layout& layout,
                                const SearchMeasure& measure = {}) const;

  SearchSettings settings_;
  Diagnostic section_;  // where search.space stands, for what is wrong with it as a whole
  Axis tp_, cp_, pp_, vpp_, ep_, etp_, micro_, zero_;
  std::vector<StageSplit> splits_;
  std::vector<std::string> recompute_, schedules_;
  bool schedules_stated_ = false;
  std::vector<int64_t> automatic_zeros_;                   // that the software knows
  bool replicas_alone_ = false, context_parallel_ = true;  // of it too
  bool shards_beside_pipeline_ = false;
  std::vector<Expression> where_;
  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<SearchPlace> places_;
  std::vector<std::pair<std::string, std::string>> kept_;
  bool overlaps_if_told_ = false;
};

// Whether `auto` has this stage of ZeRO, 0 to 3, with a framework of this profile's name.
bool software_runs_zero(std::string_view software, int64_t stage);

constexpr size_t kMostPlaces = 256;
constexpr size_t kMostLayouts = 20'000'000;

}  // namespace stepcast
