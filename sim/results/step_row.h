// SPDX-License-Identifier: Apache-2.0
// What a step of one scenario takes and holds, in a row: what sweeps and searches keep, print as
// CSV and JSON, and rank.
//
// One table of columns, step_columns(), gives all of them their names: columns of the store, of the
// CSV, keys of the JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/results/search_result.h"
#include "sim/text.h"
#include "sim/units.h"

namespace stepcast {

struct StepRow {
  // Of the step (the resolved scenario, its tables, the program's version) and of job_tokens,
  // price_usd_per_gpu_h and useful_share: the same step of a training at another price is another
  // row.
  Hash128 key{};
  std::string name, file;  // of the scenario
  // What is set in the file to get this scenario, as arguments of `-s`: "parallel.tp=2
  // batch.micro=1", in single quotes where a shell needs them.
  std::string settings;
  std::string gpu;
  int64_t gpus = 1, nodes = 1;
  int64_t tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1, etp = 1, dp = 1, zero = 0;
  int64_t micro_batch = 1, microbatches = 1, global_batch = 1, seq = 1;
  std::string recompute, schedule;
  std::string stage_layers;                   // "9 9 8 6" where they are not alike
  std::optional<int64_t> step_time_ps;        // nothing: the step cannot run (a deadlock)
  int64_t peak_bytes = 0;                     // allocated by the rank that allocates most
  std::optional<int64_t> reserved_bytes;      // of the caching allocator
  int64_t usable_bytes = 0;                   // of a GPU
  std::optional<double> tokens_per_gpu_s;     // nothing: it cannot run
  std::optional<double> mfu;                  // every query meets every key
  std::optional<int64_t> job_tokens;          // of the whole training
  std::optional<double> price_usd_per_gpu_h;  // of a GPU
  // Of the whole training the share of time that goes into its steps; 0: it never ends; nothing
  // without job_tokens.
  std::optional<double> useful_share;
  // Of a token, GPUs and hosts; nothing: nobody has asked, or the power of the GPU is not known.
  std::optional<double> joules_per_token;
  bool operator==(const StepRow&) const = default;

  // Of the step alone.
  Hash128 step() const;
  // REQUIRES: job_tokens, price_usd_per_gpu_h and useful_share are set.
  void set_step(Hash128 step);

  bool runs() const { return step_time_ps.has_value(); }
  // With this share of the usable memory left free.
  bool fits(double margin = 0) const;
  // Of the whole job, its losses included; nothing if it is not known what trains, or what a GPU
  // costs, or if it never ends.
  std::optional<double> days() const;
  std::optional<double> price() const;
  // What a search makes as small as it can; nothing where it is not known.
  std::optional<double> cost(SearchObjective objective) const;
};

struct StepColumn {
  std::string_view name;
  std::variant<int64_t StepRow::*, std::string StepRow::*, std::optional<int64_t> StepRow::*,
               std::optional<double> StepRow::*>
      member;
  // Found out only where somebody asks: of rows with one key each may say it for all.
  bool only_if_asked = false;
};
// All but the key, in the order in which they are written.
std::span<const StepColumn> step_columns();

// Of two rows with one key, which differ at most in who wrote them down and in what was asked: by
// the columns that are always there, in their order.
bool comes_first(const StepRow& a, const StepRow& b);

// One scenario of a sweep.
struct SweepPoint {
  std::vector<std::string> values;  // of each axis
  enum class Outcome : uint8_t { open, illegal, found } outcome = Outcome::open;
  StepRow row;            // found
  std::string code, why;  // illegal: "E210", the first problem
};

struct SweepResult {
  std::string name, file;
  std::vector<std::string> axes;   // dotted paths
  std::vector<SweepPoint> points;  // in the order of the axes, the last one fastest; of this shard
  int64_t all = 0;                 // of all shards
};

}  // namespace stepcast
