// SPDX-License-Identifier: Apache-2.0
#include "tests/measure/reference_transformer.h"

#include <algorithm>
#include <cmath>

#include "tests/measure/reference_math.h"

namespace stepcast::measure {
namespace {

double* at(const Tensor& t) {
  return static_cast<double*>(t.data);
}
int64_t whole(const Tensor& t, int64_t i) {
  return static_cast<int64_t>(at(t)[i]);
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

TrainingStep tiny_step(int64_t seq, int64_t kv_heads, bool gated, bool fused_attention) {
  TrainingStep s;
  s.layers = 2;
  s.hidden = 64;
  s.heads = 4;
  s.kv_heads = kv_heads;
  s.ffn = 96;
  s.vocab = 128;
  s.seq = seq;
  s.micro = 2;
  s.microbatches = 2;
  s.gated = gated;
  s.fused_attention = fused_attention;
  check_shape(s);
  return s;
}

}  // namespace stepcast::measure
