// SPDX-License-Identifier: Apache-2.0
// The network between nodes: switches by tier, groups of equal ones where they are many.
#include <algorithm>
#include <map>
#include <set>

#include "report/format.h"
#include "report/topology_svg_parts.h"

namespace stepcast {
namespace {

constexpr size_t kMostBoxes = 48;  // of a tier
constexpr int kMostTiers = 6;
constexpr int32_t kRailColours = 8;  // of the style sheet
constexpr int64_t kTierRow = 150, kBoxHeight = 30, kBoxGap = 6;

// Switches of one tier drawn as one box.
struct Group {
  std::string label;
  int32_t rail = -1;
  int64_t switches = 0, nics = 0;
  int64_t x = 0, width = 0;
};

struct Drawn {
  std::vector<std::vector<Group>> tiers;  // by tier
  std::vector<std::pair<int, int>> of;    // tier and group of each device; -1: none
  std::map<std::pair<int, int>, std::map<std::pair<int, int>, int64_t>> cables;  // up
};

std::string counted_switches(int64_t n, const std::string& name) {
  const std::string many = name == "leaf" ? "leaves" : name + 's';
  return n == 1 ? name : grouped(n) + ' ' + many;
}

// By name, numbers inside names by their value.
bool before(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    while (i < a.size() && a[i] == '0') ++i;
    while (j < b.size() && b[j] == '0') ++j;
    size_t m = i, n = j;
    while (m < a.size() && is_digit(a[m])) ++m;
    while (n < b.size() && is_digit(b[n])) ++n;
    if (m - i != n - j) return m - i < n - j;
    const int order = a.substr(i, m - i).compare(b.substr(j, n - j));
    if (order != 0) return order < 0;
    i = m, j = n;
  }
  return a.size() - i < b.size() - j;
}

// Which box each switch of a tier is part of: its own, one of its rail and of the groups below it,
// or one for all.
std::vector<Group> group_tier(const TopologyView& view, int tier,
                              const std::vector<std::set<int>>& below, Drawn& drawn) {
  std::vector<uint32_t> switches;
  for (uint32_t d = 0; d < view.devices.size(); ++d)
    if (view.devices[d].kind == ViewKind::network_switch && view.devices[d].tier == tier)
      switches.push_back(d);
  std::stable_sort(switches.begin(), switches.end(), [&](uint32_t a, uint32_t b) {
    return before(view.devices[a].name, view.devices[b].name);
  });
  std::vector<Group> groups;
  const auto put = [&](uint32_t d, size_t g) {
    drawn.of[d] = {tier, static_cast<int>(g)};
    ++groups[g].switches;
  };
  if (switches.size() <= kMostBoxes) {
    for (const uint32_t d : switches) {
      groups.push_back({view.devices[d].name, view.devices[d].rail, 0, 0, 0, 0});
      put(d, groups.size() - 1);
    }
    return groups;
  }
  std::map<std::pair<int32_t, std::set<int>>, size_t> known;
  for (const uint32_t d : switches) known.try_emplace({view.devices[d].rail, below[d]}, 0);
  const bool one = known.size() > kMostBoxes;
  size_t next = 0;
  for (auto& [key, g] : known) {
    g = one ? 0 : next++;
    if (g < groups.size()) continue;
    groups.push_back({});
    groups.back().rail = one ? -1 : key.first;
  }
  for (const uint32_t d : switches) put(d, known[{view.devices[d].rail, below[d]}]);
  for (Group& g : groups) {
    g.label = counted_switches(g.switches, kind_name(view.devices[switches.front()]));
    if (g.rail >= 0) g.label += " rail " + std::to_string(g.rail);
  }
  return groups;
}

Drawn groups_of(const TopologyView& view, int tiers) {
  Drawn drawn;
  drawn.of.assign(view.devices.size(), {-1, -1});
  std::vector<std::set<int>> below(view.devices.size());  // groups below each switch
  for (int t = 0; t < tiers; ++t) {
    drawn.tiers.push_back(group_tier(view, t, below, drawn));
    for (const ViewLink& l : view.links) {
      for (const auto& [low, high] : {std::pair(l.a, l.b), {l.b, l.a}}) {
        if (view.devices[high].kind != ViewKind::network_switch) continue;
        if (drawn.of[low].first == t && view.devices[high].tier > t)
          below[high].insert(drawn.of[low].second);
        if (view.devices[low].kind == ViewKind::nic && drawn.of[high].first == t)
          drawn.tiers[static_cast<size_t>(t)][static_cast<size_t>(drawn.of[high].second)].nics +=
              l.cables;
      }
    }
  }
  for (const ViewLink& l : view.links) {
    const auto a = drawn.of[l.a], b = drawn.of[l.b];
    if (a.first < 0 || b.first < 0 || a.first == b.first) continue;
    drawn.cables[std::min(a, b)][std::max(a, b)] += l.cables;
  }
  return drawn;
}

void place(std::vector<Group>& groups, int64_t width) {
  const auto n = static_cast<int64_t>(groups.size());
  for (int64_t g = 0; g < n; ++g) {
    Group& group = groups[static_cast<size_t>(g)];
    group.width = std::min<int64_t>(150, width / n - kBoxGap);
    group.x = kMargin + (2 * g + 1) * width / (2 * n) - group.width / 2;
  }
}

// Cables of most pairs of boxes of these tiers; 0 if most pairs have none.
int64_t usual_cables(const Drawn& d, int low, int high) {
  std::map<int64_t, int64_t> counts;
  int64_t pairs = 0;
  for (const auto& [from, ways] : d.cables) {
    for (const auto& [to, cables] : ways) {
      if (from.first != low || to.first != high) continue;
      ++counts[cables];
      ++pairs;
    }
  }
  const auto all = static_cast<int64_t>(d.tiers[static_cast<size_t>(low)].size() *
                                        d.tiers[static_cast<size_t>(high)].size());
  if (10 * pairs < 8 * all) return 0;
  int64_t best = 0, most = 0;
  for (const auto& [cables, n] : counts)
    if (n >= most) best = cables, most = n;
  return best;
}

int64_t middle(const Group& g) {
  return g.x + g.width / 2;
}

// Lines between two neighbouring tiers, red where cables are missing; whether any are.
bool draw_cables(SvgCanvas& canvas, const Drawn& d, int low, int64_t y_low, int64_t y_high) {
  const int high = low + 1;
  const int64_t usual = usual_cables(d, low, high);
  bool missing = false;
  const auto& lows = d.tiers[static_cast<size_t>(low)];
  const auto& highs = d.tiers[static_cast<size_t>(high)];
  for (const bool red : {false, true}) {  // those with a fault over the others
    for (size_t a = 0; a < lows.size(); ++a) {
      const auto ways = d.cables.find({low, static_cast<int>(a)});
      for (size_t b = 0; b < highs.size(); ++b) {
        int64_t cables = 0;
        if (ways != d.cables.end()) {
          const auto way = ways->second.find({high, static_cast<int>(b)});
          if (way != ways->second.end()) cables = way->second;
        }
        const bool bad = cables < usual;
        if (bad != red || (cables == 0 && !bad)) continue;
        missing = missing || bad;
        std::string title = lows[a].label + " - " + highs[b].label + ": " + grouped(cables);
        title += bad ? " of " + grouped(usual) + " cables" : cables == 1 ? " cable" : " cables";
        canvas.line(middle(lows[a]), y_low, middle(highs[b]), y_high, bad ? "bad" : "lnet", title);
        if (lows.size() == 1 && highs.size() == 1)
          canvas.text(middle(lows[a]) + 8, (y_low + y_high) / 2 + 4, grouped(cables) + " cables");
      }
    }
  }
  return missing;
}

}  // namespace

int64_t draw_fabric(SvgCanvas& canvas, const TopologyView& view, int64_t y) {
  int tiers = 0;
  for (const ViewDevice& d : view.devices)
    if (d.kind == ViewKind::network_switch) tiers = std::max(tiers, d.tier + 1);
  if (tiers == 0) return y;
  if (tiers > kMostTiers) {
    canvas.text(kMargin, y, std::to_string(tiers) + " tiers of switches: too many to draw");
    return y + 24;
  }
  Drawn drawn = groups_of(view, tiers);
  size_t widest = 1;
  for (const auto& tier : drawn.tiers) widest = std::max(widest, tier.size());
  const int64_t width = std::clamp<int64_t>(static_cast<int64_t>(widest) * 74, 700, 2600);
  for (auto& tier : drawn.tiers)
    if (!tier.empty()) place(tier, width);
  canvas.text(kMargin, y, "network by tiers", "h");
  y += 14;
  const int64_t row = widest == 1 ? kTierRow / 2 : kTierRow;
  const auto y_of = [&](int tier) { return y + (tiers - 1 - tier) * row; };
  bool missing = false;
  for (int t = 0; t + 1 < tiers; ++t)
    if (draw_cables(canvas, drawn, t, y_of(t), y_of(t + 1) + kBoxHeight)) missing = true;
  for (int t = 0; t < tiers; ++t) {
    for (const Group& g : drawn.tiers[static_cast<size_t>(t)]) {
      const std::string style = g.rail < 0 ? "switch" : "r" + std::to_string(g.rail % kRailColours);
      std::string title = g.label;
      if (g.nics > 0) title += ", " + grouped(g.nics) + " NICs below";
      canvas.box(g.x, y_of(t), g.width, kBoxHeight, style, g.label, title);
      if (g.nics == 0) continue;
      canvas.line(middle(g), y_of(t) + kBoxHeight, middle(g), y_of(t) + kBoxHeight + 18, "lnet");
      canvas.box(g.x, y_of(t) + kBoxHeight + 18, g.width, 22, "nic",
                 grouped(g.nics) + (g.width >= 50 ? " NICs" : ""), title);
    }
  }
  y = y_of(0) + kBoxHeight + 80;
  int32_t last_rail = -1;
  for (const std::vector<Group>& tier : drawn.tiers)
    for (const Group& g : tier) last_rail = std::max(last_rail, g.rail);
  if (last_rail >= 0) {
    canvas.text(kMargin, y,
                std::string("switches of one colour: one rail") +
                    (last_rail < kRailColours ? "" : " (again from the ninth on)"));
    y += 24;
  }
  if (missing) {
    canvas.line(kMargin, y - 4, kMargin + 34, y - 4, "bad");
    canvas.text(kMargin + 44, y, "fewer cables than most pairs of these tiers have");
    y += 10;
  }
  return y;
}

}  // namespace stepcast
