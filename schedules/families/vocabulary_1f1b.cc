// SPDX-License-Identifier: Apache-2.0
// 1F1B with a vocabulary that all ranks share.
//
// Every pass has a place on a time scale on which F takes 1, B takes 2 and a period is 3; the
// passes of the vocabulary take none, because all ranks run them in the same slot of a period.  A
// rank's list is its passes in the order of their places.  d counts ranks from the last one.
//
//   Vocab-1, -2  F at 3m - d, B at 3m + 1 + 3b + 2d with b barriers (2 or 1) between F and B of the
//                last stage: that many microbatches more than in 1F1B are in flight.  S(m) is in
//                slot m, beside T(m - 1); slot k is at 3k + 2, so that what is broadcast before and
//                reduced after has time on every rank.
//   interlaced   S and T of a microbatch in one slot, right after F of the last stage.  Every rank
//                has a boundary between F and B there, so that every second one has to put off its
//                B: half as many microbatches again as in 1F1B are in flight.
//
// F of the first p - r microbatches and their E come as early as they can.  What an action needs
// has an earlier place, or an earlier turn in the same slot, so that no list ever gets stuck.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

constexpr std::string_view kVocab = "vocab-1f1b";
constexpr std::string_view kVocabAliases[] = {"vocabulary-parallel", "vocab-parallel"};
constexpr std::string_view kVocabMethod = "method";
constexpr ScheduleParameter kVocabParameters[] = {
    {kVocabMethod, "vocab-1, vocab-2 or interlaced; default vocab-2"},
};

constexpr int64_t kVocabPeriod = 3;

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Places of the passes of microbatch 0 on the rank `d` ranks before the last.
struct VocabBlock {
  bool interlaced = false;
  int64_t barriers = 1;

  int64_t forward(int64_t d) const {
    if (!interlaced) return -d;
    return (d % 2 == 0 ? 2 : 0) - kVocabPeriod * (d / 2);
  }
  int64_t backward(int64_t d) const {
    if (!interlaced) return 1 + kVocabPeriod * barriers + 2 * d;
    return (d % 2 == 0 ? 3 : 7) + 2 * kVocabPeriod * (d / 2);
  }
  int64_t slot(int64_t k) const { return kVocabPeriod * k + (interlaced ? 3 : 2); }
  // Slots of S and T, and of E and G for a pipeline whose first rank is `d` ranks before the last:
  // the last one that leaves a unit of time before F, the first one a unit after the end of B.
  int64_t vocabulary_backward() const { return slot(interlaced ? 0 : 1); }
  int64_t embedding_forward(int64_t d) const {
    return slot(floor_div(forward(d) - 1 - slot(0), kVocabPeriod));
  }
  int64_t embedding_backward(int64_t d) const {
    return slot(-floor_div(-(backward(d) + 2 + 1 - slot(0)), kVocabPeriod));
  }
};

// A pass, and where it comes: its place, and its turn among those in the same place.
struct PlacedPass {
  int64_t place = 0;
  int turn = 0;
  ActionKind kind{};
  int64_t microbatch = 0;

  auto key() const { return std::tuple{place, turn, microbatch}; }
};

std::vector<Action> rank_list(const VocabBlock& block, int64_t rank, const ScheduleParams& params) {
  const int64_t d = params.pp - 1 - rank, first = params.pp - 1;
  const int s = block.interlaced ? 0 : 1, t = 1 - s;
  const std::array<PlacedPass, 6> passes{
      {{block.slot(0), s, ActionKind::vocabulary_forward},
       {block.vocabulary_backward(), t, ActionKind::vocabulary_backward},
       {block.embedding_forward(first), 2, ActionKind::embedding_forward},
       {block.embedding_backward(first), 3, ActionKind::embedding_backward},
       {block.forward(d), 4, ActionKind::forward},
       {block.backward(d), 4, ActionKind::backward}}};
  std::vector<PlacedPass> placed;
  placed.reserve(passes.size() * static_cast<size_t>(params.microbatches));
  for (int64_t m = 0; m < params.microbatches; ++m) {
    for (PlacedPass p : passes) {
      p.place += kVocabPeriod * m;
      // The first forwards follow each other, each with its rows before it.
      const int64_t ahead = block.forward(0) + m;
      if (p.kind == ActionKind::forward && m <= d) p.place = ahead - d;
      if (p.kind == ActionKind::embedding_forward && m <= first) p.place = ahead - first - 1;
      p.microbatch = m;
      placed.push_back(p);
    }
  }
  std::ranges::sort(placed, {}, &PlacedPass::key);
  std::vector<Action> list;
  list.reserve(placed.size());
  for (const PlacedPass& p : placed)
    list.emplace_back(p.kind, static_cast<uint16_t>(rank), static_cast<uint32_t>(p.microbatch));
  return list;
}

std::string method_of(ParamReader& in) {
  return in.word(kVocabMethod, {"vocab-1", "vocab-2", "interlaced"}).value_or("vocab-2");
}

std::optional<Diagnostic> check_vocab(const ScheduleParams& params) {
  if (auto wrong = check_one_chunk(kVocab, params, "interleaved-1f1b without a shared vocabulary"))
    return wrong;
  ParamReader in(params);
  if (params.pp < 2)
    in.refuse(
        fmt::format("vocab-1f1b spreads the vocabulary over the ranks of a pipeline: pp = {} "
                    "must be at least 2",
                    params.pp));
  method_of(in);
  return in.wrong();
}

Schedule vocab_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kVocab, params);
  ParamReader in(params);
  const std::string method = method_of(in);
  const VocabBlock block{.interlaced = method == "interlaced",
                         .barriers = method == "vocab-1" ? 2 : 1};
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] = rank_list(block, r, params);
  return schedule;
}

}  // namespace

ScheduleFamily vocabulary_1f1b() {
  return {kVocab,
          "vocab 1F1B",
          kVocabAliases,
          "1F1B whose ranks share embedding and head; rank r holds p-r+1 microbatches (vocab-2), "
          "p-r+2 (vocab-1) or about 1.5 (p-r) (interlaced); vpp = 1",
          "Yeung et al. 2025 (arXiv:2411.05288); interlaced: Lin et al. 2024 (nnScaler, OSDI)",
          check_vocab,
          vocab_order,
          kVocabParameters};
}

}  // namespace stepcast
