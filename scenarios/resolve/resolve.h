// SPDX-License-Identifier: Apache-2.0
// From values to what the rest of the program works with: model, cluster, plan, schedule.
//
// Each part of a scenario is resolved by one function.  All of them add what is wrong to the
// problems and go on, so that the user sees everything at once; remarks on what has no effect are
// warnings.  scenario.cc calls the functions, in the order in which they need each other's results.
// Internal to scenarios/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/resolve/model.h"
#include "scenarios/scenario.h"
#include "scenarios/schema/values.h"
#include "schedules/schedule.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/explicit_fabric.h"

namespace stepcast {

// Everything that belongs together when relations are checked.  What could not be resolved is
// absent, and the checks that need it are left out.
struct PlanInputs {
  FieldValues& values;
  Problems& problems;
  std::vector<std::string>& warnings;
  const Transformer* model = nullptr;
  const Cluster* cluster = nullptr;
  int64_t gpus = 0;  // that the job runs on
};

// The whole plan: the parts below in their order.  Adds E127, E130, E201-E204, E206, E210, E211,
// E230 problems; the plan is complete only if there are none.  Fills derived values (dp, vpp, sp,
// the number formats) in.
Plan resolve_plan(const PlanInputs& in);

// Sizes, stages, grid; of models with experts their groups and the section moe.
void resolve_layout(const PlanInputs& in, Plan& plan);
// REQUIRES: tp, cp, dp and sp are resolved.
void resolve_experts(const PlanInputs& in, Plan& plan);
// REQUIRES, from here on: the layout is resolved.
void resolve_batch(const PlanInputs& in, Plan& plan);
// How sequences are split over context-parallel ranks.  REQUIRES: the batch is resolved.
void resolve_context(const PlanInputs& in, Plan& plan);
// What does not go with recurrent layers and with attention to chosen keys.  REQUIRES: all else is
// resolved.
void check_mixers(const PlanInputs& in, const Plan& plan);
void resolve_precision(const PlanInputs& in, Plan& plan);
// What tokens travel to experts as.  REQUIRES: precision is resolved.
void resolve_exchange(const PlanInputs& in, Plan& plan);
void resolve_recompute(const PlanInputs& in, Plan& plan);
// ZeRO, FSDP, hybrid sharding; what is moved to the host.
void resolve_sharding(const PlanInputs& in, Plan& plan);
void resolve_kernels(const PlanInputs& in, Plan& plan);
// REQUIRES: sharding is resolved.
void resolve_overlap(const PlanInputs& in, Plan& plan);
// Remarks on what is stated beside something that leaves it without effect.
void remark_overridden(const PlanInputs& in, const Plan& plan);
// The largest tensor of a microbatch has to be countable in bytes.
void check_tensor_sizes(const PlanInputs& in, const Plan& plan);

// For help lines: "; without a number of nodes the cluster is 1 node ...".  Empty where the number
// is stated.
std::string remark_on_one_node(const PlanInputs& in);

// For messages: the size among `keys` that was said last, by --set or else furthest down in the
// file; the section if none is given.
Key last_given(const PlanInputs& in, Keys keys);

// Whether tp divides the heads, the key-value heads (or they it), the MLP and the width.
bool divides(const Transformer& model, int64_t tp);

// For messages: how many tensor-parallel ranks the model and a node allow ("1", "2", "4", "8").
std::vector<std::string> legal_tp(const Transformer& model, int64_t most);

// Vocabulary as Megatron pads it: to a multiple of `multiple` * tp, usually 128 * tp.
int64_t padded_vocab(int64_t vocab, int64_t tp, int64_t multiple);

// ----------------------------------------------------------------------------------------- cluster

// Nothing if the cluster cannot be made out; the problems say why.  Adds to `warnings` what is odd.
std::optional<Cluster> resolve_cluster(FieldValues& values, Problems& problems,
                                       std::vector<std::string>& warnings);

// What is to be said where the measured times of a preset price a GPU with other rates.
// REQUIRES: gpu.like is that preset.
std::string remark_on_changed_rates(const Gpu& gpu);

// REQUIRES: the key is there.  Nothing if it is wrong: E220 where a node cannot be reached, E221
// for ids and ends, E229 for nodes that differ.
std::optional<ExplicitFabric> read_topology(FieldValues& values, Problems& problems);

// Numbers of the cluster that follow: nodes, nics.count, nics.bw.
void derive_from_topology(FieldValues& values, const ExplicitFabric& fabric);

// All nodes in order without the key.  Adds E107 for what is no node, E240 for nodes that the
// cluster does not have, E127 for one that is named twice.
Placement resolve_placement(const FieldValues& values, Problems& problems, const Cluster& cluster);

// GPUs of the nodes that the job runs on.
int64_t gpus_of(const Placement& placement, const Cluster& cluster);

// ---------------------------------------------------------------------------------------- schedule

// What the named family prescribes about chunks.  The layout needs it, and is resolved before the
// schedule.
struct FamilyChunks {
  std::optional<int64_t> vpp;  // the fewest chunks that it runs, where one is not enough
  bool replicas = false;       // two replicas of the model: pp stages, two on each rank
};
FamilyChunks family_chunks(const FieldValues& values);

struct ResolvedSchedule {
  Schedule schedule;
  std::optional<ScheduleToMake> to_make;
};

// Adds E102, E125, E127, E205 for what cannot be generated, E401-E403 for what the user wrote out.
// Of an incomplete plan only the name of the schedule is checked.
std::optional<ResolvedSchedule> resolve_schedule(const PlanInputs& in, const Plan& plan,
                                                 bool complete, ScenarioFiles& files);

// The schedule that stands under schedule.steps, or in the file schedule.file; nothing if it does
// not fit the plan, is incomplete or deadlocks.  REQUIRES: the plan is complete and one of the two
// keys is there.
std::optional<Schedule> written_schedule(const PlanInputs& in, const Plan& plan,
                                         ScenarioFiles& files);

// Whether the pieces that a schedule cuts sequences into go with the plan; a problem at `mark`,
// `length` characters long, if not.
bool check_pieces(const PlanInputs& in, const Plan& plan, const Schedule& schedule,
                  const Mark& mark, int length);

// "interleaved 1F1B" for "interleaved-1f1b".
std::string schedule_title(const std::string& schedule_name);

// How pipeline transfers block: as in the framework that runs the schedule, unless the user says
// otherwise.  Adds E127 for a style that does not go with the schedule.
struct ResolvedTransfers {
  P2pStyle style = P2pStyle::async;
  std::shared_ptr<const MadeTransfers> made;  // null: async, or they do not go with it
};
ResolvedTransfers resolve_transfers(const PlanInputs& in, const Schedule& schedule);

// Whether the schedule shares the vocabulary over the pipeline.  Adds E127 for what does not go
// with that.
VocabularySplit resolve_vocabulary(const PlanInputs& in, const Plan& plan,
                                   const Schedule& schedule);

// What the step does, and that decode steps are captured as graphs; before the rest is resolved.
void resolve_mode(const PlanInputs& in, Plan& plan);

// Formats of weights and cache, and what has no meaning without a backward: adds E127 and E130.
// After everything else of the plan.
void check_mode(const PlanInputs& in, Plan& plan);

// The forwards of a schedule, if the step does not train.  Adds E127.
void strip_schedule(const PlanInputs& in, const Plan& plan, ResolvedSchedule& schedule);

// "prefill" or "decode": what stands in place of the schedule's title.
std::string mode_title(const Plan& plan);

// ---------------------------------------------------------------------------------------- the rest

// The scenario that a tree describes, which `file` and what it names are read for.  Problems are
// collected as far as anything can be made out; nothing is returned if there are any.  Throws
// InputError for what is wrong with the cost table of `calibration`.
std::optional<Scenario> resolve_tree(Value root, const std::string& file, ScenarioFiles& files,
                                     Problems& problems);

// Whether `calibration` means a shipped table by this name and no file: one without a dot, if there
// is such a table.
bool is_shipped_table(const std::string& name);

// Lines of counts, one column an expert (a line for each step or layer, say), or one count a line,
// a line an expert; '#' begins a remark.  What all lines count together becomes Routing::shares.
// Does nothing without the key or a model with experts.  Adds E101, E111 for the file, E125, E127
// for what is in it.
void resolve_routing_trace(const PlanInputs& in, ScenarioFiles& files, Plan& plan);

// Takes away what `prune` says.  Adds E127 if that cannot be done, E121 for a share of all.
void prune_model(const FieldValues& values, Transformer& model);

// The teacher of `distill`, with its layers spread over the plan's stages.  Adds what reading a
// model can say, what the model itself would be refused for with this layout and batch, E127 if its
// vocabulary is another one or the step does not train, E130 for teachers that are not a decoder.
void resolve_teacher(const PlanInputs& in, const FileReader& read_file, Plan& plan);

// In the order of the list.  Adds E102, E107, E120-E127 for what is wrong by itself, E240 for
// places that the job or the cluster does not have; these are looked for only if `plan` is
// complete.
std::vector<Perturbation> resolve_perturb(const PlanInputs& in, const Plan& plan, bool complete);

// The scenario's own figures first, then each variant; empty without the section.
std::vector<Measured> resolve_measured(FieldValues& values, Problems& problems);

// Fills `compare` and `compare_baseline` (the first case if none is named).
void resolve_compare(FieldValues& values, Problems& problems, Scenario& scenario);

// All values, each with where it comes from; `unpruned`: the model before `prune` and padding.
// REQUIRES: model and plan are resolved.
std::vector<Setting> settings_of(const FieldValues& values, const Scenario& scenario,
                                 const Transformer& unpruned);

// Fills in hash and identity: of everything that the result depends on.  `files`: where the
// scenario was read from.  REQUIRES: as settings_of.
void add_hashes(const FieldValues& values, const ScenarioFiles& files, Scenario& scenario);

}  // namespace stepcast
