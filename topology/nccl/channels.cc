// SPDX-License-Identifier: Apache-2.0
// How many channels NCCL finds for a group, and how fast it takes each to be.
//
// NCCL searches its topology for rings of one speed after the other, the highest of a list first.
// For nodes whose GPUs are alike the outcome follows from bandwidths alone.  Eight A100 behind
// NVSwitches have 12 NVLinks each, which NCCL counts as 20 GB/s:
//
//     one node     240 GB/s hold 6 rings of 40 GB/s, the highest speed of the list (ring_inside).
//                  Rings of 25 GB/s or more are split in two: 12 rings of 20 GB/s, and 24 thread
//                  blocks, two for each ring
//     two nodes    each ring passes one NIC of each node, so one NIC a GPU of 25 GB/s, of which 24
//                  are usable, gives 8 rings of 24 GB/s (ring_across); that is below 25, and they
//                  stay as they are
//
// Those are the speeds by which NCCL chooses an algorithm (`found`).  Links do not keep to steps of
// a list, so what a collective then costs follows from what they have for each channel (`smooth`):
// in the first case 240 / 12 = 20 GB/s, in the second 240 / 8 = 30 inside the nodes and 24 between
// them.  Where other groups use the same NICs, each has its part of them, which NCCL does not see.

#include "topology/nccl/channels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/check.h"
#include "topology/nccl/constants.h"

namespace stepcast {
namespace {

constexpr int64_t kMostFound = 32;   // half of MAXCHANNELS: rings are doubled when connected
constexpr int64_t kMostBlocks = 64;  // MAXCHANNELS
constexpr double kSlowestShared = 25 * kGB;  // channels at least this fast are split into two
constexpr double kFastHopper = 50 * kGB;

constexpr std::array kIntraAmpere{40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.};
constexpr std::array kInterAmpere{48., 30., 28., 24., 20., 18., 15., 12., 10., 9.,
                                  7.,  6.,  5.,  4.,  3.,  2.4, 1.2, .24, .12};
constexpr std::array kIntraHopper{60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.};
constexpr std::array kInterHopper{48., 45., 42., 40., 30., 24., 22., 20., 17.5,
                                  15., 12., 6.,  3.,  2.4, 1.2, .24, .12};
constexpr std::array kIntraBlackwell{90., 80., 70., 60., 50., 45., 40., 30.,
                                     24., 20., 19., 18., 15., 12., 6.,  3.};
constexpr std::array kInterBlackwell{96., 86.,  80., 48., 45.1, 42., 40., 30., 24., 22.,
                                     20., 17.5, 15., 12., 6.,   3.,  2.4, 1.2, .24, .12};

std::span<const double> intra_speeds(NcclChannels rules) {
  switch (rules) {
    case NcclChannels::before_hopper: return kIntraAmpere;
    case NcclChannels::hopper: return kIntraHopper;
    case NcclChannels::blackwell: return kIntraBlackwell;
  }
  return {};
}

std::span<const double> inter_speeds(NcclChannels rules) {
  switch (rules) {
    case NcclChannels::before_hopper: return kInterAmpere;
    case NcclChannels::hopper: return kInterHopper;
    case NcclChannels::blackwell: return kInterBlackwell;
  }
  return {};
}

// Highest speed of the list that fits into `limit`; the limit itself below the list.
double highest(std::span<const double> speeds, double limit) {
  for (double s : speeds) {
    if (s * kGB <= limit * (1 + 1e-9)) return s * kGB;
  }
  return limit;
}

int64_t whole(double x) {
  return static_cast<int64_t>(std::floor(x * (1 + 1e-9)));
}

// Network devices that the group has in the node where it has fewest, each with its speed.  NICs
// in excess of the GPUs count as one device for each GPU (multi-rail plugins, ports of one card).
struct Nics {
  double count = 0;   // devices, for NCCL
  double speed = 0;   // usable, of one device
  double shared = 0;  // usable bandwidth of all of them if the other groups of the axis send too
};

Nics nics_of(const Cluster& cluster, const GroupShape& shape, bool merges_ports) {
  const Node& node = cluster.node;
  const double ranks =
      real(shape.fewest_per_node > 0 ? shape.fewest_per_node : shape.ranks_per_node);
  const double beside = real(node.nics) / real(node.gpus);  // NICs for each GPU
  const double merged = merges_ports ? std::max(1.0, beside) : 1;
  Nics nics;
  nics.speed = kNicFraction * node.nic_bandwidth.value * merged;
  nics.count = std::max(1.0, std::floor(ranks * beside / merged));
  const double all = kNicFraction * node.nic_bandwidth.value * real(node.nics);
  nics.shared = std::min(all / real(shape.sharing), nics.count * nics.speed);
  return nics;
}

// Channels at least 25 GB/s fast become two of half the speed; Hopper and later keep up to 50 GB/s
// if there are more than four.
void split(Channels& c, NcclChannels rules) {
  const bool late = rules != NcclChannels::before_hopper;
  if (c.found.intra < kSlowestShared) return;
  if (late && c.found.intra < kFastHopper && c.count > 4) return;
  // NCCL leaves those that are too many to be doubled; here they become as many as there may be, so
  // that faster links never mean fewer channels.
  const int64_t count = std::min(2 * c.count, kMostFound);
  const double part = real(c.count) / real(count);
  c.count = count;
  c.found.intra *= part;
  c.found.inter *= part;
}

Channels ring_inside(double usable, NcclChannels rules) {
  Channels c;
  c.found.intra = highest(intra_speeds(rules), usable);
  c.count = std::clamp<int64_t>(whole(usable / c.found.intra), 1, kMostFound);
  split(c, rules);
  return c;
}

// Each channel passes one network device a node.
Channels ring_across(double usable, const Nics& nics, const GroupShape& shape, NcclChannels rules) {
  Channels c;
  const double p = real(shape.ranks_per_node);
  double speed = nics.speed;
  // Of the rings through p GPUs each GPU forwards p - 1 of p over NVLink.
  if (p > 1) speed = std::min(speed, usable * p / (p - 1) / nics.count);
  c.found.inter = highest(inter_speeds(rules), speed);
  const int64_t each = std::max<int64_t>(1, whole(speed / c.found.inter));
  c.count = std::clamp<int64_t>(each * static_cast<int64_t>(nics.count), 1, kMostFound);
  c.found.intra = c.found.inter;
  split(c, rules);
  return c;
}

int64_t ring_blocks(const Channels& c, const GroupShape& shape, NcclChannels rules) {
  int64_t blocks = 2 * c.count;
  const bool late = rules != NcclChannels::before_hopper;
  if (late && shape.nodes > 1 && c.found.intra > 45 * kGB && blocks < 16) blocks *= 2;
  return std::min(blocks, kMostBlocks);
}

Channels nvls(double usable, const Nics& nics, const GroupShape& shape, NcclChannels rules) {
  Channels c;
  c.count = std::min(kMostFound, shape.ranks_per_node);  // heads
  // A head's stream passes its port once for each GPU's part and once for its own result.
  c.smooth.intra = usable / real(c.count + 1);
  c.found.intra = highest(intra_speeds(rules), c.smooth.intra);
  if (shape.nodes > 1) {
    c.smooth.inter = nics.shared / real(c.count);
    c.found.inter =
        highest(inter_speeds(rules), std::min(nics.speed, nics.speed * nics.count / real(c.count)));
  }
  c.blocks = rules != NcclChannels::blackwell ? 16 : shape.nodes > 1 ? 32 : 24;
  return c;
}

}  // namespace

double usable_intra(const Cluster& cluster, const GroupShape& shape) {
  const Node& node = cluster.node;
  const GpuArchitecture& arch = architecture(node.gpu.arch);
  const double wire = node.intra_bandwidth.value * intra_share(node, shape.ranks_per_node);
  const double usable =
      wire * (node.intra == IntraKind::pcie ? kPcieFraction : arch.nvlink_fraction());
  // A ring crosses from one socket to the other once.
  if (shape.crossing == 0 || node.cpu_bandwidth.value <= 0) return usable;
  return std::min(usable, node.cpu_bandwidth.value / real(shape.crossing));
}

Channels search_channels(const Cluster& cluster, const GroupShape& shape, ChannelPattern pattern,
                         const NcclSetup& setup) {
  const NcclChannels rules = architecture(cluster.node.gpu.arch).channels;
  const double usable = usable_intra(cluster, shape);
  STEPCAST_CHECK(shape.ranks_per_node == 1 || usable > 0, "a node needs an inner bandwidth");
  Nics nics;
  if (shape.nodes > 1) {
    nics = nics_of(cluster, shape, setup.merges_ports);
    STEPCAST_CHECK(nics.speed > 0 && nics.shared > 0, "a group over several nodes needs NICs");
  }
  if (pattern == ChannelPattern::nvls) return nvls(usable, nics, shape, rules);
  Channels c =
      shape.nodes == 1 ? ring_inside(usable, rules) : ring_across(usable, nics, shape, rules);
  c.blocks = ring_blocks(c, shape, rules);
  const double count = real(c.count);
  c.smooth.intra = usable / count;
  if (shape.nodes > 1) c.smooth.inter = nics.shared / count;
  if (shape.ranks_per_node == 1) c.smooth.intra = c.smooth.inter;
  // Trees load the links inside a node less than those between: their inner speed is raised to
  // what the links have, twice the outer one at most.
  if (pattern == ChannelPattern::tree && shape.nodes > 1 && shape.ranks_per_node > 1) {
    c.found.intra = std::max(
        c.found.inter, highest(intra_speeds(rules), std::min(usable / count, 2 * c.found.inter)));
  }
  return c;
}

}  // namespace stepcast
