// SPDX-License-Identifier: Apache-2.0
#include "sim/contention_program.h"

#include <algorithm>

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

// The instructions of one stream.
void add_stream(const OpGraph& graph, const Prices& prices, const Pass& pass, Stream stream,
                const Slots& slots, bool merge, PassThreads& out) {
  std::vector<ThreadInstruction>& code = out.code[static_cast<size_t>(stream)];
  bool open = false;  // the last instruction may be continued
  for (uint32_t i = 0; i < pass.ops.size(); ++i) {
    const Op& op = pass.ops[i];
    if (op.stream != stream) continue;
    for (const Wait& w : pass.waits.of(i)) {
      if (implied(pass, w)) continue;
      const int32_t slot = (w.from_start ? slots.start : slots.end)[w.on];
      code.push_back({.ps = w.delay.count(), .end_slot = slot, .code = ThreadCode::wait});
      open = false;
    }
    const ThreadCode kind = code_of(graph, op);
    const auto work = static_cast<uint32_t>(op.work);
    const int64_t ps = prices.by_work[work].time.count();
    out.ops.push_back({ps, i + 1, spend_of(graph.works[work], op.phase)});
    if (open && merge && kind != ThreadCode::talk && slots.start[i] < 0 &&
        code.back().code == kind) {
      code.back().ps += ps;
      ++code.back().count;
    } else {
      code.push_back({.ps = ps,
                      .first = static_cast<uint32_t>(out.ops.size()) - 1,
                      .count = 1,
                      .work = work,
                      .code = kind});
    }
    code.back().end_slot = slots.end[i];
    if (code.back().count == 1) code.back().start_slot = slots.start[i];
    open = code.back().end_slot < 0 && code.back().start_slot < 0;
  }
  if (!code.empty()) ++out.streams;
}

PassThreads compile_pass(const OpGraph& graph, const Prices& prices, const Pass& pass, bool merge) {
  PassThreads out;
  const Slots slots = assign_slots(pass);
  out.slots = static_cast<uint32_t>(slots.op.size());
  for (const uint32_t i : slots.op) {
    const Op& op = pass.ops[i];
    out.slot_spend.push_back(spend_of(graph.works[static_cast<size_t>(op.work)], op.phase));
  }
  out.launches = static_cast<uint32_t>(pass.ops.size());
  for (size_t s = 0; s < kStreams; ++s) {
    add_stream(graph, prices, pass, static_cast<Stream>(s), slots, merge, out);
  }
  return out;
}

void add_to_thread(RoleThreads& out, size_t thread, uint32_t item) {
  out.items[thread].push_back(item);
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

RoleThreads compile_role(const RoleOps& role, const std::vector<PassThreads>& passes) {
  RoleThreads out;
  const size_t n = role.items.size();
  out.record.assign(n, RoleThreads::kNone);
  std::vector<uint32_t> latest;  // record of each event
  uint32_t segment = 0, launches = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const Item& item = role.items[i];
    out.segment.push_back(segment);
    out.launches.push_back(launches);
    if (item.kind == ItemKind::pass) {
      const PassThreads& pass = passes[static_cast<size_t>(item.pass)];
      launches += pass.launches;
      out.device_ops += pass.launches;
      for (size_t s = 0; s < kStreams; ++s) {
        if (!pass.code[s].empty()) add_to_thread(out, s, i);
      }
      continue;
    }
    add_to_thread(out, static_cast<size_t>(item.stream), i);
    if (item.kind == ItemKind::record || item.kind == ItemKind::wait) {
      add_event(item, latest, out, i);
    }
    if (item.kind == ItemKind::post) ++launches;
    const bool host_joins = item.kind == ItemKind::join && item.host_waits;
    if (host_joins) add_to_thread(out, kStreams, i);
    if (item.kind != ItemKind::sync && !host_joins) continue;
    ++segment;
    launches = 0;
  }
  out.segments = segment + 1;
  for (size_t t = 0; t < kThreads; ++t) {
    if (!out.items[t].empty()) out.threads.push_back(t);
  }
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

ContentionProgram compile_threads(const OpGraph& graph, const Prices& prices, bool merge) {
  ContentionProgram out;
  for (const Pass& pass : graph.passes) {
    out.passes.push_back(compile_pass(graph, prices, pass, merge));
  }
  for (const RoleOps& role : graph.roles) out.roles.push_back(compile_role(role, out.passes));
  plan_meetings(graph, out);
  return out;
}

}  // namespace stepcast
