// SPDX-License-Identifier: Apache-2.0
// Take a class whose layer's forward is 3 ms of kernels and then a reduce-scatter of 1 ms, which
// the next layer waits for.
//
// Time.  Of a stage of one layer and of one of two, the longest chain of ops is found that begins
// and ends on the compute stream: 3 ms, and 3 + 1 + 3 = 7 ms.  A layer more is 4 ms more, so a
// stage of n layers is at least 3 + 4 (n - 1) ms.  Passes follow each other on the compute stream,
// so a rank's list takes at least the sum of its passes; before its first forward the same
// microbatch has gone through the stages before, and after its last backward it goes back through
// them.  The step is no shorter than that of any rank.
//
// Energy.  What a stage's compute draws beyond standing idle adds up over layers, microbatches and
// GPUs; idle GPUs and hosts draw for as long as the step takes at least.
//
// Memory.  What two layers hold beside one is what each further layer holds; what a rank has in
// flight at the end of its warm-up follows from the schedule in closed form for most families of
// one chunk, looped BFS and the interleaved order, and is one microbatch at least for the others.
// Optimizer states are spread over the replicas: they are worked out for the member of the class
// that has fewest, and scaled down for the others.
#include "scenarios/search/bounds.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "job/power.h"
#include "model/replicas.h"
#include "model/shard.h"
#include "scenarios/forecast/step.h"
#include "scenarios/pricing_table.h"
#include "schedules/lower/lower.h"
#include "schedules/lower/rank_parameters.h"
#include "schedules/schedule.h"
#include "sim/check.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/program.h"
#include "sim/graph/spend.h"
#include "sim/memory/memory.h"
#include "sim/saturating.h"

namespace stepcast {
namespace {

constexpr int64_t kNotReached = std::numeric_limits<int64_t>::min();

// The longest chain of ops from the begin of the compute stream to its end.
int64_t chain_of(const Pass& pass, const Prices& prices) {
  std::array<int64_t, kStreams> at;
  at.fill(kNotReached);
  at[static_cast<size_t>(Stream::compute)] = 0;
  std::vector<int64_t> start(pass.ops.size()), end(pass.ops.size());
  for (uint32_t i = 0; i < pass.ops.size(); ++i) {
    const Op& op = pass.ops[i];
    int64_t& stream = at[static_cast<size_t>(op.stream)];
    int64_t begin = stream;
    for (const Wait& w : pass.waits.of(i)) {
      const int64_t on = w.from_start ? start[w.on] : end[w.on];
      if (on != kNotReached) begin = std::max(begin, on);
    }
    start[i] = begin;
    end[i] = begin == kNotReached
                 ? begin
                 : begin + prices.by_work[static_cast<size_t>(op.work)].time.count();
    stream = end[i];
  }
  return at[static_cast<size_t>(Stream::compute)];
}

// What one small stage takes and holds.
struct Probe {
  int64_t forward = 0, backward = 0, kept = 0;
  int64_t states = 0, dense_optimizer = 0, expert_optimizer = 0, workspace = 0, drawn = 0;

  ClassCosts::Ends less(const Probe& o) const {
    return {forward - o.forward,
            backward - o.backward,
            kept - o.kept,
            states - o.states,
            dense_optimizer - o.dense_optimizer,
            expert_optimizer - o.expert_optimizer,
            drawn - o.drawn};
  }
};

// What the ops of the compute stream draw beyond a GPU that stands idle, in microjoules.
int64_t drawn_by(const OpGraph& graph, const Pass& pass, const Prices& prices, const Gpu& gpu) {
  const std::optional<double> idle = gpu_watts(gpu, Draw::idle);
  if (!idle) return 0;
  double microjoules = 0;
  for (const Op& op : pass.ops) {
    if (op.stream != Stream::compute) continue;
    const auto work = static_cast<size_t>(op.work);
    const double watts = *gpu_watts(gpu, draw_of(spend_of(graph.works[work], op.phase))) - *idle;
    microjoules += to_seconds(prices.by_work[work].time) * std::max(0.0, watts) * 1e6;
  }
  return static_cast<int64_t>(std::min(microjoules, 1e15));
}

bool has_pairs(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, [](const Action& a) { return a.overlaps_next; });
  });
}

bool has_weight_gradients(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(
        list, [](const Action& a) { return a.kind == ActionKind::backward_weight; });
  });
}

// Whether a layer more does not always take as much more: in pairs each half hides what the other
// waits for, ZeRO-2 reduces gradients in buckets, and copies to the host are of the first layers
// alone.  Then only what the compute stream itself does adds up.
bool is_uneven(const Scenario& s) {
  return has_pairs(s.schedule) || s.plan.zero == 2 || s.plan.offload.activation_layers > 0;
}

// Whether some backwards are whole and others I and W, as with zb-h1-quickstart.
bool mixes_backwards(const Schedule& schedule) {
  bool whole = false;
  for (const std::vector<Action>& list : schedule.ranks)
    for (const Action& a : list) whole = whole || a.kind == ActionKind::backward;
  return whole && has_weight_gradients(schedule);
}

class Prober {
 public:
  Prober(const Scenario& scenario, BoundCaches& caches)
      : scenario_(scenario),
        caches_(caches),
        splits_(has_weight_gradients(scenario.schedule)),
        mixes_(mixes_backwards(scenario.schedule)),
        compute_only_(is_uneven(scenario)) {}

  bool splits() const { return splits_; }

  // Nothing if an op takes longer than can be counted.
  std::optional<std::vector<Probe>> probe(std::vector<StageContent> contents) {
    if (!mixes_) return probe(std::move(contents), splits_);
    // A backward takes and draws no less than the cheaper form.
    std::optional<std::vector<Probe>> out = probe(contents, true);
    const std::optional<std::vector<Probe>> whole = probe(std::move(contents), false);
    if (!out || !whole) return {};
    for (size_t i = 0; i < out->size(); ++i) {
      (*out)[i].backward = std::min((*out)[i].backward, (*whole)[i].backward);
      (*out)[i].drawn = std::min((*out)[i].drawn, (*whole)[i].drawn);
    }
    return out;
  }

 private:
  std::optional<std::vector<Probe>> probe(std::vector<StageContent> contents, bool splits) {
    Plan plan = scenario_.plan;
    const auto count = static_cast<int64_t>(contents.size());
    plan.stages = std::move(contents);
    std::vector<uint16_t> rank_of_stage(static_cast<size_t>(count));
    std::iota(rank_of_stage.begin(), rank_of_stage.end(), uint16_t{0});
    const Schedule schedule =
        all_forwards_then_backwards(std::move(rank_of_stage), count, 2 * count, splits);
    const StepParts parts = lower_parts(scenario_.model, plan, schedule, &caches_.passes);
    const std::optional<Prices> prices =
        prices_of_parts(parts.graph, scenario_, pricing_table(scenario_).table, caches_.prices);
    if (!prices) return {};
    const Shard shard(scenario_.model, plan);
    const RankParameters held(shard, schedule);
    std::vector<Probe> out;
    for (int64_t r = 0; r < count; ++r) {
      Probe p;
      const StagePasses& passes = parts.passes[static_cast<size_t>(r)];
      const auto pass = [&](PassId id) -> const Pass& {
        return parts.graph.passes[static_cast<size_t>(id)];
      };
      const auto least = [&](std::initializer_list<PassId> versions) {
        int64_t time = std::numeric_limits<int64_t>::max();
        for (const PassId id : versions)
          if (id != kNoPass)
            time = std::min(time, compute_only_ ? compute_time(pass(id), *prices).count()
                                                : chain_of(pass(id), *prices));
        return time == std::numeric_limits<int64_t>::max() ? 0 : time;
      };
      p.forward = least({passes.forward});
      p.backward = splits ? least({passes.input_gradient}) +
                                least({passes.weight_gradient, passes.last_weight_gradient})
                          : least({passes.backward, passes.last_backward});
      const auto least_drawn = [&](std::initializer_list<PassId> versions) {
        int64_t drawn = std::numeric_limits<int64_t>::max();
        for (const PassId id : versions)
          if (id != kNoPass)
            drawn = std::min(drawn,
                             drawn_by(parts.graph, pass(id), *prices, scenario_.cluster.node.gpu));
        return drawn == std::numeric_limits<int64_t>::max() ? 0 : drawn;
      };
      p.drawn = least_drawn({passes.forward}) +
                (splits ? least_drawn({passes.input_gradient}) +
                              least_drawn({passes.weight_gradient, passes.last_weight_gradient})
                        : least_drawn({passes.backward, passes.last_backward}));
      p.kept = bytes_of(parts.graph, pass(passes.forward)).left.value;
      int64_t dense = 0, experts = 0;
      const ParameterParts parameters = held.parts_of(r);
      dense = parameters.all[0].share;
      if (parameters.count > 1) experts = parameters.all[1].share;
      for (const StaticMemory& m : static_memory(parts.graph, held, parts.passes, r)) {
        if (m.by_tensor) continue;  // comes with the backwards
        if (m.category == MemoryCategory::workspace) {
          p.workspace += m.bytes.value;
        } else if (m.category == MemoryCategory::optimizer_state) {
          p.dense_optimizer += m.bytes.value;  // of both, divided below
        } else {
          p.states += m.bytes.value;
        }
      }
      if (dense + experts > 0) {
        const double share = static_cast<double>(experts) / static_cast<double>(dense + experts);
        p.expert_optimizer = static_cast<int64_t>(static_cast<double>(p.dense_optimizer) * share);
        p.dense_optimizer -= p.expert_optimizer;
      }
      out.push_back(p);
    }
    return out;
  }

  const Scenario& scenario_;
  BoundCaches& caches_;
  const bool splits_, mixes_, compute_only_;
};

// The layers of the model in order, as the plan's stages have them.
std::vector<LayerKind> kinds_of(const Scenario& s) {
  std::vector<LayerKind> kinds;
  for (const StageContent& stage : s.plan.stages)
    for (int64_t i = 0; i < stage.layers; ++i)
      kinds.push_back(stage.kinds.empty() ? layer_kind(s.model, 0)
                                          : stage.kinds[static_cast<size_t>(i)]);
  return kinds;
}

bool is_bounded(const Scenario& s) {
  return s.model.encoder_layers == 0 && !s.plan.teacher && s.schedule.seq_splits == 1 &&
         !s.schedule.is_bidirectional() && !s.plan.splits_vocabulary() && !s.to_make;
}

ClassCosts costs_of(const Scenario& s, BoundCaches& caches) {
  ClassCosts out;
  if (!is_bounded(s)) return out;
  Prober prober(s, caches);
  out.splits = prober.splits();
  const std::vector<LayerKind> layers = kinds_of(s);
  if (layers.empty()) return out;
  std::vector<LayerKind> kinds;
  for (const LayerKind& k : layers)
    if (std::ranges::count(kinds, k) == 0) kinds.push_back(k);
  const bool named =
      std::ranges::any_of(s.plan.stages, [](const StageContent& c) { return !c.kinds.empty(); });
  const auto stage = [&](const LayerKind& kind, int64_t count) {
    StageContent c;
    c.layers = count;
    if (named) c.kinds.assign(static_cast<size_t>(count), kind);
    return c;
  };
  std::vector<StageContent> contents;
  for (const LayerKind& k : kinds) {
    contents.push_back(stage(k, 1));
    contents.push_back(stage(k, 2));
  }
  const size_t ends = contents.size();
  StageContent first = stage(layers.front(), 1), last = stage(layers.back(), 1);
  first.embedding = last.head = true;
  last.predictions = s.plan.stages.back().predictions;
  StageContent both = first;
  both.head = true;
  both.predictions = last.predictions;
  contents.push_back(first);
  contents.push_back(last);
  contents.push_back(both);
  const std::optional<std::vector<Probe>> probes = prober.probe(std::move(contents));
  if (!probes) return out;
  const auto kind_at = [&](const LayerKind& k) {
    return static_cast<size_t>(std::ranges::find(kinds, k) - kinds.begin());
  };
  const auto one = [&](size_t k) -> const Probe& { return (*probes)[2 * k]; };
  const auto more = [&](size_t k) { return (*probes)[2 * k + 1].less(one(k)); };

  const auto sums = [&](int64_t ClassCosts::Ends::*field, std::vector<int64_t>& to) {
    to.assign(1, 0);
    for (const LayerKind& k : layers)
      to.push_back(saturating_sum(to.back(), more(kind_at(k)).*field));
  };
  using Ends = ClassCosts::Ends;
  sums(&Ends::forward, out.forward);
  sums(&Ends::backward, out.backward);
  sums(&Ends::kept, out.kept);
  sums(&Ends::states, out.states);
  sums(&Ends::dense_optimizer, out.dense_optimizer);
  sums(&Ends::expert_optimizer, out.expert_optimizer);
  sums(&Ends::drawn, out.drawn);

  // What a stage of one layer has beside it, negative where a chain lacks its last transfer: of
  // several kinds the least.
  out.workspace = std::numeric_limits<int64_t>::max();
  for (const Probe& p : *probes) out.workspace = std::min(out.workspace, p.workspace);
  const auto beside = [](const Probe& p, const Ends& layer) {
    return Ends{p.forward - layer.forward,
                p.backward - layer.backward,
                p.kept - layer.kept,
                p.states - layer.states,
                p.dense_optimizer - layer.dense_optimizer,
                p.expert_optimizer - layer.expert_optimizer,
                p.drawn - layer.drawn};
  };
  const auto lesser = [](const Ends& a, const Ends& b) {
    return Ends{std::min(a.forward, b.forward),
                std::min(a.backward, b.backward),
                std::min(a.kept, b.kept),
                std::min(a.states, b.states),
                std::min(a.dense_optimizer, b.dense_optimizer),
                std::min(a.expert_optimizer, b.expert_optimizer),
                std::min(a.drawn, b.drawn)};
  };
  out.inner = beside(one(0), more(0));
  for (size_t k = 1; k < kinds.size(); ++k) out.inner = lesser(out.inner, beside(one(k), more(k)));
  out.embedding = beside((*probes)[ends], more(kind_at(layers.front())));
  out.head = beside((*probes)[ends + 1], more(kind_at(layers.back())));
  out.both = beside((*probes)[ends + 2], more(kind_at(layers.front())));
  if (kinds.size() > 1) {  // other layers of the stage may have less beside them
    const Ends least = out.inner;
    const auto correct = [&](Ends& e, size_t k) {
      const Ends own = beside(one(k), more(k));
      e = {e.forward - own.forward + least.forward,
           e.backward - own.backward + least.backward,
           e.kept - own.kept + least.kept,
           e.states - own.states + least.states,
           e.dense_optimizer - own.dense_optimizer + least.dense_optimizer,
           e.expert_optimizer - own.expert_optimizer + least.expert_optimizer,
           e.drawn - own.drawn + least.drawn};
    };
    correct(out.embedding, kind_at(layers.front()));
    correct(out.head, kind_at(layers.back()));
    correct(out.both, kind_at(layers.front()));
  }
  out.dense_shards = dense_replicas(s.plan).shards;
  out.expert_shards = expert_replicas(s.plan).shards;
  out.keeps_add_up =
      s.plan.offload.activation_layers == 0 &&
      !(s.plan.recompute == Recompute::full && s.plan.recompute_method == RecomputeMethod::block);
  out.ends_apart = s.post_validation;
  out.known = true;
  return out;
}

}  // namespace

OrderTraits order_traits(const ScheduleFamily& family) {
  OrderTraits traits{true, true};
  for (const int64_t vpp : {1, 2}) {
    const ScheduleParams params{2, vpp, 4, 0, {}};  // a pipeline that suits every family
    if (check_params(family, params)) continue;
    const Schedule schedule = generate_schedule(family, params);
    if (schedule.is_bidirectional() || schedule.seq_splits > 1) traits.loop = false;
    for (size_t s = 0; s < schedule.rank_of_stage.size(); ++s)
      if (schedule.rank_of_stage[s] != s % 2) traits.loop = false;
    if (has_pairs(schedule)) traits.as_1f1b = false;
    for (const std::vector<Action>& list : schedule.ranks)
      for (const Action& a : list)
        if (a.kind != ActionKind::forward && a.kind != ActionKind::backward) traits.as_1f1b = false;
  }
  traits.as_1f1b = traits.as_1f1b && traits.loop;
  return traits;
}

void least_in_flight(std::string_view family, int64_t pp, int64_t vpp, int64_t microbatches,
                     int64_t rank, std::vector<int64_t>& out) {
  out.assign(static_cast<size_t>(vpp), 1);
  if (family == "gpipe" || family == "looped-bfs") {
    out.assign(static_cast<size_t>(vpp), microbatches);
  } else if (family == "1f1b" || family == "zb-h1" || family == "zb-h1-quickstart") {
    out[0] = std::min(pp - rank, microbatches);
  } else if (family == "eager-1f1b" || family == "zb-h2") {
    out[0] = std::min(2 * (pp - rank) - 1, microbatches);
  } else if (family == "interleaved-1f1b") {
    // Megatron-LM's warm-up: (pp - rank - 1) * 2 + (vpp - 1) * pp passes, and one more forward.  Of
    // a last group with fewer microbatches nothing is counted.
    const int64_t whole = microbatches / pp * pp * vpp;
    const int64_t forwards = std::min(whole, (pp - rank - 1) * 2 + (vpp - 1) * pp + 1);
    std::fill(out.begin(), out.end(), 0);
    const int64_t round = pp * vpp;
    for (int64_t c = 0; c < vpp; ++c) {
      const int64_t rest = forwards % round - c * pp;
      out[static_cast<size_t>(c)] = forwards / round * pp + std::clamp<int64_t>(rest, 0, pp);
    }
  }
}

LayoutBounds::LayoutBounds(const SearchSpace& space, std::span<const Layout> layouts)
    : space_(space), layouts_(layouts) {
  using Key = std::array<int64_t, 11>;
  std::map<Key, uint32_t> classes;
  for (const std::string& name : space.schedules())
    orders_.push_back(order_traits(*find_schedule_family(name)));
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Layout& l = layouts[i];
    const bool common = l.pp == 1 || orders_[l.schedule].as_1f1b;
    // Other orders of the ranks put what a class has in common at other distances.
    const auto& order = space.places()[l.place].scenario->plan.grid.order;
    const bool pp_inside = order.back() != Axis::pp;
    const Key key{l.place,
                  l.tp,
                  l.cp,
                  l.ep,
                  l.etp,
                  l.micro,
                  l.recompute,
                  l.zero,
                  l.zero >= 2 ? space.dp_of(l) : 0,
                  pp_inside ? l.pp : std::min<int64_t>(l.pp, 2),
                  common
                      ? (space.places()[l.place].scenario->plan.overlap.ep && l.vpp > 1 ? -2 : -1)
                      : l.schedule};
    const auto [it, fresh] = classes.try_emplace(key, static_cast<uint32_t>(members_.size()));
    if (fresh) members_.emplace_back();
    members_[it->second].push_back(static_cast<uint32_t>(i));
    class_of_.push_back(it->second);
  }
  costs_.resize(members_.size());
}

void LayoutBounds::prepare(size_t cls, BoundCaches& caches) {
  // Fewest replicas first: their optimizer states are scaled down for the others.  Some may be
  // illegal after all.
  std::vector<uint32_t> members = members_[cls];
  std::ranges::stable_sort(members, std::greater<>{},
                           [&](uint32_t i) { return int64_t{layouts_[i].pp}; });
  constexpr size_t kMostTried = 8;
  if (members.size() > kMostTried) members.resize(kMostTried);
  const int64_t least_dp = space_.dp_of(layouts_[members.front()]);
  for (const uint32_t i : members) {
    const Layout& l = layouts_[i];
    if (space_.dp_of(l) != least_dp && l.zero == 1) break;
    // Costs of a class do not depend on how many microbatches there are, but a scenario's transfers
    // are resolved one by one: of a step of thousands that takes longer than all that follows.
    constexpr int64_t kRounds = 2;
    const int64_t microbatches = std::min(kRounds * l.pp, space_.microbatches_of(l));
    const auto resolved = space_.scenario(l, microbatches);
    const Scenario* scenario = std::get_if<Scenario>(&resolved);
    if (scenario == nullptr) continue;
    if (caches.place != layouts_[i].place) {
      caches.prices = {};
      caches.place = layouts_[i].place;
    }
    costs_[cls] = costs_of(*scenario, caches);
    return;
  }
}

LayoutBound LayoutBounds::of(size_t layout) const {
  const Layout& l = layouts_[layout];
  const ClassCosts& c = costs_[class_of_[layout]];
  if (!c.known) return {};
  const std::vector<int64_t> layers = space_.layers_of_stages(l);
  const auto stages = static_cast<int64_t>(layers.size());
  const std::string& schedule = space_.schedules()[l.schedule];
  const int64_t pp = l.pp, vpp = l.vpp, microbatches = space_.microbatches_of(l);
  const bool loop = pp == 1 || orders_[l.schedule].loop;
  const double dense = l.zero == 0 ? 1
                                   : static_cast<double>(c.dense_shards) /
                                         static_cast<double>(space_.dp_of(l) * l.cp);
  const double expert =
      l.zero == 0
          ? 1
          : static_cast<double>(c.expert_shards) /
                static_cast<double>(int64_t{l.tp} * l.cp * space_.dp_of(l) / (l.ep * l.etp));

  struct Stage {
    int64_t forward = 0, backward = 0, kept = 0, held = 0, drawn = 0;
  };
  std::vector<Stage> all(static_cast<size_t>(stages));
  int64_t begin = 0;
  for (int64_t s = 0; s < stages; ++s) {
    const int64_t end = begin + layers[static_cast<size_t>(s)];
    const bool embedding = s == 0, head = s + 1 == stages;
    // Both on one rank share a tied embedding; where they are apart each counts its own.
    const ClassCosts::Ends& ends = embedding && head ? c.both
                                   : embedding       ? c.embedding
                                   : head && loop    ? c.head
                                                     : c.inner;
    const auto sum = [&](const std::vector<int64_t>& of, int64_t beside) {
      return std::max<int64_t>(
          0, of[static_cast<size_t>(end)] - of[static_cast<size_t>(begin)] + beside);
    };
    Stage& stage = all[static_cast<size_t>(s)];
    if (begin < end) {
      stage.forward = sum(c.forward, ends.forward);
      stage.backward = sum(c.backward, ends.backward);
      stage.kept = sum(c.kept, ends.kept);
      stage.drawn = sum(c.drawn, ends.drawn);
      const auto part = [](int64_t bytes, double share) {
        return static_cast<int64_t>(static_cast<double>(bytes) * share);
      };
      stage.held = sum(c.states, ends.states) +
                   part(sum(c.dense_optimizer, ends.dense_optimizer), std::min(1.0, dense)) +
                   part(sum(c.expert_optimizer, ends.expert_optimizer), std::min(1.0, expert));
    }
    begin = end;
  }

  LayoutBound out;
  double drawn = 0;
  for (const Stage& stage : all) drawn += static_cast<double>(stage.drawn);
  // A little less, for what rounding adds.
  out.joules = drawn * 1e-6 * 0.9999 * static_cast<double>(microbatches) *
               static_cast<double>(int64_t{l.tp} * l.cp * space_.dp_of(l));
  std::vector<int64_t> in_flight(static_cast<size_t>(vpp), 1);
  int64_t forwards_before = 0, backwards_before = 0;
  for (int64_t r = 0; r < pp; ++r) {
    int64_t busy = 0, memory = c.workspace;
    if (loop) {
      if (pp > 1) least_in_flight(schedule, pp, vpp, microbatches, r, in_flight);
      for (int64_t chunk = 0; chunk < vpp; ++chunk) {
        const Stage& stage = all[static_cast<size_t>(chunk * pp + r)];
        busy = saturating_sum(busy, saturating_sum(stage.forward, stage.backward));
        memory = saturating_sum(memory, stage.held);
        if (c.keeps_add_up)
          memory = saturating_sum(
              memory, saturating_product(in_flight[static_cast<size_t>(chunk)], stage.kept));
      }
      int64_t time = saturating_product(busy, microbatches);
      if (!c.ends_apart) time = saturating_sum(time, forwards_before);
      if (!c.ends_apart && !c.splits) time = saturating_sum(time, backwards_before);
      out.time = std::max(out.time, Time{time});
      forwards_before = saturating_sum(forwards_before, all[static_cast<size_t>(r)].forward);
      backwards_before = saturating_sum(backwards_before, all[static_cast<size_t>(r)].backward);
    } else {
      // Wherever its stages are, some rank has at least the mean, and some one holds that of the
      // states.
      int64_t sum = 0, held = 0;
      for (const Stage& stage : all) {
        sum = saturating_sum(sum, saturating_sum(stage.forward, stage.backward));
        held = saturating_sum(held, stage.held);
      }
      memory = saturating_sum(memory, held / pp);
      r = pp;
      out.time = std::max(out.time, Time{saturating_product(sum / pp, microbatches)});
    }
    // Shares are rounded up to whole numbers of parameters, a few of which more or less are not
    // worth being exact about.
    constexpr int64_t kRounding = int64_t{1} << 20;
    out.memory = std::max(out.memory, Bytes{std::max<int64_t>(0, memory - kRounding)});
  }
  return out;
}

}  // namespace stepcast
