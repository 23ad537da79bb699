// SPDX-License-Identifier: Apache-2.0
// The answer of `stepcast topology show`: what a cluster is made of, and what looks wrong with it.
#pragma once

#include <string>

#include "report/format.h"
#include "report/topology_view.h"

namespace stepcast {

// One screen, whatever the cluster's size: at most 40 lines or so.  Ends with '\n'.
std::string topology_text(const TopologyView& view, const TextStyle& style = {});

// One object with everything the text has, all facts and all warnings.
std::string topology_json(const TopologyView& view);

}  // namespace stepcast
