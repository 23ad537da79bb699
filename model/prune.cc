// SPDX-License-Identifier: Apache-2.0
#include "model/prune.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/diagnostic.h"

namespace stepcast {
namespace {

int64_t kept(int64_t count, double removed) {
  if (removed <= 0 || count == 0) return count;
  const double left = static_cast<double>(count) * (1 - removed);
  return std::max<int64_t>(1, static_cast<int64_t>(left + 0.5));
}

int64_t kept_width(int64_t width, double removed) {
  constexpr int64_t kUnit = 128;
  if (removed <= 0) return width;
  if (width < kUnit) return kept(width, removed);
  return std::max<int64_t>(1, (kept(width, removed) + kUnit / 2) / kUnit) * kUnit;
}

}  // namespace

Transformer pruned(const Transformer& model, const Pruning& p) {
  Transformer t = model;
  if (p.experts > 0 && t.experts == 0)
    refuse("the model has no experts of which a share could be pruned");
  if (p.layers > 0 && t.encoder_layers > 0)
    refuse("layers of a model with an encoder cannot be pruned: which of the two would lose them?");
  t.layers = kept(t.layers, p.layers);
  t.dense_layers = std::min(t.dense_layers, t.layers);
  if (!t.windows.empty()) t.windows.resize(static_cast<size_t>(t.layers));
  if (!t.expert_layers.empty()) t.expert_layers.resize(static_cast<size_t>(t.layers));
  const int64_t group = t.heads / t.kv_heads;
  t.kv_heads = kept(t.kv_heads, p.heads);
  t.heads = t.kv_heads * group;
  t.ffn = kept_width(t.ffn, p.ffn);
  t.moe_ffn = kept_width(t.moe_ffn, p.ffn);
  t.shared_ffn = kept_width(t.shared_ffn, p.ffn);
  t.hidden = kept_width(t.hidden, p.hidden);
  t.experts = kept(t.experts, p.experts);
  if (t.experts < t.experts_per_token)
    refuse(fmt::format("{} experts are left, but a token has {}", t.experts, t.experts_per_token));
  return t;
}

}  // namespace stepcast
