// SPDX-License-Identifier: Apache-2.0
// Internal to the contention engine (contention.h).
//
// A block is a rank, or the ranks of a tp group that only communicate among themselves.  It has
// threads (contention_program.h); a thread runs ahead through everything whose times are known and
// stops at what is not: the end of a flow, or a rendezvous that other ranks have not reached.  When
// no thread can go on, the earliest known moment at which something starts or ends is processed;
// every start before it is known, since what stops a thread ends no earlier.
//
// With interference the end of compute is not known ahead either: it is an event like the end of a
// flow, and is found anew whenever communication beside it starts or ends.
//
//   contention_program.*         the code of threads, and which of them may go in lockstep
//   contention.cc                the clock, threads item by item, what is recorded, results
//   contention_compute.cc        passes instruction by instruction; compute that is slowed
//   contention_communication.cc  collectives and transfers from arrival to end; windows
//   folded_traffic.*             which ranks that share links are equal
//   undisturbed_passes.*         which passes of equal ranks follow from where they begin
//   equal_ranks.*                an engine of its own for equal ranks that only interfere
//
// All times are in 1/4096 ps, on the network too: bytes are multiplied by 4096 there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "sim/contention/contention.h"
#include "sim/contention/contention_program.h"
#include "sim/contention/flow_network.h"
#include "sim/contention/folded_traffic.h"
#include "sim/contention/undisturbed_passes.h"
#include "sim/lanes/lane_recorder.h"
#include "sim/lanes/lane_speeds.h"

namespace stepcast::contention {

__extension__ using Wide = __int128;

constexpr int64_t kUnknown = INT64_MIN;
constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kFreed = UINT32_MAX - 1;
constexpr auto kCompute = static_cast<size_t>(Stream::compute);

// The ranks of one group that have arrived at a collective or rendezvous.
struct Arrivals {
  int64_t begin = kUnknown;  // latest arrival so far
  int64_t end = kUnknown;
  uint32_t arrived = 0;
  uint32_t first_waiter = kNone;  // threads that sleep until its end, linked by Thread::next_waiter
};

// One occurrence of a collective of a role, or of a rendezvous, for all groups of lanes; of a
// collective of tp groups under interference, for one.  It lives from the first arrival until all
// lanes have left.
struct Occurrence {
  std::vector<Arrivals> groups;
  uint32_t first_group = 0;  // of `groups`
  uint32_t id = 0;           // index in Engine::occurrences_
  uint32_t work = 0;
  uint32_t needed = 0;    // arrivals of each lane of a group
  int64_t left = 0;       // visits to come
  uint32_t source = 0;    // index in Engine::sequences_; or rendezvous
  uint32_t sequence = 0;  // of a collective
  uint32_t role = 0;      // of a collective
  bool is_rendezvous = false;

  Arrivals& of(uint32_t group) { return groups[group - first_group]; }
  const Arrivals& of(uint32_t group) const { return groups[group - first_group]; }
};

// Communication whose end is not known from its beginning.
struct Transfer {
  uint32_t occurrence = 0, group = 0;
  bool on = false;
  bool listed = false;  // in Rank::transfers
  bool flows = false, moving = false, slowed = false;
  bool dirty = false, restarted = false;  // as of Rank
  uint32_t version = 0;                   // of the event of its end
  uint32_t busy = 0;                      // ranks of it that compute
  uint8_t link_class = 0;                 // outside windows
  int64_t price = 0;                      // as of the last settled moment
  std::vector<LaneSpan> spans;            // windows of its links
  FlowNetwork::Flow flow = 0;
  int64_t known_end = kUnknown;  // from a run before
  const std::vector<LinkUse>* uses = nullptr;
  uint32_t pattern = 0;
  int64_t begin = 0;     // of its flow
  int64_t cap = 0;       // of its flow, alone
  int64_t most_cap = 0;  // so far
  int64_t latency = 0;   // of its flow
  int64_t last = 0;      // `left` is as of this moment
  Wide left = 0;         // private: units of its price; may be negative when it is over
};

struct Thread {
  uint32_t block = 0;
  uint32_t lane = 0, lanes = 1;  // of the block
  uint32_t at = 0;               // in RoleThreads::items
  uint32_t pc = 0;               // program counter, in the code of the pass
  uint32_t ops = 0;              // of the chain at pc that are done
  uint32_t sequence = 0;         // collectives with other blocks, or on shared links, so far ...
  uint32_t tp_sequence = 0;      // ... and under interference those of its tp group by itself
  uint8_t code = 0;  // a stream, kHost or kLockstep; kPasses: those are run by another thread
  uint8_t list = 0;  // of items
  // Collective: 1 arrived, 2 begun; chain that is slowed: 1 runs, 2 has ended; pass that the block
  // runs as a whole: 1 arrived.
  uint8_t state = 0;
  uint32_t next_waiter = kNone;  // of those that sleep for the same thing

  uint64_t mask() const { return (~uint64_t{0} >> (64 - lanes)) << lane; }
};

// An execution of a pass that some thread of the block is in.
struct LivePass {
  uint32_t item = 0;
  // How it goes on from the moment at which its ranks have met; null: op by op.
  const LonePassEnd* rest = nullptr;
  int64_t met = 0;
  uint32_t threads = 0;                  // that have not left it
  std::vector<int64_t> slots;            // [slot][lane]
  std::vector<uint64_t> known;           // by slot, a bit a lane
  std::vector<uint32_t> waiters;         // by slot: threads that sleep until more of it is known
  std::vector<StragglerWait> straggler;  // by slot, of the recorded lane
};

// The record of an event for which waits are still to come.
struct LiveEvent {
  uint32_t record = 0;
  uint32_t waits = 0;  // to come
  uint64_t known = 0;
  std::vector<int64_t> time;
  StragglerWait straggler;  // of the recorded lane
};

// Compute of one rank under interference.
struct Rank {
  Wide progress = 0, target = 0, exact_end = 0;  // in units; see contention_compute.cc
  int64_t last = 0;                              // `progress` is as of this moment
  uint32_t version = 0;
  bool runs = false, busy = false;  // a chain is running: now; as of the last settled moment
  bool slow = false;                // communication beside it, as of the last settled moment
  bool exact = false;               // the stream ended at exact_end
  bool dirty = false;               // something changed at this moment
  bool restarted = false;           // needs a new event
  std::vector<uint32_t> transfers;  // that are on
  int64_t begin = 0;                // of the ops that run
  uint32_t first_op = 0;            // of the chain, of those
  uint32_t thread = 0;              // that runs it
  uint32_t factor = kNominal;       // jitter of the op that runs
  int64_t pace = 0;                 // its slowness with that, now ...
  int64_t first_pace = 0;           // ... and when it began
};

struct Block {
  uint32_t role = 0;
  uint32_t lane = 0;               // the first
  uint32_t first_thread = 0;       // in Engine::threads_ ...
  uint32_t end_thread = 0;         // ... up to here
  uint32_t event_waiters = kNone;  // threads that sleep until something is recorded
  uint32_t host_waiters = kNone;   // ... until the host's time is known further
  uint32_t pass_waiters = kNone;   // ... until a pass has been run
  uint32_t pass_thread = kNone;    // Lockstep::passes: which runs them
  uint32_t arrived = 0;            // lanes, at its next one
  std::vector<uint32_t> segments;  // known of each lane of the block
  std::vector<LivePass> passes;
  std::vector<LiveEvent> events;
  std::vector<int64_t> time;  // [stream][lane of the block]
  std::vector<int64_t> host;  // [segment][lane of the block]: at its begin
};

// Where a thread is inside a pass, with what its instructions need.
struct Place {
  Block& block;
  Thread& th;
  const PassThreads& pass;
  PassId id;
  LivePass& live;
  const int64_t* host;      // by lane: at the begin of the segment ...
  int64_t launched;         // ... and since, before the pass
  uint64_t first_instance;  // number of its first op in the role
  bool recorded;            // the recorded lane is among its lanes
  bool undisturbed;         // and its ranks are equal (undisturbed_passes.h)
};

// What the recorded lane has to remember of a role, and of a rendezvous.
struct RoleRecord {
  std::vector<std::pair<int64_t, int64_t>> items;  // begin and end on the compute stream
  std::array<StragglerWait, kStreams> straggler;   // of the latest collective
};
struct RendezvousRecord {
  uint32_t last_role = kNone, last_item = 0;
  int64_t last = kUnknown;
  std::vector<std::pair<uint32_t, int64_t>> own;  // posts of the lane: by which role, when
};

// When all that reaches beyond a tp group began and ended, from a run of all lanes: with that any
// tp group can be run again by itself.
struct MeetingTimes {
  struct Times {
    int64_t begin = kUnknown, end = kUnknown;
  };
  // [rendezvous][group].  Where each lane is a group, its ranks tell the begin and who came last.
  std::vector<std::vector<int64_t>> ends;
  std::vector<std::vector<int64_t>> begins;
  std::vector<std::vector<RendezvousRecord>> last;
  std::vector<std::vector<std::vector<Times>>> collectives;  // [role and stream][sequence][group]
};

enum class EventKind : uint8_t { begin, move, price, transfer_end, compute_end, window, wake };

struct Event {
  int64_t time = 0;
  uint32_t id = 0;
  uint32_t version = 0;
  EventKind kind{};
};

class Engine {
 public:
  Engine(const OpGraph& graph, const Prices& prices, const LaneSet& lanes, const Traffic& traffic,
         const Interference& interference, const LaneOptions& options, const FoldedLanes* folded,
         AxisGroups groups);
  // `record`: the lane to record, or -1.
  ContentionResult run(int64_t record = -1);
  // Every flow is added to `flows` when it ends; they outlive this.
  void note_flows(std::vector<FlowSpan>& flows) { noted_ = &flows; }
  // When things began and ended is written to `times`, which outlives this.
  void keep_times(MeetingTimes& times);
  // Runs the tp group of the lane again, and nothing else, for its timeline.  `result` and `times`
  // are of a run of all lanes, by another engine of the same arguments.
  void run_again(int64_t record, const MeetingTimes& times, LaneResult& result);

 private:
  // contention.cc
  std::vector<Scope> find_scopes() const;
  void choose_lockstep();
  void prepare_slowing();
  void find_equal_ranks();
  void prepare_blocks();
  void run_events();
  void drain();
  int64_t next_moment();
  void process(int64_t time);
  void handle(const Event& event);
  bool is_valid(const Event& event) const;
  void push(int64_t time, EventKind kind, uint32_t id, uint32_t version = 0);
  void throw_deadlock() const;
  ContentionResult result() const;

  // contention_compute.cc
  void settle();
  void settle_rank(uint32_t id);
  void settle_transfer(uint32_t id);
  void advance_progress(Rank& rank) const;
  void mark_dirty(uint32_t rank);
  void mark_transfer_dirty(uint32_t transfer);
  void end_compute(uint32_t rank);
  bool run_slowed_chain(const Place& at, const ThreadInstruction& in);
  bool has_equal_ranks(const Block& block) const;
  bool precedes_meeting(const Place& at, const ThreadInstruction& in) const;
  void run_undisturbed_chain(const Place& at, const ThreadInstruction& in);
  bool meets(const Place& at, const ThreadInstruction& in, const Occurrence& occurrence,
             uint32_t group, int64_t time);
  bool waits_for_meeting(const Block& block, uint32_t item, const ThreadInstruction& meeting) const;
  void end_as_met(const Place& at);
  void start_uneven_op(const Place& at, const ThreadInstruction& in, Wide begin);
  void run_until(const Place& at, Wide target);
  void start_slowed_ops(const Place& at, const ThreadInstruction& in, int64_t start);

  // contention_communication.cc
  void prepare_windows();
  bool is_uneven(uint32_t rank) const;
  uint32_t factor_of(const Place& at, uint32_t rank, const ThreadOp& op) const;
  int64_t end_of_op(const Place& at, uint32_t rank, const ThreadOp& op, int64_t begin) const;
  uint32_t slowness_now(uint32_t rank) const;
  void change_window(uint32_t rank);
  static Wide rescaled(Wide left, int64_t from, int64_t to, int64_t alone);
  std::vector<LaneSpan> link_spans(const Occurrence& occurrence, uint32_t group) const;
  void add_link_spans(Axis axis, uint32_t role, uint32_t lane, std::vector<LaneSpan>& spans) const;
  int64_t priced_end(int64_t begin, uint32_t work, uint8_t own, std::span<const LaneSpan> spans);
  int64_t price_at(const Transfer& transfer, int64_t time) const;
  void push_next_window(uint32_t transfer, int64_t time);
  void change_price(uint32_t transfer);

  // contention.cc
  void run_thread(uint32_t id);
  bool execute(Block& block, Thread& th, uint32_t item);
  bool run_post(Block& block, Thread& th, uint32_t item);
  bool run_join(Block& block, Thread& th, uint32_t item);
  bool run_host_join(Block& block, Thread& th, uint32_t item);
  void run_record(Block& block, Thread& th, uint32_t item);
  bool run_wait(Block& block, Thread& th, uint32_t item);
  bool run_sync(Block& block, Thread& th, uint32_t item);
  void know_host(Block& block, const Thread& th, uint32_t segment);
  void raise(Block& block, const Thread& th, size_t stream, const int64_t* to, int64_t by);
  bool sleep(Thread& th, uint32_t& waiters);
  void wake(uint32_t& waiters);
  static bool knows_host(const Block& block, const Thread& th, uint32_t segment);

  // contention_compute.cc
  bool run_pass(Block& block, Thread& th, uint32_t item);
  bool meet_at_pass(Block& block, Thread& th, uint32_t item);
  LivePass& enter(Block& block, uint32_t item, const PassThreads& pass);
  static void leave(LivePass& live);
  void make_slots(LivePass& live, const ThreadInstruction& in) const;
  bool run_instruction(const Place& at, const ThreadInstruction& in);
  void run_chain(const Place& at, const ThreadInstruction& in);
  int64_t run_ops(const Place& at, const ThreadInstruction& in, uint32_t lane);
  void run_own_collective(const Place& at, const ThreadInstruction& in);
  bool run_collective(const Place& at, const ThreadInstruction& in);
  void mark(const Place& at, size_t stream, size_t slot);
  void book_start(const Place& at, uint32_t lane, int64_t time);

  // contention.cc
  bool records(const Block& block, const Thread& th) const {
    return recorded_ >= block.lane + th.lane && recorded_ < block.lane + th.lane + th.lanes;
  }
  int64_t recorded_time(const Block& block, size_t stream) const;
  void prepare_record();
  void book_item(const Block& block, const Thread& th, uint32_t item, bool ends);
  void book_chain(const Place& at, const ThreadInstruction& in, int64_t before, int64_t ran);
  void book_slowed(const Place& at, const ThreadInstruction& in);
  void book_more(const Place& at, uint32_t first, uint32_t count, int64_t more);
  void book_op(const Place& at, uint32_t op, int64_t begin, int64_t end);
  void book_collective(const Place& at, const ThreadInstruction& in, int64_t before, int64_t ready,
                       int64_t begin);
  void book_post(const Block& block, uint32_t item, uint32_t id, uint32_t lane, int64_t time);
  static void see_post(RendezvousRecord& record, uint32_t role, uint32_t item, int64_t time);
  void keep_end(const Occurrence& occurrence, uint32_t group);
  void find_again(Occurrence& occurrence, uint32_t group);
  bool is_run(uint32_t lane) const { return run_lanes_.empty() || run_lanes_[lane]; }
  int64_t runs_of(std::span<const uint32_t> lanes) const {
    return std::ranges::count_if(lanes, [&](uint32_t lane) { return is_run(lane); });
  }
  bool reaches_beyond_block(const Occurrence& occurrence) const {
    return occurrence.is_rendezvous || scopes_[occurrence.work] == Scope::outside;
  }
  void book_join(const Block& block, uint32_t item, const Arrivals& group);
  void book_rendezvous(const Occurrence& occurrence, uint32_t group);
  void finish_record(LaneResult& result);

  // contention_communication.cc
  Occurrence& occurrence_of_rendezvous(uint32_t id);
  Occurrence& occurrence_of_collective(const Block& block, const Thread& th,
                                       const ThreadInstruction& in, uint32_t group);
  uint32_t new_occurrence(uint32_t work, uint32_t needed, int64_t left, uint32_t first_group,
                          uint32_t groups);
  void visit(Occurrence& occurrence, int64_t visits);
  void arrive(Occurrence& occurrence, uint32_t group, int64_t time);
  void complete(Occurrence& occurrence, uint32_t group);
  uint8_t class_of(const Occurrence& occurrence, uint32_t group) const;
  int64_t price_of(const Occurrence& occurrence, uint32_t group) const;
  int64_t price_in(size_t link_class, uint32_t work) const;
  uint8_t class_of(uint32_t role, uint32_t work, uint32_t lane) const;
  uint32_t pattern_of(const Occurrence& occurrence, uint32_t group) const;
  const Groups& groups_of(const Occurrence& occurrence) const {
    return groups_[static_cast<size_t>(graph_.works[occurrence.work].axis)];
  }
  bool is_complete(const Occurrence& occurrence, uint32_t group) const {
    const std::span<const uint32_t> lanes = groups_of(occurrence).lanes_of(group);
    return occurrence.of(group).arrived ==
           occurrence.needed * (run_lanes_.empty() ? std::ssize(lanes) : runs_of(lanes));
  }
  void begin_transfer(uint32_t id);
  void start_moving(uint32_t id);
  void begin_decided(const Occurrence& occurrence, uint32_t group, Transfer transfer);
  // So many of those given.
  int64_t flows_of(uint32_t transfer) const {
    const Occurrence& occurrence = occurrences_[transfers_[transfer].occurrence];
    return groups_of(occurrence).stands_for[transfers_[transfer].group];
  }
  void set_cap(Transfer& transfer) const;
  int64_t slowed_cap(const Transfer& transfer) const;
  void end_transfer(uint32_t id);
  void end_arrivals(Occurrence& occurrence, uint32_t group, int64_t time);
  // f(role, lane) for each rank that takes part.
  template <class F>
  void for_ranks(const Occurrence& occurrence, uint32_t group, const F& f) const {
    const Groups& groups = groups_[static_cast<size_t>(graph_.works[occurrence.work].axis)];
    const std::span<const uint32_t> lanes = groups.lanes_of(group);
    const auto of_role = [&](uint32_t role) {
      for (const uint32_t lane : lanes) f(role, lane);
    };
    if (!occurrence.is_rendezvous) return of_role(occurrence.role);
    for (const uint32_t role : program_.rendezvous[occurrence.source].parties) of_role(role);
  }

  const OpGraph& graph_;
  const Prices& prices_;
  const LaneSet& lanes_;
  const Traffic& traffic_;
  bool merge_ = true;
  ContentionProgram program_;
  int64_t slow_compute_ = kNominal, slow_communication_ = kNominal;
  bool coupled_ = false;                 // interference
  uint32_t width_ = 1;                   // lanes
  const FoldedLanes* folded_ = nullptr;  // from which the lanes came; null: from none
  std::vector<int64_t> stands_for_;      // by lane: so many as given
  uint32_t block_lanes_ = 1;             // lanes of a block

  AxisGroups groups_;
  std::vector<std::vector<Scope>> own_;    // by role and work, of collectives in passes
  std::array<bool, kStreams> lockstep_{};  // the streams that may be run in lockstep
  std::vector<Lockstep> together_;         // by role
  std::vector<Block> blocks_;
  std::vector<Thread> threads_;
  std::vector<uint32_t> ready_;               // threads
  LivePass closed_;                           // of passes that only a lockstep thread runs
  std::vector<Rank> ranks_;                   // coupled
  std::vector<Slowness> slowness_;            // [role][lane]
  std::vector<std::vector<LaneSpan>> spans_;  // [role][lane] of compute; empty: no windows
  std::optional<JitterTable> jitter_;
  std::vector<uint32_t> rank_keys_;       // of jitter
  std::vector<int64_t> prices_by_class_;  // of one work
  std::vector<int64_t> first_start_;      // [role][lane] of compute
  std::deque<Occurrence> occurrences_;    // a deque, so that references stay valid
  std::vector<uint32_t> free_occurrences_;
  std::vector<uint32_t> rendezvous_occurrence_;
  struct Sequence {
    std::vector<uint32_t> occurrences;
    uint32_t first = 0;  // the sequence number of occurrences.front()
  };
  // By role and stream; coupled: then by role, first lane of the group and stream, of collectives
  // on links that only the group uses.
  std::vector<Sequence> sequences_;
  std::vector<Scope> scopes_;                     // by work, of collectives in passes
  std::optional<UndisturbedPasses> undisturbed_;  // coupled
  std::vector<bool> equal_;  // coupled, [role][lane]: in a tp group of equal ranks, none recorded
  std::vector<Transfer> transfers_;
  std::vector<uint32_t> free_transfers_;

  int64_t now_ = 0;
  std::vector<Event> events_;  // a heap, the earliest first
  FlowNetwork network_;
  std::vector<FlowNetwork::Ended> ended_;
  std::vector<uint32_t> dirty_ranks_, dirty_transfers_;
  int64_t recorded_ = -1;  // the lane of which a timeline is made; -1: none
  bool ops_ = false;       // that timeline has the start and the end of each op
  std::optional<LaneRecorder> record_;
  std::vector<RoleRecord> role_records_;
  std::vector<RendezvousRecord> rendezvous_records_;
  int64_t shared_ops_ = 0, flow_events_ = 0, passes_at_once_ = 0;
  // What was done so far, weighed so that a turn of any kind takes about as long.
  static constexpr int64_t kTurnsOfAFlow = 8;
  static constexpr uint32_t kLanesOfATurn = 16;
  int64_t turns_ = 0, most_turns_ = INT64_MAX;
  std::vector<FlowSpan>* noted_ = nullptr;
  MeetingTimes* kept_ = nullptr;         // to be written
  const MeetingTimes* known_ = nullptr;  // from a run before
  std::vector<bool> run_lanes_;          // with that: the lanes that are run again
};

}  // namespace stepcast::contention
