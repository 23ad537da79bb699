// SPDX-License-Identifier: Apache-2.0
// Under which conditions measurements were made: clocks, temperature, power, throttling, in words.
#pragma once

#include <cstdint>
#include <string>

namespace stepcast::measure {

// The state of a GPU as NVML gives it.  Zero: not known.
struct DeviceState {
  double sm_mhz = 0, memory_mhz = 0;
  double temperature_c = 0;
  double power_w = 0, power_limit_w = 0;
  uint64_t slowed_by = 0;  // nvmlClocksEventReasons
};

// What slows the clocks down, "power cap, heat": not the reasons that are no slow-down (idle,
// clocks that the user set, sync boost).  Empty if nothing does.
std::string slowdowns(uint64_t reasons);

// States before and after each point of a run.
class ConditionLog {
 public:
  void add(const DeviceState& before, const DeviceState& after);

  // "SM 1755 to 1980 MHz, memory 2619 MHz, 41 to 66 C, 95 to 690 W of 700 W, clocks were lowered
  // (power cap) in 12 of 340 points"; empty if nothing is known.
  std::string text() const;

 private:
  struct Range {
    double least = 0, most = 0;
    void add(double value);
  };
  Range sm_mhz_, memory_mhz_, temperature_c_, power_w_;
  double power_limit_w_ = 0;
  uint64_t slowed_by_ = 0;
  int64_t points_ = 0, slowed_points_ = 0;
};

}  // namespace stepcast::measure
