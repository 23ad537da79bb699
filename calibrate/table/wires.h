// SPDX-License-Identifier: Apache-2.0
// What a collective was measured on, beyond the shape of its group: part of the key of its rows.
//
// A log was taken on one machine in one way, so the wires stand beside the source that rows name:
//
//     # source: p5 measured aws-samples p5.48xlarge nccl-tests
//     # wires: p5 nvlink4 efa
//
// Two logs of one group on different wires are two curves, and a cluster is answered by the one
// that was taken on its own.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "topology/cluster/cluster.h"

namespace stepcast {

// What joins the GPUs of a node.
struct InsideLink {
  enum class Kind : uint8_t { nvswitch, nvlink_mesh, pcie, shared_memory };
  Kind kind = Kind::nvswitch;
  int64_t generation = 0;  // of NVLink or PCIe; 0: shared memory
  auto operator<=>(const InsideLink&) const = default;
};

struct Wires {
  std::optional<InsideLink> inside;  // nothing: not stated
  std::optional<NicDriver> network;  // nothing: not stated, or all on one node
  bool sharp = false;                // network switches reduced (CollNet)
  // One thread of one process called for all GPUs of a host, one after the other; else each GPU has
  // its own, as in training.
  bool one_process = false;
  auto operator<=>(const Wires&) const = default;
};

// "nvlink4", "nvlink3-mesh", "pcie5", "shm"; nothing if the word is none of them.
std::string text_of(const InsideLink& link);
std::optional<InsideLink> inside_link(std::string_view word);
constexpr std::string_view kInsideLinkWords =
    "nvlink2 to nvlink5 (through NVSwitches), nvlink3-mesh, pcie3 to pcie6, shm";

// A word of cluster.node.nics.driver.
std::optional<NicDriver> nic_driver(std::string_view word);
std::string nic_driver_words();  // "verbs, roce, ..."

// "nvlink4 efa sharp one-process"; empty: nothing is stated.
std::string text_of(const Wires& wires);
// Takes one of those words into `wires`; false if it is none.
bool take_word(std::string_view word, Wires& wires);

// What the groups of a cluster run on.  Training has a process for each GPU.
Wires wires_of(const Cluster& cluster);

}  // namespace stepcast
