// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/lane_meetings.h"

#include <algorithm>
#include <set>

namespace stepcast {
namespace {

void add_collectives(const OpGraph& graph, const Pass& pass, uint32_t role,
                     std::set<Meeting>& meetings) {
  for (const Op& op : pass.ops) {
    const Work& work = graph.works[static_cast<size_t>(op.work)];
    if (is_communication(work.kind) && work.axis != Axis::none)
      meetings.insert({work.axis, {role}});
  }
}

}  // namespace

std::vector<Meeting> meetings_of(const OpGraph& graph) {
  std::set<Meeting> meetings;
  std::vector<std::set<uint32_t>> roles_of(graph.rendezvous.size());
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    std::vector<bool> seen(graph.passes.size());
    for (const Item& item : graph.roles[role].items) {
      const auto pass = static_cast<size_t>(item.pass);
      if (item.kind == ItemKind::post || item.kind == ItemKind::join) {
        roles_of[static_cast<size_t>(item.rendezvous)].insert(role);
      } else if (item.kind == ItemKind::pass && !seen[pass]) {
        seen[pass] = true;
        add_collectives(graph, graph.passes[pass], role, meetings);
      }
    }
  }
  for (size_t i = 0; i < roles_of.size(); ++i) {
    const Axis axis = graph.works[static_cast<size_t>(graph.rendezvous[i].work)].axis;
    if (axis != Axis::none) meetings.insert({axis, {roles_of[i].begin(), roles_of[i].end()}});
  }
  return {meetings.begin(), meetings.end()};
}

std::vector<int64_t> first_of_group(const std::vector<LaneDigit>& digits, Axis axis) {
  std::vector<int64_t> first{0};
  for (const LaneDigit& d : digits) {
    const auto stride = std::ssize(first);
    for (int64_t i = stride; i < stride * d.size; ++i) {
      const int64_t inner = first[static_cast<size_t>(i % stride)];
      first.push_back(covers(axis, d) ? inner : inner + i / stride * stride);
    }
  }
  return first;
}

LinksUsedByLane link_uses(const std::vector<Meeting>& meetings,
                          const std::vector<LaneDigit>& digits,
                          const std::vector<std::vector<int64_t>>& node_of) {
  LinksUsedByLane uses;
  for (const Meeting& m : meetings) {
    const std::vector<int64_t> first = first_of_group(digits, m.axis);
    std::vector<std::vector<int64_t>> nodes(first.size());  // by first lane of a group
    for (size_t lane = 0; lane < first.size(); ++lane) {
      for (const uint32_t role : m.roles)
        nodes[static_cast<size_t>(first[lane])].push_back(node_of[role][lane]);
    }
    std::vector<LinksUsed> use(first.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].empty()) continue;
      std::ranges::sort(nodes[i]);
      if (nodes[i].front() != nodes[i].back()) use[i] |= kUsesNics;
      if (std::ranges::adjacent_find(nodes[i]) != nodes[i].end()) use[i] |= kUsesNvlinks;
    }
    auto& of_axis = uses[static_cast<size_t>(m.axis)];
    of_axis.resize(node_of.size(), std::vector<LinksUsed>(first.size()));
    for (const uint32_t role : m.roles) {
      for (size_t lane = 0; lane < first.size(); ++lane)
        of_axis[role][lane] |= use[static_cast<size_t>(first[lane])];
    }
  }
  return uses;
}

}  // namespace stepcast
