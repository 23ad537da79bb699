// SPDX-License-Identifier: Apache-2.0
// Pipelines whose ranks share the vocabulary: every rank holds a part of the rows of the word
// embedding and of the head, and runs their passes S, T, E and G (sim/graph/action.h) for every
// microbatch (Yeung et al. 2025, Balancing Pipeline Parallelism with Vocabulary Parallelism,
// arXiv 2411.05288).  What they wait for, and the collectives between all ranks that bring it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/plan.h"
#include "schedules/lower/role_items.h"
#include "schedules/schedule.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// How the schedule's ranks share it: with two barriers if T of a microbatch comes before B or I of
// the last stage, which it then has made the gradient for; else with one.  O(actions).
VocabularySplit vocabulary_split(const Schedule& schedule);

// Stages whose `kind` has to have ended for the same microbatch.
struct VocabularyNeed {
  ActionKind kind{};
  size_t first = 0, last = 0;
};

// What `a` needs of a shared vocabulary, or an action of one needs of the pipeline.
std::optional<VocabularyNeed> vocabulary_need(size_t stages, VocabularySplit split,
                                              const Action& a);

// What the ranks exchange about a microbatch.
enum class VocabularyExchange : uint8_t {
  embedding,           // after E: rows looked up, summed; for F of the first stage
  head_input,          // after F of the last stage: its output; for S
  sums,                // after S: maxima, targets and sums of the softmax; for T
  head_gradient,       // after S (one barrier) or T (two): input gradients, summed; for B of the
                       // last stage
  embedding_gradient,  // after B of the first stage: its gradient; for G
};
constexpr size_t kVocabularyExchanges = 5;

// Their rendezvous, one or several in a row for each exchange and microbatch.  They run beside the
// compute that issues them, in turn on Stream::dp.
class VocabularyExchanges {
 public:
  // One list of collectives an exchange, with as many microbatches as the schedule has.
  using Collectives = std::array<std::vector<Rendezvous>, kVocabularyExchanges>;

  // Adds them to `graph`; Rendezvous::parties is filled in.  REQUIRES: the schedule shares.
  VocabularyExchanges(const Schedule& schedule, OpGraph& graph, Collectives collectives);

  // What precedes, what follows an action on its rank.
  void before(RoleItems& items, const Action& a) const;
  void after(RoleItems& items, const Action& a) const;

 private:
  RendezvousId id(VocabularyExchange x, uint32_t microbatch, size_t turn) const;
  void exchange(RoleItems& items, VocabularyExchange x, uint32_t microbatch) const;
  void send(RoleItems& items, VocabularyExchange x, uint32_t microbatch) const;
  void receive(RoleItems& items, VocabularyExchange x, uint32_t microbatch) const;

  VocabularySplit split_;
  size_t last_stage_;
  std::array<size_t, kVocabularyExchanges> turns_{};
  std::array<uint32_t, kVocabularyExchanges> first_{};
};

}  // namespace stepcast
