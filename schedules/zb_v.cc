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

#include "schedules/families.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "zb-v";
constexpr std::string_view kAliases[] = {
    "zbv",           "zbvzerobubble", "schedulezbvzerobubble",    "zbv-formatted",
    "zero-bubble-v", "zb-vschedule",  "zerobubblevpipescheduler", "zerobubble-v"};

// One rank's list: the next microbatch of each kind and chunk is counted here.
struct VOrder {
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

std::vector<Action> order_of_rank(int64_t pp, int64_t microbatches, int64_t r) {
  const int64_t n = std::max(2 * pp - 1, microbatches);
  VOrder o{{r, 2 * pp - 1 - r}, microbatches};
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

Schedule generate(const ScheduleParams& params) {
  Schedule schedule = v_schedule(kName, params);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] = order_of_rank(params.pp, params.microbatches, r);
  return schedule;
}

}  // namespace

ScheduleFamily zb_v() {
  return {kName, kAliases,
          "two chunks a rank in a V, split backward; for tF = tI = tW no bubble within the span, "
          "makespan + (p-1) tF, holds 2p chunks; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); torch.distributed.pipelining ScheduleZBVZeroBubble",
          generate};
}

}  // namespace stepcast
