// SPDX-License-Identifier: Apache-2.0
// Bytes as they travel inside a page: deflated, in base64.
#pragma once

#include <string>
#include <string_view>

namespace stepcast {

// The zlib format (RFC 1950), which browsers read as DecompressionStream("deflate").
std::string deflated(std::string_view bytes);

// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace stepcast
