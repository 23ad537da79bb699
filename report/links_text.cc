// SPDX-License-Identifier: Apache-2.0
#include "report/links_text.h"

#include <algorithm>
#include <array>
#include <vector>

namespace stepcast {
namespace {

// Less than this on the fullest link is left out of the text: the gradient norm's few bytes.
constexpr double kLeastBytes = 1e4;

using Rows = std::vector<std::vector<std::string>>;

std::string gigabytes(double bytes) {
  return fixed(bytes * 1e-9, bytes < 10e9 ? 3 : 1);
}

std::string share(double seconds, Time step) {
  return step > Time{} ? percent(seconds / to_seconds(step)) : "-";
}

std::string dashed(WorkKind kind) {
  std::string name(name_of(kind));
  std::replace(name.begin(), name.end(), '_', '-');
  return kind == WorkKind::send_recv ? "transfers" : name;
}

// "tp all-gather, reduce-scatter; pp transfers"
std::string what_runs(const LinkLoads& loads) {
  std::string text;
  for (size_t i = 0; i < loads.crossings.size();) {
    const Axis axis = loads.crossings[i].axis;
    std::vector<WorkKind> kinds;
    for (; i < loads.crossings.size() && loads.crossings[i].axis == axis; ++i)
      for (WorkKind k : loads.crossings[i].kinds)
        if (std::find(kinds.begin(), kinds.end(), k) == kinds.end()) kinds.push_back(k);
    text += text.empty() ? "" : "; ";
    text += name_of(axis);
    for (size_t k = 0; k < kinds.size(); ++k) text += (k == 0 ? " " : ", ") + dashed(kinds[k]);
  }
  return text;
}

std::string crossings_table(const LinkLoads& loads, Time step, const TextStyle& style) {
  Rows rows{{"axis", "groups", "of", "links", "used", "groups a link", "GB", "seconds", "of step"}};
  const LinkCrossing* before = nullptr;
  for (const LinkCrossing& c : loads.crossings) {
    if (c.bytes < kLeastBytes) continue;
    const bool first = before == nullptr || before->axis != c.axis;
    before = &c;
    rows.push_back({first ? std::string(name_of(c.axis)) : "", first ? grouped(c.groups) : "",
                    first ? grouped(c.ranks) : "", escape_text(c.links),
                    grouped(c.links_used) + " of " + grouped(c.links_there),
                    grouped(c.groups_per_link), gigabytes(c.bytes), fixed(c.seconds, 3),
                    share(c.seconds, step)});
  }
  return titled_table(rows, "<>><>>>>>", style);
}

std::string fullest_table(const LinkLoads& loads, Time step, const TextStyle& style) {
  Rows rows{{"fullest", "from", "to", "GB", "seconds", "of step", "by"}};
  for (const FullestLink& f : loads.fullest) {
    if (f.bytes < kLeastBytes) continue;
    std::string by;
    for (const auto& [axis, bytes] : f.bytes_by_axis) {
      if (bytes < kLeastBytes) continue;
      by += (by.empty() ? "" : ", ") + std::string(name_of(axis)) + ' ' + percent(bytes / f.bytes);
    }
    rows.push_back({escape_text(f.links), escape_text(f.from), escape_text(f.to),
                    gigabytes(f.bytes), fixed(f.seconds, 3), share(f.seconds, step),
                    std::move(by)});
  }
  return titled_table(rows, "<<<>>><", style);
}

}  // namespace

std::string explain_links(const LinkLoads& loads, std::string_view where, Time step,
                          const TextStyle& style) {
  std::string s = wrap(escape_text(where), "", style.width) + '\n';
  const bool any = std::any_of(loads.crossings.begin(), loads.crossings.end(),
                               [](const LinkCrossing& c) { return c.bytes >= kLeastBytes; });
  if (!any) return s + "  no group of ranks communicates\n";
  s += crossings_table(loads, step, style) + '\n' + fullest_table(loads, step, style) + '\n';
  s += wrap(what_runs(loads), "  ", style.width);
  s += wrap(
      "GB: 10^9 bytes of a step over the link that takes longest, one way; seconds: over its "
      "full bandwidth; groups a link: the most that share one.",
      "  ", style.width);
  return s;
}

void write_links(JsonWriter& json, const LinkLoads& loads) {
  json.object("links", [&] {
    json.objects("crossings", loads.crossings, [&](const LinkCrossing& c) {
      json.member("axis", name_of(c.axis));
      std::vector<std::string_view> kinds;
      for (const WorkKind k : c.kinds) kinds.push_back(name_of(k));
      json.values("kinds", kinds);
      json.member("groups", c.groups);
      json.member("ranks", c.ranks);
      json.member("links", c.links);
      json.member("links_used", c.links_used);
      json.member("links_there", c.links_there);
      json.member("groups_per_link", c.groups_per_link);
      json.member("bytes", c.bytes);
      json.member("seconds", c.seconds);
    });
    json.objects("fullest", loads.fullest, [&](const FullestLink& f) {
      json.member("links", f.links);
      json.member("from", f.from);
      json.member("to", f.to);
      json.member("bytes", f.bytes);
      json.member("seconds", f.seconds);
      json.object("bytes_by_axis", [&] {
        for (const auto& [axis, bytes] : f.bytes_by_axis) json.member(name_of(axis), bytes);
      });
    });
  });
}

}  // namespace stepcast
