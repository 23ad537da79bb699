// SPDX-License-Identifier: Apache-2.0
// How much matrix products and communication slow each other down (the `interference` row,
// docs/costs.md): several sizes of both, each alone and then side by side on two streams.
#pragma once

#include <string>

#include "calibrate/measure/collectives/collectives.h"
#include "calibrate/measure/device.h"
#include "calibrate/plan/sweep.h"

namespace stepcast::measure {

struct InterferenceFound {
  PointResult measured;    // values: the ratios of compute and of communication
  std::string conditions;  // what stood beside the products: a line for the table's head
  bool of_copies = false;  // they stand in for collectives: the row is a derived one
};

// bf16 products on all GPUs beside all-reduces over all of them.  Skipped if the ranks are in
// several processes.
InterferenceFound interference_with_collectives(Collectives& collectives);

// On one GPU alone, the current one: products beside copies within its memory, which load it more
// than a collective does, and from the host, which load it less.
InterferenceFound interference_with_copies(const Device& device);

}  // namespace stepcast::measure
