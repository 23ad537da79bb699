// SPDX-License-Identifier: Apache-2.0
// The schedule alone as an op graph: one op an action, one latency a message between ranks.
#include <array>
#include <cmath>
#include <limits>

#include "schedules/lower_unit.h"
#include "sim/check.h"

namespace stepcast {
namespace {

constexpr size_t kKinds = 4;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr std::array kAllKinds = {ActionKind::forward, ActionKind::backward,
                                  ActionKind::backward_input, ActionKind::backward_weight};

Time unit_time(const UnitCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return costs.times.forward;
    case ActionKind::backward: return costs.times.backward_input + costs.times.backward_weight;
    case ActionKind::backward_input: return costs.times.backward_input;
    case ActionKind::backward_weight: return costs.times.backward_weight;
    default: break;
  }
  return {};
}

Time scaled(Time time, double factor) {
  return Time{static_cast<int64_t>(std::floor(static_cast<double>(time.count()) * factor + 0.5))};
}

// Work of the kind (and, on the slow rank, of its slow form): a stand-in that has a price and
// nothing else, told apart by its dimensions.
Work unit_work(ActionKind kind, bool slow) {
  Work work;
  work.kind = WorkKind::gemm;
  work.m = static_cast<int64_t>(kind) + 1;
  work.n = slow ? 2 : 1;
  return work;
}

// A pass of one op.  A forward holds one byte of activations until B or W, so that bytes count the
// activations in flight.
Pass unit_pass(ActionKind kind, WorkId work) {
  static const std::array<const char*, kKinds> kNames = {"forward", "backward", "input gradient",
                                                         "weight gradient"};
  Pass pass;
  pass.name = kNames[static_cast<size_t>(kind)];
  Op op;
  op.work = work;
  op.phase = kind == ActionKind::forward           ? Phase::forward
             : kind == ActionKind::backward_weight ? Phase::backward_weight
                                                   : Phase::backward_input;
  pass.ops.push_back(op);
  pass.waits = WaitGraph(1, {});
  if (kind == ActionKind::forward) pass.memory.push_back({0, 0, true});
  if (kind == ActionKind::backward || kind == ActionKind::backward_weight)
    pass.memory.push_back({0, 0, false});
  return pass;
}

// Numbers the messages between ranks in the order in which they are met.
struct Messages {
  const Schedule& schedule;
  std::vector<uint32_t> numbers;  // of the message that an action receives: F first, then B or I
  uint32_t count = 0;

  explicit Messages(const Schedule& s)
      : schedule(s),
        numbers(2 * s.rank_of_stage.size() * static_cast<size_t>(s.microbatches), kNone) {}

  RendezvousId received_by(bool forward, size_t stage, uint32_t microbatch) {
    const size_t row = (forward ? 0 : schedule.rank_of_stage.size()) + stage;
    uint32_t& number = numbers[row * static_cast<size_t>(schedule.microbatches) + microbatch];
    if (number == kNone) number = count++;
    return RendezvousId{number};
  }
};

void add_message(RoleOps& role, ItemKind kind, RendezvousId message) {
  Item item;
  item.kind = kind;
  item.rendezvous = message;
  role.items.push_back(item);
}

// Waits for its input if that comes from another rank, runs, sends its output if that goes to one.
void add_action(RoleOps& role, Messages& messages, const Action& a, PassId pass) {
  const Schedule& schedule = messages.schedule;
  const size_t stages = schedule.rank_of_stage.size();
  const auto crosses = [&](size_t other) {
    return schedule.rank_of(other, a.microbatch) != schedule.rank_of(a.stage, a.microbatch);
  };
  const bool forward = a.kind == ActionKind::forward;
  const bool moves = a.kind != ActionKind::backward_weight;
  const bool has_source = forward ? a.stage > 0 : a.stage + 1u < stages;
  const bool has_target = forward ? a.stage + 1u < stages : a.stage > 0;
  const auto source = static_cast<size_t>(a.stage + (forward ? -1 : 1));
  const auto target = static_cast<size_t>(a.stage + (forward ? 1 : -1));
  if (moves && has_source && crosses(source))
    add_message(role, ItemKind::join, messages.received_by(forward, a.stage, a.microbatch));
  Item item;
  item.kind = ItemKind::pass;
  item.pass = pass;
  item.has_action = true;
  item.action = a;
  role.items.push_back(item);
  if (moves && has_target && crosses(target))
    add_message(role, ItemKind::post, messages.received_by(forward, target, a.microbatch));
}

}  // namespace

OpGraph lower_unit(const Schedule& schedule, const UnitCosts& costs,
                   std::vector<Time>& durations_by_work, P2pStyle /*style*/) {
  OpGraph graph;
  graph.labels = {"", "activation", "message"};
  graph.tensor_tables = {{Tensor{Bytes{1}, MemoryCategory::activations, LabelId{1}}}};
  durations_by_work.clear();
  // Works and passes: the four kinds as they are, then the four of the slow rank, then the hop.
  for (const bool slow : {false, true})
    for (const ActionKind kind : kAllKinds) {
      const WorkId work{static_cast<uint32_t>(graph.works.size())};
      graph.works.push_back(unit_work(kind, slow));
      graph.passes.push_back(unit_pass(kind, work));
      const Time time = unit_time(costs, kind);
      durations_by_work.push_back(slow ? scaled(time, costs.slow_factor) : time);
    }
  const WorkId hop{static_cast<uint32_t>(graph.works.size())};
  Work transfer;
  transfer.kind = WorkKind::send_recv;
  transfer.axis = Axis::pp;
  graph.works.push_back(transfer);
  durations_by_work.push_back(costs.hop);

  Messages messages(schedule);
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    RoleOps role;
    role.name = (schedule.vpp == 1 ? "stage " : "rank ") + std::to_string(r);
    role.pipeline_rank = static_cast<uint32_t>(r);
    const size_t first = static_cast<int64_t>(r) == costs.slow_rank ? kKinds : 0;
    for (const Action& a : schedule.ranks[r])
      add_action(role, messages, a,
                 PassId{static_cast<uint32_t>(first + static_cast<size_t>(a.kind))});
    graph.roles.push_back(std::move(role));
  }
  Rendezvous message;
  message.work = hop;
  message.label = LabelId{2};
  graph.rendezvous.assign(messages.count, message);
  return graph;
}

}  // namespace stepcast
