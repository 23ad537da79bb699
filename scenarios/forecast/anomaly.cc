// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/anomaly.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "scenarios/schema/keys.h"

namespace stepcast {
namespace {

constexpr std::array<std::string_view, 6> kLinkSettings{
    "cluster.node.intra.bw",     "cluster.node.intra.latency", "cluster.node.nics.bw",
    "cluster.node.nics.latency", "cluster.fabric.oversub",     "cluster.fabric.latency_per_hop"};

// What has been seen of parts of two clusters.
class LinkOrder {
 public:
  template <class T>
  void less_is_faster(const T& a, const T& b) {
    faster_ = faster_ || a < b;
    slower_ = slower_ || b < a;
  }
  bool only_faster() const { return faster_ && !slower_; }

 private:
  bool faster_ = false, slower_ = false;
};

std::map<std::string, std::string, std::less<>> other_settings(const Scenario& s) {
  std::map<std::string, std::string, std::less<>> all;
  for (const Setting& x : s.settings) {
    const bool link =
        std::find(kLinkSettings.begin(), kLinkSettings.end(), x.path) != kLinkSettings.end();
    if (!link && !is_label(x.path)) all[x.path] = x.value;
  }
  return all;
}

}  // namespace

bool has_faster_links(const Scenario& a, const Scenario& b) {
  LinkOrder order;
  const Node &x = a.cluster.node, &y = b.cluster.node;
  order.less_is_faster(y.intra_bandwidth, x.intra_bandwidth);
  order.less_is_faster(y.nic_bandwidth, x.nic_bandwidth);
  order.less_is_faster(x.intra_latency, y.intra_latency);
  order.less_is_faster(x.nic_latency, y.nic_latency);
  order.less_is_faster(a.cluster.fabric.oversubscription, b.cluster.fabric.oversubscription);
  order.less_is_faster(a.cluster.fabric.hop_latency, b.cluster.fabric.hop_latency);
  return order.only_faster() && other_settings(a) == other_settings(b);
}

std::string anomaly_note(const Scenario& slower, std::string_view slower_name,
                         const Scenario& faster, std::string_view faster_name, bool shares_links) {
  const std::string anomaly = ": a scheduling anomaly, see docs/stragglers.md";
  std::string note = "'" + std::string(slower_name) + "' has faster links than '" +
                     std::string(faster_name) + "' and a longer step; ";
  if (slower.to_make || faster.to_make)
    return note + "the schedule is made for the costs and is another one" + anomaly;
  if (shares_links)
    return note + "where links are shared, what ends sooner may get in the way of something else" +
           anomaly;
  const bool interferes = slower.interference != Scenario::Interference::off ||
                          faster.interference != Scenario::Interference::off;
  return note +
         "no order changed and no link is shared, so prices come from elsewhere, measured or "
         "modelled, or from another algorithm: compare `stepcast explain --costs` of both" +
         (interferes ? "; or other compute runs beside communication (contention.interference)"
                     : "");
}

}  // namespace stepcast
