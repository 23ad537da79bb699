// SPDX-License-Identifier: Apache-2.0
// How far predictions lie from logs, by size class; the section of docs/accuracy.md.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/accuracy/fit.h"

namespace stepcast::accuracy {

// Below 64 KiB, to 1 MiB, to 256 MiB, above.
constexpr size_t kSizeClasses = 4;
size_t size_class(double bytes);

// Relative errors with sign (0.1: predicted 10 % too long) of one way to predict, for each log and
// size class.
using Errors = std::vector<std::array<std::vector<double>, kSizeClasses>>;

struct Study {
  Errors left_out;    // factors fitted to the other logs
  Errors own;         // NCCL's own reckoning
  Errors alpha_beta;  // two parameters fitted to the very log
  Errors quarter;     // every fourth row kept as the log's table, the others
  Errors half;        // every second
};
Study study(const std::vector<Log>& logs);

enum class Pool { all, collectives, exchanges, one_node, many_nodes, racks };
// Median of the absolute errors, pooled over the logs' points.  NaN without any.
double median(const Errors& errors, const std::vector<Log>& logs, Pool pool, size_t size_class);
size_t points(const Errors& errors, const std::vector<Log>& logs, Pool pool, size_t size_class);
// Over all size classes.
double median(const Errors& errors);

// What the model is meant to reach.
double target(Pool pool, size_t size_class);

// Markdown.
std::string report(const Study& s, const std::vector<Log>& logs);
// The file of factors, with the logs they come from.
std::string corrections_file(const Fitted& fitted, const std::vector<Log>& logs);

}  // namespace stepcast::accuracy
