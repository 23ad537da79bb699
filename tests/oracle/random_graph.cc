// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/random_graph.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/passes/pass_writer.h"
#include "model/passes/stage_passes.h"

namespace stepcast::oracle {

uint64_t Draws::next() {
  uint64_t z = seed_ * 0xd1342543de82ef95ULL + ++count_ * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint32_t Draws::below(uint32_t n) {
  return static_cast<uint32_t>(((next() >> 32) * n) >> 32);
}

uint32_t Draws::between(uint32_t low, uint32_t high) {
  return low + below(high - low + 1);
}

namespace {

constexpr std::array kCompute = {
    std::pair{WorkKind::gemm, Kernel::none},
    std::pair{WorkKind::attention_forward, Kernel::none},
    std::pair{WorkKind::memory_bound, Kernel::layer_norm},
    std::pair{WorkKind::memory_bound, Kernel::activation},
    std::pair{WorkKind::memory_bound, Kernel::cross_entropy},
    std::pair{WorkKind::memory_bound, Kernel::adam},
};

template <class T>
T pick(Draws& draws, std::initializer_list<T> values) {
  return *std::next(values.begin(), draws.below(static_cast<uint32_t>(values.size())));
}

uint32_t size32(const auto& container) {
  return static_cast<uint32_t>(container.size());
}

// What a stage runs: its passes, which share one tensor table.
struct Family {
  PassId forward{}, backward{}, weight{};
  bool split = false;  // backward is I, and weight exists
  PassId pair{};       // forward and backward of two microbatches at once
  PassId offload{}, reload{};
};

// A rendezvous that waits for posts.
struct Open {
  uint32_t id = 0;
  std::vector<uint32_t> missing;  // roles
};

// What remains to be done for one stage of a role.
struct StageWork {
  uint16_t stage = 0;
  uint32_t family = 0;
  uint32_t microbatches = 0;
  uint32_t forwards = 0;             // so many are done
  std::vector<uint32_t> forwarded;   // microbatches that await their backward
  std::vector<uint32_t> backwarded;  // ... their weight gradient
  std::set<uint32_t> offloaded;      // of those forwarded
};

struct RoleWork {
  std::vector<StageWork> stages;
  uint32_t events = 0;  // recorded so far
};

struct Grower {
  Draws draws;
  RandomCase out;
  std::vector<Family> families;
  std::vector<PassId> loose;  // passes without action
  std::vector<RoleWork> roles;
  std::vector<Open> open;
  std::vector<uint32_t> complete;  // rendezvous that may be joined
};

// --- works --------------------------------------------------------------------------------------

Time random_price(Draws& draws) {
  return Time{pick<int64_t>(draws, {0, 0, 1, 1, 2, 3, 5, 8, 13, 20, 40})};
}

WorkId add_work(Grower& g, const Work& work) {
  g.out.graph.works.push_back(work);
  g.out.prices.by_work.push_back({random_price(g.draws), Origin::roofline, "drawn"});
  return WorkId{size32(g.out.graph.works) - 1};
}

WorkId add_compute_work(Grower& g) {
  const auto& [kind, kernel] = kCompute[g.draws.below(kCompute.size())];
  Work work;
  work.kind = kind;
  work.kernel = kernel;
  return add_work(g, work);
}

WorkId add_communication_work(Grower& g, Axis axis) {
  Work work;
  work.kind = axis == Axis::pp ? WorkKind::send_recv : WorkKind::all_reduce;
  work.axis = axis;
  return add_work(g, work);
}

WorkId add_op_work(Grower& g, Stream stream) {
  switch (stream) {
    case Stream::compute: return add_compute_work(g);
    case Stream::tp: return add_communication_work(g, Axis::tp);
    case Stream::cp: return add_communication_work(g, Axis::cp);
    case Stream::ep: return add_communication_work(g, Axis::ep);
    case Stream::dp: return add_communication_work(g, Axis::dp);
    case Stream::copy: break;
  }
  Work work;
  work.kernel = Kernel::copy;
  return add_work(g, work);
}

// --- passes -------------------------------------------------------------------------------------

// All alike in half of the cases.
void add_launches(Grower& g) {
  const uint32_t kinds = g.draws.chance(50) ? 1 : g.draws.between(2, 4);
  for (uint32_t i = 0; i < kinds; ++i) {
    if (i > 0) g.out.graph.launches.push_back(Launch{}.add(HostCall::kernel, static_cast<int>(i)));
    g.out.prices.by_launch.push_back(Time{pick<int64_t>(g.draws, {0, 0, 1, 2, 6, 17})});
  }
}

LaunchId random_launch(Grower& g) {
  const uint32_t kinds = size32(g.out.graph.launches);
  return LaunchId{static_cast<uint16_t>(kinds == 1 ? 0 : g.draws.below(kinds))};
}

Stream random_stream(Draws& draws) {
  if (draws.chance(60)) return Stream::compute;
  return pick(draws, {Stream::tp, Stream::tp, Stream::cp, Stream::ep, Stream::dp, Stream::copy});
}

PassId add_pass(Grower& g, const char* name, Phase phase, TensorTableId tensors) {
  Pass pass;
  pass.name = name;
  pass.tensors = tensors;
  const uint32_t ops = g.draws.between(1, 8);
  // Few works, so that ops share them.
  std::array<WorkId, kStreams> works{};
  std::array<bool, kStreams> have{};
  for (uint32_t i = 0; i < ops; ++i) {
    const Stream stream = random_stream(g.draws);
    const auto s = static_cast<size_t>(stream);
    if (!have[s] || g.draws.chance(40)) works[s] = add_op_work(g, stream);
    have[s] = true;
    const bool again = phase == Phase::backward_input && g.draws.chance(10);
    pass.ops.push_back(
        {works[s], stream, again ? Phase::recompute : phase, LabelId{0}, -1, random_launch(g)});
  }
  std::vector<Wait> waits;
  for (uint32_t i = 1; i < ops; ++i)
    while (g.draws.chance(35))
      waits.push_back({i, g.draws.below(i), g.draws.chance(25),
                       Time{pick<int64_t>(g.draws, {0, 0, 0, 1, 4, 15})}});
  pass.waits = WaitGraph(ops, std::move(waits));
  g.out.graph.passes.push_back(std::move(pass));
  return PassId{size32(g.out.graph.passes) - 1};
}

TensorTableId add_tensor_table(Grower& g) {
  g.out.graph.tensor_tables.emplace_back();
  return TensorTableId{size32(g.out.graph.tensor_tables) - 1};
}

uint32_t add_tensor(Grower& g, TensorTableId table) {
  auto& tensors = g.out.graph.tensor_tables[static_cast<size_t>(table)];
  const auto category =
      pick(g.draws, {MemoryCategory::activations, MemoryCategory::activations,
                     MemoryCategory::workspace, MemoryCategory::gradients, MemoryCategory::logits});
  const int64_t bytes = pick<int64_t>(g.draws, {0, 1, 512, 513, 4096, 700'000, 1 << 20,
                                                (1 << 20) + 1, 5 << 20, 11 << 20, 30 << 20});
  tensors.push_back({Bytes{bytes}, category, LabelId{0}});
  return size32(tensors) - 1;
}

void allocate(Grower& g, PassId pass, uint32_t op, uint32_t tensor, bool allocate) {
  g.out.graph.passes[static_cast<size_t>(pass)].memory.push_back(
      {.op = op, .tensor = tensor, .allocate = allocate});
}

uint32_t random_op(Grower& g, PassId pass) {
  return g.draws.below(size32(g.out.graph.passes[static_cast<size_t>(pass)].ops));
}

// A tensor that `pass` allocates and frees itself.
void add_scratch(Grower& g, PassId pass, TensorTableId table) {
  const uint32_t tensor = add_tensor(g, table);
  const uint32_t a = random_op(g, pass), b = random_op(g, pass);
  allocate(g, pass, std::min(a, b), tensor, true);
  allocate(g, pass, std::max(a, b), tensor, false);
}

// A tensor that `from` leaves behind for `to`.
void add_saved(Grower& g, PassId from, PassId to, TensorTableId table) {
  const uint32_t tensor = add_tensor(g, table);
  allocate(g, from, random_op(g, from), tensor, true);
  allocate(g, to, random_op(g, to), tensor, false);
}

void sort_memory(Grower& g) {
  for (Pass& pass : g.out.graph.passes)
    std::ranges::stable_sort(pass.memory, [](const MemoryEvent& a, const MemoryEvent& b) {
      return std::pair{a.op, !a.allocate} < std::pair{b.op, !b.allocate};
    });
}

// Passes that free what a forward leaves behind, and allocate it again.
void add_offload(Grower& g, Family& family, TensorTableId table) {
  family.offload = add_pass(g, "offload", Phase::forward, table);
  family.reload = add_pass(g, "reload", Phase::backward_input, table);
  std::set<uint32_t> kept;
  for (const MemoryEvent& e : g.out.graph.passes[static_cast<size_t>(family.forward)].memory) {
    if (e.allocate) {
      kept.insert(e.tensor);
    } else {
      kept.erase(e.tensor);
    }
  }
  for (const uint32_t tensor : kept) {
    allocate(g, family.offload, random_op(g, family.offload), tensor, false);
    allocate(g, family.reload, random_op(g, family.reload), tensor, true);
  }
}

void add_family(Grower& g) {
  const TensorTableId table = add_tensor_table(g);
  Family family;
  family.split = g.draws.chance(40);
  family.forward = add_pass(g, "forward", Phase::forward, table);
  family.backward = add_pass(g, "backward", Phase::backward_input, table);
  if (family.split) family.weight = add_pass(g, "weight", Phase::backward_weight, table);
  for (uint32_t n = g.draws.below(3); n > 0; --n)
    add_saved(g, family.forward, family.backward, table);
  if (family.split) {
    for (uint32_t n = g.draws.below(3); n > 0; --n)
      add_saved(g, family.forward, family.weight, table);
    for (uint32_t n = g.draws.below(2); n > 0; --n)
      add_saved(g, family.backward, family.weight, table);
  }
  if (g.draws.chance(50)) add_scratch(g, family.forward, table);
  if (g.draws.chance(50)) add_scratch(g, family.backward, table);
  GraphBuilder builder(g.out.graph);
  family.pair = add_pair_pass(builder, family.forward, family.backward);
  add_offload(g, family, table);
  g.families.push_back(family);
}

void add_loose_pass(Grower& g) {
  const TensorTableId table = add_tensor_table(g);
  const PassId pass = add_pass(g, "optimizer", Phase::optimizer, table);
  if (g.draws.chance(50)) add_scratch(g, pass, table);
  g.loose.push_back(pass);
}

// --- roles --------------------------------------------------------------------------------------

void add_roles(Grower& g) {
  const uint32_t count = g.draws.between(1, 4);
  const uint32_t chunks = g.draws.between(1, 2);
  const uint32_t microbatches = g.draws.between(0, 3);
  for (uint32_t r = 0; r < count; ++r) {
    RoleOps role;
    role.name = "stage " + std::to_string(r);
    role.pipeline_rank = r;
    role.memory.push_back({MemoryCategory::parameters, Bytes{int64_t{1000} * r}});
    g.out.graph.roles.push_back(std::move(role));
    RoleWork work;
    for (uint32_t c = 0; c < chunks; ++c)
      work.stages.push_back({static_cast<uint16_t>(c * count + r),
                             g.draws.below(size32(g.families)),
                             microbatches,
                             0,
                             {},
                             {},
                             {}});
    g.roles.push_back(std::move(work));
  }
}

void append(Grower& g, uint32_t r, const Item& item) {
  g.out.graph.roles[r].items.push_back(item);
}

void append_pass(Grower& g, uint32_t r, PassId pass, const Action* action) {
  Item item;
  item.pass = pass;
  item.has_action = action != nullptr;
  if (action != nullptr) item.action = *action;
  append(g, r, item);
}

uint32_t take(Draws& draws, std::vector<uint32_t>& from) {
  const auto at = from.begin() + draws.below(size32(from));
  const uint32_t taken = *at;
  from.erase(at);
  return taken;
}

void reload_if_offloaded(Grower& g, uint32_t r, StageWork& work, uint32_t microbatch) {
  if (work.offloaded.erase(microbatch) == 0) return;
  const Action action{ActionKind::reload, work.stage, microbatch};
  append_pass(g, r, g.families[work.family].reload, &action);
}

// The forward of the next microbatch and the backward of an earlier one at once.
void append_pair(Grower& g, uint32_t r, StageWork& work) {
  const Family& family = g.families[work.family];
  const uint32_t microbatch = take(g.draws, work.forwarded);
  reload_if_offloaded(g, r, work, microbatch);
  const Action action{ActionKind::forward, work.stage, work.forwards};
  append_pass(g, r, family.pair, &action);
  Item& item = g.out.graph.roles[r].items.back();
  item.has_second = true;
  item.second = {family.split ? ActionKind::backward_input : ActionKind::backward, work.stage,
                 microbatch};
  if (family.split) work.backwarded.push_back(microbatch);
  work.forwarded.push_back(work.forwards++);
}

// The next pass of a stage: a forward, or what some forwarded microbatch still needs.  False if
// the stage is done.
bool append_stage_pass(Grower& g, uint32_t r, StageWork& work) {
  const Family& family = g.families[work.family];
  const bool can_forward = work.forwards < work.microbatches;
  if (!work.backwarded.empty() && g.draws.chance(40)) {
    const Action action{ActionKind::backward_weight, work.stage, take(g.draws, work.backwarded)};
    append_pass(g, r, family.weight, &action);
  } else if (!work.forwarded.empty() && can_forward && g.draws.chance(30)) {
    append_pair(g, r, work);
  } else if (!work.forwarded.empty() && (!can_forward || g.draws.chance(50))) {
    const uint32_t microbatch = take(g.draws, work.forwarded);
    reload_if_offloaded(g, r, work, microbatch);
    const ActionKind kind = family.split ? ActionKind::backward_input : ActionKind::backward;
    const Action action{kind, work.stage, microbatch};
    append_pass(g, r, family.backward, &action);
    if (family.split) work.backwarded.push_back(microbatch);
  } else if (can_forward) {
    const Action action{ActionKind::forward, work.stage, work.forwards};
    append_pass(g, r, family.forward, &action);
    if (g.draws.chance(30)) {
      const Action leaves{ActionKind::offload, work.stage, work.forwards};
      append_pass(g, r, family.offload, &leaves);
      work.offloaded.insert(work.forwards);
    }
    work.forwarded.push_back(work.forwards++);
  } else {
    return !work.backwarded.empty() && append_stage_pass(g, r, work);
  }
  return true;
}

void append_some_pass(Grower& g, uint32_t r) {
  StageWork& work = g.roles[r].stages[g.draws.below(size32(g.roles[r].stages))];
  if (append_stage_pass(g, r, work) || g.loose.empty()) return;
  append_pass(g, r, g.loose[g.draws.below(size32(g.loose))], nullptr);
}

// --- between roles ------------------------------------------------------------------------------

void add_rendezvous(Grower& g) {
  const uint32_t roles = size32(g.roles);
  const uint32_t parties = g.draws.chance(30) ? 1 : g.draws.between(1, roles);
  const Axis axis =
      parties <= 2 ? Axis::pp : pick(g.draws, {Axis::embedding, Axis::model, Axis::dp});
  const WorkId work = add_communication_work(g, axis);
  g.out.graph.rendezvous.push_back(
      {work, static_cast<uint16_t>(parties), LabelId{0}, random_launch(g)});
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < roles; ++r) all.push_back(r);
  Open open{size32(g.out.graph.rendezvous) - 1, {}};
  while (open.missing.size() < parties) open.missing.push_back(take(g.draws, all));
  g.open.push_back(std::move(open));
}

// One missing post of one open rendezvous.
void append_post(Grower& g) {
  const size_t at = g.draws.below(size32(g.open));
  Open& open = g.open[at];
  const uint32_t r = open.missing.back();
  open.missing.pop_back();
  Item item;
  item.kind = ItemKind::post;
  item.stream = random_stream(g.draws);
  item.rendezvous = RendezvousId{open.id};
  append(g, r, item);
  if (!open.missing.empty()) return;
  g.complete.push_back(open.id);
  g.open.erase(g.open.begin() + static_cast<std::ptrdiff_t>(at));
}

void append_join(Grower& g, uint32_t r) {
  if (g.complete.empty()) return;
  Item item;
  item.kind = ItemKind::join;
  item.stream = random_stream(g.draws);
  item.rendezvous = RendezvousId{g.complete[g.draws.below(size32(g.complete))]};
  item.host_waits = g.draws.chance(20);
  item.only_sends = g.draws.chance(20);
  append(g, r, item);
}

void append_event(Grower& g, uint32_t r) {
  RoleWork& work = g.roles[r];
  Item item;
  item.stream = random_stream(g.draws);
  if (work.events == 0 || g.draws.chance(40)) {
    item.kind = ItemKind::record;
    const bool again = work.events > 0 && g.draws.chance(30);
    item.event = again ? g.draws.below(work.events) : work.events++;
  } else {
    item.kind = ItemKind::wait;
    item.event = g.draws.below(work.events);
  }
  append(g, r, item);
}

void append_sync(Grower& g, uint32_t r) {
  Item item;
  item.kind = ItemKind::sync;
  item.stream = random_stream(g.draws);
  append(g, r, item);
}

void grow(Grower& g) {
  for (uint32_t steps = g.draws.between(5, 60); steps > 0; --steps) {
    const uint32_t r = g.draws.below(size32(g.roles));
    const uint32_t what = g.draws.below(100);
    if (what < 40)
      append_some_pass(g, r);
    else if (what < 50)
      add_rendezvous(g);
    else if (what < 67) {
      if (!g.open.empty()) append_post(g);
    } else if (what < 82)
      append_join(g, r);
    else if (what < 97)
      append_event(g, r);
    else
      append_sync(g, r);
  }
  while (!g.open.empty()) append_post(g);
  for (uint32_t r = 0; r < g.roles.size(); ++r) {
    for (StageWork& work : g.roles[r].stages)
      while (append_stage_pass(g, r, work)) continue;
    append_join(g, r);
  }
}

}  // namespace

RandomCase random_case(uint64_t seed) {
  Grower g{Draws(seed), {}, {}, {}, {}, {}, {}};
  g.out.graph.labels = {"drawn"};
  add_launches(g);
  for (uint32_t n = g.draws.between(1, 2); n > 0; --n) add_family(g);
  if (g.draws.chance(60)) add_loose_pass(g);
  add_roles(g);
  grow(g);
  sort_memory(g);
  return std::move(g.out);
}

}  // namespace stepcast::oracle
