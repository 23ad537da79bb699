// SPDX-License-Identifier: Apache-2.0
// import_ibnetdiscover, in three steps: records and cables are read (RecordReader), then each
// switch and adapter is given its place in the fabric (LayoutReader), then the graph is built
// (FabricBuilder).
//
// An example: a record lists a switch and, a line each, what is on its ports,
//
//   Switch  65 "S-2c5eab0300100010"   # "MF0;LEAF-04-04:MQM9701/U1" ...
//   [1]  "H-e09d730300100020"[1](e09d730300100020)   # "host0401 mlx5_5" lid 647 4xNDR
//   [33] "S-2c5eab0300200040"[7]                     # "MF0;SPINE-02:MQM9701/U1" lid 73 4xNDR
//
// LEAF-04-04 has a host below and is therefore a leaf (tier 0); SPINE-02 has none and one cable to
// a leaf, so its tier is 1.  The adapter is a NIC of host0401.  If most adapters on this leaf are
// mlx5_5, and mlx5_5 is the sixth of the names that occur on leaves, then this is rail 5.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/text.h"
#include "topology/cluster/components_internal.h"
#include "topology/import/import_internal.h"
#include "topology/import/imported_topology.h"
#include "topology/import/link_speeds.h"

namespace stepcast {
namespace {

// Records of ibnetdiscover's output, one a switch or adapter, and the cables between their ports.

enum class IbKind : uint8_t { network_switch, adapter, router };

struct IbNode {
  IbKind kind = IbKind::adapter;
  std::string guid;         // "S-2c5eab0300100010"
  std::string description;  // "MF0;LEAF-04-04:MQM9701/U1", "host0401 mlx5_5"
  int line = 0;             // of its record; 0: only named by a peer
  bool sharp = false;       // an aggregation node of a switch that reduces
};

struct IbCable {
  uint32_t a = 0, b = 0;  // nodes
  int64_t a_port = 0, b_port = 0;
  std::string_view speed;  // "4xNDR"
  Bandwidth bandwidth{};   // one direction
  int line = 0;
};

struct IbRecords {
  std::vector<IbNode> nodes;  // in order of their records
  std::vector<IbCable> cables;
  std::vector<TopologyWarning> warnings;
};

// Each cable once, whether one of its ends lists it or both do.  Throws InputError: E320 if there
// is no switch, E321 for a line that is none of the format, a record that is there twice or a port
// that is, E322 for switches that others name and the file does not describe.
IbRecords read_ib_records(const ImportText& text);

// Reads parts of one line from the left.
class Cursor {
 public:
  explicit Cursor(std::string_view line) : line_(line) {}

  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    if (at_ == line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!line_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  // What stands between `open` and `close`, if `open` is next.
  std::optional<std::string_view> between(char open, char close) {
    if (at_ == line_.size() || line_[at_] != open) return {};
    const size_t end = line_.find(close, at_ + 1);
    if (end == std::string_view::npos) return {};
    const std::string_view inside = line_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  std::string_view rest() const { return line_.substr(at_); }
  int column() const { return static_cast<int>(at_) + 1; }

 private:
  std::string_view line_;
  size_t at_ = 0;
};

struct Port {
  int64_t port = 0, peer_port = 0;
  std::string peer;
  std::string_view speed, peer_name;
};

bool is_sharp(std::string_view description) {
  return description.find("Aggregation Node") != std::string_view::npos;
}

std::optional<IbKind> kind_of_guid(std::string_view guid) {
  if (guid.size() < 3 || guid[1] != '-' ||
      guid.find_first_not_of("0123456789abcdefABCDEF", 2) != std::string_view::npos)
    return {};
  if (guid[0] == 'S') return IbKind::network_switch;
  if (guid[0] == 'H') return IbKind::adapter;
  if (guid[0] == 'R') return IbKind::router;
  return {};
}

class RecordReader {
 public:
  explicit RecordReader(const ImportText& text) : text_(text) {}

  IbRecords read() {
    for (line_ = 1; static_cast<size_t>(line_) <= text_.lines.size(); ++line_)
      read_line(text_.lines[static_cast<size_t>(line_) - 1]);
    throw_if_any(problems_);
    check();
    return std::move(out_);
  }

 private:
  void problem(int column, std::string message, const char* code = "E321") {
    const std::string_view line = text_.lines[static_cast<size_t>(line_) - 1];
    const size_t length = line.size() - std::min(line.size(), static_cast<size_t>(column) - 1);
    problems_.push_back(
        problem_at(text_, code, line_, column, std::min<size_t>(length, 60), std::move(message)));
  }

  void read_line(std::string_view line) {
    constexpr std::string_view kPassed[] = {
        "vendid=", "sysimgguid=", "switchguid=", "caguid=",     "rtguid=", "Chassis ",
        "DR path", "#",           "portguid=",   "Non-Chassis", "UNKNOWN"};
    const std::string_view plain = trim(line);
    if (plain.empty()) return;
    if (plain.starts_with("devid=")) {
      sharp_device_ = plain == "devid=0xcf09";  // the aggregation node of Quantum-2 and -3
      return;
    }
    for (const std::string_view p : kPassed)
      if (plain.starts_with(p)) return;
    if (plain.front() == '[') return port(line);
    for (const auto& [word, kind] : {std::pair{"Switch", IbKind::network_switch},
                                     {"Ca", IbKind::adapter},
                                     {"Rt", IbKind::router}}) {
      const std::string_view rest =
          plain.substr(std::min(plain.size(), std::string_view(word).size()));
      if (plain.starts_with(word) && (rest.starts_with(' ') || rest.starts_with('\t')))
        return record(line, word, kind);
    }
    problem(1, "a line that ibnetdiscover does not print");
  }

  // Switch  41 "S-0ff08c43213b3f30"   # "MF0;core1:MCS8500/S01/U1" enhanced port 0 lid 387 lmc 0
  void record(std::string_view line, std::string_view word, IbKind kind) {
    here_ = -1;
    Cursor c(line);
    c.skip_blanks();
    c.take(word);
    c.skip_blanks();
    const std::string_view rest = c.rest();
    const int64_t ports = whole_number(rest.substr(0, rest.find_first_of(" \t")));
    if (ports < 0) return problem(c.column(), "the number of ports should stand here");
    c.take(rest.substr(0, rest.find_first_of(" \t")));
    c.skip_blanks();
    const int column = c.column();
    const auto guid = c.between('"', '"');
    if (!guid || kind_of_guid(*guid) != kind)
      return problem(column, "a GUID such as \"S-2c5eab0300100010\" should stand here");
    c.skip_blanks();
    std::string description;
    if (c.take('#')) {
      c.skip_blanks();
      const auto name = c.between('"', '"');
      if (!name) return problem(c.column(), "the name in quotes should stand here");
      description = *name;
    }
    const uint32_t n = node(*guid, kind);
    if (out_.nodes[n].line > 0)
      return problem(column, fmt::format("the record of {} is there already, in line {}", *guid,
                                         out_.nodes[n].line));
    out_.nodes[n].line = line_;
    out_.nodes[n].description = description;
    out_.nodes[n].sharp = kind == IbKind::adapter && (is_sharp(description) || sharp_device_);
    here_ = n;
  }

  // [1]  "H-e09d730300100020"[1](e09d730300100020)   # "host0401 mlx5_5" lid 647 4xNDR
  // [1](e09d730300100020)  "S-2c5eab0300100010"[1]   # lid 647 lmc 0 "MF0;..." lid 73 4xNDR
  void port(std::string_view line) {
    Port p;
    Cursor c(line);
    c.skip_blanks();
    const std::optional<std::string_view> own = c.between('[', ']');
    p.port = own ? whole_number(*own) : -1;
    if (p.port < 0) return problem(c.column(), "the number of a port should stand here");
    pass_extras(c);
    const int column = c.column();
    const auto peer = c.between('"', '"');
    const std::optional<IbKind> kind = peer ? kind_of_guid(*peer) : std::nullopt;
    if (!kind) return problem(column, "the peer's GUID in quotes should stand here");
    p.peer = *peer;
    const auto peer_port = c.between('[', ']');
    p.peer_port = peer_port ? whole_number(*peer_port) : -1;
    if (p.peer_port < 0)
      return problem(c.column(), "the number of the peer's port should stand here");
    pass_extras(c);
    if (!c.take('#')) return problem(c.column(), "'#' and the speed should stand here");
    if (!remark(c, p)) return problem(c.column(), "the speed, such as 4xNDR, should stand here");
    if (here_ < 0) return problem(1, "a port before any record");
    add(p, *kind);
  }

  static void pass_extras(Cursor& c) {
    for (;;) {
      c.skip_blanks();
      if (!c.between('(', ')') && !(c.rest().starts_with("[ext") && c.between('[', ']'))) return;
    }
  }

  // The speed is the word behind the last "lid N".
  static bool remark(const Cursor& c, Port& p) {
    std::string_view rest = c.rest();
    const size_t quote = rest.rfind('"');
    if (quote != std::string_view::npos && quote > 0) {
      const size_t begin = rest.rfind('"', quote - 1);
      if (begin != std::string_view::npos) p.peer_name = rest.substr(begin + 1, quote - begin - 1);
      rest = rest.substr(quote + 1);
    }
    for (const ImportWord& w : words_of(rest)) {
      if (infiniband_speed(w.text).nominal.value <= 0) continue;
      p.speed = w.text;
      return true;
    }
    return false;
  }

  uint32_t node(std::string_view guid, IbKind kind) {
    const auto [it, fresh] =
        index_.try_emplace(std::string(guid), static_cast<uint32_t>(out_.nodes.size()));
    if (fresh) {
      IbNode n;
      n.kind = kind;
      n.guid = guid;
      out_.nodes.push_back(std::move(n));
      first_named_.push_back(line_);
    }
    return it->second;
  }

  void add(const Port& p, IbKind kind) {
    const auto here = static_cast<uint32_t>(here_);
    const uint32_t there = node(p.peer, kind);
    IbNode& peer = out_.nodes[there];
    if (peer.line == 0 && peer.description.empty()) {
      peer.description = p.peer_name;
      peer.sharp = kind == IbKind::adapter && is_sharp(p.peer_name);
    }
    if (!ports_.emplace(std::pair(here, p.port), line_).second)
      return problem(1, fmt::format("port {} of {} is there already, in line {}", p.port,
                                    out_.nodes[here].guid, ports_[{here, p.port}]));
    if (here == there) {
      out_.warnings.push_back({line_, fmt::format("{} is cabled to itself, ports {} and {}",
                                                  out_.nodes[here].guid, p.port, p.peer_port)});
      return;
    }
    const auto near = std::pair(here, p.port), far = std::pair(there, p.peer_port);
    const auto [it, fresh] = cables_.try_emplace(std::minmax(near, far), out_.cables.size());
    if (fresh) {
      out_.cables.push_back(
          {here, there, p.port, p.peer_port, p.speed, infiniband_speed(p.speed).nominal, line_});
    } else if (out_.cables[it->second].speed != p.speed) {
      const IbCable& other = out_.cables[it->second];
      out_.warnings.push_back(
          {line_, fmt::format("the other end of this cable tells of {} in line {}", other.speed,
                              other.line)});
    }
  }

  void check() {
    int64_t switches = 0, missing = 0;
    for (uint32_t n = 0; n < out_.nodes.size(); ++n) {
      const IbNode& node = out_.nodes[n];
      switches += node.kind == IbKind::network_switch;
      missing += node.kind != IbKind::network_switch && node.line == 0;
      if (node.kind != IbKind::network_switch || node.line > 0) continue;
      line_ = first_named_[n];
      problem(1, "switch " + node.guid + " is cabled here, but its record is missing", "E322");
      problems_.back().help = "the file was cut off, or is a part of the output";
    }
    throw_if_any(problems_);
    if (switches == 0) {
      line_ = out_.nodes.empty() ? 1 : std::max(1, out_.nodes[0].line);
      problem(1,
              out_.nodes.empty() ? "nothing of a fabric in this file"
                                 : "no switch: the host sees nothing but its own adapter",
              "E320");
      problems_.back().help = "run ibnetdiscover where the subnet manager's fabric is connected";
      throw_if_any(problems_);
    }
    if (missing > 0)
      out_.warnings.push_back(
          {static_cast<int>(text_.lines.size()),
           fmt::format("{} {} no record of their own: the file may be cut off", missing,
                       missing == 1 ? "adapter has" : "adapters have")});
  }

  const ImportText& text_;
  IbRecords out_;
  std::vector<Diagnostic> problems_;
  int line_ = 0;
  int64_t here_ = -1;  // node whose ports are read; -1: none
  bool sharp_device_ = false;
  std::map<std::string, uint32_t> index_;              // by GUID
  std::vector<int> first_named_;                       // line, by node
  std::map<std::pair<uint32_t, int64_t>, int> ports_;  // line of each port
  // By both ends.
  std::map<std::pair<std::pair<uint32_t, int64_t>, std::pair<uint32_t, int64_t>>, size_t> cables_;
};

IbRecords read_ib_records(const ImportText& text) {
  return RecordReader(text).read();
}

// Where the switches and adapters of an InfiniBand fabric stand in it: which are leaves, and whose;
// tiers, rails and groups of leaves (imported_topology.h says how they are told apart).

// "host0401 mlx5_5": host and device; the host is empty if the name is the vendor's.
struct HcaName {
  std::string host, device;
};

// Numbers are those of IbRecords::nodes.
struct IbLayout {
  std::vector<uint32_t> hcas;  // of hosts, ascending
  std::vector<HcaName> names;  // by node
  // Leaves: port and HCA of each host's cable.
  std::map<uint32_t, std::vector<std::pair<int64_t, uint32_t>>> host_ports;
  int64_t sharp = 0;            // aggregation nodes
  std::set<uint32_t> managers;  // HCAs on ports of their own
  std::vector<std::string> manager_hosts;
  std::vector<int32_t> tier;             // by node; -1: no switch
  std::vector<uint32_t> stray_switches;  // without a route to one with hosts: of tier 0
  std::map<uint32_t, int32_t> rail;      // of leaves that have one
  std::map<uint32_t, uint32_t> group;    // leaf: the first of those that serve the same hosts
  size_t leaves_of_a_host = 0;           // of most hosts
};

IbLayout ib_layout(const IbRecords& records);

// In a fabric of at least this many leaves, a port on which fewer than one leaf in this many has a
// host is one for managers.
constexpr size_t kFabricOfManyLeaves = 8;

HcaName hca_name(std::string_view description) {
  const std::vector<ImportWord> words = words_of(description);
  const bool vendor = description.find("Mellanox Technologies") != std::string_view::npos ||
                      description.find("ConnectX") != std::string_view::npos;
  if (words.empty() || vendor) return {};
  return {std::string(words[0].text), words.size() > 1 ? std::string(words[1].text) : ""};
}

// "mlx5_" and 5 of "mlx5_5"; -1 without a number.
std::pair<std::string, int64_t> series_of(const std::string& device) {
  size_t end = device.size();
  while (end > 0 && device[end - 1] >= '0' && device[end - 1] <= '9') --end;
  return {device.substr(0, end), whole_number(std::string_view(device).substr(end))};
}

class LayoutReader {
 public:
  explicit LayoutReader(const IbRecords& records) : r_(records) {}

  IbLayout read() {
    classify();
    set_managers_apart();
    find_tiers();
    find_rails();
    return std::move(l_);
  }

 private:
  bool is_switch(uint32_t n) const { return r_.nodes[n].kind == IbKind::network_switch; }

  void classify() {
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      const IbNode& node = r_.nodes[n];
      if (node.kind != IbKind::adapter) continue;
      if (node.sharp) {
        ++l_.sharp;
      } else {
        l_.hcas.push_back(n);
      }
    }
    l_.names.resize(r_.nodes.size());
    for (const uint32_t n : l_.hcas) l_.names[n] = hca_name(r_.nodes[n].description);
    for (const IbCable& c : r_.cables) {
      for (const auto& [a, b, port] : {std::tuple(c.a, c.b, c.a_port), {c.b, c.a, c.b_port}}) {
        if (is_switch(a) && r_.nodes[b].kind == IbKind::adapter && !r_.nodes[b].sharp)
          l_.host_ports[a].push_back({port, b});
      }
    }
  }

  void set_managers_apart() {
    if (l_.host_ports.size() < kFabricOfManyLeaves) return;
    std::map<int64_t, size_t> leaves_with;  // by port
    for (const auto& [leaf, ports] : l_.host_ports)
      for (const auto& [port, hca] : ports) ++leaves_with[port];
    std::set<uint32_t> apart;
    std::set<std::string> on_usual_ports;  // hosts
    for (const auto& [leaf, ports] : l_.host_ports) {
      for (const auto& [port, hca] : ports) {
        if (leaves_with[port] * kFabricOfManyLeaves < l_.host_ports.size())
          apart.insert(hca);
        else
          on_usual_ports.insert(l_.names[hca].host);
      }
    }
    std::set<std::string> hosts;
    for (const uint32_t hca : apart) {
      if (l_.names[hca].host.empty() || on_usual_ports.contains(l_.names[hca].host)) continue;
      l_.managers.insert(hca);
      hosts.insert(l_.names[hca].host);
    }
    l_.manager_hosts.assign(hosts.begin(), hosts.end());
    std::erase_if(l_.hcas, [&](uint32_t hca) { return l_.managers.contains(hca); });
    for (auto& [leaf, ports] : l_.host_ports)
      std::erase_if(ports, [&](const auto& p) { return l_.managers.contains(p.second); });
    std::erase_if(l_.host_ports, [](const auto& leaf) { return leaf.second.empty(); });
  }

  void find_tiers() {
    GraphEdges edges;
    for (const IbCable& c : r_.cables)
      if (is_switch(c.a) && is_switch(c.b)) edges.emplace_back(c.a, c.b);
    std::vector<uint32_t> leaves;
    for (const auto& [leaf, ports] : l_.host_ports) leaves.push_back(leaf);
    l_.tier = distances_from(leaves, r_.nodes.size(), edges);
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      if (!is_switch(n) || l_.tier[n] >= 0) continue;
      l_.tier[n] = 0;
      l_.stray_switches.push_back(n);
    }
  }

  // Rails of the leaves: the number that most of their HCAs have, as its place among these.
  void find_rails() {
    std::map<std::string, std::set<uint32_t>> leaves_of;  // hosts
    for (const auto& [leaf, ports] : l_.host_ports)
      for (const auto& [port, hca] : ports)
        if (!l_.names[hca].host.empty()) leaves_of[l_.names[hca].host].insert(leaf);
    std::map<size_t, int64_t> fan;
    for (const auto& [host, leaves] : leaves_of) ++fan[leaves.size()];
    l_.leaves_of_a_host = most_common(fan);
    join_groups(leaves_of);
    if (l_.leaves_of_a_host < 2) return;
    std::map<uint32_t, std::pair<std::string, int64_t>> main;  // series and number of each leaf
    std::map<std::string, std::set<int64_t>> numbers;          // by series
    for (const auto& [leaf, ports] : l_.host_ports) {
      std::map<std::pair<std::string, int64_t>, int64_t> counts;
      for (const auto& [port, hca] : ports) {
        const auto series = series_of(l_.names[hca].device);
        if (series.second >= 0) ++counts[series];
      }
      if (counts.empty()) continue;
      main[leaf] = most_common(counts);
      numbers[main[leaf].first].insert(main[leaf].second);
    }
    for (const auto& [leaf, series] : main) {
      const std::set<int64_t>& all = numbers[series.first];
      l_.rail[leaf] = static_cast<int32_t>(std::distance(all.begin(), all.find(series.second)));
    }
  }

  // Leaves that serve the same hosts.
  void join_groups(const std::map<std::string, std::set<uint32_t>>& leaves_of) {
    GraphEdges edges;
    // A name that most leaves see is no host's: "localhost".
    for (const auto& [host, leaves] : leaves_of) {
      if (leaves.size() > l_.leaves_of_a_host) continue;
      for (const uint32_t l : leaves) edges.emplace_back(l, *leaves.begin());
    }
    const std::vector<uint32_t> root = component_roots(r_.nodes.size(), edges);
    for (const auto& [leaf, ports] : l_.host_ports) l_.group[leaf] = root[leaf];
  }

  const IbRecords& r_;
  IbLayout l_;
};

IbLayout ib_layout(const IbRecords& records) {
  return LayoutReader(records).read();
}

// "LEAF-04-04" of "MF0;LEAF-04-04:MQM9701/U1"; chips of a director keep what tells them apart:
// "core1/L01" of "MF0;core1:MCS8500/L01/U1".
std::string switch_name(std::string_view description) {
  std::string_view s = description.substr(description.find(';') + 1);
  const size_t colon = s.find(':');
  if (colon == std::string_view::npos) return std::string(s);
  std::string name(s.substr(0, colon));
  std::string_view chip = s.substr(colon);
  chip.remove_prefix(std::min(chip.find('/'), chip.size()));
  if (const size_t last = chip.rfind('/'); last != std::string_view::npos)
    name += chip.substr(0, last);
  return name;
}

struct Cables {
  int32_t count = 0;
  double bandwidth = 0;  // of all
};

class FabricBuilder {
 public:
  explicit FabricBuilder(const IbRecords& records) : r_(records), l_(ib_layout(records)) {}

  ImportedTopology build() {
    for (const uint32_t n : l_.stray_switches)
      builder_.warn(r_.nodes[n].line, fmt::format("{} has no route to a switch with hosts",
                                                  switch_name(r_.nodes[n].description)));
    add_switches();
    add_hosts();
    add_cables();
    number_groups();
    warn_of_slow_cables();
    warn_of_missing_uplinks();
    warn_of_missing_leaves();
    add_facts();
    ImportedTopology made = finished(std::move(builder_));
    made.hosts = std::move(host_names_);
    made.leaf_group = std::move(device_group_);
    return made;
  }

 private:
  void add_switches() {
    device_.assign(r_.nodes.size(), UINT32_MAX);
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      if (r_.nodes[n].kind != IbKind::network_switch) continue;
      device_[n] =
          builder_.add(DeviceKind::network_switch, switch_name(r_.nodes[n].description), -1);
      builder_.devices.back().tier = l_.tier[n];
      if (const auto rail = l_.rail.find(n); rail != l_.rail.end())
        builder_.devices.back().rail = rail->second;
    }
  }

  void add_hosts() {
    std::map<std::string, int32_t> hosts;
    for (const uint32_t h : l_.hcas)
      if (!l_.names[h].host.empty()) hosts[l_.names[h].host] = 0;
    int32_t next = 0;
    for (auto& [name, number] : hosts) {
      number = next++;
      host_names_.push_back(name);
    }
    std::map<uint32_t, uint32_t> leaf_of;
    for (const auto& [leaf, ports] : l_.host_ports)
      for (const auto& [port, hca] : ports) leaf_of[hca] = leaf;
    for (const uint32_t h : l_.hcas) {
      const HcaName& name = l_.names[h];
      unnamed_ += name.host.empty();
      device_[h] = builder_.add(DeviceKind::nic,
                                name.host.empty()
                                    ? r_.nodes[h].guid
                                    : name.host + (name.device.empty() ? "" : "/") + name.device,
                                name.host.empty() ? -1 : hosts[name.host]);
      const auto leaf = leaf_of.find(h);
      if (leaf == leaf_of.end()) continue;
      if (const auto rail = l_.rail.find(leaf->second); rail != l_.rail.end())
        builder_.devices.back().rail = rail->second;
    }
  }

  void add_cables() {
    std::map<std::pair<uint32_t, uint32_t>, Cables> bundles;
    for (const IbCable& c : r_.cables) {
      const uint32_t a = device_[c.a], b = device_[c.b];
      if (a == UINT32_MAX || b == UINT32_MAX) continue;  // SHARP, managers
      Cables& bundle = bundles[std::minmax(a, b)];
      ++bundle.count;
      bundle.bandwidth += c.bandwidth.value;
    }
    for (const auto& [ends, bundle] : bundles) {
      const Bandwidth one{bundle.bandwidth / bundle.count};
      builder_.join(ends.first, ends.second, LinkKind::network, {one, one}, bundle.count);
      const int32_t a = builder_.devices[ends.first].tier, b = builder_.devices[ends.second].tier;
      if (a < 0 || b < 0 || std::abs(a - b) != 1) continue;
      uplinks_[a < b ? ends.first : ends.second] += bundle.count;
    }
  }

  // Cables slower than most of those between the same tiers.
  void warn_of_slow_cables() {
    const auto between = [&](const IbCable& c) { return std::minmax(l_.tier[c.a], l_.tier[c.b]); };
    std::map<std::pair<int32_t, int32_t>, std::map<double, int64_t>> speeds;
    const auto counts = [&](const IbCable& c) {
      return device_[c.a] != UINT32_MAX && device_[c.b] != UINT32_MAX;
    };
    for (const IbCable& c : r_.cables)
      if (counts(c)) ++speeds[between(c)][c.bandwidth.value];
    int64_t degraded = 0;
    for (const IbCable& c : r_.cables) {
      if (!counts(c)) continue;
      const double usual = most_common(speeds[between(c)]);
      if (c.bandwidth.value >= usual) continue;
      ++degraded;
      builder_.warn(
          c.line,
          fmt::format("{} to {}: {}, where most have {}", builder_.devices[device_[c.a]].name,
                      builder_.devices[device_[c.b]].name, c.speed, gigabits(usual)));
    }
    builder_.fact("degraded_cables", degraded,
                  degraded == 0 ? ""
                                : fmt::format("{} {} slower than their like", degraded,
                                              degraded == 1 ? "cable is" : "cables are"));
  }

  // device_group_: numbers of the groups in the order of their first leaves.
  void number_groups() {
    std::map<uint32_t, int32_t> number;  // by root
    for (const auto& [leaf, root] : l_.group) number[root] = 0;
    int32_t next = 0;
    for (auto& [root, n] : number) n = next++;
    device_group_.assign(builder_.devices.size(), -1);
    for (const auto& [leaf, ports] : l_.host_ports) {
      const int32_t n = number[l_.group[leaf]];
      device_group_[device_[leaf]] = n;
      for (const auto& [port, hca] : ports) device_group_[device_[hca]] = n;
    }
  }

  static std::string gigabits(double bytes_per_second) {
    const auto tenths = static_cast<int64_t>(bytes_per_second * 8 / 1e8 + 0.5);
    if (tenths % 10 == 0) return fmt::format("{} Gb/s", tenths / 10);
    return fmt::format("{}.{} Gb/s", tenths / 10, tenths % 10);
  }

  // Each switch against what most switches of its tier have.
  void warn_of_missing_uplinks() {
    int32_t top = 0;
    for (const Device& d : builder_.devices) top = std::max(top, d.tier);
    for (int32_t tier = 0; tier < top; ++tier) {
      std::map<int64_t, int64_t> counts;
      for (uint32_t d = 0; d < builder_.devices.size(); ++d)
        if (builder_.devices[d].tier == tier) ++counts[uplinks_[d]];
      const int64_t usual = most_common(counts);
      int64_t missing = 0, switches = 0;
      std::vector<std::pair<int64_t, std::string>> lacking;
      for (uint32_t d = 0; d < builder_.devices.size(); ++d) {
        if (builder_.devices[d].tier != tier) continue;
        ++switches;
        if (uplinks_[d] >= usual) continue;
        missing += usual - uplinks_[d];
        lacking.emplace_back(uplinks_[d] - usual, builder_.devices[d].name);
      }
      const std::string key = tier == 0 ? "" : fmt::format("_of_tier_{}", tier);
      builder_.fact("uplinks_expected" + key, usual * switches, "");
      builder_.fact("uplinks_missing" + key, missing, "");
      if (missing == 0) continue;
      std::stable_sort(lacking.begin(), lacking.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      std::vector<std::string> names;
      for (const auto& [n, name] : lacking) names.push_back(fmt::format("{} ({})", name, -n));
      builder_.warn(0, fmt::format("{} of {} uplinks are missing, {} being usual: {}", missing,
                                   usual * switches, usual, some_of(names)));
    }
  }

  void warn_of_missing_leaves() {
    if (l_.leaves_of_a_host < 2) return;
    std::map<uint32_t, std::vector<uint32_t>> groups;
    for (const auto& [leaf, root] : l_.group) groups[root].push_back(leaf);
    std::map<size_t, int64_t> sizes;
    for (const auto& [root, leaves] : groups) ++sizes[leaves.size()];
    const size_t usual = most_common(sizes);
    groups_ = static_cast<int64_t>(groups.size());
    leaves_of_a_group_ = static_cast<int64_t>(usual);
    for (const auto& [root, leaves] : groups) {
      if (leaves.size() >= usual) continue;
      std::vector<std::string> names;
      for (const uint32_t l : leaves) names.push_back(builder_.devices[device_[l]].name);
      builder_.warn(
          r_.nodes[root].line,
          fmt::format("the hosts of {} reach {} leaves, those of others {}: a leaf is missing",
                      some_of(names), leaves.size(), usual));
    }
  }

  void add_facts() {
    builder_.fact("host_hcas", static_cast<int64_t>(l_.hcas.size()), "");
    const auto hosts = std::ssize(host_names_);
    builder_.fact("hosts", hosts,
                  fmt::format("{} hosts by name", hosts) +
                      (unnamed_ == 0 ? "" : fmt::format(", {} HCAs that name none", unnamed_)));
    builder_.fact("unnamed_hcas", unnamed_, "");
    builder_.fact("sharp_nodes", l_.sharp,
                  l_.sharp == 0
                      ? ""
                      : fmt::format("{} SHARP aggregation {} (reduction inside switches), "
                                    "set apart",
                                    l_.sharp, l_.sharp == 1 ? "node" : "nodes"));
    builder_.fact("managers", static_cast<int64_t>(l_.manager_hosts.size()),
                  l_.manager_hosts.empty()
                      ? ""
                      : fmt::format("{} ({} HCAs) sit on ports of their own: managers, set apart",
                                    some_of(l_.manager_hosts), l_.managers.size()));
    builder_.fact("manager_hcas", static_cast<int64_t>(l_.managers.size()), "");
    std::set<int32_t> rails;
    for (const auto& [leaf, rail] : l_.rail) rails.insert(rail);
    builder_.fact("rails", static_cast<int64_t>(rails.size()), "");
    builder_.fact("leaf_groups", groups_,
                  groups_ == 0 ? ""
                               : fmt::format("{} groups of hosts, each below {} leaves of its own",
                                             groups_, leaves_of_a_group_));
    for (const TopologyWarning& w : r_.warnings) builder_.warnings.push_back(w);
  }

  const IbRecords& r_;
  IbLayout l_;
  TopologyBuilder builder_;
  std::vector<uint32_t> device_;         // by node
  std::map<uint32_t, int64_t> uplinks_;  // cables, by device
  std::vector<std::string> host_names_;
  std::vector<int32_t> device_group_;
  int64_t unnamed_ = 0, groups_ = 0, leaves_of_a_group_ = 0;
};

}  // namespace

ImportedTopology import_ibnetdiscover(std::string_view text, const std::string& file) {
  const ImportText lines = lines_of(text, file);
  const IbRecords records = read_ib_records(lines);
  return FabricBuilder(records).build();
}

}  // namespace stepcast
