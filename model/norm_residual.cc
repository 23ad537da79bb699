// SPDX-License-Identifier: Apache-2.0
// Norms, and the residual stream around attention and MLP.
#include <string>
#include <utility>

#include "model/low_precision.h"
#include "model/stage_writer.h"

namespace stepcast {
namespace {

// RMSNorm by PyTorch's operators, as Aleph-Alpha/scaling has it
// (src/scaling/core/nn/norm/rms_norm.py): x * rsqrt(mean(x^2) + eps), to fp32 and back, * weight.
void split_norm_forward(PassWriter& p, const Shard& s, const std::string& label, int64_t count,
                        int64_t width) {
  const Bytes x = s.bytes(count, width), rows = s.bytes(count, 1);
  const Bytes wide = s.bytes(count, width, DType::fp32);
  const auto op = [&](const char* what, Kernel kernel, Bytes moved) {
    p.compute(label + what, s.memory_bound(kernel, moved));
  };
  op(" square", Kernel::scale, x * 2);
  op(" mean", Kernel::scale, x + rows);
  op(" epsilon", Kernel::scale, rows * 2);
  op(" inverse root", Kernel::scale, rows * 2);
  op(" product", Kernel::scale, x * 2 + rows);
  op(" to fp32", Kernel::cast, x + wide);
  TensorIndex copy = p.allocate(label + " in fp32", wide, MemoryCategory::workspace);
  op(" from fp32", Kernel::cast, wide + x);
  p.free(copy);
  op(" weight", Kernel::scale, x * 2);
}

// Its gradient, operator by operator from the last to the first.
void split_norm_backward(PassWriter& p, const Shard& s, const std::string& label, int64_t count,
                         int64_t width) {
  const Bytes x = s.bytes(count, width), rows = s.bytes(count, 1);
  const Bytes wide = s.bytes(count, width, DType::fp32);
  const auto op = [&](const char* what, Kernel kernel, Bytes moved) {
    p.compute(label + what, s.memory_bound(kernel, moved));
  };
  op(" weight backward", Kernel::scale, x * 2);
  op(" weight gradient", Kernel::add, x * 3);
  op(" weight gradient sum", Kernel::bias_backward, x);
  op(" from fp32 backward", Kernel::cast, x + wide);
  op(" to fp32 backward", Kernel::cast, wide + x);
  op(" product backward", Kernel::scale, x * 2 + rows);
  op(" factor gradient", Kernel::add, x * 3);
  op(" factor gradient sum", Kernel::scale, x + rows);
  op(" inverse root backward", Kernel::scale, rows * 3);
  op(" mean backward", Kernel::scale, rows + x);
  op(" square backward twice", Kernel::scale, x * 2);
  op(" square backward", Kernel::add, x * 3);
  op(" gradient sum", Kernel::add, x * 3);
}

}  // namespace

// One kernel: reads the input, writes the output and, for the backward, fp32 statistics of each row
// (mean and inverse deviation; the inverse root mean square alone for RMSNorm).
void StageWriter::norm_forward(const std::string& label, TensorIndex& statistics,
                               TensorIndex& output, int64_t rows, int64_t width, bool into_linear) {
  const bool rms = s_.model.norm == Norm::rms_norm;
  const Bytes row_bytes = s_.bytes(rows, width);
  Bytes out = row_bytes;
  const bool quantizes = into_linear && low() && low_format(s_.plan.precision).norm_quantizes;
  if (quantizes) out = low_format(s_.plan.precision).bytes(rows * width);
  const bool split = rms && !s_.plan.kernels.fused_norm;
  if (split) {
    split_norm_forward(p_, s_, label, rows, width);
  } else {
    p_.compute(label,
               s_.memory_bound(rms ? Kernel::rms_norm : Kernel::layer_norm, row_bytes + out));
  }
  output = p_.allocate(label + " output", out, saved());
  if (quantizes) converted_ = output;
  // By operators the product with the weight keeps its other factor.
  const Bytes kept =
      split ? row_bytes + s_.bytes(rows, 1) : s_.bytes(rows, rms ? 1 : 2, DType::fp32);
  statistics = p_.allocate("norm statistics", kept, saved());
}

void StageWriter::need_norm(const std::string& label, TensorIndex& output, bool into_linear) {
  if (output != kNoTensor || !recomputes(&RecomputeModules::norms)) return;
  const Phase phase = p_.phase();
  const ForwardMode mode = std::exchange(mode_, ForwardMode::recompute);
  p_.set_phase(Phase::recompute);
  TensorIndex statistics = kNoTensor;  // they were kept
  norm_forward(label, statistics, output, s_.own_tokens, s_.hidden, into_linear);
  p_.free(statistics);
  if (into_linear) {
    TensorIndex now = quantize_input(label, output, s_.own_tokens, s_.hidden, nullptr,
                                     {.gathered = s_.sequence_split()});
    p_.free(now);
  }
  p_.set_phase(phase);
  mode_ = mode;
}

void StageWriter::norm_backward(const std::string& label, int64_t rows, int64_t width) {
  const bool rms = s_.model.norm == Norm::rms_norm;
  if (rms && !s_.plan.kernels.fused_norm) {
    split_norm_backward(p_, s_, label, rows, width);
  } else {
    // Reads the output gradient and the input, writes the input gradient.
    p_.compute(label + " backward",
               s_.memory_bound(rms ? Kernel::rms_norm_backward : Kernel::layer_norm_backward,
                               s_.bytes(rows, width) * 3));
  }
  reduce_after(rms || !s_.model.norm_bias ? width : 2 * width);
}

// bias + dropout + residual.  Frees the branch; returns the new residual stream.
TensorIndex StageWriter::add_residual(const std::string& label, TensorIndex& branch,
                                      TensorIndex* mask, bool bias) {
  const Bytes stream = s_.bytes(s_.own_tokens, s_.hidden);
  const Bytes mask_bytes = s_.bytes(s_.own_tokens, s_.hidden, DType::uint8);
  const bool dropout = s_.model.hidden_dropout > 0;
  const std::string name = label + " residual";
  if (dropout && s_.plan.kernels.fused_bias_dropout_add) {
    p_.compute(name, s_.memory_bound(Kernel::bias_dropout_add, stream * 3 + mask_bytes));
  } else {
    if (bias && !s_.plan.kernels.fused_bias_dropout_add) {
      p_.compute(label + " bias", s_.memory_bound(Kernel::bias_add, stream * 2));
    }
    if (dropout) {
      p_.compute(label + " dropout", s_.memory_bound(Kernel::dropout, stream * 2 + mask_bytes));
    }
    p_.compute(name, s_.memory_bound(Kernel::add, stream * 3));
  }
  const TensorIndex out = p_.allocate("residual stream", stream, saved());
  if (dropout) {
    *mask = p_.allocate(label + " dropout mask", mask_bytes, saved());
  }
  p_.free(branch);
  return out;
}

BranchGradient StageWriter::branch_gradient(const std::string& label, TensorIndex& gradient,
                                            TensorIndex& mask, bool bias) {
  const Bytes stream = s_.bytes(s_.own_tokens, s_.hidden);
  BranchGradient branch{.tensor = gradient, .bias = bias};
  if (s_.model.hidden_dropout > 0) {
    p_.compute(label + " dropout backward",
               s_.memory_bound(Kernel::bias_dropout_add_backward,
                               stream * 2 + s_.bytes(s_.own_tokens, s_.hidden, DType::uint8)));
    branch.tensor = p_.allocate(label + " branch gradient", stream, MemoryCategory::workspace);
    branch.own = true;
    p_.free(mask);
  } else if (split_ && (bias || !(s_.sequence_split() || low()))) {
    // With a split sequence the weight gradient reads the gathered copy instead, in low precision
    // the quantized one.
    branch.own = true;
    gradient = kNoTensor;
  }
  if (bias) bias_gradient(label, s_.own_tokens, s_.hidden);
  return branch;
}

void StageWriter::add_residual_gradient(const std::string& label, TensorIndex& branch,
                                        TensorIndex& gradient) {
  const Bytes stream = s_.bytes(s_.own_tokens, s_.hidden);
  p_.compute(label + " residual gradient", s_.memory_bound(Kernel::add, stream * 3));
  if (gradient == kNoTensor) {
    gradient = p_.allocate("residual gradient", stream, MemoryCategory::workspace);
  }
  p_.free(branch);
}

}  // namespace stepcast
