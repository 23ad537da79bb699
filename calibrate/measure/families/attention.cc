// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/attention.h"

#include <algorithm>
#include <optional>

#include "calibrate/measure/families/attention_graph.h"
#include "sim/check.h"

namespace stepcast::measure {
namespace {

// Where the tensors of one call lie, one after the other.
class Layout {
 public:
  Layout(const AttentionShape& s, bool backward) {
    const int64_t queries = s.batch * s.seq_q * s.heads, keys = s.batch * s.seq_k * s.kv_heads;
    q_ = add(queries * s.qk_dim * 2);
    k_ = add(keys * s.qk_dim * 2);
    v_ = add(keys * s.v_dim * 2);
    if (backward) d_o_ = add(queries * s.v_dim * 2);
    inputs_ = bytes_;
    o_ = add(queries * s.v_dim * 2);
    stats_ = add(queries * 4);
    if (!backward) return;
    dq_ = add(queries * s.qk_dim * 2);
    dk_ = add(keys * s.qk_dim * 2);
    dv_ = add(keys * s.v_dim * 2);
  }

  int64_t bytes() const { return bytes_; }
  int64_t input_elements() const { return inputs_ / 2; }  // the first so many 16-bit numbers
  AttentionOperands at(void* begin) const {
    const auto place = [&](int64_t offset) -> void* { return static_cast<char*>(begin) + offset; };
    AttentionOperands x;
    x.q = place(q_);
    x.k = place(k_);
    x.v = place(v_);
    x.o = place(o_);
    x.stats = static_cast<float*>(place(stats_));
    x.d_o = place(d_o_);
    x.dq = place(dq_);
    x.dk = place(dk_);
    x.dv = place(dv_);
    return x;
  }

 private:
  int64_t add(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  int64_t bytes_ = 0, inputs_ = 0;
  int64_t q_ = 0, k_ = 0, v_ = 0, d_o_ = 0, o_ = 0, stats_ = 0, dq_ = 0, dk_ = 0, dv_ = 0;
};

}  // namespace

Timing time_attention(const Bench& bench, const Work& work) {
  const bool backward = work.kind == WorkKind::attention_backward;
  STEPCAST_CHECK(backward || work.kind == WorkKind::attention_forward, "only fused attention");
  const AttentionShape shape = attention_shape(work);
  const FusedAttention forward(shape, false);
  std::optional<FusedAttention> gradient;
  if (backward) gradient.emplace(shape, true);
  const FusedAttention& measured = backward ? *gradient : forward;
  const Layout layout(shape, backward);
  const Operands operands(layout.bytes(), bench.device);
  const DeviceMemory workspace(
      std::max<int64_t>(256, std::max(forward.workspace_bytes(), measured.workspace_bytes())));
  for (int64_t copy = 0; copy < operands.copies(); ++copy) {
    fill_normal(operands.at(copy), shape.dtype, layout.input_elements(),
                static_cast<uint64_t>(copy), 1, bench.stream);
    // The backward pass reads the context and the sums of this very forward.
    forward.run(layout.at(operands.at(copy)), workspace.data(), bench.stream);
  }
  return time_calls(
      bench.stream,
      [&](int64_t call) {
        measured.run(layout.at(operands.at(call)), workspace.data(), bench.stream);
      },
      bench.timing);
}

}  // namespace stepcast::measure
