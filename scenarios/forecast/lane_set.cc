// SPDX-License-Identifier: Apache-2.0
// From what `perturb` says of ranks and links to the LaneSet of the lanes engine.
//
// Take four ranks, tp = 2 and dp = 2, two GPUs a node, and `perturb: [{where: rank 1, compute:
// 0.8}, {where: node 1, bw: 0.5}]`:
//
//      lane   rank      node   slowness     group along tp   group along dp
//      0      tp0 dp0   0      1            {0, 1}           {0, 2}
//      1      tp1 dp0   0      1 / 0.8      {0, 1}           {1, 3}
//      2      tp0 dp1   1      1            {2, 3}           {0, 2}
//      3      tp1 dp1   1      1            {2, 3}           {1, 3}
//
// 1. Slowness is per lane: 1.25 for lane 1.
// 2. Groups along tp have both ranks on one node and use NVLinks; groups along dp have them on two
//    nodes and use NICs.  The slow NICs of node 1 are in no group along tp, and in both along dp.
// 3. So all lanes are in class 1 along dp, the class of the state "half the bandwidth of the NICs",
//    and in class 0, sound links, along tp.  Class 1 is priced by asking the model what each work
//    costs on a cluster all of whose NICs have half the bandwidth.
// 4. Had a group members in two states for a while (windows), it would be as bad as both: the join
//    of two classes is a class, too, and priced alike.  Classes are found before any is priced, and
//    numbered so that the worse have higher numbers.
#include "scenarios/forecast/lane_set.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/forecast/perturbed_ranks.h"
#include "scenarios/forecast/step.h"
#include "sim/diagnostic.h"
#include "topology/cluster/fabric.h"

namespace stepcast {
namespace {

// ------------------------------------------------------- which lanes communicate, and over what

// Groups along an axis: of a collective of a pass, within one role; of a rendezvous, over several.
struct GroupKind {
  Axis axis = Axis::none;
  std::vector<uint32_t> roles;  // ascending
  auto operator<=>(const GroupKind&) const = default;
};

void add_collectives(const OpGraph& graph, const Pass& pass, uint32_t role,
                     std::set<GroupKind>& kinds) {
  for (const Op& op : pass.ops) {
    const Work& work = graph.works[static_cast<size_t>(op.work)];
    if (is_communication(work.kind) && work.axis != Axis::none) kinds.insert({work.axis, {role}});
  }
}

// The kinds that the graph has, each once.
std::vector<GroupKind> group_kinds_of(const OpGraph& graph) {
  std::set<GroupKind> kinds;
  std::vector<std::set<uint32_t>> roles_of(graph.rendezvous.size());
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    std::vector<bool> seen(graph.passes.size());
    for (const Item& item : graph.roles[role].items) {
      const auto pass = static_cast<size_t>(item.pass);
      if (item.kind == ItemKind::post || item.kind == ItemKind::join) {
        roles_of[static_cast<size_t>(item.rendezvous)].insert(role);
      } else if (item.kind == ItemKind::pass && !seen[pass]) {
        seen[pass] = true;
        add_collectives(graph, graph.passes[pass], role, kinds);
      }
    }
  }
  for (size_t i = 0; i < roles_of.size(); ++i) {
    const Axis axis = graph.works[static_cast<size_t>(graph.rendezvous[i].work)].axis;
    if (axis != Axis::none) kinds.insert({axis, {roles_of[i].begin(), roles_of[i].end()}});
  }
  return {kinds.begin(), kinds.end()};
}

// [axis][role][lane]: over what the lane meets others along the axis; empty: it never does.
using LinksUsedByLane = std::array<std::vector<std::vector<LinksUsed>>, kAxes>;

// `node_of`[role][lane].
LinksUsedByLane link_uses(const std::vector<GroupKind>& kinds, const std::vector<LaneDigit>& digits,
                          const std::vector<std::vector<int64_t>>& node_of) {
  LinksUsedByLane uses;
  for (const GroupKind& kind : kinds) {
    const std::vector<int64_t> first = first_of_group(digits, kind.axis);
    std::vector<std::vector<int64_t>> nodes(first.size());  // by first lane of a group
    for (size_t lane = 0; lane < first.size(); ++lane) {
      for (const uint32_t role : kind.roles)
        nodes[static_cast<size_t>(first[lane])].push_back(node_of[role][lane]);
    }
    std::vector<LinksUsed> use(first.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].empty()) continue;
      std::ranges::sort(nodes[i]);
      if (nodes[i].front() != nodes[i].back()) use[i] |= kUsesNics;
      if (std::ranges::adjacent_find(nodes[i]) != nodes[i].end()) use[i] |= kUsesNvlinks;
    }
    auto& of_axis = uses[static_cast<size_t>(kind.axis)];
    of_axis.resize(node_of.size(), std::vector<LinksUsed>(first.size()));
    for (const uint32_t role : kind.roles) {
      for (size_t lane = 0; lane < first.size(); ++lane)
        of_axis[role][lane] |= use[static_cast<size_t>(first[lane])];
    }
  }
  return uses;
}

// ------------------------------------------------------------------------------- classes of links

// States of links that can come together in a group, and their joins.
class LinkClasses {
 public:
  // `file`: of the scenario, for the message.
  explicit LinkClasses(std::string file);

  // Number of a state; 0 is sound.  Throws InputError E130 beyond 255 others.
  uint8_t of(const LinkState& state);
  // Adds the joins of all of them, by twos, threes, ...: those that meet in one group.
  void add_joins(std::vector<uint16_t> classes);

  // Numbers the states anew, the worse ones higher; returns the new number of each.
  std::vector<uint8_t> put_in_order();
  // By number, from 0.
  const std::vector<LinkState>& states() const { return states_; }
  // As LaneSet::join; where two never meet, the higher.
  std::vector<uint8_t> join_table() const;

 private:
  std::string file_;
  std::vector<LinkState> states_;
  std::map<LinkState, uint8_t> number_;
  std::set<std::vector<uint16_t>> joined_;
};

Cluster degraded(Cluster c, const LinkState& state) {
  c.fabric.tiers = fabric_tiers(c);
  double sound = 1, product = 1;  // of the tiers so far: ratios of nested tiers multiply
  for (Tier& t : c.fabric.tiers) {
    if (state.nic == 1) break;
    sound *= std::max(1.0, t.oversubscription);
    const double now = std::max(1.0, sound * state.nic);
    t.oversubscription = now / product;
    product = now;
  }
  c.node.nic_bandwidth.value *= state.nic;
  c.node.nic_latency += state.nic_latency;
  c.node.intra_bandwidth.value *= state.nvlink;
  c.node.intra_latency += state.nvlink_latency;
  return c;
}

// `plain` leaves out in-situ parameters, and so does `modelled`: what they add to a price follows
// the time that its bytes flow, as apply_in_situ() has it.
std::vector<int64_t> prices_in(const Scenario& plain, const OpGraph& graph, const Prices& prices,
                               const Prices& modelled, const LinkState& state) {
  const Prices slow = price_on(degraded(plain.cluster, state), graph, plain, nullptr);
  const auto ps_of = [](Time t) { return static_cast<double>(t.count()); };
  std::vector<int64_t> ps;
  for (size_t w = 0; w < graph.works.size(); ++w) {
    const Price &now = prices.by_work[w], &model = modelled.by_work[w], &then = slow.by_work[w];
    ps.push_back(now.time.count());
    const bool slower = model.time > Time{} && then.time > model.time;
    if (!is_communication(graph.works[w].kind) || !slower) continue;
    const double sound = ps_of(now.time - now.in_situ);
    const double time = sound * (ps_of(then.time) / ps_of(model.time));
    const double flow = sound - ps_of(now.latency);
    const double added =
        flow > 0 ? ps_of(now.in_situ) * std::max(0.0, time - ps_of(then.latency)) / flow : 0;
    ps.back() = static_cast<int64_t>(time + added + 0.5);
  }
  return ps;
}

LinkClasses::LinkClasses(std::string file) : file_(std::move(file)) {
  of(LinkState{});
}

uint8_t LinkClasses::of(const LinkState& state) {
  const auto [at, fresh] = number_.try_emplace(state, static_cast<uint8_t>(states_.size()));
  if (!fresh) return at->second;
  if (states_.size() > UINT8_MAX)
    throw file_error(
        "E130", "more than 255 kinds of slow links, or of such that meet in a group, are too many",
        file_, "give several links the same factor and latency");
  states_.push_back(state);
  return at->second;
}

void LinkClasses::add_joins(std::vector<uint16_t> all) {
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() < 2 || !joined_.insert(all).second) return;
  for (size_t i = 1; i < all.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      const uint16_t both = of(worse_of(states_[all[i]], states_[all[k]]));
      if (std::ranges::find(all, both) == all.end()) all.push_back(both);
    }
  }
}

std::vector<uint8_t> LinkClasses::put_in_order() {
  std::vector<uint8_t> now(states_.size());
  uint8_t next = 0;
  for (auto& [state, number] : number_) {  // in order: the sound state comes first
    states_[next] = state;
    now[number] = next;
    number = next++;
  }
  joined_.clear();
  return now;
}

std::vector<uint8_t> LinkClasses::join_table() const {
  std::vector<uint8_t> table;
  for (size_t a = 0; a < states_.size(); ++a) {
    for (size_t b = 0; b < states_.size(); ++b) {
      const auto at = number_.find(worse_of(states_[a], states_[b]));
      table.push_back(at == number_.end() ? static_cast<uint8_t>(std::max(a, b)) : at->second);
    }
  }
  return table;
}

// Prices in ps of all works in each state but the first, which is sound: on a cluster whose NICs
// and NVLinks are all like those of the state.  What lies above the NICs keeps its capacity.  A
// measured price is scaled as the model says, since the measurement is of sound links.  Nothing
// costs less in a state that is worse in every respect.
std::vector<std::vector<int64_t>> degraded_prices(const Scenario& s, const OpGraph& graph,
                                                  const Prices& prices,
                                                  const std::vector<LinkState>& states) {
  Scenario plain = s;
  plain.in_situ = false;
  const Prices modelled = price_on(plain.cluster, graph, plain, nullptr);
  std::vector<std::vector<int64_t>> all;
  for (size_t i = 1; i < states.size(); ++i) {
    all.push_back(prices_in(plain, graph, prices, modelled, states[i]));
    std::vector<int64_t>& ps = all.back();
    for (size_t k = 1; k < i; ++k) {
      if (worse_of(states[i], states[k]) != states[i]) continue;
      for (size_t w = 0; w < ps.size(); ++w) ps[w] = std::max(ps[w], all[k - 1][w]);
    }
  }
  return all;
}

// ------------------------------------------------------------------------------- building the set

Slowness fixed_point(double slowness) {
  constexpr double kMost = 1 << 30;
  return static_cast<Slowness>(std::clamp(slowness * kNominal + 0.5, 1.0, kMost));
}

// The digits of the grid in the order in which lanes are numbered.
std::vector<LaneDigit> lane_digits(const RankGrid& grid) {
  std::vector<LaneDigit> digits;
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp}) {
    for (const GridDigit& d : grid.digits())
      if (d.axis == axis) digits.push_back(d);
  }
  return digits;
}

bool any_slow_links(const Scenario& s) {
  return std::ranges::any_of(s.perturb, [](const Perturbation& p) { return p.slows_links(); });
}

std::vector<std::vector<int64_t>> nodes_by_lane(const Scenario& s, const OpGraph& graph,
                                                const PerturbedRanks& ranks, int64_t lanes) {
  std::vector<std::vector<int64_t>> nodes(graph.roles.size());
  for (uint32_t role = 0; role < nodes.size(); ++role) {
    for (int64_t lane = 0; lane < lanes; ++lane)
      nodes[role].push_back(ranks.node_of(rank_of_lane(s, graph, role, lane)));
  }
  return nodes;
}

// Fills in the parts of a LaneSet.  Until all states of links are known, classes are numbered in
// the order in which they are found.
class LaneSetBuilder {
 public:
  LaneSetBuilder(const Scenario& s, const OpGraph& graph, const Prices& prices, uint64_t seed)
      : s_(s), graph_(graph), prices_(prices), ranks_(s, seed), classes_(s.file) {
    set_.digits = lane_digits(s.plan.grid);
    for (const Perturbation& p : s.perturb)
      if (p.sigma > 0 && p.each_op) set_.jitter = Jitter{p.sigma, seed};
  }

  LaneSet build() {
    fill_slowness();
    if (any_slow_links(s_)) {
      refuse_written_links();
      group_kinds_ = group_kinds_of(graph_);
      uses_ = link_uses(group_kinds_, set_.digits, nodes_by_lane(s_, graph_, ranks_, set_.lanes()));
      find_own_classes();
      find_window_classes();
      for (const GroupKind& m : group_kinds_) find_joins(m);
      number_classes();
    }
    fill_windows();
    return std::move(set_);
  }

 private:
  void refuse_written_links() const {
    if (s_.cluster.graph)
      throw file_error("E130", "slow links of a topology that is written out are not supported yet",
                       s_.file, "cluster.topology.links can state the slower bandwidths");
  }

  uint32_t roles() const { return static_cast<uint32_t>(graph_.roles.size()); }
  size_t lanes() const { return static_cast<size_t>(set_.lanes()); }
  int64_t rank(uint32_t role, size_t lane) const {
    return rank_of_lane(s_, graph_, role, static_cast<int64_t>(lane));
  }
  uint32_t kind(uint32_t role, size_t lane) const { return ranks_.kind_of(rank(role, lane)); }
  const RankKind& of_kind(uint32_t kind) const { return ranks_.kinds()[kind]; }
  LinksUsed use(size_t axis, uint32_t role, size_t lane) const {
    return uses_[axis].empty() ? LinksUsed{0} : uses_[axis][role][lane];
  }

  void fill_slowness() {
    bool any = false;
    std::vector<std::vector<Slowness>> all(roles());
    for (uint32_t role = 0; role < roles(); ++role) {
      for (size_t lane = 0; lane < lanes(); ++lane) {
        const int64_t r = rank(role, lane);
        all[role].push_back(fixed_point(ranks_.slowness(of_kind(ranks_.kind_of(r)).always, r)));
        any = any || all[role].back() != kNominal;
      }
    }
    if (any) set_.slowness = std::move(all);
  }

  // The state that a group of a role has throughout the step: the worst of its lanes' states, as
  // far as the group uses those links.
  void find_own_classes() {
    const auto slow = [](const RankKind& k) { return k.always.links != LinkState{}; };
    if (std::ranges::none_of(ranks_.kinds(), slow)) return;
    for (size_t axis = 0; axis < uses_.size(); ++axis) {
      if (uses_[axis].empty()) continue;
      const std::vector<int64_t> first = first_of_group(set_.digits, static_cast<Axis>(axis));
      std::vector<std::vector<uint8_t>> classes(roles(), std::vector<uint8_t>(lanes()));
      bool any = false;
      for (uint32_t role = 0; role < roles(); ++role) {
        std::vector<LinkState> worst(lanes());  // by first lane of a group
        for (size_t lane = 0; lane < lanes(); ++lane) {
          LinkState& of_group = worst[static_cast<size_t>(first[lane])];
          of_group = worse_of(of_group, of_kind(kind(role, lane)).always.links);
        }
        for (size_t lane = 0; lane < lanes(); ++lane) {
          const LinkState& of_group = worst[static_cast<size_t>(first[lane])];
          classes[role][lane] = classes_.of(used_part(of_group, use(axis, role, lane)));
          any = any || classes[role][lane] != 0;
        }
      }
      if (any) set_.group_class[axis] = std::move(classes);
    }
  }

  // The classes of the windows of every kind, for each set of links that ranks of the kind use.
  void find_window_classes() {
    std::vector<std::array<bool, 4>> occurs(ranks_.kinds().size());
    for (size_t axis = 0; axis < uses_.size(); ++axis) {
      if (uses_[axis].empty()) continue;
      for (uint32_t role = 0; role < roles(); ++role)
        for (size_t lane = 0; lane < lanes(); ++lane)
          occurs[kind(role, lane)][use(axis, role, lane)] = true;
    }
    window_class_.resize(occurs.size());
    for (uint32_t k = 0; k < occurs.size(); ++k) {
      for (LinksUsed use = 0; use < occurs[k].size(); ++use) {
        if (!occurs[k][use]) continue;
        std::vector<uint8_t>& classes = window_class_[k][use];
        for (const Spell& w : of_kind(k).windows)
          classes.push_back(classes_.of(used_part(w.links, use)));
        const auto slow = [](uint8_t c) { return c != 0; };
        if (std::ranges::none_of(classes, slow)) classes.clear();
      }
    }
  }

  // What a member brings to a group: its class, and the windows of its kind.
  struct Member {
    uint8_t own = 0;
    LinksUsed use = 0;
    uint32_t kind = 0;
    auto operator<=>(const Member&) const = default;
  };

  // The joins that groups of the kind come to; groups with equal members are looked at once.
  void find_joins(const GroupKind& m) {
    const auto axis = static_cast<size_t>(m.axis);
    const std::vector<int64_t> first = first_of_group(set_.digits, m.axis);
    const auto& own = set_.group_class[axis];
    std::vector<std::set<Member>> groups(lanes());  // by first lane
    for (size_t lane = 0; lane < lanes(); ++lane) {
      for (const uint32_t role : m.roles) {
        Member member{own.empty() ? uint8_t{0} : own[role][lane], use(axis, role, lane),
                      kind(role, lane)};
        if (window_class_[member.kind][member.use].empty()) member = {.own = member.own};
        if (member != Member{}) groups[static_cast<size_t>(first[lane])].insert(member);
      }
    }
    for (std::set<Member>& members : groups)
      if (!members.empty() && seen_.insert(members).second) find_joins(members);
  }

  void find_joins(const std::set<Member>& members) {
    struct Change {
      Time at{};
      uint8_t link_class = 0;
      int by = 0;
      bool operator<(const Change& other) const { return at < other.at; }
    };
    std::vector<int> holding(classes_.states().size());  // how many, by class
    std::vector<Change> changes;
    for (const Member& m : members) {
      ++holding[m.own];
      const std::vector<uint8_t>& classes = window_class_[m.kind][m.use];
      for (size_t i = 0; i < classes.size(); ++i) {
        const Spell& w = of_kind(m.kind).windows[i];
        changes.push_back({w.from, classes[i], 1});
        changes.push_back({w.until, classes[i], -1});
      }
    }
    std::ranges::sort(changes, {}, &Change::at);
    for (size_t i = 0; i <= changes.size(); ++i) {
      if (i == 0 || i == changes.size() || changes[i].at != changes[i - 1].at) {
        std::vector<uint16_t> now;
        for (size_t c = 1; c < holding.size(); ++c)
          if (holding[c] > 0) now.push_back(static_cast<uint16_t>(c));
        classes_.add_joins(std::move(now));
      }
      if (i < changes.size()) holding[changes[i].link_class] += changes[i].by;
    }
  }

  // Once all classes are known, so that the worse have higher numbers.
  void number_classes() {
    const std::vector<uint8_t> now = classes_.put_in_order();
    const auto renumber = [&](std::vector<uint8_t>& classes) {
      for (uint8_t& c : classes) c = now[c];
    };
    for (auto& by_use : window_class_) std::ranges::for_each(by_use, renumber);
    for (auto& axis : set_.group_class) std::ranges::for_each(axis, renumber);
    if (classes_.states().size() == 1) return;
    set_.class_ps = degraded_prices(s_, graph_, prices_, classes_.states());
    set_.join = classes_.join_table();
  }

  std::vector<LaneWindow> windows_of(uint32_t role, size_t lane) const {
    const int64_t r = rank(role, lane);
    const uint32_t kind = ranks_.kind_of(r);
    std::vector<LaneWindow> list;
    const std::vector<Spell>& spells = of_kind(kind).windows;
    for (size_t i = 0; i < spells.size(); ++i) {
      const Spell& spell = spells[i];
      LaneWindow w{spell.from, spell.until, fixed_point(ranks_.slowness(spell, r)), {}};
      for (size_t axis = 0; axis < w.link_class.size() && !window_class_.empty(); ++axis) {
        const std::vector<uint8_t>& classes = window_class_[kind][use(axis, role, lane)];
        if (!classes.empty()) w.link_class[axis] = classes[i];
      }
      const auto slow = [](uint8_t c) { return c != 0; };
      if (w.slowness != kNominal || std::ranges::any_of(w.link_class, slow)) list.push_back(w);
    }
    return list;
  }

  // Lanes of one kind that use their links alike share a list, unless theirs are drawn.
  void fill_windows() {
    const auto windowed = [](const RankKind& k) { return !k.windows.empty(); };
    if (std::ranges::none_of(ranks_.kinds(), windowed)) return;
    using Key = std::tuple<uint32_t, int64_t, std::array<LinksUsed, kAxes>>;
    std::map<Key, uint32_t> known;
    set_.windows.resize(roles());
    for (uint32_t role = 0; role < roles(); ++role) {
      for (size_t lane = 0; lane < lanes(); ++lane) {
        const auto drawn = [](const Spell& w) { return w.drawn; };
        const int64_t r = rank(role, lane);
        Key key{ranks_.kind_of(r), -1, {}};
        if (std::ranges::any_of(of_kind(std::get<0>(key)).windows, drawn)) std::get<1>(key) = r;
        for (size_t axis = 0; axis < kAxes; ++axis) std::get<2>(key)[axis] = use(axis, role, lane);
        const auto [at, fresh] = known.try_emplace(key, known.size());
        if (fresh) set_.window_lists.push_back(windows_of(role, lane));
        set_.windows[role].push_back(at->second);
      }
    }
    const auto empty = [](const std::vector<LaneWindow>& list) { return list.empty(); };
    if (std::ranges::all_of(set_.window_lists, empty)) set_.windows.clear();
  }

  const Scenario& s_;
  const OpGraph& graph_;
  const Prices& prices_;
  PerturbedRanks ranks_;
  LaneSet set_;
  std::vector<GroupKind> group_kinds_;
  LinksUsedByLane uses_;
  LinkClasses classes_;
  // [kind][use][window]; empty instead of all sound.
  std::vector<std::array<std::vector<uint8_t>, 4>> window_class_;
  std::set<std::set<Member>> seen_;
};

}  // namespace

std::vector<int64_t> first_of_group(const std::vector<LaneDigit>& digits, Axis axis) {
  std::vector<int64_t> first{0};
  for (const LaneDigit& d : digits) {
    const auto stride = std::ssize(first);
    for (int64_t i = stride; i < stride * d.size; ++i) {
      const int64_t inner = first[static_cast<size_t>(i % stride)];
      first.push_back(covers(axis, d) ? inner : inner + i / stride * stride);
    }
  }
  return first;
}

int64_t rank_of_lane(const Scenario& scenario, const OpGraph& graph, uint32_t role, int64_t lane) {
  const RankGrid& grid = scenario.plan.grid;
  return grid.rank({lane % grid.tp, lane / grid.tp % grid.cp, lane / (grid.tp * grid.cp),
                    graph.roles[role].pipeline_rank});
}

int64_t lane_of_rank(const RankGrid& grid, int64_t rank) {
  const Coordinates at = grid.coordinates(rank);
  return at.tp + grid.tp * (at.cp + grid.cp * at.dp);
}

LaneSet lane_set(const Scenario& scenario, const OpGraph& graph, const Prices& prices,
                 uint64_t seed) {
  if (scenario.perturb.empty()) {
    LaneSet equal;
    equal.digits = lane_digits(scenario.plan.grid);
    return equal;
  }
  return LaneSetBuilder(scenario, graph, prices, seed).build();
}

int64_t ranks_on_slow_links(const Scenario& scenario, const OpGraph& graph) {
  if (!any_slow_links(scenario)) return 0;
  const PerturbedRanks ranks(scenario, scenario.seed);
  const std::vector<LaneDigit> digits = lane_digits(scenario.plan.grid);
  const RankGrid& grid = scenario.plan.grid;
  const int64_t lanes = grid.tp * grid.cp * grid.dp;
  const LinksUsedByLane uses =
      link_uses(group_kinds_of(graph), digits, nodes_by_lane(scenario, graph, ranks, lanes));
  int64_t count = 0;
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      LinksUsed use = 0;
      for (const auto& axis : uses)
        if (!axis.empty()) use |= axis[role][static_cast<size_t>(lane)];
      const RankKind& kind =
          ranks.kinds()[ranks.kind_of(rank_of_lane(scenario, graph, role, lane))];
      const auto slow = [&](const Spell& s) { return used_part(s.links, use) != LinkState{}; };
      if (slow(kind.always) || std::ranges::any_of(kind.windows, slow)) ++count;
    }
  }
  return count;
}

}  // namespace stepcast
