// SPDX-License-Identifier: Apache-2.0
// A run goes from interruption to interruption; how many checkpoints lie between two of them is
// reckoned, not walked through.
//
// A place in the run is the time after which a run without interruptions gets there: segment k
// (from 0) begins at k (tau + w), works for tau and is blocked for w; its checkpoint is complete
// when the run has gone on for the lag.  An interruption at place p goes back to the last complete
// checkpoint; where a copy in memory is left, to the last of these, which are equally far apart
// within a segment.
//
// Example: segments of 10 min + 1 min, lag 2 min.  Interrupted at place 23 min: two segments have
// ended, the second at 22 min, not complete before 24: back to 11 min, where the first one ended.
#include "job/replicas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "job/exponential.h"
#include "sim/check.h"
#include "sim/random.h"

namespace stepcast {

namespace {

class DrawnRun {
 public:
  explicit DrawnRun(const LongRun& run) : run_(run), rate_(run.rate()) {
    if (run.memory_interval > 0)
      copies_ = std::floor(run.interval / run.memory_interval * (1 + 1e-12));
    segment_ = run.interval + copies_ * run.memory_block + run.block;
    last_ = static_cast<double>(run.checkpoints() - 1);
    const double rest = run.work - last_ * run.interval;
    const double rest_copies =
        run.memory_interval > 0 ? std::floor(rest / run.memory_interval * (1 + 1e-12)) : 0;
    end_ = last_ * segment_ + rest + rest_copies * run.memory_block + run.block;
    held_up_ = end_ - run.work + run.lag;
    double below = 0;
    for (const Interruption& i : run.interruptions) {
      const bool memory = keeps_memory(i);
      const double recovery = i.recovery - (memory ? run.storage_load - run.memory_load : 0);
      kinds_.push_back(
          {&i, below += i.rate / rate_, recovery, exponential(-recovery * rate_), memory});
    }
    if (!kinds_.empty()) kinds_.back().below = 2;
  }

  RunParts draw(uint64_t seed) {
    CountedRandom random(seed);
    RunParts parts;
    parts.work = run_.work;
    parts.checkpoint = held_up_;
    away_.clear();
    double now = 0, working = 0;
    double place = 0, complete = 0;  // where steps go on; of the last complete checkpoint
    double pending = -1, due = 0;    // a checkpoint that a copy in memory lets go on
    while (rate_ > 0) {
      const double ahead = end_ + run_.lag - place;
      const double t = -logarithm(unit(random)) / rate_;
      if (t >= ahead) break;
      now += t;
      working += t;
      ++parts.interruptions;
      const double at = place + t;
      const double passed = at >= end_ ? last_ + 1 : std::floor(at / segment_);
      const double ended = begin_of(passed);
      if (pending >= 0 && now >= due) {
        complete = std::max(complete, pending);
        pending = -1;
      }
      if (ended > place) {
        // The last segment may be shorter than the lag: then two are not complete.
        double last = passed;
        while (last > 0 && at - begin_of(last) < run_.lag) --last;
        if (begin_of(last) > place) complete = begin_of(last);
        pending = last < passed ? ended : -1;
        due = now + run_.lag - (at - ended);
      }
      const bool memory = recover(random, now, parts);
      if (memory) {
        const double within = std::min(at, end_) - ended;
        const double spacing = run_.memory_interval + run_.memory_block;
        place = passed > last_ ? end_
                               : ended + std::min(copies_, std::floor(within / spacing)) * spacing;
        place = std::max(place, complete);
      } else {
        place = complete;
        pending = -1;
      }
      if (now > longest()) {
        parts.wall = std::numeric_limits<double>::infinity();
        return parts;
      }
    }
    const double ahead = end_ + run_.lag - place;
    now += ahead;
    working += ahead;
    parts.redo = std::max(0.0, working - run_.work - held_up_);
    parts.wall = now;
    return parts;
  }

 private:
  struct Kind {
    const Interruption* of = nullptr;
    double below = 0;     // a random number below this, and not below the kind before, is this one
    double recovery = 0;  // seconds
    double succeeds = 0;  // probability that nothing interrupts it
    bool memory = false;  // a copy in memory is left
  };

  bool keeps_memory(const Interruption& i) const {
    return run_.memory_interval > 0 && run_.memory_copies > (i.takes_node ? 1 : 0);
  }

  double longest() const { return kMostLoss * (run_.work + held_up_); }

  double begin_of(double segment) const { return segment > last_ ? end_ : segment * segment_; }

  // Uniform in (0, 1].
  static double unit(CountedRandom& random) {
    return (static_cast<double>(random.next() >> 11) + 1) * 0x1p-53;
  }

  const Kind& draw_kind(CountedRandom& random) const {
    if (kinds_.size() == 1) return kinds_.front();
    const double u = unit(random);
    return *std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) { return u <= k.below; });
  }

  // Until steps can go on; whether they do so from a copy in memory.
  bool recover(CountedRandom& random, double& now, RunParts& parts) {
    bool memory = true;
    for (;;) {
      const Kind& kind = draw_kind(random);
      memory = memory && kind.memory;
      if (run_.spares >= 0 && kind.of->takes_node) wait_for_node(kind.of->repair, now, parts);
      // Once a copy in memory is lost, what follows loads from storage.
      const double recovery = memory ? kind.recovery : kind.of->recovery;
      const double succeeds = memory ? kind.succeeds : exponential(-recovery * rate_);
      const double u = unit(random);
      if (u <= succeeds) {
        now += recovery;
        parts.restart += recovery;
        return memory;
      }
      const double came = std::min(-logarithm(u) / rate_, recovery);
      now += came;
      parts.restart += came;
      ++parts.interruptions;
      if (now > longest()) return false;
    }
  }

  void wait_for_node(double repair, double& now, RunParts& parts) {
    std::erase_if(away_, [&](double back) { return back <= now; });
    away_.push_back(now + repair);
    if (static_cast<int64_t>(away_.size()) <= run_.spares) return;
    const auto first = std::min_element(away_.begin(), away_.end());
    parts.wait += *first - now;
    now = *first;
    away_.erase(first);
  }

  const LongRun& run_;
  double rate_ = 0;
  double copies_ = 0;              // in memory, a segment
  double segment_ = 0, last_ = 0;  // length of a segment; number of the last one
  double end_ = 0, held_up_ = 0;   // place of the end; not work
  std::vector<Kind> kinds_;
  std::vector<double> away_;  // when the nodes in repair are back
};

}  // namespace

ReplicaRuns draw_runs(const LongRun& run, int64_t count, uint64_t seed) {
  STEPCAST_CHECK(count > 0, "no replicas");
  ReplicaRuns all;
  DrawnRun drawn(run);
  all.walls.reserve(static_cast<size_t>(count));
  double squares = 0;
  const auto n = static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const RunParts one = drawn.draw(splitmix(seed ^ splitmix(static_cast<uint64_t>(i) + 1)));
    all.walls.push_back(one.wall);
    all.mean.work += one.work / n;
    all.mean.checkpoint += one.checkpoint / n;
    all.mean.redo += one.redo / n;
    all.mean.restart += one.restart / n;
    all.mean.wait += one.wait / n;
    all.mean.wall += one.wall / n;
    all.mean.interruptions += one.interruptions / n;
  }
  for (const double wall : all.walls) squares += (wall - all.mean.wall) * (wall - all.mean.wall);
  all.deviation = count > 1 ? std::sqrt(squares / (n - 1)) : 0;
  std::sort(all.walls.begin(), all.walls.end());
  return all;
}

}  // namespace stepcast
