// SPDX-License-Identifier: Apache-2.0
// The loop of layer.h on the GPU.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "calibrate/measure/device.h"
#include "calibrate/measure/layer.h"

namespace stepcast::measure {

// Times the loop and each of its kernels alone; `note` gets sentences for the user.  Throws
// DeviceError; Unsupported where memory or a kernel of cuDNN for the attention is missing.
LayerTimes time_layer(const LayerRun& run, const Device& device,
                      const std::function<void(const std::string&)>& note);

// `stepcast-measure layer ARGUMENTS`: prints the table.  Returns the exit status, 0; errors are
// thrown.
int layer_command(std::span<const std::string> arguments);

}  // namespace stepcast::measure
