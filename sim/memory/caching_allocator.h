// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator, as far as it decides how much device memory is reserved.
//
// Rules and constants from c10/cuda/CUDACachingAllocator.cpp: a request is rounded up to 512 B.  Up
// to 1 MiB it comes from the small pool, whose segments are 2 MiB; above from the large pool, whose
// segments are 20 MiB for requests below 10 MiB and the request rounded up to 2 MiB otherwise.  The
// smallest free block that is large enough serves it (lowest address on ties); the rest is split
// off if at least 512 B (small pool) or more than 1 MiB (large pool) remain.  A freed block merges
// with free neighbours of its segment.  Segments that are free as a whole are returned only when
// the device has no room for a new one (release_cached_blocks).
//
// Expandable segments: each pool has one, in which addresses follow each other.  It grows at its
// end, by pages of 2 MiB (small pool) or 20 MiB, and only by what the free block there lacks.
// Without room free blocks are given back to the device, whole here, by pages there.
//
// A step makes tens of thousands of requests, of some dozens of sizes.  Free blocks are kept in
// lists that begin with these sizes, so that the first block of the first list from a request's own
// on serves it.  Three of five requests take a whole block, and as many blocks go back between
// neighbours that are in use: these short ways are here, the others in the source file.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "sim/units.h"

namespace stepcast {

// What the caching allocator takes from the device.
enum class Segments : uint8_t {
  fixed,
  expandable,  // PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
};

inline constexpr Bytes kEndlessRoom{std::numeric_limits<int64_t>::max()};

// Sizes and addresses are in units of 512 B, 32 bits of either: size, then address, are one number.
using BlockKey = uint64_t;

// What is asked for, worked out for those who ask for it again and again.
struct BlockRequest {
  uint32_t size = 0;       // in units; 0 for 0 bytes
  uint32_t most_rest = 0;  // of the block, that stays with it
  uint32_t list = 0;       // of free blocks, where those of this size are

  bool is_small() const { return most_rest == 0; }
  bool operator==(const BlockRequest&) const = default;
};

// Of 2 TiB - 1 MiB or more a little less than that: beyond it a size would be taken for that of a
// list's head, and no GPU has as much.  Without the list, which SizeClasses knows.
BlockRequest request_of(Bytes bytes);

// Lists of free blocks in the order of size, those of the small pool behind those of the other.
// Any sizes may begin one: they only decide how many blocks are looked at.
class SizeClasses {
 public:
  static constexpr uint32_t kLists = 64;  // of a pool

  // For requests of any size: one for each power of two.
  SizeClasses();
  // One for each size of the requests; if there are more of them than lists, for every second or
  // third.
  explicit SizeClasses(std::span<const BlockRequest> requests);

  uint32_t list_of(uint32_t size, uint8_t small) const {
    const Pool& pool = pools_[small];
    uint32_t list = pool.of_bucket[bucket_of(size)];
    while (size >= pool.from[list + 1]) ++list;
    return list + kLists * small;
  }

 private:
  static constexpr uint32_t kBuckets = 32 * 16;
  // The power of two and the four bits after the first, as a floating-point number has them, which
  // holds every size exactly.
  static uint32_t bucket_of(uint32_t size) {
    constexpr uint64_t kOne = std::bit_cast<uint64_t>(1.0) >> 48U;
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(int64_t{size}));
    return static_cast<uint32_t>((bits >> 48U) - kOne);
  }

  struct Pool {
    std::array<uint32_t, kLists + 1> from{};    // the least size of a list; then none
    std::array<uint8_t, kBuckets> of_bucket{};  // the list of the bucket's least size
  };
  static Pool pool_of(std::vector<uint32_t> sizes);

  std::array<Pool, 2> pools_;  // [1] = small
};

class CachingAllocator {
  struct Chunk;

 public:
  using Block = Chunk*;  // handle of an allocation
  static constexpr Block kNone = nullptr;

  CachingAllocator() : CachingAllocator(kEndlessRoom) {}
  // On a device with `room` bytes.  Beyond that, segments are reserved all the same, and
  // peak_reserved() shows it.  `classes` must outlive it; null: those for requests of any size.
  explicit CachingAllocator(Bytes room, Segments segments = Segments::fixed,
                            const SizeClasses* classes = nullptr);
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator() = default;

  // kNone for 0 bytes.
  Block allocate(Bytes bytes);
  // REQUIRES: more than nothing is asked for, and the list is that of the size.
  Block serve(const BlockRequest& request);
  // REQUIRES: a live handle or kNone (which is ignored).
  void free(Block block);

  Bytes reserved() const { return {reserved_}; }
  Bytes peak_reserved() const { return {peak_}; }
  Bytes allocated() const;  // after rounding; O(blocks)
  // Whether the device had no room for a segment, ever.
  bool lacked_room() const { return lacked_room_; }

  // Numbers that are equal for two moments of one allocator only if the same addresses were free at
  // both and no segment was reserved or given back between them.
  std::vector<uint64_t> state() const;
  // Whether they are these.  Mostly known at the first few.
  bool is_state(std::span<const uint64_t> state) const;
  // Others for each live block, and for kNone.
  static std::array<uint64_t, 2> place_of(Block block) {
    if (block == kNone) return {0, 2};
    return {block->key, block->small};
  }

 private:
  // A block, in use or free, or the head of a list of free ones.
  struct Chunk {
    BlockKey key = 0;                            // of the address only its order has a meaning
    Chunk *previous = nullptr, *next = nullptr;  // neighbours in the segment, or edge_
    Chunk *before = nullptr, *after = nullptr;   // in a list of free blocks
    uint32_t list = 0;                           // where free blocks of this size are
    bool in_use = false;
    uint8_t small = 0;
  };

  // A list is in the order of size, then address.  Most of them have one block or none.  It is a
  // ring: its head comes after all of its blocks.
  static constexpr uint32_t kLists = SizeClasses::kLists;
  static constexpr uint32_t kUnmapped = 2 * kLists;  // instead of a list: nobody's memory
  static uint32_t size_of(BlockKey key) { return static_cast<uint32_t>(key >> 32U); }
  static BlockKey key_of(int64_t size, int64_t address);
  static int64_t bytes_of(const Chunk& c);

  void insert(Chunk* c);
  void erase(Chunk* c) {
    c->before->after = c->after;
    c->after->before = c->before;
    if (c->before == c->after) used_[c->list / kLists] &= ~(uint64_t{1} << (c->list % kLists));
  }
  // Makes `now`, which may be itself, of the free block `before`, and gives it this key.
  void replace(Chunk* before, Chunk* now, BlockKey key);

  [[noreturn]] static void freed_twice();
  Block serve_elsewhere(const BlockRequest& request, Chunk* c);
  Chunk* next_that_fits(const BlockRequest& request, Chunk* c);
  void merge(Chunk* freed);
  Chunk* new_chunk();
  Chunk* more_chunks();
  Chunk* grow(int64_t size, uint8_t small);
  Chunk* expand(int64_t size, uint8_t small);
  void number_again();
  void unmap_free_blocks();
  void release_segments();
  // Takes the block after c out of the segment.
  void absorb_next(Chunk* c);
  template <class F>
  bool all_of_state(const F& f) const;  // f(number) of each number of the state, until it is false

  const SizeClasses* classes_;
  std::array<Chunk, 2 * size_t{kLists}> heads_;
  std::array<uint64_t, 2> used_{};  // a bit for each list of a pool: whether it has blocks
  Chunk edge_;  // the neighbour of what has none: in use, so that nothing merges with it
  std::deque<Chunk> chunks_;
  Chunk* unused_ = nullptr;  // chunks to use again, linked by `after`
  Segments segments_ = Segments::fixed;
  std::array<Chunk*, 2> last_{};  // at the end of an expandable segment; [1] = small pool
  std::array<int64_t, 2> end_{};  // its end
  int64_t room_ = kEndlessRoom.value;
  int64_t reserved_ = 0, peak_ = 0, next_address_ = 0;
  bool lacked_room_ = false;
};

// From both ends of the list: mostly it is near one of them.
inline void CachingAllocator::insert(Chunk* c) {
  Chunk* const head = &heads_[c->list];
  Chunk *after = head->after, *before = head->before;
  if (after == head) used_[c->list / kLists] |= uint64_t{1} << (c->list % kLists);
  for (;; after = after->after, before = before->before) {
    if (after->key > c->key) {
      before = after->before;
      break;
    }
    if (before->key < c->key) {
      after = before->after;
      break;
    }
  }
  c->before = before;
  c->after = after;
  before->after = c;
  after->before = c;
}

// The first block of the request's own list may be too small: the difference is huge then.
inline CachingAllocator::Block CachingAllocator::serve(const BlockRequest& request) {
  const uint64_t lists = used_[request.list / kLists] >> (request.list % kLists);
  if (lists == 0) return serve_elsewhere(request, nullptr);
  Chunk* c = heads_[request.list + static_cast<uint32_t>(std::countr_zero(lists))].after;
  if (size_of(c->key) - request.size > request.most_rest) return serve_elsewhere(request, c);
  erase(c);
  c->in_use = true;
  return c;
}

inline void CachingAllocator::free(Block block) {
  if (block == kNone) return;
  if (!block->in_use) freed_twice();
  block->in_use = false;
  if (block->previous->in_use && block->next->in_use) {
    insert(block);
  } else {
    merge(block);
  }
}

}  // namespace stepcast
