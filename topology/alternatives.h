// SPDX-License-Identifier: Apache-2.0
// The ways NCCL can run a collective on a group: algorithms times protocols, each with what NCCL
// itself believes it to cost and with what its cost is made of.
//
// NCCL picks the lowest `own_seconds`.  What the pick then costs is another question, since NCCL
// counts links in steps of a list and has one latency for every network: collective_time.h answers
// it from the parts.  docs/communication.md derives the terms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/work.h"
#include "topology/cluster.h"
#include "topology/group_shape.h"
#include "topology/nccl_constants.h"

namespace stepcast {

constexpr double kEverySize = 1e30;

struct Alternative {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  int64_t blocks = 1;  // thread blocks of a large message, one SM each
  // NCCL's reckoning: seconds; bytes of the message (nccl-tests' size) per second.
  double own_latency = 0;
  double own_bandwidth = 0;
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

// REQUIRES: as collective_cost, shape.ranks > 1.  At least one.
std::vector<Alternative> alternatives(const Cluster& cluster, WorkKind kind,
                                      const GroupShape& shape);

// What NCCL takes it to last, with its correction of trees by size.
double own_seconds(const Alternative& a, WorkKind kind, double bytes);

// The one NCCL picks: the lowest of those for this size, the first of equals.  REQUIRES: one is.
const Alternative& choice(const std::vector<Alternative>& all, WorkKind kind, double bytes);

// Thread blocks in use: small messages start fewer.
int64_t blocks_in_use(const Alternative& a, const GroupShape& shape, double bytes);

}  // namespace stepcast
