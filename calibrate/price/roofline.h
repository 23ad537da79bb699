// SPDX-License-Identifier: Apache-2.0
// Time of a kernel from the data sheet: launch floor + smooth maximum of arithmetic and memory
// time.
//
//   t = t0 + sqrt(c^2 + m^2)
//   c = flops / (efficiency * peak),  m = bytes / (efficiency * bandwidth)
//
// The form is the roofline of Williams, Waterman and Patterson (2009, "Roofline: An Insightful
// Visual Performance Model"), rounded where its two lines meet: a kernel that is limited by both
// overlaps them, but not entirely.  The efficiencies are properties of a GPU generation, with their
// sources in data/roofline.csv.
#pragma once

#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// Flops a second of the type, or of the one that the hardware would run it as; 0 if the GPU states
// none.
double peak_rate(const Gpu& gpu, DType type);

// `parts` takes the form, if given.  REQUIRES: !is_communication(work.kind).
Time roofline_time(const Work& work, const Gpu& gpu, PriceParts* parts = nullptr);

}  // namespace stepcast
