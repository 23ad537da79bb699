// SPDX-License-Identifier: Apache-2.0
// How NCCL can run a collective on a group: algorithms times protocols, each with what NCCL itself
// believes it to cost and with what its cost is made of.
//
// NCCL picks the lowest `nccl_seconds`.  What the pick then costs is another question, since NCCL
// counts links in steps of a list and has one latency for every network: collective_time.h answers
// it from the parts.  algorithms.cc begins with a worked example; docs/communication.md derives the
// terms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/work.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/group_shape.h"
#include "topology/nccl/channels.h"
#include "topology/nccl/constants.h"

namespace stepcast {

constexpr double kEverySize = 1e30;  // bytes: no bound

struct Candidate {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  int64_t blocks = 1;  // thread blocks of a large message, one SM each
  // NCCL's reckoning: seconds; bytes of the message (nccl-tests' size) per second.
  double nccl_latency = 0;
  double nccl_bandwidth = 0;
  // What it costs: once, in-node hops and network hops in seconds; bytes of the message per second
  // inside nodes and over the network as the links are, the slower of which counts.
  double base = 0, intra = 0, network = 0;
  double bandwidth = 0;
  double wire = 0;    // 0: no network used
  double copied = 0;  // bytes that a rank copies beside those it moves, in units of them
  // NCCL takes it for messages above the one and up to the other (bytes; only sends and receives
  // have such bounds).
  double above = -1;
  double up_to = kEverySize;
};

// All that NCCL considers for a collective of `kind`, at least one.  Refuses a `setup` that leaves
// none (sim/diagnostic.h).  REQUIRES: as collective_cost, shape.ranks > 1.
std::vector<Candidate> candidates(const Cluster& cluster, WorkKind kind, const GroupShape& shape,
                                  const NcclSetup& setup = {});

// How long NCCL takes it to last, with NCCL's correction of trees by size.
double nccl_seconds(const Candidate& a, WorkKind kind, double bytes);

// The one NCCL picks: the lowest of those for this size, the first of equals.  REQUIRES: one is.
const Candidate& nccl_choice(const std::vector<Candidate>& all, WorkKind kind, double bytes);

// What collective_corrections.csv calls an algorithm.  Not its label: a label may change, the file
// stays.
const char* correction_class(Algorithm a);

// Thread blocks in use: small messages start fewer.
int64_t blocks_in_use(const Candidate& a, const GroupShape& shape, double bytes);

}  // namespace stepcast
