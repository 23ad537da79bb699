// SPDX-License-Identifier: Apache-2.0
// Families with one chunk on each rank that differ in the length of the warm-up alone: GPipe, 1F1B,
// eager 1F1B; and Seq1F1B, whose microbatches come in pieces.
//
// With 4 ranks and 6 microbatches rank 1 runs
//
//     gpipe       F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5    a warm-up of everything
//     1f1b        F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5    p-1-r = 2 forwards ahead
//     eager-1f1b  F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5    2 (p-1-r) = 4 forwards ahead
//
// All three idle for as long; what differs is how many activations are held (6, 3 and 5) and how
// long a message may take before somebody waits for it.
#include <fmt/format.h>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

// ----------------------------------------------------------------------------------------- GPipe
// All forwards, then all backwards, both in ascending order (Huang et al. 2019; the order of the
// backwards is that of torch.distributed.pipelining).

constexpr std::string_view kGpipe = "gpipe";
constexpr std::string_view kGpipeAliases[] = {"schedulegpipe",
                                              "g-pipe",
                                              "afab",
                                              "f-then-b",
                                              "fthenb",
                                              "all-forward-all-backward",
                                              "allforwardallbackwardpipelineengine"};

std::optional<Diagnostic> check_gpipe(const ScheduleParams& params) {
  return check_one_chunk(kGpipe, params, "looped-bfs");
}

Schedule gpipe_order(const ScheduleParams& params) {
  return one_chunk_schedule(kGpipe, params, [&](int64_t) { return params.microbatches; });
}

// ------------------------------------------------------------------------------------------ 1F1B
// PipeDream-flush: rank r runs p-1-r forwards ahead, then one forward and one backward in
// turn.  Fewer microbatches than ranks are legal, as in Megatron-LM.

constexpr std::string_view kOneFOneB = "1f1b";
constexpr std::string_view kOneFOneBAliases[] = {
    "schedule1f1b",
    "pipedream-flush",
    "dapple",
    "one-forward-one-backward",
    "1-f-1-b",
    "pipedream",
    "onefoneb",
    "non-interleaved",
    "non-interleaved-1f1b",
    "trainschedule",
    "oneforwardonebackwardschedule",
    "oneforwardonebackwardpipelineengine",
    "forward-backward-pipelining-without-interleaving"};

// Megatron-LM's arguments, which it also takes without interleaving.
constexpr ScheduleParameter kOneFOneBParameters[] = {
    {kMegatronGroup, "of no effect with one chunk a rank"},
    {kMegatronOverlap, "must be false: Megatron-LM overlaps transfers only between chunks"},
    {kMegatronOverlapFlush, "must be false, likewise"},
    {kMegatronEpOverlap, "must be false: the schedule interleaved-1f1b-ep-overlap is its true"},
};

std::optional<Diagnostic> check_one_f_one_b(const ScheduleParams& params) {
  if (auto wrong = check_one_chunk(kOneFOneB, params, "interleaved-1f1b")) return wrong;
  ParamReader in(params);
  in.whole(kMegatronGroup);
  for (const std::string_view key : {kMegatronOverlap, kMegatronOverlapFlush})
    if (in.flag(key) == true)
      in.refuse(fmt::format(
          "{} = true must be false with one chunk a rank, or the schedule interleaved-1f1b", key));
  if (in.flag(kMegatronEpOverlap) == true)
    in.refuse(fmt::format("{} = true must be false, or the schedule interleaved-1f1b-ep-overlap",
                          kMegatronEpOverlap));
  return in.wrong();
}

Schedule one_f_one_b_order(const ScheduleParams& params) {
  return one_chunk_schedule(kOneFOneB, params, [&](int64_t rank) { return params.pp - 1 - rank; });
}

// ------------------------------------------------------------------------------------ eager 1F1B
// 1F1B with a warm-up twice as long, 2(p-r)-1 forwards before the first backward, so that every
// message has the time of one action to arrive.

constexpr std::string_view kEager = "eager-1f1b";
constexpr std::string_view kEagerAliases[] = {"eager1f1b", "1f1b-eager", "scheduleeager1f1b"};

std::optional<Diagnostic> check_eager(const ScheduleParams& params) {
  return check_one_chunk(kEager, params, "interleaved-1f1b");
}

Schedule eager_order(const ScheduleParams& params) {
  return one_chunk_schedule(kEager, params,
                            [&](int64_t rank) { return 2 * (params.pp - 1 - rank); });
}

// --------------------------------------------------------------------------------------- Seq1F1B
// 1F1B over pieces of a microbatch's sequence.  A piece needs the keys and values of those
// before it, so forwards run from the first piece to the last and backwards from the last to the
// first; rank r runs p-r-2 pieces more ahead than one microbatch has.

constexpr std::string_view kSeq = "seq1f1b";
constexpr std::string_view kSeqAliases[] = {"seq-1f1b", "sequence-1f1b", "seqpipe", "seq-pipe"};
constexpr std::string_view kSeqSplits = "seq_splits";
constexpr int64_t kDefaultSplits = 2, kMostSplits = 65'536;
constexpr ScheduleParameter kSeqParameters[] = {
    {kSeqSplits, "pieces that the sequence of a microbatch is cut into; default 2"}};

std::optional<Diagnostic> check_seq(const ScheduleParams& params) {
  if (auto wrong = check_one_chunk(kSeq, params, "interleaved-1f1b")) return wrong;
  ParamReader in(params);
  const int64_t splits = in.whole(kSeqSplits, 1, kMostSplits).value_or(kDefaultSplits);
  if (params.microbatches > most_microbatches(params.pp) / splits)
    in.refuse(fmt::format("{} microbatches in {} pieces: at most {} pieces are possible",
                          params.microbatches, splits, most_microbatches(params.pp)));
  return in.wrong();
}

Schedule seq_order(const ScheduleParams& params) {
  const int64_t splits = ParamReader(params).whole(kSeqSplits).value_or(kDefaultSplits);
  ScheduleParams pieces = params;
  pieces.microbatches = params.microbatches * splits;
  Schedule schedule = loop_schedule(kSeq, pieces);
  schedule.microbatches = params.microbatches;
  schedule.seq_splits = splits;
  schedule.names_pieces = true;
  for (int64_t r = 0; r < params.pp; ++r) {
    RankActions rank;
    for (int64_t m = 0; m < params.microbatches; ++m)
      for (int64_t k = 0; k < splits; ++k) {
        rank.forwards.push_back(forward_of(r, m * splits + k));
        rank.backwards.push_back(backward_of(r, m * splits + splits - 1 - k));
      }
    schedule.ranks[static_cast<size_t>(r)] =
        one_forward_one_backward(rank.forwards, rank.backwards, params.pp - r - 2 + splits);
  }
  return schedule;
}

}  // namespace

ScheduleFamily gpipe() {
  return {kGpipe,
          "GPipe",
          kGpipeAliases,
          "all forwards, then all backwards; bubble (p-1)(tF+tB), holds m microbatches; vpp = 1",
          "Huang et al. 2019 (arXiv:1811.06965); torch.distributed.pipelining ScheduleGPipe",
          check_gpipe,
          gpipe_order,
          {},
          P2pStyle::megatron};
}

ScheduleFamily one_f_one_b() {
  ScheduleFamily family{
      kOneFOneB,
      "1F1B",
      kOneFOneBAliases,
      "one forward, one backward; bubble (p-1)(tF+tB), rank r holds min(p-r, m) microbatches; "
      "vpp = 1",
      "Narayanan et al. 2021 (arXiv:2006.09503); Megatron-LM "
      "forward_backward_pipelining_without_interleaving",
      check_one_f_one_b,
      one_f_one_b_order,
      kOneFOneBParameters,
      P2pStyle::megatron};
  family.paired = "interleaved-1f1b-ep-overlap";
  return family;
}

ScheduleFamily eager_1f1b() {
  return {kEager,
          "eager 1F1B",
          kEagerAliases,
          "1F1B with twice the warm-up, hides transfers; bubble (p-1)(tF+tB), rank r holds "
          "min(2(p-r)-1, m) microbatches; vpp = 1",
          "Zhuang et al. 2022 (arXiv:2211.05322); the rule, no program was compared",
          check_eager,
          eager_order};
}

ScheduleFamily seq1f1b() {
  return {kSeq,
          "Seq1F1B",
          kSeqAliases,
          "1F1B over k pieces of each sequence; bubble (p-1)(tF+tB) of a piece, rank r holds "
          "min(p-r-1+k, k m) pieces; vpp = 1, causal attention",
          "Sun et al. 2024 (arXiv:2406.03488); sail-sg zero-bubble seq1f1b",
          check_seq,
          seq_order,
          kSeqParameters};
}

}  // namespace stepcast
