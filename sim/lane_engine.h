// SPDX-License-Identifier: Apache-2.0
// Inside of the engine of lanes (lanes.h); not for others.
//
// A role is executed once for all of its lanes: every clock is a vector with a time for each.  A
// role runs ahead until it meets a rendezvous that others have not reached.
//
//   lane_engine.cc  roles and their items; rendezvous
//   lane_passes.cc  clocks; passes, instruction by instruction
//   lane_notes.cc   what is written down of one lane
//   lanes.cc        results
//
// All times are in 1/4096 ps.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/jitter.h"
#include "sim/lane_fold.h"
#include "sim/lane_groups.h"
#include "sim/lane_program.h"
#include "sim/lane_record.h"
#include "sim/lane_speeds.h"
#include "sim/lanes.h"
#include "sim/role_queue.h"

namespace stepcast {

class LaneEngine {
 public:
  // `record`: the lane to record, or -1; `ops`: and each of its ops.  REQUIRES: then not `merge`.
  LaneEngine(const OpGraph& graph, const Prices& prices, const FoldedLanes& folded, bool merge,
             int64_t record, bool ops = false);

  // Throws Deadlock.
  void run();

  // When the last stream of each lane ends.
  std::vector<int64_t> ends(size_t r) const;
  const std::vector<int64_t>& begins(size_t r) const { return roles_[r].begin; }
  int64_t role_ops(size_t r) const { return static_cast<int64_t>(roles_[r].instances); }

  // REQUIRES: a lane was recorded.
  Timeline take_timeline();

 private:
  static constexpr auto kCompute = static_cast<size_t>(Stream::compute);

  struct RoleState {
    std::array<LaneClock, kStreams> stream;
    LaneClock host;           // the host's time is this ...
    int64_t host_offset = 0;  // ... and so much more, on all lanes
    uint32_t item = 0;        // next one to execute
    std::vector<LaneClock> events;
    std::vector<uint32_t> event_waits;  // still to come
    bool started = false;
    std::vector<int64_t> begin;  // of the first op on the compute stream
    uint64_t instances = 0;      // ops executed
    std::array<StragglerWait, kStreams> straggler{};
    std::vector<StragglerWait> event_straggler;
  };

  struct Meeting {
    LaneClock clock;  // while posts come in: the latest; then its end
    uint32_t posts = 0;
    uint32_t joins = 0;           // still to come
    uint32_t sleepers = kNobody;  // roles that stand at its join
    // On the recorded lane:
    int64_t begin = 0;
    uint32_t last_role = kNobody, last_item = 0;
    std::vector<std::pair<uint32_t, int64_t>> posted;  // by whom, when
  };

  // --- before the run, items (lane_engine.cc)

  LaneTraits traits_of_lanes() const;
  // Which roles a rendezvous joins: those that post it or wait for it.
  void find_ends();
  void prepare_role(size_t r);
  // Executes items of role r until it has to wait for another role or is done.
  void advance(uint32_t r);
  // The time on the recorded lane.
  int64_t on_lane(const LaneClock& clock) const;
  // False if the item has to be tried again later.
  bool execute(uint32_t r, RoleState& role, const Item& item);
  void wait(uint32_t r, RoleState& role, const Item& item, LaneClock& stream);
  void post(uint32_t r, RoleState& role, const Item& item, const LaneClock& stream);
  void complete(uint32_t id, const Work& work, Meeting& m);
  bool join(uint32_t r, RoleState& role, const Item& item, LaneClock& stream);

  // --- clocks, passes (lane_passes.cc)

  void raise(LaneClock& c, const LaneClock& other, int64_t by);
  // c = max(c, host + lead), unless no lane can be that early.
  void raise_by_host(const RoleState& role, LaneClock& c, int64_t lead);
  // The host waits for `until`.
  void hold_host(RoleState& role, const LaneClock& until);
  void copy(LaneClock& to, const LaneClock& from);
  void release(LaneClock& clock);
  LaneClock& place(RoleState& role, LanePlace p);
  void run_pass(uint32_t r, RoleState& role, const Item& item);
  void note_begin(RoleState& role, const LaneInstruction& in, int64_t launch, const LaneClock& c,
                  const LaneClock* other);
  Axis axis_of(const LaneInstruction& in) const;
  // Waits, then stands where the host lets a single op begin.
  void get_ready(RoleState& role, const LaneInstruction& in, LaneClock& c, const LaneClock* other);
  void mark_start(RoleState& role, const LaneInstruction& in, const LaneClock& c);
  void run_chain(const RoleSpeeds& speeds, RoleState& role, const LanePass& pass,
                 const LaneInstruction& in, LaneClock& c, const LaneClock* other);
  // c = max(c, other + delay) + duration
  void add_duration(const RoleSpeeds& speeds, const LaneInstruction& in, LaneClock& c,
                    const LaneClock* other);
  void add_scaled(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& line);
  // The bounds, after the duration has been added.
  static void later(const RoleSpeeds& speeds, LaneClock& c, const LaneLine& duration);
  // c = max(c, host + line)
  void raise_by_line(const RoleSpeeds& speeds, const RoleState& role, const LaneLine& line,
                     LaneClock& c);
  // One op of compute on lanes with jitter or windows.
  void run_by_op(const RoleSpeeds& speeds, RoleState& role, const LaneInstruction& in, LaneClock& c,
                 const LaneClock* other);
  void run_join(uint32_t r, RoleState& role, const LaneInstruction& in, LaneClock& c,
                const LaneClock* other);

  // --- what is recorded (lane_notes.cc)

  StragglerWait& straggler_at(RoleState& role, LanePlace p);
  void note_wait(uint32_t r, RoleState& role, const LaneInstruction& in, const LaneClock& c,
                 const LaneClock& other);
  // Runs an instruction and notes why its stream stood still, and what it took beyond its price.
  void run_recorded(uint32_t r, RoleState& role, const LanePass& pass, const LaneInstruction& in,
                    LaneClock& c, const LaneClock* other);
  // Both return when it begins on the recorded lane, of a chain only if it is a single op.
  int64_t record_join(uint32_t r, RoleState& role, const LaneInstruction& in, LaneClock& c);
  int64_t record_op(uint32_t r, RoleState& role, const LanePass& pass, const LaneInstruction& in,
                    LaneClock& c);
  void note_slowness(uint32_t r, const LanePass& pass);
  void note_post(uint32_t r, const RoleState& role, const LaneClock& stream, Axis axis, Meeting& m);
  void note_join(uint32_t r, const RoleState& role, const Item& item, const Meeting& m);

  const OpGraph& graph_;
  int64_t n_ = 1;
  size_t size_ = 1;
  LaneGroups groups_;
  int64_t recorded_ = -1;
  std::unique_ptr<LaneRecord> record_;
  std::vector<RoleState> roles_;
  std::vector<Meeting> meetings_;
  RoleQueue queue_;
  std::vector<RoleSpeeds> speeds_;
  JitterTable jitter_{};
  LaneProgram merged_, single_;
  std::vector<std::vector<uint32_t>> ends_;  // of rendezvous, where it matters
  std::vector<LaneClock> slots_;             // of the pass being run; passes never stop half-way
  std::vector<StragglerWait> slot_straggler_;
  std::vector<int64_t> begins_;             // of the op being run, on lanes with windows
  std::vector<std::vector<int64_t>> free_;  // vectors to be used again
};

}  // namespace stepcast
