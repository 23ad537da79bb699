// SPDX-License-Identifier: Apache-2.0
#include "report/trace/perfetto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "sim/check.h"
#include "tests/report/sample.h"

namespace stepcast::perfetto_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

// --- a reader of the wire format, written from its specification ---

struct Field {
  uint64_t number = 0;
  uint64_t value = 0;     // varint, fixed64
  std::string_view text;  // length-delimited
};

uint64_t read_varint(std::string_view& in) {
  uint64_t v = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (in.empty()) throw std::runtime_error("cut off");
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    v |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return v;
  }
  throw std::runtime_error("varint too long");
}

std::vector<Field> fields_of(std::string_view in) {
  std::vector<Field> fields;
  while (!in.empty()) {
    const uint64_t key = read_varint(in);
    Field f{key >> 3, 0, {}};
    size_t length = 0;
    switch (key & 7) {
      case 0: f.value = read_varint(in); break;
      case 1:
        length = 8;
        for (size_t i = 0; i < 8; ++i)
          f.value |= uint64_t{static_cast<unsigned char>(in.at(i))} << (8 * i);
        break;
      case 2:
        length = read_varint(in);
        if (length > in.size()) throw std::runtime_error("cut off");
        f.text = in.substr(0, length);
        break;
      default: throw std::runtime_error("wire type");
    }
    in.remove_prefix(length);
    fields.push_back(f);
  }
  return fields;
}

std::optional<Field> find(const std::vector<Field>& fields, uint64_t number) {
  for (const Field& f : fields)
    if (f.number == number) return f;
  return std::nullopt;
}

uint64_t value_of(const std::vector<Field>& fields, uint64_t number) {
  const auto f = find(fields, number);
  return f ? f->value : 0;
}

struct Event {
  uint64_t type = 0, track = 0, ns = 0;
  std::string name, category;
  std::map<std::string, std::string> notes;
  uint64_t flow_begin = 0, flow_end = 0, counter = 0;
};

struct Track {
  std::string name;
  uint64_t parent = 0, order = 0;
  bool is_counter = false;
};

struct Trace {
  std::map<uint64_t, std::string> processes;
  std::map<uint64_t, Track> tracks;
  std::vector<Event> events;  // in the order of the file
  bool explicit_processes = false;

  uint64_t track(const std::string& process, const std::string& name) const {
    for (const auto& [uuid, t] : tracks)
      if (t.name == name && processes.at(t.parent) == process) return uuid;
    return 0;
  }
  std::vector<Event> on(uint64_t uuid) const {
    std::vector<Event> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [&](const Event& e) { return e.track == uuid; });
    return found;
  }
};

class Reader {
 public:
  Trace read(const std::string& bytes) {
    for (const Field& packet : fields_of(bytes)) {
      EXPECT_EQ(packet.number, 1u);
      const auto fields = fields_of(packet.text);
      EXPECT_EQ(value_of(fields, 10), 1u);
      if (const auto interned = find(fields, 12)) intern(interned->text);
      if (const auto track = find(fields, 60)) descriptor(fields_of(track->text));
      if (const auto event = find(fields, 11)) add(fields_of(event->text), value_of(fields, 8));
    }
    return std::move(trace_);
  }

 private:
  void intern(std::string_view data) {
    for (const Field& f : fields_of(data)) {
      const auto entry = fields_of(f.text);
      const bool fresh =
          strings_[f.number].emplace(value_of(entry, 1), std::string(find(entry, 2)->text)).second;
      EXPECT_TRUE(fresh);
    }
  }

  void descriptor(const std::vector<Field>& f) {
    const uint64_t uuid = value_of(f, 1);
    if (uuid == 0) {
      trace_.explicit_processes = value_of(f, 19) == 1;
    } else if (const auto process = find(f, 3)) {
      EXPECT_EQ(value_of(f, 11), 3u);
      trace_.processes[uuid] = std::string(find(fields_of(process->text), 6)->text);
    } else {
      EXPECT_TRUE(trace_.processes.contains(value_of(f, 5)));
      const Track track{std::string(find(f, 2)->text), value_of(f, 5), value_of(f, 12),
                        find(f, 8).has_value()};
      EXPECT_TRUE(trace_.tracks.emplace(uuid, track).second);
    }
  }

  void add(const std::vector<Field>& f, uint64_t ns) {
    Event e;
    e.type = value_of(f, 9);
    e.track = value_of(f, 11);
    e.ns = ns;
    EXPECT_TRUE(trace_.tracks.contains(e.track));
    if (find(f, 10)) e.name = strings_[2].at(value_of(f, 10));
    if (find(f, 3)) e.category = strings_[1].at(value_of(f, 3));
    e.counter = value_of(f, 30);
    e.flow_begin = value_of(f, 47);
    e.flow_end = value_of(f, 48);
    for (const Field& note : f) {
      if (note.number != 4) continue;
      const auto fields = fields_of(note.text);
      const std::string& name = strings_[3].at(value_of(fields, 1));
      const auto iid = find(fields, 17);
      e.notes[name] = iid ? strings_[29].at(iid->value) : std::to_string(value_of(fields, 3));
    }
    trace_.events.push_back(std::move(e));
  }

  std::map<uint64_t, std::map<uint64_t, std::string>> strings_;
  Trace trace_;
};

std::string trace_bytes(const Result& r, const TraceOptions& options = {}) {
  std::string bytes;
  write_perfetto(r, options, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

Trace trace_of(const Result& r, const TraceOptions& options = {}) {
  return Reader().read(trace_bytes(r, options));
}

// --- tests ---

TEST(Perfetto, HasAProcessForEachRankAndATrackForEachStream) {
  const Trace t = trace_of(sample_result());
  EXPECT_TRUE(t.explicit_processes);
  ASSERT_EQ(t.processes.size(), 2u);
  for (const std::string process : {"stage 0", "stage 1"})
    for (const std::string track : {"compute", "tp", "pp send", "pp receive", "memory"})
      EXPECT_NE(t.track(process, track), 0u) << process << ' ' << track;
}

TEST(Perfetto, SlicesNestAndBalanceAndAreInOrder) {
  const Trace t = trace_of(sample_result());
  for (const auto& [uuid, track] : t.tracks) {
    if (track.is_counter) continue;
    int depth = 0;
    uint64_t last = 0;
    for (const Event& e : t.on(uuid)) {
      EXPECT_GE(e.ns, last) << track.name;
      last = e.ns;
      depth += e.type == 1 ? 1 : e.type == 2 ? -1 : 1000;
      EXPECT_GE(depth, 0);
      EXPECT_LE(depth, 2);
    }
    EXPECT_EQ(depth, 0) << track.name;
  }
}

TEST(Perfetto, APassHoldsItsOpsAtTheirTimes) {
  const Trace t = trace_of(sample_result());
  const auto events = t.on(t.track("stage 0", "compute"));
  // 0F0: product 0..100 us, norm 120..150 us behind the all-reduce.
  ASSERT_GE(events.size(), 6u);
  EXPECT_EQ(events[0].name, "0F0");
  EXPECT_EQ(events[0].ns, 0u);
  EXPECT_EQ(events[1].name, "qkv");
  EXPECT_EQ(events[1].category, "forward");
  EXPECT_EQ(events[2].ns, 100'000u);
  EXPECT_EQ(events[3].name, "norm");
  EXPECT_EQ(events[3].ns, 120'000u);
  EXPECT_EQ(events[5].ns, 150'000u);
  EXPECT_EQ(events.back().ns, 1'510'000u);
}

TEST(Perfetto, SlicesSayWhatTheyAre) {
  const Trace t = trace_of(sample_result());
  const auto events = t.on(t.track("stage 1", "tp"));
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events[0].notes, Contains(Pair("stage", "1")));
  EXPECT_THAT(events[0].notes, Contains(Pair("microbatch", "0")));
  EXPECT_THAT(events[0].notes, Contains(Pair("layer", "0")));
  EXPECT_THAT(events[0].notes, Contains(Pair("work", "all_reduce tp 1100000 B")));
}

TEST(Perfetto, ArrowsLeadFromASendToItsReceipt) {
  const Trace t = trace_of(sample_result());
  std::map<uint64_t, std::string> begun;
  size_t ended = 0;
  for (const Event& e : t.events) {
    if (e.flow_begin != 0) {
      EXPECT_EQ(t.tracks.at(e.track).name, "pp send");
      EXPECT_TRUE(begun.emplace(e.flow_begin, e.name).second);
    }
    if (e.flow_end != 0) {
      EXPECT_EQ(t.tracks.at(e.track).name, "pp receive");
      // Begun before in the file, too.
      ASSERT_TRUE(begun.contains(e.flow_end));
      EXPECT_EQ(begun[e.flow_end], e.name);
      ++ended;
    }
  }
  EXPECT_EQ(begun.size(), 4u);
  EXPECT_EQ(ended, 4u);
}

TEST(Perfetto, TransfersThatOverlapGetTracksOfTheirOwn) {
  Result r = sample_result();
  r.timeline.rendezvous[1].begin = r.timeline.rendezvous[0].begin;
  r.timeline.rendezvous[1].end = r.timeline.rendezvous[0].end;
  const Trace t = trace_of(r);
  EXPECT_EQ(t.on(t.track("stage 0", "pp send")).size(), 2u);
  EXPECT_EQ(t.on(t.track("stage 0", "pp send 2")).size(), 2u);
  EXPECT_EQ(t.track("stage 0", "pp send 3"), 0u);
}

TEST(Perfetto, MemoryIsACounter) {
  const Result r = sample_result();
  const Trace t = trace_of(r);
  const uint64_t uuid = t.track("stage 0", "memory");
  EXPECT_TRUE(t.tracks.at(uuid).is_counter);
  std::vector<uint64_t> values;
  for (const Event& e : t.on(uuid)) {
    EXPECT_EQ(e.type, 4u);
    values.push_back(e.counter);
  }
  EXPECT_THAT(values,
              ElementsAre(8'000'000, 9'500'000, 11'000'000, 9'500'000, 8'000'000, 8'000'000));
}

TEST(Perfetto, WritesOnlyTheRanksAskedFor) {
  const Result r = sample_result();
  std::string bytes;
  const TraceCounts counts =
      write_perfetto(r, {{1}}, [&](std::string_view piece) { bytes += piece; });
  const Trace t = Reader().read(bytes);
  ASSERT_EQ(t.processes.size(), 1u);
  EXPECT_EQ(t.processes.begin()->second, "stage 1");
  EXPECT_EQ(counts.ranks, 1);
  EXPECT_EQ(counts.arrows, 0);
  for (const Event& e : t.events) EXPECT_EQ(e.flow_begin + e.flow_end, 0u);
}

TEST(Perfetto, RanksThatDifferAreProcessesWithTheirOwnTimes) {
  Result r = sample_result();
  Timeline slow = r.timeline;
  for (RoleTimeline& role : slow.roles)
    for (const Time start : role.op_start) role.op_end.push_back(start + Time{7'000});
  r.traced = {{slow, {1}, {"rank 5 (stage 1)"}}, {r.timeline, {0, 1}, {"rank 0", "rank 4"}}};
  std::string bytes;
  const TraceCounts counts = write_perfetto(r, {}, [&](std::string_view piece) { bytes += piece; });
  const Trace t = Reader().read(bytes);
  EXPECT_EQ(counts.ranks, 3);
  EXPECT_EQ(counts.arrows, 4);  // of the lane of which both ends are there
  ASSERT_EQ(t.processes.size(), 3u);
  EXPECT_EQ(t.processes.begin()->second, "rank 5 (stage 1)");
  const auto last_end = [&](const char* process) {
    return t.on(t.track(process, "compute")).back().ns;
  };
  EXPECT_EQ(last_end("rank 5 (stage 1)"),
            static_cast<uint64_t>(slow.roles[1].op_end.back().count() / 1000));
  EXPECT_GT(last_end("rank 4"), last_end("rank 5 (stage 1)"));
}

TEST(Perfetto, CountsItsSlices) {
  const Result r = sample_result();
  const TraceCounts counts = write_perfetto(r, {}, [](std::string_view) {});
  const Trace t = trace_of(r);
  EXPECT_EQ(counts.slices, std::count_if(t.events.begin(), t.events.end(),
                                         [](const Event& e) { return e.type == 1; }));
  EXPECT_EQ(counts.ranks, 2);
  EXPECT_EQ(counts.arrows, 4);
}

TEST(Perfetto, IsTheSameEveryTime) {
  EXPECT_EQ(trace_bytes(sample_result()), trace_bytes(sample_result()));
}

TEST(Perfetto, WhatTheSinkThrowsPassesThrough) {
  struct DiskFull {};
  EXPECT_THROW(write_perfetto(sample_result(), {}, [](std::string_view) { throw DiskFull{}; }),
               DiskFull);
}

TEST(Perfetto, ATimelineWithoutTheStartsOfOpsIsABug) {
  Result r = sample_result();
  r.timeline.roles[0].op_start.clear();
  EXPECT_THROW(trace_bytes(r), InternalError);
  EXPECT_THROW(trace_bytes(empty_result()), InternalError);
  EXPECT_THROW(trace_bytes(sample_result(), {{7}}), InternalError);
}

TEST(Perfetto, ProtocReadsItToo) {
  if (std::system("command -v protoc > /dev/null 2>&1") != 0) GTEST_SKIP() << "no protoc";
  std::FILE* protoc = popen("protoc --decode_raw > /dev/null", "w");
  ASSERT_NE(protoc, nullptr);
  const std::string bytes = trace_bytes(sample_result());
  EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), protoc), bytes.size());
  EXPECT_EQ(pclose(protoc), 0);
}

}  // namespace
}  // namespace stepcast::perfetto_test
