// SPDX-License-Identifier: Apache-2.0
// A part of the cluster or of the job that is slower than the rest.
#pragma once

#include <cstdint>

#include "sim/units.h"

namespace stepcast {

struct Perturbation {
  enum class Place : uint8_t { all, ranks, gpus, nodes, stages };  // stages: pipeline ranks
  enum class Links : uint8_t { nics, nic, nvlink };                // what bandwidth is of

  Place place = Place::all;
  int64_t first = 0, last = 0;  // of those ranks, GPUs, ..., both included
  Links links = Links::nics;    // nics: those that the GPUs of the place use
  int64_t nic = 0;              // Links::nic: which one of the node

  double speed = 1;      // factor on the speed of compute
  double sigma = 0;      // of the logarithm of a drawn factor on its time, median 1
  bool each_op = true;   // drawn for every op, else once for a rank
  double bandwidth = 1;  // factor, 0 to 1
  Time latency{};        // more of it
  Time from{};           // since the begin of the step
  Time until = Time::max();

  bool slows_links() const { return bandwidth != 1 || latency != Time{}; }
  bool always() const { return from == Time{} && until == Time::max(); }
};

}  // namespace stepcast
