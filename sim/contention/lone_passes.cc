// SPDX-License-Identifier: Apache-2.0
// Where transfers are waited for between passes, as frameworks do that exchange activations and go
// on when they have come, nothing but a pass's own collectives runs beside its compute.  What a
// pass does then follows from the moment at which it begins, by addition, however compute and
// communication slow each other within it.  So a pass is run once by the engine of equal ranks, and
// after that it is a row of numbers, and the step the recurrence that sim/engine/run.cc evaluates:
// roles are walked along their lists, and sleep where a rendezvous lacks a post.
//
// An example, in ms: a pass of compute of 8, the last 2 of which are beside an all-gather of 1 that
// slows them by 1.5, takes 8.5; the ranks of a pipeline run it 64 times for each microbatch, and
// the contention engine once.
//
// A pass may begin in different ways (LonePassBegin).  The host may come late to it, and then how
// late matters; if not, any earlier moment of the host does as well.  And compute that goes on from
// the pass before without a break keeps the fraction of 1/4096 ps.
//
// Recorded, the row also has what the compute stream stood still for and how much longer it was
// busy than priced (0.5 in the example), which is booked each time; what lies between passes is
// written down as the engine of equal ranks does.
#include "sim/contention/lone_passes.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/contention/equal_ranks.h"
#include "sim/engine/role_queue.h"
#include "sim/graph/program.h"
#include "sim/lanes/lane_program.h"
#include "sim/lanes/lane_recorder.h"

namespace stepcast {

LonePassCache::Known& LonePassCache::of(const std::vector<int64_t>& key) {
  uint64_t hash = key.size();
  for (const int64_t x : key)
    hash = (hash ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15U + (hash >> 29U);
  std::vector<Kept*>& same = by_hash_[hash];
  for (Kept* kept : same)
    if (kept->key == key) return kept->known;
  same.push_back(&kept_.emplace_back(Kept{key, {}}));
  return same.back()->known;
}

void LonePassCache::make_room() {
  constexpr size_t kMostKept = 1000;
  constexpr size_t kMostBytes = size_t{32} << 20U;
  constexpr size_t kMostBegins = 64;  // which are looked through one after the other
  size_t bytes = 0;
  for (Kept& kept : kept_) {
    if (kept.known.size() > kMostBegins) kept.known = {};
    bytes += kept.key.capacity() * sizeof(int64_t) + kept.known.capacity() * sizeof(kept.known[0]);
    for (const auto& [begin, end] : kept.known)
      bytes += end.booked.capacity() * sizeof(end.booked[0]) +
               end.last_collective.capacity() * sizeof(end.last_collective[0]);
  }
  if (kept_.size() < kMostKept && bytes < kMostBytes) return;
  by_hash_.clear();
  kept_.clear();
}

namespace contention {
namespace lone {
namespace {

constexpr auto kCompute = static_cast<size_t>(Stream::compute);
constexpr int64_t kUnset = INT64_MIN;

// Thrown where the engine of equal ranks has to answer.
struct NotLone {};

// The end of something that begins at `begin`; a step that long is not counted.
int64_t later(int64_t begin, int64_t by) {
  if (begin > kLongestLaneTime || by > kLongestLaneTime) throw NotLone();
  return begin + by;
}

struct LonePass {
  std::array<bool, kStreams> uses{};
  // Streams whose first op waits for none of the compute stream, so that it matters when they were
  // free.
  std::array<bool, kStreams> begins{};
  std::array<bool, kStreams> loose{};  // nobody on the compute stream waits for the last op of it
  int64_t launch = 0;                  // what the host takes for it
  int64_t ops = 0;
  int64_t busy = 0;  // ps of its compute stream alone; of the record
  LonePassCache::Known* known = nullptr;
};

// Where a stream has been recorded.
struct LoneEvent {
  int64_t time = kUnset;  // kUnset: not recorded
  StragglerWait last_collective;
};

struct LoneRole {
  std::array<int64_t, kStreams> time{};
  int64_t host = 0;
  int64_t over = -1;  // as in LonePassBegin
  int64_t first_start = kUnset;
  uint32_t item = 0;
  int64_t ops = 0;  // run
  std::vector<LoneEvent> events;

  // Of the record.
  std::array<StragglerWait, kStreams> last_collective{};
  int64_t busy = 0;
};

struct LoneMeeting {
  int64_t begin = kUnset;
  uint32_t posts = 0;
  uint32_t sleepers = kNobody;
  uint32_t last_role = 0, last_item = 0;  // of the record: the post that let it begin
};

class LonePasses {
 public:
  LonePasses(const OpGraph& graph, const Prices& prices, int64_t given, int64_t slow_compute,
             int64_t slow_communication, bool merge, bool record, LonePassCache& cache)
      : graph_(graph),
        prices_(prices),
        given_(given),
        slow_compute_(slow_compute),
        slow_communication_(slow_communication),
        merge_(merge),
        cache_(cache),
        launches_(varied_launches(graph, prices, {})),
        passes_(graph.passes.size()),
        roles_(graph.roles.size()),
        meetings_(graph.rendezvous.size()),
        queue_(graph.roles.size()) {
    for (int64_t& time : launches_) time <<= kLaneFractionBits;
    if (record) recorder_.emplace(graph, Record::account);
    cache_.make_room();
    for (const RoleOps& role : graph.roles) check(role);
  }

  ContentionResult run() {
    while (!queue_.empty()) advance(queue_.take());
    for (uint32_t r = 0; r < roles_.size(); ++r)
      if (roles_[r].item < graph_.roles[r].items.size()) throw NotLone();
    return result();
  }

 private:
  LonePass& pass_of(const Item& item) {
    LonePass& lone = passes_[static_cast<size_t>(item.pass)];
    if (lone.known != nullptr) return lone;
    const Pass& pass = graph_.passes[static_cast<size_t>(item.pass)];
    lone.ops = std::ssize(pass.ops);
    std::array<uint32_t, kStreams> last{};
    for (uint32_t i = 0; i < pass.ops.size(); ++i) {
      const auto s = static_cast<size_t>(pass.ops[i].stream);
      lone.launch += launches_[static_cast<size_t>(pass.ops[i].launch)];
      if (s == kCompute)
        lone.busy += prices_.by_work[static_cast<size_t>(pass.ops[i].work)].time.count();
      last[s] = i;
      if (std::exchange(lone.uses[s], true) || s == kCompute) continue;
      lone.begins[s] = std::ranges::none_of(pass.waits.of(i), [&](const Wait& w) {
        return pass.ops[w.on].stream == Stream::compute;
      });
    }
    for (size_t s = 0; s < kStreams; ++s) {
      if (!lone.uses[s] || s == kCompute) continue;
      lone.loose[s] = std::ranges::none_of(pass.waits.all(), [&](const Wait& w) {
        return w.on == last[s] && !w.from_start && pass.ops[w.op].stream == Stream::compute;
      });
    }
    lone.known = &cache_.of(key_of(pass));
    return lone;
  }

  // All that the engine reads of a pass; where it is recorded also what waits are booked as.
  const std::vector<int64_t>& key_of(const Pass& pass) {
    key_.assign({slow_compute_, slow_communication_, merge_ ? 1 : 0, recorder_ ? 1 : 0,
                 std::ssize(pass.ops)});
    for (const Op& op : pass.ops) {
      const auto work = static_cast<size_t>(op.work);
      const Work& done = graph_.works[work];
      key_.push_back(prices_.by_work[work].time.count());
      key_.push_back(launches_[static_cast<size_t>(op.launch)]);
      key_.push_back(2 * static_cast<int64_t>(op.stream) + (is_communication(done.kind) ? 1 : 0));
      if (recorder_) key_.push_back(static_cast<int64_t>(spend_of(done, op.phase)));
    }
    for (const Wait& w : pass.waits.all()) {
      key_.push_back(w.delay.count());
      key_.push_back((int64_t{w.op} << 32) + (int64_t{w.on} << 1) + (w.from_start ? 1 : 0));
    }
    return key_;
  }

  // Compute waits for all that a role takes part in before it goes on with a pass.  Whether
  // collectives end with their pass is known when it is run; where they cannot, nothing need be
  // run.
  void check(const RoleOps& role) {
    std::array<bool, kStreams> loose{};
    open_.clear();
    recorded_.clear();
    for (const Item& item : role.items) {
      const auto id = static_cast<uint32_t>(item.rendezvous);
      switch (item.kind) {
        case ItemKind::pass:
          if (!open_.empty() || std::ranges::find(loose, true) != loose.end()) throw NotLone();
          loose = pass_of(item).loose;
          break;
        case ItemKind::post:
          if (item.stream != Stream::compute) throw NotLone();
          open_.push_back(id);
          break;
        case ItemKind::join:
          // Who joins without a post has no say in when it begins.
          if (item.stream != Stream::compute || std::erase(open_, id) == 0) throw NotLone();
          break;
        case ItemKind::record:
          if (recorded_.size() <= item.event) recorded_.resize(size_t{item.event} + 1);
          recorded_[item.event] = item.stream;
          break;
        case ItemKind::wait:
          if (item.stream == Stream::compute && item.event < recorded_.size())
            loose[static_cast<size_t>(recorded_[item.event])] = false;
          break;
        case ItemKind::sync: break;
      }
    }
  }

  void advance(uint32_t r) {
    LoneRole& role = roles_[r];
    const std::vector<Item>& items = graph_.roles[r].items;
    for (; role.item < items.size(); ++role.item) {
      const Item& item = items[role.item];
      const int64_t begin = role.time[kCompute];
      if (!execute(r, role, item)) return;
      if (recorder_) recorder_->item(r, item, begin, role.time[kCompute]);
    }
  }

  // False if the item has to be tried again later.
  bool execute(uint32_t r, LoneRole& role, const Item& item) {
    int64_t& stream = role.time[static_cast<size_t>(item.stream)];
    switch (item.kind) {
      case ItemKind::pass: run_pass(r, role, item); return true;
      case ItemKind::post: post(r, role, item); return true;
      case ItemKind::join: return join(r, role, item);
      case ItemKind::record:
        event(role, item) = {stream, role.last_collective[static_cast<size_t>(item.stream)]};
        return true;
      case ItemKind::wait: {
        const LoneEvent& awaited = event(role, item);
        if (awaited.time < stream) return true;
        if (recorder_ && item.stream == Stream::compute)
          recorder_->event_wait(r, item, role.item, stream, awaited.time, awaited.last_collective);
        stream = awaited.time;
        if (item.stream == Stream::compute) role.over = -1;
        return true;
      }
      case ItemKind::sync: role.host = std::max(role.host, stream); return true;
    }
    return true;
  }

  static LoneEvent& event(LoneRole& role, const Item& item) {
    if (role.events.size() <= item.event) role.events.resize(size_t{item.event} + 1);
    return role.events[item.event];
  }

  void post(uint32_t r, LoneRole& role, const Item& item) {
    const auto id = static_cast<size_t>(item.rendezvous);
    const Rendezvous& rendezvous = graph_.rendezvous[id];
    role.host = later(role.host, launches_[static_cast<size_t>(rendezvous.launch)]);
    LoneMeeting& meeting = meetings_[id];
    const int64_t ready = std::max(role.time[kCompute], role.host);
    if (ready > meeting.begin || (ready == meeting.begin && r < meeting.last_role)) {
      meeting.begin = ready;
      meeting.last_role = r;
      meeting.last_item = role.item;
    }
    shared_ops_ += given_;
    if (++meeting.posts == rendezvous.parties) queue_.wake(meeting.sleepers);
  }

  bool join(uint32_t r, LoneRole& role, const Item& item) {
    const auto id = static_cast<size_t>(item.rendezvous);
    const Rendezvous& rendezvous = graph_.rendezvous[id];
    LoneMeeting& meeting = meetings_[id];
    if (meeting.posts < rendezvous.parties) {
      queue_.sleep(r, meeting.sleepers);
      return false;
    }
    const int64_t ps = prices_.by_work[static_cast<size_t>(rendezvous.work)].time.count();
    if (ps > kLongestLaneTime / kNominal) throw NotLone();
    const int64_t end = later(meeting.begin, ps * kNominal);
    if (recorder_) {
      recorder_->rendezvous_wait(r, item, role.item, role.time[kCompute], end, {});
      recorder_->timeline.rendezvous[id] = {to_time(meeting.begin), to_time(end), meeting.last_role,
                                            meeting.last_item, Time{}};
    }
    if (item.host_waits) role.host = std::max(role.host, end);
    if (end < role.time[kCompute]) return true;
    role.time[kCompute] = end;
    role.over = -1;
    return true;
  }

  void run_pass(uint32_t r, LoneRole& role, const Item& item) {
    const int64_t begin = role.time[kCompute];
    LonePass& pass = pass_of(item);
    for (size_t s = 0; s < kStreams; ++s)
      if (role.time[s] > begin || (pass.begins[s] && role.time[s] < begin)) throw NotLone();
    ++run_;
    role.ops += pass.ops;
    const LonePassEnd& end = end_of(item, pass, {role.host - begin, role.over});
    for (size_t s = 0; s < kStreams; ++s)
      if (pass.uses[s]) role.time[s] = later(begin, end.time[s]);
    role.host = later(role.host, pass.launch);
    role.over = end.over;
    if (role.first_start == kUnset && end.first_start != kUnset)
      role.first_start = begin + end.first_start;
    shared_ops_ += end.collectives * given_;
    if (!recorder_) return;
    role.busy += pass.busy;
    for (const auto& [spend, time] : end.booked) recorder_->book(r, spend, time);
    for (const auto& [stream, wait] : end.last_collective)
      role.last_collective[stream] = {wait.ready + begin, wait.begin + begin,
                                      wait.alone_end + begin, wait.end + begin};
  }

  const LonePassEnd& end_of(const Item& item, LonePass& pass, const LonePassBegin& begin) {
    for (const auto& [known, end] : *pass.known) {
      if (known == begin ||
          (known.over == begin.over && !end.launch_mattered && begin.host < known.host))
        return end;
    }
    // Where each is another, running all of them by themselves takes longer.
    constexpr int64_t kFew = 64;
    if (++different_ > kFew + run_ / 8) throw NotLone();
    prepare_alone(graph_.passes[static_cast<size_t>(item.pass)]);
    return pass.known
        ->emplace_back(begin, run_lone_pass(alone_, prices_, begin, slow_compute_,
                                            slow_communication_, merge_, 0, recorder_.has_value()))
        .second;
  }

  // A graph of one role that runs this pass and nothing else.
  void prepare_alone(const Pass& pass) {
    if (alone_.roles.empty()) {
      alone_.works = graph_.works;
      alone_.launches = graph_.launches;
      alone_.passes.resize(1);
      alone_.roles.resize(1);
      alone_.roles.front().items.resize(1);
    }
    alone_.passes.front().ops = pass.ops;
    alone_.passes.front().waits = pass.waits;
  }

  ContentionResult result() {
    ContentionResult out;
    LaneResult& lanes = out.lanes;
    lanes.lanes_run = 1;
    int64_t last = kUnset;
    lanes.end.reserve(roles_.size());
    for (uint32_t r = 0; r < roles_.size(); ++r) {
      const LoneRole& role = roles_[r];
      const int64_t end = *std::ranges::max_element(role.time);
      if (end > kLongestLaneTime) throw NotLone();
      lanes.end.emplace_back(static_cast<size_t>(given_), to_time(end));
      lanes.rank_ops += role.ops * given_;
      const int64_t first = role.first_start == kUnset ? 0 : role.first_start;
      lanes.span = std::max(lanes.span, to_time(end) - to_time(first));
      if (end <= last) continue;
      last = end;
      lanes.last_role = r;
    }
    lanes.makespan = to_time(std::max<int64_t>(last, 0));
    out.shared_ops = shared_ops_;
    if (recorder_) finish_record(lanes);
    return out;
  }

  void finish_record(LaneResult& lanes) {
    Timeline& timeline = recorder_->timeline;
    for (uint32_t r = 0; r < roles_.size(); ++r) {
      const LoneRole& role = roles_[r];
      recorder_->finish_role(r, role.first_start == kUnset ? 0 : role.first_start,
                             role.time[kCompute], *std::ranges::max_element(role.time), role.busy);
      timeline.rank_ops += role.ops;
    }
    timeline.makespan = lanes.makespan;
    timeline.span = lanes.span;
    lanes.timeline = std::move(timeline);
  }

  const OpGraph& graph_;
  const Prices& prices_;
  const int64_t given_;
  const int64_t slow_compute_, slow_communication_;
  const bool merge_;
  LonePassCache& cache_;
  std::vector<int64_t> key_;
  // Of the role that is checked.
  std::vector<uint32_t> open_;     // posted, not joined
  std::vector<Stream> recorded_;   // by event
  std::vector<int64_t> launches_;  // in 1/4096 ps
  std::vector<LonePass> passes_;
  std::vector<LoneRole> roles_;
  std::vector<LoneMeeting> meetings_;
  std::optional<LaneRecorder> recorder_;
  RoleQueue queue_;
  OpGraph alone_;  // of the pass that is run by itself
  int64_t shared_ops_ = 0;
  int64_t run_ = 0, different_ = 0;  // passes
};

}  // namespace
}  // namespace lone

std::optional<ContentionResult> run_lone_passes(const OpGraph& graph, const Prices& prices,
                                                int64_t given, int64_t slow_compute,
                                                int64_t slow_communication, bool merge, bool record,
                                                LonePassCache* cache) {
  try {
    LonePassCache own;
    return lone::LonePasses(graph, prices, given, slow_compute, slow_communication, merge, record,
                            cache != nullptr ? *cache : own)
        .run();
  } catch (const lone::NotLone&) {
    return {};
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace contention
}  // namespace stepcast
