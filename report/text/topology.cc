// SPDX-License-Identifier: Apache-2.0
#include "report/text/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "report/json/writer.h"

namespace stepcast {

namespace {

// Near the GPUs first; PCIe switches and CPUs before NICs, leaves before spines.
int order_of(const ViewDevice& d) {
  switch (d.kind) {
    case ViewKind::gpu: return 0;
    case ViewKind::nvswitch: return 1;
    case ViewKind::nic: return 2;
    case ViewKind::pcie_switch: return 3;
    case ViewKind::cpu: return 4;
    case ViewKind::network_switch: return 5 + d.tier;
  }
  return 0;
}

std::vector<LinkClass> link_classes(const TopologyView& view) {
  std::map<std::tuple<ViewLinkKind, int, int, double, double, int32_t>, LinkClass> classes;
  for (const ViewLink& l : view.links) {
    uint32_t a = l.a, b = l.b;
    Bandwidth out = l.bandwidth, back = l.back;
    if (order_of(view.devices[a]) > order_of(view.devices[b])) {
      std::swap(a, b);
      std::swap(out, back);
    }
    const auto key = std::tuple(l.kind, order_of(view.devices[a]), order_of(view.devices[b]),
                                -out.value, -back.value, l.cables);
    const auto [it, fresh] = classes.try_emplace(key);
    if (fresh)
      it->second = {l.kind, view.devices[a], view.devices[b], 0, l.cables, out, back, l.nccl};
    ++it->second.links;
  }
  std::vector<LinkClass> sorted;
  for (auto& [key, c] : classes) sorted.push_back(std::move(c));
  return sorted;
}

std::vector<TierSummary> tiers_of(const TopologyView& view) {
  struct OfSwitch {
    double down = 0, up = 0;
  };
  std::vector<OfSwitch> load(view.devices.size());
  std::map<int32_t, TierSummary> tiers;
  for (const ViewDevice& d : view.devices) {
    if (d.kind != ViewKind::network_switch) continue;
    tiers[d.tier].tier = d.tier;
    if (tiers[d.tier].switches == 0) tiers[d.tier].name = kind_name(d);
    ++tiers[d.tier].switches;
  }
  const auto end = [&](uint32_t here, uint32_t there, const ViewLink& l, Bandwidth outwards) {
    const ViewDevice& d = view.devices[here];
    if (d.kind != ViewKind::network_switch) return;
    const ViewDevice& other = view.devices[there];
    const int32_t tier = other.kind == ViewKind::network_switch ? other.tier : -1;
    TierSummary& t = tiers[d.tier];
    if (tier > d.tier) {
      t.up += l.cables;
      t.up_bandwidth += outwards;
      load[here].up += outwards.value;
    } else if (tier < d.tier) {
      t.down += l.cables;
      t.down_bandwidth += outwards;
      load[here].down += outwards.value;
    }
  };
  for (const ViewLink& l : view.links) {
    end(l.a, l.b, l, l.bandwidth);
    end(l.b, l.a, l, l.back);
  }
  for (uint32_t d = 0; d < load.size(); ++d) {
    if (load[d].up <= 0) continue;
    TierSummary& t = tiers[view.devices[d].tier];
    t.worst = std::max(t.worst, load[d].down / load[d].up);
  }
  std::vector<TierSummary> sorted;
  for (const auto& [tier, summary] : tiers) sorted.push_back(summary);
  return sorted;
}

// Groups of devices that links of the chosen kinds join: the smallest device of each.
template <class Chosen>
std::vector<uint32_t> joined(const TopologyView& view, Chosen chosen) {
  std::vector<uint32_t> root(view.devices.size());
  std::iota(root.begin(), root.end(), 0U);
  const auto find = [&](uint32_t d) {
    while (root[d] != d) d = root[d] = root[root[d]];
    return d;
  };
  for (const ViewLink& l : view.links) {
    if (!chosen(l)) continue;
    const uint32_t a = find(l.a), b = find(l.b);
    root[std::max(a, b)] = std::min(a, b);
  }
  for (uint32_t d = 0; d < root.size(); ++d) root[d] = find(d);
  return root;
}

std::vector<std::string> far_from_nics(const TopologyView& view) {
  const std::vector<uint32_t> socket = joined(view, [](const ViewLink& l) {
    return l.kind == ViewLinkKind::pcie || l.kind == ViewLinkKind::c2c;
  });
  std::set<uint32_t> with_nic;
  std::set<int32_t> nodes_with_nic;
  for (uint32_t d = 0; d < socket.size(); ++d) {
    if (view.devices[d].kind != ViewKind::nic || view.devices[d].node < 0) continue;
    with_nic.insert(socket[d]);
    nodes_with_nic.insert(view.devices[d].node);
  }
  std::vector<std::string> far;
  for (uint32_t d = 0; d < socket.size(); ++d) {
    const ViewDevice& v = view.devices[d];
    if (v.kind == ViewKind::gpu && nodes_with_nic.contains(v.node) && !with_nic.contains(socket[d]))
      far.push_back(v.name);
  }
  return far;
}

}  // namespace

TopologySummary summarize(const TopologyView& view) {
  TopologySummary s;
  std::set<int32_t> nodes, rails;
  std::map<int32_t, int64_t> domains;
  for (const ViewDevice& d : view.devices) {
    ++s.counts[static_cast<size_t>(d.kind)];
    if (d.node >= 0 && (d.kind == ViewKind::gpu || d.kind == ViewKind::nic)) nodes.insert(d.node);
    if (d.rail >= 0) rails.insert(d.rail);
    if (d.kind == ViewKind::gpu && d.domain >= 0) ++domains[d.domain];
  }
  s.nodes = static_cast<int64_t>(nodes.size());
  s.rails = static_cast<int64_t>(rails.size());
  std::map<int64_t, int64_t> sizes;
  for (const auto& [domain, gpus] : domains) ++sizes[gpus];
  s.domains.assign(sizes.begin(), sizes.end());
  s.links = link_classes(view);
  s.tiers = tiers_of(view);
  const std::vector<uint32_t> root = joined(view, [](const ViewLink&) { return true; });
  for (uint32_t d = 0; d < root.size(); ++d) s.parts += root[d] == d;
  s.far_from_nics = far_from_nics(view);
  return s;
}

std::string kind_name(const ViewDevice& device) {
  switch (device.kind) {
    case ViewKind::gpu: return "GPU";
    case ViewKind::nvswitch: return "NVSwitch";
    case ViewKind::pcie_switch: return "PCIe switch";
    case ViewKind::cpu: return "CPU";
    case ViewKind::nic: return "NIC";
    case ViewKind::network_switch: break;
  }
  if (!device.tier_word.empty()) return device.tier_word;
  switch (device.tier) {
    case 0: return "leaf";
    case 1: return "spine";
    case 2: return "core";
    case -1: return "switch";
    default: return fmt::format("tier {}", device.tier);
  }
}

namespace {

constexpr size_t kMostLinkRows = 12, kMostNotes = 8, kMostWarnings = 10;

constexpr std::string_view kLinkNames[] = {"NVLink", "NVLink-C2C", "PCIe", "CPUs", "network"};
constexpr std::string_view kLinkKeys[] = {"nvlink", "c2c", "pcie", "host", "network"};
constexpr std::string_view kDeviceKeys[] = {"gpus", "nvswitches", "pcie_switches",
                                            "cpus", "nics",       "network_switches"};

std::string_view name_of(ViewLinkKind kind) {
  return kLinkNames[static_cast<size_t>(kind)];
}

std::string counted_devices(int64_t n, const std::string& one) {
  return counted(n, one, one + (one.ends_with("tch") ? "es" : "s"));
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
  constexpr std::string_view kDeviceNames[] = {"GPU", "NVSwitch", "PCIe switch",
                                               "CPU", "NIC",      "network switch"};
  std::vector<std::string> pieces;
  if (s.nodes > 1) pieces.push_back(counted_devices(s.nodes, "node"));
  for (size_t k = 0; k < kViewKinds; ++k)
    if (s.counts[k] > 0)
      pieces.push_back(counted_devices(s.counts[k], std::string(kDeviceNames[k])));
  return flow(pieces, width);
}

std::string domains_line(const TopologySummary& s) {
  std::string text;
  for (const auto& [gpus, count] : s.domains)
    text += (text.empty() ? "NVLink: " : ", ") + counted_devices(count, "domain") + " of " +
            counted_devices(gpus, "GPU");
  if (s.rails > 1) text += (text.empty() ? "" : "   ") + counted_devices(s.rails, "rail");
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
    text += "  and " +
            counted_devices(static_cast<int64_t>(s.links.size() + 1 - rows.size()), "kind") +
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
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

// Warnings of the importer, and those that the graph itself gives rise to.
std::vector<ViewWarning> all_warnings(const TopologyView& view, const TopologySummary& s) {
  std::vector<ViewWarning> all = view.warnings;
  std::stable_sort(all.begin(), all.end(),
                   [](const ViewWarning& a, const ViewWarning& b) { return a.line < b.line; });
  if (!s.far_from_nics.empty())
    all.push_back({0, some_of(s.far_from_nics) + (s.far_from_nics.size() == 1 ? " has" : " have") +
                          " no NIC on the same CPU: the route to the network crosses to another"});
  if (s.parts > 1)
    all.push_back({0, fmt::format("not connected: {} parts without a link", s.parts)});
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
  if (left_out > 0) text += fmt::format("  and {} more\n", left_out);
  const std::vector<ViewWarning> warnings = all_warnings(view, s);
  if (!warnings.empty()) text += '\n' + paint("looks wrong", Tone::warn, style) + '\n';
  for (size_t i = 0; i < std::min(kMostWarnings, warnings.size()); ++i) {
    const std::string place =
        warnings[i].line > 0 ? fmt::format("line {}: ", warnings[i].line) : "";
    text += wrap(place + escape_text(warnings[i].text), "  ! ", style.width);
  }
  if (warnings.size() > kMostWarnings)
    text += fmt::format("  and {} more (--json has all)\n", warnings.size() - kMostWarnings);
  return text;
}

std::string topology_json(const TopologyView& view) {
  const TopologySummary s = summarize(view);
  std::vector<std::string_view> notes;
  for (const ViewFact& f : view.facts)
    if (!f.text.empty()) notes.push_back(f.text);
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
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
