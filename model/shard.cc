// SPDX-License-Identifier: Apache-2.0
#include "model/shard.h"

#include <algorithm>
#include <cmath>

#include "sim/check.h"
#include "sim/graph/work.h"
#include "sim/log_exp.h"

namespace stepcast {

namespace {

// Of the largest share.
int64_t vocabulary_rows(const Transformer& t, const Plan& p) {
  const int64_t pipeline = p.vocabulary == VocabularySplit::none ? 1 : p.pp;
  return (t.vocab / p.tp + pipeline - 1) / pipeline;
}

}  // namespace

Shard::Shard(const Transformer& t, const Plan& p, int64_t sequence_tokens)
    : model(t),
      plan(p),
      cp(p.cp),
      seq(p.mode == StepMode::decode ? 1 : sequence_tokens / p.seq_pieces / p.cp),
      keys(sequence_tokens / p.seq_pieces * (p.piece + 1)),
      tokens(seq * p.micro_batch),
      own_tokens(p.sp ? tokens / p.tp : tokens),
      hidden(t.hidden),
      heads(t.heads / p.tp),
      // Latent attention gives every head its own keys and values.
      kv_heads(t.kv_rank > 0 ? heads : std::max<int64_t>(1, t.kv_heads / p.tp)),
      q(heads * query_dim(t)),
      key(kv_heads * query_dim(t)),
      value(kv_heads * value_dim(t)),
      qkv(q + key + value),
      context(heads * value_dim(t)),
      ffn(t.ffn / p.tp),
      up(t.gated ? 2 * ffn : ffn),
      vocab(vocabulary_rows(t, p)),
      element(bytes_per_element(p.precision.params)) {}

Bytes Shard::bytes(int64_t rows, int64_t width) const {
  return bytes(rows, width, plan.precision.params);
}

Bytes Shard::bytes(int64_t rows, int64_t width, DType dtype) const {
  return {static_cast<int64_t>(static_cast<double>(rows) * static_cast<double>(width) *
                               bytes_per_element(dtype))};
}

namespace {

Work gemm(DType dtype, GemmLayout layout, int64_t m, int64_t n, int64_t k) {
  Work w;
  w.kind = WorkKind::gemm;
  w.dtype = dtype;
  w.layout = layout;
  w.m = m;
  w.n = n;
  w.k = k;
  w.flops = {2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
  return w;
}

}  // namespace

Work Shard::forward_gemm(int64_t rows, int64_t out, int64_t in) const {
  return gemm(plan.precision.params, GemmLayout::tn, rows, out, in);
}

Work Shard::input_gemm(int64_t rows, int64_t out, int64_t in) const {
  return gemm(plan.precision.params, GemmLayout::nn, rows, in, out);
}

Work Shard::weight_gemm(int64_t rows, int64_t out, int64_t in) const {
  Work w = gemm(plan.precision.params, GemmLayout::nt, out, in, rows);
  w.accumulate = plan.kernels.gradient_accumulation_fusion;
  if (w.accumulate) w.sum = plan.precision.gradients;
  return w;
}

Work Shard::head_gemm(int64_t m, int64_t n, int64_t k, GemmLayout layout) const {
  Work w = gemm(plan.precision.params, layout, m, n, k);
  w.batch = plan.micro_batch * heads;
  w.heads = heads;
  w.flops = w.flops * static_cast<double>(w.batch);
  return w;
}

Work Shard::memory_bound(Kernel kernel, Bytes moved) const {
  Work w;
  w.kind = WorkKind::memory_bound;
  w.kernel = kernel;
  w.dtype = plan.precision.params;
  w.bytes = moved;
  return w;
}

bool Shard::gathers_logits() const {
  return split() && !plan.splits_vocabulary() && plan.kernels.loss == Loss::torch_gathered;
}

Work Shard::collective(WorkKind kind, int64_t width) const {
  Work w;
  w.kind = kind;
  w.dtype = plan.precision.params;
  w.axis = Axis::tp;
  w.bytes = bytes(tokens, width);
  return w;
}

// ----------------------------------------------------------------------------------------- experts
namespace {

double real(int64_t n) {
  return static_cast<double>(n);
}

// Spreads what is above `most` over the rest, in proportion.
void limit_shares(std::vector<double>& shares, double most) {
  for (size_t round = 0; round < shares.size(); ++round) {
    double fixed = 0, free = 0;
    bool above = false;
    for (const double s : shares) {
      (s >= most ? fixed : free) += s >= most ? most : s;
      above = above || s > most;
    }
    if (!above || free <= 0) break;
    for (double& s : shares) s = s >= most ? most : s * (1 - fixed) / free;
  }
}

// Popularity r^-exponent, dealt to the ranks in turn.
std::vector<double> zipf_shares(int64_t experts, int64_t ep, double exponent) {
  std::vector<double> shares(static_cast<size_t>(experts));
  const int64_t local = experts / ep;
  double sum = 0;
  for (int64_t r = 0; r < experts; ++r) {
    const double popularity = exact_exp2(-exponent * exact_log2(real(r + 1)));
    shares[static_cast<size_t>(r % ep * local + r / ep)] = popularity;
    sum += popularity;
  }
  for (double& s : shares) s /= sum;
  return shares;
}

// A whole sequence chooses at once: as many choices as sequences times experts of a token, the
// c-th of which takes the expert at (c + 1/2) / choices of the summed shares.
std::vector<double> choices_of_sequences(const std::vector<double>& shares, int64_t choices) {
  std::vector<double> chosen(shares.size());
  size_t at = 0;
  double below = 0;
  for (int64_t c = 0; c < choices; ++c) {
    const double middle = (real(c) + 0.5) / real(choices);
    while (at + 1 < shares.size() && below + shares[at] <= middle) below += shares[at++];
    chosen[at] += 1 / real(choices);
  }
  return chosen;
}

// Tokens that an expert takes at most, of those of one rank (Megatron-LM: get_capacity).
int64_t capacity(const Shard& s, int64_t tokens) {
  const double fair = real(tokens * s.model.experts_per_token) / real(s.model.experts);
  return static_cast<int64_t>(std::ceil(fair * s.plan.moe.capacity_factor));
}

// What is left of 1 after `times` steps that each leave this share.
double left_after(double one, int64_t times) {
  double left = 1;
  for (; times > 0; times /= 2, one *= one)
    if (times % 2 != 0) left *= one;
  return left;
}

// Experts of a rank that at least one of this many tokens goes to, in the mean over the ranks.
int64_t experts_met(const Shard& s, const std::vector<double>& shares, int64_t tokens) {
  double met = 0;
  for (const double share : shares) {
    const double chosen = std::min(1.0, real(s.model.experts_per_token) * share);
    met += 1 - left_after(1 - chosen, tokens);
  }
  return std::clamp<int64_t>(std::llround(met / real(s.plan.ep)), 1, s.model.experts / s.plan.ep);
}

}  // namespace

std::vector<double> expert_shares(const Transformer& model, const Plan& plan) {
  const Routing& routing = plan.moe.routing;
  const auto experts = static_cast<size_t>(model.experts);
  std::vector<double> shares(experts, 1 / real(model.experts));
  if (routing.kind == Routing::Kind::zipf) {
    shares = zipf_shares(model.experts, plan.ep, routing.exponent);
  } else if (routing.kind == Routing::Kind::shares) {
    STEPCAST_CHECK(routing.shares.size() == experts, "a share for every expert");
    shares = routing.shares;
  }
  limit_shares(shares, 1 / real(model.experts_per_token));
  if (!routing.by_sequence) return shares;
  const int64_t split = plan.sp ? plan.tp : 1;  // ranks that one sequence is on
  const int64_t sequences =
      std::max<int64_t>(1, plan.micro_batch * plan.ep * plan.etp / (split * plan.cp));
  return choices_of_sequences(shares, sequences * model.experts_per_token);
}

ExpertShard expert_shard(const Shard& s) {
  const Transformer& model = s.model;
  const Plan& plan = s.plan;
  STEPCAST_CHECK(model.experts > 0 && model.experts % plan.ep == 0 && model.moe_ffn % plan.etp == 0,
                 "ep divides the experts, etp their width");
  ExpertShard x;
  x.local = model.experts / plan.ep;
  x.ffn = model.moe_ffn / plan.etp;
  x.up = model.gated ? 2 * x.ffn : x.ffn;
  // Without sequence parallelism (a forward alone) each rank of tp takes its part of the tokens.
  const bool split = plan.tp > 1 && !plan.sp;
  x.tokens = split ? (s.own_tokens + plan.tp - 1) / plan.tp : s.own_tokens;
  const std::vector<double> shares = expert_shares(model, plan);
  // The largest part is the one to wait for; the experts get the parts of all ranks.
  const double part = split ? real(s.own_tokens) / real(plan.tp) : real(s.own_tokens);
  const double all = part * real(model.experts_per_token);
  const bool limited = plan.moe.capacity_factor > 0;
  const double most = limited ? real(capacity(s, x.tokens)) : all;
  double sum = 0, busiest = 0;
  for (int64_t rank = 0; rank < plan.ep; ++rank) {
    double here = 0;
    for (int64_t e = 0; e < x.local; ++e) {
      const double load = all * shares[static_cast<size_t>(rank * x.local + e)];
      here += limited && plan.moe.pad_to_capacity ? most : std::min(load, most);
    }
    sum += here;
    busiest = std::max(busiest, here);
  }
  // Of the tokens of one rank; the experts of a rank get those of all ep * etp ranks.
  x.copies = static_cast<int64_t>(std::llround(split ? sum * real(x.tokens) / part : sum));
  x.rows = x.copies * plan.etp;
  if (split) x.rows = std::max<int64_t>(1, std::llround(sum * real(plan.etp)));
  x.met = x.local;
  if (!plan.trains() && !(limited && plan.moe.pad_to_capacity))
    x.met = experts_met(s, shares, std::llround(part * real(plan.ep * plan.etp)));
  x.busiest = std::max(
      x.rows, static_cast<int64_t>(std::llround(busiest * real(plan.ep) * real(plan.etp))));
  x.sent = x.copies;
  if (plan.moe.dispatcher == Dispatcher::deepep && plan.ep > 1) {
    const double ranks = expected_destinations(plan.ep, model.experts, model.experts_per_token);
    x.sent =
        static_cast<int64_t>(std::llround(real(x.copies) * ranks / real(model.experts_per_token)));
  }
  return x;
}

}  // namespace stepcast
