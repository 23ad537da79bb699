// SPDX-License-Identifier: Apache-2.0
// What the algorithm that NCCL picked costs: its latencies and bandwidth, corrected by factors that
// were fitted to logs of collectives.
//
//   latency = base * f_base + in-node hops * f_intra + network hops * f_network
//   moving  = bytes * max(f_bandwidth * (1 + f_copy * copied) / bandwidth, f_wire / wire)
//   seconds = latency + moving + f_ramp * sqrt(latency * moving)
//
// The last term is what a pipeline costs while it fills: with steps of latency a, a bandwidth b and
// chunks chosen best, n bytes through s steps take s a + n / b + 2 sqrt(s a n / b).
//
// A factor is a product over the classes that the alternative is in ("ring over nodes", "NIC of
// 20 us"); each class has a number in collective_corrections.csv, 1 if it has none there.  The
// classes are here, the numbers are fitted by tools/runs; docs/accuracy.md says how well.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/nccl/algorithms.h"

namespace stepcast {

enum class Term : uint8_t { base, intra, network, bandwidth, wire, ramp, copy };
constexpr size_t kTerms = 7;
std::string_view name_of(Term t);  // as in the file

// A class that an alternative is in.
struct CorrectionClass {
  Term term = Term::base;
  std::string name;
  double spread = 0;  // how far its factor may lie from 1 (natural logarithm), for the fit
  double weight = 1;  // the factor counts to this power: 0 not at all
};
std::vector<CorrectionClass> correction_classes(const Cluster& cluster, WorkKind kind,
                                                const GroupShape& shape, const Candidate& a);

// The class of NICs: drivers of one class have the same factors.
std::string_view nic_class(NicDriver driver);

using Factors = std::array<double, kTerms>;  // by Term

class Corrections {
 public:
  Corrections() = default;
  // Lines "term,class,factor" after a heading; '#' begins a remark.  Throws InputError with
  // the line's number.
  static Corrections parse(std::string_view text);
  void set(Term term, const std::string& name, double factor) {
    factors_[static_cast<size_t>(term)][name] = factor;
  }
  // Product over the classes, each to the power of its weight, in their order.
  Factors factors(const std::vector<CorrectionClass>& classes) const;

 private:
  std::array<std::map<std::string, double, std::less<>>, kTerms> factors_;
};

// Those compiled in.  Safe to call from several threads.
const Corrections& shipped_corrections();

// REQUIRES: bytes >= 0, factors positive.
double corrected_seconds(const Candidate& a, const Factors& f, double bytes);

// Of each of the candidates.
std::vector<Factors> factors_of(const std::vector<Candidate>& candidates, const Cluster& cluster,
                                WorkKind kind, const GroupShape& shape,
                                const Corrections& corrections);

// The candidate of lowest time among those for this size, the first of equals: it is the one that a
// forecast costs and names.  NCCL's pick is one of them; near the sizes where it changes from one
// to the next the two corrected times are only about equal, and the lower one is taken, so that a
// larger message or a slower link never costs less (but see exchange_candidates).  REQUIRES: as
// many factors as candidates, some for this size.
size_t cheapest(const std::vector<Candidate>& candidates, const std::vector<Factors>& factors,
                double bytes);
double cheapest_seconds(const std::vector<Candidate>& candidates,
                        const std::vector<Factors>& factors, double bytes);

}  // namespace stepcast
