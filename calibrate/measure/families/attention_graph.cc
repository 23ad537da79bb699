// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/attention_graph.h"

#include <string>
#include <utility>

#include "sim/check.h"

#ifdef STEPCAST_CUDNN
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "calibrate/measure/families/attention_operations.h"
#endif

namespace stepcast::measure {

AttentionShape attention_shape(const Work& w) {
  AttentionShape s;
  s.batch = w.batch;
  s.heads = w.heads;
  s.kv_heads = w.kv_heads > 0 ? w.kv_heads : w.heads;
  s.seq_q = w.m;
  s.seq_k = w.n;
  s.qk_dim = w.k;
  s.v_dim = w.value_dim > 0 ? w.value_dim : w.k;
  s.causal = w.causal;
  s.dtype = w.dtype;
  return s;
}

#ifdef STEPCAST_CUDNN
namespace {

using namespace cudnn_graph;

// ------------------------------------------------------------------------------------ the patterns
// The tensors of the call, and what both directions begin with.
struct Attention {
  const AttentionShape& s;
  cudnnDataType_t type{};
  Graph& g;

  Extents square() const { return {s.batch, s.heads, s.seq_q, s.seq_k}; }
  Extents rows() const { return {s.batch, s.heads, s.seq_q, 1}; }

  // [sequence][token][head][values], as heads of tokens x values.
  Tensor heads(Role role, int64_t count, int64_t seq, int64_t dim, int64_t row) {
    if (row == 0) row = count * dim;
    return g.given(role, type, {s.batch, count, seq, dim}, {seq * row, dim, row, 1});
  }
  // The same, as values x tokens.
  Tensor turned(Role role, int64_t seq, int64_t dim, int64_t row) {
    if (row == 0) row = s.kv_heads * dim;
    return g.given(role, type, {s.batch, s.kv_heads, dim, seq}, {seq * row, dim, 1, row});
  }
  Tensor queries(Role role) { return heads(role, s.heads, s.seq_q, s.qk_dim, s.q_row); }
  Tensor context(Role role) { return heads(role, s.heads, s.seq_q, s.v_dim, s.o_row); }
  Tensor stats() { return g.given(Role::stats, CUDNN_DATA_FLOAT, rows(), packed(rows())); }

  Tensor scaled_scores(const Tensor& q, const Tensor& k_turned, const Tensor& scale) {
    const Tensor scores = g.inside(square());
    g.product(q, k_turned, scores);
    return g.pointwise(scores, {.mode = CUDNN_POINTWISE_MUL, .b = &scale});
  }
  // Keys after the query count for nothing.
  Tensor masked(const Tensor& scores) {
    if (!s.causal) return scores;
    const auto index = [&](int64_t axis) {
      return g.pointwise(
          scores, {.mode = CUDNN_POINTWISE_GEN_INDEX, .precision = CUDNN_DATA_INT32, .axis = axis},
          CUDNN_DATA_INT32);
    };
    const Tensor row = index(2), column = index(3);
    const Tensor seen = g.pointwise(
        row, {.mode = CUDNN_POINTWISE_CMP_GE, .b = &column, .precision = CUDNN_DATA_BOOLEAN},
        CUDNN_DATA_BOOLEAN);
    const Tensor nothing = g.scalar(-std::numeric_limits<float>::infinity());
    return g.pointwise(scores,
                       {.mode = CUDNN_POINTWISE_BINARY_SELECT, .b = &nothing, .choice = &seen});
  }
  Tensor scale() { return g.scalar(1.0F / std::sqrt(static_cast<float>(s.qk_dim))); }
};

void add_forward(Attention& a) {
  Graph& g = a.g;
  const AttentionShape& s = a.s;
  const Tensor q = a.queries(Role::q), k = a.turned(Role::k, s.seq_k, s.qk_dim, s.k_row);
  const Tensor scale = a.scale();
  const Tensor scores = a.masked(a.scaled_scores(q, k, scale));

  const Tensor maximum = g.inside(a.rows()), sum = g.inside(a.rows());
  g.reduce(scores, CUDNN_REDUCE_TENSOR_MAX, maximum);
  const Tensor below = g.pointwise(scores, {.mode = CUDNN_POINTWISE_SUB, .b = &maximum});
  const Tensor exponential = g.pointwise(below, {.mode = CUDNN_POINTWISE_EXP});
  g.reduce(exponential, CUDNN_REDUCE_TENSOR_ADD, sum);
  const Tensor logarithm = g.pointwise(sum, {.mode = CUDNN_POINTWISE_LOG});
  g.pointwise(maximum, {.mode = CUDNN_POINTWISE_ADD, .b = &logarithm}, a.stats());
  const Tensor probabilities =
      g.pointwise(exponential, {.mode = CUDNN_POINTWISE_DIV, .b = &sum}, a.type);

  const Tensor v = a.heads(Role::v, s.kv_heads, s.seq_k, s.v_dim, s.v_row);
  g.product(probabilities, v, a.context(Role::o));
}

// The transpose of a square matrix, in 16 bits.
Tensor transposed(Attention& a, const Tensor& x) {
  const AttentionShape& s = a.s;
  const Extents size{s.batch, s.heads, s.seq_k, s.seq_q};
  const Extents stride{s.heads * s.seq_q * s.seq_k, s.seq_q * s.seq_k, 1, s.seq_k};
  const Tensor y = a.g.tensor(a.type, size, stride, Place::inside);
  a.g.reshape(x, y);
  return y;
}

// Gradient of keys or values: left^T right, summed over the query heads of a group.
void add_key_gradient(Attention& a, const Tensor& left, const Tensor& right, Role role, int64_t dim,
                      int64_t row) {
  const AttentionShape& s = a.s;
  const Tensor gradient = a.heads(role, s.kv_heads, s.seq_k, dim, row);
  const Tensor turned = transposed(a, left);
  if (s.heads == s.kv_heads) return a.g.product(turned, right, gradient);
  const Tensor each = a.g.inside({s.batch, s.heads, s.seq_k, dim}, a.type);
  a.g.product(turned, right, each);
  a.g.reduce(each, CUDNN_REDUCE_TENSOR_ADD, gradient);
}

void add_backward(Attention& a) {
  Graph& g = a.g;
  const AttentionShape& s = a.s;
  // Of each query: the sum of its gradient times its context.
  const Tensor d_o = a.context(Role::d_o), o = a.context(Role::o);
  const Tensor both = g.pointwise(d_o, {.mode = CUDNN_POINTWISE_MUL, .b = &o});
  const Tensor plain_sum = g.inside(a.rows());
  g.reduce(both, CUDNN_REDUCE_TENSOR_ADD, plain_sum);
  const Tensor one = g.scalar(1);
  const Tensor sum = g.given(Role::softmax_sum, CUDNN_DATA_FLOAT, a.rows(), packed(a.rows()));
  g.pointwise(plain_sum, {.mode = CUDNN_POINTWISE_MUL, .b = &one}, sum);

  // Probabilities once more, and the gradient of the values.
  const Tensor q = a.queries(Role::q), k = a.turned(Role::k, s.seq_k, s.qk_dim, s.k_row);
  const Tensor scale = a.scale(), stats = a.stats();
  const Tensor scores = a.scaled_scores(q, k, scale);
  const Tensor below = g.pointwise(scores, {.mode = CUDNN_POINTWISE_SUB, .b = &stats});
  const Tensor probabilities = g.pointwise(a.masked(below), {.mode = CUDNN_POINTWISE_EXP});
  add_key_gradient(a, probabilities, d_o, Role::dv, s.v_dim, s.v_row);

  // Gradient of the scores.
  const Tensor v = a.turned(Role::v, s.seq_k, s.v_dim, s.v_row);
  const Tensor d_probabilities = g.inside(a.square());
  g.product(d_o, v, d_probabilities);
  const Tensor centred = g.pointwise(d_probabilities, {.mode = CUDNN_POINTWISE_SUB, .b = &sum});
  const Tensor d_scaled = g.pointwise(centred, {.mode = CUDNN_POINTWISE_MUL, .b = &probabilities});
  const Tensor d_scores = g.pointwise(d_scaled, {.mode = CUDNN_POINTWISE_MUL, .b = &scale});
  add_key_gradient(a, d_scores, q, Role::dk, s.qk_dim, s.k_row);

  // That of the queries is summed in fp32.
  const int64_t row = s.k_row == 0 ? s.kv_heads * s.qk_dim : s.k_row;
  const Tensor keys = g.tensor(a.type, {s.batch, s.kv_heads, s.seq_k, s.qk_dim},
                               {s.seq_k * row, s.qk_dim, row, 1}, Place::inside);
  g.reshape(k, keys);
  const Tensor dq_sum = g.given(Role::dq_sum, CUDNN_DATA_FLOAT, q.size, packed(q.size));
  g.product(d_scores, keys, dq_sum);
  g.pointwise(dq_sum, {.mode = CUDNN_POINTWISE_IDENTITY}, a.queries(Role::dq));
}

int64_t rounded(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

struct Handle {
  Handle() { check(cudnnCreate(&raw), "handle"); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { cudnnDestroy(raw); }
  cudnnHandle_t raw = nullptr;
};

}  // namespace

struct FusedAttention::Plan {
  Handle handle;
  Graph graph;
  Descriptor operations, heuristics, configuration, plan;
  int64_t library_bytes = 0, softmax_sum_bytes = 0, dq_sum_bytes = 0;

  Plan(const AttentionShape& s, bool backward);

 private:
  void compile();
};

FusedAttention::Plan::Plan(const AttentionShape& s, bool backward) {
  if (s.dtype != DType::bf16 && s.dtype != DType::fp16)
    throw Unsupported("fused attention is measured in bf16 and fp16");
  // Before 9.6 the sum of the queries' gradients had to be cleared by the caller.
  if (cudnnGetVersion() < 90600) throw Unsupported("fused attention is measured with cuDNN 9.6 on");
  if (s.causal && s.seq_q != s.seq_k)
    throw Unsupported("fused attention has no causal mask that is not square");
  Attention attention{s, s.dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, graph};
  if (backward) {
    add_backward(attention);
    const int64_t queries = s.batch * s.heads * s.seq_q;
    softmax_sum_bytes = rounded(queries * 4);
    dq_sum_bytes = rounded(queries * s.qk_dim * 4);
  } else {
    add_forward(attention);
  }
  compile();
}

void FusedAttention::Plan::compile() {
  const std::vector<cudnnBackendDescriptor_t> ops = graph.operations();
  operations = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  operations.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle.raw);
  operations.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 static_cast<int64_t>(ops.size()), ops.data());
  operations.finalize("graph");

  heuristics = Descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations.raw());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.finalize("choice of kernels");

  // The first choice that this device can run.
  constexpr int64_t kMostChoices = 16;
  std::vector<Descriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < kMostChoices; ++i) {
    choices.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(choices.back().raw());
  }
  int64_t found = 0;
  check(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostChoices, &found, raw.data()),
        "choice of kernels");
  std::string reason = "cuDNN has no kernel for this attention";
  for (int64_t i = 0; i < std::min(found, kMostChoices); ++i) {
    try {
      Descriptor p(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      p.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle.raw);
      p.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, raw[static_cast<size_t>(i)]);
      p.finalize("kernel");
      check(cudnnBackendGetAttribute(p.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, nullptr, &library_bytes),
            "workspace");
      plan = std::move(p);
      configuration = std::move(choices[static_cast<size_t>(i)]);
      return;
    } catch (const Unsupported& e) {
      reason = e.what();
    }
  }
  throw Unsupported(reason);
}

FusedAttention::FusedAttention(const AttentionShape& shape, bool backward)
    : plan_(std::make_unique<Plan>(shape, backward)) {}

int64_t FusedAttention::workspace_bytes() const {
  return rounded(plan_->library_bytes) + plan_->softmax_sum_bytes + plan_->dq_sum_bytes;
}

void FusedAttention::run(const AttentionOperands& x, void* workspace, cudaStream_t stream) const {
  const Plan& p = *plan_;
  auto* own = static_cast<char*>(workspace) + rounded(p.library_bytes);
  const std::map<Role, const void*> places{{Role::q, x.q},
                                           {Role::k, x.k},
                                           {Role::v, x.v},
                                           {Role::o, x.o},
                                           {Role::stats, x.stats},
                                           {Role::d_o, x.d_o},
                                           {Role::dq, x.dq},
                                           {Role::dk, x.dk},
                                           {Role::dv, x.dv},
                                           {Role::softmax_sum, own},
                                           {Role::dq_sum, own + p.softmax_sum_bytes}};
  std::vector<int64_t> ids;
  std::vector<const void*> pointers;
  for (const auto& [role, uid] : p.graph.roles()) {
    STEPCAST_CHECK(places.at(role) != nullptr, "every operand is given");
    ids.push_back(uid);
    pointers.push_back(places.at(role));
  }
  for (const auto& [uid, value] : p.graph.scalars()) {
    ids.push_back(uid);
    pointers.push_back(&value);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<int64_t>(ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize("operands");
  check(cudnnSetStream(p.handle.raw, stream), "stream");
  check(cudnnBackendExecute(p.handle.raw, p.plan.raw(), pack.raw()), "execution");
}

#else  // without cuDNN

struct FusedAttention::Plan {};

FusedAttention::FusedAttention(const AttentionShape&, bool) {
  throw Unsupported("this program was built without cuDNN");
}
int64_t FusedAttention::workspace_bytes() const {
  return 0;
}
void FusedAttention::run(const AttentionOperands&, void*, cudaStream_t) const {}

#endif

FusedAttention::FusedAttention(FusedAttention&&) noexcept = default;
FusedAttention& FusedAttention::operator=(FusedAttention&&) noexcept = default;
FusedAttention::~FusedAttention() = default;

}  // namespace stepcast::measure
