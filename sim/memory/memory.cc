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
#include <memory>
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
  int64_t alive = 0;                            // tensors
  std::vector<CachingAllocator::Block> blocks;  // by tensor
};

constexpr uint64_t kNoAction = UINT64_MAX;  // key of what passes without an action hold

uint64_t key_of(const Action& a) {
  return (uint64_t{a.stage} << 32U) | a.microbatch;
}

class LiveSets {
 public:
  // With room for so many tensors.  The reference stays valid.
  LiveSet& get(uint64_t key, size_t tensors) {
    LiveSet* set = nullptr;
    for (LiveSet& s : sets_) {
      if (!s.used) {
        set = &s;
      } else if (s.key == key) {
        return s;
      }
    }
    if (set == nullptr) set = &sets_.emplace_back();
    set->key = key;
    set->used = true;
    set->alive = 0;
    // Who held its blocks has freed all of them.
    if (set->blocks.size() < tensors) set->blocks.resize(tensors, CachingAllocator::kNone);
    return *set;
  }

  // Frees what no pass has freed.
  void clear(CachingAllocator& allocator) {
    for (LiveSet& set : sets_) {
      if (!set.used) continue;
      for (CachingAllocator::Block& block : set.blocks)
        allocator.free(std::exchange(block, CachingAllocator::kNone));
      set.used = false;
    }
  }

  // Hands what each microbatch holds to that which is so much higher.
  void shift(uint64_t by) {
    for (LiveSet& s : sets_)
      if (s.key != kNoAction) s.key += by;
  }

  // Those that are used, by key.
  std::vector<const LiveSet*> in_order() const {
    std::vector<const LiveSet*> used;
    for (const LiveSet& s : sets_)
      if (s.used) used.push_back(&s);
    std::ranges::sort(used, {}, &LiveSet::key);
    return used;
  }

 private:
  std::deque<LiveSet> sets_;
};

}  // namespace

PassBytes bytes_of(const OpGraph& graph, const Pass& pass) {
  PassBytes out;
  for (const MemoryEvent& e : pass.memory) {
    const Bytes bytes = graph.tensor(pass, e).bytes;
    out.left += e.allocate ? bytes : -bytes;
    out.rise = std::max(out.rise, out.left);
  }
  return out;
}

std::vector<Bytes> peak_memory(const OpGraph& graph) {
  // As a PassProfile, without categories.
  struct Level {
    Bytes net{}, later{}, peak{};
    bool computes = false;
  };
  std::vector<Level> levels;
  levels.reserve(graph.passes.size());
  for (const Pass& pass : graph.passes) {
    Level& level = levels.emplace_back();
    level.computes = computes(pass);
    for (const MemoryEvent& e : pass.memory) {
      const Bytes bytes = graph.tensor(pass, e).bytes;
      if (frees_later(pass, e)) {
        level.later -= bytes;
        continue;
      }
      level.net += e.allocate ? bytes : -bytes;
      level.peak = std::max(level.peak, level.net);
    }
  }
  std::vector<Bytes> peaks;
  peaks.reserve(graph.roles.size());
  for (const RoleOps& role : graph.roles) {
    Bytes now = sum_of(static_memory(role)), later{};
    Bytes& peak = peaks.emplace_back(now);
    for (const Item& item : role.items) {
      if (item.kind != ItemKind::pass) continue;
      const Level& level = levels[static_cast<size_t>(item.pass)];
      peak = std::max(peak, now + level.peak);
      now += level.net;
      if (level.computes) now += std::exchange(later, {});
      later += level.later;
    }
  }
  return peaks;
}

std::vector<RoleMemory> trace_memory(const OpGraph& graph) {
  std::vector<PassProfile> profiles;
  profiles.reserve(graph.passes.size());
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

// What a pass does to the allocator, of which it is played again and again.
struct PassScript {
  enum class Act : uint8_t {
    allocate,
    free,
    gradient,  // free, unless it becomes one
    lag,       // free, when the device has come there
    late,      // free, when the next pass that computes has ended
  };
  struct Event {
    BlockRequest request;  // of an allocation
    uint32_t op = 0, tensor = 0;
    Act act = Act::allocate;
    Act else_act = Act::free;  // of what does not become a gradient
    bool second = false;

    bool operator==(const Event&) const = default;
  };

  std::vector<Event> events;
  std::array<uint32_t, 2> tensors{};  // of the tables
  std::array<int64_t, 2> net{};       // tensors more that are alive after it
  uint32_t gradients = 0;             // events of them, and the tables that they are in
  std::array<TensorTableId, 2> tables{};
  uint32_t ops = 0;
  bool touches_memory = false;  // even if with nothing
  bool computes = false, updates = false;
  bool plain = true;  // nothing is freed but at once

  bool operator==(const PassScript&) const = default;
};

namespace {

PassScript script_of(const OpGraph& graph, const Pass& pass) {
  using enum PassScript::Act;
  PassScript script;
  const auto tensors = [&](TensorTableId table) {
    const auto id = static_cast<size_t>(table);
    return id < graph.tensor_tables.size() ? static_cast<uint32_t>(graph.tensor_tables[id].size())
                                           : uint32_t{0};
  };
  script.tensors = {tensors(pass.tensors), tensors(pass.second_tensors)};
  script.ops = static_cast<uint32_t>(pass.ops.size());
  script.touches_memory = !pass.memory.empty();
  script.computes = computes(pass);
  script.updates = !pass.ops.empty() && pass.ops.front().phase == Phase::optimizer;
  script.events.reserve(pass.memory.size());
  for (const MemoryEvent& e : pass.memory) {
    const Tensor& tensor = graph.tensor(pass, e);
    if (tensor.bytes.value <= 0) continue;
    PassScript::Event& event = script.events.emplace_back();
    event.op = e.op;
    event.tensor = e.tensor;
    event.second = e.second;
    script.net[e.second ? 1 : 0] += e.allocate ? 1 : -1;
    if (e.allocate) {
      event.request = request_of(tensor.bytes);
      continue;
    }
    event.else_act = tensor.lags ? lag : frees_later(pass, e) ? late : free;
    event.act = tensor.becomes_gradient ? gradient : event.else_act;
    script.gradients += tensor.becomes_gradient ? 1 : 0;
    script.plain = script.plain && event.act == free;
  }
  if (script.gradients > 0) script.tables = {pass.tensors, pass.second_tensors};
  return script;
}

// Different for most scripts that are not equal.
uint64_t check_sum(const PassScript& script) {
  uint64_t sum = 0;
  for (const PassScript::Event& e : script.events)
    sum = (sum ^ (e.tensor + (uint64_t{e.request.size} << 16U) + 1)) * 0x100000001b3U;
  return sum;
}

}  // namespace

// Passes of which the allocator sees the same have one script: they may differ in all that is not
// memory.
struct PassScripts {
  explicit PassScripts(const OpGraph& graph) {
    std::multimap<uint64_t, uint32_t> known;
    for (const Pass& pass : graph.passes) {
      PassScript script = script_of(graph, pass);
      const uint64_t sum = check_sum(script);
      const auto [begin, end] = known.equal_range(sum);
      const auto at =
          std::find_if(begin, end, [&](const auto& k) { return all[k.second] == script; });
      if (at != end) {
        by_pass.push_back(at->second);
        continue;
      }
      by_pass.push_back(static_cast<uint32_t>(all.size()));
      known.emplace(sum, by_pass.back());
      all.push_back(std::move(script));
    }
    std::vector<BlockRequest> requests;
    for (const PassScript& script : all)
      for (const PassScript::Event& e : script.events)
        if (e.act == PassScript::Act::allocate) requests.push_back(e.request);
    classes = SizeClasses(requests);
    for (PassScript& script : all)
      for (PassScript::Event& e : script.events)
        if (e.act == PassScript::Act::allocate)
          e.request.list = classes.list_of(e.request.size, e.request.is_small() ? 1 : 0);
  }

  const PassScript& of(PassId pass) const { return all[by_pass[static_cast<size_t>(pass)]]; }

  std::vector<PassScript> all;
  std::vector<uint32_t> by_pass;
  SizeClasses classes;  // of all that is asked for
};

namespace {

// One role's steps, allocation by allocation.
class ReservedTrace {
 public:
  // Ends early where more than `most` is reserved.
  ReservedTrace(const PassScripts& scripts, const OpGraph& graph, const RoleOps& role, Bytes room,
                Segments segments, bool in_full, Bytes most = kEndlessRoom)
      : scripts_(scripts),
        graph_(graph),
        allocator_(room, segments, &scripts.classes),
        most_(most) {
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

  // What is free after a step is where the next one begins, so that the second may reserve more:
  // the blocks that gradients and the optimizer have left are not of the sizes of activations.
  ReservedTraces::Reserved two_steps() {
    step();
    if (allocator_.peak_reserved() <= most_) step();
    return {allocator_.peak_reserved(), allocator_.lacked_room()};
  }

 private:
  using Block = CachingAllocator::Block;

  void step() {
    made_.assign(made_.size(), false);
    gradients_made_ = 0;
    cycle_ = {};
    for (size_t i = 0; i < passes_.size(); ++i) {
      i += passes_to_skip(i);
      if (i < passes_.size()) run(passes_[i]);
      if (allocator_.peak_reserved() > most_) return;
    }
    free_gradients();
    for (const Block block : late_) allocator_.free(block);
    late_.clear();
    free_lagging(std::numeric_limits<uint64_t>::max());  // the host reads the loss
    live_.clear(allocator_);
  }

  void run(const Item& item) {
    const PassScript& pass = scripts_.of(item.pass);
    if (pass.updates) free_gradients();
    const size_t earlier = late_.size();
    if (pass.touches_memory) play(pass, item);
    ops_ += pass.ops;
    if (earlier == 0 || !pass.computes) return;
    for (size_t i = 0; i < earlier; ++i) allocator_.free(late_[i]);
    late_.erase(late_.begin(), late_.begin() + static_cast<std::ptrdiff_t>(earlier));
  }

  void play(const PassScript& pass, const Item& item) {
    using enum PassScript::Act;
    std::array<LiveSet*, 2> sets{};
    sets[0] = &live_.get(item.has_action ? key_of(item.action) : kNoAction, pass.tensors[0]);
    if (item.has_second) sets[1] = &live_.get(key_of(item.second), pass.tensors[1]);
    const std::array<Block*, 2> blocks{sets[0]->blocks.data(),
                                       sets[1] != nullptr ? sets[1]->blocks.data() : nullptr};
    if (pass.plain && !lags_) {
      for (const PassScript::Event& e : pass.events) {
        Block& block = blocks[e.second ? 1 : 0][e.tensor];
        if (e.act == allocate) {
          block = allocator_.serve(e.request);
        } else {
          allocator_.free(std::exchange(block, CachingAllocator::kNone));
        }
      }
    } else {
      play_all_acts(pass, item, blocks);
    }
    for (size_t i = 0; i < sets.size(); ++i) {
      if (sets[i] == nullptr) continue;
      sets[i]->alive += pass.net[i];
      sets[i]->used = sets[i]->alive > 0;
    }
  }

  void play_all_acts(const PassScript& pass, const Item& item,
                     const std::array<Block*, 2>& blocks) {
    using enum PassScript::Act;
    const PassGradients* gradients = pass.gradients > 0 ? gradients_of(pass, item) : nullptr;
    size_t gradients_met = 0;
    for (const PassScript::Event& e : pass.events) {
      if (lags_) free_lagging(ops_ + e.op);
      Block& block = blocks[e.second ? 1 : 0][e.tensor];
      if (e.act == allocate) {
        block = allocator_.serve(e.request);
        continue;
      }
      const Block freed = std::exchange(block, CachingAllocator::kNone);
      PassScript::Act act = e.act;
      if (act == gradient) {
        if (gradients != nullptr && becomes_gradient(gradients->ids[gradients_met++])) {
          gradients_.push_back(freed);
          continue;
        }
        act = e.else_act;
      }
      if (act == free) {
        allocator_.free(freed);
      } else if (act == lag) {
        lagging_.push_back({ops_ + e.op, freed});
        lags_ = true;
      } else {
        late_.push_back(freed);
      }
    }
  }

  // ------------------------------------------------------------------------------- gradients
  static constexpr uint32_t kNoGradient = UINT32_MAX;

  // Which gradients a pass frees, event by event, where it is run for these stages.
  struct PassGradients {
    const PassScript* pass = nullptr;
    uint16_t stage = 0, second_stage = 0;
    std::vector<uint32_t> ids;  // of made_
  };

  // Null: none of the role's gradients is a tensor.
  const PassGradients* gradients_of(const PassScript& pass, const Item& item) const {
    for (const PassGradients& g : pass_gradients_)
      if (g.pass == &pass && g.stage == item.action.stage && g.second_stage == item.second.stage)
        return &g;
    return nullptr;
  }

  // Finds the tensors that become gradients, in the order of the step, and what they take of
  // `all`.  There are no more gradients than parameters: of two tensors for the same ones, as a
  // tied embedding has, the later one is added to the first.
  Bytes kept_gradients(Bytes all) {
    // A stage's tensor, in whichever pass of whichever microbatch.
    using Gradient = std::tuple<uint16_t, TensorTableId, uint32_t>;
    std::map<Gradient, uint32_t> known;
    Bytes kept{};
    for (const Item& item : passes_) {
      const PassScript& script = scripts_.of(item.pass);
      if (script.gradients == 0 || gradients_of(script, item) != nullptr) continue;
      PassGradients& found = pass_gradients_.emplace_back(
          PassGradients{&script, item.action.stage, item.second.stage, {}});
      for (const PassScript::Event& e : script.events) {
        if (e.act != PassScript::Act::gradient) continue;
        const TensorTableId table = script.tables[e.second ? 1 : 0];
        const Gradient gradient{(e.second ? item.second : item.action).stage, table, e.tensor};
        const Bytes bytes = graph_.tensor_tables[static_cast<size_t>(table)][e.tensor].bytes;
        auto at = known.find(gradient);
        if (at == known.end() && kept + bytes <= all) {
          at = known.emplace(gradient, static_cast<uint32_t>(known.size())).first;
          kept += bytes;
        }
        found.ids.push_back(at == known.end() ? kNoGradient : at->second);
      }
    }
    made_.assign(known.size(), false);
    return kept;
  }

  // Whether it is the first of this step.
  bool becomes_gradient(uint32_t id) {
    if (id == kNoGradient || made_[id]) return false;
    made_[id] = true;
    ++gradients_made_;
    return true;
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
    lags_ = !lagging_.empty();
  }

  struct Lagging {
    uint64_t op = 0;  // of the role
    Block block = CachingAllocator::kNone;
  };

  // ------------------------------------------------------------------- states that come again
  // A state before a repetition, in numbers: the allocator's, and who holds what.
  struct State {
    std::vector<uint64_t> allocator, holders;
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
      cycle_.kept = {allocator_.state(), {}};
      all_of_holders(at, [&](uint64_t number) {
        cycle_.kept.holders.push_back(number);
        return true;
      });
    }
    return 0;
  }

  // Where they differ the first numbers mostly do.
  bool is_kept_state(size_t at) const {
    const State& kept = cycle_.kept;
    size_t i = 0;
    return allocator_.is_state(kept.allocator) &&
           all_of_holders(at,
                          [&](uint64_t number) {
                            return i < kept.holders.size() && kept.holders[i++] == number;
                          }) &&
           i == kept.holders.size();
  }

  // f(number) of numbers that say who holds which blocks before a repetition, and the same for
  // microbatches that are higher by its shift before the next one, until it is false.
  template <class F>
  bool all_of_holders(size_t repetition, const F& f) const {
    const uint64_t lower =
        static_cast<uint64_t>(repetition_->shift * static_cast<int64_t>(repetition));
    const auto place = [&](Block b) {
      const auto [key, pool] = CachingAllocator::place_of(b);
      return f(key) && f(pool);
    };
    // The gradients that are made only get more within a step.
    if (!f(gradients_made_) || !f(late_.size()) || !f(gradients_.size())) return false;
    for (const LiveSet* s : live_.in_order()) {
      if (!f(s->key == kNoAction ? s->key : s->key - lower)) return false;
      for (size_t i = 0; i < s->blocks.size(); ++i)
        if (s->blocks[i] != CachingAllocator::kNone && (!f(i) || !place(s->blocks[i])))
          return false;
      if (!f(kNoAction)) return false;
    }
    for (const Lagging& l : lagging_)
      if (!f(ops_ - l.op) || !place(l.block)) return false;
    return std::ranges::all_of(late_, place) && std::ranges::all_of(gradients_, place);
  }

  const PassScripts& scripts_;
  const OpGraph& graph_;
  std::vector<Item> passes_;  // of the role
  std::optional<Repetition> repetition_;
  Cycle cycle_;  // of this step
  CachingAllocator allocator_;
  Bytes most_;
  LiveSets live_;
  std::vector<Block> late_;       // as in trace_role
  std::vector<Block> gradients_;  // by tensor, of this step
  std::vector<PassGradients> pass_gradients_;
  std::vector<bool> made_;  // tensors that become gradients: whether in this step already
  uint64_t gradients_made_ = 0;
  std::deque<Lagging> lagging_;
  bool lags_ = false;  // whether there are any
  uint64_t ops_ = 0;   // before the pass
};

}  // namespace

ReservedTraces::ReservedTraces(const OpGraph& graph)
    : graph_(graph), scripts_(std::make_unique<PassScripts>(graph)) {
  for (const RoleOps& role : graph.roles) {
    uint64_t sum = 0;
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass)
        sum = (sum ^ (scripts_->by_pass[static_cast<size_t>(item.pass)] + uint64_t{1})) *
              0x100000001b3U;
    check_sums_.push_back(sum);
  }
}

ReservedTraces::~ReservedTraces() = default;

ReservedTraces::Reserved ReservedTraces::trace(uint32_t role, Bytes room, Segments segments) const {
  return ReservedTrace(*scripts_, graph_, graph_.roles[role], room, segments, false).two_steps();
}

bool ReservedTraces::fits(uint32_t role, Bytes room, Segments segments) const {
  ReservedTrace trace(*scripts_, graph_, graph_.roles[role], room, segments, false, room);
  return trace.two_steps().peak <= room;
}

bool ReservedTraces::alike(uint32_t a, uint32_t b) const {
  if (check_sums_[a] != check_sums_[b]) return false;
  const RoleOps &one = graph_.roles[a], &other = graph_.roles[b];
  const auto same_memory = [](const StaticMemory& x, const StaticMemory& y) {
    return x.bytes == y.bytes && x.by_tensor == y.by_tensor;
  };
  if (!std::ranges::equal(one.memory, other.memory, same_memory)) return false;
  // Names of one role stand for names of the other, each for one.
  using Names = std::map<uint64_t, uint64_t>;
  Names stages, microbatches, back_stages, back_microbatches;
  const auto stands_for = [](Names& to, Names& from, uint64_t x, uint64_t y) {
    return to.emplace(x, y).first->second == y && from.emplace(y, x).first->second == x;
  };
  const auto same_action = [&](const Action& x, const Action& y) {
    return stands_for(stages, back_stages, x.stage, y.stage) &&
           stands_for(microbatches, back_microbatches, key_of(x), key_of(y));
  };
  const auto is_pass = [](const Item& item) { return item.kind == ItemKind::pass; };
  const auto end = one.items.end(), other_end = other.items.end();
  auto x = std::find_if(one.items.begin(), end, is_pass);
  auto y = std::find_if(other.items.begin(), other_end, is_pass);
  for (; x != end && y != other_end;
       x = std::find_if(x + 1, end, is_pass), y = std::find_if(y + 1, other_end, is_pass)) {
    if (scripts_->by_pass[static_cast<size_t>(x->pass)] !=
            scripts_->by_pass[static_cast<size_t>(y->pass)] ||
        x->has_action != y->has_action || x->has_second != y->has_second)
      return false;
    if (x->has_action && !same_action(x->action, y->action)) return false;
    if (x->has_second && !same_action(x->second, y->second)) return false;
  }
  return x == end && y == other_end;
}

Bytes trace_reserved(const OpGraph& graph, uint32_t role, Bytes room, Segments segments) {
  return ReservedTraces(graph).trace(role, room, segments).peak;
}

Bytes trace_reserved_in_full(const OpGraph& graph, uint32_t role, Bytes room, Segments segments) {
  const PassScripts scripts(graph);
  return ReservedTrace(scripts, graph, graph.roles[role], room, segments, true).two_steps().peak;
}

}  // namespace stepcast
