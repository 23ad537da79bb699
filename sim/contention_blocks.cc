// SPDX-License-Identifier: Apache-2.0
#include "sim/contention_blocks.h"

#include <algorithm>
#include <map>

namespace stepcast {
namespace {

constexpr size_t kHost = kStreams;

// What a time depends on: the stops of each thread of the block, by number, that came before it;
// and those of which it waits for all lanes.
struct Dependence {
  std::array<uint32_t, kThreads> stops{}, all_lanes{};

  void merge(const Dependence& other) {
    for (size_t t = 0; t < kThreads; ++t) {
      stops[t] = std::max(stops[t], other.stops[t]);
      all_lanes[t] = std::max(all_lanes[t], other.all_lanes[t]);
    }
  }
  void wait_for_all_lanes() {
    for (size_t t = 0; t < kThreads; ++t) all_lanes[t] = std::max(all_lanes[t], stops[t]);
  }
  bool shows_late() const {
    for (size_t t = 0; t < kThreads; ++t) {
      if (stops[t] > all_lanes[t]) return true;
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

  void stop(size_t thread) { now_[thread].stops[thread] = ++stops_[thread]; }

  bool walk_item(uint32_t i) {
    const Item& item = items_[i];
    const size_t s = stream(item.stream);
    switch (item.kind) {
      case ItemKind::pass: return walk_pass(pass_of(item));
      case ItemKind::post: {
        Dependence post = now_[s];
        post.merge(now_[kHost]);
        return !post.shows_late();
      }
      case ItemKind::join: {
        const auto id = static_cast<size_t>(item.rendezvous);
        if (whole_[static_cast<size_t>(graph_.rendezvous[id].work)]) return true;
        if (!narrow_[s]) stop(s);
        if (item.host_waits) stop(kHost);
        return true;
      }
      case ItemKind::record: {
        events_[threads_.record[i]] = {now_[s], narrow_[s]};
        return true;
      }
      case ItemKind::wait: {
        const auto it = events_.find(threads_.record[i]);
        if (it != events_.end()) wait_for(s, it->second);
        return true;
      }
      case ItemKind::sync: now_[kHost].merge(now_[s]); return !narrow_[s];
    }
    return true;
  }

  struct Mark {
    Dependence time;
    bool narrow = false;  // its lanes become known one by one
  };

  void wait_for(size_t s, const Mark& mark) {
    now_[s].merge(mark.time);
    if (mark.narrow && !narrow_[s]) stop(s);
  }

  bool walk_pass(const Pass& pass) {
    std::vector<Mark>& marks = marks_;
    marks.assign(pass.ops.size(), {});
    for (uint32_t i = 0; i < pass.ops.size(); ++i) {
      const Op& op = pass.ops[i];
      const size_t s = stream(op.stream);
      for (const Wait& w : pass.waits.of(i)) wait_for(s, marks[w.on]);
      now_[s].merge(now_[kHost]);
      if (is_communication(work(op.work).kind)) {
        switch (talks_[static_cast<size_t>(op.work)]) {
          case TalkKind::alone: break;
          case TalkKind::block: now_[s].wait_for_all_lanes(); break;
          case TalkKind::others:
            if (now_[s].shows_late()) return false;
        }
      }
      marks[i] = {now_[s], narrow_[s]};
    }
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
  std::map<uint32_t, Mark> events_;
  std::vector<Mark> marks_;
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
