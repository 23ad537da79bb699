// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/lane_oracle.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "tests/oracle/launch_time.h"

namespace stepcast::oracle {
namespace {

using Moment = int64_t;
constexpr Moment kNever = std::numeric_limits<Moment>::max();

struct OpRun {
  uint32_t pass = 0, op = 0;
  size_t base = 0;  // number of op 0 of the same run of the pass
  uint32_t item = 0;
  bool arrived = false, started = false, ended = false;
  Moment start = 0, end = 0;
  Moment at = 0, left = 0;  // as of `at`, so much was left ...
  int64_t pace = 0;         // ... at this slowness or price
};

struct Task {
  enum class Kind { op, post, join, record, wait, sync } kind = Kind::op;
  size_t run = 0;           // op
  uint32_t rendezvous = 0;  // post, join
  size_t stamp = 0;         // record, wait
};

struct Queue {
  std::vector<Task> tasks;
  size_t done = 0;
  Moment dry = 0;
};

struct Host {
  uint32_t item = 0, op = 0;
  std::optional<Moment> launched;
  bool in_sync = false, synced = false, in_join = false;
  size_t run = 0;
};

// One lane of one role.
struct Rank {
  uint32_t role = 0;
  int64_t lane = 0;
  Host host;
  std::array<Queue, kStreams> queues;
  std::vector<OpRun> runs;
  std::vector<std::optional<Moment>> stamps;
  std::map<uint32_t, size_t> latest;  // event -> its last stamp
};

// A rendezvous of one group of lanes.
struct GroupState {
  size_t posts = 0;
  bool started = false, ended = false;
  Moment at = 0, left = 0, end = 0;
  int64_t pace = 0;
};

struct World {
  const OpGraph& graph;
  const Prices& prices;
  const LaneSet& lanes;
  FactorOf factor = nullptr;
  Moment now = 0;
  std::vector<Rank> ranks;
  std::vector<std::map<int64_t, GroupState>> groups_at;  // [rendezvous][group]
  std::vector<std::vector<uint32_t>> ends;               // roles that post or join it
  // Collectives of passes: how many lanes have arrived, by role, group and op instance.
  std::map<std::tuple<uint32_t, int64_t, size_t>, int64_t> arrivals;
  int64_t ops = 0;

  const Work& work(WorkId id) const { return graph.works[static_cast<size_t>(id)]; }
};

// --- lanes --------------------------------------------------------------------------------------

bool in_group(Axis group, const LaneDigit& digit) {
  if (group == Axis::model) return digit.axis == Axis::tp;
  if (group == Axis::data) return digit.axis == Axis::cp || digit.axis == Axis::dp;
  return group == digit.axis || group == digit.expert || group == digit.sharded;
}

// The digits of the lane that the group does not cover, as one number.
int64_t group_of(const LaneSet& lanes, Axis axis, int64_t lane) {
  int64_t group = 0;
  for (const LaneDigit& d : lanes.digits) {
    if (!in_group(axis, d)) group = group * d.size + lane % d.size;
    lane /= d.size;
  }
  return group;
}

int64_t group_size(const LaneSet& lanes, Axis axis) {
  int64_t n = 1;
  for (const LaneDigit& d : lanes.digits)
    if (in_group(axis, d)) n *= d.size;
  return n;
}

bool holds(const LaneWindow& w, Moment now) {
  return w.from.count() * 4096 <= now && now < w.until.count() * 4096;
}

int64_t slowness_now(const World& w, const Rank& rank, uint64_t instance) {
  int64_t own = 4096;
  if (!w.lanes.slowness.empty() && !w.lanes.slowness[rank.role].empty())
    own = w.lanes.slowness[rank.role][static_cast<size_t>(rank.lane)];
  int64_t most = 0;
  for (const LaneWindow& window : w.lanes.windows_of(rank.role, rank.lane))
    if (window.slowness != 4096 && holds(window, w.now))
      most = std::max<int64_t>(most, window.slowness);
  if (most > 0) own = (own * most + 2048) / 4096;
  if (w.lanes.jitter) own = (own * w.factor(w.lanes, rank.role, rank.lane, instance) + 2048) / 4096;
  return own;
}

// What the work costs now in the group of `lane`, which has lanes of these roles.
int64_t price_now(const World& w, WorkId id, const std::vector<uint32_t>& roles, int64_t lane) {
  const Axis axis = w.work(id).axis;
  std::set<uint8_t> present;
  const auto& given = w.lanes.group_class[static_cast<size_t>(axis)];
  for (const uint32_t role : roles) {
    for (int64_t other = 0; other < w.lanes.lanes(); ++other) {
      if (group_of(w.lanes, axis, other) != group_of(w.lanes, axis, lane)) continue;
      if (!given.empty() && !given[role].empty())
        present.insert(given[role][static_cast<size_t>(other)]);
      for (const LaneWindow& window : w.lanes.windows_of(role, other))
        if (holds(window, w.now)) present.insert(window.link_class[static_cast<size_t>(axis)]);
    }
  }
  // From the last to the first: in which order they are joined must not matter.
  const size_t classes = w.lanes.class_ps.size() + 1;
  size_t link_class = 0;
  for (auto it = present.rbegin(); it != present.rend(); ++it)
    link_class = w.lanes.join.empty() ? std::max<size_t>(link_class, *it)
                                      : w.lanes.join[link_class * classes + *it];
  const auto i = static_cast<size_t>(id);
  return link_class == 0 ? w.prices.by_work[i].time.count() : w.lanes.class_ps[link_class - 1][i];
}

// Brings what is left to this moment, and to the pace of this moment.
void change_pace(Moment now, Moment& at, Moment& left, int64_t& pace, int64_t new_pace) {
  left -= now - at;
  at = now;
  if (left <= 0 || new_pace == pace) return;
  left = static_cast<Moment>(static_cast<__int128>(left) * new_pace / pace);
  pace = new_pace;
}

// --- start --------------------------------------------------------------------------------------

World make_world(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                 FactorOf factor) {
  World w{graph, prices, lanes, factor, 0, {}, {}, {}, {}, 0};
  w.groups_at.resize(graph.rendezvous.size());
  w.ends.resize(graph.rendezvous.size());
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    Rank rank;
    rank.role = role;
    const std::vector<Item>& items = graph.roles[role].items;
    for (uint32_t i = 0; i < items.size(); ++i) {
      if (items[i].kind == ItemKind::post || items[i].kind == ItemKind::join)
        w.ends[static_cast<size_t>(items[i].rendezvous)].push_back(role);
      if (items[i].kind != ItemKind::pass) continue;
      const auto pass = static_cast<uint32_t>(items[i].pass);
      const size_t base = rank.runs.size();
      for (uint32_t op = 0; op < graph.passes[pass].ops.size(); ++op) {
        OpRun run;
        run.pass = pass;
        run.op = op;
        run.base = base;
        run.item = i;
        rank.runs.push_back(run);
      }
    }
    for (rank.lane = 0; rank.lane < lanes.lanes(); ++rank.lane) w.ranks.push_back(rank);
  }
  return w;
}

// --- rendezvous ---------------------------------------------------------------------------------

GroupState& group_state(World& w, const Rank& rank, uint32_t id) {
  const Axis axis = w.work(w.graph.rendezvous[id].work).axis;
  return w.groups_at[id][group_of(w.lanes, axis, rank.lane)];
}

void count_post(World& w, const Rank& rank, uint32_t id) {
  const Rendezvous& rendezvous = w.graph.rendezvous[id];
  GroupState& m = group_state(w, rank, id);
  const auto lanes = group_size(w.lanes, w.work(rendezvous.work).axis);
  if (++m.posts < rendezvous.parties * static_cast<size_t>(lanes)) return;
  m.started = true;
  m.at = w.now;
  m.pace = price_now(w, rendezvous.work, w.ends[id], rank.lane);
  m.left = m.pace * 4096;
}

// --- streams ------------------------------------------------------------------------------------

Moment ready_at(const World& w, const Rank& rank, const OpRun& run) {
  Moment ready = 0;
  for (const Wait& wait : w.graph.passes[run.pass].waits.of(run.op)) {
    const OpRun& other = rank.runs[run.base + wait.on];
    if (!(wait.from_start ? other.started : other.ended)) return kNever;
    const Moment from = wait.from_start ? other.start : other.end;
    ready = std::max(ready, from + wait.delay.count() * 4096);
  }
  return ready;
}

const Op& op_of(const World& w, const OpRun& run) {
  return w.graph.passes[run.pass].ops[run.op];
}

// Slowness or price that an op has now, times 4096 of which its length is made.
int64_t pace_now(const World& w, const Rank& rank, size_t number) {
  const Op& op = op_of(w, rank.runs[number]);
  if (w.work(op.work).kind < WorkKind::all_reduce) return slowness_now(w, rank, number);
  return price_now(w, op.work, {rank.role}, rank.lane);
}

bool start_op(World& w, Rank& rank, size_t number) {
  OpRun& run = rank.runs[number];
  if (ready_at(w, rank, run) > w.now) return false;
  const Op& op = op_of(w, run);
  const bool collective = w.work(op.work).kind >= WorkKind::all_reduce;
  if (collective) {
    const Axis axis = w.work(op.work).axis;
    int64_t& here = w.arrivals[{rank.role, group_of(w.lanes, axis, rank.lane), number}];
    if (!run.arrived) ++here;
    const bool news = !std::exchange(run.arrived, true);
    if (here < group_size(w.lanes, axis)) return news;
  }
  run.started = true;
  run.start = run.at = w.now;
  run.pace = pace_now(w, rank, number);
  const int64_t length =
      collective ? 4096 : w.prices.by_work[static_cast<size_t>(op.work)].time.count();
  run.left = run.pace * length;
  return true;
}

bool step_queue(World& w, Rank& rank, Queue& queue) {
  if (queue.done == queue.tasks.size()) return false;
  const Task task = queue.tasks[queue.done];
  switch (task.kind) {
    case Task::Kind::op: {
      OpRun& run = rank.runs[task.run];
      if (!run.started) return start_op(w, rank, task.run);
      if (run.at + run.left > w.now) return false;
      run.ended = true;
      run.end = queue.dry = run.at + run.left;
      ++w.ops;
      break;
    }
    case Task::Kind::post: count_post(w, rank, task.rendezvous); break;
    case Task::Kind::join: {
      const GroupState& m = group_state(w, rank, task.rendezvous);
      if (!m.started || m.at + m.left > w.now) return false;
      queue.dry = std::max(queue.dry, m.at + m.left);
      break;
    }
    case Task::Kind::record: rank.stamps[task.stamp] = queue.dry; break;
    case Task::Kind::wait:
      if (!rank.stamps[task.stamp]) return false;
      queue.dry = std::max(queue.dry, *rank.stamps[task.stamp]);
      break;
    case Task::Kind::sync: rank.host.synced = true; break;
  }
  ++queue.done;
  return true;
}

// --- host ---------------------------------------------------------------------------------------

void next_item(Host& host) {
  ++host.item;
  host.op = 0;
  host.launched.reset();
  host.in_sync = host.synced = host.in_join = false;
}

// True once the launch has been paid for.
bool launch(const World& w, Host& host, LaunchId id) {
  if (!host.launched) host.launched = w.now + launch_time(w.prices, id).count() * 4096;
  return *host.launched <= w.now;
}

bool step_pass(World& w, Rank& rank, const Item& item) {
  Host& host = rank.host;
  const Pass& pass = w.graph.passes[static_cast<size_t>(item.pass)];
  if (host.op == pass.ops.size()) {
    next_item(host);
    return true;
  }
  const bool begun = host.launched.has_value();
  if (!launch(w, host, pass.ops[host.op].launch)) return !begun;
  Task task;
  task.run = host.run++;
  rank.queues[static_cast<size_t>(pass.ops[host.op].stream)].tasks.push_back(task);
  host.launched.reset();
  ++host.op;
  return true;
}

bool step_join(World& w, Rank& rank, const Item& item, Queue& queue) {
  Host& host = rank.host;
  const auto id = static_cast<uint32_t>(item.rendezvous);
  if (!host.in_join) {
    queue.tasks.push_back({Task::Kind::join, 0, id, 0});
    host.in_join = true;
    if (!item.host_waits) next_item(host);
    return true;
  }
  const GroupState& m = group_state(w, rank, id);
  if (!m.started || m.at + m.left > w.now) return false;
  next_item(host);
  return true;
}

bool step_sync(Host& host, Queue& queue) {
  if (!host.in_sync) {
    queue.tasks.push_back({Task::Kind::sync, 0, 0, 0});
    host.in_sync = true;
    return true;
  }
  if (!host.synced) return false;
  next_item(host);
  return true;
}

bool step_host(World& w, Rank& rank) {
  Host& host = rank.host;
  const std::vector<Item>& items = w.graph.roles[rank.role].items;
  if (host.item == items.size()) return false;
  const Item& item = items[host.item];
  Queue& queue = rank.queues[static_cast<size_t>(item.stream)];
  switch (item.kind) {
    case ItemKind::pass: return step_pass(w, rank, item);
    case ItemKind::join: return step_join(w, rank, item, queue);
    case ItemKind::sync: return step_sync(host, queue);
    case ItemKind::post: {
      const bool begun = host.launched.has_value();
      if (!launch(w, host, w.graph.rendezvous[static_cast<size_t>(item.rendezvous)].launch))
        return !begun;
      queue.tasks.push_back({Task::Kind::post, 0, static_cast<uint32_t>(item.rendezvous), 0});
      break;
    }
    case ItemKind::record:
      rank.latest[item.event] = rank.stamps.size();
      queue.tasks.push_back({Task::Kind::record, 0, 0, rank.stamps.size()});
      rank.stamps.emplace_back();
      break;
    case ItemKind::wait:
      if (const auto it = rank.latest.find(item.event); it != rank.latest.end())
        queue.tasks.push_back({Task::Kind::wait, 0, 0, it->second});
      break;
  }
  next_item(host);
  return true;
}

// --- clock --------------------------------------------------------------------------------------

bool step_anything(World& w) {
  bool moved = false;
  for (Rank& rank : w.ranks) {
    while (step_host(w, rank)) moved = true;
    for (Queue& queue : rank.queues)
      while (step_queue(w, rank, queue)) moved = true;
  }
  return moved;
}

Moment next_moment(const World& w) {
  Moment next = kNever;
  const auto due = [&](Moment t) {
    if (t > w.now) next = std::min(next, t);
  };
  for (const Rank& rank : w.ranks) {
    if (rank.host.launched) due(*rank.host.launched);
    for (const Queue& queue : rank.queues) {
      if (queue.done == queue.tasks.size()) continue;
      const Task& front = queue.tasks[queue.done];
      if (front.kind != Task::Kind::op) continue;
      const OpRun& run = rank.runs[front.run];
      due(run.started ? run.at + run.left : ready_at(w, rank, run));
    }
  }
  for (const auto& groups : w.groups_at)
    for (const auto& [group, m] : groups)
      if (m.started) due(m.at + m.left);
  for (const auto& list : w.lanes.window_lists) {
    for (const LaneWindow& window : list) {
      due(window.from.count() * 4096);
      due(window.until.count() * 4096);
    }
  }
  return next;
}

// At the moment that windows begin or end: everything under way goes on as things now stand.
void change_all(World& w) {
  for (Rank& rank : w.ranks) {
    for (Queue& queue : rank.queues) {
      if (queue.done == queue.tasks.size() || queue.tasks[queue.done].kind != Task::Kind::op)
        continue;
      const size_t number = queue.tasks[queue.done].run;
      OpRun& run = rank.runs[number];
      if (!run.started || run.at + run.left <= w.now) continue;
      change_pace(w.now, run.at, run.left, run.pace, pace_now(w, rank, number));
    }
  }
  for (uint32_t id = 0; id < w.groups_at.size(); ++id) {
    for (int64_t lane = 0; lane < w.lanes.lanes(); ++lane) {
      const WorkId work = w.graph.rendezvous[id].work;
      const auto it = w.groups_at[id].find(group_of(w.lanes, w.work(work).axis, lane));
      if (it == w.groups_at[id].end()) continue;
      GroupState& m = it->second;
      if (!m.started || m.at + m.left <= w.now) continue;
      change_pace(w.now, m.at, m.left, m.pace, price_now(w, work, w.ends[id], lane));
    }
  }
}

LaneTimes times_of(const World& w) {
  LaneTimes out;
  out.ops = w.ops;
  out.end.resize(w.graph.roles.size());
  out.compute_begin.resize(w.graph.roles.size());
  for (const Rank& rank : w.ranks) {
    Moment end = 0;
    for (const Queue& queue : rank.queues) {
      end = std::max(end, queue.dry);
      out.deadlock = out.deadlock || queue.done < queue.tasks.size();
    }
    out.deadlock = out.deadlock || rank.host.item < w.graph.roles[rank.role].items.size();
    out.end[rank.role].push_back(end);
    Moment begin = 0;
    for (const OpRun& run : rank.runs) {
      if (op_of(w, run).stream != Stream::compute) continue;
      begin = run.start;
      break;
    }
    out.compute_begin[rank.role].push_back(begin);
  }
  return out;
}

}  // namespace

LaneTimes play_lanes(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                     FactorOf factor) {
  World w = make_world(graph, prices, lanes, factor);
  while (true) {
    while (step_anything(w)) continue;
    const Moment next = next_moment(w);
    if (next == kNever) return times_of(w);
    w.now = next;
    change_all(w);
  }
}

}  // namespace stepcast::oracle
