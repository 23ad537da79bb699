// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower.h"

#include <algorithm>
#include <map>
#include <set>
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
        plan_(piece_of(plan, schedule, 0)),
        schedule_(schedule),
        options_(options),
        shard_(model, plan_),
        builder_(graph_),
        programs_(with_transfers(schedule, options.p2p)),
        messages_(schedule),
        message_parties_(parties_of_message(options.p2p)) {}

  OpGraph lower() {
    builder_.label("");  // label 0: no text
    no_tensors_ = static_cast<TensorTableId>(graph_.tensor_tables.size());
    graph_.tensor_tables.emplace_back();
    add_passes();
    add_messages();
    add_step_rendezvous();
    for (int64_t r = 0; r < schedule_.pp; ++r) add_role(r);
    return std::move(graph_);
  }

 private:
  // The plan of one piece of a schedule that cuts sequences.
  static Plan piece_of(const Plan& plan, const Schedule& schedule, int64_t piece) {
    Plan own = plan;
    own.seq_pieces = schedule.seq_splits;
    own.piece = piece;
    return own;
  }

  // Of all that a stage can do, what this schedule makes it do.
  PassChoice choice_of_schedule() const {
    PassChoice choice;
    for (const std::vector<Action>& list : schedule_.ranks) {
      for (const Action& a : list) {
        choice.split = choice.split || a.kind == ActionKind::backward_weight;
        choice.recompute = choice.recompute || a.kind == ActionKind::recompute;
        choice.offload = choice.offload || a.kind == ActionKind::offload;
      }
    }
    return choice;
  }

  // Stages of equal content share their passes; each piece of a cut sequence has its own, because
  // it sees more keys than the one before.
  void add_passes() {
    const PassChoice choice = choice_of_schedule();
    std::map<std::pair<StageContent, int64_t>, StagePasses> made;
    for (const StageContent& content : plan_.stages) {
      for (int64_t piece = 0; piece < schedule_.seq_splits; ++piece) {
        const auto [it, is_new] = made.try_emplace({content, piece});
        if (is_new) {
          it->second = add_stage_passes(builder_, model_, piece_of(plan_, schedule_, piece),
                                        content, choice);
        }
        passes_.push_back(it->second);
      }
    }
  }

  const StagePasses& passes_of(const Action& a) const {
    const auto splits = static_cast<size_t>(schedule_.seq_splits);
    return passes_[a.stage * splits + a.microbatch % splits];
  }

  const StageContent& content(uint16_t stage) const { return plan_.stages[stage]; }

  std::vector<uint16_t> stages_of(int64_t rank) const {
    std::vector<uint16_t> stages;
    for (size_t s = 0; s < schedule_.rank_of_stage.size(); ++s) {
      if (holds(rank, s)) stages.push_back(static_cast<uint16_t>(s));
    }
    return stages;
  }

  bool holds(int64_t rank, size_t stage) const {
    return schedule_.rank_of_stage[stage] == rank ||
           (schedule_.is_bidirectional() && schedule_.reverse_rank_of_stage[stage] == rank);
  }

  // A tied head needs no copy of the word embedding on a rank that has it anyway.
  int64_t parameters_of(int64_t rank, uint16_t stage) const {
    int64_t count = stage_parameters(model_, plan_, content(stage));
    const bool copy = model_.tied && content(stage).head && !content(stage).embedding;
    if (copy && holds(rank, embedding_stage())) count -= shard_.vocab * model_.hidden;
    return count;
  }

  RankState state_of(int64_t rank) const {
    RankState state;
    for (uint16_t s : stages_of(rank)) state.parameters += parameters_of(rank, s);
    const int64_t shards = plan_.zero >= 1 ? plan_.dp : 1;
    state.optimizer_share = (state.parameters + shards - 1) / shards;
    return state;
  }

  Bytes bytes(int64_t count, DType type) const { return shard_.bytes(count, 1, type); }

  // --------------------------------------------------------------------------------- whole-step
  // rendezvous ----
  void add_step_rendezvous() {
    if (reduces_embedding()) {
      Work w;
      w.kind = WorkKind::all_reduce;
      w.dtype = plan_.precision.gradients;
      w.axis = Axis::embedding;
      w.bytes = bytes(shard_.vocab * model_.hidden, w.dtype);
      embedding_ = add_rendezvous("embedding gradient all-reduce", w, 2);
    }
    if (schedule_.is_bidirectional()) add_replica_rendezvous();
    if (plan_.clip_gradients && !options_.post_validation) {
      // One number over the model group (Megatron-LM: get_grad_norm_fp32).
      Work w;
      w.kind = WorkKind::all_reduce;
      w.dtype = DType::fp32;
      w.axis = Axis::model;
      w.bytes = {plan_.tp * plan_.pp > 1 ? 4 : 0};
      norm_ = add_rendezvous("gradient norm all-reduce", w, static_cast<uint16_t>(plan_.pp));
    }
  }

  // Both replicas of a stage have gradients of their own microbatches only; ranks r and p-1-r hold
  // the same two stages.
  void add_replica_rendezvous() {
    for (int64_t r = 0; r < plan_.pp / 2; ++r) {
      Work w;
      w.kind = WorkKind::all_reduce;
      w.dtype = plan_.precision.gradients;
      w.axis = Axis::pp;
      w.from = static_cast<uint16_t>(r);
      w.to = static_cast<uint16_t>(plan_.pp - 1 - r);
      w.bytes = bytes(state_of(r).parameters, w.dtype);
      replicas_.push_back(add_rendezvous("gradient all-reduce of two replicas", w, 2));
    }
  }

  RendezvousId add_rendezvous(const std::string& label, const Work& work, uint16_t parties) {
    graph_.rendezvous.push_back({builder_.work(work), parties, builder_.label(label)});
    return static_cast<RendezvousId>(graph_.rendezvous.size() - 1);
  }

  // ----------------------------------------------------------------------------------------- roles
  void add_role(int64_t rank) {
    RoleOps role;
    role.name = "stage " + std::to_string(rank);
    role.pipeline_rank = static_cast<uint32_t>(rank);
    role.ranks = plan_.tp * plan_.cp * plan_.dp;
    const RankState state = state_of(rank);
    role.memory = static_memory(state);
    RoleItems items(role.items);
    // Without a barrier the next step may begin on a rank while others are at this one: then what
    // precedes its first action is done at the end.
    std::map<uint16_t, uint32_t> gathered;
    if (!options_.post_validation) {
      add_zero_gradients(items, state);
      gathered = add_parameter_gather(items, rank);
    }
    add_schedule(role, items, rank, std::move(gathered));
    add_replica_reduction(items, rank);
    add_gradient_reduction(items, rank);
    add_shared_reduction(items, rank);
    add_embedding_reduction(items, rank);
    add_optimizer(items, state);
    if (plan_.zero >= 1 && plan_.dp > 1 && (!plan_.overlap.dp_param || options_.post_validation)) {
      const PassId gather =
          collective_pass("parameter gather", gather_work(state.parameters), Phase::optimizer);
      items.run_beside(graph_, gather, Stream::dp);
    }
    if (options_.post_validation) add_zero_gradients(items, state);
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
      items.run(graph_, collective_pass("parameter gather", gather_work(parameters_of(rank, stage)),
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

  // -------------------------------------------------------------------------------------- schedule
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

  // What a rank has to remember while its list is written.
  struct ListState {
    std::map<uint16_t, uint32_t> gathered;  // stage -> event of its parameters' arrival
    std::map<uint16_t, size_t> last;        // stage -> position of its last B or W
    std::set<std::pair<uint16_t, uint32_t>> recomputed;
    std::map<std::pair<uint16_t, uint32_t>, uint32_t> reloaded;  // -> event
  };

  void add_schedule(RoleOps& role, RoleItems& items, int64_t rank,
                    std::map<uint16_t, uint32_t> gathered) {
    const std::vector<Action>& actions = schedule_.ranks[static_cast<size_t>(rank)];
    const RankProgram& program = programs_[static_cast<size_t>(rank)];
    ListState state{std::move(gathered), last_backwards(actions), {}, {}};
    for (const Step& step : program.steps) {
      if (step.kind != Step::Kind::run) {
        items.transfer(program, step, messages_, first_message_);
      } else if (step.count == 1) {
        run_action(items, actions, step.first, state);
      } else {
        run_pair(role, items, actions, step.first, state);
      }
    }
  }

  // What has to be there before an action's pass, and which pass that is.
  PassId prepare(RoleItems& items, const std::vector<Action>& actions, size_t i, ListState& state) {
    const Action& a = actions[i];
    if (const auto event = state.gathered.find(a.stage);
        event != state.gathered.end() && a.kind == ActionKind::forward) {
      items.wait(Stream::compute, event->second);
      state.gathered.erase(event);
    }
    const std::pair key{a.stage, a.microbatch};
    if (!state.reloaded.empty() && a.kind != ActionKind::forward) {
      if (const auto event = state.reloaded.find(key); event != state.reloaded.end()) {
        items.wait(Stream::compute, event->second);
        state.reloaded.erase(event);
      }
    }
    if (a.kind == ActionKind::recompute) state.recomputed.insert(key);
    const auto last = state.last.find(a.stage);
    const bool completes = last != state.last.end() && last->second == i;
    const bool recomputed = !state.recomputed.empty() && state.recomputed.contains(key);
    return pass_of(passes_of(a), a.kind, completes, recomputed);
  }

  void run_action(RoleItems& items, const std::vector<Action>& actions, size_t i,
                  ListState& state) {
    const Action& a = actions[i];
    items.run(graph_, prepare(items, actions, i, state), a);
    if (a.kind == ActionKind::reload) {
      state.reloaded[{a.stage, a.microbatch}] = items.record(Stream::copy);
    }
  }

  // Both halves as one pass; the forward is its first action, whatever the list's order.
  void run_pair(RoleOps& role, RoleItems& items, const std::vector<Action>& actions, size_t i,
                ListState& state) {
    const size_t f = actions[i].kind == ActionKind::forward ? i : i + 1;
    const size_t b = f == i ? i + 1 : i;
    const PassId forward = prepare(items, actions, f, state);
    const PassId backward = prepare(items, actions, b, state);
    const auto [pair, is_new] = pairs_.try_emplace({forward, backward});
    if (is_new) pair->second = add_pair_pass(builder_, forward, backward);
    items.run(graph_, pair->second, actions[f]);
    role.items.back().has_second = true;
    role.items.back().second = actions[b];
  }

  // Position of the last B or W of each stage: gradients are complete after it.
  static std::map<uint16_t, size_t> last_backwards(const std::vector<Action>& actions) {
    std::map<uint16_t, size_t> last;
    for (size_t i = 0; i < actions.size(); ++i) {
      const ActionKind kind = actions[i].kind;
      if (kind == ActionKind::backward || kind == ActionKind::backward_weight) {
        last[actions[i].stage] = i;
      }
    }
    return last;
  }

  // -------------------------------------------------------------------------- gradients, optimizer
  void add_replica_reduction(RoleItems& items, int64_t rank) {
    if (replicas_.empty()) return;
    const RendezvousId id = replicas_[static_cast<size_t>(std::min(rank, plan_.pp - 1 - rank))];
    items.post(id, Stream::compute);
    items.join(id, Stream::compute);
  }

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
      w.bytes = bytes(parameters_of(rank, stage), w.dtype);
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
    if (!reduces_embedding()) return;
    if (!holds(rank, embedding_stage()) && !holds(rank, head_stage())) return;
    items.post(embedding_, Stream::compute);
    items.join(embedding_, Stream::compute);
  }

  // Word embedding and tied head are on different ranks; with two replicas each rank that has one
  // has the other too.
  bool reduces_embedding() const {
    return model_.tied && !schedule_.is_bidirectional() &&
           schedule_.rank_of_stage[embedding_stage()] != schedule_.rank_of_stage[head_stage()];
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
    // With post-validation the other stages' squares arrive during the next step.
    if (options_.post_validation) return;
    items.post(norm_, Stream::compute);
    items.join(norm_, Stream::compute, {.host_waits = true});  // its value decides on the host
  }

  const Transformer& model_;
  const Plan plan_;
  const Schedule& schedule_;
  const LowerOptions& options_;
  const Shard shard_;
  OpGraph graph_;
  GraphBuilder builder_;
  TensorTableId no_tensors_{};
  std::vector<StagePasses> passes_;  // by stage and piece
  std::map<std::pair<PassId, PassId>, PassId> pairs_;
  const std::vector<RankProgram> programs_;  // by pipeline rank
  const Messages messages_;
  const uint16_t message_parties_;
  RendezvousId first_message_{};
  RendezvousId embedding_{}, norm_{};
  std::vector<RendezvousId> replicas_;  // by the lower of the two ranks
};

}  // namespace

OpGraph lower(const Transformer& model, const Plan& plan, const Schedule& schedule,
              const LowerOptions& options) {
  STEPCAST_CHECK(schedule.pp == plan.pp && schedule.microbatches == plan.microbatches() &&
                     schedule.rank_of_stage.size() == plan.stages.size(),
                 "schedule and plan describe different steps");
  return Lowering(model, plan, schedule, options).lower();
}

}  // namespace stepcast
