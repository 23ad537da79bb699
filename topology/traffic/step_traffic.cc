// SPDX-License-Identifier: Apache-2.0
// From works to links in three steps, by the example of two nodes of 8 GPUs with one NIC each, tp 8
// and dp 2.
//
// *Families.*  Works of one axis and pipeline rank are run by groups that lie alike: the two tp
// groups are one family, the eight dp groups another.  Works that load links alike (the same
// algorithm: a ring's all-gather and its reduce-scatter) are one pattern of the family.
//
// *Links.*  For each group of a family and each pattern, collective_links says what part of the
// message passes each link: an all-reduce of dp, 2 ranks by a ring, sends 2 (n-1)/n = 1 times its
// bytes from each GPU over PCIe and the NIC to the other node.
//
// *Sharing.*  The tp groups have their NVLinks to themselves, so these can never slow anything and
// are left out.  All eight dp groups pass the same two NICs: if they ask for more together than a
// NIC has, its links count.  Their PCIe links have the same users and are wider, so the NIC alone
// stands for them.  What is left are numbered links with a capacity, and for every work and rank
// the load it puts on them (sim/contention/contention.h).
#include "topology/traffic/step_traffic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "sim/check.h"
#include "topology/cluster/routes.h"
#include "topology/traffic/collective_links.h"

namespace stepcast {

namespace {

// The groups of ranks that communicate in a step, and what they run.

// A communication of a step as one group runs it.
struct GroupWork {
  WorkId work{};
  int64_t runs = 0;      // in a step
  uint32_t streams = 0;  // bit s: in passes on Stream s; none: beside them, as rendezvous
  // Bytes per second while its bytes flow; 0 for one that takes hardly longer than its latency.
  double rate = 0;
};

// Works that put the same loads on the same links.
struct GroupPattern {
  WorkKind kind = WorkKind::all_reduce;
  Algorithm algorithm = Algorithm::ring;  // protocols load links alike
  std::vector<GroupWork> works;
};

// Groups that lie alike: those of one axis at one pipeline rank; pairs of two pipeline ranks; those
// of an axis over all pipeline ranks.
struct GroupFamily {
  Axis axis = Axis::none;
  int64_t pp = -1;     // pipeline rank; -1: over several
  bool pairs = false;  // of pipeline ranks `from` and `to`
  int64_t from = 0, to = 0;
  std::vector<GroupPattern> patterns;
};

// Families of all communication that moves bytes, by axis.  Collectives whose price names no
// algorithm count as rings, all-to-all as pairwise.  O(ops + works log works).
std::vector<GroupFamily> group_families(const OpGraph& graph, const Prices& prices,
                                        const RankGrid& grid);

// Calls `visit` with the ranks of each group, always in the same order: ranks ascending, of a
// transfer the sender first.
void for_each_group(const RankGrid& grid, const GroupFamily& family,
                    const std::function<void(std::span<const int64_t>)>& visit);

// How often each work runs, and where.
class Runs {
 public:
  explicit Runs(const OpGraph& graph) : graph_(graph) {
    for (const Pass& pass : graph.passes) of_pass_.push_back(communication_of(pass));
    for (const RoleOps& role : graph.roles) add_role(role);
    // Every rendezvous happens once a step.
    for (const Rendezvous& r : graph.rendezvous) {
      if (is_communication(work(r.work).kind)) ++runs_[{r.work, -1}].runs;
    }
  }

  // By (work, pipeline rank or -1).
  const std::map<std::pair<WorkId, int64_t>, GroupWork>& all() const { return runs_; }

 private:
  const Work& work(WorkId id) const { return graph_.works[static_cast<size_t>(id)]; }

  std::vector<GroupWork> communication_of(const Pass& pass) const {
    std::map<WorkId, GroupWork> found;
    for (const Op& op : pass.ops) {
      if (!is_communication(work(op.work).kind)) continue;
      GroupWork& w = found[op.work];
      w.work = op.work;
      ++w.runs;
      w.streams |= 1u << static_cast<uint32_t>(op.stream);
    }
    std::vector<GroupWork> list;
    for (const auto& [id, w] : found) list.push_back(w);
    return list;
  }

  void add_role(const RoleOps& role) {
    std::vector<int64_t> passes(graph_.passes.size());
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::pass) ++passes[static_cast<size_t>(item.pass)];
    }
    for (size_t p = 0; p < passes.size(); ++p) {
      if (passes[p] == 0) continue;
      for (const GroupWork& w : of_pass_[p]) {
        GroupWork& sum = runs_[{w.work, static_cast<int64_t>(role.pipeline_rank)}];
        sum.runs += passes[p] * w.runs;
        sum.streams |= w.streams;
      }
    }
  }

  const OpGraph& graph_;
  std::vector<std::vector<GroupWork>> of_pass_;
  std::map<std::pair<WorkId, int64_t>, GroupWork> runs_;
};

// The part of a price in which bytes flow; a tenth of the latency does not count.
double rate_of(const Work& work, const Price& price) {
  const int64_t flowing = (price.time - price.latency).count();
  if (flowing <= 0 || flowing <= price.latency.count() / 10) return 0;
  return static_cast<double>(work.bytes.value) / (static_cast<double>(flowing) * 1e-12);
}

// All-gather and reduce-scatter load a ring alike.
WorkKind kind_on_links(WorkKind kind, Algorithm algorithm) {
  return kind == WorkKind::reduce_scatter && algorithm == Algorithm::ring ? WorkKind::all_gather
                                                                          : kind;
}

Algorithm algorithm_of(const Work& work, const Price& price) {
  if (price.algorithm != Algorithm::none) return price.algorithm;
  return work.kind == WorkKind::all_to_all ? Algorithm::pairwise : Algorithm::ring;
}

void add(GroupFamily& family, const Work& work, const Price& price, GroupWork w) {
  const Algorithm algorithm = algorithm_of(work, price);
  const WorkKind kind = kind_on_links(work.kind, algorithm);
  const auto same = [&](const GroupPattern& p) {
    return p.kind == kind && p.algorithm == algorithm;
  };
  auto found = std::find_if(family.patterns.begin(), family.patterns.end(), same);
  if (found == family.patterns.end()) {
    found = family.patterns.insert(found, {kind, algorithm, {}});
  }
  w.rate = rate_of(work, price);
  found->works.push_back(w);
}

// First rank of each group; of pairs and groups over pipeline ranks, its rank of the first of them.
template <class Visit>
void for_each_first(const RankGrid& grid, const GroupFamily& family, Visit visit) {
  struct Stride {
    int64_t stride, size;
  };
  std::vector<Stride> outside;  // of the group, in the stage
  int64_t stride = 1, of_pp = 0, groups = 1;
  for (const GridDigit& d : grid.digits()) {
    if (d.axis == Axis::pp) {
      of_pp = stride;
    } else if (family.pairs || !covers(family.axis, d)) {
      outside.push_back({stride, d.size});
      groups *= d.size;
    }
    stride *= d.size;
  }
  const int64_t pp = family.pairs ? family.from : std::max<int64_t>(0, family.pp);
  for (int64_t group = 0; group < groups; ++group) {
    int64_t rank = pp * of_pp, rest = group;
    for (const Stride& d : outside) {
      rank += rest % d.size * d.stride;
      rest /= d.size;
    }
    visit(rank);
  }
}

std::vector<GroupFamily> group_families(const OpGraph& graph, const Prices& prices,
                                        const RankGrid& grid) {
  STEPCAST_CHECK(prices.by_work.size() == graph.works.size(), "a price for every work");
  std::map<std::tuple<Axis, int64_t, int64_t, int64_t>, GroupFamily> families;
  const Runs runs(graph);
  for (auto [key, w] : runs.all()) {
    w.work = key.first;
    const Work& work = graph.works[static_cast<size_t>(w.work)];
    const Price& price = prices.by_work[static_cast<size_t>(w.work)];
    const bool pairs = work.from != work.to;
    if (work.bytes.value <= 0 || (!pairs && grid.size(work.axis) == 1)) continue;
    GroupFamily& family = families[{work.axis, key.second, work.from, work.to}];
    family.axis = work.axis;
    family.pp = key.second;
    family.pairs = pairs;
    family.from = work.from;
    family.to = work.to;
    add(family, work, price, w);
  }
  std::vector<GroupFamily> list;
  for (auto& [key, family] : families) list.push_back(std::move(family));
  return list;
}

void for_each_group(const RankGrid& grid, const GroupFamily& family,
                    const std::function<void(std::span<const int64_t>)>& visit) {
  std::vector<int64_t> ranks;
  for_each_first(grid, family, [&](int64_t first) {
    if (family.pairs) {
      Coordinates c = grid.coordinates(first);
      c.pp = family.to;
      ranks = {first, grid.rank(c)};
    } else {
      ranks = grid.group(family.axis, first);
    }
    visit(ranks);
  });
}

// Links of every group of a pattern, before those that cannot be shared are taken out.
struct PatternLinks {
  std::vector<LinkUse> uses;  // of group 0, group 1, ...
  std::vector<size_t> end;    // of each group in `uses`
  std::span<const LinkUse> of(size_t group) const {
    const size_t begin = group == 0 ? 0 : end[group - 1];
    return std::span(uses).subspan(begin, end[group] - begin);
  }
};

double fastest(const GroupPattern& pattern) {
  double rate = 0;
  for (const GroupWork& w : pattern.works) rate = std::max(rate, w.rate);
  return rate;
}

class TrafficWriter {
 public:
  TrafficWriter(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                const Placement& placement, const ClusterGraph& cluster,
                const RouteOptions& options, const LaneSet& lanes)
      : graph_(graph),
        prices_(prices),
        lanes_(lanes),
        grid_(grid),
        placement_(placement),
        cluster_(cluster),
        router_(cluster, options),
        families_(group_families(graph, prices, grid)),
        streams_(2 * cluster.links().size()),
        demand_(2 * cluster.links().size()) {
    traffic_.pattern_of.resize(graph.works.size());
    for (const Price& p : prices.by_work) traffic_.latency.push_back(std::min(p.time, p.latency));
    role_of_.assign(static_cast<size_t>(grid.pp), UINT32_MAX);
    for (uint32_t r = 0; r < graph.roles.size(); ++r) role_of_.at(graph.roles[r].pipeline_rank) = r;
  }

  Traffic write() {
    for (const GroupFamily& family : families_) find_links(family);
    size_t next = 0;
    for (const GroupFamily& family : families_) {
      count_users(family, std::span(links_).subspan(next, family.patterns.size()));
      next += family.patterns.size();
    }
    drop_the_wider();
    number_links();
    next = 0;
    for (const GroupFamily& family : families_) {
      for (const GroupPattern& pattern : family.patterns) {
        add_patterns(family, pattern, links_[next++]);
      }
    }
    return std::move(traffic_);
  }

 private:
  void find_links(const GroupFamily& family) {
    for (const GroupPattern& pattern : family.patterns) {
      PatternLinks& found = links_.emplace_back();
      if (fastest(pattern) == 0) continue;
      for_each_group(grid_, family, [&](std::span<const int64_t> ranks) {
        gpus_.clear();
        for (int64_t rank : ranks) gpus_.push_back(placement_.gpu_of(rank));
        const std::vector<LinkUse> uses =
            collective_links(cluster_, router_, pattern.kind, pattern.algorithm, gpus_);
        found.uses.insert(found.uses.end(), uses.begin(), uses.end());
        found.end.push_back(found.uses.size());
      });
    }
  }

  // What a stream of a group, or each rendezvous, asks of a link.
  struct Demand {
    uint32_t link = 0;
    uint32_t stream = 0;
    double rate = 0;
    bool operator<(const Demand& o) const {
      return std::pair(link, stream) < std::pair(o.link, o.stream);
    }
  };

  // A stream does one thing at a time; of rendezvous all may happen at once.
  void count_users(const GroupFamily& family, std::span<const PatternLinks> links) {
    size_t groups = 0;
    for (const PatternLinks& l : links) groups = std::max(groups, l.end.size());
    std::vector<Demand> demands;
    for (size_t g = 0; g < groups; ++g) {
      demands.clear();
      for (size_t p = 0; p < links.size(); ++p) {
        if (links[p].end.empty()) continue;
        for (const LinkUse& use : links[p].of(g)) {
          for (const GroupWork& w : family.patterns[p].works) add_demand(use, w, demands);
        }
      }
      std::sort(demands.begin(), demands.end());
      for (size_t i = 0; i < demands.size();) {
        const Demand& first = demands[i];
        double most = 0;
        for (; i < demands.size() && !(first < demands[i]); ++i)
          most = std::max(most, demands[i].rate);
        ++streams_[first.link];
        demand_[first.link] += most;
      }
    }
  }

  void add_demand(const LinkUse& use, const GroupWork& w, std::vector<Demand>& demands) {
    if (w.rate == 0) return;
    const double rate = w.rate * use.load / kFullLoad;
    if (w.streams == 0) {
      const auto runs = static_cast<uint32_t>(std::min<int64_t>(w.runs, kMostAtOnce));
      streams_[use.link] += runs;
      demand_[use.link] += rate * runs;
    }
    for (uint32_t s = 0; s < kStreams; ++s) {
      if ((w.streams >> s & 1u) != 0) demands.push_back({use.link, s, rate});
    }
  }

  int64_t capacity(uint32_t link) const {
    return static_cast<int64_t>(joint_bandwidth(cluster_, link).value);
  }

  // Of links with the same users and loads (a GPU's PCIe links, its NIC) the narrowest decides.
  void drop_the_wider() {
    std::vector<std::array<uint64_t, 2>> users(streams_.size());
    uint64_t user = 0;
    for (const PatternLinks& links : links_) {
      for (size_t g = 0; g < links.end.size(); ++g, ++user) {
        for (const LinkUse& use : links.of(g)) {
          users[use.link][0] += hash_of(user, use.load);
          users[use.link][1] += hash_of(~user, use.load);
        }
      }
    }
    std::map<std::array<uint64_t, 2>, uint32_t> narrowest;
    for (uint32_t l = 0; l < streams_.size(); ++l) {
      if (streams_[l] < 2 || demand_[l] <= static_cast<double>(capacity(l))) continue;
      const auto [at, is_new] = narrowest.try_emplace(users[l], l);
      if (!is_new && capacity(l) < capacity(at->second)) at->second = l;
    }
    for (const auto& [who, link] : narrowest) shared_.push_back(link);
    std::sort(shared_.begin(), shared_.end());
  }

  // The links that can be shared, by their numbers in Traffic.
  void number_links() {
    number_.assign(streams_.size(), Traffic::kPrivate);
    for (uint32_t l : shared_) {
      number_[l] = static_cast<uint32_t>(traffic_.capacity.size());
      traffic_.capacity.push_back(capacity(l));
    }
  }

  std::vector<LinkUse> shared_part(std::span<const LinkUse> uses, double rate) const {
    std::vector<LinkUse> shared;
    for (const LinkUse& use : uses) {
      const uint32_t link = number_[use.link];
      if (link == Traffic::kPrivate) continue;
      const double most = static_cast<double>(traffic_.capacity[link]) / rate * kFullLoad;
      const double load = std::min<double>(use.load, std::max(1.0, std::floor(most)));
      shared.push_back({link, static_cast<uint32_t>(load)});
    }
    return shared;
  }

  void add_patterns(const GroupFamily& family, const GroupPattern& pattern,
                    const PatternLinks& links) {
    if (links.end.empty()) return;
    size_t group = 0;
    for_each_group(grid_, family, [&](std::span<const int64_t> ranks) {
      const double rate = fastest_in(class_of(family.axis, ranks), pattern);
      std::vector<LinkUse> shared = shared_part(links.of(group++), rate);
      if (shared.empty()) return;
      const auto number = static_cast<uint32_t>(traffic_.patterns.size());
      traffic_.patterns.push_back(std::move(shared));
      const bool transfer = pattern.kind == WorkKind::send_recv;
      for (const GroupWork& w : pattern.works) {
        if (w.rate == 0) continue;
        for (int64_t rank : transfer ? ranks.first(1) : ranks) entry(w.work, rank) = number;
      }
    });
  }

  uint32_t& entry(WorkId work, int64_t rank) {
    const auto lanes = static_cast<size_t>(grid_.tp * grid_.cp * grid_.dp);
    std::vector<uint32_t>& of = traffic_.pattern_of[static_cast<size_t>(work)];
    if (of.empty()) of.assign(graph_.roles.size() * lanes, Traffic::kPrivate);
    const auto [role, lane] = place_of(rank);
    return of[role * lanes + lane];
  }

  // Role and lane.
  std::pair<size_t, size_t> place_of(int64_t rank) const {
    const Coordinates c = grid_.coordinates(rank);
    return {role_of_[static_cast<size_t>(c.pp)],
            static_cast<size_t>(c.tp + grid_.tp * (c.cp + grid_.cp * c.dp))};
  }

  // Of the links of a group, all the time.
  uint8_t class_of(Axis axis, std::span<const int64_t> ranks) const {
    const auto& classes = lanes_.group_class[static_cast<size_t>(axis)];
    uint8_t joined = 0;
    if (classes.empty()) return joined;
    for (const int64_t rank : ranks) {
      const auto [role, lane] = place_of(rank);
      if (!classes[role].empty()) joined = lanes_.joined(joined, classes[role][lane]);
    }
    return joined;
  }

  // As fastest, at the prices of a class.
  double fastest_in(uint8_t link_class, const GroupPattern& pattern) const {
    if (link_class == 0) return fastest(pattern);
    double rate = 0;
    for (const GroupWork& w : pattern.works) {
      const auto work = static_cast<size_t>(w.work);
      const int64_t latency = traffic_.latency[work].count();
      const int64_t sound = prices_.by_work[work].time.count() - latency;
      const int64_t slow = lanes_.class_ps[link_class - 1][work] - latency;
      if (w.rate > 0)
        rate = std::max(rate, w.rate * static_cast<double>(sound) / static_cast<double>(slow));
    }
    return rate;
  }

  // Enough to fill any link.
  static constexpr int64_t kMostAtOnce = 1 << 16;

  const OpGraph& graph_;
  const Prices& prices_;
  const LaneSet& lanes_;
  const RankGrid& grid_;
  const Placement& placement_;
  const ClusterGraph& cluster_;
  Router router_;
  std::vector<GroupFamily> families_;
  std::vector<PatternLinks> links_;  // by family and pattern
  std::vector<uint32_t> streams_;    // of each directed link: streams and rendezvous that use it
  std::vector<double> demand_;       // ... and bytes per second if all do so at once
  std::vector<uint32_t> shared_;     // links that count
  std::vector<uint32_t> number_;     // ... and its number in Traffic
  std::vector<uint32_t> role_of_;    // of a pipeline rank
  std::vector<int64_t> gpus_;
  Traffic traffic_;
};

}  // namespace

Traffic traffic_of(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                   const Placement& placement, const ClusterGraph& cluster,
                   const RouteOptions& options, const LaneSet& lanes) {
  return TrafficWriter(graph, prices, grid, placement, cluster, options, lanes).write();
}

namespace {

// Order in which kinds of links are told: from the GPU outwards.
struct LinkClass {
  int order = 0;  // 0 NVLink, 1 PCIe and inside the host, 2 + tier network
  std::string name;
  int64_t links = 0;
};

class Classes {
 public:
  explicit Classes(const ClusterGraph& cluster) : of_(cluster.links().size()) {
    std::map<std::tuple<int, int>, uint32_t> numbers;
    for (uint32_t i = 0; i < of_.size(); ++i) {
      const Link& link = cluster.links()[i];
      const auto key = key_of(cluster, link);
      const auto [it, is_new] = numbers.try_emplace(key, static_cast<uint32_t>(classes_.size()));
      if (is_new) classes_.push_back({std::get<0>(key), name(cluster, link), 0});
      of_[i] = it->second;
      for (uint32_t directed : {2 * i, 2 * i + 1}) {
        if (joint_link(cluster, directed) == directed) ++classes_[it->second].links;
      }
    }
  }

  uint32_t of(uint32_t directed) const { return of_[directed / 2]; }
  const LinkClass& operator[](uint32_t c) const { return classes_[c]; }
  size_t size() const { return classes_.size(); }

 private:
  static std::tuple<int, int> key_of(const ClusterGraph& cluster, const Link& link) {
    if (link.kind == LinkKind::nvlink) return {0, 0};
    if (link.kind != LinkKind::network) return {1, 0};
    const int a = cluster.devices()[link.a].tier, b = cluster.devices()[link.b].tier;
    return {3 + std::min(a, b), std::max(a, b)};
  }

  static std::string name(const ClusterGraph& cluster, const Link& link) {
    if (link.kind == LinkKind::nvlink) return "NVLink";
    if (link.kind != LinkKind::network) return "PCIe";
    const Device* low = &cluster.devices()[link.a];
    const Device* high = &cluster.devices()[link.b];
    if (low->tier > high->tier) std::swap(low, high);
    return switch_word(*low) + " - " + switch_word(*high);
  }

  std::vector<uint32_t> of_;  // of each link
  std::vector<LinkClass> classes_;
};

class LoadsOfStep {
 public:
  LoadsOfStep(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
              const Placement& placement, const ClusterGraph& cluster, const RouteOptions& options)
      : graph_(graph),
        grid_(grid),
        placement_(placement),
        cluster_(cluster),
        router_(cluster, options),
        families_(group_families(graph, prices, grid)),
        classes_(cluster) {}

  LinkLoads sum() {
    LinkLoads loads;
    // Families come by axis.
    for (size_t begin = 0; begin < families_.size();) {
      size_t end = begin;
      while (end < families_.size() && families_[end].axis == families_[begin].axis) ++end;
      add_axis(std::span(families_).subspan(begin, end - begin), loads);
      begin = end;
    }
    add_fullest(loads);
    return loads;
  }

 private:
  // What the groups of one axis put on a link.
  struct OnLink {
    double bytes = 0;
    int64_t groups = 0;
    int64_t last_group = -1;
  };

  void add_axis(std::span<const GroupFamily> families, LinkLoads& loads) {
    on_.assign(2 * cluster_.links().size(), {});
    works_.assign(classes_.size(), {});
    LinkCrossing row;
    row.axis = families.front().axis;
    for (const GroupFamily& family : families) {
      crossed_.assign(family.patterns.size(), std::vector<bool>(classes_.size()));
      for_each_group(grid_, family, [&](std::span<const int64_t> ranks) {
        row.ranks = std::max(row.ranks, static_cast<int64_t>(ranks.size()));
        add_group(family, ranks, row.groups++);
      });
      for (size_t p = 0; p < family.patterns.size(); ++p)
        for (uint32_t c = 0; c < classes_.size(); ++c)
          if (crossed_[p][c]) add_works(family.patterns[p], works_[c]);
    }
    std::vector<LinkCrossing> rows(classes_.size(), row);
    std::vector<double>& total = totals_.emplace_back(row.axis, on_.size()).second;
    for (uint32_t link = 0; link < on_.size(); ++link) {
      const OnLink& o = on_[link];
      if (o.groups == 0) continue;
      LinkCrossing& r = rows[classes_.of(link)];
      const double seconds = o.bytes / joint_bandwidth(cluster_, link).value;
      ++r.links_used;
      r.groups_per_link = std::max(r.groups_per_link, o.groups);
      if (seconds > r.seconds) {
        r.seconds = seconds;
        r.bytes = o.bytes;
      }
      total[link] = o.bytes;
    }
    for (uint32_t c : outwards()) {
      if (rows[c].links_used == 0) continue;
      rows[c].links = classes_[c].name;
      rows[c].links_there = classes_[c].links;
      std::sort(works_[c].begin(), works_[c].end());
      rows[c].kinds = kinds_of(works_[c]);
      rows[c].works = std::move(works_[c]);
      loads.crossings.push_back(std::move(rows[c]));
    }
  }

  void add_group(const GroupFamily& family, std::span<const int64_t> ranks, int64_t group) {
    gpus_.clear();
    for (int64_t rank : ranks) gpus_.push_back(placement_.gpu_of(rank));
    for (size_t p = 0; p < family.patterns.size(); ++p) {
      const GroupPattern& pattern = family.patterns[p];
      double bytes = 0;
      for (const GroupWork& w : pattern.works) {
        if (w.rate > 0) bytes += static_cast<double>(w.runs) * bytes_of(w);
      }
      if (bytes == 0) continue;
      for (const LinkUse& use :
           collective_links(cluster_, router_, pattern.kind, pattern.algorithm, gpus_)) {
        OnLink& o = on_[use.link];
        o.bytes += bytes * use.load / kFullLoad;
        if (o.last_group != group) ++o.groups;
        o.last_group = group;
        crossed_[p][classes_.of(use.link)] = true;
      }
    }
  }

  double bytes_of(const GroupWork& w) const {
    return static_cast<double>(graph_.works[static_cast<size_t>(w.work)].bytes.value);
  }

  static void add_works(const GroupPattern& pattern, std::vector<WorkId>& works) {
    for (const GroupWork& w : pattern.works) {
      if (w.rate > 0) works.push_back(w.work);
    }
  }

  std::vector<WorkKind> kinds_of(std::span<const WorkId> works) const {
    std::set<WorkKind> kinds;
    for (const WorkId w : works) kinds.insert(graph_.works[static_cast<size_t>(w)].kind);
    return {kinds.begin(), kinds.end()};
  }

  std::string end_name(uint32_t device) const {
    const Device& d = cluster_.devices()[device];
    return d.kind == DeviceKind::nvswitch ? "NVSwitches" : d.name;
  }

  std::vector<uint32_t> outwards() const {
    std::vector<uint32_t> order;
    for (uint32_t c = 0; c < classes_.size(); ++c) order.push_back(c);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return classes_[a].order < classes_[b].order; });
    return order;
  }

  void add_fullest(LinkLoads& loads) const {
    std::vector<FullestLink> fullest(classes_.size());
    for (uint32_t link = 0; link < 2 * cluster_.links().size(); ++link) {
      double bytes = 0;
      for (const auto& [axis, total] : totals_) bytes += total[link];
      if (bytes == 0) continue;
      const double seconds = bytes / joint_bandwidth(cluster_, link).value;
      FullestLink& f = fullest[classes_.of(link)];
      if (seconds <= f.seconds) continue;
      f = {classes_[classes_.of(link)].name,
           end_name(cluster_.to(link ^ 1u)),
           end_name(cluster_.to(link)),
           bytes,
           seconds,
           {}};
      for (const auto& [axis, total] : totals_) {
        if (total[link] > 0) f.bytes_by_axis.emplace_back(axis, total[link]);
      }
    }
    for (uint32_t c : outwards()) {
      if (fullest[c].seconds > 0) loads.fullest.push_back(std::move(fullest[c]));
    }
  }

  const OpGraph& graph_;
  const RankGrid& grid_;
  const Placement& placement_;
  const ClusterGraph& cluster_;
  Router router_;
  std::vector<GroupFamily> families_;
  Classes classes_;
  std::vector<OnLink> on_;                                    // of each link: one axis
  std::vector<std::vector<bool>> crossed_;                    // of one family: [pattern][class]
  std::vector<std::vector<WorkId>> works_;                    // of each class: one axis
  std::vector<std::pair<Axis, std::vector<double>>> totals_;  // of each axis: bytes on each link
  std::vector<int64_t> gpus_;
};

}  // namespace

std::string switch_word(const Device& device) {
  if (device.kind == DeviceKind::nic) return "NIC";
  if (device.tier < 0) return "switch";
  std::string name = device.name.substr(0, device.name.find_first_of("0123456789/"));
  name.erase(name.find_last_not_of("-_. ") + 1);
  return name.empty() ? "switch" : name;
}

LinkLoads link_loads(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                     const Placement& placement, const ClusterGraph& cluster,
                     const RouteOptions& options) {
  return LoadsOfStep(graph, prices, grid, placement, cluster, options).sum();
}

}  // namespace stepcast
