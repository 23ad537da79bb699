// SPDX-License-Identifier: Apache-2.0
#include "schedules/v_blocks.h"

#include <algorithm>

#include "schedules/params.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

// Slots of the passes of a rank: [pass][k].
using SlotsOfRank = std::array<std::vector<int64_t>, kVPasses>;

SlotsOfRank slots_of(const VRow& row) {
  SlotsOfRank slots;
  for (size_t t = 0; t < row.size(); ++t)
    if (row[t] != VPass::idle) slots[index_of(row[t])].push_back(static_cast<int64_t>(t));
  return slots;
}

void drop_idle_tail(VRow& row) {
  while (!row.empty() && row.back() == VPass::idle) row.pop_back();
}

// Slot of the n-th input gradient of either chunk.
int64_t slot_of_input(const VRow& row, size_t n) {
  size_t seen = 0;
  for (size_t t = 0; t < row.size(); ++t)
    if (is_input(row[t]) && seen++ == n) return static_cast<int64_t>(t);
  return static_cast<int64_t>(row.size());
}

// One pass over all slots in order of time that pulls passes forward.
class Reordering {
 public:
  Reordering(VRows& rows, bool with_weights) : rows_(rows), with_weights_(with_weights) {
    for (const VRow& row : rows_) {
      slots_.push_back(slots_of(row));
      limit_ = std::max(limit_, peak_held(row));
      length_ = std::max(length_, row.size());
    }
    next_.resize(rows_.size());
  }

  void run() {
    for (size_t t = 0; t < length_; ++t)
      for (size_t rank = 0; rank < rows_.size(); ++rank)
        if (t < rows_[rank].size() && rows_[rank][t] != VPass::idle) visit(rank, t);
  }

 private:
  enum class Phase : uint8_t { warm_up, steady, cool_down };

  void visit(size_t rank, size_t t) {
    const VPass pass = rows_[rank][t];
    const size_t k = next_[rank][index_of(pass)]++;
    if (phase_ == Phase::warm_up && pass == VPass::input0 && rank == 0) phase_ = Phase::steady;
    if (phase_ == Phase::steady) {
      if (pass == VPass::forward0 && k + 1 == slots_[0][index_of(pass)].size())
        phase_ = Phase::cool_down;
      return;
    }
    if (phase_ == Phase::warm_up && !with_weights_) return;
    pull_forward(rank, t, k);
  }

  // The first slot at which the needs of the pass have ended.
  size_t earliest(size_t rank, VPass pass, size_t k) const {
    int64_t slot = -1;
    if (k > 0) slot = slots_[rank][index_of(pass)][k - 1];
    if (is_weight(pass)) {
      slot = std::max(slot, slot_of_input(rows_[rank], k));
    } else {
      const VNeed need =
          need_of(pass, static_cast<int64_t>(rank), static_cast<int64_t>(rows_.size()));
      if (need.rank >= 0)
        slot = std::max(slot, slots_[static_cast<size_t>(need.rank)][index_of(need.pass)][k]);
    }
    return static_cast<size_t>(slot + 1);
  }

  void pull_forward(size_t rank, size_t t, size_t k) {
    VRow& row = rows_[rank];
    const VPass pass = row[t];
    row[t] = VPass::idle;
    for (size_t free = earliest(rank, pass, k); free < t; ++free) {
      if (row[free] != VPass::idle) continue;
      row[free] = pass;
      if (peak_held(row) <= limit_) {
        slots_[rank][index_of(pass)][k] = static_cast<int64_t>(free);
        return;
      }
      row[free] = VPass::idle;
    }
    row[t] = pass;
  }

  VRows& rows_;
  bool with_weights_;
  Phase phase_ = Phase::warm_up;
  int64_t limit_ = 0;
  size_t length_ = 0;
  std::vector<SlotsOfRank> slots_;
  std::vector<std::array<size_t, kVPasses>> next_;
};

}  // namespace

VRows repeat_block(std::span<const VBlock> block, int64_t microbatches, int64_t period) {
  VRows rows;
  for (const VBlock& first : block) {
    const int64_t last =
        *std::max_element(first.begin(), first.end()) + period * (microbatches - 1);
    VRow row(static_cast<size_t>(last + 1), VPass::idle);
    for (size_t pass = 0; pass < kVPasses; ++pass) {
      if (first[pass] == kNoSlot) continue;
      for (int64_t m = 0; m < microbatches; ++m)
        row[static_cast<size_t>(first[pass] + period * m)] = static_cast<VPass>(pass);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

VNeed need_of(VPass pass, int64_t rank, int64_t pp) {
  switch (pass) {
    case VPass::forward0: return {rank - 1, pass};
    case VPass::forward1:
      return rank + 1 < pp ? VNeed{rank + 1, pass} : VNeed{rank, VPass::forward0};
    case VPass::input1: return rank > 0 ? VNeed{rank - 1, pass} : VNeed{rank, VPass::forward1};
    case VPass::input0: return rank + 1 < pp ? VNeed{rank + 1, pass} : VNeed{rank, VPass::input1};
    case VPass::weight1: return {rank, VPass::input1};
    case VPass::weight0: return {rank, VPass::input0};
    case VPass::idle: break;
  }
  return {};
}

void fill_weights(VRow& row, bool by_chunk) {
  std::array<int64_t, 2> owed{};
  const auto pay = [&]() -> VPass {
    const size_t i = owed[0] > 0 ? 0 : 1;
    if (owed[i] == 0) return VPass::idle;
    --owed[i];
    return i == 0 ? VPass::weight1 : VPass::weight0;
  };
  for (VPass& pass : row) {
    if (is_input(pass)) ++owed[by_chunk && pass == VPass::input0 ? 1 : 0];
    if (pass == VPass::idle) pass = pay();
  }
  while (owed[0] + owed[1] > 0) row.push_back(pay());
}

void drop_weights(VRow& row) {
  for (VPass& pass : row)
    if (is_weight(pass)) pass = VPass::idle;
  drop_idle_tail(row);
}

int64_t peak_held(const VRow& row) {
  int64_t held = 0, peak = 0, owed = 0;
  const bool implicit = std::none_of(row.begin(), row.end(), is_weight);
  for (const VPass pass : row) {
    if (is_forward(pass)) peak = std::max(peak, ++held);
    if (is_input(pass)) ++owed;
    if (is_weight(pass) || (implicit && pass == VPass::idle && owed > 0)) {
      --held;
      --owed;
    }
  }
  return peak;
}

VRows squeeze(const VRows& rows) {
  size_t length = 0;
  for (const VRow& row : rows) length = std::max(length, row.size());
  const auto pp = static_cast<int64_t>(rows.size());
  std::vector<SlotsOfRank> slots(rows.size());
  VRows squeezed(rows.size());
  for (size_t t = 0; t < length; ++t)
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      if (t >= rows[rank].size() || rows[rank][t] == VPass::idle) continue;
      const VPass pass = rows[rank][t];
      VRow& row = squeezed[rank];
      const size_t k = slots[rank][index_of(pass)].size();
      const VNeed need = need_of(pass, static_cast<int64_t>(rank), pp);
      // Weight gradients need nothing that is not before them on the same rank.
      if (!is_weight(pass) && need.rank >= 0) {
        const int64_t from = slots[static_cast<size_t>(need.rank)][index_of(need.pass)].at(k) + 1;
        row.resize(std::max(row.size(), static_cast<size_t>(from)), VPass::idle);
      }
      slots[rank][index_of(pass)].push_back(static_cast<int64_t>(row.size()));
      row.push_back(pass);
    }
  return squeezed;
}

void reorder(VRows& rows, bool with_weights) {
  Reordering(rows, with_weights).run();
}

std::vector<Action> actions_of(const VRow& row, int64_t rank, int64_t pp, bool full_backward) {
  std::array<uint32_t, kVPasses> next{};
  std::vector<Action> list;
  for (const VPass pass : row) {
    if (pass == VPass::idle || (full_backward && is_weight(pass))) continue;
    const bool chunk0 = pass == VPass::forward0 || pass == VPass::input0 || pass == VPass::weight0;
    const ActionKind kind = is_forward(pass)  ? ActionKind::forward
                            : is_weight(pass) ? ActionKind::backward_weight
                            : full_backward   ? ActionKind::backward
                                              : ActionKind::backward_input;
    list.emplace_back(kind, static_cast<uint16_t>(chunk0 ? rank : 2 * pp - 1 - rank),
                      next[index_of(pass)]++);
  }
  return list;
}

void check_v_block_parameters(const ScheduleParams& params) {
  for (const ScheduleParameter& p : kVBlockParameters) number_param(params, p.key);
}

Schedule v_block_schedule(std::string_view name, const ScheduleParams& params,
                          VBlock (*block_of)(int64_t rank, int64_t pp)) {
  Schedule schedule = v_schedule(name, params);
  check_v_block_parameters(params);
  std::vector<VBlock> block;
  for (int64_t r = 0; r < params.pp; ++r) block.push_back(block_of(r, params.pp));
  VRows rows = repeat_block(block, params.microbatches);
  for (const bool with_weights : {true, false}) {
    if (with_weights)
      for (VRow& row : rows) fill_weights(row, false);
    reorder(rows, with_weights);
    if (!with_weights)
      for (VRow& row : rows) fill_weights(row, false);
    rows = squeeze(rows);
    for (VRow& row : rows) drop_weights(row);
  }
  for (int64_t r = 0; r < params.pp; ++r) {
    VRow& row = rows[static_cast<size_t>(r)];
    fill_weights(row, true);
    schedule.ranks[static_cast<size_t>(r)] = actions_of(row, r, params.pp, false);
  }
  return schedule;
}

}  // namespace stepcast
