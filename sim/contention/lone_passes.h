// SPDX-License-Identifier: Apache-2.0
// Internal to the contention engine: a step of equal ranks in which compute meets communication
// inside passes alone.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/contention/contention.h"

namespace stepcast::contention {

// As run_equal_ranks(), of `given` lanes that are equal, without a record; nothing where something
// of a rank may run beside a pass that is not part of it, or where passes have to be run again and
// again, since the host is late for each in its own way.  Nothing either where run_contended()
// throws.  O(items), and each pass once for each way in which it begins.
std::optional<ContentionResult> run_lone_passes(const OpGraph& graph, const Prices& prices,
                                                int64_t given, int64_t slow_compute,
                                                int64_t slow_communication, bool merge);

}  // namespace stepcast::contention
