// SPDX-License-Identifier: Apache-2.0
// The clock of the flows: bytes left, rates, and a queue of ends.
//
// Between two changes of its rate a flow moves bytes evenly, so it is enough to keep what was left
// at the last change (`left`, `since`).  Two flows of 1 GB on a link of 100 GB/s, started at 0 and
// 5 ms:
//
//     0 ms    flow 0: left 1 GB since 0 at 100 GB/s, end 10 ms, queued with version 1
//     5 ms    flow 1 starts.  The shares are solved again, and both get 50 GB/s:
//             flow 0: left 0.5 GB since 5 ms, end 15 ms, queued with version 2
//             flow 1: left 1 GB since 5 ms, end 25 ms, queued with version 1
//     10 ms   the entry of version 1 of flow 0 is out of date and is dropped
//     15 ms   flow 0 ends; flow 1 has 0.5 GB left at 100 GB/s, end 20 ms, version 2
//
// Starts and changed caps at one moment are only collected; the shares are solved when the clock is
// about to move or somebody asks for the next end (solve_changes).  Which rates change is found by
// fair_shares.h; only those flows are touched here.  Entries that are out of date stay in the queue
// until they come up, or until they are most of it (purge).

#include "sim/contention/flow_network.h"

#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/contention/fair_shares.h"
#include "sim/contention/radix_heap.h"

namespace stepcast {
namespace {

using Parts = __int128;  // 10^-12 bytes
constexpr Parts kPartsOfByte = 1'000'000'000'000;
constexpr int64_t kNever = INT64_MAX;

}  // namespace

struct FlowNetwork::Storage {
  // One cache line.
  struct alignas(64) Running {
    Parts left = 0;  // at `since`
    int64_t since = 0;
    int64_t rate = 0;  // 0: not solved yet
    int64_t end = kNever;
    uint64_t order = 0;  // of starts
    uint64_t tag = 0;
  };
  static_assert(sizeof(Running) == 64);

  // `flow` ends at the key unless its version has changed since.
  struct End {
    uint32_t flow = 0;
    uint32_t version = 0;
  };

  // First moment at which nothing is left.
  static int64_t end_of(const Running& flow) {
    if (flow.left <= 0) return flow.since;
    const Parts duration = (flow.left + flow.rate - 1) / flow.rate;
    return duration < kNever - flow.since ? flow.since + static_cast<int64_t>(duration) : kNever;
  }

  FlowShares shares;
  std::vector<Running> flows;
  // Of each flow's `end`; it keeps counting when the flow's number is used again.  Not a member of
  // Running, because the queue reads the versions of many flows that nothing else reads.
  std::vector<uint32_t> versions;
  std::vector<uint32_t> free;  // flows that do not run
  RadixHeap<End> ends;
  int64_t least_end = kNever;  // of `ends`, if known
  bool least_known = true;
  uint64_t started = 0;
  int64_t now = 0;  // time of changes not solved yet
  std::vector<uint32_t> due;

  explicit Storage(const std::vector<int64_t>& capacity) : shares(capacity) {}
  bool valid(const End& e) const { return versions[e.flow] == e.version; }
  void move_to(int64_t time);
  void solve_changes();
  void set_rate(uint32_t flow, int64_t rate);
};

// Everything that changed before `time` must be solved before the clock moves on.
void FlowNetwork::Storage::move_to(int64_t time) {
  STEPCAST_CHECK(time >= now, "flows start in order of time");
  if (time > now) solve_changes();
  now = time;
}

void FlowNetwork::Storage::solve_changes() {
  if (shares.solved()) return;
  const std::span<const uint32_t> moved = shares.solve();
  for (const uint32_t f : moved) __builtin_prefetch(&flows[f]);
  for (const uint32_t f : moved) set_rate(f, to_rate(shares.share(f)));
  if (ends.size() > 4 * (flows.size() - free.size()) + 1024)
    ends.purge([&](const Storage::End& e) { return valid(e); });
}

void FlowNetwork::Storage::set_rate(uint32_t flow, int64_t rate) {
  Running& f = flows[flow];
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

FlowNetwork::FlowNetwork(std::vector<int64_t> capacity)
    : storage_(std::make_unique<Storage>(capacity)) {}

FlowNetwork::~FlowNetwork() = default;

FlowNetwork::Flow FlowNetwork::start(int64_t time, int64_t bytes, int64_t cap,
                                     std::span<const LinkUse> uses, uint64_t tag) {
  STEPCAST_CHECK(bytes > 0 && cap > 0, "a flow without bytes or without a rate");
  Storage& s = *storage_;
  s.move_to(time);
  if (s.free.empty()) {
    s.free.push_back(static_cast<uint32_t>(s.flows.size()));
    s.flows.emplace_back();
    s.versions.push_back(0);
  }
  const uint32_t flow = s.free.back();
  s.shares.enter(flow, cap, uses);
  s.free.pop_back();
  s.flows[flow] = {.left = bytes * kPartsOfByte, .since = time, .order = s.started++, .tag = tag};
  return flow;
}

void FlowNetwork::set_cap(int64_t time, Flow flow, int64_t cap) {
  storage_->move_to(time);
  storage_->shares.set_cap(flow, cap);
}

int64_t FlowNetwork::next_end() {
  Storage& s = *storage_;
  s.solve_changes();
  if (!s.least_known) {
    s.least_end = s.ends.least([&](const Storage::End& e) {
      // What is looked at here ends soon.
      __builtin_prefetch(&s.flows[e.flow]);
      s.shares.prefetch(e.flow);
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
  s.ends.advance(time, [&](const Storage::End& e) {
    if (s.valid(e)) s.due.push_back(e.flow);
  });
  std::sort(s.due.begin(), s.due.end(),
            [&](uint32_t a, uint32_t b) { return s.flows[a].order < s.flows[b].order; });
  for (const uint32_t flow : s.due) {
    s.shares.leave(flow);
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
  return storage_->shares.solves();
}

int64_t FlowNetwork::solved_flows() const {
  return storage_->shares.solved_flows();
}

}  // namespace stepcast
