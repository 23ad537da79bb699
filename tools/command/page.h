// SPDX-License-Identifier: Apache-2.0
// The report of a command as an HTML file.
#pragma once

#include "report/text/topology.h"
#include "scenarios/scenario.h"
#include "sim/result.h"
#include "tools/command/command.h"

namespace stepcast::cli {

// The cluster of a scenario as reports see it.
TopologyView cluster_view(const Cluster& cluster);

// To args.html.  Throws InputError as OutputFile does.  REQUIRES: a result that was traced.
void write_page(const Result& result, const Scenario& scenario, const Arguments& args);

}  // namespace stepcast::cli
