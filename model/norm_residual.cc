// SPDX-License-Identifier: Apache-2.0
// Norms, and the residual stream around attention and MLP.
#include <string>

#include "model/low_precision.h"
#include "model/stage_writer.h"

namespace stepcast {

// One kernel: reads the input, writes the output and, for the backward, fp32 statistics of each row
// (mean and inverse deviation; the inverse root mean square alone for RMSNorm).
void StageWriter::norm_forward(const std::string& label, TensorIndex& statistics,
                               TensorIndex& output, int64_t rows, int64_t width, bool into_linear) {
  const bool rms = s_.model.norm == Norm::rms_norm;
  const Bytes row_bytes = s_.bytes(rows, width);
  Bytes out = row_bytes;
  const bool quantizes = into_linear && low() && low_format(s_.plan.precision).norm_quantizes;
  if (quantizes) out = low_format(s_.plan.precision).bytes(rows * width);
  p_.compute(label, s_.memory_bound(rms ? Kernel::rms_norm : Kernel::layer_norm, row_bytes + out));
  output = p_.allocate(label + " output", out, saved());
  if (quantizes) normed_ = output;
  statistics = p_.allocate("norm statistics", s_.bytes(rows, rms ? 1 : 2, DType::fp32), saved());
}

void StageWriter::norm_backward(const std::string& label, int64_t rows, int64_t width) {
  const bool rms = s_.model.norm == Norm::rms_norm;
  // Reads the output gradient and the input, writes the input gradient.
  p_.compute(label + " backward",
             s_.memory_bound(rms ? Kernel::rms_norm_backward : Kernel::layer_norm_backward,
                             s_.bytes(rows, width) * 3));
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
