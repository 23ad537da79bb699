// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "calibrate/measure/kernels/spin.h"

namespace stepcast::measure {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Batches {
  cudaStream_t stream;
  const Call& call;
  int64_t calls = 1;    // of a batch
  int64_t next = 0;     // call
  double hold_us = 50;  // how long the stream is held while the host enqueues
  Event begin, end;

  // One batch; microseconds a call.  `meanwhile`: called once all is enqueued.
  double run(const std::function<void()>& meanwhile = {}) {
    // Beyond it the host is not worth waiting for: a call of that length hides its own launch.
    constexpr double kLongestHold = 20'000;
    spin(std::min(hold_us, kLongestHold), stream);
    begin.record(stream);
    const Clock::time_point enqueue = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call(next++);
    const double enqueued_us = seconds_since(enqueue) * 1e6;
    end.record(stream);
    if (meanwhile) meanwhile();
    end.wait();
    check_cuda(cudaGetLastError(), "a call that is measured");
    hold_us = 1.5 * enqueued_us + 20;
    return microseconds(begin, end) / static_cast<double>(calls);
  }
};

}  // namespace

Timing time_calls(cudaStream_t stream, const Call& call, const TimingOptions& options) {
  Batches batches{stream, call, 1, 0, 50, {}, {}};
  // The first call loads the kernel, which may take longer than the warm-up, and waits for the
  // operands to be filled; the second one tells how many make a batch.
  batches.run();
  batches.calls = calls_in_a_batch(batches.run(), options.batch_us);
  const Clock::time_point begin = Clock::now();
  std::vector<double> warm;
  do {
    warm.push_back(batches.run());
  } while (!is_stable(warm) && seconds_since(begin) < options.warmup_seconds);
  batches.calls = calls_in_a_batch(warm.back(), options.batch_us);

  const int count = samples_within(warm.back() * static_cast<double>(batches.calls), options);
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(batches.run());
  if (options.while_busy) {
    batches.calls = calls_in_a_batch(warm.back(), 10 * options.batch_us);  // reading takes its time
    batches.run(options.while_busy);
  }
  return summarize(samples);
}

}  // namespace stepcast::measure
