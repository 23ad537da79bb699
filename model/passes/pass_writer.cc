// SPDX-License-Identifier: Apache-2.0
#include "model/passes/pass_writer.h"

#include <algorithm>
#include <utility>

#include "sim/check.h"

namespace stepcast {

namespace {

// What is empty, in the memory of what is not.
template <class T>
std::vector<T> emptied(std::vector<T>& list) {
  list.clear();
  return std::move(list);
}

size_t bytes_of(const Pass& pass) {
  return sizeof(Pass) + pass.ops.capacity() * sizeof(Op) + pass.waits.all().size() * sizeof(Wait) +
         pass.memory.capacity() * sizeof(MemoryEvent);
}

}  // namespace

// Passes and roles come back in the order in which they were taken, so that each finds the room
// that one like it had.
void GraphMemory::take(OpGraph graph) {
  constexpr size_t kMostBytes = size_t{32} << 20U;
  size_t bytes = 0;
  passes_.clear();
  items_.clear();
  for (auto pass = graph.passes.rbegin(); pass != graph.passes.rend(); ++pass) {
    bytes += bytes_of(*pass);
    if (bytes <= kMostBytes) passes_.push_back(std::move(*pass));
  }
  for (auto role = graph.roles.rbegin(); role != graph.roles.rend(); ++role) {
    bytes += role->items.capacity() * sizeof(Item);
    if (bytes <= kMostBytes) items_.push_back(std::move(role->items));
  }
  graph_ = {};
  if (graph.rendezvous.capacity() * sizeof(Rendezvous) <= kMostBytes)
    graph_.rendezvous = emptied(graph.rendezvous);
  graph_.works = emptied(graph.works);
  graph_.passes = emptied(graph.passes);
  graph_.roles = emptied(graph.roles);
  graph_.tensor_tables = emptied(graph.tensor_tables);
}

OpGraph GraphMemory::graph() {
  return std::exchange(graph_, {});
}

Pass GraphMemory::pass() {
  if (passes_.empty()) return {};
  Pass pass = std::move(passes_.back());
  passes_.pop_back();
  pass.name.clear();
  pass.tensors = pass.second_tensors = {};
  pass.ops.clear();
  pass.waits.assign(0, pass.waits.release());
  pass.memory.clear();
  return pass;
}

std::vector<Item> GraphMemory::items() {
  if (items_.empty()) return {};
  std::vector<Item> items = emptied(items_.back());
  items_.pop_back();
  return items;
}

namespace {

// The number of x in a list, which is appended if it is new; `order`: of the list.
template <class T, class X>
uint32_t number_of(std::vector<T>& list, std::vector<uint32_t>& order, const X& x) {
  const auto at = std::lower_bound(order.begin(), order.end(), x,
                                   [&](uint32_t i, const X& y) { return list[i] < y; });
  if (at != order.end() && list[*at] == x) return *at;
  const auto number = static_cast<uint32_t>(list.size());
  order.insert(at, number);
  list.emplace_back(x);
  return number;
}

}  // namespace

WorkId GraphBuilder::work(const Work& w) {
  return static_cast<WorkId>(number_of(graph_.works, works_, w));
}

LabelId GraphBuilder::label(std::string_view text) {
  return static_cast<LabelId>(
      number_of(graph_.labels, labels_, options_.texts ? text : std::string_view()));
}

Pass GraphBuilder::pass(std::string_view name) {
  Pass pass = options_.memory != nullptr ? options_.memory->pass() : Pass();
  if (options_.texts) pass.name = name;
  return pass;
}

PassWriter::PassWriter(GraphBuilder& builder, std::string_view name, TensorTableId tensors)
    : builder_(builder), pass_(builder.pass(name)), waits_(pass_.waits.release()) {
  pass_.tensors = tensors;
}

uint32_t PassWriter::append(std::string_view label, const Work& work, Stream stream) {
  Op op;
  op.work = builder_.work(work);
  op.stream = stream;
  op.phase = phase_;
  op.label = builder_.label(label);
  op.layer = layer_;
  pass_.ops.push_back(op);
  return static_cast<uint32_t>(pass_.ops.size() - 1);
}

uint32_t PassWriter::compute(std::string_view label, const Work& work, OpRole role) {
  const uint32_t op = append(label, work, Stream::compute);
  pass_.ops.back().role = role;
  for (uint32_t on : pending_) waits_.push_back({.op = op, .on = on});
  pending_.clear();
  last_compute_ = op;
  return op;
}

uint32_t PassWriter::communicate(Stream stream, std::string_view label, const Work& work) {
  const uint32_t op = append(label, work, stream);
  // What compute would wait for next is also an input of this op.
  for (uint32_t on : pending_) waits_.push_back({.op = op, .on = on});
  if (last_compute_ >= 0) waits_.push_back({.op = op, .on = static_cast<uint32_t>(last_compute_)});
  return op;
}

TensorIndex PassWriter::allocate(std::string_view label, Bytes bytes, MemoryCategory category) {
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

TensorIndex PassWriter::allocate_apart(std::string_view label, Bytes bytes,
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
  const auto is_before = [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.op != b.op ? a.op < b.op : a.allocate && !b.allocate;
  };
  if (!std::ranges::is_sorted(pass_.memory, is_before))  // to sort takes memory
    std::stable_sort(pass_.memory.begin(), pass_.memory.end(), is_before);
  pass_.waits.assign(static_cast<uint32_t>(pass_.ops.size()), std::move(waits_));
  OpGraph& graph = builder_.graph();
  graph.passes.push_back(std::move(pass_));
  return static_cast<PassId>(graph.passes.size() - 1);
}

}  // namespace stepcast
