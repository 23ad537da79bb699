// SPDX-License-Identifier: Apache-2.0
// Seq1F1B: 1F1B over pieces of a microbatch's sequence.  A piece needs the keys and values of those
// before it, so forwards run from the first piece to the last and backwards from the last to the
// first; rank r runs p-r-2 pieces more ahead than one microbatch has.
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/params.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "seq1f1b";
constexpr std::string_view kAliases[] = {"seq-1f1b", "sequence-1f1b", "seqpipe", "seq-pipe"};
constexpr std::string_view kSplits = "seq_splits";
constexpr int64_t kDefaultSplits = 2, kMostSplits = 65'536;
constexpr ScheduleParameter kParameters[] = {
    {kSplits, "pieces that the sequence of a microbatch is cut into; default 2"}};

Schedule generate(const ScheduleParams& params) {
  require_one_chunk(kName, params, "interleaved-1f1b");
  const int64_t splits = whole_param(params, kSplits, 1, kMostSplits).value_or(kDefaultSplits);
  ScheduleParams pieces = params;
  if (params.microbatches > kMostActions / splits)
    throw std::invalid_argument(std::to_string(params.microbatches) + " microbatches in " +
                                std::to_string(splits) + " pieces: at most " +
                                std::to_string(kMostActions) + " pieces are possible");
  pieces.microbatches = params.microbatches * splits;
  Schedule schedule = loop_schedule(kName, pieces);
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

ScheduleFamily seq1f1b() {
  return {kName,
          kAliases,
          "1F1B over k pieces of each sequence; bubble (p-1)(tF+tB) of a piece, rank r holds "
          "min(p-r-1+k, k m) pieces; vpp = 1, causal attention",
          "Sun et al. 2024 (arXiv:2406.03488); sail-sg zero-bubble seq1f1b",
          generate,
          kParameters};
}

}  // namespace stepcast
