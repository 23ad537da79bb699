// SPDX-License-Identifier: Apache-2.0
#include "report/trace/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/results/result.h"

namespace stepcast {
namespace perfetto {
namespace {

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

}  // namespace
}  // namespace perfetto

namespace {

using namespace perfetto;

int64_t nanoseconds(Time t) {
  return t.count() / 1000;
}

struct Slice {
  int64_t begin = 0, end = 0;  // ns
  uint64_t name = 0;           // interned
  uint64_t category = 0;       // interned; 0 = none
};

// A rank: its place among all, and what its times are.
struct Process {
  uint32_t number = 0;
  uint32_t role = 0;
  std::string name;
  const Timeline* times = nullptr;

  const RoleTimeline& own() const { return times->roles[role]; }
};

// A transfer or a collective over several roles, on one of them.
struct TransferEnd {
  uint32_t role = 0;
  std::string track;  // "pp send"
};

struct Transfer {
  RendezvousId id{};
  Time begin{}, end{};
  std::vector<TransferEnd> ends;  // of a point-to-point transfer: sender, receiver
  bool arrow = false;
};

class TraceBuilder {
 public:
  TraceBuilder(const Result& result, const TraceOptions& options, const TraceSink& sink)
      : result_(result), graph_(*result.graph), out_(sink) {
    for (const uint32_t role : options.roles)
      STEPCAST_CHECK(role < graph_.roles.size(), "a trace of ranks that exist");
    const auto wanted = [&](uint32_t role) {
      return options.roles.empty() || std::ranges::count(options.roles, role) > 0;
    };
    for (const TracedLane& lane : result.traced) {
      std::vector<Process>& of_lane = lanes_.emplace_back();
      for (size_t i = 0; i < lane.roles.size(); ++i)
        if (wanted(lane.roles[i])) add(of_lane, lane.roles[i], lane.names[i], lane.timeline);
    }
    if (result.traced.empty()) {
      std::vector<Process>& of_lane = lanes_.emplace_back();
      for (uint32_t role = 0; role < graph_.roles.size(); ++role)
        if (wanted(role)) add(of_lane, role, graph_.roles[role].name, result.timeline);
    }
    annotation_.microbatch = out_.intern(Interned::annotation, "microbatch");
    annotation_.stage = out_.intern(Interned::annotation, "stage");
    annotation_.layer = out_.intern(Interned::annotation, "layer");
    annotation_.work = out_.intern(Interned::annotation, "work");
  }

  TraceCounts write() {
    ProtoMessage root;
    root.varint(kUuid, 0);
    root.varint(kProcessOrdering, kExplicitProcesses);
    out_.descriptor(root);
    for (const std::vector<Process>& lane : lanes_) {
      for (const Process& process : lane) {
        ++counts_.ranks;
        add_process(process);
        add_streams(process);
      }
      add_transfers(lane);
      for (const Process& process : lane) add_memory(process);
    }
    out_.flush();
    return counts_;
  }

 private:
  void add(std::vector<Process>& lane, uint32_t role, const std::string& name,
           const Timeline& times) {
    lane.push_back({static_cast<uint32_t>(next_track_.size()), role, name, &times});
    next_track_.push_back(1);
  }

  // Process p has the uuid (p+1) * 2^16, its tracks have those that follow it.
  static uint64_t process_uuid(uint32_t number) { return (uint64_t{number} + 1) << 16; }

  void add_process(const Process& p) {
    ProtoMessage process, track;
    process.varint(kPid, uint64_t{p.number} + 1);
    process.text(kProcessName, p.name);
    track.varint(kUuid, process_uuid(p.number));
    track.message(kProcess, process);
    track.varint(kChildOrdering, kExplicitChildren);
    track.varint(kSiblingOrderRank, p.number);
    out_.descriptor(track);
  }

  // `order`: position among the tracks of the process.
  uint64_t add_track(uint32_t process, std::string_view name, uint64_t order,
                     const ProtoMessage* counter = nullptr) {
    const uint64_t uuid = process_uuid(process) + next_track_[process]++;
    ProtoMessage track;
    track.varint(kUuid, uuid);
    track.text(kTrackName, name);
    track.varint(kParentUuid, process_uuid(process));
    track.varint(kSiblingOrderRank, order);
    if (counter != nullptr) track.message(kCounter, *counter);
    out_.descriptor(track);
    return uuid;
  }

  void begin_event(EventType type, uint64_t track) {
    event_.clear();
    event_.varint(kEventType, type);
    event_.varint(kEventTrack, track);
  }

  void annotate(uint64_t name, uint32_t value_field, uint64_t value) {
    annotation_message_.clear();
    annotation_message_.varint(kAnnotationName, name);
    annotation_message_.varint(value_field, value);
    event_.message(kAnnotations, annotation_message_);
  }

  void annotate_action(const Item& item) {
    if (!item.has_action) return;
    annotate(annotation_.microbatch, kUintValue, item.action.microbatch);
    annotate(annotation_.stage, kUintValue, item.action.stage);
  }

  void open_slice(uint64_t track, const Slice& slice) {
    begin_event(kBegin, track);
    event_.varint(kNameIid, slice.name);
    if (slice.category != 0) event_.varint(kCategoryIids, slice.category);
    ++counts_.slices;
  }

  void close_slice(uint64_t track, int64_t ns) {
    begin_event(kEnd, track);
    out_.event(ns, event_);
  }

  void add_streams(const Process& process) {
    const RoleOps& ops = graph_.roles[process.role];
    const RoleTimeline& times = process.own();
    std::array<uint64_t, kStreams> tracks{};
    size_t at = 0;  // of op_start
    for (const Item& item : ops.items) {
      if (item.kind != ItemKind::pass) continue;
      const Pass& pass = graph_.passes[static_cast<size_t>(item.pass)];
      STEPCAST_CHECK(at + pass.ops.size() <= times.op_start.size(),
                     "a trace needs the start of every op");
      add_pass(process.number, item, pass, op_times(times, at, pass), tracks);
      at += pass.ops.size();
    }
    STEPCAST_CHECK(at == times.op_start.size(), "as many starts as ops");
  }

  // Begin and end of the ops of a pass, the first of which is op number `at` of the role.
  std::vector<ItemTime> op_times(const RoleTimeline& times, size_t at, const Pass& pass) const {
    std::vector<ItemTime> all;
    for (const Op& op : pass.ops) {
      const Time begin = times.op_start[at];
      all.push_back({begin, times.op_end.empty() ? begin + duration(op.work) : times.op_end[at]});
      ++at;
    }
    return all;
  }

  // Stream by stream, so that the slices of each track are in order.
  void add_pass(uint32_t process, const Item& item, const Pass& pass,
                std::span<const ItemTime> times, std::array<uint64_t, kStreams>& tracks) {
    for (size_t s = 0; s < kStreams; ++s) {
      const auto stream = static_cast<Stream>(s);
      std::optional<size_t> first;
      size_t last = 0;
      for (size_t i = 0; i < pass.ops.size(); ++i) {
        if (pass.ops[i].stream != stream) continue;
        if (!first) first = i;
        last = i;
      }
      if (!first) continue;
      if (tracks[s] == 0) tracks[s] = add_track(process, name_of(stream), s);
      const bool whole = stream == Stream::compute;
      if (whole) {
        open_slice(tracks[s], {0, 0, out_.intern(Interned::name, pass_name(item, pass)), 0});
        annotate_action(item);
        out_.event(nanoseconds(times[*first].begin), event_);
      }
      for (size_t i = *first; i <= last; ++i)
        if (pass.ops[i].stream == stream) add_op(tracks[s], item, pass.ops[i], times[i]);
      if (whole) close_slice(tracks[s], nanoseconds(times[last].end));
    }
  }

  static std::string pass_name(const Item& item, const Pass& pass) {
    return item.has_action ? action_text(item) : pass.name;
  }

  void add_op(uint64_t track, const Item& item, const Op& op, const ItemTime& time) {
    Slice slice;
    slice.name = out_.intern(Interned::name, graph_.text(op.label));
    slice.category = out_.intern(Interned::category, std::string(name_of(op.phase)));
    open_slice(track, slice);
    annotate_action(item);
    if (op.layer >= 0) annotate(annotation_.layer, kUintValue, static_cast<uint64_t>(op.layer));
    annotate(annotation_.work, kStringIid, described(op.work));
    out_.event(nanoseconds(time.begin), event_);
    close_slice(track, nanoseconds(time.end));
  }

  Time duration(WorkId work) const {
    return result_.prices->by_work[static_cast<size_t>(work)].time;
  }

  // The interned description of a work; described once.
  uint64_t described(WorkId work) {
    if (described_.empty()) described_.assign(graph_.works.size(), 0);
    uint64_t& iid = described_[static_cast<size_t>(work)];
    if (iid == 0)
      iid = out_.intern(Interned::value, describe(graph_.works[static_cast<size_t>(work)]));
    return iid;
  }

  // Every rendezvous with the roles it is drawn on, by begin.
  std::vector<Transfer> transfers(const Timeline& times) const {
    std::vector<std::vector<uint32_t>> posters(graph_.rendezvous.size());
    std::map<uint32_t, uint32_t> role_of;  // pipeline rank -> role
    for (uint32_t role = 0; role < graph_.roles.size(); ++role) {
      role_of.try_emplace(graph_.roles[role].pipeline_rank, role);
      for (const Item& item : graph_.roles[role].items)
        if (item.kind == ItemKind::post)
          posters[static_cast<size_t>(item.rendezvous)].push_back(role);
    }
    std::vector<Transfer> all;
    for (size_t i = 0; i < std::min(posters.size(), times.rendezvous.size()); ++i) {
      const Work& work = graph_.works[static_cast<size_t>(graph_.rendezvous[i].work)];
      const RendezvousTime& time = times.rendezvous[i];
      Transfer t{static_cast<RendezvousId>(i), time.begin, time.end, {}, false};
      const auto from = role_of.find(work.from), to = role_of.find(work.to);
      if (work.kind == WorkKind::send_recv && from != role_of.end() && to != role_of.end()) {
        t.ends = {{from->second, "pp send"}, {to->second, "pp receive"}};
        t.arrow = true;
      } else {
        const std::string axis(name_of(work.axis));
        for (const uint32_t role : posters[i]) t.ends.push_back({role, axis + " group"});
      }
      all.push_back(std::move(t));
    }
    std::stable_sort(all.begin(), all.end(), [](const Transfer& a, const Transfer& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    return all;
  }

  // A track of this name that is free when `t` begins: slices of one track must not overlap.
  uint64_t free_track(uint32_t process, const std::string& track, const Transfer& t) {
    auto& alike = transfer_tracks_[{process, track}];
    for (auto& [uuid, busy_until] : alike) {
      if (busy_until > t.begin) continue;
      busy_until = t.end;
      return uuid;
    }
    std::string name = track;
    if (!alike.empty()) name += fmt::format(" {}", alike.size() + 1);
    alike.emplace_back(add_track(process, name, kStreams + (track == "pp receive" ? 1 : 0)), t.end);
    return alike.back().first;
  }

  // Send before receipt in the file: a reader resolves arrows in the order of equal times.
  void add_transfers(std::span<const Process> lane) {
    if (lane.empty()) return;
    std::vector<const Process*> of_role(graph_.roles.size(), nullptr);
    for (const Process& p : lane) of_role[p.role] = &p;
    for (const Transfer& t : transfers(*lane.front().times)) {
      const Rendezvous& rendezvous = graph_.rendezvous[static_cast<size_t>(t.id)];
      Slice slice{nanoseconds(t.begin), nanoseconds(t.end),
                  out_.intern(Interned::name, graph_.text(rendezvous.label)), 0};
      const bool both =
          t.arrow && of_role[t.ends[0].role] != nullptr && of_role[t.ends[1].role] != nullptr;
      if (both) ++counts_.arrows;
      for (size_t i = 0; i < t.ends.size(); ++i) {
        const Process* const process = of_role[t.ends[i].role];
        if (process == nullptr) continue;
        const uint64_t track = free_track(process->number, t.ends[i].track, t);
        open_slice(track, slice);
        annotate(annotation_.work, kStringIid, described(rendezvous.work));
        if (both)
          event_.fixed64(i == 0 ? kFlowIds : kTerminatingFlowIds,
                         static_cast<uint64_t>(counts_.arrows));
        out_.event(slice.begin, event_);
        close_slice(track, slice.end);
      }
    }
  }

  void add_memory(const Process& process) {
    if (process.role >= result_.memory.size()) return;
    const RoleMemory& memory = result_.memory[process.role].memory;
    const auto& items = process.own().items;
    ProtoMessage counter;
    counter.varint(kUnit, kBytesUnit);
    counter.text(kShareKey, "memory");
    const uint64_t track = add_track(process.number, "memory", kStreams + 2, &counter);
    sample(track, Time{}, memory.start);
    for (const MemoryPoint& point : memory.curve)
      if (point.item < items.size()) sample(track, items[point.item].end, point.allocated);
  }

  void sample(uint64_t track, Time t, Bytes bytes) {
    begin_event(kCounterSample, track);
    event_.varint(kCounterValue, static_cast<uint64_t>(bytes.value));
    out_.event(nanoseconds(t), event_);
  }

  struct AnnotationNames {
    uint64_t microbatch = 0, stage = 0, layer = 0, work = 0;
  };

  const Result& result_;
  const OpGraph& graph_;
  PacketWriter out_;
  TraceCounts counts_;
  AnnotationNames annotation_;
  std::vector<std::vector<Process>> lanes_;
  std::vector<uint64_t> next_track_;  // by process
  std::vector<uint64_t> described_;   // by work; 0 = not yet
  std::map<std::pair<uint32_t, std::string>, std::vector<std::pair<uint64_t, Time>>>
      transfer_tracks_;  // by process and name
  ProtoMessage event_, annotation_message_;
};

}  // namespace

TraceCounts write_perfetto(const Result& result, const TraceOptions& options,
                           const TraceSink& sink) {
  STEPCAST_CHECK(result.graph && result.prices, "a trace is read out of graph and prices");
  STEPCAST_CHECK(result.timeline.roles.size() == result.graph->roles.size(),
                 "a timeline of this graph");
  return TraceBuilder(result, options, sink).write();
}

}  // namespace stepcast
