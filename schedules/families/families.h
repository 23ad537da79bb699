// SPDX-License-Identifier: Apache-2.0
// What the file of a schedule family is made of: the list of families, placements of the stages,
// the orders that most families share, and the reading of parameters.
//
// A family is one function that returns a ScheduleFamily: its names, what is known of it, a check
// of its parameters and a generator.  The check says why there is no schedule, in one sentence that
// names what is legal; the generator is only called with what the check lets pass.  Sizes below 1
// and sizes out of bounds never reach either of them (check_sizes()).
// docs/schedules.md, "Adding a schedule family", has a whole one.
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
#include "sim/diagnostic.h"
#include "sim/graph/action.h"

namespace stepcast {

// ---------------------------------------------------------------------------------- the families
// One function a family; families.cc lists them, from where they are known everywhere.
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

// -------------------------------------------------------------------------------------- refusals
// Nothing, or why the sizes are none: one is below 1, there are more than kMostStages stages, or
// more than kMostActions actions at three a stage and microbatch.
std::optional<Diagnostic> check_sizes(const ScheduleParams& params);

// Nothing if vpp = 1; else names the family that takes more chunks.
std::optional<Diagnostic> check_one_chunk(std::string_view name, const ScheduleParams& params,
                                          std::string_view instead);
// Nothing if vpp = 2.
std::optional<Diagnostic> check_two_chunks(std::string_view name, const ScheduleParams& params);
// Nothing if there are at least two microbatches a rank; `otherwise` ends the sentence.
std::optional<Diagnostic> check_two_a_rank(std::string_view name, const ScheduleParams& params,
                                           std::string_view otherwise = {});

// Reads the parameters of a family, which arrive as text (ScheduleParams::more), and keeps the
// first refusal: "seq_splits = two must be a whole number from 1".
//
// A parameter that is absent, empty, or one of "none", "null" and "default" in any case is not set.
// One that is wrong reads as not set.  Keeps the reference.
class ParamReader {
 public:
  explicit ParamReader(const ScheduleParams& params) : params_(params) {}

  // "4"; also "4.0", as some programs write whole numbers.
  std::optional<int64_t> whole(std::string_view key, int64_t least = 1,
                               int64_t most = std::numeric_limits<int64_t>::max());
  // "true" or "false", "yes" or "no", "on" or "off", "1" or "0", in any case.
  std::optional<bool> flag(std::string_view key);
  // One of `words`, in lower case.
  std::optional<std::string> word(std::string_view key, const std::vector<std::string>& words);
  // A finite decimal number: "1200", "0.5", "-172032".
  std::optional<double> number(std::string_view key);
  // One number, or several: "10", "10,10,14", "[10, 10, 14]".  Empty if not set.
  std::vector<double> numbers(std::string_view key);
  // The size of a group of microbatches, which may be given as ScheduleParams::group or by the name
  // that a program has for it; if both are, they must agree.
  std::optional<int64_t> group(std::string_view key);
  // Refuses a parameter that is set and is not `value`, the outcome of a rule; `rule` says which:
  // "rounds = 3 must be 2: max(1, microbatches / pp)".
  void expect(std::string_view key, int64_t value, std::string_view rule);

  // Refuses for another reason, unless there is one already.
  void refuse(std::string message);
  // The first refusal; nothing if everything read so far is right.
  const std::optional<Diagnostic>& wrong() const { return wrong_; }
  const ScheduleParams& params() const { return params_; }

 private:
  void refuse_value(std::string_view key, std::string_view value, std::string_view must_be);

  const ScheduleParams& params_;
  std::optional<Diagnostic> wrong_;
};

// Megatron-LM's arguments that more than one family takes.
constexpr std::string_view kMegatronGroup = "microbatch_group_size_per_vp_stage";
constexpr std::string_view kMegatronOverlap = "overlap_p2p_comm";
constexpr std::string_view kMegatronOverlapFlush = "overlap_p2p_comm_warmup_flush";
constexpr std::string_view kMegatronEpOverlap = "overlap_moe_expert_parallel_comm";

// ------------------------------------------------------------------------------------ placements
// Empty schedules that a family starts from: sizes, and which rank holds which stage.
// REQUIRES: check_sizes(params) is empty.

// Stage s is on rank s % pp, so that a rank's chunk c is stage c * pp + rank.
Schedule loop_schedule(std::string_view name, const ScheduleParams& params);

// Chunks laid out like a snake: even ones run down the ranks, odd ones up, so that neighbouring
// chunks are on one rank.  With vpp = 2 this is the V: rank r holds stages r and 2 pp - 1 - r, and
// both the first and the last stage are on rank 0.
Schedule snake_schedule(std::string_view name, const ScheduleParams& params);

// Two replicas of a model of pp stages, one on rank s and one on rank pp - 1 - s; `reversed` is
// left to the family.  REQUIRES: vpp = 2, the stages of a rank.
Schedule bidirectional_schedule(std::string_view name, const ScheduleParams& params);

// ---------------------------------------------------------------------------------------- orders
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

// The input and the weight gradient that make up a whole backward.  REQUIRES: kind is backward.
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

// PyTorch's rule for the size of such a group: the microbatches in R = max(1, m / pp) equal rounds.
// REQUIRES: check_rounds() is empty, which says whether R divides m and whether kRoundParameters
// agree where they are given.
int64_t microbatches_of_round(const ScheduleParams& params);
std::optional<Diagnostic> check_rounds(std::string_view name, const ScheduleParams& params);
inline constexpr ScheduleParameter kRoundParameters[] = {
    {"rounds", "rounds of microbatches; must be max(1, m / pp)"},
    {"microbatches_per_round", "microbatches of a round; must be m / rounds"},
};

// Forwards and backwards of `rank` in a loop placement, in the order of `steps`; backwards take the
// chunks in reverse order.
struct RankActions {
  std::vector<Action> forwards, backwards;
};
RankActions loop_actions(std::span<const ChunkStep> steps, int64_t pp, int64_t chunks,
                         int64_t rank);

// One chunk a rank, microbatches in ascending order: the shared order, of which rank r runs
// `warmup(r)` forwards ahead.
Schedule one_chunk_schedule(std::string_view name, const ScheduleParams& params,
                            const std::function<int64_t(int64_t rank)>& warmup);

}  // namespace stepcast
