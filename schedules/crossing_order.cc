// SPDX-License-Identifier: Apache-2.0
#include "schedules/crossing_order.h"

#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

// One rank's list: the next microbatch of each direction of each stage is counted here.
struct CrossingOrder {
  std::array<CrossingStage, 2> stages;
  std::vector<Action> list = {};
  std::array<int64_t, 2> forwards = {}, backwards = {};
  std::vector<Action> put_off = {};
  size_t made_up = 0;

  Action next_forward(size_t i) {
    return forward_of(stages[i].stage, stages[i].first_microbatch + forwards[i]++);
  }
  Action next_backward(size_t i) {
    return backward_of(stages[i].stage, stages[i].first_microbatch + backwards[i]++);
  }
  void forward(size_t i) { list.push_back(next_forward(i)); }
  void backward(size_t i) { list.push_back(next_backward(i)); }
  void input(size_t i) {
    const auto [input, weight] = split(next_backward(i));
    list.push_back(input);
    put_off.push_back(weight);
  }
  void weight() { list.push_back(put_off[made_up++]); }
  void pair(size_t forward, size_t backward) {
    const Action f = next_forward(forward);
    add_pair(list, f, next_backward(backward));
  }
};

}  // namespace

std::vector<Action> crossing_order(int64_t depth, int64_t position, int64_t microbatches,
                                   const std::array<CrossingStage, 2>& stages) {
  const int64_t out = depth - position - 1, in = position + 1;
  CrossingOrder o{stages};
  o.list.reserve(static_cast<size_t>(6 * microbatches));
  for (int64_t i = 0; i < 2 * out; ++i) o.forward(0);
  for (int64_t i = 0; i < in; ++i) {
    o.forward(0);
    o.forward(1);
  }
  for (int64_t i = 0; i < out; ++i) {
    o.input(1);
    o.weight();
    o.forward(1);
  }
  for (int64_t i = 0; i < microbatches - 2 * depth + in; ++i) {
    if (i == 0 && out == 0) {
      o.forward(0);
      o.backward(1);
    } else {
      o.pair(0, 1);
    }
    o.pair(1, 0);
  }
  for (int64_t i = 0; i < out; ++i) {
    o.backward(1);
    o.pair(1, 0);
  }
  for (int64_t k = 0; k < 2 * in; ++k) {
    const size_t stage = k % 2 == 0 ? 1 : 0;
    k < in ? o.backward(stage) : o.input(stage);
  }
  for (int64_t i = 0; i < out; ++i) {
    o.weight();
    o.input(0);
  }
  while (o.made_up < o.put_off.size()) o.weight();
  return std::move(o.list);
}

}  // namespace stepcast
