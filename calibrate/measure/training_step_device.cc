// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "calibrate/measure/kernels/attention.h"
#include "calibrate/measure/kernels/norms.h"
#include "calibrate/measure/kernels/optimizer.h"
#include "calibrate/measure/kernels/pointwise.h"
#include "calibrate/measure/kernels/reductions.h"
#include "calibrate/measure/kernels/tokens.h"
#include "calibrate/measure/training_step_kernels.h"
#include "calibrate/measure/training_step_works.h"
#include "sim/check.h"

namespace stepcast::measure {
namespace {

using Bf16 = __nv_bfloat16;

constexpr float kRotaryBase = 10000;  // Su et al. 2021, section 3.2.2

Bf16* bf16(const Tensor& t) {
  return static_cast<Bf16*>(t.data);
}
float* fp32(const Tensor& t) {
  return static_cast<float*>(t.data);
}
const int32_t* words(const Tensor& t) {
  return static_cast<const int32_t*>(t.data);
}

int64_t bytes_of(int64_t count, DType dtype) {
  return static_cast<int64_t>(static_cast<double>(count) * bytes_per_element(dtype));
}

void* begin_of(const Matrices& x) {
  return static_cast<char*>(x.tensor.data) + bytes_of(x.offset, x.tensor.dtype);
}

// Rows and batches as gemm.h wants them: 0 where the matrices follow each other densely and begin
// at a line of memory, so that the kernel is the one of a row of the table.
void describe(const Matrices& x, int64_t rows, int64_t columns, int64_t batch, int64_t* row,
              int64_t* stride) {
  const bool dense = x.ld == columns && (batch == 1 || x.stride == rows * columns);
  const bool aligned = reinterpret_cast<uintptr_t>(begin_of(x)) % 256 == 0;
  *row = dense && aligned ? 0 : x.ld;
  *stride = dense && aligned ? 0 : x.stride;
}

}  // namespace

AttentionShape attention_shape(const TrainingStep& step) {
  AttentionShape a;
  a.batch = step.micro;
  a.heads = step.heads;
  a.kv_heads = step.kv_heads;
  a.seq_q = a.seq_k = step.seq;
  a.qk_dim = a.v_dim = step.head_dim();
  a.causal = true;
  a.q_row = a.k_row = a.v_row = step.qkv_width();
  return a;
}

// ------------------------------------------------------------------------------------------ memory
DeviceBackend::DeviceBackend(const TrainingStep& shape, const Device& device, cudaStream_t stream)
    : s_(shape), map_(map_parameters(shape)), stream_(stream), blas_(device) {
  if (s_.fused_attention) {
    const AttentionShape a = attention_shape(s_);
    attention_.emplace(a, false);
    attention_backward_.emplace(a, true);
    const int64_t most =
        std::max(attention_->workspace_bytes(), attention_backward_->workspace_bytes());
    attention_workspace_ = DeviceMemory(std::max<int64_t>(most, 256));
  }
  parameters_ = DeviceMemory(bytes_of(map_.count, DType::bf16));
  for (DeviceMemory* wide : {&gradients_, &masters_, &first_, &second_})
    *wide = DeviceMemory(bytes_of(map_.count, DType::fp32));
  block_ = DeviceMemory(microbatch_bytes(s_));
  sums_ = DeviceMemory(2 * sizeof(float));
  rotary_table_ = DeviceMemory(s_.seq * s_.head_dim() / 2 * static_cast<int64_t>(sizeof(float2)));
  rotary_table(rotary_table_.as<float2>(), s_.seq, s_.head_dim(), kRotaryBase, stream_);
  begin_parameters();
}

void DeviceBackend::begin_parameters() {
  uint64_t seed = 1;
  for (const InitialValue& v : initial_values(s_)) {
    float* const at = masters_.as<float>() + v.where.offset;
    if (v.deviation > 0) {
      fill_normal(at, DType::fp32, v.where.count(), seed++, static_cast<float>(v.deviation),
                  stream_);
    } else {
      measure::fill(at, static_cast<float>(v.constant), v.where.count(), stream_);
    }
  }
  measure::fill(first_.as<float>(), 0, map_.count, stream_);
  measure::fill(second_.as<float>(), 0, map_.count, stream_);
  cast_parameters();
  check_cuda(cudaStreamSynchronize(stream_), "first parameters");
}

Tensor DeviceBackend::upload(const std::vector<int32_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  DeviceMemory memory(count * static_cast<int64_t>(sizeof(int32_t)));
  check_cuda(cudaMemcpy(memory.data(), values.data(), values.size() * sizeof(int32_t),
                        cudaMemcpyHostToDevice),
             "tokens");
  // The stream does not wait for the default one, which the copy went to.
  check_cuda(cudaDeviceSynchronize(), "tokens");
  uploads_.push_back(std::move(memory));
  return {uploads_.back().data(), count, DType::fp32, 0};  // as wide
}

Tensor DeviceBackend::allocate(int64_t count, DType dtype) {
  Tensor t{nullptr, count, dtype, arena_.take(bytes_of(count, dtype))};
  STEPCAST_CHECK(t.place + bytes_of(count, dtype) <= block_.bytes(), "the block was large enough");
  t.data = block_.as<char>() + t.place;
  return t;
}

void DeviceBackend::free(Tensor& t) {
  arena_.give_back(t.place);
  t = {};
}

Matrices DeviceBackend::weight(const Parameter& p) const {
  return {Tensor{parameters_.as<Bf16>() + p.offset, p.count(), DType::bf16, 0}, 0, p.width, 0};
}

Matrices DeviceBackend::main_gradient(const Parameter& p) const {
  return {Tensor{gradients_.as<float>() + p.offset, p.count(), DType::fp32, 0}, 0, p.width, 0};
}

// ---------------------------------------------------------------------------------------- products
Product& DeviceBackend::prepared(const Key& key) {
  const auto known = products_.find(key);
  if (known != products_.end()) return known->second;
  Work w;
  w.kind = WorkKind::gemm;
  w.dtype = DType::bf16;
  w.layout = key.layout;
  w.m = key.m;
  w.n = key.n;
  w.k = key.k;
  w.batch = key.batch;
  w.accumulate = key.wide;
  const auto& lie = key.lie;
  Product product(blas_, w, {lie[0], lie[1]}, {lie[2], lie[3]}, {lie[4], lie[5]});
  return products_.emplace(key, std::move(product)).first->second;
}

void DeviceBackend::product(const ProductShape& p, const Matrices& a, const Matrices& b,
                            const Matrices& c) {
  Key key{p.layout, p.m, p.n, p.k, p.batch, c.tensor.dtype == DType::fp32, {}};
  const bool a_turned = p.layout == GemmLayout::nt, b_turned = p.layout == GemmLayout::tn;
  describe(a, a_turned ? p.k : p.m, a_turned ? p.m : p.k, p.batch, &key.lie[0], &key.lie[1]);
  describe(b, b_turned ? p.n : p.k, b_turned ? p.k : p.n, p.batch, &key.lie[2], &key.lie[3]);
  describe(c, p.m, p.n, p.batch, &key.lie[4], &key.lie[5]);
  prepared(key).run(begin_of(a), begin_of(b), begin_of(c), stream_, 1, p.accumulate);
}

// --------------------------------------------------------------------------------------- attention
AttentionOperands DeviceBackend::attention_operands(const Tensor& qkv, const Tensor& context,
                                                    const Tensor& log_sum_exp) const {
  AttentionOperands x;
  x.q = bf16(qkv);
  x.k = bf16(qkv) + s_.heads * s_.head_dim();
  x.v = bf16(qkv) + (s_.heads + s_.kv_heads) * s_.head_dim();
  x.o = bf16(context);
  x.stats = fp32(log_sum_exp);
  return x;
}

void DeviceBackend::attention(const Tensor& qkv, const Tensor& context, const Tensor& log_sum_exp) {
  attention_->run(attention_operands(qkv, context, log_sum_exp), attention_workspace_.data(),
                  stream_);
}

void DeviceBackend::attention_backward(const Tensor& qkv, const Tensor& context,
                                       const Tensor& log_sum_exp, const Tensor& d_context,
                                       const Tensor& d_qkv) {
  AttentionOperands x = attention_operands(qkv, context, log_sum_exp);
  x.d_o = bf16(d_context);
  x.dq = bf16(d_qkv);
  x.dk = bf16(d_qkv) + s_.heads * s_.head_dim();
  x.dv = bf16(d_qkv) + (s_.heads + s_.kv_heads) * s_.head_dim();
  attention_backward_->run(x, attention_workspace_.data(), stream_);
}

void DeviceBackend::softmax(const Tensor& scores, const Tensor& probabilities) {
  const float scale = 1 / std::sqrt(static_cast<float>(s_.head_dim()));
  measure::softmax(bf16(scores), bf16(probabilities), scale, true, s_.micro * s_.heads * s_.seq,
                   s_.seq, stream_);
}

void DeviceBackend::softmax_backward(const Tensor& probabilities, const Tensor& d) {
  const float scale = 1 / std::sqrt(static_cast<float>(s_.head_dim()));
  measure::softmax_backward(bf16(probabilities), bf16(d), scale, s_.micro * s_.heads * s_.seq,
                            s_.seq, stream_);
}

void DeviceBackend::merge_heads(const Tensor& by_head, const Tensor& by_token) {
  measure::merge_heads(bf16(by_head), bf16(by_token), s_.micro, s_.seq, s_.heads, s_.head_dim(),
                       stream_);
}

void DeviceBackend::split_heads(const Tensor& by_token, const Tensor& by_head) {
  measure::split_heads(bf16(by_token), bf16(by_head), s_.micro, s_.seq, s_.heads, s_.head_dim(),
                       stream_);
}

void DeviceBackend::rotary(const Tensor& qkv, bool backward) {
  measure::rotary(bf16(qkv), rotary_table_.as<float2>(), s_.tokens(), s_.qkv_width(),
                  s_.heads + s_.kv_heads, s_.head_dim(), s_.seq, backward, stream_);
}

// ------------------------------------------------------------------------------------ other layers
void DeviceBackend::embedding(const Tensor& tokens, const Parameter& table, const Tensor& rows) {
  measure::embedding(words(tokens), bf16(weight(table).tensor), bf16(rows), tokens.count, s_.hidden,
                     stream_);
}

void DeviceBackend::embedding_backward(const Tensor& tokens, const Tensor& dy,
                                       const Tensor& dense) {
  measure::embedding_backward(words(tokens), bf16(dy), bf16(dense), tokens.count, s_.hidden,
                              stream_);
}

void DeviceBackend::fill(const Tensor& t) {
  measure::fill(bf16(t), 0, t.count, stream_);
}

void DeviceBackend::accumulate(const Tensor& t, const Parameter& p) {
  measure::accumulate(bf16(t), fp32(main_gradient(p).tensor), t.count, stream_);
}

void DeviceBackend::rms_norm(const Tensor& x, const Parameter& gain, const Tensor& y,
                             const Tensor& rstd) {
  measure::rms_norm(bf16(x), bf16(weight(gain).tensor), bf16(y), fp32(rstd), x.count / gain.width,
                    gain.width, stream_);
}

void DeviceBackend::rms_norm_backward(const Tensor& d, const Tensor& x, const Parameter& gain,
                                      const Tensor& rstd) {
  measure::rms_norm_backward(bf16(d), bf16(x), bf16(weight(gain).tensor), fp32(rstd), bf16(d),
                             fp32(main_gradient(gain).tensor), x.count / gain.width, gain.width,
                             stream_);
}

void DeviceBackend::add(const Tensor& a, const Tensor& b, const Tensor& sum) {
  measure::add(bf16(a), bf16(b), bf16(sum), a.count, stream_);
}

void DeviceBackend::activation(const Tensor& up, const Tensor& y) {
  if (s_.gated) {
    gated_silu(bf16(up), bf16(y), s_.tokens(), s_.ffn, stream_);
  } else {
    gelu(bf16(up), nullptr, bf16(y), s_.tokens(), s_.ffn, stream_);
  }
}

void DeviceBackend::activation_backward(const Tensor& up, const Tensor& dy, const Tensor& d_up) {
  if (s_.gated) {
    gated_silu_backward(bf16(up), bf16(dy), bf16(d_up), s_.tokens(), s_.ffn, stream_);
  } else {
    gelu_backward(bf16(up), nullptr, bf16(dy), bf16(d_up), s_.tokens(), s_.ffn, stream_);
  }
}

// -------------------------------------------------------------------------------------------- loss
void DeviceBackend::row_maximum(const Tensor& logits, const Tensor& maximum) {
  measure::row_maximum(bf16(logits), fp32(maximum), s_.tokens(), s_.vocab, stream_);
}

void DeviceBackend::exponential(const Tensor& logits, const Tensor& maximum, const Tensor& wide,
                                const Tensor& sum) {
  measure::exponential(bf16(logits), fp32(maximum), fp32(wide), fp32(sum), s_.tokens(), s_.vocab,
                       stream_);
}

void DeviceBackend::normalize(const Tensor& wide, const Tensor& sum, const Tensor& targets) {
  measure::normalize(fp32(wide), fp32(sum), words(targets), sums_.as<float>(), s_.tokens(),
                     s_.vocab, stream_);
}

void DeviceBackend::logit_gradient(const Tensor& wide, const Tensor& targets, const Tensor& d) {
  const float share = 1 / static_cast<float>(s_.tokens() * s_.microbatches);
  cross_entropy_backward(fp32(wide), words(targets), bf16(d), share, s_.tokens(), s_.vocab,
                         stream_);
}

void DeviceBackend::zero_loss() {
  check_cuda(cudaMemsetAsync(sums_.data(), 0, sizeof(float), stream_), "loss");
}

double DeviceBackend::loss() const {
  float value = 0;
  check_cuda(cudaMemcpyAsync(&value, sums_.data(), sizeof value, cudaMemcpyDeviceToHost, stream_),
             "loss");
  check_cuda(cudaStreamSynchronize(stream_), "loss");
  return static_cast<double>(value);
}

// ------------------------------------------------------------------------------------------ update
void DeviceBackend::zero_gradients() {
  measure::fill(gradients_.as<float>(), 0, map_.count, stream_);
}

double DeviceBackend::gradient_norm() {
  float* const sum = sums_.as<float>() + 1;
  check_cuda(cudaMemsetAsync(sum, 0, sizeof(float), stream_), "gradient norm");
  grad_norm(gradients_.as<float>(), map_.count, sum, stream_);
  float squares = 0;
  check_cuda(cudaMemcpyAsync(&squares, sum, sizeof squares, cudaMemcpyDeviceToHost, stream_),
             "gradient norm");
  check_cuda(cudaStreamSynchronize(stream_), "gradient norm");
  return std::sqrt(static_cast<double>(squares));
}

void DeviceBackend::clip(double norm) {
  const double factor = norm > 1 ? 1 / norm : 1;
  scale(gradients_.as<float>(), nullptr, static_cast<float>(factor), map_.count, stream_);
}

void DeviceBackend::adam() {
  ++update;
  AdamStep step;
  step.rate = learning_rate;
  const auto t = static_cast<double>(update);
  step.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(step.beta1), t));
  step.correction2 = static_cast<float>(1 - std::pow(static_cast<double>(step.beta2), t));
  const AdamTensor all{gradients_.as<float>(), masters_.as<float>(), first_.as<float>(),
                       second_.as<float>(), map_.count};
  measure::adam(std::span(&all, 1), step, stream_);
}

void DeviceBackend::cast_parameters() {
  cast(masters_.as<float>(), parameters_.as<Bf16>(), map_.count, stream_);
}

}  // namespace stepcast::measure
