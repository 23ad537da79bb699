// SPDX-License-Identifier: Apache-2.0
// Periods of a step of equal ranks that need not be run, since they are the one before, later.
//
// An example: role 0 of 1F1B does F9 B8 from 100 to 104 ms, F10 B9 from 104 to 108, and whenever
// its list has come so far, everything that runs, waits or is on its way in any role stands as it
// did 4 ms before, for microbatches that are lower by one.  What happens next depends on that
// state and on the lists alone.  So F11 B10 takes 4 ms as well, and so on for as long as all roles
// repeat what they did (steady_state.h).  With 40 such periods left before the first role's list
// changes, the state is put 160 ms and 40 microbatches later.
//
// States are compared number by number, times from the moment on, microbatches from the first of
// the period.  Two things are not periodic and need not be.  A host that waits for nothing runs
// ahead: what it launches in a period takes it less time than the period.  That may be left out if
// no launch was late in the period, since none will be in the next.  And streams that have nothing
// to do in the windows stand where they stood.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/contention/contention_program.h"
#include "sim/contention/equal_ranks_state.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/steady_state.h"
#include "sim/lanes/lane_recorder.h"

namespace stepcast::contention::equal {

// All that a step is while it runs.
struct Running {
  const OpGraph& graph;
  const ContentionProgram& program;
  std::vector<Role>& roles;
  std::vector<int64_t>& next;    // by role: its next event
  std::vector<Flight>& flights;  // [role][stream], then by rendezvous
  std::vector<Meeting>& meetings;
  int64_t& now;
  int64_t& shared_ops;
  std::optional<LaneRecorder>& recorder;
};

class Periods {
 public:
  explicit Periods(const Running& step);

  // Whether a period may have ended.
  bool due() const {
    return next_at_ != kDone && step_.roles[anchor_].walkers[anchor_walker_].at >= next_at_;
  }
  // REQUIRES: due(); the moment is settled.  Puts the step as many periods later as is certain.
  // Returns the rendezvous that ended in what was left out.
  std::vector<uint32_t> look();

  int64_t left_out() const { return left_out_; }

  // The compute stream stood still at this join or wait for an event.
  struct Standstill {
    uint32_t item = 0;
    int64_t begin = 0, end = 0;
    StragglerWait straggler;  // of an event
  };
  // Of role r.  REQUIRES: the step is recorded.
  void stood(uint32_t r, const Standstill& stood) {
    if (next_at_ != kDone && stood.begin < stood.end) stood_[r].push_back(stood);
  }

 private:
  static constexpr uint32_t kDone = UINT32_MAX;

  // What a period adds to the numbers of a role.
  struct Advance {
    std::vector<uint32_t> walkers;       // to its place in its list
    std::array<bool, kStreams> moves{};  // whether the stream has a part
    uint32_t segments = 0, records = 0;
    int64_t launched = 0;  // by a host that waits for nothing
  };

  // The state of a step at one moment.
  struct State {
    std::vector<int64_t> numbers;
    int64_t period = 0;  // counted from the first state that was looked at
    // As they are: these grow from period to period.
    int64_t now = 0, shared_ops = 0;
    std::vector<uint32_t> compute_at;  // by role
    std::vector<std::array<int64_t, kSpends>> booked;
  };

  bool find_windows();
  bool find_advance(uint32_t role);
  bool find_host(uint32_t role);
  void number_rendezvous();
  // Whether all threads are where their lists repeat themselves.
  bool is_inside() const;
  bool is_inside(uint32_t r, uint32_t item) const;

  State state(int64_t period) const;
  void put_role(uint32_t r, int64_t period, State& out) const;
  void put_visits(uint32_t r, int64_t period, State& out) const;
  void put_host(uint32_t r, int64_t period, State& out) const;
  void put_records(uint32_t r, int64_t period, State& out) const;
  void put_flight(const Flight& flight, State& out) const;
  void put_meetings(int64_t period, State& out) const;
  void put_time(int64_t time, State& out) const;
  void put_wait(const StragglerWait& wait, State& out) const;
  bool is_open(uint32_t id) const;
  bool is_open(uint32_t r, uint32_t record) const;
  uint32_t first_segment(uint32_t r) const;

  // How many periods all roles go on alike.
  uint32_t periods_left() const;
  bool hosts_keep_ahead(int64_t period) const;
  bool all_of_later(uint32_t periods, const std::vector<uint32_t>& rendezvous) const;
  uint32_t later(uint32_t id, uint32_t periods) const;
  std::vector<uint32_t> skip(const State& before, uint32_t periods);
  void move_role(uint32_t r, uint32_t periods, int64_t time);
  void move_host(uint32_t r, uint32_t periods, int64_t time);
  void move_records(uint32_t r, uint32_t periods, int64_t time);
  void record_role(uint32_t r, const State& before, uint32_t periods, int64_t time);

  const Running step_;
  SteadyState steady_;
  uint32_t first_meeting_ = 0;
  std::vector<Advance> advances_;                      // by role
  std::vector<std::pair<uint32_t, int64_t>> numbers_;  // by rendezvous: the first of its kind, and
                                                       // how many periods later it is
  uint32_t anchor_ = 0, anchor_walker_ = 0, next_at_ = kDone;
  std::optional<State> last_;
  int64_t left_out_ = 0;
  std::vector<std::vector<Standstill>> stood_;  // by role: since the last look
};

}  // namespace stepcast::contention::equal
