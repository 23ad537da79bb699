// SPDX-License-Identifier: Apache-2.0
// UTF-8, as far as texts of files need it (RFC 3629).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepcast {

struct CodePoint {
  uint32_t value = 0;
  size_t length = 1;   // bytes; 1 if invalid, so that decoding goes on behind the bad byte
  bool valid = false;  // overlong forms, surrogates and values above U+10FFFF are not
};

// The code point at text[at].  REQUIRES: at < text.size().
CodePoint decode_utf8(std::string_view text, size_t at);

// Characters that move, hide or break text: C1 controls, bidirectional marks and isolates, zero
// width characters, line and paragraph separators, tags, the byte order mark.
bool is_deceptive(uint32_t code_point);

}  // namespace stepcast
