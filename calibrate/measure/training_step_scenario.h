// SPDX-License-Identifier: Apache-2.0
// The training step that was run, as a scenario with what was measured in it: `stepcast check FILE`
// puts the forecast beside it.  Needs no CUDA.
#pragma once

#include <cstdint>
#include <string>

#include "calibrate/measure/training_step_shape.h"

namespace stepcast::measure {

struct StepMeasurement {
  std::string calibration;  // cost table of the scenario; empty: the shipped one
  std::string gpu;          // preset: "h200-sxm"
  std::string device;       // as CUDA names it
  std::string software;     // "CUDA 13.0, driver API 13.0"
  double step_s = 0;        // median over steps
  double spread = 0;        // interquartile range over median
  int64_t steps = 0;        // so many
  int64_t peak_bytes = 0;   // what the process took of the device's memory; 0: not known
  bool cuda_graph = false;  // forward and backward passes were launched as one graph
  double first_loss = 0, last_loss = 0;
};

// The YAML text.  One GPU, no parallelism; `kernels` names what was launched, and no more: pieces
// of attention that is not fused, softmax with its scale and mask in one kernel, three kernels of
// cross-entropy, weight gradients that add into fp32.
// REQUIRES: check_shape has passed; gpu not empty, step_s > 0.
std::string scenario_text(const TrainingStep& shape, const StepMeasurement& measured);

// The lines a user sees: step time with its spread, TFLOP/s of products and attention, memory,
// loss.
std::string measurement_text(const TrainingStep& shape, const StepMeasurement& measured);

// Whether the loss fell as it must when a few steps learn one fixed batch: by a tenth at least.
bool has_learned(const StepMeasurement& measured);

}  // namespace stepcast::measure
