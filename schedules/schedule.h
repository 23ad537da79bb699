// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: for each pipeline rank, the ordered list of its actions.
//
// A schedule says only in which order; when is the engine's business.  Generators are functions of
// (pp, vpp, microbatches, parameters), one family a file (families.h); find them by name here.
// Notation, rules and how to add a family: docs/schedules.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/p2p_style.h"
#include "sim/graph/action.h"

namespace stepcast {

struct Schedule {
  std::string name;  // canonical: "interleaved-1f1b"
  int64_t pp = 1, vpp = 1, microbatches = 1;
  // Microbatches cut into pieces along the sequence, one after the other through the pipeline
  // (Seq1F1B); Action::microbatch then counts pieces, microbatch by microbatch.
  int64_t seq_splits = 1;
  bool forward_only = false;               // no backwards at all: forward_only.h
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
};

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
  std::span<const std::string_view> aliases;  // compared without case, '_' = '-'
  std::string_view summary;                   // bubble, memory, constraint
  std::string_view source;                    // the paper, and a program that has it
  // Throws std::invalid_argument with a sentence for the user if there is no such schedule.
  Schedule (*generate)(const ScheduleParams&);
  std::span<const ScheduleParameter> parameters = {};
  P2pStyle p2p = P2pStyle::async;  // how the framework that it comes from transfers
  OrderBy order_by = OrderBy::rule;
};

std::span<const ScheduleFamily> schedule_families();
// nullptr if unknown.
const ScheduleFamily* find_schedule_family(std::string_view name_or_alias);
// What `family` makes of `params`.  Throws std::invalid_argument with a sentence for the user, also
// for a key in params.more that the family does not list ("note" is a remark, and ignored).
Schedule generate_schedule(const ScheduleFamily& family, const ScheduleParams& params);
// Canonical names that come close to `name`, best first, at most 3.
std::vector<std::string_view> similar_schedule_names(std::string_view name);

}  // namespace stepcast
