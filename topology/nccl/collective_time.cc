// SPDX-License-Identifier: Apache-2.0
// Corrected times of algorithms.
//
// An example: an all-reduce of 1 MB by a ring of 8 GPUs in a node with LL128.  Its parts are 14 us
// once, 14 hops of 1.9 us, and a bandwidth of, say, 130 GB/s of message.  Logs show how far such
// parts are off.  Instead of a factor for each of thousands of combinations there is one for each
// class that a combination is in, and the factor of a term is the product over its classes:
//
//     base    all; ring
//     intra   all; ring in a node; LL128 in a node; the architecture of the GPU
//     ramp    all; ring in a node; LL128 in a node; ring LL128 in a node
//
// So what is learnt of rings in a node also serves a GPU of which there is hardly any log.  If the
// products come to 1 for base, 0.9 for intra, 1 for bandwidth and 0.3 for ramp, the time is
//
//     latency   14 + 0.9 * 26.6 = 37.9 us
//     moving    1 MB / 130 GB/s = 7.7 us
//     ramp      0.3 * sqrt(37.9 * 7.7) = 5.1 us
//     together  50.7 us
//
// The alternative with the lowest corrected time is the one that a forecast costs (cheapest).

#include "topology/nccl/collective_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include <embedded/correction_files.h>

#include "sim/check.h"
#include "sim/csv.h"
#include "sim/diagnostic.h"
#include "sim/log_exp.h"

namespace stepcast {

namespace {

constexpr std::array<std::string_view, kTerms> kTermNames{"base", "intra", "network", "bandwidth",
                                                          "wire", "ramp",  "copy"};
// What an NVLink domain costs beyond that of a server, by the number of its GPUs: 0 up to 8, 1
// for 64.
double domain_weight(int64_t ranks) {
  return ranks <= 8 ? 0 : exact_log2(static_cast<double>(ranks) / 8) / 3;
}

const char* class_of(Protocol p) {
  switch (p) {
    case Protocol::ll: return "LL";
    case Protocol::ll128: return "LL128";
    case Protocol::simple: return "Simple";
  }
  return "";
}

// Spreads, as natural logarithms.
constexpr double kWide = 0.7;    // unlike its neighbours
constexpr double kLoose = 0.3;   // latencies, ramps, efficiency of kinds of networks
constexpr double kTight = 0.05;  // bandwidth of algorithms on links that are known

// Collects the classes of one alternative.
struct Classifier {
  const Cluster& cluster;
  WorkKind kind;
  const GroupShape& shape;
  const Candidate& a;
  std::vector<CorrectionClass> out;
  bool across, pcie, exchange, mesh;
  double domain;                 // weight of a large NVLink domain; 0: none
  std::string algorithm, where;  // "ring", " over nodes"
  std::string protocol;          // that of sends and receives is not that of rings and trees

  void add(Term term, double spread, std::string name, double weight = 1) {
    out.push_back({term, std::move(name), spread, weight});
  }
  std::string placed(const std::string& what) const { return what + where; }
};

void classify_latency(Classifier& c) {
  if (!c.exchange) c.add(Term::base, kLoose, "all");
  c.add(Term::base, kLoose, c.algorithm);
  c.add(Term::intra, 0.5, "all");
  c.add(Term::intra, kLoose, c.placed(c.algorithm));
  c.add(Term::intra, kLoose, c.placed(c.protocol));
  c.add(Term::intra, kLoose, std::string(architecture(c.cluster.node.gpu.arch).correction_class));
  if (c.mesh) c.add(Term::intra, kLoose, "mesh");
  if (c.domain > 0) c.add(Term::intra, 0.5, "large domain", c.domain);
  if (!c.across) return;
  if (!c.exchange) c.add(Term::network, 0.5, "all");
  c.add(Term::network, kLoose, std::string(nic_class(c.cluster.node.nic_driver)));
  c.add(Term::network, kLoose, c.protocol);
  if (c.domain > 0) c.add(Term::network, 0.5, "large domain", c.domain);
}

void classify_bandwidth(Classifier& c) {
  const GpuArchitecture& arch = architecture(c.cluster.node.gpu.arch);
  c.add(Term::bandwidth, 0.1, c.placed(c.algorithm));
  c.add(Term::bandwidth, kTight,
        c.placed(fmt::format("{} {}", arch.correction_class, c.algorithm)));
  if (c.across && (c.a.algorithm == Algorithm::tree || c.a.algorithm == Algorithm::collnet_chain)) {
    c.add(Term::bandwidth, 0.1, "chain of a node's GPUs");
  }
  if (c.a.protocol != Protocol::simple) c.add(Term::bandwidth, kLoose, c.placed(c.protocol));
  if (c.a.algorithm == Algorithm::nvls && arch.own_nvls_factor) {
    c.add(Term::bandwidth, 0.15, fmt::format("{} NVLS", arch.correction_class));
  }
  if (c.mesh) {
    c.add(Term::bandwidth, 0.15, "mesh");
    if (c.kind != WorkKind::broadcast) c.add(Term::bandwidth, 0.15, "mesh: not a broadcast");
    if (c.shape.ranks == 2) c.add(Term::bandwidth, 0.15, "mesh: a pair");
  }
  if (c.domain > 0 && c.across) c.add(Term::bandwidth, kLoose, "large domains", c.domain);
}

void classify_wire(Classifier& c) {
  if (!c.across) return;
  if (c.pcie) {
    c.add(Term::wire, kWide, "PCIe over nodes");
    return;
  }
  c.add(Term::wire, kTight, c.algorithm);
  // LL128's share of a wire is known, 15 of 16 words: a factor could only hide something else.
  if (c.a.protocol == Protocol::ll) c.add(Term::wire, kLoose, c.protocol);
  const NicDriver driver = c.cluster.node.nic_driver;
  // What software makes of the wire is particular to each, even where latencies are alike.
  if (driver == NicDriver::tcpx) c.add(Term::wire, kWide, "NIC by TCPX");
  if (driver == NicDriver::tcpxo) c.add(Term::wire, kWide, "NIC by TCPXO");
  const bool plugin = driver != NicDriver::verbs && driver != NicDriver::roce;
  if (plugin && c.shape.ranks_per_node == 1) {
    c.add(Term::wire, 0.5, "one rank a node and NIC by a plugin");
  }
}

void classify_ramp(Classifier& c) {
  if (!c.exchange) c.add(Term::ramp, kWide, "all");
  c.add(Term::ramp, 1, c.placed(c.algorithm));
  c.add(Term::ramp, kLoose, c.placed(c.protocol));
  c.add(Term::ramp, 0.5, c.placed(c.algorithm + " " + c.protocol));
  if (c.across) c.add(Term::ramp, kLoose, std::string(nic_class(c.cluster.node.nic_driver)));
  if (c.domain > 0) c.add(Term::ramp, 0.5, "large domain", c.domain);
  c.add(Term::copy, kLoose, "all");
}

}  // namespace

std::string_view name_of(Term t) {
  return kTermNames[static_cast<size_t>(t)];
}

std::string_view nic_class(NicDriver driver) {
  switch (driver) {
    case NicDriver::verbs:
    case NicDriver::roce: return "NIC by verbs";
    case NicDriver::gib:
    case NicDriver::efa: return "NIC by a plugin";
    case NicDriver::tcpxo: return "NIC by TCPXO";
    case NicDriver::efa_v1:
    case NicDriver::tcpx: return "NIC by an early plugin";
  }
  return "";
}

std::vector<CorrectionClass> correction_classes(const Cluster& cluster, WorkKind kind,
                                                const GroupShape& shape, const Candidate& a) {
  const bool across = shape.nodes > 1;
  Classifier c{.cluster = cluster,
               .kind = kind,
               .shape = shape,
               .a = a,
               .out = {},
               .across = across,
               .pcie = cluster.node.intra == IntraKind::pcie,
               .exchange = is_exchange(a.algorithm),
               .mesh = !across && cluster.node.intra == IntraKind::nvlink_mesh &&
                       architecture(cluster.node.gpu.arch).compute_capability > 0,
               .domain = 0,
               .algorithm = correction_class(a.algorithm),
               .where = across ? " over nodes" : " in a node",
               .protocol = class_of(a.protocol)};
  if (c.exchange) c.protocol = "pairwise " + c.protocol;
  // Inside a domain the switches serve an exchange as those of a server do; what leaves it comes
  // from as many ranks at once.
  if (!c.exchange || across) c.domain = domain_weight(shape.ranks_per_node);
  c.out.reserve(24);
  classify_latency(c);
  classify_bandwidth(c);
  classify_wire(c);
  classify_ramp(c);
  return std::move(c.out);
}

Corrections Corrections::parse(std::string_view text) {
  Corrections result;
  for (const CsvRow& row : csv_rows(text, "term,class,factor")) {
    const auto term = std::ranges::find(kTermNames, row.cells[0]);
    const double factor = row.number(2);
    const auto wrong = [&](const char* what) {
      refuse(fmt::format("line {}: {}", row.line, what));
    };
    if (term == kTermNames.end()) wrong("no such term");
    if (!(factor > 0)) wrong("the factor is not a positive number");
    result.set(static_cast<Term>(term - kTermNames.begin()), std::string(row.cells[1]), factor);
  }
  return result;
}

Factors Corrections::factors(const std::vector<CorrectionClass>& classes) const {
  Factors f;
  f.fill(1);
  for (const CorrectionClass& c : classes) {
    const auto term = static_cast<size_t>(c.term);
    const auto found = factors_[term].find(c.name);
    if (found == factors_[term].end()) continue;
    f[term] *= c.weight == 1 ? found->second : exact_exp2(c.weight * exact_log2(found->second));
  }
  return f;
}

const Corrections& shipped_corrections() {
  static const Corrections shipped = Corrections::parse(correction_files().front().second);
  return shipped;
}

double corrected_seconds(const Candidate& a, const Factors& f, double bytes) {
  const auto of = [&f](Term t) { return f[static_cast<size_t>(t)]; };
  const double latency =
      a.base * of(Term::base) + a.intra * of(Term::intra) + a.network * of(Term::network);
  double slowest = of(Term::bandwidth) * (1 + of(Term::copy) * a.copied) / a.bandwidth;
  if (a.wire > 0) slowest = std::max(slowest, of(Term::wire) / a.wire);
  const double moving = bytes * slowest;
  return latency + moving + of(Term::ramp) * std::sqrt(latency * moving);
}

std::vector<Factors> factors_of(const std::vector<Candidate>& candidates, const Cluster& cluster,
                                WorkKind kind, const GroupShape& shape,
                                const Corrections& corrections) {
  std::vector<Factors> all;
  all.reserve(candidates.size());
  for (const Candidate& a : candidates) {
    all.push_back(corrections.factors(correction_classes(cluster, kind, shape, a)));
  }
  return all;
}

size_t cheapest(const std::vector<Candidate>& candidates, const std::vector<Factors>& factors,
                double bytes) {
  STEPCAST_CHECK(candidates.size() == factors.size(), "factors for every candidate");
  size_t best = candidates.size();
  double lowest = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (bytes <= candidates[i].above || bytes > candidates[i].up_to) continue;
    const double t = corrected_seconds(candidates[i], factors[i], bytes);
    if (best < candidates.size() && t >= lowest) continue;
    best = i;
    lowest = t;
  }
  STEPCAST_CHECK(best < candidates.size(), "a candidate for this size");
  return best;
}

double cheapest_seconds(const std::vector<Candidate>& candidates,
                        const std::vector<Factors>& factors, double bytes) {
  const size_t best = cheapest(candidates, factors, bytes);
  return corrected_seconds(candidates[best], factors[best], bytes);
}

}  // namespace stepcast
