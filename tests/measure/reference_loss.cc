// SPDX-License-Identifier: Apache-2.0
// The loss from the formulas, without the stack.
#include <cmath>
#include <random>

#include "tests/measure/reference_math.h"
#include "tests/measure/reference_transformer.h"

namespace stepcast::measure {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows normed(const Rows& x, const double* gain) {
  Rows y = x;
  for (std::vector<double>& row : y) {
    double squares = 0;
    for (double v : row) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + kEpsilon);
    for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * gain[i];
  }
  return y;
}

Rows times(const Rows& x, const double* w, int64_t outputs) {
  Rows y(x.size(), std::vector<double>(static_cast<size_t>(outputs), 0.0));
  for (size_t t = 0; t < x.size(); ++t)
    for (size_t o = 0; o < y[t].size(); ++o)
      for (size_t i = 0; i < x[t].size(); ++i) y[t][o] += x[t][i] * w[o * x[t].size() + i];
  return y;
}

void plus(Rows& x, const Rows& y) {
  for (size_t t = 0; t < x.size(); ++t)
    for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
}

// Of one sequence.
Rows attended(const TrainingStep& s, Rows qkv) {
  const auto dim = static_cast<size_t>(s.head_dim());
  const auto heads = static_cast<size_t>(s.heads), groups = static_cast<size_t>(s.kv_heads);
  Rows out(qkv.size(), std::vector<double>(heads * dim, 0.0));
  for (size_t t = 0; t < qkv.size(); ++t)
    for (size_t h = 0; h < heads + groups; ++h)
      rotate(&qkv[t][h * dim], static_cast<int64_t>(t), s.head_dim(), false);
  for (size_t h = 0; h < heads; ++h) {
    const size_t q = h * dim, k = (heads + h / (heads / groups)) * dim, v = k + groups * dim;
    for (size_t i = 0; i < qkv.size(); ++i) {
      std::vector<double> weight;
      double sum = 0;
      for (size_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (size_t d = 0; d < dim; ++d) dot += qkv[i][q + d] * qkv[j][k + d];
        weight.push_back(std::exp(dot / std::sqrt(static_cast<double>(dim))));
        sum += weight.back();
      }
      for (size_t j = 0; j <= i; ++j)
        for (size_t d = 0; d < dim; ++d) out[i][q + d] += weight[j] / sum * qkv[j][v + d];
    }
  }
  return out;
}

Rows activated(const TrainingStep& s, const Rows& up) {
  Rows y(up.size(), std::vector<double>(static_cast<size_t>(s.ffn)));
  for (size_t t = 0; t < y.size(); ++t)
    for (size_t i = 0; i < y[t].size(); ++i)
      y[t][i] = s.gated ? silu(up[t][i]) * up[t][i + y[t].size()] : gelu(up[t][i]);
  return y;
}

}  // namespace

double reference_loss(const TrainingStep& s, const std::vector<double>& parameters,
                      const Microbatch& batch) {
  const ParameterMap map = map_parameters(s);
  const auto of = [&](const Parameter& p) { return parameters.data() + p.offset; };
  const auto seq = static_cast<size_t>(s.seq);
  double loss = 0;
  for (size_t q = 0; q < static_cast<size_t>(s.micro); ++q) {
    Rows x;
    for (size_t t = 0; t < seq; ++t) {
      const double* row = of(map.embedding) + batch.tokens[q * seq + t] * s.hidden;
      x.emplace_back(row, row + s.hidden);
    }
    for (const LayerParameters& p : map.layers) {
      const Rows context = attended(s, times(normed(x, of(p.norm1)), of(p.qkv), s.qkv_width()));
      plus(x, times(context, of(p.projection), s.hidden));
      const Rows up = times(normed(x, of(p.norm2)), of(p.up), s.up_width());
      plus(x, times(activated(s, up), of(p.down), s.hidden));
    }
    const Rows logits = times(normed(x, of(map.final_norm)), of(map.head), s.vocab);
    for (size_t t = 0; t < seq; ++t) {
      double sum = 0;
      for (double v : logits[t]) sum += std::exp(v);
      loss += std::log(sum) - logits[t][static_cast<size_t>(batch.targets[q * seq + t])];
    }
  }
  return loss / static_cast<double>(s.tokens());
}

std::vector<double> reference_parameters(const TrainingStep& s, double deviation_factor) {
  std::vector<double> values(static_cast<size_t>(map_parameters(s).count));
  std::mt19937_64 random(7);
  for (const InitialValue& v : initial_values(s)) {
    for (int64_t i = 0; i < v.where.count(); ++i) {
      // The sum of twelve uniform numbers is close enough to a normal one.
      double sum = -6;
      for (int k = 0; k < 12; ++k) sum += static_cast<double>(random() >> 11) * 0x1p-53;
      const double deviation = v.deviation > 0 ? v.deviation * deviation_factor : 0.1;
      values[static_cast<size_t>(v.where.offset + i)] = v.constant + deviation * sum;
    }
  }
  return values;
}

}  // namespace stepcast::measure
