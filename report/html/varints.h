// SPDX-License-Identifier: Apache-2.0
// Numbers as bytes, 7 bits each, lowest first: what page data is made of.
#pragma once

#include <cstdint>
#include <string>

namespace stepcast {

// Appends numbers to bytes.
class Varints {
 public:
  explicit Varints(std::string& bytes) : bytes_(bytes) {}

  void add(uint64_t v) {
    for (; v >= 0x80; v >>= 7U) bytes_ += static_cast<char>((v & 0x7FU) | 0x80U);
    bytes_ += static_cast<char>(v);
  }
  void add_signed(int64_t v) {
    add(static_cast<uint64_t>(v) << 1U ^ static_cast<uint64_t>(v >> 63));
  }

 private:
  std::string& bytes_;
};

}  // namespace stepcast
