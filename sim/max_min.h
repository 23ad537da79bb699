// SPDX-License-Identifier: Apache-2.0
// Progressive filling: max-min fair rates of one set of flows, the arithmetic under FlowNetwork.
//
// Shares are whole numbers of 2^-48 bytes per second, each rounded down from what a link has left;
// the error of a rate is some 2^-48 B/s for each level below it.  A share less than 2^-24 below a
// whole rate counts as that rate, so thirds that add up to a whole do.  All links and flows that
// are full at one level are fixed together; hence the result does not depend on any order.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/link_use.h"

namespace stepcast {

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
// Rates of these flows on links of these capacities, in bytes per second, rounded down.  What
// FlowNetwork is tested against.  REQUIRES: capacities, caps and loads positive.
std::vector<int64_t> max_min_rates(std::span<const int64_t> capacity,
                                   std::span<const FlowDemand> flows);

}  // namespace stepcast
