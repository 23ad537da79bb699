// SPDX-License-Identifier: Apache-2.0
// Passes compiled for lanes: chains whose length depends on the slowness of the lane.
//
// Take two ops of compute on one stream, of 4 and 5 ps, whose launches cost the host 6 each.  On a
// lane of slowness f the chain ends at
//
//     max( t + 9 f,  h + 6 + 9 f,  h + 12 + 5 f )
//
// where t is the time of the stream and h that of the host before it.  The two terms with h are
// straight lines in f.  If slowness lies between 1 and 1.2 in this step, the second line is above
// the first at both ends, hence everywhere, and it alone is kept; between 1 and 2 they cross, and
// both are kept (add_line).
//
// Two passes over the code then save vector operations.  Take the ops a, x, b of a tensor-parallel
// layer: x, an all-reduce on the stream of tp, waits for a, and b on the compute stream waits for
// x.
//
//     keep_marks_in_streams   x need not have the end of a copied to a slot: when it reads that
//                             time, the compute stream still has it.  The same holds for b and x
//     find_followers          x began no earlier than the compute stream stood, so when b waits for
//                             x, its own stream is no later: its time is set, not compared

#include "sim/lanes/lane_program.h"

#include <algorithm>

#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/graph/program.h"

namespace stepcast {

void throw_step_too_long() {
  Diagnostic d;
  d.message = "the step is longer than 19 minutes (2^50 ps), more than lanes can count";
  throw TooLongForLanes(std::move(d));
}

namespace {

class PassCompiler {
 public:
  PassCompiler(const OpGraph& graph, const Prices& prices, const std::vector<int64_t>& launches,
               const LaneTraits& traits, const Pass& pass)
      : graph_(graph),
        prices_(prices),
        launches_(launches),
        traits_(traits),
        pass_(pass),
        slots_(wait_slots(pass)) {}

  LanePass compile() {
    out_.slots = static_cast<int32_t>(slots_.op.size());
    out_.device_ops = static_cast<uint32_t>(pass_.ops.size());
    for (uint32_t op = 0; op < pass_.ops.size(); ++op) {
      add_waits(op);
      add_op(op);
    }
    close();
    keep_marks_in_streams();
    find_followers();
    return std::move(out_);
  }

 private:
  // The last wait before an op becomes part of its instruction.
  void add_waits(uint32_t op) {
    for (const Wait& w : pass_.waits.of(op)) {
      if (is_implied(pass_, w)) continue;
      close();
      const Op& on = pass_.ops[w.on];
      LaneInstruction in;
      in.code = LaneCode::wait;
      in.stream = pass_.ops[op].stream;
      in.wait = slot_place(w.from_start ? slots_.start[w.on] : slots_.end[w.on]);
      in.delay = w.delay.count() << kLaneFractionBits;
      in.op = op;
      in.wait_spend = spend_of(graph_.works[static_cast<size_t>(on.work)], on.phase);
      out_.code.push_back(in);
    }
  }

  LaneInstruction instruction_of(uint32_t op) {
    const Op& o = pass_.ops[op];
    const Work& work = graph_.works[static_cast<size_t>(o.work)];
    const int64_t ps = prices_.by_work[static_cast<size_t>(o.work)].time.count();
    const bool scales = !is_communication(work.kind);
    LaneInstruction in;
    in.stream = o.stream;
    (scales ? in.duration.scaled : in.duration.constant) =
        scales ? ps : checked(static_cast<__int128>(ps) << kLaneFractionBits);
    in.launch = launches_[static_cast<size_t>(o.launch)];
    in.op = op;
    in.work = o.work;
    in.spend = spend_of(work, o.phase);
    if (slots_.end[op] >= 0) in.mark_end = slot_place(slots_.end[op]);
    if (slots_.start[op] >= 0) in.mark_start = slot_place(slots_.start[op]);
    if (!scales && traits_.joins[static_cast<size_t>(work.axis)]) in.code = LaneCode::join;
    if (o.stream == Stream::compute) {
      (scales ? out_.scaled : out_.fixed)[static_cast<size_t>(in.spend)] += ps;
    }
    return in;
  }

  void add_op(uint32_t op) {
    LaneInstruction in = instruction_of(op);
    check_length(in);
    if (can_continue(in)) {
      extend(out_.code.back(), in);
    } else {
      close();
      if (!out_.code.empty()) take_wait(in);
      lines_ = {{in.launch + in.duration.constant, in.duration.scaled}};
      out_.code.push_back(in);
    }
    open_ = in.code == LaneCode::chain && in.mark_end == kNoPlace && in.mark_start == kNoPlace;
  }

  bool can_continue(const LaneInstruction& in) const {
    return traits_.merge && open_ && in.code == LaneCode::chain && in.mark_start == kNoPlace &&
           out_.code.back().stream == in.stream;
  }

  void extend(LaneInstruction& tail, const LaneInstruction& next) {
    tail.launch += next.launch;
    tail.duration.constant += next.duration.constant;
    tail.duration.scaled += next.duration.scaled;
    tail.mark_end = next.mark_end;
    ++tail.ops;
    check_length(tail);
    for (LaneLine& line : lines_) {
      line.constant += next.duration.constant;
      line.scaled += next.duration.scaled;
    }
    add_line({tail.launch + next.duration.constant, next.duration.scaled});
  }

  // Is `a` at least `b` for every slowness that occurs?  Both are straight lines, so it is enough
  // to compare them at both ends.
  bool covers_line(const LaneLine& a, const LaneLine& b) const {
    return a.at(traits_.fastest) >= b.at(traits_.fastest) &&
           a.at(traits_.slowest) >= b.at(traits_.slowest);
  }

  void add_line(const LaneLine& line) {
    for (const LaneLine& other : lines_) {
      if (covers_line(other, line)) return;
    }
    std::erase_if(lines_, [&](const LaneLine& other) { return covers_line(line, other); });
    lines_.push_back(line);
  }

  // The instruction at the end is complete.
  void close() {
    open_ = false;
    if (out_.code.empty() || out_.code.back().ops == 1) return;
    LaneInstruction& tail = out_.code.back();
    if (tail.leads > 0) return;
    tail.first_lead = static_cast<uint32_t>(out_.leads.size());
    tail.leads = static_cast<uint32_t>(lines_.size());
    out_.leads.insert(out_.leads.end(), lines_.begin(), lines_.end());
  }

  void take_wait(LaneInstruction& in) {
    const LaneInstruction& before = out_.code.back();
    if (before.code != LaneCode::wait || before.stream != in.stream) return;
    in.wait = before.wait;
    in.delay = before.delay;
    in.wait_spend = before.wait_spend;
    out_.code.pop_back();
  }

  static int64_t checked(__int128 time) {
    if (time >= kLongestLaneTime) throw_step_too_long();
    return static_cast<int64_t>(time);
  }

  void check_length(const LaneInstruction& in) const {
    checked(static_cast<__int128>(in.duration.scaled) * traits_.slowest + in.duration.constant +
            in.launch);
  }

  // A slot need not be written if the stream still has the same time whenever it is read.
  void keep_marks_in_streams() {
    for (size_t i = 0; i < out_.code.size(); ++i) {
      LaneInstruction& in = out_.code[i];
      if (in.mark_end == kNoPlace) continue;
      const LanePlace slot = in.mark_end;
      size_t moved = i + 1;  // where the stream goes on
      while (moved < out_.code.size() && out_.code[moved].stream != in.stream) ++moved;
      bool late = false;
      for (size_t j = moved; j < out_.code.size(); ++j) late = late || out_.code[j].wait == slot;
      if (late) continue;
      in.mark_end = kNoPlace;
      for (size_t j = i + 1; j < moved; ++j) {
        if (out_.code[j].wait == slot) out_.code[j].wait = static_cast<LanePlace>(in.stream);
      }
    }
  }

  // Where streams take turns, as compute and the collectives between its ops do, a stream that
  // waits for the other is never ahead of it, so the maximum with its own time can be left out.
  void find_followers() {
    const auto places = static_cast<size_t>(slot_place(out_.slots));
    // no_later[x][y]: x <= y, for all that is known so far
    std::vector<std::vector<bool>> no_later(places, std::vector<bool>(places));
    for (LaneInstruction& in : out_.code) {
      const auto s = static_cast<size_t>(in.stream);
      if (in.wait != kNoPlace) {
        const auto q = static_cast<size_t>(in.wait);
        in.follows = no_later[s][q] && in.delay >= 0;
        for (size_t x = 0; x < places; ++x) {
          if (no_later[x][q] && in.delay >= 0) no_later[x][s] = true;
        }
        no_later[q][s] = in.delay >= 0;
      }
      no_later[s].assign(places, false);
      if (in.mark_end == kNoPlace) continue;
      const auto m = static_cast<size_t>(in.mark_end);
      for (size_t x = 0; x < places; ++x) no_later[x][m] = no_later[x][s];
      no_later[s][m] = no_later[m][s] = true;
    }
  }

  const OpGraph& graph_;
  const Prices& prices_;
  const std::vector<int64_t>& launches_;
  const LaneTraits& traits_;
  const Pass& pass_;
  WaitSlots slots_;
  std::vector<LaneLine> lines_;  // of the chain at the end
  bool open_ = false;            // it may be continued
  LanePass out_;
};

}  // namespace

LaneProgram compile_lanes(const OpGraph& graph, const Prices& prices, const LaneTraits& traits) {
  STEPCAST_CHECK(prices.by_work.size() == graph.works.size(), "one price for each work");
  LaneProgram program;
  for (const int64_t ps : varied_launches(graph, prices, {}))
    program.launches.push_back(ps << kLaneFractionBits);
  program.passes.reserve(graph.passes.size());
  for (const Pass& pass : graph.passes) {
    program.passes.push_back(PassCompiler(graph, prices, program.launches, traits, pass).compile());
  }
  return program;
}

}  // namespace stepcast
