// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/vocabulary.h"

#include <algorithm>

#include "sim/check.h"

namespace stepcast {
namespace {

bool is_of_vocabulary(const Action& a) {
  return a.kind == ActionKind::vocabulary_forward || a.kind == ActionKind::vocabulary_backward ||
         a.kind == ActionKind::embedding_forward || a.kind == ActionKind::embedding_backward;
}

// From one rank to all others.
bool is_broadcast(VocabularyExchange x) {
  return x == VocabularyExchange::head_input || x == VocabularyExchange::embedding_gradient;
}

}  // namespace

VocabularySplit vocabulary_split(const Schedule& schedule) {
  const auto shares = [](const std::vector<Action>& list) {
    return std::ranges::any_of(list, is_of_vocabulary);
  };
  if (std::ranges::none_of(schedule.ranks, shares)) return VocabularySplit::none;
  // All microbatches are treated alike, so the first one in the list of the last stage tells.
  const size_t last = schedule.rank_of_stage.size() - 1;
  for (const Action& a : schedule.ranks[schedule.rank_of_stage[last]]) {
    if (a.kind == ActionKind::vocabulary_backward) return VocabularySplit::two_barriers;
    if (is_backward(a.kind) && a.stage == last) return VocabularySplit::one_barrier;
  }
  return VocabularySplit::one_barrier;
}

std::optional<VocabularyNeed> vocabulary_need(size_t stages, VocabularySplit split,
                                              const Action& a) {
  if (split == VocabularySplit::none) return std::nullopt;
  const size_t last = stages - 1;
  const auto everywhere = [&](ActionKind k) { return VocabularyNeed{k, 0, last}; };
  switch (a.kind) {
    case ActionKind::forward:
      if (a.stage != 0) return std::nullopt;
      return everywhere(ActionKind::embedding_forward);
    case ActionKind::vocabulary_forward: return VocabularyNeed{ActionKind::forward, last, last};
    case ActionKind::vocabulary_backward: return everywhere(ActionKind::vocabulary_forward);
    case ActionKind::backward:
    case ActionKind::backward_input:
      if (a.stage != last) return std::nullopt;
      return everywhere(split == VocabularySplit::one_barrier ? ActionKind::vocabulary_forward
                                                              : ActionKind::vocabulary_backward);
    case ActionKind::embedding_backward: return VocabularyNeed{ActionKind::backward, 0, 0};
    default: return std::nullopt;
  }
}

VocabularyExchanges::VocabularyExchanges(const Schedule& schedule, OpGraph& graph,
                                         Collectives collectives)
    : split_(vocabulary_split(schedule)), last_stage_(schedule.rank_of_stage.size() - 1) {
  STEPCAST_CHECK(split_ != VocabularySplit::none, "a schedule that shares the vocabulary");
  for (size_t x = 0; x < kVocabularyExchanges; ++x) {
    turns_[x] = collectives[x].size();
    first_[x] = static_cast<uint32_t>(graph.rendezvous.size());
    const bool one = is_broadcast(static_cast<VocabularyExchange>(x));
    for (Rendezvous& r : collectives[x])
      r.parties = static_cast<uint16_t>(one ? 1 : schedule.ranks.size());
    for (int64_t m = 0; m < schedule.microbatches; ++m)
      graph.rendezvous.insert(graph.rendezvous.end(), collectives[x].begin(), collectives[x].end());
  }
}

RendezvousId VocabularyExchanges::id(VocabularyExchange x, uint32_t microbatch, size_t turn) const {
  const auto at = static_cast<size_t>(x);
  return RendezvousId{static_cast<uint32_t>(first_[at] + microbatch * turns_[at] + turn)};
}

// Each collective after the one before, all after the compute so far.
void VocabularyExchanges::exchange(RoleItems& items, VocabularyExchange x,
                                   uint32_t microbatch) const {
  items.wait(Stream::dp, items.record(Stream::compute));
  for (size_t turn = 0; turn < turns_[static_cast<size_t>(x)]; ++turn) {
    items.post(id(x, microbatch, turn), Stream::dp);
    items.join(id(x, microbatch, turn), Stream::dp);
  }
}

void VocabularyExchanges::send(RoleItems& items, VocabularyExchange x, uint32_t microbatch) const {
  items.wait(Stream::dp, items.record(Stream::compute));
  items.post(id(x, microbatch, 0), Stream::dp);
}

void VocabularyExchanges::receive(RoleItems& items, VocabularyExchange x,
                                  uint32_t microbatch) const {
  items.join(id(x, microbatch, turns_[static_cast<size_t>(x)] - 1), Stream::compute);
}

void VocabularyExchanges::before(RoleItems& items, const Action& a) const {
  using enum VocabularyExchange;
  const bool first = a.stage == 0, last = a.stage == last_stage_;
  if (a.kind == ActionKind::forward && first) receive(items, embedding, a.microbatch);
  if (a.kind == ActionKind::vocabulary_forward && !last) receive(items, head_input, a.microbatch);
  if (a.kind == ActionKind::vocabulary_backward) receive(items, sums, a.microbatch);
  if (is_backward(a.kind) && last) receive(items, head_gradient, a.microbatch);
  if (a.kind == ActionKind::embedding_backward && !first)
    receive(items, embedding_gradient, a.microbatch);
}

void VocabularyExchanges::after(RoleItems& items, const Action& a) const {
  using enum VocabularyExchange;
  const bool early = split_ == VocabularySplit::one_barrier;
  if (a.kind == ActionKind::embedding_forward) exchange(items, embedding, a.microbatch);
  if (a.kind == ActionKind::forward && a.stage == last_stage_)
    send(items, head_input, a.microbatch);
  if (a.kind == ActionKind::vocabulary_forward) exchange(items, sums, a.microbatch);
  const ActionKind makes_gradient =
      early ? ActionKind::vocabulary_forward : ActionKind::vocabulary_backward;
  if (a.kind == makes_gradient) exchange(items, head_gradient, a.microbatch);
  if (is_backward(a.kind) && a.stage == 0) send(items, embedding_gradient, a.microbatch);
}

}  // namespace stepcast
