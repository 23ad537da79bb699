// SPDX-License-Identifier: Apache-2.0
// The engine of one lane a role.
//
// The end of every op is an equation in sums and maxima: its duration after the latest of the end
// of the op before it on its stream, its launch, and the ends of what it waits for.  The equations
// have one solution, and any order of evaluation finds it that takes a right side only when all of
// it is known.  So a role is walked along its program as far as it goes, and where it needs a
// rendezvous that other roles have not all posted, it sleeps on that rendezvous and another role
// is walked.  The role that completes the rendezvous wakes those that sleep on it.  Nothing is
// queued by time.
//
// An example: two pipeline ranks and one microbatch.  F takes 10, B 20; the transfers x and y take
// 3, and start when their sender posts them.
//
//     role 0:  F  post x  join y  B          role 1:  join x  F  B  post y
//
//   role 0   F ends at 10, and x starts then.  y has no post yet: the role sleeps on y at 10.
//   role 1   x is complete and ends at 13; the compute stream stood still from 0 to 13.  F ends at
//            23, B at 43, where y starts: it is complete, and role 0 is awake.
//   role 0   y ends at 46, the stream stood still from 10 to 46; B ends at 66, the makespan.
//
// With role 1 first, it would have slept on x, and all times were the same.  If in the end a role
// still sleeps, the roles wait for each other: Deadlock.
//
// Inside a pass nothing sleeps, so it is a loop over instructions (program.h): each is an addition
// and two maxima on the time of its stream, which stays in a register while the stream does not
// change.  Most passes need not even be walked.  Where nothing from before holds a pass up, all
// that it does is a constant after the time at which it begins (UndisturbedPass); that is the rule,
// as hosts run ahead of their devices.  Where something does and nothing is recorded, a pass is
// linear over (max,+), and its matrix (PassStep) takes the times before it to those after it.
//
// And in a steady state passes are held up in the same few ways again and again: the host launches
// the first op so much too late each time, or a collective of the pass before is still under way.
// What a pass does after the time t0 at which it begins depends on how much later than t0 its
// streams and the host are, and on nothing else, for it is all additions and maxima.  So what came
// of some such delays is remembered, and looked up when they come again.

#include "sim/engine/run.h"

#include <algorithm>
#include <utility>

#include "sim/check.h"
#include "sim/engine/role_queue.h"

namespace stepcast {
namespace {

constexpr auto kCompute = static_cast<size_t>(Stream::compute);

struct RoleState {
  std::array<int64_t, kStreams> stream{};  // end of what each stream has been given so far
  int64_t host = 0;
  uint32_t item = 0;  // next one to execute
  std::vector<int64_t> events;
  bool started = false;
  int64_t begin = 0;           // of the first op on the compute stream
  Time* next_start = nullptr;  // Record::all: where the start of the next op goes
};

// What is known of a rendezvous while roles arrive at it.
struct RendezvousState {
  int64_t begin = 0;
  uint32_t posts = 0;
  uint32_t last_role =
      kNobody;  // of the latest post; the lower role on ties, whatever the order of arrival
  uint32_t last_item = 0;
  uint32_t sleepers = kNobody;  // roles that stand at its join
};

// What a pass did after some delays.  Times since the compute stream came to it.
struct PassedBefore {
  std::vector<int64_t> delays;  // of each stream that the pass uses, then of the host
  std::vector<int64_t> ends;    // of these streams
  int64_t launch = 0;           // what the host takes
  std::vector<std::pair<Spend, Time>> inside;  // stand-stills of the compute stream
};

template <Record kRecord>
class Engine {
 public:
  explicit Engine(const Program& program)
      : program_(program),
        graph_(*program.graph),
        roles_(graph_.roles.size()),
        rendezvous_(graph_.rendezvous.size()),
        queue_(graph_.roles.size()) {
    timeline_.roles.resize(roles_.size());
    if constexpr (kRecord != Record::nothing) timeline_.rendezvous.resize(rendezvous_.size());
    uint32_t slots = 0;
    for (const CompiledPass& p : program.passes) slots = std::max(slots, p.slots);
    slot_.resize(slots + 1);
    std::vector<size_t> waits;  // of each pass, on the compute stream
    if constexpr (kRecord != Record::nothing) {
      for (const CompiledPass& p : program.passes) {
        waits.push_back(
            static_cast<size_t>(std::ranges::count_if(p.code, [](const Instruction& in) {
              return in.code == OpCode::wait && in.stream == Stream::compute;
            })));
      }
    }
    for (size_t r = 0; r < roles_.size(); ++r) prepare(r, waits);
    if (kRecord == Record::account && program.merged) passed_.resize(program.passes.size());
  }

  Timeline run() {
    while (!queue_.empty()) advance(queue_.take());
    throw_if_stuck(graph_, roles_);
    finish();
    return std::move(timeline_);
  }

 private:
  void prepare(size_t r, const std::vector<size_t>& waits) {
    const RoleOps& ops = graph_.roles[r];
    uint32_t events = 0;
    size_t gaps = 0, starts = 0;  // about, and exactly; what is not touched costs nothing
    for (const Item& item : ops.items) {
      if (item.kind == ItemKind::record || item.kind == ItemKind::wait) {
        events = std::max(events, item.event + 1);
      }
      if constexpr (kRecord == Record::nothing) continue;
      ++gaps;
      if (item.kind != ItemKind::pass) continue;
      gaps += waits[static_cast<size_t>(item.pass)];
      starts += graph_.passes[static_cast<size_t>(item.pass)].ops.size();
    }
    roles_[r].events.assign(events, 0);
    RoleTimeline& timeline = timeline_.roles[r];
    if constexpr (kRecord != Record::nothing) {
      timeline.items.reserve(ops.items.size());
      timeline.gaps.reserve(gaps);
    }
    if constexpr (kRecord == Record::all) {
      timeline.op_start.resize(starts);
      roles_[r].next_start = timeline.op_start.data();
    }
  }

  // Executes items of role r until it has to wait for another role or is done.
  void advance(uint32_t r) {
    RoleState& role = roles_[r];
    const std::vector<Item>& items = graph_.roles[r].items;
    for (; role.item < items.size(); ++role.item) {
      const Item& item = items[role.item];
      const int64_t before = role.stream[kCompute];
      if (!execute(r, role, item)) return;
      if constexpr (kRecord != Record::nothing) {
        timeline_.roles[r].add_item(item, Time{before}, Time{role.stream[kCompute]});
      }
    }
  }

  // False if the item has to be tried again later.
  bool execute(uint32_t r, RoleState& role, const Item& item) {
    int64_t& stream = role.stream[static_cast<size_t>(item.stream)];
    switch (item.kind) {
      case ItemKind::pass: run_pass(r, role, item); return true;
      case ItemKind::post: post(r, role, item, stream); return true;
      case ItemKind::join: return join(r, role, item, stream);
      case ItemKind::record: role.events[item.event] = stream; return true;
      case ItemKind::wait: {
        const int64_t until = role.events[item.event];
        if (until > stream) {
          book_gap(r, item, stream, until, Gap::Cause::event);
          stream = until;
        }
        return true;
      }
      case ItemKind::sync: role.host = std::max(role.host, stream); return true;
    }
    return true;
  }

  void post(uint32_t r, RoleState& role, const Item& item, int64_t stream) {
    const auto id = static_cast<uint32_t>(item.rendezvous);
    role.host += program_.post_ps[id];
    const int64_t time = std::max(stream, role.host);
    RendezvousState& m = rendezvous_[id];
    if (m.posts == 0 || time > m.begin || (time == m.begin && r < m.last_role)) {
      m.begin = time;
      m.last_role = r;
      m.last_item = role.item;
    }
    if (++m.posts < graph_.rendezvous[id].parties) return;
    queue_.wake(m.sleepers);
  }

  bool join(uint32_t r, RoleState& role, const Item& item, int64_t& stream) {
    const auto id = static_cast<uint32_t>(item.rendezvous);
    RendezvousState& m = rendezvous_[id];
    if (m.posts < graph_.rendezvous[id].parties) {
      queue_.sleep(r, m.sleepers);
      return false;
    }
    const int64_t end = m.begin + program_.rendezvous_ps[id];
    if (end > stream) {
      book_gap(r, item, stream, end, Gap::Cause::rendezvous);
      stream = end;
    }
    if (item.host_waits) role.host = std::max(role.host, end);
    return true;
  }

  void book_gap(uint32_t r, const Item& item, int64_t begin, int64_t end, Gap::Cause cause) {
    if constexpr (kRecord != Record::nothing) {
      if (item.stream == Stream::compute) {
        timeline_.roles[r].add_gap(item, roles_[r].item, Time{begin}, Time{end}, cause);
      }
    }
  }

  void run_pass(uint32_t r, RoleState& role, const Item& item) {
    const CompiledPass& pass = program_.passes[static_cast<size_t>(item.pass)];
    timeline_.rank_ops += pass.device_ops;
    if (kRecord != Record::all && role.started && program_.merged &&
        is_undisturbed(role, pass.undisturbed)) {
      run_undisturbed(r, role, pass.undisturbed);
    } else if (kRecord == Record::account && role.started && program_.merged) {
      run_delayed(r, role, static_cast<size_t>(item.pass));
    } else if (role.started && kRecord == Record::nothing && program_.merged) {
      run_whole(role, pass.whole);
    } else if (role.started) {
      run_instructions<false>(r, role, pass);
    } else {
      run_instructions<true>(r, role, pass);
    }
  }

  static bool is_undisturbed(const RoleState& role, const UndisturbedPass& pass) {
    const int64_t t0 = role.stream[kCompute];
    if (pass.slack == PassStep::kNever || role.host > t0 + pass.slack) return false;
    return std::ranges::all_of(pass.ends, [&](const auto& end) {
      return role.stream[static_cast<size_t>(end.first)] <= t0;
    });
  }

  void run_undisturbed(uint32_t r, RoleState& role, const UndisturbedPass& pass) {
    const int64_t t0 = role.stream[kCompute];
    for (const auto& [stream, end] : pass.ends) role.stream[static_cast<size_t>(stream)] = t0 + end;
    role.host += pass.launch;
    if constexpr (kRecord != Record::nothing)
      for (const auto& [spend, ps] : pass.inside) book_inside(r, Stream::compute, spend, ps);
  }

  // Of those that the pass uses, and of the host.  Where the host launches each op in time, it does
  // not matter how early it is, nor when streams were done that were before t0 (UndisturbedPass):
  // of maxima in which such a time is not the largest, others only become larger by delays.
  static void find_delays(const RoleState& role, const CompiledPass& pass,
                          std::vector<int64_t>& delays) {
    const int64_t t0 = role.stream[kCompute], slack = pass.undisturbed.slack;
    const bool has_slack = slack != PassStep::kNever;
    delays.clear();
    for (const Stream s : pass.whole.streams) {
      const int64_t delay = role.stream[static_cast<size_t>(s)] - t0;
      delays.push_back(has_slack ? std::max(int64_t{0}, delay) : delay);
    }
    delays.push_back(has_slack ? std::max(slack, role.host - t0) : role.host - t0);
  }

  void run_delayed(uint32_t r, RoleState& role, size_t pass) {
    constexpr size_t kMostPassed = 16;
    const CompiledPass& compiled = program_.passes[pass];
    const std::vector<Stream>& streams = compiled.whole.streams;
    const int64_t t0 = role.stream[kCompute];
    SpendTable& inside = timeline_.roles[r].inside;
    find_delays(role, compiled, delays_);
    for (const PassedBefore& p : passed_[pass]) {
      if (p.delays != delays_) continue;
      for (size_t i = 0; i < streams.size(); ++i)
        role.stream[static_cast<size_t>(streams[i])] = t0 + p.ends[i];
      role.host += p.launch;
      for (const auto& [spend, time] : p.inside) inside[static_cast<size_t>(spend)] += time;
      return;
    }
    if (passed_[pass].size() == kMostPassed) {
      run_instructions<false>(r, role, compiled);
      return;
    }
    PassedBefore& p = passed_[pass].emplace_back();
    p.delays = delays_;
    p.launch = -role.host;
    const SpendTable before = inside;
    run_instructions<false>(r, role, compiled);
    p.launch += role.host;
    for (const Stream stream : streams)
      p.ends.push_back(role.stream[static_cast<size_t>(stream)] - t0);
    for (size_t spend = 0; spend < inside.size(); ++spend)
      if (inside[spend] != before[spend])
        p.inside.emplace_back(static_cast<Spend>(spend), inside[spend] - before[spend]);
  }

  static void run_whole(RoleState& role, const PassStep& whole) {
    const size_t streams = whole.streams.size();
    std::array<int64_t, kStreams + 1> before{};
    for (size_t i = 0; i < streams; ++i) {
      before[i] = role.stream[static_cast<size_t>(whole.streams[i])];
    }
    before[streams] = role.host;
    const int64_t* step = whole.step.data();
    for (size_t i = 0; i <= streams; ++i) {
      int64_t after = PassStep::kNever;
      for (size_t j = 0; j <= streams; ++j) after = std::max(after, *step++ + before[j]);
      (i < streams ? role.stream[static_cast<size_t>(whole.streams[i])] : role.host) = after;
    }
  }

  // kFirst: the compute stream of the role has run nothing yet.
  template <bool kFirst>
  void run_instructions(uint32_t r, RoleState& role, const CompiledPass& pass) {
    int64_t host = role.host;
    // The stream in use stays in a register: from one op to the next it is what everything waits
    // for, and a round through memory would more than double the cost of an op.
    Stream at = Stream::compute;
    int64_t stream = role.stream[kCompute];
    for (const Instruction& in : pass.code) {
      if (in.stream != at) {
        role.stream[static_cast<size_t>(at)] =
            std::exchange(stream, role.stream[static_cast<size_t>(in.stream)]);
        at = in.stream;
      }
      if (in.code == OpCode::wait) {
        const int64_t until = slot_[in.slot] + in.duration;
        if (until > stream) {
          if constexpr (kRecord != Record::nothing) {
            // What a wait adds to the end of the other op is the host's (op_graph.h).
            const int64_t waited = std::clamp(slot_[in.slot], stream, until);
            book_inside(r, in.stream, pass.slot_spend[in.slot], waited - stream);
            book_inside(r, in.stream, Spend::launch, until - waited);
          }
          stream = until;
        }
        continue;
      }
      if (kFirst && !role.started && in.stream == Stream::compute) {
        role.started = true;
        role.begin = std::max(stream, host + first_launch(r, role, in));
      }
      const int64_t ready = stream + in.duration;
      const int64_t end = std::max(ready, host + in.lead);
      host += in.launch;
      if constexpr (kRecord != Record::nothing) {
        book_inside(r, in.stream, Spend::launch, end - ready);
      }
      if constexpr (kRecord == Record::all) *role.next_start++ = Time{end - in.duration};
      stream = end;
      if (in.code != OpCode::run) mark(in, end);
    }
    role.stream[static_cast<size_t>(at)] = stream;
    role.host = host;
  }

  int64_t first_launch(uint32_t r, const RoleState& role, const Instruction& in) const {
    const Item& item = graph_.roles[r].items[role.item];
    const Op& op = graph_.passes[static_cast<size_t>(item.pass)].ops[in.op];
    return program_.launch_ps[static_cast<size_t>(op.launch)];
  }

  void mark(const Instruction& in, int64_t end) {
    const int64_t begin = end - in.duration;
    uint32_t slot = in.slot;
    if (in.code != OpCode::run_mark_start) slot_[slot++] = end;
    if (in.code != OpCode::run_mark_end) slot_[slot] = begin;
  }

  // Stand-stills inside a pass are many and explained at once: they are summed, not listed.
  void book_inside(uint32_t r, Stream stream, Spend spend, int64_t ps) {
    if (stream == Stream::compute)
      timeline_.roles[r].inside[static_cast<size_t>(spend)] += Time{ps};
  }

  void finish() {
    Timeline& out = timeline_;
    for (size_t r = 0; r < roles_.size(); ++r) {
      const RoleState& state = roles_[r];
      RoleTimeline& role = out.roles[r];
      role.compute_begin = Time{state.begin};
      role.compute_end = Time{state.stream[kCompute]};
      role.end = Time{*std::max_element(state.stream.begin(), state.stream.end())};
      out.makespan = std::max(out.makespan, role.end);
      out.span = std::max(out.span, role.end - role.compute_begin);
    }
    for (size_t i = 0; i < out.rendezvous.size(); ++i) {
      const RendezvousState& m = rendezvous_[i];
      out.rendezvous[i] = {Time{m.begin}, Time{m.begin + program_.rendezvous_ps[i]}, m.last_role,
                           m.last_item};
    }
  }

  const Program& program_;
  const OpGraph& graph_;
  std::vector<RoleState> roles_;
  std::vector<RendezvousState> rendezvous_;
  RoleQueue queue_;
  std::vector<std::vector<PassedBefore>> passed_;  // by pass
  std::vector<int64_t> delays_;                    // of the pass that is run
  // Ends (or starts) of waited-for ops of the pass being run; passes never stop half-way, so one
  // set serves all.
  std::vector<int64_t> slot_;
  Timeline timeline_;
};

}  // namespace

Timeline run(const Program& program, Record record) {
  switch (record) {
    case Record::nothing: return Engine<Record::nothing>(program).run();
    case Record::account: return Engine<Record::account>(program).run();
    case Record::all:
      STEPCAST_CHECK(!program.merged, "op starts are recorded from an unmerged program");
      return Engine<Record::all>(program).run();
  }
  return {};
}

}  // namespace stepcast
