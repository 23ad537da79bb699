// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/in_situ.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "sim/csv.h"
#include "sim/diagnostic.h"
#include "sim/log_exp.h"
#include "topology/cluster/gpu_architecture.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> in_situ_files();

namespace {

constexpr std::string_view kInSituHeader =
    "term,scope,unit,value,sd,prior,prior_sd,runs,sources,prior_source";
constexpr std::string_view kEverywhere = "all", kGraceHosts = "Grace", kUntil = "until ";

struct TermFacts {
  std::string_view name, unit;
  double neutral;
};
constexpr std::array<TermFacts, kInSituTerms> kTermFacts{{{"products", "x", 1},
                                                          {"first libraries", "x", 1},
                                                          {"memory kernels", "x", 1},
                                                          {"host calls", "x", 1},
                                                          {"module calls", "us", 0},
                                                          {"count wait", "us", 0},
                                                          {"bandwidth in a node", "x", 1},
                                                          {"bandwidth of the network", "x", 1},
                                                          {"spread of ranks", "%", 0}}};

InSituTerm term_named(std::string_view name) {
  for (size_t t = 0; t < kTermFacts.size(); ++t)
    if (kTermFacts[t].name == name) return static_cast<InSituTerm>(t);
  refuse("'" + std::string(name) + "': no term that in-situ parameters stand on");
}

// Of "until 2022"; 0 of other scopes.
int64_t last_year(std::string_view scope) {
  if (!scope.starts_with(kUntil)) return 0;
  int64_t year = 0;
  const std::string_view digits = scope.substr(kUntil.size());
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), year);
  return read.ptr == digits.data() + digits.size() ? year : 0;
}

InSituParameter read_parameter(const CsvRow& row) {
  InSituParameter p;
  p.term = term_named(row.cells[0]);
  p.scope = row.cells[1];
  p.value = row.number(3);
  p.sd = row.number(4);
  p.prior = row.number(5);
  p.prior_sd = row.number(6);
  p.runs = row.number<int64_t>(7);
  p.sources = row.number<int64_t>(8);
  p.prior_source = row.cells[9];
  const bool finite = std::isfinite(p.value) && std::isfinite(p.sd) && std::isfinite(p.prior) &&
                      std::isfinite(p.prior_sd);
  const bool factor = neutral_value(p.term) == 1;
  const bool no_year = p.scope.starts_with(kUntil) && last_year(p.scope) == 0;
  if (row.cells[2] != unit_of(p.term) || no_year || !finite || !(p.prior_sd > 0) || p.value < 0 ||
      (factor && !(p.value > 0 && p.prior > 0)) || p.prior_source.empty())
    refuse("'" + std::string(row.cells[0]) + "': not a parameter of its term");
  return p;
}

// Compute that the kernels of a step spread over: what is limited by arithmetic, by memory, or
// neither.
enum class LimitedBy : uint8_t { none, arithmetic, memory };

LimitedBy limit_of(const Work& work) {
  switch (work.kind) {
    case WorkKind::gemm:
    case WorkKind::grouped_gemm:
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: return LimitedBy::arithmetic;
    case WorkKind::memory_bound: return LimitedBy::memory;
    case WorkKind::expert_wait:
      return work.kernel == Kernel::none ? LimitedBy::arithmetic : LimitedBy::memory;
    default: return LimitedBy::none;
  }
}

class InSitu {
 public:
  InSitu(const InSituValues& values, int64_t ranks)
      : values_(values),
        spread_(1 + of(InSituTerm::spread) / 100 * exact_log2(static_cast<double>(ranks))) {}

  // What a work of this price takes, in ps.
  double of_work(const Work& work, const Price& price) const {
    const auto time = static_cast<double>(price.time.count());
    if (time <= 0) return time;
    if (is_communication(work.kind)) return of_communication(price);
    const LimitedBy limit = limit_of(work);
    if (limit == LimitedBy::none) return time;
    double factor = spread_;
    if (!price.in_training)
      for (const InSituTerm t : kernel_terms(limit)) factor *= of(t);
    return time * factor;
  }

  std::vector<PriceFactor> factors(const Work& work, const Price& price, int64_t ranks) const {
    std::vector<PriceFactor> all;
    const auto add = [&](std::string what, double value) {
      if (value != 1) all.push_back({std::move(what), value, {}});
    };
    const auto add_term = [&](InSituTerm t) { add(std::string(name_of(t)), of(t)); };
    if (is_communication(work.kind)) {
      if (!price.in_training) add_term(bandwidth_term(price));
      return all;
    }
    const LimitedBy limit = limit_of(work);
    if (limit == LimitedBy::none) return all;
    if (!price.in_training)
      for (const InSituTerm t : kernel_terms(limit)) add_term(t);
    add(fmt::format("slowest of {} ranks", ranks), spread_);
    return all;
  }

  // `measured`: the part of it that the table has rows of, whose calls are not Python's.
  double of_launch(const Launch& launch, Time time, Time measured) const {
    const int waits = launch.calls[static_cast<size_t>(HostCall::synchronize)];
    const int modules = launch.calls[static_cast<size_t>(HostCall::module)];
    return static_cast<double>((time - measured).count()) * of(InSituTerm::host_calls) +
           static_cast<double>(measured.count()) +
           (modules * of(InSituTerm::module_calls) + waits * of(InSituTerm::count_wait)) *
               kMicrosecond;
  }

 private:
  static constexpr double kMicrosecond = 1e6;  // ps

  double of(InSituTerm t) const { return values_[static_cast<size_t>(t)]; }

  static std::span<const InSituTerm> kernel_terms(LimitedBy limit) {
    static constexpr std::array kProducts{InSituTerm::products, InSituTerm::first_libraries};
    static constexpr std::array kMemory{InSituTerm::memory_kernels};
    if (limit == LimitedBy::memory) return kMemory;
    return kProducts;
  }

  static InSituTerm bandwidth_term(const Price& price) {
    return price.crosses_nodes ? InSituTerm::network_bandwidth : InSituTerm::node_bandwidth;
  }

  double of_communication(const Price& price) const {
    if (price.in_training) return static_cast<double>(price.time.count());
    const auto start = static_cast<double>(price.latency.count());
    const double flow = static_cast<double>(price.time.count()) - start;
    return start + flow * of(bandwidth_term(price));
  }

  InSituValues values_;
  double spread_;
};

Time rounded(double ps) {
  return time_from_seconds(ps * 1e-12);
}

}  // namespace

std::string_view name_of(InSituTerm t) {
  return kTermFacts[static_cast<size_t>(t)].name;
}

std::string_view unit_of(InSituTerm t) {
  return kTermFacts[static_cast<size_t>(t)].unit;
}

double neutral_value(InSituTerm t) {
  return kTermFacts[static_cast<size_t>(t)].neutral;
}

std::vector<InSituParameter> parse_in_situ(std::string_view text) {
  std::vector<InSituParameter> parameters;
  for (const CsvRow& row : csv_rows(text, kInSituHeader)) parameters.push_back(read_parameter(row));
  return parameters;
}

std::string in_situ_text(std::span<const InSituParameter> parameters) {
  std::string text = std::string(kInSituHeader) + '\n';
  for (const InSituParameter& p : parameters)
    text += fmt::format("{},{},{},{:.4g},{:.2g},{:g},{:g},{},{},\"{}\"\n", name_of(p.term), p.scope,
                        unit_of(p.term), p.value, p.sd, p.prior, p.prior_sd, p.runs, p.sources,
                        p.prior_source);
  return text;
}

std::span<const InSituParameter> in_situ_parameters() {
  static const std::vector<InSituParameter> shipped = parse_in_situ(in_situ_files()[0].second);
  return shipped;
}

InSituRows in_situ_rows(std::span<const InSituParameter> parameters, const Node& node,
                        int64_t libraries) {
  InSituRows rows;
  rows.fill(-1);
  const std::string_view gpus = architecture(node.gpu.arch).in_situ;
  const auto narrowness = [&](std::string_view scope) {
    if (scope == kGraceHosts) return node.c2c ? 4 : 0;
    if (const int64_t year = last_year(scope); year > 0)
      return libraries > 0 && libraries <= year ? 3 : 0;
    if (scope == gpus) return 2;
    return scope == kEverywhere ? 1 : 0;
  };
  std::array<int, kInSituTerms> best{};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto term = static_cast<size_t>(parameters[i].term);
    const int now = narrowness(parameters[i].scope);
    if (now <= best[term]) continue;
    best[term] = now;
    rows[term] = static_cast<int>(i);
  }
  return rows;
}

InSituValues neutral_in_situ() {
  InSituValues values;
  for (size_t t = 0; t < values.size(); ++t) values[t] = neutral_value(static_cast<InSituTerm>(t));
  return values;
}

InSituValues in_situ_values(std::span<const InSituParameter> parameters, const Node& node,
                            int64_t libraries) {
  InSituValues values = neutral_in_situ();
  const InSituRows rows = in_situ_rows(parameters, node, libraries);
  for (size_t t = 0; t < values.size(); ++t)
    if (rows[t] >= 0) values[t] = parameters[static_cast<size_t>(rows[t])].value;
  return values;
}

std::vector<PriceFactor> in_situ_factors(const InSituValues& values, const Work& work,
                                         const Price& price, int64_t ranks) {
  return InSitu(values, ranks).factors(work, price, ranks);
}

void apply_in_situ(const InSituValues& values, const OpGraph& graph, int64_t ranks,
                   Prices& prices) {
  const InSitu in_situ(values, ranks);
  for (size_t w = 0; w < prices.by_work.size(); ++w) {
    Price& price = prices.by_work[w];
    const Time time = rounded(in_situ.of_work(graph.works[w], price));
    price.in_situ = time - price.time;
    price.time = time;
  }
  for (size_t l = 0; l < prices.by_launch.size(); ++l) {
    const Time measured = prices.measured_launches.empty() ? Time{} : prices.measured_launches[l];
    prices.by_launch[l] =
        rounded(in_situ.of_launch(graph.launches[l], prices.by_launch[l], measured));
  }
}

}  // namespace stepcast
