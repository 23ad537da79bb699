// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl_nvlinks.h"

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

using Ends = std::pair<uint32_t, uint32_t>;  // devices

// Links between two GPUs as either end tells.
struct LinksOfPair {
  int32_t there = 0, back = 0;
  LinkSpeed one;
  int line = 0;
};

class NvlinkJoiner {
 public:
  NvlinkJoiner(ImportParts& parts, const std::map<std::string, uint32_t>& gpus, bool several_hosts)
      : parts_(parts), gpus_(gpus), several_hosts_(several_hosts) {}

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
      parts_.join(ends.first, ends.second, LinkKind::nvlink, l.second, l.first);
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
    const int32_t host = parts_.devices[link.gpu].node;
    const auto [it, fresh] =
        switches_.try_emplace(all ? link.target : host_prefix(host) + link.target, 0);
    if (!fresh) return it->second;
    const std::string number = std::to_string(parts_.count(DeviceKind::nvswitch));
    it->second = parts_.add(DeviceKind::nvswitch, all ? "nvswitch" : "nvswitch" + number,
                            all && several_hosts_ ? -1 : host, link.line);
    if (all)
      parts_.fact("hidden_nvswitches", 1, "the NVSwitches are hidden from the host: shown as one");
    return it->second;
  }

  void add_up(const NcclGpuLink& l) {
    auto& [links, one] = up_[{l.gpu, l.to_cpu ? l.cpu : nvswitch(l)}];
    links += l.count;
    one = l.one;
  }

  void add_between(const NcclGpuLink& l) {
    const Device& gpu = parts_.devices[l.gpu];
    const auto peer = gpus_.find(host_prefix(gpu.node) + l.target);
    if (peer == gpus_.end() || peer->second == l.gpu) {
      parts_.warn(l.line, gpu.name + " has a link to " + l.target.substr(0, 40) +
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
      parts_.warn(b.line, parts_.devices[ends.first].name + " and " +
                              parts_.devices[ends.second].name + " tell of " +
                              std::to_string(b.there) + " and " + std::to_string(b.back) +
                              " links between them; the larger is taken");
    parts_.join(ends.first, ends.second, LinkKind::nvlink, b.one, std::max(b.there, b.back));
  }

  ImportParts& parts_;
  const std::map<std::string, uint32_t>& gpus_;
  bool several_hosts_;
  std::map<std::string, uint32_t> switches_;  // as gpus_
  std::map<Ends, LinksOfPair> between_;
  std::map<Ends, std::pair<int32_t, LinkSpeed>> up_;  // to a switch or CPU: links, each
};

}  // namespace

std::string host_prefix(int32_t host) {
  return host == 0 ? "" : "n" + std::to_string(host) + "/";
}

void join_nvlinks(ImportParts& parts, const std::vector<NcclGpuLink>& links,
                  const std::map<std::string, uint32_t>& gpus, bool several_hosts) {
  NvlinkJoiner(parts, gpus, several_hosts).join(links);
}

}  // namespace stepcast
