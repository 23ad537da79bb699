// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator, as far as it decides how much device memory is reserved.
//
// Rules and constants from c10/cuda/CUDACachingAllocator.cpp: a request is rounded up to 512 B.  Up
// to 1 MiB it comes from the small pool, whose segments are 2 MiB; above from the large pool, whose
// segments are 20 MiB for requests below 10 MiB and the request rounded up to 2 MiB otherwise.  The
// smallest free block that is large enough serves it (lowest address on ties); the rest is split
// off if at least 512 B (small pool) or more than 1 MiB (large pool) remain.  A freed block merges
// with free neighbours of its segment.  Segments are never returned.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/units.h"

namespace stepcast {

class CachingAllocator {
 public:
  using Block = int32_t;  // handle of an allocation
  static constexpr Block kNone = -1;

  // kNone for 0 bytes.  O(free blocks) worst case, usually far less.
  Block allocate(Bytes bytes);
  // REQUIRES: a live handle or kNone (which is ignored).
  void free(Block block);

  Bytes reserved() const { return {reserved_}; }
  Bytes peak_reserved() const { return {reserved_}; }  // segments are never given back
  Bytes allocated() const { return {allocated_}; }     // after rounding

 private:
  struct Chunk {
    int64_t size = 0;
    int64_t address = 0;                   // of no meaning but to order blocks
    Block previous = kNone, next = kNone;  // neighbours in the segment
    bool in_use = false;
    bool small = false;
  };
  struct Free {
    int64_t size, address;
    Block block;
    bool operator<(const Free& o) const {
      return size != o.size ? size < o.size : address < o.address;
    }
  };

  Block new_chunk(const Chunk& chunk);
  Block grow(int64_t size, bool small);
  void insert_free(Block b);
  void remove_free(Block b);
  void absorb_next(Block b);  // merges the free neighbour after b into b

  std::vector<Chunk> chunks_;
  std::vector<Block> unused_;  // indices of chunks_ to use again
  std::vector<Free> free_[2];  // by size and address; [1] = small pool
  int64_t reserved_ = 0, allocated_ = 0, next_address_ = 0;
};

}  // namespace stepcast
