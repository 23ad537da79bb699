// SPDX-License-Identifier: Apache-2.0
// The inside of a node, and the NVLink domain it is in.
#include <algorithm>
#include <map>
#include <set>

#include "report/format.h"
#include "report/topology_svg_parts.h"

namespace stepcast {
namespace {

// Pixels.
constexpr int64_t kLeaf = 54, kSwitch = 70, kLeafGap = 8, kBox = 26, kRow = 66;
constexpr size_t kMostNvlinks = 200;  // lines to switches; more become a bar
constexpr size_t kMostLeaves = 80;    // GPUs and NICs of a node

// The PCIe tree of one node.
struct NodePicture {
  std::vector<uint32_t> switches;  // NVSwitches of its own
  std::vector<uint32_t> leaves;    // GPUs and NICs, in the order of the tree
  std::vector<uint32_t> cpus;
  std::map<uint32_t, std::vector<uint32_t>> below;  // PCIe switches and CPUs: what hangs on them
  std::map<uint32_t, int> height;                   // leaves 0
  std::map<uint32_t, int64_t> x;                    // middle
  int top = 1;                                      // height of the CPUs
};

bool is_leaf(const ViewDevice& d) {
  return d.kind == ViewKind::gpu || d.kind == ViewKind::nic;
}

// Walks down from a CPU or switch; what was seen before is passed over.
void grow(const TopologyView& view, const std::map<uint32_t, std::vector<uint32_t>>& beside,
          uint32_t at, NodePicture& p, std::set<uint32_t>& seen) {
  int height = 0;
  const auto found = beside.find(at);
  if (found == beside.end()) return;
  for (const uint32_t next : found->second) {
    const ViewDevice& d = view.devices[next];
    if (d.kind == ViewKind::cpu || !seen.insert(next).second) continue;
    p.below[at].push_back(next);
    if (is_leaf(d)) {
      p.leaves.push_back(next);
      p.height[next] = 0;
    } else {
      grow(view, beside, next, p, seen);
    }
    height = std::max(height, p.height[next] + 1);
  }
  p.height[at] = std::max(height, 1);
}

NodePicture picture_of(const TopologyView& view, int32_t node) {
  NodePicture p;
  std::map<uint32_t, std::vector<uint32_t>> beside;  // over PCIe and C2C
  for (const ViewLink& l : view.links) {
    if (view.devices[l.a].node != node || view.devices[l.b].node != node) continue;
    if (l.kind != ViewLinkKind::pcie && l.kind != ViewLinkKind::c2c) continue;
    beside[l.a].push_back(l.b);
    beside[l.b].push_back(l.a);
  }
  for (auto& [device, others] : beside) std::sort(others.begin(), others.end());
  std::set<uint32_t> seen;
  for (uint32_t d = 0; d < view.devices.size(); ++d) {
    const ViewDevice& v = view.devices[d];
    if (v.node != node) continue;
    if (v.kind == ViewKind::nvswitch) p.switches.push_back(d);
    if (v.kind != ViewKind::cpu) continue;
    p.cpus.push_back(d);
    p.height[d] = 1;
    grow(view, beside, d, p, seen);
    p.top = std::max(p.top, p.height[d]);
  }
  for (uint32_t d = 0; d < view.devices.size(); ++d) {
    const ViewDevice& v = view.devices[d];
    if (v.node == node && is_leaf(v) && !seen.contains(d)) p.leaves.push_back(d);
  }
  for (const uint32_t c : p.cpus) p.height[c] = p.top;
  return p;
}

// Leaves side by side, everything else in the middle above what hangs on it.
void place(NodePicture& p, uint32_t at) {
  const auto below = p.below.find(at);
  if (below == p.below.end()) return;
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (const uint32_t d : below->second) {
    place(p, d);
    if (!p.x.contains(d)) continue;
    least = std::min(least, p.x[d]);
    most = std::max(most, p.x[d]);
  }
  if (least <= most) p.x[at] = (least + most) / 2;
}

std::string_view style_of(ViewKind kind) {
  switch (kind) {
    case ViewKind::gpu: return "gpu";
    case ViewKind::nvswitch: return "nvswitch";
    case ViewKind::pcie_switch: return "pcie";
    case ViewKind::cpu: return "cpu";
    case ViewKind::nic: return "nic";
    case ViewKind::network_switch: break;
  }
  return "switch";
}

// "gpu5" of "n3/gpu5", "nic0" of "nic0 mlx5_0".
std::string short_name(std::string_view device) {
  const std::string_view last = device.substr(device.rfind('/') + 1);
  return std::string(last.substr(0, last.find(' ')));
}

void draw_device(SvgCanvas& canvas, const ViewDevice& d, int64_t middle, int64_t y) {
  const int64_t width = d.kind == ViewKind::nvswitch ? kSwitch : kLeaf;
  canvas.box(middle - width / 2, y, width, kBox, style_of(d.kind), short_name(d.name), d.name);
}

std::string tip(const TopologyView& view, const ViewLink& l) {
  return view.devices[l.a].name + " - " + view.devices[l.b].name + ": " +
         fixed(l.bandwidth.value / 1e9, 1) + " GB/s" +
         (l.cables > 1 ? ", " + std::to_string(l.cables) + " cables" : "");
}

// NVLinks inside the node: to its switches above, or in arcs from GPU to GPU.
void draw_nvlinks(SvgCanvas& canvas, const TopologyView& view, NodePicture& p, int64_t switch_y,
                  int64_t leaf_y) {
  std::vector<const ViewLink*> up;
  for (const ViewLink& l : view.links) {
    if (l.kind != ViewLinkKind::nvlink || !p.x.contains(l.a) || !p.x.contains(l.b)) continue;
    const bool a = view.devices[l.a].kind == ViewKind::gpu;
    const bool b = view.devices[l.b].kind == ViewKind::gpu;
    if (a && b) {
      const int64_t far = std::abs(p.x[l.a] - p.x[l.b]);
      canvas.arc(p.x[l.a], p.x[l.b], leaf_y, std::min<int64_t>(24 + far / 12, kRow), "lnv",
                 tip(view, l));
    } else if (a != b) {
      up.push_back(&l);
    }
  }
  if (up.size() <= kMostNvlinks) {
    for (const ViewLink* l : up) {
      const bool a = view.devices[l->a].kind == ViewKind::gpu;
      canvas.line(p.x[a ? l->a : l->b], leaf_y, p.x[a ? l->b : l->a], switch_y + kBox, "lnv",
                  tip(view, *l));
    }
  }
}

bool spans_nodes(const TopologyView& view, int32_t domain) {
  int32_t node = -2;
  for (const ViewDevice& d : view.devices) {
    if (d.kind != ViewKind::gpu || d.domain != domain) continue;
    if (node != -2 && d.node != node) return true;
    node = d.node;
  }
  return false;
}

const ViewDevice* first_gpu(const TopologyView& view) {
  for (const ViewDevice& d : view.devices)
    if (d.kind == ViewKind::gpu) return &d;
  return nullptr;
}

}  // namespace

int64_t draw_node(SvgCanvas& canvas, const TopologyView& view, int64_t y) {
  const ViewDevice* gpu = first_gpu(view);
  if (gpu == nullptr) return y;
  NodePicture p = picture_of(view, gpu->node);
  if (p.leaves.size() > kMostLeaves) {
    canvas.text(kMargin, y,
                grouped(static_cast<int64_t>(p.leaves.size())) +
                    " GPUs and NICs in one node: too many to draw");
    return y + 24;
  }
  int64_t x = kMargin + kLeaf / 2;
  for (const uint32_t d : p.leaves) {
    p.x[d] = x;
    x += kLeaf + kLeafGap;
  }
  const int64_t width = std::max<int64_t>(kLeaf, x - kMargin - kLeaf / 2 - kLeafGap);
  for (size_t c = 0; c < p.cpus.size(); ++c) {
    place(p, p.cpus[c]);
    if (p.x.contains(p.cpus[c])) continue;
    p.x[p.cpus[c]] = kMargin + (2 * static_cast<int64_t>(c) + 1) * width /
                                   (2 * static_cast<int64_t>(p.cpus.size()));
  }
  const auto n = static_cast<int64_t>(p.switches.size());
  for (int64_t s = 0; s < n; ++s)
    p.x[p.switches[static_cast<size_t>(s)]] = kMargin + (2 * s + 1) * width / (2 * n);

  canvas.text(kMargin, y,
              view.devices.size() > 1 && gpu->node >= 0 && summarize(view).nodes > 1
                  ? "node " + std::to_string(gpu->node) + ", as the others"
                  : "the node",
              "h");
  const int64_t switch_y = y + 14;
  const bool nvlinks = std::any_of(view.links.begin(), view.links.end(), [&](const ViewLink& l) {
    return l.kind == ViewLinkKind::nvlink && p.x.contains(l.a) && p.x.contains(l.b);
  });
  const int64_t leaf_y = switch_y + (nvlinks ? kBox + kRow : 0);
  const auto y_of = [&](uint32_t d) { return leaf_y + p.height[d] * (kBox + kRow / 2); };
  // Lines first, boxes over them.
  draw_nvlinks(canvas, view, p, switch_y, leaf_y);
  for (const ViewLink& l : view.links) {
    if (!p.x.contains(l.a) || !p.x.contains(l.b) || l.kind == ViewLinkKind::nvlink) continue;
    if (l.kind == ViewLinkKind::host) {
      const int64_t bottom = y_of(l.a) + kBox;
      canvas.arc(p.x[l.a], p.x[l.b], bottom, -14, "lhost", tip(view, l));
      continue;
    }
    const bool a_above = y_of(l.a) < y_of(l.b);
    const uint32_t above = a_above ? l.a : l.b, under = a_above ? l.b : l.a;
    canvas.line(p.x[above], y_of(above) + kBox, p.x[under], y_of(under), link_style(l.kind),
                tip(view, l));
  }
  for (const auto& [d, middle] : p.x)
    draw_device(canvas, view.devices[d], middle,
                view.devices[d].kind == ViewKind::nvswitch ? switch_y : y_of(d));
  return leaf_y + (p.cpus.empty() ? 0 : p.top) * (kBox + kRow / 2) + kBox + 48;
}

int64_t draw_domain(SvgCanvas& canvas, const TopologyView& view, int64_t y) {
  const ViewDevice* gpu = first_gpu(view);
  if (gpu == nullptr || gpu->domain < 0 || !spans_nodes(view, gpu->domain)) return y;
  constexpr int64_t kTray = 62, kTrayGap = 6, kInTray = 4, kMostTrays = 18;
  std::map<int32_t, std::vector<uint32_t>> trays;
  std::vector<uint32_t> switches;
  for (uint32_t d = 0; d < view.devices.size(); ++d) {
    const ViewDevice& v = view.devices[d];
    if (v.domain != gpu->domain) continue;
    if (v.kind == ViewKind::gpu) trays[v.node].push_back(d);
    if (v.kind == ViewKind::nvswitch) switches.push_back(d);
  }
  int64_t gpus = 0;
  for (const auto& [node, inside] : trays) gpus += static_cast<int64_t>(inside.size());
  canvas.text(kMargin, y,
              "NVLink domain: " + std::to_string(gpus) + " GPUs in " +
                  std::to_string(trays.size()) + " nodes, " + std::to_string(switches.size()) +
                  (switches.size() == 1 ? " NVSwitch" : " NVSwitches"),
              "h");
  const auto columns = std::min<int64_t>(kMostTrays, static_cast<int64_t>(trays.size()));
  const int64_t width = columns * (kTray + kTrayGap) - kTrayGap;
  y += 14;
  const auto shown = std::min<int64_t>(36, static_cast<int64_t>(switches.size()));
  for (int64_t s = 0; s < shown; ++s) {
    const int64_t each = std::min<int64_t>(kTray, width / shown - 4);
    const int64_t middle = kMargin + (2 * s + 1) * width / (2 * shown);
    const ViewDevice& d = view.devices[switches[static_cast<size_t>(s)]];
    canvas.line(middle, y + kBox, middle, y + kBox + 20, "lnv");
    // Two digits make the name too long for its box.
    const std::string label = shown > 10 ? std::to_string(s) : short_name(d.name);
    canvas.box(middle - each / 2, y, each, kBox, "nvswitch", label, d.name);
  }
  canvas.box(kMargin, y + kBox + 20, width, 6, "bus", "", "every GPU to every NVSwitch");
  y += kBox + 26;
  int64_t column = 0;
  int64_t row_y = y + 20, tallest = 0;
  for (const auto& [node, inside] : trays) {
    if (column == columns) {
      column = 0;
      row_y += tallest + 30;
      tallest = 0;
    }
    const int64_t left = kMargin + column++ * (kTray + kTrayGap);
    const auto rows = (static_cast<int64_t>(inside.size()) + 1) / 2;
    const int64_t height = rows * 26 + 2 * kInTray + 14;
    canvas.line(left + kTray / 2, row_y - 20, left + kTray / 2, row_y, "lnv");
    canvas.box(left, row_y, kTray, height, "frame", "", "node " + std::to_string(node));
    canvas.text(left + kTray / 2, row_y + 13, "node " + std::to_string(node), "m");
    for (size_t g = 0; g < inside.size(); ++g) {
      const std::string& name = view.devices[inside[g]].name;
      const auto i = static_cast<int64_t>(g);
      canvas.box(left + kInTray + i % 2 * 28, row_y + 18 + i / 2 * 26, 26, 22, "gpu",
                 std::to_string(g), name);
    }
    tallest = std::max(tallest, height);
  }
  return row_y + tallest + 40;
}

std::string_view link_style(ViewLinkKind kind) {
  constexpr std::string_view kStyles[] = {"lnv", "lc2c", "lpcie", "lhost", "lnet"};
  return kStyles[static_cast<size_t>(kind)];
}

std::string link_name(ViewLinkKind kind) {
  constexpr std::string_view kNames[] = {"NVLink", "NVLink-C2C", "PCIe", "between CPUs", "network"};
  return std::string(kNames[static_cast<size_t>(kind)]);
}

}  // namespace stepcast
