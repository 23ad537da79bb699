// SPDX-License-Identifier: Apache-2.0
#include "schedules/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "model/host/host_calls.h"
#include "model/low_precision.h"
#include "model/passes/forward_only.h"
#include "model/passes/pass_writer.h"
#include "model/passes/stage_passes.h"
#include "model/replicas.h"
#include "model/shard.h"
#include "schedules/lower/prologue_epilogue.h"
#include "schedules/lower/rank_parameters.h"
#include "schedules/lower/role_items.h"
#include "schedules/lower/round_gradients.h"
#include "schedules/lower/vocabulary.h"
#include "schedules/transfers/transfers.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// The plan of one piece of a schedule that cuts sequences.
Plan piece_of(const Plan& plan, const Schedule& schedule, int64_t piece) {
  Plan own = plan;
  own.seq_pieces = schedule.seq_splits;
  own.piece = piece;
  return own;
}

// The plan with what the schedule says of it.
Plan step_plan(const Plan& plan, const Schedule& schedule) {
  Plan own = piece_of(plan, schedule, 0);
  own.vocabulary = vocabulary_split(schedule);
  return own;
}

// Of all that a stage can do, what this schedule makes it do.
PassChoice choice_of(const Schedule& schedule) {
  PassChoice choice;
  for (const std::vector<Action>& list : schedule.ranks) {
    for (const Action& a : list) {
      choice.split = choice.split || a.kind == ActionKind::backward_weight;
      choice.recompute = choice.recompute || a.kind == ActionKind::recompute;
      choice.offload = choice.offload || a.kind == ActionKind::offload;
    }
  }
  return choice;
}

// Stages of equal content, of the teacher's too, share their passes; each piece of a cut sequence
// has its own, because it sees more keys than the one before.  `cache` may be null.
std::vector<StagePasses> add_passes(GraphBuilder& builder, const Transformer& model,
                                    const Plan& plan, const Schedule& schedule,
                                    StagePassCache* cache) {
  const PassChoice choice = choice_of(schedule);
  std::map<std::tuple<StageContent, StageContent, int64_t>, StagePasses> made;
  std::vector<StagePasses> passes;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageContent& content = plan.stages[stage];
    const StageContent teacher = plan.teacher ? plan.teacher_stages[stage] : StageContent{};
    for (int64_t piece = 0; piece < schedule.seq_splits; ++piece) {
      const auto [it, is_new] = made.try_emplace({content, teacher, piece});
      if (is_new) {
        const Plan own = with_teacher_of(piece_of(plan, schedule, piece), stage);
        it->second = cache != nullptr ? cache->add(builder, model, own, content, choice)
                                      : add_stage_passes(builder, model, own, content, choice);
      }
      passes.push_back(it->second);
    }
  }
  return passes;
}

class Lowering {
 public:
  Lowering(const Transformer& model, const Plan& plan, const Schedule& schedule,
           const LowerOptions& options)
      : model_(model),
        plan_(step_plan(plan, schedule)),
        schedule_(schedule),
        options_(options),
        shard_(model, plan_),
        held_(shard_, schedule),
        by_round_(reduces_every_round(model, plan_)),
        graph_(options.graph.memory != nullptr ? options.graph.memory->graph() : OpGraph()),
        builder_(graph_, options.graph),
        made_(programs_of(schedule, options)),
        programs_(is_made(schedule, options) ? options.transfers->ranks : made_),
        messages_(schedule),
        message_parties_(parties_of_message(options.p2p)) {}

  OpGraph lower() {
    builder_.label("");  // label 0: no text
    no_tensors_ = static_cast<TensorTableId>(graph_.tensor_tables.size());
    graph_.tensor_tables.emplace_back();
    passes_ = add_passes(builder_, model_, plan_, schedule_, options_.passes);
    add_messages();
    if (plan_.vocabulary != VocabularySplit::none) add_vocabulary_exchanges();
    ends_.emplace(held_, options_.post_validation, builder_, no_tensors_);
    for (int64_t r = 0; r < schedule_.pp; ++r) add_role(r);
    return std::move(graph_);
  }

 private:
  static bool is_made(const Schedule& schedule, const LowerOptions& options) {
    const MadeTransfers* made = options.transfers;
    return made != nullptr && made->style == options.p2p && made->schedule == schedule;
  }

  static std::vector<RankProgram> programs_of(const Schedule& schedule,
                                              const LowerOptions& options) {
    if (is_made(schedule, options)) return {};
    return with_transfers(schedule, options.p2p);
  }

  const StagePasses& passes_of(const Action& a) const {
    const auto splits = static_cast<size_t>(schedule_.seq_splits);
    return passes_[a.stage * splits + a.microbatch % splits];
  }

  void add_role(int64_t rank) {
    RoleOps role;
    role.name = fmt::format("{} {}", schedule_.stages_are_ranks() ? "stage" : "pp rank", rank);
    role.pipeline_rank = static_cast<uint32_t>(rank);
    role.ranks = plan_.tp * plan_.cp * plan_.dp;
    role.memory = static_memory(graph_, held_, passes_, rank);
    size_t about = 64;  // items before and after the list
    for (const Step& step : programs_[static_cast<size_t>(rank)].steps)
      about += step.kind == Step::Kind::run ? 2 : 2 * step.count;
    if (options_.graph.memory != nullptr) role.items = options_.graph.memory->items();
    role.items.reserve(about);
    RoleItems items(role.items);
    add_schedule(items, rank, ends_->begin(items, rank));
    ends_->finish(items, rank);
    graph_.roles.push_back(std::move(role));
  }

  PassId forward_of(size_t stage) const {
    return passes_[stage * static_cast<size_t>(schedule_.seq_splits)].forward;
  }

  // Transformer Engine converts a weight in the first forward that multiplies with it, and keeps it
  // for the others; parameters that come and go (ZeRO-3) are converted whenever they have come.  A
  // forward alone finds them converted.
  bool casts_before(ActionKind kind) const {
    if (plan_.precision.scaling == Scaling::none || !plan_.trains()) return false;
    const bool backward = kind == ActionKind::backward || kind == ActionKind::backward_input;
    return kind == ActionKind::forward || (gathers_units(model_, plan_) && backward);
  }

  void cast_weights(RoleItems& items, uint16_t stage, std::set<uint16_t>& cast) {
    if (!cast.insert(stage).second && !gathers_units(model_, plan_)) return;
    const PassId forward = forward_of(stage);
    const auto [made, is_new] = weight_casts_.try_emplace(forward, kNoPass);
    if (is_new) {
      PassWriter pass(builder_, "weight casts", no_tensors_);
      pass.set_phase(Phase::forward);
      for (const int64_t values : low_weights(graph_, forward)) {
        for (const Work& work : weight_casts(shard_, values)) pass.compute("weight cast", work);
      }
      if (!pass.empty()) made->second = pass.finish();
    }
    if (made->second != kNoPass) items.run(graph_, made->second);
  }

  // One rendezvous for each activation and gradient that changes ranks, in the order of their
  // numbers.
  void add_messages() {
    first_message_ = static_cast<RendezvousId>(graph_.rendezvous.size());
    const auto transfer = [&](uint16_t from, uint16_t to, Bytes bytes) {
      Work w;
      w.kind = WorkKind::send_recv;
      w.axis = Axis::pp;
      w.dtype = plan_.precision.params;
      w.from = from;
      w.to = to;
      w.bytes = bytes;
      return builder_.work(w);
    };
    for (const Messages::Hop& hop : messages_.hops()) {
      const LabelId label = builder_.label(hop.to > hop.from ? "send activation" : "send gradient");
      const std::vector<uint16_t>& ranks = schedule_.rank_of_stage;
      const std::vector<uint16_t>& reverse = schedule_.reverse_rank_of_stage;
      Bytes bytes = received_bytes(model_, plan_, plan_.stages[std::max(hop.from, hop.to)]);
      if (hop.to > hop.from)
        bytes += received_by_teacher(plan_, hop.to) +
                 received_choice(model_, plan_, plan_.stages[hop.to]);
      if (plan_.splits_transfers()) bytes = {bytes.value / plan_.tp};
      const WorkId work = transfer(ranks[hop.from], ranks[hop.to], bytes);
      const WorkId reversed =
          schedule_.is_bidirectional() ? transfer(reverse[hop.from], reverse[hop.to], bytes) : work;
      for (size_t m = 0; m < static_cast<size_t>(schedule_.pieces()); ++m) {
        const bool back = schedule_.is_bidirectional() && schedule_.reversed[m];
        graph_.rendezvous.push_back({back ? reversed : work, message_parties_, label});
      }
    }
  }

  // Megatron-LM's fork of Yeung et al. sums the softmax's three numbers a token one after the
  // other, as its vocabulary-parallel loss does, and both kinds of gradients and rows by
  // all-reduces.
  void add_vocabulary_exchanges() {
    Work small;
    small.kind = WorkKind::all_reduce;
    small.axis = Axis::pp;
    small.dtype = DType::fp32;
    small.bytes = shard_.bytes(shard_.own_tokens, 1, small.dtype);
    Work activations = small;
    activations.dtype = plan_.precision.params;
    activations.bytes = shard_.bytes(shard_.own_tokens, model_.hidden);
    Work broadcast = activations;
    broadcast.kind = WorkKind::broadcast;
    const auto one = [&](const Work& w, const char* label) {
      return Rendezvous{.work = builder_.work(w), .label = builder_.label(label)};
    };
    using enum VocabularyExchange;
    VocabularyExchanges::Collectives all;
    const auto of = [&](VocabularyExchange x) -> auto& {
      return all[static_cast<size_t>(x)];
    };
    of(embedding) = {one(activations, "embedding all-reduce over the pipeline")};
    of(head_input) = {one(broadcast, "head input broadcast")};
    for (const char* label :
         {"loss maximum all-reduce over the pipeline", "loss target all-reduce over the pipeline",
          "loss sum all-reduce over the pipeline"})
      of(sums).push_back(one(small, label));
    of(head_gradient) = {one(activations, "head input gradient all-reduce over the pipeline")};
    of(embedding_gradient) = {one(broadcast, "embedding gradient broadcast")};
    vocabulary_.emplace(schedule_, graph_, std::move(all));
  }

  // Gathers what was received in parts, before the pass that reads it.
  void gather_received(RoleItems& items, const Action& a) {
    const bool forward = a.kind == ActionKind::forward;
    if (!plan_.splits_transfers() ||
        (!forward && a.kind != ActionKind::backward && a.kind != ActionKind::backward_input))
      return;
    const size_t stage = a.stage, last = plan_.stages.size() - 1;
    if (forward ? stage == 0 : stage == last) return;
    const size_t from = forward ? stage - 1 : stage + 1;
    if (schedule_.rank_of_stage[from] == schedule_.rank_of_stage[stage]) return;
    Bytes bytes = received_bytes(model_, plan_, plan_.stages[std::max(from, stage)]);
    if (forward)
      bytes +=
          received_by_teacher(plan_, stage) + received_choice(model_, plan_, plan_.stages[stage]);
    const auto [made, is_new] = gathers_.try_emplace({forward, bytes.value}, kNoPass);
    if (is_new) {
      Work w;
      w.kind = WorkKind::all_gather;
      w.axis = Axis::tp;
      w.dtype = plan_.precision.params;
      w.bytes = bytes;
      const char* name =
          forward ? "received activation all-gather" : "received gradient all-gather";
      PassWriter pass(builder_, name, no_tensors_);
      pass.set_phase(forward ? Phase::forward : Phase::backward_input);
      pass.communicate(Stream::tp, name, w);
      made->second = pass.finish();
    }
    items.run_beside(graph_, made->second, Stream::tp);
  }

  // What a rank has to remember while its list is written.
  struct ListState {
    std::map<uint16_t, uint32_t> gathered;  // stage -> event of its parameters' arrival
    Rounds rounds;                          // with a round for the whole step, if gradients are not
                                            // reduced by round: positions of B or W
    RoundGradients buffers;
    std::set<uint16_t> cast;  // stages whose weights are in low precision
    std::set<std::pair<uint16_t, uint32_t>> recomputed;
    std::map<std::pair<uint16_t, uint32_t>, uint32_t> reloaded;  // -> event
  };

  void add_schedule(RoleItems& items, int64_t rank, std::map<uint16_t, uint32_t> gathered) {
    const std::vector<Action>& actions = schedule_.ranks[static_cast<size_t>(rank)];
    const RankProgram& program = programs_[static_cast<size_t>(rank)];
    ListState state{std::move(gathered),
                    by_round_ ? rounds_of(actions) : last_backwards(actions),
                    RoundGradients(held_, builder_, no_tensors_, rank),
                    {},
                    {},
                    {}};
    for (const Step& step : program.steps) {
      if (step.kind != Step::Kind::run) {
        items.transfer(program, step, messages_, first_message_);
        // Megatron-LM follows each exchange that it waits for with torch.cuda.synchronize()
        // (p2p_communication.py; batch_p2p_sync is on by default).
        const bool waits = options_.p2p == P2pStyle::megatron && step.kind != Step::Kind::issue;
        if (waits || plan_.kernels.host_waits == HostWaits::launches) items.sync();
      } else if (step.count == 1) {
        run_action(items, actions, step.first, state);
      } else {
        run_pair(items, actions, step.first, state);
      }
    }
    state.buffers.finish(items);
  }

  // Megatron-LM's timers synchronised the device as they were started and stopped around each pass
  // (global_vars.py, until they got levels in 2022); its broadcast_data reads the sizes of the
  // batch back (mpu/data.py, until 2023).  They time forwards and backwards alone.  The wait is for
  // the compute stream: what it started beside itself is not waited for, though the device would
  // be. Nothing waits within a captured graph.
  void wait_before(RoleItems& items, ActionKind kind) const {
    const Kernels& kernels = plan_.kernels;
    if (kernels.cuda_graph == CudaGraph::step || kind != ActionKind::forward) return;
    if (kernels.host_waits != HostWaits::none) items.sync();
  }

  void wait_after(RoleItems& items, ActionKind kind) const {
    const Kernels& kernels = plan_.kernels;
    const bool timed = kind == ActionKind::forward || kind == ActionKind::backward ||
                       kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
    if (kernels.cuda_graph == CudaGraph::step || !timed) return;
    if (kernels.host_waits == HostWaits::passes || kernels.host_waits == HostWaits::launches)
      items.sync();
  }

  // What has to be there before an action's pass, and which pass that is.
  PassId prepare(RoleItems& items, const std::vector<Action>& actions, size_t i, ListState& state) {
    const Action& a = actions[i];
    gather_received(items, a);
    if (const auto event = state.gathered.find(a.stage);
        event != state.gathered.end() &&
        (a.kind == ActionKind::forward || a.kind == ActionKind::embedding_forward)) {
      items.wait(Stream::compute, event->second);
      state.gathered.erase(event);
    }
    if (casts_before(a.kind)) cast_weights(items, a.stage, state.cast);
    const std::pair key{a.stage, a.microbatch};
    if (!state.reloaded.empty() && a.kind != ActionKind::forward) {
      if (const auto event = state.reloaded.find(key); event != state.reloaded.end()) {
        items.wait(Stream::compute, event->second);
        state.reloaded.erase(event);
      }
    }
    if (a.kind == ActionKind::recompute) state.recomputed.insert(key);
    if (std::ranges::binary_search(state.rounds.first, i)) state.buffers.begin(items, a.stage);
    const bool completes = std::ranges::binary_search(state.rounds.last, i);
    const bool recomputed = !state.recomputed.empty() && state.recomputed.contains(key);
    return pass_of(passes_of(a), a.kind, completes, recomputed);
  }

  void run_action(RoleItems& items, const std::vector<Action>& actions, size_t i,
                  ListState& state) {
    const Action& a = actions[i];
    if (vocabulary_) vocabulary_->before(items, a);
    wait_before(items, a.kind);
    items.run(graph_, prepare(items, actions, i, state), a);
    if (std::ranges::binary_search(state.rounds.last, i)) state.buffers.end(items);
    if (vocabulary_) vocabulary_->after(items, a);
    wait_after(items, a.kind);
    if (a.kind == ActionKind::reload) {
      state.reloaded[{a.stage, a.microbatch}] = items.record(Stream::copy);
    }
  }

  // Both halves as one pass; the forward is its first action, whatever the list's order.
  void run_pair(RoleItems& items, const std::vector<Action>& actions, size_t i, ListState& state) {
    const size_t f = actions[i].kind == ActionKind::forward ? i : i + 1;
    const size_t b = f == i ? i + 1 : i;
    const PassId forward = prepare(items, actions, f, state);
    const PassId backward = prepare(items, actions, b, state);
    const auto [pair, is_new] = pairs_.try_emplace({forward, backward});
    if (is_new) pair->second = add_pair_pass(builder_, forward, backward, plan_.overlap.comm_sms);
    items.run(graph_, pair->second, actions[f], &actions[b]);
    if (std::ranges::binary_search(state.rounds.last, b)) state.buffers.end(items);
  }

  // The last B or W of each stage: gradients are complete after it.
  static Rounds last_backwards(const std::vector<Action>& actions) {
    std::vector<bool> seen;  // stages
    Rounds whole;
    for (size_t i = actions.size(); i-- > 0;) {
      const Action& a = actions[i];
      if (a.kind != ActionKind::backward && a.kind != ActionKind::backward_weight) continue;
      if (seen.size() <= a.stage) seen.resize(size_t{a.stage} + 1);
      if (seen[a.stage]) continue;
      seen[a.stage] = true;
      whole.last.push_back(i);
    }
    std::ranges::reverse(whole.last);
    return whole;
  }

  const Transformer& model_;
  const Plan plan_;
  const Schedule& schedule_;
  const LowerOptions& options_;
  const Shard shard_;
  const RankParameters held_;
  const bool by_round_;  // gradients are reduced
  OpGraph graph_;
  GraphBuilder builder_;
  TensorTableId no_tensors_{};
  std::optional<StepPrologueEpilogue> ends_;            // once the messages have their numbers
  std::vector<StagePasses> passes_;                     // by stage and piece
  std::map<PassId, PassId> weight_casts_;               // of a forward pass
  std::map<std::pair<bool, int64_t>, PassId> gathers_;  // of activations or gradients, by bytes
  std::map<std::pair<PassId, PassId>, PassId> pairs_;
  std::optional<VocabularyExchanges> vocabulary_;
  const std::vector<RankProgram> made_;       // here
  const std::vector<RankProgram>& programs_;  // by pipeline rank
  const Messages messages_;
  const uint16_t message_parties_;
  RendezvousId first_message_{};
};

}  // namespace

OpGraph lower(const Transformer& model, const Plan& plan, const Schedule& schedule,
              const LowerOptions& options) {
  STEPCAST_CHECK(schedule.pp == plan.pp && schedule.microbatches == plan.microbatches() &&
                     schedule.rank_of_stage.size() == plan.stages.size(),
                 "schedule and plan describe different steps");
  OpGraph graph = Lowering(model, plan, schedule, options).lower();
  assign_launches(graph, plan);
  graph.libraries = plan.kernels.libraries;
  return graph;
}

StepParts lower_parts(const Transformer& model, const Plan& plan, const Schedule& schedule,
                      StagePassCache* passes) {
  const Plan own = step_plan(plan, schedule);
  const Shard shard(model, own);
  const RankParameters held(shard, schedule);
  StepParts parts;
  GraphBuilder builder(parts.graph);
  parts.passes = add_passes(builder, model, own, schedule, passes);
  for (int64_t r = 0; r < schedule.pp; ++r) {
    Bytes sum{};
    for (const StaticMemory& m : static_memory(parts.graph, held, parts.passes, r)) sum += m.bytes;
    parts.held.push_back(sum);
  }
  parts.graph.libraries = plan.kernels.libraries;
  return parts;
}

}  // namespace stepcast
