// SPDX-License-Identifier: Apache-2.0
// Logs of collective benchmarks: the measured points, and the cluster and group they ran on.
//
// A folder holds manifest.csv (id, collective, gpu, nodes, gpus_per_node, link_intra, network,
// quality, ...; the columns `file`, notes and others may follow) and for each log <id>.csv with the
// columns bytes or size_b, and time_us or oop_time_us.  The cluster is told from the words of the
// manifest by the rules in logs.cc, the same for every log.
#pragma once

#include <string>
#include <vector>

#include "sim/graph/work.h"
#include "topology/cluster/cluster.h"
#include "topology/nccl/collectives.h"

namespace stepcast::accuracy {

struct Point {
  double bytes = 0;
  double seconds = 0;
};

struct Log {
  std::string id, gpu, network, source;
  bool transfer = false;     // sendrecv: kind does not count
  bool one_process = false;  // that drives all GPUs
  bool scored = true;        // false: of large sizes alone; fitted, but not judged by
  WorkKind kind = WorkKind::all_reduce;
  Cluster cluster;
  GroupShape shape;
  std::vector<Point> points;
};

// Those of quality ok or large_only.  Throws std::runtime_error: unreadable files, unknown words.
std::vector<Log> read_logs(const std::string& folder);

}  // namespace stepcast::accuracy
