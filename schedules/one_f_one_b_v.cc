// SPDX-License-Identifier: Apache-2.0
// 1F1B-V: two chunks a rank in the form of a V, whole backwards, two thirds of the activations of
// 1F1B.
//
// The block: both forwards without a gap, then backwards of two slots each, one rank after the
// other; where a third backward would meet a forward's slot of the period all wait for three slots.
// Warm-up and cool-down are closed in one pass over the slots in order of time: a backward goes to
// the first two free slots behind what it needs; a forward as far forward as no more is held than
// the fullest rank does anyway.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/placement.h"
#include "schedules/v_blocks.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "1f1b-v";
constexpr std::string_view kAliases[] = {"v1f1b", "1f1bv", "v-1f1b", "one-f-one-b-v"};

std::vector<VBlock> block_of(int64_t pp) {
  std::vector<VBlock> block(static_cast<size_t>(pp));
  const auto of = [&](int64_t rank, VPass pass) -> int64_t& {
    return block[static_cast<size_t>(rank)][static_cast<size_t>(pass)];
  };
  int64_t slot = kVPeriod;
  for (int64_t r = 0; r < pp; ++r) of(r, VPass::forward0) = ++slot;
  for (int64_t r = pp - 1; r >= 0; --r) of(r, VPass::forward1) = ++slot;
  ++slot;
  if (pp % 3 == 0) slot += 3;
  int64_t in_row = (3 - (pp + 2) % 3) % 3;  // backwards since the last wait
  const auto put = [&](int64_t rank, VPass input, VPass weight) {
    of(rank, input) = slot;
    of(rank, weight) = slot + 1;
    slot += 2;
    if (++in_row == 3) {
      in_row = 0;
      slot += 3;
    }
  };
  for (int64_t r = 0; r < pp; ++r) put(r, VPass::input1, VPass::weight1);
  for (int64_t r = pp - 1; r >= 0; --r) put(r, VPass::input0, VPass::weight0);
  return block;
}

// The weight gradient ends a whole backward: what the next one waits for.
VPass last_half(VPass pass) {
  if (pass == VPass::input1) return VPass::weight1;
  if (pass == VPass::input0) return VPass::weight0;
  return pass;
}

struct PullForward {
  VRows& rows;
  int64_t pp, limit = 0;
  std::vector<std::vector<int64_t>> held = {};                         // [rank][slot]
  std::vector<std::array<std::vector<int64_t>, kVPasses>> slots = {};  // [rank][pass][k]

  void run() {
    for (const VRow& row : rows) {
      std::vector<int64_t> holds;
      int64_t now = 0;
      for (const VPass pass : row) {
        if (pass == VPass::forward0 || pass == VPass::forward1) ++now;
        if (pass == VPass::weight0 || pass == VPass::weight1) --now;
        holds.push_back(now);
        limit = std::max(limit, now);
      }
      held.push_back(std::move(holds));
    }
    slots.resize(rows.size());
    size_t length = 0;
    for (const VRow& row : rows) length = std::max(length, row.size());
    for (size_t t = 0; t < length; ++t)
      for (size_t r = 0; r < rows.size(); ++r)
        if (t < rows[r].size() && rows[r][t] != VPass::idle) visit(r, t);
  }

  // First slot behind everything microbatch k of the pass needs.
  size_t earliest(size_t rank, VPass pass) const {
    const std::vector<int64_t>& own = slots[rank][static_cast<size_t>(pass)];
    int64_t slot = own.empty() ? -1 : own.back();
    const VNeed need = need_of(pass, static_cast<int64_t>(rank), pp);
    if (need.rank >= 0) {
      const bool weight = pass == VPass::weight1 || pass == VPass::weight0;
      const VPass end = weight ? need.pass : last_half(need.pass);
      slot = std::max(
          slot, slots[static_cast<size_t>(need.rank)][static_cast<size_t>(end)].at(own.size()));
    }
    return static_cast<size_t>(slot + 1);
  }

  void visit(size_t rank, size_t t) {
    VRow& row = rows[rank];
    const VPass pass = row[t];
    const bool forward = pass == VPass::forward0 || pass == VPass::forward1;
    const bool input = pass == VPass::input0 || pass == VPass::input1;
    size_t to = earliest(rank, pass);
    const auto taken = [&](size_t slot) { return row[slot] != VPass::idle; };
    if (forward) {
      size_t from = t;
      while (from > to && held[rank][from - 1] < limit) --from;
      to = from;
    }
    while (to < t && (taken(to) || (input && taken(to + 1)))) ++to;
    slots[rank][static_cast<size_t>(pass)].push_back(static_cast<int64_t>(to));
    if (to == t) return;
    row[to] = pass;
    row[t] = VPass::idle;
    if (input) return;
    for (size_t slot = to; slot < t; ++slot) held[rank][slot] += forward ? 1 : -1;
  }
};

Schedule generate(const ScheduleParams& params) {
  Schedule schedule = v_schedule(kName, params);
  check_v_block_parameters(params);
  VRows rows = repeat_block(block_of(params.pp), params.microbatches);
  PullForward{rows, params.pp}.run();
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        actions_of(rows[static_cast<size_t>(r)], r, params.pp, true);
  return schedule;
}

}  // namespace

ScheduleFamily one_f_one_b_v() {
  return {kName,
          kAliases,
          "two chunks a rank in a V, whole backward; holds 2 ceil((2p+1)/3) chunks, two thirds of "
          "1f1b, bubble below that of 1f1b; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); zero-bubble's 1F1B-V",
          generate,
          kVBlockParameters};
}

}  // namespace stepcast
