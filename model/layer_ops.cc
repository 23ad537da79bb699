// SPDX-License-Identifier: Apache-2.0
#include "model/layer_ops.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "model/stage_writer.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// Tensors that the forward pass of a stage hands to its backward pass.
struct StageTensors {
  std::vector<LayerTensors> layers;
  EmbeddingTensors embedding;
  HeadTensors head;
};

// Layers that are checkpointed together: [begin, end); `recomputed` false = an ordinary layer.
struct Unit {
  int64_t begin = 0, end = 0;
  bool recomputed = false;
};

std::vector<Unit> units_of(const Plan& plan, int64_t layers) {
  std::vector<Unit> units;
  const bool full = plan.recompute == Recompute::full;
  const bool block = plan.recompute_method == RecomputeMethod::block;
  const int64_t size = full && !block ? std::max<int64_t>(1, plan.recompute_layers) : 1;
  for (int64_t begin = 0; begin < layers; begin += size) {
    const int64_t end = std::min(layers, begin + size);
    units.push_back({begin, end, full && (!block || begin < plan.recompute_layers)});
  }
  return units;
}

std::string title(const char* what, const StageContent& content) {
  std::string text(what);
  if (content.embedding) text += ", embedding";
  text += ", " + std::to_string(content.layers) + (content.layers == 1 ? " layer" : " layers");
  if (content.head) text += ", head";
  return text;
}

// An op that moves nothing, for stages without work (a stage may hold the embedding of another
// stage only).
void write_nothing(const Shard& shard, PassWriter& pass) {
  pass.compute("pass through", shard.memory_bound(Kernel::none, {}));
}

// What the passes of one stage have in common.
struct Stage {
  GraphBuilder& builder;
  const Shard& shard;
  const StageContent& content;
  TensorTableId table;

  PassWriter pass(const char* what) const { return {builder, title(what, content), table}; }
  void begin_layer(StageWriter& writer, int64_t i) const {
    const LayerKind kind =
        content.kinds.empty() ? layer_kind(shard.model, 0) : content.kinds[static_cast<size_t>(i)];
    writer.set_layer(static_cast<int>(i), kind);
  }
};

PassId write_forward(const Stage& s, StageTensors& t) {
  const Shard& shard = s.shard;
  PassWriter pass = s.pass("forward");
  StageWriter stage(shard, pass);
  pass.set_phase(Phase::forward);
  TensorIndex stream = kNoTensor;
  if (s.content.embedding) {
    stream = stage.embedding_forward(t.embedding);
  } else {
    stream = pass.allocate("residual stream", shard.bytes(shard.own_tokens, shard.hidden),
                           MemoryCategory::activations);  // received
  }
  t.layers.resize(static_cast<size_t>(s.content.layers));
  for (const Unit& unit : units_of(shard.plan, s.content.layers)) {
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      s.begin_layer(stage, i);
      LayerTensors& layer = t.layers[static_cast<size_t>(i)];
      const ForwardMode mode = unit.recomputed ? ForwardMode::discard : ForwardMode::keep;
      layer.input = stream;
      stream = stage.layer_forward(layer, mode);
      if (unit.recomputed && i > unit.begin) pass.free(layer.input);
    }
  }
  stage.set_layer(-1);
  if (s.content.head) {
    t.head.input = stream;
    stage.head_forward(t.head);
  } else {
    if (pass.empty()) write_nothing(shard, pass);
    // The output leaves with the transfer and is freed here (Megatron's
    // deallocate_pipeline_outputs).
    pass.free(stream);
  }
  return pass.finish();
}

// The forward of a checkpointed unit once more.
void recompute_unit(const Stage& s, StageWriter& stage, PassWriter& pass, const Unit& unit,
                    StageTensors& t) {
  pass.set_phase(Phase::recompute);
  for (int64_t i = unit.begin; i < unit.end; ++i) {
    s.begin_layer(stage, i);
    LayerTensors& layer = t.layers[static_cast<size_t>(i)];
    TensorIndex out = stage.layer_forward(layer, ForwardMode::recompute);
    if (i + 1 < unit.end) {
      t.layers[static_cast<size_t>(i + 1)].input = out;
    } else {
      pass.free(out);
    }
  }
}

// R.  Afterwards `t` is what a backward finds that has nothing to recompute.
PassId write_recompute(const Stage& s, StageTensors& t) {
  PassWriter pass = s.pass("recompute");
  StageWriter stage(s.shard, pass);
  pass.set_phase(Phase::recompute);
  for (const Unit& unit : units_of(s.shard.plan, s.content.layers)) {
    if (unit.recomputed) recompute_unit(s, stage, pass, unit, t);
    if (s.shard.plan.recompute != Recompute::selective) continue;
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      s.begin_layer(stage, i);
      stage.recompute_core(t.layers[static_cast<size_t>(i)]);
    }
  }
  stage.set_layer(-1);
  if (pass.empty()) write_nothing(s.shard, pass);
  return pass.finish();
}

// The whole backward: into `pass` alone, or its weight gradients into `weights`.
void write_backward_ops(const Stage& s, PassWriter& pass, PassWriter& weights, StageTensors t,
                        bool recompute, const GradientBuckets& buckets) {
  const Shard& shard = s.shard;
  StageWriter stage(shard, pass, weights, buckets);
  pass.set_phase(Phase::backward_input);
  TensorIndex gradient = kNoTensor;
  if (s.content.head) {
    gradient = stage.head_backward(t.head, shard.model.tied && s.content.embedding);
  } else {
    gradient = pass.allocate("output gradient", shard.bytes(shard.own_tokens, shard.hidden),
                             MemoryCategory::workspace);  // received
  }
  const bool recompute_core = recompute && shard.plan.recompute == Recompute::selective;
  const std::vector<Unit> units = units_of(shard.plan, s.content.layers);
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (recompute && unit->recomputed) recompute_unit(s, stage, pass, *unit, t);
    for (int64_t i = unit->end; i-- > unit->begin;) {
      s.begin_layer(stage, i);
      stage.layer_backward(t.layers[static_cast<size_t>(i)], gradient, recompute_core);
    }
  }
  stage.set_layer(-1);
  if (s.content.embedding) stage.embedding_backward(t.embedding, gradient);
  if (pass.empty()) write_nothing(shard, pass);
  pass.free(gradient);
  stage.flush_gradients();
  if (weights.empty()) write_nothing(shard, weights);
}

struct Backward {
  PassId whole = kNoPass, last_whole = kNoPass;
  PassId input = kNoPass, weight = kNoPass, last_weight = kNoPass;
};

// `recompute`: what the forward left out is recomputed here; else R has done it.
Backward write_backward(const Stage& s, const StageTensors& t, bool recompute, bool split,
                        const GradientBuckets& buckets) {
  Backward out;
  const auto whole = [&](const GradientBuckets& reduced) {
    PassWriter pass = s.pass("backward");
    write_backward_ops(s, pass, pass, t, recompute, reduced);
    return pass.finish();
  };
  const bool reduces = buckets.bucket_parameters > 0;
  out.whole = whole({});
  out.last_whole = reduces ? whole(buckets) : out.whole;
  if (!split) return out;

  const auto tables = [&]() -> const auto& {
    return s.builder.graph().tensor_tables;
  };
  auto first = static_cast<TensorIndex>(tables()[static_cast<size_t>(s.table)].size());
  PassWriter input = s.pass("input gradient");
  PassWriter weight = s.pass("weight gradient");
  write_backward_ops(s, input, weight, t, recompute, {});
  out.input = input.finish();
  out.weight = out.last_weight = weight.finish();
  if (reduces) {
    // The last W frees what I left, so it is written against the tensors of that I.
    PassWriter same_input = s.pass("input gradient");
    PassWriter last = s.pass("weight gradient");
    same_input.reuse_tensors(first);
    last.reuse_tensors(first);
    write_backward_ops(s, same_input, last, t, recompute, buckets);
    out.last_weight = last.finish();
  }
  return out;
}

// O and L of what a forward pass leaves behind.
void write_offload(const Stage& s, StagePasses& out) {
  const OpGraph& graph = s.builder.graph();
  const std::vector<Tensor>& tensors = graph.tensor_tables[static_cast<size_t>(s.table)];
  std::set<TensorIndex> kept;
  for (const MemoryEvent& e : graph.passes[static_cast<size_t>(out.forward)].memory) {
    if (e.allocate) {
      kept.insert(e.tensor);
    } else {
      kept.erase(e.tensor);
    }
  }
  Work copy;
  copy.kind = WorkKind::host_copy;
  for (TensorIndex tensor : kept) copy.bytes += tensors[tensor].bytes;
  PassWriter offload = s.pass("offload");
  offload.set_phase(Phase::forward);
  offload.communicate(Stream::copy, "offload", copy);
  PassWriter reload = s.pass("reload");
  reload.set_phase(Phase::backward_input);
  reload.communicate(Stream::copy, "reload", copy);
  for (TensorIndex tensor : kept) {
    TensorIndex freed = tensor;
    offload.free(freed);
    reload.allocate_again(tensor);
  }
  out.offload = offload.finish();
  out.reload = reload.finish();
}

GradientBuckets buckets_of(const Plan& plan) {
  GradientBuckets buckets;
  if (!plan.overlap.dp_grad || plan.dp == 1) return buckets;
  buckets.bucket_parameters = plan.bucket_parameters > 0
                                  ? plan.bucket_parameters
                                  : std::max<int64_t>(40'000'000, 1'000'000 * plan.dp);
  buckets.collective = plan.zero >= 1 ? WorkKind::reduce_scatter : WorkKind::all_reduce;
  buckets.dtype = plan.precision.reduce;
  return buckets;
}

}  // namespace

StagePasses add_stage_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                             const StageContent& content, const PassChoice& choice) {
  const Shard shard(model, plan);
  OpGraph& graph = builder.graph();
  const Stage stage{builder, shard, content,
                    static_cast<TensorTableId>(graph.tensor_tables.size())};
  graph.tensor_tables.emplace_back();
  StageTensors tensors;
  StagePasses out;
  out.forward = write_forward(stage, tensors);
  const GradientBuckets buckets = buckets_of(plan);
  const Backward plain = write_backward(stage, tensors, true, choice.split, buckets);
  out.backward = plain.whole;
  out.last_backward = plain.last_whole;
  out.input_gradient = plain.input;
  out.weight_gradient = plain.weight;
  out.last_weight_gradient = plain.last_weight;
  if (choice.recompute) {
    out.recompute = write_recompute(stage, tensors);
    const Backward after = write_backward(stage, tensors, false, choice.split, buckets);
    out.backward_after_recompute = after.whole;
    out.last_backward_after_recompute = after.last_whole;
    out.input_gradient_after_recompute = after.input;
    out.weight_gradient_after_recompute = after.weight;
    out.last_weight_gradient_after_recompute = after.last_weight;
  }
  if (choice.offload) write_offload(stage, out);
  return out;
}

PassId pass_of(const StagePasses& p, ActionKind kind, bool last, bool recomputed) {
  const auto either = [&](PassId plain, PassId after) { return recomputed ? after : plain; };
  PassId pass = kNoPass;
  switch (kind) {
    case ActionKind::forward: pass = p.forward; break;
    case ActionKind::backward:
      pass = last ? either(p.last_backward, p.last_backward_after_recompute)
                  : either(p.backward, p.backward_after_recompute);
      break;
    case ActionKind::backward_input:
      pass = either(p.input_gradient, p.input_gradient_after_recompute);
      break;
    case ActionKind::backward_weight:
      pass = last ? either(p.last_weight_gradient, p.last_weight_gradient_after_recompute)
                  : either(p.weight_gradient, p.weight_gradient_after_recompute);
      break;
    case ActionKind::recompute: pass = p.recompute; break;
    case ActionKind::offload: pass = p.offload; break;
    case ActionKind::reload: pass = p.reload; break;
  }
  STEPCAST_CHECK(pass != kNoPass, "the pass of this action was not asked for");
  return pass;
}

}  // namespace stepcast
    case ActionKind::vocabulary_forward: pass = p.vocabulary_forward; break;
    case ActionKind::vocabulary_backward: pass = p.vocabulary_backward; break;
    case ActionKind::embedding_forward: pass = p.embedding_forward; break;
    case ActionKind::embedding_backward: pass = p.embedding_backward; break;
