// SPDX-License-Identifier: Apache-2.0
#include "tests/measure/reference_transformer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace stepcast::measure {
namespace {

double* at(const Tensor& t) {
  return static_cast<double*>(t.data);
}
int64_t whole(const Tensor& t, int64_t i) {
  return static_cast<int64_t>(at(t)[i]);
}

constexpr double kEpsilon = 1e-5;  // of the norms (Llama)
constexpr double kBase = 10000;    // of the rotary angles (Su et al. 2021)

double rotary_angle(int64_t position, int64_t i, int64_t dim) {
  return static_cast<double>(position) *
         std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
}

// The first half of a head's values turns with the second.
void rotate(double* head, int64_t position, int64_t dim, bool back) {
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double angle = rotary_angle(position, i, dim) * (back ? -1 : 1);
    const double x = head[i], y = head[i + dim / 2];
    head[i] = x * std::cos(angle) - y * std::sin(angle);
    head[i + dim / 2] = x * std::sin(angle) + y * std::cos(angle);
  }
}

double gelu(double x) {  // the tanh form, Hendrycks and Gimpel 2016
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}
double gelu_slope(double x) {
  const double c = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu(double x) {
  return x * sigmoid(x);
}

}  // namespace

ReferenceBackend::ReferenceBackend(const TrainingStep& shape, std::vector<double> values)
    : parameters(std::move(values)), gradients(parameters.size(), 0.0), s_(shape) {}

Tensor ReferenceBackend::allocate(int64_t count, DType dtype) {
  // What nobody wrote is not a number.
  memory_.emplace_back(static_cast<size_t>(count), std::nan(""));
  ++live_tensors;
  return {memory_.back().data(), count, dtype, 0};
}

void ReferenceBackend::free(Tensor& t) {
  std::fill(at(t), at(t) + t.count, std::nan(""));  // nor is what is read after it was freed
  --live_tensors;
  t = {};
}

Tensor ReferenceBackend::whole_numbers(const std::vector<int32_t>& values) {
  memory_.emplace_back(values.begin(), values.end());
  return {memory_.back().data(), static_cast<int64_t>(values.size()), DType::fp32, 0};
}

Matrices ReferenceBackend::weight(const Parameter& p) {
  return {Tensor{parameters.data() + p.offset, p.count(), DType::bf16, 0}, 0, p.width, 0};
}

Matrices ReferenceBackend::main_gradient(const Parameter& p) {
  return {Tensor{gradients.data() + p.offset, p.count(), DType::fp32, 0}, 0, p.width, 0};
}

void ReferenceBackend::product(const ProductShape& p, const Matrices& a, const Matrices& b,
                               const Matrices& c) {
  const bool a_turned = p.layout == GemmLayout::nt, b_turned = p.layout == GemmLayout::tn;
  for (int64_t q = 0; q < p.batch; ++q) {
    const double* pa = at(a.tensor) + a.offset + q * a.stride;
    const double* pb = at(b.tensor) + b.offset + q * b.stride;
    double* pc = at(c.tensor) + c.offset + q * c.stride;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = p.accumulate ? pc[i * c.ld + j] : 0;
        for (int64_t l = 0; l < p.k; ++l)
          sum += (a_turned ? pa[l * a.ld + i] : pa[i * a.ld + l]) *
                 (b_turned ? pb[j * b.ld + l] : pb[l * b.ld + j]);
        pc[i * c.ld + j] = sum;
      }
    }
  }
}

// --------------------------------------------------------------------------------------- attention
namespace {

// One head of one sequence: where its rows begin.
struct Head {
  const double *q, *k, *v;
  int64_t ld, seq, dim;

  double score(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < dim; ++d) sum += q[i * ld + d] * k[j * ld + d];
    return sum / std::sqrt(static_cast<double>(dim));
  }
};

Head head_of(const TrainingStep& s, const double* qkv, int64_t sequence, int64_t head) {
  const int64_t dim = s.head_dim();
  const double* row = qkv + sequence * s.seq * s.qkv_width();
  const int64_t kv = head / s.group();
  return {row + head * dim,
          row + (s.heads + kv) * dim,
          row + (s.heads + s.kv_heads + kv) * dim,
          s.qkv_width(),
          s.seq,
          dim};
}

}  // namespace

void ReferenceBackend::attention(const Tensor& qkv, const Tensor& context,
                                 const Tensor& log_sum_exp) {
  const int64_t dim = s_.head_dim();
  for (int64_t b = 0; b < s_.micro; ++b) {
    for (int64_t h = 0; h < s_.heads; ++h) {
      const Head head = head_of(s_, at(qkv), b, h);
      for (int64_t i = 0; i < s_.seq; ++i) {
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) sum += std::exp(head.score(i, j));
        at(log_sum_exp)[(b * s_.heads + h) * s_.seq + i] = std::log(sum);
        double* out = at(context) + ((b * s_.seq + i) * s_.heads + h) * dim;
        std::fill(out, out + dim, 0.0);
        for (int64_t j = 0; j <= i; ++j)
          for (int64_t d = 0; d < dim; ++d)
            out[d] += std::exp(head.score(i, j)) / sum * head.v[j * head.ld + d];
      }
    }
  }
}

void ReferenceBackend::attention_backward(const Tensor& qkv, const Tensor& context,
                                          const Tensor& log_sum_exp, const Tensor& d_context,
                                          const Tensor& d_qkv) {
  const int64_t dim = s_.head_dim(), ld = s_.qkv_width();
  std::fill(at(d_qkv), at(d_qkv) + d_qkv.count, 0.0);
  for (int64_t b = 0; b < s_.micro; ++b) {
    for (int64_t h = 0; h < s_.heads; ++h) {
      const Head head = head_of(s_, at(qkv), b, h);
      const Head d = head_of(s_, at(d_qkv), b, h);
      auto* dq = const_cast<double*>(d.q);
      auto* dk = const_cast<double*>(d.k);
      auto* dv = const_cast<double*>(d.v);
      for (int64_t i = 0; i < s_.seq; ++i) {
        const int64_t row = ((b * s_.seq + i) * s_.heads + h) * dim;
        const double* go = at(d_context) + row;
        double delta = 0;
        for (int64_t e = 0; e < dim; ++e) delta += go[e] * at(context)[row + e];
        const double lse = at(log_sum_exp)[(b * s_.heads + h) * s_.seq + i];
        for (int64_t j = 0; j <= i; ++j) {
          const double p = std::exp(head.score(i, j) - lse);
          double dp = 0;
          for (int64_t e = 0; e < dim; ++e) dp += go[e] * head.v[j * ld + e];
          const double ds = p * (dp - delta) / std::sqrt(static_cast<double>(dim));
          for (int64_t e = 0; e < dim; ++e) {
            dv[j * ld + e] += p * go[e];
            dq[i * ld + e] += ds * head.k[j * ld + e];
            dk[j * ld + e] += ds * head.q[i * ld + e];
          }
        }
      }
    }
  }
}

void ReferenceBackend::softmax(const Tensor& scores, const Tensor& probabilities) {
  const double scale = 1 / std::sqrt(static_cast<double>(s_.head_dim()));
  for (int64_t row = 0; row < s_.micro * s_.heads * s_.seq; ++row) {
    const int64_t seen = row % s_.seq + 1;
    const double* x = at(scores) + row * s_.seq;
    double* p = at(probabilities) + row * s_.seq;
    const double top = *std::max_element(x, x + seen);
    double sum = 0;
    for (int64_t j = 0; j < s_.seq; ++j)
      sum += p[j] = j < seen ? std::exp((x[j] - top) * scale) : 0;
    for (int64_t j = 0; j < s_.seq; ++j) p[j] /= sum;
  }
}

void ReferenceBackend::softmax_backward(const Tensor& probabilities, const Tensor& d) {
  const double scale = 1 / std::sqrt(static_cast<double>(s_.head_dim()));
  for (int64_t row = 0; row < s_.micro * s_.heads * s_.seq; ++row) {
    const double* p = at(probabilities) + row * s_.seq;
    double* g = at(d) + row * s_.seq;
    double dot = 0;
    for (int64_t j = 0; j < s_.seq; ++j) dot += p[j] * g[j];
    for (int64_t j = 0; j < s_.seq; ++j) g[j] = p[j] * (g[j] - dot) * scale;
  }
}

void ReferenceBackend::merge_heads(const Tensor& by_head, const Tensor& by_token) {
  const int64_t dim = s_.head_dim();
  for (int64_t b = 0; b < s_.micro; ++b)
    for (int64_t h = 0; h < s_.heads; ++h)
      for (int64_t i = 0; i < s_.seq; ++i)
        for (int64_t d = 0; d < dim; ++d)
          at(by_token)[((b * s_.seq + i) * s_.heads + h) * dim + d] =
              at(by_head)[((b * s_.heads + h) * s_.seq + i) * dim + d];
}

void ReferenceBackend::split_heads(const Tensor& by_token, const Tensor& by_head) {
  const int64_t dim = s_.head_dim();
  for (int64_t b = 0; b < s_.micro; ++b)
    for (int64_t h = 0; h < s_.heads; ++h)
      for (int64_t i = 0; i < s_.seq; ++i)
        for (int64_t d = 0; d < dim; ++d)
          at(by_head)[((b * s_.heads + h) * s_.seq + i) * dim + d] =
              at(by_token)[((b * s_.seq + i) * s_.heads + h) * dim + d];
}

// -------------------------------------------------------------------------------- other kernels
void ReferenceBackend::embedding(const Tensor& tokens, const Parameter& table, const Tensor& rows) {
  for (int64_t t = 0; t < tokens.count; ++t)
    for (int64_t i = 0; i < table.width; ++i)
      at(rows)[t * table.width + i] = at(weight(table).tensor)[whole(tokens, t) * table.width + i];
}

void ReferenceBackend::embedding_backward(const Tensor& tokens, const Tensor& dy,
                                          const Tensor& dense) {
  for (int64_t t = 0; t < tokens.count; ++t)
    for (int64_t i = 0; i < s_.hidden; ++i)
      at(dense)[whole(tokens, t) * s_.hidden + i] += at(dy)[t * s_.hidden + i];
}

void ReferenceBackend::fill(const Tensor& t) {
  std::fill(at(t), at(t) + t.count, 0.0);
}

void ReferenceBackend::accumulate(const Tensor& t, const Parameter& p) {
  for (int64_t i = 0; i < t.count; ++i) at(main_gradient(p).tensor)[i] += at(t)[i];
}

void ReferenceBackend::rms_norm(const Tensor& x, const Parameter& gain, const Tensor& y,
                                const Tensor& rstd) {
  const int64_t width = gain.width;
  const double* g = at(weight(gain).tensor);
  for (int64_t r = 0; r < x.count / width; ++r) {
    const double* row = at(x) + r * width;
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += row[i] * row[i];
    at(rstd)[r] = 1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (int64_t i = 0; i < width; ++i) at(y)[r * width + i] = row[i] * at(rstd)[r] * g[i];
  }
}

void ReferenceBackend::rms_norm_backward(const Tensor& d, const Tensor& x, const Parameter& gain,
                                         const Tensor& rstd) {
  const int64_t width = gain.width;
  const double* g = at(weight(gain).tensor);
  double* dg = at(main_gradient(gain).tensor);
  for (int64_t r = 0; r < x.count / width; ++r) {
    const double* row = at(x) + r * width;
    double* dy = at(d) + r * width;
    const double scale = at(rstd)[r];
    double dot = 0;
    for (int64_t i = 0; i < width; ++i) dot += dy[i] * g[i] * row[i];
    for (int64_t i = 0; i < width; ++i) {
      dg[i] += dy[i] * row[i] * scale;
      dy[i] = scale * (dy[i] * g[i] - row[i] * scale * scale * dot / static_cast<double>(width));
    }
  }
}

void ReferenceBackend::rotary(const Tensor& qkv, bool backward) {
  for (int64_t t = 0; t < s_.tokens(); ++t)
    for (int64_t h = 0; h < s_.heads + s_.kv_heads; ++h)
      rotate(at(qkv) + t * s_.qkv_width() + h * s_.head_dim(), t % s_.seq, s_.head_dim(), backward);
}

void ReferenceBackend::add(const Tensor& a, const Tensor& b, const Tensor& sum) {
  for (int64_t i = 0; i < a.count; ++i) at(sum)[i] = at(a)[i] + at(b)[i];
}

void ReferenceBackend::activation(const Tensor& up, const Tensor& y) {
  for (int64_t t = 0; t < s_.tokens(); ++t) {
    const double* row = at(up) + t * s_.up_width();
    for (int64_t i = 0; i < s_.ffn; ++i)
      at(y)[t * s_.ffn + i] = s_.gated ? silu(row[i]) * row[i + s_.ffn] : gelu(row[i]);
  }
}

void ReferenceBackend::activation_backward(const Tensor& up, const Tensor& dy, const Tensor& d_up) {
  for (int64_t t = 0; t < s_.tokens(); ++t) {
    const double* row = at(up) + t * s_.up_width();
    double* out = at(d_up) + t * s_.up_width();
    for (int64_t i = 0; i < s_.ffn; ++i) {
      const double d = at(dy)[t * s_.ffn + i], x = row[i];
      if (!s_.gated) {
        out[i] = d * gelu_slope(x);
        continue;
      }
      out[i] = d * row[i + s_.ffn] * sigmoid(x) * (1 + x * (1 - sigmoid(x)));
      out[i + s_.ffn] = d * silu(x);
    }
  }
}

void ReferenceBackend::row_maximum(const Tensor& logits, const Tensor& maximum) {
  for (int64_t t = 0; t < s_.tokens(); ++t)
    at(maximum)[t] = *std::max_element(at(logits) + t * s_.vocab, at(logits) + (t + 1) * s_.vocab);
}

void ReferenceBackend::exponential(const Tensor& logits, const Tensor& maximum, const Tensor& wide,
                                   const Tensor& sum) {
  for (int64_t t = 0; t < s_.tokens(); ++t) {
    at(sum)[t] = 0;
    for (int64_t i = t * s_.vocab; i < (t + 1) * s_.vocab; ++i)
      at(sum)[t] += at(wide)[i] = std::exp(at(logits)[i] - at(maximum)[t]);
  }
}

void ReferenceBackend::normalize(const Tensor& wide, const Tensor& sum, const Tensor& targets) {
  for (int64_t t = 0; t < s_.tokens(); ++t) {
    for (int64_t i = t * s_.vocab; i < (t + 1) * s_.vocab; ++i) at(wide)[i] /= at(sum)[t];
    loss -= std::log(at(wide)[t * s_.vocab + whole(targets, t)]) / static_cast<double>(s_.tokens());
  }
}

void ReferenceBackend::logit_gradient(const Tensor& wide, const Tensor& targets, const Tensor& d) {
  const double share = 1 / static_cast<double>(s_.tokens() * s_.microbatches);
  for (int64_t t = 0; t < s_.tokens(); ++t)
    for (int64_t i = 0; i < s_.vocab; ++i)
      at(d)[t * s_.vocab + i] =
          share * (at(wide)[t * s_.vocab + i] - (i == whole(targets, t) ? 1 : 0));
}

// ---------------------------------------------------------------------------- without the stack
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
