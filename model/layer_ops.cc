// SPDX-License-Identifier: Apache-2.0
#include "model/layer_ops.h"

#include <algorithm>
#include <string>

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

PassId write_forward(GraphBuilder& builder, const Shard& shard, const StageContent& content,
                     TensorTableId table, StageTensors& t) {
  PassWriter pass(builder, title("forward", content), table);
  StageWriter stage(shard, pass);
  pass.set_phase(Phase::forward);
  TensorIndex stream = kNoTensor;
  if (content.embedding) {
    stream = stage.embedding_forward(t.embedding);
  } else {
    stream = pass.allocate("residual stream", shard.bytes(shard.own_tokens, shard.hidden),
                           MemoryCategory::activations);  // received
  }
  t.layers.resize(static_cast<size_t>(content.layers));
  for (const Unit& unit : units_of(shard.plan, content.layers)) {
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      pass.set_layer(static_cast<int>(i));
      LayerTensors& layer = t.layers[static_cast<size_t>(i)];
      const ForwardMode mode = unit.recomputed ? ForwardMode::discard : ForwardMode::keep;
      layer.input = stream;
      stream = stage.layer_forward(layer, mode);
      if (unit.recomputed && i > unit.begin) pass.free(layer.input);
    }
  }
  pass.set_layer(-1);
  if (content.head) {
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

void write_unit_backward(StageWriter& stage, PassWriter& pass, const Plan& plan, const Unit& unit,
                         StageTensors& t, TensorIndex& gradient) {
  if (unit.recomputed) {
    pass.set_phase(Phase::recompute);
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      pass.set_layer(static_cast<int>(i));
      LayerTensors& layer = t.layers[static_cast<size_t>(i)];
      TensorIndex out = stage.layer_forward(layer, ForwardMode::recompute);
      if (i + 1 < unit.end) {
        t.layers[static_cast<size_t>(i + 1)].input = out;
      } else {
        pass.free(out);
      }
    }
  }
  for (int64_t i = unit.end; i-- > unit.begin;) {
    pass.set_layer(static_cast<int>(i));
    stage.layer_backward(t.layers[static_cast<size_t>(i)], gradient,
                         plan.recompute == Recompute::selective);
  }
}

PassId write_backward(GraphBuilder& builder, const Shard& shard, const StageContent& content,
                      TensorTableId table, StageTensors t, GradientBuckets buckets) {
  PassWriter pass(builder, title("backward", content), table);
  StageWriter stage(shard, pass, buckets);
  pass.set_phase(Phase::backward_input);
  TensorIndex gradient = kNoTensor;
  if (content.head) {
    gradient = stage.head_backward(t.head, shard.model.tied && content.embedding);
  } else {
    gradient = pass.allocate("output gradient", shard.bytes(shard.own_tokens, shard.hidden),
                             MemoryCategory::workspace);  // received
  }
  std::vector<Unit> units = units_of(shard.plan, content.layers);
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    write_unit_backward(stage, pass, shard.plan, *unit, t, gradient);
  }
  pass.set_layer(-1);
  if (content.embedding) stage.embedding_backward(t.embedding, gradient);
  if (pass.empty()) write_nothing(shard, pass);
  pass.free(gradient);
  stage.flush_gradients();
  return pass.finish();
}

}  // namespace

StagePasses add_stage_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                             const StageContent& content, const PassChoice& choice) {
  STEPCAST_CHECK(!choice.split && !choice.recompute && !choice.offload, "not written yet");
  const Shard shard(model, plan);
  OpGraph& graph = builder.graph();
  const auto table = static_cast<TensorTableId>(graph.tensor_tables.size());
  graph.tensor_tables.emplace_back();
  StageTensors tensors;
  StagePasses out;
  out.forward = write_forward(builder, shard, content, table, tensors);
  out.backward = write_backward(builder, shard, content, table, tensors, {});
  out.last_backward = out.backward;
  if (plan.overlap.dp_grad && plan.dp > 1) {
    GradientBuckets buckets;
    buckets.bucket_parameters = plan.bucket_parameters > 0
                                    ? plan.bucket_parameters
                                    : std::max<int64_t>(40'000'000, 1'000'000 * plan.dp);
    buckets.collective = plan.zero >= 1 ? WorkKind::reduce_scatter : WorkKind::all_reduce;
    buckets.dtype = plan.precision.reduce;
    out.last_backward = write_backward(builder, shard, content, table, tensors, buckets);
  }
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

PassId add_pair_pass(GraphBuilder& builder, PassId forward, PassId backward) {
  STEPCAST_CHECK(forward != kNoPass && backward != kNoPass && builder.graph().passes.empty(),
                 "not written yet");
  return kNoPass;
}

int64_t stage_parameters(const Transformer& model, const Plan& plan, const StageContent& content) {
  const Shard s(model, plan);
  const int64_t h = model.hidden;
  const int64_t norm = model.norm == Norm::layer_norm && model.norm_bias ? 2 * h : h;
  int64_t layer = h * s.qkv + h * s.q + h * s.up + h * s.ffn + 2 * norm;
  if (model.attention_bias) layer += s.qkv;
  if (model.attention_output_bias) layer += h;
  if (model.mlp_bias) layer += s.up + h;
  if (model.qk_norm) layer += 2 * model.head_dim;
  int64_t total = layer * content.layers;
  const bool learned = model.positions == Positions::learned;
  if (content.embedding) total += s.vocab * h + (learned ? model.max_positions * h : 0);
  if (content.head) {
    total += norm;
    // A tied head needs a copy of the word embedding unless the stage has it anyway.
    if (!model.tied || !content.embedding) total += s.vocab * h;
  }
  return total;
}

int64_t shared_parameters(const Transformer& model, const StageContent& content) {
  const int64_t h = model.hidden;
  const int64_t norm = model.norm == Norm::layer_norm && model.norm_bias ? 2 * h : h;
  int64_t layer = 2 * norm;
  if (model.attention_output_bias) layer += h;
  if (model.mlp_bias) layer += h;
  if (model.qk_norm) layer += 2 * model.head_dim;
  return layer * content.layers + (content.head ? norm : 0);
}

}  // namespace stepcast
