// SPDX-License-Identifier: Apache-2.0
// What a layout takes and holds at least, in closed form: so that most of a space is decided
// without a scenario, a schedule or a pass being made for it.
//
// Layouts that differ in pp, vpp, dp, split and schedule alone run the same layers: they are of one
// class.  Of each class a few small stages are written out and priced, once; bounds.cc says what
// follows from them, and why it is a bound.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "calibrate/price/price_graph.h"
#include "scenarios/search/space.h"
#include "schedules/lower/stage_pass_cache.h"
#include "schedules/schedule.h"
#include "sim/units.h"

namespace stepcast {

struct LayoutBound {
  Time time{};
  Bytes memory{};     // that some rank allocates
  double joules = 0;  // that all GPUs draw for what they compute, beyond what they draw idle
};

// What the layers of one class take and hold, added up from the first layer on.
struct ClassCosts {
  bool known = false;  // false: nothing is bounded
  // By layers: entry n is of the first n.
  std::vector<int64_t> forward, backward, kept, states, dense_optimizer, expert_optimizer, drawn;
  // What a stage has beside its layers: with the embedding, with the head, with both.
  struct Ends {
    int64_t forward = 0, backward = 0, kept = 0, states = 0, dense_optimizer = 0,
            expert_optimizer = 0;
    int64_t drawn = 0;  // microjoules of a GPU for a microbatch, beyond what it draws idle
  };
  Ends inner, embedding, head, both;
  int64_t workspace = 0;                        // of a rank
  int64_t dense_shards = 1, expert_shards = 1;  // of which the optimizer's bytes are
  bool keeps_add_up = true;                     // what microbatches in flight hold is a sum
  bool splits = false;                          // backwards are I and W
  bool ends_apart = false;  // ranks do not wait for each other at the end of a step
};

// What bounds go by of a family's orders, read off those that it makes for a small pipeline.
struct OrderTraits {
  // Stage s is on rank s % pp, in one replica, and microbatches are whole.
  bool loop = false;
  // A loop of whole forwards and backwards, one at a time: the passes of 1F1B in another order.
  bool as_1f1b = false;
};
OrderTraits order_traits(const ScheduleFamily& family);

// How many microbatches of each of its chunks (`out`, by chunk) a rank of the family with this name
// has in flight at least when it begins its first backward: in closed form where there is one,
// else 1. REQUIRES: a loop (OrderTraits), a rank below pp, sizes that the family takes.
void least_in_flight(std::string_view family, int64_t pp, int64_t vpp, int64_t microbatches,
                     int64_t rank, std::vector<int64_t>& out);

// Where passes and prices are kept from one class to the next: of one thread.
struct BoundCaches {
  StagePassCache passes;
  PriceCache prices;
  size_t place = SIZE_MAX;  // that the prices are of
};

class LayoutBounds {
 public:
  // REQUIRES: both outlive this.
  LayoutBounds(const SearchSpace& space, std::span<const Layout> layouts);

  size_t classes() const { return members_.size(); }
  // Works a class out.  Classes may be prepared by several threads at once, each with caches of its
  // own.
  void prepare(size_t cls, BoundCaches& caches);
  // REQUIRES: the class of the layout has been prepared.
  LayoutBound of(size_t layout) const;

 private:
  const SearchSpace& space_;
  const std::span<const Layout> layouts_;
  std::vector<OrderTraits> orders_;             // of SearchSpace::schedules()
  std::vector<uint32_t> class_of_;              // of each layout
  std::vector<std::vector<uint32_t>> members_;  // layouts of each class
  std::vector<ClassCosts> costs_;
};

}  // namespace stepcast
