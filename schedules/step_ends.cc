// SPDX-License-Identifier: Apache-2.0
#include "schedules/step_ends.h"

#include <algorithm>
#include <set>

#include "model/distillation.h"
#include "model/inference.h"
#include "model/pass_writer.h"

namespace stepcast {

StepEnds::StepEnds(const StepOf& step, OpGraph& graph, GraphBuilder& builder,
                   TensorTableId no_tensors)
    : model_(step.model),
      plan_(step.plan),
      schedule_(step.schedule),
      shard_(step.shard),
      post_validation_(step.post_validation),
      dense_(dense_replicas(step.plan)),
      experts_(expert_replicas(step.plan)),
      graph_(graph),
      builder_(builder),
      no_tensors_(no_tensors) {
  add_step_rendezvous();
}

std::map<uint16_t, uint32_t> StepEnds::begin(RoleItems& items, int64_t rank) {
  // Without a barrier the next step may begin on a rank while others are at this one: then what
  // precedes its first action is done at the end.
  if (post_validation_ || !plan_.trains()) return {};
  add_zero_gradients(items, rank);
  return add_parameter_gather(items, rank);
}

void StepEnds::finish(RoleItems& items, int64_t rank) {
  if (!plan_.trains()) return;
  if (!reduces_in_passes()) add_replica_reduction(items, rank);
  add_gradient_reduction(items, rank);
  if (reduces_in_passes()) add_replica_reduction(items, rank);
  add_shared_reduction(items, rank);
  add_embedding_reduction(items, rank);
  add_optimizer(items, rank);
  if (!gathers_beside() && !gathers_units(model_, plan_)) {
    for (const Part& part : parts_of(rank)) {
      if (part.group.shards == 1) continue;
      items.run_beside(graph_, gather_pass(part), Stream::dp);
    }
  }
  if (post_validation_) add_zero_gradients(items, rank);
}

// The optimizer's result is gathered by those who need it, at the begin of the next step.
bool StepEnds::gathers_beside() const {
  return (plan_.overlap.dp_param || keeps_gathered(plan_)) && !post_validation_;
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

// A stage needs no copy of the word embedding on a rank that has it anyway.
int64_t StepEnds::parameters_of(int64_t rank, uint16_t stage) const {
  int64_t count = stage_parameters(model_, plan_, content(stage));
  if (plan_.vocabulary != VocabularySplit::none || !copies_embedding(model_, content(stage)))
    return count;
  const std::vector<uint16_t> stages = stages_of(rank);
  const bool has_it = std::any_of(stages.begin(), stages.end(), [&](uint16_t other) {
    return other < stage && holds_embedding(other);
  });
  if (has_it) count -= shard_.vocab * model_.hidden;
  return count;
}

std::vector<StepEnds::Part> StepEnds::parts_of(int64_t rank) const {
  return parts_of(rank, stages_of(rank));
}

std::vector<StepEnds::Part> StepEnds::parts_of(int64_t rank,
                                               const std::vector<uint16_t>& stages) const {
  Part dense{.group = dense_}, experts{.group = experts_};
  for (uint16_t s : stages) {
    const int64_t routed = expert_parameters(model_, plan_, content(s));
    experts.parameters += routed;
    dense.parameters += parameters_of(rank, s) - routed;
  }
  dense.share = dense_.share(dense.parameters);
  experts.share = experts_.share(experts.parameters);
  const auto own_whole = [](Part& part, const ParameterTensors& tensors) {
    if (part.group.exchange != ZeroExchange::broadcast || part.group.shards == 1) return;
    part.tensors += tensors.count;
    part.share = std::max(part.share, tensors.largest);  // its owner has at least that
  };
  for (uint16_t s : stages) {
    own_whole(dense, parameter_tensors(model_, plan_, content(s)));
    own_whole(experts, expert_tensors(model_, plan_, content(s)));
  }
  if (experts.parameters == 0) return {dense};
  return {dense, experts};
}

// Those that the rank has a gradient of after the reduction.
int64_t StepEnds::gradients_of(const Part& part) const {
  return plan_.zero >= 2 ? part.share : part.parameters;
}

void StepEnds::add_step_rendezvous() {
  if (!plan_.trains()) return;
  if (reduces_embedding()) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = plan_.precision.gradients;
    w.axis = Axis::embedding;
    w.bytes = bytes(shard_.vocab * model_.hidden, w.dtype);
    const std::vector<int64_t> ranks = embedding_ranks();
    const bool ends = ranks.front() == 0 && ranks.back() + 1 == plan_.pp;
    if (!ends) {  // two that are not the first and the last of the pipeline
      w.axis = Axis::pp;
      w.from = static_cast<uint16_t>(ranks.front());
      w.to = static_cast<uint16_t>(ranks.back());
    }
    embedding_ =
        add_rendezvous("embedding gradient all-reduce", w, static_cast<uint16_t>(ranks.size()));
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

// Gradients are reduced over the data-parallel replicas in the backwards, or the last of them.
bool StepEnds::reduces_in_passes() const {
  return plan_.overlap.dp_grad || reduces_every_backward(model_, plan_);
}

// Both replicas of a stage have gradients of their own microbatches only; ranks r and p-1-r hold
// the same two stages.  Where gradients are scattered by then, they have a share of them.
void StepEnds::add_replica_rendezvous() {
  for (int64_t r = 0; r < plan_.pp / 2; ++r) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = plan_.precision.gradients;
    w.axis = Axis::pp;
    w.from = static_cast<uint16_t>(r);
    w.to = static_cast<uint16_t>(plan_.pp - 1 - r);
    int64_t parameters = 0;
    for (const Part& part : parts_of(r))
      parameters += reduces_in_passes() ? part.share : part.parameters;
    w.bytes = bytes(parameters, w.dtype);
    replicas_.push_back(add_rendezvous("gradient all-reduce of two replicas", w, 2));
  }
}

RendezvousId StepEnds::add_rendezvous(const std::string& label, const Work& work,
                                      uint16_t parties) {
  graph_.rendezvous.push_back({builder_.work(work), parties, builder_.label(label)});
  return static_cast<RendezvousId>(graph_.rendezvous.size() - 1);
}

// Parameters, and the cache of all sequences that the rank has in flight.
std::vector<StaticMemory> StepEnds::inference_memory(int64_t rank) const {
  Bytes parameters{}, cache{};
  const int64_t tokens = plan_.global_batch / plan_.dp * (plan_.seq / plan_.cp);
  for (const uint16_t s : stages_of(rank)) {
    parameters += stored_parameters(model_, plan_, content(s), parameters_of(rank, s));
    cache += cache_bytes(model_, plan_, content(s), tokens);
  }
  return {{MemoryCategory::parameters, parameters}, {MemoryCategory::activations, cache}};
}

std::vector<StaticMemory> StepEnds::static_memory(int64_t rank, const LowWeights& low) const {
  if (!plan_.trains()) return inference_memory(rank);
  const Precision& p = plan_.precision;
  std::vector<StaticMemory> memory;
  const auto hold = [&](MemoryCategory category, int64_t count, DType type, Bytes less = {}) {
    const Bytes all = bytes(count, type);
    memory.push_back({category, all - std::min(less, all)});
  };
  if (plan_.teacher) {
    Bytes teacher{};
    for (const uint16_t s : stages_of(rank))
      teacher += teacher_parameters(plan_, plan_.teacher_stages[s]);
    memory.push_back({MemoryCategory::parameters, teacher});
  }
  Bytes replaced = low.dense;
  for (const Part& part : parts_of(rank)) {
    const bool sharded = plan_.zero == 3;
    const bool wide = wide_shards(plan_);
    const bool apart = wide || keeps_gathered(plan_);  // from what passes compute with
    hold(MemoryCategory::parameters, sharded ? part.share : part.parameters,
         wide ? DType::fp32 : p.params, apart ? Bytes{} : replaced);
    hold(MemoryCategory::gradients, gradients_of(part), p.gradients);
    if (p.own_gradients && p.gradients != p.params && !sharded)
      hold(MemoryCategory::gradients, part.parameters, p.params);
    if (keeps_gathered(plan_)) {
      hold(MemoryCategory::parameters, part.parameters, p.params, replaced);
      hold(MemoryCategory::gradients, part.parameters, p.params);
    }
    const int64_t here = part.share - host_share(part.share);
    hold(MemoryCategory::optimizer_state, 2 * here, p.moments);
    if (p.master && !wide) hold(MemoryCategory::optimizer_state, here, DType::fp32);
    replaced = low.experts;
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

void StepEnds::add_zero_gradients(RoleItems& items, int64_t rank) {
  int64_t count = 0;
  for (const Part& part : parts_of(rank)) count += gradients_of(part);
  const Work fill = shard_.memory_bound(Kernel::fill, bytes(count, plan_.precision.gradients));
  items.run(graph_, single_pass("zero gradients", fill, Phase::gradient_sync));
}

// With overlapped parameter gather each chunk's parameters arrive beside the first forwards;
// returns the event that the first forward of a stage waits for.
std::map<uint16_t, uint32_t> StepEnds::add_parameter_gather(RoleItems& items, int64_t rank) {
  std::map<uint16_t, uint32_t> events;
  if (!gathers_beside() || gathers_units(model_, plan_)) return events;
  for (uint16_t stage : stages_of(rank)) {
    bool gathered = false;
    for (const Part& part : parts_of(rank, {stage})) {
      if (part.group.shards == 1) continue;
      items.run(graph_, gather_pass(part));
      gathered = true;
    }
    if (gathered) events[stage] = items.record(Stream::dp);
  }
  return events;
}

PassId StepEnds::gather_pass(const Part& part) {
  PassWriter pass(builder_, "parameter gather", no_tensors_);
  pass.set_phase(Phase::optimizer);
  const ReplicaGroup& group = part.group;
  const int64_t parameters = part.parameters;
  if (group.exchange == ZeroExchange::broadcast) {
    // Tensors are whole: more ranks than these own none.
    const int64_t owners = std::min(group.shards, std::max<int64_t>(1, part.tensors));
    const Work work = parameter_broadcast(group, parameters, owners, plan_.precision);
    for (int64_t i = 0; i < owners; ++i) pass.communicate(Stream::dp, "parameter broadcast", work);
    return pass.finish();
  }
  const int64_t most = plan_.gather_bucket > 0 ? plan_.gather_bucket : parameters;
  int64_t left = parameters;
  do {
    pass.communicate(Stream::dp, "parameter gather",
                     parameter_gather(group, std::min(left, most), plan_.precision));
    left -= most;
  } while (left > 0);
  return pass.finish();
}

// ---------------------------------------------------------------------------- gradients, optimizer
void StepEnds::add_replica_reduction(RoleItems& items, int64_t rank) {
  if (replicas_.empty()) return;
  const RendezvousId id = replicas_[static_cast<size_t>(std::min(rank, plan_.pp - 1 - rank))];
  items.post(id, Stream::compute);
  items.join(id, Stream::compute);
}

void StepEnds::add_gradient_reduction(RoleItems& items, int64_t rank) {
  if (dense_.ranks == 1 && (model_.experts == 0 || experts_.ranks == 1)) return;
  if (reduces_in_passes()) {
    items.wait(Stream::compute, items.record(Stream::dp));
    // T and G run beside the backwards that reduce, and after them.
    const int64_t vocabulary = shared_vocabulary_parameters(model_, plan_);
    if (vocabulary > 0 && dense_.ranks > 1)
      items.run_beside(graph_, reduction_pass(dense_, vocabulary), Stream::dp);
    return;
  }
  // One buffer a chunk, reduced when everything is done.
  for (uint16_t stage : stages_of(rank)) {
    for (const Part& part : parts_of(rank, {stage})) {
      if (part.group.ranks == 1) continue;
      // Bucket by bucket, one after the other: one copy of everything is as long.
      const bool copied = copies_gradients(part.group, plan_.precision);
      if (copied) items.run(graph_, bucket_copy_pass("gradient copy", part.parameters));
      items.run_beside(graph_, reduction_pass(part.group, part.parameters), Stream::dp);
      if (copied) items.run(graph_, bucket_copy_pass("gradient copy back", part.parameters));
    }
  }
}

PassId StepEnds::bucket_copy_pass(const std::string& name, int64_t parameters) {
  const Precision& p = plan_.precision;
  return single_pass(name,
                     shard_.memory_bound(Kernel::cast, bytes(parameters, p.gradients) +
                                                           bytes(parameters, p.reduce)),
                     Phase::gradient_sync);
}

PassId StepEnds::reduction_pass(const ReplicaGroup& group, int64_t parameters) {
  PassWriter pass(builder_, "gradient reduction", no_tensors_);
  pass.set_phase(Phase::gradient_sync);
  for (const Work& work : gradient_reduction(group, parameters, plan_.precision))
    pass.communicate(Stream::dp, "gradient reduction", work);
  return pass.finish();
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
  const std::vector<int64_t> ranks = embedding_ranks();
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) return;
  items.post(embedding_, Stream::compute);
  items.join(embedding_, Stream::compute);
}

bool StepEnds::holds_embedding(uint16_t stage) const {
  return content(stage).embedding || copies_embedding(model_, content(stage));
}

// Ranks with the word embedding or a copy of it, in ascending order.
std::vector<int64_t> StepEnds::embedding_ranks() const {
  std::set<int64_t> ranks;
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    if (holds_embedding(static_cast<uint16_t>(s))) ranks.insert(schedule_.rank_of_stage[s]);
  return {ranks.begin(), ranks.end()};
}

// With two replicas each rank that has one of the copies has the other too.
bool StepEnds::reduces_embedding() const {
  return !schedule_.is_bidirectional() && plan_.vocabulary == VocabularySplit::none &&
         embedding_ranks().size() > 1;
}

void StepEnds::add_optimizer(RoleItems& items, int64_t rank) {
  int64_t share = 0;
  for (const Part& part : parts_of(rank)) share += part.share;
  add_update(items, share);
}

// Gradient norm and Adam on `share` parameters.
void StepEnds::add_update(RoleItems& items, int64_t share) {
  const Precision& p = plan_.precision;
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
    before.free(copy);  // held until Adam has run: allocated again there
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
  const int64_t host = host_share(share);
  const int64_t here = share - host;
  const Bytes moments = bytes(2 * here, p.moments);
  const Bytes own = bytes(here, p.master ? DType::fp32 : p.params);
  if (host > 0) update_on_host(pass, host);
  pass.compute("adam",
               shard_.memory_bound(Kernel::adam, bytes(here, wide) + moments * 2 + own * 2));
  TensorIndex held =
      pass.allocate("fp32 gradients", copied ? gradients : Bytes{}, MemoryCategory::gradients);
  const int64_t numbers = plan_.optimizer_kernel == OptimizerKernel::flat      ? 2
                          : plan_.optimizer_kernel == OptimizerKernel::foreach ? 1
                                                                               : 0;
  TensorIndex between =
      pass.allocate("optimizer's intermediate results", bytes(here, DType::fp32) * numbers,
                    MemoryCategory::workspace);
  pass.free(held);
  pass.free(between);
  if (p.master && !wide_shards(plan_)) {
    pass.compute("parameter copy", shard_.memory_bound(Kernel::cast, own + bytes(here, p.params)));
  }
  items.run(graph_, pass.finish());
  if (host > 0) items.wait(Stream::compute, items.record(Stream::copy));
}

// Of `share` parameters those whose optimizer states are in the host's memory.
int64_t StepEnds::host_share(int64_t share) const {
  return static_cast<int64_t>(static_cast<double>(share) * plan_.offload.optimizer);
}

// Gradients go over, Adam runs there, parameters come back (ZeRO-Offload: Ren et al. 2021, arXiv
// 2101.06840, section 4).  In fp32 it reads gradient, parameter and both moments and writes the
// last three.
void StepEnds::update_on_host(PassWriter& pass, int64_t count) {
  const auto copy = [&](const char* label, DType type) {
    Work w;
    w.kind = WorkKind::host_copy;
    w.bytes = bytes(count, type);
    pass.communicate(Stream::copy, label, w);
  };
  copy("gradients to the host", plan_.precision.gradients);
  Work adam;
  adam.kind = WorkKind::host_adam;
  adam.bytes = bytes(7 * count, DType::fp32);
  pass.communicate(Stream::copy, "adam on the host", adam);
  copy("parameters from the host", wide_shards(plan_) ? DType::fp32 : plan_.precision.params);
}

// The squares of all gradients: over the replicas too where each holds a share of them.
void StepEnds::add_norm_reduction(RoleItems& items) {
  if (dense_.shards > 1) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = DType::fp32;
    w.axis = dense_.shard_axis;
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
