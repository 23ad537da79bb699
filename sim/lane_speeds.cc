// SPDX-License-Identifier: Apache-2.0
#include "sim/lane_speeds.h"

#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/lane_kernels.h"
#include "sim/lane_program.h"

namespace stepcast {
namespace {

// The fastest and slowest that a lane can be, in 1/4096.
struct Bounds {
  uint64_t fastest = kNominal, slowest = kNominal;
};

void take_slowness(RoleSpeeds& s, const LaneSet& lanes, uint32_t r) {
  if (r >= lanes.slowness.size() || lanes.slowness[r].empty()) return;
  STEPCAST_CHECK(lanes.slowness[r].size() == s.slowness.size(), "a speed for every lane");
  for (size_t i = 0; i < s.slowness.size(); ++i) {
    STEPCAST_CHECK(lanes.slowness[r][i] > 0, "a lane without speed");
    s.slowness[i] = static_cast<uint32_t>(lanes.slowness[r][i]);
  }
}

void take_windows(RoleSpeeds& s, const LaneSet& lanes, uint32_t r, Bounds& bounds) {
  if (lanes.windows.empty()) return;
  std::vector<std::vector<LaneSpan>> of(s.slowness.size());
  Bounds factor;
  for (size_t i = 0; i < of.size(); ++i) {
    for (const LaneWindow& w : lanes.windows_of(r, static_cast<int64_t>(i))) {
      if (w.slowness == kNominal) continue;
      STEPCAST_CHECK(w.slowness > 0, "a window without speed");
      factor.fastest = std::min(factor.fastest, static_cast<uint64_t>(w.slowness));
      factor.slowest = std::max(factor.slowest, static_cast<uint64_t>(w.slowness));
      of[i].push_back(span_of(w, Axis::none));
    }
  }
  for (size_t i = 0; i < of.size(); ++i) {
    if (of[i].empty()) continue;
    LaneWindows w{static_cast<int64_t>(i), INT64_MAX, 0, std::move(of[i])};
    for (const LaneSpan& span : w.spans) {
      w.first = std::min(w.first, span.from);
      w.last = std::max(w.last, span.until);
    }
    s.windows.push_back(std::move(w));
  }
  if (s.windows.empty()) return;
  bounds.fastest = bounds.fastest * factor.fastest >> kLaneFractionBits;
  bounds.slowest = (bounds.slowest * factor.slowest >> kLaneFractionBits) + 1;
}

void take_jitter(RoleSpeeds& s, const FoldedLanes& folded, uint32_t r, const JitterTable& jitter,
                 Bounds& bounds) {
  for (const int64_t lane : folded.original) {
    const uint64_t rank = r * folded.of.size() + static_cast<uint64_t>(lane);
    s.jitter_key.push_back(jitter_rank_key(folded.lanes.jitter->seed, rank));
  }
  bounds.fastest = bounds.fastest * jitter.factor.front() >> kLaneFractionBits;
  bounds.slowest = (bounds.slowest * jitter.factor.back() >> kLaneFractionBits) + 1;
}

RoleSpeeds speeds_of(const FoldedLanes& folded, uint32_t r, const JitterTable& jitter) {
  RoleSpeeds s;
  s.slowness.assign(folded.original.size(), kNominal);
  take_slowness(s, folded.lanes, r);
  s.real.assign(s.slowness.begin(), s.slowness.end());
  const auto [least, most] = std::minmax_element(s.slowness.begin(), s.slowness.end());
  s.same = *least == *most;
  Bounds bounds{*least, *most};
  take_windows(s, folded.lanes, r, bounds);
  if (folded.lanes.jitter) take_jitter(s, folded, r, jitter, bounds);
  if (bounds.slowest > INT32_MAX) throw_step_too_long();
  s.fastest = static_cast<Slowness>(bounds.fastest);
  s.slowest = static_cast<Slowness>(bounds.slowest);
  return s;
}

}  // namespace

bool RoleSpeeds::wide(int64_t duration) const {
  return duration > (lane_kernels::kWide - 1) / slowest;
}

std::vector<RoleSpeeds> role_speeds(const FoldedLanes& folded, size_t roles,
                                    const JitterTable& jitter) {
  STEPCAST_CHECK(folded.lanes.slowness.empty() || folded.lanes.slowness.size() == roles,
                 "speeds of every role");
  std::vector<RoleSpeeds> speeds;
  for (uint32_t r = 0; r < roles; ++r) speeds.push_back(speeds_of(folded, r, jitter));
  return speeds;
}

}  // namespace stepcast
