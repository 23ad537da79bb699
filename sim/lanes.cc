// SPDX-License-Identifier: Apache-2.0
#include "sim/lanes.h"

#include <algorithm>

#include "sim/lane_engine.h"

namespace stepcast {
namespace {

// Results of the lanes run, for all lanes.
LaneResult spread(const LaneEngine& engine, const OpGraph& graph, const FoldedLanes& folded) {
  LaneResult out;
  out.lanes_run = folded.lanes.lanes();
  int64_t latest = -1;
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    const std::vector<int64_t> ends = engine.ends(r);
    const std::vector<int64_t>& begins = engine.begins(r);
    for (size_t i = 0; i < ends.size(); ++i) {
      const Time begin = begins.empty() ? Time{} : to_time(begins[i]);
      out.span = std::max(out.span, to_time(ends[i]) - begin);
      const bool earlier_lane = out.last_role == r && folded.original[i] < out.last_lane;
      if (ends[i] > latest || (ends[i] == latest && earlier_lane)) {
        latest = ends[i];
        out.last_role = r;
        out.last_lane = folded.original[i];
      }
    }
    std::vector<Time>& all = out.end.emplace_back();
    all.reserve(folded.of.size());
    for (const int64_t lane : folded.of) all.push_back(to_time(ends[static_cast<size_t>(lane)]));
    out.rank_ops += engine.role_ops(r) * std::ssize(folded.of);
  }
  out.makespan = to_time(std::max(latest, int64_t{0}));
  return out;
}

}  // namespace

LaneResult run_lanes(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                     const LaneOptions& options) {
  const FoldedLanes folded = fold_lanes(lanes, options.fold);
  LaneEngine engine(graph, prices, folded, options.merge, -1);
  engine.run();
  LaneResult result = spread(engine, graph, folded);
  if (options.record) {
    const int64_t wanted = options.lane < 0 ? result.last_lane : options.lane;
    const int64_t lane = folded.of[static_cast<size_t>(wanted)];
    LaneEngine recorder(graph, prices, folded, options.merge && !options.ops, lane, options.ops);
    recorder.run();
    result.timeline = recorder.take_timeline();
    result.timeline.makespan = result.makespan;
    result.timeline.span = result.span;
  }
  return result;
}

}  // namespace stepcast
