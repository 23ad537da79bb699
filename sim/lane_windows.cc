// SPDX-License-Identifier: Apache-2.0
#include "sim/lane_windows.h"

#include <algorithm>

#include "sim/jitter.h"

namespace stepcast {
namespace {

constexpr int64_t kNever = INT64_MAX;

// The first moment after `at` at which a window begins or ends.
int64_t next_change(int64_t at, std::span<const LaneSpan> windows) {
  int64_t next = kNever;
  for (const LaneSpan& w : windows) {
    if (w.from > at) next = std::min(next, w.from);
    if (w.until > at) next = std::min(next, w.until);
  }
  return next;
}

bool holds(const LaneSpan& w, int64_t at) {
  return w.from <= at && at < w.until;
}

// Plays an op from `begin`; `cost` tells how long all of it takes as things stand at a moment.
template <class Cost>
int64_t play(int64_t begin, std::span<const LaneSpan> windows, const Cost& cost) {
  int64_t at = begin;
  int64_t now = cost(at);
  int64_t left = now;
  while (true) {
    const int64_t change = next_change(at, windows);
    if (change == kNever || left <= change - at) return at + left;
    left -= change - at;
    at = change;
    const int64_t then = cost(at);
    left = static_cast<int64_t>(static_cast<__int128>(left) * then / now);
    now = then;
  }
}

}  // namespace

LaneSpan span_of(const LaneWindow& window, Axis axis) {
  constexpr int64_t kLast = kNever >> kLaneFractionBits;
  const auto fixed = [=](Time t) { return std::clamp(t.count(), int64_t{0}, kLast) * kNominal; };
  return {fixed(window.from), fixed(window.until), window.slowness,
          window.link_class[static_cast<size_t>(axis)]};
}

int64_t end_of_compute(int64_t begin, int64_t ps, Slowness own, uint32_t factor,
                       std::span<const LaneSpan> windows) {
  return play(begin, windows, [&](int64_t at) {
    Slowness most = 0;
    for (const LaneSpan& w : windows) {
      if (holds(w, at)) most = std::max(most, w.slowness);
    }
    const auto slowness = static_cast<uint32_t>(own);
    const uint32_t here = most == 0 ? slowness : jittered(slowness, static_cast<uint32_t>(most));
    return ps * static_cast<int64_t>(jittered(here, factor));
  });
}

int64_t end_of_communication(int64_t begin, std::span<const int64_t> prices, uint8_t own,
                             std::span<const LaneSpan> windows, const LaneSet& lanes) {
  return play(begin, windows, [&](int64_t at) {
    uint8_t link_class = own;
    for (const LaneSpan& w : windows) {
      if (holds(w, at)) link_class = lanes.joined(link_class, w.link_class);
    }
    return prices[link_class];
  });
}

}  // namespace stepcast
