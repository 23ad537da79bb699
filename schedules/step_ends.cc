// SPDX-License-Identifier: Apache-2.0
#include "schedules/step_ends.h"

#include <algorithm>

#include "model/pass_writer.h"

namespace stepcast {

StepEnds::StepEnds(const StepOf& step, OpGraph& graph, GraphBuilder& builder,
                   TensorTableId no_tensors)
    : model_(step.model),
      plan_(step.plan),
      schedule_(step.schedule),
      shard_(step.shard),
      post_validation_(step.post_validation),
      graph_(graph),
      builder_(builder),
      no_tensors_(no_tensors) {
  add_step_rendezvous();
}

std::map<uint16_t, uint32_t> StepEnds::begin(RoleItems& items, int64_t rank) {
  // Without a barrier the next step may begin on a rank while others are at this one: then what
  // precedes its first action is done at the end.
  if (post_validation_) return {};
  add_zero_gradients(items, state_of(rank));
  return add_parameter_gather(items, rank);
}

void StepEnds::finish(RoleItems& items, int64_t rank) {
  const RankState state = state_of(rank);
  add_replica_reduction(items, rank);
  add_gradient_reduction(items, rank);
  add_shared_reduction(items, rank);
  add_embedding_reduction(items, rank);
  add_optimizer(items, state);
  if (plan_.zero >= 1 && plan_.dp > 1 && (!plan_.overlap.dp_param || post_validation_)) {
    const PassId gather =
        collective_pass("parameter gather", gather_work(state.parameters), Phase::optimizer);
    items.run_beside(graph_, gather, Stream::dp);
  }
  if (post_validation_) add_zero_gradients(items, state);
}

std::vector<uint16_t> StepEnds::stages_of(int64_t rank) const {
  std::vector<uint16_t> stages;
  for (size_t s = 0; s < schedule_.rank_of_stage.size(); ++s) {
    if (holds(rank, s)) stages.push_back(static_cast<uint16_t>(s));
  }
  return stages;
}

bool StepEnds::holds(int64_t rank, size_t stage) const {
  return schedule_.rank_of_stage[stage] == rank ||
         (schedule_.is_bidirectional() && schedule_.reverse_rank_of_stage[stage] == rank);
}

// A tied head needs no copy of the word embedding on a rank that has it anyway.
int64_t StepEnds::parameters_of(int64_t rank, uint16_t stage) const {
  int64_t count = stage_parameters(model_, plan_, content(stage));
  const bool copy = model_.tied && content(stage).head && !content(stage).embedding;
  if (copy && holds(rank, embedding_stage())) count -= shard_.vocab * model_.hidden;
  return count;
}

StepEnds::RankState StepEnds::state_of(int64_t rank) const {
  RankState state;
  for (uint16_t s : stages_of(rank)) state.parameters += parameters_of(rank, s);
  const int64_t shards = plan_.zero >= 1 ? plan_.dp : 1;
  state.optimizer_share = (state.parameters + shards - 1) / shards;
  return state;
}

void StepEnds::add_step_rendezvous() {
  if (reduces_embedding()) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = plan_.precision.gradients;
    w.axis = Axis::embedding;
    w.bytes = bytes(shard_.vocab * model_.hidden, w.dtype);
    embedding_ = add_rendezvous("embedding gradient all-reduce", w, 2);
  }
  if (schedule_.is_bidirectional()) add_replica_rendezvous();
  if (plan_.clip_gradients && !post_validation_) {
    // One number over the model group (Megatron-LM: get_grad_norm_fp32).
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = DType::fp32;
    w.axis = Axis::model;
    w.bytes = {plan_.tp * plan_.pp > 1 ? 4 : 0};
    norm_ = add_rendezvous("gradient norm all-reduce", w, static_cast<uint16_t>(plan_.pp));
  }
}

// Both replicas of a stage have gradients of their own microbatches only; ranks r and p-1-r hold
// the same two stages.
void StepEnds::add_replica_rendezvous() {
  for (int64_t r = 0; r < plan_.pp / 2; ++r) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = plan_.precision.gradients;
    w.axis = Axis::pp;
    w.from = static_cast<uint16_t>(r);
    w.to = static_cast<uint16_t>(plan_.pp - 1 - r);
    w.bytes = bytes(state_of(r).parameters, w.dtype);
    replicas_.push_back(add_rendezvous("gradient all-reduce of two replicas", w, 2));
  }
}

RendezvousId StepEnds::add_rendezvous(const std::string& label, const Work& work,
                                      uint16_t parties) {
  graph_.rendezvous.push_back({builder_.work(work), parties, builder_.label(label)});
  return static_cast<RendezvousId>(graph_.rendezvous.size() - 1);
}

std::vector<StaticMemory> StepEnds::static_memory(int64_t rank) const {
  const RankState state = state_of(rank);
  const Precision& p = plan_.precision;
  std::vector<StaticMemory> memory{
      {MemoryCategory::parameters, bytes(state.parameters, p.params)},
      {MemoryCategory::gradients, bytes(state.parameters, p.gradients)},
      {MemoryCategory::optimizer_state, bytes(2 * state.optimizer_share, p.moments)}};
  if (p.master) {
    memory.push_back({MemoryCategory::optimizer_state, bytes(state.optimizer_share, DType::fp32)});
  }
  return memory;
}

PassId StepEnds::single_pass(const std::string& name, const Work& work, Phase phase) {
  PassWriter pass(builder_, name, no_tensors_);
  pass.set_phase(phase);
  pass.compute(name, work);
  return pass.finish();
}

PassId StepEnds::collective_pass(const std::string& name, const Work& work, Phase phase,
                                 Stream stream) {
  PassWriter pass(builder_, name, no_tensors_);
  pass.set_phase(phase);
  pass.communicate(stream, name, work);
  return pass.finish();
}

void StepEnds::add_zero_gradients(RoleItems& items, const RankState& state) {
  items.run(graph_, single_pass("zero gradients",
                                shard_.memory_bound(Kernel::fill, bytes(state.parameters,
                                                                        plan_.precision.gradients)),
                                Phase::gradient_sync));
}

// With overlapped parameter gather each chunk's parameters arrive beside the first forwards;
// returns the event that the first forward of a stage waits for.
std::map<uint16_t, uint32_t> StepEnds::add_parameter_gather(RoleItems& items, int64_t rank) {
  std::map<uint16_t, uint32_t> events;
  if (plan_.zero < 1 || plan_.dp == 1 || !plan_.overlap.dp_param) return events;
  for (uint16_t stage : stages_of(rank)) {
    items.run(graph_, collective_pass("parameter gather", gather_work(parameters_of(rank, stage)),
                                      Phase::optimizer));
    events[stage] = items.record(Stream::dp);
  }
  return events;
}

Work StepEnds::gather_work(int64_t parameters) const {
  Work w;
  w.kind = WorkKind::all_gather;
  w.dtype = plan_.precision.params;
  w.axis = Axis::dp;
  w.bytes = bytes(parameters, w.dtype);
  return w;
}

// ---------------------------------------------------------------------------- gradients, optimizer
void StepEnds::add_replica_reduction(RoleItems& items, int64_t rank) {
  if (replicas_.empty()) return;
  const RendezvousId id = replicas_[static_cast<size_t>(std::min(rank, plan_.pp - 1 - rank))];
  items.post(id, Stream::compute);
  items.join(id, Stream::compute);
}

void StepEnds::add_gradient_reduction(RoleItems& items, int64_t rank) {
  if (plan_.dp == 1) return;
  if (plan_.overlap.dp_grad) {
    items.wait(Stream::compute, items.record(Stream::dp));
    return;
  }
  // One buffer a chunk, reduced when everything is done.
  for (uint16_t stage : stages_of(rank)) {
    Work w;
    w.kind = plan_.zero >= 1 ? WorkKind::reduce_scatter : WorkKind::all_reduce;
    w.dtype = plan_.precision.reduce;
    w.axis = Axis::dp;
    w.bytes = bytes(parameters_of(rank, stage), w.dtype);
    items.run_beside(graph_, collective_pass("gradient reduction", w, Phase::gradient_sync),
                     Stream::dp);
  }
}

// With sequence parallelism each rank has the gradients of the norms from its own tokens only
// (Megatron-LM: finalize_model_grads, _allreduce_layernorm_grads).
void StepEnds::add_shared_reduction(RoleItems& items, int64_t rank) {
  if (plan_.tp == 1 || !plan_.sp) return;
  int64_t count = 0;
  for (uint16_t stage : stages_of(rank)) count += shared_parameters(model_, content(stage));
  if (count == 0) return;
  Work w;
  w.kind = WorkKind::all_reduce;
  w.dtype = plan_.precision.gradients;
  w.axis = Axis::tp;
  w.bytes = bytes(count, w.dtype);
  items.run_beside(graph_,
                   collective_pass("norm gradient all-reduce", w, Phase::gradient_sync, Stream::tp),
                   Stream::tp);
}

void StepEnds::add_embedding_reduction(RoleItems& items, int64_t rank) {
  if (!reduces_embedding()) return;
  if (!holds(rank, embedding_stage()) && !holds(rank, head_stage())) return;
  items.post(embedding_, Stream::compute);
  items.join(embedding_, Stream::compute);
}

// Word embedding and tied head are on different ranks; with two replicas each rank that has one
// has the other too.
bool StepEnds::reduces_embedding() const {
  return model_.tied && !schedule_.is_bidirectional() &&
         schedule_.rank_of_stage[embedding_stage()] != schedule_.rank_of_stage[head_stage()];
}

size_t StepEnds::embedding_stage() const {
  const auto it = std::find_if(plan_.stages.begin(), plan_.stages.end(),
                               [](const StageContent& c) { return c.embedding; });
  return static_cast<size_t>(it - plan_.stages.begin());
}

size_t StepEnds::head_stage() const {
  const auto it = std::find_if(plan_.stages.begin(), plan_.stages.end(),
                               [](const StageContent& c) { return c.head; });
  return static_cast<size_t>(it - plan_.stages.begin());
}

void StepEnds::add_optimizer(RoleItems& items, const RankState& state) {
  const Precision& p = plan_.precision;
  const int64_t share = state.optimizer_share;
  // Adam works on gradients as wide as its own parameters; narrower ones are copied first.
  const DType wide = p.master ? DType::fp32 : p.gradients;
  const bool copied = wide != p.gradients;
  const Bytes gradients = bytes(share, wide);
  PassWriter before(builder_, "gradient norm", no_tensors_);
  before.set_phase(Phase::optimizer);
  TensorIndex copy = kNoTensor;
  if (copied) {
    before.compute("gradient copy",
                   shard_.memory_bound(Kernel::cast, bytes(share, p.gradients) + gradients));
    copy = before.allocate("fp32 gradients", gradients, MemoryCategory::gradients);
  }
  if (p.params == DType::fp16) {
    // Loss scaling: divide by the scale and look for overflow (Megatron-LM:
    // unscale_and_check_inf).
    before.compute("gradient unscaling", shard_.memory_bound(Kernel::scale, gradients * 2));
  }
  if (plan_.clip_gradients) {
    before.compute("gradient norm", shard_.memory_bound(Kernel::grad_norm, gradients));
  }
  if (!before.empty()) {
    before.free(copy);  // held until Adam has run, which needs no more than this peak
    items.run(graph_, before.finish());
  }
  if (plan_.clip_gradients) add_norm_reduction(items);
  PassWriter pass(builder_, "optimizer", no_tensors_);
  pass.set_phase(Phase::optimizer);
  if (plan_.clip_gradients) {
    pass.compute("gradient clipping", shard_.memory_bound(Kernel::scale, gradients * 2));
  }
  // Adam reads gradient, parameter and both moments, writes the last three; with fp32 master
  // parameters the model's own copy is written by a second kernel.
  const Bytes moments = bytes(2 * share, p.moments);
  const Bytes own = bytes(share, p.master ? DType::fp32 : p.params);
  pass.compute("adam", shard_.memory_bound(Kernel::adam, gradients + moments * 2 + own * 2));
  if (p.master) {
    pass.compute("parameter copy", shard_.memory_bound(Kernel::cast, own + bytes(share, p.params)));
  }
  items.run(graph_, pass.finish());
}

// The squares of all gradients: over the replicas too where each holds a share of them.
void StepEnds::add_norm_reduction(RoleItems& items) {
  if (plan_.zero >= 1 && plan_.dp > 1) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = DType::fp32;
    w.axis = Axis::dp;
    w.bytes = {4};
    items.run_beside(graph_, collective_pass("gradient norm over replicas", w, Phase::optimizer),
                     Stream::dp);
  }
  // With post-validation the other stages' squares arrive during the next step.
  if (post_validation_) return;
  items.post(norm_, Stream::compute);
  items.join(norm_, Stream::compute, {.host_waits = true});  // its value decides on the host
}

}  // namespace stepcast
