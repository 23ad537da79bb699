// SPDX-License-Identifier: Apache-2.0
// How a sweep of nccl-tests becomes rows.
//
// A row needs a collective, its ranks, and on how many nodes they ran; old logs state neither. What
// they print tells: nccl-tests gives each size two bandwidths, algorithm and bus, whose ratio is a
// property of the collective (doc/PERFORMANCE.md there):
//
//     all_reduce 2 (n - 1) / n,   all_gather, reduce_scatter, alltoall (n - 1) / n,   others 1
//
// A log without a header has a row with 179.1 and 313.4 GB/s.  313.4 / 179.1 = 1.7499, above 1, so
// it is an all-reduce; 2 (1 - 1/n) = 1.7499 gives n = 8.  The printed digits leave an interval
// around the ratio, each row narrows it, and if one number of ranks is left it is taken.
// Collectives that share a ratio are told apart by their columns: those that reduce name an
// operation, those with a root name it.  What cannot be told has to be stated, and what is stated
// has to agree.
#include "calibrate/import/nccl_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "calibrate/table/cost_table.h"
#include "sim/graph/work.h"

namespace stepcast {

namespace {

struct Collective {
  std::string_view program;  // without "_perf"
  WorkKind like;             // whose ratio of bandwidths it has (bus_scale)
  bool in_tables;            // as rows of that kind
  bool reduces, root, in_place;
};
constexpr std::array<Collective, 10> kCollectives{{
    {"all_reduce", WorkKind::all_reduce, true, true, false, true},
    {"all_gather", WorkKind::all_gather, true, false, false, true},
    {"reduce_scatter", WorkKind::reduce_scatter, true, true, false, true},
    {"alltoall", WorkKind::all_to_all, true, false, false, false},
    {"broadcast", WorkKind::broadcast, true, false, true, true},
    {"sendrecv", WorkKind::send_recv, false, false, false, false},
    {"reduce", WorkKind::broadcast, false, true, true, true},
    {"gather", WorkKind::broadcast, false, false, true, false},
    {"scatter", WorkKind::broadcast, false, false, true, false},
    {"alltoallv", WorkKind::all_to_all, false, false, false, false},
}};
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostPerNode = 1024;

struct RankRange {
  int64_t least = 2, most = kMostRanks;
  bool empty() const { return least > most; }
};

// The numbers of ranks whose ratio of bandwidths the rows show.  With ratio = scale (1 - 1/n) in
// [low, high]: 1/n in [1 - high/scale, 1 - low/scale].
RankRange ranks_by_ratio(const NcclSweep& sweep, double scale) {
  RankRange range;
  for (const NcclResult& r : sweep.results) {
    // Of slow rows too few digits are printed.
    if (r.alg_gbs < 100 * r.alg_tolerance || r.bus_gbs < 100 * r.bus_tolerance) continue;
    const double low = (r.bus_gbs - r.bus_tolerance) / (r.alg_gbs + r.alg_tolerance);
    const double high = (r.bus_gbs + r.bus_tolerance) / (r.alg_gbs - r.alg_tolerance);
    if (scale == 0) {
      if (low > 1 || high < 1) return {2, 1};
      continue;
    }
    const double most_share = 1 - low / scale, least_share = 1 - high / scale;
    if (most_share <= 0) return {2, 1};
    // 1/n <= most_share, n >= 1/most_share; a hair of rounding is allowed for.
    const double least = 1 / most_share - 1e-9;
    if (least > static_cast<double>(range.least)) {
      range.least = static_cast<int64_t>(least);
      if (static_cast<double>(range.least) < least) ++range.least;
    }
    if (least_share > 0)
      range.most =
          static_cast<int64_t>(std::min(static_cast<double>(range.most), 1 / least_share + 1e-9));
  }
  return range;
}

int64_t listed_ranks(const NcclSweep& sweep) {
  int64_t ranks = 0;
  for (const NcclRank& d : sweep.devices) ranks = std::max(ranks, d.rank + 1);
  if (sweep.ranks_per_device_line > 1)
    ranks = static_cast<int64_t>(sweep.devices.size()) * sweep.ranks_per_device_line;
  return ranks;
}

const Collective* named(std::string_view program) {
  const size_t slash = program.find_last_of('/');
  if (slash != std::string_view::npos) program.remove_prefix(slash + 1);
  const size_t suffix = program.find("_perf");
  program = program.substr(0, suffix);
  if (program == "all_to_all") program = "alltoall";
  for (const Collective& c : kCollectives)
    if (c.program == program) return &c;
  return nullptr;
}

// Whether the name of the file names this collective and none that contains its name.
bool named_by_file(const std::string& file, const Collective& c) {
  std::string name;
  for (const char letter : base_name_of(file))
    if (letter != '_' && letter != '-') name += letter;
  std::string word;
  for (const char letter : c.program)
    if (letter != '_') word += letter;
  return name.find(word) != std::string::npos &&
         !(word == "alltoall" && name.find("alltoallv") != std::string::npos) &&
         !(word == "reduce" && name.find("allreduce") != std::string::npos);
}

// "8", "8 to 12".
std::string text_of(const RankRange& range) {
  if (range.most == kMostRanks) return fmt::format("{} or more", range.least);
  if (range.most > range.least) return fmt::format("{} to {}", range.least, range.most);
  return fmt::format("{}", range.least);
}

// The collectives whose columns these are, on that many ranks (0: on some number).
std::vector<const Collective*> collectives_by_columns(const NcclSweep& sweep, int64_t ranks) {
  std::vector<const Collective*> possible;
  for (const Collective& c : kCollectives) {
    const RankRange range = ranks_by_ratio(sweep, bus_scale(c.like));
    if (range.empty() || (ranks > 0 && (ranks < range.least || ranks > range.most))) continue;
    if (c.reduces != sweep.reduces || c.root != sweep.has_root) continue;
    if (sweep.no_in_place && c.in_place) continue;
    possible.push_back(&c);
  }
  return possible;
}

// The ranks as stated, else as listed; 0: neither.
int64_t known_ranks(const MeasurementInput& in, const NcclSweep& sweep) {
  const MeasurementOptions& o = in.options;
  const int64_t listed = listed_ranks(sweep);
  const int64_t product = o.nodes > 0 && o.ranks_per_node > 0 ? o.nodes * o.ranks_per_node : 0;
  if (o.ranks > 0 && product > 0 && product != o.ranks)
    refuse_measurements(in, "E333",
                        fmt::format("--nodes {} with --ranks-per-node {} are not --ranks {}",
                                    o.nodes, o.ranks_per_node, o.ranks));
  const int64_t stated = o.ranks > 0 ? o.ranks : product;
  if (stated > 0 && stated < listed)
    refuse_measurements(in, "E333",
                        fmt::format("{} ranks are stated, and the file lists {}", stated, listed),
                        "what the file says need not be stated", sweep.place);
  return stated > 0 ? stated : listed;
}

std::string where_from(const NcclSweep& sweep, int64_t ranks) {
  return ranks == listed_ranks(sweep) ? " that the file lists" : " that are stated";
}

const Collective& collective_of(const MeasurementInput& in, const NcclSweep& sweep, int64_t ranks) {
  const std::string& stated = in.options.collective;
  const std::string& program = stated.empty() ? sweep.program : stated;
  if (!program.empty()) {
    if (const Collective* c = named(program)) return *c;
    refuse_measurements(
        in, "E334", fmt::format("'{}' is no program of nccl-tests that is known", program),
        "all_reduce, all_gather, reduce_scatter, alltoall or broadcast", sweep.place);
  }
  const std::vector<const Collective*> possible = collectives_by_columns(sweep, ranks);
  if (possible.empty() && ranks > 0) {
    std::string fitting;
    for (const Collective* c : collectives_by_columns(sweep, 0))
      fitting += fmt::format("{}{} on {}", fitting.empty() ? "" : ", ", c->program,
                             text_of(ranks_by_ratio(sweep, bus_scale(c->like))));
    if (!fitting.empty())
      refuse_measurements(in, "E333",
                          fmt::format("these bandwidths are not those of the {} ranks{}", ranks,
                                      where_from(sweep, ranks)),
                          fmt::format("they fit {}; --ranks N states how many took part", fitting),
                          sweep.place);
  }
  if (possible.size() > 1) {
    std::vector<const Collective*> by_file;
    for (const Collective* c : possible)
      if (named_by_file(in.file, *c)) by_file.push_back(c);
    if (by_file.size() == 1) {
      in.note(fmt::format("the collective is taken from the name of the file: {}",
                          by_file[0]->program));
      return *by_file[0];
    }
  }
  // Ordinary all-to-all and one with unequal parts print the same.
  if (possible.size() == 2 && possible[0]->program == "alltoall") return *possible[0];
  if (possible.size() == 1) return *possible[0];
  std::string names;
  for (const Collective* c : possible)
    names += (names.empty() ? "" : ", ") + std::string(c->program);
  refuse_measurements(in, "E334", "the file does not say which collective was measured",
                      "state it: --collective NAME" +
                          (names.empty() ? std::string() : "; its columns fit " + names),
                      sweep.place);
}

// `ranks` as known_ranks has them.
int64_t ranks_of(const MeasurementInput& in, const NcclSweep& sweep, const Collective& c,
                 int64_t ranks) {
  const RankRange range = ranks_by_ratio(sweep, bus_scale(c.like));
  if (ranks == 0 && bus_scale(c.like) > 0 && range.least == range.most) ranks = range.least;
  if (ranks == 0)
    refuse_measurements(
        in, "E334", "the file does not say how many ranks took part",
        range.empty() || bus_scale(c.like) == 0 || range.most == kMostRanks
            ? std::string("state it: --ranks N")
            : fmt::format("state it: --ranks N; its bandwidths fit {}", text_of(range)),
        sweep.place);
  if (ranks < range.least || ranks > range.most)
    refuse_measurements(
        in, "E333",
        fmt::format("these bandwidths are not those of {} on {} ranks", c.program, ranks),
        range.empty() || bus_scale(c.like) == 0
            ? std::string("the ratio of bus to algorithm bandwidth tells")
            : fmt::format("the ratio of bus to algorithm bandwidth tells: it is that of {} ranks",
                          text_of(range)),
        sweep.place);
  const int64_t listed = listed_ranks(sweep);
  if (listed > 0 && listed != ranks)
    in.note(fmt::format("{} ranks are stated, the file lists {}", ranks, listed));
  return ranks;
}

// Ranks a node, from the hosts if all ranks are listed.  nullopt: they are not, or hosts differ.
std::optional<int64_t> per_node_by_hosts(const NcclSweep& sweep, int64_t ranks) {
  std::map<std::string, int64_t> hosts;
  for (const NcclRank& d : sweep.devices) hosts[d.host] += sweep.ranks_per_device_line;
  int64_t listed = 0;
  for (const auto& [host, count] : hosts) listed += count;
  if (hosts.empty() || listed != ranks) return std::nullopt;
  const int64_t each = hosts.begin()->second;
  for (const auto& [host, count] : hosts)
    if (count != each) return std::nullopt;
  return each;
}

// Whether rank r runs on device r mod `each` of host r / `each`.
bool numbered_by_node(const NcclSweep& sweep, int64_t each) {
  std::map<std::string, int64_t> node_of;
  std::map<int64_t, std::string> host_of;
  for (const NcclRank& d : sweep.devices) {
    if (d.rank % each != d.device) return false;
    if (node_of.try_emplace(d.host, d.rank / each).first->second != d.rank / each) return false;
    if (host_of.try_emplace(d.rank / each, d.host).first->second != d.host) return false;
  }
  return true;
}

// The same from the numbers of the devices, where the list has gaps.
std::optional<int64_t> per_node_by_devices(const NcclSweep& sweep, int64_t ranks) {
  int64_t most = 0;
  for (const NcclRank& d : sweep.devices) most = std::max(most, d.device);
  std::optional<int64_t> found;
  if (most == 0) return found;  // each process may see one device only
  for (int64_t each = most + 1; each <= std::min(ranks, kMostPerNode); ++each) {
    if (ranks % each != 0 || !numbered_by_node(sweep, each)) continue;
    if (found) return std::nullopt;
    found = each;
  }
  return found;
}

// Whether no host has one device twice: else hosts share a name, or processes see one device each.
bool hosts_are_told_apart(const NcclSweep& sweep) {
  std::set<std::pair<std::string, int64_t>> seen;
  for (const NcclRank& d : sweep.devices)
    if (!seen.emplace(d.host, d.device).second) return false;
  return true;
}

// A node may be several hosts that NVLink joins, never a part of one.
void compare_with_hosts(const MeasurementInput& in, const NcclSweep& sweep, int64_t each,
                        int64_t by_hosts) {
  if (each == by_hosts) return;
  const std::string hosts = fmt::format("the file lists hosts of {} ranks", by_hosts);
  if (each % by_hosts != 0 && hosts_are_told_apart(sweep))
    refuse_measurements(in, "E333", fmt::format("{}, and nodes of {} are stated", hosts, each),
                        "a node is one host, or several that NVLink joins", sweep.place);
  in.note(fmt::format("{}, taken as nodes of {} as stated", hosts, each));
}

int64_t ranks_per_node_of(const MeasurementInput& in, const NcclSweep& sweep, int64_t ranks) {
  const std::optional<int64_t> by_hosts = per_node_by_hosts(sweep, ranks);
  std::optional<int64_t> each;
  if (in.options.ranks_per_node > 0) {
    each = in.options.ranks_per_node;
  } else if (in.options.nodes > 0) {
    if (ranks % in.options.nodes != 0)
      refuse_measurements(
          in, "E333", fmt::format("{} ranks do not divide among {} nodes", ranks, in.options.nodes),
          "every node has as many", sweep.place);
    each = ranks / in.options.nodes;
  } else {
    each = by_hosts ? by_hosts : per_node_by_devices(sweep, ranks);
  }
  if (!each)
    refuse_measurements(
        in, "E334", fmt::format("the file does not say on how many nodes its {} ranks ran", ranks),
        "state it: --nodes N", sweep.place);
  if (ranks % *each != 0)
    refuse_measurements(in, "E333",
                        fmt::format("{} ranks are not a multiple of {} a node", ranks, *each),
                        "every node has as many", sweep.place);
  if (by_hosts) compare_with_hosts(in, sweep, *each, *by_hosts);
  return *each;
}

// Samples by row: kind, ranks, nodes, ranks a node, NIC bandwidth, bytes.
using CollectiveSamples =
    std::map<std::tuple<WorkKind, int64_t, int64_t, int64_t, double, int64_t>, std::vector<double>>;

// Who called for the GPUs: the program's own line, else the processes of the devices listed.
// Throws E334 where neither says it.
bool one_process_of(const MeasurementInput& in, const NcclSweep& sweep) {
  const std::optional<bool>& stated = in.options.one_process;
  std::optional<bool> said;
  if (sweep.gpus_per_thread) {
    said = *sweep.gpus_per_thread > 1;
  } else if (sweep.ranks_per_device_line > 1) {
    said = true;
  } else if (sweep.devices.size() > 1) {
    std::set<std::pair<std::string, int64_t>> processes;
    bool known = true;
    for (const NcclRank& d : sweep.devices) {
      known = known && d.process >= 0;
      processes.emplace(d.host, d.process);
    }
    if (known) said = processes.size() < sweep.devices.size();
  }
  if (stated && said && *stated != *said)
    refuse_measurements(in, "E333",
                        *said ? "the file says that one process called for several GPUs"
                              : "the file says that each GPU had a process or thread of its own",
                        "what the file says need not be stated", sweep.place);
  if (said) return *said;
  if (stated) return *stated;
  refuse_measurements(
      in, "E334", "the file does not say whether each GPU had a process of its own",
      "state it: --processes each, or --processes one where one called for all GPUs of a host",
      sweep.place);
}

// Throws E333 where the log names another network than the user, E334 where neither names one.
NicDriver network_of(const MeasurementInput& in, const NcclSweep& sweep, int64_t nodes) {
  const std::optional<NicDriver>& stated = in.options.network;
  const std::optional<NicDriver>& said = sweep.said.network;
  // The log of EFA does not tell its generations apart.
  const bool same = stated == said || (said == NicDriver::efa && stated == NicDriver::efa_v1);
  if (stated && said && !same)
    refuse_measurements(in, "E333",
                        fmt::format("NCCL's lines in the file say that {} drove the NICs, not {}",
                                    name_of(*said), name_of(*stated)),
                        "what the file says need not be stated", sweep.place);
  if (sweep.said.sockets && !stated)
    refuse_measurements(in, "E334", "NCCL's lines in the file say that it fell back to TCP sockets",
                        "no cluster has such a network: measure with its NICs, or state --network",
                        sweep.place);
  if (stated) return *stated;
  if (said) return *said;
  refuse_measurements(
      in, "E334", fmt::format("the file does not say what drove the NICs of its {} nodes", nodes),
      "state it: --network NAME, one of " + nic_driver_words() +
          " (verbs is InfiniBand); with NCCL_DEBUG=INFO a log says it itself",
      sweep.place);
}

// A sweep and what its rows say of the group.
struct Grouped {
  const Collective* collective = nullptr;
  int64_t ranks = 0, nodes = 0, per_node = 0;
  Wires wires;  // without the links inside
};

// nullopt (with a note) if tables have no rows of its collective.  Throws E334 if the collective,
// the ranks, the nodes or the wires cannot be told, E333 if what is stated contradicts itself, the
// bandwidths, or the ranks and hosts that are listed.
std::optional<Grouped> group_of(const MeasurementInput& in, const NcclSweep& sweep) {
  const int64_t known = known_ranks(in, sweep);
  Grouped g;
  g.collective = &collective_of(in, sweep, known);
  if (!g.collective->in_tables) {
    in.note(fmt::format("{} rows of {} are not used: tables have none of it", sweep.results.size(),
                        g.collective->program));
    return std::nullopt;
  }
  g.ranks = ranks_of(in, sweep, *g.collective, known);
  g.per_node = ranks_per_node_of(in, sweep, g.ranks);
  g.nodes = g.ranks / g.per_node;
  if (g.nodes > 1 && in.options.nic_gbs <= 0)
    refuse_measurements(
        in, "E334", fmt::format("the file does not say what network its {} nodes have", g.nodes),
        "state one GPU's share of the NICs in one direction: --nic RATE (one NIC of 400 Gb/s a "
        "GPU: --nic 400Gb/s)",
        sweep.place);
  if (g.nodes > 1) {
    g.wires.network = network_of(in, sweep, g.nodes);
    g.wires.sharp = in.options.sharp.value_or(sweep.said.sharp);
  }
  g.wires.one_process = one_process_of(in, sweep);
  return g;
}

void add_samples(const MeasurementInput& in, const NcclSweep& sweep, const Grouped& g,
                 CollectiveSamples& samples) {
  const double nic = g.nodes > 1 ? in.options.nic_gbs : 0;
  for (const NcclResult& r : sweep.results)
    samples[{g.collective->like, g.ranks, g.nodes, g.per_node, nic, r.bytes}].push_back(r.us);
  if (sweep.skipped > 0) in.note(fmt::format("{} rows of 0 bytes are not used", sweep.skipped));
}

// Notes rows that take more than twice as long as both their neighbours, or less than half as long
// as either: where NCCL changes its algorithm times fall by a third at most in the logs that are
// known (tests/data/collectives), so these are of something else that went on.  They are used all
// the same: what the log says is for its owner to take out.
void note_outliers(const MeasurementInput& in, const NcclSweep& sweep) {
  constexpr double kFar = 2;
  for (size_t i = 1; i + 1 < sweep.results.size(); ++i) {
    const NcclResult &before = sweep.results[i - 1], &r = sweep.results[i],
                     &after = sweep.results[i + 1];
    if (before.bytes >= r.bytes || r.bytes >= after.bytes) continue;
    const bool spike = r.us > kFar * std::max(before.us, after.us);
    const bool dip = kFar * r.us < std::min(before.us, after.us);
    if (!spike && !dip) continue;
    std::string where = r.line > 0 ? fmt::format("line {}: ", r.line) : "";
    in.note(fmt::format(
        "{}{:g} us for {} bytes stand out between {:g} and {:g} us{}", where, r.us, r.bytes,
        before.us, after.us,
        r.in_place_us > 0 ? fmt::format("; in place it took {:g}", r.in_place_us) : ""));
  }
}

// The one name of all devices; throws E334 if there are several.
std::string device_name(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps) {
  std::string name;
  for (const NcclSweep& s : sweeps) {
    for (const NcclRank& d : s.devices) {
      if (d.name.empty() || d.name == name) continue;
      if (!name.empty())
        refuse_measurements(in, "E334", "several kinds of GPU took part: " + name + ", " + d.name,
                            "a table is about one");
      name = d.name;
    }
  }
  return name;
}

void add_unique(std::vector<std::string>& lines, std::string line) {
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
}

void describe_software(const NcclSweep& sweep, TableText& table) {
  std::string software;
  if (!sweep.nccl_version.empty()) software = "NCCL " + sweep.nccl_version;
  if (!sweep.tests_version.empty())
    software += (software.empty() ? "" : ", ") + ("nccl-tests " + sweep.tests_version);
  if (table.software.empty()) table.software = software;
  if (!software.empty() && software != table.software)
    add_unique(table.conditions, "another run with " + software);
}

// Sweeps that were run alike: they become rows of one source.
struct RunKind {
  bool graph = false, checked = true;  // as in NcclSweep
  int64_t aggregated = 1;
  Wires wires;
  std::set<std::string> programs;
  CollectiveSamples samples;
};

RunKind& kind_of(std::vector<RunKind>& kinds, const NcclSweep& s, const Wires& wires) {
  for (RunKind& k : kinds)
    if (k.graph == s.graph && k.checked == s.checked && k.aggregated == s.aggregated &&
        k.wires == wires)
      return k;
  return kinds.emplace_back(RunKind{s.graph, s.checked, s.aggregated, wires, {}, {}});
}

// How they were run, for their source: "" or ", launched as CUDA graphs".
std::string text_of(const RunKind& kind) {
  std::string text;
  if (kind.graph) text += ", launched as CUDA graphs";
  if (kind.aggregated > 1)
    text += fmt::format(", {} collectives in one launch, time of one", kind.aggregated);
  if (!kind.checked) text += ", results not checked";
  return text;
}

// Rows by shape, and the sources that they name.
void take_rows(const MeasurementInput& in, const std::vector<RunKind>& kinds, TableText& table) {
  const std::optional<InsideLink> inside = measured_inside(in, table);
  std::map<std::pair<CollectiveSamples::key_type, Wires>, CollectiveRow> rows;
  for (const RunKind& k : kinds) {
    size_t repeated = 0;  // rows that a kind before has
    for (const auto& [key, times] : k.samples) {
      CollectiveRow row;
      std::tie(row.kind, row.ranks, row.nodes, row.ranks_per_node, row.nic_gbs, row.bytes) = key;
      const SampleSummary s = summarize_samples(times);
      row.us = s.median;
      row.spread = rounded(s.spread, 5);
      row.source = static_cast<uint16_t>(table.sources.size());
      if (!rows.try_emplace({key, k.wires}, row).second) ++repeated;
    }
    if (repeated > 0)
      in.note(fmt::format(
          "{} {} of another kind of run{}, not used: a run before it has the same sizes", repeated,
          repeated == 1 ? "row" : "rows", text_of(k)));
    if (repeated == k.samples.size()) continue;
    std::string programs;
    for (const std::string& p : k.programs) programs += (programs.empty() ? "" : ", ") + p;
    const size_t number = table.sources.size() + 1;
    table.sources.push_back(
        {number == 1 ? "nccl-tests" : fmt::format("nccl-tests-{}", number), false,
         fmt::format("nccl-tests {}{}: {}", programs, text_of(k), base_name_of(in.file)), k.wires});
    table.sources.back().wires.inside = inside;
  }
  for (const auto& [key, row] : rows) table.collectives.push_back(row);
}

// GPUs of the largest group within a node in the GPU's shipped table; 0: none.
int64_t largest_node_group(const std::string& gpu) {
  const std::string_view shipped = shipped_table_text(gpu);
  if (shipped.empty()) return 0;
  int64_t most = 0;
  for (const CollectiveRow& r : parse_table_text(shipped, gpu).collectives)
    most = std::max(most, r.ranks_per_node);
  return most;
}

// A log tells hosts; where NVLink joins several of them they are one node of the cluster.
void remark_on_nodes(const MeasurementInput& in, const TableText& table) {
  if (in.options.nodes > 0 || in.options.ranks_per_node > 0) return;
  int64_t several = 0;  // ranks a node of groups on several nodes
  for (const CollectiveRow& r : table.collectives)
    if (r.nodes > 1) several = std::max(several, r.ranks_per_node);
  const int64_t most = several > 0 ? largest_node_group(table.gpu) : 0;
  if (most <= several) return;
  in.note(fmt::format(
      "each host is taken as a node, with {} ranks; NVLink joins {} GPUs of {} in its shipped "
      "table: if it joined several of these hosts, state how many ranks of the group it joined, "
      "--ranks-per-node N, or the rows answer for single hosts only",
      several, most, table.gpu));
}

}  // namespace

TableText nccl_rows(const MeasurementInput& in, const std::vector<NcclSweep>& sweeps) {
  TableText table;
  std::vector<RunKind> kinds;
  bool no_nvls = false;
  for (const NcclSweep& s : sweeps) {
    if (s.results.empty()) continue;
    const std::optional<Grouped> group = group_of(in, s);
    if (!group) continue;
    RunKind& kind = kind_of(kinds, s, group->wires);
    add_samples(in, s, *group, kind.samples);
    note_outliers(in, s);
    kind.programs.emplace(group->collective->program);
    describe_software(s, table);
    no_nvls = no_nvls || s.said.no_nvls;
  }
  if (std::all_of(kinds.begin(), kinds.end(), [](const RunKind& k) { return k.samples.empty(); }))
    refuse_measurements(in, "E330", "no results of nccl-tests that tables have rows of",
                        "lines of size, count, type, redop, root, time, ...");
  table.gpu = measured_gpu(in, device_name(in, sweeps));
  if (!take_link_conditions(in, table)) {
    refuse_measurements(in, "E334",
                        "over which NVLink was this measured? No table of " + table.gpu +
                            " is shipped that says it, and rows answer for that NVLink alone",
                        "state it, of a GPU in one direction: --nvlink RATE");
  }
  if (no_nvls && !in.options.in_network_reduction) table.in_network_reduction = false;
  take_rows(in, kinds, table);
  remark_on_nodes(in, table);
  return table;
}

}  // namespace stepcast
