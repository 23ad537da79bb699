// SPDX-License-Identifier: Apache-2.0
// Scheduling anomalies: a cluster with faster parts whose step is longer.
//
// Where orders are fixed and no capacity is shared a faster part never makes the whole slower;
// where links are shared, or a choice depends on the costs, it may (Graham, Bounds on
// Multiprocessing Timing Anomalies, 1969).
#pragma once

#include <string>
#include <string_view>

#include "scenarios/scenario.h"

namespace stepcast {

// Whether `a` is `b` with faster links (more bandwidth, less latency or oversubscription) and
// otherwise the same.
bool has_faster_links(const Scenario& a, const Scenario& b);

// What to say of a case with faster links and the longer step, against the other: a reader takes it
// for a mistake.  An anomaly only where an order may differ or links are shared.  `shares_links`:
// in one of the two runs, which the scenario alone does not say (contention.links: auto).
std::string anomaly_note(const Scenario& slower, std::string_view slower_name,
                         const Scenario& faster, std::string_view faster_name, bool shares_links);

}  // namespace stepcast
