// SPDX-License-Identifier: Apache-2.0
// Speed of the flow network: nanoseconds for each start or end of a flow.
//
// The fabric has 16,384 NICs on 512 leaves of 32, each leaf a cable to each of 32 spines: nothing
// is oversubscribed, so what collides does so because routes are hashed.  65,536 directed links.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "sim/contention/flow_network.h"
#include "sim/random.h"

namespace stepcast {
namespace {

constexpr uint32_t kNics = 16'384;
constexpr uint32_t kOnLeaf = 32;
constexpr uint32_t kSpines = 32;
constexpr int64_t kCapacity = 50'000'000'000;
constexpr int64_t kBytes = 16'000'000;

uint32_t mixed(uint64_t x) {
  return static_cast<uint32_t>(splitmix(x) >> 32);
}

using Route = std::vector<LinkUse>;

// Links: out of each NIC, into each NIC, from each leaf to each spine, and back.
Route route(uint32_t from, uint32_t to) {
  const uint32_t leaf = from / kOnLeaf, other = to / kOnLeaf;
  if (leaf == other) return {{from}, {kNics + to}};
  const uint32_t spine = mixed(uint64_t{from} << 32 | to) % kSpines;
  return {{from},
          {2 * kNics + leaf * kSpines + spine},
          {2 * kNics + kNics + other * kSpines + spine},
          {kNics + to}};
}

// Neighbours on rings that go from leaf to leaf, evenly over the cluster.
std::vector<Route> ring_routes(int64_t flows) {
  std::vector<Route> routes;
  for (int64_t i = 0; i < flows; ++i) {
    const auto from = static_cast<uint32_t>(i * kNics / flows);
    routes.push_back(route(from, (from + 33 * 8) % kNics));
  }
  return routes;
}

// From each port to the next one on a path without switches: nothing collides.
std::vector<Route> private_routes(int64_t flows) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < static_cast<uint32_t>(flows); ++i)
    routes.push_back({{i}, {kNics + (i + 8) % kNics}});
  return routes;
}

std::vector<Route> random_routes(int64_t flows) {
  std::vector<Route> routes;
  for (uint64_t i = 0; i < static_cast<uint64_t>(flows); ++i) {
    const uint32_t from = mixed(2 * i + 1) % kNics, to = mixed(2 * i + 2) % kNics;
    routes.push_back(route(from, from == to ? (to + 1) % kNics : to));
  }
  return routes;
}

// Everybody to everybody in groups of 64 that lie on 64 leaves.
std::vector<Route> all_to_all_routes(int64_t flows) {
  std::vector<Route> routes;
  for (uint32_t group = 0;; ++group) {
    const auto nic = [&](uint32_t i) { return (i * 8 * kOnLeaf + group) % kNics; };
    for (uint32_t i = 0; i < 64; ++i) {
      for (uint32_t j = 0; j < 64; ++j) {
        if (static_cast<int64_t>(routes.size()) == flows) return routes;
        if (i != j) routes.push_back(route(nic(i), nic(j)));
      }
    }
  }
}

// One flow for each ring of 64 NICs: a collective with 256 links.
std::vector<Route> collective_routes(int64_t flows) {
  std::vector<Route> routes;
  for (uint32_t ring = 0; ring < static_cast<uint32_t>(flows); ++ring) {
    Route all;
    const auto nic = [&](uint32_t i) { return (i % 64 * 8 * kOnLeaf + ring) % kNics; };
    for (uint32_t i = 0; i < 64; ++i)
      for (const LinkUse& use : route(nic(i), nic(i + 1))) all.push_back(use);
    routes.push_back(std::move(all));
  }
  return routes;
}

void report(benchmark::State& state, int64_t events, const FlowNetwork& network) {
  const auto count = static_cast<double>(events);
  state.counters["flows"] = static_cast<double>(state.range(0));
  state.counters["ns_per_event"] = benchmark::Counter(
      count / 1e9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["component"] =
      static_cast<double>(network.solved_flows()) / static_cast<double>(network.solves());
}

// So many flows run all the time: where one ends, the next starts, of a size of its own.  The
// network is asked for its next end after every moment, as an engine does.
void independent(benchmark::State& state, const std::vector<Route>& routes) {
  FlowNetwork network(std::vector<int64_t>(4 * kNics, kCapacity));
  std::vector<FlowNetwork::Ended> ended;
  uint64_t count = 0;
  const auto start = [&](int64_t time, uint64_t tag) {
    const int64_t bytes = kBytes / 2 + mixed(tag * 1'000'003 + count++) % kBytes;
    network.start(time, bytes, INT64_MAX, routes[tag], tag);
  };
  for (uint64_t i = 0; i < routes.size(); ++i) start(0, i);
  const auto ends = static_cast<int64_t>(2 * routes.size());
  for ([[maybe_unused]] auto _ : state) {
    for (int64_t left = ends; left > 0; left -= static_cast<int64_t>(ended.size())) {
      const int64_t time = network.next_end();
      ended.clear();
      network.end_due(time, ended);
      for (const FlowNetwork::Ended& e : ended) start(time, e.tag);
    }
  }
  report(state, 2 * ends, network);
}

// All flows start together, each time when the last of them has ended.
void lockstep(benchmark::State& state, const std::vector<Route>& routes) {
  FlowNetwork network(std::vector<int64_t>(4 * kNics, kCapacity));
  std::vector<FlowNetwork::Ended> ended;
  int64_t time = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (uint64_t i = 0; i < routes.size(); ++i)
      network.start(time, kBytes, INT64_MAX, routes[i], i);
    for (ended.clear(); ended.size() < routes.size();) {
      time = network.next_end();
      network.end_due(time, ended);
    }
  }
  report(state, 2 * static_cast<int64_t>(routes.size()), network);
}

void private_independent(benchmark::State& state) {
  independent(state, private_routes(state.range(0)));
}
void private_lockstep(benchmark::State& state) {
  lockstep(state, private_routes(state.range(0)));
}
void rings_independent(benchmark::State& state) {
  independent(state, ring_routes(state.range(0)));
}
void rings_lockstep(benchmark::State& state) {
  lockstep(state, ring_routes(state.range(0)));
}
void random_pairs_independent(benchmark::State& state) {
  independent(state, random_routes(state.range(0)));
}
void random_pairs_lockstep(benchmark::State& state) {
  lockstep(state, random_routes(state.range(0)));
}
void all_to_all_lockstep(benchmark::State& state) {
  lockstep(state, all_to_all_routes(state.range(0)));
}
void collectives_independent(benchmark::State& state) {
  independent(state, collective_routes(state.range(0)));
}

// On every port one of 128 collectives of 128 ports each, and so many transfers from port to port,
// none across the network: what a step of pipeline and data parallelism looks like.  A transfer
// alone could take four fifths of a port.  Where one ends the next starts, elsewhere.
void collectives_beside_pairs(benchmark::State& state) {
  constexpr uint32_t kRing = 128;
  constexpr uint64_t kCollective = UINT64_MAX;
  FlowNetwork network(std::vector<int64_t>(2 * kNics, kCapacity));
  std::vector<FlowNetwork::Ended> ended;
  uint64_t count = 0;
  const auto start_ring = [&](int64_t time, uint32_t ring) {
    Route route;
    for (uint32_t i = 0; i < kRing; ++i)
      for (const uint32_t link : {i * kRing + ring, kNics + i * kRing + ring})
        route.push_back({link, kFullLoad / kRing * (kRing - 1)});
    const int64_t bytes = 100 * kBytes + mixed(count++) % (100 * kBytes);
    network.start(time, bytes, kCapacity / 10 * 9, route, kCollective - ring);
  };
  const auto start_pair = [&](int64_t time) {
    const uint32_t from = mixed(count++) % kNics, to = (from + 8) % kNics;
    const int64_t bytes = kBytes / 2 + mixed(count++) % kBytes;
    network.start(time, bytes, kCapacity / 5 * 4, Route{{from}, {kNics + to}}, 0);
  };
  for (uint32_t ring = 0; ring < kRing; ++ring) start_ring(0, ring);
  for (int64_t i = 0; i < state.range(0); ++i) start_pair(0);
  const int64_t ends = 20'000;
  for ([[maybe_unused]] auto _ : state) {
    for (int64_t left = ends; left > 0; left -= static_cast<int64_t>(ended.size())) {
      const int64_t time = network.next_end();
      ended.clear();
      network.end_due(time, ended);
      for (const FlowNetwork::Ended& e : ended) {
        if (e.tag == 0)
          start_pair(time);
        else
          start_ring(time, static_cast<uint32_t>(kCollective - e.tag));
      }
    }
  }
  report(state, 2 * ends, network);
}

BENCHMARK(private_independent)
    ->RangeMultiplier(10)
    ->Range(100, 10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(private_lockstep)->RangeMultiplier(10)->Range(100, 10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(rings_independent)
    ->RangeMultiplier(10)
    ->Range(100, 10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(rings_lockstep)->RangeMultiplier(10)->Range(100, 10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(random_pairs_independent)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);
BENCHMARK(random_pairs_lockstep)->Arg(100)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all_lockstep)->Arg(4032)->Arg(40'320)->Unit(benchmark::kMillisecond);
BENCHMARK(collectives_independent)->Arg(16)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(collectives_beside_pairs)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
