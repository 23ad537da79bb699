// SPDX-License-Identifier: Apache-2.0
// A set of devices that is emptied in no time: scratch space of searches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepcast {

class Marks {
 public:
  explicit Marks(size_t devices) : set_in_(devices) {}
  void clear() {
    if (++now_ != 0) return;
    set_in_.assign(set_in_.size(), 0);
    now_ = 1;
  }
  bool has(uint32_t device) const { return set_in_[device] == now_; }
  // True if it was not in the set.
  bool add(uint32_t device) {
    const bool fresh = !has(device);
    set_in_[device] = now_;
    return fresh;
  }

 private:
  std::vector<uint32_t> set_in_;
  uint32_t now_ = 1;
};

}  // namespace stepcast
