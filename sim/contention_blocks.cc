// SPDX-License-Identifier: Apache-2.0
#include "sim/contention_blocks.h"

#include <algorithm>
#include <map>

namespace stepcast {
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
  Stops known{};      // it is known when all lanes of the block are past these

  void merge(const Dependence& other) {
    raise(apart, other.apart);
    raise(all_lanes, other.all_lanes);
    raise(known, other.known);
  }
  void wait_for_all_lanes() { raise(all_lanes, apart); }
};

class RoleWalk {
 public:
  RoleWalk(const OpGraph& graph, const ContentionProgram& program, const StrandChoice& choice,
           uint32_t role)
      : graph_(graph),
        threads_(program.roles[role]),
        items_(graph.roles[role].items),
        choice_(choice) {}

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
      case ItemKind::record: events_[threads_.record[i]] = at_strand(s); return true;
      case ItemKind::wait: {
        const auto it = events_.find(threads_.record[i]);
        if (it == events_.end()) return true;
        now_[s].merge(it->second);
        at_strand(s);
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
    at_strand(s);
    if (item.host_waits) stop(kHost, is_whole(item));
  }

  void stop(size_t s, bool of_all_lanes) {
    now_[s].apart[s] = ++stops_[s];
    if (of_all_lanes) now_[s].all_lanes[s] = stops_[s];
  }

  // What a strand does it knows when all of it is there.
  void gather(size_t s, Dependence& time) {
    if (!choice_.streams[s]) return;
    raise(strand_, time.apart);
    raise(strand_, time.all_lanes);
    raise(strand_, time.known);
    raise(time.known, strand_);
  }
  const Dependence& at_strand(size_t s) {
    gather(s, now_[s]);
    return now_[s];
  }

  // Is it known later than it could be?  `whole`: it waits for all lanes of the block.
  bool shows_late(Dependence time, bool whole) const {
    if (whole || choice_.lanes == 1) time.wait_for_all_lanes();
    for (size_t t = 0; t < time.known.size(); ++t) {
      if (time.known[t] > time.all_lanes[t]) return true;
    }
    return false;
  }

  bool walk_pass(const Pass& pass) {
    starts_.assign(pass.ops.size(), {});
    ends_.assign(pass.ops.size(), {});
    for (uint32_t i = 0; i < pass.ops.size(); ++i) {
      const Op& op = pass.ops[i];
      const size_t s = stream(op.stream);
      for (const Wait& w : pass.waits.of(i)) now_[s].merge((w.from_start ? starts_ : ends_)[w.on]);
      now_[s].merge(now_[kHost]);
      at_strand(s);
      starts_[i] = now_[s];
      if (is_communication(work(op.work).kind) && !walk_talk(i, op)) return false;
      ends_[i] = now_[s];
    }
    return true;
  }

  // Others decide when it begins, and when it ends.
  bool walk_talk(uint32_t i, const Op& op) {
    const size_t s = stream(op.stream);
    const auto w = static_cast<size_t>(op.work);
    switch (choice_.talks[w]) {
      case TalkKind::alone: break;
      case TalkKind::block:
        now_[s].wait_for_all_lanes();
        if (!choice_.streams[s]) return false;  // a thread of one lane cannot take part
        break;
      case TalkKind::others:
        if (shows_late(now_[s], choice_.whole[w])) return false;
        stop(s, choice_.whole[w]);
        break;
    }
    starts_[i] = now_[s];
    if (choice_.talks[w] == TalkKind::others) stop(s, choice_.whole[w]);
    return true;
  }

  const OpGraph& graph_;
  const RoleThreads& threads_;
  const std::vector<Item>& items_;
  const StrandChoice& choice_;
  std::array<Dependence, kStreams + 1> now_{};
  Stops stops_{};
  Stops strand_{};  // that the strand is past
  std::map<uint32_t, Dependence> events_;
  std::vector<Dependence> starts_, ends_;  // by op of the pass
};

}  // namespace

std::array<bool, kStreams> strand_streams(const OpGraph& graph,
                                          const std::vector<TalkKind>& talks) {
  std::array<bool, kStreams> strand;
  strand.fill(true);
  for (const Pass& pass : graph.passes) {
    for (const Op& op : pass.ops) {
      const auto work = static_cast<size_t>(op.work);
      if (is_communication(graph.works[work].kind) && talks[work] == TalkKind::others) {
        strand[static_cast<size_t>(op.stream)] = false;
      }
    }
  }
  return strand;
}

std::vector<bool> plan_strands(const OpGraph& graph, const ContentionProgram& program,
                               const StrandChoice& choice) {
  std::vector<bool> together;
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    together.push_back(RoleWalk(graph, program, choice, r).is_safe());
  }
  return together;
}

}  // namespace stepcast
