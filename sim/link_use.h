// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace stepcast {

constexpr uint32_t kFullLoad = 1 << 16;

// What a flow puts on one link of the cluster.
struct LinkUse {
  uint32_t link = 0;
  uint32_t load = kFullLoad;  // bytes over the link for each kFullLoad bytes of the message
};

}  // namespace stepcast
