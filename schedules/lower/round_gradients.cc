// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/round_gradients.h"

namespace stepcast {

Rounds rounds_of(const std::vector<Action>& actions) {
  Rounds rounds;
  const Action* before = nullptr;
  size_t at = 0;
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& a = actions[i];
    if (a.kind != ActionKind::backward && a.kind != ActionKind::backward_weight) continue;
    if (before == nullptr || before->stage != a.stage) {
      if (before != nullptr) rounds.last.push_back(at);
      rounds.first.push_back(i);
    }
    before = &a;
    at = i;
  }
  if (before != nullptr) rounds.last.push_back(at);
  return rounds;
}

// nullptr where the stage has nothing to reduce.
const RoundGradients::Buffer* RoundGradients::buffer_of(uint16_t stage) {
  if (const auto made = buffers_.find(stage); made != buffers_.end()) return &made->second;
  int64_t count = 0;
  for (const ParameterPart& part : held_.parts_of(rank_, stage))
    if (part.group.ranks > 1) count += part.parameters;
  if (count == 0) return nullptr;
  const Shard& s = held_.shard();
  const Bytes bytes = s.bytes(count, 1, held_.plan().precision.gradients);
  PassWriter begin(builder_, "begin of a round", table_);
  begin.set_phase(Phase::gradient_sync);
  begin.compute("begin of a round", s.memory_bound(Kernel::none, {}));
  TensorIndex tensor = begin.allocate("unsharded gradients", bytes, MemoryCategory::gradients);
  PassWriter end(builder_, "end of a round", table_);
  end.set_phase(Phase::gradient_sync);
  end.compute("end of a round", s.memory_bound(Kernel::none, {}));
  end.free(tensor);
  const PassId allocate = begin.finish();
  return &buffers_.emplace(stage, Buffer{allocate, end.finish()}).first->second;
}

void RoundGradients::release_first(RoleItems& items) {
  items.wait(Stream::compute, alive_.front().reduced);
  items.run(builder_.graph(), alive_.front().release);
  alive_.pop_front();
}

void RoundGradients::begin(RoleItems& items, uint16_t stage) {
  constexpr size_t kBuffers = 2;
  while (alive_.size() >= kBuffers) release_first(items);
  const Buffer* buffer = buffer_of(stage);
  if (buffer == nullptr) return;
  items.run(builder_.graph(), buffer->allocate);
  alive_.push_back({.release = buffer->release});
}

void RoundGradients::end(RoleItems& items) {
  // A stage without a buffer has reduced nothing: the event of the one before stays as it is, or
  // becomes later.
  if (!alive_.empty()) alive_.back().reduced = items.record(Stream::dp);
}

void RoundGradients::finish(RoleItems& items) {
  while (!alive_.empty()) release_first(items);
}

}  // namespace stepcast
