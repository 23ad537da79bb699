// SPDX-License-Identifier: Apache-2.0
// What the contention engine writes down of one lane, for account and critical path.
#include <algorithm>

#include "sim/contention_engine.h"

namespace stepcast::contention {
namespace {

constexpr auto kCompute = static_cast<size_t>(Stream::compute);

}  // namespace

void Engine::prepare_record() {
  record_.emplace(graph_, ops_);
  meeting_records_.resize(graph_.rendezvous.size());
  role_records_.resize(graph_.roles.size());
  for (size_t r = 0; r < graph_.roles.size(); ++r) {
    role_records_[r].items.assign(graph_.roles[r].items.size(), {kUnknown, kUnknown});
  }
}

int64_t Engine::recorded_time(const Actor& a, size_t stream) const {
  return a.time[stream * block_ + static_cast<size_t>(recorded_) - a.lane];
}

// REQUIRES: records(a, th), here and below.
void Engine::note_item(const Actor& a, const Thread& th, uint32_t item, bool ends) {
  if (th.code != kCompute && (th.code != kStrand || !strand_[kCompute])) return;
  auto& [begin, end] = role_records_[a.role].items[item];
  const int64_t time = recorded_time(a, kCompute);
  if (begin == kUnknown) begin = time;
  if (ends) end = time;
}

// A chain that ran for `ran`, at the lane's own speed.
void Engine::note_chain(const Place& at, const ThreadInstruction& in, int64_t before, int64_t ran) {
  const int64_t after = recorded_time(at.a, in.stream);
  if (ops_) note_op(at, in.first, after - ran, after);
  if (in.stream != kCompute) return;
  record_->note(at.a.role, Spend::launch, after - before - ran);
  note_more(at, in.first, in.count, ran - in.ps * kOne);
}

// Ops of a chain that has run beside communication.
void Engine::note_slowed(const Place& at, const ThreadInstruction& in) {
  const Rank& rank = ranks_[at.a.role * width_ + at.a.lane];
  const uint32_t count = at.th.ops - rank.first_op;
  int64_t ps = 0;
  for (uint32_t i = 0; i < count; ++i) ps += at.pass.ops[in.first + rank.first_op + i].ps;
  const uint32_t id = at.a.role * width_ + at.a.lane;
  const int64_t own = ps * (is_uneven(id) ? rank.pace : slowness_[id]);
  note_more(at, in.first + rank.first_op, count, own - ps * kOne);
  record_->note(at.a.role, Spend::contention, now_ - rank.begin - own);
  if (ops_) note_op(at, in.first, rank.begin, now_);
}

// Op `op` of the pass's list ran in [begin, end).  REQUIRES: ops_, so it is a chain by itself.
void Engine::note_op(const Place& at, uint32_t op, int64_t begin, int64_t end) {
  const uint32_t item = program_.roles[at.a.role].items[at.th.code][at.th.at];
  record_->op(at.a.role, item, at.pass.ops[op].index, begin, end);
}

// They took so much longer than priced: each by its share of the time.
void Engine::note_more(const Place& at, uint32_t first, uint32_t count, int64_t more) {
  int64_t total = 0;
  for (uint32_t i = first; i < first + count; ++i) total += at.pass.ops[i].ps;
  for (uint32_t i = first; i < first + count && total > 0; ++i) {
    const ThreadOp& op = at.pass.ops[i];
    record_->note(at.a.role, op.spend, static_cast<int64_t>(Wide{more} * op.ps / total));
  }
}

// A collective: of the recorded lane the stream was free at `before`, the lane ready at `ready`,
// the group at `begin`; it has ended.
void Engine::note_talk(const Place& at, const ThreadInstruction& in, int64_t before, int64_t ready,
                       int64_t begin) {
  const size_t stream = in.stream;
  const auto lane = static_cast<uint32_t>(recorded_);
  const Axis axis = graph_.works[in.work].axis;
  const Groups& groups = groups_[static_cast<size_t>(axis)];
  std::vector<LaneSpan> spans;
  for (uint32_t i = 0; i < groups.size && !lanes_.windows.empty(); ++i) {
    add_link_spans(axis, at.a.role, groups.lanes[size_t{groups.of[lane]} * groups.size + i], spans);
  }
  const uint8_t link_class = class_of(at.a.role, in.work, lane);
  const int64_t alone = priced_end(begin, in.work, link_class, spans) - begin;
  const int64_t end = recorded_time(at.a, stream);
  role_records_[at.a.role].straggler[stream] = {ready, begin, begin + alone, end};
  if (ops_) note_op(at, in.first, begin, end);
  if (stream != kCompute) return;
  record_->note(at.a.role, Spend::launch, ready - before);
  record_->note(at.a.role, Spend::straggler, begin - ready);
  record_->note(at.a.role, at.pass.ops[in.first].spend, alone - price_in(0, in.work) * kOne);
  record_->note(at.a.role, Spend::contention, end - begin - alone);
}

// A post that the recorded lane's meeting counts.
void Engine::note_post(const Actor& a, uint32_t item, uint32_t id, uint32_t lane, int64_t time) {
  MeetingRecord& m = meeting_records_[id];
  if (lane == recorded_) m.own.emplace_back(a.role, time);
  if (time < m.last || (time == m.last && a.role >= m.last_role)) return;
  m.last = time;
  m.last_role = a.role;
  m.last_item = item;
}

void Engine::note_join(const Actor& a, uint32_t item, const Meeting& meeting) {
  const Item& it = graph_.roles[a.role].items[item];
  if (it.stream != Stream::compute) return;
  const MeetingRecord& m = meeting_records_[static_cast<size_t>(it.rendezvous)];
  const auto own = std::ranges::find(m.own, a.role, &std::pair<uint32_t, int64_t>::first);
  const bool waits_for_own_role = m.last_role == a.role && own != m.own.end();
  record_->rendezvous_wait(
      a.role, it, item, recorded_time(a, kCompute), meeting.end,
      waits_for_own_role ? StragglerWait{own->second, meeting.begin} : StragglerWait{});
}

void Engine::note_rendezvous(const Row& row, uint32_t group) {
  const Groups& groups = groups_[static_cast<size_t>(graph_.works[row.work].axis)];
  if (groups.of[static_cast<size_t>(recorded_)] != group) return;
  const Meeting& m = row.meetings[group];
  const MeetingRecord& record = meeting_records_[row.source];
  const int64_t alone_end =
      priced_end(m.begin, row.work, class_of(row, group), link_spans(row, group));
  record_->timeline.rendezvous[row.source] = {to_time(m.begin), to_time(m.end), record.last_role,
                                              record.last_item, to_time(m.end - alone_end)};
}

void Engine::finish_record(LaneResult& result) {
  for (uint32_t r = 0; r < graph_.roles.size(); ++r) {
    const Actor& a = actors_[r * (width_ / block_) + static_cast<uint32_t>(recorded_) / block_];
    const std::vector<Item>& items = graph_.roles[r].items;
    int64_t at = 0, busy = 0, end = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto& [begin, until] = role_records_[r].items[i];
      record_->item(r, items[i], begin == kUnknown ? at : begin, until == kUnknown ? at : until);
      if (until != kUnknown) at = until;
      if (items[i].kind != ItemKind::pass) continue;
      const PassThreads& pass = program_.passes[static_cast<size_t>(items[i].pass)];
      for (const ThreadInstruction& in : pass.code[kCompute]) {
        if (in.code != ThreadCode::wait && in.code != ThreadCode::watch) busy += in.ps;
      }
    }
    for (size_t s = 0; s < kStreams; ++s) end = std::max(end, recorded_time(a, s));
    const int64_t first = first_start_[r * width_ + static_cast<size_t>(recorded_)];
    record_->finish_role(r, first == kUnknown ? 0 : first, recorded_time(a, kCompute), end, busy);
  }
  result.timeline = std::move(record_->timeline);
  result.timeline.rank_ops = result.rank_ops / width_;
  result.timeline.makespan = result.makespan;
  result.timeline.span = result.span;
}

}  // namespace stepcast::contention
