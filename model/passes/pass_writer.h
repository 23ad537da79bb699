// SPDX-License-Identifier: Apache-2.0
// Writes passes into an OpGraph, each op by op, in launch order, with what it allocates and frees.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"

namespace stepcast {

// Interns works and labels while an OpGraph is built: equal works get equal ids.  Keeps a reference
// to the graph, and reads nothing that is in it before.
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

// The tensors of a stage while its passes are written.  A forward pass leaves some alive; the
// backward pass of the same stage and microbatch frees them by the same index.
using TensorIndex = uint32_t;
constexpr TensorIndex kNoTensor = UINT32_MAX;

class PassWriter {
 public:
  PassWriter(GraphBuilder& builder, std::string name, TensorTableId tensors);

  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  void set_layer(int layer) { layer_ = static_cast<int16_t>(layer); }

  // Appends an op to the compute stream; it waits for what was given to `join` since the last one.
  // `role`: see Op.
  uint32_t compute(const std::string& label, const Work& work, OpRole role = OpRole::ordinary);
  // Appends a communication to `stream`.  As NCCL under PyTorch does, it waits for all compute
  // launched so far.
  uint32_t communicate(Stream stream, const std::string& label, const Work& work);
  // The next op on the compute stream waits for `op`.
  void join(uint32_t op) { pending_.push_back(op); }
  // `op` waits for `on`, an op before it.
  void wait(uint32_t op, uint32_t on) { waits_.push_back({.op = op, .on = on}); }

  // The op appended last (the first one, if there is none yet) allocates a new tensor; none for 0
  // bytes.
  TensorIndex allocate(const std::string& label, Bytes bytes, MemoryCategory category);
  // ... one that the first version of this pass does not have (reuse_tensors).
  TensorIndex allocate_apart(const std::string& label, Bytes bytes, MemoryCategory category);
  // ... one that another pass of the same microbatch has freed.
  void allocate_again(TensorIndex tensor);
  // See Tensor.
  void becomes_gradient(TensorIndex tensor);
  // The op appended last frees it; kNoTensor is ignored and the argument becomes kNoTensor.
  void free(TensorIndex& tensor);

  // This is a second version of passes already written: what it allocates are their tensors, one
  // after the other from `next` on, and no new ones.  Keeps a reference to `next`.
  void reuse_tensors(TensorIndex& next) { reused_ = &next; }

  // Activations allocated since there were `begin` memory_events() and not freed.
  std::vector<TensorIndex> activations_since(size_t begin) const;
  size_t memory_events() const { return pass_.memory.size(); }
  Bytes bytes_of(TensorIndex tensor) const {
    return builder_.graph().tensor_tables[static_cast<size_t>(pass_.tensors)][tensor].bytes;
  }

  bool empty() const { return pass_.ops.empty(); }
  // Adds the pass to the graph.
  PassId finish();

 private:
  uint32_t append(const std::string& label, const Work& work, Stream stream);

  GraphBuilder& builder_;
  Pass pass_;
  std::vector<Wait> waits_;
  std::vector<uint32_t> pending_;
  Phase phase_ = Phase::forward;
  int16_t layer_ = -1;
  int64_t last_compute_ = -1;
  TensorIndex* reused_ = nullptr;
};

}  // namespace stepcast
