// SPDX-License-Identifier: Apache-2.0
//
// An example, in the large pool, whose lists begin with 5 and 24 MiB.  A request of 24 MiB finds no
// free block: a segment of 24 MiB is reserved and used as a whole.  Freed, the block is the only
// one of the list that begins with 24 MiB.  The next request of 24 MiB finds that its first block
// leaves no rest, and takes it.  A request of 5 MiB comes to its own list, which is empty, then to
// the next one that is not, that of 24 MiB: it splits the block, and the rest of 19 MiB goes to the
// list from 5 MiB on.  Freed, the 5 MiB find their neighbour free, and the 24 MiB are back in their
// list.
#include "sim/memory/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

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

constexpr uint32_t kSmall = kSmallSize / kMinBlock;
constexpr BlockKey kLast = std::numeric_limits<BlockKey>::max();

const SizeClasses kForAnySize;

}  // namespace

BlockRequest request_of(Bytes bytes) {
  const int64_t units = bytes.value <= 0 ? 0 : (bytes.value - 1) / kMinBlock + 1;
  // The head of a list would serve what is larger: what remained of it could stay with the block.
  constexpr auto kHeadSize = static_cast<int64_t>(kLast >> 32U);
  const auto size = static_cast<uint32_t>(std::min<int64_t>(units, kHeadSize - kSmall - 1));
  return {size, size <= kSmall ? 0 : kSmall, 0};
}

// ------------------------------------------------------------------------------------------ lists

// The first list is of what is smaller than all that is asked for.
SizeClasses::Pool SizeClasses::pool_of(std::vector<uint32_t> sizes) {
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const size_t step = (sizes.size() + kLists - 2) / (kLists - 1);  // lists for one of so many
  Pool pool;
  uint32_t lists = 1;
  for (size_t i = 0; i < sizes.size(); i += step) pool.from[lists++] = sizes[i];
  std::fill(pool.from.begin() + lists, pool.from.end(), std::numeric_limits<uint32_t>::max());
  for (uint64_t bucket = 0; bucket < kBuckets; ++bucket) {
    const uint64_t least = (((16 + bucket % 16) << (bucket / 16)) + 15) / 16;
    while (pool.from[pool.of_bucket[bucket] + 1U] <= least) ++pool.of_bucket[bucket];
  }
  return pool;
}

SizeClasses::SizeClasses() {
  std::vector<uint32_t> sizes;
  for (uint32_t power = 0; power < 32; ++power) sizes.push_back(uint32_t{1} << power);
  pools_.fill(pool_of(std::move(sizes)));
}

SizeClasses::SizeClasses(std::span<const BlockRequest> requests) {
  std::array<std::vector<uint32_t>, 2> sizes;
  for (const BlockRequest& request : requests)
    sizes[request.is_small() ? 1 : 0].push_back(request.size);
  for (size_t small = 0; small < pools_.size(); ++small)
    pools_[small] = pool_of(std::move(sizes[small]));
}

CachingAllocator::CachingAllocator(Bytes room, Segments segments, const SizeClasses* classes)
    : classes_(classes != nullptr ? classes : &kForAnySize),
      segments_(segments),
      last_{&edge_, &edge_},
      room_(room.value) {
  edge_.in_use = true;
  for (Chunk& head : heads_) {
    head.key = kLast;
    head.before = head.after = &head;
  }
}

inline BlockKey CachingAllocator::key_of(int64_t size, int64_t address) {
  return (static_cast<BlockKey>(size / kMinBlock) << 32U) |
         static_cast<BlockKey>(address / kMinBlock);
}

inline int64_t CachingAllocator::bytes_of(const Chunk& c) {
  return int64_t{size_of(c.key)} * kMinBlock;
}

CachingAllocator::Block CachingAllocator::allocate(Bytes bytes) {
  BlockRequest request = request_of(bytes);
  if (request.size == 0) return kNone;
  request.list = classes_->list_of(request.size, request.is_small() ? 1 : 0);
  return serve(request);
}

Bytes CachingAllocator::allocated() const {
  Bytes sum{};
  for (const Chunk& c : chunks_)
    if (c.in_use && c.list != kUnmapped) sum += Bytes{bytes_of(c)};
  return sum;
}

// --------------------------------------------------------------------------------------- segments

// Kept out of what is not rare.
[[gnu::noinline]] CachingAllocator::Chunk* CachingAllocator::more_chunks() {
  return &chunks_.emplace_back();
}

inline CachingAllocator::Chunk* CachingAllocator::new_chunk() {
  if (unused_ == nullptr) return more_chunks();
  return std::exchange(unused_, unused_->after);
}

// Free blocks without neighbours are whole segments.
void CachingAllocator::release_segments() {
  lacked_room_ = true;
  for (Chunk& head : heads_) {
    for (Chunk* c = head.after; c != &head;) {
      Chunk* const after = c->after;
      if (c->previous == &edge_ && c->next == &edge_) {
        reserved_ -= bytes_of(*c);
        erase(c);
        c->after = std::exchange(unused_, c);
      }
      c = after;
    }
  }
}

// What is unmapped is a hole in the segment that nobody uses again.
void CachingAllocator::unmap_free_blocks() {
  for (Chunk& head : heads_) {
    for (Chunk* c = head.after; c != &head; c = c->after) {
      reserved_ -= bytes_of(*c);
      c->in_use = true;
      c->list = kUnmapped;
    }
    head.before = head.after = &head;
  }
  used_ = {};
}

CachingAllocator::Chunk* CachingAllocator::expand(int64_t size, uint8_t small) {
  const int64_t page = small != 0 ? kSmallSegment : kLargeSegment;
  Chunk*& last = last_[small];
  const auto lacking = [&] { return round_up(size - (last->in_use ? 0 : bytes_of(*last)), page); };
  // Addresses of what is unmapped are not used again: those of one GPU's trace end at 2 TiB.
  constexpr int64_t kMostUnmapped = int64_t{1} << 40;
  if (lacking() > room_ - reserved_) {
    lacked_room_ = true;
    if (end_[small] < kMostUnmapped) unmap_free_blocks();
  }
  const int64_t more = lacking();
  reserved_ += more;
  peak_ = std::max(peak_, reserved_);
  end_[small] += more;
  STEPCAST_CHECK(end_[small] / kMinBlock < (int64_t{1} << 32), "more than 2 TiB on one GPU");
  if (!last->in_use) {
    replace(last, last, last->key + key_of(more, 0));
    return last;
  }
  Chunk* const c = new_chunk();
  *c = {key_of(more, end_[small] - more), last, &edge_};
  c->small = small;
  c->list = classes_->list_of(size_of(c->key), small);
  last->next = c;  // of edge_ nobody asks
  insert(c);
  return last = c;
}

// Gives the segments that there are the lowest addresses, in their order.
void CachingAllocator::number_again() {
  for (Chunk* c = unused_; c != nullptr; c = c->after) c->previous = nullptr;
  std::vector<Chunk*> first;  // of each segment
  for (Chunk& c : chunks_)
    if (c.previous == &edge_) first.push_back(&c);
  std::ranges::sort(first, {}, [](const Chunk* c) { return static_cast<uint32_t>(c->key); });
  next_address_ = 0;
  for (Chunk& head : heads_) head.before = head.after = &head;
  used_ = {};
  for (Chunk* c : first) {
    for (; c != &edge_; c = c->next) {
      c->key = key_of(bytes_of(*c), next_address_);
      next_address_ += bytes_of(*c);
      if (!c->in_use) insert(c);
    }
  }
}

// Reserves a segment, or more of one: a free block that is large enough.
[[gnu::noinline]] CachingAllocator::Chunk* CachingAllocator::grow(int64_t size, uint8_t small) {
  if (segments_ == Segments::expandable) return expand(size, small);
  const int64_t segment = small != 0         ? kSmallSegment
                          : size < kMinLarge ? kLargeSegment
                                             : round_up(size, kRoundLarge);
  constexpr int64_t kAddresses = (int64_t{1} << 32) * kMinBlock;
  if (segment > room_ - reserved_) release_segments();
  reserved_ += segment;
  peak_ = std::max(peak_, reserved_);
  if (next_address_ + segment >= kAddresses) number_again();
  next_address_ += segment;
  STEPCAST_CHECK(next_address_ < kAddresses, "more than 2 TiB reserved on one GPU");
  Chunk* const c = new_chunk();
  *c = {key_of(segment, next_address_ - segment), &edge_, &edge_};
  c->small = small;
  c->list = classes_->list_of(size_of(c->key), small);
  insert(c);
  return c;
}

// ------------------------------------------------------------------- what is split and what merges

// Most of them stay where they are in the list.
inline void CachingAllocator::replace(Chunk* before, Chunk* now, BlockKey key) {
  const uint32_t list = classes_->list_of(size_of(key), now->small);
  const bool stays = list == before->list && before->after->key > key &&
                     (before->before == &heads_[list] || before->before->key < key);
  now->key = key;
  if (stays) {
    if (before == now) return;
    now->list = list;
    now->before = before->before;
    now->after = before->after;
    now->before->after = now;
    now->after->before = now;
  } else {
    erase(before);
    now->list = list;
    insert(now);
  }
}

// The first block from c on that is large enough, if any: only the own list has some that are not.
inline CachingAllocator::Chunk* CachingAllocator::next_that_fits(const BlockRequest& request,
                                                                 Chunk* c) {
  if (c == nullptr) return nullptr;
  while (size_of(c->key) < request.size) c = c->after;
  if (c->key != kLast) return c;
  const uint64_t lists = used_[request.list / kLists] >> (request.list % kLists) >> 1U;
  if (lists == 0) return nullptr;
  return heads_[request.list + 1 + static_cast<uint32_t>(std::countr_zero(lists))].after;
}

// `c`: the first block of the first list from the own one on that has any; null if there is none.
CachingAllocator::Block CachingAllocator::serve_elsewhere(const BlockRequest& request, Chunk* c) {
  const uint32_t size = request.size;
  const uint8_t small = request.is_small() ? 1 : 0;
  if (c == nullptr || size_of(c->key) < size) {
    c = next_that_fits(request, c);
    if (c == nullptr) c = grow(int64_t{size} * kMinBlock, small);
  }
  const uint32_t rest = size_of(c->key) - size;
  c->in_use = true;
  if (rest <= request.most_rest) {
    erase(c);
    return c;
  }
  // The rest is so much smaller, and begins so much later.
  Chunk* const tail = new_chunk();
  tail->previous = c;
  tail->next = c->next;
  tail->in_use = false;
  tail->small = small;
  c->next->previous = tail;
  c->next = tail;
  if (last_[small] == c) last_[small] = tail;
  replace(c, tail, c->key - (BlockKey{size} << 32U) + size);
  c->key -= BlockKey{rest} << 32U;
  c->list = request.list;
  return c;
}

void CachingAllocator::freed_twice() {
  STEPCAST_CHECK(false, "freeing a block twice");
}

inline void CachingAllocator::absorb_next(Chunk* c) {
  Chunk* const gone = c->next;
  c->next = gone->next;
  c->next->previous = c;
  if (last_[c->small] == gone) last_[c->small] = c;
  gone->in_use = false;
  gone->after = std::exchange(unused_, gone);
}

// What goes back to the free block that it was split off takes its place in the list.
void CachingAllocator::merge(Chunk* freed) {
  Chunk *const next = freed->next, *const previous = freed->previous;
  const BlockKey size = BlockKey{size_of(freed->key)} << 32U;
  if (previous->in_use) {
    replace(next, freed, freed->key + (BlockKey{size_of(next->key)} << 32U));
    absorb_next(freed);
    return;
  }
  BlockKey key = previous->key + size;
  if (!next->in_use) {
    key += BlockKey{size_of(next->key)} << 32U;
    erase(next);
    absorb_next(freed);
  }
  absorb_next(previous);
  replace(previous, previous, key);
}

// ----------------------------------------------------------------------------------------- states

// Segments get addresses that grow, and what is free is a part of one: where next_address_ and the
// ends are the same, nothing was reserved in between, and where reserved_ is, too, nothing given
// back.
template <class F>
bool CachingAllocator::all_of_state(const F& f) const {
  for (const int64_t number : {next_address_, end_[0], end_[1], reserved_})
    if (!f(static_cast<uint64_t>(number))) return false;
  for (const Chunk& head : heads_) {
    if (&head == &heads_[kLists] && !f(kLast)) return false;  // the small pool
    for (const Chunk* c = head.after; c != &head; c = c->after)
      if (!f(c->key)) return false;
  }
  return true;
}

std::vector<uint64_t> CachingAllocator::state() const {
  std::vector<uint64_t> out;
  all_of_state([&](uint64_t number) {
    out.push_back(number);
    return true;
  });
  return out;
}

bool CachingAllocator::is_state(std::span<const uint64_t> state) const {
  size_t at = 0;
  return all_of_state(
             [&](uint64_t number) { return at < state.size() && state[at++] == number; }) &&
         at == state.size();
}

}  // namespace stepcast
