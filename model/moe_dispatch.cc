// SPDX-License-Identifier: Apache-2.0
// Tokens on their way to the ranks of their experts and back.
//
// Megatron-Core's dispatchers (core/transformer/moe/token_dispatcher.py):
//   all_to_all  copies are made and sorted by expert on the sender, exchanged over ep, gathered
//               over etp, and sorted by expert once more where a rank holds several: with ep =
//               etp = 1 too, where that is a copy in the order that is there
//   deepep      tokens are exchanged, once to each rank (and over the network once to each node),
//               and copied where they arrive
//   all_gather  every rank gets all tokens of ep and etp and takes those of its experts
// The way back is the same in reverse, with sums for copies.
//
// fp8 is converted to just before an exchange and from just after it.  Products in blockwise fp8
// take what arrives as it is; the copy along columns is made of it (DeepSeek-V3, arXiv 2412.19437,
// section 3.2.3).
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

constexpr MemoryCategory kPassing = MemoryCategory::communication;

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

// What is held of tokens on their way: [rows, hidden].
struct StageWriter::TokenRows {
  PassWriter& pass;
  const Shard& s;
  DType dtype = s.plan.precision.params;
  int64_t mean = 0;  // rows on a rank ...
  int64_t most = 0;  // ... and on the one with most
  TensorIndex held = kNoTensor;

  Bytes bytes(int64_t rows) const {
    return s.bytes(rows, s.hidden, dtype) + scales(s, rows, dtype);
  }
  void become(const std::string& label, int64_t in_mean, int64_t at_most, MemoryCategory category) {
    mean = in_mean;
    most = at_most;
    const TensorIndex made = pass.allocate(label, bytes(most), category);
    pass.free(held);
    held = made;
  }
};

void StageWriter::convert(const std::string& label, const ExpertShard& x, TokenRows& rows, DType to,
                          MemoryCategory category) {
  if (rows.dtype == to) return;
  TokenRows made = rows;
  made.dtype = to;
  expert_kernel(label, x, Kernel::quantize, [&](int64_t of) {
    const int64_t count = of == x.rows ? rows.mean : rows.most;
    return rows.bytes(count) + made.bytes(count);
  });
  rows.dtype = to;
  rows.become(label, rows.mean, rows.most, category);
}

bool StageWriter::multiplies_what_arrives() const {
  return low() && s_.plan.precision.scaling == Scaling::blockwise;
}

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

void StageWriter::travel(const std::string& label, const ExpertShard& x, TokenRows& rows, bool back,
                         const std::function<void()>& beside) {
  const Plan& plan = s_.plan;
  const DType payload = back ? plan.moe.combine : plan.moe.dispatch;
  if (payload == DType::fp8) convert(label + " quantize", x, rows, payload, kPassing);
  await_busiest();
  if (plan.moe.dispatcher != Dispatcher::all_gather) {
    exchange(label + " all-to-all", x, payload, beside);
    return;
  }
  const int64_t all = x.tokens * plan.ep;
  const WorkKind kind = back ? WorkKind::reduce_scatter : WorkKind::all_gather;
  communicate(p_, label + (back ? " reduce-scatter" : " all-gather"),
              collective(kind, Axis::ep, payload,
                         s_.bytes(all, s_.hidden, payload) + scales(s_, all, payload)),
              beside);
}

TensorIndex StageWriter::to_experts(const std::string& label, const ExpertShard& x,
                                    MemoryCategory category, const std::function<void()>& beside) {
  const Shard& s = s_;
  const Plan& plan = s.plan;
  const Dispatcher way = plan.moe.dispatcher;
  const DType wide = plan.precision.params;
  const bool sorts = way == Dispatcher::all_to_all && x.local > 1;
  const bool permutes_last = way != Dispatcher::all_to_all;
  TokenRows rows{.pass = p_, .s = s, .dtype = wide, .mean = x.tokens, .most = x.tokens};
  // Copies made, or rows picked.
  const auto permute = [&](const std::string& what, int64_t mean, int64_t most, bool last) {
    if (!plan.moe.permute_fusion) {
      // Where copies go, from the map of the router: transposed and searched.
      expert_kernel(label + what + " index", x, Kernel::transpose, [&](int64_t of) {
        return s.bytes(x.tokens, s.model.experts, DType::uint8) * 2 +
               s.bytes(of == x.rows ? mean : most, 1, DType::fp32) * 2;
      });
    }
    expert_kernel(label + what, x, Kernel::permute, [&](int64_t of) {
      return rows.bytes(of == x.rows ? rows.mean + mean : rows.most + most);
    });
    rows.become(label + what, mean, most, last ? category : kPassing);
  };
  if (way == Dispatcher::all_to_all) {
    permute(" permute", x.copies, x.copies, plan.ep == 1 && plan.etp == 1 && !sorts);
  }
  if (plan.ep > 1) {
    const MemoryCategory there = plan.etp > 1 || sorts || permutes_last ? kPassing : category;
    travel(label, x, rows, false, beside);
    if (way == Dispatcher::all_gather) {
      rows.become(label + " received", x.tokens * plan.ep, x.tokens * plan.ep, there);
    } else {
      rows.become(label + " received", x.sent, most(x.sent, x), there);
    }
    if (!multiplies_what_arrives()) convert(label + " dequantize", x, rows, wide, there);
  } else if (beside) {
    beside();
  }
  if (plan.etp > 1) {
    const int64_t all = rows.most * plan.etp;
    communicate(p_, label + " gather over etp",
                collective(WorkKind::all_gather, Axis::etp, rows.dtype, rows.bytes(all)));
    rows.become(label + " gathered", rows.mean * plan.etp, all,
                sorts || permutes_last ? kPassing : category);
  }
  if (permutes_last) {
    permute(" permute", x.rows, x.busiest, true);
  } else if (sorts) {
    expert_kernel(label + " sort", x, Kernel::permute,
                  [&](int64_t of) { return rows.bytes(2 * of); });
    rows.become(label + " sorted", x.rows, x.busiest, category);
  }
  if (rows.dtype != wide) converted_ = rows.held;
  return rows.held;
}

TensorIndex StageWriter::from_experts(const std::string& label, const ExpertShard& x,
                                      TensorIndex held, const std::function<void()>& beside) {
  const Shard& s = s_;
  const Plan& plan = s.plan;
  const Dispatcher way = plan.moe.dispatcher;
  const DType wide = plan.precision.params;
  TokenRows rows{
      .pass = p_, .s = s, .dtype = wide, .mean = x.rows, .most = x.busiest, .held = held};
  const auto unpermute = [&](int64_t mean, int64_t most) {
    if (!plan.moe.permute_fusion) {
      expert_kernel(label + " zero", x, Kernel::fill,
                    [&](int64_t of) { return rows.bytes(of == x.rows ? mean : most); });
    }
    expert_kernel(label + " unpermute", x, Kernel::unpermute, [&](int64_t of) {
      return rows.bytes(of == x.rows ? rows.mean + mean : rows.most + most);
    });
    rows.become(label + " unpermute", mean, most, MemoryCategory::workspace);
  };
  // Rows that leave the ranks of an expert.
  const int64_t mean = way == Dispatcher::all_gather               ? x.tokens * plan.ep
                       : way == Dispatcher::deepep && plan.ep == 1 ? x.tokens
                                                                   : x.sent;
  const int64_t spread = way == Dispatcher::all_gather || plan.ep == 1 ? mean : most(mean, x);
  if (way != Dispatcher::all_to_all) {
    unpermute(mean * plan.etp, spread * plan.etp);
  } else if (x.local > 1) {
    expert_kernel(label + " sort", x, Kernel::permute,
                  [&](int64_t of) { return rows.bytes(2 * of); });
    rows.become(label + " sorted", x.rows, x.busiest, kPassing);
  }
  await_busiest();
  if (plan.etp > 1) {
    communicate(
        p_, label + " reduce-scatter over etp",
        collective(WorkKind::reduce_scatter, Axis::etp, wide, rows.bytes(spread * plan.etp)));
    rows.become(label + " reduced", mean, spread, kPassing);
  }
  if (plan.ep > 1) {
    travel(label, x, rows, true, beside);
    const int64_t back = way == Dispatcher::all_to_all ? x.copies : x.tokens;
    rows.become(label + " returned", back, back, kPassing);
    convert(label + " dequantize", x, rows, wide, kPassing);
  } else if (beside) {
    beside();
  }
  if (way == Dispatcher::all_to_all) unpermute(x.tokens, x.tokens);
  return rows.held;
}

}  // namespace stepcast
