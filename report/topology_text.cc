// SPDX-License-Identifier: Apache-2.0
#include "report/topology_text.h"

#include <algorithm>
#include <optional>

#include "report/json_writer.h"

namespace stepcast {
namespace {

constexpr size_t kMostLinkRows = 12, kMostNotes = 8, kMostWarnings = 10;

constexpr std::string_view kLinkNames[] = {"NVLink", "NVLink-C2C", "PCIe", "CPUs", "network"};
constexpr std::string_view kLinkKeys[] = {"nvlink", "c2c", "pcie", "host", "network"};
constexpr std::string_view kDeviceKeys[] = {"gpus", "nvswitches", "pcie_switches",
                                            "cpus", "nics",       "network_switches"};

std::string_view name_of(ViewLinkKind kind) {
  return kLinkNames[static_cast<size_t>(kind)];
}

std::string counted(int64_t n, const std::string& one) {
  if (n == 1) return "1 " + one;
  return grouped(n) + ' ' + one + (one.ends_with("tch") ? "es" : one == "leaf" ? "" : "s");
}

// "450", "31.5", "1,230": GB/s.
std::string gbs(Bandwidth b) {
  const double value = b.value / 1e9;
  if (value >= 9999.5) return grouped(static_cast<int64_t>(value + 0.5));
  std::string s = fixed(value, value < 100 ? 2 : 1);
  while (s.ends_with('0')) s.pop_back();
  if (s.ends_with('.')) s.pop_back();
  return s;
}

std::string devices_line(const TopologySummary& s, int width) {
  constexpr std::string_view kNames[] = {"GPU", "NVSwitch", "PCIe switch",
                                         "CPU", "NIC",      "network switch"};
  std::vector<std::string> pieces;
  if (s.nodes > 1) pieces.push_back(counted(s.nodes, "node"));
  for (size_t k = 0; k < kViewKinds; ++k)
    if (s.counts[k] > 0) pieces.push_back(counted(s.counts[k], std::string(kNames[k])));
  return flow(pieces, width);
}

std::string domains_line(const TopologySummary& s) {
  std::string text;
  for (const auto& [gpus, count] : s.domains)
    text += (text.empty() ? "NVLink: " : ", ") + counted(count, "domain") + " of " +
            counted(gpus, "GPU");
  if (s.rails > 1) text += (text.empty() ? "" : "   ") + counted(s.rails, "rail");
  return text.empty() ? "" : text + '\n';
}

std::string links_table(const TopologySummary& s, const TextStyle& style) {
  if (s.links.empty()) return "";
  const bool nccl = std::any_of(s.links.begin(), s.links.end(), [](const LinkClass& c) {
    return c.nccl.value > 0 && c.nccl != c.bandwidth;
  });
  const bool back = std::any_of(s.links.begin(), s.links.end(),
                                [](const LinkClass& c) { return c.back != c.bandwidth; });
  std::vector<std::vector<std::string>> rows = {{"links", "", "count", "cables", "GB/s"}};
  if (back) rows[0].push_back("back");
  if (nccl) rows[0].push_back("NCCL counts");
  for (const LinkClass& c : s.links) {
    if (rows.size() > kMostLinkRows) break;
    rows.push_back({std::string(name_of(c.kind)),
                    escape_text(kind_name(c.a) + " - " + kind_name(c.b)), grouped(c.links),
                    grouped(c.cables), gbs(c.bandwidth)});
    if (back) rows.back().push_back(gbs(c.back));
    if (nccl) rows.back().push_back(c.nccl.value > 0 ? gbs(c.nccl) : "-");
  }
  std::string text = titled_table(rows, "<<>>>>>", style);
  if (s.links.size() + 1 > rows.size())
    text += "  and " + counted(static_cast<int64_t>(s.links.size() + 1 - rows.size()), "kind") +
            " more\n";
  return text;
}

std::string ratio(double down_to_up) {
  return fixed(down_to_up, 2) + " : 1";
}

std::string tiers_table(const TopologySummary& s, const TextStyle& style) {
  if (s.tiers.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"tier", "switches", "cables down", "up", "down : up", "at worst"}};
  for (const TierSummary& t : s.tiers) {
    const bool up = t.up_bandwidth.value > 0;
    rows.push_back(
        {escape_text(t.name), grouped(t.switches), grouped(t.down), t.up > 0 ? grouped(t.up) : "-",
         up ? ratio(t.down_bandwidth / t.up_bandwidth) : "-", up ? ratio(t.worst) : "-"});
  }
  return titled_table(rows, "<>>>>>", style);
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

// Warnings of the importer, and those that the graph itself gives rise to.
std::vector<ViewWarning> all_warnings(const TopologyView& view, const TopologySummary& s) {
  std::vector<ViewWarning> all = view.warnings;
  std::stable_sort(all.begin(), all.end(),
                   [](const ViewWarning& a, const ViewWarning& b) { return a.line < b.line; });
  if (!s.far_from_nics.empty())
    all.push_back({0, some_of(s.far_from_nics) + (s.far_from_nics.size() == 1 ? " has" : " have") +
                          " no NIC on the same CPU: the way to the network crosses to another"});
  if (s.parts > 1)
    all.push_back({0, "not connected: " + std::to_string(s.parts) + " parts without a link"});
  return all;
}

void write_links(JsonWriter& json, const TopologySummary& s) {
  json.objects("links", s.links, [&](const LinkClass& c) {
    json.member("kind", kLinkKeys[static_cast<size_t>(c.kind)]);
    json.member("from", kind_name(c.a));
    json.member("to", kind_name(c.b));
    json.member("links", c.links);
    json.member("cables_each", c.cables);
    json.member("bandwidth_bytes_per_s", c.bandwidth.value);
    json.member("back_bytes_per_s", c.back.value);
    json.member("nccl_bytes_per_s", c.nccl.value > 0 ? std::optional(c.nccl.value) : std::nullopt);
  });
}

void write_tiers(JsonWriter& json, const TopologySummary& s) {
  json.objects("tiers", s.tiers, [&](const TierSummary& t) {
    json.member("tier", t.tier);
    json.member("name", t.name);
    json.member("switches", t.switches);
    json.member("cables_down", t.down);
    json.member("cables_up", t.up);
    json.member("oversubscription", t.up_bandwidth.value > 0
                                        ? std::optional(t.down_bandwidth / t.up_bandwidth)
                                        : std::nullopt);
  });
}

}  // namespace

std::string topology_text(const TopologyView& view, const TextStyle& style) {
  const TopologySummary s = summarize(view);
  std::string text = paint(escape_text(view.title), Tone::strong, style) + "   " + view.format +
                     "\n\n" + devices_line(s, style.width) + domains_line(s);
  for (const std::string& part : {links_table(s, style), tiers_table(s, style)})
    if (!part.empty()) text += '\n' + part;
  std::string notes;
  size_t count = 0, left_out = 0;
  for (const ViewFact& f : view.facts) {
    if (f.text.empty()) continue;
    if (++count <= kMostNotes)
      notes += wrap(escape_text(f.text), "  ", style.width);
    else
      ++left_out;
  }
  if (!notes.empty()) text += '\n' + notes;
  if (left_out > 0) text += "  and " + std::to_string(left_out) + " more\n";
  const std::vector<ViewWarning> warnings = all_warnings(view, s);
  if (!warnings.empty()) text += '\n' + paint("looks wrong", Tone::warn, style) + '\n';
  for (size_t i = 0; i < std::min(kMostWarnings, warnings.size()); ++i) {
    const std::string place =
        warnings[i].line > 0 ? "line " + std::to_string(warnings[i].line) + ": " : "";
    text += wrap(place + escape_text(warnings[i].text), "  ! ", style.width);
  }
  if (warnings.size() > kMostWarnings)
    text += "  and " + std::to_string(warnings.size() - kMostWarnings) + " more (--json has all)\n";
  return text;
}

std::string topology_json(const TopologyView& view) {
  const TopologySummary s = summarize(view);
  std::vector<std::string_view> notes;
  for (const ViewFact& f : view.facts)
    if (!f.text.empty()) notes.push_back(f.text);
  return json_document([&](JsonWriter& json) {
    json.member("file", view.title);
    json.member("format", view.format);
    json.object("devices", [&] {
      for (size_t k = 0; k < kViewKinds; ++k) json.member(kDeviceKeys[k], s.counts[k]);
    });
    json.member("nodes", s.nodes);
    json.member("rails", s.rails);
    json.member("parts", s.parts);
    json.objects("nvlink_domains", s.domains, [&](const auto& domain) {
      json.member("gpus", domain.first);
      json.member("count", domain.second);
    });
    write_links(json, s);
    write_tiers(json, s);
    json.object("facts", [&] {
      for (const ViewFact& f : view.facts) json.member(f.key, f.value);
    });
    json.values("notes", notes);
    json.objects("warnings", all_warnings(view, s), [&](const ViewWarning& w) {
      json.member("line", w.line > 0 ? std::optional(w.line) : std::nullopt);
      json.member("text", w.text);
    });
  });
}

}  // namespace stepcast
