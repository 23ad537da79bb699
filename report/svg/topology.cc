// SPDX-License-Identifier: Apache-2.0
// A picture of up to three parts, one below the other:
//
//   the node      GPUs and NICs side by side in the order of the PCIe tree, NVSwitches above them,
//                 PCIe switches and CPUs below, each in the middle of what hangs on it
//   the domain    where NVLink joins several nodes: its NVSwitches in one box, a box for each node
//   the network   a row of boxes for each tier of switches, lines for the cables between them.  A
//                 tier of many switches has a box for each rail, or one for all.  Where most pairs
//                 of boxes have equally many cables, a pair with fewer is drawn in red.
//
// and a legend of the kinds of links.
#include "report/svg/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/format.h"
#include "report/svg/canvas.h"

namespace stepcast {
namespace {

// Pixels.
constexpr int64_t kMargin = 24, kDeviceWidth = 54, kDeviceGap = 8, kDeviceHeight = 26;
constexpr int64_t kLevel = 60;  // from one row of devices to the next
constexpr int64_t kTier = 150, kTierBox = 30, kLegendLine = 20;
constexpr size_t kMostDevices = 80;  // GPUs and NICs of a node that are drawn
constexpr size_t kMostBoxes = 48;    // switches of a tier that have a box each
constexpr size_t kMostLegend = 10;
constexpr int kMostTiers = 6;
constexpr int32_t kRailColours = 8;  // of the style sheet

std::string_view style_of(ViewKind kind) {
  constexpr std::string_view kDeviceStyles[] = {"gpu", "nvswitch", "pcie", "cpu", "nic", "switch"};
  return kDeviceStyles[static_cast<size_t>(kind)];
}

std::string_view style_of(ViewLinkKind kind) {
  constexpr std::string_view kLinkStyles[] = {"lnv", "lc2c", "lpcie", "lhost", "lnet"};
  return kLinkStyles[static_cast<size_t>(kind)];
}

std::string gigabytes_per_second(Bandwidth b) {
  return fmt::format("{:.{}f} GB/s", b.value / 1e9, b.value < 100e9 ? 1 : 0);
}

// "gpu5" of "n3/gpu5", "nic0" of "nic0 mlx5_0".
std::string short_name(std::string_view device) {
  const std::string_view last = device.substr(device.rfind('/') + 1);
  return std::string(last.substr(0, last.find(' ')));
}

bool is_leaf(const ViewDevice& d) {
  return d.kind == ViewKind::gpu || d.kind == ViewKind::nic;
}

// --- The node

// Where the devices of one node stand.
class NodeLayout {
 public:
  NodeLayout(const TopologyView& view, int32_t node) : view_(view) {
    for (const ViewLink& l : view.links) {
      if (view.devices[l.a].node != node || view.devices[l.b].node != node) continue;
      if (l.kind != ViewLinkKind::pcie && l.kind != ViewLinkKind::c2c) continue;
      beside_[l.a].insert(l.b);
      beside_[l.b].insert(l.a);
    }
    // CPUs with what hangs on them, then what hangs on none.
    std::vector<uint32_t> cpus, switches;
    for (const ViewKind kind : {ViewKind::cpu, ViewKind::gpu, ViewKind::nic, ViewKind::nvswitch})
      for (uint32_t d = 0; d < view.devices.size(); ++d) {
        if (view.devices[d].kind != kind || view.devices[d].node != node) continue;
        if (kind == ViewKind::cpu) cpus.push_back(d);
        if (kind == ViewKind::nvswitch)
          switches.push_back(d);
        else if (!level.contains(d))
          place(d);
      }
    for (const uint32_t cpu : cpus) bottom = std::max(bottom, level[cpu]);
    for (const uint32_t cpu : cpus) level[cpu] = bottom;
    width = std::max<int64_t>(1, leaves) * (kDeviceWidth + kDeviceGap);
    spread(switches);
    std::erase_if(cpus, [&](uint32_t cpu) { return x.contains(cpu); });
    spread(cpus);
  }

  std::map<uint32_t, int64_t> x;  // of the middle
  std::map<uint32_t, int> level;  // 0: GPUs and NICs; what they hang on is below; no NVSwitches
  int64_t leaves = 0, width = 0;
  int bottom = 0;

 private:
  // Places the device, and below it those of its devices that are not placed yet.  A leaf takes the
  // next place of the bottom row.
  void place(uint32_t device) {
    level[device] = 0;
    if (is_leaf(view_.devices[device])) {
      x[device] = kMargin + leaves++ * (kDeviceWidth + kDeviceGap) + kDeviceWidth / 2;
      return;
    }
    int64_t first = -1, last = -1;
    for (const uint32_t next : beside_[device]) {
      if (view_.devices[next].kind == ViewKind::cpu || level.contains(next)) continue;
      place(next);
      level[device] = std::max(level[device], level[next] + 1);
      if (!x.contains(next)) continue;
      if (first < 0) first = x[next];
      last = x[next];
    }
    level[device] = std::max(level[device], 1);
    if (first >= 0) x[device] = (first + last) / 2;
  }

  void spread(const std::vector<uint32_t>& devices) {
    const auto n = static_cast<int64_t>(devices.size());
    for (int64_t i = 0; i < n; ++i)
      x[devices[static_cast<size_t>(i)]] = kMargin + (2 * i + 1) * width / (2 * n);
  }

  const TopologyView& view_;
  std::map<uint32_t, std::set<uint32_t>> beside_;  // over PCIe and C2C
};

const ViewDevice* first_gpu(const TopologyView& view) {
  const auto gpu = std::ranges::find(view.devices, ViewKind::gpu, &ViewDevice::kind);
  return gpu == view.devices.end() ? nullptr : &*gpu;
}

// Each part is drawn from `y` down; the result is where the next one begins.
int64_t draw_node(SvgCanvas& canvas, const TopologyView& view, int64_t y) {
  const ViewDevice* gpu = first_gpu(view);
  if (gpu == nullptr) return y;
  const NodeLayout at(view, gpu->node);
  if (static_cast<size_t>(at.leaves) > kMostDevices) {
    canvas.text(kMargin, y,
                fmt::format("{} GPUs and NICs in one node: too many to draw", at.leaves));
    return y + 24;
  }
  const bool several = gpu->node >= 0 && summarize(view).nodes > 1;
  canvas.text(kMargin, y, several ? fmt::format("node {}, as the others", gpu->node) : "the node",
              "h");
  const int64_t top = y + 14;
  const bool nvlinks = std::ranges::any_of(view.links, [&](const ViewLink& l) {
    return l.kind == ViewLinkKind::nvlink && at.x.contains(l.a) && at.x.contains(l.b);
  });
  const int64_t leaf_y = top + (nvlinks ? kDeviceHeight + kLevel : 0);
  const auto y_of = [&](uint32_t d) {
    const auto level = at.level.find(d);
    return level == at.level.end() ? top : leaf_y + level->second * kLevel;
  };
  for (const ViewLink& l : view.links) {  // lines first, boxes over them
    if (!at.x.contains(l.a) || !at.x.contains(l.b)) continue;
    std::string title = fmt::format("{} - {}: {:.1f} GB/s", view.devices[l.a].name,
                                    view.devices[l.b].name, l.bandwidth.value / 1e9);
    if (l.cables > 1) title += fmt::format(", {} cables", l.cables);
    const int64_t a_x = at.x.at(l.a), b_x = at.x.at(l.b), a_y = y_of(l.a), b_y = y_of(l.b);
    if (a_y != b_y)
      canvas.line(a_x, a_y + (a_y < b_y ? kDeviceHeight : 0), b_x,
                  b_y + (b_y < a_y ? kDeviceHeight : 0), style_of(l.kind), title);
    else if (l.kind == ViewLinkKind::nvlink)
      canvas.arc(a_x, b_x, a_y, std::min<int64_t>(24 + std::abs(a_x - b_x) / 12, kLevel),
                 style_of(l.kind), title);
    else
      canvas.arc(a_x, b_x, a_y + kDeviceHeight, -14, style_of(l.kind), title);
  }
  for (const auto& [d, middle] : at.x) {
    const ViewDevice& device = view.devices[d];
    const int64_t width = kDeviceWidth + (device.kind == ViewKind::nvswitch ? 16 : 0);
    canvas.box(middle - width / 2, y_of(d), width, kDeviceHeight, style_of(device.kind),
               short_name(device.name), device.name);
  }
  return leaf_y + at.bottom * kLevel + kDeviceHeight + 48;
}

// --- The NVLink domain, if it holds GPUs of several nodes

int64_t draw_domain(SvgCanvas& canvas, const TopologyView& view, int64_t y) {
  const ViewDevice* gpu = first_gpu(view);
  if (gpu == nullptr || gpu->domain < 0) return y;
  std::map<int32_t, int64_t> gpus_of;
  int64_t gpus = 0, switches = 0;
  for (const ViewDevice& d : view.devices) {
    if (d.domain != gpu->domain) continue;
    if (d.kind == ViewKind::gpu) ++gpus, ++gpus_of[d.node];
    if (d.kind == ViewKind::nvswitch) ++switches;
  }
  if (gpus_of.size() < 2) return y;
  constexpr int64_t kNodesInARow = 9, kNodeWidth = 110, kNodeGap = 8, kRow = 44;
  const std::string planes = counted(switches, "NVSwitch", "NVSwitches");
  canvas.text(kMargin, y,
              fmt::format("NVLink domain: {} GPUs in {} nodes, {}", gpus, gpus_of.size(), planes),
              "h");
  const int64_t columns = std::min<int64_t>(kNodesInARow, static_cast<int64_t>(gpus_of.size()));
  const int64_t width = columns * (kNodeWidth + kNodeGap) - kNodeGap;
  canvas.box(kMargin, y + 14, width, kDeviceHeight, "nvswitch", planes);
  const int64_t first_row = y + 14 + kDeviceHeight + 18;
  int64_t i = 0;
  for (const auto& [node, n] : gpus_of) {
    const int64_t left = kMargin + i % columns * (kNodeWidth + kNodeGap);
    const int64_t top = first_row + i / columns * kRow;
    canvas.line(left + kNodeWidth / 2, top - 18, left + kNodeWidth / 2, top, "lnv");
    canvas.box(left, top, kNodeWidth, kDeviceHeight, "gpu",
               fmt::format("node {}: {}", node, counted(n, "GPU", "GPUs")));
    ++i;
  }
  return first_row + ((i - 1) / columns + 1) * kRow + 20;
}

// --- The network

// One or more switches of a tier, drawn as one.
struct SwitchBox {
  std::string label;
  int32_t rail = -1;
  int64_t switches = 0, nics = 0;
  int64_t x = 0, width = 0;

  int64_t middle() const { return x + width / 2; }
};

struct NetworkLayout {
  std::vector<std::vector<SwitchBox>> tiers;  // from the leaves up
  std::vector<std::pair<int, int>> box_of;    // of each device: tier and box; -1: none
  std::map<std::pair<int, int>, int64_t> cables[kMostTiers];  // of box a to box b one tier up
};

// "3 leaves", "1 spine".
std::string switches_text(int64_t n, const std::string& one) {
  return counted(n, one, one == "leaf" ? "leaves" : one + 's');
}

std::vector<SwitchBox> boxes_of_tier(const TopologyView& view, int tier,
                                     std::vector<std::pair<int, int>>& box_of) {
  std::vector<uint32_t> switches;
  std::map<int32_t, int> rails;
  for (uint32_t d = 0; d < view.devices.size(); ++d) {
    if (view.devices[d].kind != ViewKind::network_switch || view.devices[d].tier != tier) continue;
    switches.push_back(d);
    rails.try_emplace(view.devices[d].rail, static_cast<int>(rails.size()));
  }
  // leaf2 before leaf10.
  std::ranges::stable_sort(switches, {}, [&](uint32_t d) {
    return std::pair(view.devices[d].name.size(), std::string_view(view.devices[d].name));
  });
  const bool each = switches.size() <= kMostBoxes, by_rail = rails.size() <= kMostBoxes;
  std::vector<SwitchBox> boxes;
  for (const uint32_t d : switches) {
    const ViewDevice& device = view.devices[d];
    const int box = each ? static_cast<int>(boxes.size()) : by_rail ? rails.at(device.rail) : 0;
    if (boxes.size() <= static_cast<size_t>(box)) boxes.resize(static_cast<size_t>(box) + 1);
    SwitchBox& b = boxes[static_cast<size_t>(box)];
    ++b.switches;
    b.rail = by_rail || each ? device.rail : -1;
    b.label = each ? device.name : switches_text(b.switches, kind_name(device));
    if (!each && b.rail >= 0) b.label += fmt::format(" rail {}", b.rail);
    box_of[d] = {tier, box};
  }
  return boxes;
}

NetworkLayout network_layout(const TopologyView& view, int tiers) {
  NetworkLayout n;
  n.box_of.assign(view.devices.size(), {-1, -1});
  for (int t = 0; t < tiers; ++t) n.tiers.push_back(boxes_of_tier(view, t, n.box_of));
  for (const ViewLink& l : view.links)
    for (const auto& [low, high] : {std::pair(l.a, l.b), {l.b, l.a}}) {
      const auto [tier, box] = n.box_of[high];
      if (tier < 0) continue;
      if (view.devices[low].kind == ViewKind::nic)
        n.tiers[static_cast<size_t>(tier)][static_cast<size_t>(box)].nics += l.cables;
      if (n.box_of[low].first >= 0 && n.box_of[low].first == tier - 1)
        n.cables[tier - 1][{n.box_of[low].second, box}] += l.cables;
    }
  size_t widest = 1;
  for (const auto& boxes : n.tiers) widest = std::max(widest, boxes.size());
  const int64_t width = std::clamp<int64_t>(static_cast<int64_t>(widest) * 74, 700, 2600);
  for (auto& boxes : n.tiers) {
    const auto count = static_cast<int64_t>(boxes.size());
    for (int64_t i = 0; i < count; ++i) {
      SwitchBox& b = boxes[static_cast<size_t>(i)];
      b.width = std::min<int64_t>(150, width / count - 6);
      b.x = kMargin + (2 * i + 1) * width / (2 * count) - b.width / 2;
    }
  }
  return n;
}

// How many cables most pairs of boxes of this tier and the next have.  0 if fewer than 80 % of the
// pairs are joined: then not every box is meant to be joined to every other.
int64_t usual_cables(const std::map<std::pair<int, int>, int64_t>& cables, size_t pairs) {
  if (10 * cables.size() < 8 * pairs) return 0;
  std::map<int64_t, int64_t> counts;
  for (const auto& [boxes, n] : cables) ++counts[n];
  int64_t usual = 0, most = 0;
  for (const auto& [n, count] : counts)
    if (count >= most) usual = n, most = count;
  return usual;
}

// Draws the lines from one tier to the next, red ones last; returns whether there are red ones.
bool draw_cables(SvgCanvas& canvas, const NetworkLayout& n, size_t tier, int64_t y_low,
                 int64_t y_high) {
  const std::vector<SwitchBox>&low = n.tiers[tier], &high = n.tiers[tier + 1];
  const int64_t usual = usual_cables(n.cables[tier], low.size() * high.size());
  bool any_red = false;
  for (const bool red : {false, true})
    for (size_t a = 0; a < low.size(); ++a)
      for (size_t b = 0; b < high.size(); ++b) {
        const auto found = n.cables[tier].find({static_cast<int>(a), static_cast<int>(b)});
        const int64_t cables = found == n.cables[tier].end() ? 0 : found->second;
        if ((cables < usual) != red || (cables == 0 && !red)) continue;
        any_red = any_red || red;
        const std::string text = red ? fmt::format("{} of {} cables", cables, usual)
                                     : counted(cables, "cable", "cables");
        canvas.line(low[a].middle(), y_low, high[b].middle(), y_high, red ? "bad" : "lnet",
                    fmt::format("{} - {}: {}", low[a].label, high[b].label, text));
        if (low.size() == 1 && high.size() == 1)
          canvas.text(low[a].middle() + 8, (y_low + y_high) / 2 + 4, text);
      }
  return any_red;
}

int64_t draw_network(SvgCanvas& canvas, const TopologyView& view, int64_t y) {
  int tiers = 0;
  for (const ViewDevice& d : view.devices)
    if (d.kind == ViewKind::network_switch) tiers = std::max(tiers, d.tier + 1);
  if (tiers == 0) return y;
  if (tiers > kMostTiers) {
    canvas.text(kMargin, y, fmt::format("{} tiers of switches: too many to draw", tiers));
    return y + 24;
  }
  const NetworkLayout n = network_layout(view, tiers);
  canvas.text(kMargin, y, "network by tiers", "h");
  const auto y_of = [&](size_t tier) {
    return y + 14 + (tiers - 1 - static_cast<int64_t>(tier)) * kTier;
  };
  bool missing = false, rails = false;
  for (size_t t = 0; t + 1 < n.tiers.size(); ++t)
    missing |= draw_cables(canvas, n, t, y_of(t), y_of(t + 1) + kTierBox);
  for (size_t t = 0; t < n.tiers.size(); ++t)
    for (const SwitchBox& b : n.tiers[t]) {
      rails = rails || b.rail >= 0;
      const std::string style = b.rail < 0 ? "switch" : fmt::format("r{}", b.rail % kRailColours);
      const std::string title =
          b.nics > 0 ? fmt::format("{}, {} NICs below", b.label, grouped(b.nics)) : b.label;
      canvas.box(b.x, y_of(t), b.width, kTierBox, style, b.label, title);
      if (b.nics == 0) continue;
      canvas.line(b.middle(), y_of(t) + kTierBox, b.middle(), y_of(t) + kTierBox + 18, "lnet");
      canvas.box(b.x, y_of(t) + kTierBox + 18, b.width, 22, "nic",
                 grouped(b.nics) + (b.width >= 50 ? " NICs" : ""), title);
    }
  y = y_of(0) + kTierBox + 80;
  if (rails) {
    canvas.text(kMargin, y, "switches of one colour: one rail (the colours repeat after eight)");
    y += 24;
  }
  if (missing) {
    canvas.line(kMargin, y - 4, kMargin + 34, y - 4, "bad");
    canvas.text(kMargin + 44, y, "fewer cables than most pairs of these tiers have");
    y += 10;
  }
  return y;
}

int64_t draw_legend(SvgCanvas& canvas, const TopologyView& view, int64_t y) {
  constexpr std::string_view kNames[] = {"NVLink", "NVLink-C2C", "PCIe", "between CPUs", "network"};
  const std::vector<LinkClass> links = summarize(view).links;
  for (size_t i = 0; i < std::min(kMostLegend, links.size()); ++i) {
    const LinkClass& c = links[i];
    canvas.line(kMargin, y - 4, kMargin + 34, y - 4, style_of(c.kind));
    std::string text =
        fmt::format("{}, {} to {}: {} each way", kNames[static_cast<size_t>(c.kind)],
                    kind_name(c.a), kind_name(c.b), gigabytes_per_second(c.bandwidth));
    if (c.cables > 1) text += fmt::format(" in {} cables", c.cables);
    if (c.links > 1) text += fmt::format(", {} times", grouped(c.links));
    canvas.text(kMargin + 44, y, text);
    y += kLegendLine;
  }
  if (links.size() <= kMostLegend) return y;
  canvas.text(kMargin + 44, y,
              fmt::format("and {} more kinds of links", links.size() - kMostLegend));
  return y + kLegendLine;
}

}  // namespace

std::string topology_svg(const TopologyView& view) {
  SvgCanvas canvas;
  canvas.text(kMargin, 30, elided(view.title, 90), "t");
  int64_t y = 54;
  y = draw_node(canvas, view, y);
  y = draw_domain(canvas, view, y);
  y = draw_network(canvas, view, y);
  y = draw_legend(canvas, view, y + 10);
  return canvas.finish(xml_text(view.title), y + 4);
}

}  // namespace stepcast
