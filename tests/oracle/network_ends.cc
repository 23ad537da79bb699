// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/network_ends.h"

#include <algorithm>

#include "sim/check.h"
#include "sim/contention/flow_network.h"

namespace stepcast::oracle {
namespace {

struct Driver {
  const std::vector<TimedFlow>& flows;
  bool peeks;
  FlowNetwork network;
  std::vector<int64_t> ends;                // -1: not yet
  std::vector<FlowNetwork::Flow> running;   // of each flow
  std::vector<FlowNetwork::Ended> ended{};  // at this moment

  bool starts_by(size_t f, int64_t time) const {
    return running[f] == UINT32_MAX && flows[f].earliest <= time &&
           std::all_of(flows[f].after.begin(), flows[f].after.end(),
                       [&](uint32_t a) { return ends[a] >= 0; });
  }
  bool runs(size_t f) const { return running[f] != UINT32_MAX && ends[f] < 0; }

  void peek() {
    if (!peeks) return;
    network.next_end();
    for (size_t f = 0; f < flows.size(); ++f)
      if (runs(f)) STEPCAST_CHECK(network.rate(running[f]) > 0, "a running flow moves");
  }

  void change(int64_t time) {
    for (size_t f = 0; f < flows.size(); ++f) {
      if (starts_by(f, time)) {
        running[f] = network.start(time, flows[f].bytes, flows[f].cap, flows[f].uses, f);
        peek();
      }
      for (const CapChange& c : flows[f].changes) {
        if (c.time != time || !runs(f)) continue;
        network.set_cap(time, running[f], c.cap);
        peek();
      }
    }
  }

  // The next moment at which the list of flows has something to do; INT64_MAX if never.
  int64_t next_change(int64_t time) const {
    int64_t next = INT64_MAX;
    for (size_t f = 0; f < flows.size(); ++f) {
      if (running[f] == UINT32_MAX && flows[f].earliest > time)
        next = std::min(next, flows[f].earliest);
      if (!runs(f)) continue;
      for (const CapChange& c : flows[f].changes)
        if (c.time > time) next = std::min(next, c.time);
    }
    return next;
  }

  void run() {
    for (int64_t time = 0;;) {
      change(time);
      const int64_t end = network.next_end();
      const int64_t next = std::min(next_change(time), end);
      if (next == INT64_MAX) return;
      STEPCAST_CHECK(next > time, "time goes on");
      time = next;
      if (time != end) continue;
      ended.clear();
      network.end_due(time, ended);
      STEPCAST_CHECK(!ended.empty(), "a flow ends at next_end");
      for (const FlowNetwork::Ended& e : ended) ends[e.tag] = e.time;
    }
  }
};

}  // namespace

std::vector<int64_t> network_ends(const std::vector<int64_t>& capacity,
                                  const std::vector<TimedFlow>& flows, bool peeks) {
  Driver driver{flows, peeks, FlowNetwork(capacity), std::vector<int64_t>(flows.size(), -1),
                std::vector<FlowNetwork::Flow>(flows.size(), UINT32_MAX)};
  driver.run();
  return driver.ends;
}

}  // namespace stepcast::oracle
