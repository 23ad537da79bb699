// SPDX-License-Identifier: Apache-2.0
// The compute stream of a rank is a list of busy stretches in order of time.  With how long it has
// been busy up to each of them, the busy part of any span is two searches in that list, and what is
// left of the span is exposed.
#include "report/html/exposed.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/check.h"

namespace stepcast {
namespace {

// Stretches in which an op of the compute stream runs.
class Busy {
 public:
  void add(Time begin, Time end) {
    if (begin >= end) return;
    stretches_.push_back({begin, end, before_});
    before_ += end - begin;
  }

  Time until(Time t) const {
    const auto next = std::ranges::upper_bound(stretches_, t, {}, &Stretch::begin);
    if (next == stretches_.begin()) return Time{};
    const Stretch& s = *std::prev(next);
    return s.before + std::min(t, s.end) - s.begin;
  }

 private:
  struct Stretch {
    Time begin{}, end{}, before{};  // busy time before it
  };
  std::vector<Stretch> stretches_;
  Time before_{};
};

template <class Visit>
void for_each_op(const Result& r, uint32_t role, Visit visit) {
  const RoleTimeline& times = r.timeline.roles[role];
  size_t at = 0;
  for (const Item& item : r.graph->roles[role].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : r.graph->passes[static_cast<size_t>(item.pass)].ops) {
      const Time begin = times.op_start[at];
      const Time end = times.op_end.empty()
                           ? begin + r.prices->by_work[static_cast<size_t>(op.work)].time
                           : times.op_end[at];
      visit(op, begin, end);
      ++at;
    }
  }
}

// Calls visit(work, label, total, exposed) for each run of a communication on a rank of that role.
template <class Visit>
void for_each_communication(const Result& r, uint32_t role, Visit visit) {
  STEPCAST_CHECK(role < r.timeline.roles.size(), "a role of the timeline");
  const OpGraph& graph = *r.graph;
  Busy busy;
  for_each_op(r, role, [&](const Op& op, Time begin, Time end) {
    if (op.stream == Stream::compute) busy.add(begin, end);
  });
  const auto visit_run = [&](WorkId work, LabelId label, Time begin, Time end) {
    if (!is_communication(graph.works[static_cast<size_t>(work)].kind)) return;
    visit(work, label, end - begin, end - begin - (busy.until(end) - busy.until(begin)));
  };
  for_each_op(r, role, [&](const Op& op, Time begin, Time end) {
    visit_run(op.work, op.label, begin, end);
  });
  for (const Item& item : graph.roles[role].items) {
    if (item.kind != ItemKind::join) continue;
    const auto id = static_cast<size_t>(item.rendezvous);
    const RendezvousTime& t = r.timeline.rendezvous[id];
    visit_run(graph.rendezvous[id].work, graph.rendezvous[id].label, t.begin, t.end);
  }
}

}  // namespace

std::map<WorkId, Time> exposed_by_work(const Result& r, uint32_t role) {
  std::map<WorkId, Time> all;
  for_each_communication(r, role,
                         [&](WorkId work, LabelId, Time, Time exposed) { all[work] += exposed; });
  return all;
}

std::vector<ExposedLine> exposed_lines(const Result& r, uint32_t role) {
  const OpGraph& graph = *r.graph;
  // One name may run in several ways: a send to the next stage stays inside a node or leaves it.
  std::map<std::tuple<Axis, LabelId, bool, Algorithm, Protocol, Origin>, ExposedLine> lines;
  for_each_communication(r, role, [&](WorkId id, LabelId label, Time total, Time exposed) {
    const Work& work = graph.works[static_cast<size_t>(id)];
    const Price& price = r.prices->by_work[static_cast<size_t>(id)];
    ExposedLine& line = lines[{work.axis, label, price.crosses_nodes, price.algorithm,
                               price.protocol, price.origin}];
    if (line.runs == 0) {
      line.name = graph.text(label);
      line.work = id;
    }
    ++line.runs;
    line.total += total;
    line.exposed += exposed;
  });
  std::vector<ExposedLine> all;
  for (auto& [key, line] : lines) all.push_back(std::move(line));
  std::ranges::stable_sort(all, [](const ExposedLine& a, const ExposedLine& b) {
    return std::pair(a.exposed, a.total) > std::pair(b.exposed, b.total);
  });
  return all;
}

}  // namespace stepcast
