// SPDX-License-Identifier: Apache-2.0
#include "report/protobuf.h"

namespace stepcast {

void ProtoMessage::varint(uint32_t field, uint64_t value) {
  raw(field << 3);
  raw(value);
}

void ProtoMessage::fixed64(uint32_t field, uint64_t value) {
  raw(field << 3 | 1);
  for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
}

void ProtoMessage::text(uint32_t field, std::string_view value) {
  raw(field << 3 | 2);
  raw(value.size());
  bytes_ += value;
}

void ProtoMessage::raw(uint64_t v) {
  for (; v >= 0x80; v >>= 7) bytes_ += static_cast<char>((v & 0x7F) | 0x80);
  bytes_ += static_cast<char>(v);
}

}  // namespace stepcast
