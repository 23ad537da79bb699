// SPDX-License-Identifier: Apache-2.0
// The op inventory: which kernels a framework launches for one pipeline stage, forward and
// backward.
//
// Each entry is one kernel with its shape after sharding, what it keeps for the backward pass and
// what it frees. Backward ops come in two phases, input gradient and weight gradient, so that B = I
// + W op by op.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "sim/op_graph.h"

namespace stepcast {

// The passes of one kind of stage.  Passes are appended to a graph that is being built.
struct StagePasses {
  PassId forward{};
  PassId backward{};       // B
  PassId last_backward{};  // B of the last microbatch: with the overlapped gradient reduction, if
                           // there is one
};

// Interns works and labels while an OpGraph is built: equal works get equal ids.
class GraphBuilder {
 public:
  explicit GraphBuilder(OpGraph& graph) : graph_(graph) {}
  WorkId work(const Work& w);
  LabelId label(const std::string& text);
  OpGraph& graph() { return graph_; }

 private:
  OpGraph& graph_;
  std::map<Work, WorkId> works_;
  std::map<std::string, LabelId> labels_;
};

// Appends the passes of a stage with this content.  Stages of equal content share their passes:
// call once for each distinct content.
StagePasses add_stage_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                             const StageContent& content);

// Parameters that one rank holds of a stage (tensor-parallel shard; norms and unsharded biases
// whole).
int64_t stage_parameters(const Transformer& model, const Plan& plan, const StageContent& content);

// Those of them that every tensor-parallel rank holds whole although, with sequence parallelism,
// each sees only its share of the tokens: norms, and biases added after the reduction.
int64_t shared_parameters(const Transformer& model, const StageContent& content);

}  // namespace stepcast
