// SPDX-License-Identifier: Apache-2.0
// The wire format of Protocol Buffers, as far as a trace needs it: varints, fixed64 and
// length-delimited fields (https://protobuf.dev/programming-guides/encoding/).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

// One message under construction; nest by building the inner one first and adding its bytes.
class ProtoMessage {
 public:
  void clear() { bytes_.clear(); }
  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

  void varint(uint32_t field, uint64_t value) {
    raw(field << 3);
    raw(value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    raw(field << 3 | 1);
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }
  void text(uint32_t field, std::string_view value) {
    raw(field << 3 | 2);
    raw(value.size());
    bytes_ += value;
  }
  void message(uint32_t field, const ProtoMessage& inner) { text(field, inner.bytes_); }

 private:
  void raw(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes_ += static_cast<char>((v & 0x7F) | 0x80);
    bytes_ += static_cast<char>(v);
  }

  std::string bytes_;
};

}  // namespace stepcast
