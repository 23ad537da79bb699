// SPDX-License-Identifier: Apache-2.0
// Windows and jitter in the contention engine: how fast an op goes at a moment, and what happens to
// those that run when that changes.
#include <algorithm>

#include "sim/check.h"
#include "sim/contention_engine.h"
#include "sim/lane_program.h"

namespace stepcast::contention {

void Engine::prepare_windows() {
  if (lanes_.jitter) {
    jitter_ = jitter_table(lanes_.jitter->sigma);
    for (uint64_t rank = 0; rank < slowness_.size(); ++rank) {
      rank_keys_.push_back(jitter_rank_key(lanes_.jitter->seed, rank));
    }
  }
  if (lanes_.windows.empty()) return;
  spans_.resize(slowness_.size());
  for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
    for (uint32_t lane = 0; lane < width_; ++lane) {
      std::vector<LaneSpan>& spans = spans_[role * width_ + lane];
      for (const LaneWindow& w : lanes_.windows_of(role, lane)) {
        if (w.slowness != kNominal) spans.push_back(span_of(w, Axis::none));
      }
      if (!coupled_) continue;
      for (const LaneSpan& span : spans) {
        for (const int64_t edge : {span.from, span.until}) {
          if (edge <= kLongestLaneTime) push(edge, EventKind::window, role * width_ + lane);
        }
      }
    }
  }
}

bool Engine::is_uneven(uint32_t rank) const {
  return jitter_.has_value() || (!spans_.empty() && !spans_[rank].empty());
}

// Of an op of the pass, in 1/4096.
uint32_t Engine::factor_of(const Place& at, uint32_t rank, const ThreadOp& op) const {
  if (!jitter_) return kNominal;
  const uint32_t key = jitter_instance_key(at.first_instance + op.index);
  return jitter_->factor[jitter_index(rank_keys_[rank], key)];
}

int64_t Engine::end_of_op(const Place& at, uint32_t rank, const ThreadOp& op, int64_t begin) const {
  const std::span<const LaneSpan> spans =
      spans_.empty() ? std::span<const LaneSpan>() : std::span<const LaneSpan>(spans_[rank]);
  return end_of_compute(begin, op.ps, slowness_[rank], factor_of(at, rank, op), spans);
}

// At this moment, without jitter.
uint32_t Engine::slowness_now(uint32_t rank) const {
  const auto own = static_cast<uint32_t>(slowness_[rank]);
  if (spans_.empty()) return own;
  Slowness most = 0;
  for (const LaneSpan& w : spans_[rank]) {
    if (w.from <= now_ && now_ < w.until) most = std::max(most, w.slowness);
  }
  return most == 0 ? own : jittered(own, static_cast<uint32_t>(most));
}

// Interference: a window of the rank begins or ends.
void Engine::change_window(uint32_t id) {
  Rank& rank = ranks_[id];
  if (!rank.runs) return;
  advance_progress(rank);
  const int64_t pace = jittered(slowness_now(id), rank.factor);
  rank.target =
      rank.progress + rescaled(rank.target - rank.progress, rank.pace, pace, slow_compute_);
  rank.pace = pace;
  rank.restarted = true;
  mark_dirty(id);
}

// What is left in units of which `alone` pass in 1/4096 ps: whole 1/4096 ps of it, at another pace.
Wide Engine::rescaled(Wide left, int64_t from, int64_t to, int64_t alone) {
  if (left <= 0 || from == to) return left;
  return left * to / (Wide{from} * alone) * alone;
}

// --- communication ------------------------------------------------------------------------------

// Windows in which the links of a group are others.
std::vector<LaneSpan> Engine::link_spans(const Row& row, uint32_t group) const {
  std::vector<LaneSpan> spans;
  if (lanes_.windows.empty()) return spans;
  const Axis axis = graph_.works[row.work].axis;
  for_ranks(row, group,
            [&](uint32_t role, uint32_t lane) { add_link_spans(axis, role, lane, spans); });
  return spans;
}

void Engine::add_link_spans(Axis axis, uint32_t role, uint32_t lane,
                            std::vector<LaneSpan>& spans) const {
  for (const LaneWindow& w : lanes_.windows_of(role, lane)) {
    if (w.link_class[static_cast<size_t>(axis)] > 0) spans.push_back(span_of(w, axis));
  }
}

// Of communication that begins at `begin`, on private links beside nothing.
int64_t Engine::priced_end(int64_t begin, uint32_t work, uint8_t own,
                           std::span<const LaneSpan> spans) {
  if (spans.empty()) return begin + price_in(own, work) * kOne;
  prices_by_class_.clear();
  for (size_t c = 0; c <= lanes_.class_ps.size(); ++c) {
    prices_by_class_.push_back(price_in(c, work) * kOne);
  }
  return end_of_communication(begin, prices_by_class_, own, spans, lanes_);
}

int64_t Engine::price_at(const Talk& talk, int64_t time) const {
  uint8_t link_class = talk.link_class;
  for (const LaneSpan& w : talk.spans) {
    if (w.from <= time && time < w.until) link_class = lanes_.joined(link_class, w.link_class);
  }
  return price_in(link_class, rows_[talk.row].work);
}

// An event at the next moment after `time` at which a window of its ranks begins or ends.
void Engine::push_next_window(uint32_t id, int64_t time) {
  int64_t next = INT64_MAX;
  for (const LaneSpan& w : talks_[id].spans) {
    if (w.from > time) next = std::min(next, w.from);
    if (w.until > time) next = std::min(next, w.until);
  }
  if (next <= kLongestLaneTime) push(next, EventKind::price, id, talks_[id].version);
}

void Engine::change_price(uint32_t id) {
  Talk& talk = talks_[id];
  push_next_window(id, now_);
  const int64_t price = price_at(talk, now_);
  if (price == talk.price) return;
  const int64_t before = talk.price;
  talk.price = price;
  if (talk.flows) {
    set_cap(talk);
    if (talk.moving) network_.set_cap(now_, talk.flow, talk.slowed ? slowed_cap(talk) : talk.cap);
    return;
  }
  talk.left -= (talk.slowed ? kOne : slow_talk_) * Wide{now_ - talk.last};
  talk.last = now_;
  talk.left = rescaled(talk.left, before, price, slow_talk_);
  talk.restarted = true;
  mark_talk_dirty(id);
}

}  // namespace stepcast::contention
