// SPDX-License-Identifier: Apache-2.0
// A mixture of experts in place of the MLP, with its norm and residual, forward and backward, as
// Megatron-Core runs it (core/transformer/moe/moe_layer.py): router, tokens to their experts
// (dispatch), the products of the experts, back (combine), sum; shared experts are an MLP beside
// all that.
//
// The weights of a token's experts are multiplied in with the activation, so that the sum of the
// outputs needs nothing but the map for its backward.
//
// Megatron-Core's dispatchers (core/transformer/moe/token_dispatcher.py):
//   all_to_all  copies are made and sorted by expert on the sender, exchanged over ep, gathered
//               over etp, and sorted by expert once more where a rank holds several: with ep =
//               etp = 1 too, where that is a copy in the order that is there
//   deepep      tokens are exchanged, once to each rank (and over the network once to each node),
//               and copied where they arrive
//   all_gather  every rank gets all tokens of ep and etp and takes those of its experts
// Combine is dispatch in reverse, with sums for copies.  For example, 4 ranks with 100 tokens each
// and 2 experts a token, all_to_all: a rank copies its tokens to 200 rows, sends 150 of them and
// gets 150 others in the mean; its experts multiply 200 rows, which go back and are summed to 100.
//
// Where loads differ, the ranks of a group wait for the one with most rows before tokens leave:
// kernels that take longer there are noted (`awaited`) and waited for together.
//
// fp8 is converted to just before an exchange and from just after it.  Products in blockwise fp8
// take what arrives as it is; the copy along columns is made of it (DeepSeek-V3, arXiv 2412.19437,
// section 3.2.3).
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/layers/layers.h"
#include "model/low_precision.h"
#include "sim/check.h"
#include "sim/log_exp.h"
#include "sim/units.h"

namespace stepcast {

// ------------------------------------------------------------------------ experts and their tokens
namespace {

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

// -------------------------------------------------------------------------------------- the passes
namespace {

// One pass through the experts of a layer, forward or backward.
struct ExpertPass {
  const Shard shard;     // `hidden` is what experts read: the latent, if they have one
  const LayerContext c;  // with it
  const ExpertShard x;
  std::vector<Work> awaited{};  // what the rank with most rows does longer, since await_busiest()

  explicit ExpertPass(const LayerContext& context)
      : shard(with_expert_input(context.shard)),
        c(context.with(shard)),
        x(expert_shard(context.shard)) {}
  ExpertPass(const ExpertPass&) = delete;
  ExpertPass& operator=(const ExpertPass&) = delete;

 private:
  static Shard with_expert_input(Shard s) {
    s.hidden = expert_input(s.model);
    return s;
  }
};

// Until the rank with most rows has done what has been noted.
void await_busiest(ExpertPass& e) {
  if (e.awaited.empty()) return;
  PassWriter& p = e.c.pass;
  for (const Work& work : std::exchange(e.awaited, {})) {
    p.join(p.communicate(Stream::ep, "busiest expert rank", work));
  }
  // The compute stream waits for them here, and for the exchange behind them on its own.
  p.compute("busiest expert rank", e.c.shard.memory_bound(Kernel::none, {}));
}

// `one` for each expert of the rank: one launch, or one each.
void expert_products(ExpertPass& e, PassWriter& pass, const std::string& label, const Work& one) {
  const LayerContext& c = e.c;
  const ExpertShard& x = e.x;
  const bool weights = one.layout == GemmLayout::nt;
  Work all = one;
  all.kind = WorkKind::grouped_gemm;
  all.batch = x.met;
  all = linear_work(c, all);
  // In the mean over the experts: the rows together count, not their rounded share.
  const double others = static_cast<double>(one.n) * static_cast<double>(weights ? one.m : one.k);
  all.flops = {2.0 * static_cast<double>(x.rows) * others};
  if (c.shard.plan.moe.grouped_gemm) {
    pass.compute(label, all);
  } else {
    for (int64_t i = 0; i < x.met; ++i) pass.compute(label, linear_work(c, one));
  }
  if (x.busiest == x.rows) return;
  all.kind = WorkKind::expert_wait;
  all.flops = {};
  all.busiest = (x.busiest + x.met - 1) / x.met;
  if (weights && c.split()) {
    // Whatever is exchanged after W waits for it.
    pass.communicate(Stream::ep, "busiest expert rank", all);
  } else {
    e.awaited.push_back(all);
  }
}

// A kernel that moves `moved(rows)`.
void expert_kernel(ExpertPass& e, const std::string& label, Kernel kernel,
                   const std::function<Bytes(int64_t)>& moved) {
  Work work = e.c.shard.memory_bound(kernel, moved(e.x.rows));
  e.c.pass.compute(label, work);
  const Bytes most = moved(e.x.busiest);
  if (most <= work.bytes) return;
  work.kind = WorkKind::expert_wait;
  work.busiest = most.value;
  e.awaited.push_back(work);
}

// ---------------------------------------------------------------------------- dispatch and combine

// fp8 tokens travel with a scale for 128 values (DeepSeek-V3, arXiv 2412.19437, section 3.3).
constexpr int64_t kScaledValues = 128;
constexpr MemoryCategory kPassing = MemoryCategory::communication;

Work group_collective(WorkKind kind, Axis axis, DType dtype, Bytes bytes) {
  Work w;
  w.kind = kind;
  w.axis = axis;
  w.dtype = dtype;
  w.bytes = bytes;
  return w;
}

Bytes payload_bytes(const Shard& s, int64_t rows, DType dtype) {
  const Bytes scales =
      dtype == DType::fp8 ? s.bytes(rows, s.hidden / kScaledValues, DType::fp32) : Bytes{};
  return s.bytes(rows, s.hidden, dtype) + scales;
}

// The compute stream waits for it after what `beside` launches.
void exchange_rows(PassWriter& pass, const std::string& label, const Work& work,
                   const std::function<void()>& beside = {}) {
  const uint32_t op = pass.communicate(Stream::ep, label, work);
  if (beside) beside();
  pass.join(op);
}

// Rows that a rank gets at most where all get `rows` in the mean.
int64_t most_rows(int64_t rows, const ExpertShard& x) {
  return x.rows > 0
             ? static_cast<int64_t>(static_cast<double>(rows) * static_cast<double>(x.busiest) /
                                    static_cast<double>(x.rows))
             : rows;
}

// What is held of tokens on their way: [rows, hidden].
struct TokenRows {
  PassWriter& pass;
  const Shard& s;
  DType dtype;
  int64_t mean = 0;  // rows on a rank ...
  int64_t most = 0;  // ... and on the one with most
  TensorIndex held = kNoTensor;

  Bytes bytes(int64_t rows) const { return payload_bytes(s, rows, dtype); }
  void become(const std::string& label, int64_t in_mean, int64_t at_most, MemoryCategory category) {
    mean = in_mean;
    most = at_most;
    const TensorIndex made = pass.allocate(label, bytes(most), category);
    pass.free(held);
    held = made;
  }
};

void convert(ExpertPass& e, const std::string& label, TokenRows& rows, DType to,
             MemoryCategory category) {
  if (rows.dtype == to) return;
  TokenRows made = rows;
  made.dtype = to;
  expert_kernel(e, label, Kernel::quantize, [&](int64_t of) {
    const int64_t count = of == e.x.rows ? rows.mean : rows.most;
    return rows.bytes(count) + made.bytes(count);
  });
  rows.dtype = to;
  rows.become(label, rows.mean, rows.most, category);
}

// Whether what arrives in fp8 is an operand of the next product as it is.
bool multiplies_what_arrives(const LayerContext& c) {
  return is_low(c) && c.shard.plan.precision.scaling == Scaling::blockwise;
}

// Each rank sends what its tokens need; all end when the busiest one has what it gets.
void exchange(ExpertPass& e, const std::string& label, DType payload,
              const std::function<void()>& beside) {
  const Shard& s = e.c.shard;
  const MoeRun& moe = s.plan.moe;
  Work w = group_collective(WorkKind::all_to_all, Axis::ep, payload,
                            payload_bytes(s, most_rows(e.x.sent, e.x), payload));
  if (moe.dispatcher == Dispatcher::deepep) {
    w.m = s.model.experts_per_token;
    w.n = s.model.experts;
    w.k = moe.node_limit;
  }
  exchange_rows(e.c.pass, label, w, beside);
}

// Over ep, there (dispatch) or back (combine).
void travel(ExpertPass& e, const std::string& label, TokenRows& rows, bool back,
            const std::function<void()>& beside) {
  const Shard& s = e.c.shard;
  const Plan& plan = s.plan;
  const DType payload = back ? plan.moe.combine : plan.moe.dispatch;
  if (payload == DType::fp8) convert(e, label + " quantize", rows, payload, kPassing);
  await_busiest(e);
  if (plan.moe.dispatcher != Dispatcher::all_gather) {
    exchange(e, label + " all-to-all", payload, beside);
    return;
  }
  const WorkKind kind = back ? WorkKind::reduce_scatter : WorkKind::all_gather;
  exchange_rows(
      e.c.pass, label + (back ? " reduce-scatter" : " all-gather"),
      group_collective(kind, Axis::ep, payload, payload_bytes(s, e.x.tokens * plan.ep, payload)),
      beside);
}

// Rows of the experts of this rank.
struct ExpertRows {
  TensorIndex tensor = kNoTensor;
  bool converted = false;  // in low precision already, as they travelled
};

// Copies of tokens [tokens, hidden] to the ranks of their experts, in the order of these; or of
// the gradients of what came back.  `beside` is launched while they travel.
ExpertRows to_experts(ExpertPass& e, const std::string& label, MemoryCategory category,
                      const std::function<void()>& beside) {
  const Shard& s = e.c.shard;
  const Plan& plan = s.plan;
  const ExpertShard& x = e.x;
  const Dispatcher dispatcher = plan.moe.dispatcher;
  const DType wide = plan.precision.params;
  const bool sorts = dispatcher == Dispatcher::all_to_all && x.local > 1;
  const bool permutes_last = dispatcher != Dispatcher::all_to_all;
  TokenRows rows{.pass = e.c.pass, .s = s, .dtype = wide, .mean = x.tokens, .most = x.tokens};
  // Copies made, or rows picked.
  const auto permute = [&](int64_t mean, int64_t most, bool last) {
    if (!plan.moe.permute_fusion) {
      // Where copies go, from the map of the router: transposed and searched.
      expert_kernel(e, label + " permute index", Kernel::transpose, [&](int64_t of) {
        return s.bytes(x.tokens, s.model.experts, DType::uint8) * 2 +
               s.bytes(of == x.rows ? mean : most, 1, DType::fp32) * 2;
      });
    }
    expert_kernel(e, label + " permute", Kernel::permute, [&](int64_t of) {
      return rows.bytes(of == x.rows ? rows.mean + mean : rows.most + most);
    });
    rows.become(label + " permute", mean, most, last ? category : kPassing);
  };
  if (dispatcher == Dispatcher::all_to_all) {
    permute(x.copies, x.copies, plan.ep == 1 && plan.etp == 1 && !sorts);
  }
  if (plan.ep > 1) {
    const MemoryCategory there = plan.etp > 1 || sorts || permutes_last ? kPassing : category;
    travel(e, label, rows, false, beside);
    if (dispatcher == Dispatcher::all_gather) {
      rows.become(label + " received", x.tokens * plan.ep, x.tokens * plan.ep, there);
    } else {
      rows.become(label + " received", x.sent, most_rows(x.sent, x), there);
    }
    if (!multiplies_what_arrives(e.c)) convert(e, label + " dequantize", rows, wide, there);
  } else if (beside) {
    beside();
  }
  if (plan.etp > 1) {
    const int64_t all = rows.most * plan.etp;
    exchange_rows(e.c.pass, label + " gather over etp",
                  group_collective(WorkKind::all_gather, Axis::etp, rows.dtype, rows.bytes(all)));
    rows.become(label + " gathered", rows.mean * plan.etp, all,
                sorts || permutes_last ? kPassing : category);
  }
  if (permutes_last) {
    permute(x.rows, x.busiest, true);
  } else if (sorts) {
    expert_kernel(e, label + " sort", Kernel::permute,
                  [&](int64_t of) { return rows.bytes(2 * of); });
    rows.become(label + " sorted", x.rows, x.busiest, category);
  }
  return {rows.held, rows.dtype != wide};
}

// The rows [rows, hidden] back, those of each token summed: [tokens, hidden].  Frees `held`, and
// awaits the busiest rank before they leave.
TensorIndex from_experts(ExpertPass& e, const std::string& label, TensorIndex held,
                         const std::function<void()>& beside,
                         std::optional<MemoryCategory> category = {}) {
  const Shard& s = e.c.shard;
  const Plan& plan = s.plan;
  const ExpertShard& x = e.x;
  const Dispatcher dispatcher = plan.moe.dispatcher;
  const DType wide = plan.precision.params;
  TokenRows rows{
      .pass = e.c.pass, .s = s, .dtype = wide, .mean = x.rows, .most = x.busiest, .held = held};
  // The last of the tensors made is the one that is returned.
  const auto category_of = [&](bool last, MemoryCategory otherwise) {
    return last ? category.value_or(otherwise) : otherwise;
  };
  const auto unpermute = [&](int64_t mean, int64_t most, bool last) {
    if (!plan.moe.permute_fusion) {
      expert_kernel(e, label + " zero", Kernel::fill,
                    [&](int64_t of) { return rows.bytes(of == x.rows ? mean : most); });
    }
    expert_kernel(e, label + " unpermute", Kernel::unpermute, [&](int64_t of) {
      return rows.bytes(of == x.rows ? rows.mean + mean : rows.most + most);
    });
    rows.become(label + " unpermute", mean, most, category_of(last, MemoryCategory::workspace));
  };
  const bool permuted_last = dispatcher == Dispatcher::all_to_all;
  // Rows that leave the ranks of an expert.
  const int64_t mean = dispatcher == Dispatcher::all_gather               ? x.tokens * plan.ep
                       : dispatcher == Dispatcher::deepep && plan.ep == 1 ? x.tokens
                                                                          : x.sent;
  const int64_t spread =
      dispatcher == Dispatcher::all_gather || plan.ep == 1 ? mean : most_rows(mean, x);
  if (!permuted_last) {
    unpermute(mean * plan.etp, spread * plan.etp, plan.ep == 1 && plan.etp == 1);
  } else if (x.local > 1) {
    expert_kernel(e, label + " sort", Kernel::permute,
                  [&](int64_t of) { return rows.bytes(2 * of); });
    rows.become(label + " sorted", x.rows, x.busiest, kPassing);
  }
  await_busiest(e);
  if (plan.etp > 1) {
    exchange_rows(
        e.c.pass, label + " reduce-scatter over etp",
        group_collective(WorkKind::reduce_scatter, Axis::etp, wide, rows.bytes(spread * plan.etp)));
    rows.become(label + " reduced", mean, spread,
                category_of(!permuted_last && plan.ep == 1, kPassing));
  }
  if (plan.ep > 1) {
    travel(e, label, rows, true, beside);
    const int64_t back = permuted_last ? x.copies : x.tokens;
    rows.become(label + " returned", back, back,
                category_of(!permuted_last && rows.dtype == wide, kPassing));
    convert(e, label + " dequantize", rows, wide, category_of(!permuted_last, kPassing));
  } else if (beside) {
    beside();
  }
  if (permuted_last) unpermute(x.tokens, x.tokens, true);
  return rows.held;
}

// ------------------------------------------------------------------------------------------ router

// Scores in the number format of the model; probabilities in fp32 (moe_router_dtype is none by
// default, topk_softmax_with_capacity works in fp32).
void route(const LayerContext& c, ForwardMode mode, const ExpertShard& x, SavedExperts& t) {
  const Shard& s = c.shard;
  const int64_t experts = s.model.experts;
  if (s.model.expert_norms) {
    const NormOutput norm = norm_forward(c, mode, "router norm", x.tokens, s.hidden);
    t.router_normed = norm.output;
    t.router_statistics = norm.statistics;
  }
  c.pass.compute("router", s.forward_gemm(x.tokens, experts, s.hidden), OpRole::router);
  const Bytes scores = s.bytes(x.tokens, experts, DType::fp32);
  const Bytes chosen = s.bytes(x.tokens, experts, DType::uint8);
  TensorIndex logits =
      c.pass.allocate("router logits", s.bytes(x.tokens, experts), MemoryCategory::workspace);
  c.pass.compute("routing",
                 s.memory_bound(Kernel::router, s.bytes(x.tokens, experts) + scores * 3 + chosen));
  t.scores = c.pass.allocate("router probabilities", scores, saved(mode));
  t.map = c.pass.allocate("routing map", chosen, saved(mode));
  c.pass.free(logits);
  if (mode != ForwardMode::discard) return;
  c.pass.free(t.router_normed);
  c.pass.free(t.router_statistics);
}

// Needs the gradients of the probabilities, which the activation of the experts has made.
void route_backward(const LayerContext& c, const ExpertShard& x, SavedExperts& t) {
  const Shard& s = c.shard;
  const int64_t experts = s.model.experts;
  c.pass.compute("routing backward", s.memory_bound(Kernel::router_backward,
                                                    s.bytes(x.tokens, experts, DType::fp32) * 3 +
                                                        s.bytes(x.tokens, experts)));
  TensorIndex logits = c.pass.allocate("router logit gradient", s.bytes(x.tokens, experts),
                                       MemoryCategory::workspace);
  c.pass.free(t.scores);
  c.pass.free(t.map);
  if (s.model.expert_norms) reduce_after(c, experts);  // the scale of each, of what came back
  c.pass.compute("router input gradient", s.input_gemm(x.tokens, experts, s.hidden),
                 OpRole::router);
  TensorIndex own = c.pass.allocate("router input gradient", s.bytes(x.tokens, s.hidden),
                                    MemoryCategory::workspace);
  weight_gradient(c, "router", s.weight_gemm(x.tokens, experts, s.hidden),
                  {.wide = true, .role = OpRole::router});
  c.weights.free(logits);
  if (s.model.expert_norms) {
    norm_backward(c, "router norm", x.tokens, s.hidden);
    c.pass.free(t.router_statistics);
    c.weights.free(t.router_normed);
  }
  c.pass.compute("router gradient sum",
                 s.memory_bound(Kernel::add, s.bytes(x.tokens, s.hidden) * 3));
  c.pass.free(own);
}

// ---------------------------------------------------------------------------------- shared experts

int64_t shared_width(const Shard& s) {
  return s.model.shared_ffn / s.plan.tp;
}

int64_t shared_up_width(const Shard& s) {
  return s.model.gated ? 2 * shared_width(s) : shared_width(s);
}

// Whether this forward keeps the input of experts' activations in a format of its own (DeepSeek-V3,
// arXiv 2412.19437, section 3.3.3).
bool compresses_activation_input(const LayerContext& c, ForwardMode mode) {
  return mode == ForwardMode::keep && c.shard.plan.moe.activation_input != KeptFormat::params;
}

// Bytes of as many inputs of an activation; `kept`: in that format.
Bytes activation_input_bytes(const Shard& s, int64_t rows, int64_t width, bool kept) {
  const KeptFormat format = kept ? s.plan.moe.activation_input : KeptFormat::params;
  return kept_bytes(format, rows * width, s.plan.precision.params);
}

void shared_activation(const LayerContext& c, ForwardMode mode, SavedExperts& t) {
  const Shard& s = c.shard;
  const int64_t ffn = shared_width(s), up = shared_up_width(s);
  c.pass.compute(
      "shared activation",
      s.memory_bound(Kernel::activation, activation_input_bytes(s, s.tokens, up, t.shared_up_kept) +
                                             s.bytes(s.tokens, ffn)));
  t.shared_activated =
      c.pass.allocate("shared activation output", s.bytes(s.tokens, ffn), saved(mode));
}

void shared_up(const LayerContext& c, ForwardMode mode, SavedExperts& t) {
  const Shard& s = c.shard;
  const int64_t up = shared_up_width(s);
  t.shared_up = column_parallel_forward(c, mode, "shared fc1", "shared fc1 output", t.norm_output,
                                        up, {.copy = &t.shared_low});
  t.shared_up_kept = false;
  shared_activation(c, mode, t);
  if (!compresses_activation_input(c, mode)) return;
  const Bytes kept = activation_input_bytes(s, s.tokens, up, true);
  c.pass.compute("shared activation input compression",
                 s.memory_bound(Kernel::quantize, s.bytes(s.tokens, up) + kept));
  const TensorIndex compressed =
      c.pass.allocate("shared activation input, compressed", kept, saved(mode));
  c.pass.free(t.shared_up);
  t.shared_up = compressed;
  t.shared_up_kept = true;
}

TensorIndex shared_down(const LayerContext& c, ForwardMode mode, bool keep, SavedExperts& t) {
  const Shard& s = c.shard;
  const int64_t ffn = shared_width(s);
  TensorIndex now = quantize_input(c, mode, "shared fc2", t.shared_activated, s.tokens, ffn);
  product(c, c.pass, "shared fc2", s.forward_gemm(s.tokens, s.hidden, ffn));
  // A gate's gradient needs what it was multiplied with, a norm's what it has read.
  const bool normed = s.model.expert_norms;
  const bool kept = keep && (s.model.shared_gate || normed);
  const MemoryCategory category = kept ? saved(mode) : MemoryCategory::workspace;
  TensorIndex out = c.pass.allocate("shared fc2 output", s.bytes(s.tokens, s.hidden), category);
  c.pass.free(now);
  if (!keep) {
    c.pass.free(t.shared_low);
    c.pass.free(t.shared_up);
    c.pass.free(t.shared_activated);
  } else if (t.shared_up_kept && drops(c, mode, &RecomputeModules::moe_activation)) {
    c.pass.free(t.shared_activated);
  }
  out = reduce(c, "shared fc2", {out}, s.hidden, category);
  if (normed) {
    NormOutput norm =
        norm_forward(c, keep ? mode : ForwardMode::discard, "shared norm", s.own_tokens, s.hidden);
    if (!kept) c.pass.free(out);
    if (!kept) c.pass.free(norm.statistics);
    t.shared_output = out;
    t.shared_statistics = norm.statistics;
    return norm.output;
  }
  if (!s.model.shared_gate) return out;
  const Bytes tokens = s.bytes(s.own_tokens, s.hidden);
  c.pass.compute("shared gate", s.forward_gemm(s.own_tokens, 1, s.hidden));
  c.pass.compute("shared gating", s.memory_bound(Kernel::scale, tokens * 2));
  const TensorIndex gated = c.pass.allocate("shared gating", tokens, MemoryCategory::workspace);
  if (!kept) c.pass.free(out);
  t.shared_output = out;
  return gated;
}

// Returns the gradient of the norm's output.
TensorIndex shared_backward(const LayerContext& c, SavedExperts& t, BranchGradient branch) {
  const Shard& s = c.shard;
  const int64_t ffn = shared_width(s), up = shared_up_width(s);
  const Bytes tokens = s.bytes(s.own_tokens, s.hidden);
  if (s.model.expert_norms) {
    norm_backward(c, "shared norm", s.own_tokens, s.hidden);
    c.pass.free(t.shared_output);
    c.pass.free(t.shared_statistics);
    if (branch.own) c.pass.free(branch.tensor);
    branch.tensor = c.pass.allocate("shared norm gradient", tokens, MemoryCategory::workspace);
    branch.own = true;
  }
  if (s.model.shared_gate) {
    c.pass.compute("shared gating backward", s.memory_bound(Kernel::scale, tokens * 4));
    const TensorIndex gated =
        c.pass.allocate("shared gating backward", tokens, MemoryCategory::workspace);
    c.pass.free(t.shared_output);
    if (branch.own) c.pass.free(branch.tensor);
    branch = {.tensor = gated, .own = true};
    c.pass.compute("shared gate input gradient", s.input_gemm(s.own_tokens, 1, s.hidden));
    weight_gradient(c, "shared gate", s.weight_gemm(s.own_tokens, 1, s.hidden), {.wide = true});
  }
  if (t.shared_activated == kNoTensor) {
    c.pass.set_phase(Phase::recompute);
    shared_activation(c, ForwardMode::recompute, t);
    TensorIndex again =
        quantize_input(c, ForwardMode::recompute, "shared fc2", t.shared_activated, s.tokens, ffn);
    c.pass.free(again);
    c.pass.set_phase(Phase::backward_input);
  }
  TensorIndex d = row_parallel_backward(c, "shared fc2", branch, t.shared_activated, ffn);
  c.pass.compute("shared activation backward",
                 s.memory_bound(Kernel::activation_backward,
                                activation_input_bytes(s, s.tokens, up, t.shared_up_kept) +
                                    s.bytes(s.tokens, up + ffn)));
  TensorIndex d_up = c.pass.allocate("shared fc1 output gradient", s.bytes(s.tokens, up),
                                     MemoryCategory::workspace);
  c.pass.free(d);
  c.pass.free(t.shared_up);
  return column_parallel_backward(c, "shared fc1", d_up, t.shared_low, up);
}

// ---------------------------------------------------------------------------------- routed experts

// Activation, and product with the weights of the tokens.
void activate_experts(ExpertPass& e, ForwardMode mode, SavedExperts& t) {
  const Shard& s = e.c.shard;
  const ExpertShard& x = e.x;
  expert_kernel(e, "expert activation", Kernel::activation, [&](int64_t rows) {
    return activation_input_bytes(s, rows, x.up, t.up_kept) + s.bytes(rows, x.ffn) +
           s.bytes(rows, 1, DType::fp32);
  });
  t.activated =
      e.c.pass.allocate("expert activation output", s.bytes(x.busiest, x.ffn), saved(mode));
}

void compress_activation_input(ExpertPass& e, ForwardMode mode, SavedExperts& t) {
  const Shard& s = e.c.shard;
  const int64_t width = e.x.up;
  expert_kernel(e, "expert activation input compression", Kernel::quantize, [&](int64_t rows) {
    return s.bytes(rows, width) + activation_input_bytes(s, rows, width, true);
  });
  const TensorIndex compressed =
      e.c.pass.allocate("expert activation input, compressed",
                        activation_input_bytes(s, e.x.busiest, width, true), saved(mode));
  e.c.pass.free(t.up);
  t.up = compressed;
  t.up_kept = true;
}

// From `t.rows` to the experts' outputs, [rows, hidden].  `converted`: see ExpertRows.
TensorIndex products_forward(ExpertPass& e, ForwardMode mode, SavedExperts& t, bool converted) {
  const LayerContext& c = e.c;
  const Shard& s = c.shard;
  const ExpertShard& x = e.x;
  const int64_t each = (x.rows + x.met - 1) / x.met;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  Conversion how{.experts = x.met, .busiest = x.busiest, .awaited = &e.awaited};
  how.converted = converted;
  TensorIndex now = quantize_input(c, mode, "expert fc1", t.rows, x.rows, s.hidden, nullptr, how);
  expert_products(e, c.pass, "expert fc1", s.forward_gemm(each, x.up, s.hidden));
  t.up = c.pass.allocate("expert fc1 output", s.bytes(x.busiest, x.up), saved(mode));
  c.pass.free(now);
  done_with(t.rows);
  t.up_kept = false;
  activate_experts(e, mode, t);
  if (compresses_activation_input(c, mode)) compress_activation_input(e, mode, t);
  done_with(t.up);
  how.converted = false;
  now = quantize_input(c, mode, "expert fc2", t.activated, x.rows, x.ffn, nullptr, how);
  expert_products(e, c.pass, "expert fc2", s.forward_gemm(each, s.hidden, x.ffn));
  const TensorIndex out =
      c.pass.allocate("expert fc2 output", s.bytes(x.busiest, s.hidden), MemoryCategory::workspace);
  c.pass.free(now);
  if (mode == ForwardMode::discard || drops(c, mode, &RecomputeModules::moe_activation))
    c.pass.free(t.activated);
  return out;
}

void expert_weight_gradient(ExpertPass& e, const std::string& label, int64_t out, int64_t in) {
  const LayerContext& c = e.c;
  const Shard& s = c.shard;
  const Phase phase = c.weights.phase();
  c.weights.set_phase(Phase::backward_weight);
  const int64_t each = (e.x.rows + e.x.met - 1) / e.x.met;
  Work products = s.weight_gemm(each, out, in);
  if (c.buckets.experts.buffered) products.accumulate = false;
  expert_products(e, c.weights, label + " weight gradient", products);
  c.weights.set_phase(phase);
  // Biases are complete with the weights.
  add_gradient(c.buckets.experts, s, c.weights, e.x.local * out * (s.model.mlp_bias ? in + 1 : in));
}

// `d` of the output, [rows, hidden]; returns that of `t.rows`.
TensorIndex products_backward(ExpertPass& e, SavedExperts& t, ExpertRows d) {
  const LayerContext& c = e.c;
  const Shard& s = c.shard;
  const ExpertShard& x = e.x;
  const int64_t each = (x.rows + x.met - 1) / x.met;
  Conversion how{.experts = x.local, .busiest = x.busiest, .awaited = &e.awaited};
  if (t.activated == kNoTensor) {
    const ForwardMode mode = ForwardMode::recompute;
    c.pass.set_phase(Phase::recompute);
    activate_experts(e, mode, t);
    TensorIndex again =
        quantize_input(c, mode, "expert fc2", t.activated, x.rows, x.ffn, nullptr, how);
    c.pass.free(again);
    c.pass.set_phase(Phase::backward_input);
  }
  how.converted = d.converted;
  TensorIndex now = quantize_gradient(c, "expert fc2", d.tensor, true, x.rows, s.hidden, how);
  expert_products(e, c.pass, "expert fc2 input gradient", s.input_gemm(each, s.hidden, x.ffn));
  TensorIndex d_activated = c.pass.allocate("expert fc2 input gradient", s.bytes(x.busiest, x.ffn),
                                            MemoryCategory::workspace);
  c.pass.free(now);
  expert_weight_gradient(e, "expert fc2", s.hidden, x.ffn);
  c.weights.free(t.activated);
  c.weights.free(d.tensor);
  expert_kernel(e, "expert activation backward", Kernel::activation_backward, [&](int64_t rows) {
    return activation_input_bytes(s, rows, x.up, t.up_kept) + s.bytes(rows, x.up + x.ffn) +
           s.bytes(rows, 2, DType::fp32);
  });
  TensorIndex d_up = c.pass.allocate("expert fc1 output gradient", s.bytes(x.busiest, x.up),
                                     MemoryCategory::workspace);
  c.pass.free(d_activated);
  c.pass.free(t.up);
  how.converted = false;
  now = quantize_gradient(c, "expert fc1", d_up, true, x.rows, x.up, how);
  expert_products(e, c.pass, "expert fc1 input gradient", s.input_gemm(each, x.up, s.hidden));
  const TensorIndex out = c.pass.allocate("expert fc1 input gradient", s.bytes(x.busiest, s.hidden),
                                          MemoryCategory::workspace);
  c.pass.free(now);
  expert_weight_gradient(e, "expert fc1", x.up, s.hidden);
  c.weights.free(d_up);
  c.weights.free(t.rows);
  return out;
}

// ----------------------------------------------------------------------------- experts of a latent
// NVIDIA Nemotron 3 (Megatron-Core, moe_layer.py: fc1_latent_proj, fc2_latent_proj): one projection
// before tokens go to their experts and one after they have come back, which every tensor-parallel
// rank holds whole, in the format of the parameters.

TensorIndex latent_in_forward(const LayerContext& c, const ExpertShard& x) {
  const Shard& s = c.shard;
  const int64_t latent = s.model.moe_latent;
  c.pass.compute("expert latent in", s.forward_gemm(x.tokens, latent, s.hidden));
  return c.pass.allocate("expert latent", s.bytes(x.tokens, latent), MemoryCategory::workspace);
}

// `combined`: [tokens, latent], which the backward needs.
TensorIndex latent_out_forward(const LayerContext& c, ForwardMode mode, const ExpertShard& x,
                               TensorIndex combined, SavedExperts& t) {
  const Shard& s = c.shard;
  const int64_t latent = s.model.moe_latent;
  c.pass.compute("expert latent out", s.forward_gemm(x.tokens, s.hidden, latent));
  const TensorIndex out = c.pass.allocate("expert latent output", s.bytes(x.tokens, s.hidden),
                                          MemoryCategory::workspace);
  if (mode != ForwardMode::discard)
    t.combined = c.pass.allocate("expert sums", s.bytes(x.tokens, latent), saved(mode));
  c.pass.free(combined);
  return out;
}

// The gradient of what comes back from the experts, [tokens, latent].
TensorIndex latent_out_backward(const LayerContext& c, const ExpertShard& x, SavedExperts& t) {
  const Shard& s = c.shard;
  const int64_t latent = s.model.moe_latent;
  c.pass.compute("expert latent out input gradient", s.input_gemm(x.tokens, s.hidden, latent));
  const TensorIndex d = c.pass.allocate("expert latent gradient", s.bytes(x.tokens, latent),
                                        MemoryCategory::workspace);
  weight_gradient(c, "expert latent out", s.weight_gemm(x.tokens, s.hidden, latent),
                  {.wide = true});
  c.weights.free(t.combined);
  return d;
}

// Frees `d` of the latent; returns that of the norm's output.
TensorIndex latent_in_backward(const LayerContext& c, const ExpertShard& x, TensorIndex& d) {
  const Shard& s = c.shard;
  const int64_t latent = s.model.moe_latent;
  c.pass.compute("expert latent in input gradient", s.input_gemm(x.tokens, latent, s.hidden));
  const TensorIndex out = c.pass.allocate("expert latent in gradient", s.bytes(x.tokens, s.hidden),
                                          MemoryCategory::workspace);
  weight_gradient(c, "expert latent in", s.weight_gemm(x.tokens, latent, s.hidden), {.wide = true});
  c.weights.free(d);
  return out;
}

// From the output of the norm to that of the branch.
TensorIndex mixture_forward(const LayerContext& c, ForwardMode mode, SavedExperts& t) {
  const Shard& s = c.shard;
  ExpertPass e(c);
  const bool shared = s.model.shared_ffn > 0;
  const bool beside = shared && s.plan.moe.shared_overlap;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  TensorIndex shared_out = kNoTensor;
  const bool keep_shared =
      mode != ForwardMode::discard && !drops(c, mode, &RecomputeModules::shared_experts);
  if (shared && !beside) {
    shared_up(c, mode, t);
    shared_out = shared_down(c, mode, keep_shared, t);
  }
  route(c, mode, e.x, t);
  std::function<void()> up, down;
  if (beside) {
    up = [&] { shared_up(c, mode, t); };
    down = [&] { shared_out = shared_down(c, mode, keep_shared, t); };
  }
  const bool latent = s.model.moe_latent > 0;
  TensorIndex read = latent ? latent_in_forward(c, e.x) : kNoTensor;
  const bool normed = s.model.expert_norms;
  if (normed) {
    const NormOutput norm = norm_forward(c, mode, "expert norm", e.x.tokens, s.hidden);
    read = norm.output;
    t.rows_statistics = norm.statistics;
    done_with(t.rows_statistics);
  }
  const ExpertRows rows = to_experts(e, "dispatch", saved(mode), up);
  c.pass.free(read);
  t.rows = rows.tensor;
  const TensorIndex made = products_forward(e, mode, t, rows.converted);
  std::optional<MemoryCategory> kept;  // what a norm reads
  if (normed) kept = saved(mode);
  TensorIndex out = from_experts(e, "combine", made, down, kept);
  if (latent) out = latent_out_forward(c, mode, e.x, out, t);
  if (normed) {
    const NormOutput norm = norm_forward(c, mode, "expert output norm", e.x.tokens, s.hidden);
    t.routed_output = out;
    t.routed_statistics = norm.statistics;
    out = norm.output;
    done_with(t.routed_output);
    done_with(t.routed_statistics);
  }
  if (e.x.tokens < s.own_tokens) {
    const TensorIndex all = gather(c, "combine all-gather", s.hidden);
    c.pass.free(out);
    out = all;
  }
  done_with(t.scores);
  done_with(t.map);
  if (shared) {
    c.pass.compute("shared experts sum",
                   s.memory_bound(Kernel::add, s.bytes(e.x.tokens, s.hidden) * 3));
    c.pass.free(shared_out);
  }
  return out;
}

// What the forward dropped, as far as the backward needs it: norm, mixture, shared experts; the
// activation of the experts is made again where it is needed.
void need_mixture(const LayerContext& c, SavedExperts& t) {
  const Shard& s = c.shard;
  need_norm(c, "norm 2", t.norm_output);
  const bool all = recomputes(c, &RecomputeModules::moe) && t.up == kNoTensor;
  const bool has_shared = s.model.shared_ffn > 0;
  const ForwardMode mode = ForwardMode::recompute;
  const Phase phase = c.pass.phase();
  c.pass.set_phase(Phase::recompute);
  TensorIndex out = kNoTensor;
  if (all) {
    out = mixture_forward(c, mode, t);
  } else if (has_shared && t.shared_up == kNoTensor) {
    shared_up(c, mode, t);
    out = shared_down(c, mode, true, t);
  } else if (has_shared && is_low(c) && t.shared_low == kNoTensor) {
    out = quantize_input(c, mode, "shared fc1", t.norm_output, s.own_tokens, s.hidden,
                         &t.shared_low, {.gathered = s.sequence_split()});
  }
  c.pass.free(out);
  c.pass.set_phase(phase);
}

}  // namespace

Forward<SavedExperts> experts_forward(const LayerContext& c, ForwardMode mode, TensorIndex input) {
  const Shard& s = c.shard;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  SavedExperts t{.input = input};
  if (has_streams(c)) read_streams(c, mode, t.streams);
  const NormOutput norm = norm_forward(c, mode, "norm 2", s.own_tokens, s.hidden);
  t.norm_output = norm.output;
  t.norm_statistics = norm.statistics;
  done_with(t.norm_statistics);
  const bool dropped = drops(c, mode, &RecomputeModules::moe);
  TensorIndex branch = mixture_forward(c, dropped ? ForwardMode::discard : mode, t);
  if (mode == ForwardMode::discard || drops(c, mode, &RecomputeModules::norms)) {
    c.pass.free(t.norm_output);
    // Megatron-Core's moe_layer.py: set_for_recompute_pre_mlp_layernorm.
    c.pass.free(t.shared_low);
  }
  const TensorIndex out = has_streams(c) ? write_streams(c, mode, "moe", branch, t.streams)
                                         : add_residual(c, mode, "moe", branch, t.mask, false);
  done_with(t.mask);
  done_with(t.input);
  return {out, t};
}

void experts_backward(const LayerContext& c, SavedExperts& t, TensorIndex& gradient) {
  const Shard& s = c.shard;
  const bool shared = s.model.shared_ffn > 0;
  need_mixture(c, t);
  ExpertPass e(c);
  BranchGradient branch = has_streams(c)
                              ? write_streams_backward(c, "moe", gradient, t.streams, false)
                              : branch_gradient(c, "moe", gradient, t.mask, false);
  const bool latent = s.model.moe_latent > 0;
  const bool normed = s.model.expert_norms;
  TensorIndex d_combined = latent ? latent_out_backward(c, e.x, t) : kNoTensor;
  if (normed) {
    norm_backward(c, "expert output norm", e.x.tokens, s.hidden);
    d_combined = c.pass.allocate("expert output norm gradient", s.bytes(e.x.tokens, s.hidden),
                                 MemoryCategory::workspace);
    c.pass.free(t.routed_output);
    c.pass.free(t.routed_statistics);
  }
  const ExpertRows rows = to_experts(e, "combine backward", MemoryCategory::workspace, {});
  c.pass.free(d_combined);
  const TensorIndex d_rows = products_backward(e, t, rows);
  TensorIndex own = kNoTensor;
  const auto shared_back = [&] { own = shared_backward(c, t, branch); };
  const bool beside = shared && s.plan.moe.shared_overlap;
  TensorIndex d =
      from_experts(e, "dispatch backward", d_rows,
                   beside ? std::function<void()>(shared_back) : std::function<void()>());
  if (latent) d = latent_in_backward(c, e.x, d);
  if (normed) {
    norm_backward(c, "expert norm", e.x.tokens, s.hidden);
    c.pass.free(t.rows_statistics);
  }
  route_backward(c, e.x, t);
  if (shared && !beside) shared_back();
  if (shared) {
    c.pass.compute("shared experts gradient sum",
                   s.memory_bound(Kernel::add, s.bytes(e.x.tokens, s.hidden) * 3));
    c.pass.free(own);
  } else if (branch.own) {
    c.pass.free(branch.tensor);
  }
  c.weights.free(t.norm_output);
  norm_backward(c, "norm 2", s.own_tokens, s.hidden);
  c.pass.free(t.norm_statistics);
  if (has_streams(c)) return read_streams_backward(c, d, gradient, t.streams, t.input);
  c.pass.free(t.input);
  add_residual_gradient(c, "moe", d, gradient);
}

}  // namespace stepcast
