// SPDX-License-Identifier: Apache-2.0
// Steps with shared links, every rank one by one: Llama-3 405B on 16,384 GPUs and GPT-3 175B.
//
// Each rank has a network port of its own, one link out and one in, which its pipeline transfers
// and its gradient and parameter collectives share; tensor-parallel collectives stay inside a node
// and are priced.  Llama-3 70B with the links of its cluster beside them.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/price/price_graph.h"
#include "scenarios/forecast/lane_set.h"
#include "scenarios/forecast/perturbed_ranks.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"
#include "sim/contention/contention.h"
#include "topology/cluster/routes.h"
#include "topology/traffic/step_traffic.h"

namespace stepcast {
namespace {

constexpr int64_t kPort = 50'000'000'000;  // bytes per second, one direction

struct Step {
  OpGraph graph;
  Prices prices;
  LaneSet lanes;
  Traffic traffic;
};

// Links of a group that all send to all or to a neighbour: (n-1)/n of the message through each
// port.
std::vector<LinkUse> group_links(uint32_t role, uint32_t lane, const LaneSet& lanes, Axis axis) {
  const auto width = static_cast<uint32_t>(lanes.lanes());
  uint32_t stride = 1, size = 1;
  for (const LaneDigit& d : lanes.digits) {
    if (d.axis == axis) {
      size = static_cast<uint32_t>(d.size);
      break;
    }
    stride *= static_cast<uint32_t>(d.size);
  }
  std::vector<LinkUse> uses;
  const uint32_t first = lane - lane / stride % size * stride;
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t rank = role * width + first + i * stride;
    for (const uint32_t link : {2 * rank, 2 * rank + 1}) {
      uses.push_back({link, kFullLoad / size * (size - 1)});
    }
  }
  return uses;
}

// One pattern for each group (dp) or pair of ranks (pp).
void add_patterns(Step& step, const Work& work) {
  Traffic& traffic = step.traffic;
  const auto width = static_cast<uint32_t>(step.lanes.lanes());
  const auto roles = static_cast<uint32_t>(step.graph.roles.size());
  std::vector<uint32_t>& of = traffic.pattern_of.back();
  of.assign(size_t{roles} * width, Traffic::kPrivate);
  for (uint32_t role = 0; role < roles; ++role) {
    for (uint32_t lane = 0; lane < width; ++lane) {
      const uint32_t rank = role * width + lane;
      if (work.axis == Axis::pp) {
        if (work.from != role) continue;
        of[rank] = static_cast<uint32_t>(traffic.patterns.size());
        traffic.patterns.push_back({{2 * rank}, {2 * (work.to * width + lane) + 1}});
        continue;
      }
      std::vector<LinkUse> uses = group_links(role, lane, step.lanes, work.axis);
      const uint32_t first = uses.front().link / 2;
      if (first == rank) {
        of[rank] = static_cast<uint32_t>(traffic.patterns.size());
        traffic.patterns.push_back(std::move(uses));
      } else {
        of[rank] = of[first];
      }
    }
  }
}

// What is computed and how it is cut.
struct Job {
  const char* name;  // of the example
  std::vector<std::pair<std::string, std::string>> set;
};

const Job kGpt3{"gpt3-175b-64xa100", {}};
// Eight chunks a rank: 8.6 times the transfers of the plain one.
const Job kLlama{"llama3-405b-16384xh100", {}};
const Job kPlainLlama{
    "llama3-405b-16384xh100",
    {{"parallel.layout", "Et*7|(t*8|)*14t*7L"}, {"schedule", "{kind: 1f1b, group: null}"}}};

Step make_step(const Job& job, int64_t dp_lanes, bool speeds) {
  const Scenario s =
      load_scenario(std::string(STEPCAST_SOURCE_DIR) + "/scenarios/examples/" + job.name + ".yaml",
                    {.set = job.set, .compare_case = {}, .root = {}});
  Step step;
  step.graph = lower(s.model, s.plan, s.schedule, {.p2p = s.p2p});
  step.prices = price(step.graph, s.cluster, s.plan.grid, shipped_table(s.cluster.node.gpu.name));
  if (dp_lanes > 0) step.lanes.digits = {{Axis::tp, s.plan.grid.tp}, {Axis::dp, dp_lanes}};
  const auto width = static_cast<size_t>(step.lanes.lanes());
  step.traffic.capacity.assign(2 * step.graph.roles.size() * width, kPort);
  for (const Work& work : step.graph.works) {
    step.traffic.latency.push_back(Time{5'000'000});
    step.traffic.pattern_of.emplace_back();
    const bool shared = work.axis == Axis::dp || work.axis == Axis::pp;
    if (is_communication(work.kind) && shared) add_patterns(step, work);
  }
  for (size_t r = 0; r < step.graph.roles.size() && speeds; ++r) {
    step.lanes.slowness.emplace_back();
    for (size_t l = 0; l < width; ++l) {
      // Up to 6 % slower, no two alike.
      const uint64_t mixed = (r * width + l + 1) * 0x9e3779b97f4a7c15ULL >> 40;
      step.lanes.slowness.back().push_back(kNominal + static_cast<Slowness>(mixed % 256));
    }
  }
  return step;
}

void contended(benchmark::State& state, const Job& job, int64_t dp_lanes, bool speeds,
               Interference interference) {
  const Step step = make_step(job, dp_lanes, speeds);
  ContentionResult result;
  for ([[maybe_unused]] auto _ : state) {
    result = run_contended(step.graph, step.prices, step.lanes, step.traffic, interference);
  }
  state.counters["rank_ops"] = static_cast<double>(result.lanes.rank_ops);
  state.counters["flow_events"] = static_cast<double>(result.flow_events);
  state.counters["shared_share"] =
      static_cast<double>(result.shared_ops) / static_cast<double>(result.lanes.rank_ops);
  state.counters["step_ms"] = static_cast<double>(result.lanes.makespan.count()) / 1e9;
}

// Llama-3 70B, TP8 PP4 with 64 microbatches on DGX H100: links and hashed routes of the cluster.
// The argument: GPUs.
void hashed_routes(benchmark::State& state, const Interference& interference) {
  const int64_t dp = state.range(0) / 32;
  const std::string text =
      "name: hashed\nmodel: llama3-70b\ncluster: dgx-h100 x " + std::to_string(4 * dp) +
      "\nparallel: {tp: 8, pp: 4, zero: 1}\nbatch: {global: " + std::to_string(64 * dp) +
      ", micro: 1, seq: 8192}\nschedule: 1f1b\noverlap: {dp_grad: true, dp_param: true}\n"
      "contention: {links: on, interference: off}\n";
  const Scenario s = load_scenario_text(text, "hashed.yaml");
  const OpGraph graph = lower(s.model, s.plan, s.schedule, {.p2p = s.p2p});
  const Prices prices =
      price(graph, s.cluster, s.plan.grid, shipped_table(s.cluster.node.gpu.name));
  const LaneSet lanes = lane_set(s, graph, prices, s.seed);
  const Traffic traffic = traffic_of(graph, prices, s.plan.grid, s.placement, perturbed_graph(s),
                                     route_options(s.cluster.fabric, s.seed), lanes);
  ContentionResult result;
  for ([[maybe_unused]] auto _ : state)
    result = run_contended(graph, prices, lanes, traffic, interference);
  state.counters["lanes_run"] = static_cast<double>(result.lanes.lanes_run);
  state.counters["flow_events"] = static_cast<double>(result.flow_events);
}

constexpr Interference kSlowing{1.161, 1.106};

void llama3_70b_hashed(benchmark::State& state) {
  hashed_routes(state, {});
}
void llama3_70b_hashed_slowing(benchmark::State& state) {
  hashed_routes(state, kSlowing);
}
BENCHMARK(llama3_70b_hashed)->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(llama3_70b_hashed_slowing)->Arg(64)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);

void gpt3_folded(benchmark::State& state) {
  contended(state, kGpt3, 0, false, {});
}
void gpt3_folded_slowing(benchmark::State& state) {
  contended(state, kGpt3, 0, false, kSlowing);
}
// The argument: replicas; 16 are 2,048 ranks, 128 are 16,384.
void llama3(benchmark::State& state) {
  contended(state, kLlama, state.range(0), true, {});
}
void llama3_slowing(benchmark::State& state) {
  contended(state, kLlama, state.range(0), true, kSlowing);
}
void llama3_alike(benchmark::State& state) {
  contended(state, kLlama, state.range(0), false, {});
}
void llama3_plain(benchmark::State& state) {
  contended(state, kPlainLlama, state.range(0), true, {});
}
void llama3_plain_slowing(benchmark::State& state) {
  contended(state, kPlainLlama, state.range(0), true, kSlowing);
}
BENCHMARK(gpt3_folded)->Unit(benchmark::kMillisecond);
BENCHMARK(gpt3_folded_slowing)->Unit(benchmark::kMillisecond);
BENCHMARK(llama3_plain)->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);
BENCHMARK(llama3_plain_slowing)->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);
BENCHMARK(llama3)->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);
BENCHMARK(llama3_slowing)->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);
BENCHMARK(llama3_alike)->Arg(16)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
