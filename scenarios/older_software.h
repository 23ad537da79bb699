// SPDX-License-Identifier: Apache-2.0
// What GPUs of 2017 to 2020 ran when they were new.  A scenario that names no software is about
// today's, on such GPUs too: people train on them today.  Who looks at a run of that time means
// another step, so `stepcast run` says what its profile would make of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/document/value.h"
#include "scenarios/scenario.h"
#include "sim/results/result.h"

namespace stepcast {

// The profile that a scenario may have meant: it names no software, its GPUs are of that time, and
// Megatron-LM of then could have run its model, layout and schedule.  std::nullopt: it states more
// than that software had.  `tree` is the scenario as written.
std::optional<std::string_view> older_software(const Value& tree, const Scenario& scenario);

// What the step is with the profile, which takes `then`; std::nullopt if that differs by less than
// a twentieth.  `fits`: in memory, with the profile.
std::optional<OlderSoftware> compare_with_older_software(std::string_view profile, Time today,
                                                         Time then, bool fits);

// A sentence that says so of one step, or of several at once.  REQUIRES: at least one.
std::string remark_on_older_software(std::span<const OlderSoftware> steps);

}  // namespace stepcast
