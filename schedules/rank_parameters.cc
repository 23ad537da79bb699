// SPDX-License-Identifier: Apache-2.0
#include "schedules/rank_parameters.h"

#include <algorithm>
#include <set>

#include "model/stage_parameters.h"

namespace stepcast {

RankParameters::RankParameters(const Shard& shard, const Schedule& schedule)
    : shard_(shard),
      schedule_(schedule),
      dense_(dense_replicas(shard.plan)),
      experts_(expert_replicas(shard.plan)) {}

bool RankParameters::holds(int64_t rank, size_t stage) const {
  return schedule_.rank_of_stage[stage] == rank ||
         (schedule_.is_bidirectional() && schedule_.reverse_rank_of_stage[stage] == rank);
}

std::vector<uint16_t> RankParameters::stages_of(int64_t rank) const {
  std::vector<uint16_t> stages;
  for (size_t s = 0; s < schedule_.rank_of_stage.size(); ++s)
    if (holds(rank, s)) stages.push_back(static_cast<uint16_t>(s));
  return stages;
}

bool RankParameters::holds_embedding(uint16_t stage) const {
  const StageContent& content = plan().stages[stage];
  return content.embedding || copies_embedding(shard_.model, content);
}

std::vector<int64_t> RankParameters::embedding_ranks() const {
  std::set<int64_t> ranks;
  for (size_t s = 0; s < plan().stages.size(); ++s)
    if (holds_embedding(static_cast<uint16_t>(s))) ranks.insert(schedule_.rank_of_stage[s]);
  return {ranks.begin(), ranks.end()};
}

// A stage needs no copy of the word embedding on a rank that has it anyway.
int64_t RankParameters::count(int64_t rank, uint16_t stage) const {
  const StageContent& content = plan().stages[stage];
  const int64_t all = stage_parameters(shard_.model, plan(), content);
  if (plan().vocabulary != VocabularySplit::none || !copies_embedding(shard_.model, content))
    return all;
  const std::vector<uint16_t> stages = stages_of(rank);
  const bool has_it = std::any_of(stages.begin(), stages.end(), [&](uint16_t other) {
    return other < stage && holds_embedding(other);
  });
  return has_it ? all - shard_.vocab * shard_.hidden : all;
}

std::vector<ParameterPart> RankParameters::parts_of(int64_t rank) const {
  return parts_of(rank, stages_of(rank));
}

std::vector<ParameterPart> RankParameters::parts_of(int64_t rank,
                                                    const std::vector<uint16_t>& stages) const {
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
  if (experts.parameters == 0) return {dense};
  return {dense, experts};
}

int64_t RankParameters::gradients_of(const ParameterPart& part) const {
  return plan().zero >= 2 ? part.share : part.parameters;
}

int64_t RankParameters::host_share(int64_t share) const {
  return static_cast<int64_t>(static_cast<double>(share) * plan().offload.optimizer);
}

}  // namespace stepcast
