// SPDX-License-Identifier: Apache-2.0
#include "model/pair_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/check.h"

namespace stepcast {
namespace {

// One of the two passes, while its ops are handed out.
struct Side {
  const Pass& pass;
  bool second = false;
  std::vector<uint32_t> place{};  // op -> its index in the merged pass

  bool done() const { return place.size() == pass.ops.size(); }
};

bool exchanges_tokens(const Pass& pass) {
  return std::ranges::any_of(pass.ops, [](const Op& op) { return op.stream == Stream::ep; });
}

// Appends ops of `side` to `merged` up to and including the next ones on Stream::ep.
void take_turn(Side& side, Pass& merged) {
  bool exchanged = false;
  while (!side.done()) {
    const Op& op = side.pass.ops[side.place.size()];
    if (exchanged && op.stream != Stream::ep) return;
    exchanged = op.stream == Stream::ep;
    side.place.push_back(static_cast<uint32_t>(merged.ops.size()));
    merged.ops.push_back(op);
  }
}

// The same work; of a product or attention, with what exchanges leave of the GPU.
WorkId on_fewer_sms(GraphBuilder& builder, WorkId id, int comm_sms) {
  Work work = builder.graph().works[static_cast<size_t>(id)];
  if (work.kind > WorkKind::attention_backward) return id;
  work.comm_sms = static_cast<uint16_t>(comm_sms);
  return builder.work(work);
}

}  // namespace

PassId add_pair_pass(GraphBuilder& builder, PassId forward, PassId backward, int comm_sms) {
  OpGraph& graph = builder.graph();
  STEPCAST_CHECK(static_cast<size_t>(forward) < graph.passes.size() &&
                     static_cast<size_t>(backward) < graph.passes.size(),
                 "a pair of passes that exist");
  Side first{.pass = graph.passes[static_cast<size_t>(forward)]};
  Side second{.pass = graph.passes[static_cast<size_t>(backward)], .second = true};
  Pass merged;
  merged.name = first.pass.name + " | " + second.pass.name;
  merged.tensors = first.pass.tensors;
  merged.second_tensors = second.pass.tensors;
  merged.ops.reserve(first.pass.ops.size() + second.pass.ops.size());
  const bool turns = exchanges_tokens(first.pass) || exchanges_tokens(second.pass);
  Side* side = turns ? &second : &first;
  while (!first.done() || !second.done()) {
    take_turn(*side, merged);
    side = side == &first ? &second : &first;
  }
  if (turns && comm_sms > 0) {
    for (Op& op : merged.ops) op.work = on_fewer_sms(builder, op.work, comm_sms);
  }
  std::vector<Wait> waits;
  for (const Side* s : {&first, &second}) {
    for (Wait w : s->pass.waits.all()) {
      w.op = s->place[w.op];
      w.on = s->place[w.on];
      waits.push_back(w);
    }
    for (MemoryEvent e : s->pass.memory) {
      e.op = s->place[e.op];
      e.second = s->second;
      merged.memory.push_back(e);
    }
  }
  std::ranges::stable_sort(merged.memory, [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.op != b.op ? a.op < b.op : a.allocate && !b.allocate;
  });
  merged.waits = WaitGraph(static_cast<uint32_t>(merged.ops.size()), std::move(waits));
  graph.passes.push_back(std::move(merged));
  return static_cast<PassId>(graph.passes.size() - 1);
}

}  // namespace stepcast
