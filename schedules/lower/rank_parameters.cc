// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/rank_parameters.h"

#include <algorithm>

#include "model/host/library_memory.h"
#include "model/low_precision.h"
#include "model/parameters.h"
#include "model/passes/forward_only.h"

namespace stepcast {
namespace {

// 16-bit weights that a rank does not hold, because it keeps them in the GEMMs' low precision
// alone.
struct LowWeights {
  Bytes dense{}, experts{};
};

class HeldBy {
 public:
  HeldBy(const OpGraph& graph, const RankParameters& held, std::span<const StagePasses> passes,
         int64_t rank)
      : graph_(graph),
        held_(held),
        shard_(held.shard()),
        model_(held.shard().model),
        plan_(held.plan()),
        passes_(passes),
        rank_(rank),
        stages_(held.stages_of(rank)) {}

  std::vector<StaticMemory> all() const {
    std::vector<StaticMemory> memory;
    const bool kept = plan_.trains() && !gathers_units(model_, plan_);
    if (!plan_.trains()) {
      memory = inference();
    } else if (plan_.precision.scaling == Scaling::none || !kept) {
      memory = training({});
    } else {
      memory = training(plan_.precision.low_params ? replaced_weights() : LowWeights{});
      memory.push_back({MemoryCategory::parameters, low_copies()});
    }
    const Bytes libraries = library_workspaces();
    if (libraries.value > 0) memory.push_back({MemoryCategory::workspace, libraries});
    const Bytes logits = earlier_logits();
    if (logits.value > 0) memory.push_back({MemoryCategory::logits, logits});
    return memory;
  }

 private:
  // Of the first piece: all of a stage have the same weights.
  const StagePasses& passes_of(uint16_t stage) const {
    return passes_[stage * static_cast<size_t>(held_.schedule().seq_splits)];
  }

  // Parameters, and the cache of all sequences that the rank has in flight.
  std::vector<StaticMemory> inference() const {
    Bytes parameters{}, cache{};
    const int64_t tokens = plan_.global_batch / plan_.dp * (plan_.seq / plan_.cp);
    for (const uint16_t s : stages_) {
      const StageContent& content = plan_.stages[s];
      parameters += stored_parameters(model_, plan_, content, held_.count(rank_, s));
      cache += cache_bytes(model_, plan_, content, tokens);
    }
    return {{MemoryCategory::parameters, parameters}, {MemoryCategory::activations, cache}};
  }

  std::vector<StaticMemory> training(const LowWeights& low) const {
    const Precision& p = plan_.precision;
    std::vector<StaticMemory> memory;
    memory.reserve(8);  // of one part, and what comes after it
    const auto hold = [&](MemoryCategory category, int64_t count, DType type, Bytes less = {}) {
      const Bytes all = shard_.bytes(count, 1, type);
      memory.push_back({category, all - std::min(less, all)});
    };
    if (plan_.teacher) {
      Bytes teacher{};
      for (const uint16_t s : stages_)
        teacher += teacher_parameters(plan_, plan_.teacher_stages[s]);
      memory.push_back({MemoryCategory::parameters, teacher});
    }
    Bytes replaced = low.dense;
    bool is_dense = true;  // the first part
    for (const ParameterPart& part : held_.parts_of(rank_)) {
      const bool sharded = plan_.zero == 3;
      const bool wide = wide_shards(plan_);
      const bool apart = wide || keeps_gathered(plan_);  // from what passes compute with
      if (!plan_.offload.parameters)
        hold(MemoryCategory::parameters, sharded ? part.share : part.parameters,
             wide ? DType::fp32 : p.params, apart ? Bytes{} : replaced);
      hold(MemoryCategory::gradients, held_.gradients_of(part), p.gradients);
      if (p.own_gradients && p.gradients != p.params && !sharded)
        hold(MemoryCategory::gradients, part.parameters, p.params);
      // Autograd's own; experts' gradients are added at once (model/layers/experts.cc).
      memory.back().by_tensor = is_dense && plan_.gradients_are_tensors();
      if (keeps_gathered(plan_)) {
        hold(MemoryCategory::parameters, part.parameters, p.params, replaced);
        hold(MemoryCategory::gradients, part.parameters, p.params);
      }
      const int64_t here = part.share - held_.host_share(part.share);
      hold(MemoryCategory::optimizer_state, 2 * here, p.moments);
      if (p.master && !wide)
        hold(MemoryCategory::optimizer_state,
             plan_.whole_master && plan_.zero == 1 ? part.parameters : here, DType::fp32);
      replaced = low.experts;
      is_dense = false;
    }
    return memory;
  }

  // Copies of the weights that low-precision GEMMs read; without Precision::low_params they are
  // beside those in 16 bits.
  Bytes low_copies() const {
    Bytes copies{};
    for (const uint16_t s : stages_)
      for (const int64_t values : low_weights(graph_, passes_of(s).forward))
        copies += low_format(plan_.precision).copies(values);
    return copies;
  }

  LowWeights replaced_weights() const {
    LowWeights replaced;
    for (const uint16_t s : stages_) {
      Bytes wide{};
      for (const int64_t values : trained_low_weights(s)) wide += shard_.bytes(values, 1);
      const Bytes experts = std::min(wide, shard_.bytes(low_expert_values(plan_.stages[s]), 1));
      replaced.experts += experts;
      replaced.dense += wide - experts;
    }
    return replaced;
  }

  // What low_weights() finds in the stage's forward, without those of a teacher: it has no master
  // copy and keeps its 16 bits.
  std::vector<int64_t> trained_low_weights(uint16_t stage) const {
    if (!plan_.teacher) return low_weights(graph_, passes_of(stage).forward);
    Plan plan = plan_;
    plan.teacher.reset();
    OpGraph alone;
    GraphBuilder builder(alone);
    return low_weights(alone, add_stage_passes(builder, model_, plan, plan_.stages[stage]).forward);
  }

  // Of them the weights of experts.
  int64_t low_expert_values(StageContent content) const {
    Transformer weights = model_;
    weights.mlp_bias = false;
    if (!content.kinds.empty()) {
      std::erase_if(content.kinds, [](const LayerKind& kind) { return kind.wide; });
      content.layers = static_cast<int64_t>(content.kinds.size());
    }
    return expert_parameters(weights, plan_, content);
  }

  // Of the microbatches before the one that is in the passes (Kernels::held_logits).
  Bytes earlier_logits() const {
    const int64_t held = std::min(plan_.kernels.held_logits, plan_.microbatches()) - 1;
    const bool head =
        std::ranges::any_of(stages_, [&](uint16_t stage) { return plan_.stages[stage].head; });
    if (!plan_.trains() || held <= 0 || !head) return {};
    return shard_.bytes(shard_.tokens, shard_.logits()) * held;
  }

  // Workspaces of libraries, and gradients that stand for those of the weights.
  Bytes library_workspaces() const {
    std::vector<PassId> passes;
    passes.reserve(3 * stages_.size());
    for (const uint16_t s : stages_) {
      const StagePasses& p = passes_of(s);
      for (const PassId pass : {p.forward, p.backward, p.weight_gradient})
        if (pass != kNoPass) passes.push_back(pass);
    }
    return library_memory(graph_, plan_, passes);
  }

  const OpGraph& graph_;
  const RankParameters& held_;
  const Shard& shard_;
  const Transformer& model_;
  const Plan& plan_;
  const std::span<const StagePasses> passes_;
  const int64_t rank_;
  const std::span<const uint16_t> stages_;
};

}  // namespace

RankParameters::RankParameters(const Shard& shard, const Schedule& schedule)
    : shard_(shard),
      schedule_(schedule),
      dense_(dense_replicas(shard.plan)),
      experts_(expert_replicas(shard.plan)) {
  const size_t stages = schedule.rank_of_stage.size();
  stages_.reserve(schedule.is_bidirectional() ? 2 * stages : stages);
  first_stage_.reserve(static_cast<size_t>(schedule.pp) + 1);
  first_stage_.push_back(0);
  for (int64_t rank = 0; rank < schedule.pp; ++rank) {
    for (size_t s = 0; s < stages; ++s)
      if (holds(rank, s)) stages_.push_back(static_cast<uint16_t>(s));
    first_stage_.push_back(stages_.size());
  }
  for (size_t s = 0; s < plan().stages.size(); ++s)
    if (holds_embedding(static_cast<uint16_t>(s)))
      embedding_ranks_.push_back(schedule.rank_of_stage[s]);
  std::ranges::sort(embedding_ranks_);
  embedding_ranks_.erase(std::unique(embedding_ranks_.begin(), embedding_ranks_.end()),
                         embedding_ranks_.end());
}

bool RankParameters::holds(int64_t rank, size_t stage) const {
  return schedule_.rank_of_stage[stage] == rank ||
         (schedule_.is_bidirectional() && schedule_.reverse_rank_of_stage[stage] == rank);
}

bool RankParameters::holds_embedding(uint16_t stage) const {
  const StageContent& content = plan().stages[stage];
  return content.embedding || copies_embedding(shard_.model, content);
}

// A stage needs no copy of the word embedding on a rank that has it anyway.
int64_t RankParameters::count(int64_t rank, uint16_t stage) const {
  const StageContent& content = plan().stages[stage];
  const int64_t all = stage_parameters(shard_.model, plan(), content);
  if (plan().vocabulary != VocabularySplit::none || !copies_embedding(shard_.model, content))
    return all;
  const bool has_it = std::ranges::any_of(
      stages_of(rank), [&](uint16_t other) { return other < stage && holds_embedding(other); });
  return has_it ? all - shard_.vocab * shard_.hidden : all;
}

ParameterParts RankParameters::parts_of(int64_t rank, std::span<const uint16_t> stages) const {
  ParameterPart dense{.group = dense_}, experts{.group = experts_};
  for (const uint16_t s : stages) {
    const int64_t routed = expert_parameters(shard_.model, plan(), plan().stages[s]);
    experts.parameters += routed;
    dense.parameters += count(rank, s) - routed;
  }
  dense.share = dense_.share(dense.parameters);
  experts.share = experts_.share(experts.parameters);
  const auto own_whole = [](ParameterPart& part, const ParameterTensors& tensors) {
    if (part.group.exchange != ZeroExchange::broadcast || part.group.shards == 1) return;
    part.tensors += tensors.count;
    part.share = std::max(part.share, tensors.largest);  // its owner has at least that
  };
  for (const uint16_t s : stages) {
    own_whole(dense, parameter_tensors(shard_.model, plan(), plan().stages[s]));
    own_whole(experts, expert_tensors(shard_.model, plan(), plan().stages[s]));
  }
  return {{dense, experts}, experts.parameters == 0 ? size_t{1} : size_t{2}};
}

int64_t RankParameters::gradients_of(const ParameterPart& part) const {
  if (sums_gradients_on_host(plan())) return part.share - host_share(part.share);
  return plan().zero >= 2 ? part.share : part.parameters;
}

int64_t RankParameters::host_share(int64_t share) const {
  return static_cast<int64_t>(static_cast<double>(share) * plan().offload.optimizer);
}

std::vector<StaticMemory> static_memory(const OpGraph& graph, const RankParameters& held,
                                        std::span<const StagePasses> passes, int64_t rank) {
  return HeldBy(graph, held, passes, rank).all();
}

}  // namespace stepcast
