// SPDX-License-Identifier: Apache-2.0
#include "schedules/placement.h"

#include <stdexcept>

namespace stepcast {
namespace {

constexpr int64_t kMostStages = 65'536;

void require_positive(const char* what, int64_t value) {
  if (value < 1)
    throw std::invalid_argument(std::string(what) + " = " + std::to_string(value) +
                                " must be at least 1");
}

void require_two_chunks(std::string_view name, const ScheduleParams& params) {
  if (params.vpp != 2)
    throw std::invalid_argument(std::string(name) + " runs exactly 2 chunks on each rank: vpp = " +
                                std::to_string(params.vpp) + " must be 2");
}

Schedule sized_schedule(std::string_view name, const ScheduleParams& params) {
  require_positive("pp", params.pp);
  require_positive("vpp", params.vpp);
  require_positive("microbatches", params.microbatches);
  if (params.group < 0)
    throw std::invalid_argument("group = " + std::to_string(params.group) +
                                " must not be negative");
  if (params.pp > kMostStages || params.vpp > kMostStages / params.pp)
    throw std::invalid_argument("pp * vpp = " + std::to_string(params.pp) + " * " +
                                std::to_string(params.vpp) + " stages: at most " +
                                std::to_string(kMostStages) + " are possible");
  const int64_t stages = params.pp * params.vpp;
  // Forward, input and weight gradient: three actions a stage and microbatch at most.
  if (params.microbatches > kMostActions / 3 / stages)
    throw std::invalid_argument(std::to_string(params.microbatches) + " microbatches in " +
                                std::to_string(stages) + " stages: at most " +
                                std::to_string(kMostActions / 3 / stages) + " are possible");
  Schedule schedule;
  schedule.name = name;
  schedule.pp = params.pp;
  schedule.vpp = params.vpp;
  schedule.microbatches = params.microbatches;
  schedule.rank_of_stage.resize(static_cast<size_t>(stages));
  schedule.ranks.resize(static_cast<size_t>(params.pp));
  return schedule;
}

}  // namespace

bool Schedule::stages_are_ranks() const {
  if (is_bidirectional() || rank_of_stage.size() != ranks.size()) return false;
  for (size_t s = 0; s < ranks.size(); ++s)
    if (rank_of_stage[s] != s) return false;
  return true;
}

Schedule loop_schedule(std::string_view name, const ScheduleParams& params) {
  Schedule schedule = sized_schedule(name, params);
  const auto pp = static_cast<size_t>(params.pp);
  for (size_t s = 0; s < schedule.rank_of_stage.size(); ++s)
    schedule.rank_of_stage[s] = static_cast<uint16_t>(s % pp);
  return schedule;
}

Schedule v_schedule(std::string_view name, const ScheduleParams& params) {
  require_two_chunks(name, params);
  return snake_schedule(name, params);
}

Schedule snake_schedule(std::string_view name, const ScheduleParams& params) {
  Schedule schedule = sized_schedule(name, params);
  const auto pp = static_cast<size_t>(params.pp);
  for (size_t s = 0; s < schedule.rank_of_stage.size(); ++s) {
    const size_t along = s % pp;
    schedule.rank_of_stage[s] = static_cast<uint16_t>(s / pp % 2 == 0 ? along : pp - 1 - along);
  }
  return schedule;
}

Schedule bidirectional_schedule(std::string_view name, const ScheduleParams& params) {
  require_two_chunks(name, params);
  Schedule schedule = sized_schedule(name, params);
  const auto pp = static_cast<size_t>(params.pp);
  schedule.rank_of_stage.resize(pp);
  schedule.reverse_rank_of_stage.resize(pp);
  for (size_t s = 0; s < pp; ++s) {
    schedule.rank_of_stage[s] = static_cast<uint16_t>(s);
    schedule.reverse_rank_of_stage[s] = static_cast<uint16_t>(pp - 1 - s);
  }
  return schedule;
}

void require_one_chunk(std::string_view name, const ScheduleParams& params,
                       std::string_view instead) {
  if (params.vpp == 1) return;
  throw std::invalid_argument(std::string(name) +
                              " runs one chunk on each rank: vpp = " + std::to_string(params.vpp) +
                              " must be 1, or the schedule " + std::string(instead));
}

}  // namespace stepcast
