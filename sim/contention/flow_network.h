// SPDX-License-Identifier: Apache-2.0
// Flows that share links, max-min fair: the network as the contention engine sees it.
//
// A flow has bytes to move, a rate it cannot exceed, and links it uses; on link l a flow of rate r
// takes r * load / kFullLoad of the capacity (a ring all-reduce passes each link with
// 2(n-1)/n of its message).  All links of a flow see the same rate: a collective is one flow.
//
// At any moment the rates are max-min fair: no rate can grow without shrinking one that is not
// larger (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2), found by progressive
// filling. Rates are whole bytes per second, rounded down once and at least 1; bytes left are
// counted in 10^-12 bytes (rate in B/s times ps), exactly; a flow ends at the first whole
// picosecond at which nothing is left (never, if that is 2^63 or later).  So results depend neither
// on the order of events at one moment nor on what else runs.
//
// Starting or ending a flow changes the rates of a few flows, mostly of none; only those that the
// change reaches are solved again (fair_shares.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace stepcast {

constexpr uint32_t kFullLoad = 1 << 16;

// What a flow puts on one link of the cluster.
struct LinkUse {
  uint32_t link = 0;
  uint32_t load = kFullLoad;  // bytes over the link for each kFullLoad bytes of the message
};

class FlowNetwork {
 public:
  // Capacity of each link in bytes per second, positive.
  explicit FlowNetwork(std::vector<int64_t> capacity);
  ~FlowNetwork();

  using Flow = uint32_t;  // reused after its end
  struct Ended {
    Flow flow = 0;
    uint64_t tag = 0;
    int64_t time = 0;
  };

  // A flow of `bytes` that starts at `time`, not before any time given or ended at earlier, nor
  // after next_end().
  // REQUIRES: bytes > 0, cap > 0, loads positive.
  Flow start(int64_t time, int64_t bytes, int64_t cap, std::span<const LinkUse> uses, uint64_t tag);
  // Changes what flow can do at most, from `time` on (a neighbour kernel takes its share).
  void set_cap(int64_t time, Flow flow, int64_t cap);
  // When the next flow ends, as things stand; INT64_MAX if none does.  Solves what is pending.
  int64_t next_end();
  // Ends every flow that is due at `time`; in the order they were started.
  // REQUIRES: time == next_end().
  void end_due(int64_t time, std::vector<Ended>& ended);
  // Rate of a running flow now.
  int64_t rate(Flow flow);

  int64_t solves() const;        // sets of flows filled
  int64_t solved_flows() const;  // flows in them

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

}  // namespace stepcast
