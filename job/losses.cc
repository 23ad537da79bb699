// SPDX-License-Identifier: Apache-2.0
// How the expectation comes about.
//
// Work is cut into segments of tau, each ended by a checkpoint that blocks for w: L = tau + w.
// Interruptions come with rate 1/M.  An attempt at a segment succeeds with probability e^(-L/M), so
// there are F = e^(L/M) - 1 failed ones on average, and working on it takes M F in all, of which L
// is the segment itself and the rest is done again.
//
// After each failed attempt comes a recovery of R, which an interruption begins anew: with kinds c
// of share q_c it succeeds with probability g = sum q_c e^(-R_c/M), and takes M (1/g - 1) on
// average.  (One kind: 1/g = e^(R/M).)  Working and recovering together: M F / g, which is Daly's.
//
// A checkpoint that is written behind the steps' back is complete d after they go on.  An
// interruption before that falls back to the one before.  From a clean restart the next commit
// needs L + d without interruption: V = M/g (e^((L+d)/M) - 1).  From one commit to the next it
// needs L, else a recovery and V:
//
//   (1 - e^(-L/M)) (M/g + V - M/g + M/g ...) = M/g e^(d/M) (e^(L/M) - 1),
//
// the same as a recovery longer by d.  The first segment begins clean: M/g (e^(d/M) - 1) more.
//
// Example: M = 3 h, L = 12 min, R = 5 min: F = 0.0689, work 12.41 min, of which 0.41 again, and
// 0.0689 x 5.07 = 0.35 min of recovery: 94 % of the time makes progress.
//
// Nodes in repair: an interruption that takes a node moves one into repair.  With S spares the job
// stands while S + 1 are away, and no interruption comes then: Erlang's loss system with S + 1
// servers, so the share of the time that it stands is his loss formula.
#include "job/losses.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "job/exponential.h"

namespace stepcast {

double LongRun::rate() const {
  double sum = 0;
  for (const Interruption& i : interruptions) sum += i.rate;
  return sum;
}

int64_t LongRun::checkpoints() const {
  // A rest below a billionth of an interval is rounding.
  return std::max<int64_t>(1,
                           static_cast<int64_t>(std::min(9e18, std::ceil(work / interval - 1e-9))));
}

RunParts expected_parts(const LongRun& run) {
  RunParts parts;
  const auto n = static_cast<double>(run.checkpoints());
  parts.work = run.work;
  parts.checkpoint = n * run.block + run.lag;
  const double rate = run.rate();
  if (rate <= 0) {
    parts.wall = run.work + parts.checkpoint;
    return parts;
  }
  const double mtbf = 1 / rate;
  double recovers = 0, load = 0;
  for (const Interruption& i : run.interruptions) {
    recovers += i.rate / rate * exponential(-i.recovery / mtbf);
    if (i.takes_node) load += i.rate * i.repair;
  }
  const double last = run.work - (n - 1) * run.interval;
  const double working =
      mtbf * (exponential(run.lag / mtbf) *
                  ((n - 1) * exponential_less_1((run.interval + run.block) / mtbf) +
                   exponential_less_1((last + run.block) / mtbf)) +
              exponential_less_1(run.lag / mtbf));
  const double running = working / recovers;
  const double waits = run.spares < 0 ? 0 : erlang_loss(load, run.spares + 1);
  parts.wall = running / (1 - waits);
  if (!(parts.wall <= kMostLoss * (parts.work + parts.checkpoint))) {
    parts.wall = std::numeric_limits<double>::infinity();
    return parts;
  }
  parts.redo = std::max(0.0, working - parts.work - parts.checkpoint);
  parts.restart = running - working;
  parts.wait = parts.wall - running;
  parts.interruptions = running * rate;
  return parts;
}

double best_interval(double mtbf, double block) {
  if (block <= 0) return 0;
  double low = 0, high = mtbf;
  if (!std::isfinite(mtbf)) return mtbf;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    const bool below = (1 - middle / mtbf) * exponential((middle + block) / mtbf) > 1;
    (below ? low : high) = middle;
  }
  return (low + high) / 2;
}

double erlang_loss(double load, int64_t servers) {
  double loss = 1;
  for (int64_t n = 1; n <= servers; ++n)
    loss = load * loss / (static_cast<double>(n) + load * loss);
  return loss;
}

int64_t spares_for(double load, double share) {
  // Of very many the loss is 1 - n / load, and nobody counts them one by one.
  constexpr double kMany = 1e6, kMost = 1e18;
  if (load > kMany) return static_cast<int64_t>(std::min(kMost, std::ceil(share * load)));
  double loss = 1;
  int64_t n = 0;
  while (loss > 1 - share) {
    ++n;
    loss = load * loss / (static_cast<double>(n) + load * loss);
  }
  return n;
}

}  // namespace stepcast
