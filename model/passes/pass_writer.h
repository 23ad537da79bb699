// SPDX-License-Identifier: Apache-2.0
// Writes passes into an OpGraph, each op by op, in launch order, with what it allocates and frees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/op_graph.h"

namespace stepcast {

// The memory of a graph that nobody needs any more, for the next one: that of all its lists, which
// are empty.
class GraphMemory {
 public:
  // Takes the place of what was taken before.  Of passes and lists of items up to 32 MiB are kept.
  void take(OpGraph graph);

  // A graph of nothing, its passes and the lists of its roles.
  OpGraph graph();
  Pass pass();
  std::vector<Item> items();

 private:
  OpGraph graph_;
  std::vector<Pass> passes_;
  std::vector<std::vector<Item>> items_;
};

// What a graph is written for.
struct GraphOptions {
  bool texts = true;  // false: nobody reads it, so that all labels and names of passes are empty
  GraphMemory* memory = nullptr;  // null: none
};

// Interns works and labels while an OpGraph is built: equal works get equal ids.  Keeps a reference
// to the graph, and reads nothing that is in it before.
class GraphBuilder {
 public:
  explicit GraphBuilder(OpGraph& graph, const GraphOptions& options = {})
      : graph_(graph), options_(options) {}
  WorkId work(const Work& w);
  LabelId label(std::string_view text);
  // Without ops, and none of the graph's yet.
  Pass pass(std::string_view name);
  OpGraph& graph() { return graph_; }
  bool has_texts() const { return options_.texts; }

 private:
  OpGraph& graph_;
  GraphOptions options_;
  std::vector<uint32_t> works_, labels_;  // of the graph, in their order
};

// The tensors of a stage while its passes are written.  A forward pass leaves some alive; the
// backward pass of the same stage and microbatch frees them by the same index.
using TensorIndex = uint32_t;
constexpr TensorIndex kNoTensor = UINT32_MAX;

class PassWriter {
 public:
  PassWriter(GraphBuilder& builder, std::string_view name, TensorTableId tensors);

  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  void set_layer(int layer) { layer_ = static_cast<int16_t>(layer); }

  // Appends an op to the compute stream; it waits for what was given to `join` since the last one.
  // `role`: see Op.
  uint32_t compute(std::string_view label, const Work& work, OpRole role = OpRole::ordinary);
  // Appends a communication to `stream`.  As NCCL under PyTorch does, it waits for all compute
  // launched so far.
  uint32_t communicate(Stream stream, std::string_view label, const Work& work);
  // The next op on the compute stream waits for `op`.
  void join(uint32_t op) { pending_.push_back(op); }
  // `op` waits for `on`, an op before it.
  void wait(uint32_t op, uint32_t on) { waits_.push_back({.op = op, .on = on}); }

  // The op appended last (the first one, if there is none yet) allocates a new tensor; none for 0
  // bytes.
  TensorIndex allocate(std::string_view label, Bytes bytes, MemoryCategory category);
  // ... one that the first version of this pass does not have (reuse_tensors).
  TensorIndex allocate_apart(std::string_view label, Bytes bytes, MemoryCategory category);
  // ... one that another pass of the same microbatch has freed.
  void allocate_again(TensorIndex tensor);
  // See Tensor.
  void becomes_gradient(TensorIndex tensor);
  void lags(TensorIndex tensor);
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
  uint32_t append(std::string_view label, const Work& work, Stream stream);

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
