// SPDX-License-Identifier: Apache-2.0
// Tokens on their way to the ranks of their experts and back.
//
// Megatron-Core's dispatchers (core/transformer/moe/token_dispatcher.py):
//   all_to_all  copies are made and sorted by expert on the sender, exchanged over ep, gathered
//   over
//               etp, and sorted by expert once more where a rank holds several
//   deepep      tokens are exchanged, once to each rank (and over the network once to each node),
//               and copied where they arrive
//   all_gather  every rank gets all tokens of ep and etp and takes those of its experts
// The way back is the same in reverse, with sums for copies.
#include <string>

#include "model/stage_writer.h"

namespace stepcast {
namespace {

// fp8 tokens travel with a scale for 128 values (DeepSeek-V3, arXiv 2412.19437, section 3.3).
constexpr int64_t kScaled = 128;

Work collective(WorkKind kind, Axis axis, DType dtype, Bytes bytes) {
  Work w;
  w.kind = kind;
  w.axis = axis;
  w.dtype = dtype;
  w.bytes = bytes;
  return w;
}

Bytes scales(const Shard& s, int64_t rows, DType dtype) {
  return dtype == DType::fp8 ? s.bytes(rows, s.hidden / kScaled, DType::fp32) : Bytes{};
}

// The compute stream waits for it after what `beside` launches.
void communicate(PassWriter& pass, const std::string& label, const Work& work,
                 const std::function<void()>& beside = {}) {
  const uint32_t op = pass.communicate(Stream::ep, label, work);
  if (beside) beside();
  pass.join(op);
}

// Rows that a rank gets at most where all get `rows` in the mean.
int64_t most(int64_t rows, const ExpertShard& x) {
  return x.rows > 0
             ? static_cast<int64_t>(static_cast<double>(rows) * static_cast<double>(x.busiest) /
                                    static_cast<double>(x.rows))
             : rows;
}

}  // namespace

// Each rank sends what its tokens need; all end when the busiest one has what it gets.
void StageWriter::exchange(const std::string& label, const ExpertShard& x, DType payload,
                           const std::function<void()>& beside) {
  const Plan& plan = s_.plan;
  const int64_t rows = most(x.sent, x);
  Work w = collective(WorkKind::all_to_all, Axis::ep, payload,
                      s_.bytes(rows, s_.hidden, payload) + scales(s_, rows, payload));
  if (plan.moe.dispatcher == Dispatcher::deepep) {
    w.m = s_.model.experts_per_token;
    w.n = s_.model.experts;
    w.k = plan.moe.node_limit;
  }
  communicate(p_, label, w, beside);
}

TensorIndex StageWriter::to_experts(const std::string& label, const ExpertShard& x,
                                    MemoryCategory category, const std::function<void()>& beside) {
  const Shard& s = s_;
  const Plan& plan = s.plan;
  const Dispatcher way = plan.moe.dispatcher;
  const MemoryCategory passing = MemoryCategory::communication;
  TensorIndex held = kNoTensor;
  // Replaces what is held by [count, hidden].
  const auto next = [&](const std::string& what, int64_t count, bool last) {
    const TensorIndex made =
        p_.allocate(label + what, s.bytes(count, s.hidden), last ? category : passing);
    p_.free(held);
    held = made;
  };
  const auto permute = [&](const std::string& what, int64_t from, int64_t to, bool last) {
    if (!plan.moe.permute_fusion) {
      // Where copies go, from the map of the router: transposed and searched.
      p_.compute(
          label + what + " index",
          s.memory_bound(Kernel::transpose, s.bytes(x.tokens, s.model.experts, DType::uint8) * 2 +
                                                s.bytes(to, 1, DType::fp32) * 2));
    }
    p_.compute(label + what, s.memory_bound(Kernel::permute, s.bytes(from + to, s.hidden)));
    next(what, to, last);
  };
  const bool sorts = plan.ep > 1 && x.local > 1;
  int64_t rows = x.tokens;
  if (way == Dispatcher::all_to_all) {
    rows = x.copies;
    permute(" permute", x.tokens, rows, plan.ep == 1 && plan.etp == 1);
  }
  if (plan.ep > 1) {
    if (way == Dispatcher::all_gather) {
      rows *= plan.ep;
      communicate(p_, label + " all-gather",
                  collective(WorkKind::all_gather, Axis::ep, plan.moe.dispatch,
                             s.bytes(rows, s.hidden, plan.moe.dispatch)),
                  beside);
    } else {
      if (way == Dispatcher::deepep) rows = x.sent;
      exchange(label + " all-to-all", x, plan.moe.dispatch, beside);
      rows = most(rows, x);
    }
    next(" received", rows, way == Dispatcher::all_to_all && plan.etp == 1 && !sorts);
  } else if (beside) {
    beside();
  }
  if (plan.etp > 1) {
    rows *= plan.etp;
    communicate(p_, label + " gather over etp",
                collective(WorkKind::all_gather, Axis::etp, plan.precision.params,
                           s.bytes(rows, s.hidden)));
    next(" gathered", rows, way == Dispatcher::all_to_all && !sorts);
  }
  if (way != Dispatcher::all_to_all) {
    permute(" permute", rows, x.busiest, true);
  } else if (sorts) {
    p_.compute(label + " sort", s.memory_bound(Kernel::permute, s.bytes(2 * x.rows, s.hidden)));
    next(" sorted", x.busiest, true);
  }
  return held;
}

TensorIndex StageWriter::from_experts(const std::string& label, const ExpertShard& x,
                                      TensorIndex held, const std::function<void()>& beside) {
  const Shard& s = s_;
  const Plan& plan = s.plan;
  const Dispatcher way = plan.moe.dispatcher;
  const auto next = [&](const std::string& what, int64_t count, MemoryCategory category) {
    const TensorIndex made = p_.allocate(label + what, s.bytes(count, s.hidden), category);
    p_.free(held);
    held = made;
  };
  const auto unpermute = [&](int64_t from, int64_t to) {
    if (!plan.moe.permute_fusion) {
      p_.compute(label + " zero", s.memory_bound(Kernel::fill, s.bytes(to, s.hidden)));
    }
    p_.compute(label + " unpermute",
               s.memory_bound(Kernel::unpermute, s.bytes(from + to, s.hidden)));
    next(" unpermute", to, MemoryCategory::workspace);
  };
  // Rows before and after each step of the way back.
  const int64_t spread = way == Dispatcher::all_to_all ? x.copies
                         : way == Dispatcher::deepep && plan.ep > 1
                             ? x.sent
                             : x.tokens * (way == Dispatcher::all_gather ? plan.ep : 1);
  if (way != Dispatcher::all_to_all) {
    unpermute(x.rows, spread * plan.etp);
  } else if (plan.ep > 1 && x.local > 1) {
    p_.compute(label + " sort", s.memory_bound(Kernel::permute, s.bytes(2 * x.rows, s.hidden)));
    next(" sorted", x.busiest, MemoryCategory::communication);
  }
  if (plan.etp > 1) {
    communicate(p_, label + " reduce-scatter over etp",
                collective(WorkKind::reduce_scatter, Axis::etp, plan.precision.params,
                           s.bytes(spread * plan.etp, s.hidden)));
    next(" reduced", spread, MemoryCategory::communication);
  }
  if (plan.ep > 1) {
    if (way == Dispatcher::all_gather) {
      communicate(p_, label + " reduce-scatter",
                  collective(WorkKind::reduce_scatter, Axis::ep, plan.moe.combine,
                             s.bytes(spread, s.hidden, plan.moe.combine)),
                  beside);
    } else {
      exchange(label + " all-to-all", x, plan.moe.combine, beside);
    }
    next(" returned", way == Dispatcher::all_to_all ? x.copies : x.tokens,
         MemoryCategory::communication);
  } else if (beside) {
    beside();
  }
  if (way == Dispatcher::all_to_all) unpermute(x.copies, x.tokens);
  return held;
}

}  // namespace stepcast
