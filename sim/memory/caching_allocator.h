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

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// Free blocks of a pool in the order of size, then address: 16 lists for each power of two of
// sizes, each sorted.  Most of them have one block or none.
class FreeBlocks {
 public:
  struct Free {
    BlockKey key = 0;
    int32_t block = 0;
  };
  struct Place {
    uint32_t list = kLists, index = 0;
    bool found() const { return list != kLists; }
  };

  // The smallest block of at least that size; of equal ones that of the lowest address.
  Place best(uint32_t size) const;
  // REQUIRES: a free block has this key.
  Place place_of(BlockKey key) const;
  int32_t at(Place place) const { return lists_[place.list][place.index].block; }
  void insert(Free free);
  void erase(Place place);
  // Erases what is there and inserts another.
  void replace(Place place, Free free);
  // Erases those of which f(block) is true.
  template <class F>
  void erase_if(const F& f) {
    for (uint32_t i = 0; i < kLists; ++i) {
      if (lists_[i].empty()) continue;
      std::erase_if(lists_[i], [&](const Free& free) { return f(free.block); });
      if (lists_[i].empty()) used_[i / 64] &= ~(uint64_t{1} << (i % 64));
    }
  }
  void append_keys(std::vector<int64_t>& out) const;

 private:
  static constexpr uint32_t kLists = 29 * 16;
  static uint32_t list_of(uint32_t size);

  std::array<std::vector<Free>, kLists> lists_;
  std::array<uint64_t, (kLists + 63) / 64> used_{};  // a bit for each list that is not empty
};

class CachingAllocator {
 public:
  using Block = int32_t;  // handle of an allocation
  static constexpr Block kNone = -1;

  CachingAllocator() = default;
  // On a device with `room` bytes.  Beyond that, segments are reserved all the same, and
  // peak_reserved() shows it.
  explicit CachingAllocator(Bytes room, Segments segments = Segments::fixed)
      : segments_(segments), room_(room.value) {}

  // The units that a request takes; 0 for 0 bytes.  REQUIRES: bytes < 2 TiB.
  static uint32_t units_of(Bytes bytes);
  // kNone for 0 bytes or units.
  Block allocate(Bytes bytes) { return allocate_units(units_of(bytes)); }
  Block allocate_units(uint32_t size);
  // REQUIRES: a live handle or kNone (which is ignored).
  void free(Block block);

  Bytes reserved() const { return {reserved_}; }
  Bytes peak_reserved() const { return {peak_}; }
  Bytes allocated() const;  // after rounding
  // Whether the device had no room for a segment, ever.
  bool lacked_room() const { return lacked_room_; }

  // Appends numbers that are equal for two moments of one allocator only if the same addresses were
  // free at both and no segment was reserved or given back between them.
  void append_state(std::vector<int64_t>& out) const;
  // Appends where a block is, kNone too.
  void append_place(Block block, std::vector<int64_t>& out) const {
    if (block == kNone) {
      out.push_back(kNone);
      return;
    }
    const Chunk& c = chunks_[static_cast<size_t>(block)];
    out.insert(out.end(), {static_cast<int64_t>(c.key), c.small ? 1 : 0});
  }

 private:
  struct Chunk {
    BlockKey key = 0;                      // of the address only its order has a meaning
    Block previous = kNone, next = kNone;  // neighbours in the segment
    bool in_use = false;
    bool small = false;
  };
  static int64_t bytes_of(const Chunk& c);

  Block new_chunk(const Chunk& chunk);
  Block grow(int64_t size, bool small);
  Block expand(int64_t size, bool small);
  void number_again();
  void unmap_free_blocks();
  void release_segments();
  void absorb_next(Block b);  // merges the free neighbour after b into b

  std::vector<Chunk> chunks_;
  std::vector<Block> unused_;       // indices of chunks_ to use again
  std::array<FreeBlocks, 2> free_;  // [1] = small pool
  Segments segments_ = Segments::fixed;
  std::array<Block, 2> last_{kNone, kNone};  // at the end of an expandable segment
  std::array<int64_t, 2> end_{};             // its end
  int64_t room_ = kEndlessRoom.value;
  int64_t reserved_ = 0, peak_ = 0, allocated_ = 0, next_address_ = 0;  // allocated_: in units
  bool lacked_room_ = false;
};

}  // namespace stepcast
