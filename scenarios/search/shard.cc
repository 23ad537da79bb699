// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/shard.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "sim/diagnostic.h"
#include "sim/random.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int64_t kMostShards = 1'000'000;
// Of what launchers count: sums and products of two of them and a number of shards are exact.
constexpr int64_t kMostNumber = 1'000'000'000;

[[noreturn]] void refuse_shard(std::string message, std::string help) {
  throw file_error("E004", std::move(message), {}, std::move(help));
}

class Launcher {
 public:
  explicit Launcher(const Environment& environment) : environment_(environment) {}

  std::optional<int64_t> number(const char* name) const {
    const std::optional<std::string> text = environment_(name);
    if (!text || text->empty()) return {};
    const std::optional<int64_t> n = parse_number<int64_t>(*text);
    if (!n || *n < 0 || *n > kMostNumber)
      refuse_shard(fmt::format("{}={} is no whole number", name, escape_text(*text)),
                   "--shard 2/64 says which part this process does");
    return n;
  }

  // Which process of how many; nothing if nobody has set it.
  struct Place {
    int64_t index = 0, count = 1;
    std::string from;
  };

  std::optional<Place> process() const {
    const auto ompi = pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    const auto pmi = pair("PMI_RANK", "PMI_SIZE");
    if (ompi && pmi && (ompi->index != pmi->index || ompi->count != pmi->count))
      contradict(ompi->from, pmi->from);
    if (ompi) return ompi;
    if (pmi) return pmi;
    if (number("SLURM_STEP_NUM_TASKS")) return pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    // A batch script knows how many tasks the job may start, and is the only one before it does.
    const std::optional<int64_t> tasks = number("SLURM_NTASKS");
    if (tasks.value_or(1) != 1)
      refuse_shard(fmt::format("--shard auto: the job has SLURM_NTASKS={}, and srun has started "
                               "none of them",
                               *tasks),
                   "`srun stepcast ...` starts all; --shard 2/64 says which part this one does");
    if (tasks && number("SLURM_PROCID")) return pair("SLURM_PROCID", "SLURM_NTASKS");
    return {};
  }

  // A task of an array of `wanted`, where that is said.  Its number may begin at 0 or 1.
  std::optional<Place> task(std::optional<int64_t> wanted) const {
    std::optional<Place> found;
    for (const char* name : {"SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "HQ_TASK_ID"}) {
      const std::optional<int64_t> id = number(name);
      if (!id) continue;
      const std::string from = fmt::format("{}={}", name, *id);
      if (found) contradict(found->from, from);
      std::optional<int64_t> count = wanted;
      if (!count && std::string_view(name) == "SLURM_ARRAY_TASK_ID") count = array_size(*id);
      if (!count)
        refuse_shard(fmt::format("{} does not say of how many", from),
                     "--shard auto/64 does: as many as there are tasks");
      const bool from_zero = std::string_view(name) == "JOB_COMPLETION_INDEX";
      if (wanted) check_task(name, *id, *wanted, from_zero);
      found = Place{(*id + (from_zero ? 0 : *count - 1)) % *count, *count, from};
    }
    return found;
  }

 private:
  [[noreturn]] static void contradict(const std::string& a, const std::string& b) {
    refuse_shard(fmt::format("--shard auto: {} and {} contradict each other", a, b),
                 "--shard 2/64 says which part this process does");
  }

  std::optional<Place> pair(const char* rank, const char* size) const {
    const std::optional<int64_t> index = number(rank), count = number(size);
    if (!index && !count) return {};
    if (!index || !count)
      refuse_shard(fmt::format("--shard auto: {} is set, {} is not", index ? rank : size,
                               index ? size : rank),
                   "--shard 2/64 says which part this process does");
    const std::string from = fmt::format("{}={}, {}={}", rank, *index, size, *count);
    if (*index >= *count)
      refuse_shard(fmt::format("--shard auto: {} is no process of that many", from),
                   "--shard 2/64 says which part this process does");
    return Place{*index, *count, from};
  }

  // Whether tasks from 0 or from 1 are meant is told apart by neither as long as only one of 0 and
  // n is among them: two would do the same part.
  void check_task(std::string_view name, int64_t id, int64_t count, bool from_zero) const {
    const std::string help =
        "tasks from 1 to n or from 0 to n-1 with auto/n; --shard 2/64 says which part this one "
        "does";
    if (id > count - (from_zero ? 1 : 0))
      refuse_shard(fmt::format("--shard auto: {}={} is no task of {}", name, id, count), help);
    if (name != "SLURM_ARRAY_TASK_ID") return;
    const std::optional<int64_t> least = number("SLURM_ARRAY_TASK_MIN"),
                                 most = number("SLURM_ARRAY_TASK_MAX");
    if (least && most && *most - *least >= count)
      refuse_shard(fmt::format("--shard auto: SLURM_ARRAY_TASK_MIN={}, SLURM_ARRAY_TASK_MAX={} are "
                               "more than {} tasks",
                               *least, *most, count),
                   help);
    if (most && *most > count)
      refuse_shard(
          fmt::format("--shard auto: SLURM_ARRAY_TASK_MAX={} is no task of {}", *most, count),
          help);
  }

  // Of `sbatch --array=1-64`.  Nothing if that is not said; refuses arrays with gaps.
  std::optional<int64_t> array_size(int64_t id) const {
    const std::optional<int64_t> least = number("SLURM_ARRAY_TASK_MIN"),
                                 most = number("SLURM_ARRAY_TASK_MAX"),
                                 count = number("SLURM_ARRAY_TASK_COUNT");
    if (!least || !most) return {};
    const std::string from =
        fmt::format("SLURM_ARRAY_TASK_MIN={}, SLURM_ARRAY_TASK_MAX={}", *least, *most);
    if (id < *least || id > *most) contradict(fmt::format("SLURM_ARRAY_TASK_ID={}", id), from);
    if (count && *count != *most - *least + 1)
      refuse_shard(fmt::format("--shard auto: {}, SLURM_ARRAY_TASK_COUNT={}: tasks are missing "
                               "between them",
                               from, *count),
                   "--shard auto/64 says of how many parts these are some");
    return *most - *least + 1;
  }

  const Environment& environment_;
};

SearchShard checked(int64_t index, int64_t count) {
  if (count > kMostShards)
    refuse_shard(fmt::format("{} parts are more than {}", count, kMostShards), "fewer parts");
  return {index, count};
}

SearchShard automatic(std::optional<int64_t> wanted, const Environment& environment) {
  const Launcher launcher(environment);
  const auto process = launcher.process();
  const int64_t processes = process ? process->count : 1;
  if (wanted && *wanted % processes != 0)
    refuse_shard(fmt::format("--shard auto/{}: {} says there are {} processes", *wanted,
                             process->from, processes),
                 "a multiple of that, or auto alone");
  std::optional<int64_t> tasks;
  if (wanted) tasks = *wanted / processes;
  const auto task = launcher.task(tasks);
  if (!task && !process)
    refuse_shard("--shard auto: no launcher has said which part this process does",
                 "sbatch --array, srun, mpirun, a Kubernetes job with an index and HyperQueue do; "
                 "--shard 2/64 says it by hand");
  if (!task && tasks.value_or(1) != 1)
    refuse_shard(fmt::format("--shard auto/{}: {} says there are {} processes", *wanted,
                             process->from, processes),
                 "the same number, or auto alone");
  const int64_t rank = process ? process->index : 0;
  if (!task) return checked(rank, processes);
  if (task->count > kMostShards) return checked(0, task->count);
  return checked(task->index * processes + rank, task->count * processes);
}

}  // namespace

SearchShard read_shard(std::string_view text, const Environment& environment) {
  const auto wrong = [&]() {
    refuse_shard(fmt::format("'--shard {}' is no part of anything", escape_text(text)),
                 "2/64: the second of 64 parts; auto: as the launcher says; auto/64: the same, of "
                 "64");
  };
  const size_t slash = text.find('/');
  const std::string_view which = text.substr(0, slash);
  std::optional<int64_t> count;
  if (slash != std::string_view::npos) {
    count = parse_number<int64_t>(text.substr(slash + 1));
    if (!count || *count < 1) wrong();
    checked(0, *count);
  }
  if (which == "auto") return automatic(count, environment);
  const std::optional<int64_t> index = parse_number<int64_t>(which);
  if (!index || !count) wrong();
  if (*index < 1 || *index > *count)
    refuse_shard(fmt::format("--shard {}: there is no part {} of {}", text, *index, *count),
                 fmt::format("1/{0} to {0}/{0}", *count));
  return checked(*index - 1, *count);
}

bool is_in_shard(const SearchShard& shard, std::string_view what) {
  return shard.count <= 1 || splitmix(hash_text(what)) % static_cast<uint64_t>(shard.count) ==
                                 static_cast<uint64_t>(shard.index);
}

}  // namespace stepcast
