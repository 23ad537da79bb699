// SPDX-License-Identifier: Apache-2.0
// Files that other tools wrote about kernels and collectives -> rows of a cost table.
//
//   nccl-tests  what the programs of NVIDIA/nccl-tests print, or write with -J (JSON): collectives
//   mamf        output of mamf-finder.py: matrix products, the best shapes only
//   kineto      Chrome trace of the PyTorch profiler: kernels of a run whose shapes it states
//
// docs/calibration_imports.md says what becomes a row and what does not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/table/table_text.h"

namespace stepcast {

// What the user states because the file may not.  Zero and empty: from the file.
struct MeasurementOptions {
  std::string kind;        // one of measurement_kinds(); empty: recognised by content
  std::string gpu;         // preset
  std::string collective;  // of nccl-tests' text without its program's name: "all_gather"
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0;
  double nic_gbs = 0;                        // GB/s of one GPU's share of the NICs, one direction
  double nvlink_gbs = 0;                     // GB/s of one GPU, one direction
  std::string dtype;                         // of mamf-finder's products: "bf16"
  std::optional<bool> in_network_reduction;  // the NVSwitches reduced (NVLS)
  // The wires (calibrate/table/wires.h).
  std::optional<InsideLink> inside;
  std::optional<NicDriver> network;
  std::optional<bool> sharp;
  std::optional<bool> one_process;
};

std::span<const std::string_view> measurement_kinds();

// The kind of a file by what is in it; empty if it is none of them (a cost table, say).
std::string_view recognise_measurements(std::string_view text);

// The rows of `text`, with sources and conditions and without fits; `file` is its name for messages
// and sources.  What is not used is counted in `notes`, one line each, if given.  Throws
// InputError:
//   E330 not a file of that tool             E334 it does not say what an option has to state
//   E333 broken or cut off, with its place   E335 its own check failed: nothing to rely on
TableText import_measurements(std::string_view text, const std::string& file,
                              const MeasurementOptions& options,
                              std::vector<std::string>* notes = nullptr);

}  // namespace stepcast
