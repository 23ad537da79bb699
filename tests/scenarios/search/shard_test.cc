// SPDX-License-Identifier: Apache-2.0
// Parts of a work: said by hand, or by the variables of launchers.
#include "scenarios/search/shard.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

namespace stepcast::shard_test {
namespace {

using Variables = std::map<std::string, std::string>;

SearchShard shard(const std::string& text, const Variables& variables = {}) {
  return read_shard(text, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::pair<int64_t, int64_t> part(const std::string& text, const Variables& variables = {}) {
  const SearchShard s = shard(text, variables);
  return {s.index, s.count};
}

std::string refusal(const std::string& text, const Variables& variables = {}) {
  try {
    shard(text, variables);
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.front().code, "E004");
    EXPECT_FALSE(e.diagnostics.front().help.empty());
    return e.diagnostics.front().message;
  }
  return "";
}

using Part = std::pair<int64_t, int64_t>;

TEST(Shard, IsSaidByHand) {
  EXPECT_EQ(part("1/1"), Part(0, 1));
  EXPECT_EQ(part("2/64"), Part(1, 64));
  EXPECT_EQ(part("64/64"), Part(63, 64));
  for (const char* text : {"", "/", "1", "1/", "/2", "0/2", "3/2", "1/0", "-1/2", "1/-2", "a/2",
                           "1/2/3", "1 /2", "1/99999999", "auto/0", "auto/x", "auto/"})
    EXPECT_NE(refusal(text), "") << text;
}

TEST(Shard, IsThatOfASlurmArray) {
  const auto array = [](int id, int least, int most) {
    return Variables{{"SLURM_ARRAY_TASK_ID", std::to_string(id)},
                     {"SLURM_ARRAY_TASK_MIN", std::to_string(least)},
                     {"SLURM_ARRAY_TASK_MAX", std::to_string(most)},
                     {"SLURM_ARRAY_TASK_COUNT", std::to_string(most - least + 1)}};
  };
  EXPECT_EQ(part("auto", array(3, 1, 8)), Part(2, 8));
  for (const int first : {0, 1, 5}) {
    std::set<int64_t> parts;
    for (int id = first; id < first + 8; ++id)
      parts.insert(part("auto", array(id, first, first + 7)).first);
    EXPECT_EQ(parts.size(), 8u) << first;
  }
  EXPECT_NE(refusal("auto", array(9, 1, 8)), "");
  // Some tasks of the array again: which they were is known if it is said of how many.
  Variables some = array(3, 3, 7);
  some["SLURM_ARRAY_TASK_COUNT"] = "2";
  EXPECT_NE(refusal("auto", some), "");
  EXPECT_EQ(part("auto/8", some), Part(2, 8));
}

TEST(Shard, IsThatOfAProcess) {
  EXPECT_EQ(part("auto", {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}}), Part(2, 4));
  EXPECT_EQ(part("auto", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
            Part(1, 2));
  EXPECT_EQ(part("auto", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), Part(1, 2));
  // mpirun inside of a job: what mpirun says.
  EXPECT_EQ(part("auto", {{"SLURM_PROCID", "0"},
                          {"SLURM_NTASKS", "1"},
                          {"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"}}),
            Part(1, 2));
  // srun inside of a task of an array: all of them together.
  const Variables both{{"SLURM_ARRAY_TASK_ID", "2"},
                       {"SLURM_ARRAY_TASK_MIN", "1"},
                       {"SLURM_ARRAY_TASK_MAX", "3"},
                       {"SLURM_PROCID", "1"},
                       {"SLURM_STEP_NUM_TASKS", "2"}};
  EXPECT_EQ(part("auto", both), Part(3, 6));
  EXPECT_EQ(part("auto/6", both), Part(3, 6));
  EXPECT_NE(refusal("auto/5", both), "");
}

// A batch script has the number of tasks of the job, and is one process.
TEST(Shard, OfAJobIsNotOneOfItsTasks) {
  EXPECT_NE(refusal("auto", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}), "");
  EXPECT_NE(refusal("auto", {{"SLURM_NTASKS", "4"}}), "");
  EXPECT_EQ(part("auto", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}), Part(0, 1));
  EXPECT_EQ(part("auto/8", {{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_NTASKS", "1"}}), Part(2, 8));
  EXPECT_EQ(
      part("auto", {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "4"}}),
      Part(2, 4));
}

TEST(Shard, TasksAreOfThatMany) {
  const auto array = [](int id, int least, int most) {
    return Variables{{"SLURM_ARRAY_TASK_ID", std::to_string(id)},
                     {"SLURM_ARRAY_TASK_MIN", std::to_string(least)},
                     {"SLURM_ARRAY_TASK_MAX", std::to_string(most)}};
  };
  EXPECT_EQ(part("auto/8", array(8, 1, 8)), Part(7, 8));
  EXPECT_EQ(part("auto/8", array(0, 0, 7)), Part(7, 8));
  EXPECT_NE(refusal("auto/8", array(0, 0, 8)), "");
  EXPECT_NE(refusal("auto/8", array(8, 0, 8)), "");
  EXPECT_NE(refusal("auto/8", array(9, 9, 9)), "");
  EXPECT_NE(refusal("auto/8", array(3, 3, 9)), "");
  EXPECT_NE(refusal("auto/8", {{"HQ_TASK_ID", "9"}}), "");
  EXPECT_NE(refusal("auto/8", {{"JOB_COMPLETION_INDEX", "8"}}), "");
  const std::string most = "9223372036854775807";
  EXPECT_NE(refusal("auto/" + most, {{"HQ_TASK_ID", "3"}}), "");
  EXPECT_NE(refusal("auto/8", {{"HQ_TASK_ID", most}}), "");
  EXPECT_NE(refusal("auto", {{"PMI_RANK", "1"}, {"PMI_SIZE", most}}), "");
}

TEST(Shard, IsThatOfAnIndex) {
  EXPECT_NE(refusal("auto", {{"JOB_COMPLETION_INDEX", "3"}}), "");  // of how many is not said
  EXPECT_EQ(part("auto/8", {{"JOB_COMPLETION_INDEX", "3"}}), Part(3, 8));
  std::set<int64_t> parts;
  for (int id = 1; id <= 8; ++id)
    parts.insert(part("auto/8", {{"HQ_TASK_ID", std::to_string(id)}}).first);
  EXPECT_EQ(parts.size(), 8u);
}

TEST(Shard, ContradictionsAreErrors) {
  const Variables wrong[] = {
      {},
      {{"SLURM_PROCID", ""}},
      {{"OMPI_COMM_WORLD_RANK", "1"}},
      {{"PMI_SIZE", "2"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}},
      {{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}},
      {{"PMI_RANK", "one"}, {"PMI_SIZE", "2"}},
      {{"PMI_RANK", "0"},
       {"PMI_SIZE", "2"},
       {"OMPI_COMM_WORLD_RANK", "1"},
       {"OMPI_COMM_WORLD_SIZE", "2"}},
      {{"SLURM_ARRAY_TASK_ID", "1"}},
      {{"SLURM_ARRAY_TASK_ID", "1"},
       {"SLURM_ARRAY_TASK_MIN", "1"},
       {"SLURM_ARRAY_TASK_MAX", "2"},
       {"HQ_TASK_ID", "1"}},
      {{"JOB_COMPLETION_INDEX", "99999999999999999999"}},
  };
  for (const Variables& variables : wrong) EXPECT_NE(refusal("auto", variables), "");
  EXPECT_NE(refusal("auto/4", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), "");
}

TEST(Shard, EachTextIsInOnePart) {
  for (int n = 0; n < 500; ++n) {
    int in = 0;
    for (int64_t i = 0; i < 7; ++i) in += is_in_shard({i, 7}, "parallel.tp=" + std::to_string(n));
    EXPECT_EQ(in, 1) << n;
  }
}

}  // namespace
}  // namespace stepcast::shard_test
