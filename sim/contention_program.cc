// SPDX-License-Identifier: Apache-2.0
#include "sim/contention_program.h"

#include <algorithm>

#include "sim/lanes.h"
#include "sim/varied.h"

namespace stepcast {
namespace {

bool implied(const Pass& pass, const Wait& w) {
  return pass.ops[w.op].stream == pass.ops[w.on].stream && w.delay.count() == 0;
}

struct Slots {
  std::vector<int32_t> end, start;  // op -> slot, -1 = none
  std::vector<uint32_t> op;
};

Slots assign_slots(const Pass& pass) {
  Slots slots;
  slots.end.assign(pass.ops.size(), -1);
  slots.start = slots.end;
  for (const Wait& w : pass.waits.all()) {
    if (implied(pass, w)) continue;
    int32_t& slot = (w.from_start ? slots.start : slots.end)[w.on];
    if (slot >= 0) continue;
    slot = static_cast<int32_t>(slots.op.size());
    slots.op.push_back(w.on);
  }
  return slots;
}

ThreadCode code_of(const OpGraph& graph, const Op& op) {
  if (is_communication(graph.works[static_cast<size_t>(op.work)].kind)) return ThreadCode::talk;
  return op.stream == Stream::compute ? ThreadCode::compute : ThreadCode::fixed;
}

// Writes the code of one thread, in program order.
class ThreadWriter {
 public:
  // `streams`: that the thread has; `ops`: where those of chains go.
  // `launched`: host time up to and including each op.
  ThreadWriter(const OpGraph& graph, const Prices& prices, const Pass& pass,
               const std::vector<int64_t>& launched, const Slots& slots,
               const std::array<bool, kStreams>& streams, std::vector<ThreadOp>& ops)
      : graph_(graph),
        prices_(prices),
        pass_(pass),
        launched_(launched),
        slots_(slots),
        streams_(streams),
        ops_(ops) {}

  std::vector<ThreadInstruction> write(bool merge) {
    // Ops of a chain stand next to each other, so those of one stream do.
    std::vector<uint32_t> place(pass_.ops.size());
    for (size_t s = 0; s < kStreams; ++s) {
      if (streams_[s]) add_ops(s, place);
    }
    std::array<size_t, kStreams> open;  // instruction of each stream that may be continued
    open.fill(kNone);
    for (uint32_t i = 0; i < pass_.ops.size(); ++i) {
      const auto stream = static_cast<size_t>(pass_.ops[i].stream);
      if (!streams_[stream]) continue;
      if (add_waits(i)) open[stream] = kNone;
      const size_t in = add_op(i, place[i], merge ? open[stream] : kNone);
      const bool ends = code_[in].end_slot >= 0 || code_[in].start_slot >= 0;
      open[stream] = ends || code_[in].code == ThreadCode::talk ? kNone : in;
    }
    return std::move(code_);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  void add_ops(size_t stream, std::vector<uint32_t>& place) {
    for (uint32_t i = 0; i < pass_.ops.size(); ++i) {
      const Op& op = pass_.ops[i];
      if (static_cast<size_t>(op.stream) != stream) continue;
      place[i] = static_cast<uint32_t>(ops_.size());
      const auto work = static_cast<size_t>(op.work);
      ops_.push_back({prices_.by_work[work].time.count(), launched_[i], i,
                      spend_of(graph_.works[work], op.phase)});
    }
  }

  bool add_waits(uint32_t i) {
    bool any = false;
    for (const Wait& w : pass_.waits.of(i)) {
      if (implied(pass_, w)) continue;
      const bool own = streams_[static_cast<size_t>(pass_.ops[w.on].stream)];
      code_.push_back({.ps = w.delay.count(),
                       .end_slot = (w.from_start ? slots_.start : slots_.end)[w.on],
                       .stream = static_cast<uint8_t>(pass_.ops[i].stream),
                       .code = own ? ThreadCode::wait : ThreadCode::watch});
      any = true;
    }
    return any;
  }

  // Continues the chain at `open` if it can.  Returns the instruction.
  size_t add_op(uint32_t i, uint32_t place, size_t open) {
    const Op& op = pass_.ops[i];
    const ThreadCode kind = code_of(graph_, op);
    const auto work = static_cast<uint32_t>(op.work);
    const int64_t ps = prices_.by_work[work].time.count();
    const bool goes_on = open != kNone && slots_.start[i] < 0 && code_[open].code == kind;
    const size_t in = goes_on ? open : code_.size();
    if (goes_on) {
      code_[in].ps += ps;
      ++code_[in].count;
    } else {
      code_.push_back({.ps = ps,
                       .first = place,
                       .count = 1,
                       .work = work,
                       .start_slot = slots_.start[i],
                       .stream = static_cast<uint8_t>(op.stream),
                       .code = kind});
    }
    code_[in].end_slot = slots_.end[i];
    return in;
  }

  const OpGraph& graph_;
  const Prices& prices_;
  const Pass& pass_;
  const std::vector<int64_t>& launched_;
  const Slots& slots_;
  const std::array<bool, kStreams>& streams_;
  std::vector<ThreadOp>& ops_;
  std::vector<ThreadInstruction> code_;
};

PassThreads compile_pass(const OpGraph& graph, const Prices& prices,
                         const std::vector<int64_t>& launches, const Pass& pass,
                         const std::array<bool, kStreams>& strand, bool merge) {
  PassThreads out;
  const Slots slots = assign_slots(pass);
  out.slots = static_cast<uint32_t>(slots.op.size());
  for (const uint32_t i : slots.op) {
    const Op& op = pass.ops[i];
    out.slot_spend.push_back(spend_of(graph.works[static_cast<size_t>(op.work)], op.phase));
  }
  out.device_ops = static_cast<uint32_t>(pass.ops.size());
  std::vector<int64_t> launched;
  for (const Op& op : pass.ops) {
    out.launched += launches[static_cast<size_t>(op.launch)];
    launched.push_back(out.launched);
  }
  const auto write = [&](const std::array<bool, kStreams>& streams) {
    return ThreadWriter(graph, prices, pass, launched, slots, streams, out.ops).write(merge);
  };
  for (size_t s = 0; s < kStreams; ++s) {
    std::array<bool, kStreams> one{};
    one[s] = true;
    out.code[s] = write(one);
  }
  out.code[kStrand] = write(strand);
  out.closed = std::ranges::all_of(
      pass.ops, [&](const Op& op) { return strand[static_cast<size_t>(op.stream)]; });
  return out;
}

void add_event(const Item& item, std::vector<uint32_t>& latest, RoleThreads& out, size_t i) {
  if (latest.size() <= item.event) latest.resize(size_t{item.event} + 1, RoleThreads::kNone);
  if (item.kind == ItemKind::record) {
    latest[item.event] = static_cast<uint32_t>(out.waits.size());
    out.waits.push_back(0);
  }
  out.record[i] = latest[item.event];
  if (item.kind == ItemKind::wait && out.record[i] != RoleThreads::kNone) {
    ++out.waits[out.record[i]];
  }
}

RoleThreads compile_role(const OpGraph& graph, const RoleOps& role,
                         const std::vector<PassThreads>& passes,
                         const std::vector<int64_t>& launches,
                         const std::array<bool, kStreams>& strand) {
  RoleThreads out;
  const size_t n = role.items.size();
  out.record.assign(n, RoleThreads::kNone);
  std::vector<uint32_t> latest;  // record of each event
  uint32_t segment = 0;
  int64_t launched = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const Item& item = role.items[i];
    if (item.kind == ItemKind::post) {
      const Rendezvous& rendezvous = graph.rendezvous[static_cast<size_t>(item.rendezvous)];
      launched += launches[static_cast<size_t>(rendezvous.launch)];
    }
    out.segment.push_back(segment);
    out.launched.push_back(launched);
    out.instances.push_back(static_cast<uint64_t>(out.device_ops));
    if (item.kind == ItemKind::pass) {
      const PassThreads& pass = passes[static_cast<size_t>(item.pass)];
      launched += pass.launched;
      out.device_ops += pass.device_ops;
      for (size_t t = 0; t < kThreads; ++t) {
        if (!pass.code[t].empty()) out.items[t].push_back(i);
      }
      continue;
    }
    const auto stream = static_cast<size_t>(item.stream);
    out.items[stream].push_back(i);
    if (strand[stream]) out.items[kStrand].push_back(i);
    if (item.kind == ItemKind::record || item.kind == ItemKind::wait) {
      add_event(item, latest, out, i);
    }
    const bool host_joins = item.kind == ItemKind::join && item.host_waits;
    if (host_joins) out.items[kHost].push_back(i);
    if (item.kind != ItemKind::sync && !host_joins) continue;
    ++segment;
    launched = 0;
  }
  out.segments = segment + 1;
  return out;
}

// Roles are visited in order, so lists of them are ascending.
void plan_meetings(const OpGraph& graph, ContentionProgram& out) {
  out.meetings.resize(graph.rendezvous.size());
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    for (const Item& item : graph.roles[r].items) {
      if (item.kind != ItemKind::post && item.kind != ItemKind::join) continue;
      MeetingPlan& plan = out.meetings[static_cast<size_t>(item.rendezvous)];
      plan.visits += item.host_waits && item.kind == ItemKind::join ? 2 : 1;
      if (plan.parties.empty() || plan.parties.back() != r) plan.parties.push_back(r);
      if (item.kind == ItemKind::post) plan.posts.push_back(r);
    }
  }
  for (size_t id = 0; id < out.meetings.size(); ++id) {
    MeetingPlan& plan = out.meetings[id];
    if (plan.posts.empty()) continue;
    const Work& work = graph.works[static_cast<size_t>(graph.rendezvous[id].work)];
    const auto sends = [&](uint32_t r) { return graph.roles[r].pipeline_rank == work.from; };
    const auto it = std::ranges::find_if(plan.posts, sends);
    plan.sender = it != plan.posts.end() ? *it : plan.posts.front();
  }
}

}  // namespace

ContentionProgram compile_threads(const OpGraph& graph, const Prices& prices,
                                  const std::array<bool, kStreams>& strand, bool merge) {
  ContentionProgram out;
  std::vector<int64_t> launches = varied_launches(graph, prices, {});
  for (int64_t& time : launches) time <<= kLaneFractionBits;
  for (const Pass& pass : graph.passes) {
    out.passes.push_back(compile_pass(graph, prices, launches, pass, strand, merge));
  }
  for (const RoleOps& role : graph.roles) {
    out.roles.push_back(compile_role(graph, role, out.passes, launches, strand));
  }
  plan_meetings(graph, out);
  return out;
}

}  // namespace stepcast
