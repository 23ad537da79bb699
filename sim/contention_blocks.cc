// SPDX-License-Identifier: Apache-2.0
#include "sim/contention_blocks.h"

#include <algorithm>
#include <map>

namespace stepcast {
namespace {

constexpr size_t kHost = kStreams;

// What a time depends on: the stops of each thread (numbered) that came before it.
struct Dependence {
  std::array<uint32_t, kThreads> apart{};  // of its own lane only
  std::array<uint32_t, kThreads> late{};   // known when all lanes of the block are past the stop
  std::array<uint32_t, kThreads> all_lanes{};  // of all lanes of the block

  void merge(const Dependence& other) {
    for (size_t t = 0; t < kThreads; ++t) {
      apart[t] = std::max(apart[t], other.apart[t]);
      late[t] = std::max(late[t], other.late[t]);
      all_lanes[t] = std::max(all_lanes[t], other.all_lanes[t]);
    }
  }
  // The lanes of the block go on together.
  void gather() {
    for (size_t t = 0; t < kThreads; ++t) late[t] = std::max(late[t], apart[t]);
  }
  void wait_for_all_lanes() {
    for (size_t t = 0; t < kThreads; ++t) {
      all_lanes[t] = std::max({all_lanes[t], apart[t], late[t]});
    }
  }
  // The block knows it later than its lane could.
  bool shows_late() const {
    for (size_t t = 0; t < kThreads; ++t) {
      if (late[t] > all_lanes[t]) return true;
    }
    return false;
  }
};

class RoleWalk {
 public:
  RoleWalk(const OpGraph& graph, const ContentionProgram& program,
           const std::vector<TalkKind>& talks, const std::vector<bool>& whole, uint32_t role)
      : graph_(graph),
        threads_(program.roles[role]),
        items_(graph.roles[role].items),
        talks_(talks),
        whole_(whole) {}

  // Streams of other collectives; false if one has collectives of the block too.
  bool find_narrow(std::array<bool, kThreads>& narrow) {
    std::array<bool, kStreams> wide{};
    for (const Item& item : items_) {
      if (item.kind != ItemKind::pass) continue;
      for (const Op& op : pass_of(item).ops) {
        if (!is_communication(work(op.work).kind)) continue;
        const TalkKind kind = talks_[static_cast<size_t>(op.work)];
        narrow_[stream(op.stream)] |= kind == TalkKind::others;
        wide[stream(op.stream)] |= kind == TalkKind::block;
      }
    }
    std::ranges::copy(narrow_, narrow.begin());
    for (size_t s = 0; s < kStreams; ++s) {
      if (narrow[s] && wide[s]) return false;
    }
    return true;
  }

  bool is_safe() {
    for (uint32_t i = 0; i < items_.size(); ++i) {
      if (!walk_item(i)) return false;
    }
    return true;
  }

 private:
  static size_t stream(Stream s) { return static_cast<size_t>(s); }
  const Work& work(WorkId id) const { return graph_.works[static_cast<size_t>(id)]; }
  const Pass& pass_of(const Item& item) const {
    return graph_.passes[static_cast<size_t>(item.pass)];
  }

  void stop(size_t thread) { now_[thread].apart[thread] = ++stops_[thread]; }

  bool walk_item(uint32_t i) {
    const Item& item = items_[i];
    const size_t s = stream(item.stream);
    switch (item.kind) {
      case ItemKind::pass: return walk_pass(pass_of(item));
      case ItemKind::post: {
        Dependence post = now_[s];
        post.merge(now_[kHost]);
        return is_whole(item) || !post.shows_late();
      }
      case ItemKind::join:
        if (is_whole(item)) return true;
        stop(s);
        if (item.host_waits) stop(kHost);
        return true;
      case ItemKind::record: events_[threads_.record[i]] = now_[s]; return true;
      case ItemKind::wait: {
        const auto it = events_.find(threads_.record[i]);
        if (it != events_.end()) now_[s].merge(it->second);
        return true;
      }
      case ItemKind::sync: now_[kHost].merge(now_[s]); return true;
    }
    return true;
  }

  bool is_whole(const Item& item) const {
    const auto id = static_cast<size_t>(item.rendezvous);
    return whole_[static_cast<size_t>(graph_.rendezvous[id].work)];
  }

  bool walk_pass(const Pass& pass) {
    marks_.assign(pass.ops.size(), {});
    for (uint32_t i = 0; i < pass.ops.size(); ++i) {
      const Op& op = pass.ops[i];
      const size_t s = stream(op.stream);
      for (const Wait& w : pass.waits.of(i)) now_[s].merge(marks_[w.on]);
      now_[s].merge(now_[kHost]);
      if (!narrow_[s]) now_[s].gather();
      if (is_communication(work(op.work).kind) && !walk_talk(op, s)) return false;
      marks_[i] = now_[s];
    }
    return true;
  }

  bool walk_talk(const Op& op, size_t s) {
    const TalkKind kind = talks_[static_cast<size_t>(op.work)];
    if (kind == TalkKind::block) now_[s].wait_for_all_lanes();
    if (kind != TalkKind::others) return true;
    if (now_[s].shows_late()) return false;
    stop(s);
    return true;
  }

  const OpGraph& graph_;
  const RoleThreads& threads_;
  const std::vector<Item>& items_;
  const std::vector<TalkKind>& talks_;
  const std::vector<bool>& whole_;
  std::array<bool, kStreams> narrow_{};
  std::array<Dependence, kThreads> now_{};
  std::array<uint32_t, kThreads> stops_{};
  std::map<uint32_t, Dependence> events_;
  std::vector<Dependence> marks_;  // by op of the pass
};

}  // namespace

BlockPlan plan_blocks(const OpGraph& graph, const ContentionProgram& program,
                      const std::vector<TalkKind>& talks, const std::vector<bool>& whole) {
  BlockPlan plan;
  plan.narrow.resize(graph.roles.size());
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    RoleWalk walk(graph, program, talks, whole, r);
    plan.together.push_back(walk.find_narrow(plan.narrow[r]) && walk.is_safe());
    if (!plan.together.back()) plan.narrow[r].fill(true);
  }
  return plan;
}

}  // namespace stepcast
