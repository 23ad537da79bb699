// SPDX-License-Identifier: Apache-2.0
// Linear layers: their tensor-parallel collectives, the gradients of their weights, products in
// pieces that overlap with a collective, and low-precision operands.
//
// A layer X[rows, in] -> Y[rows, out] launches one product forward and two backward: the gradient
// of its input (Phase::backward_input), and of its weights (Phase::backward_weight), which ends in
// the bucket of gradients to be reduced.  With tp ranks the weights are split by columns, then by
// rows.  In an MLP with sequence parallelism, for example:
//
//   fc1 forward     all-gather X, product           fc2 forward     product, reduce-scatter Y
//   fc1 backward    input gradient beside the       fc2 backward    all-gather dY, input gradient,
//                   all-gather of the saved X;                      weight gradient
//                   weight gradient beside the
//                   reduce-scatter of dX
//
// Without sequence parallelism all-reduces take the place of the reduce-scatters and nothing is
// gathered (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2).
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/layers/layers.h"
#include "model/low_precision.h"
#include "model/passes/forward_only.h"

namespace stepcast {
namespace {

constexpr int64_t kScaleBytes = 4;  // of a tensor's maximum, and of its scale

// A tensor-parallel collective over [tokens, width].  Sums are made in Precision::params, gathers
// move what the next product reads.
Work tp_work(const LayerContext& c, WorkKind kind, int64_t width) {
  Work w = c.shard.collective(kind, width);
  if (is_low(c) && kind == WorkKind::all_gather) {
    w = linear_work(c, w);
    w.bytes = low_format(c.shard.plan.precision).bytes(c.shard.tokens * width);
  }
  return w;
}

uint32_t tp(const LayerContext& c, const std::string& label, WorkKind kind, int64_t width) {
  return c.pass.communicate(Stream::tp, label, tp_work(c, kind, width));
}

// Whether the input of a column-parallel layer is kept as it was gathered.  Nothing but the layer
// may read it: not a router, nor a second branch, and it is not made again.
bool keeps_gathered_input(const LayerContext& c) {
  const Transformer& model = c.shard.model;
  const Plan& plan = c.shard.plan;
  const bool alone = model.experts == 0 && model.kv_rank == 0 && !model.parallel_block &&
                     !c.kind.cross && !plan.recompute_modules.norms;
  return plan.kernels.keep_gathered && alone && c.in_layer && c.shard.sequence_split() &&
         plan.overlap.tp == TpOverlap::none && !is_low(c);
}

}  // namespace

uint32_t start_gather(const LayerContext& c, PassWriter& pass, const std::string& label,
                      int64_t width) {
  return pass.communicate(Stream::tp, label, tp_work(c, WorkKind::all_gather, width));
}

TensorIndex gather(const LayerContext& c, const std::string& label, int64_t width) {
  c.pass.join(start_gather(c, c.pass, label, width));
  return c.pass.allocate(label, tp_work(c, WorkKind::all_gather, width).bytes,
                         MemoryCategory::communication);
}

TensorIndex reduce(const LayerContext& c, const std::string& label, PartialSum partial,
                   int64_t width, MemoryCategory category) {
  const Shard& s = c.shard;
  if (!s.split()) return partial.tensor;
  if (!s.sequence_split()) {
    c.pass.join(tp(c, label + " all-reduce", WorkKind::all_reduce, width));
    return partial.tensor;
  }
  const Bytes own = s.bytes(s.own_tokens, width);
  if (partial.exchanged) {
    // The pieces of all ranks, one after the other.
    c.pass.compute(label + " sum", s.memory_bound(Kernel::add, s.bytes(s.tokens, width) + own));
  } else {
    c.pass.join(tp(c, label + " reduce-scatter", WorkKind::reduce_scatter, width));
  }
  const TensorIndex reduced = c.pass.allocate(label + " reduced", own, category);
  // pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: recordStream of inputs.
  if (s.plan.kernels.record_streams) c.pass.lags(partial.tensor);
  c.pass.free(partial.tensor);
  return reduced;
}

// ------------------------------------------------------------------- products that overlap (tp)
// Transformer Engine's userbuffers (transformer_engine/pytorch/module/base.py, initialize_ub): a
// gather becomes tp - 1 shifts around the ring, and the product goes on with the rows that have
// come (ring_exchange: forward of column-parallel layers, input gradients of row-parallel ones); a
// reduce-scatter follows the pieces of its product (pipeline: forward of row-parallel layers).
// Collectives of the other backward products run beside whole products as TpOverlap::backward has
// them (bulk).  PyTorch's async tensor parallelism does the same with the first two kinds.
namespace {

bool is_pipelined(const LayerContext& c) {
  return c.shard.plan.overlap.tp == TpOverlap::pipelined && c.shard.sequence_split();
}

Work piece_of(Work gemm, int64_t pieces) {
  gemm.m /= pieces;
  gemm.flops = gemm.flops * (1.0 / static_cast<double>(pieces));
  return gemm;
}

Work shift_of(Work collective, int64_t pieces) {
  collective.kind = WorkKind::shift;
  collective.bytes = {collective.bytes.value / pieces};
  return collective;
}

// Gathers [tokens, hidden] for `gemm`, whose rows they are, and runs it.
TensorIndex gathered_product(const LayerContext& c, const std::string& label,
                             const std::string& gather_label, const Work& gemm) {
  const int64_t pieces = c.shard.plan.tp;
  const Work whole = tp_work(c, WorkKind::all_gather, c.shard.hidden);
  std::vector<uint32_t> shifts;
  for (int64_t i = 1; i < pieces; ++i)
    shifts.push_back(c.pass.communicate(Stream::tp, gather_label, shift_of(whole, pieces)));
  const TensorIndex gathered =
      c.pass.allocate(gather_label, whole.bytes, MemoryCategory::communication);
  // The rank's own rows come first.
  product(c, c.pass, label, piece_of(gemm, pieces));
  for (const uint32_t shift : shifts) {
    c.pass.join(shift);
    product(c, c.pass, label, piece_of(gemm, pieces), OpRole::later_piece);
  }
  return gathered;
}

// Runs `gemm`, whose output is exchanged piece by piece; reduce() sums the pieces.
void reduced_product(const LayerContext& c, const std::string& label, const Work& gemm,
                     int64_t width) {
  const int64_t pieces = c.shard.plan.tp;
  const Work whole = tp_work(c, WorkKind::reduce_scatter, width);
  uint32_t last = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    product(c, c.pass, label, piece_of(gemm, pieces),
            i == 0 ? OpRole::ordinary : OpRole::later_piece);
    if (i + 1 < pieces)
      last = c.pass.communicate(Stream::tp, label + " reduce-scatter", shift_of(whole, pieces));
  }
  c.pass.join(last);
}

}  // namespace

// ---------------------------------------------------------------------------- gradients of weights
void weight_gradient(const LayerContext& c, const std::string& label, const Work& gemm,
                     ProductTraits traits) {
  const Shard& s = c.shard;
  PassWriter& pass = c.weights;
  const Phase phase = pass.phase();
  pass.set_phase(Phase::backward_weight);
  const bool buffered = c.buckets.layers.buffered;
  Work own_gradient = gemm;
  if (buffered) own_gradient.accumulate = false;
  if (traits.wide) {
    pass.compute(label + " weight gradient", own_gradient, traits.role);
  } else {
    product(c, pass, label + " weight gradient", own_gradient, traits.role);
  }
  if (!buffered && !s.plan.kernels.gradient_accumulation_fusion) {
    // The GEMM wrote a gradient of its own, which is then added to the main gradient.
    const Bytes own = s.bytes(gemm.m, gemm.n);
    TensorIndex gradient = pass.allocate(
        label + " weight gradient", unadded_gradient(c, gemm.m, gemm.n), MemoryCategory::workspace);
    pass.compute(
        label + " gradient accumulation",
        s.memory_bound(Kernel::add, own + s.bytes(gemm.m, gemm.n, s.plan.precision.gradients) * 2));
    hand_over_gradient(c, gradient);
  }
  pass.set_phase(phase);
  reduce_after(c, gemm.m * gemm.n);
}

// Gradients that stay through the step are in RankParameters; what is made here is their copy in
// the format of the main ones (microsoft/DeepSpeed @15293139 deepspeed/runtime/bf16_optimizer.py,
// update_hp_grads).
Bytes unadded_gradient(const LayerContext& c, int64_t rows, int64_t columns) {
  const Precision& p = c.shard.plan.precision;
  const bool copied = p.own_gradients && p.product_gradients == ProductGradients::added;
  return c.shard.bytes(rows, columns, copied ? p.gradients : p.params);
}

void hand_over_gradient(const LayerContext& c, TensorIndex& gradient) {
  switch (c.shard.plan.precision.product_gradients) {
    case ProductGradients::added: break;
    case ProductGradients::backward:
      c.buckets.unadded.push_back(std::exchange(gradient, kNoTensor));
      return;
    case ProductGradients::tensors:
      if (c.shard.plan.gradients_are_tensors()) c.weights.becomes_gradient(gradient);
      break;
  }
  c.weights.free(gradient);
}

void bias_gradient(const LayerContext& c, const std::string& label, int64_t rows, int64_t width) {
  const Phase phase = c.weights.phase();
  c.weights.set_phase(Phase::backward_weight);
  c.weights.compute(label + " bias gradient",
                    c.shard.memory_bound(Kernel::bias_backward, c.shard.bytes(rows, width)));
  c.weights.set_phase(phase);
  reduce_after(c, width);
}

void reduce_after(const LayerContext& c, int64_t parameters) {
  StageBuckets& buckets = c.buckets;
  if (c.adds_to_gradients) {
    if (!buckets.ends_apart || !c.shard.model.tied || buckets.tied_counted) return;
    buckets.tied_counted = true;
  }
  const bool ends = buckets.ends_apart && !c.in_layer;
  add_gradient(ends ? buckets.ends : buckets.layers, c.shard, c.weights, parameters);
}

// ----------------------------------------------------------------------------------- linear layers
TensorIndex column_parallel_forward(const LayerContext& c, ForwardMode mode,
                                    const std::string& label, const std::string& output_label,
                                    TensorIndex& input, int64_t out, LinearInput how) {
  const Shard& s = c.shard;
  TensorIndex now = quantize_input(c, mode, label, input, s.own_tokens, s.hidden, how.copy,
                                   {.gathered = s.sequence_split(), .converted = how.converted});
  TensorIndex gathered = kNoTensor;
  const Work gemm = s.forward_gemm(s.tokens, out, s.hidden);
  if (is_pipelined(c)) {
    gathered = gathered_product(c, label, label + " all-gather", gemm);
  } else {
    if (keeps_gathered_input(c)) {
      const std::string what = label + " all-gather";
      c.pass.join(start_gather(c, c.pass, what, s.hidden));
      gathered = c.pass.allocate(what, s.bytes(s.tokens, s.hidden), saved(mode));
      std::swap(gathered, input);
    } else if (s.sequence_split()) {
      gathered = gather(c, label + " all-gather", s.hidden);
    }
    product(c, c.pass, label, gemm);
  }
  const TensorIndex output = c.pass.allocate(output_label, s.bytes(s.tokens, out), saved(mode));
  c.pass.free(gathered);
  c.pass.free(now);
  return output;
}

PartialSum row_parallel_forward(const LayerContext& c, ForwardMode mode, const std::string& label,
                                TensorIndex& input, int64_t in, TensorIndex* copy) {
  const Shard& s = c.shard;
  TensorIndex now = quantize_input(c, mode, label, input, s.tokens, in, copy);
  const Work gemm = s.forward_gemm(s.tokens, s.hidden, in);
  PartialSum output{.exchanged = is_pipelined(c)};
  if (output.exchanged) {
    reduced_product(c, label, gemm, s.hidden);
  } else {
    product(c, c.pass, label, gemm);
  }
  output.tensor =
      c.pass.allocate(label + " output", s.bytes(s.tokens, s.hidden), MemoryCategory::workspace);
  c.pass.free(now);
  return output;
}

namespace {

// Of a gathered tensor [tokens, width] with one scale, where tensor cores need it along the other
// dimension too; else kNoTensor.
TensorIndex transpose_gathered(const LayerContext& c, PassWriter& pass, const std::string& label,
                               int64_t width) {
  if (!is_low(c)) return kNoTensor;
  const LowFormat f = low_format(c.shard.plan.precision);
  if (!f.two_copies || f.copied_at_once(true)) return kNoTensor;
  const Phase phase = pass.phase();
  if (&pass != &c.pass) pass.set_phase(Phase::backward_weight);
  const Bytes bytes = f.bytes(c.shard.tokens * width);
  pass.compute(label + " transpose", c.shard.memory_bound(Kernel::quantize, bytes * 2));
  pass.set_phase(phase);
  return pass.allocate(label + " transpose", bytes, MemoryCategory::workspace);
}

}  // namespace

TensorIndex row_parallel_backward(const LayerContext& c, const std::string& label,
                                  BranchGradient branch, TensorIndex& input, int64_t in) {
  const Shard& s = c.shard;
  const bool low = is_low(c);
  const bool wide_own = branch.own;
  if (low) branch.own = true;  // the quantized copy
  TensorIndex now = quantize_gradient(c, label, branch.tensor, wide_own,
                                      s.sequence_split() ? s.own_tokens : s.tokens, s.hidden,
                                      {.gathered = s.sequence_split()});
  TensorIndex full = kNoTensor;
  const Work gemm = s.input_gemm(s.tokens, s.hidden, in);
  const bool pieces = is_pipelined(c) && !low;
  if (s.sequence_split()) {
    const std::string what = label + " gradient all-gather";
    full = pieces ? gathered_product(c, label + " input gradient", what, gemm)
                  : gather(c, what, s.hidden);
    if (branch.own) (branch.bias && !low ? c.weights : c.pass).free(branch.tensor);
    branch.own = false;
    if (now != kNoTensor) {
      // The copy along rows as well.
      c.pass.free(now);
      now = gather(c, what, s.hidden);
    } else if (TensorIndex turned = transpose_gathered(c, c.pass, label + " gradient", s.hidden);
               turned != kNoTensor) {
      now = std::exchange(full, turned);
    }
  }
  if (!pieces) product(c, c.pass, label + " input gradient", gemm);
  const TensorIndex gradient =
      c.pass.allocate(label + " input gradient", s.bytes(s.tokens, in), MemoryCategory::workspace);
  c.pass.free(now);
  weight_gradient(c, label, s.weight_gemm(s.tokens, s.hidden, in));
  c.weights.free(input);
  c.weights.free(full);
  if (branch.own) c.weights.free(branch.tensor);
  return gradient;
}

InputGather gather_input(const LayerContext& c, const std::string& label) {
  const Phase phase = c.weights.phase();
  c.weights.set_phase(Phase::backward_weight);
  InputGather out;
  out.op = start_gather(c, c.weights, label + " input all-gather", c.shard.hidden);
  out.tensor = c.weights.allocate(label + " input gathered",
                                  tp_work(c, WorkKind::all_gather, c.shard.hidden).bytes,
                                  MemoryCategory::communication);
  c.weights.set_phase(phase);
  return out;
}

InputGather gather_input_early(const LayerContext& c, const std::string& label) {
  const bool beside = c.shard.plan.overlap.tp != TpOverlap::none;
  if (!c.split() || !beside || !c.shard.sequence_split()) return {};
  return gather_input(c, label);
}

// Megatron's LinearWithGradAccumulationAndAsyncCommunication: the gather of the saved input runs
// beside the input-gradient GEMM, the reduction of the input gradient beside the weight-gradient
// GEMM.  Split, the reduction has nothing to run beside, and the gather is made by the weight pass.
TensorIndex column_parallel_backward(const LayerContext& c, const std::string& label,
                                     TensorIndex& gradient, TensorIndex& input, int64_t out,
                                     InputGather gathered, OpRole role) {
  const Shard& s = c.shard;
  const bool split = c.split();
  const bool beside = s.plan.overlap.tp != TpOverlap::none && !split;
  const bool gathers = s.sequence_split() && !keeps_gathered_input(c);
  TensorIndex now = quantize_gradient(c, label, gradient, true, s.tokens, out);
  if (gathers && !split) {
    gathered = gather_input(c, label);
    if (!beside) c.pass.join(gathered.op);
  }
  product(c, c.pass, label + " input gradient", s.input_gemm(s.tokens, out, s.hidden), role);
  TensorIndex partial = c.pass.allocate(label + " input gradient", s.bytes(s.tokens, s.hidden),
                                        MemoryCategory::workspace);
  c.pass.free(now);
  TensorIndex result = partial;
  uint32_t reduce_op = 0;
  if (s.split()) {
    const WorkKind kind = s.sequence_split() ? WorkKind::reduce_scatter : WorkKind::all_reduce;
    reduce_op =
        tp(c, label + " input gradient " + (s.sequence_split() ? "reduce-scatter" : "all-reduce"),
           kind, s.hidden);
    if (s.sequence_split()) {
      result = c.pass.allocate(label + " input gradient reduced", s.bytes(s.own_tokens, s.hidden),
                               MemoryCategory::workspace);
    }
    if (!beside) c.pass.join(reduce_op);
  }
  if (gathers && split && gathered.tensor == kNoTensor) gathered = gather_input(c, label);
  if (gathers && (beside || split)) c.weights.join(gathered.op);
  if (gathered.tensor != kNoTensor) {
    TensorIndex turned = transpose_gathered(c, c.weights, label + " input", s.hidden);
    if (turned != kNoTensor) std::swap(turned, gathered.tensor);
    if (turned != kNoTensor) c.weights.free(turned);
  }
  weight_gradient(c, label, s.weight_gemm(s.tokens, out, s.hidden), {.role = role});
  c.weights.free(gathered.tensor);
  c.weights.free(gradient);
  c.weights.free(input);
  if (result != partial) c.pass.free(partial);
  if (s.split() && beside) c.pass.join(reduce_op);
  return result;
}

// ---------------------------------------------------------------------------------- low precision
bool is_low(const LayerContext& c) {
  return c.in_layer && c.shard.plan.precision.scaling != Scaling::none && !c.kind.wide;
}

bool norm_quantizes(const LayerContext& c) {
  return is_low(c) && low_format(c.shard.plan.precision).norm_quantizes;
}

Work linear_work(const LayerContext& c, Work gemm) {
  const Plan& plan = c.shard.plan;
  const bool teacher = plan.teacher && &c.shard.model == &*plan.teacher;
  const bool stored = plan.precision.weights && (teacher || !plan.trains());
  if (stored && gemm.layout == GemmLayout::tn && !is_communication(gemm.kind))
    gemm.bytes = bytes_with_stored_weights(gemm, *plan.precision.weights);
  if (is_low(c)) gemm.dtype = low_format(plan.precision).dtype;
  return gemm;
}

void product(const LayerContext& c, PassWriter& pass, const std::string& label, const Work& gemm,
             OpRole role) {
  if (is_low(c)) {
    const LowFormat f = low_format(c.shard.plan.precision);
    for (const int64_t values : {gemm.m * gemm.k, gemm.k * gemm.n}) {
      if (!f.swizzles) break;
      const Bytes scales = f.scale_bytes_of(values * gemm.batch);
      pass.compute(label + " scales", c.shard.memory_bound(Kernel::quantize, scales * 2));
    }
  }
  pass.compute(label, linear_work(c, gemm), role);
}

namespace {

void join_maxima(const LayerContext& c, const std::string& label, Bytes bytes) {
  if (!c.shard.split()) return;
  Work w = c.shard.collective(WorkKind::all_reduce, 1);
  w.dtype = DType::fp32;
  w.bytes = bytes;
  c.pass.join(c.pass.communicate(Stream::tp, label, w));
}

// A kernel for each tensor of [rows, width], which moves `moved(values)` for as many values.
void quantize_kernel(const LayerContext& c, const std::string& label, int64_t rows, int64_t width,
                     const Conversion& how, const std::function<Bytes(int64_t)>& moved) {
  // One kernel converts the rows of all experts with delayed scaling alone
  // (nvte_multi_cast_transpose).
  const int64_t launches = low_format(c.shard.plan.precision).norm_quantizes ? 1 : how.experts;
  const auto each = [&](int64_t of) { return moved((of * width + launches - 1) / launches); };
  Work work = c.shard.memory_bound(Kernel::quantize, each(rows));
  for (int64_t i = 0; i < launches; ++i) c.pass.compute(label, work);
  if (how.busiest <= rows || each(how.busiest) == work.bytes) return;
  work.kind = WorkKind::expert_wait;
  work.bytes = work.bytes * launches;
  work.busiest = (each(how.busiest) * launches).value;
  how.awaited->push_back(work);
}

void launch_quantize(const LayerContext& c, const std::string& label, int64_t rows, int64_t width,
                     int copies, const Conversion& how) {
  const LowFormat f = low_format(c.shard.plan.precision);
  const auto kernel = [&](const std::string& what, const std::function<Bytes(int64_t)>& moved) {
    quantize_kernel(c, label + what, rows, width, how, moved);
  };
  const auto quantize = [&](const std::string& what, int made) {
    kernel(what, [&f, made, wide = c.shard.plan.precision.params](int64_t values) {
      return quantize_bytes(f, values, wide, made);
    });
  };
  if (f.maximum_first) {
    kernel(" maximum", [&](int64_t values) { return c.shard.bytes(values, 1); });
    // Parts of one tensor have one scale.
    if (how.gathered) join_maxima(c, label + " maximum all-reduce", {kScaleBytes});
    kernel(" scale", [](int64_t) { return Bytes{2 * kScaleBytes}; });
  }
  if (f.own_kernels && copies == 2) {
    quantize(" quantize", 1);
    quantize(" quantize along columns", 1);
  } else {
    quantize(" quantize", copies);
  }
}

}  // namespace

TensorIndex quantize_input(const LayerContext& c, ForwardMode mode, const std::string& label,
                           TensorIndex& input, int64_t rows, int64_t width, TensorIndex* copy,
                           const Conversion& how) {
  if (!is_low(c)) return kNoTensor;
  const LowFormat f = low_format(c.shard.plan.precision);
  const int64_t values = std::max(rows, how.busiest) * width;
  const bool later = mode != ForwardMode::discard;
  const bool both = later && f.copied_at_once(how.gathered);
  const std::string name = label + " input in " + std::string(name_of(f.dtype));
  TensorIndex now = kNoTensor;
  if (input != kNoTensor && how.converted) {
    if (!both) return kNoTensor;  // it is what the weight gradient reads, too
    quantize_kernel(c, label + " input transpose", rows, width, how,
                    [&](int64_t of) { return f.bytes(of) * 2; });
    now = std::exchange(input, c.pass.allocate(name, f.bytes(values), saved(mode)));
    return now;
  }
  launch_quantize(c, label + " input", rows, width, both ? 2 : 1, how);
  TensorIndex kept = kNoTensor;
  if (later) kept = c.pass.allocate(name, f.bytes(values), saved(mode));
  if (!later || both)
    now = c.pass.allocate(name + ", forward", f.bytes(values), MemoryCategory::workspace);
  if (copy == nullptr) c.pass.free(input);
  (copy == nullptr ? input : *copy) = kept;
  return now;
}

TensorIndex quantize_gradient(const LayerContext& c, const std::string& label,
                              TensorIndex& gradient, bool own, int64_t rows, int64_t width,
                              const Conversion& how) {
  if (!is_low(c)) return kNoTensor;
  const LowFormat f = low_format(c.shard.plan.precision);
  const int64_t values = std::max(rows, how.busiest) * width;
  const std::string name = label + " gradient in " + std::string(name_of(f.dtype));
  const bool both = f.copied_at_once(how.gathered);
  if (gradient != kNoTensor && how.converted) {
    if (!both) return kNoTensor;
    quantize_kernel(c, label + " gradient transpose", rows, width, how,
                    [&](int64_t of) { return f.bytes(of) * 2; });
    return std::exchange(gradient,
                         c.pass.allocate(name, f.bytes(values), MemoryCategory::workspace));
  }
  launch_quantize(c, label + " gradient", rows, width, both ? 2 : 1, how);
  const TensorIndex kept = c.pass.allocate(name, f.bytes(values), MemoryCategory::workspace);
  TensorIndex now = kNoTensor;
  if (both)
    now = c.pass.allocate(name + ", input gradient", f.bytes(values), MemoryCategory::workspace);
  if (own) c.pass.free(gradient);
  gradient = kept;
  return now;
}

// Delayed scaling: the maxima of a pass are joined over the ranks that share a tensor when the
// pass ends, and become scales (reduce_and_update_fp8_tensors).
void update_scales(const LayerContext& c, int64_t layers, int tensors) {
  if (c.shard.plan.precision.scaling != Scaling::delayed || layers == 0) return;
  const Bytes bytes{layers * tensors * kScaleBytes};
  join_maxima(c, "maxima all-reduce", bytes);
  c.pass.compute("scale update", c.shard.memory_bound(Kernel::quantize, bytes * 2));
}

}  // namespace stepcast
