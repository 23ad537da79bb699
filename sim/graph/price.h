// SPDX-License-Identifier: Apache-2.0
// Prices: how long each Work takes, and how we know.
#pragma once

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
  fitted,        // from parameters estimated from whole training runs (Price::in_situ)
  roofline,      // data sheet and documented efficiencies only
};
constexpr int kOrigins = 5;
std::string_view name_of(Origin o);

// How NCCL runs a collective.  Labels are for people: name_of() is called where text is printed and
// nowhere else.
enum class Algorithm : uint8_t {
  none,  // no collective, or not known
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
constexpr std::string_view name_of(Algorithm a) {
  switch (a) {
    case Algorithm::none: return "none";
    case Algorithm::ring: return "ring";
    case Algorithm::tree: return "tree";
    case Algorithm::collnet_direct: return "CollNet direct";
    case Algorithm::collnet_chain: return "CollNet chain";
    case Algorithm::nvls: return "NVLS";
    case Algorithm::nvls_tree: return "NVLS tree";
    case Algorithm::pat: return "PAT";
    case Algorithm::pairwise: return "pairwise";
    case Algorithm::two_step: return "two-step";
  }
  return "";
}
// Whether NCCL has a choice of protocols for it, so that people are told which.
constexpr bool has_protocols(Algorithm a) {
  switch (a) {
    case Algorithm::ring:
    case Algorithm::tree: return true;
    case Algorithm::none:
    case Algorithm::collnet_direct:
    case Algorithm::collnet_chain:
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
    case Algorithm::pat:
    case Algorithm::pairwise:  // by size alone
    case Algorithm::two_step: return false;
  }
  return false;
}
// Made of sends and receives between pairs, where the others sum or hand on.
constexpr bool is_exchange(Algorithm a) {
  return a == Algorithm::pairwise || a == Algorithm::two_step;
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
  // Of a collective: why measured rows that are at hand did not count, and what of the links makes
  // no difference.
  std::string remark{};
  // Communication: what the model says of how it runs, whatever its time comes from.
  Time latency{};                         // part of `time` before bytes flow
  Algorithm algorithm = Algorithm::none;  // of a collective
  Protocol protocol = Protocol::simple;
  bool crosses_nodes = false;
  // By rows that were measured in a training step, more than by others: what a step adds is in
  // them.
  bool in_training = false;
  // Part of `time` that in-situ parameters added (calibrate/price/in_situ.h): its origin is
  // `fitted`, whatever that of the rest is.  Negative where they made the op shorter.
  Time in_situ{};
};

// Prices of an OpGraph: one for each of its works, and host time for each of its launches, by
// index.
struct Prices {
  std::vector<Price> by_work;
  std::vector<Time> by_launch;  // empty: the host takes no time
  // Part of these times that rows of the cost table measured; empty: none.
  std::vector<Time> measured_launches;
};

// -------------------------------------------------------------------------------------------------
// How the price of a compute work is made, in numbers: all it takes to make it again by hand
// (docs/costs.md has the formulas).
//
//   price = form * factor * factor ...     products, attention, and what no table knows
//   price = row                            measured at this very shape
//
// Works whose price is read off a curve over bytes (kernels, copies) have neither.

// t0 + sqrt((flops / tflops)^2 + (bytes / gbs)^2); a rate of 0 leaves its term out.
struct PriceForm {
  std::string source;  // "fit,gemm,bf16": a row of the table; "data sheet of h100-sxm"
  double t0_us = 0;
  double flops = 0, tflops = 0;
  double bytes = 0, gbs = 0;
  // What the rates are of those of the data sheet; 0: they are not taken from there.
  double tflops_share = 0, gbs_share = 0;
  double us = 0;
};

// A measured row that had a say in a factor.
struct PriceRow {
  std::string row;      // up to its time: "gemm,bf16,tn,4096,576,5120,1"
  double us = 0;        // its time
  double ratio = 1;     // what it says the factor is
  double distance = 0;  // squared
  double weight = 0;    // in the mean of ratios; those of all rows sum to 1
};

struct PriceFactor {
  std::string what;
  double value = 1;
  std::vector<PriceRow> rows;  // that it is the mean of; empty: a number of its own
};

struct PriceParts {
  PriceForm form;  // us = 0: none
  PriceRow row;    // at this very shape; us = 0: none
  std::vector<PriceFactor> factors;
  // What in-situ parameters multiply all that by; of communication the time after its start
  // (Price::latency).
  std::vector<PriceFactor> in_situ;
};

}  // namespace stepcast
