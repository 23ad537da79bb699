// SPDX-License-Identifier: Apache-2.0
// Memory of every role over the step.
//
// Tensors are allocated and freed in program order, as PyTorch's host does, so peaks do not depend
// on times.  What an op on Stream::copy frees is one exception: the copy runs beside the passes
// that follow, so it counts until the next pass that computes has ended.
//
//   allocated  what the framework asked for, by category
//   reserved   what PyTorch's caching allocator holds for it (below)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/units.h"

namespace stepcast {
using MemoryTable = std::array<Bytes, kMemoryCategories>;

struct MemoryPoint {
  uint32_t item = 0;  // after this item of the role ...
  Bytes allocated{};  // ... that much was allocated
};

struct RoleMemory {
  Bytes peak{};            // allocated, all categories
  MemoryTable at_peak{};   // sums to `peak`
  uint32_t peak_item = 0;  // where: item of the role, op of its pass
  uint32_t peak_op = 0;
  Bytes start{}, end{};    // allocated before the first and after the last item; equal
  int peak_in_flight = 0;  // largest number of (stage, microbatch) whose activations were held
  std::vector<MemoryPoint> curve;  // after each pass item
};

// O(items + memory events of the passes).
std::vector<RoleMemory> trace_memory(const OpGraph& graph);

// What the caching allocator takes from the device (below).
enum class Segments : uint8_t {
  fixed,
  expandable,  // PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
};

// Peak of reserved bytes of one role, by running its allocations through the caching allocator of a
// device with that much room; at least its peak of allocated bytes.  More than there is room for:
// the role runs out of memory.  Where the role's list repeats itself (repetition.h) and the
// allocator has come back to a state that it was in, what follows is not played again: the peak is
// the same.  O(allocations of the passes that are played * log).
Bytes trace_reserved(const OpGraph& graph, uint32_t role, Bytes room,
                     Segments segments = Segments::fixed);
// The same, every pass played.
Bytes trace_reserved_in_full(const OpGraph& graph, uint32_t role, Bytes room,
                             Segments segments = Segments::fixed);

// The same of several roles, or in several rooms: what the passes ask for is found once.
struct PassScript;
class ReservedTraces {
 public:
  // The graph must outlive this.
  explicit ReservedTraces(const OpGraph& graph);
  ~ReservedTraces();

  struct Reserved {
    Bytes peak{};              // trace_reserved()
    bool lacked_room = false;  // if not, a device of any room from `peak` on gives the same
  };
  Reserved trace(uint32_t role, Bytes room, Segments segments) const;
  // Whether trace_reserved() is at most the room.  Ends as soon as it is not.
  bool fits(uint32_t role, Bytes room, Segments segments) const;
  // Whether two roles hold the same all the time and ask for the same, one after the other, so that
  // the same is reserved for both.  O(items).
  bool alike(uint32_t a, uint32_t b) const;

 private:
  const OpGraph& graph_;
  std::vector<PassScript> scripts_;   // by pass
  std::vector<uint64_t> check_sums_;  // of the passes of each role
};

// Which tensors hold how much of the role's peak (static memory apart), largest first.
std::vector<std::pair<LabelId, Bytes>> peak_by_label(const OpGraph& graph, uint32_t role,
                                                     const RoleMemory& memory);

// -------------------------------------------------------------------------------------------------
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

inline constexpr Bytes kEndlessRoom{std::numeric_limits<int64_t>::max()};

// Free blocks of a pool in the order of size, then address: 16 lists for each power of two of
// sizes, each sorted, most of them short or empty.
class FreeBlocks {
 public:
  struct Free {
    uint64_t key = 0;  // size, then address, in units of 512 B; 32 bits of either
    int32_t block = 0;
  };
  struct Place {
    uint32_t list = kLists, index = 0;
    bool found() const { return list != kLists; }
  };

  // The smallest block of at least that size; of equal ones that of the lowest address.
  Place best(uint64_t size) const;
  // REQUIRES: a free block has this key.
  Place place_of(uint64_t key) const;
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
  static uint32_t list_of(uint64_t size);
  static uint32_t first_at_least(std::span<const Free> list, uint64_t key);

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

  // kNone for 0 bytes.  O(free blocks) worst case, usually far less.
  Block allocate(Bytes bytes);
  // REQUIRES: a live handle or kNone (which is ignored).
  void free(Block block);

  Bytes reserved() const { return {reserved_}; }
  Bytes peak_reserved() const { return {peak_}; }
  Bytes allocated() const { return {allocated_}; }  // after rounding
  // Whether the device had no room for a segment, ever.
  bool lacked_room() const { return lacked_room_; }

  // Appends numbers that are equal for two moments of one allocator only if the same addresses were
  // free at both and no segment was reserved or given back between them.
  void append_state(std::vector<int64_t>& out) const;
  // Appends where a block is, kNone too.
  void append_place(Block block, std::vector<int64_t>& out) const;

 private:
  struct Chunk {
    int64_t size = 0;
    int64_t address = 0;                   // only its order has a meaning
    Block previous = kNone, next = kNone;  // neighbours in the segment
    bool in_use = false;
    bool small = false;
  };
  static uint64_t key_of(const Chunk& c);

  Block new_chunk(const Chunk& chunk);
  Block grow(int64_t size, bool small);
  Block expand(int64_t size, bool small);
  void unmap_free_blocks();
  void release_segments();
  void insert_free(Block b);
  void remove_free(Block b);
  void absorb_next(Block b);  // merges the free neighbour after b into b

  std::vector<Chunk> chunks_;
  std::vector<Block> unused_;  // indices of chunks_ to use again
  FreeBlocks free_[2];         // [1] = small pool
  Segments segments_ = Segments::fixed;
  Block last_[2] = {kNone, kNone};  // at the end of an expandable segment
  int64_t end_[2] = {0, 0};         // its end
  int64_t room_ = kEndlessRoom.value;
  int64_t reserved_ = 0, peak_ = 0, allocated_ = 0, next_address_ = 0;
  bool lacked_room_ = false;
};

}  // namespace stepcast
