// SPDX-License-Identifier: Apache-2.0
// The forwards of a schedule, for steps that do not train.
#pragma once

#include "schedules/schedule.h"

namespace stepcast {

// The same order without its backwards, pairs split into their forwards, named "forwards".  Throws
// std::invalid_argument with a sentence for the user if the schedule runs microbatches in both
// directions or in pieces.
Schedule forwards_of(const Schedule& schedule);

}  // namespace stepcast
