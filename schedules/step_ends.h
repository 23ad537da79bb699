// SPDX-License-Identifier: Apache-2.0
// What a pipeline rank does in a step before and after its list of actions, and the memory that it
// holds throughout: zeroing of gradients, gather of sharded parameters; reduction of gradients over
// replicas, of those that tensor ranks share, of a tied embedding; gradient norm, optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/layer_ops.h"
#include "model/pass_writer.h"
#include "model/plan.h"
#include "model/replicas.h"
#include "model/shard.h"
#include "model/transformer.h"
#include "schedules/role_items.h"
#include "schedules/schedule.h"
#include "sim/op_graph.h"

namespace stepcast {

// What the step is of; all of it outlives whoever refers to it.
struct StepOf {
  const Transformer& model;
  const Plan& plan;
  const Schedule& schedule;
  const Shard& shard;
  bool post_validation = false;  // as in LowerOptions
};

// 16-bit weights that a rank does not hold, because it keeps them in the GEMMs' low precision
// alone.
struct LowWeights {
  Bytes dense{}, experts{};
};

class StepEnds {
 public:
  // Adds the rendezvous that happen once a step.  `no_tensors` is an empty tensor table of `graph`,
  // which `builder` writes.
  StepEnds(const StepOf& step, OpGraph& graph, GraphBuilder& builder, TensorTableId no_tensors);

  // Parameters, gradients and optimizer states of all stages that the rank holds.
  std::vector<StaticMemory> static_memory(int64_t rank, const LowWeights& low) const;

  // Appends what precedes the first action; returns the event that the first forward of a stage has
  // to wait for, by stage, where parameters arrive beside the first forwards.
  std::map<uint16_t, uint32_t> begin(RoleItems& items, int64_t rank);
  // Appends what follows the last action.
  void finish(RoleItems& items, int64_t rank);

 private:
  // Parameters that are replicated and sharded alike.
  struct Part {
    ReplicaGroup group;
    int64_t parameters = 0;
    int64_t share = 0;    // those whose optimizer state it keeps
    int64_t tensors = 0;  // that they come in: counted where each has one owner
  };

  // Of all chunks of the rank, or of one stage; experts, if there are any, are the second part.
  std::vector<StaticMemory> inference_memory(int64_t rank) const;
  std::vector<Part> parts_of(int64_t rank) const;
  std::vector<Part> parts_of(int64_t rank, const std::vector<uint16_t>& stages) const;
  int64_t gradients_of(const Part& part) const;
  bool gathers_beside() const;
  bool reduces_in_passes() const;
  std::vector<uint16_t> stages_of(int64_t rank) const;
  bool holds(int64_t rank, size_t stage) const;
  int64_t parameters_of(int64_t rank, uint16_t stage) const;
  bool holds_embedding(uint16_t stage) const;
  std::vector<int64_t> embedding_ranks() const;
  bool reduces_embedding() const;
  Bytes bytes(int64_t count, DType type) const { return shard_.bytes(count, 1, type); }
  const StageContent& content(uint16_t stage) const { return plan_.stages[stage]; }

  void add_step_rendezvous();
  void add_replica_rendezvous();
  RendezvousId add_rendezvous(const std::string& label, const Work& work, uint16_t parties);
  PassId single_pass(const std::string& name, const Work& work, Phase phase);
  PassId collective_pass(const std::string& name, const Work& work, Phase phase,
                         Stream stream = Stream::dp);
  PassId gather_pass(const Part& part);

  void add_zero_gradients(RoleItems& items, int64_t rank);
  std::map<uint16_t, uint32_t> add_parameter_gather(RoleItems& items, int64_t rank);
  void add_replica_reduction(RoleItems& items, int64_t rank);
  void add_gradient_reduction(RoleItems& items, int64_t rank);
  PassId bucket_copy_pass(const std::string& name, int64_t parameters);
  PassId reduction_pass(const ReplicaGroup& group, int64_t parameters);
  void add_shared_reduction(RoleItems& items, int64_t rank);
  void add_embedding_reduction(RoleItems& items, int64_t rank);
  void add_optimizer(RoleItems& items, int64_t rank);
  void add_update(RoleItems& items, int64_t share);
  int64_t host_share(int64_t share) const;
  void update_on_host(PassWriter& pass, int64_t count);
  void add_norm_reduction(RoleItems& items);

  const Transformer& model_;
  const Plan& plan_;
  const Schedule& schedule_;
  const Shard& shard_;
  const bool post_validation_;
  const ReplicaGroup dense_, experts_;
  OpGraph& graph_;
  GraphBuilder& builder_;
  const TensorTableId no_tensors_;
  RendezvousId embedding_{}, norm_{};
  std::vector<RendezvousId> replicas_;  // by the lower of the two ranks
};

}  // namespace stepcast
