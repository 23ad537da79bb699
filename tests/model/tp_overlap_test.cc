// SPDX-License-Identifier: Apache-2.0
// Products in pieces that take turns with their tensor-parallel collective.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "model/low_precision.h"
#include "model/passes/stage_passes.h"
#include "tests/model/sample.h"

namespace stepcast::tp_overlap_test {
namespace {

constexpr int64_t kTp = 4, kLayers = 2;

struct Written {
  OpGraph graph;
  StagePasses passes;

  explicit Written(TpOverlap overlap, bool sp = true, Scaling scaling = Scaling::none) {
    graph.labels = {""};
    GraphBuilder builder(graph);
    builder.label("");
    const Transformer model = sample::llama(kLayers, 512, 8, 8, 1024, 1024);
    Plan plan = sample::plan(kTp, 1, 1, 1, 1, 256);
    plan.sp = sp;
    plan.kernels.flash_attention = true;
    plan.overlap.tp = overlap;
    plan.precision.scaling = scaling;
    passes = add_stage_passes(builder, model, plan, StageContent{.layers = kLayers});
  }
  const Pass& pass(PassId id) const { return graph.passes[static_cast<size_t>(id)]; }
  const Work& work(const Op& op) const { return graph.works[static_cast<size_t>(op.work)]; }
  double flops(PassId id) const {
    double sum = 0;
    for (const Op& op : pass(id).ops) sum += work(op).flops.value;
    return sum;
  }
  int64_t bytes(PassId id, WorkKind kind) const {
    int64_t sum = 0;
    for (const Op& op : pass(id).ops)
      if (work(op).kind == kind) sum += work(op).bytes.value;
    return sum;
  }
};

TEST(TpOverlap, PiecesComputeAndSendWhatTheWholeDoes) {
  const Written whole(TpOverlap::backward), pieces(TpOverlap::pipelined);
  for (const bool backward : {false, true}) {
    const PassId a = backward ? whole.passes.backward : whole.passes.forward;
    const PassId b = backward ? pieces.passes.backward : pieces.passes.forward;
    EXPECT_DOUBLE_EQ(whole.flops(a), pieces.flops(b));
    const auto collectives = [](const Written& w, PassId id) {
      return w.bytes(id, WorkKind::all_gather) + w.bytes(id, WorkKind::reduce_scatter);
    };
    // A ring makes a collective of n bytes in tp - 1 shifts of n / tp.
    EXPECT_EQ(collectives(whole, a) / kTp * (kTp - 1),
              collectives(pieces, b) / kTp * (kTp - 1) + pieces.bytes(b, WorkKind::shift));
    EXPECT_EQ(whole.bytes(a, WorkKind::shift), 0);
  }
  // Forward: qkv, projection, fc1, fc2.
  EXPECT_EQ(pieces.bytes(pieces.passes.forward, WorkKind::all_gather), 0);
  EXPECT_EQ(pieces.bytes(pieces.passes.forward, WorkKind::reduce_scatter), 0);
}

TEST(TpOverlap, TheFirstPieceOfAGatheredProductWaitsForNothing) {
  const Written pieces(TpOverlap::pipelined);
  const Pass& forward = pieces.pass(pieces.passes.forward);
  int64_t seen = 0;
  for (uint32_t i = 0; i < forward.ops.size(); ++i) {
    if (pieces.graph.text(forward.ops[i].label) != "qkv") continue;
    size_t shifts = 0;
    for (const Wait& w : forward.waits.of(i))
      shifts += forward.ops[w.on].stream == Stream::tp ? 1u : 0u;
    EXPECT_EQ(shifts, seen % kTp == 0 ? 0u : 1u);
    ++seen;
  }
  EXPECT_EQ(seen, kLayers * kTp);
}

// A weight that is multiplied in pieces is one weight.
TEST(TpOverlap, PiecesShareTheirLowPrecisionWeight) {
  const auto weights = [](TpOverlap overlap) {
    const Written w(overlap, true, Scaling::delayed);
    return low_weights(w.graph, w.passes.forward);
  };
  EXPECT_EQ(weights(TpOverlap::pipelined), weights(TpOverlap::backward));
  EXPECT_EQ(weights(TpOverlap::pipelined).size(), static_cast<size_t>(4 * kLayers));
}

TEST(TpOverlap, PiecesNeedASplitSequence) {
  const Written whole(TpOverlap::backward, false), pieces(TpOverlap::pipelined, false);
  EXPECT_EQ(pieces.bytes(pieces.passes.forward, WorkKind::shift), 0);
  EXPECT_EQ(whole.pass(whole.passes.forward).ops.size(),
            pieces.pass(pieces.passes.forward).ops.size());
}

TEST(TpOverlap, BulkIsWhatMegatronDoesBesideGradients) {
  const Written megatron(TpOverlap::backward), bulk(TpOverlap::bulk), none(TpOverlap::none);
  const auto waits = [](const Written& w) {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (const Wait& wait : w.pass(w.passes.backward).waits.all())
      pairs.emplace_back(wait.op, wait.on);
    return pairs;
  };
  EXPECT_EQ(waits(bulk), waits(megatron));
  EXPECT_NE(waits(none), waits(megatron));
}

}  // namespace
}  // namespace stepcast::tp_overlap_test
