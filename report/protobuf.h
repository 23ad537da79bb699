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

  void varint(uint32_t field, uint64_t value);
  void fixed64(uint32_t field, uint64_t value);
  void text(uint32_t field, std::string_view value);
  void message(uint32_t field, const ProtoMessage& inner) { text(field, inner.bytes_); }

 private:
  void raw(uint64_t v);

  std::string bytes_;
};

}  // namespace stepcast
