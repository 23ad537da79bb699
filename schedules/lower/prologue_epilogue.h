// SPDX-License-Identifier: Apache-2.0
// What a pipeline rank does in a step before and after its list of actions: zeroing of gradients,
// gather of sharded parameters; reduction of gradients over replicas, of those that tensor ranks
// share, of a tied embedding; gradient norm, optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "model/passes/pass_writer.h"
#include "model/plan.h"
#include "model/replicas.h"
#include "model/shard.h"
#include "model/transformer.h"
#include "schedules/lower/rank_parameters.h"
#include "schedules/lower/role_items.h"
#include "schedules/schedule.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

class StepPrologueEpilogue {
 public:
  // Adds the rendezvous that happen once a step to the graph that `builder` writes, of which
  // `no_tensors` is an empty tensor table.  `post_validation` is that of LowerOptions.  Keeps the
  // references.
  StepPrologueEpilogue(const RankParameters& held, bool post_validation, GraphBuilder& builder,
                       TensorTableId no_tensors);

  // Appends what precedes the first action; returns the event that the first forward of a stage has
  // to wait for, by stage, where parameters arrive beside the first forwards.
  std::map<uint16_t, uint32_t> begin(RoleItems& items, int64_t rank);
  // Appends what follows the last action.
  void finish(RoleItems& items, int64_t rank);

 private:
  bool gathers_beside() const;
  bool reduces_in_passes() const;
  bool sends_gradients() const;
  bool reduces_embedding() const;
  Bytes bytes(int64_t count, DType type) const { return shard_.bytes(count, 1, type); }
  const StageContent& content(uint16_t stage) const { return plan_.stages[stage]; }

  void add_step_rendezvous();
  void add_replica_rendezvous();
  RendezvousId add_rendezvous(std::string_view label, const Work& work, uint16_t parties);
  PassId single_pass(std::string_view name, const Work& work, Phase phase);
  PassId collective_pass(std::string_view name, const Work& work, Phase phase,
                         Stream stream = Stream::dp);
  bool is_brought(const ParameterPart& part) const;
  static Stream stream_of(const ParameterPart& part);
  PassId gather_pass(const ParameterPart& part);

  void add_zero_gradients(RoleItems& items, int64_t rank);
  std::map<uint16_t, uint32_t> add_parameter_gather(RoleItems& items, int64_t rank);
  void add_replica_reduction(RoleItems& items, int64_t rank);
  void add_gradient_reduction(RoleItems& items, int64_t rank);
  PassId bucket_pass(int64_t parameters);
  PassId bucket_copy_pass(std::string_view name, int64_t parameters);
  PassId reduction_pass(const ReplicaGroup& group, int64_t parameters);
  void add_shared_reduction(RoleItems& items, int64_t rank);
  void add_embedding_reduction(RoleItems& items, int64_t rank);
  void add_optimizer(RoleItems& items, int64_t rank);
  // Parameters whose optimizer a rank runs, and how many tensors their gradients are.
  struct OptimizerShare {
    int64_t parameters = 0;
    int64_t tensors = 1;
    int64_t largest = 0;  // parameters of the largest tensor
  };
  OptimizerShare optimizer_share(int64_t rank) const;
  void copy_by_tensor(PassWriter& pass, OptimizerShare share);
  // As many tensors as the optimizer works on: one of all, or with ZeRO-3 as the gradients are.
  int64_t optimizer_tensors(OptimizerShare share) const;
  std::vector<TensorIndex> copy_gradients(PassWriter& pass, OptimizerShare share);
  void add_update(RoleItems& items, OptimizerShare share);
  // Between device and host.
  void copy_over(PassWriter& pass, std::string_view label, int64_t count, DType type);
  void update_on_host(PassWriter& pass, int64_t count);
  void add_norm_reduction(RoleItems& items);

  const RankParameters& held_;
  const Shard& shard_;
  const Transformer& model_;
  const Plan& plan_;
  const Schedule& schedule_;
  const bool post_validation_;
  OpGraph& graph_;
  GraphBuilder& builder_;
  const TensorTableId no_tensors_;
  RendezvousId embedding_{}, norm_{};
  std::vector<RendezvousId> replicas_;  // by the lower of the two ranks
};

}  // namespace stepcast
