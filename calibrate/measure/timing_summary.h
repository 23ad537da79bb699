// SPDX-License-Identifier: Apache-2.0
// What timing does with the times it has taken; needs no GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace stepcast::measure {

struct TimingOptions {
  int samples = 20;             // batches that are timed
  double limit_seconds = 2;     // fewer samples (at least 5) if they would take longer
  double warmup_seconds = 0.1;  // at most, and until two batches in turn agree within 2 %
  double batch_us = 500;        // calls are batched until a batch takes this long
  // Called while the device is at one more, longer batch after the last that is timed: what it
  // reads of clocks and power is that of a device at work.  May be empty.
  std::function<void()> while_busy = {};
};

struct Timing {
  double us = 0;      // median over samples of the time of one call
  double spread = 0;  // interquartile range over median
  int samples = 0;
};

// Median and interquartile range over median, quantiles interpolated.  REQUIRES: not empty.
Timing summarize(std::span<const double> us_per_call);

// Whether the last two agree within 2 %.
bool is_stable(std::span<const double> us_per_call);

// How many calls are timed together: as many as take `batch_us`, from 1 to 500 (all are enqueued
// while the device waits, and its queue holds 1024).
int64_t calls_in_a_batch(double us_per_call, double batch_us);

// How many batches are timed: options.samples, fewer if they would exceed options.limit_seconds,
// but at least 5.
int samples_within(double us_per_batch, const TimingOptions& options);

}  // namespace stepcast::measure
