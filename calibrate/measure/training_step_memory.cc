// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_memory.h"

#include <algorithm>
#include <iterator>

#include "sim/check.h"

namespace stepcast::measure {

int64_t Arena::take(int64_t bytes) {
  STEPCAST_CHECK(bytes > 0, "a tensor has elements");
  bytes = (bytes + 255) / 256 * 256;
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (gap->second >= bytes && (best == gaps_.end() || gap->second < best->second)) best = gap;
  int64_t place = end_;
  if (best != gaps_.end()) {
    place = best->first;
    const int64_t rest = best->second - bytes;
    gaps_.erase(best);
    if (rest > 0) gaps_[place + bytes] = rest;
  } else {
    end_ += bytes;
    peak_ = std::max(peak_, end_);
  }
  taken_[place] = bytes;
  return place;
}

void Arena::give_back(int64_t place) {
  const auto taken = taken_.find(place);
  STEPCAST_CHECK(taken != taken_.end(), "what is given back was taken");
  int64_t begin = place, end = place + taken->second;
  taken_.erase(taken);
  const auto next = gaps_.find(end);
  if (next != gaps_.end()) {
    end += next->second;
    gaps_.erase(next);
  }
  const auto after = gaps_.lower_bound(begin);
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      gaps_.erase(before);
    }
  }
  if (end == end_) {
    end_ = begin;
  } else {
    gaps_[begin] = end - begin;
  }
}

}  // namespace stepcast::measure
