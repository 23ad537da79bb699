// SPDX-License-Identifier: Apache-2.0
// Everything a forecast has to say, as plain data: what report/ turns into text, JSON and traces.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/account/account.h"
#include "sim/diagnostic.h"
#include "sim/engine/run.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/graph/program.h"
#include "sim/graph/spend.h"
#include "sim/graph/work.h"
#include "sim/memory/memory.h"
#include "sim/units.h"

namespace stepcast {

// -------------------------------------------------------------------------------------------------
// How far a step time is to be trusted, and how that is known.

// Where `level` of the measured steps lie.  Nothing is subtracted from the forecast for what is
// known of its errors, so it need not stand in the middle, nor between the two at all.
struct Interval {
  double level = 0.8;
  Time low{}, high{};
  // What the costs alone leave open: |log(true / forecast)|, as a ratio less 1.
  double cost_error = 0;
  std::vector<std::pair<std::string_view, double>> cost_parts;  // by family; squares add up
  // Published runs that were forecast and are like this one; without any there is no interval.
  std::string like;  // "training / long kernels / Hopper or Blackwell"
  int64_t runs = 0, sources = 0;
  int64_t own_runs = 0;  // of this cluster that the forecast learnt from; as of those runs
  double like_low = 1, like_high = 1;  // measured / forecast of `level` of them
  double like_cost_error = 0;          // their median
};

// Where `level` of what such steps were measured to hold lies, around the forecast.
struct MemoryInterval {
  double level = 0.8;
  Bytes low{}, high{};
  // Published runs whose memory of this kind was measured and forecast.
  std::string like;  // "memory / reserved"
  int64_t runs = 0, sources = 0;
  double like_low = 1, like_high = 1;  // measured / forecast of `level` of them
};

// -------------------------------------------------------------------------------------------------
// The result.

// What was forecast: what a headline names, and the layout and the batch in numbers.
struct ScenarioSummary {
  std::string name, file, hash;
  std::string gpu;                // "A100-SXM-80G"
  std::string schedule;           // "interleaved 1F1B"
  std::string mode = "training";  // or "prefill", "decode"
  int64_t gpus = 1;               // tp * cp * pp * dp
  int64_t tp = 1, cp = 1, ep = 1, etp = 1, pp = 1, vpp = 1, dp = 1;
  int64_t zero = 0;
  int64_t global_batch = 1, micro_batch = 1;  // sequences of a step, of a microbatch
  int64_t microbatches = 1;                   // of a data-parallel replica
  int64_t seq = 0;                            // tokens of a sequence
  int64_t mtp_layers = 0;  // modules of multi-token prediction, trained beside the layers
  std::vector<std::string> warnings;
};

// Model FLOPs utilization, a share of the peak, under each convention; all count the head.
struct Utilization {
  double mfu_full_attention = 0;    // every query meets every key (Korthikanti et al. 2022)
  double mfu_causal_attention = 0;  // only the keys a query sees
  double hfu = 0;                   // what the hardware executes, recomputation once
  double hfu_korthikanti = 0;       // their Table 5 form: selective recompute counted as s/3h
  // Of the hardware's work too, but each format's against the peak of that format: the others hold
  // work in 8 bits against a peak of 16 and may exceed 1.
  double hfu_own_peaks = 0;
  std::string_view format{};  // "bf16": of the parameters, whose peak the others are shares of
};

struct WhatIf {
  Spend spend{};  // the line of the account it belongs to
  Time saved{};   // makespan now - makespan with that cost removed
};

struct RankMemory {
  std::string name;  // "stage 0"
  RoleMemory memory;
  std::string peak_at;  // "fc1, forward of stage 0 microbatch 7": its largest moment
  Bytes reserved{};     // what the caching allocator takes from the device
  // Tensors that passes hold at the peak, of any category, by label, largest first; not what is
  // held through the step.
  std::vector<std::pair<std::string, Bytes>> activation_terms;
};

// SynthesisFacts::winner of an order that is no family's.
inline constexpr std::string_view kMadeToMeasure = "auto";

// An order of actions that was made for the scenario, and how good it is by its own reckoning:
// stages as priced, transfers that never wait, overlapped pairs one half after the other.
struct SynthesisFacts {
  Time objective{};  // makespan of the order alone; span with post-validation
  // No order within the memory is shorter.  Not known where overlapped pairs hide communication:
  // the whole step may take less than prices of single passes allow.
  std::optional<Time> lower_bound;
  std::optional<double> gap;       // objective / lower_bound - 1
  bool could_have_chunks = false;  // one chunk a rank; the layers would also go into two
  std::string start;  // what the search began with: "zb-h1", "list schedule"; a family that won
  Time start_time{};
  int64_t orders_tried = 0;
  std::string winner;  // fastest in whole steps: kMadeToMeasure, or a family as it is
};

// How a step of ranks that differ compares with that of equal ones.
struct Disturbance {
  Time undisturbed{};      // the step if all ranks were as priced
  int64_t ranks = 0;       // of the job
  int64_t slow_ranks = 0;  // slower in compute, for a while at least; what jitter does apart
  int64_t fast_ranks = 0;  // faster, and never slower
  int64_t slow_links = 0;  // ranks with a group or transfer on slower links
  bool jitter = false;     // every op takes a factor of its own
  bool shared_links = false, interference = false;  // the contention engine ran
  std::string last_rank;                            // "rank 4711 (stage 9, tp 7, dp 36)": ends last
  std::string critical_rank;  // of its pipeline, the one that the account and the path are of
  std::optional<Time> without_contention;  // the step of these ranks; if both were simulated
  int64_t waiting = 0;  // ranks that wait longer than in the undisturbed step; 0 with jitter
  Time mean_wait{};     // of these, how much longer
  int64_t lanes = 0;    // ranks simulated, equal ones once
};

// Ranks of the job that differ, with times of their own; those of one lane are in one timeline.
struct TracedLane {
  Timeline timeline;               // of Record::all
  std::vector<uint32_t> roles;     // of the ranks, ascending
  std::vector<std::string> names;  // "rank 47 (stage 5, tp 7)"
};

// Step times of the same scenario under several seeds; percentiles by nearest rank.
struct ReplicaTimes {
  int64_t count = 0;
  uint64_t first_seed = 0;
  Time mean{}, min{}, p5{}, p50{}, p95{}, max{};
};

// What a GPU holds beside the caching allocator: a context, a communicator.
struct DeviceMemory {
  std::string what;
  Bytes bytes{};
  std::string source;
  // Device and world: of every rank, however the work is laid out; group: of one that a layout
  // makes.
  enum class Of : uint8_t { device, world, group } of{};
};

// What the step would be with the software of when its GPUs were new (scenarios/older_software.h).
struct OlderSoftware {
  std::string profile;  // "megatron-lm-2021"
  double change = 0;    // of the step time: 0.12 is 12 % longer
  bool fits = true;     // in memory
};

struct Result {
  ScenarioSummary scenario;

  Time step_time{};  // makespan; the span if the optimizer is no barrier (post-validation)
  Time makespan{};   // of the timeline
  Time span{};       // of a step whose optimizer is no barrier: from first start to last end of a
                     // rank, the largest over ranks
  bool splits_backward = false;  // the schedule runs I and W
  std::optional<SynthesisFacts> synthesis;
  std::optional<Disturbance> disturbance;  // ranks differ, or each was simulated by itself; the
                                           // rest is of the lane of the rank that ends last
  std::optional<ReplicaTimes> replicas;
  double tokens_per_step = 0;
  double tokens_per_s_per_gpu = 0;
  double model_flops_per_step = 0;  // full attention
  Utilization utilization;

  Account account;
  Time bubble{};  // of the critical role
  std::vector<PathSegment> critical_path;
  std::vector<WhatIf> what_if;
  bool what_if_without_contention = false;  // these are of the same step without contention
  bool what_if_left_out = false;            // each would have taken another run of many ranks

  std::vector<RankMemory> memory;  // by role
  uint32_t peak_role = 0;          // the one that allocates most
  uint32_t reserved_role = 0;      // the one that reserves most, the gaps of the allocator counted:
                                   // the fullest
  Bytes memory_reserved{};         // of that role
  Bytes memory_usable{};           // of a GPU, without what is held beside the allocator
  std::vector<DeviceMemory> device_memory;                              // that
  bool fits = true;                                                     // reserved <= usable
  std::optional<MemoryInterval> reserved_interval, allocated_interval;  // of the most
  double memory_room = 1;            // all tensors could be that many times as large, and it fits;
                                     // as far as kLeastMemoryRoom and kMostMemoryRoom
  std::optional<double> fits_share;  // of steps with such a forecast: do not run out of memory

  std::array<double, kOrigins> trust{};         // share of device time by Origin; sums to 1
  std::optional<Interval> interval;             // of step_time
  std::string calibration;                      // "table a100-sxm-80g", or "no table: roofline"
  std::string calibration_hash;                 // 16 hex digits over the table; empty: none
  std::string own_runs_hash;                    // ... over the file of own runs; empty: none
  std::optional<OlderSoftware> older_software;  // of a step that may be meant to run it

  Timeline timeline;
  std::vector<TracedLane> traced;  // what a trace is of; empty: `timeline`
  int64_t rank_ops = 0;            // one lane a role, or of all ranks with `disturbance`
  int64_t event_ops = 0;           // of these, ops that need the event engine
  int64_t flow_events = 0;         // starts and ends of flows in that engine

  // What the numbers were computed from; report/ reads names and times out of them.
  std::shared_ptr<const OpGraph> graph;
  std::shared_ptr<const Prices> prices;
};

// A case of a comparison that has no result, and why.
struct LeftOut {
  std::string name;
  std::vector<Diagnostic> problems;  // at least one
};

}  // namespace stepcast
