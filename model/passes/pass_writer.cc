// SPDX-License-Identifier: Apache-2.0
#include "model/passes/pass_writer.h"

#include <algorithm>
#include <utility>

#include "sim/check.h"

namespace stepcast {

WorkId GraphBuilder::work(const Work& w) {
  const auto [it, fresh] = works_.try_emplace(w, static_cast<WorkId>(graph_.works.size()));
  if (fresh) graph_.works.push_back(w);
  return it->second;
}

LabelId GraphBuilder::label(const std::string& text) {
  const auto [it, fresh] = labels_.try_emplace(text, static_cast<LabelId>(graph_.labels.size()));
  if (fresh) graph_.labels.push_back(text);
  return it->second;
}

PassWriter::PassWriter(GraphBuilder& builder, std::string name, TensorTableId tensors)
    : builder_(builder) {
  pass_.name = std::move(name);
  pass_.tensors = tensors;
}

uint32_t PassWriter::append(const std::string& label, const Work& work, Stream stream) {
  Op op;
  op.work = builder_.work(work);
  op.stream = stream;
  op.phase = phase_;
  op.label = builder_.label(label);
  op.layer = layer_;
  pass_.ops.push_back(op);
  return static_cast<uint32_t>(pass_.ops.size() - 1);
}

uint32_t PassWriter::compute(const std::string& label, const Work& work, OpRole role) {
  const uint32_t op = append(label, work, Stream::compute);
  pass_.ops.back().role = role;
  for (uint32_t on : pending_) waits_.push_back({.op = op, .on = on});
  pending_.clear();
  last_compute_ = op;
  return op;
}

uint32_t PassWriter::communicate(Stream stream, const std::string& label, const Work& work) {
  const uint32_t op = append(label, work, stream);
  // What compute would wait for next is also an input of this op.
  for (uint32_t on : pending_) waits_.push_back({.op = op, .on = on});
  if (last_compute_ >= 0) waits_.push_back({.op = op, .on = static_cast<uint32_t>(last_compute_)});
  return op;
}

TensorIndex PassWriter::allocate(const std::string& label, Bytes bytes, MemoryCategory category) {
  if (bytes.value == 0) return kNoTensor;
  STEPCAST_CHECK(bytes.value > 0, "a tensor has a size");
  auto& table = builder_.graph().tensor_tables[static_cast<size_t>(pass_.tensors)];
  const auto tensor = reused_ != nullptr ? (*reused_)++ : static_cast<TensorIndex>(table.size());
  if (reused_ == nullptr) table.push_back({bytes, category, builder_.label(label)});
  STEPCAST_CHECK(tensor < table.size() && table[tensor].bytes == bytes,
                 "the second version of a pass allocates what the first does");
  allocate_again(tensor);
  return tensor;
}

TensorIndex PassWriter::allocate_apart(const std::string& label, Bytes bytes,
                                       MemoryCategory category) {
  TensorIndex* const reused = std::exchange(reused_, nullptr);
  const TensorIndex tensor = allocate(label, bytes, category);
  reused_ = reused;
  return tensor;
}

void PassWriter::allocate_again(TensorIndex tensor) {
  const size_t op = pass_.ops.empty() ? 0 : pass_.ops.size() - 1;
  pass_.memory.push_back({.op = static_cast<uint32_t>(op), .tensor = tensor, .allocate = true});
}

void PassWriter::becomes_gradient(TensorIndex tensor) {
  if (tensor == kNoTensor) return;
  builder_.graph().tensor_tables[static_cast<size_t>(pass_.tensors)][tensor].becomes_gradient =
      true;
}

void PassWriter::lags(TensorIndex tensor) {
  if (tensor == kNoTensor) return;
  builder_.graph().tensor_tables[static_cast<size_t>(pass_.tensors)][tensor].lags = true;
}

void PassWriter::free(TensorIndex& tensor) {
  if (tensor == kNoTensor) return;
  STEPCAST_CHECK(!pass_.ops.empty(), "an op frees a tensor");
  pass_.memory.push_back(
      {.op = static_cast<uint32_t>(pass_.ops.size() - 1), .tensor = tensor, .allocate = false});
  tensor = kNoTensor;
}

std::vector<TensorIndex> PassWriter::activations_since(size_t begin) const {
  const auto& table = builder_.graph().tensor_tables[static_cast<size_t>(pass_.tensors)];
  std::vector<TensorIndex> alive;
  for (size_t i = begin; i < pass_.memory.size(); ++i) {
    const MemoryEvent& e = pass_.memory[i];
    if (!e.allocate) {
      std::erase(alive, e.tensor);
    } else if (table[e.tensor].category == MemoryCategory::activations) {
      alive.push_back(e.tensor);
    }
  }
  return alive;
}

PassId PassWriter::finish() {
  std::stable_sort(pass_.memory.begin(), pass_.memory.end(),
                   [](const MemoryEvent& a, const MemoryEvent& b) {
                     return a.op != b.op ? a.op < b.op : a.allocate && !b.allocate;
                   });
  pass_.waits = WaitGraph(static_cast<uint32_t>(pass_.ops.size()), std::move(waits_));
  OpGraph& graph = builder_.graph();
  graph.passes.push_back(std::move(pass_));
  return static_cast<PassId>(graph.passes.size() - 1);
}

}  // namespace stepcast
