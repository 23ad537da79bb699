// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/prologue_epilogue.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "model/parameters.h"
#include "model/passes/pass_writer.h"

namespace stepcast {

StepPrologueEpilogue::StepPrologueEpilogue(const RankParameters& held, bool post_validation,
                                           GraphBuilder& builder, TensorTableId no_tensors)
    : held_(held),
      shard_(held.shard()),
      model_(held.shard().model),
      plan_(held.plan()),
      schedule_(held.schedule()),
      post_validation_(post_validation),
      graph_(builder.graph()),
      builder_(builder),
      no_tensors_(no_tensors) {
  add_step_rendezvous();
}

std::map<uint16_t, uint32_t> StepPrologueEpilogue::begin(RoleItems& items, int64_t rank) {
  // Without a barrier the next step may begin on a rank while others are at this one: then what
  // precedes its first action is done at the end.
  if (post_validation_ || !plan_.trains()) return {};
  add_zero_gradients(items, rank);
  return add_parameter_gather(items, rank);
}

void StepPrologueEpilogue::finish(RoleItems& items, int64_t rank) {
  if (!plan_.trains()) return;
  if (!reduces_in_passes()) add_replica_reduction(items, rank);
  add_gradient_reduction(items, rank);
  if (reduces_in_passes()) add_replica_reduction(items, rank);
  add_shared_reduction(items, rank);
  add_embedding_reduction(items, rank);
  add_optimizer(items, rank);
  if (!gathers_beside() && !gathers_units(model_, plan_)) {
    for (const ParameterPart& part : held_.parts_of(rank)) {
      if (!is_brought(part)) continue;
      items.run_beside(graph_, gather_pass(part), stream_of(part));
    }
  }
  if (post_validation_) add_zero_gradients(items, rank);
}

// The optimizer's result is gathered by the ranks that need it, at the begin of the next step.
bool StepPrologueEpilogue::gathers_beside() const {
  return (plan_.overlap.dp_param || keeps_gathered(plan_)) && !post_validation_;
}

void StepPrologueEpilogue::add_step_rendezvous() {
  if (!plan_.trains()) return;
  if (reduces_embedding()) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = plan_.precision.gradients;
    w.axis = Axis::embedding;
    w.bytes = bytes(shard_.vocab * model_.hidden, w.dtype);
    const std::span<const int64_t> ranks = held_.embedding_ranks();
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

// Gradients are reduced over the data-parallel replicas in the backwards, or the last of them (of
// the step or of a round).
bool StepPrologueEpilogue::reduces_in_passes() const {
  return plan_.overlap.dp_grad || reduces_every_backward(model_, plan_) ||
         reduces_every_round(model_, plan_);
}

// ... and their sums go to the host there.
bool StepPrologueEpilogue::sends_gradients() const {
  return sums_gradients_on_host(plan_) && reduces_every_backward(model_, plan_);
}

// Both replicas of a stage have gradients of their own microbatches only; ranks r and p-1-r hold
// the same two stages.  Where gradients are scattered by then, they have a share of them.
void StepPrologueEpilogue::add_replica_rendezvous() {
  for (int64_t r = 0; r < plan_.pp / 2; ++r) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = plan_.precision.gradients;
    w.axis = Axis::pp;
    w.from = static_cast<uint16_t>(r);
    w.to = static_cast<uint16_t>(plan_.pp - 1 - r);
    int64_t parameters = 0;
    for (const ParameterPart& part : held_.parts_of(r))
      parameters += reduces_in_passes() ? part.share : part.parameters;
    w.bytes = bytes(parameters, w.dtype);
    replicas_.push_back(add_rendezvous("gradient all-reduce of two replicas", w, 2));
  }
}

RendezvousId StepPrologueEpilogue::add_rendezvous(std::string_view label, const Work& work,
                                                  uint16_t parties) {
  graph_.rendezvous.push_back({builder_.work(work), parties, builder_.label(label)});
  return static_cast<RendezvousId>(graph_.rendezvous.size() - 1);
}

PassId StepPrologueEpilogue::single_pass(std::string_view name, const Work& work, Phase phase) {
  PassWriter pass(builder_, name, no_tensors_);
  pass.set_phase(phase);
  pass.compute(name, work);
  return pass.finish();
}

PassId StepPrologueEpilogue::collective_pass(std::string_view name, const Work& work, Phase phase,
                                             Stream stream) {
  PassWriter pass(builder_, name, no_tensors_);
  pass.set_phase(phase);
  pass.communicate(stream, name, work);
  return pass.finish();
}

void StepPrologueEpilogue::add_zero_gradients(RoleItems& items, int64_t rank) {
  int64_t count = 0;
  for (const ParameterPart& part : held_.parts_of(rank)) count += held_.gradients_of(part);
  if (count == 0) return;  // none is on the device
  const Work fill = shard_.memory_bound(Kernel::fill, bytes(count, plan_.precision.gradients));
  items.run(graph_, single_pass("zero gradients", fill, Phase::gradient_sync));
}

// With overlapped parameter gather each chunk's parameters arrive beside the first forwards;
// returns the event that the first forward of a stage waits for.
std::map<uint16_t, uint32_t> StepPrologueEpilogue::add_parameter_gather(RoleItems& items,
                                                                        int64_t rank) {
  std::map<uint16_t, uint32_t> events;
  if (!gathers_beside() || gathers_units(model_, plan_)) return events;
  for (uint16_t stage : held_.stages_of(rank)) {
    bool gathered = false;
    for (const ParameterPart& part : held_.parts_of(rank, stage)) {
      if (!is_brought(part)) continue;
      items.run(graph_, gather_pass(part));
      if (stream_of(part) == Stream::copy)
        items.wait(Stream::dp, items.record(Stream::copy));  // one event says that all is there
      gathered = true;
    }
    if (gathered) events[stage] = items.record(Stream::dp);
  }
  return events;
}

// Shards are gathered; what is in the host's memory comes over, of a single rank too.
bool StepPrologueEpilogue::is_brought(const ParameterPart& part) const {
  return part.group.shards > 1 || plan_.offload.parameters;
}

// That the last op of a part's gather is on.
Stream StepPrologueEpilogue::stream_of(const ParameterPart& part) {
  return part.group.shards > 1 ? Stream::dp : Stream::copy;
}

PassId StepPrologueEpilogue::gather_pass(const ParameterPart& part) {
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
    const int64_t count = std::min(left, most);
    uint32_t fetched = 0;
    if (plan_.offload.parameters)
      fetched =
          pass.communicate(Stream::copy, "parameter fetch", parameter_fetch(group, count, plan_));
    if (group.shards > 1) {
      const uint32_t gathered = pass.communicate(Stream::dp, "parameter gather",
                                                 parameter_gather(group, count, plan_.precision));
      if (plan_.offload.parameters) pass.wait(gathered, fetched);
    }
    left -= most;
  } while (left > 0);
  return pass.finish();
}

// ---------------------------------------------------------------------------- gradients, optimizer
void StepPrologueEpilogue::add_replica_reduction(RoleItems& items, int64_t rank) {
  if (replicas_.empty()) return;
  const RendezvousId id = replicas_[static_cast<size_t>(std::min(rank, plan_.pp - 1 - rank))];
  items.post(id, Stream::compute);
  items.join(id, Stream::compute);
}

void StepPrologueEpilogue::add_gradient_reduction(RoleItems& items, int64_t rank) {
  if (sends_gradients()) items.wait(Stream::compute, items.record(Stream::copy));
  if (held_.dense().ranks == 1 && (model_.experts == 0 || held_.experts().ranks == 1)) return;
  if (reduces_in_passes()) {
    items.wait(Stream::compute, items.record(Stream::dp));
    // T and G run beside the backwards that reduce, and after them.
    const int64_t vocabulary = shared_vocabulary_parameters(model_, plan_);
    if (vocabulary > 0 && held_.dense().ranks > 1)
      items.run_beside(graph_, reduction_pass(held_.dense(), vocabulary), Stream::dp);
    return;
  }
  // One buffer a chunk, reduced when everything is done.
  for (uint16_t stage : held_.stages_of(rank)) {
    for (const ParameterPart& part : held_.parts_of(rank, stage)) {
      if (part.group.ranks == 1) continue;
      // Bucket by bucket, one after the other: one copy of everything is as long.
      const bool copied = copies_gradients(part.group, plan_.precision);
      if (copied) items.run(graph_, bucket_copy_pass("gradient copy", part.parameters));
      if (plan_.gradient_copies == GradientCopies::by_tensor)
        items.run(graph_, bucket_pass(part.parameters));
      items.run_beside(graph_, reduction_pass(part.group, part.parameters), Stream::dp);
      if (copied) items.run(graph_, bucket_copy_pass("gradient copy back", part.parameters));
    }
  }
}

// Room for the largest bucket: what comes before and after the reduction is not timed.
PassId StepPrologueEpilogue::bucket_pass(int64_t parameters) {
  // reduce_bucket_size of microsoft/DeepSpeed, deepspeed/runtime/zero/constants.py.
  constexpr int64_t kReductionBucket = 500'000'000;
  PassWriter pass(builder_, "gradient bucket", no_tensors_);
  pass.set_phase(Phase::gradient_sync);
  pass.compute("gradient bucket", shard_.memory_bound(Kernel::none, {}));
  TensorIndex bucket = pass.allocate(
      "gradient bucket", bytes(std::min(parameters, kReductionBucket), plan_.precision.gradients),
      MemoryCategory::workspace);
  pass.free(bucket);
  return pass.finish();
}

PassId StepPrologueEpilogue::bucket_copy_pass(std::string_view name, int64_t parameters) {
  const Precision& p = plan_.precision;
  return single_pass(name,
                     shard_.memory_bound(Kernel::cast, bytes(parameters, p.gradients) +
                                                           bytes(parameters, p.reduce)),
                     Phase::gradient_sync);
}

PassId StepPrologueEpilogue::reduction_pass(const ReplicaGroup& group, int64_t parameters) {
  PassWriter pass(builder_, "gradient reduction", no_tensors_);
  pass.set_phase(Phase::gradient_sync);
  for (const Work& work : gradient_reduction(group, parameters, plan_.precision))
    pass.communicate(Stream::dp, "gradient reduction", work);
  return pass.finish();
}

// With sequence parallelism each rank has the gradients of the norms from its own tokens only
// (Megatron-LM: finalize_model_grads, _allreduce_layernorm_grads).
void StepPrologueEpilogue::add_shared_reduction(RoleItems& items, int64_t rank) {
  if (plan_.tp == 1 || !plan_.sp) return;
  int64_t count = 0;
  for (uint16_t stage : held_.stages_of(rank)) count += shared_parameters(model_, content(stage));
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

void StepPrologueEpilogue::add_embedding_reduction(RoleItems& items, int64_t rank) {
  if (!reduces_embedding()) return;
  const std::span<const int64_t> ranks = held_.embedding_ranks();
  if (std::ranges::find(ranks, rank) == ranks.end()) return;
  items.post(embedding_, Stream::compute);
  items.join(embedding_, Stream::compute);
}

// With two replicas each rank that has one of the copies has the other too.
bool StepPrologueEpilogue::reduces_embedding() const {
  return !schedule_.is_bidirectional() && plan_.vocabulary == VocabularySplit::none &&
         held_.embedding_ranks().size() > 1;
}

void StepPrologueEpilogue::add_optimizer(RoleItems& items, int64_t rank) {
  add_update(items, optimizer_share(rank));
}

// A rank of ZeRO-1 has some of the tensors; with ZeRO-3 it has a part of each.
StepPrologueEpilogue::OptimizerShare StepPrologueEpilogue::optimizer_share(int64_t rank) const {
  OptimizerShare share;
  int64_t parameters = 0, tensors = 0;
  for (const ParameterPart& part : held_.parts_of(rank)) {
    share.parameters += part.share;
    parameters += part.parameters;
  }
  for (const uint16_t stage : held_.stages_of(rank)) {
    const ParameterTensors dense = parameter_tensors(model_, plan_, content(stage));
    tensors += dense.count + expert_tensors(model_, plan_, content(stage)).count;
    share.largest = std::max(share.largest, dense.largest);
  }
  if (plan_.zero < 3 && parameters > 0)
    tensors =
        static_cast<int64_t>(static_cast<double>(tensors) * static_cast<double>(share.parameters) /
                             static_cast<double>(parameters));
  share.tensors = std::max<int64_t>(1, tensors);
  share.largest = std::min(share.largest, share.parameters);
  return share;
}

namespace {

// As `pieces` tensors of one size.
std::vector<TensorIndex> allocate_pieces(PassWriter& pass, std::string_view label, Bytes bytes,
                                         int64_t pieces, MemoryCategory category) {
  std::vector<TensorIndex> tensors;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t size = bytes.value * (i + 1) / pieces - bytes.value * i / pieces;
    tensors.push_back(pass.allocate(label, Bytes{size}, category));
  }
  return tensors;
}

void free_pieces(PassWriter& pass, std::vector<TensorIndex>& tensors) {
  for (TensorIndex& tensor : tensors) pass.free(tensor);
}

}  // namespace

// DeepSpeed's ZeRO-1 (microsoft/DeepSpeed v0.5.10 deepspeed/runtime/zero/stage_1_and_2.py): each
// gradient of the share is copied to fp32 (_has_inf_or_nan) and to fp64 (get_grad_norm_direct),
// then all of them into one tensor (step).
void StepPrologueEpilogue::copy_by_tensor(PassWriter& pass, OptimizerShare share) {
  constexpr int64_t kFp64 = 8;
  const auto copy = [&](const char* label, Bytes size) {
    pass.compute(label, shard_.memory_bound(Kernel::none, {}));
    TensorIndex tensor = pass.allocate(label, size, MemoryCategory::workspace);
    pass.free(tensor);
  };
  copy("gradient in fp32", bytes(share.largest, DType::fp32));
  copy("gradient in fp64", Bytes{share.largest * kFp64});
  copy("flat gradients", bytes(share.parameters, plan_.precision.gradients));
}

// To fp32.  torch.optim on one flat tensor takes its gradient from a flat copy in their own format
// (InternLM/InternEvo internlm/solver/optimizer/hybrid_zero_optim.py @7776693, _step:
// flat_fp16_avg_grads, flat_fp32_avg_grads), except of ZeRO-3's shards.
std::vector<TensorIndex> StepPrologueEpilogue::copy_gradients(PassWriter& pass,
                                                              OptimizerShare share) {
  const Bytes own = bytes(share.parameters, plan_.precision.gradients);
  const Bytes wide = bytes(share.parameters, DType::fp32);
  TensorIndex flat = kNoTensor;
  if (plan_.optimizer_kernel == OptimizerKernel::flat && plan_.zero < 3) {
    pass.compute("gradients side by side", shard_.memory_bound(Kernel::copy, own * 2));
    flat = pass.allocate("flat gradients", own, MemoryCategory::gradients);
  }
  pass.compute("gradient copy", shard_.memory_bound(Kernel::cast, own + wide));
  std::vector<TensorIndex> copies = allocate_pieces(
      pass, "fp32 gradients", wide, optimizer_tensors(share), MemoryCategory::gradients);
  pass.free(flat);
  return copies;
}

int64_t StepPrologueEpilogue::optimizer_tensors(OptimizerShare share) const {
  return plan_.zero == 3 ? share.tensors : 1;
}

// Gradient norm and Adam on the rank's share of the parameters.
void StepPrologueEpilogue::add_update(RoleItems& items, OptimizerShare of) {
  const Precision& p = plan_.precision;
  const int64_t host = held_.host_share(of.parameters);
  const int64_t here = of.parameters - host;
  // Where their sums are in its memory, the host scales its gradients itself.
  if (sums_gradients_on_host(plan_)) {
    of.parameters = here;
    of.largest = std::min(of.largest, here);
  }
  const int64_t share = of.parameters;
  // Adam works on gradients as wide as its own parameters; narrower ones are copied first.
  const DType wide = p.master ? DType::fp32 : p.gradients;
  const bool copied = wide != p.gradients && share > 0;
  const Bytes gradients = bytes(share, wide);
  PassWriter before(builder_, "gradient norm", no_tensors_);
  before.set_phase(Phase::optimizer);
  if (plan_.gradient_copies == GradientCopies::by_tensor) copy_by_tensor(before, of);
  TensorIndex apart = kNoTensor;
  if (plan_.gradient_copies == GradientCopies::flat) {
    // microsoft/DeepSpeed v0.5.10 deepspeed/runtime/fp16/fused_optimizer.py, step.
    before.compute("gradients in fp32", shard_.memory_bound(Kernel::none, {}));
    apart = before.allocate("gradients in fp32", gradients, MemoryCategory::workspace);
  }
  const bool for_norm = plan_.gradient_copies == GradientCopies::for_norm;
  const bool norm_first = copied && for_norm && plan_.clip_gradients;
  if (norm_first) {
    before.compute("gradients to fp32",
                   shard_.memory_bound(Kernel::cast, bytes(share, p.gradients) + gradients));
    std::vector<TensorIndex> read = allocate_pieces(
        before, "fp32 gradients for the norm", gradients, of.tensors, MemoryCategory::gradients);
    before.compute("gradient norm", shard_.memory_bound(Kernel::grad_norm, gradients));
    free_pieces(before, read);
  }
  std::vector<TensorIndex> copies;
  if (copied) copies = copy_gradients(before, of);
  before.free(apart);
  if (p.params == DType::fp16 && share > 0) {
    // Loss scaling: divide by the scale and look for overflow (Megatron-LM:
    // unscale_and_check_inf).
    before.compute("gradient unscaling", shard_.memory_bound(Kernel::scale, gradients * 2));
  }
  if (plan_.clip_gradients && !norm_first && share > 0) {
    before.compute("gradient norm", shard_.memory_bound(Kernel::grad_norm, gradients));
  }
  if (!before.empty()) {
    free_pieces(before, copies);  // held until Adam has run: allocated again there
    items.run(graph_, before.finish());
  }
  if (plan_.clip_gradients) add_norm_reduction(items);
  PassWriter pass(builder_, "optimizer", no_tensors_);
  pass.set_phase(Phase::optimizer);
  if (plan_.clip_gradients && share > 0) {
    pass.compute("gradient clipping", shard_.memory_bound(Kernel::scale, gradients * 2));
  }
  // Adam reads gradient, parameter and both moments, writes the last three; with fp32 master
  // parameters the model's own copy is written by a second kernel.
  const Bytes moments = bytes(2 * here, p.moments);
  const Bytes own = bytes(here, p.master ? DType::fp32 : p.params);
  if (host > 0) update_on_host(pass, host);
  pass.compute("adam",
               shard_.memory_bound(Kernel::adam, bytes(here, wide) + moments * 2 + own * 2));
  std::vector<TensorIndex> held;
  if (copied)
    held = allocate_pieces(pass, "fp32 gradients", gradients, optimizer_tensors(of),
                           MemoryCategory::gradients);
  const int64_t numbers = plan_.optimizer_kernel == OptimizerKernel::flat      ? 2
                          : plan_.optimizer_kernel == OptimizerKernel::foreach ? 1
                                                                               : 0;
  std::vector<TensorIndex> between =
      allocate_pieces(pass, "optimizer's intermediate results", bytes(here, DType::fp32) * numbers,
                      numbers * optimizer_tensors(of), MemoryCategory::workspace);
  free_pieces(pass, held);
  free_pieces(pass, between);
  if (p.master && !wide_shards(plan_)) {
    pass.compute("parameter copy", shard_.memory_bound(Kernel::cast, own + bytes(here, p.params)));
  }
  if (plan_.offload.parameters && here > 0)
    copy_over(pass, "parameters to the host", here, p.params);
  items.run(graph_, pass.finish());
  if (host > 0 || plan_.offload.parameters) items.wait(Stream::compute, items.record(Stream::copy));
}

void StepPrologueEpilogue::copy_over(PassWriter& pass, std::string_view label, int64_t count,
                                     DType type) {
  Work w;
  w.kind = WorkKind::host_copy;
  w.bytes = bytes(count, type);
  pass.communicate(Stream::copy, label, w);
}

// Gradients go over, Adam runs there, parameters come back (ZeRO-Offload: Ren et al. 2021, arXiv
// 2101.06840, section 4).  In fp32 it reads gradient, parameter and both moments and writes the
// last three.
void StepPrologueEpilogue::update_on_host(PassWriter& pass, int64_t count) {
  if (!sends_gradients())
    copy_over(pass, "gradients to the host", count, plan_.precision.gradients);
  Work adam;
  adam.kind = WorkKind::host_adam;
  adam.bytes = bytes(7 * count, DType::fp32);
  pass.communicate(Stream::copy, "adam on the host", adam);
  if (!plan_.offload.parameters)
    copy_over(pass, "parameters from the host", count,
              wide_shards(plan_) ? DType::fp32 : plan_.precision.params);
}

// The squares of all gradients: over the replicas too where each holds a share of them.
void StepPrologueEpilogue::add_norm_reduction(RoleItems& items) {
  if (held_.dense().shards > 1) {
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = DType::fp32;
    w.axis = held_.dense().shard_axis;
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
