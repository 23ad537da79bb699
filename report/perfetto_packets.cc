// SPDX-License-Identifier: Apache-2.0
#include "report/perfetto_packets.h"

namespace stepcast::perfetto {

uint64_t PacketWriter::intern(Interned kind, const std::string& text) {
  auto& known = iids_[kind];
  const auto [it, fresh] = known.try_emplace(text, known.size() + 1);
  if (fresh) {
    ProtoMessage entry;
    entry.varint(1, it->second);
    entry.text(2, text);
    definitions_.message(static_cast<uint32_t>(kind), entry);
  }
  return it->second;
}

void PacketWriter::descriptor(const ProtoMessage& track) {
  packet_.clear();
  packet_.message(kTrackDescriptor, track);
  finish();
}

void PacketWriter::event(int64_t ns, const ProtoMessage& track_event) {
  packet_.clear();
  packet_.varint(kTimestamp, static_cast<uint64_t>(ns));
  packet_.message(kTrackEvent, track_event);
  finish();
}

void PacketWriter::flush() {
  if (!buffer_.empty()) sink_(buffer_.bytes());
  buffer_.clear();
}

void PacketWriter::finish() {
  packet_.varint(kSequenceId, 1);
  packet_.varint(kSequenceFlags, first_ ? kStateCleared | kNeedsState : kNeedsState);
  first_ = false;
  if (!definitions_.empty()) packet_.message(kInternedData, definitions_);
  definitions_.clear();
  buffer_.message(kPacket, packet_);
  if (buffer_.bytes().size() > (1u << 16)) flush();
}

}  // namespace stepcast::perfetto
