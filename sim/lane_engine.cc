// SPDX-License-Identifier: Apache-2.0
#include "sim/lane_engine.h"

#include <algorithm>

#include "sim/lane_kernels.h"

namespace stepcast {

LaneEngine::LaneEngine(const OpGraph& graph, const Prices& prices, const FoldedLanes& folded,
                       bool merge, int64_t record, bool ops)
    : graph_(graph),
      n_(folded.lanes.lanes()),
      size_(static_cast<size_t>(n_)),
      groups_(graph, prices, folded.lanes),
      recorded_(record),
      roles_(graph.roles.size()),
      meetings_(graph.rendezvous.size()),
      queue_(graph.roles.size()) {
  if (recorded_ >= 0) record_ = std::make_unique<LaneRecord>(graph, ops);
  if (folded.lanes.jitter) jitter_ = jitter_table(folded.lanes.jitter->sigma);
  speeds_ = role_speeds(folded, roles_.size(), jitter_);
  LaneTraits traits = traits_of_lanes();
  traits.merge = merge;
  merged_ = compile_lanes(graph, prices, traits);
  const bool any_by_op =
      std::any_of(speeds_.begin(), speeds_.end(), [](const RoleSpeeds& s) { return s.by_op(); });
  traits.merge = false;
  if (any_by_op) single_ = compile_lanes(graph, prices, traits);
  find_ends();
  int32_t slots = 0;
  for (const LaneProgram* p : {&merged_, &single_}) {
    for (const LanePass& pass : p->passes) slots = std::max(slots, pass.slots);
  }
  slots_.resize(static_cast<size_t>(slots));
  slot_straggler_.resize(static_cast<size_t>(slots));
  for (size_t r = 0; r < roles_.size(); ++r) prepare_role(r);
}

void LaneEngine::run() {
  while (!queue_.empty()) advance(queue_.take());
  throw_if_stuck(graph_, roles_);
}

std::vector<int64_t> LaneEngine::ends(size_t r) const {
  std::vector<int64_t> end(size_, 0);
  for (const LaneClock& c : roles_[r].stream) {
    if (!c.t.empty()) lane_kernels::raise(end.data(), c.t.data(), n_, 0);
  }
  return end;
}

LaneTraits LaneEngine::traits_of_lanes() const {
  LaneTraits traits{.fastest = INT32_MAX, .slowest = 1};
  for (const RoleSpeeds& s : speeds_) {
    traits.fastest = std::min(traits.fastest, s.fastest);
    traits.slowest = std::max(traits.slowest, s.slowest);
  }
  for (int axis = 0; axis < kAxes; ++axis) {
    traits.joins[static_cast<size_t>(axis)] = groups_.joins(static_cast<Axis>(axis));
  }
  return traits;
}

void LaneEngine::find_ends() {
  if (groups_.by_role()) ends_.resize(graph_.rendezvous.size());
  for (uint32_t r = 0; r < roles_.size(); ++r) {
    for (const Item& item : graph_.roles[r].items) {
      if (item.kind != ItemKind::post && item.kind != ItemKind::join) continue;
      const auto id = static_cast<size_t>(item.rendezvous);
      if (item.kind == ItemKind::join) ++meetings_[id].joins;
      if (ends_.empty()) continue;
      if (ends_[id].empty() || ends_[id].back() != r) ends_[id].push_back(r);
    }
  }
}

void LaneEngine::prepare_role(size_t r) {
  RoleState& role = roles_[r];
  uint32_t events = 0;
  std::array<bool, kStreams> used{};
  std::vector<bool> seen(graph_.passes.size());
  for (const Item& item : graph_.roles[r].items) {
    used[static_cast<size_t>(item.stream)] = true;
    if (item.kind == ItemKind::record || item.kind == ItemKind::wait) {
      events = std::max(events, item.event + 1);
      role.event_waits.resize(std::max(role.event_waits.size(), size_t{item.event} + 1));
      if (item.kind == ItemKind::wait) ++role.event_waits[item.event];
    }
    if (item.kind != ItemKind::pass || seen[static_cast<size_t>(item.pass)]) continue;
    seen[static_cast<size_t>(item.pass)] = true;
    for (const LaneInstruction& in : merged_.passes[static_cast<size_t>(item.pass)].code) {
      used[static_cast<size_t>(in.stream)] = true;
    }
  }
  for (size_t s = 0; s < used.size(); ++s) {
    if (used[s]) role.stream[s].t.assign(size_, 0);
  }
  role.host.t.assign(size_, 0);
  role.events.resize(events);
  role.event_straggler.resize(events);
}

void LaneEngine::advance(uint32_t r) {
  RoleState& role = roles_[r];
  const std::vector<Item>& items = graph_.roles[r].items;
  for (; role.item < items.size(); ++role.item) {
    const Item& item = items[role.item];
    const int64_t before = on_lane(role.stream[kCompute]);
    if (!execute(r, role, item)) return;
    if (record_) record_->item(r, item, before, on_lane(role.stream[kCompute]));
  }
}

int64_t LaneEngine::on_lane(const LaneClock& clock) const {
  if (!record_ || clock.t.empty()) return 0;
  return clock.t[static_cast<size_t>(recorded_)];
}

bool LaneEngine::execute(uint32_t r, RoleState& role, const Item& item) {
  LaneClock& stream = role.stream[static_cast<size_t>(item.stream)];
  switch (item.kind) {
    case ItemKind::pass: run_pass(r, role, item); return true;
    case ItemKind::post: post(r, role, item, stream); return true;
    case ItemKind::join: return join(r, role, item, stream);
    case ItemKind::record:
      if (role.event_waits[item.event] == 0) return true;
      copy(role.events[item.event], stream);
      role.event_straggler[item.event] = role.straggler[static_cast<size_t>(item.stream)];
      return true;
    case ItemKind::wait: wait(r, role, item, stream); return true;
    case ItemKind::sync: hold_host(role, stream); return true;
  }
  return true;
}

void LaneEngine::wait(uint32_t r, RoleState& role, const Item& item, LaneClock& stream) {
  LaneClock& event = role.events[item.event];
  if (!event.t.empty()) {
    if (record_ && item.stream == Stream::compute) {
      record_->event_wait(r, item, role.item, on_lane(stream), on_lane(event),
                          role.event_straggler[item.event]);
    }
    raise(stream, event, 0);
  }
  if (--role.event_waits[item.event] == 0) release(event);
}

void LaneEngine::post(uint32_t r, RoleState& role, const Item& item, const LaneClock& stream) {
  const auto id = static_cast<uint32_t>(item.rendezvous);
  const Rendezvous& rendezvous = graph_.rendezvous[id];
  role.host_offset += merged_.launches[static_cast<size_t>(rendezvous.launch)];
  const Work& work = graph_.works[static_cast<size_t>(rendezvous.work)];
  Meeting& m = meetings_[id];
  if (record_) note_post(r, role, stream, work.axis, m);
  if (m.posts == 0) {
    copy(m.clock, stream);
  } else {
    raise(m.clock, stream, 0);
  }
  raise_by_host(role, m.clock, 0);
  if (++m.posts < rendezvous.parties) return;
  complete(id, work, m);
}

void LaneEngine::complete(uint32_t id, const Work& work, Meeting& m) {
  const LaneGroups::Roles roles =
      ends_.empty() ? LaneGroups::Roles{} : LaneGroups::Roles(ends_[id]);
  if (record_) {
    groups_.meet(m.clock, work.axis);
    m.begin = on_lane(m.clock);
    groups_.add_price(m.clock, work, graph_.rendezvous[id].work, roles);
    record_->timeline.rendezvous[id] = {to_time(m.begin), to_time(on_lane(m.clock)), m.last_role,
                                        m.last_item};
  } else {
    groups_.meet_and_add(m.clock, nullptr, 0, false, work, graph_.rendezvous[id].work, roles);
  }
  if (m.joins == 0) release(m.clock);
  queue_.wake(m.sleepers);
}

bool LaneEngine::join(uint32_t r, RoleState& role, const Item& item, LaneClock& stream) {
  const auto id = static_cast<uint32_t>(item.rendezvous);
  Meeting& m = meetings_[id];
  if (m.posts < graph_.rendezvous[id].parties) {
    queue_.sleep(r, m.sleepers);
    return false;
  }
  if (record_ && item.stream == Stream::compute) note_join(r, role, item, m);
  raise(stream, m.clock, 0);
  if (item.host_waits) hold_host(role, m.clock);
  if (--m.joins == 0) release(m.clock);
  return true;
}

}  // namespace stepcast
