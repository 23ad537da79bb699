// SPDX-License-Identifier: Apache-2.0
// The packets of a Perfetto trace: their field numbers, and a writer that gives strings numbers and
// passes the packets on.  What they say of a step is perfetto.cc's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "report/perfetto.h"
#include "report/protobuf.h"

namespace stepcast::perfetto {

// Field numbers of perfetto's protos/perfetto/trace/*.proto.
enum TraceField : uint32_t { kPacket = 1 };
enum PacketField : uint32_t {
  kTimestamp = 8,
  kSequenceId = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kSequenceFlags = 13,
  kTrackDescriptor = 60,
};
enum DescriptorField : uint32_t {
  kUuid = 1,
  kTrackName = 2,
  kProcess = 3,
  kParentUuid = 5,
  kCounter = 8,
  kChildOrdering = 11,
  kSiblingOrderRank = 12,
  kProcessOrdering = 19,
};
enum ProcessField : uint32_t { kPid = 1, kProcessName = 6 };
enum CounterField : uint32_t { kUnit = 3, kShareKey = 7 };
enum EventField : uint32_t {
  kCategoryIids = 3,
  kAnnotations = 4,
  kEventType = 9,
  kNameIid = 10,
  kEventTrack = 11,
  kCounterValue = 30,
  kFlowIds = 47,
  kTerminatingFlowIds = 48,
};
enum AnnotationField : uint32_t { kAnnotationName = 1, kUintValue = 3, kStringIid = 17 };
enum EventType : uint32_t { kBegin = 1, kEnd = 2, kCounterSample = 4 };
constexpr uint64_t kExplicitChildren = 3;
constexpr uint64_t kExplicitProcesses = 1;
constexpr uint64_t kBytesUnit = 3;
constexpr uint64_t kStateCleared = 1;
constexpr uint64_t kNeedsState = 2;

// Kinds of interned strings; the value is their field of InternedData.
enum class Interned : uint32_t { category = 1, name = 2, annotation = 3, value = 29 };

// Writes packets of one sequence; what `sink` throws passes through.
class PacketWriter {
 public:
  explicit PacketWriter(const TraceSink& sink) : sink_(sink) {}

  // Number of a string; its definition travels with the next packet.
  uint64_t intern(Interned kind, const std::string& text);
  void descriptor(const ProtoMessage& track);
  void event(int64_t ns, const ProtoMessage& track_event);
  void flush();

 private:
  void finish();

  const TraceSink& sink_;
  std::map<Interned, std::unordered_map<std::string, uint64_t>> iids_;
  ProtoMessage definitions_, packet_, buffer_;
  bool first_ = true;
};

}  // namespace stepcast::perfetto
