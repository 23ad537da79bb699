// SPDX-License-Identifier: Apache-2.0
// How a model is trained: the parallel layout, the batch, precision, recomputation, optimizer and
// kernels.
//
// Plain data, complete: every default has been filled in by whoever made it (scenarios/).  Words as
// in Megatron-LM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/rank_grid.h"
#include "sim/units.h"
#include "sim/work.h"

namespace stepcast {

// What one global pipeline stage holds, in order.  Megatron's layout string "E|(t|)*3,m|m||L" in
// words.
struct StageContent {
  int64_t layers = 0;
  bool embedding = false;
  bool head = false;  // final norm, head and loss
  auto operator<=>(const StageContent&) const = default;
};

enum class Recompute : uint8_t { none, selective, full };
enum class RecomputeMethod : uint8_t { uniform, block };

struct Precision {
  DType params = DType::bf16;     // what forward and backward compute with
  DType gradients = DType::fp32;  // main gradient buffer
  DType reduce = DType::fp32;     // payload of the gradient reduction
  bool master = true;             // fp32 copy of the parameters in the optimizer
  DType moments = DType::fp32;    // Adam's two moments
};

// Which kernels the framework launches: properties of the op inventory, not factors.
struct Kernels {
  bool flash_attention = true;  // else scores, softmax, dropout and context as kernels of their own
  bool fused_bias = false;      // biases of linear layers inside the GEMM (cuBLASLt epilogue)
  bool fused_bias_dropout_add = true;
  bool fused_activation = true;  // bias + GELU, or SiLU + product, in one kernel
  bool fused_softmax = true;     // scale + mask + softmax
  bool fused_cross_entropy =
      false;  // one kernel each way; else the chain of vocabulary-parallel kernels
  bool gradient_accumulation_fusion =
      true;  // weight gradient GEMMs add into the fp32 buffer themselves
};

enum class TpOverlap : uint8_t {
  none,      // every tensor-parallel collective is waited for where it is issued
  backward,  // Megatron's default: backward collectives run beside the weight- and input-gradient
             // GEMMs
};

struct Overlap {
  TpOverlap tp = TpOverlap::backward;
  bool dp_grad = false;   // gradient reduction by bucket, beside the last backward
  bool dp_param = false;  // parameter all-gather beside the first forward
};

struct Plan {
  // Layout.  world = tp * cp * pp * dp.
  int64_t tp = 1, cp = 1, ep = 1, etp = 1, dp = 1, pp = 1;
  int64_t vpp = 1;                   // chunks of each pipeline rank
  bool sp = false;                   // sequence parallelism in the tensor-parallel group
  int zero = 0;                      // 0: replicated, 1: optimizer state sharded over dp
  std::vector<StageContent> stages;  // pp * vpp of them; the schedule places them
  RankGrid grid{};                   // placement of the ranks

  // Batch, in sequences.
  int64_t global_batch = 1;
  int64_t micro_batch = 1;
  int64_t seq = 0;  // tokens
  // Microbatches that pass through the pipeline in pieces of equal length along the sequence
  // (Seq1F1B), and which of them passes are written for: its queries see the keys of all pieces up
  // to its own.  REQUIRES: seq_pieces divides seq, piece < seq_pieces.
  int64_t seq_pieces = 1;
  int64_t piece = 0;
  int64_t microbatches() const { return global_batch / (micro_batch * dp); }

  Precision precision;
  Recompute recompute = Recompute::none;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  int64_t recompute_layers =
      1;  // uniform: layers of one checkpointed unit; block: layers recomputed a stage
  Kernels kernels;
  Overlap overlap;
  int64_t bucket_parameters =
      0;  // gradient bucket of overlapped reduction; 0 = Megatron's max(40e6, 1e6 dp)
  bool clip_gradients = true;  // global gradient norm before the optimizer
};

// Layers spread evenly; embedding on the first, head on the last stage.  REQUIRES: layers divisible
// by pp * vpp.
std::vector<StageContent> even_stages(int64_t layers, int64_t pp, int64_t vpp);

// Megatron's --pipeline-model-parallel-layout: '|' separates stages, E embedding, t layer, L loss,
// m MTP,
// "(...)*n" and "x*n" repeat, ',' is decoration.  Throws std::invalid_argument with a sentence for
// the user.
std::vector<StageContent> parse_layout(const std::string& text);

}  // namespace stepcast
