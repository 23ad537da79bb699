// SPDX-License-Identifier: Apache-2.0
#include "model/stage_passes.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "model/distillation.h"
#include "model/inference.h"
#include "model/stage_flow.h"
#include "model/unit_gathers.h"
#include "model/vocabulary_passes.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// Layers that are checkpointed together: [begin, end); `recomputed` false = an ordinary layer.
struct Unit {
  int64_t begin = 0, end = 0;
  bool recomputed = false;
};

// An encoder and a decoder are checkpointed apart.
std::vector<Unit> units_of(const Plan& plan, const StageContent& content) {
  std::vector<Unit> units;
  const int64_t layers = content.layers, decoder = first_decoder_layer(content);
  const bool per_op = plan.recompute == Recompute::per_op;  // each layer is wrapped
  const bool full = plan.recompute == Recompute::full;
  const bool block = plan.recompute_method == RecomputeMethod::block;
  const int64_t size = full && !block ? std::max<int64_t>(1, plan.recompute_layers) : 1;
  for (int64_t begin = 0; begin < layers; begin = units.back().end) {
    const int64_t end = std::min(begin < decoder ? decoder : layers, begin + size);
    units.push_back({begin, end, per_op || (full && (!block || begin < plan.recompute_layers))});
  }
  return units;
}

std::string title(const char* what, const StageContent& content) {
  std::string text(what);
  if (content.embedding) text += ", embedding";
  text += ", " + std::to_string(content.layers) + (content.layers == 1 ? " layer" : " layers");
  if (content.predictions > 0) text += ", " + std::to_string(content.predictions) + " mtp";
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
  const StageShards& shards;
  const StageContent& content;
  TensorTableId table;

  PassWriter pass(const char* what) const { return {builder, title(what, content), table}; }
  const Plan& plan() const { return shards.own.plan; }
};

PassId write_forward(const Stage& s, StageTensors& t) {
  PassWriter pass = s.pass("forward");
  StageFlow flow(s.shards, s.content, t, pass);
  pass.set_phase(Phase::forward);
  UnitGathers gathers(s.shards.own, s.content, pass, t.held, UnitGathers::Direction::forward);
  ActivationOffload offload(s.plan(), pass, t.offloaded);
  gathers.need_ends();
  t.teacher = write_teacher(s.plan(), pass);
  TensorIndex stream = flow.begin_forward();
  t.layers.resize(static_cast<size_t>(s.content.layers));
  for (const Unit& unit : units_of(s.plan(), s.content)) {
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      stream = flow.before_layer(i, stream);
      StageWriter& stage = flow.begin_layer(i);
      gathers.need_layer(i);
      LayerTensors& layer = t.layers[static_cast<size_t>(i)];
      const ForwardMode mode = unit.recomputed ? ForwardMode::discard : ForwardMode::keep;
      layer.input = stream;
      offload.begin_layer();
      stream = stage.layer_forward(layer, mode);
      if (unit.recomputed && i > unit.begin) pass.free(layer.input);
      gathers.end_layer(i);  // before the copy: what an op of Stream::copy frees, it frees later
      offload.end_layer(i, layer.input, stream);
      stream = flow.after_layer(i, stream);
    }
    if (unit.recomputed)
      flow.begin_layer(unit.begin).split_checkpoint(t.layers[static_cast<size_t>(unit.begin)]);
  }
  // Input, weight and output of four linear layers.
  flow.outside_layers().update_scales(s.content.layers, 3 * 4);
  if (pass.empty() && !s.content.head) write_nothing(s.shards.own, pass);
  flow.end_forward(stream);
  write_distillation_loss(s.shards.own, t.teacher, pass);
  offload.end_forward();
  gathers.finish();
  return pass.finish();
}

// The forward of a checkpointed unit once more.
void recompute_unit(StageFlow& flow, PassWriter& pass, UnitGathers& gathers, const Unit& unit,
                    StageTensors& t) {
  pass.set_phase(Phase::recompute);
  flow.begin_layer(unit.begin).gather_checkpoint(t.layers[static_cast<size_t>(unit.begin)]);
  for (int64_t i = unit.begin; i < unit.end; ++i) {
    StageWriter& stage = flow.begin_layer(i);
    gathers.need_layer(i);
    LayerTensors& layer = t.layers[static_cast<size_t>(i)];
    TensorIndex out = stage.layer_forward(layer, ForwardMode::recompute);
    if (i + 1 < unit.end) {
      t.layers[static_cast<size_t>(i + 1)].input = out;
    } else {
      pass.free(out);
    }
  }
}

// R of prediction modules.
void recompute_predictions(const Stage& s, StageFlow& flow, StageTensors& t) {
  for (size_t i = 0; i < t.predictions.size(); ++i) {
    StageWriter& stage = flow.begin_prediction(static_cast<int64_t>(i));
    if (StageFlow::recomputes_predictions(s.plan())) stage.recompute_prediction(t.predictions[i]);
    if (s.plan().recompute == Recompute::selective)
      stage.recompute_selected(t.predictions[i].layer);
  }
}

// R.  Afterwards `t` is what a backward finds that has nothing to recompute.
PassId write_recompute(const Stage& s, StageTensors& t) {
  PassWriter pass = s.pass("recompute");
  StageFlow flow(s.shards, s.content, t, pass);
  pass.set_phase(Phase::recompute);
  UnitGathers gathers(s.shards.own, s.content, pass, t.held, UnitGathers::Direction::recompute);
  ActivationOffload offload(s.plan(), pass, t.offloaded);
  for (int64_t i = s.content.layers; i-- > 0;) offload.need(i);
  t.offloaded.clear();
  for (const Unit& unit : units_of(s.plan(), s.content)) {
    if (unit.recomputed) recompute_unit(flow, pass, gathers, unit, t);
    if (unit.recomputed)
      for (int64_t i = unit.begin; i < unit.end; ++i) gathers.end_layer(i);
    if (s.plan().recompute != Recompute::selective) continue;
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      LayerTensors& layer = t.layers[static_cast<size_t>(i)];
      StageWriter& stage = flow.begin_layer(i);
      stage.recompute_selected(layer);
    }
  }
  recompute_predictions(s, flow, t);
  flow.outside_layers();
  if (pass.empty()) write_nothing(s.shards.own, pass);
  return pass.finish();
}

// The whole backward: into `pass` alone, or its weight gradients into `weights`.
void write_backward_ops(const Stage& s, PassWriter& pass, PassWriter& weights, StageTensors t,
                        bool recompute, const StageBuckets& buckets) {
  StageFlow flow(s.shards, s.content, t, pass, weights, buckets);
  pass.set_phase(Phase::backward_input);
  UnitGathers gathers(s.shards.own, s.content, pass, t.held, UnitGathers::Direction::backward);
  ActivationOffload offload(s.plan(), pass, t.offloaded);
  offload.fetch(s.content.layers - 1);
  gathers.start();
  gathers.need_ends();
  write_distillation_gradient(s.shards.own, t.teacher, pass);
  TensorIndex gradient = flow.begin_backward(recompute);
  const bool recompute_core = recompute && s.plan().recompute == Recompute::selective &&
                              s.plan().recompute_modules.core_attention;
  const std::vector<Unit> units = units_of(s.plan(), s.content);
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    for (int64_t i = unit->end; i-- > unit->begin;) offload.need(i);
    if (recompute && unit->recomputed) recompute_unit(flow, pass, gathers, *unit, t);
    for (int64_t i = unit->end; i-- > unit->begin;) {
      flow.before_backward(i);
      StageWriter& stage = flow.begin_layer(i);
      gathers.need_layer(i);
      stage.layer_backward(t.layers[static_cast<size_t>(i)], gradient, recompute_core);
      if (gathers.end_layer(i)) stage.end_unit();
      flow.after_backward(i, gradient);
    }
  }
  // Gradients of output and input.
  flow.outside_layers().update_scales(s.content.layers, 2 * 4);
  flow.embed_backward(gradient);
  if (pass.empty()) write_nothing(s.shards.own, pass);
  flow.end_backward(gradient);
  gathers.finish();
  flow.flush_gradients();
  if (weights.empty()) write_nothing(s.shards.own, weights);
}

struct Backward {
  PassId whole = kNoPass, last_whole = kNoPass;
  PassId input = kNoPass, weight = kNoPass, last_weight = kNoPass;
};

// `recompute`: what the forward left out is recomputed here; else R has done it.
Backward write_backward(const Stage& s, const StageTensors& t, bool recompute, bool split) {
  Backward out;
  const StageBuckets usual = stage_buckets(s.shards.own.model, s.plan(), false);
  const StageBuckets buckets = stage_buckets(s.shards.own.model, s.plan(), true);
  const auto whole = [&](const StageBuckets& reduced) {
    PassWriter pass = s.pass("backward");
    write_backward_ops(s, pass, pass, t, recompute, reduced);
    return pass.finish();
  };
  const bool last_differs = !usual.same_as(buckets);
  out.whole = whole(usual);
  out.last_whole = last_differs ? whole(buckets) : out.whole;
  if (!split) return out;

  const auto tables = [&]() -> const auto& {
    return s.builder.graph().tensor_tables;
  };
  auto first = static_cast<TensorIndex>(tables()[static_cast<size_t>(s.table)].size());
  PassWriter input = s.pass("input gradient");
  PassWriter weight = s.pass("weight gradient");
  write_backward_ops(s, input, weight, t, recompute, usual);
  out.input = input.finish();
  out.weight = out.last_weight = weight.finish();
  if (last_differs) {
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
  std::erase_if(kept, [&](TensorIndex tensor) {  // they stay where they are
    return tensors[tensor].category == MemoryCategory::parameters;
  });
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

}  // namespace

StagePasses add_stage_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                             const StageContent& content, const PassChoice& choice) {
  if (!plan.trains()) return add_inference_passes(builder, model, plan, content);
  const StageShards shards(model, plan);
  OpGraph& graph = builder.graph();
  const Stage stage{builder, shards, content,
                    static_cast<TensorTableId>(graph.tensor_tables.size())};
  graph.tensor_tables.emplace_back();
  StageTensors tensors;
  StagePasses out;
  const VocabularyShare share{builder, shards.own, content, stage.table};
  const bool shares_vocabulary = plan.vocabulary != VocabularySplit::none;
  if (shares_vocabulary) out.embedding_forward = add_embedding_forward(share, tensors.embedding);
  out.forward = write_forward(stage, tensors);
  if (shares_vocabulary) add_vocabulary_passes(share, tensors.head, out);
  const Backward plain = write_backward(stage, tensors, true, choice.split);
  out.backward = plain.whole;
  out.last_backward = plain.last_whole;
  out.input_gradient = plain.input;
  out.weight_gradient = plain.weight;
  out.last_weight_gradient = plain.last_weight;
  if (choice.recompute) {
    out.recompute = write_recompute(stage, tensors);
    const Backward after = write_backward(stage, tensors, false, choice.split);
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
    case ActionKind::vocabulary_forward: pass = p.vocabulary_forward; break;
    case ActionKind::vocabulary_backward: pass = p.vocabulary_backward; break;
    case ActionKind::embedding_forward: pass = p.embedding_forward; break;
    case ActionKind::embedding_backward: pass = p.embedding_backward; break;
  }
  STEPCAST_CHECK(pass != kNoPass, "the pass of this action was not asked for");
  return pass;
}

}  // namespace stepcast
