// SPDX-License-Identifier: Apache-2.0
// The schedule alone as an op graph: one op an action, one latency a message between ranks.
#include "schedules/lower/lower_unit.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "schedules/lower/role_items.h"
#include "schedules/lower/vocabulary.h"
#include "schedules/transfers/transfers.h"
#include "sim/check.h"

namespace stepcast {
namespace {

struct KindTraits {
  const char* name;
  Phase phase;
  bool allocates, frees;  // the activation of its stage and microbatch
};

// By ActionKind.  A forward holds one byte of activations until B or W, so that bytes count the
// activations in flight; O takes it away and L brings it back.
constexpr std::array<KindTraits, kActionKinds> kTraits = {{
    {"forward", Phase::forward, true, false},
    {"backward", Phase::backward_input, false, true},
    {"input gradient", Phase::backward_input, false, false},
    {"weight gradient", Phase::backward_weight, false, true},
    {"recompute", Phase::recompute, false, false},
    {"offload", Phase::forward, false, true},
    {"reload", Phase::backward_input, true, false},
    {"head", Phase::forward, false, false},
    {"head gradients", Phase::backward_input, false, false},
    {"embedding", Phase::forward, false, false},
    {"embedding gradient", Phase::backward_weight, false, false},
}};

Time unit_time(const StageTimes& times, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return times.forward;
    case ActionKind::backward: return whole_backward(times);
    case ActionKind::backward_input: return times.backward_input;
    case ActionKind::backward_weight: return times.backward_weight;
    case ActionKind::recompute: return times.recompute;
    case ActionKind::offload: return times.offload;
    case ActionKind::reload: return times.reload;
    case ActionKind::vocabulary_forward: return times.vocabulary_forward;
    case ActionKind::vocabulary_backward: return times.vocabulary_backward;
    case ActionKind::embedding_forward: return times.embedding_forward;
    case ActionKind::embedding_backward: return times.embedding_backward;
  }
  return {};
}

Time scaled(Time time, double factor) {
  return Time{static_cast<int64_t>(std::floor(static_cast<double>(time.count()) * factor + 0.5))};
}

// A pass of one op.
Pass unit_pass(ActionKind kind, WorkId work) {
  const KindTraits& traits = kTraits[static_cast<size_t>(kind)];
  Pass pass;
  pass.name = traits.name;
  Op op;
  op.work = work;
  op.phase = traits.phase;
  pass.ops.push_back(op);
  pass.waits = WaitGraph(1, {});
  if (traits.allocates || traits.frees) pass.memory.push_back({0, 0, traits.allocates});
  return pass;
}

// One pass and one work with a price for every kind of action, by stage if stages differ, and again
// for the slow rank.
class UnitPasses {
 public:
  UnitPasses(OpGraph& graph, std::vector<Time>& durations, const UnitCosts& costs, bool slow)
      : first_(graph.passes.size()), by_stage_(!costs.by_stage.empty()) {
    const size_t stages = by_stage_ ? costs.by_stage.size() : 1;
    for (size_t s = 0; s < stages; ++s)
      for (int k = 0; k < kActionKinds; ++k) {
        const auto kind = static_cast<ActionKind>(k);
        // A stand-in that has a price and nothing else, told apart by its dimensions.
        Work work;
        work.kind = WorkKind::gemm;
        work.m = k + 1;
        work.n = slow ? 2 : 1;
        work.k = static_cast<int64_t>(s) + 1;
        const WorkId id{static_cast<uint32_t>(graph.works.size())};
        graph.works.push_back(work);
        graph.passes.push_back(unit_pass(kind, id));
        const Time time = unit_time(by_stage_ ? costs.by_stage[s] : costs.times, kind);
        durations.push_back(slow ? scaled(time, costs.slow_factor) : time);
      }
  }

  PassId of(const Action& a) const {
    const size_t row = by_stage_ ? a.stage : 0;
    return PassId{static_cast<uint32_t>(first_ + row * kActionKinds + static_cast<size_t>(a.kind))};
  }

 private:
  size_t first_;
  bool by_stage_;
};

Work hop_work() {
  Work work;
  work.kind = WorkKind::send_recv;
  work.axis = Axis::pp;
  return work;
}

}  // namespace

OpGraph lower_unit(const Schedule& schedule, const UnitCosts& costs,
                   std::vector<Time>& durations_by_work, P2pStyle style) {
  STEPCAST_CHECK(costs.by_stage.empty() || costs.by_stage.size() == schedule.rank_of_stage.size(),
                 "times for every stage");
  const std::vector<RankProgram> programs = with_transfers(schedule, style);
  const Messages messages(schedule);
  OpGraph graph;
  graph.labels = {"", "activation", "message"};
  graph.tensor_tables = {{Tensor{Bytes{1}, MemoryCategory::activations, LabelId{1}}}};
  durations_by_work.clear();
  const UnitPasses normal(graph, durations_by_work, costs, false);
  const bool has_slow = costs.slow_rank >= 0 && costs.slow_rank < schedule.pp;
  const UnitPasses slow =
      has_slow ? UnitPasses(graph, durations_by_work, costs, true) : UnitPasses(normal);
  const WorkId hop{static_cast<uint32_t>(graph.works.size())};
  graph.works.push_back(hop_work());
  durations_by_work.push_back(costs.hop);
  graph.rendezvous.assign(messages.count(), {hop, parties_of_message(style), LabelId{2}});
  std::optional<VocabularyExchanges> vocabulary;
  if (vocabulary_split(schedule) != VocabularySplit::none) {
    VocabularyExchanges::Collectives collectives;
    collectives.fill({Rendezvous{.work = hop, .label = LabelId{2}}});
    vocabulary.emplace(schedule, graph, std::move(collectives));
  }

  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    RoleOps role;
    role.name = fmt::format("{} {}", schedule.stages_are_ranks() ? "stage" : "rank", r);
    role.pipeline_rank = static_cast<uint32_t>(r);
    const UnitPasses& passes = static_cast<int64_t>(r) == costs.slow_rank ? slow : normal;
    role.items.reserve(programs[r].steps.size() + programs[r].transfers.size());
    RoleItems items(role.items);
    for (const Step& step : programs[r].steps) {
      if (step.kind != Step::Kind::run) {
        items.transfer(programs[r], step, messages, RendezvousId{});
        continue;
      }
      // The two of a pair back to back: the unit starts when both may, and takes their sum.
      for (uint32_t i = step.first; i < step.first + step.count; ++i) {
        const Action& a = schedule.ranks[r][i];
        if (vocabulary) vocabulary->before(items, a);
        items.run(graph, passes.of(a), a);
        if (vocabulary) vocabulary->after(items, a);
      }
    }
    graph.roles.push_back(std::move(role));
  }
  return graph;
}

}  // namespace stepcast
