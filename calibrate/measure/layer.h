// SPDX-License-Identifier: Apache-2.0
// One transformer layer, forward and backward in a loop: do its kernels run inside a step as fast
// as they do alone?
//
// Tables hold times of single kernels.  Inside a step a kernel finds some of its operands in the L2
// cache and the clocks where steady load has pulled them; nothing in a table says what that comes
// to. So the program runs the kernels of one layer one after the other, again and again, and each
// of them by itself as the tables' rows are measured, and prints both:
//
//   kernel           work                               alone us   in the loop us   ratio
//   up               gemm 4096x28672x4096 bf16 tn         1480.2           1571.3   1.062
//
// The layer is a decoder's as in Llama: RMS norms, rotary positions, fused causal attention with
// grouped queries, no biases, no dropout, an MLP with a gate (SiLU) or without (GELU); bf16, weight
// gradients added to fp32.  What stands here needs no CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/work.h"

namespace stepcast::measure {

struct LayerShape {
  int64_t hidden = 4096;
  int64_t heads = 32;
  int64_t kv_heads = 8;
  int64_t ffn = 14336;
  int64_t seq = 4096;
  int64_t micro = 1;  // sequences of a microbatch
  bool gated = true;

  int64_t head_dim() const { return hidden / heads; }
  int64_t tokens() const { return micro * seq; }
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  int64_t up_width() const { return gated ? 2 * ffn : ffn; }
};

// The kernels of the layer in the order in which a framework launches them.
enum class LayerKernel : uint8_t {
  norm1,
  qkv,
  rotary,
  attention,
  projection,
  residual1,
  norm2,
  up,
  activation,
  down,
  residual2,
  down_input_gradient,
  down_weight_gradient,
  activation_backward,
  up_input_gradient,
  up_weight_gradient,
  norm2_backward,
  residual2_backward,
  projection_input_gradient,
  projection_weight_gradient,
  attention_backward,
  rotary_backward,
  qkv_input_gradient,
  qkv_weight_gradient,
  norm1_backward,
  residual1_backward,
};
constexpr int kLayerKernels = 26;
std::string_view name_of(LayerKernel k);

// What each of them does, by LayerKernel: bytes and FLOPs as the forecast counts them (model/).
// REQUIRES: a shape that check_layer takes.
std::vector<Work> layer_works(const LayerShape& shape);

// Throws InputError: a size below 1 or above 2^30, heads that do not divide, a head dimension that
// is no multiple of 16 up to 256, a width that is no multiple of 8 (loads of 16 bytes) or that a
// norm cannot hold (16384), a tensor of more than 2^40 values.
void check_layer(const LayerShape& shape);

struct LayerRun {
  LayerShape shape;
  int64_t loops = 50;  // that are timed
  int device = 0;
  bool help = false;
};

// "--hidden 4096 --seq 8192 ...".  Throws InputError as check_layer, and for options that are
// unknown, stand twice, lack their value or have no number.
LayerRun parse_layer_run(std::span<const std::string> arguments);
std::string layer_usage();

struct LayerTimes {
  double loop_us = 0;  // median time of one forward and backward, launched as one CUDA graph
  double spread = 0;   // interquartile range over median
  // By LayerKernel: in a table's row (0: it could not be measured), and between its neighbours.
  std::vector<double> alone_us, inside_us;
};

// The table that a user sees: a line a kernel, then sums of matrix products, attention and kernels
// bound by memory, then the loop as a whole.  REQUIRES: kLayerKernels times of both kinds.
std::string layer_text(const LayerShape& shape, const LayerTimes& times);

}  // namespace stepcast::measure
