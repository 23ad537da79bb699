// SPDX-License-Identifier: Apache-2.0
#include "report/host_lines.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/check.h"

namespace stepcast {
namespace {

HostTime of_role(const Result& r, const RoleOps& role) {
  const OpGraph& graph = *r.graph;
  HostTime host;
  host.role = role.name;
  std::vector<int64_t> runs(graph.launches.size(), 0);
  for (const Item& item : role.items) {
    if (item.kind == ItemKind::post)
      ++runs[static_cast<size_t>(graph.rendezvous[static_cast<size_t>(item.rendezvous)].launch)];
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops)
      ++runs[static_cast<size_t>(op.launch)];
  }
  for (size_t id = 0; id < std::min(runs.size(), r.prices->by_launch.size()); ++id) {
    const Time total = r.prices->by_launch[id] * runs[id];
    if (total == Time{}) continue;
    host.lines.push_back({static_cast<LaunchId>(id), runs[id], total});
    host.total += total;
  }
  std::ranges::stable_sort(host.lines, std::greater<>(), &HostLine::total);
  return host;
}

}  // namespace

HostTime host_time_of(const Result& r) {
  STEPCAST_CHECK(r.graph && r.prices, "host time is read out of graph and prices");
  HostTime longest;
  for (const RoleOps& role : r.graph->roles) {
    HostTime host = of_role(r, role);
    if (longest.role.empty() || host.total > longest.total) longest = std::move(host);
  }
  return longest;
}

std::string host_table(const Result& r, const TextStyle& style) {
  const HostTime host = host_time_of(r);
  std::string s = wrap("the host of " + escape_text(host.role) + " launches for " +
                           format_time(host.total) + " of the step",
                       "", style.width) +
                  '\n';
  for (const HostLine& line : host.lines) {
    const double share =
        static_cast<double>(line.total.count()) / static_cast<double>(host.total.count());
    const auto id = static_cast<size_t>(line.launch);
    s += pad_left(percent(share), 8) + pad_left(grouped(line.runs), 9) + " x " +
         pad_right(format_time(r.prices->by_launch[id]), 12) + "  " +
         describe(r.graph->launches[id]) + '\n';
  }
  return s;
}

void write_host(JsonWriter& json, const Result& r) {
  const HostTime host = host_time_of(r);
  json.objects("host", host.lines, [&](const HostLine& line) {
    const auto id = static_cast<size_t>(line.launch);
    json.member("launch", describe(r.graph->launches[id]));
    json.member("runs", line.runs);
    json.member_time("time", r.prices->by_launch[id]);
  });
}

}  // namespace stepcast
