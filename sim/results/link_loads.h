// SPDX-License-Identifier: Apache-2.0
// Which groups cross which links of the cluster, and how full these are: plain data of a report.
//
// Bytes are those of one step over one link in one direction; seconds are bytes over the link's
// bandwidth: what it takes at the least to move them.  A GPU's NVLinks to its NVSwitches count as
// one link.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/op_graph.h"

namespace stepcast {

// What the groups of one axis put on the links of one kind.
struct LinkCrossing {
  Axis axis = Axis::none;
  std::vector<WorkKind> kinds;  // that cross them
  int64_t groups = 0;           // of the axis; of send_recv: pairs that send
  int64_t ranks = 0;            // of each group
  std::string links;            // kind of link: "NVLink", "NIC - leaf", "leaf - spine"
  int64_t links_used = 0;       // by all groups together
  int64_t links_there = 0;      // in the cluster
  int64_t groups_per_link = 0;  // most on one link
  double bytes = 0;             // on the link that takes longest
  double seconds = 0;           // of that link
  std::vector<WorkId> works{};  // of the step's graph: those of which a group crosses them
};

// The link of a kind that takes longest for what all groups put on it.
struct FullestLink {
  std::string links;     // kind of link
  std::string from, to;  // devices
  double bytes = 0, seconds = 0;
  std::vector<std::pair<Axis, double>> bytes_by_axis;
};

struct LinkLoads {
  std::vector<LinkCrossing> crossings;  // by axis; of an axis, innermost links first
  std::vector<FullestLink> fullest;     // one a kind of link, innermost first
};

}  // namespace stepcast
