// SPDX-License-Identifier: Apache-2.0
// explain.h: the critical path and the prices.
#include <algorithm>
#include <array>

#include "report/account_lines.h"
#include "report/engine_paths.h"
#include "report/explain.h"
#include "report/host_lines.h"
#include "sim/check.h"

namespace stepcast {
namespace {

constexpr size_t kShownSegments = 60;

std::string microseconds(Time t) {
  return fixed(static_cast<double>(t.count()) * 1e-6, 1);
}

// "0F3 .. 0B1, 5 passes": what the items of a role that ran in [begin, end) were.
std::string what_ran(const Result& r, const PathSegment& segment) {
  if (!r.graph || segment.role >= r.graph->roles.size() || segment.role >= r.timeline.roles.size())
    return {};
  const auto& items = r.graph->roles[segment.role].items;
  const auto& times = r.timeline.roles[segment.role].items;
  const Item* first = nullptr;
  const Item* last = nullptr;
  size_t passes = 0;
  for (size_t i = 0; i < std::min(items.size(), times.size()); ++i) {
    const bool overlaps = times[i].end > segment.begin && times[i].begin < segment.end;
    if (items[i].kind != ItemKind::pass || !overlaps) continue;
    if (first == nullptr) first = &items[i];
    last = &items[i];
    ++passes;
  }
  const auto name = [&](const Item& item) {
    return item.has_action ? action_text(item)
                           : escape_text(r.graph->passes[static_cast<size_t>(item.pass)].name);
  };
  if (passes == 0) return {};
  if (passes == 1) return name(*first);
  return name(*first) + " .. " + name(*last) + ", " + std::to_string(passes) + " passes";
}

// "send activation, stage 0 to stage 1"
std::string what_was_sent(const Result& r, const PathSegment& segment) {
  const auto id = static_cast<size_t>(segment.rendezvous);
  if (!r.graph || id >= r.graph->rendezvous.size()) return {};
  const Rendezvous& rendezvous = r.graph->rendezvous[id];
  const Work& work = r.graph->works[static_cast<size_t>(rendezvous.work)];
  const std::string label = escape_text(r.graph->text(rendezvous.label));
  if (work.kind != WorkKind::send_recv) return label;
  const auto name = [&](uint32_t pipeline_rank) {
    const auto& roles = r.graph->roles;
    const auto at = std::ranges::find(roles, pipeline_rank, &RoleOps::pipeline_rank);
    return role_name(r, static_cast<uint32_t>(at - roles.begin()));
  };
  return label + ", " + name(work.from) + " to " + name(work.to);
}

std::string segment_line(const Result& r, const PathSegment& segment) {
  const bool transfer = segment.kind == PathSegment::Kind::rendezvous;
  std::string line = pad_left(microseconds(segment.begin), 14);
  line += pad_left(microseconds(segment.end - segment.begin), 14) + "  ";
  line += pad_right(transfer ? "transfer" : role_name(r, segment.role), 14) + "  " +
          (transfer ? what_was_sent(r, segment) : what_ran(r, segment));
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// Time on the path by role, and on transfers.
std::string path_summary(const Result& r) {
  std::vector<Time> by_role;
  Time transfers{};
  for (const PathSegment& s : r.critical_path) {
    if (s.kind == PathSegment::Kind::rendezvous) {
      transfers += s.end - s.begin;
      continue;
    }
    if (s.role >= by_role.size()) by_role.resize(s.role + 1, Time{});
    by_role[s.role] += s.end - s.begin;
  }
  std::string text = "the longest chain of the step: ";
  text += std::to_string(r.critical_path.size()) + " stretches;";
  for (uint32_t i = 0; i < by_role.size(); ++i) {
    if (by_role[i].count() == 0) continue;
    text += ' ' + role_name(r, i) + ' ' + percent(share_of(by_role[i], r.step_time)) + ',';
  }
  return text + " transfers " + percent(share_of(transfers, r.step_time));
}

}  // namespace

std::string explain_critical_path(const Result& r, const TextStyle& style) {
  if (r.critical_path.empty()) return "no critical path was traced\n";
  std::string s = wrap(path_summary(r), "", style.width) + '\n';
  s += paint("      begin us       length us  who             what", Tone::dim, style) + '\n';
  const size_t count = r.critical_path.size();
  for (size_t i = 0; i < count; ++i) {
    if (count > kShownSegments && i == kShownSegments / 2) {
      const size_t skipped = count - kShownSegments;
      s += "           ... " + std::to_string(skipped) + " more, all of them with --json ...\n";
      i += skipped;
    }
    s += segment_line(r, r.critical_path[i]);
  }
  return s;
}

std::vector<CostLine> cost_lines(const Result& r) {
  STEPCAST_CHECK(r.graph && r.prices, "costs are read out of graph and prices");
  const OpGraph& graph = *r.graph;
  std::vector<int64_t> pass_runs(graph.passes.size(), 0);
  for (const RoleOps& role : graph.roles)
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass) ++pass_runs[static_cast<size_t>(item.pass)];
  std::vector<CostLine> all(graph.works.size());
  for (size_t w = 0; w < all.size(); ++w) all[w].work = static_cast<WorkId>(w);
  for (size_t p = 0; p < graph.passes.size(); ++p)
    for (const Op& op : graph.passes[p].ops) all[static_cast<size_t>(op.work)].runs += pass_runs[p];
  for (const Rendezvous& rv : graph.rendezvous) ++all[static_cast<size_t>(rv.work)].runs;
  for (CostLine& line : all)
    line.total = r.prices->by_work[static_cast<size_t>(line.work)].time * line.runs;
  std::erase_if(all, [](const CostLine& line) { return line.runs == 0; });
  std::stable_sort(all.begin(), all.end(),
                   [](const CostLine& a, const CostLine& b) { return a.total > b.total; });
  return all;
}

namespace {

// A line of the table; transfers of one size and price between different ranks are one line.
struct CostGroup {
  CostLine line;
  int pairs = 1;
};

std::vector<CostGroup> grouped_costs(const Result& r) {
  std::vector<CostGroup> groups;
  const auto alike = [&](WorkId a, WorkId b) {
    const Work& wa = r.graph->works[static_cast<size_t>(a)];
    const Work& wb = r.graph->works[static_cast<size_t>(b)];
    const Price& pa = r.prices->by_work[static_cast<size_t>(a)];
    const Price& pb = r.prices->by_work[static_cast<size_t>(b)];
    return wa.kind == WorkKind::send_recv && wb.kind == wa.kind && wa.bytes == wb.bytes &&
           pa.time == pb.time && pa.origin == pb.origin && pa.basis == pb.basis;
  };
  for (const CostLine& line : cost_lines(r)) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const CostGroup& g) {
      return alike(g.line.work, line.work);
    });
    if (same == groups.end()) {
      groups.push_back({line, 1});
      continue;
    }
    same->line.runs += line.runs;
    same->line.total += line.total;
    ++same->pairs;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const CostGroup& a, const CostGroup& b) {
    return a.line.total > b.line.total;
  });
  return groups;
}

}  // namespace

std::string explain_costs(const Result& r, const TextStyle& style) {
  const std::vector<CostGroup> lines = grouped_costs(r);
  Time sum{};
  for (const CostGroup& group : lines) sum += group.line.total;
  std::string s =
      wrap("device time of the step by work, one rank of each stage", "", style.width) + '\n';
  s += paint("  share      runs x time each     origin        work, and how its time is known",
             Tone::dim, style) +
       '\n';
  for (const auto& [line, pairs] : lines) {
    const Price& price = r.prices->by_work[static_cast<size_t>(line.work)];
    s += pad_left(percent(share_of(line.total, sum)), 8);
    s += pad_left(grouped(line.runs), 9) + " x " + pad_right(format_time(price.time), 12);
    const Work& work = r.graph->works[static_cast<size_t>(line.work)];
    s += "  " + pad_right(name_of(price.origin), 12) + "  ";
    s += pairs == 1 ? escape_text(describe(work))
                    : "send_recv between " + std::to_string(pairs) + " pairs of ranks, " +
                          std::to_string(work.bytes.value) + " B";
    s += '\n';
    if (!price.basis.empty())
      s += std::string(48, ' ') + paint(escape_text(price.basis), Tone::dim, style) + '\n';
  }
  return s + '\n' + host_table(r, style) + '\n' + wrap(engine_sentence(r), "", style.width);
}

void write_costs(JsonWriter& json, const Result& r) {
  json.objects("costs", cost_lines(r), [&](const CostLine& line) {
    const Price& price = r.prices->by_work[static_cast<size_t>(line.work)];
    json.member("work", describe(r.graph->works[static_cast<size_t>(line.work)]));
    json.member("runs", line.runs);
    json.member_time("time", price.time);
    json.member("origin", name_of(price.origin));
    json.member("basis", price.basis);
  });
  write_host(json, r);
  write_engine(json, r);
}

}  // namespace stepcast
