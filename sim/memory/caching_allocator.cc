// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/caching_allocator.h"

#include <algorithm>
#include <bit>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kMinBlock = 512;        // a unit
constexpr int64_t kSmallSize = 1 * kMiB;  // requests up to this are small
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;  // for large requests below kMinLarge
constexpr int64_t kMinLarge = 10 * kMiB;
constexpr int64_t kRoundLarge = 2 * kMiB;

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

constexpr uint32_t size_of(BlockKey key) {
  return static_cast<uint32_t>(key >> 32U);
}

BlockKey key_of(int64_t size, int64_t address) {
  return (static_cast<BlockKey>(size / kMinBlock) << 32U) |
         static_cast<BlockKey>(address / kMinBlock);
}

}  // namespace

// ------------------------------------------------------------------------------------ free blocks

// Sizes below 16 have a list each; above it is the power of two and the four bits after the first.
inline uint32_t FreeBlocks::list_of(uint32_t size) {
  if (size < 16) return size;
  const auto shift = static_cast<uint32_t>(std::bit_width(size)) - 5;
  return (shift + 1) * 16 + ((size >> shift) & 15U);
}

inline FreeBlocks::Place FreeBlocks::best(uint32_t size) const {
  const uint32_t own = list_of(size);
  const std::vector<Free>& list = lists_[own];
  if (!list.empty() && size_of(list.back().key) >= size) {
    uint32_t index = 0;
    if (list.size() > 16) {
      const auto at = std::ranges::lower_bound(list, BlockKey{size} << 32U, {}, &Free::key);
      return {own, static_cast<uint32_t>(at - list.begin())};
    }
    while (size_of(list[index].key) < size) ++index;
    return {own, index};
  }
  const uint32_t from = own + 1;
  uint64_t mask = ~uint64_t{0} << (from % 64);
  for (uint32_t word = from / 64; word < used_.size(); ++word) {
    if (const uint64_t bits = used_[word] & mask; bits != 0)
      return {word * 64 + static_cast<uint32_t>(std::countr_zero(bits)), 0};
    mask = ~uint64_t{0};
  }
  return {};
}

inline FreeBlocks::Place FreeBlocks::place_of(BlockKey key) const {
  const uint32_t i = list_of(size_of(key));
  const std::vector<Free>& list = lists_[i];
  auto index = static_cast<uint32_t>(list.size());
  while (index > 0 && list[index - 1].key > key) --index;
  STEPCAST_CHECK(index > 0 && list[index - 1].key == key, "free list of the caching allocator");
  return {i, index - 1};
}

inline void FreeBlocks::insert(Free free) {
  const uint32_t i = list_of(size_of(free.key));
  std::vector<Free>& list = lists_[i];
  used_[i / 64] |= uint64_t{1} << (i % 64);
  list.push_back(free);
  size_t at = list.size() - 1;
  for (; at > 0 && list[at - 1].key > free.key; --at) list[at] = list[at - 1];
  list[at] = free;
}

inline void FreeBlocks::erase(Place place) {
  std::vector<Free>& list = lists_[place.list];
  for (size_t i = place.index + 1; i < list.size(); ++i) list[i - 1] = list[i];
  list.pop_back();
  if (list.empty()) used_[place.list / 64] &= ~(uint64_t{1} << (place.list % 64));
}

inline void FreeBlocks::replace(Place place, Free free) {
  std::vector<Free>& list = lists_[place.list];
  if (list.size() == 1 && list_of(size_of(free.key)) == place.list) {
    list.front() = free;
    return;
  }
  erase(place);
  insert(free);
}

void FreeBlocks::append_keys(std::vector<int64_t>& out) const {
  for (const std::vector<Free>& list : lists_)
    for (const Free& f : list) out.push_back(static_cast<int64_t>(f.key));
}

// ---------------------------------------------------------------------------------- the allocator

uint32_t CachingAllocator::units_of(Bytes bytes) {
  if (bytes.value <= 0) return 0;
  const int64_t units = (bytes.value + kMinBlock - 1) / kMinBlock;
  STEPCAST_CHECK(units < (int64_t{1} << 32), "more than 2 TiB on one GPU");
  return static_cast<uint32_t>(units);
}

Bytes CachingAllocator::allocated() const {
  return {allocated_ * kMinBlock};
}

inline int64_t CachingAllocator::bytes_of(const Chunk& c) {
  return int64_t{size_of(c.key)} * kMinBlock;
}

inline CachingAllocator::Block CachingAllocator::new_chunk(const Chunk& chunk) {
  if (!unused_.empty()) {
    const Block b = unused_.back();
    unused_.pop_back();
    chunks_[static_cast<size_t>(b)] = chunk;
    return b;
  }
  chunks_.push_back(chunk);
  return static_cast<Block>(chunks_.size() - 1);
}

// Free blocks without neighbours are whole segments.
void CachingAllocator::release_segments() {
  lacked_room_ = true;
  for (FreeBlocks& pool : free_) {
    pool.erase_if([&](Block b) {
      const Chunk& c = chunks_[static_cast<size_t>(b)];
      if (c.previous != kNone || c.next != kNone) return false;
      reserved_ -= bytes_of(c);
      unused_.push_back(b);
      return true;
    });
  }
}

// What is unmapped is a hole in the segment that nobody uses again.
void CachingAllocator::unmap_free_blocks() {
  for (FreeBlocks& pool : free_) {
    pool.erase_if([&](Block b) {
      reserved_ -= bytes_of(chunks_[static_cast<size_t>(b)]);
      chunks_[static_cast<size_t>(b)].in_use = true;
      return true;
    });
  }
}

CachingAllocator::Block CachingAllocator::expand(int64_t size, bool small) {
  const size_t pool = small ? 1 : 0;
  const int64_t page = small ? kSmallSegment : kLargeSegment;
  const auto idle = [&] {
    return last_[pool] != kNone && !chunks_[static_cast<size_t>(last_[pool])].in_use;
  };
  const auto lacking = [&] {
    return round_up(size - (idle() ? bytes_of(chunks_[static_cast<size_t>(last_[pool])]) : 0),
                    page);
  };
  // Addresses of what is unmapped are not used again: those of one GPU's trace end at 2 TiB.
  constexpr int64_t kMostUnmapped = int64_t{1} << 40;
  if (lacking() > room_ - reserved_) {
    lacked_room_ = true;
    if (end_[pool] < kMostUnmapped) unmap_free_blocks();
  }
  const int64_t more = lacking();
  reserved_ += more;
  peak_ = std::max(peak_, reserved_);
  end_[pool] += more;
  STEPCAST_CHECK(end_[pool] / kMinBlock < (int64_t{1} << 32), "more than 2 TiB on one GPU");
  if (idle()) {
    Chunk& last = chunks_[static_cast<size_t>(last_[pool])];
    free_[pool].erase(free_[pool].place_of(last.key));
    last.key += key_of(more, 0);
    return last_[pool];
  }
  Chunk chunk;
  chunk.key = key_of(more, end_[pool] - more);
  chunk.small = small;
  chunk.previous = last_[pool];
  const Block b = new_chunk(chunk);
  if (last_[pool] != kNone) chunks_[static_cast<size_t>(last_[pool])].next = b;
  return last_[pool] = b;
}

// Gives the segments that there are the lowest addresses, in their order.
void CachingAllocator::number_again() {
  std::vector<bool> exists(chunks_.size(), true);
  for (const Block b : unused_) exists[static_cast<size_t>(b)] = false;
  std::vector<Block> first;  // of each segment
  for (size_t b = 0; b < chunks_.size(); ++b)
    if (exists[b] && chunks_[b].previous == kNone) first.push_back(static_cast<Block>(b));
  std::ranges::sort(first, {}, [&](Block b) {
    return static_cast<uint32_t>(chunks_[static_cast<size_t>(b)].key);
  });
  next_address_ = 0;
  free_ = {};
  for (Block b : first) {
    for (; b != kNone; b = chunks_[static_cast<size_t>(b)].next) {
      Chunk& c = chunks_[static_cast<size_t>(b)];
      c.key = key_of(bytes_of(c), next_address_);
      next_address_ += bytes_of(c);
      if (!c.in_use) free_[c.small ? 1 : 0].insert({c.key, b});
    }
  }
}

CachingAllocator::Block CachingAllocator::grow(int64_t size, bool small) {
  if (segments_ == Segments::expandable) return expand(size, small);
  const int64_t segment = small              ? kSmallSegment
                          : size < kMinLarge ? kLargeSegment
                                             : round_up(size, kRoundLarge);
  constexpr int64_t kAddresses = (int64_t{1} << 32) * kMinBlock;
  if (segment > room_ - reserved_) release_segments();
  reserved_ += segment;
  peak_ = std::max(peak_, reserved_);
  if (next_address_ + segment >= kAddresses) number_again();
  next_address_ += segment;
  STEPCAST_CHECK(next_address_ < kAddresses, "more than 2 TiB reserved on one GPU");
  Chunk chunk;
  chunk.key = key_of(segment, next_address_ - segment);
  chunk.small = small;
  return new_chunk(chunk);
}

CachingAllocator::Block CachingAllocator::allocate_units(uint32_t size) {
  if (size == 0) return kNone;
  constexpr uint32_t kSmall = kSmallSize / kMinBlock;
  const bool small = size <= kSmall;
  FreeBlocks& pool = free_[small ? 1 : 0];
  const FreeBlocks::Place best = pool.best(size);
  const bool found = best.found();
  const Block b = found ? pool.at(best) : grow(int64_t{size} * kMinBlock, small);
  const BlockKey whole = chunks_[static_cast<size_t>(b)].key;
  const uint32_t rest = size_of(whole) - size;
  if (rest > (small ? 0 : kSmall)) {
    // The rest is so much smaller, and begins so much later.
    const BlockKey tail = whole - (BlockKey{size} << 32U) + size;
    const Block next = chunks_[static_cast<size_t>(b)].next;
    const Block t = new_chunk({tail, b, next, false, small});
    if (next != kNone) chunks_[static_cast<size_t>(next)].previous = t;
    chunks_[static_cast<size_t>(b)].key = whole - (BlockKey{rest} << 32U);
    chunks_[static_cast<size_t>(b)].next = t;
    if (last_[small ? 1 : 0] == b) last_[small ? 1 : 0] = t;
    if (found)
      pool.replace(best, {tail, t});
    else
      pool.insert({tail, t});
  } else if (found) {
    pool.erase(best);
  }
  chunks_[static_cast<size_t>(b)].in_use = true;
  allocated_ += size_of(chunks_[static_cast<size_t>(b)].key);
  return b;
}

// Segments get addresses that grow, and what is free is a part of one: where next_address_ and the
// ends are the same, nothing was reserved in between, and where reserved_ is, too, nothing given
// back.
void CachingAllocator::append_state(std::vector<int64_t>& out) const {
  out.insert(out.end(), {next_address_, end_[0], end_[1], reserved_});
  for (const FreeBlocks& pool : free_) {
    pool.append_keys(out);
    out.push_back(-1);
  }
}

inline void CachingAllocator::absorb_next(Block b) {
  Chunk& c = chunks_[static_cast<size_t>(b)];
  const Block gone = c.next;
  const Chunk& n = chunks_[static_cast<size_t>(gone)];
  c.key += BlockKey{size_of(n.key)} << 32U;
  c.next = n.next;
  if (c.next != kNone) chunks_[static_cast<size_t>(c.next)].previous = b;
  if (last_[c.small ? 1 : 0] == gone) last_[c.small ? 1 : 0] = b;
  unused_.push_back(gone);
}

// What goes back to the free block that it was split off takes its place in the list.
void CachingAllocator::free(Block block) {
  if (block == kNone) return;
  Chunk& freed = chunks_[static_cast<size_t>(block)];
  STEPCAST_CHECK(freed.in_use, "freeing a block twice");
  allocated_ -= size_of(freed.key);
  freed.in_use = false;
  const auto idle = [&](Block b) { return b != kNone && !chunks_[static_cast<size_t>(b)].in_use; };
  const Block next = freed.next, previous = freed.previous;
  const bool joins_next = idle(next), joins_previous = idle(previous);
  FreeBlocks& pool = free_[freed.small ? 1 : 0];
  if (!joins_next && !joins_previous) {
    pool.insert({freed.key, block});
    return;
  }
  if (joins_next && joins_previous)
    pool.erase(pool.place_of(chunks_[static_cast<size_t>(next)].key));
  const Block grows = joins_previous ? previous : next;
  const FreeBlocks::Place at = pool.place_of(chunks_[static_cast<size_t>(grows)].key);
  if (joins_next) absorb_next(block);
  if (joins_previous) {
    absorb_next(previous);
    block = previous;
  }
  pool.replace(at, {chunks_[static_cast<size_t>(block)].key, block});
}

}  // namespace stepcast
