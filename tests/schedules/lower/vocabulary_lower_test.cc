// SPDX-License-Identifier: Apache-2.0
// The whole step of a pipeline whose ranks share the vocabulary: work, memory, balance.
#include <gtest/gtest.h>

#include <algorithm>

#include "schedules/lower/lower.h"
#include "sim/engine/run.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"
#include "tests/schedules/lower/lower_sample.h"

namespace stepcast::vocabulary_lower_test {
namespace {

using sample::only_products;

constexpr const char* kMethods[] = {"vocab-1", "vocab-2", "interlaced"};
constexpr int64_t kMicrobatches = 12;

// Two layers a stage, and a head that costs as much as `heads` of them.
Transformer model_of(int64_t layers, int64_t heads) {
  Transformer model = sample::gpt(layers, 256, 4, 256 * 12 * heads, 128);
  model.tied = false;
  return model;
}

Plan plan_of(const Transformer& model, int64_t tp, int64_t pp) {
  Plan plan = sample::plan(tp, pp, 1, kMicrobatches, 1, 128);
  plan.stages = even_stages(model.layers, pp, 1);
  return plan;
}

Schedule schedule_of(const std::string& method, int64_t pp) {
  if (method == "1f1b")
    return generate_schedule(*find_schedule_family("1f1b"), {pp, 1, kMicrobatches, 0});
  return generate_schedule(*find_schedule_family("vocab-1f1b"),
                           {pp, 1, kMicrobatches, 0, {{"method", method}}});
}

OpGraph lowered(const Transformer& model, const std::string& method, int64_t tp, int64_t pp) {
  OpGraph graph = lower(model, plan_of(model, tp, pp), schedule_of(method, pp));
  check_graph(graph);
  return graph;
}

// FLOPs of all matrix products of a step, of one rank of each stage.
double flops_of(const OpGraph& graph) {
  double sum = 0;
  for (const RoleOps& role : graph.roles)
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass)
        for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops)
          sum += graph.works[static_cast<size_t>(op.work)].flops.value;
  return sum;
}

Bytes held(const RoleOps& role, MemoryCategory category) {
  Bytes sum;
  for (const StaticMemory& m : role.memory)
    if (m.category == category) sum += m.bytes;
  return sum;
}

TEST(SharedVocabulary, CostsNoMoreProductsThanTheHeadOfOneRank) {
  const Transformer model = model_of(8, 4);
  for (const int64_t tp : {1, 2}) {
    const double whole = flops_of(lowered(model, "1f1b", tp, 4));
    for (const char* method : kMethods)
      EXPECT_DOUBLE_EQ(flops_of(lowered(model, method, tp, 4)), whole) << method;
  }
}

TEST(SharedVocabulary, AStageMayHoldTheEmbeddingAlone) {
  Transformer model = model_of(6, 4);
  for (const Positions positions : {Positions::learned, Positions::rotary}) {
    model.positions = positions;
    Plan plan = sample::plan(1, 4, 1, kMicrobatches, 1, 128);
    plan.stages = parse_stage_layout("E|t*2|t*2|t*2L");
    for (const char* method : kMethods) {
      const OpGraph graph = lower(model, plan, schedule_of(method, 4));
      check_graph(graph);
      EXPECT_DOUBLE_EQ(flops_of(graph), flops_of(lower(model, plan, schedule_of("1f1b", 4))));
    }
  }
}

TEST(SharedVocabulary, HoldsEveryParameterOnce) {
  const Transformer untied = model_of(8, 4);
  Transformer tied = untied;
  tied.tied = true;
  for (const Transformer& model : {untied, tied}) {
    const OpGraph graph = lowered(model, "vocab-2", 1, 4);
    Bytes sum;
    for (const RoleOps& role : graph.roles) sum += held(role, MemoryCategory::parameters);
    EXPECT_EQ(sum.value, 2 * parameters(model));  // bf16
    // Positions on the first rank, the final norm on the last; else all ranks hold the same.
    const Bytes inner = held(graph.roles[1], MemoryCategory::optimizer_state);
    EXPECT_EQ(held(graph.roles[2], MemoryCategory::optimizer_state), inner);
    const int64_t state = 12;  // bytes a parameter: fp32 copy and two moments
    EXPECT_EQ((held(graph.roles[0], MemoryCategory::optimizer_state) - inner).value,
              state * model.max_positions * model.hidden);
    EXPECT_EQ((held(graph.roles[3], MemoryCategory::optimizer_state) - inner).value,
              state * 2 * model.hidden);
  }
}

TEST(SharedVocabulary, EveryTensorIsFreed) {
  for (const char* method : kMethods) {
    for (const int64_t tp : {1, 2}) {
      for (const RoleMemory& memory : trace_memory(lowered(model_of(8, 4), method, tp, 4)))
        EXPECT_EQ(memory.start, memory.end) << method;
    }
  }
}

// Rotary positions and no dropout: the first layer reads the rows themselves.
TEST(SharedVocabulary, RowsMayBeTheResidualStream) {
  const Transformer model = sample::llama(4, 256, 4, 4, 512, 2048);
  for (const char* method : kMethods) {
    for (const RoleMemory& memory : trace_memory(lowered(model, method, 1, 2)))
      EXPECT_EQ(memory.start, memory.end) << method;
  }
}

// What S leaves for T: the head's input, the fp32 softmax of the rank's words, with one barrier the
// input gradient too.
TEST(SharedVocabulary, KeepsTheSoftmaxOfItsWordsUntilTheirGradients) {
  const Transformer model = model_of(8, 4);
  const int64_t tokens = 128, stream = tokens * model.hidden * 2;
  const int64_t softmax = tokens * model.vocab / 4 * 4;
  for (const char* method : {"vocab-1", "vocab-2"}) {
    const OpGraph graph = lowered(model, method, 1, 4);
    const RoleMemory memory = trace_memory(graph)[1];
    Bytes before = memory.start;
    for (const auto& point : memory.curve) {
      const Item& item = graph.roles[1].items[point.item];
      const int64_t change = (point.allocated - before).value;
      before = point.allocated;
      if (!item.has_action || item.action.microbatch != 5) continue;
      const int64_t kept = stream + softmax + (std::string(method) == "vocab-2" ? stream : 0);
      if (item.action.kind == ActionKind::vocabulary_forward) {
        EXPECT_EQ(change, kept) << method;
      }
      if (item.action.kind == ActionKind::vocabulary_backward) {
        EXPECT_EQ(change, -kept) << method;
      }
    }
  }
}

// With a head as heavy as two stages 1F1B runs at the pace of its last rank.
TEST(SharedVocabulary, BalancesAHeavyHead) {
  const Transformer model = model_of(8, 4);
  const auto step = [&](const char* method) {
    const OpGraph graph = lowered(model, method, 1, 4);
    return run(compile(graph, only_products(graph))).makespan;
  };
  for (const char* method : kMethods) EXPECT_LT(step(method), step("1f1b")) << method;
}

// Each rank meets all others five times a microbatch; the sums are three collectives.
TEST(SharedVocabulary, MeetsOnceAMicrobatchForEachExchange) {
  const OpGraph graph = lowered(model_of(8, 4), "vocab-1", 1, 4);
  int64_t all = 0, one = 0;
  for (const Rendezvous& r : graph.rendezvous) {
    const Work& w = graph.works[static_cast<size_t>(r.work)];
    if (w.axis != Axis::pp || w.kind == WorkKind::send_recv) continue;
    EXPECT_EQ(w.from, w.to);
    (r.parties == 4 ? all : one) += 1;
    EXPECT_TRUE(r.parties == 4 ? w.kind == WorkKind::all_reduce : w.kind == WorkKind::broadcast);
  }
  EXPECT_EQ(all, 5 * kMicrobatches);
  EXPECT_EQ(one, 2 * kMicrobatches);
}

}  // namespace
}  // namespace stepcast::vocabulary_lower_test
