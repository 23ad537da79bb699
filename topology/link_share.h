// SPDX-License-Identifier: Apache-2.0
// A link on the way of a message that may be spread over several ways (routes.h).
#pragma once

#include <cstdint>

namespace stepcast {

// What part of a message takes a link, in 1/kWholeMessage.
constexpr uint64_t kWholeMessage = uint64_t{1} << 30;
struct LinkShare {
  uint32_t link = 0;  // directed
  uint64_t share = kWholeMessage;
};

}  // namespace stepcast
