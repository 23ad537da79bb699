// SPDX-License-Identifier: Apache-2.0
// Which shapes a measuring run takes, in which order, and when it stops: everything about it that
// needs no GPU.
//
// A point is worth weight x uncertainty of its price now, and costs the seconds that measuring it
// takes; the points of the greatest worth per second come first, until the budget is used up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/price.h"
#include "sim/graph/work.h"

namespace stepcast {

// One row to measure.  `key` is the row as it stands in a cost table (docs/costs.md) up to its
// time: "gemm,bf16,tn,2048,4608,12288,1", "collective,all_reduce,8,1,8,0,1048576", "launch",
// "graph_launch", "copy,h2d,1048576", "interference".  Its first field is the family.
struct SweepPoint {
  std::string key;
  Work work{};  // GEMMs, attention, memory-bound kernels, collectives
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0;  // collectives
  double nic_gbs = 0;                                // collectives, as in CollectiveRow
  double weight = 1;                                 // share of the step's time, or of a grid
  Origin origin = Origin::roofline;                  // of its price without this measurement
  double expected_us = 0;                            // of one call
};

std::string_view family_of(std::string_view key);

// The key of a GEMM (grouped ones too), fused attention, memory-bound work, or of a collective with
// the point's group.  REQUIRES: one of these kinds.
std::string row_key(const SweepPoint& point);

// One call's time on nominal hardware, good to a factor of two or three, in microseconds: 300
// TFLOP/s of 16-bit products (their multiples for other types), 2 TB/s of device memory, 25 GB/s
// between GPUs and to the host, 5 us at least.  Used until a family's own times are known.
double nominal_us(const SweepPoint& point);
double nominal_memory_us(Bytes moved);  // of device memory alone

// Seconds that measuring the point takes: to set it up, to warm up, and 20 samples, by expected_us
// or else nominal_us.
double measuring_seconds(const SweepPoint& point);

// Rough relative error of a price of that origin, which measuring the point takes away.  The
// magnitudes are those that docs/costs.md reports of rows held out; only their ratios matter, and
// only for the order.
double uncertainty(Origin origin);

// Drops points whose key came before (keeping the larger weight and the better origin: a plan knows
// how its shapes are priced, a grid takes the worst for granted), and sorts by weight x uncertainty
// / measuring_seconds, descending; equal ones by key.
std::vector<SweepPoint> in_order(std::vector<SweepPoint> points);

struct PointResult {
  std::vector<double> values;  // microseconds; interference: the two ratios
  double spread = 0;           // interquartile range over median
  std::string skipped;         // why there is no measurement; empty = there is one
};

// What a run does to the world outside.
struct SweepHooks {
  std::function<PointResult(const SweepPoint&)> measure;
  std::function<void(const SweepPoint&, const PointResult&)> finished;  // after each measured point
  std::function<double()> seconds;    // a clock that only goes forward
  std::function<bool()> interrupted;  // asked between points
  // Points done or left out so far, all points, seconds used so far.
  std::function<void(int64_t done, int64_t total, double seconds)> progress;
};

struct SweepReport {
  int64_t measured = 0;
  std::vector<std::string> skipped;  // "KEY: reason", in order
  int64_t left = 0;                  // for want of time, or after an interruption
  bool interrupted = false;
  double seconds = 0;
};

// Measures `points` in the order given.  A point is begun only if what is left of `budget_s` is
// enough for it by the estimate, which learns, family by family, from the points before; one that
// is too long is left out and shorter ones behind it are tried.  Exceptions of the hooks pass
// through.
SweepReport run_sweep(const std::vector<SweepPoint>& points, double budget_s,
                      const SweepHooks& hooks);

// The row as it is written: key, values, source, and the spread if there is one.
std::string row_text(const SweepPoint& point, const PointResult& measured, std::string_view source);

}  // namespace stepcast
