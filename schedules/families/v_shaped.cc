// SPDX-License-Identifier: Apache-2.0
// ZB-V: two chunks a rank in the form of a V, split backward; with equal times no bubble within the
// span, and the memory of 1F1B.
//
// The order of rank r is fixed, made for n = max(2p-1, m) microbatches and cut to m:
//   2(p-r)-1 F0;  r (F1, F0);  p-r (F1, I1, W1);
//   [F0], I0, W0, F1, I1, W1 until the forwards of both chunks are done;
//   r (I0, I1);  p-r (I0, W0);  the weight gradients left, chunk 1 before chunk 0.
#include <algorithm>
#include <array>

#include "schedules/families/families.h"
#include "schedules/families/v_blocks.h"

namespace stepcast {
namespace {

constexpr std::string_view kZbV = "zb-v";
constexpr std::string_view kZbVAliases[] = {
    "zbv",           "zbvzerobubble", "schedulezbvzerobubble",    "zbv-formatted",
    "zero-bubble-v", "zb-vschedule",  "zerobubblevpipescheduler", "zerobubble-v"};

// One rank's list: the next microbatch of each kind and chunk is counted here.
struct ZbVOrder {
  std::array<int64_t, 2> stage;  // of chunk 0 and 1
  int64_t microbatches;          // those beyond are left out
  std::vector<Action> list = {};
  std::array<std::array<int64_t, 2>, 4> next = {};  // by kind, then chunk

  int64_t& count(ActionKind kind, size_t chunk) { return next[static_cast<size_t>(kind)][chunk]; }
  void add(ActionKind kind, size_t chunk) {
    const int64_t m = count(kind, chunk)++;
    if (m < microbatches)
      list.push_back({kind, static_cast<uint16_t>(stage[chunk]), static_cast<uint32_t>(m)});
  }
  void forward(size_t chunk) { add(ActionKind::forward, chunk); }
  void input(size_t chunk) { add(ActionKind::backward_input, chunk); }
  void weight(size_t chunk) { add(ActionKind::backward_weight, chunk); }
  int64_t forwards(size_t chunk) { return count(ActionKind::forward, chunk); }
};

std::vector<Action> zb_v_of_rank(int64_t pp, int64_t microbatches, int64_t r) {
  const int64_t n = std::max(2 * pp - 1, microbatches);
  ZbVOrder o{{r, 2 * pp - 1 - r}, microbatches};
  for (int64_t i = 0; i < 2 * (pp - r) - 1; ++i) o.forward(0);
  for (int64_t i = 0; i < r; ++i) {
    o.forward(1);
    o.forward(0);
  }
  for (int64_t i = 0; i < pp - r; ++i) {
    o.forward(1);
    o.input(1);
    o.weight(1);
  }
  while (o.forwards(1) < o.forwards(0) || o.forwards(0) < n) {
    if (o.forwards(0) < n) o.forward(0);
    o.input(0);
    o.weight(0);
    o.forward(1);
    o.input(1);
    o.weight(1);
  }
  for (int64_t i = 0; i < r; ++i) {
    o.input(0);
    o.input(1);
  }
  for (int64_t i = 0; i < pp - r; ++i) {
    o.input(0);
    o.weight(0);
  }
  for (const size_t chunk : {size_t{1}, size_t{0}})
    while (o.count(ActionKind::backward_weight, chunk) < n) o.weight(chunk);
  return std::move(o.list);
}

std::optional<Diagnostic> check_zb_v(const ScheduleParams& params) {
  return check_two_chunks(kZbV, params);
}

Schedule zb_v_order(const ScheduleParams& params) {
  Schedule schedule = snake_schedule(kZbV, params);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] = zb_v_of_rank(params.pp, params.microbatches, r);
  return schedule;
}

// V-Half: two chunks a rank in the form of a V, split backward, half the activations of 1F1B.
//
// The block: chunk 0 goes down with two slots a rank and comes back up with one, the backward
// likewise; the backward starts at once for odd p, three slots later for even p so that no two
// passes of a rank fall on the same slot of the period.

constexpr std::string_view kVHalf = "v-half";
constexpr std::string_view kVHalfAliases[] = {"vhalf", "zbv-half", "v-half-memory"};

VBlock v_half_block(int64_t rank, int64_t pp) {
  const int64_t wait = pp % 2 == 0 ? 3 : 0;
  return {
      2 * rank, 3 * pp - rank - 2, 3 * pp + wait + 2 * rank - 1, 6 * pp + wait - rank - 2, kNoSlot,
      kNoSlot};
}

std::optional<Diagnostic> check_v_half(const ScheduleParams& params) {
  return check_v_block(kVHalf, params);
}

Schedule v_half_order(const ScheduleParams& params) {
  return v_block_schedule(kVHalf, params, v_half_block);
}

// V-Min: two chunks a rank in the form of a V, split backward, a third of the activations of 1F1B.
//
// The block: every pass follows the one before without a gap; the backward starts two slots later
// if 3 divides p, so that no two passes of a rank fall on the same slot of the period.

constexpr std::string_view kVMin = "v-min";
constexpr std::string_view kVMinAliases[] = {"vmin", "zbv-min", "v-min-memory"};

VBlock v_min_block(int64_t rank, int64_t pp) {
  const int64_t wait = pp % 3 == 0 ? 2 : 0;
  return {rank,   2 * pp - rank - 1, 2 * pp + wait + rank, 4 * pp + wait - rank - 1, kNoSlot,
          kNoSlot};
}

std::optional<Diagnostic> check_v_min(const ScheduleParams& params) {
  return check_v_block(kVMin, params);
}

Schedule v_min_order(const ScheduleParams& params) {
  return v_block_schedule(kVMin, params, v_min_block);
}

// 1F1B-V: two chunks a rank in the form of a V, whole backwards, two thirds of the activations of
// 1F1B.
//
// The block: both forwards without a gap, then backwards of two slots each, one rank after the
// other; where a third backward would meet a forward's slot of the period all wait for three slots.
// Warm-up and cool-down are closed in one pass over the slots in order of time: a backward goes to
// the first two free slots behind what it needs; a forward as far forward as no more is held than
// the fullest rank does anyway.

constexpr std::string_view kOneFOneBV = "1f1b-v";
constexpr std::string_view kOneFOneBVAliases[] = {"v1f1b", "1f1bv", "v-1f1b", "one-f-one-b-v"};

std::vector<VBlock> one_f_one_b_v_block(int64_t pp) {
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

std::optional<Diagnostic> check_one_f_one_b_v(const ScheduleParams& params) {
  return check_v_block(kOneFOneBV, params);
}

Schedule one_f_one_b_v_order(const ScheduleParams& params) {
  Schedule schedule = snake_schedule(kOneFOneBV, params);
  VRows rows = repeat_block(one_f_one_b_v_block(params.pp), params.microbatches);
  PullForward{rows, params.pp}.run();
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        actions_of(rows[static_cast<size_t>(r)], r, params.pp, true);
  return schedule;
}

}  // namespace

ScheduleFamily zb_v() {
  return {kZbV,
          "ZB-V",
          kZbVAliases,
          "two chunks a rank in a V, split backward; for tF = tI = tW no bubble within the span, "
          "makespan + (p-1) tF, holds 2p chunks; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); torch.distributed.pipelining ScheduleZBVZeroBubble",
          check_zb_v,
          zb_v_order};
}

ScheduleFamily v_half() {
  return {kVHalf,
          "V-Half",
          kVHalfAliases,
          "two chunks a rank in a V, split backward; for tF = tI = tW and m >= 2p bubble (3p-7) tF "
          "and p+2 chunks held for even p, (3p-4) tF and p+1 for odd p: half of 1f1b; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); zero-bubble's V-Half",
          check_v_half,
          v_half_order,
          kVBlockParameters};
}

ScheduleFamily v_min() {
  return {kVMin,
          "V-Min",
          kVMinAliases,
          "two chunks a rank in a V, split backward; for tF = tI = tW and m >= 2p bubble (4p-5) tF "
          "((4p-7) if 3 divides p), grows with m for other times; holds about 2p/3+2 chunks, a "
          "third of 1f1b; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); zero-bubble's V-Min",
          check_v_min,
          v_min_order,
          kVBlockParameters};
}

ScheduleFamily one_f_one_b_v() {
  return {kOneFOneBV,
          "1F1B-V",
          kOneFOneBVAliases,
          "two chunks a rank in a V, whole backward; holds 2 ceil((2p+1)/3) chunks, two thirds of "
          "1f1b, bubble below that of 1f1b; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); zero-bubble's 1F1B-V",
          check_one_f_one_b_v,
          one_f_one_b_v_order,
          kVBlockParameters};
}

}  // namespace stepcast
