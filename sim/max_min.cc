// SPDX-License-Identifier: Apache-2.0
#include "sim/max_min.h"

#include <algorithm>
#include <functional>

namespace stepcast {
namespace {

// Up to so many links and flows a scan of all of them at each level costs less than a heap.
constexpr size_t kScanned = 64;

}  // namespace

void Filling::clear() {
  links_.clear();
  flows_.clear();
  members_.clear();
}

uint32_t Filling::add_flow(Share limit) {
  flows_.push_back({.limit = limit});
  return static_cast<uint32_t>(flows_.size() - 1);
}

uint32_t Filling::add_link(int64_t capacity) {
  const auto first = static_cast<uint32_t>(members_.size());
  links_.push_back({.capacity = capacity, .first = first, .end = first});
  return static_cast<uint32_t>(links_.size() - 1);
}

void Filling::add_use(uint32_t flow, uint32_t load) {
  members_.push_back({flow, load});
  ++links_.back().end;
  links_.back().all_load += load;
}

void Filling::solve() {
  list_uses();
  for (Link& link : links_) {
    link.room = to_room(link.capacity);
    link.load = link.all_load;
    update(link);
  }
  if (links_.size() + flows_.size() <= kScanned)
    solve_by_scan();
  else
    solve_by_heap();
}

void Filling::list_uses() {
  for (Flow& flow : flows_) flow.end = 0;  // a count at first
  for (const Member& m : members_) ++flows_[m.flow].end;
  uint32_t first = 0;
  for (Flow& flow : flows_) {
    flow.first = first;
    first += flow.end;
    flow.end = flow.first;
    flow.fixed = false;
  }
  uses_.resize(members_.size());
  for (uint32_t l = 0; l < links_.size(); ++l)
    for (uint32_t m = links_[l].first; m < links_[l].end; ++m)
      uses_[flows_[members_[m].flow].end++] = {l, members_[m].load};
}

void Filling::update(Link& link) {
  link.touched = false;
  if (link.load > 0) link.share = link.room / link.load;
}

void Filling::fix(uint32_t flow, Share level, uint32_t by) {
  Flow& f = flows_[flow];
  if (f.fixed) return;
  f.fixed = true;
  f.share = level;
  f.link = by;
  for (uint32_t u = f.first; u < f.end; ++u) {
    Link& link = links_[uses_[u].link];
    link.room -= level * uses_[u].load;
    link.load -= uses_[u].load;
    if (!link.touched) touched_.push_back(uses_[u].link);
    link.touched = true;
  }
}

void Filling::fix_members(uint32_t link, Share level) {
  for (uint32_t m = links_[link].first; m < links_[link].end; ++m)
    fix(members_[m].flow, level, link);
}

void Filling::solve_by_scan() {
  moving_.clear();
  for (uint32_t f = 0; f < flows_.size(); ++f) moving_.push_back(f);
  while (!moving_.empty()) {
    Share level = flows_[moving_.front()].limit;
    for (const uint32_t f : moving_) level = std::min(level, flows_[f].limit);
    for (const Link& link : links_)
      if (link.load > 0) level = std::min(level, link.share);
    full_.clear();
    for (uint32_t l = 0; l < links_.size(); ++l)
      if (links_[l].load > 0 && links_[l].share == level) full_.push_back(l);
    for (const uint32_t l : full_) fix_members(l, level);
    for (const uint32_t f : moving_)
      if (flows_[f].limit == level) fix(f, level, kNoLink);
    std::erase_if(moving_, [&](uint32_t f) { return flows_[f].fixed; });
    for (const uint32_t l : touched_) update(links_[l]);
    touched_.clear();
  }
}

// Puts the link that is full first on top of the heap.  Queued shares may be out of date, but only
// too small: those on top are put back with what is true until one is.
Share Filling::fullest_in_heap() {
  while (!heap_.empty()) {
    const auto [share, l] = heap_.front();
    Link& link = links_[l];
    if (link.touched) update(link);
    if (link.load > 0 && link.share == share) return share;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    if (link.load == 0) continue;
    heap_.emplace_back(link.share, l);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  return ~Share{0};
}

void Filling::solve_by_heap() {
  moving_.clear();
  for (uint32_t f = 0; f < flows_.size(); ++f) moving_.push_back(f);
  std::sort(moving_.begin(), moving_.end(),
            [&](uint32_t a, uint32_t b) { return flows_[a].limit < flows_[b].limit; });
  heap_.clear();
  for (uint32_t l = 0; l < links_.size(); ++l)
    if (links_[l].load > 0) heap_.emplace_back(links_[l].share, l);
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  for (size_t next = 0; next < moving_.size();) {
    if (flows_[moving_[next]].fixed) {
      ++next;
      continue;
    }
    const Share level = std::min(fullest_in_heap(), flows_[moving_[next]].limit);
    full_.clear();
    while (fullest_in_heap() == level) {
      full_.push_back(heap_.front().second);
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
    }
    for (const uint32_t l : full_) fix_members(l, level);
    for (; next < moving_.size() && flows_[moving_[next]].limit == level; ++next)
      fix(moving_[next], level, kNoLink);
  }
  touched_.clear();
}

std::vector<int64_t> max_min_rates(std::span<const int64_t> capacity,
                                   std::span<const FlowDemand> flows) {
  Filling filling;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> members(capacity.size());  // flow, load
  for (const FlowDemand& flow : flows) {
    const uint32_t f = filling.add_flow(to_share(flow.cap));
    for (const LinkUse& use : flow.uses) members[use.link].emplace_back(f, use.load);
  }
  for (size_t l = 0; l < capacity.size(); ++l) {
    filling.add_link(capacity[l]);
    for (const auto& [flow, load] : members[l]) filling.add_use(flow, load);
  }
  filling.solve();
  std::vector<int64_t> rates;
  rates.reserve(flows.size());
  for (uint32_t f = 0; f < flows.size(); ++f) rates.push_back(to_rate(filling.share(f)));
  return rates;
}

}  // namespace stepcast
