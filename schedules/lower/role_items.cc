// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/role_items.h"

#include <algorithm>
#include <array>
#include <optional>

#include "sim/check.h"

namespace stepcast {

// Ops on other streams wait for the compute launched before them inside their pass only; what came
// before the pass has to be said.
void RoleItems::start_after_compute(const OpGraph& graph, PassId pass) {
  const Pass& p = graph.passes[static_cast<size_t>(pass)];
  if (p.ops.empty() || p.ops.front().stream == Stream::compute) return;
  wait(p.ops.front().stream, record(Stream::compute));
}

void RoleItems::run(const OpGraph& graph, PassId pass) {
  start_after_compute(graph, pass);
  Item& item = items_.emplace_back();
  item.kind = ItemKind::pass;
  item.pass = pass;
}

namespace {

// Whether the last op on a stream is one that no op of the pass waits for, as the reduction is that
// ends an embedding without layers behind it.
bool ends_alone(const Pass& pass, Stream stream) {
  for (auto i = static_cast<uint32_t>(pass.ops.size()); i-- > 0;) {
    if (pass.ops[i].stream != stream) continue;
    const auto waits_for_it = [&](const Wait& w) { return w.on == i; };
    return std::ranges::none_of(pass.waits.all(), waits_for_it);
  }
  return false;
}

constexpr std::array kPartStreams = {Stream::tp, Stream::cp, Stream::ep};

}  // namespace

// A pass is run once for each microbatch, and searched once.
const RoleItems::LooseEnds& RoleItems::loose_ends(const OpGraph& graph, PassId pass) {
  const auto p = static_cast<size_t>(pass);
  if (p >= loose_ends_.size()) loose_ends_.resize(graph.passes.size());
  std::optional<LooseEnds>& ends = loose_ends_[p];
  if (!ends) {
    ends.emplace();
    for (size_t i = 0; i < kPartStreams.size(); ++i)
      (*ends)[i] = ends_alone(graph.passes[p], kPartStreams[i]);
  }
  return *ends;
}

void RoleItems::run(const OpGraph& graph, PassId pass, const Action& action, const Action* second) {
  run(graph, pass);
  Item& item = items_.back();
  item.has_action = true;
  item.action = action;
  if (second != nullptr) {
    item.has_second = true;
    item.second = *second;
  }
  const LooseEnds& ends = loose_ends(graph, pass);
  for (size_t i = 0; i < kPartStreams.size(); ++i)
    if (ends[i]) wait(Stream::compute, record(kPartStreams[i]));
}

void RoleItems::run_beside(const OpGraph& graph, PassId pass, Stream stream) {
  run(graph, pass);
  wait(Stream::compute, record(stream));
}

void RoleItems::post(RendezvousId id, Stream stream) {
  Item& item = items_.emplace_back();
  item.kind = ItemKind::post;
  item.rendezvous = id;
  item.stream = stream;
}

void RoleItems::join(RendezvousId id, Stream stream, JoinOptions options) {
  Item& item = items_.emplace_back();
  item.kind = ItemKind::join;
  item.rendezvous = id;
  item.stream = stream;
  item.host_waits = options.host_waits;
  item.only_sends = options.only_sends;
}

uint32_t RoleItems::record(Stream stream) {
  Item& item = items_.emplace_back();
  item.kind = ItemKind::record;
  item.stream = stream;
  item.event = events_;
  return events_++;
}

void RoleItems::wait(Stream stream, uint32_t event) {
  Item& item = items_.emplace_back();
  item.kind = ItemKind::wait;
  item.stream = stream;
  item.event = event;
}

void RoleItems::sync() {
  Item& item = items_.emplace_back();
  item.kind = ItemKind::sync;
}

void RoleItems::transfer(const RankProgram& program, const Step& step, const Messages& messages,
                         RendezvousId first_message) {
  STEPCAST_CHECK(step.kind != Step::Kind::run, "a step of transfers");
  const auto id = [&](const Transfer& t) {
    return RendezvousId{static_cast<uint32_t>(first_message) + messages.number(t)};
  };
  const uint32_t end = step.first + step.count;
  if (step.kind != Step::Kind::wait)
    for (uint32_t i = step.first; i < end; ++i) post(id(program.transfers[i]), Stream::compute);
  if (step.kind == Step::Kind::issue) return;
  // An exchange ends with the last of its transfers.  What it receives is joined first, so that its
  // sends are charged only with what they hold the rank up beyond that (sim/account/account.h).
  for (const bool sends : {false, true}) {
    for (uint32_t i = step.first; i < end; ++i) {
      const Transfer& t = program.transfers[i];
      if (t.sends == sends) join(id(t), Stream::compute, {.only_sends = sends});
    }
  }
}

uint16_t parties_of_message(P2pStyle style) {
  return style == P2pStyle::async ? 1 : 2;
}

}  // namespace stepcast
