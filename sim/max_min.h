// SPDX-License-Identifier: Apache-2.0
// Progressive filling: the arithmetic under max_min_rates and FlowNetwork.
//
// Shares are whole numbers of 2^-48 bytes per second, each rounded down from what a link has left;
// the error of a rate is some 2^-48 B/s for each level below it.  A share less than 2^-24 below a
// whole rate counts as that rate, so thirds that add up to a whole do.  All links and flows that
// are full at one level are fixed together; hence the result does not depend on any order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/flow_network.h"

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
  void clear();
  uint32_t add_link(int64_t capacity);
  // A flow that gets no more than `limit`; its uses are added next, links by their number here.
  uint32_t add_flow(Share limit);
  void add_use(uint32_t link, uint32_t load);
  void solve();
  Share share(uint32_t flow) const { return flows_[flow].share; }

 private:
  struct Link {
    Room room = 0;       // not taken by fixed flows
    uint64_t load = 0;   // of flows that are not fixed
    Share share = 0;     // room / load, or what it was before it was touched: it never shrinks
    uint32_t first = 0;  // of members_
    uint32_t end = 0;
    bool touched = false;
  };
  struct Flow {
    Share limit = 0;
    Share share = 0;
    uint32_t first = 0;  // of uses_
    bool fixed = false;
  };
  using Queued = std::pair<Share, uint32_t>;

  void list_members();
  void update(Link& link);
  void fix(uint32_t flow, Share level);
  void fix_members(uint32_t link, Share level);
  void solve_by_scan();
  void solve_by_heap();
  Share fullest_in_heap();

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<LinkUse> uses_;
  std::vector<uint32_t> members_;  // flows of each link
  std::vector<uint32_t> touched_;  // links
  std::vector<uint32_t> full_;     // links at this level
  std::vector<uint32_t> moving_;   // flows not fixed, or all of them by limit
  std::vector<Queued> heap_;       // least share first
};

}  // namespace stepcast
