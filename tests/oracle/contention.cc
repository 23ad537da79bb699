// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/contention.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/oracle/flows.h"
#include "tests/oracle/launch_time.h"

namespace stepcast::oracle {
namespace {

__extension__ using Wide = __int128;
using Moment = int64_t;  // 1/4096 ps

constexpr int64_t kOne = 4096;
constexpr Moment kNever = INT64_MAX;

Moment ceil_ratio(Wide left, Wide rate) {
  return static_cast<Moment>((left + rate - 1) / rate);
}

// One op instance of one lane.
struct Instance {
  uint32_t pass = 0;
  uint32_t op = 0;
  size_t base = 0;  // instance number of op 0 of the same run of the pass
  bool started = false, ended = false, arrived = false;
  Moment start = 0, end = 0;
  Wide target = 0;   // compute: progress at which it ends
  int64_t pace = 0;  // slowness that `target` or `end` counts on
};

struct Task {
  enum class Kind { op, post, join, record, wait, sync } kind = Kind::op;
  size_t instance = 0;      // op
  uint32_t rendezvous = 0;  // post, join
  size_t stamp = 0;         // record, wait
  Moment handed = 0;
};

struct StreamState {
  std::vector<Task> handed;
  size_t done = 0;
  bool running = false;
  Moment dry = 0;
  bool exact = false;  // it ran dry at progress `exact_end`, by the end of an op
  Wide exact_end = 0;

  bool empty() const { return done == handed.size(); }
  const Task& front() const { return handed[done]; }
};

struct Stamp {
  bool made = false;
  Moment at = 0;
};

struct HostState {
  uint32_t item = 0, op = 0;
  std::optional<Moment> launched;
  bool in_sync = false, sync_passed = false, in_join = false;
  size_t instance = 0;
};

struct Rank {
  uint32_t role = 0;
  int64_t lane = 0;
  HostState host;
  std::array<StreamState, kStreams> streams;
  std::vector<Instance> instances;
  std::vector<Stamp> stamps;
  std::vector<std::optional<size_t>> latest;
  Wide progress = 0;
  bool communicates = false, computes = false;  // from this moment to the next
};

// A collective or transfer of one group.
struct Communication {
  WorkId work{};
  std::vector<size_t> ranks;
  size_t arrived = 0, needed = 0;
  bool begun = false, ended = false;
  Moment begin = 0, end = 0;
  bool flows = false;     // over shared links, after its latency
  Moment moves_from = 0;  // end of the latency
  int64_t price = 0;      // that `left` or `cap` counts on
  Wide left = 0;          // 10^-12 bytes times 4096, or units of its price
  int64_t cap = 0;        // flow: rate alone
  const std::vector<LinkUse>* uses = nullptr;
  int64_t rate = 0;  // from this moment to the next
};

struct Machine {
  const OpGraph& graph;
  const Prices& prices;
  const LaneSet& lanes;
  const Traffic& traffic;
  int64_t slow_compute, slow_communication;  // 1/4096
  FactorOf factor = nullptr;
  Moment now = 0;
  int64_t width = 1;
  std::vector<Rank> ranks;  // role by role
  // In a pass: (role, instance, group); rendezvous: (roles + id, 0, group).
  std::map<std::tuple<size_t, size_t, int64_t>, Communication> communications;
};

const Work& work_of(const Machine& m, WorkId id) {
  return m.graph.works[static_cast<size_t>(id)];
}

int64_t price_of(const Machine& m, WorkId id) {
  return m.prices.by_work[static_cast<size_t>(id)].time.count();
}

// The lowest lane of the group that `lane` is in.
int64_t group_of(const Machine& m, Axis axis, int64_t lane) {
  int64_t group = 0, stride = 1;
  for (const LaneDigit& d : m.lanes.digits) {
    if (!covers(axis, d)) group += (lane / stride) % d.size * stride;
    stride *= d.size;
  }
  return group;
}

// --- communication ------------------------------------------------------------------------------

std::vector<size_t> ranks_of(const Machine& m, const std::set<uint32_t>& roles, Axis axis,
                             int64_t group) {
  std::vector<size_t> ranks;
  for (const uint32_t r : roles) {
    for (int64_t l = 0; l < m.width; ++l) {
      if (group_of(m, axis, l) == group) {
        ranks.push_back(r * static_cast<size_t>(m.width) + static_cast<size_t>(l));
      }
    }
  }
  return ranks;
}

// Roles that post (and those that join) a rendezvous.
std::set<uint32_t> roles_of(const OpGraph& graph, uint32_t id, bool joins_too) {
  std::set<uint32_t> roles;
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    for (const Item& item : graph.roles[r].items) {
      const bool names = item.kind == ItemKind::post || (joins_too && item.kind == ItemKind::join);
      if (names && static_cast<uint32_t>(item.rendezvous) == id) roles.insert(r);
    }
  }
  return roles;
}

Communication& collective_of(Machine& m, const Rank& rank, size_t instance, WorkId work) {
  const Axis axis = work_of(m, work).axis;
  const int64_t group = group_of(m, axis, rank.lane);
  Communication& comm = m.communications[{rank.role, instance, group}];
  if (comm.needed == 0) {
    comm.work = work;
    comm.ranks = ranks_of(m, {rank.role}, axis, group);
    comm.needed = comm.ranks.size();
  }
  return comm;
}

Communication& rendezvous_of(Machine& m, uint32_t id, int64_t lane) {
  const WorkId work = m.graph.rendezvous[id].work;
  const Axis axis = work_of(m, work).axis;
  const int64_t group = group_of(m, axis, lane);
  Communication& comm = m.communications[{m.graph.roles.size() + id, 0, group}];
  if (comm.needed == 0) {
    comm.work = work;
    comm.needed = ranks_of(m, roles_of(m.graph, id, false), axis, group).size();
    comm.ranks = ranks_of(m, roles_of(m.graph, id, true), axis, group);
    // The sender's first, for the pattern.
    const std::set<uint32_t> posts = roles_of(m.graph, id, false);
    uint32_t sender = *posts.begin();
    for (const uint32_t r : posts) {
      if (m.graph.roles[r].pipeline_rank == work_of(m, work).from) {
        sender = r;
        break;
      }
    }
    std::stable_partition(comm.ranks.begin(), comm.ranks.end(),
                          [&](size_t r) { return m.ranks[r].role == sender; });
  }
  return comm;
}

bool holds(const Machine& m, const LaneWindow& w) {
  return w.from.count() * kOne <= m.now && m.now < w.until.count() * kOne;
}

// As of this moment.
int64_t price_of_group(const Machine& m, const Communication& comm) {
  const auto axis = static_cast<size_t>(work_of(m, comm.work).axis);
  const auto& classes = m.lanes.group_class[axis];
  uint8_t joined = 0;
  for (const size_t r : comm.ranks) {
    const Rank& rank = m.ranks[r];
    if (!classes.empty() && !classes[rank.role].empty()) {
      joined = m.lanes.joined(joined, classes[rank.role][static_cast<size_t>(rank.lane)]);
    }
    for (const LaneWindow& w : m.lanes.windows_of(rank.role, rank.lane)) {
      if (holds(m, w)) joined = m.lanes.joined(joined, w.link_class[axis]);
    }
  }
  if (joined == 0) return price_of(m, comm.work);
  return m.lanes.class_ps[joined - size_t{1}][static_cast<size_t>(comm.work)];
}

int64_t slowness_of(const Machine& m, const Rank& rank, size_t instance) {
  int64_t slowness = kOne;
  if (!m.lanes.slowness.empty() && !m.lanes.slowness[rank.role].empty()) {
    slowness = m.lanes.slowness[rank.role][static_cast<size_t>(rank.lane)];
  }
  int64_t most = 0;
  for (const LaneWindow& w : m.lanes.windows_of(rank.role, rank.lane)) {
    if (w.slowness != kOne && holds(m, w)) most = std::max<int64_t>(most, w.slowness);
  }
  if (most > 0) slowness = (slowness * most + kOne / 2) / kOne;
  if (m.factor == nullptr || !m.lanes.jitter) return slowness;
  return (slowness * m.factor(m.lanes, rank.role, rank.lane, instance) + kOne / 2) / kOne;
}

// What is left in units, `alone` of which pass in a moment: at another pace, whole moments of it.
Wide rescaled(Wide left, int64_t from, int64_t to, int64_t alone) {
  if (left <= 0 || from == to) return left;
  return left * to / (Wide{from} * alone) * alone;
}

int64_t cap_of(const Machine& m, const Communication& comm) {
  const Wide bytes = Wide{work_of(m, comm.work).bytes.value} * 1'000'000'000'000;
  const int64_t latency = m.traffic.latency[static_cast<size_t>(comm.work)].count();
  const Wide moving = std::max<int64_t>(1, comm.price - latency);
  return static_cast<int64_t>(std::max<Wide>(1, bytes / moving));
}

void begin_communication(Machine& m, Communication& comm) {
  comm.begun = true;
  comm.begin = comm.moves_from = m.now;
  const auto work = static_cast<size_t>(comm.work);
  comm.price = price_of_group(m, comm);
  const int64_t bytes = work_of(m, comm.work).bytes.value;
  comm.left = Wide{comm.price} * kOne * m.slow_communication;
  if (work >= m.traffic.pattern_of.size() || m.traffic.pattern_of[work].empty()) return;
  const uint32_t pattern = m.traffic.pattern_of[work][comm.ranks.front()];
  const int64_t latency = m.traffic.latency[work].count();
  if (pattern == Traffic::kPrivate || bytes <= 0 || latency >= comm.price) return;
  comm.flows = true;
  comm.uses = &m.traffic.patterns[pattern];
  comm.moves_from = m.now + latency * kOne;
  comm.left = Wide{bytes} * 1'000'000'000'000 * kOne;
  comm.cap = cap_of(m, comm);
}

bool arrive(Machine& m, Communication& comm) {
  if (++comm.arrived == comm.needed) begin_communication(m, comm);
  return true;
}

// --- streams ------------------------------------------------------------------------------------

bool follows_anyway(const Pass& pass, const Wait& wait) {
  return pass.ops[wait.op].stream == pass.ops[wait.on].stream && wait.delay.count() == 0;
}

Moment satisfied_at(const Rank& rank, const Instance& waiter, const Wait& wait) {
  const Instance& other = rank.instances[waiter.base + wait.on];
  const Moment delay = wait.delay.count() * kOne;
  if (wait.from_start) return other.started ? other.start + delay : kNever;
  return other.ended ? other.end + delay : kNever;
}

// When the op may start as far as all but its own stream is concerned.
Moment ready_at(const Machine& m, const Rank& rank, const Task& task, bool all_waits) {
  const Instance& self = rank.instances[task.instance];
  const Pass& pass = m.graph.passes[self.pass];
  Moment ready = task.handed;
  for (const Wait& wait : pass.waits.of(self.op)) {
    if (all_waits || !follows_anyway(pass, wait)) {
      ready = std::max(ready, satisfied_at(rank, self, wait));
    }
  }
  return ready;
}

void end_op(Machine& m, StreamState& stream, Instance& self) {
  self.ended = true;
  self.end = m.now;
  stream.running = false;
  stream.dry = m.now;
  stream.exact = false;
  ++stream.done;
}

bool step_talking_op(Machine& m, Rank& rank, StreamState& stream, Instance& self, WorkId work) {
  if (!self.arrived) {
    if (ready_at(m, rank, stream.front(), true) > m.now) return false;
    self.arrived = true;
    return arrive(m, collective_of(m, rank, stream.front().instance, work));
  }
  const Communication& comm = collective_of(m, rank, stream.front().instance, work);
  if (comm.begun && !self.started) {
    self.started = true;
    self.start = comm.begin;
    return true;
  }
  if (!comm.ended) return false;
  end_op(m, stream, self);
  return true;
}

bool step_computing_op(Machine& m, Rank& rank, StreamState& stream, Instance& self, const Op& op) {
  const bool coupled = op.stream == Stream::compute;
  if (!self.started) {
    if (ready_at(m, rank, stream.front(), true) > m.now) return false;
    const bool goes_on =
        stream.exact && stream.dry == m.now && ready_at(m, rank, stream.front(), false) < m.now;
    self.started = stream.running = true;
    self.start = m.now;
    self.pace = slowness_of(m, rank, stream.front().instance);
    const Moment alone = price_of(m, op.work) * self.pace;
    self.end = m.now + alone;
    self.target = (goes_on ? stream.exact_end : rank.progress) + Wide{alone} * m.slow_compute;
    return true;
  }
  if (coupled ? rank.progress < self.target : m.now < self.end) return false;
  end_op(m, stream, self);
  stream.exact = coupled;
  stream.exact_end = self.target;
  return true;
}

bool step_op(Machine& m, Rank& rank, StreamState& stream) {
  Instance& self = rank.instances[stream.front().instance];
  const Op& op = m.graph.passes[self.pass].ops[self.op];
  if (is_communication(work_of(m, op.work).kind)) {
    return step_talking_op(m, rank, stream, self, op.work);
  }
  return step_computing_op(m, rank, stream, self, op);
}

// The stream goes on no earlier than `at`.
void hold(StreamState& stream, Moment at) {
  if (at < stream.dry) return;
  stream.dry = at;
  stream.exact = false;
}

bool step_stream(Machine& m, Rank& rank, StreamState& stream) {
  if (stream.empty()) return false;
  const Task task = stream.front();
  switch (task.kind) {
    case Task::Kind::op: return step_op(m, rank, stream);
    case Task::Kind::post: arrive(m, rendezvous_of(m, task.rendezvous, rank.lane)); break;
    case Task::Kind::join: {
      const Communication& comm = rendezvous_of(m, task.rendezvous, rank.lane);
      if (!comm.ended) return false;
      hold(stream, comm.end);
      break;
    }
    case Task::Kind::record: rank.stamps[task.stamp] = {true, stream.dry}; break;
    case Task::Kind::wait:
      if (!rank.stamps[task.stamp].made) return false;
      hold(stream, rank.stamps[task.stamp].at);
      break;
    case Task::Kind::sync: rank.host.sync_passed = true; break;
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
  if (!host.launched) host.launched = m.now + launch_time(m.prices, id).count() * kOne;
  return *host.launched <= m.now;
}

bool step_pass(Machine& m, Rank& rank, const Item& item) {
  const Pass& pass = m.graph.passes[static_cast<size_t>(item.pass)];
  if (rank.host.op == pass.ops.size()) {
    go_on(rank.host);
    return true;
  }
  const bool begun = rank.host.launched.has_value();
  if (!launch(m, rank.host, pass.ops[rank.host.op].launch)) return !begun;
  rank.streams[static_cast<size_t>(pass.ops[rank.host.op].stream)].handed.push_back(
      {Task::Kind::op, rank.host.instance++, 0, 0, m.now});
  rank.host.launched.reset();
  ++rank.host.op;
  return true;
}

bool step_join(Machine& m, Rank& rank, const Item& item) {
  const auto id = static_cast<uint32_t>(item.rendezvous);
  if (!rank.host.in_join) {
    rank.streams[static_cast<size_t>(item.stream)].handed.push_back(
        {Task::Kind::join, 0, id, 0, m.now});
    rank.host.in_join = true;
    if (!item.host_waits) go_on(rank.host);
    return true;
  }
  if (!rendezvous_of(m, id, rank.lane).ended) return false;
  go_on(rank.host);
  return true;
}

bool step_sync(Machine& m, Rank& rank, const Item& item) {
  if (!rank.host.in_sync) {
    rank.streams[static_cast<size_t>(item.stream)].handed.push_back(
        {Task::Kind::sync, 0, 0, 0, m.now});
    rank.host.in_sync = true;
    return true;
  }
  if (!rank.host.sync_passed) return false;
  go_on(rank.host);
  return true;
}

bool step_host(Machine& m, Rank& rank) {
  HostState& host = rank.host;
  const std::vector<Item>& items = m.graph.roles[rank.role].items;
  if (host.item == items.size()) return false;
  const Item& item = items[host.item];
  std::vector<Task>& queue = rank.streams[static_cast<size_t>(item.stream)].handed;
  switch (item.kind) {
    case ItemKind::pass: return step_pass(m, rank, item);
    case ItemKind::join: return step_join(m, rank, item);
    case ItemKind::sync: return step_sync(m, rank, item);
    case ItemKind::post: {
      const bool begun = host.launched.has_value();
      if (!launch(m, host, m.graph.rendezvous[static_cast<size_t>(item.rendezvous)].launch))
        return !begun;
      queue.push_back({Task::Kind::post, 0, static_cast<uint32_t>(item.rendezvous), 0, m.now});
      break;
    }
    case ItemKind::record:
      rank.latest[item.event] = rank.stamps.size();
      queue.push_back({Task::Kind::record, 0, 0, rank.stamps.size(), m.now});
      rank.stamps.emplace_back();
      break;
    case ItemKind::wait:
      if (const auto stamp = rank.latest[item.event]) {
        queue.push_back({Task::Kind::wait, 0, 0, *stamp, m.now});
      }
      break;
  }
  go_on(host);
  return true;
}

// --- clock --------------------------------------------------------------------------------------

bool step_anything(Machine& m) {
  bool moved = false;
  for (auto& [key, comm] : m.communications) {
    if (!comm.begun || comm.ended || comm.moves_from > m.now || comm.left > 0) continue;
    comm.ended = true;
    comm.end = m.now;
    moved = true;
  }
  for (Rank& rank : m.ranks) {
    while (step_host(m, rank)) moved = true;
    for (StreamState& stream : rank.streams) {
      while (step_stream(m, rank, stream)) moved = true;
    }
  }
  return moved;
}

bool is_computing(const Machine& m, const Rank& rank) {
  const StreamState& stream = rank.streams[static_cast<size_t>(Stream::compute)];
  if (stream.empty() || !stream.running) return false;
  const Instance& self = rank.instances[stream.front().instance];
  return !is_communication(work_of(m, m.graph.passes[self.pass].ops[self.op].work).kind);
}

// All rates from this moment on.
void find_rates(Machine& m) {
  for (Rank& rank : m.ranks) {
    rank.computes = is_computing(m, rank);
    rank.communicates = false;
  }
  std::vector<FairFlow> flows;
  std::vector<Communication*> moving;
  for (auto& [key, comm] : m.communications) {
    if (!comm.begun || comm.ended) continue;
    bool slowed = false;
    for (const size_t r : comm.ranks) {
      m.ranks[r].communicates = true;
      slowed = slowed || m.ranks[r].computes;
    }
    comm.rate = slowed ? kOne : m.slow_communication;
    if (!comm.flows || comm.moves_from > m.now) continue;
    const Wide slow_cap = std::max<Wide>(1, Wide{comm.cap} * kOne / m.slow_communication);
    flows.push_back({slowed ? static_cast<int64_t>(slow_cap) : comm.cap, *comm.uses});
    moving.push_back(&comm);
  }
  const std::vector<int64_t> rates = fair_rates(m.traffic.capacity, flows);
  for (size_t i = 0; i < rates.size(); ++i) moving[i]->rate = rates[i];
}

int64_t compute_rate(const Machine& m, const Rank& rank) {
  return rank.communicates ? kOne : m.slow_compute;
}

Moment next_moment(const Machine& m) {
  Moment next = kNever;
  const auto due = [&](Moment t) {
    if (t > m.now) next = std::min(next, t);
  };
  for (const Rank& rank : m.ranks) {
    if (rank.host.launched) due(*rank.host.launched);
    for (const StreamState& stream : rank.streams) {
      if (stream.empty() || stream.front().kind != Task::Kind::op) continue;
      const Instance& front = rank.instances[stream.front().instance];
      if (!stream.running) {
        if (!front.arrived) due(ready_at(m, rank, stream.front(), true));
      } else if (&stream == rank.streams.data() + static_cast<size_t>(Stream::compute)) {
        due(m.now + ceil_ratio(front.target - rank.progress, compute_rate(m, rank)));
      } else {
        due(front.end);
      }
    }
  }
  for (const std::vector<LaneWindow>& windows : m.lanes.window_lists) {
    for (const LaneWindow& w : windows) {
      due(w.from.count() * kOne);
      due(w.until.count() * kOne);
    }
  }
  for (const auto& [key, comm] : m.communications) {
    if (!comm.begun || comm.ended) continue;
    due(comm.moves_from > m.now ? comm.moves_from : m.now + ceil_ratio(comm.left, comm.rate));
  }
  return next;
}

// Where a window begins or ends at this moment, what runs goes on at another pace.
void change_windows(Machine& m) {
  for (Rank& rank : m.ranks) {
    for (StreamState& stream : rank.streams) {
      if (stream.empty() || !stream.running) continue;
      const size_t instance = stream.front().instance;
      Instance& self = rank.instances[instance];
      const int64_t pace = slowness_of(m, rank, instance);
      self.target =
          rank.progress + rescaled(self.target - rank.progress, self.pace, pace, m.slow_compute);
      self.end = m.now + static_cast<Moment>(rescaled(self.end - m.now, self.pace, pace, 1));
      self.pace = pace;
    }
  }
  for (auto& [key, comm] : m.communications) {
    if (!comm.begun || comm.ended) continue;
    const int64_t price = price_of_group(m, comm);
    if (!comm.flows) comm.left = rescaled(comm.left, comm.price, price, m.slow_communication);
    comm.price = price;
    if (comm.flows) comm.cap = cap_of(m, comm);
  }
}

void move_clock(Machine& m, Moment to) {
  const Moment dt = to - m.now;
  for (Rank& rank : m.ranks) rank.progress += Wide{dt} * compute_rate(m, rank);
  for (auto& [key, comm] : m.communications) {
    if (comm.begun && !comm.ended && comm.moves_from <= m.now) comm.left -= Wide{dt} * comm.rate;
  }
  m.now = to;
  change_windows(m);
}

Machine make_machine(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                     const Traffic& traffic, const Interference& interference) {
  const auto whole = [](double x) { return static_cast<int64_t>(x * kOne + 0.5); };
  Machine m{graph,
            prices,
            lanes,
            traffic,
            whole(interference.compute),
            whole(interference.communication),
            nullptr,
            0,
            1,
            {},
            {}};
  for (const LaneDigit& d : lanes.digits) m.width *= d.size;
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    Rank rank;
    rank.role = r;
    for (const Item& item : graph.roles[r].items) {
      if (item.kind == ItemKind::record || item.kind == ItemKind::wait) {
        rank.latest.resize(std::max(rank.latest.size(), size_t{item.event} + 1));
      }
      if (item.kind != ItemKind::pass) continue;
      const auto pass = static_cast<uint32_t>(item.pass);
      const size_t base = rank.instances.size();
      for (uint32_t op = 0; op < graph.passes[pass].ops.size(); ++op) {
        Instance instance;
        instance.pass = pass;
        instance.op = op;
        instance.base = base;
        rank.instances.push_back(instance);
      }
    }
    for (int64_t l = 0; l < m.width; ++l) {
      rank.lane = l;
      m.ranks.push_back(rank);
    }
  }
  return m;
}

bool is_done(const Machine& m, const Rank& rank) {
  return rank.host.item == m.graph.roles[rank.role].items.size() &&
         std::ranges::all_of(rank.streams, [](const StreamState& s) { return s.empty(); });
}

}  // namespace

ContendedTimes play_contended(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                              const Traffic& traffic, const Interference& interference,
                              FactorOf factor) {
  Machine m = make_machine(graph, prices, lanes, traffic, interference);
  m.factor = factor;
  for (;;) {
    while (step_anything(m)) continue;
    find_rates(m);
    const Moment next = next_moment(m);
    if (next == kNever) break;
    move_clock(m, next);
  }
  ContendedTimes out;
  out.end.resize(graph.roles.size());
  for (const Rank& rank : m.ranks) {
    Moment end = 0;
    for (const StreamState& stream : rank.streams) end = std::max(end, stream.dry);
    out.end[rank.role].push_back(end);
    out.stuck = out.stuck || !is_done(m, rank);
  }
  return out;
}

}  // namespace stepcast::oracle
