// SPDX-License-Identifier: Apache-2.0
// Ways from NIC to NIC through switches: up to the lowest tier that joins the two, and down.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/cluster_graph.h"
#include "topology/link_share.h"
#include "topology/marks.h"

namespace stepcast {

class FabricWays {
 public:
  explicit FabricWays(const ClusterGraph& graph);

  // Appends the links of one way; of the equally good links of each step, the one that a hash of
  // (key, step) picks, each cable as likely as any other.  A graph whose switches have no tiers is
  // searched as a whole, for the fewest switches.  False, and nothing appended, if there is none.
  bool between(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& way);

  // Appends the links of all these ways: what part of a message takes each, if every switch sends
  // it on over all of them, every cable alike.  False, and nothing appended, if there is none.
  bool spread(uint32_t from, uint32_t to, std::vector<LinkShare>& shares);

 private:
  // Network links, those that leave a device together: first those that go up.
  struct Hop {
    uint32_t to = 0, link = 0, cables = 0;
  };
  using Ring = std::vector<uint32_t>;  // devices as many links above an end
  std::span<const Hop> ups(uint32_t device) const;
  std::span<const Hop> downs(uint32_t device) const;
  // The devices k links above a device; kept, as all NICs of a leaf have the same ones.
  const Ring& above(uint32_t device, size_t k);
  const Ring& above_nic(uint32_t nic, size_t k);
  // Makes ready for `choose`; the links of a shortest way, 0: there is none.
  size_t find(uint32_t from, uint32_t to);
  size_t find_up_and_down(uint32_t from, uint32_t to);
  size_t find_anyhow(uint32_t from, uint32_t to);
  // Fills `choices_` with the hops of step 0, 1, ... that bring `at` nearer to `to`.
  void choose(uint32_t at, uint32_t to, size_t step);
  // One of `choices_`, by its cables.
  const Hop& pick(uint64_t key, size_t step) const;

  const ClusterGraph& graph_;
  bool tiers_ = true;
  std::vector<Hop> hops_;
  std::vector<uint32_t> first_up_, first_down_;  // of each device in hops_; one more at the end
  std::vector<std::vector<Ring>> above_;         // by device
  std::vector<Marks> useful_from_, useful_to_;   // of each ring, those on a shortest way
  Marks reached_;
  Ring common_, queue_;
  std::vector<Hop> choices_;
  std::vector<uint32_t> steps_;  // to the far end, by device
  size_t top_ = 0;               // ring in which the two ends meet; 0: by `steps_`
  std::vector<uint64_t> part_;   // of a message that is on its way, by device
  Ring now_, next_;              // devices that have some
};

// A number that looks random for each pair: SplitMix64's finalizer of their sum (Steele, Lea and
// Flood, Fast Splittable Pseudorandom Number Generators, 2014).
uint64_t hash_of(uint64_t a, uint64_t b);

}  // namespace stepcast
