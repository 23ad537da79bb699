// SPDX-License-Identifier: Apache-2.0
// Max-min fair shares.
//
// Progressive filling (Filling).  All flows grow together from nothing until one has its limit or a
// link is full; the flows that this stops keep what they have, the rest go on growing.  An example:
// links A of 10 and B of 18, and four flows.
//
//     flow 1 on A, flow 2 on A and B, flow 3 on B, flow 4 on B with a limit of 3
//
//     level 3   flow 4 has its limit.  A has 10 - 2 * 3 = 4 left for two flows, B 18 - 3 * 3 = 9
//               for two.
//     level 5   A is full: flows 1 and 2 stop at 5.  B has 18 - 3 - 5 = 10 for flow 3 alone.
//     level 10  B is full: flow 3 stops.  The shares are 5, 5, 10 and 3.
//
// Levels are not raised in small steps: each link has the level at which it will be full if nothing
// else stops its flows, (capacity less what stopped flows take) / (load of those that still grow).
// That level never sinks, since a flow that stops early leaves more to the rest; so the least of
// all such levels and limits is where the next flows stop.  Small problems scan for it, large ones
// keep a heap whose entries may be out of date, but only too low.
//
// Changes (FlowShares).  If flow 4 ends, only B has room.  Who was held back by B?  Flow 3 alone,
// for A holds flows 1 and 2.  So flow 3 is filled anew, on the links it uses, with flow 2 beside it
// as a flow that is limited to the share it has: flow 3 gets 13, flow 2 keeps its 5, which A still
// enforces, and nothing has been asked of flow 1.  Had flow 2 got less, or had B been what held it,
// it would have joined the problem, and then A and flow 1 after it.  fair_shares.h has the
// conditions by which a set of shares is known to be the one that filling all flows would give.

#include "sim/contention/fair_shares.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "sim/check.h"

namespace stepcast {
namespace {

// Up to this many links and flows, scanning all of them at each level costs less than a heap.
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

namespace {

// After this many rounds the problem at least doubles in each, so that a long chain of effects
// costs no more than a small multiple of filling everything in reach once.
constexpr int kPatience = 8;

// Of a flow with more links than this not all that may be full are filled.
constexpr size_t kFewLinks = 16;

// Sums of what flows take of faster links (70 TB/s) might overflow.
constexpr int64_t kSummed = int64_t{1} << 46;

}  // namespace

FlowShares::FlowShares(const std::vector<int64_t>& capacity)
    : links_(capacity.size()), bindings_(capacity.size()) {
  for (size_t l = 0; l < capacity.size(); ++l) {
    STEPCAST_CHECK(capacity[l] > 0, "a link without capacity");
    links_[l].capacity = capacity[l];
  }
}

FlowShares::Demand FlowShares::demand_of(Share limit, uint32_t load) {
  return ((limit + 0xffff'ffffU) >> 32) * load;
}

// What a flow gets of its links alone: the least of capacity / load.
template <class Uses>
Share FlowShares::alone_share(const Uses& uses) const {
  if (uses.empty()) return to_share(INT64_MAX);
  // Fractions are compared crosswise, for a division costs more.
  int64_t capacity = links_[uses[0].link].capacity;
  uint32_t load = uses[0].load;
  for (const auto& use : uses) {
    STEPCAST_CHECK(use.load > 0, "a use of a link that puts nothing on it");
    const int64_t c = links_[use.link].capacity;
    if (static_cast<__int128>(c) * load >= static_cast<__int128>(capacity) * use.load) continue;
    capacity = c;
    load = use.load;
  }
  return std::min(to_room(capacity) / load, to_share(INT64_MAX));
}

// --- members of links ---------------------------------------------------------------------------

// Writes down whether the link of a use binds.
void FlowShares::bind(const Member& member, bool on) {
  Flow& f = flows_[member.flow];
  uint64_t& bits = member.use < 64 ? f.bound : f.more_bound[member.use / 64 - 1];
  const uint64_t bit = uint64_t{1} << member.use % 64;
  bits = on ? bits | bit : bits & ~bit;
}

// Calls f(use) for all uses of links that bind, until it returns true.
template <class F>
void FlowShares::for_bound(const Flow& flow, const F& f) const {
  const auto in = [&](uint64_t bits, size_t first) {
    for (; bits != 0; bits &= bits - 1)
      if (f(flow.uses[first + static_cast<size_t>(std::countr_zero(bits))])) return true;
    return false;
  };
  if (in(flow.bound, 0)) return;
  for (size_t w = 0; w < flow.more_bound.size(); ++w)
    if (in(flow.more_bound[w], 64 * (w + 1))) return;
}

void FlowShares::bind_members(uint32_t link) {
  const bool on = links_[link].binds();
  Room taken = 0;
  for (const Member m : links_[link].members) {
    bind(m, on);
    taken += flows_[m.flow].share * flows_[m.flow].uses[m.use].load;
  }
  bindings_[link].taken = taken;
}

// Its flows may go faster now, though the link may no longer show that it held them back.
void FlowShares::relieve(uint32_t link) {
  if (bindings_[link].relieved) return;
  bindings_[link].relieved = true;
  relieved_.push_back(link);
}

void FlowShares::change(uint32_t flow) {
  if (flows_[flow].changed) return;
  flows_[flow].changed = true;
  changed_.push_back(flow);
}

void FlowShares::enter(uint32_t flow, int64_t cap, std::span<const LinkUse> uses) {
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  Flow& f = flows_[flow];
  f.limit = std::min(alone_share(uses), to_share(cap));
  f.share = 0;
  f.held_by = Filling::kNoLink;
  f.bound = 0;
  f.more_bound.assign(uses.empty() ? 0 : (uses.size() - 1) / 64, 0);
  for (const LinkUse& use : uses) {
    Link& link = links_[use.link];
    const bool did = link.binds();
    const Member self{flow, static_cast<uint32_t>(f.uses.size())};
    f.uses.push_back({use.link, use.load, static_cast<uint32_t>(link.members.size())});
    link.members.push_back(self);
    link.demand += demand_of(f.limit, use.load);
    if (did)
      bind(self, true);
    else if (link.binds())
      bind_members(use.link);
  }
  change(flow);
}

void FlowShares::set_cap(uint32_t flow, int64_t cap) {
  Flow& f = flows_[flow];
  const Share limit = std::min(alone_share(f.uses), to_share(cap));
  if (limit == f.limit) return;
  for (const Use& use : f.uses) {
    Link& link = links_[use.link];
    const bool did = link.binds();
    link.demand += demand_of(limit, use.load) - demand_of(f.limit, use.load);
    if (did) relieve(use.link);
    if (did != link.binds()) bind_members(use.link);
  }
  f.limit = limit;
  change(flow);
}

void FlowShares::leave(uint32_t flow) {
  Flow& f = flows_[flow];
  // Links lie all over memory: asks for all of them rather than for one after the other.
  for (const Use& use : f.uses) __builtin_prefetch(&links_[use.link]);
  for (const Use& use : f.uses) {
    Link& link = links_[use.link];
    const bool did = link.binds();
    const Member last = link.members.back();
    link.members.pop_back();
    if (use.place < link.members.size()) {
      link.members[use.place] = last;
      flows_[last.flow].uses[last.use].place = use.place;
    }
    link.demand -= demand_of(f.limit, use.load);
    if (!did) continue;
    bindings_[use.link].taken -= f.share * use.load;
    relieve(use.link);
    if (!link.binds()) bind_members(use.link);
  }
  set_held_by(f, Filling::kNoLink);
  f.uses.clear();
  f.changed = false;
}

// --- shares -------------------------------------------------------------------------------------

std::span<const uint32_t> FlowShares::solve() {
  moved_.clear();
  effort_ = 0;
  for (const uint32_t f : changed_)
    if (flows_[f].changed) solve_around_flow(f);
  for (const uint32_t l : relieved_)
    if (bindings_[l].relieved) solve_around_link(l);
  changed_.clear();
  relieved_.clear();
  return moved_;
}

void FlowShares::solve_around_flow(uint32_t flow) {
  Flow& f = flows_[flow];
  if (f.bound == 0 && std::ranges::count(f.more_bound, 0U) == std::ssize(f.more_bound)) {
    ++solves_;
    ++solved_flows_;
    f.changed = false;
    set_held_by(f, Filling::kNoLink);
    if (f.share != f.limit) moved_.push_back(flow);
    f.share = f.limit;
    return;
  }
  begin_problem();
  number_of(flow);
  solve_problem();
}

// No flow on the link has changed, but there is more room; perhaps it no longer binds.
void FlowShares::solve_around_link(uint32_t link) {
  bindings_[link].relieved = false;
  if (bindings_[link].held == 0) return;
  begin_problem();
  for (const Member& m : links_[link].members) {
    Flow& f = flows_[m.flow];
    if (f.held_by != link) continue;
    if (links_[link].binds() && holds(link, f.share)) continue;
    if (!held_elsewhere(f)) free(number_of(m.flow));
  }
  if (free_count_ > 0) solve_problem();
}

void FlowShares::begin_problem() {
  ++problem_;
  filling_.clear();
  problem_links_.clear();
  parts_.clear();
  free_count_ = 0;
}

uint32_t FlowShares::number_of(uint32_t flow) {
  Flow& f = flows_[flow];
  if (f.seen == problem_) return f.number;
  f.seen = problem_;
  f.number = filling_.add_flow(f.share);
  parts_.push_back({.flow = flow, .before = f.share});
  if (f.changed) free(f.number);
  return f.number;
}

void FlowShares::add_link(uint32_t link) {
  Binding& binding = bindings_[link];
  if (binding.seen == problem_) return;
  binding.seen = problem_;
  binding.relieved = false;
  binding.number = filling_.add_link(links_[link].capacity);
  problem_links_.push_back(link);
  for (const Member& m : links_[link].members)
    filling_.add_use(number_of(m.flow), flows_[m.flow].uses[m.use].load);
}

void FlowShares::free(uint32_t number) {
  if (parts_[number].free) return;
  parts_[number].free = true;
  ++free_count_;
  freed_.push_back(number);
}

// Of flows that have become free: the links that hold them back, and where they have few, those
// that have no room for all that they can do.
void FlowShares::add_links() {
  while (!freed_.empty()) {
    const uint32_t number = freed_.back();
    freed_.pop_back();
    const uint32_t flow = parts_[number].flow;
    Flow& f = flows_[flow];
    f.changed = false;
    filling_.set_limit(number, f.limit);
    if (f.held_by != Filling::kNoLink && links_[f.held_by].binds()) add_link(f.held_by);
    if (f.uses.size() > kFewLinks) continue;
    for_bound(f, [&](const Use& use) {
      if (!has_room(use.link, (f.limit - std::min(f.limit, f.share)) * use.load))
        add_link(use.link);
      return false;
    });
  }
}

// Frees more flows, those nearest to the change first, until `count` are free or none is left.
void FlowShares::free_at_least(size_t count) {
  add_links();
  for (uint32_t n = 0; n < parts_.size() && free_count_ < count; ++n) {
    free(n);
    add_links();
  }
}

void FlowShares::solve_problem() {
  for (int round = 0;; ++round) {
    // Many changes at one moment may each reach far: rather everything in reach once.
    if (effort_ > flows_.size())
      free_at_least(SIZE_MAX);
    else
      free_at_least(round < kPatience ? 0 : 2 * free_count_);
    filling_.solve();
    effort_ += parts_.size();
    ++solves_;
    solved_flows_ += static_cast<int64_t>(parts_.size());
    take_shares();
    free_those_not_held();
    const bool done = check_links();
    if (done && freed_.empty()) break;
  }
  for (uint32_t n = 0; n < parts_.size(); ++n) {
    if (!parts_[n].free) continue;
    const uint32_t by = filling_.stopped_by(n);
    Flow& f = flows_[parts_[n].flow];
    set_held_by(f, by == Filling::kNoLink ? by : problem_links_[by]);
    if (f.share != parts_[n].before) moved_.push_back(parts_[n].flow);
  }
}

// What the free flows get on the links of the problem.
void FlowShares::take_shares() {
  taken_.clear();
  for (uint32_t n = 0; n < parts_.size(); ++n) {
    if (!parts_[n].free) continue;
    Flow& f = flows_[parts_[n].flow];
    const Share share = filling_.share(n);
    if (share == f.share && !parts_[n].unchecked) continue;
    set_share(f, share);
    taken_.push_back(n);
  }
}

// Is there room for that on their other links, or are these in the problem now?
bool FlowShares::check_links() {
  bool done = true;
  for (const uint32_t n : taken_) {
    const Flow& f = flows_[parts_[n].flow];
    parts_[n].unchecked = false;
    if (f.uses.size() > kFewLinks && !parts_[n].narrowed) {
      // Where room is least for one of many links, mostly is for the others then.
      uint32_t least = Filling::kNoLink;
      double most_lacking = 0;
      for_bound(f, [&](const Use& use) {
        const Room room = to_room(links_[use.link].capacity);
        const Room taken = bindings_[use.link].taken;
        if (bindings_[use.link].seen == problem_ || taken <= room) return false;
        const double lacking = static_cast<double>(taken - room) / use.load;
        if (lacking <= most_lacking) return false;
        most_lacking = lacking;
        least = use.link;
        return false;
      });
      if (least != Filling::kNoLink) {
        parts_[n].narrowed = true;
        parts_[n].unchecked = true;
        add_link(least);
        done = false;
        continue;
      }
    }
    for_bound(f, [&](const Use& use) {
      if (!check_link(use.link)) done = false;
      return false;
    });
  }
  return done;
}

// False if the link joins the problem.  Flows that it held back and does no longer become free.
bool FlowShares::check_link(uint32_t link) {
  Binding& binding = bindings_[link];
  if (binding.seen == problem_) return true;
  if (!has_room(link, 0)) {
    add_link(link);
    return false;
  }
  if (binding.held == 0) return true;
  for (const Member m : links_[link].members) {
    Flow& f = flows_[m.flow];
    if (f.held_by != link) continue;
    if (f.seen == problem_ && parts_[f.number].free) continue;
    if (!held_elsewhere(f)) free(number_of(m.flow));
  }
  return true;
}

void FlowShares::free_those_not_held() {
  for (uint32_t n = 0; n < parts_.size(); ++n)
    if (!parts_[n].free && !keeps(n)) free(n);
}

// Does a flow that is not free get what it has, and does anything hold it back still?
bool FlowShares::keeps(uint32_t number) {
  Flow& f = flows_[parts_[number].flow];
  if (filling_.share(number) != f.share) return false;
  const uint32_t by = filling_.stopped_by(number);
  if (by != Filling::kNoLink) {
    set_held_by(f, problem_links_[by]);
    return true;
  }
  return f.held_by == Filling::kNoLink || bindings_[f.held_by].seen != problem_ ||
         held_elsewhere(f);
}

// Looks for another link that holds it back, outside of the problem.
bool FlowShares::held_elsewhere(Flow& flow) {
  uint32_t found = Filling::kNoLink;
  for_bound(flow, [&](const Use& use) {
    if (bindings_[use.link].seen == problem_ || !holds(use.link, flow.share)) return false;
    found = use.link;
    return true;
  });
  if (found == Filling::kNoLink) return false;
  set_held_by(flow, found);
  return true;
}

// Is the link full, and does no flow on it have more?  If a flow on it is still to be solved this
// is not the last word, for then the link is.
bool FlowShares::holds(uint32_t link, Share share) const {
  if (has_room(link, 0)) return false;
  Room taken = 0;
  uint64_t top_load = 0;
  for (const Member& m : links_[link].members) {
    const Flow& f = flows_[m.flow];
    if (f.share > share) return false;
    const uint32_t load = f.uses[m.use].load;
    taken += f.share * load;
    if (f.share == share) top_load += load;
  }
  return to_room(links_[link].capacity) - taken < top_load;
}

// Are all of its flows held back elsewhere, with `more` on the link, at whatever level it were
// filled? Then what is left over is more than rounding at every level: 1/2^32 B/s for each flow,
// for no load is more than 2^32.
bool FlowShares::has_room(uint32_t link, Room more) const {
  const int64_t capacity = links_[link].capacity;
  if (capacity > kSummed) return false;
  return bindings_[link].taken + more + (Room{links_[link].members.size()} << 32) <=
         to_room(capacity);
}

void FlowShares::set_share(Flow& flow, Share share) {
  const Share more = share - flow.share;
  flow.share = share;
  for_bound(flow, [&](const Use& use) {
    bindings_[use.link].taken += more * use.load;
    return false;
  });
}

void FlowShares::set_held_by(Flow& flow, uint32_t link) {
  if (flow.held_by != Filling::kNoLink) --bindings_[flow.held_by].held;
  if (link != Filling::kNoLink) ++bindings_[link].held;
  flow.held_by = link;
}

}  // namespace stepcast
