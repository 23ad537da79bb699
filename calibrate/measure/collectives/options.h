// SPDX-License-Identifier: Apache-2.0
// What `stepcast-measure collectives` is asked to do.  Needs no GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measure/collectives/plan.h"
#include "calibrate/measure/collectives/processes.h"
#include "calibrate/table/wires.h"

namespace stepcast::measure {

struct CollectiveOptions {
  std::string plan;          // --plan FILE; empty: the grid alone
  std::string grid;          // --grid none|small|full; by default full, with a plan none
  std::string output = "-";  // -o TABLE
  double budget_s = std::numeric_limits<double>::infinity();  // --budget 90s|5min|1h
  int64_t largest = kLargestMessage;  // --largest 8, 64K, 512M, 4G (powers of 1024)
  int gpus = 0;                       // --gpus N: of one process alone, 0: all; --list: of a node
  int nodes = 1;                      // --nodes N, with --list
  int hosts_per_node = 1;             // --hosts-per-node N: hosts that one NVLink domain connects
  bool list = false;                  // --list: the rows that would be measured; needs no GPU

  std::optional<ProcessPlace> place;  // --ranks N --rank R
  std::string meeting;                // --meeting FILE
  double patience_s = 300;            // --patience 300s

  std::string gpu;        // --gpu NAME of the preset; empty: by the GPU's own name
  double nic_gbs = 0;     // --nic-gbs X, a GPU's share; 0: as the system says
  double nvlink_gbs = 0;  // --nvlink-gbs X of one GPU; 0: as NVML says
  std::optional<bool> in_network_reduction;  // --in-network-reduction yes|no; else as NCCL is set
  std::optional<NicDriver> network;          // --network NAME; else as the system says
};

// The flags, for a message of help.
std::string_view collective_usage();

// Throws InputError with a sentence.
CollectiveOptions read_collective_options(std::span<const std::string> arguments);

// "90s", "5min", "1h", "2.5min"; seconds without a unit.  Throws InputError.
double seconds_of(std::string_view text);

// "8", "64K", "64KiB", "512M", "4G": powers of 1024.  Throws InputError.
int64_t bytes_of(std::string_view text);

// How the processes of a run find each other.
enum class Meet : uint8_t { alone, file, mpi };
struct Gathering {
  ProcessPlace place;
  Meet meet = Meet::alone;
};
// From the options, else from the launcher's environment.  Throws InputError where there
// are several processes and no way for them to meet, or --gpus, which one process alone takes.
Gathering gathering(const CollectiveOptions& options,
                    const std::function<const char*(const char*)>& variable, bool has_mpi);

// The points of the plan (its text may be empty) and of the grid, in order of worth; what the plan
// needs and these ranks are not goes to `left_out`.
std::vector<SweepPoint> chosen_points(const CollectiveOptions& options, std::string_view plan_text,
                                      std::span<const RankPlace> ranks, double nic_gbs,
                                      std::vector<std::string>& left_out);

}  // namespace stepcast::measure
