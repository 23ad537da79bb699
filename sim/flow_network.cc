// SPDX-License-Identifier: Apache-2.0
#include "sim/flow_network.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "sim/check.h"
#include "sim/max_min.h"
#include "sim/radix_heap.h"

namespace stepcast {
namespace {

using Parts = __int128;  // 10^-12 bytes
constexpr Parts kPartsOfByte = 1'000'000'000'000;
constexpr int64_t kNever = INT64_MAX;

// What flows could put on a link if nothing but their limits held them back; 2^-32 B/s, rounded up
// for each flow.
using Demand = unsigned __int128;

Demand demand_of(Share limit, uint32_t load) {
  return ((limit + 0xffff'ffffU) >> 32) * load;
}

// A use of a link by a flow: uses[use] of it.
struct Member {
  uint32_t flow = 0;
  uint32_t use = 0;
};

// One cache line: what starting and ending a flow touches of each of its links.
struct alignas(64) Link {
  Demand demand = 0;
  int64_t capacity = 0;
  boost::container::small_vector<Member, 2> members;

  // Can it hold a flow back?  If not, its flows have nothing to do with each other here.
  bool binds() const {
    return members.size() > 1 && demand > static_cast<Demand>(static_cast<uint64_t>(capacity))
                                              << 32;
  }
};
static_assert(sizeof(Link) == 64);

// The rest of a link, for those that bind.
struct Binding {
  uint64_t seen = 0;    // last component search that met it
  uint32_t number = 0;  // in Filling
  bool changed = false;
};

struct Use {
  uint32_t link = 0;
  uint32_t load = 0;
  uint32_t place = 0;  // in the members of the link
};

struct alignas(64) Running {
  boost::container::small_vector<Use, 4> uses;  // of links that bind first
  uint32_t bound = 0;                           // so many
  bool runs = false;
  uint64_t order = 0;  // of starts
  uint64_t tag = 0;
  uint64_t seen = 0;  // last component search that met it
  Share limit = 0;    // alone or its cap
  Share alone = 0;    // what its links would give it if it were alone
  Parts left = 0;     // at `since`
  int64_t since = 0;
  int64_t rate = 0;  // 0: not solved yet
  int64_t end = kNever;
};

// `flow` ends at the key unless its version has changed since.
struct End {
  uint32_t flow = 0;
  uint32_t version = 0;
};

// What the flow gets of its links alone: the least of capacity / load.
Share alone_share(const std::vector<Link>& links, std::span<const LinkUse> uses) {
  if (uses.empty()) return to_share(kNever);
  // Fractions are compared crosswise, for a division costs more.
  int64_t capacity = links[uses[0].link].capacity;
  uint32_t load = uses[0].load;
  for (const LinkUse& use : uses) {
    STEPCAST_CHECK(use.load > 0, "a use of a link that puts nothing on it");
    const int64_t c = links[use.link].capacity;
    if (static_cast<Parts>(c) * load >= static_cast<Parts>(capacity) * use.load) continue;
    capacity = c;
    load = use.load;
  }
  return std::min(to_room(capacity) / load, to_share(kNever));
}

// First moment at which nothing is left.
int64_t end_of(const Running& flow) {
  if (flow.left <= 0) return flow.since;
  const Parts duration = (flow.left + flow.rate - 1) / flow.rate;
  return duration < kNever - flow.since ? flow.since + static_cast<int64_t>(duration) : kNever;
}

}  // namespace

struct FlowNetwork::Storage {
  std::vector<Link> links;
  std::vector<Binding> bindings;  // of each link
  std::vector<Running> flows;
  // Of each flow's `end`; goes on when its place is used again.  Not in Running, for the queue
  // looks at many that nobody else looks at.
  std::vector<uint32_t> versions;
  std::vector<uint32_t> free;  // flows that do not run
  RadixHeap<End> ends;
  int64_t least_end = kNever;  // of `ends`, if known
  bool least_known = true;
  uint64_t started = 0;

  int64_t now = 0;                      // time of the changes below
  std::vector<uint32_t> changed_flows;  // started, or have another cap
  std::vector<uint32_t> changed_links;  // held somebody back and have lost demand

  uint64_t search = 0;
  std::vector<uint32_t> component;  // flows
  std::vector<uint32_t> flipped;    // links that bind now or no longer do
  std::vector<uint32_t> due;
  Filling filling;
  int64_t solves = 0, solved_flows = 0;

  bool valid(const End& e) const { return versions[e.flow] == e.version; }
  void move_to(int64_t time);
  void enter(uint32_t flow, std::span<const LinkUse> uses);
  void leave(uint32_t flow);
  void bind(const Member& member, bool on);
  void bind_members(uint32_t link);
  void mark(uint32_t link);
  void solve_changes();
  void meet(uint32_t flow);
  void solve_component(uint32_t seed);
  void set_share(uint32_t flow, Share share);
};

// Everything that changed before `time` must be solved before the clock moves on.
void FlowNetwork::Storage::move_to(int64_t time) {
  STEPCAST_CHECK(time >= now, "flows start in order of time");
  if (time > now) solve_changes();
  now = time;
}

// Sorts a use of a link among those that bind, or those that do not, of its flow.
void FlowNetwork::Storage::bind(const Member& member, bool on) {
  Running& f = flows[member.flow];
  const uint32_t from = member.use;
  if ((from < f.bound) == on) return;
  const uint32_t to = on ? f.bound++ : --f.bound;
  std::swap(f.uses[from], f.uses[to]);
  links[f.uses[from].link].members[f.uses[from].place].use = from;
  links[f.uses[to].link].members[f.uses[to].place].use = to;
}

void FlowNetwork::Storage::bind_members(uint32_t link) {
  const bool on = links[link].binds();
  for (size_t m = 0; m < links[link].members.size(); ++m) bind(Member(links[link].members[m]), on);
}

void FlowNetwork::Storage::enter(uint32_t flow, std::span<const LinkUse> uses) {
  Running& f = flows[flow];
  for (const LinkUse& use : uses) {
    Link& link = links[use.link];
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
}

// Its flows may go faster now, though the link may no longer show that it held them back.
void FlowNetwork::Storage::mark(uint32_t link) {
  if (bindings[link].changed) return;
  bindings[link].changed = true;
  changed_links.push_back(link);
}

void FlowNetwork::Storage::leave(uint32_t flow) {
  Running& f = flows[flow];
  // Links lie all over memory: asks for all of them rather than for one after the other.
  for (const Use& use : f.uses) __builtin_prefetch(&links[use.link]);
  while (!f.uses.empty()) {
    const Use use = f.uses.back();
    f.uses.pop_back();
    f.bound = std::min(f.bound, static_cast<uint32_t>(f.uses.size()));
    Link& link = links[use.link];
    const bool did = link.binds();
    const Member last = link.members.back();
    link.members.pop_back();
    if (use.place < link.members.size()) {
      link.members[use.place] = last;
      flows[last.flow].uses[last.use].place = use.place;
    }
    link.demand -= demand_of(f.limit, use.load);
    if (!did) continue;
    mark(use.link);
    if (!link.binds()) bind_members(use.link);
  }
}

void FlowNetwork::Storage::solve_changes() {
  if (changed_flows.empty() && changed_links.empty()) return;
  ++search;
  for (const uint32_t f : changed_flows)
    if (flows[f].runs) solve_component(f);
  for (const uint32_t l : changed_links) {
    bindings[l].changed = false;
    for (const Member& m : links[l].members) solve_component(m.flow);
  }
  changed_flows.clear();
  changed_links.clear();
  if (ends.size() > 4 * (flows.size() - free.size()) + 1024)
    ends.purge([&](const End& e) { return valid(e); });
}

void FlowNetwork::Storage::meet(uint32_t flow) {
  if (flows[flow].seen == search) return;
  flows[flow].seen = search;
  component.push_back(flow);
}

// Solves the component of `seed` unless this search has met it.
void FlowNetwork::Storage::solve_component(uint32_t seed) {
  if (flows[seed].seen == search) return;
  component.clear();
  filling.clear();
  meet(seed);
  for (size_t i = 0; i < component.size(); ++i) {
    const Running& f = flows[component[i]];
    filling.add_flow(f.limit);
    for (uint32_t u = 0; u < f.bound; ++u) {
      const Use& use = f.uses[u];
      Binding& binding = bindings[use.link];
      if (binding.seen != search) {
        const Link& link = links[use.link];
        binding.seen = search;
        binding.number = filling.add_link(link.capacity);
        for (const Member& m : link.members) meet(m.flow);
      }
      filling.add_use(binding.number, use.load);
    }
  }
  ++solves;
  solved_flows += static_cast<int64_t>(component.size());
  if (flows[seed].bound == 0) return set_share(seed, flows[seed].limit);
  filling.solve();
  for (uint32_t i = 0; i < component.size(); ++i) set_share(component[i], filling.share(i));
}

void FlowNetwork::Storage::set_share(uint32_t flow, Share share) {
  Running& f = flows[flow];
  const int64_t rate = to_rate(share);
  if (rate == f.rate) return;
  f.left -= static_cast<Parts>(f.rate) * (now - f.since);
  f.since = now;
  f.rate = rate;
  if (f.end == least_end) least_known = false;
  f.end = end_of(f);
  ++versions[flow];
  if (f.end == kNever) return;
  ends.push(f.end, {flow, versions[flow]});
  least_end = std::min(least_end, f.end);
}

FlowNetwork::FlowNetwork(std::vector<int64_t> capacity) : storage_(std::make_unique<Storage>()) {
  storage_->links.resize(capacity.size());
  storage_->bindings.resize(capacity.size());
  for (size_t l = 0; l < capacity.size(); ++l) {
    STEPCAST_CHECK(capacity[l] > 0, "a link without capacity");
    storage_->links[l].capacity = capacity[l];
  }
}

FlowNetwork::~FlowNetwork() = default;

FlowNetwork::Flow FlowNetwork::start(int64_t time, int64_t bytes, int64_t cap,
                                     std::span<const LinkUse> uses, uint64_t tag) {
  STEPCAST_CHECK(bytes > 0 && cap > 0, "a flow without bytes or without a rate");
  Storage& s = *storage_;
  s.move_to(time);
  const Share alone = alone_share(s.links, uses);
  if (s.free.empty()) {
    s.free.push_back(static_cast<uint32_t>(s.flows.size()));
    s.flows.emplace_back();
    s.versions.push_back(0);
  }
  const uint32_t flow = s.free.back();
  s.free.pop_back();
  Running& f = s.flows[flow];
  f.alone = alone;
  f.limit = std::min(f.alone, to_share(cap));
  f.left = bytes * kPartsOfByte;
  f.since = time;
  f.rate = 0;
  f.end = kNever;
  f.order = s.started++;
  f.tag = tag;
  f.runs = true;
  s.enter(flow, uses);
  s.changed_flows.push_back(flow);
  return flow;
}

void FlowNetwork::set_cap(int64_t time, Flow flow, int64_t cap) {
  Storage& s = *storage_;
  s.move_to(time);
  Running& f = s.flows[flow];
  const Share limit = std::min(f.alone, to_share(cap));
  if (limit == f.limit) return;
  for (const Use& use : f.uses) {
    Link& link = s.links[use.link];
    const bool did = link.binds();
    link.demand += demand_of(limit, use.load) - demand_of(f.limit, use.load);
    if (did) s.mark(use.link);
    if (did != link.binds()) s.flipped.push_back(use.link);
  }
  for (const uint32_t link : s.flipped) s.bind_members(link);  // moves uses
  s.flipped.clear();
  f.limit = limit;
  s.changed_flows.push_back(flow);
}

int64_t FlowNetwork::next_end() {
  Storage& s = *storage_;
  s.solve_changes();
  if (!s.least_known) {
    s.least_end = s.ends.least([&](const End& e) {
      // What is looked at here ends soon.
      __builtin_prefetch(&s.flows[e.flow]);
      __builtin_prefetch(&s.flows[e.flow].left);
      return s.valid(e);
    });
    s.least_known = true;
  }
  return s.least_end;
}

void FlowNetwork::end_due(int64_t time, std::vector<Ended>& ended) {
  Storage& s = *storage_;
  STEPCAST_CHECK(time == next_end(), "flows end when they are due");
  s.now = time;
  s.due.clear();
  s.ends.advance(time, [&](const End& e) {
    if (s.valid(e)) s.due.push_back(e.flow);
  });
  std::sort(s.due.begin(), s.due.end(),
            [&](uint32_t a, uint32_t b) { return s.flows[a].order < s.flows[b].order; });
  for (const uint32_t flow : s.due) {
    s.leave(flow);
    s.flows[flow].runs = false;
    ++s.versions[flow];
    s.free.push_back(flow);
    ended.push_back({flow, s.flows[flow].tag, time});
  }
  s.least_known = false;
}

int64_t FlowNetwork::rate(Flow flow) {
  storage_->solve_changes();
  return storage_->flows[flow].rate;
}

int64_t FlowNetwork::solves() const {
  return storage_->solves;
}

int64_t FlowNetwork::solved_flows() const {
  return storage_->solved_flows;
}

}  // namespace stepcast
