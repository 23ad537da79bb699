// SPDX-License-Identifier: Apache-2.0
// Which roles an engine can go on with, and which stand at a rendezvous.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/run.h"

namespace stepcast {

constexpr uint32_t kNobody = UINT32_MAX;  // no role; an empty list of sleepers

class RoleQueue {
 public:
  // All roles can go on, role 0 first.
  explicit RoleQueue(size_t roles) : next_(roles, kNobody) {
    ready_.reserve(roles);
    for (auto r = static_cast<uint32_t>(roles); r-- > 0;) ready_.push_back(r);
  }
  bool empty() const { return ready_.empty(); }
  // Any order gives the same times; last in, first out keeps a role's data warm.  REQUIRES: not
  // empty.
  uint32_t take() {
    const uint32_t role = ready_.back();
    ready_.pop_back();
    return role;
  }
  // `sleepers`: the first of a list of roles, each of which is in one list at most.
  void sleep(uint32_t role, uint32_t& sleepers) { next_[role] = std::exchange(sleepers, role); }
  void wake(uint32_t& sleepers) {
    for (uint32_t r = std::exchange(sleepers, kNobody); r != kNobody;) {
      ready_.push_back(r);
      r = std::exchange(next_[r], kNobody);
    }
  }

 private:
  std::vector<uint32_t> ready_, next_;
};

// Throws Deadlock if a role, each with the next `item` it has to execute, is not at its end.
template <class Roles>
void throw_if_stuck(const OpGraph& graph, const Roles& roles) {
  Deadlock deadlock;
  for (uint32_t r = 0; r < roles.size(); ++r) {
    const std::vector<Item>& items = graph.roles[r].items;
    if (roles[r].item < items.size()) {
      deadlock.waiting.push_back({r, roles[r].item, items[roles[r].item].rendezvous});
    }
  }
  if (!deadlock.waiting.empty()) throw deadlock;
}

}  // namespace stepcast
