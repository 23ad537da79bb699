// SPDX-License-Identifier: Apache-2.0
#include "topology/traffic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "topology/collective_links.h"
#include "topology/fabric_ways.h"
#include "topology/step_groups.h"

namespace stepcast {
namespace {

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

}  // namespace stepcast
