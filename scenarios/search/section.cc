// SPDX-License-Identifier: Apache-2.0
// The section `search`: what it lists becomes axes and places of a space, settings and conditions.
//
// An axis of a layout (parallel.tp) that nobody lists has the values that the software in use can
// run.  Any other path (cluster.nodes, precision) multiplies places.  All problems are collected:
// those of the scenario without its layout, and those of the section.
#include "scenarios/search/space.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "job/power.h"
#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/schema/keys.h"
#include "scenarios/schema/software.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "scenarios/search/ask.h"
#include "schedules/families/families.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Axes that make a layout, and other words for them.
enum class LayoutAxis : uint8_t {
  tp,
  cp,
  pp,
  vpp,
  ep,
  etp,
  zero,
  micro,
  recompute,
  schedule,
  split
};
constexpr std::array<std::pair<std::string_view, LayoutAxis>, 13> kLayoutAxes{
    {{"parallel.tp", LayoutAxis::tp},
     {"parallel.cp", LayoutAxis::cp},
     {"parallel.pp", LayoutAxis::pp},
     {"parallel.vpp", LayoutAxis::vpp},
     {"parallel.ep", LayoutAxis::ep},
     {"parallel.etp", LayoutAxis::etp},
     {"parallel.zero", LayoutAxis::zero},
     {"batch.micro", LayoutAxis::micro},
     {"recompute", LayoutAxis::recompute},
     {"recompute.granularity", LayoutAxis::recompute},
     {"schedule", LayoutAxis::schedule},
     {"schedule.kind", LayoutAxis::schedule},
     {"parallel.split", LayoutAxis::split}}};
// What belongs to a layout that the file states, and to no other.
constexpr std::array<std::string_view, 19> kOfOneLayout{
    "parallel.tp",           "parallel.cp",           "parallel.pp",     "parallel.vpp",
    "parallel.ep",           "parallel.etp",          "parallel.zero",   "parallel.dp",
    "parallel.dp_replicate", "parallel.layout",       "parallel.split",  "parallel.cp_inner",
    "schedule.kind",         "schedule.group",        "schedule.params", "schedule.file",
    "schedule.steps",        "schedule.memory_limit", "recompute.layers"};

// What makes ranks differ, in time or in what they are for.
constexpr std::array<std::string_view, 3> kOfUnlikeRanks{"perturb", "replicas", "contention.links"};
// Sections of other commands.
constexpr std::array<std::string_view, 3> kOfOtherCommands{"measured", "compare", "sweep"};

constexpr std::string_view kNodes = "cluster.nodes";
// Which ranks lie next to each other: Megatron's order, and pipelines inside of replicas, which
// puts stages into a node and gradients on the network.
constexpr std::string_view kOrder = "parallel.order";
constexpr std::array<std::string_view, 2> kOrders{"tp-cp-dp-pp", "tp-cp-pp-dp"};

// What of the axes a framework runs, where the section does not list values; docs/search.md has the
// sources.  A framework that is not listed runs what Megatron-Core does.
struct SoftwareAxes {
  std::string_view begins;  // of a profile's name
  std::array<std::string_view, 6> schedules{"1f1b", "interleaved-1f1b"};
  bool replicas_alone = false;  // every rank has the whole model, or its shard of all of it
  bool context_parallel = true;
  std::array<std::string_view, 3> recompute{"none", "selective", "full"};
  std::array<bool, 4> zero{true, true, true, true};
  // It shards parameters beside a pipeline too, and keeps them gathered there: each microbatch
  // would gather them again.
  bool shards_beside_pipeline = false;
  std::array<bool, kSplitWords.size()> splits{true, true, true, true};
  bool overlaps_if_told = false;  // overlaps of collectives are switches of it (find_switches)
};
constexpr std::array<SoftwareAxes, 11> kSoftwareAxes{
    {{.begins = "torchtitan",
      .schedules = {"1f1b", "interleaved-1f1b", "gpipe", "looped-bfs", "zb-v",
                    "interleaved-zero-bubble"},
      .recompute = {"none", "per-op", "full"},
      .zero = {false, false, false, true},
      .shards_beside_pipeline = true},
     {.begins = "megatron-deepspeed",
      .schedules = {"1f1b"},
      .context_parallel = false,
      .recompute = {"none", "full"},
      .zero = {true, true}},
     {.begins = "gpt-neox",
      .schedules = {"1f1b"},
      .context_parallel = false,
      .recompute = {"none", "full"},
      .zero = {true, true}},
     {.begins = "deepspeed", .replicas_alone = true, .zero = {true, true, true, true}},
     {.begins = "pytorch-fsdp", .replicas_alone = true, .zero = {false, false, true, true}},
     {.begins = "llm-foundry", .replicas_alone = true, .zero = {false, false, true, true}},
     {.begins = "nanotron", .schedules = {"1f1b", "gpipe"}, .zero = {true, true}},
     {.begins = "megatron-lm-2021",
      .context_parallel = false,
      .recompute = {"none", "full"},
      .zero = {true},
      .splits = {true}},
     {.begins = "megatron-lm-2022",
      .context_parallel = false,
      .zero = {true, true},
      .splits = {true}},
     {.begins = "megatron-lm-2023",
      .context_parallel = false,
      .zero = {true, true},
      .splits = {true}},
     {.begins = "aa-scaling",
      .schedules = {"1f1b"},
      .context_parallel = false,
      .zero = {true, true},
      .splits = {false, false, false, false, false, true}}}};
constexpr SoftwareAxes kOtherSoftware{.begins = "", .overlaps_if_told = true};

const SoftwareAxes& axes_of(std::string_view software) {
  const auto found = std::ranges::find_if(
      kSoftwareAxes, [&](const SoftwareAxes& s) { return software.starts_with(s.begins); });
  return found != kSoftwareAxes.end() ? *found : kOtherSoftware;
}

}  // namespace

class SearchSpace::Reader {
 public:
  Reader(SearchSpace& space, const ScenarioDocument& document, const SearchOptions& options)
      : space_(space), options_(options), document_(document), tree_(document.tree()) {
    Problems ignored;  // reported when the scenario is resolved
    apply_cluster_presets(tree_, ignored);
    values_.emplace(tree_, "", ignored_);
    apply_software(*values_, ignored_);
  }

  void read() {
    Problems at;
    at.add("E123", {}, v().mark("search.space"));
    space_.section_ = at.diagnostics().front();
    read_axes();
    read_rest();
    read_places();
    read_conditions();  // which name words that are known by now
    check_energy();
    std::vector<Diagnostic> all = base_problems_;
    for (const Diagnostic& d : problems_.diagnostics())
      if (std::ranges::none_of(all, [&](const Diagnostic& o) {
            return o.code == d.code && o.message == d.message && o.line == d.line;
          }))
        all.push_back(d);
    std::ranges::stable_sort(
        all, {}, [](const Diagnostic& d) { return std::tuple(d.file, d.line, d.column); });
    if (!all.empty()) throw InputError(std::move(all));
  }

 private:
  const FieldValues& v() const { return *values_; }

  static int length_of(const Value& value) {
    return value.is_scalar() ? std::max(1, static_cast<int>(value.text.size())) : 1;
  }

  void refuse(std::string code, const Value& at, std::string message, std::string help) {
    problems_.add(std::move(code), std::move(message), at.mark, length_of(at), {}, std::move(help));
  }

  // What an axis lists: one value or several.  Adds E125 if it lists none.
  std::vector<const Value*> values_of_axis(const std::string& path, const Value& written) {
    std::vector<const Value*> all;
    if (written.kind == Value::Kind::sequence)
      for (const Value& item : written.items) all.push_back(&item);
    else if (written.kind != Value::Kind::null)
      all.push_back(&written);
    if (all.empty())
      refuse("E125", written, '\'' + path + "' lists no values", "auto, a value, or [1, 2, 4]");
    return all;
  }

  static bool is_auto(const Value& value) { return value.is_scalar() && value.text == "auto"; }

  void read_numbers(const std::string& path, const Value& written, int64_t least, Axis& axis) {
    axis.automatic = false;
    axis.values.clear();
    for (const Value* value : values_of_axis(path, written)) {
      const auto n = read_whole(*value, last_word(path), problems_, least, 65'535);
      if (n) axis.values.push_back(*n);
    }
    std::ranges::sort(axis.values);
    axis.values.erase(std::unique(axis.values.begin(), axis.values.end()), axis.values.end());
  }

  void read_words(const std::string& path, const Value& written, std::span<const std::string> legal,
                  std::vector<std::string>& to) {
    to.clear();
    for (const Value* value : values_of_axis(path, written)) {
      if (!value->is_scalar() || std::ranges::count(legal, value->text) == 0)
        refuse("E125", *value,
               fmt::format("'{}' cannot be '{}'", path,
                           value->is_scalar() ? escape_text(value->text) : "a list"),
               "it can be " + or_list(legal));
      else if (std::ranges::count(to, value->text) == 0)
        to.push_back(value->text);
    }
  }

  static std::vector<std::string> recompute_choices() {
    std::vector<std::string> words;
    for (const Word& w : Key("recompute.granularity").row().choices.words)
      if (w.modelled) words.emplace_back(w.text);
    return words;
  }

  static std::vector<std::string> schedule_choices() {
    std::vector<std::string> words;
    for (const ScheduleFamily& family : schedule_families()) words.emplace_back(family.name);
    return words;
  }

  void read_schedules(const std::string& path, const Value& written) {
    space_.schedules_.clear();
    space_.schedules_stated_ = true;
    for (const Value* value : values_of_axis(path, written)) {
      const ScheduleFamily* family =
          value->is_scalar() ? find_schedule_family(value->text) : nullptr;
      if (family == nullptr) {
        const std::vector<std::string> legal = schedule_choices();
        const std::vector<std::string_view> near(legal.begin(), legal.end());
        refuse("E125", *value, fmt::format("there is no schedule '{}'", escape_text(value->text)),
               did_you_mean(value->text, near).empty() ? "`stepcast presets schedules` lists them"
                                                       : did_you_mean(value->text, near));
      } else if (std::ranges::any_of(family->parameters,
                                     [](const ScheduleParameter& p) { return p.key == "tF"; })) {
        refuse("E130", *value,
               fmt::format("{} is made for the costs of each layout, which is not searched yet",
                           family->name),
               "orders that the sizes decide, such as zb-h1");
      } else if (std::ranges::count(space_.schedules_, family->name) == 0) {
        space_.schedules_.emplace_back(family->name);
      }
    }
  }

  void read_layout_axis(LayoutAxis axis, const std::string& path, const Value& written) {
    if (is_auto(written)) return;
    SearchSpace& s = space_;
    switch (axis) {
      case LayoutAxis::tp: return read_numbers(path, written, 1, s.tp_);
      case LayoutAxis::cp: return read_numbers(path, written, 1, s.cp_);
      case LayoutAxis::pp: return read_numbers(path, written, 1, s.pp_);
      case LayoutAxis::vpp: return read_numbers(path, written, 1, s.vpp_);
      case LayoutAxis::ep: return read_numbers(path, written, 1, s.ep_);
      case LayoutAxis::etp: return read_numbers(path, written, 1, s.etp_);
      case LayoutAxis::micro: return read_numbers(path, written, 1, s.micro_);
      case LayoutAxis::zero: {
        read_numbers(path, written, 0, s.zero_);
        for (const int64_t z : s.zero_.values)
          if (z > 3) refuse("E125", written, "'zero' is 0, 1, 2 or 3", {});
        return;
      }
      case LayoutAxis::recompute: {
        const std::vector<std::string> legal = recompute_choices();
        return read_words(path, written, legal, s.recompute_);
      }
      case LayoutAxis::schedule: return read_schedules(path, written);
      case LayoutAxis::split: {
        const std::vector<std::string> legal(kSplitWords.begin(), kSplitWords.end());
        std::vector<std::string> words;
        read_words(path, written, legal, words);
        s.splits_.clear();
        for (const std::string& w : words)
          s.splits_.push_back(static_cast<StageSplit>(
              std::ranges::find(kSplitWords, std::string_view(w)) - kSplitWords.begin()));
        return;
      }
    }
  }

  void read_free_axis(const Member& m) {
    if (field_of_path(m.key) == nullptr || m.key.starts_with("search")) {
      std::vector<std::string_view> known;
      for (const Field& f : scenario_fields()) known.push_back(f.path);
      const std::string near = did_you_mean(m.key, known);
      problems_.add("E102", '\'' + m.key + "' is no key that can be searched", m.key_mark,
                    static_cast<int>(m.key.size()), near,
                    "axes are dotted paths: parallel.tp, cluster.nodes, precision");
      return;
    }
    if (std::ranges::count(kOfOneLayout, m.key) > 0) {
      problems_.add("E127", '\'' + m.key + "' follows from the layout", m.key_mark,
                    static_cast<int>(m.key.size()), {},
                    "the axes of a layout are parallel.tp, cp, pp, vpp, ep, etp, zero and split, "
                    "batch.micro, recompute and schedule");
      return;
    }
    FreeAxis axis{m.key, m.key_mark, {}};
    std::set<std::string> listed;
    for (const Value* value : values_of_axis(m.key, m.value)) {
      if (is_auto(*value) && m.key == kOrder) {
        for (const std::string_view order : kOrders)
          axis.values.push_back(scalar_value(std::string(order)));
        continue;
      }
      if (is_auto(*value)) {
        refuse("E125", *value, '\'' + m.key + "' is no axis of a layout, so auto says nothing",
               "list the values: [8, 16]");
        continue;
      }
      if (listed.insert(to_flow(*value)).second) axis.values.push_back(*value);
    }
    if (!axis.values.empty()) free_.push_back(std::move(axis));
  }

  // What is tried where nothing else is listed.
  void read_software() {
    SearchSpace& s = space_;
    const SoftwareAxes& runs = axes_of(v().has("software") ? v().text("software") : "");
    s.recompute_.assign(runs.recompute.begin(), runs.recompute.end());
    std::erase(s.recompute_, "");
    for (size_t i = 0; i < runs.splits.size(); ++i)
      if (runs.splits[i]) s.splits_.push_back(static_cast<StageSplit>(i));
    for (const std::string_view name : runs.schedules)
      if (!name.empty()) s.schedules_.emplace_back(name);
    for (int64_t z = 0; z < std::ssize(runs.zero); ++z)
      if (runs.zero[static_cast<size_t>(z)]) s.automatic_zeros_.push_back(z);
    s.replicas_alone_ = runs.replicas_alone;
    s.shards_beside_pipeline_ = runs.shards_beside_pipeline;
    s.overlaps_if_told_ = runs.overlaps_if_told;
    s.context_parallel_ = runs.context_parallel && !runs.replicas_alone;
  }

  void read_axes() {
    read_software();
    const Value* listed = v().value("search.schedules");
    if (listed != nullptr) read_schedules("search.schedules", *listed);
    const Value* space = v().value("search.space");
    if (space == nullptr || is_auto(*space)) return;
    if (!space->is_mapping()) {
      refuse("E107", *space, "'space' is auto, or a mapping of dotted paths to values",
             "space: {parallel.tp: [1, 2, 4, 8], recompute: [none, full]}");
      return;
    }
    // What is not listed stays as the file states it, if it does.
    std::vector<LayoutAxis> listed_axes;
    for (const Member& m : space->members)
      for (const auto& [path, axis] : kLayoutAxes)
        if (m.key == path) listed_axes.push_back(axis);
    for (const auto& [path, axis] : kLayoutAxes) {
      const Field* field = find_field(path);
      if (field == nullptr || field->type == FieldType::section) continue;
      const Value* stated = v().value(Key(*field));
      if (stated == nullptr || std::ranges::count(listed_axes, axis) > 0 || !stated->is_scalar())
        continue;
      read_layout_axis(axis, std::string(path), *stated);
      space_.kept_.emplace_back(path, stated->text);
    }
    for (const Member& m : space->members) {
      const auto axis = std::ranges::find(kLayoutAxes, std::string_view(m.key),
                                          &std::pair<std::string_view, LayoutAxis>::first);
      if (axis != kLayoutAxes.end())
        read_layout_axis(axis->second, m.key, m.value);
      else
        read_free_axis(m);
    }
  }

  void read_rest() {
    SearchSettings& s = space_.settings_;
    if (v().has("search.top")) s.top = v().whole("search.top");
    v().read("search.memory_margin", s.memory_margin);
    if (v().has("search.prune")) s.fast = v().text("search.prune") == "fast";
    if (v().has("search.budget")) s.budget = v().get<Time>("search.budget");
    if (v().has("job.tokens")) s.tokens = static_cast<double>(v().whole("job.tokens"));
    read_job_price();
    if (v().has("search.objective")) {
      s.objectives.clear();
      for (const std::string& word : v().texts("search.objective")) read_objective(word);
      if (s.objectives.empty()) s.objectives = {SearchObjective::step_time};
    }
  }

  void read_job_price() {
    if (const Value* written = v().value("job.price"); written != nullptr)
      if (const auto price = read_price(*written, problems_)) space_.settings_.price = *price;
  }

  void read_objective(const std::string& word) {
    const Value& at = *v().value("search.objective");
    std::vector<std::string> legal;
    for (int i = 0; i < kSearchObjectives; ++i) {
      const auto objective = static_cast<SearchObjective>(i);
      legal.emplace_back(name_of(objective));
      if (legal.back() != word) continue;
      const bool days = objective == SearchObjective::days || objective == SearchObjective::price;
      if (days && v().value("job.tokens") == nullptr)
        refuse("E126", at, "objective: " + word + " needs the length of the training",
               "job: {tokens: 15T}");
      if (objective == SearchObjective::price && v().value("job.price") == nullptr)
        refuse("E126", at, "objective: price needs what a GPU costs", "job: {price: 2.5USD/GPUh}");
      std::vector<SearchObjective>& all = space_.settings_.objectives;
      if (std::ranges::count(all, objective) == 0) all.push_back(objective);
      return;
    }
    refuse("E125", at, "there is no objective '" + escape_text(word) + '\'',
           "it can be " + or_list(legal));
  }

  // ---------------------------------------------------------------------------------- conditions

  std::vector<ExpressionName> names(size_t count) {
    std::vector<ExpressionName> all;
    for (size_t i = 0; i < count; ++i) {
      const auto ask = static_cast<Ask>(i);
      ExpressionName name{name_of(ask), {}};
      if (ask == Ask::recompute) name.words = recompute_words_;
      if (ask == Ask::schedule) name.words = schedule_words_;
      if (ask == Ask::split) name.words = split_words_;
      all.push_back(name);
    }
    return all;
  }

  void read_condition(const Value& written, size_t asks, std::vector<Expression>& to) {
    if (!written.is_scalar())
      return refuse("E107", written, "a condition is a text", "\"tp * cp <= 16\"");
    ExpressionProblem problem;
    std::optional<Expression> read = parse_expression(written.text, names(asks), problem);
    if (read) {
      to.push_back(std::move(*read));
      return;
    }
    if (const std::string name = written.text.substr(problem.offset, problem.length);
        std::ranges::count(names(asks), name, &ExpressionName::name) == 0 &&
        std::ranges::count(names(kAsks), name, &ExpressionName::name) > 0) {
      problem.message = "'" + name + "' is known of a layout once it has been simulated";
      problem.help = "what an answer must keep is one of search.constraints: -s " +
                     shell_word("search.constraints=" + escape_text(written.text));
    }
    Mark mark = written.mark;
    const bool one_line = written.text.find('\n') == std::string::npos;
    if (one_line) mark.column += static_cast<int>(problem.offset) + (written.quoted ? 1 : 0);
    problems_.add("E125", problem.message, mark, one_line ? static_cast<int>(problem.length) : 1,
                  {}, problem.help);
  }

  void read_condition_list(const Value* written, size_t asks, std::vector<Expression>& to) {
    if (written == nullptr) return;
    if (written->kind != Value::Kind::sequence) return read_condition(*written, asks, to);
    for (const Value& item : written->items) read_condition(item, asks, to);
  }

  // The words of the space, then those that a scenario may have: a condition on a word that no
  // layout has is no mistake.
  static std::vector<std::string> with_general(std::vector<std::string> words,
                                               const std::vector<std::string>& general) {
    for (const std::string& w : general)
      if (std::ranges::count(words, w) == 0) words.push_back(w);
    return words;
  }

  void read_conditions() {
    split_words_.assign(kSplitWords.begin(), kSplitWords.end());
    recompute_words_ = with_general(space_.recompute_, recompute_choices());
    schedule_words_ = with_general(space_.schedules_, schedule_choices());
    read_condition_list(v().value("search.where"), kAsksOfLayouts, space_.where_);
    for (const std::string& text : options_.where) {
      Value value = scalar_value(text);
      value.quoted = true;
      const SourceRef source = problems_.add_source({"--where", text, Source::Kind::set});
      value.mark = {source, 1, 0};
      read_condition(value, kAsksOfLayouts, space_.where_);
    }
    const size_t before = space_.settings_.constraints.size();
    read_condition_list(v().value("search.constraints"), kAsks, space_.settings_.constraints);
    for (size_t i = before; i < space_.settings_.constraints.size(); ++i) {
      const Expression& c = space_.settings_.constraints[i];
      const bool days = c.uses(static_cast<size_t>(Ask::days)),
                 price = c.uses(static_cast<size_t>(Ask::price));
      if ((days || price) && space_.settings_.tokens == 0)
        refuse("E126", *v().value("search.constraints"),
               "a constraint on days or price needs the length of the training",
               "job: {tokens: 15T}");
      if (price && space_.settings_.price == 0)
        refuse("E126", *v().value("search.constraints"),
               "a constraint on price needs what a GPU costs", "job: {price: 2.5USD/GPUh}");
    }
  }

  // What a GPU draws follows from its rating.
  void check_energy() {
    if (!space_.asks_for_energy()) return;
    for (const SearchPlace& place : space_.places_) {
      const Gpu& gpu = place.scenario->cluster.node.gpu;
      const std::optional<Diagnostic> wrong = check_power(gpu);
      if (!wrong) continue;
      const Value* objective = v().value("search.objective");
      const Value* constraints = v().value("search.constraints");
      const bool asked =
          std::ranges::count(space_.settings_.objectives, SearchObjective::energy) > 0;
      return refuse("E126", asked || constraints == nullptr ? *objective : *constraints,
                    wrong->message, wrong->help);
    }
  }

  // -------------------------------------------------------------------------------------- places

  // Numbers of GPUs: how many nodes that is depends on the place.
  void add_gpu_axis() {
    if (!options_.fewest_gpus) return;
    std::erase_if(free_, [](const FreeAxis& a) { return a.path == kNodes; });
    FreeAxis axis{std::string(kNodes), {}, {}};
    const int64_t most = options_.most_gpus.value_or(*options_.fewest_gpus);
    for (int64_t gpus = *options_.fewest_gpus; gpus <= most; gpus *= 2)
      axis.values.push_back(scalar_value(fmt::to_string(gpus)));
    free_.push_back(std::move(axis));
  }

  static int64_t gpus_of_a_node(const ScenarioDocument& document) {
    Problems ignored;
    Value tree = document.tree();
    apply_cluster_presets(tree, ignored);
    int64_t gpus = 8;
    FieldValues(tree, "", ignored).read("cluster.node.gpus", gpus);
    return std::max<int64_t>(1, gpus);
  }

  // False: no whole nodes have so many GPUs.
  static bool make_nodes(Value& gpus, const ScenarioDocument& document) {
    const int64_t node = gpus_of_a_node(document), count = std::stoll(gpus.text);
    gpus = scalar_value(fmt::to_string(count / node));
    return count % node == 0;
  }

  void read_places() {
    add_gpu_axis();
    double count = 1;
    for (const FreeAxis& axis : free_) count *= static_cast<double>(axis.values.size());
    if (count > static_cast<double>(kMostPlaces)) {
      problems_.add("E123",
                    fmt::format("the axes beside the layout have {:.3g} combinations: at most {} "
                                "are possible",
                                count, kMostPlaces),
                    v().mark("search.space"), 1, {},
                    "shorter lists; `stepcast sweep` takes any number, with one layout");
      return;
    }
    std::vector<size_t> at(free_.size(), 0);
    for (;;) {
      SearchPlace place;
      for (size_t a = 0; a < free_.size(); ++a)
        place.set.emplace_back(free_[a].path, free_[a].values[at[a]]);
      add_place(std::move(place));
      size_t a = free_.size();
      while (a > 0 && ++at[a - 1] == free_[a - 1].values.size()) at[--a] = 0;
      if (a == 0) break;
    }
    if (!whole_nodes_) {
      const int64_t fewest = *options_.fewest_gpus, node = gpus_of_a_node(document_);
      problems_.add("E201",
                    fmt::format("no number of GPUs from {} to {}, doubled each time, is one of "
                                "whole nodes of {}",
                                fewest, options_.most_gpus.value_or(fewest), node),
                    tree_.mark, 1, {}, nearest_multiples(fewest, node));
    }
  }

  void add_place(SearchPlace place) {
    ScenarioDocument document = document_;
    const auto leave_out = [&](std::string_view path) {
      if (!has_path(document.tree(), path)) return false;
      document.set(std::string(path), {});
      return true;
    };
    for (const std::string_view path : kOfOneLayout)
      if (leave_out(path)) place.unset.emplace_back(path);
    if (space_.shards_beside_pipeline_ && leave_out(SearchSpace::kReshard))
      place.unset.emplace_back(SearchSpace::kReshard);
    for (const std::string_view path : kOfUnlikeRanks)
      if (leave_out(path)) place.unset.emplace_back(path);
    for (const std::string_view path : kOfOtherCommands) leave_out(path);
    for (auto& [path, value] : place.set) {  // the number of nodes last
      if (options_.fewest_gpus && path == kNodes && !make_nodes(value, document)) return;
      document.set(path, value, std::ranges::find(free_, path, &FreeAxis::path)->key);
    }
    whole_nodes_ = true;
    resolve_place(document, place);
    document.set("search", {});
    place.document = std::make_shared<const ScenarioDocument>(std::move(document));
    if (place.scenario) space_.places_.push_back(std::move(place));
  }

  // `path`: of one or two words.
  static bool has_path(const Value& tree, std::string_view path) {
    const size_t dot = path.find('.');
    const Value* section = tree.find(path.substr(0, dot));
    if (section == nullptr || dot == std::string_view::npos) return section != nullptr;
    const std::string_view key = path.substr(dot + 1);
    if (!section->is_scalar()) return section->find(key) != nullptr;
    // `schedule: 1f1b` stands for schedule.kind.
    const Field* field = find_field(path.substr(0, dot));
    return field != nullptr && std::ranges::count(field->shorthand, key) > 0;
  }

  // What is wrong with them is said when the scenario is resolved.
  static int64_t nodes_named(const std::vector<std::string>& words) {
    int64_t nodes = 0;
    for (const std::string& word : words)
      if (const std::optional<IndexRange> range = parse_range(word);
          range && range->first <= range->last && range->last < 1'000'000)
        nodes += range->last - range->first + 1;
    return std::max<int64_t>(1, nodes);
  }

  // The scenario of the place with the simplest layout: every GPU a replica, one sequence each.
  void resolve_place(const ScenarioDocument& document, SearchPlace& place) {
    Problems ignored;
    Value tree = document.tree();
    apply_cluster_presets(tree, ignored);
    const FieldValues values(tree, "", ignored);
    if (values.has("batch.global")) place.global_batch = values.whole("batch.global");
    values.read("parallel.cp_comm", place.cp_comm);
    ScenarioDocument simple = document;
    int64_t nodes = 1, gpus = 8;
    values.read("cluster.nodes", nodes);
    values.read("cluster.node.gpus", gpus);
    simple.set("batch.micro", scalar_value("1"));
    if (values.has("batch.global") && nodes < 1'000'000 && gpus < 1'000'000) {
      if (values.has("cluster.placement.nodes"))
        nodes = nodes_named(values.texts("cluster.placement.nodes"));
      simple.set("batch.global", scalar_value(fmt::to_string(nodes * gpus)));
    }
    auto resolved = simple.try_resolve();
    if (Scenario* scenario = std::get_if<Scenario>(&resolved)) {
      if (!scenario->plan.trains()) {
        base_problems_.push_back(
            file_error("E130", "a search is for training steps", scenario->file,
                       "leave mode out; prefill and decode are not searched yet")
                .diagnostics.front());
        return;
      }
      place.gpus = gpus_of(scenario->placement, scenario->cluster);
      place.nodes = place.gpus / scenario->cluster.node.gpus;
      place.scenario = std::make_shared<const Scenario>(std::move(*scenario));
      return;
    }
    for (const Diagnostic& d : std::get<InputError>(resolved).diagnostics)
      if (std::ranges::none_of(base_problems_, [&](const Diagnostic& o) {
            return o.message == d.message && o.line == d.line;
          }))
        base_problems_.push_back(d);
  }

  SearchSpace& space_;
  const SearchOptions& options_;
  const ScenarioDocument& document_;
  Value tree_;
  Problems problems_, ignored_;
  std::optional<FieldValues> values_;
  std::vector<FreeAxis> free_;
  bool whole_nodes_ = false;  // the GPUs of some place
  std::vector<Diagnostic> base_problems_;
  std::vector<std::string> recompute_words_, schedule_words_, split_words_;  // of conditions
};

SearchSpace::SearchSpace(const ScenarioDocument& document, const SearchOptions& options) {
  Reader(*this, document, options).read();
  for (const auto& setting : document.sets_again(options.given))
    if (!setting.first.starts_with("search")) given_.push_back(setting);
}

bool software_runs_zero(std::string_view software, int64_t stage) {
  return axes_of(software).zero.at(static_cast<size_t>(stage));
}

}  // namespace stepcast
