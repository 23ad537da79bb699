// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/link_classes.h"

#include <algorithm>
#include <utility>

#include "scenarios/forecast/step_prices.h"
#include "sim/diagnostic.h"
#include "topology/cluster/fabric.h"

namespace stepcast {
namespace {

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

std::vector<int64_t> prices_in(const Scenario& s, const OpGraph& graph, const Prices& prices,
                               const Prices& modelled, const LinkState& state) {
  const Prices slow = price_on(degraded(s.cluster, state), graph, s, nullptr);
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

}  // namespace

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

void LinkClasses::meet(std::vector<uint16_t> all) {
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() < 2 || !met_.insert(all).second) return;
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
  for (auto& [state, number] : number_) {  // a sound state is the least of all
    states_[next] = state;
    now[number] = next;
    number = next++;
  }
  met_.clear();
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

std::vector<std::vector<int64_t>> degraded_prices(const Scenario& s, const OpGraph& graph,
                                                  const Prices& prices,
                                                  const std::vector<LinkState>& states) {
  const Prices modelled = price_on(s.cluster, graph, s, nullptr);
  std::vector<std::vector<int64_t>> all;
  for (size_t i = 1; i < states.size(); ++i) {
    all.push_back(prices_in(s, graph, prices, modelled, states[i]));
    std::vector<int64_t>& ps = all.back();
    for (size_t k = 1; k < i; ++k) {
      if (worse_of(states[i], states[k]) != states[i]) continue;
      for (size_t w = 0; w < ps.size(); ++w) ps[w] = std::max(ps[w], all[k - 1][w]);
    }
  }
  return all;
}

}  // namespace stepcast
