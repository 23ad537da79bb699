// SPDX-License-Identifier: Apache-2.0
#include "sim/lane_fold.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/check.h"

namespace stepcast {
namespace {

template <class T>
bool all_equal(const std::vector<T>& v) {
  return std::adjacent_find(v.begin(), v.end(), std::not_equal_to<>()) == v.end();
}

// A number for each lane, equal where everything about the lanes is equal.
class Kinds {
 public:
  explicit Kinds(int64_t lanes) : kind_(static_cast<size_t>(lanes)) {}

  template <class T>
  void distinguish(const std::vector<T>& by) {
    if (different_ == kind_.size() || all_equal(by)) return;
    STEPCAST_CHECK(by.size() == kind_.size(), "one entry for each lane");
    std::map<std::pair<uint32_t, T>, uint32_t> numbers;
    for (size_t lane = 0; lane < by.size(); ++lane) {
      const auto next = static_cast<uint32_t>(numbers.size());
      kind_[lane] = numbers.try_emplace({kind_[lane], by[lane]}, next).first->second;
    }
    different_ = numbers.size();
  }

  std::vector<uint32_t> take() { return std::move(kind_); }

 private:
  std::vector<uint32_t> kind_;
  size_t different_ = 1;
};

std::vector<uint32_t> kinds_of(const LaneSet& lanes) {
  Kinds kinds(lanes.lanes());
  for (const auto& role : lanes.slowness) kinds.distinguish(role);
  for (const auto& axis : lanes.group_class) {
    for (const auto& role : axis) kinds.distinguish(role);
  }
  for (const auto& role : lanes.windows) kinds.distinguish(role);
  return kinds.take();
}

// Lanes as an array that shrinks: its digits, and for each place one lane of those given.
struct Shrinking {
  std::vector<LaneDigit> digits;
  std::vector<int64_t> original;  // by place
  std::vector<int64_t> of;        // lane as given -> place
};

// Keeps slices `keep` of digit d; slice i becomes number[i].
void shrink(Shrinking& s, size_t d, const std::vector<int64_t>& keep,
            const std::vector<int64_t>& number) {
  int64_t stride = 1;
  for (size_t i = 0; i < d; ++i) stride *= s.digits[i].size;
  const int64_t old_size = s.digits[d].size;
  const auto new_size = static_cast<int64_t>(keep.size());
  const auto places = static_cast<int64_t>(s.original.size());
  std::vector<int64_t> original;
  original.reserve(static_cast<size_t>(places / old_size * new_size));
  for (int64_t outer = 0; outer < places; outer += stride * old_size) {
    for (const int64_t slice : keep) {
      const auto from = s.original.begin() + outer + slice * stride;
      original.insert(original.end(), from, from + stride);
    }
  }
  for (int64_t& place : s.of) {
    const int64_t outer = place / (stride * old_size);
    const int64_t slice = place / stride % old_size;
    place = (outer * new_size + number[static_cast<size_t>(slice)]) * stride + place % stride;
  }
  s.original = std::move(original);
  s.digits[d].size = new_size;
}

void merge_slices(Shrinking& s, size_t d, const std::vector<uint32_t>& kinds) {
  int64_t stride = 1;
  for (size_t i = 0; i < d; ++i) stride *= s.digits[i].size;
  const int64_t size = s.digits[d].size;
  const auto places = static_cast<int64_t>(s.original.size());
  std::map<std::vector<uint32_t>, int64_t> seen;
  std::vector<int64_t> keep;
  std::vector<int64_t> number;
  for (int64_t slice = 0; slice < size; ++slice) {
    std::vector<uint32_t> key;
    for (int64_t outer = slice * stride; outer < places; outer += stride * size) {
      for (int64_t i = outer; i < outer + stride; ++i) {
        key.push_back(kinds[static_cast<size_t>(s.original[static_cast<size_t>(i)])]);
      }
    }
    const auto [it, is_new] = seen.try_emplace(std::move(key), std::ssize(keep));
    if (is_new) keep.push_back(slice);
    number.push_back(it->second);
  }
  if (std::ssize(keep) < size) shrink(s, d, keep, number);
}

// Long vectors are where vector units are fast: the largest digit goes innermost.
void put_in_order(Shrinking& s) {
  std::vector<size_t> order;
  for (size_t d = 0; d < s.digits.size(); ++d) {
    if (s.digits[d].size > 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return s.digits[a].size > s.digits[b].size; });
  std::vector<int64_t> strides(s.digits.size());  // where a digit counts in the new order
  std::vector<LaneDigit> digits;
  int64_t stride = 1;
  for (const size_t d : order) {
    strides[d] = stride;
    stride *= s.digits[d].size;
    digits.push_back(s.digits[d]);
  }
  std::vector<int64_t> moved(s.original.size());
  for (size_t place = 0; place < moved.size(); ++place) {
    auto rest = static_cast<int64_t>(place);
    for (size_t d = 0; d < s.digits.size(); ++d) {
      moved[place] += rest % s.digits[d].size * strides[d];
      rest /= s.digits[d].size;
    }
  }
  std::vector<int64_t> original(s.original.size());
  for (size_t place = 0; place < moved.size(); ++place) {
    original[static_cast<size_t>(moved[place])] = s.original[place];
  }
  for (int64_t& place : s.of) place = moved[static_cast<size_t>(place)];
  s.original = std::move(original);
  s.digits = std::move(digits);
}

template <class T>
std::vector<std::vector<T>> picked(const std::vector<std::vector<T>>& by_role,
                                   const std::vector<int64_t>& original) {
  std::vector<std::vector<T>> out(by_role.size());
  for (size_t r = 0; r < by_role.size(); ++r) {
    if (by_role[r].empty()) continue;
    for (const int64_t lane : original) out[r].push_back(by_role[r][static_cast<size_t>(lane)]);
  }
  return out;
}

}  // namespace

FoldedLanes fold_lanes(const LaneSet& lanes, bool fold) {
  Shrinking s{lanes.digits, {}, {}};
  s.original.resize(static_cast<size_t>(lanes.lanes()));
  std::iota(s.original.begin(), s.original.end(), int64_t{0});
  s.of = s.original;
  if (fold && !lanes.jitter) {
    const std::vector<uint32_t> kinds = kinds_of(lanes);
    for (size_t d = 0; d < s.digits.size(); ++d) merge_slices(s, d, kinds);
  }
  put_in_order(s);
  FoldedLanes out;
  out.lanes.digits = std::move(s.digits);
  out.lanes.slowness = picked(lanes.slowness, s.original);
  out.lanes.class_ps = lanes.class_ps;
  for (size_t axis = 0; axis < lanes.group_class.size(); ++axis) {
    out.lanes.group_class[axis] = picked(lanes.group_class[axis], s.original);
  }
  out.lanes.join = lanes.join;
  out.lanes.window_lists = lanes.window_lists;
  out.lanes.windows = picked(lanes.windows, s.original);
  out.lanes.jitter = lanes.jitter;
  out.of = std::move(s.of);
  out.original = std::move(s.original);
  return out;
}

}  // namespace stepcast
