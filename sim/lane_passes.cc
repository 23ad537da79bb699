// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/lane_engine.h"
#include "sim/lane_kernels.h"
#include "sim/lane_windows.h"

namespace stepcast {

namespace kernels = lane_kernels;

void LaneEngine::raise(LaneClock& c, const LaneClock& other, int64_t by) {
  if (&c == &other) {  // a stream that waits for itself
    STEPCAST_CHECK(by == 0, "a stream that waits for its own future");
    return;
  }
  kernels::raise(c.t.data(), other.t.data(), n_, by);
  c.lo = std::max(c.lo, other.lo + by);
  c.hi = std::max(c.hi, other.hi + by);
  check_limit(c);
}

void LaneEngine::raise_by_host(const RoleState& role, LaneClock& c, int64_t lead) {
  const int64_t by = role.host_offset + lead;
  if (c.lo >= role.host.hi + by) return;
  if (role.host.lo == role.host.hi) {
    kernels::raise_to(c.t.data(), n_, role.host.lo + by);
  } else {
    kernels::raise(c.t.data(), role.host.t.data(), n_, by);
  }
  c.lo = std::max(c.lo, role.host.lo + by);
  c.hi = std::max(c.hi, role.host.hi + by);
  check_limit(c);
}

void LaneEngine::hold_host(RoleState& role, const LaneClock& until) {
  const int64_t by = std::exchange(role.host_offset, 0);
  kernels::add(role.host.t.data(), n_, by);
  role.host.lo += by;
  role.host.hi += by;
  raise(role.host, until, 0);
}

void LaneEngine::copy(LaneClock& to, const LaneClock& from) {
  if (to.t.empty() && !free_.empty()) {
    to.t = std::move(free_.back());
    free_.pop_back();
  }
  to.t.assign(from.t.begin(), from.t.end());
  to.lo = from.lo;
  to.hi = from.hi;
}

void LaneEngine::release(LaneClock& clock) {
  if (!clock.t.empty()) free_.push_back(std::exchange(clock.t, {}));
}

LaneClock& LaneEngine::place(RoleState& role, LanePlace p) {
  const auto i = static_cast<size_t>(p);
  return i < kStreams ? role.stream[i] : slots_[i - kStreams];
}

void LaneEngine::run_pass(uint32_t r, RoleState& role, const Item& item) {
  const RoleSpeeds& speeds = speeds_[r];
  const bool by_op = speeds.by_op();
  const LanePass& pass = (by_op ? single_ : merged_).passes[static_cast<size_t>(item.pass)];
  for (const LaneInstruction& in : pass.code) {
    LaneClock& c = role.stream[static_cast<size_t>(in.stream)];
    const LaneClock* other = in.wait == kNoPlace ? nullptr : &place(role, in.wait);
    if (in.code == LaneCode::wait) {
      if (record_) note_wait(r, role, in, c, *other);
      raise(c, *other, in.delay);
      continue;
    }
    if (!role.started && in.stream == Stream::compute) {
      const Op& first = graph_.passes[static_cast<size_t>(item.pass)].ops[in.op];
      note_begin(role, in, merged_.launches[static_cast<size_t>(first.launch)], c, other);
    }
    if (record_) {
      run_recorded(r, role, pass, in, c, other);
    } else if (in.code == LaneCode::join) {
      run_join(r, role, in, c, other);
    } else if (by_op && in.duration.scaled != 0) {
      run_by_op(speeds, role, in, c, other);
    } else {
      run_chain(speeds, role, pass, in, c, other);
    }
    role.host_offset += in.launch;
    if (in.mark_end != kNoPlace) copy(place(role, in.mark_end), c);
  }
  if (record_ && !by_op) note_slowness(r, pass);
  role.instances += pass.device_ops;
}

void LaneEngine::note_begin(RoleState& role, const LaneInstruction& in, int64_t launch,
                            const LaneClock& c, const LaneClock* other) {
  role.started = true;
  LaneClock begin = c;
  if (other != nullptr) raise(begin, *other, in.delay);
  raise_by_host(role, begin, launch);
  if (in.code == LaneCode::join) groups_.meet(begin, axis_of(in));
  role.begin = std::move(begin.t);
}

Axis LaneEngine::axis_of(const LaneInstruction& in) const {
  return graph_.works[static_cast<size_t>(in.work)].axis;
}

void LaneEngine::get_ready(RoleState& role, const LaneInstruction& in, LaneClock& c,
                           const LaneClock* other) {
  if (other != nullptr) raise(c, *other, in.delay);
  raise_by_host(role, c, in.launch);
}

void LaneEngine::mark_start(RoleState& role, const LaneInstruction& in, const LaneClock& c) {
  if (in.mark_start != kNoPlace) copy(place(role, in.mark_start), c);
}

void LaneEngine::run_chain(const RoleSpeeds& speeds, RoleState& role, const LanePass& pass,
                           const LaneInstruction& in, LaneClock& c, const LaneClock* other) {
  const bool single = in.leads == 0;
  const int64_t lo =
      other == nullptr ? c.lo : std::max(c.lo, other->lo + in.delay);  // before the chain
  if (single && (in.mark_start != kNoPlace || lo < role.host.hi + role.host_offset + in.launch)) {
    get_ready(role, in, c, other);
    mark_start(role, in, c);
    add_duration(speeds, in, c, nullptr);
  } else {
    add_duration(speeds, in, c, other);
  }
  for (uint32_t i = 0; i < in.leads; ++i) {
    const LaneLine& line = pass.leads[in.first_lead + i];
    const LaneLine ahead{in.duration.constant - line.constant, in.duration.scaled - line.scaled};
    if (lo + ahead.at(speeds.fastest) < role.host.hi + role.host_offset) {
      raise_by_line(speeds, role, line, c);
    }
  }
}

void LaneEngine::add_duration(const RoleSpeeds& speeds, const LaneInstruction& in, LaneClock& c,
                              const LaneClock* other) {
  const bool same = speeds.same || in.duration.scaled == 0;
  const bool wide = !same && speeds.wide(in.duration.scaled);
  if (other != nullptr && wide) raise(c, *std::exchange(other, nullptr), in.delay);
  if (other != nullptr) {
    c.lo = std::max(c.lo, other->lo + in.delay);
    c.hi = std::max(c.hi, other->hi + in.delay);
  }
  const bool follows = other != nullptr && in.follows;
  if (follows) c.hi = other->hi + in.delay;
  if (same && follows) {
    kernels::set(c.t.data(), other->t.data(), n_, in.delay + in.duration.at(speeds.slowness[0]));
  } else if (same && other != nullptr) {
    kernels::raise_add(c.t.data(), other->t.data(), n_, in.delay,
                       in.duration.at(speeds.slowness[0]));
  } else if (same) {
    kernels::add(c.t.data(), n_, in.duration.at(speeds.slowness[0]));
  } else if (follows) {
    kernels::set_scaled(c.t.data(), other->t.data(), speeds.real.data(), n_, in.duration.scaled,
                        in.delay + in.duration.constant);
  } else if (other != nullptr) {
    kernels::raise_add_scaled(c.t.data(), other->t.data(), speeds.real.data(), n_, in.delay,
                              in.duration.scaled, in.duration.constant);
  } else {
    add_scaled(speeds, c, in.duration);
  }
  later(speeds, c, in.duration);
}

void LaneEngine::add_scaled(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& line) {
  const auto kernel = speeds.wide(line.scaled) ? kernels::add_scaled_wide : kernels::add_scaled;
  kernel(c.t.data(), speeds.real.data(), n_, line.scaled, line.constant);
}

void LaneEngine::later(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& duration) {
  c.lo += duration.at(speeds.fastest);
  c.hi += duration.at(speeds.slowest);
  check_limit(c);
}

void LaneEngine::raise_by_line(const RoleSpeeds& speeds, const RoleState& role,
                               const LaneLine& line, LaneClock& c) {
  if (speeds.same || line.scaled == 0) {
    raise_by_host(role, c, line.at(speeds.slowness[0]));
    return;
  }
  const auto kernel = speeds.wide(line.scaled) ? kernels::raise_scaled_wide : kernels::raise_scaled;
  kernel(c.t.data(), role.host.t.data(), speeds.real.data(), n_, line.scaled,
         role.host_offset + line.constant);
  c.lo = std::max(c.lo, role.host.lo + role.host_offset + line.at(speeds.fastest));
  c.hi = std::max(c.hi, role.host.hi + role.host_offset + line.at(speeds.slowest));
  check_limit(c);
}

void LaneEngine::run_by_op(const RoleSpeeds& speeds, RoleState& role, const LaneInstruction& in,
                           LaneClock& c, const LaneClock* other) {
  get_ready(role, in, c, other);
  mark_start(role, in, c);
  const bool jitters = !speeds.jitter_key.empty();
  const uint32_t key = jitter_instance_key(role.instances + in.op);
  begins_.clear();
  for (const LaneWindows& w : speeds.windows) begins_.push_back(c.t[static_cast<size_t>(w.lane)]);
  if (jitters) {
    kernels::add_jittered(c.t.data(), speeds.real.data(), speeds.jitter_key.data(),
                          jitter_.factor.data(), key, n_, in.duration.scaled,
                          speeds.wide(in.duration.scaled));
  } else {
    add_scaled(speeds, c, in.duration);
  }
  for (size_t i = 0; i < begins_.size(); ++i) {
    const LaneWindows& w = speeds.windows[i];
    const auto lane = static_cast<size_t>(w.lane);
    if (begins_[i] >= w.last || c.t[lane] <= w.first) continue;
    const uint32_t factor =
        jitters ? jitter_.factor[jitter_index(speeds.jitter_key[lane], key)] : uint32_t{kNominal};
    c.t[lane] = end_of_compute(begins_[i], in.duration.scaled,
                               static_cast<Slowness>(speeds.slowness[lane]), factor, w.spans);
  }
  later(speeds, c, in.duration);
}

void LaneEngine::run_join(uint32_t r, RoleState& role, const LaneInstruction& in, LaneClock& c,
                          const LaneClock* other) {
  const Work& work = graph_.works[static_cast<size_t>(in.work)];
  const int64_t lo = other == nullptr ? c.lo : std::max(c.lo, other->lo + in.delay);
  const LaneGroups::Roles roles(&r, 1);
  if (in.mark_start == kNoPlace && lo >= role.host.hi + role.host_offset + in.launch) {
    groups_.meet_and_add(c, other, in.delay, in.follows, work, in.work, roles);
    return;
  }
  get_ready(role, in, c, other);
  groups_.meet(c, work.axis);
  mark_start(role, in, c);
  groups_.add_price(c, work, in.work, roles);
}

}  // namespace stepcast
