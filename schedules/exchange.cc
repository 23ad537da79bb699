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

const RendezvousId* find(const std::map<std::pair<uint16_t, uint32_t>, RendezvousId>& map,
                         int64_t stage, uint32_t microbatch) {
  if (stage < 0) return nullptr;
  const auto it = map.find({static_cast<uint16_t>(stage), microbatch});
  return it == map.end() ? nullptr : &it->second;
}

bool is_forward(const Action& a) {
  return a.kind == ActionKind::forward;
}

}  // namespace

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
  const auto add = [&](size_t from_stage, size_t to_stage, const char* label) {
    Work w;
    w.kind = WorkKind::send_recv;
    w.axis = Axis::pp;
    w.dtype = dtype;
    w.from = schedule.rank_of_stage[from_stage];
    w.to = schedule.rank_of_stage[to_stage];
    w.bytes = payload;
    const uint16_t parties = blocking ? 2 : 1;
    graph.rendezvous.push_back({builder.work(w), parties, builder.label(label)});
    return static_cast<RendezvousId>(graph.rendezvous.size() - 1);
  };
  const size_t stages = schedule.rank_of_stage.size();
  for (size_t s = 0; s + 1 < stages; ++s) {
    if (schedule.rank_of_stage[s] == schedule.rank_of_stage[s + 1]) continue;
    for (uint32_t m = 0; m < schedule.microbatches; ++m) {
      out.forward_[{static_cast<uint16_t>(s + 1), m}] = add(s, s + 1, "send activation");
      out.backward_[{static_cast<uint16_t>(s), m}] = add(s + 1, s, "send gradient");
    }
  }
  return out;
}

}  // namespace stepcast
