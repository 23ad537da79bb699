// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/collectives.h"

#include <fmt/core.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <regex>
#include <set>
#include <tuple>

#include "calibrate/fit/fit.h"
#include "calibrate/price/collective_price.h"
#include "calibrate/runs/run_record.h"
#include "calibrate/table/curve.h"
#include "sim/csv.h"
#include "sim/diagnostic.h"
#include "sim/statistics.h"
#include "sim/text.h"

namespace stepcast::accuracy {

// ---- logs

namespace {

using Row = std::map<std::string, std::string, std::less<>>;

constexpr double kLatencyOnly = 64 << 10;  // bytes: below, hardly anything else is seen

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

std::vector<Point> read_points(const std::string& path) {
  std::vector<Point> points;
  for (const Row& row : csv_records(read_text_file(path))) {
    const std::string& bytes = row.at(row.count("bytes") ? "bytes" : "size_b");
    const std::string& us = row.at(row.count("time_us") ? "time_us" : "oop_time_us");
    if (us.empty()) continue;
    double shorter = std::stod(us);
    // An all-reduce does the same in place: two measurements of one thing, and what disturbs one
    // only makes it longer.
    if (const auto at = row.find("in_place_us"); at != row.end() && !at->second.empty()) {
      shorter = std::min(shorter, std::stod(at->second));
    }
    points.push_back({std::stod(bytes), shorter * 1e-6});
  }
  return points;
}

WorkKind kind_of(const std::string& collective) {
  if (collective == "all_reduce") return WorkKind::all_reduce;
  if (collective == "all_gather") return WorkKind::all_gather;
  if (collective == "reduce_scatter") return WorkKind::reduce_scatter;
  if (collective == "broadcast") return WorkKind::broadcast;
  if (collective == "alltoall" || collective == "alltoallv") return WorkKind::all_to_all;
  if (collective == "sendrecv") return WorkKind::send_recv;
  refuse(fmt::format("unknown collective '{}'", collective));
}

struct GpuFacts {
  const char* word;
  GpuArch arch;
  double nvlink_gbs;  // one direction
};

// First match counts.
constexpr GpuFacts kGpus[] = {
    {"V100", GpuArch::volta, 150},      {"A100", GpuArch::ampere, 300},
    {"H800", GpuArch::hopper, 200},     {"H100", GpuArch::hopper, 450},
    {"GH200", GpuArch::hopper, 450},    {"H200", GpuArch::hopper, 450},
    {"GB200", GpuArch::blackwell, 900}, {"GB300", GpuArch::blackwell, 900},
    {"B200", GpuArch::blackwell, 900},  {"B300", GpuArch::blackwell, 900},
    {"MI300", GpuArch::other, 448},     {"MI35", GpuArch::other, 537.6}};

void set_gpu(Node& node, const Row& row) {
  const std::string& gpu = row.at("gpu");
  const std::string& link = row.at("link_intra");
  node.gpu.name = gpu;
  node.intra_latency = Time{1'000'000};
  node.intra = IntraKind::nvswitch;
  for (const GpuFacts& f : kGpus) {
    if (!has(gpu, f.word)) continue;
    node.gpu.arch = f.arch;
    node.intra_bandwidth = {f.nvlink_gbs * 1e9};
    node.sharp = architecture(f.arch).nvls_efficiency > 0;
    if (has(link + gpu, "mesh") || has(link, "pair") || has(link, "xGMI")) {
      node.intra = IntraKind::nvlink_mesh;
      node.sharp = false;
    }
    if (has(gpu, "4-GPU")) node.gpus = 4;
    return;
  }
  node.gpu.arch = GpuArch::other;
  node.intra = IntraKind::pcie;
  node.intra_bandwidth = {16e9};
}

// "8x200G HDR IB", "4x400G NDR IB per node", "RoCE".
void set_network(Node& node, Fabric& fabric, const std::string& text, int64_t hosts_per_node) {
  std::smatch m;
  int64_t gbits = node.gpu.arch == GpuArch::other ? 50 : 400;  // of a card that is not described
  int64_t count = node.gpu.arch == GpuArch::other ? 1 : node.gpus;
  if (std::regex_search(text, m, std::regex(R"((\d+)x(\d+)G)"))) {
    count = std::stoll(m[1]) * hosts_per_node;
    gbits = std::stoll(m[2]);
  } else if (std::regex_search(text, m, std::regex(R"((\d+)x\?)"))) {
    count = std::stoll(m[1]);
    gbits = 200;
  }
  node.nics = count;
  node.nic_bandwidth = {static_cast<double>(gbits) / 8 * 1e9};
  struct Driver {
    const char* word;
    NicDriver driver;
  };
  // First match counts.
  constexpr Driver kDrivers[] = {{"EFA v1", NicDriver::efa_v1}, {"EFA", NicDriver::efa},
                                 {"TCPXO", NicDriver::tcpxo},   {"TCP", NicDriver::tcpx},
                                 {"gIB", NicDriver::gib},       {"RoCE", NicDriver::roce},
                                 {"", NicDriver::verbs}};
  const bool google = has(node.gpu.name, "GCP") && has(text, "RoCE");
  const std::string words = google ? text + " gIB" : text;
  for (const Driver& d : kDrivers) {
    if (!has(words, d.word)) continue;
    node.nic_driver = d.driver;
    node.nic_latency = nominal_latency(d.driver);
    break;
  }
  fabric.sharp = has(text, "SHARP");
}

using Version = std::pair<int64_t, int64_t>;  // "2.18.5": 2, 18

// Of a log that does not say: a late one.
Version version_of(const Row& row) {
  Version v{0, 0};
  const auto at = row.find("nccl_version");
  if (at == row.end() || std::sscanf(at->second.c_str(), "%ld.%ld", &v.first, &v.second) != 2) {
    return {99, 0};
  }
  return v;
}

// The model is of 2.28 to 2.30.  What ran on software from before PXN (2.12) is judged by it but
// says nothing of today's factors.
constexpr Version kFittedFrom{2, 12};

// What NCCL takes: "Ring", "Ring,Tree", "^LL128" (all but it), in any case.
uint32_t choice_of(std::string_view text, const std::map<std::string, uint32_t>& names) {
  const bool all_but = text.starts_with('^');
  uint32_t bits = 0;
  for (std::string_view word : split(text.substr(all_but ? 1 : 0), ',')) {
    const auto at = names.find(upper_case(word));
    if (at == names.end()) refuse(fmt::format("unknown algorithm or protocol '{}'", word));
    bits |= at->second;
  }
  return all_but ? ~bits : bits;
}

// The column `environment` ("NCCL_ALGO=Ring NCCL_PROTO=Simple") and the version.
NcclSetup setup_of(const Row& row, NicDriver driver) {
  constexpr auto bit = [](auto x) { return 1U << static_cast<uint32_t>(x); };
  static const std::map<std::string, uint32_t> kAlgorithms{
      {"RING", bit(Algorithm::ring)},
      {"TREE", bit(Algorithm::tree)},
      {"COLLNETDIRECT", bit(Algorithm::collnet_direct)},
      {"COLLNETCHAIN", bit(Algorithm::collnet_chain)},
      {"NVLS", bit(Algorithm::nvls)},
      {"NVLSTREE", bit(Algorithm::nvls_tree)}};
  static const std::map<std::string, uint32_t> kNames{{"LL", bit(Protocol::ll)},
                                                      {"LL128", bit(Protocol::ll128)},
                                                      {"SIMPLE", bit(Protocol::simple)}};
  NcclSetup setup;
  if (row.count("environment")) {
    for (std::string_view set : split(row.at("environment"), ' ')) {
      if (set.starts_with("NCCL_ALGO=")) setup.algorithms = choice_of(set.substr(10), kAlgorithms);
      if (set.starts_with("NCCL_PROTO=")) setup.protocols = choice_of(set.substr(11), kNames);
    }
  }
  // A plugin merges ports by itself.
  if (driver == NicDriver::verbs || driver == NicDriver::roce) {
    setup.merges_ports = version_of(row) >= Version{2, 24};
  }
  return setup;
}

void leave_out_calls(std::vector<Point>& points) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const Point& p : points) shortest = std::min(shortest, p.seconds);
  std::erase_if(points, [&](const Point& p) { return p.seconds < kCallsAreHidden * shortest; });
}

// More bytes in two thirds of the time: no choice of algorithm does that, a network that is not
// well does.
bool falls(const std::vector<Point>& points) {
  for (size_t i = 1; i < points.size(); ++i) {
    if (points[i].bytes > points[i - 1].bytes && points[i].bytes >= kLatencyOnly &&
        3 * points[i].seconds < 2 * points[i - 1].seconds) {
      return true;
    }
  }
  return false;
}

// The column `processes`: "one" that called for all GPUs; else one each, or it is not said.
bool is_of_one_process(const Row& row) {
  const auto at = row.find("processes");
  if (at == row.end() || at->second.empty()) return false;
  if (at->second != "one") refuse(fmt::format("processes '{}': one, or nothing", at->second));
  return true;
}

Log log_of(const Row& row, const std::string& folder) {
  Log log;
  log.id = row.at("id");
  log.gpu = row.at("gpu");
  log.network = row.at("network");
  log.source = row.at("source");
  log.kind = kind_of(row.at("collective"));
  log.scored = row.at("quality") == "ok";
  log.fitted = version_of(row) >= kFittedFrom;
  log.one_process = is_of_one_process(row);
  log.transfer = log.kind == WorkKind::send_recv;
  int64_t hosts = std::stoll(row.at("nodes"));
  const int64_t per_host = std::stoll(row.at("gpus_per_node"));
  const int64_t gpus = hosts * per_host;
  Node& node = log.cluster.node;
  // A rack of 72 is one NVLink domain; a job that spans several fills them evenly.
  int64_t nodes = hosts;
  if (has(row.at("link_intra"), "MNNVL")) nodes = (gpus + 71) / 72;
  node.gpus = gpus / nodes;
  set_gpu(node, row);
  set_network(node, log.cluster.fabric, log.network, hosts / nodes);
  log.setup = setup_of(row, node.nic_driver);
  log.cluster.nodes = nodes;
  log.cluster.fabric.hop_latency = Time{200'000};
  log.shape.ranks = gpus;
  log.shape.nodes = nodes;
  log.shape.ranks_per_node = gpus / nodes;
  log.shape.tier = nodes == 1 ? -1 : 0;
  log.points = read_points(
      fmt::format("{}/{}", folder, row.count("file") ? row.at("file") : log.id + ".csv"));
  if (log.one_process) leave_out_calls(log.points);
  log.unwell = falls(log.points);
  if (log.unwell) log.scored = log.fitted = false;
  return log;
}

}  // namespace

std::vector<Log> read_logs(const std::string& folder) {
  std::vector<Log> logs;
  for (const Row& row : csv_records(read_text_file(folder + "/manifest.csv"))) {
    const std::string& quality = row.at("quality");
    if (quality == "ok" || quality == "large_only") logs.push_back(log_of(row, folder));
  }
  return logs;
}

// ---- the fit

namespace {

constexpr double kNoise = 0.1;         // natural logarithm, of one point
constexpr double kSmallest = 4 << 10;  // below it latency alone is seen
constexpr int kRounds = 14;

// Logarithm of the model and its derivatives by the logarithms of the six factors.
struct Modelled {
  double value = 0;
  std::array<double, kTerms> slope{};
};

Modelled model(const Candidate& a, const Factors& f, double bytes) {
  constexpr double kStep = 1e-5;
  Modelled m;
  m.value = std::log(corrected_seconds(a, f, bytes));
  for (size_t t = 0; t < kTerms; ++t) {
    Factors g = f;
    g[t] *= 1 + kStep;
    m.slope[t] = (std::log(corrected_seconds(a, g, bytes)) - m.value) / kStep;
  }
  return m;
}

// Observations with their classes as columns.
struct Problem {
  std::vector<CorrectionClass> classes;
  std::vector<std::set<size_t>> seen;
  std::vector<const Observation*> rows;
  std::vector<std::vector<std::pair<size_t, double>>> columns;  // and their weights
  std::vector<double> weights;
};

Problem problem_of(const std::vector<Observation>& all, const std::vector<Log>& logs,
                   size_t without) {
  Problem p;
  std::map<std::pair<Term, std::string>, size_t> index;
  const auto column = [&](const CorrectionClass& c, size_t log) {
    const auto [at, is_new] = index.try_emplace({c.term, c.name}, p.classes.size());
    if (is_new) {
      p.classes.push_back(c);
      p.seen.emplace_back();
    }
    p.seen[at->second].insert(log);
    return at->second;
  };
  for (const Observation& o : all) {
    if (o.log == without || !logs[o.log].fitted) continue;
    std::vector<std::pair<size_t, double>> columns;
    for (const CorrectionClass& c : o.classes) columns.emplace_back(column(c, o.log), c.weight);
    const Log& log = logs[o.log];
    p.rows.push_back(&o);
    p.columns.push_back(std::move(columns));
    // A log's points say much the same; many of them count less each.
    const double share = 8 / (8 + static_cast<double>(log.points.size()));
    p.weights.push_back(share * (o.bytes < kLatencyOnly ? 0.2 : 1));
  }
  return p;
}

Factors factors_at(const Problem& p, size_t row, const Eigen::VectorXd& theta) {
  std::array<double, kTerms> sum{};
  for (const auto& [c, weight] : p.columns[row]) {
    sum[static_cast<size_t>(p.classes[c].term)] += weight * theta[static_cast<Eigen::Index>(c)];
  }
  Factors f;
  for (size_t t = 0; t < kTerms; ++t) f[t] = std::exp(sum[t]);
  return f;
}

// One step; `scale` is where outliers begin to lose weight.
void step(const Problem& p, double scale, const Eigen::VectorXd& mean, Eigen::VectorXd& theta) {
  const auto n = theta.size();
  Eigen::MatrixXd normal = Eigen::MatrixXd::Zero(n, n);
  Eigen::VectorXd right = Eigen::VectorXd::Zero(n);
  for (size_t r = 0; r < p.rows.size(); ++r) {
    const Observation& o = *p.rows[r];
    const Modelled m = model(o.picked, factors_at(p, r, theta), o.bytes);
    const double residual = std::log(o.seconds) - m.value;
    const double weight = p.weights[r] / (1 + (residual / scale) * (residual / scale));
    for (const auto& [i, wi] : p.columns[r]) {
      const double si = weight * wi * m.slope[static_cast<size_t>(p.classes[i].term)];
      const auto a = static_cast<Eigen::Index>(i);
      right[a] += si * residual;
      for (const auto& [j, wj] : p.columns[r]) {
        normal(a, static_cast<Eigen::Index>(j)) +=
            si * wj * m.slope[static_cast<size_t>(p.classes[j].term)];
      }
    }
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    const double spread = p.classes[static_cast<size_t>(i)].spread;
    const double prior = kNoise * kNoise / (spread * spread);
    normal(i, i) += prior;
    right[i] -= prior * (theta[i] - mean[i]);
  }
  const Eigen::VectorXd change = normal.ldlt().solve(right);
  for (Eigen::Index i = 0; i < n; ++i) theta[i] += std::clamp(change[i], -0.7, 0.7);
}

}  // namespace

std::vector<Observation> observe(const std::vector<Log>& logs) {
  std::vector<Observation> all;
  for (size_t i = 0; i < logs.size(); ++i) {
    const Log& log = logs[i];
    if (log.transfer) continue;
    const std::vector<Candidate> ways = candidates(log.cluster, log.kind, log.shape, log.setup);
    for (const Point& point : log.points) {
      if (point.bytes < kSmallest) continue;
      Observation o{
          .log = i, .bytes = point.bytes, .seconds = point.seconds, .picked = {}, .classes = {}};
      o.picked = nccl_choice(ways, log.kind, point.bytes);
      o.classes = correction_classes(log.cluster, log.kind, log.shape, o.picked);
      all.push_back(std::move(o));
    }
  }
  return all;
}

Corrections Fitted::corrections() const {
  Corrections c;
  for (size_t i = 0; i < classes.size(); ++i) {
    c.set(classes[i].term, classes[i].name, std::exp(logarithms[i]));
  }
  return c;
}

Fitted fit(const std::vector<Observation>& all, const std::vector<Log>& logs, size_t without) {
  const Problem p = problem_of(all, logs, without);
  const auto n = static_cast<Eigen::Index>(p.classes.size());
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    if (p.classes[static_cast<size_t>(i)].term == Term::copy) mean[i] = std::log(0.4);
  }
  Eigen::VectorXd theta = mean;
  for (int round = 0; round < kRounds; ++round) {
    step(p, round < 3 ? 0.5 : round < 6 ? 0.25 : kNoise, mean, theta);
  }
  Fitted fitted;
  fitted.classes = p.classes;
  for (Eigen::Index i = 0; i < n; ++i) {
    fitted.logarithms.push_back(theta[i]);
    fitted.logs.push_back(static_cast<int>(p.seen[static_cast<size_t>(i)].size()));
  }
  return fitted;
}

// ---- the report

namespace {

constexpr std::array kClassNames{"below 64 KiB", "64 KiB to 1 MiB", "1 to 256 MiB",
                                 "256 MiB and more"};
constexpr size_t kNoLog = std::numeric_limits<size_t>::max();

void note(LogErrors& errors, const Observation& o, double predicted) {
  errors[o.log][size_class(o.bytes)].push_back(predicted / o.seconds - 1);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  for (double& v : values) v = std::fabs(v);
  return upper_quantile(std::move(values), 0.5);
}

bool belongs(const Log& log, LogPool pool) {
  const bool exchange = log.kind == WorkKind::all_to_all;
  switch (pool) {
    case LogPool::all: return true;
    case LogPool::collectives: return !exchange;
    case LogPool::exchanges: return exchange;
    case LogPool::racks: return !exchange && log.shape.ranks_per_node > 16;
    case LogPool::one_node:
      return !exchange && log.shape.nodes == 1 && log.shape.ranks_per_node <= 16;
    case LogPool::many_nodes:
      return !exchange && log.shape.nodes > 1 && log.shape.ranks_per_node <= 16;
  }
  return false;
}

std::vector<double> pooled(const LogErrors& errors, const std::vector<Log>& logs, LogPool pool,
                           size_t size_class) {
  std::vector<double> values;
  for (size_t i = 0; i < logs.size(); ++i) {
    if (!belongs(logs[i], pool)) continue;
    values.insert(values.end(), errors[i][size_class].begin(), errors[i][size_class].end());
  }
  return values;
}

// Every so many of a log's rows as the points of a table, from the first on; the others are looked
// up.
void keep_some(const Log& log, size_t index, size_t every, LogErrors& errors) {
  Curve kept;
  for (size_t i = 0; i < log.points.size(); i += every) {
    kept.push_back({static_cast<int64_t>(log.points[i].bytes), log.points[i].seconds * 1e6, false});
  }
  if (kept.size() < 2) return;
  for (size_t i = 0; i < log.points.size(); ++i) {
    if (i % every == 0) continue;
    const Point& p = log.points[i];
    const CurveValue v =
        collective_on(kept, log.kind, {static_cast<int64_t>(p.bytes)}, log.shape, log.cluster);
    errors[index][size_class(p.bytes)].push_back(v.us * 1e-6 / p.seconds - 1);
  }
}

std::string percent_or_dash(double x) {
  return std::isnan(x) ? "-" : fmt::format("{:.1f}", 100 * x);
}

std::string cell(const LogErrors& errors, size_t log, size_t size_class) {
  const std::vector<double>& values = errors[log][size_class];
  return values.empty() ? "-" : fmt::format("{:.0f}", 100 * median_of(values));
}

// With the sign of the errors themselves: minus where predictions are mostly too short.
std::string signed_cell(const LogErrors& errors, size_t log, size_t size_class) {
  const std::vector<double>& values = errors[log][size_class];
  if (values.empty()) return "-";
  return (upper_quantile(values, 0.5) < 0 ? "-" : "+") + cell(errors, log, size_class);
}

}  // namespace

size_t size_class(double bytes) {
  constexpr double kMiB = 1 << 20;
  return bytes < kMiB / 16 ? 0 : bytes < kMiB ? 1 : bytes < 256 * kMiB ? 2 : 3;
}

Study study(const std::vector<Log>& logs) {
  const std::vector<Observation> all = observe(logs);
  Study s;
  for (LogErrors* e : {&s.left_out, &s.own, &s.alpha_beta, &s.quarter, &s.half})
    e->resize(logs.size());
  size_t fitted = kNoLog;
  Corrections others;
  AlphaBeta line;
  for (const Observation& o : all) {
    if (!logs[o.log].scored) continue;
    if (fitted != o.log) {
      fitted = o.log;
      others = fit(all, logs, o.log).corrections();
      std::vector<SizedTime> points;
      for (const Point& p : logs[o.log].points) points.push_back({p.bytes, p.seconds * 1e6});
      line = points.size() > 1 ? fit_alpha_beta(points) : AlphaBeta{};
    }
    const Log& log = logs[o.log];
    const auto ways = candidates(log.cluster, log.kind, log.shape, log.setup);
    note(s.left_out, o,
         cheapest_seconds(ways, factors_of(ways, log.cluster, log.kind, log.shape, others),
                          o.bytes));
    note(s.own, o, nccl_seconds(o.picked, log.kind, o.bytes));
    note(s.alpha_beta, o, 1e-6 * (line.alpha_us + line.us_per_byte * o.bytes));
  }
  for (size_t i = 0; i < logs.size(); ++i) {
    if (logs[i].transfer || !logs[i].scored) continue;
    keep_some(logs[i], i, 4, s.quarter);
    keep_some(logs[i], i, 2, s.half);
  }
  return s;
}

double median(const LogErrors& errors, const std::vector<Log>& logs, LogPool pool,
              size_t size_class) {
  return median_of(pooled(errors, logs, pool, size_class));
}

size_t points(const LogErrors& errors, const std::vector<Log>& logs, LogPool pool,
              size_t size_class) {
  return pooled(errors, logs, pool, size_class).size();
}

double median(const LogErrors& errors) {
  std::vector<double> values;
  for (const auto& log : errors) {
    for (const auto& of_class : log) values.insert(values.end(), of_class.begin(), of_class.end());
  }
  return median_of(std::move(values));
}

double target(LogPool pool, size_t size_class) {
  constexpr std::array<double, kSizeClasses> kTargets{0.25, 0.25, 0.15, 0.06};
  return pool == LogPool::exchanges ? 0.12 : kTargets[size_class];
}

LogCount logs_within(const LogErrors& errors, const std::vector<Log>& logs, size_t size_class) {
  LogCount count;
  for (size_t i = 0; i < logs.size(); ++i) {
    if (!belongs(logs[i], LogPool::collectives) || errors[i][size_class].empty()) continue;
    ++count.all;
    if (median_of(errors[i][size_class]) <= target(LogPool::collectives, size_class))
      ++count.within;
  }
  return count;
}

std::string held_out_logs(const Study& s, const std::vector<Log>& logs) {
  std::string text =
      "| collectives held out by log | points | pooled median error, % (target) | logs whose own "
      "median is within the target (wanted: three quarters) |\n|---|---|---|---|\n";
  for (size_t c = kSizeClasses; c-- > 1;) {
    const double error = median(s.left_out, logs, LogPool::collectives, c);
    const double most = target(LogPool::collectives, c);
    const LogCount count = logs_within(s.left_out, logs, c);
    text += fmt::format("| {} | {} | {} ({:.0f}{}) | {} of {}{} |\n", kClassNames[c],
                        points(s.left_out, logs, LogPool::collectives, c), percent_or_dash(error),
                        100 * most, error > most ? ", missed" : "", count.within, count.all,
                        4 * count.within < 3 * count.all ? ", missed" : "");
  }
  return text;
}

std::string collectives_report(const Study& s, const std::vector<Log>& logs) {
  constexpr std::pair<LogPool, const char*> kPools[] = {
      {LogPool::collectives, "all but all-to-all"},
      {LogPool::one_node, "of these: one node"},
      {LogPool::many_nodes, "of these: several nodes"},
      {LogPool::racks, "of these: NVLink racks"},
      {LogPool::exchanges, "all-to-all"}};
  std::string text =
      "| median error, % | size | points | factors of other logs | target | NCCL's own model | "
      "alpha-beta of the log itself |\n|---|---|---|---|---|---|---|\n";
  for (const auto& [pool, name] : kPools) {
    for (size_t c = 1; c < kSizeClasses; ++c) {
      const size_t n = points(s.left_out, logs, pool, c);
      if (n == 0) continue;
      const double error = median(s.left_out, logs, pool, c), most = target(pool, c);
      text += fmt::format("| {} | {} | {} | {} | {:.0f}{} | {} | {} |\n", name, kClassNames[c], n,
                          percent_or_dash(error), 100 * most, error > most ? ", missed" : "",
                          percent_or_dash(median(s.own, logs, pool, c)),
                          percent_or_dash(median(s.alpha_beta, logs, pool, c)));
    }
  }
  text += fmt::format(
      "\nA log as its own table: every second row kept, the others are reproduced within {} % "
      "(median); every fourth row kept, within {} % (target 3).\n",
      percent_or_dash(median(s.half)), percent_or_dash(median(s.quarter)));
  text += "\n" + held_out_logs(s, logs);
  std::string unwell, old;
  for (const Log& log : logs) {
    std::string& of = log.unwell ? unwell : old;
    if (log.unwell || !log.fitted) of += (of.empty() ? "" : ", ") + log.id;
  }
  text += fmt::format(
      "\nNeither fitted nor judged, since more bytes took two thirds of the time or less: {}. "
      "Judged "
      "but not fitted, as NCCL was older than 2.12: {}.\n",
      unwell.empty() ? "none" : unwell, old.empty() ? "none" : old);
  text +=
      "\nBy log, median error in %: factors of the other logs, minus where predictions are mostly "
      "too short / NCCL's own model / alpha-beta of the log itself.\n\n| log | 64 KiB to 1 MiB | 1 "
      "to 256 MiB | 256 MiB and more |\n"
      "|---|---|---|---|\n";
  for (size_t i = 0; i < logs.size(); ++i) {
    if (logs[i].transfer || !logs[i].scored) continue;
    text += fmt::format("| {} |", logs[i].id);
    for (size_t c = 1; c < kSizeClasses; ++c) {
      text += fmt::format(" {} / {} / {} |", signed_cell(s.left_out, i, c), cell(s.own, i, c),
                          cell(s.alpha_beta, i, c));
    }
    text += "\n";
  }
  return text;
}

std::string corrections_file(const Fitted& fitted, const std::vector<Log>& logs) {
  std::string text =
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Factors on the terms of the collective model (topology/nccl/collective_time.h), by "
      "class.\n"
      "# Written by stepcast_accuracy collectives --corrections; fitted to these logs of\n"
      "# tests/data/collectives, each with its source there:\n";
  std::string line = "#";
  for (const Log& log : logs) {
    if (log.transfer || !log.fitted) continue;
    if (line.size() + log.id.size() > 96) {
      text += fmt::format("{}\n", line);
      line = "#";
    }
    line += fmt::format(" {}", log.id);
  }
  text += fmt::format("{}\nterm,class,factor\n", line);
  std::vector<size_t> order(fitted.classes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const CorrectionClass &x = fitted.classes[a], &y = fitted.classes[b];
    return std::tie(x.term, x.name) < std::tie(y.term, y.name);
  });
  for (size_t i : order) {
    text += fmt::format("{},{},{:.4g}\n", name_of(fitted.classes[i].term), fitted.classes[i].name,
                        std::exp(fitted.logarithms[i]));
  }
  return text;
}

}  // namespace stepcast::accuracy
