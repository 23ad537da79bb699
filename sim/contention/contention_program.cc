// SPDX-License-Identifier: Apache-2.0
// Threads of the contention engine: their code, and where they may go in lockstep.
//
// Take a pass of five ops; c runs on the compute stream and x on the stream of a collective:
//
//     c0  c1  x2 (waits for c1)  c3  c4 (waits for the end of x2)
//
// The code of a thread keeps the ops of its streams in program order, merges neighbours into chains
// and turns waits into reads of slots.  Slot 0 is the end of c1, slot 1 the end of x2:
//
//     compute thread           collective thread        lockstep thread, if it has both streams
//     compute c0 c1 -> slot 0  watch slot 0             compute c0 c1 -> slot 0
//     compute c3               collective x2 -> slot 1  wait slot 0
//     watch slot 1                                      collective x2 -> slot 1
//     compute c4                                        compute c3
//                                                       wait slot 1
//                                                       compute c4
//
// `watch` may find that the other thread has not got there yet, and then sleeps; `wait` reads what
// its own thread wrote before.  A chain ends where something waits for its end, or where an op
// itself waits.
//
// When is lockstep safe (plan_lockstep)?  Suppose that x2 is an all-reduce of dp, whose end depends
// on other ranks.  Its stream is then run lane by lane (lockstep_streams), but a lockstep thread of
// lanes 0 and 1 with the compute stream still stops before c4 until x2 has ended in both lanes: in
// lane 0 at 10 ms, in lane 1 at 30 ms, say.  If lane 0 posts to another pipeline stage right after
// c4, at 11 ms, nobody learns of it before the clock has reached 30 ms, which is too late.  If an
// all-reduce of the two lanes stands between c4 and the post, the post depends on the x2 of lane 1
// as well, and nothing is lost.  The same goes for two streams of one lane.
//
// RoleWalk therefore follows a role once through its program and counts the stops of each stream.
// A time has four such counts (Dependence): the stops in its own lane that it depends on (apart),
// those in all lanes of the block (all_lanes), and those that must be past in its own lane (known)
// and in all lanes (known_all) before the thread learns of the time.  A post, or a collective with
// other ranks, comes late if more is to be past than what it depends on.
//
// Let a stage in the middle of a pipeline run a pass, send what it made, and then post that it can
// receive.  The post depends on the end of the transfer in its own lane alone, so all lanes in
// lockstep would be late.  If each lane goes through posts and joins by itself and only the pass is
// run for the block as a whole (Lockstep::passes), the thread of the pass is past the stops of all
// lanes, but so are the collectives in it.  If that is late too, the role is run stream by stream
// and lane by lane.

#include "sim/contention/contention_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/graph/program.h"
#include "sim/lanes/lane_program.h"
#include "sim/lanes/lanes.h"

namespace stepcast {
namespace {

ThreadCode code_of(const OpGraph& graph, const Op& op) {
  if (is_communication(graph.works[static_cast<size_t>(op.work)].kind))
    return ThreadCode::collective;
  return op.stream == Stream::compute ? ThreadCode::compute : ThreadCode::fixed;
}

// Writes the code of one thread, in program order.
class ThreadWriter {
 public:
  // `streams`: that the thread has; `ops`: where those of chains go.
  // `launched`: host time up to and including each op.
  ThreadWriter(const OpGraph& graph, const Prices& prices, const Pass& pass,
               const std::vector<int64_t>& launched, const WaitSlots& slots,
               const std::array<bool, kStreams>& streams, std::vector<ThreadOp>& ops)
      : graph_(graph),
        prices_(prices),
        pass_(pass),
        launched_(launched),
        slots_(slots),
        streams_(streams),
        ops_(ops) {}

  std::vector<ThreadInstruction> write(bool merge) {
    const auto is_own = [&](const Op& op) { return streams_[static_cast<size_t>(op.stream)]; };
    if (std::ranges::none_of(pass_.ops, is_own)) return {};
    // A chain refers to its ops by a range, so the ops of each stream are stored together.
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
      open[stream] = ends || code_[in].code == ThreadCode::collective ? kNone : in;
    }
    for (ThreadInstruction& in : code_) add_late(in);
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
      if (is_implied(pass_, w)) continue;
      const bool own = streams_[static_cast<size_t>(pass_.ops[w.on].stream)];
      code_.push_back({.ps = w.delay.count(),
                       .end_slot = (w.from_start ? slots_.start : slots_.end)[w.on],
                       .stream = static_cast<uint8_t>(pass_.ops[i].stream),
                       .code = own ? ThreadCode::wait : ThreadCode::watch});
      any = true;
    }
    return any;
  }

  // An op goes on from the one before if it has been launched by then: at the earliest when all
  // before it have taken their price.  The end is rounded up from a fraction of 1/4096 ps at most.
  void add_late(ThreadInstruction& in) const {
    if (in.code != ThreadCode::compute) return;
    int64_t before = 0;
    for (uint32_t i = in.first + 1; i < in.first + in.count; ++i) {
      before += ops_[i - 1].ps * kNominal;
      in.late = std::max(in.late, ops_[i].launched - before + 1);
    }
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
  const WaitSlots& slots_;
  const std::array<bool, kStreams>& streams_;
  std::vector<ThreadOp>& ops_;
  std::vector<ThreadInstruction> code_;
};

PassThreads compile_pass(const OpGraph& graph, const Prices& prices,
                         const std::vector<int64_t>& launches, const Pass& pass,
                         const std::array<bool, kStreams>& lockstep, bool merge) {
  PassThreads out;
  const WaitSlots slots = wait_slots(pass);
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
  out.code[kLockstep] = write(lockstep);
  out.closed = std::ranges::all_of(
      pass.ops, [&](const Op& op) { return lockstep[static_cast<size_t>(op.stream)]; });
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
                         const std::array<bool, kStreams>& lockstep) {
  RoleThreads out;
  const size_t n = role.items.size();
  out.record.assign(n, RoleThreads::kNone);
  out.segment.reserve(n);
  out.launched.reserve(n);
  out.instances.reserve(n);
  std::vector<uint32_t> latest;  // record of each event
  uint32_t segment = 0;
  int64_t launched = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const Item& item = role.items[i];
    if (item.kind == ItemKind::post) {
      const Rendezvous& rendezvous = graph.rendezvous[static_cast<size_t>(item.rendezvous)];
      launched += launches[static_cast<size_t>(rendezvous.launch)];
    }
    // The host of one segment takes so long; a sum that could overflow is not begun.
    if (launched > kLongestLaneTime) throw_step_too_long();
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
      if (!pass.code[kLockstep].empty()) out.items[kPasses].push_back(i);
      continue;
    }
    const auto stream = static_cast<size_t>(item.stream);
    out.items[stream].push_back(i);
    if (lockstep[stream]) out.items[kLockstep].push_back(i);
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

// Calls of(id, r, item, first) for each post and join of a rendezvous, role by role; `first`: the
// first of that role.
template <class F>
void for_meetings(const OpGraph& graph, const F& of) {
  std::vector<uint32_t> last(graph.rendezvous.size(), RoleThreads::kNone);
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    for (const Item& item : graph.roles[r].items) {
      if (item.kind != ItemKind::post && item.kind != ItemKind::join) continue;
      const auto id = static_cast<size_t>(item.rendezvous);
      of(id, r, item, std::exchange(last[id], r) != r);
    }
  }
}

// Roles are visited in order, so lists of them are ascending.
void plan_rendezvous(const OpGraph& graph, ContentionProgram& out) {
  out.rendezvous.resize(graph.rendezvous.size());
  // How many there are, then where the lists of each begin, and how long they are so far.
  struct Lists {
    size_t posts = 0, parties = 0, begin = 0;
  };
  std::vector<Lists> lists(out.rendezvous.size());
  for_meetings(graph, [&](size_t id, uint32_t, const Item& item, bool first) {
    out.rendezvous[id].visits += item.host_waits && item.kind == ItemKind::join ? 2 : 1;
    lists[id].posts += item.kind == ItemKind::post ? 1 : 0;
    lists[id].parties += first ? 1 : 0;
  });
  size_t all = 0;
  for (const Lists& l : lists) all += l.posts + l.parties;
  out.met.resize(all);
  size_t begin = 0;
  for (size_t id = 0; id < lists.size(); ++id) {
    const Lists counted = lists[id];
    out.rendezvous[id].posts = {out.met.data() + begin, counted.posts};
    out.rendezvous[id].parties = {out.met.data() + begin + counted.posts, counted.parties};
    lists[id] = {0, 0, begin};
    begin += counted.posts + counted.parties;
  }
  for_meetings(graph, [&](size_t id, uint32_t r, const Item& item, bool first) {
    Lists& l = lists[id];
    if (item.kind == ItemKind::post) out.met[l.begin + l.posts++] = r;
    if (first) out.met[l.begin + out.rendezvous[id].posts.size() + l.parties++] = r;
  });
  for (size_t id = 0; id < out.rendezvous.size(); ++id) {
    RendezvousPlan& plan = out.rendezvous[id];
    if (plan.posts.empty()) continue;
    const Work& work = graph.works[static_cast<size_t>(graph.rendezvous[id].work)];
    const auto sends = [&](uint32_t r) { return graph.roles[r].pipeline_rank == work.from; };
    const auto it = std::ranges::find_if(plan.posts, sends);
    plan.sender = it != plan.posts.end() ? *it : plan.posts.front();
  }
}

}  // namespace

ContentionProgram compile_threads(const OpGraph& graph, const Prices& prices,
                                  const std::array<bool, kStreams>& lockstep, bool merge) {
  ContentionProgram out;
  std::vector<int64_t> launches = varied_launches(graph, prices, {});
  for (int64_t& time : launches) time <<= kLaneFractionBits;
  for (const Pass& pass : graph.passes) {
    out.passes.push_back(compile_pass(graph, prices, launches, pass, lockstep, merge));
  }
  for (const RoleOps& role : graph.roles) {
    out.roles.push_back(compile_role(graph, role, out.passes, launches, lockstep));
  }
  plan_rendezvous(graph, out);
  return out;
}

namespace {

// Stops so far, by stream (and host).
using Stops = std::array<uint32_t, kStreams + 1>;

void raise(Stops& to, const Stops& by) {
  for (size_t t = 0; t < to.size(); ++t) to[t] = std::max(to[t], by[t]);
}

// What a time depends on: the stops of each stream that came before it.
struct Dependence {
  Stops apart{};      // of its own lane
  Stops all_lanes{};  // of all lanes of the block
  Stops known{};      // it is known when its own lane is past these ...
  Stops known_all{};  // ... and all lanes of the block are past these

  void merge(const Dependence& other) {
    raise(apart, other.apart);
    raise(all_lanes, other.all_lanes);
    raise(known, other.known);
    raise(known_all, other.known_all);
  }
  void wait_for_all_lanes() { raise(all_lanes, apart); }
};

class RoleWalk {
 public:
  // `whole`: blocks go together through all items, not through passes only.
  RoleWalk(const OpGraph& graph, const ContentionProgram& program, const LockstepChoice& choice,
           uint32_t role, bool whole)
      : graph_(graph),
        threads_(program.roles[role]),
        items_(graph.roles[role].items),
        choice_(choice),
        whole_(whole),
        together_(whole) {}

  bool is_safe() {
    for (uint32_t i = 0; i < items_.size(); ++i) {
      if (!walk_item(i)) return false;
    }
    return true;
  }

 private:
  static size_t stream(Stream s) { return static_cast<size_t>(s); }
  const Work& work(WorkId id) const { return graph_.works[static_cast<size_t>(id)]; }

  bool walk_item(uint32_t i) {
    const Item& item = items_[i];
    const size_t s = stream(item.stream);
    switch (item.kind) {
      case ItemKind::pass: return walk_pass(graph_.passes[static_cast<size_t>(item.pass)]);
      case ItemKind::post: {
        Dependence post = now_[s];
        post.merge(now_[kHost]);
        if (choice_.streams[s]) gather(s, post);
        return !shows_late(post, is_whole(item));
      }
      case ItemKind::join: walk_join(item); return true;
      case ItemKind::record: events_[threads_.record[i]] = at_lockstep(s); return true;
      case ItemKind::wait: {
        const auto it = events_.find(threads_.record[i]);
        if (it == events_.end()) return true;
        now_[s].merge(it->second);
        at_lockstep(s);
        return true;
      }
      case ItemKind::sync: {
        Dependence host = now_[s];
        host.merge(now_[kHost]);
        gather(s, host);
        now_[kHost] = host;
        return true;
      }
    }
    return true;
  }

  bool is_whole(const Item& item) const {
    const auto id = static_cast<size_t>(item.rendezvous);
    return choice_.whole[static_cast<size_t>(graph_.rendezvous[id].work)];
  }

  void walk_join(const Item& item) {
    const size_t s = stream(item.stream);
    stop(s, is_whole(item));
    at_lockstep(s);
    if (item.host_waits) stop(kHost, is_whole(item));
  }

  void stop(size_t s, bool of_all_lanes) {
    now_[s].apart[s] = ++stops_[s];
    if (of_all_lanes) now_[s].all_lanes[s] = stops_[s];
  }

  // The lockstep thread learns of a time once all of its streams are past their stops, in all of
  // its lanes.
  void gather(size_t s, Dependence& time) {
    if (!choice_.streams[s]) return;
    raise(lockstep_all_, time.all_lanes);
    raise(lockstep_all_, time.known_all);
    raise(lockstep_, time.apart);
    raise(lockstep_, time.known);
    raise(lockstep_, lockstep_all_);
    if (together_) lockstep_all_ = lockstep_;
    raise(time.known, lockstep_);
    raise(time.known_all, lockstep_all_);
  }
  const Dependence& at_lockstep(size_t s) {
    gather(s, now_[s]);
    return now_[s];
  }

  // Would other ranks see this time later than it could be known?  `whole`: it waits for all lanes
  // of the block.
  bool shows_late(Dependence time, bool whole) const {
    if (whole || choice_.lanes == 1) time.wait_for_all_lanes();
    for (size_t t = 0; t < time.known.size(); ++t) {
      if (time.known_all[t] > time.all_lanes[t]) return true;
      if (time.known[t] > std::max(time.all_lanes[t], time.apart[t])) return true;
    }
    return false;
  }

  bool walk_pass(const Pass& pass) {
    const auto in_lockstep = [&](const Op& op) { return choice_.streams[stream(op.stream)]; };
    const bool meet = std::ranges::any_of(pass.ops, in_lockstep);
    if (meet) {
      together_ = true;
      lockstep_all_ = lockstep_;
    }
    const bool safe = walk_ops(pass);
    if (!whole_) together_ = false;
    return safe;
  }

  bool walk_ops(const Pass& pass) {
    starts_.assign(pass.ops.size(), {});
    ends_.assign(pass.ops.size(), {});
    for (uint32_t i = 0; i < pass.ops.size(); ++i) {
      const Op& op = pass.ops[i];
      const size_t s = stream(op.stream);
      for (const Wait& w : pass.waits.of(i)) now_[s].merge((w.from_start ? starts_ : ends_)[w.on]);
      now_[s].merge(now_[kHost]);
      at_lockstep(s);
      starts_[i] = now_[s];
      if (is_communication(work(op.work).kind) && !walk_collective(i, op)) return false;
      ends_[i] = now_[s];
    }
    return true;
  }

  // A collective with other ranks stops a thread twice, since both when it begins and when it ends
  // depends on those ranks.
  bool walk_collective(uint32_t i, const Op& op) {
    const size_t s = stream(op.stream);
    const auto w = static_cast<size_t>(op.work);
    switch (choice_.scopes[w]) {
      case Scope::lane: break;
      case Scope::block:
        now_[s].wait_for_all_lanes();
        if (!choice_.streams[s]) return false;  // a thread of one lane cannot take part
        break;
      case Scope::outside:
        if (shows_late(now_[s], choice_.whole[w])) return false;
        stop(s, choice_.whole[w]);
        break;
    }
    starts_[i] = now_[s];
    if (choice_.scopes[w] == Scope::outside) stop(s, choice_.whole[w]);
    return true;
  }

  const OpGraph& graph_;
  const RoleThreads& threads_;
  const std::vector<Item>& items_;
  const LockstepChoice& choice_;
  std::array<Dependence, kStreams + 1> now_{};
  Stops stops_{};
  bool whole_ = true;
  bool together_ = true;  // at this item
  // That the lockstep thread is past, in its own lane and in all lanes.
  Stops lockstep_{}, lockstep_all_{};
  std::map<uint32_t, Dependence> events_;
  std::vector<Dependence> starts_, ends_;  // by op of the pass
};

}  // namespace

std::array<bool, kStreams> lockstep_streams(const OpGraph& graph,
                                            const std::vector<Scope>& scopes) {
  std::array<bool, kStreams> lockstep;
  lockstep.fill(true);
  for (const Pass& pass : graph.passes) {
    for (const Op& op : pass.ops) {
      const auto work = static_cast<size_t>(op.work);
      if (is_communication(graph.works[work].kind) && scopes[work] == Scope::outside) {
        lockstep[static_cast<size_t>(op.stream)] = false;
      }
    }
  }
  return lockstep;
}

std::vector<Lockstep> plan_lockstep(const OpGraph& graph, const ContentionProgram& program,
                                    const LockstepChoice& choice) {
  std::vector<Lockstep> plan;
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    const auto is_safe = [&](bool whole) {
      return RoleWalk(graph, program, choice, r, whole).is_safe();
    };
    plan.push_back(is_safe(true)    ? Lockstep::whole
                   : is_safe(false) ? Lockstep::passes
                                    : Lockstep::none);
  }
  return plan;
}

}  // namespace stepcast
