// SPDX-License-Identifier: Apache-2.0
// From the section `search` to layouts.
//
// Take a model of 4 heads and 8 layers on 8 GPUs.  tp can be 1, 2 and 4, pp what is left of 8 GPUs:
// with tp 2 that is 1, 2 or 4, and dp 4, 2 or 1.  Of each of these there are microbatches, chunks,
// recomputation and so on.  Axes are nested in one order, and what is illegal at one level is
// counted with all that it would have had below it, so that the counts add up to the product of the
// axes.  Two combinations that would be one scenario (chunks without a pipeline, ZeRO without
// replicas) are one layout: the first.
#include "scenarios/search/space.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "job/power.h"
#include "model/plan.h"
#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/schema/keys.h"
#include "scenarios/schema/software.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
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

// Which ranks lie next to each other: Megatron's order, and pipelines inside of replicas, which
// puts stages into a node and gradients on the network.
constexpr std::string_view kOrder = "parallel.order";
constexpr std::array<std::string_view, 2> kOrders{"tp-cp-dp-pp", "tp-cp-pp-dp"};

constexpr std::array<std::string_view, 5> kSplitWords{"even", "counted", "products", "last",
                                                      "modules"};

// Names of conditions, in the order of values_of().
enum class Ask : uint8_t {
  gpus,
  nodes,
  tp,
  cp,
  pp,
  vpp,
  dp,
  ep,
  etp,
  zero,
  micro,
  microbatches,
  layers,
  recompute,
  schedule,
  split,
  // of constraints alone
  step_time,
  tokens_per_gpu_s,
  peak_memory,
  gpu_memory,
  days,
  price,
  fits,
  energy,
};
constexpr std::array<std::string_view, 24> kAskNames{
    "gpus",        "nodes",      "tp",       "cp",    "pp",        "vpp",
    "dp",          "ep",         "etp",      "zero",  "micro",     "microbatches",
    "layers",      "recompute",  "schedule", "split", "step_time", "tokens_per_gpu_s",
    "peak_memory", "gpu.memory", "days",     "price", "fits",      "energy"};
constexpr size_t kAsksOfLayouts = 16;

// What of the axes a framework runs, where the section does not list values; docs/search.md has the
// sources.  A framework that is not listed runs what Megatron-Core does.
struct SoftwareAxes {
  std::string_view begins;  // of a profile's name
  std::array<std::string_view, 6> schedules{"1f1b", "interleaved-1f1b"};
  bool replicas_alone = false;  // every rank has the whole model, or its shard of all of it
  bool context_parallel = true;
  bool selective = true;  // recomputation
  std::array<bool, 4> zero{true, true, true, true};
  std::array<bool, kSplitWords.size()> splits{true, true, true};
  bool overlaps_if_told = false;  // overlap.dp_grad, dp_param and tp are switches of it
};
constexpr std::array<SoftwareAxes, 10> kSoftwareAxes{
    {{.begins = "torchtitan",
      .schedules = {"1f1b", "interleaved-1f1b", "gpipe", "looped-bfs", "zb-v",
                    "interleaved-zero-bubble"}},
     {.begins = "megatron-deepspeed",
      .schedules = {"1f1b"},
      .context_parallel = false,
      .selective = false,
      .zero = {true, true}},
     {.begins = "deepspeed", .replicas_alone = true, .zero = {true, true, true, true}},
     {.begins = "pytorch-fsdp", .replicas_alone = true, .zero = {false, false, true, true}},
     {.begins = "llm-foundry", .replicas_alone = true, .zero = {false, false, true, true}},
     {.begins = "nanotron", .schedules = {"1f1b", "gpipe"}, .zero = {true, true}},
     {.begins = "megatron-lm-2021",
      .context_parallel = false,
      .selective = false,
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
      .splits = {false, false, false, false, true}}}};
constexpr SoftwareAxes kOtherSoftware{.begins = "", .overlaps_if_told = true};

const SoftwareAxes& axes_of(std::string_view software) {
  const auto found = std::ranges::find_if(
      kSoftwareAxes, [&](const SoftwareAxes& s) { return software.starts_with(s.begins); });
  return found != kSoftwareAxes.end() ? *found : kOtherSoftware;
}

std::vector<int64_t> divisors_up_to(int64_t n, int64_t most) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

std::vector<int64_t> powers_up_to(int64_t most) {
  std::vector<int64_t> all;
  for (int64_t p = 1; p <= most; p *= 2) all.push_back(p);
  return all;
}

std::vector<int64_t> from_one_to(int64_t most) {
  std::vector<int64_t> all(static_cast<size_t>(std::max<int64_t>(0, most)));
  std::iota(all.begin(), all.end(), int64_t{1});
  return all;
}

// Embedding and head count as a layer each, as with Megatron's
// --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split, for any
// number of layers.  What does not divide goes to the stages behind the first.
std::vector<int64_t> counted_layers(int64_t layers, int64_t stages) {
  if (stages < 2 || layers + 2 < stages) return {};
  std::vector<int64_t> out(static_cast<size_t>(stages), (layers + 2) / stages);
  int64_t left = (layers + 2) % stages;
  for (size_t s = 1; s + 1 < out.size() && left > 0; ++s, --left) ++out[s];
  if (left > 0) ++out.front();
  --out.front();
  --out.back();
  for (size_t s = 1; s + 1 < out.size(); ++s)
    if (out[s] == 0) return {};
  return out;
}

std::vector<int64_t> layers_of(std::span<const StageContent> stages) {
  std::vector<int64_t> out;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].layers == 0) return {};
    out.push_back(stages[s].layers);
  }
  return out;
}

std::vector<int64_t> split_layers(const Transformer& model, int64_t stages, StageSplit split) {
  if (stages > model.layers + 2) return {};
  switch (split) {
    case StageSplit::even:
      if (model.layers % stages != 0) return {};
      return std::vector<int64_t>(static_cast<size_t>(stages), model.layers / stages);
    case StageSplit::counted: return counted_layers(model.layers, stages);
    case StageSplit::products:
      return stages > model.layers ? std::vector<int64_t>{}
                                   : layers_of(stages_by_products(model, stages));
    case StageSplit::last:
      return stages > model.layers ? std::vector<int64_t>{}
                                   : layers_of(last_stages_fullest(model.layers, stages));
    case StageSplit::modules:
      return stages > model.layers ? std::vector<int64_t>{}
                                   : layers_of(stages_by_modules(model.layers, stages));
  }
  return {};
}

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

// ----------------------------------------------------------------------------- reading the section

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
    FreeAxis axis{m.key, {}};
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
    s.recompute_ = {"none", "selective", "full"};
    if (!runs.selective) std::erase(s.recompute_, "selective");
    for (size_t i = 0; i < runs.splits.size(); ++i)
      if (runs.splits[i]) s.splits_.push_back(static_cast<StageSplit>(i));
    for (const std::string_view name : runs.schedules)
      if (!name.empty()) s.schedules_.emplace_back(name);
    for (int64_t z = 0; z < std::ssize(runs.zero); ++z)
      if (runs.zero[static_cast<size_t>(z)]) s.automatic_zeros_.push_back(z);
    s.replicas_alone_ = runs.replicas_alone;
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
      ExpressionName name{kAskNames[i], {}};
      if (i == static_cast<size_t>(Ask::recompute)) name.words = recompute_words_;
      if (i == static_cast<size_t>(Ask::schedule)) name.words = schedule_words_;
      if (i == static_cast<size_t>(Ask::split)) name.words = split_words_;
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
    read_condition_list(v().value("search.constraints"), kAskNames.size(),
                        space_.settings_.constraints);
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

  void add_gpu_axis() {
    if (!options_.fewest_gpus) return;
    std::erase_if(free_, [](const FreeAxis& a) { return a.path == "cluster.nodes"; });
    int64_t node = 8;
    v().read("cluster.node.gpus", node);
    FreeAxis axis{"cluster.nodes", {}};
    const int64_t most = options_.most_gpus.value_or(*options_.fewest_gpus);
    for (int64_t gpus = *options_.fewest_gpus; gpus <= most; gpus *= 2) {
      if (gpus % node != 0) continue;
      axis.values.push_back(scalar_value(fmt::to_string(gpus / node)));
    }
    if (axis.values.empty())
      problems_.add("E201",
                    fmt::format("no number of GPUs from {} to {}, doubled each time, is one of "
                                "whole nodes of {}",
                                *options_.fewest_gpus, most, node),
                    tree_.mark, 1, {}, nearest_multiples(*options_.fewest_gpus, node));
    else
      free_.push_back(std::move(axis));
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
    for (const std::string_view path : kOfUnlikeRanks)
      if (leave_out(path)) place.unset.emplace_back(path);
    for (const std::string_view path : kOfOtherCommands) leave_out(path);
    for (const auto& [path, value] : place.set) document.set(path, value);
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
      const std::vector<std::string>* chosen = values.has("cluster.placement.nodes")
                                                   ? &values.texts("cluster.placement.nodes")
                                                   : nullptr;
      if (chosen == nullptr) {
        simple.set("batch.global", scalar_value(fmt::to_string(nodes * gpus)));
      } else {
        // As many GPUs as the named nodes have is known once the places are resolved.
        simple.set("batch.global", scalar_value("1"));
      }
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
  std::vector<Diagnostic> base_problems_;
  std::vector<std::string> recompute_words_, schedule_words_, split_words_;  // of conditions
};

SearchSpace::SearchSpace(const ScenarioDocument& document, const SearchOptions& options) {
  Reader(*this, document, options).read();
  for (const auto& setting : options.given)
    if (!setting.first.starts_with("search")) given_.push_back(setting);
}

// ---------------------------------------------------------------------------------- the layouts

std::string SearchSpace::split_word(const Layout& l) const {
  return std::string(kSplitWords[static_cast<size_t>(l.split)]);
}

int64_t SearchSpace::dp_of(const Layout& l) const {
  return places_[l.place].gpus / (int64_t{l.tp} * l.cp * l.pp);
}

int64_t SearchSpace::microbatches_of(const Layout& l) const {
  return places_[l.place].global_batch / (l.micro * dp_of(l));
}

std::vector<int64_t> SearchSpace::layers_of_stages(const Layout& l) const {
  return split_layers(places_[l.place].scenario->model, int64_t{l.pp} * l.vpp, l.split);
}

std::vector<double> SearchSpace::values_of(const Layout& l) const {
  const SearchPlace& place = places_[l.place];
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  return {real(place.gpus),
          real(place.nodes),
          real(l.tp),
          real(l.cp),
          real(l.pp),
          real(l.vpp),
          real(dp_of(l)),
          real(l.ep),
          real(l.etp),
          real(l.zero),
          real(l.micro),
          real(microbatches_of(l)),
          real(place.scenario->model.layers),
          real(l.recompute),
          real(l.schedule),
          real(static_cast<int64_t>(l.split))};
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
  for (const double x : values_of(layout)) ranges.push_back({x, x});
  for (const ValueRange r :
       {ValueRange{m.step_time_s, kAny}, ValueRange{0, m.tokens_per_gpu_s},
        ValueRange{m.peak_memory, kAny}, ValueRange{m.gpu_memory, m.gpu_memory},
        ValueRange{m.days, kAny}, ValueRange{m.price, kAny}, ValueRange{0, 1},
        ValueRange{m.energy, kAny}})
    ranges.push_back(r);
  return std::ranges::all_of(settings_.constraints,
                             [&](const Expression& c) { return c.may_hold(ranges); });
}

std::vector<std::string> SearchSpace::broken_constraints(const Layout& layout,
                                                         const SearchMeasure& m) const {
  if (settings_.constraints.empty()) return {};
  std::vector<double> values = values_of(layout);
  for (const double x : {m.step_time_s, m.tokens_per_gpu_s, m.peak_memory, m.gpu_memory, m.days,
                         m.price, m.fits, m.energy})
    values.push_back(x);
  std::vector<std::string> broken;
  for (const Expression& c : settings_.constraints)
    if (!c.holds(values)) broken.push_back(c.text());
  return broken;
}

namespace {

// Why a combination is no layout, in the order in which it is asked.
enum class Illegal : uint8_t {
  gpus,
  model,
  sequence,
  context,
  batch,
  stages,
  experts,
  schedule,
  same,
  other,
  graphs,
  fast,
  where
};
constexpr std::array<std::pair<const char*, const char*>, 13> kIllegal{
    {{"gpus", "tp * cp * pp does not divide the GPUs"},
     {"model", "tp does not divide heads, MLP or width"},
     {"sequence", "the sequence does not divide"},
     {"context", "cp beside recurrent layers, sparse or windowed attention, or an encoder"},
     {"batch", "the batch is no multiple of micro * dp"},
     {"stages", "the layers cannot be spread over the stages"},
     {"experts", "the experts cannot be spread"},
     {"schedule", "the schedule does not run with these chunks and microbatches"},
     {"same", "the same as another layout"},
     {"zero", "ZeRO-2 and 3 beside a pipeline, ZeRO-0 without one: only where they are listed"},
     {"graphs", "ZeRO-2 and 3 beside CUDA graphs of layers"},
     {"fast",
      "left out by rules of thumb (prune: fast): tp * cp beyond a node, ZeRO-0 beside replicas, "
      "microbatches of 4 and more"},
     {"where", "left out by where"}}};

}  // namespace

SearchSpace::Layouts SearchSpace::layouts(const std::function<bool()>& stop) const {
  Layouts out;
  size_t looked_at = 0;
  std::array<double, kIllegal.size()> illegal{};
  std::map<std::tuple<uint8_t, int64_t, int64_t, int64_t>, bool> runs;  // schedule, pp, vpp, m
  const auto size = [](const auto& values) { return static_cast<double>(values.size()); };
  for (size_t p = 0; p < places_.size(); ++p) {
    const SearchPlace& place = places_[p];
    const Transformer& m = place.scenario->model;
    const Plan& plan = place.scenario->plan;
    const int64_t gpus = place.gpus, seq = plan.seq;
    const auto pick = [](const Axis& axis, std::vector<int64_t> automatic) {
      return axis.automatic ? automatic : axis.values;
    };
    constexpr int64_t kFewestTokens = 1024;  // of a context-parallel rank
    const std::vector<int64_t> one{1};
    const std::vector<int64_t> tps = pick(
        tp_, replicas_alone_ ? one : divisors_up_to(m.heads, place.scenario->cluster.node.gpus));
    const std::vector<int64_t> cps = pick(
        cp_, context_parallel_ ? powers_up_to(std::max<int64_t>(1, seq / kFewestTokens)) : one);
    const std::vector<int64_t> pps =
        pick(pp_, replicas_alone_ ? one : from_one_to(std::min({m.layers, gpus, int64_t{4096}})));
    const std::vector<int64_t> vpps = pick(vpp_, from_one_to(8));
    const std::vector<int64_t> micros = pick(micro_, {1, 2, 4, 8});
    const std::vector<int64_t> eps =
        pick(ep_, m.experts > 0 && !replicas_alone_ ? divisors_up_to(m.experts, gpus) : one);
    const std::vector<int64_t> zeros = pick(zero_, automatic_zeros_);
    const double etps = !etp_.automatic ? size(etp_.values) : m.experts > 0 ? 2 : 1;
    // Combinations below each level.
    const double below_recompute = size(recompute_), below_zero = below_recompute * size(zeros),
                 below_split = below_zero * size(splits_),
                 below_schedule = below_split * size(schedules_), below_etp = below_schedule * etps,
                 below_ep = below_etp * size(eps), below_vpp = below_ep * size(vpps),
                 below_micro = below_vpp * size(micros), below_pp = below_micro * size(pps),
                 below_cp = below_pp * size(cps);
    out.points += below_cp * size(tps);
    if (out.points > 1e12)
      throw file_error(
          "E123",
          fmt::format("the space has {:.3g} points: at most 10^12 are gone through", out.points),
          place.scenario->file,
          "shorter lists in search.space, or auto, whose axes are those that models "
          "are trained with");
    const auto drop = [&](Illegal why, double count) {
      illegal[static_cast<size_t>(why)] += count;
    };
    const bool ring = place.cp_comm == CpComm::p2p || place.cp_comm == CpComm::hierarchical;
    bool windows = m.sliding_window > 0 && m.sliding_window < seq;
    for (const int64_t w : m.windows) windows = windows || (w > 0 && w < seq);
    // Of such layers a rank needs what stands before its part of the sequence.
    const bool whole_sequences = m.encoder_layers > 0 || has_recurrent_layers(m) ||
                                 m.index_topk > 0 || !m.compressions.empty() || (ring && windows);
    std::map<std::pair<int64_t, StageSplit>, std::vector<int64_t>> spreads;
    const auto spread = [&](int64_t stages, StageSplit split) -> const std::vector<int64_t>& {
      const auto [it, fresh] = spreads.try_emplace({stages, split});
      if (fresh) it->second = split_layers(m, stages, split);
      return it->second;
    };

    for (const int64_t tp : tps) {
      if (gpus % tp != 0) {
        drop(Illegal::gpus, below_cp);
        continue;
      }
      if (!divides(m, tp) || (m.shared_ffn > 0 && m.shared_ffn % tp != 0)) {
        drop(Illegal::model, below_cp);
        continue;
      }
      for (const int64_t cp : cps) {
        if (gpus % (tp * cp) != 0) {
          drop(Illegal::gpus, below_pp);
          continue;
        }
        if ((tp > 1 && seq % tp != 0) || (cp > 1 && seq % (2 * cp) != 0) ||
            (cp > 1 && tp > 1 && seq / cp % tp != 0)) {
          drop(Illegal::sequence, below_pp);
          continue;
        }
        if (cp > 1 && whole_sequences) {
          drop(Illegal::context, below_pp);
          continue;
        }
        for (const int64_t pp : pps) {
          if (gpus % (tp * cp * pp) != 0) {
            drop(Illegal::gpus, below_micro);
            continue;
          }
          const int64_t dp = gpus / (tp * cp * pp);
          for (const int64_t micro : micros) {
            if (place.global_batch % (micro * dp) != 0) {
              drop(Illegal::batch, below_vpp);
              continue;
            }
            if (!out.all_seen || (stop && stop())) {
              out.all_seen = false;
              continue;  // what is dropped above takes no time
            }
            const int64_t microbatches = place.global_batch / (micro * dp);
            for (const int64_t vpp : vpps) {
              if (pp == 1 && vpp > 1) {
                drop(Illegal::same, below_ep);
                continue;
              }
              if (pp * vpp > m.layers + 2) {
                drop(Illegal::stages, below_ep);
                continue;
              }
              for (const int64_t ep : eps) {
                std::vector<int64_t> own_etps = etp_.values;
                if (etp_.automatic) {
                  own_etps = {1};
                  if (tp > 1 && m.experts > 0) own_etps.push_back(tp);
                  drop(Illegal::same, (etps - size(own_etps)) * below_schedule);
                }
                for (const int64_t etp : own_etps) {
                  const bool fits = m.experts == 0 ? ep == 1 && etp == 1
                                                   : m.experts % ep == 0 && m.moe_ffn % etp == 0 &&
                                                         tp * cp * dp % (ep * etp) == 0;
                  if (!fits) {
                    drop(Illegal::experts, below_schedule);
                    continue;
                  }
                  for (size_t s = 0; s < schedules_.size(); ++s) {
                    if (pp == 1 && s > 0) {
                      drop(Illegal::same, below_split);
                      continue;
                    }
                    const auto [known, fresh] =
                        runs.try_emplace({static_cast<uint8_t>(s), pp, vpp, microbatches}, true);
                    if (fresh && pp > 1) {
                      const ScheduleFamily& family = *find_schedule_family(schedules_[s]);
                      const ScheduleParams params{pp, vpp, microbatches, 0, {}};
                      // Megatron's interleaved order with one chunk is 1F1B.
                      known->second = !check_params(family, params) &&
                                      !(schedules_[s] == "interleaved-1f1b" && vpp == 1);
                    }
                    if (!known->second) {
                      drop(Illegal::schedule, below_split);
                      continue;
                    }
                    for (size_t i = 0; i < splits_.size(); ++i) {
                      const std::vector<int64_t>& layers = spread(pp * vpp, splits_[i]);
                      if (layers.empty()) {
                        drop(Illegal::stages, below_zero);
                        continue;
                      }
                      bool same = false;
                      for (size_t before = 0; before < i; ++before)
                        same = same || spread(pp * vpp, splits_[before]) == layers;
                      if (same) {
                        drop(Illegal::same, below_zero);
                        continue;
                      }
                      bool zero_seen = false;
                      for (const int64_t zero : zeros) {
                        if (dp * cp == 1) {
                          if (std::exchange(zero_seen, true)) {
                            drop(Illegal::same, below_recompute);
                            continue;
                          }
                        } else if (zero_.automatic &&
                                   (pp > 1 ? zero > 1 : zero == 0 && zeros.size() > 1)) {
                          drop(Illegal::other, below_recompute);
                          continue;
                        }
                        if (zero_.automatic && zero > 1 &&
                            plan.kernels.cuda_graph == CudaGraph::layer) {
                          drop(Illegal::graphs, below_recompute);
                          continue;
                        }
                        for (size_t r = 0; r < recompute_.size(); ++r) {
                          const auto u16 = [](int64_t n) { return static_cast<uint16_t>(n); };
                          const Layout layout{static_cast<uint16_t>(p),
                                              u16(tp),
                                              u16(cp),
                                              u16(pp),
                                              u16(vpp),
                                              u16(ep),
                                              u16(etp),
                                              u16(micro),
                                              static_cast<uint8_t>(zero),
                                              static_cast<uint8_t>(r),
                                              static_cast<uint8_t>(s),
                                              splits_[i]};
                          const bool rare = tp * cp > place.scenario->cluster.node.gpus ||
                                            (zero == 0 && dp * cp > 1) || micro > 2;
                          if (settings_.fast && rare) {
                            drop(Illegal::fast, 1);
                            continue;
                          }
                          if (++looked_at > 10 * kMostLayouts)
                            throw file_error("E123",
                                             fmt::format("more than {} combinations are legal",
                                                         10 * kMostLayouts),
                                             place.scenario->file, "shorter lists in search.space");
                          if (!where_.empty()) {
                            const std::vector<double> values = values_of(layout);
                            if (!std::ranges::all_of(
                                    where_, [&](const Expression& e) { return e.holds(values); })) {
                              drop(Illegal::where, 1);
                              continue;
                            }
                          }
                          if (out.all.size() == kMostLayouts)
                            throw file_error(
                                "E123",
                                fmt::format("the space has more than {} layouts", kMostLayouts),
                                place.scenario->file, "search.where leaves out what is not wanted");
                          out.all.push_back(layout);
                        }
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  for (size_t i = 0; i < kIllegal.size(); ++i)
    if (illegal[i] > 0)
      out.rules.push_back(
          {kIllegal[i].first, kIllegal[i].second, static_cast<int64_t>(illegal[i])});
  return out;
}

std::vector<std::pair<std::string, std::string>> SearchSpace::changes(const Layout& l) const {
  const SearchPlace& place = places_[l.place];
  std::vector<std::pair<std::string, std::string>> set;
  for (const auto& [path, value] : place.set) set.emplace_back(path, to_flow(value));
  const auto number = [](int64_t n) { return fmt::to_string(n); };
  set.emplace_back("parallel.tp", number(l.tp));
  set.emplace_back("parallel.cp", number(l.cp));
  set.emplace_back("parallel.pp", number(l.pp));
  if (l.split == StageSplit::counted) {
    set.emplace_back("parallel.layout", megatron_layout(layers_of_stages(l)));
  } else if (l.vpp > 1) {
    set.emplace_back("parallel.vpp", number(l.vpp));
  }
  if (l.split != StageSplit::even && l.split != StageSplit::counted)
    set.emplace_back("parallel.split", std::string(kSplitWords[static_cast<size_t>(l.split)]));
  if (place.scenario->model.experts > 0) {
    set.emplace_back("parallel.ep", number(l.ep));
    set.emplace_back("parallel.etp", number(l.etp));
  }
  set.emplace_back("parallel.zero", number(l.zero));
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

bool software_runs_zero(std::string_view software, int64_t stage) {
  return axes_of(software).zero.at(static_cast<size_t>(stage));
}

}  // namespace stepcast
