// SPDX-License-Identifier: Apache-2.0
#include "topology/ib_records.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "topology/link_speeds.h"

namespace stepcast {
namespace {

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
    const std::string_view plain = trimmed(line);
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
      return problem(column, "the record of " + std::string(*guid) + " is there already, in line " +
                                 std::to_string(out_.nodes[n].line));
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
      return problem(1, "port " + std::to_string(p.port) + " of " + out_.nodes[here].guid +
                            " is there already, in line " + std::to_string(ports_[{here, p.port}]));
    if (here == there) {
      out_.warnings.push_back({line_, out_.nodes[here].guid + " is cabled to itself, ports " +
                                          std::to_string(p.port) + " and " +
                                          std::to_string(p.peer_port)});
      return;
    }
    const auto near = std::pair(here, p.port), far = std::pair(there, p.peer_port);
    const auto [it, fresh] = cables_.try_emplace(std::minmax(near, far), out_.cables.size());
    if (fresh) {
      out_.cables.push_back(
          {here, there, p.port, p.peer_port, p.speed, infiniband_speed(p.speed).nominal, line_});
    } else if (out_.cables[it->second].speed != p.speed) {
      out_.warnings.push_back({line_, "the other end of this cable tells of " +
                                          std::string(out_.cables[it->second].speed) + " in line " +
                                          std::to_string(out_.cables[it->second].line)});
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
      out_.warnings.push_back({static_cast<int>(text_.lines.size()),
                               std::to_string(missing) +
                                   (missing == 1 ? " adapter has" : " adapters have") +
                                   " no record of their own: the file may be cut off"});
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

}  // namespace

IbRecords read_ib_records(const ImportText& text) {
  return RecordReader(text).read();
}

}  // namespace stepcast
