// SPDX-License-Identifier: Apache-2.0
// What holds for every graph: the account adds up, the critical path is one chain from 0 to the
// makespan, memory returns to its start.  On random graphs, most of which no schedule would make.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "sim/account/account.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "sim/memory/memory.h"
#include "tests/oracle/oracle.h"
#include "tests/oracle/random_graph.h"
#include "tests/random_cases.h"

namespace stepcast::invariants_test {
namespace {

uint64_t seeds() {
  return testing::random_cases(4000);
}

Time total(const SpendTable& table) {
  return std::accumulate(table.begin(), table.end(), Time{});
}

// --- account ------------------------------------------------------------------------------------

// Durations of all ops of a role's compute stream, from the symbolic graph.
Time compute_work(const oracle::RandomCase& c, const RoleOps& role) {
  Time sum{};
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : c.graph.passes[static_cast<size_t>(item.pass)].ops)
      if (op.stream == Stream::compute) sum += c.prices.by_work[static_cast<size_t>(op.work)].time;
  }
  return sum;
}

TEST(Invariants, TheAccountOfEachRoleSumsToTheMakespan) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    const Program merged = compile(c.graph, c.prices);
    const Program unmerged = compile(c.graph, c.prices, {}, false);
    const Timeline timeline = run(merged);
    const Account account = make_account(merged, timeline);
    ASSERT_EQ(account.by_role.size(), c.graph.roles.size());
    for (const SpendTable& table : account.by_role) {
      ASSERT_EQ(total(table), timeline.makespan) << "seed " << seed;
      ASSERT_GE(*std::ranges::min_element(table), Time{}) << "seed " << seed;
    }
    ASSERT_EQ(account.by_role, make_account(unmerged, run(unmerged)).by_role) << "seed " << seed;
  }
}

TEST(Invariants, GapsAreInOrderAndCoverAllTimeThatTheComputeStreamDoesNotWork) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    const Program program = compile(c.graph, c.prices);
    const Timeline timeline = run(program);
    for (size_t r = 0; r < timeline.roles.size(); ++r) {
      const RoleTimeline& role = timeline.roles[r];
      Time idle = std::accumulate(role.inside.begin(), role.inside.end(), Time{0});
      Time last{};
      for (const Gap& gap : role.gaps) {
        ASSERT_LT(gap.begin, gap.end) << "seed " << seed;
        ASSERT_LE(last, gap.begin) << "seed " << seed;
        const ItemTime& item = role.items[gap.item];
        ASSERT_TRUE(item.begin <= gap.begin && gap.end <= item.end) << "seed " << seed;
        last = gap.end;
        idle += gap.end - gap.begin;
      }
      ASSERT_EQ(idle + compute_work(c, c.graph.roles[r]), role.compute_end) << "seed " << seed;
    }
  }
}

bool host_ever_waits(const OpGraph& graph) {
  for (const RoleOps& role : graph.roles)
    for (const Item& item : role.items)
      if (item.host_waits || item.kind == ItemKind::sync) return true;
  return false;
}

TEST(Invariants, WithFreeLaunchesAHostThatNeverWaitsIsNeverWaitedFor) {
  uint64_t cases = 0;
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    if (host_ever_waits(c.graph)) continue;
    ++cases;
    Variation free;
    free.launch_scale = 0;
    const Program program = compile(c.graph, c.prices, free);
    const Account account = make_account(program, run(program));
    for (const SpendTable& table : account.by_role)
      ASSERT_EQ(table[static_cast<size_t>(Spend::launch)], Time{}) << "seed " << seed;
    ASSERT_LE(run(program).makespan, run(compile(c.graph, c.prices)).makespan) << "seed " << seed;
  }
  EXPECT_GT(cases, seeds() / 8);
}

// --- critical path ------------------------------------------------------------------------------

TEST(Invariants, TheCriticalPathIsOneChainFromZeroToTheMakespan) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    const Program program = compile(c.graph, c.prices);
    const Timeline timeline = run(program);
    Time at{};
    for (const PathSegment& s : critical_path(program, timeline)) {
      ASSERT_EQ(s.begin, at) << "seed " << seed;
      ASSERT_LT(s.begin, s.end) << "seed " << seed;
      ASSERT_LT(s.role, c.graph.roles.size());
      if (s.kind == PathSegment::Kind::rendezvous) {
        const RendezvousTime& met = timeline.rendezvous[static_cast<size_t>(s.rendezvous)];
        ASSERT_EQ(s.begin, met.begin) << "seed " << seed;
        ASSERT_EQ(s.end, met.end) << "seed " << seed;
      }
      at = s.end;
    }
    ASSERT_EQ(at, timeline.makespan) << "seed " << seed;
  }
}

// --- memory -------------------------------------------------------------------------------------

// The memory of one role, one event at a time.
struct PlainMemory {
  Bytes now{}, peak{};
  MemoryTable table{}, at_peak{};
  uint32_t peak_item = 0, peak_op = 0;

  void change(const Tensor& t, bool allocate, uint32_t item, uint32_t op) {
    const Bytes by = allocate ? t.bytes : -t.bytes;
    now += by;
    table[static_cast<size_t>(t.category)] += by;
    if (now <= peak) return;
    peak = now;
    at_peak = table;
    peak_item = item;
    peak_op = op;
  }
};

PlainMemory plain_memory(const OpGraph& graph, const RoleOps& role) {
  PlainMemory m;
  for (const StaticMemory& s : role.memory) {
    m.now += s.bytes;
    m.table[static_cast<size_t>(s.category)] += s.bytes;
  }
  m.peak = m.now;
  m.at_peak = m.table;
  std::vector<Tensor> late;  // copied away beside the next pass that computes
  for (uint32_t i = 0; i < role.items.size(); ++i) {
    if (role.items[i].kind != ItemKind::pass) continue;
    const Pass& pass = graph.passes[static_cast<size_t>(role.items[i].pass)];
    const std::vector<Tensor> due = std::exchange(late, {});
    bool computes = false;
    for (const Op& op : pass.ops) computes = computes || op.stream == Stream::compute;
    for (const MemoryEvent& e : pass.memory) {
      const TensorTableId table = e.second ? pass.second_tensors : pass.tensors;
      const Tensor& t = graph.tensor_tables[static_cast<size_t>(table)][e.tensor];
      if (!e.allocate && pass.ops[e.op].stream == Stream::copy) {
        late.push_back(t);
      } else {
        m.change(t, e.allocate, i, e.op);
      }
    }
    if (computes) {
      for (const Tensor& t : due) m.change(t, false, i, 0);
    } else {
      late.insert(late.end(), due.begin(), due.end());
    }
  }
  for (const Tensor& t : late) m.change(t, false, 0, 0);
  return m;
}

TEST(Invariants, MemoryReturnsToItsStartAndPeaksWhereAPlainWalkFindsIt) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    const std::vector<RoleMemory> memory = trace_memory(c.graph);
    ASSERT_EQ(memory.size(), c.graph.roles.size());
    for (uint32_t r = 0; r < memory.size(); ++r) {
      const PlainMemory want = plain_memory(c.graph, c.graph.roles[r]);
      ASSERT_EQ(memory[r].start, memory[r].end) << "seed " << seed;
      ASSERT_EQ(memory[r].end, want.now) << "seed " << seed;
      ASSERT_EQ(memory[r].peak, want.peak) << "seed " << seed;
      ASSERT_EQ(memory[r].at_peak, want.at_peak) << "seed " << seed;
      ASSERT_EQ(memory[r].peak_item, want.peak_item) << "seed " << seed;
      ASSERT_EQ(memory[r].peak_op, want.peak_op) << "seed " << seed;
      for (const MemoryPoint& p : memory[r].curve) ASSERT_LE(p.allocated, want.peak);
      ASSERT_GE(trace_reserved(c.graph, r, kEndlessRoom), want.peak) << "seed " << seed;
    }
  }
}

// --- caching allocator --------------------------------------------------------------------------

// The rules of sim/memory/caching_allocator.h again: every block in one list, in order of address,
// searched from end to end.
class PlainAllocator {
 public:
  PlainAllocator(int64_t room, Segments segments) : room_(room), segments_(segments) {}

  int allocate(int64_t bytes) {
    const int64_t size = rounded(bytes, 512);
    const bool small = size <= kMiB;
    size_t at = best_fit(size, small);
    if (at == blocks_.size())
      at = segments_ == Segments::fixed ? reserve(size, small) : expand(size, small);
    const int64_t rest = blocks_[at].size - size;
    if (small ? rest >= 512 : rest > kMiB) {
      Block tail = blocks_[at];
      tail.size = rest;
      blocks_[at].size = size;
      blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, tail);
    }
    blocks_[at].handle = ++handles_;
    return handles_;
  }

  void free(int handle) {
    for (Block& b : blocks_)
      if (b.handle == handle) b.handle = kIdle;
    for (size_t i = 1; i < blocks_.size();) {
      Block& before = blocks_[i - 1];
      if (before.segment == blocks_[i].segment && before.handle == kIdle &&
          blocks_[i].handle == kIdle) {
        before.size += blocks_[i].size;
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  int64_t reserved = 0, peak = 0;

 private:
  static constexpr int64_t kMiB = 1 << 20;
  static constexpr int kIdle = 0, kUnmapped = -1;
  struct Block {
    int64_t size = 0;
    int segment = 0;
    bool small = false;
    int handle = kIdle;
  };

  static int64_t rounded(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

  void take(int64_t bytes) {
    reserved += bytes;
    peak = std::max(peak, reserved);
  }

  size_t best_fit(int64_t size, bool small) const {
    size_t best = blocks_.size();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& b = blocks_[i];
      if (b.handle != kIdle || b.small != small || b.size < size) continue;
      if (best == blocks_.size() || b.size < blocks_[best].size) best = i;
    }
    return best;
  }

  size_t reserve(int64_t size, bool small) {
    const int64_t segment = small              ? 2 * kMiB
                            : size < 10 * kMiB ? 20 * kMiB
                                               : rounded(size, 2 * kMiB);
    if (reserved + segment > room_) {
      std::erase_if(blocks_, [&](const Block& b) {
        const auto of_segment = [&](const Block& other) { return other.segment == b.segment; };
        if (b.handle != kIdle || std::ranges::count_if(blocks_, of_segment) > 1) return false;
        reserved -= b.size;
        return true;
      });
    }
    take(segment);
    blocks_.push_back({segment, ++next_segment_, small, kIdle});
    return blocks_.size() - 1;
  }

  // Of the two pools, each one segment.
  size_t expand(int64_t size, bool small) {
    const int segment = small ? 1 : 2;
    const auto last = [&] {
      size_t at = blocks_.size();
      while (at > 0 && blocks_[at - 1].segment != segment) --at;
      return at;  // behind it
    };
    const auto lacking = [&] {
      const size_t at = last();
      const bool idle = at > 0 && blocks_[at - 1].handle == kIdle;
      return rounded(size - (idle ? blocks_[at - 1].size : 0), (small ? 2 : 20) * kMiB);
    };
    if (reserved + lacking() > room_) {
      for (Block& b : blocks_) {
        if (b.handle != kIdle) continue;
        reserved -= b.size;
        b.handle = kUnmapped;
      }
    }
    const int64_t more = lacking();
    take(more);
    const size_t at = last();
    if (at > 0 && blocks_[at - 1].handle == kIdle) {
      blocks_[at - 1].size += more;
      return at - 1;
    }
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at),
                   {more, segment, small, kIdle});
    return at;
  }

  int64_t room_;
  Segments segments_;
  std::vector<Block> blocks_;
  int next_segment_ = 0, handles_ = 0;
};

// With room for all there is, or for so little that segments are given back again and again.
TEST(Invariants, TheCachingAllocatorReservesWhatAPlainOneDoes) {
  uint64_t lacked = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    oracle::Draws draws(seed);
    const Segments segments = seed % 2 == 0 ? Segments::fixed : Segments::expandable;
    const int64_t room = seed % 4 < 2 ? kEndlessRoom.value : int64_t{20 + draws.below(150)} << 20;
    CachingAllocator fast(Bytes{room}, segments);
    PlainAllocator plain(room, segments);
    std::vector<int64_t> sizes;  // of which there are few in a step
    for (int i = 0; i < 12; ++i) sizes.push_back(1 + draws.below(2U << draws.between(0, 25)));
    std::vector<std::pair<CachingAllocator::Block, int>> live;
    for (int step = 0; step < 400; ++step) {
      if (live.empty() || draws.chance(55)) {
        const int64_t bytes =
            draws.chance(50) ? sizes[draws.below(12)] : 1 + draws.below(2U << draws.between(0, 25));
        live.emplace_back(fast.allocate(Bytes{bytes}), plain.allocate(bytes));
      } else {
        const size_t at = draws.below(static_cast<uint32_t>(live.size()));
        fast.free(live[at].first);
        plain.free(live[at].second);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
      ASSERT_EQ(fast.reserved().value, plain.reserved) << "seed " << seed << " step " << step;
      ASSERT_EQ(fast.peak_reserved().value, plain.peak) << "seed " << seed << " step " << step;
    }
    lacked += fast.lacked_room() ? 1 : 0;
    for (const auto& [block, handle] : live) fast.free(block);
    ASSERT_EQ(fast.allocated(), Bytes{});
  }
  EXPECT_GT(lacked, 50U);
}

// --- the generator ------------------------------------------------------------------------------

TEST(RandomGraph, IsTheSameForASeed) {
  const oracle::RandomCase a = oracle::random_case(7), b = oracle::random_case(7);
  EXPECT_EQ(a.graph.works, b.graph.works);
  EXPECT_EQ(oracle::play(a.graph, a.prices).makespan, oracle::play(b.graph, b.prices).makespan);
}

TEST(RandomGraph, CoversWhatAGraphCanSay) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    if (std::ranges::count(c.prices.by_launch, Time{}) == std::ssize(c.prices.by_launch))
      ++seen["no launch cost"];
    if (c.prices.by_launch.size() > 1) ++seen["launch costs"];
    for (const Rendezvous& r : c.graph.rendezvous) ++seen["parties " + std::to_string(r.parties)];
    for (const RoleOps& role : c.graph.roles)
      for (const Item& item : role.items) {
        ++seen["item " + std::to_string(static_cast<int>(item.kind))];
        if (item.host_waits) ++seen["host waits"];
        if (item.only_sends) ++seen["only sends"];
        if (item.has_second) ++seen["two actions"];
        if (item.has_action && item.action.kind == ActionKind::reload) ++seen["reload"];
      }
    for (const Pass& pass : c.graph.passes) {
      for (const Wait& w : pass.waits.all()) {
        ++seen[w.from_start ? "from start" : "from end"];
        if (w.delay > Time{}) ++seen["delay"];
      }
      for (const MemoryEvent& e : pass.memory) ++seen[e.allocate ? "allocation" : "free"];
    }
  }
  const std::vector<std::string> all = {
      "no launch cost", "launch costs", "parties 1", "parties 2", "parties 3",  "parties 4",
      "item 0",         "item 1",       "item 2",    "item 3",    "item 4",     "item 5",
      "host waits",     "only sends",   "from end",  "delay",     "from start", "allocation",
      "free",           "two actions",  "reload"};
  for (const std::string& what : all) EXPECT_GE(seen[what], 20) << what;
}

}  // namespace
}  // namespace stepcast::invariants_test
