// SPDX-License-Identifier: Apache-2.0
// The ops of a training step in symbolic form: what is done, in which order, on which stream,
// waiting for what. `compile` (program.h) turns it into the form the engine runs; the naive engine
// under tests/oracle reads it directly.
//
// OpGraph is works, tensors, passes, rendezvous, and one RoleOps for each role:
//
//   Pass     a small graph of ops (the forward of one chunk, say), shared by all microbatches
//            and by all stages that do the same
//   RoleOps  what the ranks of one role do, in program order: Items, most of which run a pass
//
// Semantics (CUDA's streams):
//
//   * A role has one in-order queue for each Stream, and its host.  The host walks the items and,
//     inside a pass, the ops in order; launching an op takes the host the time of its Launch.
//   * An op starts when its stream has finished its previous op, the op has been launched,
//     and every op it waits for has finished (or, for a Wait with `from_start`, has started)
//     at least `delay` ago.  It ends `duration` later.
//   * A Rendezvous is anything that needs several roles, or that runs beside its issuer: a pipeline
//     transfer, an all-reduce over first and last stage.  It starts when `parties` posts have been
//     made, and ends its price later.  A role posts when the given stream has reached this place
//     and the host has launched it; where it joins, the given stream goes on no earlier than the
//     end of the rendezvous.  A send that completes without its receiver, and a plain latency, are
//     rendezvous with one party.
//   * record, wait: a role's own events, as cudaEventRecord and cudaStreamWaitEvent.
//
// All of it is a (max,+) recurrence with one solution, whatever the order of evaluation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/graph/action.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/units.h"

namespace stepcast {
enum class WorkId : uint32_t {};
enum class LaunchId : uint16_t {};  // index into OpGraph::launches; the first is of no calls
enum class PassId : uint32_t {};
enum class RendezvousId : uint32_t {};
enum class TensorTableId : uint32_t {};
enum class LabelId : uint16_t {};  // index into OpGraph::labels

enum class Stream : uint8_t { compute, tp, cp, ep, dp, copy };
constexpr int kStreams = 6;
std::string_view name_of(Stream s);

// What part of the step an op belongs to; the account keeps recompute and optimizer apart.
enum class Phase : uint8_t {
  forward,
  backward_input,
  backward_weight,
  recompute,
  gradient_sync,
  optimizer
};
std::string_view name_of(Phase p);

// ------------------------------------------------------------------------------------------ memory
enum class MemoryCategory : uint8_t {
  parameters,
  gradients,
  optimizer_state,
  activations,
  recompute_workspace,
  workspace,
  communication,
  logits,
};
constexpr int kMemoryCategories = 8;
std::string_view name_of(MemoryCategory c);

struct Tensor {
  Bytes bytes{};
  MemoryCategory category = MemoryCategory::activations;
  LabelId label{};
  // A gradient of weights that autograd hands over: the first one of a step is not freed but
  // becomes the gradient, until the optimizer runs.  That memory is in StaticMemory too
  // (`by_tensor`).
  bool becomes_gradient = false;
  bool lags = false;  // a collective reads it last, which the device ends long after the host
};

// `op` allocates `tensor` before it runs, or frees it after.  A tensor that a pass allocates and
// does not free stays alive for its (stage, microbatch) until another pass of that stage and
// microbatch frees it; then a later one may allocate it again.  Passes without an action have their
// tensors in common.
struct MemoryEvent {
  uint32_t op = 0;      // index into Pass::ops
  uint32_t tensor = 0;  // index into the pass's tensor table
  bool allocate = true;
  bool second = false;  // of the item's second action, and of the pass's second tensor table
};

// -------------------------------------------------------------------------------------------- pass
// What an op is for, where that decides something beside its work.
enum class OpRole : uint8_t {
  ordinary,
  head,          // a product with the weights of the head, forward or backward ...
  router,        // ... of a router: frameworks multiply both outside their linear layers
  later_piece,   // a product that is cut by rows runs piece by piece: a piece but the first, whose
                 // weights the first has read already
  later_kernel,  // of an operator that launches several: a kernel but the first
};

struct Op {
  WorkId work{};
  Stream stream = Stream::compute;
  Phase phase = Phase::forward;
  LabelId label{};     // "qkv", "fc1 weight gradient": for display only
  int16_t layer = -1;  // counted within the stage; -1 outside the layers
  LaunchId launch{};   // what the host does for it
  OpRole role = OpRole::ordinary;
};

// Op `op` waits for op `on` of the same pass.
struct Wait {
  uint32_t op = 0;
  uint32_t on = 0;
  bool from_start = false;  // for its start instead of its end
  Time delay{};             // that much later, by the host (host_waits.h)
};

// The waits of a pass, ordered by op.
class WaitGraph {
 public:
  WaitGraph() = default;
  // REQUIRES: both ends < ops.
  WaitGraph(uint32_t ops, std::vector<Wait> waits) { assign(ops, std::move(waits)); }

  // These waits instead, in the memory that there is.  REQUIRES: both ends < ops.
  void assign(uint32_t ops, std::vector<Wait> waits);
  // An empty list in the memory of its waits, of which there are none then.
  std::vector<Wait> release();

  std::span<const Wait> all() const { return waits_; }
  // REQUIRES: op < ops.
  std::span<const Wait> of(uint32_t op) const {
    return std::span(waits_).subspan(first_[op], first_[op + 1] - first_[op]);
  }

  // Ops that wait for each other in a cycle, each for the next one and the last for the first, if
  // the waits together with the program order of `streams` (one entry an op) contain a cycle; else
  // none.  O(V + E): a depth-first search, Boost.Graph's.
  std::vector<uint32_t> find_cycle(std::span<const Stream> streams) const;

 private:
  std::vector<Wait> waits_;
  std::vector<uint32_t> first_;  // op -> its first wait; one entry more than ops, if there are any
};

struct Pass {
  std::string name;  // "forward, 4 layers"
  TensorTableId tensors{};
  TensorTableId second_tensors{};  // of a pass that runs two actions at once
  std::vector<Op> ops;             // in launch order; an op waits only for ops before it
  WaitGraph waits;
  std::vector<MemoryEvent> memory;  // by op; at one op allocations come first
};

// Whether the order of the stream alone makes the op start after what it waits for.
inline bool is_implied(const Pass& pass, const Wait& w) {
  return pass.ops[w.op].stream == pass.ops[w.on].stream && w.delay.count() == 0;
}

// Where the engines keep the times of ops that others wait for: a slot for each start and each end
// that a wait names, unless the order of the stream implies it.
struct WaitSlots {
  std::vector<int32_t> end, start;  // op -> its slot; -1: none
  std::vector<uint32_t> op;         // slot -> its op
};

// Slots are numbered in the order of ops; of one with both, the end comes first.
WaitSlots wait_slots(const Pass& pass);

// -------------------------------------------------------------------------------------------- role
enum class ItemKind : uint8_t {
  pass,    // run `pass` as `action`
  post,    // of `rendezvous`, from `stream`
  join,    // of `rendezvous`, by `stream`
  record,  // event := end of everything on `stream` so far
  wait,    // `stream` waits for event
  sync,    // the host waits for everything on `stream` so far
};

// One entry of a role's program.  A field belongs to the kinds that its comment, or its name, says.
struct Item {
  ItemKind kind = ItemKind::pass;
  Stream stream = Stream::compute;
  bool host_waits = false;  // join: the host waits too
  bool only_sends = false;  // join: of its own send; the role needs nothing from it
  bool has_action = false;  // pass: `action` is meaningful (false: optimizer, gradient sync)
  bool has_second = false;  // pass: it runs two actions at once, `action` (a forward) and `second`
  PassId pass{};
  RendezvousId rendezvous{};
  uint32_t event = 0;  // of this role, from 0
  Action action{};
  Action second{};  // a backward of another microbatch
};

// "5F12", or "(5F12;2B4)" of a pair.  REQUIRES: has_action.
std::string action_text(const Item& item);

struct Rendezvous {
  WorkId work{};
  uint16_t parties = 1;  // posts it needs before it starts, each from another role
  LabelId label{};
  LaunchId launch{};  // of each post
};

// Memory that is held through the whole step.
struct StaticMemory {
  MemoryCategory category{};
  Bytes bytes{};
  bool by_tensor = false;  // gradients that are tensors of their own: Tensor::becomes_gradient
};

struct RoleOps {
  std::string name;  // "stage 3" for a pipeline rank
  uint32_t pipeline_rank = 0;
  int64_t ranks = 1;  // ranks of the job that run this program alike
  std::vector<StaticMemory> memory;
  std::vector<Item> items;
};

struct OpGraph {
  std::vector<std::string> labels;
  std::vector<Work> works;
  std::vector<Launch> launches{Launch{}};
  std::vector<std::vector<Tensor>> tensor_tables;
  std::vector<Pass> passes;
  std::vector<Rendezvous> rendezvous;
  std::vector<RoleOps> roles;
  int64_t libraries = 0;     // year of cuBLAS, whose kernels run; 0: as young as can be
  bool host_blocks = false;  // until what it launched has ended, whatever that is (host_waits.h)

  const std::string& text(LabelId id) const { return labels[static_cast<size_t>(id)]; }
  const Tensor& tensor(const Pass& pass, const MemoryEvent& e) const {
    return tensor_tables[static_cast<size_t>(e.second ? pass.second_tensors : pass.tensors)]
                        [e.tensor];
  }
};

// The launch of the graph that makes these calls; appended if there is none.  O(launches).
LaunchId launch_of(OpGraph& graph, const Launch& launch);

// Checks what the engines take for granted: indices in range, each rendezvous posted by exactly
// `parties` roles and joined only by roles of the step, passes free of cycles of waits, every
// tensor freed by the pass that allocates it or by a later pass of the same stage and microbatch,
// at most once.  Throws InternalError.  O(size).  Runs do not call it: whoever lowers a graph keeps
// to this, and tests hold every lowered graph to it.
void check_graph(const OpGraph& graph);

// By work: how often one step does it, summed over the ranks of the job; what a rendezvous does
// counts once for all the ranks that take part in it.  O(size of the graph).
std::vector<double> work_counts(const OpGraph& graph);

}  // namespace stepcast
