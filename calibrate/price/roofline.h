// SPDX-License-Identifier: Apache-2.0
// Time of a kernel from the data sheet: launch floor + smooth maximum of arithmetic and memory
// time.
//
//   t = t0 + sqrt(c^2 + m^2)
//   c = flops / (efficiency * peak),  m = bytes / (efficiency * bandwidth)
//
// The efficiencies are properties of a GPU generation, documented with their sources in
// roofline.csv.
#pragma once

#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// `parts` takes the form, if given.  REQUIRES: !is_communication(work.kind).
Time roofline_time(const Work& work, const Gpu& gpu, PriceParts* parts = nullptr);

}  // namespace stepcast
