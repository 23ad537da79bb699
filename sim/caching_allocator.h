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
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/units.h"

namespace stepcast {

inline constexpr Bytes kEndlessRoom{std::numeric_limits<int64_t>::max()};

class CachingAllocator {
 public:
  using Block = int32_t;  // handle of an allocation
  static constexpr Block kNone = -1;

  CachingAllocator() = default;
  // On a device with room for so much; beyond it segments are reserved all the same, and
  // peak_reserved() tells.
  explicit CachingAllocator(Bytes room) : room_(room.value) {}

  // kNone for 0 bytes.  O(free blocks) worst case, usually far less.
  Block allocate(Bytes bytes);
  // REQUIRES: a live handle or kNone (which is ignored).
  void free(Block block);

  Bytes reserved() const { return {reserved_}; }
  Bytes peak_reserved() const { return {peak_}; }
  Bytes allocated() const { return {allocated_}; }  // after rounding

 private:
  struct Chunk {
    int64_t size = 0;
    int64_t address = 0;                   // of no meaning but to order blocks
    Block previous = kNone, next = kNone;  // neighbours in the segment
    bool in_use = false;
    bool small = false;
  };
  // Free blocks by size, then address, packed into one number each: 512 B units, 32 bits of either.
  struct FreeList {
    std::vector<uint64_t> keys;  // ascending
    std::vector<Block> blocks;
    size_t first_at_least(uint64_t key) const;
  };
  static uint64_t key_of(const Chunk& c);

  Block new_chunk(const Chunk& chunk);
  Block grow(int64_t size, bool small);
  void release_segments();
  void insert_free(Block b);
  void remove_free(Block b);
  void absorb_next(Block b);  // merges the free neighbour after b into b

  std::vector<Chunk> chunks_;
  std::vector<Block> unused_;  // indices of chunks_ to use again
  FreeList free_[2];           // [1] = small pool
  int64_t room_ = kEndlessRoom.value;
  int64_t reserved_ = 0, peak_ = 0, allocated_ = 0, next_address_ = 0;
};

}  // namespace stepcast
