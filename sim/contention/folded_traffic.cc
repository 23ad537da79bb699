// SPDX-License-Identifier: Apache-2.0
// Which ranks that share links are equal, and what one of them has to put on the links for all.
//
// An example: four nodes of two GPUs each, tp 2 and dp 4, whose NICs are on one switch.  The all-
// reduce of dp goes around the four NICs of tp 0, another around those of tp 1, and each NIC also
// carries transfers of its own rank to the next stage.  Every rank has its own links, yet all see
// the same: a NIC with one all-reduce and one transfer on it.  So one lane is run instead of eight.
// Had the transfers of two ranks met on a cable behind the switch, these two would be of a kind of
// their own, and three lanes would do: one of the two, the others of their tp group, and the rest.
//
// *Kinds.*  Lanes, the groups they are in, flows and links are given kinds such that
//
//   lanes of one kind   are equal in speed, class and window in every role, and their groups of
//                       each axis are of one kind
//   groups of one kind  have as many lanes of each kind, and in each role as many flows of each
//                       kind
//   flows of one kind   are of groups of one kind, in one role, for the same works, and put as much
//                       on as many links of each kind
//   links of one kind   have one capacity, and from flows of each kind as many uses of each load
//
// (colour refinement, or an equitable partition: Cardon and Crochemore, Partitioning a graph in
// O(|A| log2 |V|), Theoretical Computer Science 19, 1982).  They are found by telling apart, again
// and again, what differs in its neighbours, until nothing more does.
//
// *Proof.*  What a step does follows from its state from moment to moment.  Suppose that up to some
// moment all of one kind had the same times, bytes left and rates; it is so at the begin.  A lane
// goes on by what it and its own groups did: alike in a kind.  A collective begins with the last
// lane of its group, which is the last of the kinds in it: alike.  The rates of flows are the only
// ones that satisfy the conditions of fair_shares.h.  Give each flow the share that filling finds
// when all flows of a kind have one share: on links of one kind the same sums of loads are then met
// by the same shares, so the conditions that hold at one of them hold at all.  Hence shares are
// alike in a kind, and with them the next end.
//
// *One for all.*  Of each kind of lanes one is run.  A collective waits for those of its group that
// are left.  A flow then stands for all flows of its kind, and puts on one link of each kind what
// all of them together put there: k flows of load w that have one share leave as much room on a
// link as one flow of load k w, to the last bit (fair_shares.h counts loads in whole numbers).
//
// *Links that are never full.*  With hashed routes two transfers may have a cable in common and
// never run at one moment.  So links are first left out, the fewer kinds that this gives are run,
// and then it is looked at whether on any link left out all flows together could ever ask for more
// than there is.  On none: with them the shares are the same, for they satisfy the same conditions,
// so the step is the step of all links.  Otherwise those links, and those that the same works load
// alike, count, and again.  (Guess, check and refine: Clarke et al., Counterexample-guided
// abstraction refinement, CAV 2000.)
//
// Of blocks of lanes that the engine runs in lockstep (the innermost digit, tp) either one lane
// stands for the block, if all of them are equal, or the whole block is kept.
//
// Kinds are told apart by sums of 128 bits of hashes of their neighbours, so two that differ are
// taken for equal once in 10^30 times.

#include "sim/contention/folded_traffic.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/check.h"
#include "sim/random.h"

namespace stepcast::contention {
namespace {

Groups groups_of(Axis axis, const std::vector<LaneDigit>& digits, uint32_t width) {
  Groups groups;
  for (const LaneDigit& d : digits) {
    if (covers(axis, d)) groups.largest *= static_cast<uint32_t>(d.size);
  }
  const uint32_t count = width / groups.largest;
  groups.of.resize(width);
  groups.lanes.resize(width);
  groups.stands_for.assign(count, 1);
  for (uint32_t g = 0; g <= count; ++g) groups.first.push_back(g * groups.largest);
  std::vector<uint32_t> filled(count);
  for (uint32_t lane = 0; lane < width; ++lane) {
    uint32_t rest = lane, group = 0, stride = 1;
    for (const LaneDigit& d : digits) {
      const auto size = static_cast<uint32_t>(d.size);
      if (!covers(axis, d)) {
        group += rest % size * stride;
        stride *= size;
      }
      rest /= size;
    }
    groups.of[lane] = group;
    groups.lanes[groups.first[group] + filled[group]++] = lane;
  }
  return groups;
}

// What is known of the neighbours of something, in any order.
struct Signature {
  uint64_t a = 0, b = 0;

  void add(uint64_t what, uint64_t how) {
    a += splitmix(splitmix(what + kSplitMixStep) + how);
    b += splitmix(splitmix(how + 2 * kSplitMixStep) + what);
  }
  auto operator<=>(const Signature&) const = default;
};

// Kinds of things of one sort, numbered from 0.
struct Kinds {
  std::vector<uint32_t> of;
  uint32_t count = 1;

  explicit Kinds(size_t things) : of(things) {}

  // Tells apart what is of one kind and has other signatures.
  void refine(const std::vector<Signature>& by) {
    order_.resize(of.size());
    for (uint32_t i = 0; i < of.size(); ++i) order_[i] = {of[i], by[i], i};
    std::ranges::sort(order_);
    count = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto& [kind, signature, thing] = order_[i];
      const bool same =
          i > 0 && kind == std::get<0>(order_[i - 1]) && signature == std::get<1>(order_[i - 1]);
      if (!same) ++count;
      of[thing] = count - 1;
    }
    if (of.empty()) count = 0;
  }

 private:
  std::vector<std::tuple<uint32_t, Signature, uint32_t>> order_;
};

// By work: the roles that run it as a collective or post it.
std::vector<std::vector<bool>> users_of_works(const OpGraph& graph) {
  std::vector<std::vector<bool>> users(graph.works.size(), std::vector<bool>(graph.roles.size()));
  std::vector<std::vector<WorkId>> of_pass;
  for (const Pass& pass : graph.passes) {
    std::vector<WorkId>& works = of_pass.emplace_back();
    for (const Op& op : pass.ops) {
      if (is_communication(graph.works[static_cast<size_t>(op.work)].kind))
        works.push_back(op.work);
    }
    std::ranges::sort(works);
    works.erase(std::unique(works.begin(), works.end()), works.end());
  }
  for (size_t r = 0; r < graph.roles.size(); ++r) {
    std::vector<bool> runs(graph.passes.size());
    for (const Item& item : graph.roles[r].items) {
      if (item.kind == ItemKind::pass) runs[static_cast<size_t>(item.pass)] = true;
      if (item.kind != ItemKind::post) continue;
      const Rendezvous& rendezvous = graph.rendezvous[static_cast<size_t>(item.rendezvous)];
      users[static_cast<size_t>(rendezvous.work)][r] = true;
    }
    for (size_t p = 0; p < runs.size(); ++p) {
      for (const WorkId w : of_pass[p]) {
        if (runs[p]) users[static_cast<size_t>(w)][r] = true;
      }
    }
  }
  return users;
}

std::vector<GroupFlow> flows_of(const OpGraph& graph, const Traffic& traffic,
                                const AxisGroups& groups, uint32_t width) {
  const std::vector<std::vector<bool>> users = users_of_works(graph);
  std::vector<GroupFlow> all;
  for (size_t w = 0; w < traffic.pattern_of.size(); ++w) {
    if (traffic.pattern_of[w].empty()) continue;
    const Axis axis = graph.works[w].axis;
    const Groups& of_axis = groups[static_cast<size_t>(axis)];
    for (uint32_t r = 0; r < graph.roles.size(); ++r) {
      if (!users[w][r]) continue;
      for (uint32_t g = 0; g < of_axis.count(); ++g) {
        const size_t rank = size_t{r} * width + of_axis.lanes_of(g).front();
        const uint32_t pattern = traffic.pattern_of[w][rank];
        if (pattern != Traffic::kPrivate) all.push_back({axis, r, g, pattern, w});
      }
    }
  }
  std::ranges::sort(all);
  std::vector<GroupFlow> flows;
  for (const GroupFlow& flow : all) {
    const auto key = [](const GroupFlow& f) {
      return std::tuple(f.axis, f.role, f.group, f.pattern);
    };
    if (flows.empty() || key(flows.back()) != key(flow)) {
      flows.push_back(flow);
      flows.back().works = 0;
    }
    flows.back().works = splitmix(flows.back().works + (flow.works + 1) * kSplitMixStep);
  }
  return flows;
}

class Refinement {
 public:
  Refinement(const OpGraph& graph, const LaneSet& lanes, const Traffic& traffic,
             const AxisGroups& groups, const std::vector<GroupFlow>& flows,
             const std::vector<bool>& counted)
      : traffic_(traffic),
        groups_(groups),
        counted_(counted),
        block_(static_cast<uint32_t>(lanes.digits.front().size)),
        flows_(flows),
        lane_(static_cast<size_t>(lanes.lanes())),
        flow_(flows_.size()),
        link_(traffic.capacity.size()) {
    for (const Work& work : graph.works) used_[static_cast<size_t>(work.axis)] = true;
    const std::vector<uint32_t> kinds = kinds_of_lanes(lanes);
    std::vector<Signature> of_lane(lane_.of.size()), of_flow(flows_.size()),
        of_link(traffic.capacity.size());
    for (size_t l = 0; l < kinds.size(); ++l) of_lane[l].add(kinds[l], 0);
    for (size_t f = 0; f < flows_.size(); ++f) {
      of_flow[f].add(flows_[f].works,
                     size_t{flows_[f].role} * kAxes + static_cast<size_t>(flows_[f].axis));
    }
    for (size_t l = 0; l < of_link.size(); ++l) {
      of_link[l].add(static_cast<uint64_t>(traffic.capacity[l]), 0);
    }
    lane_.refine(of_lane);
    flow_.refine(of_flow);
    link_.refine(of_link);
  }

  // Lanes at other places in their block are of other kinds.
  void tell_places_apart() {
    std::vector<Signature> by(lane_.of.size());
    for (size_t l = 0; l < by.size(); ++l) by[l].add(l % block_, 0);
    lane_.refine(by);
  }

  // False as soon as no two lanes are of one kind.
  bool refine() {
    for (;;) {
      const std::tuple before(lane_.count, flow_.count, link_.count);
      refine_links();
      refine_groups_and_flows();
      refine_lanes();
      if (lane_.count == lane_.of.size()) return false;
      if (std::tuple(lane_.count, flow_.count, link_.count) == before) return true;
    }
  }

  bool blocks_are_uniform() const {
    for (size_t l = 0; l < lane_.of.size(); ++l) {
      if (lane_.of[l] != lane_.of[l / block_ * block_]) return false;
    }
    return true;
  }

  const std::vector<GroupFlow>& flows() const { return flows_; }
  const Kinds& lanes() const { return lane_; }
  const Kinds& of_flows() const { return flow_; }
  const Kinds& of_links() const { return link_; }
  uint32_t group_kind(size_t axis, uint32_t group) const { return group_[axis].of[group]; }
  bool is_used(size_t axis) const { return used_[axis]; }

 private:
  void refine_links() {
    std::vector<Signature> by(link_.of.size());
    for (size_t f = 0; f < flows_.size(); ++f) {
      for (const LinkUse& use : traffic_.patterns[flows_[f].pattern]) {
        if (counted_[use.link]) by[use.link].add(flow_.of[f], uint64_t{use.load} << 32);
      }
    }
    link_.refine(by);
  }

  void refine_groups_and_flows() {
    group_.clear();
    std::array<std::vector<Signature>, kAxes> by;
    for (size_t axis = 0; axis < kAxes; ++axis) {
      by[axis].resize(groups_[axis].count());
      for (uint32_t lane = 0; lane < lane_.of.size() && used_[axis]; ++lane) {
        by[axis][groups_[axis].of[lane]].add(lane_.of[lane], 1);
      }
    }
    for (size_t f = 0; f < flows_.size(); ++f) {
      by[static_cast<size_t>(flows_[f].axis)][flows_[f].group].add(flow_.of[f], 2);
    }
    for (size_t axis = 0; axis < kAxes; ++axis) {
      group_.emplace_back(groups_[axis].count()).refine(by[axis]);
    }
    std::vector<Signature> of_flow(flows_.size());
    for (size_t f = 0; f < flows_.size(); ++f) {
      of_flow[f].add(group_[static_cast<size_t>(flows_[f].axis)].of[flows_[f].group], 3);
      for (const LinkUse& use : traffic_.patterns[flows_[f].pattern]) {
        if (counted_[use.link]) of_flow[f].add(link_.of[use.link], (uint64_t{use.load} << 32) + 4);
      }
    }
    flow_.refine(of_flow);
  }

  void refine_lanes() {
    std::vector<Signature> by(lane_.of.size()), of_block(lane_.of.size() / block_);
    for (size_t axis = 0; axis < kAxes; ++axis) {
      for (uint32_t lane = 0; lane < lane_.of.size() && used_[axis]; ++lane) {
        by[lane].add(group_[axis].of[groups_[axis].of[lane]], axis);
      }
    }
    for (size_t l = 0; l < by.size(); ++l) of_block[l / block_].add(lane_.of[l], 0);
    for (size_t l = 0; l < by.size(); ++l) {
      by[l].add(of_block[l / block_].a, kAxes);
      by[l].add(of_block[l / block_].b, kAxes + 1);
    }
    lane_.refine(by);
  }

  const Traffic& traffic_;
  const AxisGroups& groups_;
  const std::vector<bool>& counted_;
  uint32_t block_;
  const std::vector<GroupFlow>& flows_;
  Kinds lane_, flow_, link_;
  std::vector<Kinds> group_;  // by axis
  std::array<bool, kAxes> used_{};
};

// Which lanes are kept, and for which each of them stands.
FoldedLanes keep_one_of_each(const LaneSet& lanes, const Kinds& kinds, uint32_t kept_of_block) {
  const auto width = static_cast<uint32_t>(kinds.of.size());
  const auto block = static_cast<uint32_t>(lanes.digits.front().size);
  std::vector<uint32_t> kept(kinds.count, UINT32_MAX);  // by kind
  std::vector<int64_t> original;
  for (uint32_t first = 0; first < width; first += block) {
    if (kept[kinds.of[first]] != UINT32_MAX) continue;
    for (uint32_t l = first; l < first + kept_of_block; ++l) {
      kept[kinds.of[l]] = static_cast<uint32_t>(original.size());
      original.push_back(l);
    }
  }
  std::vector<LaneDigit> digits;
  if (kept_of_block > 1) digits.push_back(lanes.digits.front());
  digits.push_back({.axis = Axis::none, .size = std::ssize(original) / kept_of_block});
  FoldedLanes out;
  out.lanes = picked_lanes(lanes, std::move(digits), original);
  for (const uint32_t kind : kinds.of) {
    STEPCAST_CHECK(kept[kind] != UINT32_MAX, "blocks of one kind have lanes of the same kinds");
    out.of.push_back(kept[kind]);
  }
  out.original = std::move(original);
  return out;
}

// Groups of the lanes that are kept: one of each kind.
Groups kept_groups(const Refinement& kinds, size_t axis, const Groups& given,
                   const FoldedLanes& lanes) {
  Groups out;
  std::vector<uint32_t> number(given.count(), UINT32_MAX);  // by kind
  std::vector<uint32_t> groups_of_kind(given.count());
  for (uint32_t g = 0; g < given.count(); ++g) ++groups_of_kind[kinds.group_kind(axis, g)];
  std::vector<std::vector<uint32_t>> members;
  for (uint32_t lane = 0; lane < lanes.original.size(); ++lane) {
    const uint32_t g = given.of[static_cast<size_t>(lanes.original[lane])];
    const uint32_t kind = kinds.group_kind(axis, g);
    if (number[kind] == UINT32_MAX) {
      number[kind] = static_cast<uint32_t>(members.size());
      members.emplace_back();
      out.stands_for.push_back(groups_of_kind[kind]);
    }
    members[number[kind]].push_back(lane);
    out.of.push_back(number[kind]);
  }
  for (const std::vector<uint32_t>& of_group : members) {
    out.first.push_back(static_cast<uint32_t>(out.lanes.size()));
    out.lanes.insert(out.lanes.end(), of_group.begin(), of_group.end());
    out.largest = std::max(out.largest, static_cast<uint32_t>(of_group.size()));
  }
  out.first.push_back(static_cast<uint32_t>(out.lanes.size()));
  return out;
}

// What all flows of each kind put on the first link of each kind.  False if a sum is more than a
// load can be.
bool keep_patterns(const Refinement& kinds, const std::vector<bool>& counted, const Traffic& given,
                   Traffic& out) {
  std::vector<uint32_t> link_of(kinds.of_links().count, UINT32_MAX);  // by kind: number in `out`
  std::vector<bool> is_first(given.capacity.size());
  for (uint32_t l = 0; l < given.capacity.size(); ++l) {
    uint32_t& number = link_of[kinds.of_links().of[l]];
    if (!counted[l] || number != UINT32_MAX) continue;
    number = static_cast<uint32_t>(out.capacity.size());
    out.capacity.push_back(given.capacity[l]);
    is_first[l] = true;
  }
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> puts;  // kind of flow, link, load
  for (size_t f = 0; f < kinds.flows().size(); ++f) {
    for (const LinkUse& use : given.patterns[kinds.flows()[f].pattern]) {
      if (!is_first[use.link]) continue;
      puts.emplace_back(kinds.of_flows().of[f], link_of[kinds.of_links().of[use.link]], use.load);
    }
  }
  std::ranges::sort(puts);
  out.patterns.resize(kinds.of_flows().count);  // by kind of flow
  for (size_t i = 0; i < puts.size();) {
    const auto [flow, link, first_load] = puts[i];
    uint64_t load = 0;
    for (; i < puts.size() && std::get<0>(puts[i]) == flow && std::get<1>(puts[i]) == link; ++i)
      load += std::get<2>(puts[i]);
    if (load > UINT32_MAX) return false;
    out.patterns[flow].push_back({link, static_cast<uint32_t>(load)});
  }
  return true;
}

// Patterns of the lanes that are kept.
void number_patterns(const OpGraph& graph, const Refinement& kinds, const AxisGroups& groups,
                     const Traffic& given, const FoldedLanes& lanes, Traffic& out) {
  const size_t width = lanes.of.size(), kept = lanes.original.size();
  out.pattern_of.resize(given.pattern_of.size());
  for (size_t w = 0; w < given.pattern_of.size(); ++w) {
    if (given.pattern_of[w].empty()) continue;
    const Axis axis = graph.works[w].axis;
    const Groups& of_axis = groups[static_cast<size_t>(axis)];
    out.pattern_of[w].assign(graph.roles.size() * kept, Traffic::kPrivate);
    for (uint32_t r = 0; r < graph.roles.size(); ++r) {
      for (size_t l = 0; l < kept; ++l) {
        const uint32_t g = of_axis.of[static_cast<size_t>(lanes.original[l])];
        const uint32_t pattern = given.pattern_of[w][r * width + of_axis.lanes_of(g).front()];
        if (pattern == Traffic::kPrivate) continue;
        const auto flow =
            std::ranges::lower_bound(kinds.flows(), GroupFlow{axis, r, g, pattern, 0});
        if (flow == kinds.flows().end() || flow->axis != axis || flow->role != r ||
            flow->group != g || flow->pattern != pattern) {
          continue;  // nobody runs it
        }
        out.pattern_of[w][r * kept + l] =
            kinds.of_flows().of[static_cast<size_t>(flow - kinds.flows().begin())];
      }
    }
  }
}

}  // namespace

AxisGroups groups_of_axes(const LaneSet& lanes) {
  AxisGroups groups;
  for (size_t axis = 0; axis < kAxes; ++axis) {
    groups[axis] =
        groups_of(static_cast<Axis>(axis), lanes.digits, static_cast<uint32_t>(lanes.lanes()));
  }
  return groups;
}

TrafficFolder::TrafficFolder(const OpGraph& graph, const LaneSet& lanes, const Traffic& traffic)
    : graph_(graph),
      lanes_(lanes),
      traffic_(traffic),
      groups_(groups_of_axes(lanes)),
      flows_(flows_of(graph, traffic, groups_, static_cast<uint32_t>(lanes.lanes()))),
      counted_(traffic.capacity.size()) {
  std::vector<Signature> by(traffic.capacity.size());
  for (size_t l = 0; l < by.size(); ++l) by[l].add(static_cast<uint64_t>(traffic.capacity[l]), 0);
  for (const GroupFlow& flow : flows_) {
    for (const LinkUse& use : traffic.patterns[flow.pattern]) {
      by[use.link].add(flow.works + flow.role, use.load);
    }
  }
  Kinds likeness(by.size());
  likeness.refine(by);
  // Of these there is one for each lane, so that no lane is told from others by them: ports, say.
  std::vector<int64_t> links(likeness.count);
  for (const uint32_t kind : likeness.of) ++links[kind];
  for (size_t l = 0; l < counted_.size(); ++l) {
    counted_[l] = links[likeness.of[l]] >= lanes.lanes();
  }
  likeness_ = std::move(likeness.of);
}

std::optional<FoldedTraffic> TrafficFolder::fold() const {
  if (lanes_.jitter || lanes_.lanes() == 1) return {};
  Refinement kinds(graph_, lanes_, traffic_, groups_, flows_, counted_);
  if (!kinds.refine()) return {};
  const auto block = static_cast<uint32_t>(lanes_.digits.front().size);
  const bool uniform = kinds.blocks_are_uniform();
  if (!uniform) {
    kinds.tell_places_apart();
    if (!kinds.refine()) return {};
  }
  FoldedTraffic out;
  if (!keep_patterns(kinds, counted_, traffic_, out.traffic)) return {};
  out.traffic.latency = traffic_.latency;
  out.lanes = keep_one_of_each(lanes_, kinds.lanes(), uniform ? 1 : block);
  number_patterns(graph_, kinds, groups_, traffic_, out.lanes, out.traffic);
  for (size_t axis = 0; axis < kAxes; ++axis) {
    if (kinds.is_used(axis)) out.groups[axis] = kept_groups(kinds, axis, groups_[axis], out.lanes);
  }
  for (size_t f = 0; f < flows_.size(); ++f) {
    out.flows.emplace_back(flows_[f].pattern, kinds.of_flows().of[f]);
  }
  return out;
}

namespace {

__extension__ using Rate = __int128;  // times a load

// Flows of these kinds, each with its load: can they ask for more than the capacity at a moment?
bool can_be_full(const std::vector<std::pair<uint32_t, uint64_t>>& loads, int64_t capacity,
                 const std::vector<std::vector<FlowSpan>>& spans) {
  std::vector<std::pair<int64_t, Rate>> changes;
  for (const auto& [kind, load] : loads) {
    for (const FlowSpan& span : spans[kind]) {
      if (span.begin == span.end) continue;
      changes.emplace_back(span.begin, Rate{span.cap} * static_cast<Rate>(load));
      changes.emplace_back(span.end, -Rate{span.cap} * static_cast<Rate>(load));
    }
  }
  std::ranges::sort(changes);  // of one moment, ends first
  Rate demand = 0;
  for (const auto& [time, change] : changes) {
    demand += change;
    if (demand > Rate{capacity} * kFullLoad) return true;
  }
  return false;
}

}  // namespace

bool TrafficFolder::count_full_links(const FoldedTraffic& folded,
                                     const std::vector<FlowSpan>& flows) {
  std::vector<std::vector<FlowSpan>> spans(folded.traffic.patterns.size());
  for (const FlowSpan& span : flows) spans[span.kind].push_back(span);
  struct Put {
    uint32_t link = 0, kind = 0;
    uint64_t load = 0;
    auto operator<=>(const Put&) const = default;
  };
  std::vector<Put> puts;
  for (const auto& [pattern, kind] : folded.flows) {
    for (const LinkUse& use : traffic_.patterns[pattern]) {
      if (!counted_[use.link]) puts.push_back({use.link, kind, use.load});
    }
  }
  std::ranges::sort(puts);
  std::map<std::pair<int64_t, std::vector<std::pair<uint32_t, uint64_t>>>, bool> known;
  std::vector<bool> full(traffic_.capacity.size());  // by likeness
  bool any = false;
  for (size_t i = 0; i < puts.size();) {
    const uint32_t link = puts[i].link;
    std::vector<std::pair<uint32_t, uint64_t>> loads;
    for (; i < puts.size() && puts[i].link == link; ++i) {
      if (loads.empty() || loads.back().first != puts[i].kind) loads.emplace_back(puts[i].kind, 0);
      loads.back().second += puts[i].load;
    }
    const int64_t capacity = traffic_.capacity[link];
    const auto [at, is_new] = known.try_emplace({capacity, std::move(loads)}, false);
    if (is_new) at->second = can_be_full(at->first.second, capacity, spans);
    if (!at->second) continue;
    full[likeness_[link]] = any = true;
  }
  for (size_t l = 0; l < counted_.size(); ++l) {
    if (full[likeness_[l]]) counted_[l] = true;
  }
  return any;
}

}  // namespace stepcast::contention
