// SPDX-License-Identifier: Apache-2.0
// The collective model beside logs of benchmarks (nccl-tests and like ones): the logs, the factors
// of the model that are fitted to them, and how far predictions lie from them by size class (the
// section of docs/accuracy.md).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/graph/work.h"
#include "topology/cluster/cluster.h"
#include "topology/nccl/collective_time.h"
#include "topology/nccl/collectives.h"

namespace stepcast::accuracy {

// ---- logs: the measured points, and the cluster and group they ran on

struct Point {
  double bytes = 0;
  double seconds = 0;
};

struct Log {
  std::string id, gpu, network, source;
  bool transfer = false;  // sendrecv: kind does not count
  bool one_process =
      false;            // that calls for all GPUs: points that only its calls make are left out
  bool scored = true;   // false: of large sizes alone; fitted, but not judged by
  bool fitted = true;   // false: of software too old for the model; judged by, but not fitted
  bool unwell = false;  // a larger message took far less time: neither fitted nor judged by
  WorkKind kind = WorkKind::all_reduce;
  Cluster cluster;
  GroupShape shape;
  NcclSetup setup;
  std::vector<Point> points;
};

// A folder holds manifest.csv (id, collective, gpu, nodes, gpus_per_node, link_intra, network,
// quality, ...; the columns `file`, nccl_version, environment (NCCL_ALGO=Ring NCCL_PROTO=Simple),
// processes ("one" that called for all GPUs), notes and others may be there) and for each log
// <id>.csv with the columns bytes or size_b, and time_us or oop_time_us.  The cluster is told from
// the words of the manifest by the same rules for every log.  Read are those of quality ok or
// large_only.  Throws InputError: files that cannot be read, unknown words.
std::vector<Log> read_logs(const std::string& folder);

// ---- factors of the model, fitted to logs
//
// Each observation is one size of one log, with the algorithm NCCL picks there.  The logarithms of
// the factors are found by Gauss-Newton; each class is held near 1 by its spread (a normal prior),
// so that classes with few logs stay near the classes above them; outliers lose weight (Cauchy), as
// some logs are of networks that were not well.

struct Observation {
  size_t log = 0;  // index
  double bytes = 0, seconds = 0;
  Candidate picked;
  std::vector<CorrectionClass> classes;
};

// All sizes from 4 KiB on of all collectives (no transfers).
std::vector<Observation> observe(const std::vector<Log>& logs);

struct Fitted {
  std::vector<CorrectionClass> classes;
  std::vector<double> logarithms;
  std::vector<int> logs;  // that each class was seen in
  Corrections corrections() const;
};

// Leaves out the log of index `without` (none if there is no such log).
Fitted fit(const std::vector<Observation>& all, const std::vector<Log>& logs, size_t without);

// The file of factors, with the logs they come from.
std::string corrections_file(const Fitted& fitted, const std::vector<Log>& logs);

// ---- how far predictions lie from logs

// Below 64 KiB, to 1 MiB, to 256 MiB, above.
constexpr size_t kSizeClasses = 4;
size_t size_class(double bytes);

// Relative errors with sign (0.1: predicted 10 % too long) of one way to predict, for each log and
// size class.
using LogErrors = std::vector<std::array<std::vector<double>, kSizeClasses>>;

struct Study {
  LogErrors left_out;    // factors fitted to the other logs
  LogErrors own;         // NCCL's own reckoning
  LogErrors alpha_beta;  // two parameters fitted to the very log
  LogErrors quarter;     // every fourth row kept as the log's table, the others
  LogErrors half;        // every second
};
Study study(const std::vector<Log>& logs);

enum class LogPool { all, collectives, exchanges, one_node, many_nodes, racks };
// Median of the absolute errors, pooled over the logs' points.  NaN without any.
double median(const LogErrors& errors, const std::vector<Log>& logs, LogPool pool,
              size_t size_class);
size_t points(const LogErrors& errors, const std::vector<Log>& logs, LogPool pool,
              size_t size_class);
// Over all size classes.
double median(const LogErrors& errors);

// What the model is meant to reach.
double target(LogPool pool, size_t size_class);

// Collectives (no all-to-all) whose own median is within that target, of those with points of the
// size class.
struct LogCount {
  size_t within = 0, all = 0;
};
LogCount logs_within(const LogErrors& errors, const std::vector<Log>& logs, size_t size_class);
// Those counts beside the pooled medians, Markdown.
std::string held_out_logs(const Study& s, const std::vector<Log>& logs);

// Markdown.
std::string collectives_report(const Study& s, const std::vector<Log>& logs);

}  // namespace stepcast::accuracy
