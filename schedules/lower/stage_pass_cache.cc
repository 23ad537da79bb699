// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/stage_pass_cache.h"

#include <algorithm>
#include <utility>

namespace stepcast {

Plan plan_of_passes(const Plan& plan) {
  Plan own = plan;
  own.stages.clear();  // the content is an argument of its own
  own.grid = {};
  own.vpp = 1;
  // Parameters that stay gathered after a forward: whether there are several stages.
  own.pp = std::min<int64_t>(own.pp, 2);
  // Replicas are in the passes where these reduce gradients or gather parameters.
  if (own.zero <= 1 && !own.overlap.dp_grad) {
    own.dp = own.ep * own.etp;  // the fewest with which there is one of each expert
    own.dp_replicate = 1;
  }
  own.global_batch = own.micro_batch * own.dp;
  return own;
}

struct StagePassCache::Kept {
  Transformer model;
  Plan plan;
  StageContent content;
  PassChoice choice;

  OpGraph graph;  // of these passes alone
  StagePasses passes;
};

StagePassCache::StagePassCache() = default;
StagePassCache::~StagePassCache() = default;

namespace {

// What lies unused is forgotten at once, all of it: some 300 stages.
constexpr size_t kMostBytes = size_t{64} << 20U;

uint64_t hash_of(const Plan& plan, const StageContent& content) {
  uint64_t h = 0;
  for (const int64_t x :
       {plan.tp, plan.cp, plan.ep, plan.etp, plan.dp, plan.pp, plan.micro_batch, plan.seq,
        plan.piece, static_cast<int64_t>(plan.zero), static_cast<int64_t>(plan.sp),
        static_cast<int64_t>(plan.recompute), plan.recompute_layers, content.layers,
        static_cast<int64_t>(content.embedding), static_cast<int64_t>(content.head)})
    h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15U + (h >> 29U);
  return h;
}

// What the lists of a graph of passes take, but for texts.
size_t bytes_kept(const OpGraph& graph) {
  size_t bytes = sizeof(OpGraph) + graph.works.size() * sizeof(Work);
  for (const std::vector<Tensor>& table : graph.tensor_tables)
    bytes += table.size() * sizeof(Tensor);
  for (const Pass& pass : graph.passes)
    bytes += pass.ops.size() * sizeof(Op) + pass.waits.all().size() * sizeof(Wait) +
             pass.memory.size() * sizeof(MemoryEvent) + pass.ops.size() * sizeof(uint32_t);
  return bytes;
}

// What `passes` name, in a graph that has so many passes already.
StagePasses moved(StagePasses passes, uint32_t by) {
  for (PassId* id :
       {&passes.forward, &passes.backward, &passes.last_backward, &passes.input_gradient,
        &passes.weight_gradient, &passes.last_weight_gradient, &passes.recompute,
        &passes.backward_after_recompute, &passes.last_backward_after_recompute,
        &passes.input_gradient_after_recompute, &passes.weight_gradient_after_recompute,
        &passes.last_weight_gradient_after_recompute, &passes.offload, &passes.reload,
        &passes.vocabulary_forward, &passes.vocabulary_backward, &passes.embedding_forward,
        &passes.embedding_backward})
    if (*id != kNoPass) *id = PassId{static_cast<uint32_t>(*id) + by};
  return passes;
}

// Appends a graph of passes to the one that is being built.  Works and labels get the numbers that
// they have there, and new ones in the order of those here, in which they were first named.
void append(const OpGraph& from, GraphBuilder& builder) {
  OpGraph& to = builder.graph();
  std::vector<WorkId> works;
  works.reserve(from.works.size());
  for (const Work& w : from.works) works.push_back(builder.work(w));
  std::vector<LabelId> labels;
  if (builder.has_texts())
    for (const std::string& text : from.labels) labels.push_back(builder.label(text));
  else
    labels.assign(from.labels.size(), builder.label({}));
  const auto first_table = static_cast<uint32_t>(to.tensor_tables.size());
  for (const std::vector<Tensor>& table : from.tensor_tables) {
    std::vector<Tensor>& copy = to.tensor_tables.emplace_back(table);
    for (Tensor& t : copy) t.label = labels[static_cast<size_t>(t.label)];
  }
  to.passes.reserve(to.passes.size() + from.passes.size());
  for (const Pass& pass : from.passes) {
    Pass copy = builder.pass(pass.name);
    copy.tensors = TensorTableId{static_cast<uint32_t>(pass.tensors) + first_table};
    copy.second_tensors = pass.second_tensors;
    copy.ops = pass.ops;
    copy.waits = pass.waits;
    copy.memory = pass.memory;
    for (Op& op : copy.ops) {
      op.work = works[static_cast<size_t>(op.work)];
      op.label = labels[static_cast<size_t>(op.label)];
    }
    to.passes.push_back(std::move(copy));
  }
}

}  // namespace

const StagePassCache::Kept& StagePassCache::kept(const Transformer& model, const Plan& plan,
                                                 const StageContent& content,
                                                 const PassChoice& choice) {
  Plan own = plan_of_passes(plan);
  const uint64_t hash = hash_of(own, content);
  for (const auto& k : kept_[hash])
    if (k->content == content && k->choice == choice && k->plan == own && k->model == model)
      return *k;
  if (bytes_ > kMostBytes) {
    kept_.clear();
    bytes_ = 0;
  }
  auto fresh = std::make_unique<Kept>(Kept{model, std::move(own), content, choice, {}, {}});
  GraphBuilder builder(fresh->graph);
  fresh->passes =
      add_stage_passes(builder, fresh->model, fresh->plan, fresh->content, fresh->choice);
  fresh->graph = OpGraph(fresh->graph);  // without the room that its lists have left to grow
  bytes_ += bytes_kept(fresh->graph);
  ++written_;
  return *kept_[hash].emplace_back(std::move(fresh));
}

StagePasses StagePassCache::add(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                                const StageContent& content, const PassChoice& choice) {
  const Kept& k = kept(model, plan, content, choice);
  const auto before = static_cast<uint32_t>(builder.graph().passes.size());
  append(k.graph, builder);
  return moved(k.passes, before);
}

}  // namespace stepcast
