// SPDX-License-Identifier: Apache-2.0
// What equal_ranks.cc knows of a step while it runs.  Internal to it and to equal_ranks_periods.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "sim/contention/contention_program.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/spend.h"
#include "sim/lanes/lane_recorder.h"

namespace stepcast::contention::equal {

__extension__ using Units = __int128;

constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kNotYet = INT64_MIN;
constexpr auto kComputing = static_cast<size_t>(Stream::compute);

// A collective of a role, or what a rendezvous moves.
struct Flight {
  enum class State : uint8_t { none, to_begin, on, ended };

  int64_t event = kNever;  // its begin or its end
  int64_t begin = 0, end = 0;
  int64_t last = 0;  // `left` is as of this moment
  Units left = 0;
  uint32_t busy = 0;  // of its ranks compute, as of the last settled moment
  State state = State::none;
  bool slowed = false;  // as of the last settled moment
  bool fresh = false;   // it began at this moment
  bool dirty = false;
};

struct Meeting {
  int64_t begin = kNotYet;  // the latest post so far
  int64_t end = kNotYet;
  uint32_t arrived = 0;
  uint32_t visits = 0;  // posts and joins that were executed
  // Of the record.
  int64_t last = kNotYet;
  uint32_t last_role = UINT32_MAX, last_item = 0;
};

// An execution of a pass that some thread of the role is in.
struct Visit {
  static constexpr uint32_t kFree = UINT32_MAX;

  uint32_t item = kFree;
  uint32_t threads = 0;        // that have not left it
  std::vector<int64_t> slots;  // kNotYet: not known
  std::vector<StragglerWait> straggler;
};

// What a thread waits for.
enum class Until : uint8_t { slot, record, host, meeting, flight, compute };
constexpr size_t kUntils = 6;

struct Walker {
  uint8_t code = 0;   // a stream, or kHost
  uint8_t state = 0;  // collective: 1 begun; chain: 2 its ops have ended
  Until parked = Until::compute;
  uint32_t slot = 0;  // that it waits for
  uint32_t at = 0;    // in RoleThreads::items
  uint32_t pc = 0;    // in the code of the pass
  uint32_t ops = 0;   // of the chain at pc that are done or run
  // Of the pass that it is in; null: it is in none.
  const PassThreads* pass = nullptr;
  Visit* visit = nullptr;
  int64_t launched = 0;  // when the host came to it
};

// Where the threads of the streams beside compute stand in a pass; kAway: not in it.
using Places = std::array<uint32_t, kStreams>;
constexpr uint32_t kAway = UINT32_MAX;

// From one quiet point of a pass to the next (see below).  Times are from the first.
struct Stretch {
  struct Slot {
    uint32_t slot = 0;
    int64_t time = 0;
    StragglerWait straggler;
  };

  bool known = false;
  uint32_t next = 0;  // pc of the next quiet point
  Places pcs{}, next_pcs{};
  int64_t length = 0;
  int64_t slack = INT64_MAX;                       // of what begins: its begin - its launch
  std::vector<Slot> slots;                         // that become known
  std::vector<std::pair<uint32_t, int64_t>> time;  // of streams
  std::vector<std::pair<Spend, int64_t>> booked;
  std::vector<std::pair<uint32_t, StragglerWait>> straggler;  // by stream
  int64_t collectives = 0;
};

// What a role does by itself, and the last quiet point, if nothing has interfered since.
struct Quiet {
  size_t stretches = 0;         // what it and roles with the same threads have learnt
  std::vector<uint32_t> peers;  // whose posts may begin something in its passes
  uint32_t query = 0;           // the last that asked it
  bool learns = false;
  uint32_t item = 0, pc = 0;
  int64_t begin = 0, slack = 0, collectives = 0;
  Places pcs{};
  std::array<int64_t, kStreams> time{};
  std::vector<uint32_t> slots;  // known since
  std::array<StragglerWait, kStreams> straggler{};
  std::array<int64_t, kSpends> booked{};
};

struct EventRecord {
  int64_t time = kNotYet;
  uint32_t waited = 0;  // waits for it that were executed
  StragglerWait straggler;
};

struct Role {
  std::vector<Walker> walkers;
  uint32_t runnable = 0;                   // a bit for each
  std::array<uint32_t, kUntils> parked{};  // those that wait, by what for
  uint32_t computes = 0;                   // index of the one on the compute stream
  uint32_t pending = 0;                    // flights of it that have yet to begin
  std::vector<uint32_t> beside;            // flights that are on
  std::vector<uint32_t> events;            // flights whose begin or end is an event of this role
  std::array<int64_t, kStreams> time{};
  std::vector<int64_t> host;  // by segment: at its begin
  uint32_t segments = 1;      // known
  std::deque<Visit> visits;   // a deque, so that references stay valid
  std::vector<EventRecord> records;
  int64_t first_start = kNotYet;  // of compute
  bool launch_mattered = false;   // some was late since periods were last looked at
  int64_t last_late = kNotYet;    // begin of the last op of which the launch may have been late

  // Compute.
  Units left = 0, over = 0;         // of the chain that runs; progress beyond the end
                                    // of the last one
  int64_t last = 0;                 // `left` is as of this moment
  int64_t event = kNever;           // end of the ops that run, or begin of the next
  int64_t begin = 0;                // of the ops that run
  int64_t ps = 0;                   // of these
  uint32_t first_op = 0;            // of the chain, of those
  uint32_t last_pc = 0;             // of the last chain that they belong to
  bool runs = false, busy = false;  // now; as of the last settled moment
  bool slow = false;                // communication beside it, as of the last settled moment
  bool exact = false;               // the stream stands where the last chain ended
  bool fresh = false;               // what runs began with a whole 1/4096 ps
  bool restarted = false, dirty = false, queued = false;
  Quiet quiet;

  // Of the record.
  std::vector<std::pair<int64_t, int64_t>> items;  // begin and end on the compute stream
  std::array<StragglerWait, kStreams> straggler{};
};

}  // namespace stepcast::contention::equal
