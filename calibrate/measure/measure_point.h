// SPDX-License-Identifier: Apache-2.0
// Measures the points of a sweep on one GPU, and collectives over all local ones.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measure/collectives/collectives.h"
#include "calibrate/measure/conditions.h"
#include "calibrate/measure/families/gemm.h"
#include "calibrate/measure/nvml.h"
#include "calibrate/measure/timing.h"
#include "calibrate/plan/sweep.h"

namespace stepcast::measure {

class PointMeasurer {
 public:
  // `gpus`: how many this process sees.  Throws DeviceError.
  PointMeasurer(const Device& device, int gpus);

  // A point that cannot be measured, or whose call fails, is skipped with the reason.  DeviceError
  // passes through only if the device takes no more work.
  PointResult measure(const SweepPoint& point);

  // What was measured with: "CUDA 13.0, ..., driver 580.65, cuBLAS 13.0.2, NCCL 2.28.9".
  std::string software() const;
  // Clocks and the like so far, and what stood in for what.
  std::vector<std::string> conditions() const;
  // Whether copies stood in for collectives in the interference row, which is derived then.
  bool interference_is_derived() const { return interference_is_derived_; }
  const CollectiveFacts& collective_facts() const { return facts_; }

 private:
  PointResult time(const SweepPoint& point);
  PointResult time_interference();
  Collectives& collectives();

  Device device_;
  int gpus_;
  Stream stream_;
  Bench bench_;
  Blas blas_;
  Nvml nvml_;
  CollectiveFacts facts_;
  std::unique_ptr<Collectives> collectives_;  // made when the first point needs it
  ConditionLog log_;
  std::optional<DeviceState> busy_;  // while the device was at the point that is measured
  std::vector<std::string> remarks_;
  bool interference_is_derived_ = false;
};

}  // namespace stepcast::measure
