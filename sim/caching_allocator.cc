// SPDX-License-Identifier: Apache-2.0
#include "sim/caching_allocator.h"

#include <algorithm>

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

void CachingAllocator::insert_free(Block b) {
  const Chunk& c = chunks_[static_cast<size_t>(b)];
  std::vector<Free>& list = free_[c.small ? 1 : 0];
  const Free entry{c.size, c.address, b};
  list.insert(std::lower_bound(list.begin(), list.end(), entry), entry);
}

void CachingAllocator::remove_free(Block b) {
  const Chunk& c = chunks_[static_cast<size_t>(b)];
  std::vector<Free>& list = free_[c.small ? 1 : 0];
  const auto it = std::lower_bound(list.begin(), list.end(), Free{c.size, c.address, b});
  STEPCAST_CHECK(it != list.end() && it->block == b, "free list of the caching allocator");
  list.erase(it);
}

CachingAllocator::Block CachingAllocator::grow(int64_t size, bool small) {
  const int64_t segment = small              ? kSmallSegment
                          : size < kMinLarge ? kLargeSegment
                                             : round_up(size, kRoundLarge);
  reserved_ += segment;
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
  const std::vector<Free>& list = free_[small ? 1 : 0];
  const auto best = std::lower_bound(list.begin(), list.end(), Free{size, -1, kNone});
  Block b;
  if (best != list.end()) {
    b = best->block;
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
