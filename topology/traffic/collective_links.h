// SPDX-License-Identifier: Apache-2.0
// The directed links that one collective of a group uses, and how much of its message passes each
// (a ring: 2(n-1)/n on every link between neighbours).
//
// A GPU spreads what it sends over NVSwitches evenly over all of them, so that its NVLinks count as
// one link here: the first, with the bandwidth of all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/contention/contention.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "topology/cluster/cluster_graph.h"
#include "topology/cluster/routes.h"

namespace stepcast {

// The link that stands for `directed` here, and what it can carry.
uint32_t joint_link(const ClusterGraph& cluster, uint32_t directed);
Bandwidth joint_bandwidth(const ClusterGraph& cluster, uint32_t directed);

// Links of one collective of `kind` over the GPUs of a group (in rank order), as `algorithm` runs
// it (collective_messages below); of send_recv, those from the first GPU to the second.  Loads are
// in bytes over the link for each kFullLoad bytes of the message.  Ascending by link.  REQUIRES:
// routes between the GPUs exist.
std::vector<LinkUse> collective_links(const ClusterGraph& cluster, Router& router, WorkKind kind,
                                      Algorithm algorithm, std::span<const int64_t> gpus);

// What the GPUs of a group send each other in one collective, by algorithm.
//
//   ring       each to the next, group in rank order; of the message, 2(n-1)/n by all-reduce,
//              (n-1)/n by all-gather and reduce-scatter, 1 by broadcast (0 to its root).  A group
//              with p GPUs on every node has p rings, each with 1/p of the message: ring r enters
//              a node at one GPU and leaves it at another, so that all of the node's NICs are
//              used, and so that, where p > 2 or the nodes are even in number, it stays on one
//              rail between any two nodes
//   tree       two binary trees over the nodes, half of the message each (Sanders, Speck and Traff,
//              Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009), and a
//              chain inside each node; p of them, headed by each of the node's GPUs in turn
//   NVLS       the NVSwitches add what all GPUs of the node send, and send what one does to all;
//              over several nodes the GPU of each rail sends 1/p to the network's switches, which
//              add up, and takes as much (NVLS), or the two trees join those GPUs (NVLS tree)
//   PAT        in log n rounds, rank i to rank i +- 1, 2, 4, ...
//   pairwise   1/n of its message from each to each (all-to-all)
//   CollNet    a chain inside each node; the network's switches add up, as for NVLS
//   two-step   all-to-all: what is for a node first goes to its GPU of the sender's place in the
//              node, which passes it on
//
// The shares of all GPUs add up to what the collective moves, whatever the algorithm: 2(n-1)
// messages for all-reduce without sums in switches, n-1 for all-gather, reduce-scatter, broadcast
// and all-to-all but two-step.

struct Message {
  // In place of a GPU: the NVSwitches at the other one.
  static constexpr int64_t kSwitches = -1;

  int64_t from = 0, to = 0;  // GPUs
  int64_t parts = 0;         // of CollectiveMessages::whole
};

struct CollectiveMessages {
  int64_t whole = 1;              // parts of the message of one rank (as nccl-tests counts bytes)
  std::vector<Message> messages;  // ascending by (from, to), each pair once
};

// `nodes`: GPUs of the group on each node in rank order, no node empty; nodes in the order of their
// first rank.  `algorithm` is ignored for send_recv, which goes from the first GPU to the last, and
// for shift.
CollectiveMessages collective_messages(WorkKind kind, Algorithm algorithm,
                                       std::span<const std::vector<int64_t>> nodes);

}  // namespace stepcast
