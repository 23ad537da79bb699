// SPDX-License-Identifier: Apache-2.0
#include "scenarios/lane_set.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "calibrate/price_graph.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/jitter.h"
#include "topology/fabric.h"

namespace stepcast {
namespace {

using Place = Perturbation::Place;
using Links = Perturbation::Links;

// What has become of the links of a GPU, or of the slowest of a group.
struct LinkState {
  double nic = 1, nvlink = 1;  // factors on the bandwidth
  Time nic_latency{}, nvlink_latency{};
  bool operator==(const LinkState&) const = default;
};
// Lesser is better; NICs count before NVLink.
bool operator<(const LinkState& a, const LinkState& b) {
  if (a.nic != b.nic) return a.nic > b.nic;
  if (a.nic_latency != b.nic_latency) return a.nic_latency < b.nic_latency;
  if (a.nvlink != b.nvlink) return a.nvlink > b.nvlink;
  return a.nvlink_latency < b.nvlink_latency;
}

LinkState worse_of(const LinkState& a, const LinkState& b) {
  return {std::min(a.nic, b.nic), std::min(a.nvlink, b.nvlink),
          std::max(a.nic_latency, b.nic_latency), std::max(a.nvlink_latency, b.nvlink_latency)};
}

// The parts of `s` that a group uses.
LinkState used_part(const LinkState& s, bool between_nodes, bool inside_node) {
  LinkState used;
  if (between_nodes) {
    used.nic = s.nic;
    used.nic_latency = s.nic_latency;
  }
  if (inside_node) {
    used.nvlink = s.nvlink;
    used.nvlink_latency = s.nvlink_latency;
  }
  return used;
}

// The ranks of the job with what a scenario does to them.
class Ranks {
 public:
  Ranks(const Scenario& s, uint64_t seed) : s_(s), seed_(seed) {
    for (const Perturbation& p : s.perturb)
      tables_.push_back(p.sigma > 0 && !p.each_op ? jitter_table(p.sigma) : JitterTable{});
  }

  int64_t node_of(int64_t rank) const { return s_.placement.gpu_of(rank) / s_.cluster.node.gpus; }

  // Whether perturbation `p` is about this rank; for links: whether the rank's GPU uses them.
  bool concerns(const Perturbation& p, int64_t rank) const {
    const auto in = [&](int64_t n) { return n >= p.first && n <= p.last; };
    switch (p.place) {
      case Place::all: return true;
      case Place::ranks: return in(rank);
      case Place::gpus: return in(s_.placement.gpu_of(rank));
      case Place::stages: return in(s_.plan.grid.coordinates(rank).pp);
      case Place::nodes: return in(node_of(rank)) && (p.links != Links::nic || uses(p.nic, rank));
    }
    return false;
  }

  // Time of compute over that priced, by what holds all the time, or by what holds at `moment`
  // only.
  double slowness(int64_t rank, std::optional<Time> moment) const {
    double f = 1;
    for_each(rank, moment, [&](const Perturbation& p, size_t index) {
      f /= p.speed;
      if (p.sigma > 0 && !p.each_op) f *= drawn(index, rank);
    });
    return f;
  }

  LinkState links(int64_t rank, std::optional<Time> moment) const {
    LinkState state;
    for_each(rank, moment, [&](const Perturbation& p, size_t) {
      const bool nvlink = p.links == Links::nvlink;
      (nvlink ? state.nvlink : state.nic) *= p.bandwidth;
      (nvlink ? state.nvlink_latency : state.nic_latency) += p.latency;
    });
    return state;
  }

  // When something about the rank begins or ends to hold, ascending; empty if nothing ever does.
  std::vector<Time> moments(int64_t rank) const {
    std::set<Time> all;
    for (const Perturbation& p : s_.perturb) {
      if (p.always() || !concerns(p, rank)) continue;
      all.insert(p.from);
      all.insert(p.until);
    }
    return {all.begin(), all.end()};
  }

 private:
  // NIC g * nics / gpus for GPU g; several in a row if there are more NICs than GPUs.
  bool uses(int64_t nic, int64_t rank) const {
    const Node& node = s_.cluster.node;
    const int64_t gpu = s_.placement.gpu_of(rank) % node.gpus;
    const int64_t first = gpu * node.nics / node.gpus;
    return nic >= first && nic < std::max(first + 1, (gpu + 1) * node.nics / node.gpus);
  }

  template <class Visit>
  void for_each(int64_t rank, std::optional<Time> moment, Visit visit) const {
    for (size_t i = 0; i < s_.perturb.size(); ++i) {
      const Perturbation& p = s_.perturb[i];
      const bool holds =
          moment ? !p.always() && *moment >= p.from && *moment < p.until : p.always();
      if (holds && concerns(p, rank)) visit(p, i);
    }
  }

  double drawn(size_t index, int64_t rank) const {
    // Instances of ops are counted from 0; these keys are out of their way.
    const uint32_t key = jitter_instance_key(~static_cast<uint64_t>(index));
    const auto who = static_cast<uint64_t>(rank);
    const uint32_t i = jitter_index(jitter_rank_key(seed_, who), key);
    return static_cast<double>(tables_[index].factor[i]) / kNominal;
  }

  const Scenario& s_;
  uint64_t seed_;
  std::vector<JitterTable> tables_;
};

Slowness fixed_point(double slowness) {
  constexpr double kMost = 1 << 30;
  return static_cast<Slowness>(std::clamp(slowness * kNominal + 0.5, 1.0, kMost));
}

// The cluster with the NICs and NVLinks of all nodes like those of `state`.
Cluster degraded(Cluster c, const LinkState& state) {
  c.fabric.tiers = fabric_tiers(c);
  for (Tier& t : c.fabric.tiers) t.oversubscription = std::max(1.0, t.oversubscription * state.nic);
  c.node.nic_bandwidth.value *= state.nic;
  c.node.nic_latency += state.nic_latency;
  c.node.intra_bandwidth.value *= state.nvlink;
  c.node.intra_latency += state.nvlink_latency;
  return c;
}

// Prices of all works on such a cluster.  A measured price is scaled as the model says, since the
// measurement is of sound links.
std::vector<int64_t> degraded_prices(const Scenario& s, const OpGraph& graph, const Prices& prices,
                                     const Prices& modelled, const LinkState& state) {
  const Prices slow = price(graph, degraded(s.cluster, state), s.plan.grid, nullptr, s.placement);
  std::vector<int64_t> ps;
  for (size_t w = 0; w < graph.works.size(); ++w) {
    const auto now = static_cast<double>(prices.by_work[w].time.count());
    const auto model = static_cast<double>(modelled.by_work[w].time.count());
    const auto then = static_cast<double>(slow.by_work[w].time.count());
    const bool changes = is_communication(graph.works[w].kind) && model > 0 && then > model;
    ps.push_back(changes ? static_cast<int64_t>(now * (then / model) + 0.5)
                         : prices.by_work[w].time.count());
  }
  return ps;
}

// Classes of links, by state: 0 is sound, worse ones have higher numbers.
class LinkClasses {
 public:
  void add(const LinkState& state) {
    if (state != LinkState{}) states_.insert(state);
  }
  uint8_t of(const LinkState& state) const {
    if (state == LinkState{}) return 0;
    return static_cast<uint8_t>(std::distance(states_.begin(), states_.find(state)) + 1);
  }
  const std::set<LinkState>& states() const { return states_; }

 private:
  std::set<LinkState> states_;
};

// Fills the parts of a LaneSet in.
class Filler {
 public:
  Filler(const Scenario& s, const OpGraph& graph, const Prices& prices, uint64_t seed)
      : s_(s), graph_(graph), prices_(prices), ranks_(s, seed) {
    const RankGrid& grid = s.plan.grid;
    set_.digits = {{Axis::tp, grid.tp}, {Axis::cp, grid.cp}, {Axis::dp, grid.dp}};
    for (const Perturbation& p : s.perturb)
      if (p.sigma > 0 && p.each_op) set_.jitter = Jitter{p.sigma, seed};
  }

  LaneSet fill() {
    fill_slowness();
    const bool links = std::any_of(s_.perturb.begin(), s_.perturb.end(),
                                   [](const Perturbation& p) { return p.slows_links(); });
    if (links && s_.cluster.graph)
      refuse("slow links of a topology that is written out are not supported yet");
    if (links) fill_groups();
    fill_windows();
    fill_prices();
    return std::move(set_);
  }

 private:
  using Table = std::vector<std::vector<LinkState>>;  // [role][lane]

  [[noreturn]] void refuse(const char* what) const {
    Diagnostic d;
    d.code = "E130";
    d.message = what;
    d.file = s_.file;
    throw InputError(std::move(d));
  }

  uint32_t roles() const { return static_cast<uint32_t>(graph_.roles.size()); }
  int64_t rank(uint32_t role, int64_t lane) const { return rank_of_lane(s_, graph_, role, lane); }

  void fill_slowness() {
    bool any = false;
    std::vector<std::vector<Slowness>> all(roles());
    for (uint32_t role = 0; role < roles(); ++role) {
      for (int64_t lane = 0; lane < set_.lanes(); ++lane) {
        all[role].push_back(fixed_point(ranks_.slowness(rank(role, lane), {})));
        any = any || all[role].back() != kNominal;
      }
    }
    if (any) set_.slowness = std::move(all);
  }

  struct Member {
    uint32_t role;
    int64_t lane;
  };

  // One state for all members: the worst of the links that the group uses.
  void fill_group(std::span<const Member> members, Table& table) const {
    LinkState worst;
    std::vector<int64_t> nodes;
    for (const Member& m : members) {
      const int64_t r = rank(m.role, m.lane);
      worst = worse_of(worst, ranks_.links(r, {}));
      nodes.push_back(ranks_.node_of(r));
    }
    if (worst == LinkState{}) return;
    std::sort(nodes.begin(), nodes.end());
    const bool between = nodes.front() != nodes.back();
    const bool inside = std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end();
    for (const Member& m : members)
      table[m.role][static_cast<size_t>(m.lane)] = used_part(worst, between, inside);
  }

  // Groups of lanes of one role that differ in the digit of `axis`.
  void fill_axis(Axis axis, Table& table) const {
    int64_t stride = 1, size = 1;
    for (const LaneDigit& d : set_.digits) {
      if (d.axis == axis) {
        size = d.size;
        break;
      }
      stride *= d.size;
    }
    std::vector<Member> members;
    for (uint32_t role = 0; role < roles(); ++role) {
      for (int64_t lane = 0; lane < set_.lanes(); ++lane) {
        if (lane / stride % size != 0) continue;
        members.clear();
        for (int64_t i = 0; i < size; ++i) members.push_back({role, lane + i * stride});
        fill_group(members, table);
      }
    }
  }

  void fill_model(Table& table) const {
    const int64_t tp = s_.plan.grid.tp;
    std::vector<Member> members;
    for (int64_t lane = 0; lane < set_.lanes(); lane += tp) {
      members.clear();
      for (uint32_t role = 0; role < roles(); ++role)
        for (int64_t t = 0; t < tp; ++t) members.push_back({role, lane + t});
      fill_group(members, table);
    }
  }

  // Transfers of a lane: to the next pipeline rank and from the one before, or between the ends.
  void fill_pairs(Axis axis, Table& table) const {
    const uint32_t n = roles();
    for (uint32_t role = 0; role < n; ++role) {
      for (int64_t lane = 0; lane < set_.lanes(); ++lane) {
        const int64_t r = rank(role, lane), here = ranks_.node_of(r);
        const LinkState own = ranks_.links(r, {});
        if (own == LinkState{}) continue;
        bool between = false, inside = false;
        const auto partner = [&](uint32_t other) {
          (ranks_.node_of(rank(other, lane)) == here ? inside : between) = true;
        };
        if (axis == Axis::pp) {
          partner((role + 1) % n);
          partner((role + n - 1) % n);
        } else if (role == 0 || role + 1 == n) {
          partner(n - 1 - role);
        }
        table[role][static_cast<size_t>(lane)] = used_part(own, between, inside);
      }
    }
  }

  void fill_groups() {
    const Axis all[] = {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::embedding, Axis::model};
    for (const Axis axis : all) {
      if (s_.plan.grid.size(axis) == 1) continue;
      Table table(roles(), std::vector<LinkState>(static_cast<size_t>(set_.lanes())));
      if (axis == Axis::model) {
        fill_model(table);
      } else if (axis == Axis::pp || axis == Axis::embedding) {
        fill_pairs(axis, table);
      } else {
        fill_axis(axis, table);
      }
      bool any = false;
      for (const auto& of_role : table)
        for (const LinkState& state : of_role) {
          classes_.add(state);
          any = any || state != LinkState{};
        }
      if (any) group_states_.emplace_back(axis, std::move(table));
    }
  }

  void fill_windows() {
    for (uint32_t role = 0; role < roles(); ++role) {
      for (int64_t lane = 0; lane < set_.lanes(); ++lane) {
        const int64_t r = rank(role, lane);
        const std::vector<Time> moments = ranks_.moments(r);
        const LinkState always = moments.empty() ? LinkState{} : ranks_.links(r, {});
        for (size_t i = 0; i + 1 < moments.size(); ++i) {
          const LinkState now = ranks_.links(r, moments[i]);
          const Slowness slowness = fixed_point(ranks_.slowness(r, moments[i]));
          LinkState both;
          if (now != LinkState{})
            both = {now.nic * always.nic, now.nvlink * always.nvlink,
                    now.nic_latency + always.nic_latency,
                    now.nvlink_latency + always.nvlink_latency};
          if (slowness == kNominal && both == LinkState{}) continue;
          classes_.add(both);
          set_.windows.push_back({role, lane, moments[i], moments[i + 1], slowness, 0});
          window_states_.push_back(both);
        }
      }
    }
  }

  // Once all states are known, so that classes are numbered by how bad they are.
  void fill_prices() {
    constexpr size_t kMostClasses = 255;
    if (classes_.states().size() > kMostClasses)
      refuse("more than 255 kinds of slow links are not supported yet");
    if (classes_.states().empty()) return;
    const Prices modelled = price(graph_, s_.cluster, s_.plan.grid, nullptr, s_.placement);
    for (const LinkState& state : classes_.states())
      set_.class_ps.push_back(degraded_prices(s_, graph_, prices_, modelled, state));
    for (const auto& [axis, table] : group_states_) {
      auto& classes = set_.group_class[static_cast<size_t>(axis)];
      for (const auto& of_role : table) {
        classes.emplace_back();
        for (const LinkState& state : of_role) classes.back().push_back(classes_.of(state));
      }
    }
    for (size_t i = 0; i < set_.windows.size(); ++i)
      set_.windows[i].link_class = classes_.of(window_states_[i]);
  }

  const Scenario& s_;
  const OpGraph& graph_;
  const Prices& prices_;
  Ranks ranks_;
  LaneSet set_;
  LinkClasses classes_;
  std::vector<std::pair<Axis, Table>> group_states_;
  std::vector<LinkState> window_states_;
};

}  // namespace

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
  return Filler(scenario, graph, prices, seed).fill();
}

}  // namespace stepcast
