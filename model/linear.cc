// SPDX-License-Identifier: Apache-2.0
// Linear layers: their collectives, the gradients of their weights, and the reduction of these by
// bucket.
#include <string>
#include <utility>

#include "model/low_precision.h"
#include "model/stage_writer.h"

namespace stepcast {

// Sums are made in Precision::params, gathers move what the next product reads.
Work StageWriter::tp_work(WorkKind kind, int64_t width) const {
  Work w = s_.collective(kind, width);
  if (low() && kind == WorkKind::all_gather) {
    w = linear(w);
    w.bytes = low_format(s_.plan.precision).bytes(s_.tokens * width);
  }
  return w;
}

uint32_t StageWriter::tp(PassWriter& pass, const std::string& label, WorkKind kind, int64_t width) {
  return pass.communicate(Stream::tp, label, tp_work(kind, width));
}

TensorIndex StageWriter::gather(const std::string& label, int64_t width) {
  const uint32_t op = tp(label, WorkKind::all_gather, width);
  p_.join(op);
  return p_.allocate(label, tp_work(WorkKind::all_gather, width).bytes,
                     MemoryCategory::communication);
}

TensorIndex StageWriter::reduce(const std::string& label, TensorIndex partial, int64_t width,
                                MemoryCategory category) {
  if (!s_.split()) return partial;
  if (!s_.sequence_split()) {
    p_.join(tp(label + " all-reduce", WorkKind::all_reduce, width));
    return partial;
  }
  if (std::exchange(exchanged_, false)) {
    // The pieces of all ranks, one after the other.
    p_.compute(label + " sum", s_.memory_bound(Kernel::add, s_.bytes(s_.tokens, width) +
                                                                s_.bytes(s_.own_tokens, width)));
  } else {
    p_.join(tp(label + " reduce-scatter", WorkKind::reduce_scatter, width));
  }
  const TensorIndex own = p_.allocate(label + " reduced", s_.bytes(s_.own_tokens, width), category);
  p_.free(partial);
  return own;
}

// ---------------------------------------------------------------------------- gradients of weights
void StageWriter::weight_gradient(const std::string& label, const Work& gemm, bool wide) {
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  const bool buffered = buckets_.layers.buffered;
  Work own_gradient = gemm;
  if (buffered) own_gradient.accumulate = false;
  if (wide) {
    w_.compute(label + " weight gradient", own_gradient);
  } else {
    product(w_, label + " weight gradient", own_gradient);
  }
  const int64_t weights = gemm.m * gemm.n;
  if (!buffered && !s_.plan.kernels.gradient_accumulation_fusion) {
    // The GEMM wrote a gradient of its own, which is then added to the main gradient.
    const Bytes own = s_.bytes(gemm.m, gemm.n);
    TensorIndex gradient = w_.allocate(label + " weight gradient", own, MemoryCategory::workspace);
    w_.compute(label + " gradient accumulation",
               s_.memory_bound(Kernel::add,
                               own + s_.bytes(gemm.m, gemm.n, s_.plan.precision.gradients) * 2));
    w_.free(gradient);
  }
  w_.set_phase(phase);
  reduce_after(weights);
}

void StageWriter::bias_gradient(const std::string& label, int64_t rows, int64_t width) {
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  w_.compute(label + " bias gradient",
             s_.memory_bound(Kernel::bias_backward, s_.bytes(rows, width)));
  w_.set_phase(phase);
  reduce_after(width);
}

void StageWriter::reduce_after(int64_t parameters) {
  if (incomplete_) {
    if (!buckets_.ends_apart || !s_.model.tied || buckets_.tied_counted) return;
    buckets_.tied_counted = true;
  }
  const bool ends = buckets_.ends_apart && !in_layer_;
  add_gradient(ends ? buckets_.ends : buckets_.layers, s_, w_, parameters);
}

void StageWriter::flush_gradients() {
  reduce_rest(buckets_.layers, s_, w_);
  reduce_rest(buckets_.experts, s_, w_);
  if (buckets_.ends_apart) reduce_rest(buckets_.ends, s_, w_);
}

// ----------------------------------------------------------------------------------- linear layers
TensorIndex StageWriter::column_parallel_forward(const std::string& label,
                                                 const std::string& output_label,
                                                 TensorIndex& input, int64_t out,
                                                 TensorIndex* copy) {
  TensorIndex now = quantize_input(label, input, s_.own_tokens, s_.hidden, copy,
                                   {.gathered = s_.sequence_split()});
  TensorIndex gathered = kNoTensor;
  const Work gemm = s_.forward_gemm(s_.tokens, out, s_.hidden);
  if (pipelined()) {
    gathered = gathered_product(label, label + " all-gather", gemm);
  } else {
    if (s_.sequence_split()) gathered = gather(label + " all-gather", s_.hidden);
    product(p_, label, gemm);
  }
  const TensorIndex output = p_.allocate(output_label, s_.bytes(s_.tokens, out), saved());
  p_.free(gathered);
  p_.free(now);
  return output;
}

TensorIndex StageWriter::row_parallel_forward(const std::string& label, TensorIndex& input,
                                              int64_t in, TensorIndex* copy) {
  TensorIndex now = quantize_input(label, input, s_.tokens, in, copy);
  const Work gemm = s_.forward_gemm(s_.tokens, s_.hidden, in);
  if (pipelined()) {
    reduced_product(label, gemm, s_.hidden);
  } else {
    product(p_, label, gemm);
  }
  const TensorIndex output =
      p_.allocate(label + " output", s_.bytes(s_.tokens, s_.hidden), MemoryCategory::workspace);
  p_.free(now);
  return output;
}

TensorIndex StageWriter::row_parallel_backward(const std::string& label, BranchGradient branch,
                                               TensorIndex& input, int64_t in) {
  const Shard& s = s_;
  const bool wide_own = branch.own;
  if (low()) branch.own = true;  // the quantized copy
  TensorIndex now = quantize_gradient(label, branch.tensor, wide_own,
                                      s.sequence_split() ? s.own_tokens : s.tokens, s.hidden,
                                      {.gathered = s.sequence_split()});
  TensorIndex full = kNoTensor;
  const Work gemm = s.input_gemm(s.tokens, s.hidden, in);
  const bool pieces = pipelined() && !low();
  if (s.sequence_split()) {
    const std::string what = label + " gradient all-gather";
    full =
        pieces ? gathered_product(label + " input gradient", what, gemm) : gather(what, s.hidden);
    if (branch.own) (branch.bias && !low() ? w_ : p_).free(branch.tensor);
    branch.own = false;
    if (now != kNoTensor) {
      // The copy along rows as well.
      p_.free(now);
      now = gather(label + " gradient all-gather", s.hidden);
    } else if (TensorIndex turned = transpose_gathered(p_, label + " gradient", s.hidden);
               turned != kNoTensor) {
      now = std::exchange(full, turned);
    }
  }
  if (!pieces) product(p_, label + " input gradient", gemm);
  const TensorIndex gradient =
      p_.allocate(label + " input gradient", s.bytes(s.tokens, in), MemoryCategory::workspace);
  p_.free(now);
  weight_gradient(label, s.weight_gemm(s.tokens, s.hidden, in));
  w_.free(input);
  w_.free(full);
  if (branch.own) w_.free(branch.tensor);
  return gradient;
}

InputGather StageWriter::gather_input(const std::string& label) {
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  InputGather out;
  out.op = tp(w_, label + " input all-gather", WorkKind::all_gather, s_.hidden);
  out.tensor =
      w_.allocate(label + " input gathered", tp_work(WorkKind::all_gather, s_.hidden).bytes,
                  MemoryCategory::communication);
  w_.set_phase(phase);
  return out;
}

InputGather StageWriter::gather_input_early(const std::string& label) {
  const bool beside = s_.plan.overlap.tp != TpOverlap::none;
  if (!split_ || !beside || !s_.sequence_split()) return {};
  return gather_input(label);
}

// Megatron's LinearWithGradAccumulationAndAsyncCommunication: the gather of the saved input runs
// beside the input-gradient GEMM, the reduction of the input gradient beside the weight-gradient
// GEMM.  Split, the reduction has nothing to run beside, and the gather is made by the weight pass.
TensorIndex StageWriter::column_parallel_backward(const std::string& label, TensorIndex& gradient,
                                                  TensorIndex& input, int64_t out,
                                                  InputGather gathered) {
  const Shard& s = s_;
  const bool beside = s.plan.overlap.tp != TpOverlap::none && !split_;
  TensorIndex now = quantize_gradient(label, gradient, true, s.tokens, out);
  if (s.sequence_split() && !split_) {
    gathered = gather_input(label);
    if (!beside) p_.join(gathered.op);
  }
  product(p_, label + " input gradient", s.input_gemm(s.tokens, out, s.hidden));
  TensorIndex partial = p_.allocate(label + " input gradient", s.bytes(s.tokens, s.hidden),
                                    MemoryCategory::workspace);
  p_.free(now);
  TensorIndex result = partial;
  uint32_t reduce_op = 0;
  if (s.split()) {
    const WorkKind kind = s.sequence_split() ? WorkKind::reduce_scatter : WorkKind::all_reduce;
    reduce_op =
        tp(label + " input gradient " + (s.sequence_split() ? "reduce-scatter" : "all-reduce"),
           kind, s.hidden);
    if (s.sequence_split()) {
      result = p_.allocate(label + " input gradient reduced", s.bytes(s.own_tokens, s.hidden),
                           MemoryCategory::workspace);
    }
    if (!beside) p_.join(reduce_op);
  }
  if (s.sequence_split() && split_ && gathered.tensor == kNoTensor) gathered = gather_input(label);
  if (s.sequence_split() && (beside || split_)) w_.join(gathered.op);
  if (gathered.tensor != kNoTensor) {
    TensorIndex turned = transpose_gathered(w_, label + " input", s.hidden);
    if (turned != kNoTensor) std::swap(turned, gathered.tensor);
    if (turned != kNoTensor) w_.free(turned);
  }
  weight_gradient(label, s.weight_gemm(s.tokens, out, s.hidden));
  w_.free(gathered.tensor);
  w_.free(gradient);
  w_.free(input);
  if (result != partial) p_.free(partial);
  if (s.split() && beside) p_.join(reduce_op);
  return result;
}

}  // namespace stepcast
