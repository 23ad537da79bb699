// SPDX-License-Identifier: Apache-2.0
// What a step allocates, and what PyTorch's allocator reserves for it.
//
// Allocated (trace_memory).  Passes do not depend on the microbatch, so each is summed up once: how
// far it rises above the level at its begin, and what it leaves behind.  A rank's list of passes is
// then a walk over such pairs.  Take static memory of 20 GB, a forward that rises by 4 and leaves
// 3, and a backward that rises by 2 and leaves -3; the rank runs F0 F1 B0 B1:
//
//     level  20 | F0 peaks at 24, 23 | F1 at 27, 26 | B0 at 28, 23 | B1 at 25, 20
//
// The peak is 28 in B0.  That costs O(1) a pass, however many ops it has.  What a copy to the host
// frees is taken off one pass later (memory.h).
//
// Reserved (trace_reserved).  Here order and sizes matter, so one role's allocations are played one
// by one through a model of the caching allocator.  A tensor of 5 MiB opens a segment of 20 MiB and
// splits it: 5 in use, 15 free.  The next one, of 12 MiB, takes its place from those 15 and leaves
// 3.  When both are freed they merge with their free neighbours, and the whole segment is free
// again, but stays reserved until the device has no room for a new one.
//
// Most of a long list need not be played.  Say it repeats every two passes, F3 B0, F4 B1, F5 B2,
// one microbatch later each time (repetition.h), and before F5 the allocator and all that is alive
// in it are as they were before F4, with what microbatches 1 to 4 held there held by 2 to 5 here.
// What an allocator does depends on its state and on what is asked of it alone, so that F5 B2 does
// what F4 B1 did, and leaves that state again: the trace goes on behind the last repetition, with
// the blocks handed to the microbatches that are alive there.  States are compared number by
// number, the addresses of everything, at moments that Brent's algorithm picks (An improved Monte
// Carlo factorization algorithm, 1980): a cycle of any number of repetitions is found by keeping
// one of them.

#include "sim/memory/memory.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "sim/check.h"
#include "sim/memory/repetition.h"

namespace stepcast {
namespace {

Bytes sum_of(const MemoryTable& table) {
  Bytes sum;
  for (Bytes b : table) sum += b;
  return sum;
}

// An op on the copy stream frees what it has copied; see memory.h for when that takes effect.
bool frees_later(const Pass& pass, const MemoryEvent& e) {
  return !e.allocate && pass.ops[e.op].stream == Stream::copy;
}

bool computes(const Pass& pass) {
  return std::ranges::any_of(pass.ops, [](const Op& op) { return op.stream == Stream::compute; });
}

void add(MemoryTable& table, const MemoryTable& more) {
  for (size_t c = 0; c < table.size(); ++c) table[c] += more[c];
}

// What a pass adds to the memory of its role: independent of the microbatch, so it is worked out
// once.
struct PassProfile {
  MemoryTable net{};      // left behind at the end (negative: freed)
  MemoryTable later{};    // freed later: negative
  Bytes peak{};           // highest total above the level at its begin, at least 0
  MemoryTable at_peak{};  // relative to the begin
  uint32_t peak_op = 0;
  bool computes = false;
};

PassProfile profile_of(const OpGraph& graph, const Pass& pass) {
  PassProfile p;
  p.computes = computes(pass);
  Bytes total;
  for (const MemoryEvent& e : pass.memory) {
    const Tensor& t = graph.tensor(pass, e);
    if (frees_later(pass, e)) {
      p.later[static_cast<size_t>(t.category)] -= t.bytes;
      continue;
    }
    Bytes& slot = p.net[static_cast<size_t>(t.category)];
    slot += e.allocate ? t.bytes : -t.bytes;
    total += e.allocate ? t.bytes : -t.bytes;
    if (total > p.peak) {
      p.peak = total;
      p.at_peak = p.net;
      p.peak_op = e.op;
    }
  }
  return p;
}

MemoryTable static_memory(const RoleOps& role) {
  MemoryTable table{};
  for (const StaticMemory& m : role.memory) table[static_cast<size_t>(m.category)] += m.bytes;
  return table;
}

// What an action does to the number of microbatches in flight.
int in_flight_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
    case ActionKind::reload: return 1;
    case ActionKind::backward:
    case ActionKind::backward_weight:
    case ActionKind::offload: return -1;
    case ActionKind::backward_input:
    case ActionKind::recompute:
    case ActionKind::vocabulary_forward:
    case ActionKind::vocabulary_backward:
    case ActionKind::embedding_forward:
    case ActionKind::embedding_backward: return 0;
  }
  return 0;
}

RoleMemory trace_role(const RoleOps& role, const std::vector<PassProfile>& profiles) {
  RoleMemory out;
  MemoryTable now = static_memory(role);
  out.start = out.end = out.peak = sum_of(now);
  out.at_peak = now;
  MemoryTable later{};  // freed by copies of which the next pass that computes has not ended
  int in_flight = 0;
  for (uint32_t i = 0; i < role.items.size(); ++i) {
    const Item& item = role.items[i];
    if (item.kind != ItemKind::pass) continue;
    const PassProfile& p = profiles[static_cast<size_t>(item.pass)];
    if (out.end + p.peak > out.peak) {
      out.peak = out.end + p.peak;
      out.at_peak = now;
      for (size_t c = 0; c < now.size(); ++c) out.at_peak[c] += p.at_peak[c];
      out.peak_item = i;
      out.peak_op = p.peak_op;
    }
    add(now, p.net);
    if (p.computes) add(now, std::exchange(later, {}));
    add(later, p.later);
    out.end = sum_of(now);
    out.curve.push_back({i, out.end});
    if (!item.has_action) continue;
    in_flight += in_flight_of(item.action.kind);
    out.peak_in_flight = std::max(out.peak_in_flight, in_flight);
    if (item.has_second) in_flight += in_flight_of(item.second.kind);
  }
  out.end += sum_of(later);
  return out;
}

// Tensors alive between the passes of one (stage, microbatch), as blocks of the allocator.
struct LiveSet {
  uint64_t key = 0;
  bool used = false;
  std::vector<CachingAllocator::Block> blocks;  // by tensor
};

constexpr uint64_t kNoAction = UINT64_MAX;  // key of what passes without an action hold

uint64_t key_of(const Action& a) {
  return (uint64_t{a.stage} << 32U) | a.microbatch;
}

class LiveSets {
 public:
  // The reference stays valid.
  LiveSet& get(uint64_t key, size_t tensors) {
    LiveSet* free = nullptr;
    for (LiveSet& s : sets_) {
      if (s.used && s.key == key) return s;
      if (!s.used) free = &s;
    }
    if (free == nullptr) free = &sets_.emplace_back();
    free->key = key;
    free->used = true;
    free->blocks.assign(tensors, CachingAllocator::kNone);
    return *free;
  }

  // Frees what no pass has freed.
  void clear(CachingAllocator& allocator) {
    for (const LiveSet& set : sets_)
      for (const CachingAllocator::Block block : set.blocks) allocator.free(block);
    sets_.clear();
  }

  // Hands what each microbatch holds to that which is so much higher.
  void shift(uint64_t by) {
    for (LiveSet& s : sets_)
      if (s.key != kNoAction) s.key += by;
  }

  // Appends who holds which blocks, with microbatches that are so much lower.
  void append_state(const CachingAllocator& allocator, uint64_t lower,
                    std::vector<int64_t>& out) const {
    std::vector<const LiveSet*> used;
    for (const LiveSet& s : sets_)
      if (s.used) used.push_back(&s);
    std::ranges::sort(used, {}, &LiveSet::key);
    out.push_back(static_cast<int64_t>(used.size()));
    for (const LiveSet* s : used) {
      out.push_back(static_cast<int64_t>(s->key == kNoAction ? s->key : s->key - lower));
      out.push_back(static_cast<int64_t>(s->blocks.size()));
      for (const CachingAllocator::Block b : s->blocks) allocator.append_place(b, out);
    }
  }

 private:
  std::deque<LiveSet> sets_;
};

// The sets of the one or two microbatches of an item.
std::array<LiveSet*, 2> sets_of(const OpGraph& graph, const Item& item, LiveSets& live) {
  const Pass& pass = graph.passes[static_cast<size_t>(item.pass)];
  const auto tensors = [&](TensorTableId table) {
    return graph.tensor_tables[static_cast<size_t>(table)].size();
  };
  const uint64_t first = item.has_action ? key_of(item.action) : kNoAction;
  return {&live.get(first, tensors(pass.tensors)),
          item.has_second ? &live.get(key_of(item.second), tensors(pass.second_tensors)) : nullptr};
}

}  // namespace

std::vector<RoleMemory> trace_memory(const OpGraph& graph) {
  std::vector<PassProfile> profiles;
  for (const Pass& pass : graph.passes) profiles.push_back(profile_of(graph, pass));
  std::vector<RoleMemory> out;
  for (const RoleOps& role : graph.roles) out.push_back(trace_role(role, profiles));
  return out;
}

std::vector<std::pair<LabelId, Bytes>> peak_by_label(const OpGraph& graph, uint32_t role,
                                                     const RoleMemory& memory) {
  const RoleOps& ops = graph.roles[role];
  std::vector<Bytes> held(graph.labels.size());
  // `late_times`: how many times the frees of copies have taken effect.
  const auto apply = [&](const Pass& pass, uint32_t last_op, int64_t times, int64_t late_times) {
    for (const MemoryEvent& e : pass.memory) {
      if (e.op > last_op || (e.op == last_op && !e.allocate)) break;
      const Tensor& t = graph.tensor(pass, e);
      held[static_cast<size_t>(t.label)] +=
          (e.allocate ? t.bytes : -t.bytes) * (frees_later(pass, e) ? late_times : times);
    }
  };
  std::vector<int64_t> runs(graph.passes.size());
  std::vector<int64_t> late_runs = runs;
  for (uint32_t i = 0; i < memory.peak_item; ++i) {
    if (ops.items[i].kind != ItemKind::pass) continue;
    const auto pass = static_cast<size_t>(ops.items[i].pass);
    if (computes(graph.passes[pass])) late_runs = runs;
    ++runs[pass];
  }
  for (size_t p = 0; p < runs.size(); ++p) {
    if (runs[p] > 0) apply(graph.passes[p], UINT32_MAX, runs[p], late_runs[p]);
  }
  if (memory.peak_item < ops.items.size() && ops.items[memory.peak_item].kind == ItemKind::pass) {
    const auto pass = static_cast<size_t>(ops.items[memory.peak_item].pass);
    apply(graph.passes[pass], memory.peak_op, 1, 0);
  }
  std::vector<std::pair<LabelId, Bytes>> out;
  for (size_t l = 0; l < held.size(); ++l) {
    if (held[l].value != 0) out.emplace_back(static_cast<LabelId>(l), held[l]);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

namespace {

// One role's steps, allocation by allocation.
class ReservedTrace {
 public:
  ReservedTrace(const OpGraph& graph, const RoleOps& role, Bytes room, Segments segments,
                bool in_full)
      : graph_(graph), allocator_(room, segments) {
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass) passes_.push_back(item);
    if (!in_full) repetition_ = find_repetition(passes_);
    Bytes by_tensor{};
    for (const StaticMemory& m : role.memory) {
      if (m.by_tensor) {
        by_tensor += m.bytes;
      } else {
        allocator_.allocate(m.bytes);
      }
    }
    if (by_tensor.value > 0) allocator_.allocate(by_tensor - kept_gradients(by_tensor));
  }

  void step() {
    for (auto& [gradient, made] : made_) made = false;
    cycle_ = {};
    for (size_t i = 0; i < passes_.size(); ++i) {
      i += passes_to_skip(i);
      if (i < passes_.size()) run(passes_[i]);
    }
    free_gradients();
    for (const Block block : late_) allocator_.free(block);
    late_.clear();
    free_lagging(std::numeric_limits<uint64_t>::max());  // the host reads the loss
    live_.clear(allocator_);
  }

  Bytes peak() const { return allocator_.peak_reserved(); }

 private:
  using Block = CachingAllocator::Block;

  void run(const Item& item) {
    const Pass& pass = graph_.passes[static_cast<size_t>(item.pass)];
    if (pass.ops.front().phase == Phase::optimizer) free_gradients();
    const size_t earlier = late_.size();
    const auto sets =
        pass.memory.empty() ? std::array<LiveSet*, 2>{} : sets_of(graph_, item, live_);
    for (const MemoryEvent& e : pass.memory) {
      Block& block = sets[e.second ? 1 : 0]->blocks[e.tensor];
      const Tensor& tensor = graph_.tensor(pass, e);
      free_lagging(ops_ + e.op);
      if (e.allocate) {
        block = allocator_.allocate(tensor.bytes);
        continue;
      }
      const Block freed = std::exchange(block, CachingAllocator::kNone);
      if (tensor.becomes_gradient && becomes_gradient(gradient_of(pass, item, e))) {
        gradients_.push_back(freed);
      } else if (tensor.lags) {
        lagging_.push_back({ops_ + e.op, freed});
      } else if (frees_later(pass, e)) {
        late_.push_back(freed);
      } else {
        allocator_.free(freed);
      }
    }
    ops_ += pass.ops.size();
    for (LiveSet* set : sets) {
      if (set == nullptr) continue;
      set->used = std::ranges::any_of(set->blocks,
                                      [](auto block) { return block != CachingAllocator::kNone; });
    }
    if (earlier == 0 || !computes(pass)) return;
    for (size_t i = 0; i < earlier; ++i) allocator_.free(late_[i]);
    late_.erase(late_.begin(), late_.begin() + static_cast<std::ptrdiff_t>(earlier));
  }

  // A stage's tensor, in whichever pass of whichever microbatch.
  using Gradient = std::tuple<uint16_t, TensorTableId, uint32_t>;

  static Gradient gradient_of(const Pass& pass, const Item& item, const MemoryEvent& e) {
    return {(e.second ? item.second : item.action).stage,
            e.second ? pass.second_tensors : pass.tensors, e.tensor};
  }

  // Finds the tensors that become gradients, in the order of the step, and what they take of
  // `all`.  There are no more gradients than parameters: of two tensors for the same ones, as a
  // tied embedding has, the later one is added to the first.
  Bytes kept_gradients(Bytes all) {
    Bytes kept{};
    for (const Item& item : passes_) {
      const Pass& pass = graph_.passes[static_cast<size_t>(item.pass)];
      for (const MemoryEvent& e : pass.memory) {
        const Tensor& tensor = graph_.tensor(pass, e);
        if (e.allocate || !tensor.becomes_gradient || kept + tensor.bytes > all) continue;
        if (made_.emplace(gradient_of(pass, item, e), false).second) kept += tensor.bytes;
      }
    }
    return kept;
  }

  // Whether it is the first of this step.
  bool becomes_gradient(const Gradient& gradient) {
    const auto at = made_.find(gradient);
    return at != made_.end() && !std::exchange(at->second, true);
  }

  void free_gradients() {
    for (const Block block : gradients_) allocator_.free(block);
    gradients_.clear();
  }

  // What the device is done with when the host has come to op `now`: CUDA takes so many launches
  // before the host has to wait.
  void free_lagging(uint64_t now) {
    constexpr uint64_t kLaunchesAhead = 1024;
    while (!lagging_.empty() && now >= kLaunchesAhead &&
           lagging_.front().op <= now - kLaunchesAhead) {
      allocator_.free(lagging_.front().block);
      lagging_.pop_front();
    }
  }

  struct Lagging {
    uint64_t op = 0;  // of the role
    Block block = CachingAllocator::kNone;
  };

  // ------------------------------------------------------------------- states that come again
  // A state before a repetition, in numbers: the allocator's, and who holds what.
  struct State {
    std::vector<int64_t> allocator, holders;
  };

  // Brent's search for a state that comes again.
  struct Cycle {
    bool found = false;
    size_t kept_at = 0;  // the repetition before which `kept` was the state
    size_t reach = 0;    // so many later ones are compared with it; 0: none is kept
    State kept;
  };

  // How many passes before the i-th one need not be played: whole repetitions.
  size_t passes_to_skip(size_t i) {
    if (!repetition_ || cycle_.found) return 0;
    const Repetition& r = *repetition_;
    if (i < r.begin || (i - r.begin) % r.length != 0 || i + r.length > r.end) return 0;
    const size_t at = (i - r.begin) / r.length, left = (r.end - i) / r.length;
    if (cycle_.reach > 0 && is_kept_state(at)) {
      cycle_.found = true;
      const size_t cycle = at - cycle_.kept_at, skipped = left / cycle * cycle;
      live_.shift(static_cast<uint64_t>(r.shift * static_cast<int64_t>(skipped)));
      return skipped * r.length;
    }
    if (at - cycle_.kept_at == cycle_.reach) {
      cycle_.reach = std::max<size_t>(1, 2 * cycle_.reach);
      cycle_.kept_at = at;
      cycle_.kept = {allocator_state(), holders_state(at)};
    }
    return 0;
  }

  bool is_kept_state(size_t at) const {
    return allocator_state() == cycle_.kept.allocator && holders_state(at) == cycle_.kept.holders;
  }

  std::vector<int64_t> allocator_state() const {
    std::vector<int64_t> out;
    allocator_.append_state(out);
    return out;
  }

  std::vector<int64_t> holders_state(size_t repetition) const {
    std::vector<int64_t> out;
    live_.append_state(allocator_,
                       static_cast<uint64_t>(repetition_->shift * static_cast<int64_t>(repetition)),
                       out);
    // The gradients that are made only get more within a step.
    out.push_back(std::ranges::count_if(made_, [](const auto& g) { return g.second; }));
    out.push_back(static_cast<int64_t>(late_.size()));
    for (const Block b : late_) allocator_.append_place(b, out);
    out.push_back(static_cast<int64_t>(gradients_.size()));
    for (const Block b : gradients_) allocator_.append_place(b, out);
    for (const Lagging& l : lagging_) {
      out.push_back(static_cast<int64_t>(ops_ - l.op));
      allocator_.append_place(l.block, out);
    }
    return out;
  }

  const OpGraph& graph_;
  std::vector<Item> passes_;  // of the role
  std::optional<Repetition> repetition_;
  Cycle cycle_;  // of this step
  CachingAllocator allocator_;
  LiveSets live_;
  std::vector<Block> late_;        // as in trace_role
  std::vector<Block> gradients_;   // by tensor, of this step
  std::map<Gradient, bool> made_;  // tensors that become gradients: whether in this step already
  std::deque<Lagging> lagging_;
  uint64_t ops_ = 0;  // before the pass
};

// What is free after a step is where the next one begins, so that the second may reserve more: the
// blocks that gradients and the optimizer have left are not of the sizes of activations.
Bytes reserved_in_two_steps(ReservedTrace trace) {
  trace.step();
  trace.step();
  return trace.peak();
}

}  // namespace

Bytes trace_reserved(const OpGraph& graph, uint32_t role, Bytes room, Segments segments) {
  return reserved_in_two_steps({graph, graph.roles[role], room, segments, false});
}

Bytes trace_reserved_in_full(const OpGraph& graph, uint32_t role, Bytes room, Segments segments) {
  return reserved_in_two_steps({graph, graph.roles[role], room, segments, true});
}

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

// A binary search without branches: they would be unpredictable, and most of the time that a
// forecast's memory takes is spent here.
size_t CachingAllocator::first_at_least(std::span<const Free> list, uint64_t key) {
  size_t low = 0;
  size_t n = list.size();
  while (n > 0) {
    const size_t half = n / 2;
    const bool right = list[low + half].key < key;
    low = right ? low + half + 1 : low;
    n = right ? n - half - 1 : half;
  }
  return low;
}

void CachingAllocator::insert_free(Block b) {
  const Chunk& c = chunks_[static_cast<size_t>(b)];
  FreeList& list = free_[c.small ? 1 : 0];
  const uint64_t key = key_of(c);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(first_at_least(list, key)), {key, b});
}

void CachingAllocator::remove_free(Block b) {
  const Chunk& c = chunks_[static_cast<size_t>(b)];
  FreeList& list = free_[c.small ? 1 : 0];
  const size_t at = first_at_least(list, key_of(c));
  STEPCAST_CHECK(at < list.size() && list[at].block == b, "free list of the caching allocator");
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}

// Puts another block, or the same of another size, in the place of the one at `at`.
void CachingAllocator::replace_free(FreeList& list, size_t at, Block block) {
  const uint64_t key = key_of(chunks_[static_cast<size_t>(block)]);
  const std::span<Free> all(list);
  if (at > 0 && list[at - 1].key > key) {
    const size_t place = first_at_least(all.first(at), key);
    std::ranges::move_backward(all.subspan(place, at - place),
                               all.begin() + static_cast<std::ptrdiff_t>(at + 1));
    list[place] = {key, block};
  } else {
    const size_t smaller = first_at_least(all.subspan(at + 1), key);
    std::ranges::move(all.subspan(at + 1, smaller), all.begin() + static_cast<std::ptrdiff_t>(at));
    list[at + smaller] = {key, block};
  }
}

// Free blocks without neighbours are whole segments.
void CachingAllocator::release_segments() {
  for (FreeList& list : free_) {
    std::erase_if(list, [&](const Free& f) {
      const Chunk& c = chunks_[static_cast<size_t>(f.block)];
      if (c.previous != kNone || c.next != kNone) return false;
      reserved_ -= c.size;
      unused_.push_back(f.block);
      return true;
    });
  }
}

// What is unmapped is a hole in the segment that nobody uses again.
void CachingAllocator::unmap_free_blocks() {
  for (FreeList& list : free_) {
    for (const Free& f : list) {
      reserved_ -= chunks_[static_cast<size_t>(f.block)].size;
      chunks_[static_cast<size_t>(f.block)].in_use = true;
    }
    list.clear();
  }
}

CachingAllocator::Block CachingAllocator::expand(int64_t size, bool small) {
  const size_t pool = small ? 1 : 0;
  const int64_t page = small ? kSmallSegment : kLargeSegment;
  const auto idle = [&] {
    return last_[pool] != kNone && !chunks_[static_cast<size_t>(last_[pool])].in_use;
  };
  const auto lacking = [&] {
    return round_up(size - (idle() ? chunks_[static_cast<size_t>(last_[pool])].size : 0), page);
  };
  // Addresses of what is unmapped are not used again: those of one GPU's trace end at 2 TiB.
  constexpr int64_t kMostUnmapped = int64_t{1} << 40;
  if (lacking() > room_ - reserved_ && end_[pool] < kMostUnmapped) unmap_free_blocks();
  const int64_t more = lacking();
  reserved_ += more;
  peak_ = std::max(peak_, reserved_);
  end_[pool] += more;
  STEPCAST_CHECK(end_[pool] / kMinBlock < (int64_t{1} << 32), "more than 2 TiB on one GPU");
  if (idle()) {
    remove_free(last_[pool]);
    chunks_[static_cast<size_t>(last_[pool])].size += more;
    return last_[pool];
  }
  Chunk chunk;
  chunk.size = more;
  chunk.address = end_[pool] - more;
  chunk.small = small;
  chunk.previous = last_[pool];
  const Block b = new_chunk(chunk);
  if (last_[pool] != kNone) chunks_[static_cast<size_t>(last_[pool])].next = b;
  return last_[pool] = b;
}

CachingAllocator::Block CachingAllocator::grow(int64_t size, bool small) {
  if (segments_ == Segments::expandable) return expand(size, small);
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
  FreeList& list = free_[small ? 1 : 0];
  const size_t best = first_at_least(list, static_cast<uint64_t>(size / kMinBlock) << 32U);
  const bool found = best < list.size();
  const Block b = found ? list[best].block : grow(size, small);
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
    if (last_[small ? 1 : 0] == b) last_[small ? 1 : 0] = t;
    if (found)
      replace_free(list, best, t);
    else
      insert_free(t);
  } else if (found) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(best));
  }
  chunks_[static_cast<size_t>(b)].in_use = true;
  allocated_ += chunks_[static_cast<size_t>(b)].size;
  return b;
}

// Segments get addresses that grow, and what is free is a part of one: where next_address_ and the
// ends are the same, nothing was reserved in between, and where reserved_ is, too, nothing given
// back.
void CachingAllocator::append_state(std::vector<int64_t>& out) const {
  out.insert(out.end(), {next_address_, end_[0], end_[1], reserved_});
  for (const FreeList& list : free_) {
    out.push_back(static_cast<int64_t>(list.size()));
    for (const Free& f : list) out.push_back(static_cast<int64_t>(f.key));
  }
}

void CachingAllocator::append_place(Block block, std::vector<int64_t>& out) const {
  if (block == kNone) {
    out.push_back(kNone);
    return;
  }
  const Chunk& c = chunks_[static_cast<size_t>(block)];
  out.insert(out.end(), {c.address, c.size, c.small ? 1 : 0});
}

void CachingAllocator::absorb_next(Block b) {
  Chunk& c = chunks_[static_cast<size_t>(b)];
  const Block gone = c.next;
  const Chunk& n = chunks_[static_cast<size_t>(gone)];
  c.size += n.size;
  c.next = n.next;
  if (c.next != kNone) chunks_[static_cast<size_t>(c.next)].previous = b;
  if (last_[c.small ? 1 : 0] == gone) last_[c.small ? 1 : 0] = b;
  unused_.push_back(gone);
}

// What goes back to the free block that it was split off takes its place in the list.
void CachingAllocator::free(Block block) {
  if (block == kNone) return;
  const Chunk& freed = chunks_[static_cast<size_t>(block)];
  STEPCAST_CHECK(freed.in_use, "freeing a block twice");
  allocated_ -= freed.size;
  const auto idle = [&](Block b) { return b != kNone && !chunks_[static_cast<size_t>(b)].in_use; };
  const Block next = freed.next, previous = freed.previous;
  const bool joins_next = idle(next), joins_previous = idle(previous);
  chunks_[static_cast<size_t>(block)].in_use = false;
  if (!joins_next && !joins_previous) {
    insert_free(block);
    return;
  }
  if (joins_next && joins_previous) remove_free(next);
  FreeList& list = free_[freed.small ? 1 : 0];
  const Block grows = joins_previous ? previous : next;
  const size_t at = first_at_least(list, key_of(chunks_[static_cast<size_t>(grows)]));
  STEPCAST_CHECK(at < list.size() && list[at].block == grows, "free list of the caching allocator");
  if (joins_next) absorb_next(block);
  if (joins_previous) {
    absorb_next(previous);
    block = previous;
  }
  replace_free(list, at, block);
}

}  // namespace stepcast
