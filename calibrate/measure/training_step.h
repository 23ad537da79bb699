// SPDX-License-Identifier: Apache-2.0
// The training-step check: a stack of layers trained on one GPU, its step timed.
//
// The first steps warm up and capture forward and backward of all microbatches as one CUDA graph,
// which the others replay; the update is launched by itself.  A step begins with the zeroed
// gradients and ends with the new parameters.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "calibrate/measure/device.h"
#include "calibrate/measure/training_step_scenario.h"
#include "calibrate/measure/training_step_shape.h"

namespace stepcast::measure {

// Runs it on the device.  `run.shape.fused_attention` is set to what was used; `note` gets
// sentences for the user.  Fills all of the measurement but `gpu` and `calibration`.  Throws
// DeviceError, or Unsupported where memory is missing or the attention that was asked for.
StepMeasurement measure_training_step(TrainingRun& run, const Device& device,
                                      const std::function<void(const std::string&)>& note);

// `stepcast-measure training-step ARGUMENTS`: prints the figures, writes the scenario.  Exit
// status: 0; 1 if it failed or did not learn; 2 without a device or with wrong arguments.
int run_training_step(std::span<const std::string> arguments);

}  // namespace stepcast::measure
