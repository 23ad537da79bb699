// SPDX-License-Identifier: Apache-2.0
// In-situ parameters: what isolated measurements leave open of kernels, collectives and host calls
// inside a training step.
//
// A kernel of a step runs on a hot GPU with other data and other kernels around it, a collective
// starts when the last of its ranks is there, a host does more than the calls that are counted.  No
// published micro-measurement says how much all that takes.  So a few parameters, each a factor or
// a constant on one physical term, are estimated from many published training runs together
// (calibrate/in_situ.csv; tools/runs/estimate.h; docs/trust.md).  Their scope is a generation of
// hardware or hosts; no parameter knows a source, a run or a model, and none stands on the step.
//
// They change prices after price(), for steps that train; `in_situ: off` leaves them out.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// The physical term that a parameter stands on.
enum class InSituTerm : uint8_t {
  products,           // factor on the time of matrix products and attention
  first_libraries,    // another on it, of libraries of a generation's first years
  memory_kernels,     // factor on the time of memory-bound kernels
  host_calls,         // factor on host time
  module_calls,       // us that a call of a module of Transformer Engine takes longer
  count_wait,         // us that a wait of the host for a result of its device takes longer
  node_bandwidth,     // factor on the time that bytes flow inside a node or rack
  network_bandwidth,  // ... over the network
  spread,             // share of compute that each doubling of the ranks adds
};
constexpr int kInSituTerms = 9;
std::string_view name_of(InSituTerm t);
// "x" for a factor, "us", "%" of compute a doubling.
std::string_view unit_of(InSituTerm t);
// The value that changes nothing: 1 or 0.
double neutral_value(InSituTerm t);

struct InSituParameter {
  InSituTerm term{};
  // "all", a class of GPUs (GpuArchitecture::in_situ), "Grace", or "until 2022": software of that
  // year and before (`kernels.libraries`).
  std::string scope;
  double value = 0, sd = 0;
  double prior = 0, prior_sd = 0;
  int64_t runs = 0, sources = 0;  // that it was estimated from
  std::string prior_source;
};

// Rows of a file of parameters.  Throws InputError if it is none.
std::vector<InSituParameter> parse_in_situ(std::string_view text);
// The header and the rows of such a file.
std::string in_situ_text(std::span<const InSituParameter> parameters);
// The shipped file.
std::span<const InSituParameter> in_situ_parameters();

// For each term the index of the parameter that holds on a cluster with software of the year
// `libraries` (0: as young as can be), the narrowest scope first; -1: none.
using InSituRows = std::array<int, kInSituTerms>;
InSituRows in_situ_rows(std::span<const InSituParameter> parameters, const Node& node,
                        int64_t libraries);

// A value for each term.
using InSituValues = std::array<double, kInSituTerms>;
InSituValues neutral_in_situ();
InSituValues in_situ_values(std::span<const InSituParameter> parameters, const Node& node,
                            int64_t libraries);

// Changes the prices of a graph, which price() made, but for what was measured in training
// (Price::in_training) and for launches that the table has rows of.  `ranks`: of the job, whose
// speeds differ.
void apply_in_situ(const InSituValues& values, const OpGraph& graph, int64_t ranks, Prices& prices);

// What that multiplies the time of a work with this price by, but for ones: of communication the
// time after its start (Price::latency).
std::vector<PriceFactor> in_situ_factors(const InSituValues& values, const Work& work,
                                         const Price& price, int64_t ranks);

}  // namespace stepcast
