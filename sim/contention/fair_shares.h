// SPDX-License-Identifier: Apache-2.0
// Max-min fair shares of links.  Internal to flow_network.h.
//
//   Filling     progressive filling of one set of flows, from scratch
//   FlowShares  the shares of flows that come and go, solved again only where a change reaches
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/contention/flow_network.h"

namespace stepcast {
// -------------------------------------------------------------------------------------------------
// Progressive filling: max-min fair rates of one set of flows, the arithmetic under FlowNetwork.
//
// Shares are whole numbers of 2^-48 bytes per second, each rounded down from what a link has left;
// the error of a rate is some 2^-48 B/s for each level below it.  A share less than 2^-24 below a
// whole rate counts as that rate, so thirds that add up to a whole do.  All links and flows that
// are full at one level are fixed together; hence the result does not depend on any order.

using Share = unsigned __int128;  // of a flow, 2^-48 B/s
using Room = unsigned __int128;   // of a link, 2^-64 B/s: a share times a load

constexpr int kShareBits = 48;

constexpr Share to_share(int64_t rate) {
  return static_cast<Share>(static_cast<uint64_t>(rate)) << kShareBits;
}
constexpr Room to_room(int64_t capacity) {
  return static_cast<Room>(static_cast<uint64_t>(capacity)) << 64;
}
// Bytes per second; at least 1, so that everything ends.
constexpr int64_t to_rate(Share share) {
  const auto rate = static_cast<int64_t>((share + (Share{1} << 24)) >> kShareBits);
  return rate > 0 ? rate : 1;
}

// A set of flows and the links that they share.  Kept between problems for its memory.
class Filling {
 public:
  static constexpr uint32_t kNoLink = UINT32_MAX;

  void clear();
  // A flow that gets no more than `limit`.
  uint32_t add_flow(Share limit);
  void set_limit(uint32_t flow, Share limit) { flows_[flow].limit = limit; }
  uint32_t add_link(int64_t capacity);
  // A use of the link that was added last.
  void add_use(uint32_t flow, uint32_t load);
  // May be called again when more has been added or limits have changed; starts from scratch.
  void solve();
  Share share(uint32_t flow) const { return flows_[flow].share; }
  // A link that is full and on which no flow has more; kNoLink if what holds the flow back is its
  // limit only.
  uint32_t stopped_by(uint32_t flow) const { return flows_[flow].link; }

 private:
  struct Link {
    Room room = 0;      // not taken by fixed flows
    uint64_t load = 0;  // of flows that are not fixed
    Share share = 0;    // room / load, or what it was before it was touched: it never shrinks
    int64_t capacity = 0;
    uint64_t all_load = 0;
    uint32_t first = 0;  // of members_
    uint32_t end = 0;
    bool touched = false;
  };
  struct Flow {
    Share limit = 0;
    Share share = 0;
    uint32_t link = kNoLink;
    uint32_t first = 0;  // of uses_
    uint32_t end = 0;
    bool fixed = false;
  };
  struct Member {
    uint32_t flow = 0;
    uint32_t load = 0;
  };
  using Queued = std::pair<Share, uint32_t>;

  void list_uses();
  void update(Link& link);
  void fix(uint32_t flow, Share level, uint32_t link);
  void fix_members(uint32_t link, Share level);
  void solve_by_scan();
  void solve_by_heap();
  Share fullest_in_heap();

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<Member> members_;    // of each link
  std::vector<LinkUse> uses_;      // of each flow
  std::vector<uint32_t> touched_;  // links
  std::vector<uint32_t> full_;     // links at this level
  std::vector<uint32_t> moving_;   // flows not fixed, or all of them by limit
  std::vector<Queued> heap_;       // least share first
};

// A flow that can do `cap` bytes per second at most.
struct FlowDemand {
  int64_t cap = 0;
  std::span<const LinkUse> uses;
};
// Rates of these flows on links of these capacities, in bytes per second, rounded down.  For tests,
// which compare FlowNetwork with it.  REQUIRES: capacities, caps and loads positive.
std::vector<int64_t> max_min_rates(std::span<const int64_t> capacity,
                                   std::span<const FlowDemand> flows);

// -------------------------------------------------------------------------------------------------
// Max-min fair shares of flows that come, go and change what they can do at most.
//
// The shares are those that Filling (above) gives all flows from scratch, to the last bit.  They
// are found from the shares before, for most changes alter the share of no other flow.  What is
// kept for it is what holds each flow back: its own limit, or a link.
// An allocation is the one that filling finds if and only if
//   - no flow has more than its limit,
//   - at each link and each share v that a flow has there, with
//       S(v) = floor((capacity - sum of smaller shares * load) / (sum of all other loads)),
//     S(v) >= v for the largest v and S(v) > v for every smaller one: no link is full at a level
//     that a flow on it exceeds,
//   - a flow below its limit has a link on which no flow has more and S(v) = v.
// (In rational numbers this is Bertsekas and Gallager, Data Networks, 1992, section 6.5.2; the
// second line is what rounding adds.  By induction over levels: if two allocations agree below v,
// so do all S(v), hence which links are full at v and which flows end there.)  So after a change
// the conditions are checked where it reaches: a set of flows is filled anew, beside them the other
// flows on the same links as flows that are limited to the share they have.  A flow of these that
// gets less, or is no longer held back by a link on which it was, joins the set, until none does.
// Changes so follow the structure of bottlenecks (Ros-Giralt et al., On the bottleneck structure of
// congestion-controlled networks, Proc. ACM Meas. Anal. Comput. Syst. 3(3), 2019), not the
// component.
//
// Of a collective on 700 links one or two decide what it gets.  So a set is filled on the links
// that are known to hold its flows back; then each of their other links is asked whether there is
// room for what they got, which is one comparison, because the sum of what its flows take is kept.
// A link with room to spare meets the conditions at every level; any other joins the problem, and
// the set is filled again.

class FlowShares {
 public:
  // Capacity of each link in bytes per second, positive.
  explicit FlowShares(const std::vector<int64_t>& capacity);

  // Flows have the numbers that the caller gives them, small and used again.
  // REQUIRES: cap > 0, loads positive.
  void enter(uint32_t flow, int64_t cap, std::span<const LinkUse> uses);
  void set_cap(uint32_t flow, int64_t cap);
  void leave(uint32_t flow);

  // Says that the flow will soon change or leave.
  void prefetch(uint32_t flow) const {
    __builtin_prefetch(&flows_[flow]);
    __builtin_prefetch(&flows_[flow].uses);
  }

  // Brings all shares up to date.  Returns the flows that have another share than before, those
  // that entered among them; valid until the next change.
  std::span<const uint32_t> solve();
  bool solved() const { return changed_.empty() && relieved_.empty(); }
  Share share(uint32_t flow) const { return flows_[flow].share; }

  int64_t solves() const { return solves_; }              // problems filled
  int64_t solved_flows() const { return solved_flows_; }  // flows in them

 private:
  // What flows could put on a link if nothing but their limits held them back; 2^-32 B/s, rounded
  // up for each flow.
  using Demand = unsigned __int128;

  // A use of a link by a flow: uses[use] of it.
  struct Member {
    uint32_t flow = 0;
    uint32_t use = 0;
  };

  // One cache line: what entering and leaving touches of each link.
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
    Room taken = 0;         // by its flows
    uint64_t seen = 0;      // last problem that it was in
    uint32_t number = 0;    // in Filling
    uint32_t held = 0;      // flows that it holds back
    bool relieved = false;  // has lost demand since it was last solved
  };

  struct Use {
    uint32_t link = 0;
    uint32_t load = 0;
    uint32_t place = 0;  // in the members of the link
  };

  // The first cache line is what its neighbours look at.
  struct alignas(64) Flow {
    Share limit = 0;  // alone on its links, or its cap
    Share share = 0;
    uint64_t seen = 0;                    // last problem that it was in
    uint32_t number = 0;                  // in Filling
    uint32_t held_by = Filling::kNoLink;  // none: its limit
    uint64_t bound = 0;                   // bit for each of the first 64 uses: its link binds
    bool changed = false;                 // entered or has another limit, not solved yet
    boost::container::small_vector<Use, 6> uses;
    std::vector<uint64_t> more_bound;  // of the other uses
  };
  static_assert(sizeof(Flow) == 192);

  struct Part {
    uint32_t flow = 0;
    bool free = false;       // may get any share; else no more than it has
    bool narrowed = false;   // the link with the least room for it is in the problem
    bool unchecked = false;  // not all of its links were asked for room for its share
    Share before = 0;        // its share when the problem began
  };

  static Demand demand_of(Share limit, uint32_t load);
  template <class Uses>
  Share alone_share(const Uses& uses) const;
  void bind(const Member& member, bool on);
  template <class F>
  void for_bound(const Flow& flow, const F& f) const;
  void bind_members(uint32_t link);
  void relieve(uint32_t link);
  void change(uint32_t flow);
  void solve_around_flow(uint32_t flow);
  void solve_around_link(uint32_t link);
  void begin_problem();
  uint32_t number_of(uint32_t flow);
  void add_link(uint32_t link);
  void free(uint32_t number);
  void add_links();
  void free_at_least(size_t count);
  void solve_problem();
  void free_those_not_held();
  bool keeps(uint32_t number);
  bool held_elsewhere(Flow& flow);
  bool holds(uint32_t link, Share share) const;
  bool has_room(uint32_t link, Room more) const;
  void take_shares();
  bool check_links();
  bool check_link(uint32_t link);
  void set_share(Flow& flow, Share share);
  void set_held_by(Flow& flow, uint32_t link);

  std::vector<Link> links_;
  std::vector<Binding> bindings_;  // of each link
  std::vector<Flow> flows_;
  std::vector<uint32_t> changed_;   // flows, or were since they left
  std::vector<uint32_t> relieved_;  // links
  std::vector<uint32_t> moved_;     // flows with another share

  // The problem: links, all flows on them.
  uint64_t problem_ = 0;
  Filling filling_;
  std::vector<uint32_t> problem_links_;
  std::vector<Part> parts_;
  std::vector<uint32_t> freed_;  // parts whose links are still to be added
  std::vector<uint32_t> taken_;  // parts whose links are to be asked for room
  size_t free_count_ = 0;
  size_t effort_ = 0;  // flows filled in this call of solve

  int64_t solves_ = 0, solved_flows_ = 0;
};

}  // namespace stepcast
