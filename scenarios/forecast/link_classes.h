// SPDX-License-Identifier: Apache-2.0
// The classes of links of a LaneSet: states of links that can meet in a group, their joins, and
// what communication costs in them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scenarios/forecast/disturbed_ranks.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/lanes/lanes.h"

namespace stepcast {

class LinkClasses {
 public:
  // `file`: of the scenario, for the message.
  explicit LinkClasses(std::string file);

  // Number of a state; 0 is sound.  Throws InputError E130 beyond 255 others.
  uint8_t of(const LinkState& state);
  // Adds the joins of all of them, by twos, threes, ...: those that meet in one group.
  void meet(std::vector<uint16_t> classes);

  // Numbers them anew, by how bad they are; returns the new number of each.
  std::vector<uint8_t> put_in_order();
  // By number, from 0.
  const std::vector<LinkState>& states() const { return states_; }
  // As LaneSet::join; where two never meet, the higher.
  std::vector<uint8_t> join_table() const;

 private:
  std::string file_;
  std::vector<LinkState> states_;
  std::map<LinkState, uint8_t> number_;
  std::set<std::vector<uint16_t>> met_;
};

// Prices in ps of all works in each state but the first, which is sound: on a cluster whose NICs
// and NVLinks are all like those of the state.  What lies above the NICs keeps its capacity.  A
// measured price is scaled as the model says, since the measurement is of sound links.  Nothing
// costs less in a state that is worse in every respect.
std::vector<std::vector<int64_t>> degraded_prices(const Scenario& s, const OpGraph& graph,
                                                  const Prices& prices,
                                                  const std::vector<LinkState>& states);

}  // namespace stepcast
