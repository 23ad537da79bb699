// SPDX-License-Identifier: Apache-2.0
// Internal to the importer of nccl-tests: what one run of a program measured, which its text and
// its JSON are both read into (nccl_tests.cc), and the rows that it makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/import/measurement_input.h"
#include "calibrate/table/wires.h"

namespace stepcast {

// Out of place, unless the file has no such times.
struct NcclResult {
  int64_t bytes = 0;
  double us = 0;
  // As printed, and half a unit of their last digits: they tell the collective and the ranks of
  // logs that state neither.
  double alg_gbs = 0, bus_gbs = 0;
  double alg_tolerance = 0, bus_tolerance = 0;
  double in_place_us = 0;  // 0: not told
  int line = 0;            // of the text; 0: JSON
};

struct NcclRank {
  int64_t rank = 0, device = 0;
  int64_t process = -1;    // its number on the host; -1: not told
  std::string host, name;  // of the node; of the GPU
};

// What NCCL's own lines say that stand in a log where NCCL_DEBUG was set.
struct NcclSaid {
  std::optional<NicDriver> network;
  bool sockets = false;  // TCP by the kernel
  bool sharp = false;    // NCCL_COLLNET_ENABLE
  bool no_nvls = false;  // NCCL_NVLS_ENABLE=0
  bool operator==(const NcclSaid&) const = default;
};

struct NcclSweep {
  std::string program;  // "all_reduce_perf"; empty: the file does not say
  std::string tests_version, nccl_version;
  std::vector<NcclRank> devices;      // as far as they are listed
  int64_t ranks_per_device_line = 1;  // JSON lists only the first GPU of each process
  std::vector<NcclResult> results;
  int64_t skipped = 0;       // rows of no bytes
  bool reduces = false;      // "sum" or alike in the column of operations
  bool has_root = false;     // a root of 0 or more
  bool no_in_place = false;  // results in place are not checked, those out of place are
  bool checked = true;       // the program looked at the results
  bool graph = false;        // launched as CUDA graphs
  int64_t aggregated = 1;    // collectives in one launch
  std::optional<int64_t> gpus_per_thread;
  NcclSaid said;
  TextPlace place;  // of the first result
};

// The table of all sweeps of a file: one row a shape, one source for each kind of run (launched as
// CUDA graphs or not, several collectives in one launch, results checked or not, wires).  Where two
// kinds have one shape the first in the file counts, with a note.  Throws InputError: E330 no rows,
// E334 the collective, the ranks or the nodes cannot be told, E333 what is stated contradicts
// itself, the bandwidths, or the ranks and hosts that are listed.
TableText nccl_rows(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps);

}  // namespace stepcast
