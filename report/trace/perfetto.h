// SPDX-License-Identifier: Apache-2.0
// The timeline as a Perfetto trace (https://perfetto.dev/docs/reference/synthetic-track-event), a
// file that ui.perfetto.dev and trace_processor open.
//
// One process for each rank, of equal ones for each pipeline rank; in it one track a stream, tracks
// of what it sends and receives, and its memory as a counter.  A pass is a slice with its ops
// inside; arrows lead from a send to its receipt.  Times are floored to nanoseconds, the format's
// unit.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/results/result.h"

namespace stepcast {

struct TraceOptions {
  std::vector<uint32_t> roles;  // which pipeline ranks, ascending; empty = all that are traced
};

struct TraceCounts {
  int64_t ranks = 0, slices = 0, arrows = 0;
};

// Called with pieces of the file, in order.
using TraceSink = std::function<void(std::string_view)>;

// Of result.traced, or if that is empty of result.timeline.
// REQUIRES: result.graph and result.prices; timelines of Record::all; roles in range.  What `sink`
// throws passes through.
TraceCounts write_perfetto(const Result& result, const TraceOptions& options,
                           const TraceSink& sink);

}  // namespace stepcast
