// SPDX-License-Identifier: Apache-2.0
#include "sim/caching_allocator.h"

#include <algorithm>
#include <utility>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kMinBlock = 512;
constexpr int64_t kSmallSize = 1 * kMiB;  // requests up to this are small
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;  // for large requests below kMinLarge
constexpr int64_t kMinLarge = 10 * kMiB;
constexpr int64_t kRoundLarge = 2 * kMiB;

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

CachingAllocator::Block CachingAllocator::new_chunk(const Chunk& chunk) {
  if (!unused_.empty()) {
    const Block b = unused_.back();
    unused_.pop_back();
    chunks_[static_cast<size_t>(b)] = chunk;
    return b;
  }
  chunks_.push_back(chunk);
  return static_cast<Block>(chunks_.size() - 1);
}

uint64_t CachingAllocator::key_of(const Chunk& c) {
  return (static_cast<uint64_t>(c.size / kMinBlock) << 32U) |
         static_cast<uint64_t>(c.address / kMinBlock);
}

// Without branches: where the search turns is as good as random, and this is what a forecast's
// memory costs.
size_t CachingAllocator::FreeList::first_at_least(uint64_t key) const {
  size_t low = 0;
  size_t n = keys.size();
  while (n > 0) {
    const size_t half = n / 2;
    const bool right = keys[low + half] < key;
    low = right ? low + half + 1 : low;
    n = right ? n - half - 1 : half;
  }
  return low;
}

void CachingAllocator::insert_free(Block b) {
  const Chunk& c = chunks_[static_cast<size_t>(b)];
  FreeList& list = free_[c.small ? 1 : 0];
  const uint64_t key = key_of(c);
  const auto at = static_cast<std::ptrdiff_t>(list.first_at_least(key));
  list.keys.insert(list.keys.begin() + at, key);
  list.blocks.insert(list.blocks.begin() + at, b);
}

void CachingAllocator::remove_free(Block b) {
  const Chunk& c = chunks_[static_cast<size_t>(b)];
  FreeList& list = free_[c.small ? 1 : 0];
  const size_t at = list.first_at_least(key_of(c));
  STEPCAST_CHECK(at < list.blocks.size() && list.blocks[at] == b,
                 "free list of the caching allocator");
  list.keys.erase(list.keys.begin() + static_cast<std::ptrdiff_t>(at));
  list.blocks.erase(list.blocks.begin() + static_cast<std::ptrdiff_t>(at));
}

// Free blocks without neighbours are whole segments.
void CachingAllocator::release_segments() {
  for (FreeList& list : free_) {
    FreeList left;
    for (size_t i = 0; i < list.blocks.size(); ++i) {
      const Chunk& c = chunks_[static_cast<size_t>(list.blocks[i])];
      if (c.previous == kNone && c.next == kNone) {
        reserved_ -= c.size;
        unused_.push_back(list.blocks[i]);
      } else {
        left.keys.push_back(list.keys[i]);
        left.blocks.push_back(list.blocks[i]);
      }
    }
    list = std::move(left);
  }
}

CachingAllocator::Block CachingAllocator::grow(int64_t size, bool small) {
  const int64_t segment = small              ? kSmallSegment
                          : size < kMinLarge ? kLargeSegment
                                             : round_up(size, kRoundLarge);
  if (segment > room_ - reserved_) release_segments();
  reserved_ += segment;
  peak_ = std::max(peak_, reserved_);
  STEPCAST_CHECK(reserved_ / kMinBlock < (int64_t{1} << 32), "more than 2 TiB reserved on one GPU");
  Chunk chunk;
  chunk.size = segment;
  chunk.address = next_address_;
  chunk.small = small;
  next_address_ += segment;
  return new_chunk(chunk);
}

CachingAllocator::Block CachingAllocator::allocate(Bytes bytes) {
  if (bytes.value <= 0) return kNone;
  const int64_t size = round_up(bytes.value, kMinBlock);
  const bool small = size <= kSmallSize;
  const FreeList& list = free_[small ? 1 : 0];
  const size_t best = list.first_at_least(static_cast<uint64_t>(size / kMinBlock) << 32U);
  Block b;
  if (best < list.blocks.size()) {
    b = list.blocks[best];
    remove_free(b);
  } else {
    b = grow(size, small);
  }
  const int64_t rest = chunks_[static_cast<size_t>(b)].size - size;
  if (small ? rest >= kMinBlock : rest > kSmallSize) {
    const Chunk whole = chunks_[static_cast<size_t>(b)];
    Chunk tail = whole;
    tail.size = rest;
    tail.address = whole.address + size;
    tail.previous = b;
    const Block t = new_chunk(tail);
    if (whole.next != kNone) chunks_[static_cast<size_t>(whole.next)].previous = t;
    chunks_[static_cast<size_t>(b)].size = size;
    chunks_[static_cast<size_t>(b)].next = t;
    insert_free(t);
  }
  chunks_[static_cast<size_t>(b)].in_use = true;
  allocated_ += chunks_[static_cast<size_t>(b)].size;
  return b;
}

void CachingAllocator::absorb_next(Block b) {
  Chunk& c = chunks_[static_cast<size_t>(b)];
  const Block gone = c.next;
  const Chunk& n = chunks_[static_cast<size_t>(gone)];
  c.size += n.size;
  c.next = n.next;
  if (c.next != kNone) chunks_[static_cast<size_t>(c.next)].previous = b;
  unused_.push_back(gone);
}

void CachingAllocator::free(Block block) {
  if (block == kNone) return;
  STEPCAST_CHECK(chunks_[static_cast<size_t>(block)].in_use, "freeing a block twice");
  chunks_[static_cast<size_t>(block)].in_use = false;
  allocated_ -= chunks_[static_cast<size_t>(block)].size;
  const auto idle = [&](Block b) { return b != kNone && !chunks_[static_cast<size_t>(b)].in_use; };
  if (const Block next = chunks_[static_cast<size_t>(block)].next; idle(next)) {
    remove_free(next);
    absorb_next(block);
  }
  if (const Block previous = chunks_[static_cast<size_t>(block)].previous; idle(previous)) {
    remove_free(previous);
    absorb_next(previous);
    block = previous;
  }
  insert_free(block);
}

}  // namespace stepcast
