// SPDX-License-Identifier: Apache-2.0
#include "schedules/families/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/text.h"

namespace stepcast {
namespace {

// A remark of whoever wrote the parameters down; no family reads it.
constexpr std::string_view kRemark = "note";

// Lower case, and one way to separate words.
std::string normalised(std::string_view name) {
  std::string text = lower_case(name);
  for (char& c : text)
    if (c == '_' || c == ' ') c = '-';
  return text;
}

bool has_name(const ScheduleFamily& family, std::string_view normal) {
  return family.name == normal ||
         std::find(family.aliases.begin(), family.aliases.end(), normal) != family.aliases.end();
}

bool has_parameter(const ScheduleFamily& family, std::string_view key) {
  return std::any_of(family.parameters.begin(), family.parameters.end(),
                     [&](const ScheduleParameter& p) { return p.key == key; });
}

// Why a key is none of the family's, or nothing.
std::optional<Diagnostic> check_keys(const ScheduleFamily& family, const ScheduleParams& params) {
  for (const auto& [key, value] : params.more) {
    if (key == kRemark || has_parameter(family, key)) continue;
    std::string legal;
    for (const ScheduleParameter& p : family.parameters)
      legal += (legal.empty() ? "" : ", ") + std::string(p.key);
    return refusal(fmt::format("'{}' is not a parameter of {}; it has{}", key, family.name,
                               legal.empty() ? " none" : ": " + legal));
  }
  return {};
}

// Sizes and name, and no placement yet.
Schedule sized_schedule(std::string_view name, const ScheduleParams& params) {
  Schedule schedule;
  schedule.name = name;
  schedule.pp = params.pp;
  schedule.vpp = params.vpp;
  schedule.microbatches = params.microbatches;
  schedule.rank_of_stage.resize(static_cast<size_t>(params.pp * params.vpp));
  schedule.ranks.resize(static_cast<size_t>(params.pp));
  return schedule;
}

// PyTorch's max(1, m / p).
int64_t rounds_of(const ScheduleParams& params) {
  return std::max<int64_t>(1, params.microbatches / params.pp);
}

// Lower case and without spaces around it; nothing if not set.
std::optional<std::string> value_of(const ScheduleParams& params, std::string_view key) {
  const auto found = params.more.find(key);
  if (found == params.more.end()) return std::nullopt;
  std::string value = lower_case(trim(found->second, " \t"));
  if (value.empty() || value == "none" || value == "null" || value == "default")
    return std::nullopt;
  return value;
}

}  // namespace

// ---------------------------------------------------------------------------------- the families
std::span<const ScheduleFamily> schedule_families() {
  // In the order of docs/schedules.md.
  static const std::array families = {
      gpipe(),
      one_f_one_b(),
      eager_1f1b(),
      interleaved(),
      interleaved_ep_overlap(),
      interleaved_flex(),
      seq1f1b(),
      group_interleaved(),
      looped_bfs(),
      breadth_first(),
      zb_h1(),
      zb_h1_quickstart(),
      zb_h2(),
      interleaved_zero_bubble(),
      zb_1p_auto(),
      zb_2p_auto(),
      zb_v(),
      zb_v_auto(),
      v_half(),
      v_min(),
      one_f_one_b_v(),
      v_controllable(),
      dualpipe(),
      dualpipev(),
      chimera(),
      hanayo(),
      vocabulary_1f1b(),
  };
  return families;
}

const ScheduleFamily* find_schedule_family(std::string_view name_or_alias) {
  const std::string normal = normalised(name_or_alias);
  for (const ScheduleFamily& family : schedule_families())
    if (has_name(family, normal)) return &family;
  return nullptr;
}

std::optional<Diagnostic> check_group(const ScheduleFamily& family, const ScheduleParams& params) {
  if (params.group == 0 || family.takes_group) return {};
  return refusal(fmt::format("'group' is not for {}", family.name));
}

std::optional<Diagnostic> check_params(const ScheduleFamily& family, const ScheduleParams& params) {
  if (auto wrong = check_keys(family, params)) return wrong;
  if (auto wrong = check_sizes(params)) return wrong;
  if (auto wrong = check_group(family, params)) return wrong;
  return family.check == nullptr ? std::nullopt : family.check(params);
}

Schedule generate_schedule(const ScheduleFamily& family, const ScheduleParams& params) {
  if (auto wrong = check_params(family, params)) throw InputError(*std::move(wrong));
  return family.generate(params);
}

std::vector<std::string_view> similar_schedule_names(std::string_view name) {
  constexpr size_t kLongest = 64;  // nothing that long is a misspelt name
  constexpr size_t kMost = 3;
  if (name.empty() || name.size() > kLongest) return {};
  const std::string normal = normalised(name);
  struct Candidate {
    size_t distance;
    std::string_view name;
  };
  std::vector<Candidate> close;
  for (const ScheduleFamily& family : schedule_families()) {
    size_t best = edit_distance(normal, family.name);
    for (const std::string_view alias : family.aliases)
      best = std::min(best, edit_distance(normal, alias));
    // A third of the name may be wrong, or it is the beginning of ours.
    const bool begins = normal.size() >= 3 && family.name.starts_with(normal);
    if (begins || best <= std::max<size_t>(1, normal.size() / 3))
      close.push_back({begins ? 0 : best, family.name});
  }
  std::stable_sort(close.begin(), close.end(),
                   [](const Candidate& a, const Candidate& b) { return a.distance < b.distance; });
  std::vector<std::string_view> names;
  for (const Candidate& c : close)
    if (names.size() < kMost) names.push_back(c.name);
  return names;
}

// -------------------------------------------------------------------------------------- refusals
std::optional<Diagnostic> check_sizes(const ScheduleParams& params) {
  using Size = std::pair<const char*, int64_t>;
  for (const auto& [what, value] :
       {Size{"pp", params.pp}, Size{"vpp", params.vpp}, Size{"microbatches", params.microbatches}})
    if (value < 1) return refusal(fmt::format("{} = {} must be at least 1", what, value));
  if (params.group < 0)
    return refusal(fmt::format("group = {} must not be negative", params.group));
  if (params.pp > kMostStages || params.vpp > kMostStages / params.pp)
    return refusal(fmt::format("pp * vpp = {} * {} stages: at most {} are possible", params.pp,
                               params.vpp, kMostStages));
  const int64_t stages = params.pp * params.vpp;
  if (params.microbatches > most_microbatches(stages))
    return refusal(fmt::format("{} microbatches in {} stages: at most {} are possible",
                               params.microbatches, stages, most_microbatches(stages)));
  return {};
}

std::optional<Diagnostic> check_one_chunk(std::string_view name, const ScheduleParams& params,
                                          std::string_view instead) {
  if (params.vpp == 1) return {};
  return refusal(
      fmt::format("{} runs one chunk on each rank: vpp = {} must be 1, or the schedule {}", name,
                  params.vpp, instead));
}

std::optional<Diagnostic> check_two_chunks(std::string_view name, const ScheduleParams& params) {
  if (params.vpp == 2) return {};
  return refusal(
      fmt::format("{} runs exactly 2 chunks on each rank: vpp = {} must be 2", name, params.vpp));
}

std::optional<Diagnostic> check_two_a_rank(std::string_view name, const ScheduleParams& params,
                                           std::string_view otherwise) {
  if (params.microbatches >= 2 * params.pp) return {};
  return refusal(fmt::format("{} needs at least 2 * pp = {} microbatches, there are {}{}", name,
                             2 * params.pp, params.microbatches, otherwise));
}

void ParamReader::refuse(std::string message) {
  if (!wrong_) wrong_ = refusal(std::move(message));
}

void ParamReader::refuse_value(std::string_view key, std::string_view value,
                               std::string_view must_be) {
  constexpr size_t kLongest = 40;  // bytes of the user's text that a message repeats
  refuse(fmt::format("{} = {}{} must be {}", key, value.substr(0, kLongest),
                     value.size() > kLongest ? "..." : "", must_be));
}

std::optional<int64_t> ParamReader::whole(std::string_view key, int64_t least, int64_t most) {
  const std::optional<std::string> text = value_of(params_, key);
  if (!text) return std::nullopt;
  std::string_view digits = *text;
  if (const size_t point = digits.find('.');
      point != std::string_view::npos && point > 0 &&
      digits.find_first_not_of('0', point + 1) == std::string_view::npos)
    digits = digits.substr(0, point);
  const std::optional<int64_t> value = parse_number<int64_t>(digits);
  if (value && *value >= least && *value <= most) return value;
  const bool bounded = most != std::numeric_limits<int64_t>::max();
  refuse_value(
      key, *text,
      fmt::format("a whole number from {}{}", least, bounded ? fmt::format(" to {}", most) : ""));
  return std::nullopt;
}

std::optional<bool> ParamReader::flag(std::string_view key) {
  const std::optional<std::string> text = value_of(params_, key);
  if (!text) return std::nullopt;
  for (const char* yes : {"true", "yes", "on", "1"})
    if (*text == yes) return true;
  for (const char* no : {"false", "no", "off", "0"})
    if (*text == no) return false;
  refuse_value(key, *text, "true or false");
  return std::nullopt;
}

std::optional<std::string> ParamReader::word(std::string_view key,
                                             const std::vector<std::string>& words) {
  std::optional<std::string> text = value_of(params_, key);
  if (!text) return std::nullopt;
  if (std::find(words.begin(), words.end(), *text) != words.end()) return text;
  refuse_value(key, *text, or_list(words));
  return std::nullopt;
}

std::optional<double> ParamReader::number(std::string_view key) {
  const std::optional<std::string> text = value_of(params_, key);
  if (!text) return std::nullopt;
  const std::optional<double> value = parse_number<double>(*text);
  if (!value) refuse_value(key, *text, "a number");
  return value;
}

std::vector<double> ParamReader::numbers(std::string_view key) {
  const std::optional<std::string> text = value_of(params_, key);
  if (!text) return {};
  std::string_view rest = *text;
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  std::vector<double> values;
  while (true) {
    const size_t comma = rest.find(',');
    const std::optional<double> value = parse_number<double>(trim(rest.substr(0, comma), " \t"));
    if (!value) {
      refuse_value(key, *text, "a number, or numbers separated by commas");
      return {};
    }
    values.push_back(*value);
    if (comma == std::string_view::npos) return values;
    rest = rest.substr(comma + 1);
  }
}

std::optional<int64_t> ParamReader::group(std::string_view key) {
  const std::optional<int64_t> named = whole(key);
  if (params_.group == 0) return named;
  if (named && *named != params_.group)
    refuse(fmt::format("{} = {} and group = {} are the same parameter and must agree", key, *named,
                       params_.group));
  return params_.group;
}

void ParamReader::expect(std::string_view key, int64_t value, std::string_view rule) {
  const std::optional<int64_t> given = whole(key);
  if (given && *given != value)
    refuse_value(key, fmt::format("{}", *given), fmt::format("{}: {}", value, rule));
}

// ------------------------------------------------------------------------------------ placements
Schedule loop_schedule(std::string_view name, const ScheduleParams& params) {
  Schedule schedule = sized_schedule(name, params);
  const auto pp = static_cast<size_t>(params.pp);
  for (size_t s = 0; s < schedule.rank_of_stage.size(); ++s)
    schedule.rank_of_stage[s] = static_cast<uint16_t>(s % pp);
  return schedule;
}

Schedule snake_schedule(std::string_view name, const ScheduleParams& params) {
  Schedule schedule = sized_schedule(name, params);
  const auto pp = static_cast<size_t>(params.pp);
  for (size_t s = 0; s < schedule.rank_of_stage.size(); ++s) {
    const size_t along = s % pp;
    schedule.rank_of_stage[s] = static_cast<uint16_t>(s / pp % 2 == 0 ? along : pp - 1 - along);
  }
  return schedule;
}

Schedule bidirectional_schedule(std::string_view name, const ScheduleParams& params) {
  Schedule schedule = sized_schedule(name, params);
  const auto pp = static_cast<size_t>(params.pp);
  schedule.rank_of_stage.resize(pp);
  schedule.reverse_rank_of_stage.resize(pp);
  for (size_t s = 0; s < pp; ++s) {
    schedule.rank_of_stage[s] = static_cast<uint16_t>(s);
    schedule.reverse_rank_of_stage[s] = static_cast<uint16_t>(pp - 1 - s);
  }
  return schedule;
}

// ---------------------------------------------------------------------------------------- orders
std::vector<Action> one_forward_one_backward(std::span<const Action> forwards,
                                             std::span<const Action> backwards, int64_t warmup) {
  const size_t warm = std::min(static_cast<size_t>(warmup), forwards.size());
  std::vector<Action> order;
  order.reserve(forwards.size() + backwards.size());
  order.insert(order.end(), forwards.begin(), forwards.begin() + static_cast<ptrdiff_t>(warm));
  for (size_t k = 0; k < backwards.size(); ++k) {
    if (warm + k < forwards.size()) order.push_back(forwards[warm + k]);
    order.push_back(backwards[k]);
  }
  return order;
}

std::vector<Action> overlapped_one_forward_one_backward(std::span<const Action> forwards,
                                                        std::span<const Action> backwards,
                                                        int64_t warmup) {
  std::vector<Action> order = one_forward_one_backward(forwards, backwards, warmup);
  const size_t warm = std::min(static_cast<size_t>(warmup), forwards.size());
  for (size_t k = warm; k < forwards.size(); ++k) order[2 * k - warm].overlaps_next = true;
  return order;
}

void add_pair(std::vector<Action>& order, Action forward, const Action& backward) {
  forward.overlaps_next = true;
  order.push_back(forward);
  order.push_back(backward);
}

std::pair<Action, Action> split(const Action& backward) {
  return {{ActionKind::backward_input, backward.stage, backward.microbatch},
          {ActionKind::backward_weight, backward.stage, backward.microbatch}};
}

std::vector<Action> split_backward_order(std::span<const Action> forwards,
                                         std::span<const Action> backwards, int64_t warmup,
                                         int64_t lag) {
  std::vector<Action> order;
  order.reserve(forwards.size() + 2 * backwards.size());
  size_t next_weight = 0;
  for (const Action& a : one_forward_one_backward(forwards, backwards, warmup)) {
    if (a.kind == ActionKind::forward) {
      order.push_back(a);
      continue;
    }
    order.push_back(split(a).first);
    if (lag-- <= 0) order.push_back(split(backwards[next_weight++]).second);
  }
  while (next_weight < backwards.size()) order.push_back(split(backwards[next_weight++]).second);
  return order;
}

std::vector<ChunkStep> grouped_steps(int64_t chunks, int64_t microbatches, int64_t group) {
  std::vector<ChunkStep> steps;
  steps.reserve(static_cast<size_t>(chunks * microbatches));
  for (int64_t first = 0; first < microbatches; first += group) {
    const int64_t last = std::min(microbatches, first + group);
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t m = first; m < last; ++m) steps.push_back({chunk, m});
  }
  return steps;
}

int64_t microbatches_of_round(const ScheduleParams& params) {
  return params.microbatches / rounds_of(params);
}

std::optional<Diagnostic> check_rounds(std::string_view name, const ScheduleParams& params) {
  const int64_t m = params.microbatches, rounds = rounds_of(params);
  if (m % rounds == 0) {
    ParamReader in(params);
    in.expect("rounds", rounds, "max(1, microbatches / pp)");
    in.expect("microbatches_per_round", m / rounds, "microbatches / rounds");
    return in.wrong();
  }
  // Any multiple of pp is legal, so there is one on either side.
  const auto legal = [&](int64_t n) { return n % std::max<int64_t>(1, n / params.pp) == 0; };
  int64_t below = m - 1;
  while (!legal(below)) --below;
  int64_t above = m + 1;
  while (!legal(above)) ++above;
  return refusal(fmt::format(
      "{} runs max(1, microbatches / pp) = {} equal rounds, which {} microbatches do not fill; {} "
      "or {} would",
      name, rounds, m, below, above));
}

RankActions loop_actions(std::span<const ChunkStep> steps, int64_t pp, int64_t chunks,
                         int64_t rank) {
  RankActions actions;
  actions.forwards.reserve(steps.size());
  actions.backwards.reserve(steps.size());
  for (const ChunkStep& step : steps) {
    actions.forwards.push_back(forward_of(step.chunk * pp + rank, step.microbatch));
    actions.backwards.push_back(
        backward_of((chunks - 1 - step.chunk) * pp + rank, step.microbatch));
  }
  return actions;
}

Schedule one_chunk_schedule(std::string_view name, const ScheduleParams& params,
                            const std::function<int64_t(int64_t rank)>& warmup) {
  Schedule schedule = loop_schedule(name, params);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, 1, r);
    schedule.ranks[static_cast<size_t>(r)] =
        one_forward_one_backward(rank.forwards, rank.backwards, warmup(r));
  }
  return schedule;
}

}  // namespace stepcast
