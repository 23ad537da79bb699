// SPDX-License-Identifier: Apache-2.0
// Which part of a sweep or a search this process does: said, or read from what its launcher set.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/search/search.h"

namespace stepcast {

// The value of an environment variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// "2/64": the second of 64 parts.  "auto": the launcher's variables say which and of how many:
//
//   tasks of a job     SLURM_ARRAY_TASK_ID with _MIN, _MAX and _COUNT (sbatch --array),
//                      JOB_COMPLETION_INDEX (Kubernetes), HQ_TASK_ID (HyperQueue): one of the three
//   processes of each  OMPI_COMM_WORLD_RANK and _SIZE (mpirun), PMI_RANK and PMI_SIZE, which must
//                      agree; else SLURM_PROCID with SLURM_STEP_NUM_TASKS (srun); a job of
//                      several tasks without them is refused: srun has not started them
//
// "auto/64" says of how many, which Kubernetes and HyperQueue do not, and which lets single tasks
// of an array be started again.  Numbers of tasks may begin at 0 or 1: each of n tasks in a row is
// another part; with "auto/64" they are within 0 to 64, not both.  Throws InputError E004 for what
// is neither, for variables that are no numbers, that contradict each other or are not all there.
SearchShard read_shard(std::string_view text, const Environment& environment);

// Whether the part has what this text describes.
bool is_in_shard(const SearchShard& shard, std::string_view what);

}  // namespace stepcast
