// SPDX-License-Identifier: Apache-2.0
// A scenario: what the user wrote, resolved.  Presets, `extends` and `--set` are applied, every
// default is filled in, everything is checked; nothing below this folder knows YAML.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "schedules/schedule.h"
#include "schedules/transfers/transfers.h"
#include "sim/text.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

struct Perturbation {
  enum class Place : uint8_t { all, ranks, gpus, nodes, stages };  // stages: pipeline ranks
  enum class Links : uint8_t { nics, nic, nvlink };                // what bandwidth is of

  Place place = Place::all;
  int64_t first = 0, last = 0;  // of those ranks, GPUs, ..., both included
  Links links = Links::nics;    // nics: those that the GPUs of the place use
  int64_t nic = 0;              // Links::nic: which one of the node

  double speed = 1;      // factor on the speed of compute
  double sigma = 0;      // of the logarithm of a drawn factor on its time, median 1
  bool each_op = true;   // drawn for every op, else once for a rank
  double bandwidth = 1;  // factor, 0 to 1
  Time latency{};        // more of it
  Time from{};           // since the begin of the step
  Time until = Time::max();

  bool slows_links() const { return bandwidth != 1 || latency != Time{}; }
  bool always() const { return from == Time{} && until == Time::max(); }
};

struct CalibrationTable;  // pricing_table.h
struct OwnRuns;           // own_runs.h

// One resolved value and why it has it: the lines of `stepcast explain`.
struct Setting {
  std::string path;     // "parallel.dp"
  std::string value;    // "4", with its unit
  std::string origin;   // "run.yaml:3:12", "--set", "preset llama3-8b", "default: ..." or "derived:
                        // 16 / (2*2*1)"
  bool stated = false;  // by the scenario or --set, not by a preset, software or default
};

struct Measured {
  std::string variant;  // "" for the scenario itself
  std::optional<double> step_time_s;
  std::optional<double> tokens_per_gpu_s;
  std::optional<Bytes> peak_memory, reserved_memory;  // allocated; held by PyTorch's allocator
  double tolerance = 0.1;                             // share
  std::string source;
  std::vector<std::pair<std::string, std::string>> set;  // what the variant changes
};

struct CompareCase {
  std::string name;
  std::vector<std::pair<std::string, std::string>> set;  // dotted path -> YAML text
};

// A schedule that depends on what the stages cost: it is made once they have been priced
// (scenarios/forecast/make_schedule.h).
struct ScheduleToMake {
  std::string family;        // canonical name, or "auto"
  ScheduleParams params;     // sizes, and what the user wrote
  Bytes memory_limit{};      // auto: of the activations of a rank; 0 = what the GPU has left
  bool v_placement = false;  // auto: two chunks a rank in the form of a V
  std::optional<bool> split_backward;  // auto: I and W apart; else whichever is better
  int64_t effort = 0;                  // auto: orders tried; 0 = about a second's worth
  uint64_t seed = 1;                   // auto
};

struct Scenario {
  std::string name;
  std::string description;
  std::string file;
  std::string software;  // name of the profile (schema/software.h)
  std::string hash;      // 16 hex digits over the resolved settings
  // The same, with the contents of all files that it names: equal of two scenarios, however they
  // are written, only if their steps are.
  Hash128 identity{};

  Transformer model;
  int64_t written_vocab = 0;  // of the model, before it was padded
  Cluster cluster;
  Placement placement;  // of the ranks
  Plan plan;
  // Of a schedule that is `to_make`: its sizes and placement, and some order that can run.
  Schedule schedule;
  std::optional<ScheduleToMake> to_make;
  std::string schedule_title;  // "interleaved 1F1B"
  P2pStyle p2p = P2pStyle::async;
  std::shared_ptr<const MadeTransfers> transfers;  // of `schedule`, if they have been made
  bool post_validation = false;  // the optimizer is no barrier: a step costs the span

  std::vector<Perturbation> perturb;  // empty: all ranks are equal
  bool share_links = false;           // transfers on one link share it, in this run
  // Compute and communication beside each other slow each other down: on asks for a measurement,
  // automatic leaves it out where there is none or it is not combined (forecast/interference.h).
  enum class Interference : uint8_t { off, on, automatic } interference = Interference::automatic;
  bool in_situ = true;  // prices have what in-situ parameters add (calibrate/price/in_situ.h)
  // What is said of share_links; automatic: where that is quick to simulate (forecast.cc).
  enum class Links : uint8_t { off, on, automatic } links = Links::off;
  std::shared_ptr<const CalibrationTable> calibration;  // the user's own cost table; null: shipped
  std::shared_ptr<const OwnRuns> own_runs;  // parameters of this cluster; null: the published ones
  uint64_t seed = 0;                        // of what is drawn
  int64_t replicas = 1;                     // runs with seeds seed, seed + 1, ...

  std::vector<Setting> settings;  // in schema order
  std::vector<std::string>
      warnings;  // what is odd but legal: "900GB/s looks like the two-way figure of NVLink 4"
  std::vector<Measured> measured;
  std::string compare_baseline;
  std::vector<CompareCase> compare;

  // The same with software of another time (older_software.h), whose step is worth a remark; null:
  // there is none.
  std::shared_ptr<const Scenario> with_older_software;
};

struct LoadOptions {
  std::vector<std::pair<std::string, std::string>> set;  // --set, in order: dotted path, YAML text
  std::string compare_case;  // then what this case of the section `compare` changes; empty: none
  std::string root;          // `extends` must stay below; default: the file's directory
};

// Reads, resolves and checks.  Throws InputError with all problems found (at most 20).
Scenario load_scenario(const std::string& path, const LoadOptions& options = {});
// The same for text that is already in memory; `name` appears in messages.
Scenario load_scenario_text(const std::string& text, const std::string& name,
                            const LoadOptions& options = {});

}  // namespace stepcast
