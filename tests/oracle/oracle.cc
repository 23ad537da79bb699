// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/oracle.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tests/oracle/launch_time.h"

namespace stepcast::oracle {
namespace {

constexpr Time kNever = Time::max();

// One op instance.
struct Instance {
  uint32_t pass = 0;
  uint32_t op = 0;  // in the pass
  size_t base = 0;  // instance number of op 0 of the same run of the pass
  bool started = false;
  bool ended = false;
  Time start{}, end{};
};

// One entry of a stream's queue.
struct Task {
  enum class Kind { op, post, join, record, wait, sync } kind = Kind::op;
  size_t instance = 0;      // op
  uint32_t rendezvous = 0;  // post, join
  size_t stamp = 0;         // record, wait: which record of the role
  uint32_t item = 0;
};

struct StreamState {
  std::vector<Task> handed;  // everything handed over so far ...
  size_t done = 0;           // ... of which so many are dealt with
  bool running = false;      // the front of the queue is an op that has started
  Time dry{};                // when the stream last ran dry
};

bool is_empty(const StreamState& stream) {
  return stream.done == stream.handed.size();
}

const Task& front_of(const StreamState& stream) {
  return stream.handed[stream.done];
}

struct Stamp {
  bool made = false;
  Time at{};
};

struct HostState {
  uint32_t item = 0;             // next thing to hand over: this item ...
  uint32_t op = 0;               // ... and this op of its pass
  std::optional<Time> launched;  // busy with it until then
  bool in_sync = false;          // the marker of a sync has been handed over ...
  bool sync_passed = false;      // ... and dealt with by its stream
  bool in_join = false;          // the join has been handed over, its end is awaited
  size_t instance = 0;           // of the next op
};

struct RoleState {
  HostState host;
  std::array<StreamState, kStreams> streams;
  std::vector<Instance> instances;
  std::vector<Stamp> stamps;                  // one for each record item handed over
  std::vector<std::optional<size_t>> latest;  // event -> stamp of its last record
};

struct Machine {
  const OpGraph& graph;
  const Prices& prices;
  Time now{};
  std::vector<RoleState> roles;
  Times out;

  Time price(WorkId work) const { return prices.by_work[static_cast<size_t>(work)].time; }
};

Machine make_machine(const OpGraph& graph, const Prices& prices) {
  Machine m{graph, prices, {}, {}, {}};
  m.roles.resize(graph.roles.size());
  m.out.roles.resize(graph.roles.size());
  m.out.rendezvous.resize(graph.rendezvous.size());
  for (size_t r = 0; r < graph.roles.size(); ++r) {
    for (const Item& item : graph.roles[r].items) {
      if (item.kind == ItemKind::record || item.kind == ItemKind::wait) {
        const size_t needed = size_t{item.event} + 1;
        if (m.roles[r].latest.size() < needed) m.roles[r].latest.resize(needed);
      }
      if (item.kind != ItemKind::pass) continue;
      const auto pass = static_cast<uint32_t>(item.pass);
      const size_t base = m.roles[r].instances.size();
      for (uint32_t op = 0; op < graph.passes[pass].ops.size(); ++op)
        m.roles[r].instances.push_back({pass, op, base, false, false, {}, {}});
    }
  }
  return m;
}

// --- rendezvous ---------------------------------------------------------------------------------

void count_post(Machine& m, uint32_t role, uint32_t id) {
  RendezvousTimes& rendezvous = m.out.rendezvous[id];
  rendezvous.posts.push_back(m.now);
  rendezvous.roles.push_back(role);
  if (rendezvous.posts.size() != m.graph.rendezvous[id].parties) return;
  rendezvous.started = true;
  rendezvous.begin = m.now;
  rendezvous.end = m.now + m.price(m.graph.rendezvous[id].work);
}

bool has_ended(const Machine& m, uint32_t id) {
  const RendezvousTimes& rendezvous = m.out.rendezvous[id];
  return rendezvous.started && rendezvous.end <= m.now;
}

// --- streams ------------------------------------------------------------------------------------

// When the wait is satisfied, as far as is known now.
Time satisfied_at(const RoleState& role, const Instance& waiter, const Wait& wait) {
  const Instance& other = role.instances[waiter.base + wait.on];
  if (wait.from_start) return other.started ? other.start + wait.delay : kNever;
  return other.ended ? other.end + wait.delay : kNever;
}

// When all waits of the op are satisfied, as far as is known now.
Time ready_at(const Machine& m, const RoleState& role, const Instance& waiter) {
  Time ready{};
  for (const Wait& wait : m.graph.passes[waiter.pass].waits.of(waiter.op))
    ready = std::max(ready, satisfied_at(role, waiter, wait));
  return ready;
}

bool step_op(Machine& m, RoleState& role, StreamState& stream) {
  Instance& self = role.instances[front_of(stream).instance];
  if (!stream.running) {
    if (ready_at(m, role, self) > m.now) return false;
    self.started = true;
    self.start = m.now;
    const Op& op = m.graph.passes[self.pass].ops[self.op];
    self.end = m.now + m.price(op.work);
    stream.running = true;
    return true;
  }
  if (self.end > m.now) return false;
  self.ended = true;
  stream.running = false;
  stream.dry = self.end;
  ++stream.done;
  ++m.out.ops;
  return true;
}

// Deals with the front of the queue, if that is possible now.
bool step_stream(Machine& m, uint32_t r, StreamState& stream) {
  if (is_empty(stream)) return false;
  RoleState& role = m.roles[r];
  const Task task = front_of(stream);
  switch (task.kind) {
    case Task::Kind::op: return step_op(m, role, stream);
    case Task::Kind::post: count_post(m, r, task.rendezvous); break;
    case Task::Kind::join:
      if (!has_ended(m, task.rendezvous)) return false;
      stream.dry = std::max(stream.dry, m.out.rendezvous[task.rendezvous].end);
      break;
    case Task::Kind::record: role.stamps[task.stamp] = {true, stream.dry}; break;
    case Task::Kind::wait:
      if (!role.stamps[task.stamp].made) return false;
      stream.dry = std::max(stream.dry, role.stamps[task.stamp].at);
      break;
    case Task::Kind::sync: role.host.sync_passed = true; break;
  }
  ++stream.done;
  return true;
}

// --- host ---------------------------------------------------------------------------------------

void go_on(HostState& host) {
  ++host.item;
  host.op = 0;
  host.launched.reset();
  host.in_sync = host.sync_passed = host.in_join = false;
}

// Spends the launch cost; true once it is spent.
bool launch(const Machine& m, HostState& host, LaunchId id) {
  if (!host.launched) host.launched = m.now + launch_time(m.prices, id);
  return *host.launched <= m.now;
}

bool step_pass(Machine& m, uint32_t r, const Item& item) {
  RoleState& role = m.roles[r];
  const Pass& pass = m.graph.passes[static_cast<size_t>(item.pass)];
  if (role.host.op == pass.ops.size()) {
    go_on(role.host);
    return true;
  }
  const bool begun = role.host.launched.has_value();
  if (!launch(m, role.host, pass.ops[role.host.op].launch)) return !begun;
  const Op& op = pass.ops[role.host.op];
  role.streams[static_cast<size_t>(op.stream)].handed.push_back(
      {Task::Kind::op, role.host.instance++, 0, 0, role.host.item});
  role.host.launched.reset();
  ++role.host.op;
  return true;
}

bool step_join(Machine& m, RoleState& role, const Item& item) {
  const auto id = static_cast<uint32_t>(item.rendezvous);
  if (!role.host.in_join) {
    role.streams[static_cast<size_t>(item.stream)].handed.push_back(
        {Task::Kind::join, 0, id, 0, role.host.item});
    role.host.in_join = true;
    if (!item.host_waits) go_on(role.host);
    return true;
  }
  if (!has_ended(m, id)) return false;
  go_on(role.host);
  return true;
}

bool step_sync(RoleState& role, const Item& item) {
  if (!role.host.in_sync) {
    role.streams[static_cast<size_t>(item.stream)].handed.push_back(
        {Task::Kind::sync, 0, 0, 0, role.host.item});
    role.host.in_sync = true;
    return true;
  }
  if (!role.host.sync_passed) return false;
  go_on(role.host);
  return true;
}

// Lets the host of role `r` do its next thing, if that is possible now.
bool step_host(Machine& m, uint32_t r) {
  RoleState& role = m.roles[r];
  HostState& host = role.host;
  if (host.item == m.graph.roles[r].items.size()) return false;
  const Item& item = m.graph.roles[r].items[host.item];
  auto& queue = role.streams[static_cast<size_t>(item.stream)].handed;
  switch (item.kind) {
    case ItemKind::pass: return step_pass(m, r, item);
    case ItemKind::join: return step_join(m, role, item);
    case ItemKind::sync: return step_sync(role, item);
    case ItemKind::post: {
      const bool begun = host.launched.has_value();
      if (!launch(m, host, m.graph.rendezvous[static_cast<size_t>(item.rendezvous)].launch))
        return !begun;
      queue.push_back({Task::Kind::post, 0, static_cast<uint32_t>(item.rendezvous), 0, host.item});
      break;
    }
    case ItemKind::record:
      role.latest[item.event] = role.stamps.size();
      queue.push_back({Task::Kind::record, 0, 0, role.stamps.size(), host.item});
      role.stamps.emplace_back();
      break;
    case ItemKind::wait:
      if (const auto stamp = role.latest[item.event])
        queue.push_back({Task::Kind::wait, 0, 0, *stamp, host.item});
      break;
  }
  go_on(host);
  return true;
}

// --- clock --------------------------------------------------------------------------------------

bool step_anything(Machine& m) {
  bool moved = false;
  for (uint32_t r = 0; r < m.roles.size(); ++r) {
    while (step_host(m, r)) moved = true;
    for (StreamState& stream : m.roles[r].streams)
      while (step_stream(m, r, stream)) moved = true;
  }
  return moved;
}

// The next moment at which something is due; kNever if nothing is.
Time next_moment(const Machine& m) {
  Time next = kNever;
  const auto due = [&](Time t) {
    if (t > m.now) next = std::min(next, t);
  };
  for (const RoleState& role : m.roles) {
    if (role.host.launched) due(*role.host.launched);
    for (const StreamState& stream : role.streams) {
      if (is_empty(stream) || front_of(stream).kind != Task::Kind::op) continue;
      const Instance& front = role.instances[front_of(stream).instance];
      due(stream.running ? front.end : ready_at(m, role, front));
    }
  }
  for (const RendezvousTimes& rendezvous : m.out.rendezvous)
    if (rendezvous.started) due(rendezvous.end);
  return next;
}

// --- result -------------------------------------------------------------------------------------

// The first join of the role that was handed over and has not been passed, or is being waited for.
void find_blocked(Machine& m, uint32_t r) {
  std::optional<Blocked> first;
  const auto consider = [&](uint32_t item, uint32_t id) {
    if (!first || item < first->item) first = Blocked{r, item, RendezvousId{id}};
  };
  for (const StreamState& stream : m.roles[r].streams)
    if (!is_empty(stream) && front_of(stream).kind == Task::Kind::join)
      consider(front_of(stream).item, front_of(stream).rendezvous);
  if (first) m.out.blocked.push_back(*first);
}

void summarize(Machine& m, uint32_t r) {
  const RoleState& role = m.roles[r];
  RoleTimes& times = m.out.roles[r];
  times.first_start = kNever;
  times.compute_begin = kNever;
  for (const Instance& instance : role.instances) {
    times.op_start.push_back(instance.start);
    times.op_end.push_back(instance.end);
    if (!instance.ended) continue;
    times.first_start = std::min(times.first_start, instance.start);
    if (m.graph.passes[instance.pass].ops[instance.op].stream == Stream::compute)
      times.compute_begin = std::min(times.compute_begin, instance.start);
  }
  if (times.first_start == kNever) times.first_start = Time{};
  if (times.compute_begin == kNever) times.compute_begin = Time{};
  times.compute_end = role.streams[static_cast<size_t>(Stream::compute)].dry;
  for (const StreamState& stream : role.streams) times.end = std::max(times.end, stream.dry);
  m.out.makespan = std::max(m.out.makespan, times.end);
}

}  // namespace

Times play(const OpGraph& graph, const Prices& prices) {
  Machine m = make_machine(graph, prices);
  for (;;) {
    while (step_anything(m)) continue;
    const Time next = next_moment(m);
    if (next == kNever) break;
    m.now = next;
  }
  for (uint32_t r = 0; r < m.roles.size(); ++r) {
    find_blocked(m, r);
    summarize(m, r);
  }
  return std::move(m.out);
}

}  // namespace stepcast::oracle
