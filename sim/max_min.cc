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
  uses_.clear();
}

uint32_t Filling::add_link(int64_t capacity) {
  links_.push_back({.room = to_room(capacity)});
  return static_cast<uint32_t>(links_.size() - 1);
}

uint32_t Filling::add_flow(Share limit) {
  flows_.push_back({.limit = limit, .first = static_cast<uint32_t>(uses_.size())});
  return static_cast<uint32_t>(flows_.size() - 1);
}

void Filling::add_use(uint32_t link, uint32_t load) {
  uses_.push_back({link, load});
  links_[link].load += load;
  ++links_[link].end;  // a count until list_members
}

void Filling::solve() {
  flows_.push_back({.first = static_cast<uint32_t>(uses_.size())});  // where the last one ends
  list_members();
  for (Link& link : links_) update(link);
  if (links_.size() + flows_.size() <= kScanned)
    solve_by_scan();
  else
    solve_by_heap();
}

void Filling::list_members() {
  members_.resize(uses_.size());
  uint32_t first = 0;
  for (Link& link : links_) {
    link.first = first;
    first += link.end;
    link.end = link.first;
  }
  for (uint32_t f = 0; f + 1 < flows_.size(); ++f)
    for (uint32_t u = flows_[f].first; u < flows_[f + 1].first; ++u)
      members_[links_[uses_[u].link].end++] = f;
}

void Filling::update(Link& link) {
  link.touched = false;
  if (link.load > 0) link.share = link.room / link.load;
}

void Filling::fix(uint32_t flow, Share level) {
  if (flows_[flow].fixed) return;
  flows_[flow].fixed = true;
  flows_[flow].share = level;
  for (uint32_t u = flows_[flow].first; u < flows_[flow + 1].first; ++u) {
    Link& link = links_[uses_[u].link];
    link.room -= level * uses_[u].load;
    link.load -= uses_[u].load;
    if (!link.touched) touched_.push_back(uses_[u].link);
    link.touched = true;
  }
}

void Filling::fix_members(uint32_t link, Share level) {
  for (uint32_t m = links_[link].first; m < links_[link].end; ++m) fix(members_[m], level);
}

void Filling::solve_by_scan() {
  moving_.clear();
  for (uint32_t f = 0; f + 1 < flows_.size(); ++f) moving_.push_back(f);
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
      if (flows_[f].limit == level) fix(f, level);
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
  for (uint32_t f = 0; f + 1 < flows_.size(); ++f) moving_.push_back(f);
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
      fix(moving_[next], level);
  }
  touched_.clear();
}

std::vector<int64_t> max_min_rates(std::span<const int64_t> capacity,
                                   std::span<const FlowDemand> flows) {
  Filling filling;
  for (const int64_t c : capacity) filling.add_link(c);
  for (const FlowDemand& flow : flows) {
    filling.add_flow(to_share(flow.cap));
    for (const LinkUse& use : flow.uses) filling.add_use(use.link, use.load);
  }
  filling.solve();
  std::vector<int64_t> rates;
  rates.reserve(flows.size());
  for (uint32_t f = 0; f < flows.size(); ++f) rates.push_back(to_rate(filling.share(f)));
  return rates;
}

}  // namespace stepcast
