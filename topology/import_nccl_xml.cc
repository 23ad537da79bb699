// SPDX-License-Identifier: Apache-2.0
#include "topology/import_nccl_xml.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "topology/import_parts.h"
#include "topology/import_text.h"
#include "topology/nccl_nvlinks.h"
#include "topology/xml_reader.h"

namespace stepcast {
namespace {

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

std::string lower(std::string_view text) {
  std::string s(text);
  for (char& c : s)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return s;
}

GpuArch arch_of(int64_t sm) {
  if (sm >= 100) return GpuArch::blackwell;
  if (sm >= 90) return GpuArch::hopper;
  if (sm >= 80) return GpuArch::ampere;
  return sm >= 70 ? GpuArch::volta : GpuArch::other;
}

// A number with at most three decimals, from thousandths: "180", "22.5".
std::string thousandths(int64_t n) {
  std::string s = std::to_string(n / 1000);
  if (n % 1000 == 0) return s;
  std::string decimals = std::to_string(1000 + n % 1000).substr(1);
  while (decimals.ends_with('0')) decimals.pop_back();
  return s + '.' + decimals;
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
    if (parts_.count(DeviceKind::gpu) == 0 && problems_.empty())
      problem(elements_[0], "no GPU in this file");
    throw_if_any(problems_);
    join_cpus();
    join_nvlinks(parts_, gpu_links_, gpus_, hosts_.size() > 1);
    warn_of_uneven_nvlinks(parts_);
    tell();
    ImportedTopology made = finished(std::move(parts_));
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
    const std::string_view text = trimmed(e.value_of("link_speed"));
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
    const std::string name = numa == nullptr ? std::to_string(cpus_.size()) : numa->value;
    made.device =
        parts_.add(DeviceKind::cpu, host_prefix(made.host) + "cpu" + name, made.host, cpu.line);
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
      default: ++others_;
    }
  }

  void add_bridge(uint32_t e, uint32_t parent) {
    const uint32_t bridge = parts_.add(
        DeviceKind::pcie_switch, "pcie" + std::to_string(parts_.count(DeviceKind::pcie_switch)),
        host(), elements_[e].line);
    parts_.join(bridge, parent, LinkKind::pcie, speed_of(e));
    double fastest = 0;
    for (const uint32_t c : children_[e]) {
      if (elements_[c].name != "pci") continue;
      fastest = std::max(fastest, links_[c].value());
      add_pci(c, bridge);
    }
    if (links_[e].value() < fastest) {
      slow_.push_back(parts_.devices[bridge].name);
      if (slow_line_ == 0) slow_line_ = elements_[e].line, slow_link_ = links_[e];
    }
  }

  int32_t host() const { return cpus_.empty() ? 0 : cpus_.back().host; }
  LinkSpeed speed_of(uint32_t pci) const {
    return pcie_speed(links_[pci].speed, links_[pci].width);
  }

  void add_gpu(uint32_t e, uint32_t parent) {
    const XmlElement& pci = elements_[e];
    const std::string bus = lower(pci.value_of("busid"));
    const XmlElement* gpu = nullptr;
    uint32_t gpu_element = 0;
    for (const uint32_t c : children_[e]) {
      if (elements_[c].name != "gpu" || gpu != nullptr) continue;
      gpu = &elements_[c];
      gpu_element = c;
    }
    const int64_t dev = gpu == nullptr ? parts_.count(DeviceKind::gpu)
                                       : number(*gpu, "dev", parts_.count(DeviceKind::gpu));
    const uint32_t device =
        parts_.add(DeviceKind::gpu, host_prefix(host()) + "gpu" + std::to_string(dev), host(),
                   gpu == nullptr ? pci.line : gpu->line);
    const std::string key = host_prefix(host()) + bus;
    if (const auto [it, fresh] = gpus_.try_emplace(key, device); !fresh && !bus.empty())
      problem(pci, "the GPU at " + bus + " is there already, in line " +
                       std::to_string(parts_.lines[it->second]));
    parts_.join(device, parent, LinkKind::pcie, speed_of(e));
    if (gpu == nullptr) return;
    described_ = true;
    const GpuArch arch = arch_of(number(*gpu, "sm", 0));
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
        parts_.join(gpu, cpus_.back().device, LinkKind::c2c, {{one}, {one}}, links);
    }
    if (e.name != "nvlink" && !xgmi) return;
    NcclGpuLink link;
    link.gpu = gpu;
    link.cpu = cpus_.back().device;
    link.target = lower(e.value_of("target"));
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
          parts_.add(DeviceKind::nic, "nic" + std::to_string(parts_.count(DeviceKind::nic)), host(),
                     elements_[e].line);
      bare_.insert(nic);
      parts_.join(nic, parent, LinkKind::pcie, card);
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
        it->second =
            parts_.add(DeviceKind::nic,
                       host_prefix(host()) + "nic" + std::to_string(nets_.size() - 1) + ' ' + name,
                       host(), net.line);
        ++speeds_[megabits];
        const double port = static_cast<double>(megabits) * 1e6 / 8;
        if (link.nominal.value < port) narrow_.push_back(parts_.devices[it->second].name);
        if (narrow_line_ == 0 && !narrow_.empty()) narrow_line_ = net.line;
      }
      parts_.join(it->second, parent, LinkKind::pcie, link);
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
        parts_.join(cpus_[a].device, cpus_[b].device, LinkKind::host, speed);
      }
    }
  }

  void tell() {
    int32_t rail = 0;
    for (uint32_t d = 0; d < parts_.devices.size(); ++d) {
      const bool bare = bare_.contains(d);
      // Cards without a net are idle, if others have one.
      if (parts_.devices[d].kind == DeviceKind::nic && (!bare || nets_.empty()))
        parts_.devices[d].rail = rail++;
    }
    if (hosts_.size() > 1)
      parts_.fact("hosts", static_cast<int64_t>(hosts_.size()),
                  std::to_string(hosts_.size()) + " hosts in one file");
    for (const auto& [kind, n] : cards_)
      parts_.fact("cards_" + lower(kind), n,
                  std::to_string(n) + (n == 1 ? " network card: " : " network cards: ") + kind);
    for (const auto& [megabits, n] : speeds_)
      parts_.fact("nics_at_" + std::to_string(megabits) + "_mbps", n,
                  std::to_string(n) + (n == 1 ? " NIC at " : " NICs at ") + thousandths(megabits) +
                      " Gb/s (" + thousandths(megabits / 8) + " GB/s)");
    if (xgmi_)
      parts_.fact("xgmi", 1, "links between GPUs are AMD's Infinity Fabric, shown as NVLink");
    if (!described_)
      parts_.fact("written_by_hand", 1,
                  "no gpu or net elements: NCCL finds NVLinks and the network when it runs");
    if (raised_ > 0)
      parts_.fact("bridges_raised", raised_,
                  std::to_string(raised_) +
                      " bridges at 2.5 GT/s are taken to be as fast as what is below them");
    if (others_ > 0)
      parts_.fact("other_pci_devices", others_,
                  std::to_string(others_) + " other PCI devices left out");
    if (!narrow_.empty())
      parts_.warn(narrow_line_, some_of(narrow_) + (narrow_.size() == 1 ? " has" : " have") +
                                    " less PCIe than network bandwidth");
    if (!slow_.empty())
      parts_.warn(slow_line_, some_of(slow_) + (slow_.size() == 1 ? " reaches" : " reach") +
                                  " upwards at PCIe " +
                                  std::to_string(pcie_generation(slow_link_.speed)) + ".0 x" +
                                  std::to_string(slow_link_.width) + ", slower than what is below");
  }

  const ImportText& text_;
  std::vector<XmlElement> elements_;
  std::vector<std::vector<uint32_t>> children_;
  std::vector<PcieLink> links_;  // of pci elements
  ImportParts parts_;
  std::vector<Diagnostic> problems_;
  std::vector<Cpu> cpus_;
  std::map<std::string, int32_t> hosts_;  // by host_hash
  std::map<std::string, uint32_t> gpus_;  // by host and bus address
  std::map<std::string, uint32_t> nets_;  // by name
  std::vector<NcclGpuLink> gpu_links_;
  std::set<uint32_t> bare_;               // NICs of which no net is known
  std::map<std::string, int64_t> cards_;  // by kind of network
  std::map<int64_t, int64_t> speeds_;     // NICs at so many Mb/s
  std::vector<std::string> slow_;         // bridges slower than what is below
  std::vector<std::string> narrow_;       // NICs slower on PCIe than on the network
  int narrow_line_ = 0, slow_line_ = 0;
  PcieLink slow_link_;
  int64_t raised_ = 0, others_ = 0;
  bool described_ = false, xgmi_ = false;
};

}  // namespace

ImportedTopology import_nccl_xml(std::string_view text, const std::string& file) {
  const ImportText lines = lines_of(text, file);
  return NcclImporter(lines, read_xml(text, lines)).import();
}

}  // namespace stepcast
