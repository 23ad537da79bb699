// SPDX-License-Identifier: Apache-2.0
#include "topology/step_groups.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/check.h"

namespace stepcast {
namespace {

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
WorkKind kind_on_links(WorkKind kind, const std::string& algorithm) {
  return kind == WorkKind::reduce_scatter && algorithm == "ring" ? WorkKind::all_gather : kind;
}

// Without its protocol: protocols load links alike.
std::string algorithm_of(const Work& work, const Price& price) {
  for (const char* protocol : {" LL", " LL128", " Simple"}) {
    if (price.algorithm.ends_with(protocol)) {
      return price.algorithm.substr(0, price.algorithm.rfind(' '));
    }
  }
  if (!price.algorithm.empty()) return price.algorithm;
  return work.kind == WorkKind::all_to_all ? "pairwise" : "ring";
}

void add(GroupFamily& family, const Work& work, const Price& price, GroupWork w) {
  const std::string algorithm = algorithm_of(work, price);
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

}  // namespace

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

}  // namespace stepcast
