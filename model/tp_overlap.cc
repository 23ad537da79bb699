// SPDX-License-Identifier: Apache-2.0
// Products of tensor-parallel layers in pieces that take turns with their collective.
//
// Transformer Engine's userbuffers (transformer_engine/pytorch/module/base.py, initialize_ub): a
// gather becomes tp - 1 shifts around the ring, and the product goes on with the rows that have
// come (ring_exchange: forward of column-parallel layers, input gradients of row-parallel ones); a
// reduce-scatter follows the pieces of its product (pipeline: forward of row-parallel layers).
// Collectives of the other backward products run beside whole products as TpOverlap::backward has
// them (bulk).  PyTorch's async tensor parallelism does the same with the first two kinds.
#include <string>
#include <vector>

#include "model/stage_writer.h"

namespace stepcast {
namespace {

Work piece_of(Work gemm, int64_t pieces) {
  gemm.m /= pieces;
  gemm.flops = gemm.flops * (1.0 / static_cast<double>(pieces));
  return gemm;
}

Work shift_of(Work collective, int64_t pieces) {
  collective.kind = WorkKind::shift;
  collective.bytes = {collective.bytes.value / pieces};
  return collective;
}

}  // namespace

bool StageWriter::pipelined() const {
  return s_.plan.overlap.tp == TpOverlap::pipelined && s_.sequence_split();
}

TensorIndex StageWriter::gathered_product(const std::string& label, const std::string& gather_label,
                                          const Work& gemm) {
  const int64_t pieces = s_.plan.tp;
  const Work whole = tp_work(WorkKind::all_gather, s_.hidden);
  std::vector<uint32_t> shifts;
  for (int64_t i = 1; i < pieces; ++i)
    shifts.push_back(p_.communicate(Stream::tp, gather_label, shift_of(whole, pieces)));
  const TensorIndex gathered =
      p_.allocate(gather_label, whole.bytes, MemoryCategory::communication);
  // The rank's own rows come first.
  product(p_, label, piece_of(gemm, pieces));
  for (const uint32_t shift : shifts) {
    p_.join(shift);
    product(p_, label, piece_of(gemm, pieces));
  }
  return gathered;
}

void StageWriter::reduced_product(const std::string& label, const Work& gemm, int64_t width) {
  const int64_t pieces = s_.plan.tp;
  const Work whole = tp_work(WorkKind::reduce_scatter, width);
  uint32_t last = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    product(p_, label, piece_of(gemm, pieces));
    if (i + 1 < pieces)
      last = p_.communicate(Stream::tp, label + " reduce-scatter", shift_of(whole, pieces));
  }
  p_.join(last);
  exchanged_ = true;
}

}  // namespace stepcast
