// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_works.h"

#include <algorithm>

#include "calibrate/measure/training_step_memory.h"
#include "calibrate/measure/training_step_stack.h"
#include "sim/check.h"

namespace stepcast::measure {
namespace {

int64_t bytes_of(int64_t count, DType dtype) {
  return static_cast<int64_t>(static_cast<double>(count) * bytes_per_element(dtype));
}
int64_t bytes_of(const Tensor& t) {
  return bytes_of(t.count, t.dtype);
}

// A backend that takes notes.  Its tensors have a place, but no memory.
class Notes {
 public:
  Notes(const TrainingStep& shape, Arena& arena) : s_(shape), arena_(arena) {}

  StepWorks out;

  Tensor allocate(int64_t count, DType dtype) {
    Tensor t{nullptr, count, dtype};
    t.place = arena_.take(bytes_of(t));
    hold(bytes_of(t));
    return t;
  }
  void free(Tensor& t) {
    arena_.give_back(t.place);
    held_ -= bytes_of(t);
    t = {};
  }
  void hold(int64_t bytes) {
    held_ += bytes;
    out.peak_bytes = std::max(out.peak_bytes, held_);
  }
  Matrices weight(const Parameter& p) const {
    return {Tensor{nullptr, p.count(), DType::bf16, 0}, 0, p.width, 0};
  }
  Matrices main_gradient(const Parameter& p) const {
    return {Tensor{nullptr, p.count(), DType::fp32, 0}, 0, p.width, 0};
  }

  void product(const ProductShape& p, const Matrices&, const Matrices&, const Matrices& c) {
    Work w;
    w.kind = WorkKind::gemm;
    w.layout = p.layout;
    w.m = p.m;
    w.n = p.n;
    w.k = p.k;
    w.batch = p.batch;
    // Of the heads' products the forecast says how many heads there are; they write bf16.
    if (c.stride > 0) w.heads = s_.heads;
    w.accumulate = p.accumulate && c.tensor.dtype == DType::fp32;
    w.flops.value = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) *
                    static_cast<double>(p.k) * static_cast<double>(p.batch);
    add(w);
  }
  void attention(const Tensor&, const Tensor&, const Tensor&) { attention_work(false); }
  void attention_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&) {
    attention_work(true);
  }

  void embedding(const Tensor&, const Parameter&, const Tensor& out_rows) {
    kernel(Kernel::embedding, 2 * bytes_of(out_rows));
  }
  void embedding_backward(const Tensor&, const Tensor& dy, const Tensor&) {
    kernel(Kernel::embedding_backward, 3 * bytes_of(dy));
  }
  void fill(const Tensor& t) { kernel(Kernel::fill, bytes_of(t)); }
  void accumulate(const Tensor& t, const Parameter& p) {
    kernel(Kernel::add, bytes_of(t) + 2 * bytes_of(p.count(), DType::fp32));
  }
  void rms_norm(const Tensor& x, const Parameter&, const Tensor& y, const Tensor&) {
    kernel(Kernel::rms_norm, bytes_of(x) + bytes_of(y));
  }
  void rms_norm_backward(const Tensor& d, const Tensor&, const Parameter&, const Tensor&) {
    kernel(Kernel::rms_norm_backward, 3 * bytes_of(d));
  }
  void rotary(const Tensor&, bool backward) {
    const int64_t turned = s_.tokens() * (s_.heads + s_.kv_heads) * s_.head_dim();
    kernel(backward ? Kernel::rotary_backward : Kernel::rotary, 2 * bytes_of(turned, DType::bf16));
  }
  void softmax(const Tensor& scores, const Tensor&) {
    kernel(Kernel::softmax, 2 * bytes_of(scores));
  }
  void softmax_backward(const Tensor&, const Tensor& d) {
    kernel(Kernel::softmax_backward, 3 * bytes_of(d));
  }
  void merge_heads(const Tensor& from, const Tensor&) {
    kernel(Kernel::transpose, 2 * bytes_of(from));
  }
  void split_heads(const Tensor& from, const Tensor&) {
    kernel(Kernel::transpose, 2 * bytes_of(from));
  }
  void add(const Tensor& a, const Tensor&, const Tensor&) { kernel(Kernel::add, 3 * bytes_of(a)); }
  void activation(const Tensor& up, const Tensor& y) {
    kernel(Kernel::activation, bytes_of(up) + bytes_of(y));
  }
  void activation_backward(const Tensor& up, const Tensor& dy, const Tensor&) {
    kernel(Kernel::activation_backward, 2 * bytes_of(up) + bytes_of(dy));
  }
  void row_maximum(const Tensor& logits, const Tensor&) {
    kernel(Kernel::cross_entropy, bytes_of(logits));
  }
  void exponential(const Tensor& logits, const Tensor&, const Tensor& wide, const Tensor&) {
    kernel(Kernel::cross_entropy, bytes_of(logits) + bytes_of(wide));
  }
  void normalize(const Tensor& wide, const Tensor&, const Tensor&) {
    kernel(Kernel::cross_entropy, 2 * bytes_of(wide));
  }
  void logit_gradient(const Tensor& wide, const Tensor&, const Tensor& d) {
    kernel(Kernel::cross_entropy_backward, bytes_of(wide) + bytes_of(d));
  }

  double gradient_norm() {
    kernel(Kernel::grad_norm, all(DType::fp32));
    return 0;
  }
  void clip(double) { kernel(Kernel::scale, 2 * all(DType::fp32)); }
  void adam() { kernel(Kernel::adam, 7 * all(DType::fp32)); }
  void cast_parameters() { kernel(Kernel::cast, all(DType::fp32) + all(DType::bf16)); }
  void zero_gradients() { kernel(Kernel::fill, all(DType::fp32)); }

 private:
  void add(Work w) {
    w.dtype = DType::bf16;
    out.flops += w.flops.value;
    out.works.push_back(w);
  }
  void kernel(Kernel which, int64_t bytes) {
    Work w;
    w.kernel = which;
    w.bytes.value = bytes;
    add(w);
  }
  void attention_work(bool backward) {
    Work w;
    w.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward;
    w.causal = true;
    w.m = w.n = s_.seq;
    w.k = s_.head_dim();
    w.batch = s_.micro;
    w.heads = s_.heads;
    w.kv_heads = s_.kv_heads;
    w.flops.value = (backward ? 2.5 : 1.0) * 2.0 * static_cast<double>(s_.seq) *
                    static_cast<double>(s_.seq) * static_cast<double>(w.k * w.heads * w.batch);
    add(w);
  }
  int64_t all(DType dtype) const { return bytes_of(map_parameters(s_).count, dtype); }

  const TrainingStep& s_;
  Arena& arena_;
  int64_t held_ = 0;
};

}  // namespace

StepWorks step_works(const TrainingStep& shape) {
  const ParameterMap map = map_parameters(shape);
  Arena arena;
  Notes notes(shape, arena);
  // 2 bytes of the parameter, 4 each of gradient, master and two moments.
  notes.out.state_bytes = 18 * map.count;
  notes.hold(notes.out.state_bytes);
  notes.zero_gradients();
  const Tensor words{nullptr, shape.tokens(), DType::fp32, 0};
  for (int64_t i = 0; i < shape.microbatches; ++i) run_microbatch(notes, shape, map, words, words);
  update_parameters(notes);
  return notes.out;
}

int64_t microbatch_bytes(const TrainingStep& shape) {
  Arena arena;
  Notes notes(shape, arena);
  const Tensor words{nullptr, shape.tokens(), DType::fp32, 0};
  run_microbatch(notes, shape, map_parameters(shape), words, words);
  STEPCAST_CHECK(arena.empty(), "a microbatch frees what it takes");
  return arena.peak();
}

}  // namespace stepcast::measure
