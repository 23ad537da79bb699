// SPDX-License-Identifier: Apache-2.0
// The sections `perturb`, `seed` and `replicas`: how a step differs from that of equal ranks.
#pragma once

#include <vector>

#include "scenarios/perturbation.h"
#include "scenarios/resolve_plan.h"

namespace stepcast {

// In the order of the list.  Adds E102, E107, E120-E127 for what is wrong by itself, E240 for
// places that the job or the cluster does not have; these are looked for only if `plan` is
// complete.
std::vector<Perturbation> resolve_perturb(const PlanInputs& in, const Plan& plan, bool complete);

}  // namespace stepcast
