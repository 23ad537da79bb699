// SPDX-License-Identifier: Apache-2.0
// Speeds of lanes: jitter, folding, and ops that run into a window.
//
// Jitter.  The table has 4096 equally likely factors of a log-normal distribution, half of them
// below 1 and half above.  A hash of (seed, rank, op) is an index into it, so no state is carried
// from one op to the next.
//
// Folding.  Take tp = 2 and dp = 8, and one slow GPU at (tp, dp) = (1, 3).
//
//     digit tp   the slices tp = 0 and tp = 1 differ at dp = 3: both are kept
//     digit dp   all slices but dp = 3 are equal: one of these seven is kept, and slice 3
//
// 16 lanes have become 4.  The digits are then put in order of size, the largest innermost, since
// long vectors are where vector units are fast.
//
// Windows.  An op of 10 begins at 0, and from 4 to 9 its lane takes twice as long.  At 4 there are
// 6 left of it, which are 12 at the new pace; of these 5 have passed at 9, and the other 7 are 3.5
// at the old pace: it ends at 12.5 (play).

#include "sim/lanes/lane_speeds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/check.h"
#include "sim/lanes/lane_kernels.h"
#include "sim/lanes/lane_program.h"
#include "sim/log_exp.h"
#include "sim/random.h"

namespace stepcast {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
constexpr double kInverseRootTwoPi = 0.3989422804014326779;

double density(double z) {
  return kInverseRootTwoPi * exact_exp2(-0.5 * z * z * kLog2E);
}

// The normal distribution function less one half, for z >= 0: density times the series
// z + z^3/3 + z^5/(3 5) + ... (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.11).
double above_median(double z) {
  double term = z;
  double sum = z;
  for (int k = 3; term > 1e-18 * sum; k += 2) {
    term *= z * z / k;
    sum += term;
  }
  return density(z) * sum;
}

}  // namespace

JitterTable jitter_table(double sigma) {
  STEPCAST_CHECK(sigma >= 0 && sigma <= 1, "the spread of jitter lies between 0 and 1");
  JitterTable table;
  const size_t half = table.factor.size() / 2;
  const auto count = static_cast<double>(table.factor.size());
  const auto fixed = [](double x) { return static_cast<uint32_t>(x * 4096 + 0.5); };
  double z = 0;
  for (size_t i = 0; i < half; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / count;
    // Newton from the neighbouring quantile, which lies below: the function is concave here, so
    // all steps go up until rounding stops them.
    for (double step = 1; step > 1e-12; z += step) step = (p - above_median(z)) / density(z);
    table.factor[half + i] = fixed(exact_exp2(sigma * z * kLog2E));
    table.factor[half - 1 - i] = fixed(exact_exp2(-sigma * z * kLog2E));
  }
  return table;
}

uint32_t jitter_rank_key(uint64_t seed, uint64_t rank) {
  return static_cast<uint32_t>(splitmix(splitmix(seed + kSplitMixStep) + rank) >> 32);
}

uint32_t jitter_instance_key(uint64_t instance) {
  return static_cast<uint32_t>(splitmix(instance * kSplitMixStep) >> 32);
}

namespace {

template <class T>
bool all_equal(const std::vector<T>& v) {
  return std::adjacent_find(v.begin(), v.end(), std::not_equal_to<>()) == v.end();
}

// A number for each lane, equal where everything about the lanes is equal.
class LaneKinds {
 public:
  explicit LaneKinds(int64_t lanes) : kind_(static_cast<size_t>(lanes)) {}

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

}  // namespace

std::vector<uint32_t> kinds_of_lanes(const LaneSet& lanes) {
  LaneKinds kinds(lanes.lanes());
  for (const auto& role : lanes.slowness) kinds.distinguish(role);
  for (const auto& axis : lanes.group_class) {
    for (const auto& role : axis) kinds.distinguish(role);
  }
  for (const auto& role : lanes.windows) kinds.distinguish(role);
  return kinds.take();
}

namespace {

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

LaneSet picked_lanes(const LaneSet& lanes, std::vector<LaneDigit> digits,
                     const std::vector<int64_t>& original) {
  LaneSet out;
  out.digits = std::move(digits);
  out.slowness = picked(lanes.slowness, original);
  out.class_ps = lanes.class_ps;
  for (size_t axis = 0; axis < lanes.group_class.size(); ++axis) {
    out.group_class[axis] = picked(lanes.group_class[axis], original);
  }
  out.join = lanes.join;
  out.window_lists = lanes.window_lists;
  out.windows = picked(lanes.windows, original);
  out.jitter = lanes.jitter;
  return out;
}

FoldedLanes fold_lanes(const LaneSet& lanes, bool fold) {
  Shrinking s{lanes.digits, {}, {}};
  s.original.resize(static_cast<size_t>(lanes.lanes()));
  std::iota(s.original.begin(), s.original.end(), int64_t{0});
  s.of = s.original;
  if (fold && !lanes.jitter) {
    const std::vector<uint32_t> kinds = kinds_of_lanes(lanes);
    for (size_t d = 0; d < s.digits.size(); ++d) merge_slices(s, d, kinds);
  }
  put_in_order(s);
  FoldedLanes out;
  out.lanes = picked_lanes(lanes, std::move(s.digits), s.original);
  out.of = std::move(s.of);
  out.original = std::move(s.original);
  return out;
}

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

namespace {

// The fastest and slowest that a lane can be, in 1/4096.
struct Bounds {
  uint64_t fastest = kNominal, slowest = kNominal;
};

void take_slowness(RoleSpeeds& s, const LaneSet& lanes, uint32_t r) {
  if (r >= lanes.slowness.size() || lanes.slowness[r].empty()) return;
  STEPCAST_CHECK(lanes.slowness[r].size() == s.slowness.size(), "a speed for every lane");
  for (size_t i = 0; i < s.slowness.size(); ++i) {
    STEPCAST_CHECK(lanes.slowness[r][i] > 0, "a lane without speed");
    s.slowness[i] = static_cast<uint32_t>(lanes.slowness[r][i]);
  }
}

void take_windows(RoleSpeeds& s, const LaneSet& lanes, uint32_t r, Bounds& bounds) {
  if (lanes.windows.empty()) return;
  std::vector<std::vector<LaneSpan>> of(s.slowness.size());
  Bounds factor;
  for (size_t i = 0; i < of.size(); ++i) {
    for (const LaneWindow& w : lanes.windows_of(r, static_cast<int64_t>(i))) {
      if (w.slowness == kNominal) continue;
      STEPCAST_CHECK(w.slowness > 0, "a window without speed");
      factor.fastest = std::min(factor.fastest, static_cast<uint64_t>(w.slowness));
      factor.slowest = std::max(factor.slowest, static_cast<uint64_t>(w.slowness));
      of[i].push_back(span_of(w, Axis::none));
    }
  }
  for (size_t i = 0; i < of.size(); ++i) {
    if (of[i].empty()) continue;
    LaneWindows w{static_cast<int64_t>(i), INT64_MAX, 0, std::move(of[i])};
    for (const LaneSpan& span : w.spans) {
      w.first = std::min(w.first, span.from);
      w.last = std::max(w.last, span.until);
    }
    s.windows.push_back(std::move(w));
  }
  if (s.windows.empty()) return;
  bounds.fastest = bounds.fastest * factor.fastest >> kLaneFractionBits;
  bounds.slowest = (bounds.slowest * factor.slowest >> kLaneFractionBits) + 1;
}

void take_jitter(RoleSpeeds& s, const FoldedLanes& folded, uint32_t r, const JitterTable& jitter,
                 Bounds& bounds) {
  for (const int64_t lane : folded.original) {
    const uint64_t rank = r * folded.of.size() + static_cast<uint64_t>(lane);
    s.jitter_key.push_back(jitter_rank_key(folded.lanes.jitter->seed, rank));
  }
  bounds.fastest = bounds.fastest * jitter.factor.front() >> kLaneFractionBits;
  bounds.slowest = (bounds.slowest * jitter.factor.back() >> kLaneFractionBits) + 1;
}

RoleSpeeds speeds_of(const FoldedLanes& folded, uint32_t r, const JitterTable& jitter) {
  RoleSpeeds s;
  s.slowness.assign(folded.original.size(), kNominal);
  take_slowness(s, folded.lanes, r);
  s.slowness_as_double.assign(s.slowness.begin(), s.slowness.end());
  const auto [least, most] = std::minmax_element(s.slowness.begin(), s.slowness.end());
  s.same = *least == *most;
  Bounds bounds{*least, *most};
  take_windows(s, folded.lanes, r, bounds);
  if (folded.lanes.jitter) take_jitter(s, folded, r, jitter, bounds);
  if (bounds.slowest > INT32_MAX) throw_step_too_long();
  s.fastest = static_cast<Slowness>(bounds.fastest);
  s.slowest = static_cast<Slowness>(bounds.slowest);
  return s;
}

}  // namespace

bool RoleSpeeds::wide(int64_t duration) const {
  return duration > (lane_kernels::kWide - 1) / slowest;
}

std::vector<RoleSpeeds> role_speeds(const FoldedLanes& folded, size_t roles,
                                    const JitterTable& jitter) {
  STEPCAST_CHECK(folded.lanes.slowness.empty() || folded.lanes.slowness.size() == roles,
                 "speeds of every role");
  std::vector<RoleSpeeds> speeds;
  for (uint32_t r = 0; r < roles; ++r) speeds.push_back(speeds_of(folded, r, jitter));
  return speeds;
}

}  // namespace stepcast
