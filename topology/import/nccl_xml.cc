// SPDX-License-Identifier: Apache-2.0
// import_nccl_xml: the topology that NCCL writes to NCCL_TOPO_DUMP_FILE, or that clouds ship for
// NCCL_TOPO_FILE.
//
// The file nests as PCIe does: <system> has a <cpu> for each socket, that has <pci> elements, some
// of which are bridges with further <pci> inside, some GPUs (with a <gpu> inside, which lists its
// <nvlink>s by the bus address at the other end), some network cards (with a <nic> and its <net>s
// inside).  So three passes: read the elements with their places, walk down from the CPUs and add
// devices, then join what the GPUs' NVLinks name by address.
#include <algorithm>
#include <charconv>
#include <map>
#include <new>
#include <pugixml.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/text.h"
#include "topology/import/import_internal.h"
#include "topology/import/imported_topology.h"
#include "topology/import/link_speeds.h"

namespace stepcast {
namespace {

// Elements and attributes of a document with their places, for messages.  pugixml parses; it keeps
// neither lines nor columns, but its names point into the buffer that it parses in place, so that a
// name's distance from the beginning of the buffer is its place in the text.
struct XmlAttribute {
  std::string name, value;
  int line = 0, column = 0;
};

struct XmlElement {
  std::string name;
  int line = 0, column = 0;  // of its '<'
  int32_t parent = -1;       // -1: the root, which is element 0
  std::vector<XmlAttribute> attributes;

  // Nothing if it is not there.
  const XmlAttribute* find(std::string_view attribute) const {
    for (const XmlAttribute& a : attributes)
      if (a.name == attribute) return &a;
    return nullptr;
  }
  // "" if it is not there.
  std::string_view value_of(std::string_view attribute) const {
    const XmlAttribute* a = find(attribute);
    return a == nullptr ? std::string_view{} : a->value;
  }
};

// A file from somewhere may be made to exhaust whoever reads it.  The number of elements and of the
// levels that they nest in are bounded before the parser allocates any; document types, and with
// them entities that stand for more text, are refused.
constexpr size_t kMostLevels = 64, kMostElements = 100'000, kMostAttributes = 64;

class XmlReader {
 public:
  XmlReader(std::string_view text, const ImportText& lines)
      : text_(text), lines_(lines), buffer_(text) {
    for (size_t at = 0; at < text.size(); ++at)
      if (text[at] == '\n') line_ends_.push_back(at);
  }

  // All elements in the order of their begin.  Throws InputError: E320 where there is none, E321
  // for what is not well formed or too much, E322 where the text ends too early.
  std::vector<XmlElement> read() {
    check_size();
    const pugi::xml_parse_result result = document_.load_buffer_inplace(
        buffer_.data(), buffer_.size(), pugi::parse_escapes, pugi::encoding_utf8);
    if (result.status == pugi::status_out_of_memory) throw std::bad_alloc();
    if (result.status == pugi::status_no_document_element)
      fail(text_.size(), "no element in this file", "E320");
    if (!result) refuse_malformed(result);
    check_text_outside();
    for (const pugi::xml_node node : document_) add_subtree(node);
    return std::move(elements_);
  }

 private:
  [[noreturn]] void fail(size_t offset, const std::string& message, const char* code = "E321") {
    const auto [line, column] = place_of(offset);
    throw InputError(problem_at(lines_, code, line, column, 1, message));
  }

  // Line and column, from 1.
  std::pair<int, int> place_of(size_t offset) const {
    const auto end = std::lower_bound(line_ends_.begin(), line_ends_.end(), offset);
    const size_t begin = end == line_ends_.begin() ? 0 : *(end - 1) + 1;
    return {static_cast<int>(end - line_ends_.begin()) + 1, static_cast<int>(offset - begin) + 1};
  }

  // Of a name or value that pugixml points to.
  size_t offset_of(const char* parsed) const {
    return static_cast<size_t>(parsed - buffer_.data());
  }

  // Goes over the tags without reading what is in them: the parser comes after.
  void check_size() {
    size_t elements = 0, depth = 0;
    for (size_t at = text_.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < text_.size();) {
      const size_t text = text_.find_first_not_of(kBlankCharacters, at);
      const size_t tag = std::min(text_.find('<', at), text_.size());
      if (depth == 0 && text < tag) text_outside_ = std::min(text_outside_, text);
      if (elements == 0) check_text_outside();
      if (tag == text_.size()) break;
      const std::string_view rest = text_.substr(tag);
      at = tag + size_of_tag(rest);
      if (rest.starts_with("<!--") || rest.starts_with("<?")) continue;
      if (rest.starts_with("<!")) fail(tag, "document types and CDATA are not read");
      if (rest.starts_with("</")) {
        if (depth > 0) --depth;
        continue;
      }
      if (elements++ == kMostElements) fail(tag, "more than 100,000 elements");
      if (depth == kMostLevels) fail(tag, "more than 64 levels");
      if (text_[at - 1] != '>' || text_[at - 2] != '/') ++depth;
    }
  }

  // From its '<' on; the rest of the text if it has no end.
  static size_t size_of_tag(std::string_view rest) {
    const auto up_to = [&](std::string_view end) {
      const size_t found = rest.find(end);
      return found == std::string_view::npos ? rest.size() : found + end.size();
    };
    if (rest.starts_with("<!--")) return up_to("-->");
    if (rest.starts_with("<?")) return up_to("?>");
    // A value in quotes may hold a '>'.
    for (size_t at = 1; at < rest.size(); ++at) {
      if (rest[at] == '>') return at + 1;
      if (rest[at] == '"' || rest[at] == '\'')
        at = std::min(rest.find(rest[at], at + 1), rest.size());
    }
    return rest.size();
  }

  void check_text_outside() {
    if (text_outside_ < text_.size()) fail(text_outside_, "text outside of any element");
  }

  [[noreturn]] void refuse_malformed(const pugi::xml_parse_result& result) {
    const auto offset =
        std::min(static_cast<size_t>(std::max<ptrdiff_t>(0, result.offset)), text_.size());
    const size_t last = text_.find_last_not_of(" \t\r\n");
    // The parser is at the end of the text, or at a tag, comment or value that has no end.
    const bool ends = offset >= last || text_.find('>', offset) == std::string_view::npos;
    const XmlNodeText open = innermost_open();
    if (ends) {
      std::string message = "the file ends too early";
      if (!open.name.empty())
        message += fmt::format(": <{}> of line {} is not closed", open.name.substr(0, 40),
                               place_of(open.offset).first);
      fail(last, message, "E322");
    }
    if (result.status == pugi::status_end_element_mismatch && !open.name.empty())
      fail(offset, fmt::format("<{}> of line {} should be closed here", open.name.substr(0, 40),
                               place_of(open.offset).first));
    fail(offset, fmt::format("not well formed: {}", sentence_of(result.status)));
  }

  static const char* sentence_of(pugi::xml_parse_status status) {
    switch (status) {
      case pugi::status_bad_attribute:
        return "an attribute with its value in quotes should stand here";
      case pugi::status_bad_start_element: return "the begin of an element has no end";
      case pugi::status_bad_end_element: return "the end of an element should stand here";
      case pugi::status_end_element_mismatch: return "nothing is open that could be closed";
      case pugi::status_bad_comment: return "a comment has no end";
      case pugi::status_bad_doctype: return "a document type has no end";
      case pugi::status_bad_cdata: return "a CDATA section has no end";
      case pugi::status_bad_pi: return "a processing instruction has no end";
      case pugi::status_unrecognized_tag: return "no element begins like this";
      default: return "this cannot be read";
    }
  }

  // Of what was parsed before an error, the last element that has no end.
  struct XmlNodeText {
    std::string name;
    size_t offset = 0;
  };
  XmlNodeText innermost_open() const {
    XmlNodeText open;
    for (pugi::xml_node node = document_.last_child(); node; node = node.last_child()) {
      if (node.type() != pugi::node_element || node.offset_debug() < 0) break;
      const auto offset = static_cast<size_t>(node.offset_debug());
      const std::string_view rest = text_.substr(offset);
      const size_t end = rest.find('>');
      const bool empty = end != std::string_view::npos && end > 0 && rest[end - 1] == '/';
      if (empty || rest.find("</" + std::string(node.name())) != std::string_view::npos) continue;
      open = {node.name(), offset};
    }
    return open;
  }

  // Pre-order.
  void add_subtree(pugi::xml_node root) {
    std::vector<std::pair<pugi::xml_node, int32_t>> ahead{{root, -1}};
    while (!ahead.empty()) {
      const auto [node, parent] = ahead.back();
      ahead.pop_back();
      if (node.type() != pugi::node_element) continue;
      const auto offset = static_cast<size_t>(node.offset_debug()) - 1;
      if (parent < 0 && !elements_.empty()) fail(offset, "a second outermost element");
      const auto number = static_cast<int32_t>(elements_.size());
      elements_.push_back(element_of(node, offset, parent));
      for (pugi::xml_node child = node.last_child(); child; child = child.previous_sibling())
        ahead.emplace_back(child, number);
    }
  }

  XmlElement element_of(pugi::xml_node node, size_t offset, int32_t parent) {
    XmlElement e;
    e.name = node.name();
    std::tie(e.line, e.column) = place_of(offset);
    e.parent = parent;
    for (const pugi::xml_attribute a : node.attributes()) {
      const size_t at = offset_of(a.name());
      if (e.find(a.name()) != nullptr)
        fail(at, fmt::format("'{}' is given twice", std::string_view(a.name()).substr(0, 40)));
      if (e.attributes.size() == kMostAttributes) fail(at, "more than 64 attributes");
      check_value(offset_of(a.value()));
      const auto [line, column] = place_of(at);
      e.attributes.push_back({a.name(), a.value(), line, column});
    }
    return e;
  }

  // pugixml takes '<' inside a value, which shows that a quote is missing, and leaves entities that
  // it does not know as they are.
  void check_value(size_t begin) {
    const char quote = begin > 0 ? text_[begin - 1] : '"';
    if (quote != '"' && quote != '\'') return;
    for (size_t at = begin; at < text_.size() && text_[at] != quote; ++at) {
      if (text_[at] == '<') fail(at, "'<' inside a value: a quote is missing before");
      if (text_[at] != '&') continue;
      const std::string_view rest = text_.substr(at);
      const auto begins = [&](std::string_view entity) { return rest.starts_with(entity); };
      if (!begins("&amp;") && !begins("&lt;") && !begins("&gt;") && !begins("&quot;") &&
          !begins("&apos;"))
        fail(at, "'&' that begins none of &amp; &lt; &gt; &quot; &apos;");
    }
  }

  std::string_view text_;
  const ImportText& lines_;
  std::string buffer_;  // pugixml parses in place
  std::vector<size_t> line_ends_;
  size_t text_outside_ = std::string_view::npos;  // first text outside of the outermost element
  pugi::xml_document document_;
  std::vector<XmlElement> elements_;
};

// "n1/" of the second host on: before names and bus addresses.
std::string host_prefix(int32_t host) {
  return host == 0 ? "" : fmt::format("n{}/", host);
}

// An nvlink or xgmi element of a GPU.
struct NcclGpuLink {
  uint32_t gpu = 0;    // devices
  uint32_t cpu = 0;    // of the GPU
  std::string target;  // bus address; fffffff:... are all NVSwitches of the domain
  int32_t count = 0;
  bool to_switch = false, to_cpu = false;
  LinkSpeed one;
  int line = 0;
};

using Ends = std::pair<uint32_t, uint32_t>;  // devices

// Links between two GPUs as either end tells.
struct LinksOfPair {
  int32_t there = 0, back = 0;
  LinkSpeed one;
  int line = 0;
};

class NvlinkJoiner {
 public:
  NvlinkJoiner(TopologyBuilder& builder, const std::map<std::string, uint32_t>& gpus,
               bool several_hosts)
      : builder_(builder), gpus_(gpus), several_hosts_(several_hosts) {}

  void join(const std::vector<NcclGpuLink>& links) {
    add_nvswitches(links);
    for (const NcclGpuLink& l : links) {
      if (l.to_switch || l.to_cpu)
        add_up(l);
      else
        add_between(l);
    }
    for (const auto& [ends, b] : between_) join_gpus(ends, b);
    for (const auto& [ends, l] : up_)
      builder_.join(ends.first, ends.second, LinkKind::nvlink, l.second, l.first);
  }

 private:
  // In the order of their addresses, whatever the first GPU names first.
  void add_nvswitches(const std::vector<NcclGpuLink>& links) {
    std::vector<const NcclGpuLink*> order;
    for (const NcclGpuLink& l : links)
      if (l.to_switch) order.push_back(&l);
    std::ranges::stable_sort(order, {}, &NcclGpuLink::target);
    for (const NcclGpuLink* l : order) nvswitch(*l);
  }

  uint32_t nvswitch(const NcclGpuLink& link) {
    const bool all = link.target.starts_with("fffffff:");
    const int32_t host = builder_.devices[link.gpu].node;
    const auto [it, fresh] =
        switches_.try_emplace(all ? link.target : host_prefix(host) + link.target, 0);
    if (!fresh) return it->second;
    const int64_t number = builder_.count(DeviceKind::nvswitch);
    it->second =
        builder_.add(DeviceKind::nvswitch, all ? "nvswitch" : fmt::format("nvswitch{}", number),
                     all && several_hosts_ ? -1 : host, link.line);
    if (all)
      builder_.fact("hidden_nvswitches", 1,
                    "the NVSwitches are hidden from the host: shown as one");
    return it->second;
  }

  void add_up(const NcclGpuLink& l) {
    auto& [links, one] = up_[{l.gpu, l.to_cpu ? l.cpu : nvswitch(l)}];
    links += l.count;
    one = l.one;
  }

  void add_between(const NcclGpuLink& l) {
    const Device& gpu = builder_.devices[l.gpu];
    const auto peer = gpus_.find(host_prefix(gpu.node) + l.target);
    if (peer == gpus_.end() || peer->second == l.gpu) {
      builder_.warn(l.line, gpu.name + " has a link to " + l.target.substr(0, 40) +
                                (peer == gpus_.end() ? ", which is not in this file" : ", itself"));
      return;
    }
    LinksOfPair& b = between_[std::minmax(l.gpu, peer->second)];
    (l.gpu < peer->second ? b.there : b.back) += l.count;
    b.one = l.one;
    b.line = l.line;
  }

  void join_gpus(const Ends& ends, const LinksOfPair& b) {
    if (b.there != b.back)
      builder_.warn(
          b.line, fmt::format("{} and {} tell of {} and {} links between them; the larger is taken",
                              builder_.devices[ends.first].name, builder_.devices[ends.second].name,
                              b.there, b.back));
    builder_.join(ends.first, ends.second, LinkKind::nvlink, b.one, std::max(b.there, b.back));
  }

  TopologyBuilder& builder_;
  const std::map<std::string, uint32_t>& gpus_;
  bool several_hosts_;
  std::map<std::string, uint32_t> switches_;  // as gpus_
  std::map<Ends, LinksOfPair> between_;
  std::map<Ends, std::pair<int32_t, LinkSpeed>> up_;  // to a switch or CPU: links, each
};

constexpr size_t kMostCpus = 1024;
constexpr double kUnknownSpeed = 8, kVirtualBridge = 2.5;  // GT/s

enum class PciClass : uint8_t { bridge, gpu, nic, nvswitch, other };

PciClass pci_class(std::string_view text) {
  if (text.starts_with("0x0604")) return PciClass::bridge;
  if (text.starts_with("0x03") || text.starts_with("0x12")) return PciClass::gpu;
  if (text.starts_with("0x02")) return PciClass::nic;
  if (text.starts_with("0x0680")) return PciClass::nvswitch;
  return PciClass::other;
}

// A number with at most three decimals, from thousandths: "180", "22.5".
std::string thousandths(int64_t n) {
  if (n % 1000 == 0) return fmt::format("{}", n / 1000);
  std::string text = fmt::format("{}.{:03}", n / 1000, n % 1000);
  while (text.ends_with('0')) text.pop_back();
  return text;
}

struct PcieLink {
  double speed = 0;  // GT/s
  int64_t width = 0;
  double value() const { return pcie_speed(speed, width).nominal.value; }
};

class NcclImporter {
 public:
  NcclImporter(const ImportText& text, std::vector<XmlElement> elements)
      : text_(text), elements_(std::move(elements)), children_(elements_.size()) {
    for (uint32_t e = 1; e < elements_.size(); ++e)
      children_[static_cast<size_t>(elements_[e].parent)].push_back(e);
  }

  ImportedTopology import() {
    require_system();
    read_pcie_links();
    for (const uint32_t e : children_[0]) {
      if (elements_[e].name == "cpu") add_cpu(e);
    }
    if (cpus_.size() > kMostCpus) problem(elements_[0], "more than 1,024 CPUs");
    if (builder_.count(DeviceKind::gpu) == 0 && problems_.empty())
      problem(elements_[0], "no GPU in this file");
    throw_if_any(problems_);
    join_cpus();
    NvlinkJoiner(builder_, gpus_, hosts_.size() > 1).join(gpu_links_);
    warn_of_uneven_nvlinks(builder_);
    add_facts();
    ImportedTopology made = finished(std::move(builder_));
    made.nic_bandwidth = {static_cast<double>(most_common(speeds_)) * 1e6 / 8};
    return made;
  }

 private:
  struct Cpu {
    uint32_t device = 0;
    int32_t host = 0;
    LinkSpeed speed;
  };
  void problem(const XmlElement& e, std::string message, std::string help = "",
               const char* code = "E321") {
    problems_.push_back(problem_at(text_, code, e.line, e.column, e.name.size() + 1,
                                   std::move(message), std::move(help)));
  }
  void problem(const XmlAttribute& a, std::string message) {
    problems_.push_back(
        problem_at(text_, "E321", a.line, a.column, a.name.size(), std::move(message)));
  }

  void require_system() {
    const XmlElement& root = elements_[0];
    if (root.name == "graphs")
      problem(root,
              "this is what NCCL has chosen (NCCL_GRAPH_FILE: rings and trees), not a topology",
              "NCCL_TOPO_DUMP_FILE=file writes the topology", "E320");
    else if (root.name != "system")
      problem(root, "<" + std::string(root.name.substr(0, 40)) + "> is no topology of NCCL",
              "its outermost element is <system>", "E320");
    throw_if_any(problems_);
  }

  // A whole number of an attribute; `missing` if it is not there.
  int64_t number(const XmlElement& e, std::string_view name, int64_t missing) {
    const XmlAttribute* a = e.find(name);
    if (a == nullptr) return missing;
    const int64_t n = whole_number(a->value);
    if (n < 0) problem(*a, std::string(name) + " should be a whole number");
    return n < 0 ? missing : n;
  }

  PcieLink own_link(const XmlElement& e) {
    PcieLink link{kUnknownSpeed, number(e, "link_width", 0)};
    if (link.width == 0) link.width = 16;
    if (link.width > 32) problem(*e.find("link_width"), "a link has at most 32 lanes");
    const std::string_view text = trim(e.value_of("link_speed"));
    double speed = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), speed, std::chars_format::fixed);
    if (error == std::errc{} && speed > 0 && speed < 1e4) link.speed = speed;
    return link;
  }

  // links_ of the pci elements; bridges of virtual machines get the best below them.
  void read_pcie_links() {
    links_.resize(elements_.size());
    std::vector<PcieLink> below(elements_.size());
    for (size_t e = elements_.size(); e-- > 1;) {
      if (elements_[e].name != "pci") continue;
      links_[e] = own_link(elements_[e]);
      if (links_[e].speed <= kVirtualBridge && below[e].value() > links_[e].value()) {
        links_[e] = below[e];
        ++raised_;
      }
      PcieLink& up = below[static_cast<size_t>(elements_[e].parent)];
      if (up.width == 0 || links_[e].value() > up.value()) up = links_[e];
    }
  }

  void add_cpu(uint32_t e) {
    const XmlElement& cpu = elements_[e];
    const auto [host, fresh] = hosts_.try_emplace(std::string(cpu.value_of("host_hash")),
                                                  static_cast<int32_t>(hosts_.size()));
    Cpu made;
    made.host = host->second;
    const XmlAttribute* numa = cpu.find("numaid");
    const std::string name = numa == nullptr ? fmt::format("{}", cpus_.size()) : numa->value;
    made.device =
        builder_.add(DeviceKind::cpu, host_prefix(made.host) + "cpu" + name, made.host, cpu.line);
    made.speed = cpu_speed(cpu.value_of("arch"), cpu.value_of("vendor"), number(cpu, "familyid", 0),
                           number(cpu, "modelid", 0));
    cpus_.push_back(made);
    for (const uint32_t c : children_[e]) {
      if (elements_[c].name == "pci") add_pci(c, made.device);
      if (elements_[c].name == "nic") add_nic(c, children_[c], made.device, {});
    }
  }

  void add_pci(uint32_t e, uint32_t parent) {
    const XmlElement& pci = elements_[e];
    const auto has = [&](std::string_view child) {
      return std::any_of(children_[e].begin(), children_[e].end(),
                         [&](uint32_t c) { return elements_[c].name == child; });
    };
    PciClass kind = pci_class(pci.value_of("class"));
    if (has("gpu")) kind = PciClass::gpu;
    if (has("nic")) kind = PciClass::nic;
    if (has("pci")) kind = PciClass::bridge;
    switch (kind) {
      case PciClass::bridge: return add_bridge(e, parent);
      case PciClass::gpu: return add_gpu(e, parent);
      case PciClass::nic: return add_card(e, parent);
      default: ++other_devices_;
    }
  }

  void add_bridge(uint32_t e, uint32_t parent) {
    const uint32_t bridge = builder_.add(
        DeviceKind::pcie_switch, fmt::format("pcie{}", builder_.count(DeviceKind::pcie_switch)),
        host(), elements_[e].line);
    builder_.join(bridge, parent, LinkKind::pcie, speed_of(e));
    double fastest = 0;
    for (const uint32_t c : children_[e]) {
      if (elements_[c].name != "pci") continue;
      fastest = std::max(fastest, links_[c].value());
      add_pci(c, bridge);
    }
    if (links_[e].value() < fastest) {
      slow_.push_back(builder_.devices[bridge].name);
      if (slow_line_ == 0) slow_line_ = elements_[e].line, slow_link_ = links_[e];
    }
  }

  int32_t host() const { return cpus_.empty() ? 0 : cpus_.back().host; }
  LinkSpeed speed_of(uint32_t pci) const {
    return pcie_speed(links_[pci].speed, links_[pci].width);
  }

  void add_gpu(uint32_t e, uint32_t parent) {
    const XmlElement& pci = elements_[e];
    const std::string bus = lower_case(pci.value_of("busid"));
    const XmlElement* gpu = nullptr;
    uint32_t gpu_element = 0;
    for (const uint32_t c : children_[e]) {
      if (elements_[c].name != "gpu" || gpu != nullptr) continue;
      gpu = &elements_[c];
      gpu_element = c;
    }
    const int64_t dev = gpu == nullptr ? builder_.count(DeviceKind::gpu)
                                       : number(*gpu, "dev", builder_.count(DeviceKind::gpu));
    const uint32_t device =
        builder_.add(DeviceKind::gpu, fmt::format("{}gpu{}", host_prefix(host()), dev), host(),
                     gpu == nullptr ? pci.line : gpu->line);
    const std::string key = host_prefix(host()) + bus;
    if (const auto [it, fresh] = gpus_.try_emplace(key, device); !fresh && !bus.empty())
      problem(pci, fmt::format("the GPU at {} is there already, in line {}", bus,
                               builder_.lines[it->second]));
    builder_.join(device, parent, LinkKind::pcie, speed_of(e));
    if (gpu == nullptr) return;
    described_ = true;
    const GpuArch arch = gpu_arch_of_capability(number(*gpu, "sm", 0));
    for (const uint32_t c : children_[gpu_element])
      add_gpu_link(elements_[c], device, arch, gpu->value_of("gcn"));
  }

  void add_gpu_link(const XmlElement& e, uint32_t gpu, GpuArch arch, std::string_view gcn) {
    const bool xgmi = e.name == "xgmi";
    xgmi_ = xgmi_ || xgmi;
    if (e.name == "c2c") {
      // Mb of bytes a second of one link.
      const double one = static_cast<double>(number(e, "bw", 0)) * 1e6;
      const auto links = static_cast<int32_t>(std::min<int64_t>(number(e, "count", 1), 1024));
      if (one > 0 && links > 0)
        builder_.join(gpu, cpus_.back().device, LinkKind::c2c, {{one}, {one}}, links);
    }
    if (e.name != "nvlink" && !xgmi) return;
    NcclGpuLink link;
    link.gpu = gpu;
    link.cpu = cpus_.back().device;
    link.target = lower_case(e.value_of("target"));
    link.count = static_cast<int32_t>(number(e, "count", 1));
    link.line = e.line;
    const std::string_view tclass = e.value_of("tclass");
    link.to_cpu = tclass == "0x068001";
    link.to_switch =
        !link.to_cpu && (tclass.starts_with("0x0680") || link.target.starts_with("fffffff:"));
    link.one = xgmi ? xgmi_speed(gcn) : nvlink_speed(arch);
    if (link.target.empty()) problem(e, "a link without a target");
    if (link.count < 1 || link.count > 64) problem(e, "a GPU has 1 to 64 links to another device");
    gpu_links_.push_back(std::move(link));
  }

  // A network card: its nets are those of its nic elements.
  void add_card(uint32_t e, uint32_t parent) {
    const XmlElement& pci = elements_[e];
    std::vector<uint32_t> nets;
    for (const uint32_t nic : children_[e])
      if (elements_[nic].name == "nic")
        nets.insert(nets.end(), children_[nic].begin(), children_[nic].end());
    const std::string_view kind = pci.value_of("class");
    ++cards_[pci.value_of("vendor") == "0x1d0f" ? "EFA"
             : kind.starts_with("0x0207")       ? "InfiniBand"
                                                : "Ethernet"];
    add_nic(e, nets, parent, speed_of(e));
  }

  // A NIC for each net; one for a card of which no net is known.
  void add_nic(uint32_t e, const std::vector<uint32_t>& below, uint32_t parent, LinkSpeed card) {
    std::vector<uint32_t> nets;
    for (const uint32_t n : below)
      if (elements_[n].name == "net") nets.push_back(n);
    if (nets.empty()) {
      if (card.nominal.value == 0) return;
      const uint32_t nic =
          builder_.add(DeviceKind::nic, fmt::format("nic{}", builder_.count(DeviceKind::nic)),
                       host(), elements_[e].line);
      bare_.insert(nic);
      builder_.join(nic, parent, LinkKind::pcie, card);
      return;
    }
    const auto share = static_cast<double>(nets.size());
    for (const uint32_t n : nets) {
      const XmlElement& net = elements_[n];
      int64_t megabits = number(net, "speed", 0);
      if (megabits == 0) megabits = 10'000;  // what NCCL takes
      LinkSpeed link{card.nominal / share, card.nccl / share};
      if (card.nominal.value == 0) link.nominal = {static_cast<double>(megabits) * 1e6 / 8};
      const std::string_view dev = net.value_of("dev");
      const std::string name = net.value_of("name").empty() ? "net" + std::string(dev)
                                                            : std::string(net.value_of("name"));
      const auto [it, fresh] = nets_.try_emplace(host_prefix(host()) + name, 0);
      if (fresh) {
        it->second = builder_.add(
            DeviceKind::nic, fmt::format("{}nic{} {}", host_prefix(host()), nets_.size() - 1, name),
            host(), net.line);
        ++speeds_[megabits];
        const double port = static_cast<double>(megabits) * 1e6 / 8;
        if (link.nominal.value < port) narrow_.push_back(builder_.devices[it->second].name);
        if (narrow_line_ == 0 && !narrow_.empty()) narrow_line_ = net.line;
      }
      builder_.join(it->second, parent, LinkKind::pcie, link);
    }
  }

  void join_cpus() {
    for (size_t a = 0; a < cpus_.size(); ++a) {
      for (size_t b = a + 1; b < cpus_.size(); ++b) {
        if (cpus_[a].host != cpus_[b].host) continue;
        LinkSpeed speed =
            std::min(cpus_[a].speed.nominal, cpus_[b].speed.nominal) == cpus_[a].speed.nominal
                ? cpus_[a].speed
                : cpus_[b].speed;
        if (speed.nominal.value == 0) speed = {pcie_speed(kUnknownSpeed, 16).nominal, {}};
        builder_.join(cpus_[a].device, cpus_[b].device, LinkKind::host, speed);
      }
    }
  }

  void add_facts() {
    int32_t rail = 0;
    for (uint32_t d = 0; d < builder_.devices.size(); ++d) {
      const bool bare = bare_.contains(d);
      // Cards without a net are idle, if others have one.
      if (builder_.devices[d].kind == DeviceKind::nic && (!bare || nets_.empty()))
        builder_.devices[d].rail = rail++;
    }
    if (hosts_.size() > 1)
      builder_.fact("hosts", static_cast<int64_t>(hosts_.size()),
                    fmt::format("{} hosts in one file", hosts_.size()));
    for (const auto& [kind, n] : cards_)
      builder_.fact("cards_" + lower_case(kind), n,
                    fmt::format("{} network {}: {}", n, n == 1 ? "card" : "cards", kind));
    for (const auto& [megabits, n] : speeds_)
      builder_.fact(fmt::format("nics_at_{}_mbps", megabits), n,
                    fmt::format("{} {} at {} Gb/s ({} GB/s)", n, n == 1 ? "NIC" : "NICs",
                                thousandths(megabits), thousandths(megabits / 8)));
    if (xgmi_)
      builder_.fact("xgmi", 1, "links between GPUs are AMD's Infinity Fabric, shown as NVLink");
    if (!described_)
      builder_.fact("written_by_hand", 1,
                    "no gpu or net elements: NCCL finds NVLinks and the network when it runs");
    if (raised_ > 0)
      builder_.fact(
          "bridges_raised", raised_,
          fmt::format("{} bridges at 2.5 GT/s are taken to be as fast as what is below them",
                      raised_));
    if (other_devices_ > 0)
      builder_.fact("other_pci_devices", other_devices_,
                    fmt::format("{} other PCI devices left out", other_devices_));
    if (!narrow_.empty())
      builder_.warn(narrow_line_, some_of(narrow_) + (narrow_.size() == 1 ? " has" : " have") +
                                      " less PCIe than network bandwidth");
    if (!slow_.empty())
      builder_.warn(slow_line_,
                    fmt::format("{} {} upwards at PCIe {}.0 x{}, slower than what is below",
                                some_of(slow_), slow_.size() == 1 ? "reaches" : "reach",
                                pcie_generation(slow_link_.speed), slow_link_.width));
  }

  const ImportText& text_;
  std::vector<XmlElement> elements_;
  std::vector<std::vector<uint32_t>> children_;
  std::vector<PcieLink> links_;  // of pci elements
  TopologyBuilder builder_;
  std::vector<Diagnostic> problems_;
  std::vector<Cpu> cpus_;
  std::map<std::string, int32_t> hosts_;  // by host_hash
  std::map<std::string, uint32_t> gpus_;  // by host and bus address
  std::map<std::string, uint32_t> nets_;  // by name
  std::vector<NcclGpuLink> gpu_links_;
  std::set<uint32_t> bare_;               // NICs of which no net is known
  std::map<std::string, int64_t> cards_;  // by kind of network
  std::map<int64_t, int64_t> speeds_;     // number of NICs by Mb/s
  std::vector<std::string> slow_;         // bridges slower than what is below
  std::vector<std::string> narrow_;       // NICs slower on PCIe than on the network
  int narrow_line_ = 0, slow_line_ = 0;
  PcieLink slow_link_;
  int64_t raised_ = 0, other_devices_ = 0;
  bool described_ = false, xgmi_ = false;
};

}  // namespace

ImportedTopology import_nccl_xml(std::string_view text, const std::string& file) {
  const ImportText lines = lines_of(text, file);
  return NcclImporter(lines, XmlReader(text, lines).read()).import();
}

}  // namespace stepcast
