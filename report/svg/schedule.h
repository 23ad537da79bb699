// SPDX-License-Identifier: Apache-2.0
// A pipeline schedule as a picture for documents: SVG with a light background, without scripts or
// anything from outside.
#pragma once

#include <string>

#include "report/text/schedule.h"

namespace stepcast {

// Title, facts, one lane a rank with one box an action (colour by kind, lighter for later chunks,
// the microbatch inside where it fits, all of it on hovering), time axis, legend.  The halves of an
// overlapped pair lie over each other.  About 150 bytes an action.
std::string schedule_svg(const ScheduleDrawing& drawing);

}  // namespace stepcast
