// SPDX-License-Identifier: Apache-2.0
// A queue of events for a clock that only moves forward (Ahuja, Mehlhorn, Orlin, Tarjan, Faster
// algorithms for the shortest path problem, JACM 37, 1990).
//
// An entry lies in the bucket of the highest bit in which its key differs from the clock, and moves
// to lower buckets as the clock comes nearer.  With the clock at 4 = 100b:
//
//     bucket 0  key 4          (no bit differs)
//     bucket 1  key 5 = 101b   (bit 0)
//     bucket 2  keys 6, 7      (bit 1)
//     bucket 4  keys 8 to 15   (bit 3)
//
// Every key in a bucket is less than every key in a higher one, so the least lies in the lowest
// bucket that is not empty.  When the clock moves to 9 = 1001b, buckets 0 to 3 hold only what lies
// in the past, bucket 4 is spread (9 is taken out, 8 is void, 10 and 11 go to bucket 2, 12 to 15 to
// bucket 3), and buckets above it stay as they are: their keys differ from the new clock in the
// same bit as from the old one.  An entry moves at most 63 times, always down, so a push costs O(1)
// and all moves of an entry O(log of the time it was put ahead), without comparisons.  Equal keys
// come out in the order they were put in.
//
// Entries are never changed; what has become void is recognised by the caller (by a version in the
// value, say) and dropped when it is found.  Only `advance` moves the clock, so neither looking at
// the least key nor dropping what is void keeps a caller from putting in an earlier one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/check.h"

namespace stepcast {

template <class Value>
class RadixHeap {
 public:
  // REQUIRES: key >= clock(), the time of the last `advance` (0 at first).
  void push(int64_t key, Value value) {
    STEPCAST_CHECK(key >= clock_, "event in the past");
    buckets_[bucket(key)].push_back({key, std::move(value)});
    ++size_;
  }

  // Least key of what is valid; INT64_MAX if there is none.  valid(value) -> bool; what is not may
  // be dropped for good.
  template <class Valid>
  int64_t least(const Valid& valid) {
    for (std::vector<Entry>& entries : buckets_) {
      drop(entries, valid);
      if (entries.empty()) continue;
      const auto less = [](const Entry& a, const Entry& b) { return a.key < b.key; };
      return std::min_element(entries.begin(), entries.end(), less)->key;
    }
    return INT64_MAX;
  }

  // Drops everything that is not valid.
  template <class Valid>
  void purge(const Valid& valid) {
    for (std::vector<Entry>& entries : buckets_) drop(entries, valid);
  }

  // Moves the clock to `time` and takes out what has that key, oldest first, valid or not.
  // take(value); it must not push.  REQUIRES: clock() <= time, and no valid key is less.
  template <class Take>
  void advance(int64_t time, Take&& take) {
    STEPCAST_CHECK(time >= clock_, "the clock moves forward");
    const size_t touched = bucket(time);
    clock_ = time;
    // Keys in lower buckets are less than `time`: void.  Those in higher ones differ from the new
    // clock in the same bit as from the old one.
    for (size_t b = 0; b < touched; ++b) {
      size_ -= buckets_[b].size();
      buckets_[b].clear();
    }
    std::swap(moving_, buckets_[touched]);
    size_ -= moving_.size();
    for (Entry& entry : moving_) {
      if (entry.key == time) take(entry.value);
      if (entry.key <= time) continue;
      ++size_;
      buckets_[bucket(entry.key)].push_back(std::move(entry));
    }
    moving_.clear();
  }

  int64_t clock() const { return clock_; }
  size_t size() const { return size_; }  // with what is void and has not been dropped

 private:
  struct Entry {
    int64_t key = 0;
    Value value;
  };

  template <class Valid>
  void drop(std::vector<Entry>& entries, const Valid& valid) {
    size_ -= std::erase_if(entries, [&](const Entry& e) { return !valid(e.value); });
  }

  size_t bucket(int64_t key) const {
    return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(key ^ clock_)));
  }

  std::array<std::vector<Entry>, 64> buckets_;
  std::vector<Entry> moving_;  // empty but for its memory
  size_t size_ = 0;
  int64_t clock_ = 0;
};

}  // namespace stepcast
