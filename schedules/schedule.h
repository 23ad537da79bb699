// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: for each pipeline rank, the ordered list of its actions.
//
// A schedule says only in which order; when is the engine's business.  Generators are functions of
// (pp, vpp, microbatches, parameters), one family a file (families.h); find them by name here.
// Notation, rules and how to add a family: docs/schedules.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/diagnostic.h"
#include "sim/graph/action.h"

namespace stepcast {

// Bounds of every schedule, generated or read from a file.
constexpr int64_t kMostStages = 65'536;  // Action::stage has 16 bits
// An action takes 8 bytes here and up to 2 KiB in the op graph and the timeline of a step.
constexpr int64_t kMostActions = 3'000'000;
// Forward, input and weight gradient: at most three actions a stage and microbatch.
constexpr int64_t most_microbatches(int64_t stages) {
  return kMostActions / 3 / stages;
}

struct Schedule {
  std::string name;  // canonical: "interleaved-1f1b"
  int64_t pp = 1, vpp = 1, microbatches = 1;
  // Microbatches cut into pieces along the sequence, one after the other through the pipeline
  // (Seq1F1B); Action::microbatch then counts pieces, microbatch by microbatch.
  int64_t seq_splits = 1;
  bool forward_only = false;               // no backwards at all: forwards_of()
  std::vector<uint16_t> rank_of_stage;     // placement, one entry a stage
  std::vector<std::vector<Action>> ranks;  // pp lists

  // Bidirectional schedules hold two replicas of the model and run microbatches through them in
  // opposite directions: microbatch m runs through the second one if reversed[m], whose stage s is
  // on rank reverse_rank_of_stage[s].  Both are empty if there is one replica.
  std::vector<uint16_t> reverse_rank_of_stage;
  std::vector<bool> reversed;

  // Files name the piece even if a microbatch is one: "0F1.0".
  bool names_pieces = false;

  // What Action::microbatch counts.
  int64_t pieces() const { return microbatches * seq_splits; }
  bool is_bidirectional() const { return !reverse_rank_of_stage.empty(); }
  // Whether each rank holds one stage, that of its number, so that either word names it.
  bool stages_are_ranks() const;
  // REQUIRES: a stage and a microbatch of the schedule.
  uint16_t rank_of(size_t stage, size_t microbatch) const {
    return is_bidirectional() && reversed[microbatch] ? reverse_rank_of_stage[stage]
                                                      : rank_of_stage[stage];
  }
  bool operator==(const Schedule&) const = default;
};

// What a check says: a Diagnostic that has no code and no place yet.
Diagnostic refusal(std::string message);

// How the transfers between pipeline ranks block the ranks that make them; each rule stands in
// docs/schedule_in_a_step.md, and transfers/transfers.h applies it.
enum class P2pStyle : uint8_t {
  async,                   // a send leaves at once and nobody waits for it; receivers wait
  megatron,                // Megatron-LM without overlap: fused blocking exchanges
  megatron_overlap,        // + overlap_p2p_comm: posted one step ahead in the steady phase
  megatron_overlap_flush,  // + overlap_p2p_comm_warmup_flush: in warm-up and cool-down as well
  dualpipe,                // DualPipe: before each action one exchange of all that is queued
  deepspeed,               // DeepSpeed: separate blocking calls, the send after the next receive
};
constexpr int kP2pStyles = 6;
constexpr std::array<P2pStyle, kP2pStyles> kAllP2pStyles = {P2pStyle::async,
                                                            P2pStyle::megatron,
                                                            P2pStyle::megatron_overlap,
                                                            P2pStyle::megatron_overlap_flush,
                                                            P2pStyle::dualpipe,
                                                            P2pStyle::deepspeed};

std::string_view name_of(P2pStyle style);  // "async", "megatron", "megatron-overlap", ...

// ScheduleFamily::p2p of the family with this canonical name; async for a name that is none, such
// as that of a schedule file.
P2pStyle default_p2p_style(std::string_view family);

struct ScheduleParams {
  int64_t pp = 1;
  int64_t vpp = 1;
  int64_t microbatches = 1;
  int64_t group = 0;  // interleaved: microbatches of a group; 0 = pp
  // Parameters of one family, by the key it lists in ScheduleFamily::parameters.
  std::map<std::string, std::string, std::less<>> more = {};
};

// A parameter that a family understands beside pp, vpp and microbatches.
struct ScheduleParameter {
  std::string_view key;      // "mem_limit_in_activations"
  std::string_view summary;  // what it is, its unit, its default
};

// What makes the order of a family.
enum class OrderBy : uint8_t {
  rule,    // its sizes and parameters alone
  times,   // the times that are given as well
  search,  // a search with these times, which takes seconds
};

// A family, and what is known of it: for `stepcast presets schedules` and for messages.
struct ScheduleFamily {
  std::string_view name;                      // canonical: lower case, words separated by '-'
  std::string_view title;                     // in reports: "interleaved 1F1B"
  std::span<const std::string_view> aliases;  // compared without case, '_' = '-'
  std::string_view summary;                   // bubble, memory, constraint
  std::string_view source;                    // the paper, and a program that has it
  // Why the family has no schedule of these parameters, whose sizes are legal; nothing if it has.
  // nullptr: it has one of all sizes.  Ask check_params(), which looks at the rest too.
  std::optional<Diagnostic> (*check)(const ScheduleParams&);
  Schedule (*generate)(const ScheduleParams&);  // REQUIRES: check_params() is empty
  std::span<const ScheduleParameter> parameters = {};
  P2pStyle p2p = P2pStyle::async;  // how the framework that it comes from transfers
  OrderBy order_by = OrderBy::rule;
  bool takes_group = false;  // ScheduleParams::group; else it has to be 0
  // Units of a forward beside a backward (overlap.ep wants them): whether its order has them, or
  // which family has, that takes its place where a rank has several chunks; empty: none.
  bool has_pairs = false;
  std::string_view paired{};
};

std::span<const ScheduleFamily> schedule_families();
// nullptr if unknown.
const ScheduleFamily* find_schedule_family(std::string_view name_or_alias);
// Nothing, or that `params` states a group and `family` has none.
std::optional<Diagnostic> check_group(const ScheduleFamily& family, const ScheduleParams& params);
// Nothing, or why `family` makes no schedule of `params`, in one sentence for the user that names
// what is legal; also for a key in params.more that the family does not list ("note" is a remark,
// and ignored) and for a group that it does not take.  Generates nothing, so that a search may ask
// it of every family.
std::optional<Diagnostic> check_params(const ScheduleFamily& family, const ScheduleParams& params);
// What `family` makes of `params`.  Throws InputError with what check_params() says.
Schedule generate_schedule(const ScheduleFamily& family, const ScheduleParams& params);
// Canonical names that come close to `name`, best first, at most 3.
std::vector<std::string_view> similar_schedule_names(std::string_view name);

// F and B of a stage and microbatch.
inline Action forward_of(int64_t stage, int64_t microbatch) {
  return {ActionKind::forward, static_cast<uint16_t>(stage), static_cast<uint32_t>(microbatch)};
}
inline Action backward_of(int64_t stage, int64_t microbatch) {
  return {ActionKind::backward, static_cast<uint16_t>(stage), static_cast<uint32_t>(microbatch)};
}

// B or I: what makes the gradient that the stage before waits for.
inline bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

// An order that runs with any placement, for probing what stages cost and in the place of an order
// that is still to be made: every rank runs all its forwards, stage by stage, then all its
// backwards in the reverse order of stages, each as I and W if `split_backward`.
Schedule all_forwards_then_backwards(std::vector<uint16_t> rank_of_stage, int64_t pp,
                                     int64_t microbatches, bool split_backward = false);

// The forwards of a schedule, for steps that do not train: the same order without its backwards,
// pairs split into their forwards, named "forwards".  Throws InputError with a sentence for the
// user if the schedule runs microbatches in both directions or in pieces.
Schedule forwards_of(const Schedule& schedule);

}  // namespace stepcast
