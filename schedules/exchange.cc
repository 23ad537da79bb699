// SPDX-License-Identifier: Apache-2.0
#include "schedules/exchange.h"

namespace stepcast {

// -----------------------------------------------------------------------------------------------
// RoleItems ---- Ops on other streams wait for the compute launched before them inside their pass
// only; what came before the pass has to be said.
void RoleItems::start_after_compute(const OpGraph& graph, PassId pass) {
  const Pass& p = graph.passes[static_cast<size_t>(pass)];
  if (p.ops.empty() || p.ops.front().stream == Stream::compute) return;
  wait(p.ops.front().stream, record(Stream::compute));
}

void RoleItems::run(const OpGraph& graph, PassId pass) {
  start_after_compute(graph, pass);
  Item item;
  item.kind = ItemKind::pass;
  item.pass = pass;
  items_.push_back(item);
}

void RoleItems::run(const OpGraph& graph, PassId pass, const Action& action) {
  run(graph, pass);
  items_.back().has_action = true;
  items_.back().action = action;
}

void RoleItems::run_beside(const OpGraph& graph, PassId pass, Stream stream) {
  run(graph, pass);
  wait(Stream::compute, record(stream));
}

void RoleItems::post(RendezvousId id, Stream stream) {
  Item item;
  item.kind = ItemKind::post;
  item.rendezvous = id;
  item.stream = stream;
  items_.push_back(item);
}

void RoleItems::join(RendezvousId id, Stream stream, JoinOptions options) {
  Item item;
  item.kind = ItemKind::join;
  item.rendezvous = id;
  item.stream = stream;
  item.host_waits = options.host_waits;
  item.only_sends = options.only_sends;
  items_.push_back(item);
}

uint32_t RoleItems::record(Stream stream) {
  Item item;
  item.kind = ItemKind::record;
  item.stream = stream;
  item.event = events_;
  items_.push_back(item);
  return events_++;
}

void RoleItems::wait(Stream stream, uint32_t event) {
  Item item;
  item.kind = ItemKind::wait;
  item.stream = stream;
  item.event = event;
  items_.push_back(item);
}

// -----------------------------------------------------------------------------------------------
// Transfers ----
namespace {

bool is_forward(const Action& a) {
  return a.kind == ActionKind::forward;
}

}  // namespace

const RendezvousId* Transfers::find(const std::vector<RendezvousId>& ids, int64_t stage,
                                    uint32_t microbatch) const {
  if (stage < 0 || stage >= stages_) return nullptr;
  const RendezvousId& id = ids[static_cast<size_t>(stage * microbatches_ + microbatch)];
  return id == kNone ? nullptr : &id;
}

const RendezvousId* Transfers::sent_by(const Action& a) const {
  return is_forward(a) ? find(forward_, a.stage + 1, a.microbatch)
                       : find(backward_, a.stage - 1, a.microbatch);
}

const RendezvousId* Transfers::needed_by(const Action& a) const {
  return find(is_forward(a) ? forward_ : backward_, a.stage, a.microbatch);
}

Exchanges::Exchanges(const std::vector<Action>& actions, int64_t rank, int64_t pp)
    : actions_(actions), fused_(actions.size()) {
  int64_t forwards = 0;
  for (size_t i = 0; i + 1 < actions.size(); ++i) {
    const bool forward = is_forward(actions[i]);
    forwards += forward;
    const bool warmup = forward && forwards <= pp - 1 - rank;
    fused_[i] = forward != is_forward(actions[i + 1]) && !warmup;
  }
}

void Transfers::before(RoleItems& items, const Exchanges& exchanges, size_t i) const {
  const RendezvousId* needed = needed_by(exchanges.action(i));
  if (needed == nullptr) return;
  if (blocking_) {
    if (i > 0 && exchanges.fused(i - 1)) return;  // received in the exchange of the action before
    items.post(*needed, Stream::compute);
  }
  items.join(*needed, Stream::compute);
}

void Transfers::after(RoleItems& items, const Exchanges& exchanges, size_t i) const {
  const RendezvousId* sent = sent_by(exchanges.action(i));
  const RendezvousId* received = nullptr;
  if (blocking_ && exchanges.fused(i)) received = needed_by(exchanges.action(i + 1));
  if (sent != nullptr) items.post(*sent, Stream::compute);
  if (received != nullptr) items.post(*received, Stream::compute);
  if (sent != nullptr && blocking_) items.join(*sent, Stream::compute, {.only_sends = true});
  if (received != nullptr) items.join(*received, Stream::compute);
}

Transfers add_transfers(GraphBuilder& builder, const Schedule& schedule, Bytes payload, DType dtype,
                        bool blocking) {
  Transfers out;
  out.blocking_ = blocking;
  OpGraph& graph = builder.graph();
  const size_t stages = schedule.rank_of_stage.size();
  const auto microbatches = static_cast<size_t>(schedule.microbatches);
  out.stages_ = static_cast<int64_t>(stages);
  out.microbatches_ = schedule.microbatches;
  out.forward_.assign(stages * microbatches, Transfers::kNone);
  out.backward_ = out.forward_;
  // One rendezvous a microbatch for what stage `from` sends to stage `to`.
  const auto add = [&](std::vector<RendezvousId>& ids, size_t from, size_t to, const char* label) {
    Work w;
    w.kind = WorkKind::send_recv;
    w.axis = Axis::pp;
    w.dtype = dtype;
    w.from = schedule.rank_of_stage[from];
    w.to = schedule.rank_of_stage[to];
    w.bytes = payload;
    const Rendezvous transfer{builder.work(w), static_cast<uint16_t>(blocking ? 2 : 1),
                              builder.label(label)};
    for (size_t m = 0; m < microbatches; ++m) {
      ids[to * microbatches + m] = static_cast<RendezvousId>(graph.rendezvous.size());
      graph.rendezvous.push_back(transfer);
    }
  };
  for (size_t s = 0; s + 1 < stages; ++s) {
    if (schedule.rank_of_stage[s] == schedule.rank_of_stage[s + 1]) continue;
    add(out.forward_, s, s + 1, "send activation");
    add(out.backward_, s + 1, s, "send gradient");
  }
  return out;
}

}  // namespace stepcast
