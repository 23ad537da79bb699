// SPDX-License-Identifier: Apache-2.0
// The schedule families.  A family is one file that defines one of these functions; list it in
// families.cc and it is known everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/schedule.h"
#include "sim/action.h"

namespace stepcast {

ScheduleFamily gpipe();
ScheduleFamily one_f_one_b();
ScheduleFamily eager_1f1b();
ScheduleFamily interleaved();
ScheduleFamily interleaved_ep_overlap();
ScheduleFamily interleaved_flex();
ScheduleFamily seq1f1b();
ScheduleFamily group_interleaved();
ScheduleFamily looped_bfs();
ScheduleFamily breadth_first();
ScheduleFamily zb_h1();
ScheduleFamily zb_h1_quickstart();
ScheduleFamily zb_h2();
ScheduleFamily interleaved_zero_bubble();
ScheduleFamily zb_1p_auto();
ScheduleFamily zb_2p_auto();
ScheduleFamily zb_v();
ScheduleFamily zb_v_auto();
ScheduleFamily v_half();
ScheduleFamily v_min();
ScheduleFamily one_f_one_b_v();
ScheduleFamily v_controllable();
ScheduleFamily dualpipe();
ScheduleFamily dualpipev();
ScheduleFamily chimera();
ScheduleFamily hanayo();
ScheduleFamily vocabulary_1f1b();

// ------------------------------------------------------------------------------------------------
// Which pipeline rank holds which stage, and the empty schedule a family starts from.

// Most actions a generated schedule may have: 8 bytes each, and positions are 32-bit.
constexpr int64_t kMostActions = 100'000'000;

// A schedule without actions in which stage s is on rank s % pp, so that a rank's chunk c is stage
// c * pp + rank.  Throws std::invalid_argument with a sentence for the user if a size is below 1,
// or if there would be more than 65,536 stages or kMostActions actions.
Schedule loop_schedule(std::string_view name, const ScheduleParams& params);

// The same for two chunks a rank in the form of a V: rank r holds stages r and 2 pp - 1 - r, so
// that both the first and the last stage are on rank 0.  Also throws unless vpp = 2.
Schedule v_schedule(std::string_view name, const ScheduleParams& params);

// The same for any number of chunks, laid out like a snake: even chunks run down the ranks, odd
// ones up, so that neighbouring chunks meet on one rank.  With vpp = 2 this is the V.
Schedule snake_schedule(std::string_view name, const ScheduleParams& params);

// Two replicas of a model of pp stages, one on rank s and one on rank pp - 1 - s; `reversed` is
// left to the family.  vpp counts the stages of a rank: also throws unless it is 2.
Schedule bidirectional_schedule(std::string_view name, const ScheduleParams& params);

// Throws std::invalid_argument unless vpp = 1, and names the family that takes more chunks.
void require_one_chunk(std::string_view name, const ScheduleParams& params,
                       std::string_view instead);

// ------------------------------------------------------------------------------------------------
// The order that most families share: a warm-up of forwards, a steady phase of one forward and one
// backward in turn, a cool-down of backwards.  Families differ in what the k-th forward and the
// k-th backward of a rank are, and in the length of the warm-up.

// `warmup` forwards; then forward warmup + k and backward k for k = 0, 1, ... while forwards are
// left; then the remaining backwards.  REQUIRES: equal sizes.  A warm-up longer than the list means
// all of it.
std::vector<Action> one_forward_one_backward(std::span<const Action> forwards,
                                             std::span<const Action> backwards, int64_t warmup);

// The same, with the forward and the backward of each steady step as one overlapped unit.
std::vector<Action> overlapped_one_forward_one_backward(std::span<const Action> forwards,
                                                        std::span<const Action> backwards,
                                                        int64_t warmup);

// `forward` and `backward` as one overlapped unit at the end of `order`.
void add_pair(std::vector<Action>& order, Action forward, const Action& backward);

// The input and the weight gradient that make up a full backward.  REQUIRES: kind is backward.
std::pair<Action, Action> split(const Action& backward);

// The same order with every backward split: I where B was; after the I of backward k the W of
// backward k - lag, and at the end the W that are left.
std::vector<Action> split_backward_order(std::span<const Action> forwards,
                                         std::span<const Action> backwards, int64_t warmup,
                                         int64_t lag);

// The k-th forward of a rank: chunk and microbatch.
struct ChunkStep {
  int64_t chunk = 0;
  int64_t microbatch = 0;
};

// Megatron's schedule table: microbatches in groups of `group` (the last one takes what is left);
// of each group first all microbatches of chunk 0, then all of chunk 1, ...  REQUIRES: all >= 1.
std::vector<ChunkStep> grouped_steps(int64_t chunks, int64_t microbatches, int64_t group);

// PyTorch's rule for the size of such a group: the microbatches in max(1, m / pp) equal rounds.
// Throws std::invalid_argument with a sentence for the user if the rounds do not come out equal, or
// if kRoundParameters are given and say otherwise.
int64_t microbatches_of_round(std::string_view name, const ScheduleParams& params);

// The outcome of that rule, which PyTorch's schedules carry; given here they are only compared.
inline constexpr ScheduleParameter kRoundParameters[] = {
    {"rounds", "rounds of microbatches; must be max(1, m / pp)"},
    {"microbatches_per_round", "microbatches of a round; must be m / rounds"},
};

// Forwards and backwards of `rank` in a loop placement, in the order of `steps`; backwards take the
// chunks the other way round.
struct RankActions {
  std::vector<Action> forwards, backwards;
};
RankActions loop_actions(std::span<const ChunkStep> steps, int64_t pp, int64_t chunks,
                         int64_t rank);

// One chunk a rank, microbatches in ascending order: the order at the top of this file, of which
// rank r runs `warmup(r)` forwards ahead.  Throws as loop_schedule.
Schedule one_chunk_schedule(std::string_view name, const ScheduleParams& params,
                            const std::function<int64_t(int64_t rank)>& warmup);

// ------------------------------------------------------------------------------------------------
// Typed reading of the parameters of one family, which arrive as text (ScheduleParams::more).
//
// A parameter that is absent, empty, or one of "none", "null" and "default" in any case is not set.
// Every function throws std::invalid_argument with a sentence for the user if the text is not what
// it asks for: "seq_splits = two must be a whole number from 1".

// Megatron-LM's arguments that more than one family takes.
constexpr std::string_view kMegatronGroup = "microbatch_group_size_per_vp_stage";
constexpr std::string_view kMegatronOverlap = "overlap_p2p_comm";
constexpr std::string_view kMegatronOverlapFlush = "overlap_p2p_comm_warmup_flush";
constexpr std::string_view kMegatronEpOverlap = "overlap_moe_expert_parallel_comm";

// "4"; also "4.0", as some programs write whole numbers.
std::optional<int64_t> whole_param(const ScheduleParams& params, std::string_view key,
                                   int64_t least = 1,
                                   int64_t most = std::numeric_limits<int64_t>::max());

// "true" or "false", "yes" or "no", "on" or "off", "1" or "0", in any case.
std::optional<bool> flag_param(const ScheduleParams& params, std::string_view key);

// One of `words`, in lower case.
std::optional<std::string> word_param(const ScheduleParams& params, std::string_view key,
                                      const std::vector<std::string>& words);

// A finite decimal number: "1200", "0.5", "-172032".
std::optional<double> number_param(const ScheduleParams& params, std::string_view key);

// One number, or several: "10", "10,10,14", "[10, 10, 14]".  Empty if not set.
std::vector<double> numbers_param(const ScheduleParams& params, std::string_view key);

// The size of a group of microbatches, which may be given as ScheduleParams::group or by the name
// that a program has for it; if both are, they must agree.
std::optional<int64_t> group_param(const ScheduleParams& params, std::string_view key);

// Throws unless `key` is not set or is `value`, the outcome of a rule; `rule` says which:
// "rounds = 3 must be 2: max(1, microbatches / pp)".
void expect_param(const ScheduleParams& params, std::string_view key, int64_t value,
                  std::string_view rule);

}  // namespace stepcast
