// SPDX-License-Identifier: Apache-2.0
// From measured rows to the price of a collective.
//
// Two H100 nodes all-reduce 32 MiB over InfiniBand.  The table of the H100 has two curves for 16
// ranks on 2 nodes: one over EFA, one over InfiniBand with switches that reduce.  Neither fits, so
// the model answers, and the price says which wires the rows are of.
//
// On a p5, whose NICs EFA drives, the first one fits: 50 GB/s a GPU, as measured.  If the scenario
// says 40, or that the cards are 20 us apart instead of the 15 of such NICs, the row is taken times
// model(this cluster) / model(the cluster of the row).
//
// With curves of two NICs on the same wires, say of 25 and of 50 GB/s, a cluster of 40 is answered
// on the straight line between the two times, both on logarithmic scales; one of 60 by the second
// curve and the model's ratio.
#include "calibrate/price/collective_price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/log_exp.h"
#include "topology/nccl/collective_time.h"
#include "topology/nccl/collectives.h"

namespace stepcast {
namespace {

// Links that differ by no more than this are called the same; the price follows them all the same.
constexpr double kSameLinks = 0.05;

double modelled_us(WorkKind kind, Bytes bytes, const GroupShape& shape, const Cluster& cluster) {
  return 1e6 * to_seconds(collective_cost(cluster, kind, bytes, shape).time);
}

double log_size(int64_t bytes) {
  return exact_log2(static_cast<double>(bytes));
}

// `from` at 0, `to` at 1, straight on a logarithmic scale.
double between(double from, double to, double share) {
  return from * exact_exp2(exact_log2(to / from) * share);
}

bool equal(double a, double b) {
  return std::abs(a / b - 1) < 1e-9;
}

// Below the first row of a sweep.  One that begins small shows the latency, and the model's factor
// at that row holds for what is smaller.  One that begins with large messages says nothing about
// latency: that stays the model's, and the factor is that of the rest, so that the time falls from
// the row to the model's latency.
double below(const CurvePoint& first, double at, double at_first, double latency) {
  constexpr int64_t kShowsLatency = 64 << 10;
  if (first.bytes <= kShowsLatency) return first.us * (at / at_first);
  if (first.us <= latency || at_first <= latency) return first.us;
  return latency + (at - latency) * ((first.us - latency) / (at_first - latency));
}

// ---- which rows fit

// NCCL lets switches reduce all-reduces alone (the others need buffers registered with them).
bool reduces_in_switches(WorkKind kind) {
  return kind == WorkKind::all_reduce;
}

std::string how(InsideLink::Kind kind) {
  return kind == InsideLink::Kind::nvswitch ? " through NVSwitches" : "";
}

// Why rows of such wires do not answer on the cluster; empty: they do.
std::string misfit(const CostTable& table, const Wires& rows, WorkKind kind,
                   const GroupShape& shape, const Cluster& cluster) {
  const Wires here = wires_of(cluster);
  if (shape.nodes > 1) {
    if (!rows.network) return "over a network that they do not name";
    if (rows.network != here.network)
      return fmt::format("over NICs driven by {}, here {}", name_of(*rows.network),
                         name_of(*here.network));
    if (reduces_in_switches(kind) && rows.sharp != here.sharp)
      return rows.sharp ? "with network switches that reduce (fabric.sharp)"
                        : "without network switches that reduce (fabric.sharp)";
  }
  if (shape.ranks_per_node <= 1) return {};
  // Tables before format 3 did not state the links inside: NVSwitches, as lookups held them to.
  const InsideLink inside =
      rows.inside.value_or(InsideLink{InsideLink::Kind::nvswitch, here.inside->generation});
  if (inside != *here.inside)
    return fmt::format("over {}{} inside nodes, here {}{}", text_of(inside), how(inside.kind),
                       text_of(*here.inside), how(here.inside->kind));
  const bool nvlink =
      inside.kind == InsideLink::Kind::nvswitch || inside.kind == InsideLink::Kind::nvlink_mesh;
  if (nvlink && table.nvlink_gbs() <= 0) return "over an NVLink that is not stated";
  if (inside.kind == InsideLink::Kind::nvswitch && reduces_in_switches(kind) &&
      table.in_network_reduction() != cluster.node.sharp)
    return table.in_network_reduction() ? "with NVSwitches that reduce (node.intra.sharp)"
                                        : "without NVSwitches that reduce (node.intra.sharp)";
  return {};
}

// The rows of one process that are the GPUs' times and not those of its calls.
Curve without_calls(const Curve& curve) {
  double shortest = curve.front().us;
  for (const CurvePoint& p : curve) shortest = std::min(shortest, p.us);
  const auto first = std::ranges::find_if(
      curve, [&](const CurvePoint& p) { return p.us >= kCallsAreHidden * shortest; });
  return {first, curve.end()};
}

// The curves that answer: those whose GPUs had a caller each, else the others from where that does
// not matter.
struct Fitting {
  std::vector<CollectiveCurve> curves;
  std::vector<std::string> why_not;  // of the others, each reason once
  bool one_process = false;
};

Fitting fitting_curves(const CostTable& table, WorkKind kind, const GroupShape& shape,
                       const Cluster& cluster) {
  Fitting fitting;
  std::vector<CollectiveCurve> by_one_process;
  for (const CollectiveCurve& c :
       table.collectives(kind, shape.ranks, shape.nodes, shape.ranks_per_node)) {
    std::string why = misfit(table, c.wires, kind, shape, cluster);
    if (!why.empty()) {
      if (std::ranges::find(fitting.why_not, why) == fitting.why_not.end())
        fitting.why_not.push_back(std::move(why));
      continue;
    }
    if (c.wires.one_process) {
      const Curve hidden = without_calls(c.curve);
      if (!hidden.empty()) by_one_process.push_back({c.wires, c.nic_gbs, hidden});
    } else {
      fitting.curves.push_back(c);
    }
  }
  if (fitting.curves.empty() && !by_one_process.empty()) {
    fitting.curves = std::move(by_one_process);
    fitting.one_process = true;
  }
  return fitting;
}

// ---- from the machine of a row to the cluster at hand

// One question to the rows.
struct Asked {
  const CostTable& table;
  WorkKind kind;
  Bytes bytes;
  const GroupShape& shape;
  const Cluster& cluster;

  double nic_gbs() const { return cluster.node.nic_share().value * 1e-9; }
  // The group by itself below one leaf, as benchmarks run.
  GroupShape alone() const {
    GroupShape group = shape;
    group.sharing = 1;
    group.tier = std::min<int64_t>(group.tier, 0);
    return group;
  }
  // The cluster that rows were measured on, with NICs of that share: what a table does not state is
  // as here.
  Cluster measured_on(const Wires& wires, double row_nic_gbs) const;
  // Whether the links at hand are those of the rows.
  bool is_like(const Cluster& there) const {
    const Node &a = cluster.node, &b = there.node;
    return equal(a.intra_bandwidth.value, b.intra_bandwidth.value) &&
           (shape.nodes == 1 || equal(a.nic_bandwidth.value, b.nic_bandwidth.value)) &&
           here_us() == there_us(there);
  }
  double here_us() const { return modelled_us(kind, bytes, shape, cluster); }
  double there_us(const Cluster& there) const { return modelled_us(kind, bytes, alone(), there); }
};

Cluster Asked::measured_on(const Wires& wires, double row_nic_gbs) const {
  Cluster there = cluster;
  Node& node = there.node;
  const bool nvlink = node.intra != IntraKind::pcie;
  const double nvlink_rate = table.nvlink_gbs() * 1e9;
  if (shape.ranks_per_node > 1 && nvlink && nvlink_rate > 0) {
    if (!equal(node.intra_bandwidth.value, nvlink_rate)) node.intra_bandwidth = {nvlink_rate};
    node.intra_latency = nominal_intra_latency(wires_of(cluster).inside->generation);
  }
  if (shape.nodes == 1) return there;
  if (!equal(row_nic_gbs, nic_gbs()))
    node.nic_bandwidth = node.nic_bandwidth * (row_nic_gbs / nic_gbs());
  node.nic_latency = nominal_latency(*wires.network);
  there.fabric.hop_latency = nominal_hop_latency(*wires.network);
  there.fabric.oversubscription = 1;
  for (Tier& tier : there.fabric.tiers) tier.oversubscription = 1;
  return there;
}

struct Measured {
  double us = 0;
  Origin origin = Origin::extrapolated;
  double carried = 1;  // factor of the model in it
  bool same_links = false;
  bool in_training = false;
};

Measured carried_over(const CollectiveCurve& c, const Asked& asked) {
  const Cluster there = asked.measured_on(c.wires, c.nic_gbs);
  const CurveValue v = collective_on(c.curve, asked.kind, asked.bytes, asked.alone(), there);
  const double factor = asked.here_us() / asked.there_us(there);
  return {v.us * factor, v.origin, factor, asked.is_like(there), v.in_training};
}

// Between curves of slower and of faster NICs than those at hand.
Measured joined(const CollectiveCurve& slower, const CollectiveCurve& faster, const Asked& asked) {
  const auto on = [&](const CollectiveCurve& c) {
    return collective_on(c.curve, asked.kind, asked.bytes, asked.alone(),
                         asked.measured_on(c.wires, c.nic_gbs))
        .us;
  };
  const double gbs = asked.nic_gbs();
  const double share =
      exact_log2(gbs / slower.nic_gbs) / exact_log2(faster.nic_gbs / slower.nic_gbs);
  const double factor = asked.here_us() / asked.there_us(asked.measured_on(slower.wires, gbs));
  return {between(on(slower), on(faster), share) * factor, Origin::interpolated, factor, false};
}

// What its links have to do with those of the rows.
Origin origin_of(const Measured& m) {
  if (std::abs(m.carried - 1) > kSameLinks) return Origin::extrapolated;
  return !m.same_links && m.origin == Origin::measured ? Origin::interpolated : m.origin;
}

Price price_of(const Measured& m, std::string basis) {
  if (!m.same_links) basis += fmt::format(", x {:.3g} by the model", m.carried);
  Price price{time_from_seconds(m.us * 1e-6), origin_of(m), std::move(basis)};
  price.in_training = m.in_training;
  return price;
}

std::string joined_reasons(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

// What of the wires makes no difference to the price.
std::string indifferent(WorkKind kind, const GroupShape& shape, const Cluster& cluster,
                        const Price& price) {
  if (shape.nodes == 1) return "on one node neither NICs nor network switches take part";
  std::vector<std::string> all;
  const NicDriver here = cluster.node.nic_driver;
  std::string alike;
  for (int i = 0; i < kNicDriverCount; ++i) {
    const auto other = static_cast<NicDriver>(i);
    if (other != here && nic_class(other) == nic_class(here))
      alike += fmt::format("{}{}", alike.empty() ? "" : ", ", name_of(other));
  }
  const bool by_model = price.origin == Origin::roofline;
  if (by_model && !alike.empty())
    all.push_back(
        fmt::format("the model tells NICs driven by {} and by {} apart by nics.latency alone",
                    name_of(here), alike));
  const bool in_switches = price.algorithm == Algorithm::collnet_direct ||
                           price.algorithm == Algorithm::collnet_chain ||
                           price.algorithm == Algorithm::nvls;
  if (!reduces_in_switches(kind)) {
    all.emplace_back("network switches reduce all-reduces alone");
  } else if (by_model && cluster.fabric.sharp && !in_switches) {
    all.emplace_back("network switches that reduce would take longer");
  }
  return joined_reasons(all);
}

}  // namespace

CurveValue collective_on(const Curve& curve, WorkKind kind, Bytes bytes, const GroupShape& shape,
                         const Cluster& cluster) {
  STEPCAST_CHECK(!curve.empty() && bytes.value > 0, "a curve without points, or no bytes");
  const auto modelled = [&](int64_t size) { return modelled_us(kind, {size}, shape, cluster); };
  const auto next = std::lower_bound(curve.begin(), curve.end(), bytes.value,
                                     [](const CurvePoint& p, int64_t b) { return p.bytes < b; });
  if (next != curve.end() && next->bytes == bytes.value)
    return {next->us, next->derived ? Origin::extrapolated : Origin::measured, next->in_training};
  const double at = modelled(bytes.value);
  if (next == curve.end())
    return {curve.back().us * (at / modelled(curve.back().bytes)), Origin::extrapolated,
            curve.back().in_training};
  if (next == curve.begin())
    return {below(curve.front(), at, modelled(curve.front().bytes), modelled(0)),
            Origin::extrapolated, curve.front().in_training};
  const CurvePoint& a = *(next - 1);
  const CurvePoint& b = *next;
  const double from = modelled(a.bytes), to = modelled(b.bytes);
  const double share =
      (log_size(bytes.value) - log_size(a.bytes)) / (log_size(b.bytes) - log_size(a.bytes));
  const double us = from < at && at < to ? a.us + (b.us - a.us) * ((at - from) / (to - from))
                                         : at * between(a.us / from, b.us / to, share);
  return {us, a.derived || b.derived ? Origin::extrapolated : Origin::interpolated,
          a.in_training && b.in_training};
}

std::optional<Price> measured_collective(const CostTable& table, WorkKind kind, Bytes bytes,
                                         const GroupShape& shape, const Cluster& cluster,
                                         std::string* why) {
  if (bytes.value <= 0) return std::nullopt;
  const Fitting fitting = fitting_curves(table, kind, shape, cluster);
  const auto group =
      fmt::format("table {}: {} of {} ranks on {} node{}", table.name(), name_of(kind), shape.ranks,
                  shape.nodes, shape.nodes == 1 ? "" : "s");
  if (why != nullptr && fitting.curves.empty() && !fitting.why_not.empty())
    *why =
        fmt::format("rows of {} do not count, measured {}", group, joined_reasons(fitting.why_not));
  if (fitting.curves.empty()) return std::nullopt;
  const Asked asked{table, kind, bytes, shape, cluster};
  const double gbs = asked.nic_gbs();
  // The curves of the slower and of the faster NICs that are nearest to the cluster's.
  const CollectiveCurve *below = nullptr, *above = nullptr;
  for (const CollectiveCurve& c : fitting.curves) {
    const bool slower = shape.nodes == 1 || c.nic_gbs <= gbs * (1 + 1e-9);
    if (slower && (below == nullptr || c.nic_gbs > below->nic_gbs)) below = &c;
    if (!slower && (above == nullptr || c.nic_gbs < above->nic_gbs)) above = &c;
  }
  std::string basis = group;
  Measured m;
  if (below != nullptr && above != nullptr && !equal(below->nic_gbs, gbs)) {
    m = joined(*below, *above, asked);
    basis += fmt::format(" by NICs of {:g} and {:g} GB/s a GPU", below->nic_gbs, above->nic_gbs);
  } else {
    const CollectiveCurve& only = below != nullptr ? *below : *above;
    m = carried_over(only, asked);
    if (shape.nodes > 1 && !equal(only.nic_gbs, gbs))
      basis += fmt::format(" by NICs of {:g} GB/s a GPU", only.nic_gbs);
    if (fitting.one_process && bytes.value < only.curve.front().bytes && why != nullptr)
      *why = fmt::format(
          "rows below {} bytes do not count: one process called for all GPUs, and its calls took "
          "longer",
          only.curve.front().bytes);
  }
  return price_of(m, std::move(basis));
}

Price collective_price(WorkKind kind, Bytes bytes, const GroupShape& shape, const Cluster& cluster,
                       const CostTable* table) {
  const CommunicationCost cost = collective_cost(cluster, kind, bytes, shape);
  Price price{cost.time, Origin::roofline, cost.basis};
  std::string why;
  if (table != nullptr) {
    if (auto measured = measured_collective(*table, kind, bytes, shape, cluster, &why))
      price = std::move(*measured);
  }
  price.latency = std::min(price.time, cost.latency);
  price.algorithm = cost.algorithm;
  price.protocol = cost.protocol;
  const std::string same = indifferent(kind, shape, cluster, price);
  price.remark = why + (why.empty() || same.empty() ? "" : "; ") + same;
  return price;
}

}  // namespace stepcast
