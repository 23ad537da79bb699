// SPDX-License-Identifier: Apache-2.0
// Prices: how long each Work takes, and how we know.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace stepcast {

// Where a time comes from, best first.
enum class Origin : uint8_t {
  measured,      // this very shape or message size was measured on this hardware
  interpolated,  // between measured points
  extrapolated,  // outside the measured hull, or from a sibling (other layout, other group size) by
                 // a fitted form
  fitted,        // from parameters fitted to whole training runs, for lack of kernel measurements
  roofline,      // data sheet and documented efficiencies only
};
constexpr int kOrigins = 5;
std::string_view name_of(Origin o);

// How NCCL runs a collective.  Labels are for people: name_of() is called where text is printed and
// nowhere else.
enum class Algorithm : uint8_t {
  none,  // no collective, or nobody said
  ring,
  tree,
  collnet_direct,  // network switches reduce; every GPU sends to them
  collnet_chain,   // the same along a chain of the node's GPUs
  nvls,            // NVSwitches reduce
  nvls_tree,       // NVSwitches reduce inside nodes, a tree between them
  pat,             // parallel aggregated trees
  pairwise,        // sends and receives between all pairs
  two_step         // to one GPU of each node over the network, then inside it
};
constexpr std::array<std::string_view, 10> kAlgorithmNames{
    "none", "ring",      "tree", "CollNet direct", "CollNet chain",
    "NVLS", "NVLS tree", "PAT",  "pairwise",       "two-step"};
constexpr std::string_view name_of(Algorithm a) {
  return kAlgorithmNames[static_cast<size_t>(a)];
}

// How NCCL's kernels hand data over: 8-byte words that carry a flag, 128-byte lines that do, or
// plain copies with fences.
enum class Protocol : uint8_t { ll, ll128, simple };
constexpr int kProtocols = 3;
std::string_view name_of(Protocol p);  // "LL", "LL128", "Simple"

struct Price {
  Time time{};
  Origin origin = Origin::roofline;
  // One line for `explain`: "table a100-sxm-80g: 4 nearest rows", "ring, 8 ranks, 1 node".
  std::string basis;
  // Communication: what the model says of how it runs, whatever its time comes from.
  Time latency{};                         // part of `time` before bytes flow
  Algorithm algorithm = Algorithm::none;  // of a collective
  Protocol protocol = Protocol::simple;
};

// Prices of an OpGraph: one for each of its works, and host time for each of its launches, by
// index.
struct Prices {
  std::vector<Price> by_work;
  std::vector<Time> by_launch;  // empty: the host takes no time
};

}  // namespace stepcast
