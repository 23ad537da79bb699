// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sim/lane_engine.h"

namespace stepcast {

Timeline LaneEngine::take_timeline() {
  const auto lane = static_cast<size_t>(recorded_);
  for (uint32_t r = 0; r < roles_.size(); ++r) {
    const LaneClock& compute = roles_[r].stream[kCompute];
    int64_t busy = 0;
    for (const Item& item : graph_.roles[r].items) {
      if (item.kind != ItemKind::pass) continue;
      const LanePass& pass = merged_.passes[static_cast<size_t>(item.pass)];
      for (size_t s = 0; s < kSpends; ++s) busy += pass.scaled[s] + pass.fixed[s];
    }
    const int64_t begin = roles_[r].begin.empty() ? 0 : roles_[r].begin[lane];
    record_->finish_role(r, begin, compute.t.empty() ? 0 : compute.t[lane], ends(r)[lane], busy);
    record_->timeline.rank_ops += role_ops(r);
  }
  return std::move(record_->timeline);
}

StragglerWait& LaneEngine::straggler_at(RoleState& role, LanePlace p) {
  const auto i = static_cast<size_t>(p);
  return i < kStreams ? role.straggler[i] : slot_straggler_[i - kStreams];
}

void LaneEngine::note_wait(uint32_t r, RoleState& role, const LaneInstruction& in,
                           const LaneClock& c, const LaneClock& other) {
  if (in.stream != Stream::compute) return;
  const int64_t from = on_lane(c), until = on_lane(other);
  record_->note_wait(r, in.wait_spend, from, until, straggler_at(role, in.wait));
  // What a wait adds to the end of the other op is the host's (host_waits.h).
  record_->note_wait(r, Spend::launch, std::max(from, until), until + in.delay, {});
}

void LaneEngine::run_recorded(uint32_t r, RoleState& role, const LanePass& pass,
                              const LaneInstruction& in, LaneClock& c, const LaneClock* other) {
  if (other != nullptr) {
    note_wait(r, role, in, c, *other);
    raise(c, *other, in.delay);
  }
  const int64_t begin =
      in.code == LaneCode::join ? record_join(r, role, in, c) : record_op(r, role, pass, in, c);
  if (record_->has_ops()) record_->op(r, role.item, in.op, begin, on_lane(c));
  if (in.mark_end != kNoPlace) {
    straggler_at(role, in.mark_end) = role.straggler[static_cast<size_t>(in.stream)];
  }
}

int64_t LaneEngine::record_join(uint32_t r, RoleState& role, const LaneInstruction& in,
                                LaneClock& c) {
  const int64_t waited = on_lane(c);
  raise_by_host(role, c, in.launch);
  const int64_t ready = on_lane(c);
  groups_.meet(c, axis_of(in));
  const int64_t begin = on_lane(c);
  mark_start(role, in, c);
  groups_.add_price(c, graph_.works[static_cast<size_t>(in.work)], in.work,
                    LaneGroups::Roles(&r, 1));
  if (begin > ready) role.straggler[static_cast<size_t>(in.stream)] = {ready, begin};
  if (in.stream != Stream::compute) return begin;
  record_->note(r, Spend::launch, ready - waited);
  record_->note(r, Spend::straggler, begin - ready);
  record_->note(r, in.spend, on_lane(c) - begin - groups_.nominal(in.work));
  return begin;
}

int64_t LaneEngine::record_op(uint32_t r, RoleState& role, const LanePass& pass,
                              const LaneInstruction& in, LaneClock& c) {
  const RoleSpeeds& speeds = speeds_[r];
  const bool computes = in.stream == Stream::compute;
  const int64_t waited = on_lane(c);
  if (!speeds.by_op() || in.duration.scaled == 0) {
    run_chain(speeds, role, pass, in, c, nullptr);
    const int64_t slowness = speeds.slowness[static_cast<size_t>(recorded_)];
    const int64_t begin = on_lane(c) - in.duration.at(slowness);
    if (computes) record_->note(r, Spend::launch, begin - waited);
    return begin;
  }
  raise_by_host(role, c, in.launch);
  const int64_t begin = on_lane(c);
  run_by_op(speeds, role, in, c, nullptr);
  if (!computes) return begin;
  record_->note(r, Spend::launch, begin - waited);
  record_->note(r, in.spend, on_lane(c) - begin - in.duration.at(kNominal));
  return begin;
}

void LaneEngine::note_slowness(uint32_t r, const LanePass& pass) {
  const int64_t more = int64_t{speeds_[r].slowness[static_cast<size_t>(recorded_)]} - kNominal;
  for (size_t s = 0; s < kSpends; ++s) {
    record_->note(r, static_cast<Spend>(s), pass.scaled[s] * more);
  }
}

void LaneEngine::note_post(uint32_t r, const RoleState& role, const LaneClock& stream, Axis axis,
                           Meeting& m) {
  LaneClock own;
  copy(own, stream);
  raise_by_host(role, own, 0);
  m.posted.emplace_back(r, on_lane(own));
  groups_.meet(own, axis);
  const int64_t time = on_lane(own);
  release(own);
  if (m.posts == 0 || time > m.begin || (time == m.begin && r < m.last_role)) {
    m.begin = time;
    m.last_role = r;
    m.last_item = role.item;
  }
}

void LaneEngine::note_join(uint32_t r, const RoleState& role, const Item& item, const Meeting& m) {
  const auto own = std::find_if(m.posted.begin(), m.posted.end(),
                                [&](const auto& post) { return post.first == r; });
  const bool waits_for_own_role = m.last_role == r && own != m.posted.end();
  record_->rendezvous_wait(
      r, item, role.item, on_lane(role.stream[kCompute]), on_lane(m.clock),
      waits_for_own_role ? StragglerWait{own->second, m.begin} : StragglerWait{});
}

}  // namespace stepcast
