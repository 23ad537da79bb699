// SPDX-License-Identifier: Apache-2.0
// Names inside SVG and other XML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

// Escaped for terminals too (escape_text), so that a picture shows what the text shows.
std::string xml_text(std::string_view text);

// At most `most` columns, the end cut off: "leaf-of-the-ver..."
std::string elided(std::string_view text, int64_t most);

}  // namespace stepcast
