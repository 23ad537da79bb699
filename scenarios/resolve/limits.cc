// SPDX-License-Identifier: Apache-2.0
// What a plan asks for that cannot be: tensors too large to count, and layers that do not go with
// it.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/plan.h"
#include "model/shard.h"
#include "model/transformer.h"
#include "scenarios/schema/values.h"
#include "sim/units.h"

namespace stepcast {

namespace {

// Numbers a token in the widest tensor of recurrent layers and of sparse attention, on a share of
// 1 / tp of the heads; `tokens` and `keys` on a rank.
double mixer_row(const Transformer& m, double tokens, double keys, double tp) {
  double row = 0;
  if (has_recurrent_layers(m)) {
    const Recurrence& r = m.recurrence;
    const double chunk = std::min({real(r.chunk), tokens, std::max(1.0, keys)});
    const double chunks = (tokens + chunk - 1) / chunk;
    // Queries, keys and values of each head; products and states of chunks in fp32, with gradients.
    row = std::max({real(recurrent_input_width(m, Mixer::gated_delta_net)),
                    real(r.heads) * real(2 * r.state + 2 * r.head_dim), 2 * real(r.heads) * chunk,
                    4 * real(r.values()) * real(r.state) * chunks / tokens}) /
          tp;
  }
  row = std::max(row, real(m.streams) * real(m.hidden));
  if (m.index_topk > 0) {
    const double absorbed = real(m.heads) * real(m.kv_rank + m.qk_rope_dim) / tp;
    row = std::max({row, absorbed, 2 * std::min(real(m.index_topk), keys),
                    real(m.index_heads) * real(m.index_dim + 1) + real(m.index_dim),
                    real(m.hidden + m.q_rank)});
  }
  return row;
}

// Bytes of the largest tensor on one GPU.  Experts get the same numbers of tokens.
double largest_tensor(const PlanInputs& in, const Plan& plan) {
  const Transformer& m = *in.model;
  const LayerShards shards(m, plan, std::max(plan.seq, plan.encoder_seq));
  const Shard& s = shards.own();
  const double tp = real(plan.tp), tokens = std::max(1.0, real(s.tokens)), keys = real(s.keys);
  const int64_t of_expert = std::max((m.gated ? 2 : 1) * m.moe_ffn / plan.etp, expert_input(m));
  const double routed = real(m.experts_per_token) * real(plan.etp) * real(of_expert) / tp;
  double row = std::max(
      {real(s.hidden), routed, 2 * real(m.shared_ffn) / tp, mixer_row(m, tokens, keys, tp)});
  int64_t heads = 0;
  for (size_t i = 0; i <= m.shapes.size(); ++i) {
    const Shard& of_layer = shards.of({.shape = static_cast<uint8_t>(i)});
    row = std::max({row, real(of_layer.up), real(of_layer.qkv)});
    heads = std::max(heads, of_layer.heads);
  }
  row *= s.element;
  constexpr double kFp32 = 4;
  if (plan.trains()) row = std::max(row, kFp32 * real(s.logits()));
  if (in.values.is("kernels.attention", false)) row = std::max(row, kFp32 * real(heads) * keys);
  return tokens * row;
}

}  // namespace

// The largest tensor of a microbatch has to be countable in bytes, on one GPU by its allocator.
void check_tensor_sizes(const PlanInputs& in, const Plan& plan) {
  if (in.model == nullptr || !in.values.has("batch.seq")) return;
  const double seq = real(plan.seq);
  const Transformer& m = *in.model;
  int64_t multiple = 1;
  in.values.read("parallel.vocab_multiple", multiple);
  double row =
      std::max({real(m.hidden), real(m.vocab) + real(multiple) * real(plan.tp),
                real(plan.ep) * real(plan.etp) * real(m.hidden),
                real(m.experts_per_token) * real(plan.etp) * real(2 * m.moe_ffn + m.hidden),
                mixer_row(m, std::max(1.0, seq), seq, 1)});
  for (const LayerShape& s : all_shapes(m))
    row = std::max({row, 2 * real(s.ffn), real(s.heads) * seq,
                    real(s.heads + 2 * s.kv_heads) * real(std::max(s.head_dim, s.value_dim))});
  const double bytes =
      seq * real(plan.micro_batch) * row * 4 * real(std::max<int64_t>(1, m.layers));
  constexpr double kTebibyte = 1099511627776;
  const bool countable = bytes < 1e18;
  if (countable && largest_tensor(in, plan) < kTebibyte) return;
  in.values.refuse(
      "E123", "batch.seq",
      fmt::format(
          "a microbatch of {} x {} tokens needs {}", plan.micro_batch, plan.seq,
          countable ? "a tensor of 1 TiB or more on one GPU" : "more bytes than can be counted"),
      countable ? "take a smaller batch.seq, batch.micro or model, or split it: tp, cp"
                : "at most 10^18: take a smaller batch.seq, batch.micro or model");
}

void check_mixers(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  if (in.model == nullptr) return;
  const bool recurs = has_recurrent_layers(*in.model);
  const bool compressed = !in.model->compressions.empty();
  const bool chosen = in.model->index_topk > 0 || compressed;
  if (!recurs && !chosen) return;
  const std::string what = recurs       ? "recurrent layers"
                           : compressed ? "attention to compressed keys"
                                        : "sparse attention with an indexer";
  const auto refuse = [&](Key key, const std::string& of, const std::string& help) {
    v.refuse("E130", key, fmt::format("not supported yet: {} of {}", of, what), help);
  };
  if (plan.cp > 1) refuse("parallel.cp", "sequences split over cp", "cp = 1; tp and pp split them");
  if (!plan.trains()) refuse("mode", "a forward alone", "mode: train");
  if (plan.recompute == Recompute::per_op)
    refuse("recompute.granularity", "recomputation per operator", "selective or full");
  const auto longest = std::ranges::max_element(in.model->compressions);
  if (compressed && v.has("batch.seq") && plan.seq < *longest)
    refuse("batch.seq", fmt::format("sequences of less than {} tokens", *longest),
           "a sequence has a compressed key at least");
  if (in.model->streams > 1 && plan.recompute == Recompute::full)
    in.warnings.push_back("Megatron-Core refuses several residual streams with recompute: full");
  if (in.model->streams > 1 && plan.pp > 1)
    in.warnings.push_back("Megatron-Core refuses several residual streams with pp > 1");
  double dropout = 0;
  v.read("kernels.dropout.hidden", dropout);
  if (in.model->streams > 1 && dropout > 0)
    refuse("kernels.dropout.hidden", "dropout", "kernels: {dropout: {hidden: 0}}");
  if (chosen && v.is("kernels.attention", false))
    refuse("kernels.attention", "unfused attention", "kernels: {attention: flash}");
  if (chosen && plan.recompute == Recompute::selective && plan.recompute_modules.mla_up_projection)
    refuse("recompute.modules", "mla_up_proj", "core_attn, or recompute: full");
}

}  // namespace stepcast
