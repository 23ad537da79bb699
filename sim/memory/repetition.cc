// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/repetition.h"

namespace stepcast {
namespace {

bool is_later(const Action& a, const Action& b, int64_t shift) {
  return a.kind == b.kind && a.stage == b.stage &&
         int64_t{b.microbatch} - int64_t{a.microbatch} == shift;
}

// Whether b does what a does, for microbatches that are higher by `shift`.
bool is_later(const Item& a, const Item& b, int64_t shift) {
  if (a.pass != b.pass || a.has_action != b.has_action || a.has_second != b.has_second)
    return false;
  return (!a.has_action || is_later(a.action, b.action, shift)) &&
         (!a.has_second || is_later(a.second, b.second, shift));
}

}  // namespace

std::optional<Repetition> find_repetition(std::span<const Item> passes) {
  const size_t n = passes.size();
  size_t middle = n / 2;
  while (middle > 0 && !passes[middle].has_action) --middle;
  if (middle == 0) return {};
  // Lists that nearly repeat at many lengths are given up rather than compared again and again.
  size_t comparisons = 16 * n;
  for (size_t length = 1; length <= middle && 3 * length <= n; ++length) {
    const Item& before = passes[middle - length];
    if (!before.has_action) continue;
    const int64_t shift =
        int64_t{passes[middle].action.microbatch} - int64_t{before.action.microbatch};
    if (shift == 0 || !is_later(before, passes[middle], shift)) continue;
    size_t first = middle, end = middle + 1;  // compared with what is `length` before, and alike
    while (first > length && is_later(passes[first - 1 - length], passes[first - 1], shift))
      --first;
    while (end < n && is_later(passes[end - length], passes[end], shift)) ++end;
    const size_t begin = first - length;
    if (end - begin >= 3 * length) return Repetition{begin, end, length, shift};
    if (comparisons < end - begin) return {};
    comparisons -= end - begin;
  }
  return {};
}

}  // namespace stepcast
