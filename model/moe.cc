// SPDX-License-Identifier: Apache-2.0
// A mixture of experts in place of the MLP, with its norm and residual, forward and backward, as
// Megatron-Core runs it (core/transformer/moe/moe_layer.py): router, tokens to their experts, the
// products of the experts, back, sum; shared experts are an MLP beside all that.
//
// The weights of a token's experts are multiplied in with the activation, so that the sum of the
// outputs needs nothing but the map for its backward.
#include <string>
#include <utility>

#include "model/experts.h"
#include "model/stage_writer.h"

namespace stepcast {

TensorIndex StageWriter::moe_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  norm_forward("norm 2", t.norm2_statistics, t.norm2_output, s.own_tokens, s.hidden);
  done_with(t.norm2_statistics);
  const bool dropped = drops(&RecomputeModules::moe);
  const ForwardMode mode = std::exchange(mode_, dropped ? ForwardMode::discard : mode_);
  TensorIndex branch = mixture_forward(t, keep && !dropped);
  mode_ = mode;
  if (!keep || drops(&RecomputeModules::norms)) p_.free(t.norm2_output);
  const TensorIndex out = add_residual("moe", branch, &t.mask2, false);
  done_with(t.mask2);
  done_with(t.residual);
  return out;
}

// From the output of the norm to that of the branch.
TensorIndex StageWriter::mixture_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const ExpertShard x = expert_shard(s);
  const bool shared = s.model.shared_ffn > 0;
  const bool beside = shared && s.plan.moe.shared_overlap;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  TensorIndex shared_out = kNoTensor;
  const bool keep_shared = keep && !drops(&RecomputeModules::shared_experts);
  if (shared && !beside) {
    shared_up(t);
    shared_out = shared_down(t, keep_shared);
  }
  route(t, x);
  std::function<void()> up, down;
  if (beside) {
    up = [&] { shared_up(t); };
    down = [&] { shared_out = shared_down(t, keep_shared); };
  }
  t.experts.input = to_experts("dispatch", x, saved(), up);
  TensorIndex rows = experts_forward(t.experts, x, keep);
  TensorIndex out = from_experts("combine", x, rows, down);
  if (x.tokens < s.own_tokens) {
    const TensorIndex all = gather("combine all-gather", s.hidden);
    p_.free(out);
    out = all;
  }
  done_with(t.experts.scores);
  done_with(t.experts.map);
  if (shared) {
    p_.compute("shared experts sum", s.memory_bound(Kernel::add, s.bytes(x.tokens, s.hidden) * 3));
    p_.free(shared_out);
  }
  return out;
}

// What the forward dropped, as far as the backward needs it: norm, mixture, shared experts; the
// activation of the experts is made again where it is needed.
void StageWriter::need_mixture(LayerTensors& t) {
  need_norm("norm 2", t.norm2_output);
  const bool all = recomputes(&RecomputeModules::moe) && t.experts.up == kNoTensor;
  const bool shared = s_.model.shared_ffn > 0 && t.experts.shared_up == kNoTensor;
  if (!all && !shared) return;
  const Phase phase = p_.phase();
  const ForwardMode mode = std::exchange(mode_, ForwardMode::recompute);
  p_.set_phase(Phase::recompute);
  TensorIndex out = kNoTensor;
  if (all) {
    out = mixture_forward(t, true);
  } else {
    shared_up(t);
    out = shared_down(t, true);
  }
  p_.free(out);
  p_.set_phase(phase);
  mode_ = mode;
}

// Scores in the number format of the model; probabilities in fp32 (moe_router_dtype is none by
// default, topk_softmax_with_capacity works in fp32).
void StageWriter::route(LayerTensors& t, const ExpertShard& x) {
  const Shard& s = s_;
  const int64_t experts = s.model.experts;
  p_.compute("router", s.forward_gemm(x.tokens, experts, s.hidden));
  const Bytes scores = s.bytes(x.tokens, experts, DType::fp32);
  const Bytes chosen = s.bytes(x.tokens, experts, DType::uint8);
  TensorIndex logits =
      p_.allocate("router logits", s.bytes(x.tokens, experts), MemoryCategory::workspace);
  p_.compute("routing",
             s.memory_bound(Kernel::router, s.bytes(x.tokens, experts) + scores * 3 + chosen));
  t.experts.scores = p_.allocate("router probabilities", scores, saved());
  t.experts.map = p_.allocate("routing map", chosen, saved());
  p_.free(logits);
}

// Needs the gradients of the probabilities, which the activation of the experts has made.
void StageWriter::route_backward(LayerTensors& t, const ExpertShard& x) {
  const Shard& s = s_;
  const int64_t experts = s.model.experts;
  p_.compute("routing backward",
             s.memory_bound(Kernel::router_backward, s.bytes(x.tokens, experts, DType::fp32) * 3 +
                                                         s.bytes(x.tokens, experts)));
  TensorIndex logits =
      p_.allocate("router logit gradient", s.bytes(x.tokens, experts), MemoryCategory::workspace);
  p_.free(t.experts.scores);
  p_.free(t.experts.map);
  p_.compute("router input gradient", s.input_gemm(x.tokens, experts, s.hidden));
  TensorIndex own =
      p_.allocate("router input gradient", s.bytes(x.tokens, s.hidden), MemoryCategory::workspace);
  weight_gradient("router", s.weight_gemm(x.tokens, experts, s.hidden), true);
  w_.free(logits);
  p_.compute("router gradient sum", s.memory_bound(Kernel::add, s.bytes(x.tokens, s.hidden) * 3));
  p_.free(own);
}

// --------------------------------------------------------------------------------- routed experts
void StageWriter::expert_products(PassWriter& pass, const std::string& label, const ExpertShard& x,
                                  const Work& one) {
  const bool weights = one.layout == GemmLayout::nt;
  Work all = one;
  all.kind = WorkKind::grouped_gemm;
  all.batch = x.met;
  all = linear(all);
  // In the mean over the experts: the rows together count, not their rounded share.
  const double others = static_cast<double>(one.n) * static_cast<double>(weights ? one.m : one.k);
  all.flops = {2.0 * static_cast<double>(x.rows) * others};
  if (s_.plan.moe.grouped_gemm) {
    pass.compute(label, all);
  } else {
    for (int64_t e = 0; e < x.met; ++e) pass.compute(label, linear(one));
  }
  if (x.busiest == x.rows) return;
  all.kind = WorkKind::expert_wait;
  all.flops = {};
  all.busiest = (x.busiest + x.met - 1) / x.met;
  if (weights && split_) {
    // Whatever is exchanged after W waits for it.
    pass.communicate(Stream::ep, "busiest expert rank", all);
  } else {
    awaited_.push_back(all);
  }
}

// The same for a kernel that moves so much.
void StageWriter::expert_kernel(const std::string& label, const ExpertShard& x, Kernel kernel,
                                const std::function<Bytes(int64_t)>& moved) {
  Work work = s_.memory_bound(kernel, moved(x.rows));
  p_.compute(label, work);
  const Bytes most = moved(x.busiest);
  if (most <= work.bytes) return;
  work.kind = WorkKind::expert_wait;
  work.busiest = most.value;
  awaited_.push_back(work);
}

void StageWriter::await_busiest() {
  if (awaited_.empty()) return;
  for (const Work& work : std::exchange(awaited_, {})) {
    p_.join(p_.communicate(Stream::ep, "busiest expert rank", work));
  }
  // The compute stream waits for them here, and for the exchange behind them on its own.
  p_.compute("busiest expert rank", s_.memory_bound(Kernel::none, {}));
}

TensorIndex StageWriter::experts_forward(ExpertTensors& t, const ExpertShard& x, bool keep) {
  const Shard& s = s_;
  const int64_t each = (x.rows + x.met - 1) / x.met;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  const QuantizedParts parts{.experts = x.met, .busiest = x.busiest};
  TensorIndex now = quantize_input("expert fc1", t.input, x.rows, s.hidden, nullptr, parts);
  expert_products(p_, "expert fc1", x, s.forward_gemm(each, x.up, s.hidden));
  t.up = p_.allocate("expert fc1 output", s.bytes(x.busiest, x.up), saved());
  p_.free(now);
  done_with(t.input);
  activate_experts(t, x);
  done_with(t.up);
  now = quantize_input("expert fc2", t.activated, x.rows, x.ffn, nullptr, parts);
  expert_products(p_, "expert fc2", x, s.forward_gemm(each, s.hidden, x.ffn));
  const TensorIndex out =
      p_.allocate("expert fc2 output", s.bytes(x.busiest, s.hidden), MemoryCategory::workspace);
  p_.free(now);
  if (!keep || drops(&RecomputeModules::moe_activation)) p_.free(t.activated);
  return out;
}

// Activation, and product with the weights of the tokens.
void StageWriter::activate_experts(ExpertTensors& t, const ExpertShard& x) {
  const Shard& s = s_;
  expert_kernel("expert activation", x, Kernel::activation, [&](int64_t rows) {
    return s.bytes(rows, x.up + x.ffn) + s.bytes(rows, 1, DType::fp32);
  });
  t.activated = p_.allocate("expert activation output", s.bytes(x.busiest, x.ffn), saved());
}

void StageWriter::expert_weight_gradient(const std::string& label, const ExpertShard& x,
                                         int64_t out, int64_t in) {
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  const int64_t each = (x.rows + x.met - 1) / x.met;
  Work products = s_.weight_gemm(each, out, in);
  if (buckets_.experts.buffered) products.accumulate = false;
  expert_products(w_, label + " weight gradient", x, products);
  w_.set_phase(phase);
  // Biases are complete with the weights.
  add_gradient(buckets_.experts, s_, w_, x.local * out * (s_.model.mlp_bias ? in + 1 : in));
}

// `gradient` of the output, [rows, hidden]; returns that of the input.
TensorIndex StageWriter::experts_backward(ExpertTensors& t, const ExpertShard& x,
                                          TensorIndex& gradient) {
  const Shard& s = s_;
  const int64_t each = (x.rows + x.met - 1) / x.met;
  const QuantizedParts parts{.experts = x.local, .busiest = x.busiest};
  if (t.activated == kNoTensor) {
    p_.set_phase(Phase::recompute);
    const ForwardMode mode = std::exchange(mode_, ForwardMode::recompute);
    activate_experts(t, x);
    TensorIndex again = quantize_input("expert fc2", t.activated, x.rows, x.ffn, nullptr, parts);
    p_.free(again);
    mode_ = mode;
    p_.set_phase(Phase::backward_input);
  }
  TensorIndex now = quantize_gradient("expert fc2", gradient, true, x.rows, s.hidden, parts);
  expert_products(p_, "expert fc2 input gradient", x, s.input_gemm(each, s.hidden, x.ffn));
  TensorIndex d_activated = p_.allocate("expert fc2 input gradient", s.bytes(x.busiest, x.ffn),
                                        MemoryCategory::workspace);
  p_.free(now);
  expert_weight_gradient("expert fc2", x, s.hidden, x.ffn);
  w_.free(t.activated);
  w_.free(gradient);
  expert_kernel("expert activation backward", x, Kernel::activation_backward, [&](int64_t rows) {
    return s.bytes(rows, 2 * x.up + x.ffn) + s.bytes(rows, 2, DType::fp32);
  });
  TensorIndex d_up = p_.allocate("expert fc1 output gradient", s.bytes(x.busiest, x.up),
                                 MemoryCategory::workspace);
  p_.free(d_activated);
  p_.free(t.up);
  now = quantize_gradient("expert fc1", d_up, true, x.rows, x.up, parts);
  expert_products(p_, "expert fc1 input gradient", x, s.input_gemm(each, x.up, s.hidden));
  const TensorIndex out = p_.allocate("expert fc1 input gradient", s.bytes(x.busiest, s.hidden),
                                      MemoryCategory::workspace);
  p_.free(now);
  expert_weight_gradient("expert fc1", x, x.up, s.hidden);
  w_.free(d_up);
  w_.free(t.input);
  return out;
}

void StageWriter::moe_backward(LayerTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  const ExpertShard x = expert_shard(s);
  const bool shared = s.model.shared_ffn > 0;
  need_mixture(t);
  BranchGradient branch = branch_gradient("moe", gradient, t.mask2, false);
  TensorIndex d = to_experts("combine backward", x, MemoryCategory::workspace, {});
  TensorIndex d_input = experts_backward(t.experts, x, d);
  TensorIndex own = kNoTensor;
  const auto shared_back = [&] { own = shared_backward(t, branch); };
  const bool beside = shared && s.plan.moe.shared_overlap;
  d = from_experts("dispatch backward", x, d_input,
                   beside ? std::function<void()>(shared_back) : std::function<void()>());
  route_backward(t, x);
  if (shared && !beside) shared_back();
  if (shared) {
    p_.compute("shared experts gradient sum",
               s.memory_bound(Kernel::add, s.bytes(x.tokens, s.hidden) * 3));
    p_.free(own);
  } else if (branch.own) {
    p_.free(branch.tensor);
  }
  w_.free(t.norm2_output);
  norm_backward("norm 2", s.own_tokens, s.hidden);
  p_.free(t.norm2_statistics);
  p_.free(t.residual);
  add_residual_gradient("moe", d, gradient);
}

// --------------------------------------------------------------------------------- shared experts
void StageWriter::shared_up(LayerTensors& t) {
  const Shard& s = s_;
  const int64_t ffn = s.model.shared_ffn / s.plan.tp;
  const int64_t up = s.model.gated ? 2 * ffn : ffn;
  t.experts.shared_up = column_parallel_forward("shared fc1", "shared fc1 output", t.norm2_output,
                                                up, &t.experts.shared_low);
  p_.compute("shared activation", s.memory_bound(Kernel::activation, s.bytes(s.tokens, up + ffn)));
  t.experts.shared_activated =
      p_.allocate("shared activation output", s.bytes(s.tokens, ffn), saved());
}

TensorIndex StageWriter::shared_down(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const int64_t ffn = s.model.shared_ffn / s.plan.tp;
  TensorIndex now = quantize_input("shared fc2", t.experts.shared_activated, s.tokens, ffn);
  product(p_, "shared fc2", s.forward_gemm(s.tokens, s.hidden, ffn));
  // A gate's gradient needs what it was multiplied with.
  const bool kept = keep && s.model.shared_gate;
  const MemoryCategory category = kept ? saved() : MemoryCategory::workspace;
  TensorIndex out = p_.allocate("shared fc2 output", s.bytes(s.tokens, s.hidden), category);
  p_.free(now);
  if (!keep) {
    p_.free(t.experts.shared_low);
    p_.free(t.experts.shared_up);
    p_.free(t.experts.shared_activated);
  }
  out = reduce("shared fc2", out, s.hidden, category);
  if (!s.model.shared_gate) return out;
  const Bytes tokens = s.bytes(s.own_tokens, s.hidden);
  p_.compute("shared gate", s.forward_gemm(s.own_tokens, 1, s.hidden));
  p_.compute("shared gating", s.memory_bound(Kernel::scale, tokens * 2));
  const TensorIndex gated = p_.allocate("shared gating", tokens, MemoryCategory::workspace);
  if (!kept) p_.free(out);
  t.experts.shared_output = out;
  return gated;
}

// Returns the gradient of the norm's output.
TensorIndex StageWriter::shared_backward(LayerTensors& t, BranchGradient branch) {
  const Shard& s = s_;
  const int64_t ffn = s.model.shared_ffn / s.plan.tp;
  const int64_t up = s.model.gated ? 2 * ffn : ffn;
  const Bytes tokens = s.bytes(s.own_tokens, s.hidden);
  if (s.model.shared_gate) {
    p_.compute("shared gating backward", s.memory_bound(Kernel::scale, tokens * 4));
    const TensorIndex gated =
        p_.allocate("shared gating backward", tokens, MemoryCategory::workspace);
    p_.free(t.experts.shared_output);
    if (branch.own) p_.free(branch.tensor);
    branch = {.tensor = gated, .own = true};
    p_.compute("shared gate input gradient", s.input_gemm(s.own_tokens, 1, s.hidden));
    weight_gradient("shared gate", s.weight_gemm(s.own_tokens, 1, s.hidden), true);
  }
  TensorIndex d = row_parallel_backward("shared fc2", branch, t.experts.shared_activated, ffn);
  p_.compute("shared activation backward",
             s.memory_bound(Kernel::activation_backward, s.bytes(s.tokens, 2 * up + ffn)));
  TensorIndex d_up =
      p_.allocate("shared fc1 output gradient", s.bytes(s.tokens, up), MemoryCategory::workspace);
  p_.free(d);
  p_.free(t.experts.shared_up);
  return column_parallel_backward("shared fc1", d_up, t.experts.shared_low, up);
}

}  // namespace stepcast
