// SPDX-License-Identifier: Apache-2.0
// FNV-1a of 64 bits (draft-eastlake-fnv): tells that a text was changed by accident.  Not against
// someone who wants to deceive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

constexpr uint64_t kHashStart = 0xcbf29ce484222325u;

// `so_far`: the hash of what stands before `text`.
constexpr uint64_t hash_text(std::string_view text, uint64_t so_far = kHashStart) {
  for (const char c : text) so_far = (so_far ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return so_far;
}

// 16 digits.
inline std::string hex_of(uint64_t hash) {
  std::string hex;
  for (int shift = 60; shift >= 0; shift -= 4) hex += "0123456789abcdef"[(hash >> shift) & 15u];
  return hex;
}

}  // namespace stepcast
