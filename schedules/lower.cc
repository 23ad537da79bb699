// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "model/layer_ops.h"
#include "model/pass_writer.h"
#include "model/shard.h"
#include "schedules/role_items.h"
#include "schedules/transfers.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// What a role does besides its schedule, and the memory it holds throughout.
struct RankState {
  int64_t parameters = 0;       // of all its chunks
  int64_t optimizer_share = 0;  // those whose optimizer state it keeps
};

class Lowering {
 public:
  Lowering(const Transformer& model, const Plan& plan, const Schedule& schedule,
           const LowerOptions& options)
      : model_(model),
        plan_(plan),
        schedule_(schedule),
        shard_(model, plan),
        builder_(graph_),
        programs_(with_transfers(schedule, options.p2p)),
        messages_(schedule),
        message_parties_(parties_of_message(options.p2p)) {}

  OpGraph lower() {
    builder_.label("");  // label 0: no text
    no_tensors_ = static_cast<TensorTableId>(graph_.tensor_tables.size());
    graph_.tensor_tables.emplace_back();
    for (const StageContent& content : plan_.stages) {
      if (!passes_.contains(content)) {
        passes_.emplace(content, add_stage_passes(builder_, model_, plan_, content));
      }
    }
    add_messages();
    add_step_rendezvous();
    for (int64_t r = 0; r < schedule_.pp; ++r) add_role(r);
    return std::move(graph_);
  }

 private:
  static RoleItems items_of(RoleOps& role) { return RoleItems{role.items}; }

  const StageContent& content(uint16_t stage) const { return plan_.stages[stage]; }

  std::vector<uint16_t> stages_of(int64_t rank) const {
    std::vector<uint16_t> stages;
    for (size_t s = 0; s < schedule_.rank_of_stage.size(); ++s) {
      if (schedule_.rank_of_stage[s] == rank) stages.push_back(static_cast<uint16_t>(s));
    }
    return stages;
  }

  int64_t parameters_of(uint16_t stage) const {
    return stage_parameters(model_, plan_, content(stage));
  }

  RankState state_of(int64_t rank) const {
    RankState state;
    for (uint16_t s : stages_of(rank)) state.parameters += parameters_of(s);
    const int64_t shards = plan_.zero >= 1 ? plan_.dp : 1;
    state.optimizer_share = (state.parameters + shards - 1) / shards;
    return state;
  }

  Bytes bytes(int64_t count, DType type) const { return shard_.bytes(count, 1, type); }

  // --------------------------------------------------------------------------------- whole-step
  // rendezvous ----
  void add_step_rendezvous() {
    if (model_.tied && plan_.pp > 1) {
      Work w;
      w.kind = WorkKind::all_reduce;
      w.dtype = plan_.precision.gradients;
      w.axis = Axis::embedding;
      w.bytes = bytes(shard_.vocab * model_.hidden, w.dtype);
      embedding_ = add_rendezvous("embedding gradient all-reduce", w, 2);
    }
    if (plan_.clip_gradients) {
      // One number over the model group (Megatron-LM: get_grad_norm_fp32).
      Work w;
      w.kind = WorkKind::all_reduce;
      w.dtype = DType::fp32;
      w.axis = Axis::model;
      w.bytes = {plan_.tp * plan_.pp > 1 ? 4 : 0};
      norm_ = add_rendezvous("gradient norm all-reduce", w, static_cast<uint16_t>(plan_.pp));
    }
  }

  RendezvousId add_rendezvous(const std::string& label, const Work& work, uint16_t parties) {
    graph_.rendezvous.push_back({builder_.work(work), parties, builder_.label(label)});
    return static_cast<RendezvousId>(graph_.rendezvous.size() - 1);
  }

  // ------------------------------------------------------------------------------------------------
  // roles ----
  void add_role(int64_t rank) {
    RoleOps role;
    role.name = "stage " + std::to_string(rank);
    role.pipeline_rank = static_cast<uint32_t>(rank);
    role.ranks = plan_.tp * plan_.cp * plan_.dp;
    const RankState state = state_of(rank);
    role.memory = static_memory(state);
    RoleItems items = items_of(role);
    add_zero_gradients(items, state);
    const std::map<uint16_t, uint32_t> gathered = add_parameter_gather(items, rank);
    add_schedule(items, rank, gathered);
    add_gradient_reduction(items, rank);
    add_shared_reduction(items, rank);
    add_embedding_reduction(items, rank);
    add_optimizer(items, state);
    if (plan_.zero >= 1 && plan_.dp > 1 && !plan_.overlap.dp_param) {
      const PassId gather =
          collective_pass("parameter gather", gather_work(state.parameters), Phase::optimizer);
      items.run_beside(graph_, gather, Stream::dp);
    }
    graph_.roles.push_back(std::move(role));
  }

  std::vector<StaticMemory> static_memory(const RankState& state) const {
    const Precision& p = plan_.precision;
    std::vector<StaticMemory> memory{
        {MemoryCategory::parameters, bytes(state.parameters, p.params)},
        {MemoryCategory::gradients, bytes(state.parameters, p.gradients)},
        {MemoryCategory::optimizer_state, bytes(2 * state.optimizer_share, p.moments)}};
    if (p.master) {
      memory.push_back(
          {MemoryCategory::optimizer_state, bytes(state.optimizer_share, DType::fp32)});
    }
    return memory;
  }

  PassId single_pass(const std::string& name, const Work& work, Phase phase) {
    PassWriter pass(builder_, name, no_tensors_);
    pass.set_phase(phase);
    pass.compute(name, work);
    return pass.finish();
  }

  PassId collective_pass(const std::string& name, const Work& work, Phase phase,
                         Stream stream = Stream::dp) {
    PassWriter pass(builder_, name, no_tensors_);
    pass.set_phase(phase);
    pass.communicate(stream, name, work);
    return pass.finish();
  }

  void add_zero_gradients(RoleItems& items, const RankState& state) {
    items.run(graph_,
              single_pass("zero gradients",
                          shard_.memory_bound(Kernel::fill,
                                              bytes(state.parameters, plan_.precision.gradients)),
                          Phase::gradient_sync));
  }

  // With overlapped parameter gather each chunk's parameters arrive beside the first forwards;
  // returns the event that the first forward of a stage waits for.
  std::map<uint16_t, uint32_t> add_parameter_gather(RoleItems& items, int64_t rank) {
    std::map<uint16_t, uint32_t> events;
    if (plan_.zero < 1 || plan_.dp == 1 || !plan_.overlap.dp_param) return events;
    for (uint16_t stage : stages_of(rank)) {
      items.run(graph_, collective_pass("parameter gather", gather_work(parameters_of(stage)),
                                        Phase::optimizer));
      events[stage] = items.record(Stream::dp);
    }
    return events;
  }

  Work gather_work(int64_t parameters) const {
    Work w;
    w.kind = WorkKind::all_gather;
    w.dtype = plan_.precision.params;
    w.axis = Axis::dp;
    w.bytes = bytes(parameters, w.dtype);
    return w;
  }

  // -------------------------------------------------------------------------------------------
  // schedule ----
  // One rendezvous for each activation and gradient that changes ranks, in the order of their
  // numbers.
  void add_messages() {
    first_message_ = static_cast<RendezvousId>(graph_.rendezvous.size());
    const auto transfer = [&](uint16_t from, uint16_t to) {
      Work w;
      w.kind = WorkKind::send_recv;
      w.axis = Axis::pp;
      w.dtype = plan_.precision.params;
      w.from = from;
      w.to = to;
      w.bytes = shard_.bytes(shard_.own_tokens, model_.hidden);
      return builder_.work(w);
    };
    for (const Messages::Hop& hop : messages_.hops()) {
      const LabelId label = builder_.label(hop.to > hop.from ? "send activation" : "send gradient");
      const std::vector<uint16_t>& ranks = schedule_.rank_of_stage;
      const std::vector<uint16_t>& reverse = schedule_.reverse_rank_of_stage;
      const WorkId work = transfer(ranks[hop.from], ranks[hop.to]);
      const WorkId reversed =
          schedule_.is_bidirectional() ? transfer(reverse[hop.from], reverse[hop.to]) : work;
      for (size_t m = 0; m < static_cast<size_t>(schedule_.pieces()); ++m) {
        const bool back = schedule_.is_bidirectional() && schedule_.reversed[m];
        graph_.rendezvous.push_back({back ? reversed : work, message_parties_, label});
      }
    }
  }

  void add_schedule(RoleItems& items, int64_t rank, const std::map<uint16_t, uint32_t>& gathered) {
    const std::vector<Action>& actions = schedule_.ranks[static_cast<size_t>(rank)];
    const RankProgram& program = programs_[static_cast<size_t>(rank)];
    const std::map<uint16_t, uint32_t> last = last_backwards(actions);
    std::map<uint16_t, uint32_t> to_gather = gathered;
    for (const Step& step : program.steps) {
      if (step.kind != Step::Kind::run) {
        items.transfer(program, step, messages_, first_message_);
        continue;
      }
      STEPCAST_CHECK(step.count == 1, "overlapped pairs are not lowered yet");
      const uint32_t i = step.first;
      const Action& a = actions[i];
      if (const auto event = to_gather.find(a.stage);
          event != to_gather.end() && a.kind == ActionKind::forward) {
        items.wait(Stream::compute, event->second);
        to_gather.erase(event);
      }
      const StagePasses& passes = passes_.at(content(a.stage));
      PassId pass = passes.forward;
      if (a.kind != ActionKind::forward) {
        STEPCAST_CHECK(a.kind == ActionKind::backward, "split backward passes are not lowered yet");
        pass = last.at(a.stage) == i ? passes.last_backward : passes.backward;
      }
      items.run(graph_, pass, a);
    }
  }

  // Position of the last backward of each stage: gradients are complete after it.
  static std::map<uint16_t, uint32_t> last_backwards(const std::vector<Action>& actions) {
    std::map<uint16_t, uint32_t> last;
    for (uint32_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind == ActionKind::backward) last[actions[i].stage] = i;
    }
    return last;
  }

  // --------------------------------------------------------------------------------------
  // gradients, optimizer ----
  void add_gradient_reduction(RoleItems& items, int64_t rank) {
    if (plan_.dp == 1) return;
    if (plan_.overlap.dp_grad) {
      items.wait(Stream::compute, items.record(Stream::dp));
      return;
    }
    // One buffer a chunk, reduced when everything is done.
    for (uint16_t stage : stages_of(rank)) {
      Work w;
      w.kind = plan_.zero >= 1 ? WorkKind::reduce_scatter : WorkKind::all_reduce;
      w.dtype = plan_.precision.reduce;
      w.axis = Axis::dp;
      w.bytes = bytes(parameters_of(stage), w.dtype);
      items.run_beside(graph_, collective_pass("gradient reduction", w, Phase::gradient_sync),
                       Stream::dp);
    }
  }

  // With sequence parallelism each rank has the gradients of the norms from its own tokens only
  // (Megatron-LM: finalize_model_grads, _allreduce_layernorm_grads).
  void add_shared_reduction(RoleItems& items, int64_t rank) {
    if (plan_.tp == 1 || !plan_.sp) return;
    int64_t count = 0;
    for (uint16_t stage : stages_of(rank)) count += shared_parameters(model_, content(stage));
    if (count == 0) return;
    Work w;
    w.kind = WorkKind::all_reduce;
    w.dtype = plan_.precision.gradients;
    w.axis = Axis::tp;
    w.bytes = bytes(count, w.dtype);
    items.run_beside(
        graph_, collective_pass("norm gradient all-reduce", w, Phase::gradient_sync, Stream::tp),
        Stream::tp);
  }

  void add_embedding_reduction(RoleItems& items, int64_t rank) {
    if (!(model_.tied && plan_.pp > 1)) return;
    const bool holds = rank == schedule_.rank_of_stage[embedding_stage()] ||
                       rank == schedule_.rank_of_stage[head_stage()];
    if (!holds) return;
    items.post(embedding_, Stream::compute);
    items.join(embedding_, Stream::compute);
  }

  size_t embedding_stage() const {
    const auto it = std::find_if(plan_.stages.begin(), plan_.stages.end(),
                                 [](const StageContent& c) { return c.embedding; });
    return static_cast<size_t>(it - plan_.stages.begin());
  }

  size_t head_stage() const {
    const auto it = std::find_if(plan_.stages.begin(), plan_.stages.end(),
                                 [](const StageContent& c) { return c.head; });
    return static_cast<size_t>(it - plan_.stages.begin());
  }

  void add_optimizer(RoleItems& items, const RankState& state) {
    const Precision& p = plan_.precision;
    const int64_t share = state.optimizer_share;
    // Adam works on gradients as wide as its own parameters; narrower ones are copied first.
    const DType wide = p.master ? DType::fp32 : p.gradients;
    const bool copied = wide != p.gradients;
    const Bytes gradients = bytes(share, wide);
    PassWriter before(builder_, "gradient norm", no_tensors_);
    before.set_phase(Phase::optimizer);
    TensorIndex copy = kNoTensor;
    if (copied) {
      before.compute("gradient copy",
                     shard_.memory_bound(Kernel::cast, bytes(share, p.gradients) + gradients));
      copy = before.allocate("fp32 gradients", gradients, MemoryCategory::gradients);
    }
    if (p.params == DType::fp16) {
      // Loss scaling: divide by the scale and look for overflow (Megatron-LM:
      // unscale_and_check_inf).
      before.compute("gradient unscaling", shard_.memory_bound(Kernel::scale, gradients * 2));
    }
    if (plan_.clip_gradients) {
      before.compute("gradient norm", shard_.memory_bound(Kernel::grad_norm, gradients));
    }
    if (!before.empty()) {
      before.free(copy);  // held until Adam has run, which needs no more than this peak
      items.run(graph_, before.finish());
    }
    if (plan_.clip_gradients) add_norm_reduction(items);
    PassWriter pass(builder_, "optimizer", no_tensors_);
    pass.set_phase(Phase::optimizer);
    if (plan_.clip_gradients) {
      pass.compute("gradient clipping", shard_.memory_bound(Kernel::scale, gradients * 2));
    }
    // Adam reads gradient, parameter and both moments, writes the last three; with fp32 master
    // parameters the model's own copy is written by a second kernel.
    const Bytes moments = bytes(2 * share, p.moments);
    const Bytes own = bytes(share, p.master ? DType::fp32 : p.params);
    pass.compute("adam", shard_.memory_bound(Kernel::adam, gradients + moments * 2 + own * 2));
    if (p.master) {
      pass.compute("parameter copy",
                   shard_.memory_bound(Kernel::cast, own + bytes(share, p.params)));
    }
    items.run(graph_, pass.finish());
  }

  // The squares of all gradients: over the replicas too where each holds a share of them.
  void add_norm_reduction(RoleItems& items) {
    if (plan_.zero >= 1 && plan_.dp > 1) {
      Work w;
      w.kind = WorkKind::all_reduce;
      w.dtype = DType::fp32;
      w.axis = Axis::dp;
      w.bytes = {4};
      items.run_beside(graph_, collective_pass("gradient norm over replicas", w, Phase::optimizer),
                       Stream::dp);
    }
    items.post(norm_, Stream::compute);
    items.join(norm_, Stream::compute, {.host_waits = true});  // its value decides on the host
  }

  const Transformer& model_;
  const Plan& plan_;
  const Schedule& schedule_;
  const Shard shard_;
  OpGraph graph_;
  GraphBuilder builder_;
  TensorTableId no_tensors_{};
  std::map<StageContent, StagePasses> passes_;
  const std::vector<RankProgram> programs_;  // by pipeline rank
  const Messages messages_;
  const uint16_t message_parties_;
  RendezvousId first_message_{};
  RendezvousId embedding_{}, norm_{};
};

}  // namespace

OpGraph lower(const Transformer& model, const Plan& plan, const Schedule& schedule,
              const LowerOptions& options) {
  STEPCAST_CHECK(schedule.pp == plan.pp && schedule.microbatches == plan.microbatches() &&
                     schedule.rank_of_stage.size() == plan.stages.size(),
                 "schedule and plan describe different steps");
  return Lowering(model, plan, schedule, options).lower();
}

OpGraph lower(const Transformer& model, const Plan& plan, const Schedule& schedule) {
  return lower(model, plan, schedule,
               {.p2p = plan.overlap.pp_p2p ? P2pStyle::async : P2pStyle::megatron});
}

}  // namespace stepcast
