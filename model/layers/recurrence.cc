// SPDX-License-Identifier: Apache-2.0
// A recurrent mixer in place of attention: Mamba-2 (Dao and Gu 2024, arXiv 2405.21060) and the
// gated delta rule (Yang et al. 2024, arXiv 2412.06464), with its norm and residual.
//
// Norm; one projection to a gate, values, keys and queries (C and B of a state space), and what
// each head decays and writes by; a short causal convolution with SiLU; the scan; a norm of its
// output times the gate; projection and residual.  Both projections are split over tp as those of
// an MLP, everything between them by heads (Megatron-LM, core/ssm/mamba_mixer.py and
// gated_delta_net/).
//
// The scan goes over chunks of Recurrence::chunk tokens, so that nearly all of it are products
// (arXiv 2405.21060, section 6, listing 1; arXiv 2412.06464, section 3.3, eq. 16-19).  Each is
// priced as a batched product of its shape that moves the bytes of its operands once; what carries
// states from chunk to chunk, as the kernels bound by memory that they are.  Not priced: that a
// state waits for the one of the chunk before, which matters where a rank has few heads and
// sequences.
//
// In the backward each product has two of the same size, which move the same three tensors; before
// them some of the forward's are made again by the kernels themselves: of mamba_ssm's
// mamba_split_conv1d_scan_combined convolution, states and the product of B and C, so that of its
// forward only input projection and output are kept; of flash-linear-attention's
// chunk_gated_delta_rule W, U and the states, while the inverse of each chunk is kept.
#include <string>
#include <utility>
#include <vector>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

// This rank's share of the mixer.
struct RecurrentShard {
  const Shard& s;
  const Recurrence& r;
  bool space;  // of a state space; else the delta rule
  int64_t heads, groups;
  int64_t values, keys;  // widths of all heads and groups
  int64_t channels;      // of the convolution
  int64_t in;            // of the projection
  int64_t chunk, chunks;

  explicit RecurrentShard(const LayerContext& c)
      : s(c.shard),
        r(s.model.recurrence),
        space(c.kind.mixer == Mixer::mamba2),
        heads(r.heads / s.plan.tp),
        groups(r.groups / s.plan.tp),
        values(heads * r.head_dim),
        keys(groups * r.state),
        channels(recurrent_channels(s.model) / s.plan.tp),
        in(recurrent_input_width(s.model, c.kind.mixer) / s.plan.tp),
        chunk(std::min(r.chunk, s.seq)),
        chunks((s.tokens + chunk - 1) / chunk) {}

  Bytes narrow(int64_t width) const { return s.bytes(s.tokens, width); }
  Bytes wide(int64_t width) const { return s.bytes(s.tokens, width, DType::fp32); }
  // The states of all heads before each chunk; a space's in fp32.
  Bytes states() const {
    return s.bytes(chunks * heads * r.head_dim, r.state,
                   space ? DType::fp32 : s.plan.precision.params);
  }
};

// One product of the scan, for each chunk of each head or group.
struct ScanProduct {
  const char* label;
  int64_t m, n, k, batch;
  Bytes moved;
  bool again = false;  // the backward makes it once more
};

// The products that two of the mixers are made of.  Of a state space, X is [chunk, head_dim], B and
// C are [chunk, state]: C B' of each group; the state B' X that a chunk adds; and the output,
// (mask * C B') X + C S, as one product over chunk + state.
std::vector<ScanProduct> space_products(const RecurrentShard& x) {
  const int64_t q = x.chunk, n = x.r.state, p = x.r.head_dim;
  const Bytes scores = x.wide(x.groups * q);
  return {
      {"chunk states", p, n, q, x.chunks * x.heads, x.narrow(x.values + x.keys) + x.states(), true},
      {"chunk scores", q, q, n, x.chunks * x.groups, x.narrow(2 * x.keys) + scores, true},
      {"chunk scan", q, p, q + n, x.chunks * x.heads,
       scores + x.narrow(2 * x.values + x.keys) + x.states()}};
}

// Of the delta rule, with keys and queries of each head: K K'; W and U from the inverse T of its
// triangle, T [K V]; what the state holds of W; what a chunk adds to it, K' (U - W S); Q K'; and
// the output, Q S + (mask * Q K') (U - W S), as one product.
std::vector<ScanProduct> delta_products(const RecurrentShard& x) {
  const int64_t q = x.chunk, n = x.r.state, p = x.r.head_dim, all = x.chunks * x.heads;
  const int64_t of_keys = x.heads * n;
  return {
      {"key products", q, q, n, all, x.narrow(of_keys) + x.wide(x.heads * q)},
      {"chunk W and U", q, n + p, q, all, x.narrow(2 * (of_keys + x.values) + x.heads * q), true},
      {"held by the state", q, p, n, all, x.narrow(of_keys + 2 * x.values) + x.states(), true},
      {"chunk states", n, p, q, all, x.narrow(of_keys + x.values) + x.states(), true},
      {"query products", q, q, n, all, x.narrow(2 * of_keys)},
      {"chunk outputs", q, p, n + q, all, x.narrow(2 * x.values) + x.states()}};
}

std::vector<ScanProduct> scan_products(const RecurrentShard& x) {
  return x.space ? space_products(x) : delta_products(x);
}

Work scan_work(const RecurrentShard& x, const ScanProduct& p) {
  Work w = x.s.forward_gemm(p.m, p.n, p.k);
  w.batch = p.batch;
  w.flops = w.flops * static_cast<double>(p.batch);
  w.bytes = p.moved;
  return w;
}

void convolve(const LayerContext& c, const RecurrentShard& x) {
  if (x.r.conv == 0) return;
  c.pass.compute("convolution", x.s.memory_bound(Kernel::activation, x.narrow(2 * x.channels)));
}

// What the kernels of the scan keep.
void scan_forward(const LayerContext& c, ForwardMode mode, SavedRecurrence& t) {
  const RecurrentShard x(c);
  const Shard& s = c.shard;
  convolve(c, x);
  t.convolved = c.pass.allocate("convolution output", x.narrow(x.channels), saved(mode));
  if (x.space) {
    c.pass.compute("decays",
                   s.memory_bound(Kernel::scale, x.narrow(x.heads) + x.wide(2 * x.heads)));
  } else {
    // Norms of queries and keys, which all heads of a group get; decays and gates.
    const int64_t spread = 2 * x.heads * x.r.state + x.values;
    c.pass.compute("decays and norms",
                   s.memory_bound(Kernel::rms_norm,
                                  x.narrow(x.channels + spread + 3 * x.heads) + x.wide(x.heads)));
    t.spread = c.pass.allocate("queries, keys, values", x.narrow(spread + x.values), saved(mode));
  }
  t.decays = c.pass.allocate("decays", x.wide(2 * x.heads), saved(mode));
  TensorIndex states = kNoTensor;
  for (const ScanProduct& p : scan_products(x)) {
    c.pass.compute(p.label, scan_work(x, p));
    if (states == kNoTensor)
      states = c.pass.allocate("chunk states", x.states(), MemoryCategory::workspace);
    if (!x.space && t.inverse == kNoTensor) {
      // Inverting the triangle takes chunk / 3 multiply-adds for each of its numbers, 1 % of the
      // scan's.
      c.pass.compute(
          "chunk inverse",
          s.memory_bound(Kernel::scale, x.wide(x.heads * x.chunk) + x.narrow(x.heads * x.chunk)));
      t.inverse = c.pass.allocate("chunk inverse", x.narrow(x.heads * x.chunk), saved(mode));
    }
  }
  c.pass.compute("state passing", s.memory_bound(Kernel::scale, x.states() * 2));
  t.scanned = c.pass.allocate("scan output", x.narrow(x.values), saved(mode));
  c.pass.free(states);
  // mamba_ssm makes both again; the delta rule's kernels read theirs.
  if (x.space || mode == ForwardMode::discard) {
    c.pass.free(t.convolved);
    c.pass.free(t.decays);
  }
  if (mode == ForwardMode::discard) {
    c.pass.free(t.spread);
    c.pass.free(t.inverse);
  }
}

// In: the gradient of the scan's output.  Returns that of the projection's.
TensorIndex scan_backward(const LayerContext& c, SavedRecurrence& t, TensorIndex& gradient) {
  const RecurrentShard x(c);
  const Shard& s = c.shard;
  const std::vector<ScanProduct> products = scan_products(x);
  if (x.space) {
    convolve(c, x);
    t.convolved =
        c.pass.allocate("convolution output", x.narrow(x.channels), MemoryCategory::workspace);
    c.pass.compute("decays",
                   s.memory_bound(Kernel::scale, x.narrow(x.heads) + x.wide(2 * x.heads)));
  }
  TensorIndex states = kNoTensor;
  for (const ScanProduct& p : products) {
    if (!p.again) continue;
    c.pass.compute(std::string(p.label) + " again", scan_work(x, p));
    if (states == kNoTensor)  // they and their gradients
      states = c.pass.allocate("chunk states", x.states() * 2, MemoryCategory::workspace);
  }
  c.pass.compute("state passing", s.memory_bound(Kernel::scale, x.states() * 2));
  for (auto p = products.rbegin(); p != products.rend(); ++p) {
    const std::string label = std::string(p->label) + " gradient";
    ScanProduct left = *p, right = *p;  // [m, n] [n, k] and [k, m] [m, n]
    std::swap(left.n, left.k);
    std::swap(right.m, right.k);
    c.pass.compute(label, scan_work(x, left));
    c.pass.compute(label, scan_work(x, right));
  }
  c.pass.compute("state passing backward", s.memory_bound(Kernel::scale, x.states() * 3));
  TensorIndex d_convolved = c.pass.allocate("convolution output gradient", x.narrow(x.channels),
                                            MemoryCategory::workspace);
  c.pass.free(states);
  c.pass.free(gradient);
  c.pass.free(t.scanned);
  if (!x.space) {
    const int64_t spread = 2 * x.heads * x.r.state + x.values;
    c.pass.compute(
        "decays and norms backward",
        s.memory_bound(Kernel::rms_norm_backward,
                       x.narrow(x.channels + 2 * spread + 3 * x.heads) + x.wide(x.heads)));
  } else {
    c.pass.compute("decays backward",
                   s.memory_bound(Kernel::scale, x.narrow(x.heads) + x.wide(2 * x.heads)));
  }
  c.pass.free(t.spread);
  c.pass.free(t.inverse);
  c.pass.free(t.decays);
  if (x.r.conv > 0)
    c.pass.compute("convolution backward",
                   s.memory_bound(Kernel::activation_backward, x.narrow(3 * x.channels)));
  const TensorIndex d_projected =
      c.pass.allocate("mixer in gradient", x.narrow(x.in), MemoryCategory::workspace);
  c.pass.free(d_convolved);
  c.pass.free(t.convolved);
  // Convolution, decays, steps and, of a space, what skips it.
  const int64_t channels = x.r.conv > 0 ? x.channels * (x.r.conv + (x.r.conv_bias ? 1 : 0)) : 0;
  reduce_after(c, channels + (x.space ? 3 : 2) * x.heads);
  return d_projected;
}

}  // namespace

Forward<SavedRecurrence> recurrence_forward(const LayerContext& c, ForwardMode mode) {
  const RecurrentShard x(c);
  const Shard& s = c.shard;
  SavedRecurrence t;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  const NormOutput norm = norm_forward(c, mode, kInputNorm, s.own_tokens, s.hidden, true);
  t.norm_output = norm.output;
  t.norm_statistics = norm.statistics;
  done_with(t.norm_statistics);
  t.projected = column_parallel_forward(c, mode, "mixer in", "mixer in output", t.norm_output, x.in,
                                        {.converted = norm_quantizes(c)});
  done_with(t.norm_output);
  if (drops(c, mode, &RecomputeModules::norms)) c.pass.free(t.norm_output);
  if (x.r.bias && !s.plan.kernels.fused_bias)
    c.pass.compute("mixer in bias", s.memory_bound(Kernel::bias_add, x.narrow(2 * x.in)));
  scan_forward(c, mode, t);
  c.pass.compute("gated norm", s.memory_bound(Kernel::rms_norm, x.narrow(3 * x.values)));
  t.gated = c.pass.allocate("gated norm output", x.narrow(x.values), saved(mode));
  t.gate_statistics =
      c.pass.allocate("norm statistics", x.wide(x.space ? x.groups : x.heads), saved(mode));
  done_with(t.gate_statistics);
  done_with(t.scanned);
  done_with(t.projected);
  const PartialSum partial = row_parallel_forward(c, mode, "mixer out", t.gated, x.values);
  done_with(t.gated);
  TensorIndex branch = reduce(c, "mixer out", partial, s.hidden);
  const TensorIndex out = add_residual(c, mode, "mixer", branch, t.mask, x.r.bias);
  done_with(t.mask);
  return {out, t};
}

void recurrence_backward(const LayerContext& c, SavedRecurrence& t, TensorIndex& input,
                         TensorIndex& gradient) {
  const RecurrentShard x(c);
  const Shard& s = c.shard;
  need_norm(c, kInputNorm, t.norm_output, true);
  const InputGather gathered = gather_input_early(c, "mixer in");
  const BranchGradient branch = branch_gradient(c, "mixer", gradient, t.mask, x.r.bias);
  TensorIndex d = row_parallel_backward(c, "mixer out", branch, t.gated, x.values);
  c.pass.compute("gated norm backward",
                 s.memory_bound(Kernel::rms_norm_backward, x.narrow(5 * x.values)));
  reduce_after(c, x.space ? x.values : x.r.head_dim);
  TensorIndex d_gate =
      c.pass.allocate("gate and scan gradients", x.narrow(2 * x.values), MemoryCategory::workspace);
  c.pass.free(d);
  c.pass.free(t.gate_statistics);
  TensorIndex d_projected = scan_backward(c, t, d_gate);
  c.pass.free(t.projected);
  if (x.r.bias) bias_gradient(c, "mixer in", s.tokens, x.in);
  TensorIndex d_input =
      column_parallel_backward(c, "mixer in", d_projected, t.norm_output, x.in, gathered);
  norm_backward(c, kInputNorm, s.own_tokens, s.hidden);
  c.pass.free(t.norm_statistics);
  c.pass.free(input);
  add_residual_gradient(c, "mixer", d_input, gradient);
}

}  // namespace stepcast
