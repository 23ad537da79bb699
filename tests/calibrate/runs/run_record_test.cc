// SPDX-License-Identifier: Apache-2.0
#include "calibrate/runs/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "calibrate/runs/measured_run.h"
#include "sim/diagnostic.h"
#include "tests/calibrate/runs/records_sample.h"

namespace stepcast::run_record_test {
namespace {

std::string problem_of(const std::string& text) {
  try {
    parse_run_records(text, "runs.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(RunRecords, BadFilesAreLocated) {
  EXPECT_THAT(problem_of("records: {"), ::testing::HasSubstr("runs.yaml:1:"));
  EXPECT_THAT(problem_of("source: 1\n"), ::testing::HasSubstr("no list 'records'"));
}

// "; " between those of several records.
std::string problems_in(const std::string& text) {
  std::string all;
  for (const RunRecord& r : parse_run_records(text, "folder/runs.yaml")) all += r.problem + ';';
  return all;
}

TEST(RunRecords, BadRecordsAreLocatedAndTheOthersKept) {
  EXPECT_EQ(problems_in("records:\n- {model: {}}\n- 7\n"),
            "folder/runs.yaml:2:3: E126 a record needs an id;"
            "folder/runs.yaml:3:3: E126 a record needs an id;");
  EXPECT_EQ(parse_run_records("records:\n- {model: {}}\n", "folder/runs.yaml")[0].id,
            "runs.yaml:2");
  EXPECT_THAT(problems_in(replaced(sample_record(), "  batch", "  bath")),
              ::testing::HasSubstr(":2:3: E126 record 'sample' needs a mapping 'batch'"));
  EXPECT_THAT(problems_in(replaced(sample_record(), "{step_time_s: 1.5}", "1.5")),
              ::testing::HasSubstr("needs a mapping 'measured'"));
  EXPECT_EQ(problems_in(sample_record() + sample_record().substr(9)),
            ";folder/runs.yaml:11:3: E126 two records have the id 'sample';");
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(RunRecords, FilesThatCannotBeReadDoNotKeepOthersFromBeingRead) {
  const std::string folder = ::testing::TempDir() + "run_records_test/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "empty");
  write_file(folder + "a.yaml", "records: {\n");
  write_file(folder + "b.yaml", sample_record());
  write_file(folder + "notes.txt", "no records");
  const RunRecords read =
      read_run_records({folder, folder + "c.yaml", folder + "empty", folder + "b.yaml"});
  ASSERT_EQ(read.records.size(), 1u);  // b.yaml once
  EXPECT_EQ(read.records[0].source, "b");
  ASSERT_EQ(read.problems.size(), 3u);
  EXPECT_THAT(read.problems[0], ::testing::StartsWith(folder + "a.yaml:"));
  EXPECT_THAT(read.problems[1], ::testing::HasSubstr("cannot read " + folder + "c.yaml"));
  EXPECT_THAT(read.problems[2], ::testing::HasSubstr("there is no *.yaml, *.yml or *.json in"));
}

TEST(RunRecords, IdsAndSourcesOfSeveralFilesAreToldApart) {
  const std::string folder = ::testing::TempDir() + "run_records_twice/";
  std::filesystem::create_directories(folder + "p");
  std::filesystem::create_directories(folder + "q");
  write_file(folder + "p/x.yaml", sample_record());
  write_file(folder + "q/x.yaml", sample_record());
  write_file(folder + "q/y.yaml", replaced(sample_record(), "id: sample", "id: other"));
  const std::vector<RunRecord> records = read_run_records({folder + "p", folder + "q"}).records;
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].source, "p/x");
  EXPECT_EQ(records[1].source, "q/x");
  EXPECT_EQ(records[2].source, "y");
  EXPECT_EQ(records[0].problem, "");
  EXPECT_EQ(
      records[1].problem,
      folder + "q/x.yaml:2:3: E126 the id 'sample' is that of a record of " + folder + "p/x.yaml");
  EXPECT_EQ(records[2].problem, "");
}

TEST(RunRecords, JsonIsReadToo) {
  const auto records = parse_run_records(
      R"({"records": [{"id": "a", "hardware": {}, "model": {}, "parallelism": {}, "batch": {},
          "measured": {"step_time_s": 2}}]})",
      "runs.json");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].source, "runs");
  EXPECT_EQ(number_at(records[0].value, "measured.step_time_s"), 2);
}

TEST(RunRecords, NumbersAtTheBeginOfWords) {
  EXPECT_EQ(leading_whole("2048 or the default"), 2048);
  EXPECT_EQ(leading_whole("128k"), 128000);
  EXPECT_EQ(leading_whole("about 50k"), std::nullopt);
  EXPECT_EQ(leading_whole("1.5"), std::nullopt);
  EXPECT_EQ(leading_whole(""), std::nullopt);
}

MeasuredRun measured(const std::string& figures) {
  const RunRecord record = record_with("{step_time_s: 1.5}", '{' + figures + '}');
  const StepSize size{.sequences = 128,
                      .sequence_length = 2048,
                      .gpus = 64,
                      .forward_flops = 64e15,
                      .peak_flops = 100e12};
  return measured_run(record, &size);
}

TEST(MeasuredRuns, StepTimesFromEveryKindOfRate) {
  EXPECT_DOUBLE_EQ(measured("step_time_s: 1.5, mfu: 1").step_time_s.value(), 1.5);
  EXPECT_DOUBLE_EQ(measured("tokens_per_s: 262144").step_time_s.value(), 1);
  EXPECT_DOUBLE_EQ(measured("tokens_per_s_per_gpu: 2048").step_time_s.value(), 2);
  EXPECT_DOUBLE_EQ(measured("samples_per_s_per_gpu: 0.5").step_time_s.value(), 4);
  EXPECT_EQ(measured("training_days: 3").step_time_s, std::nullopt);
}

TEST(MeasuredRuns, TimesThatCannotBeAStepsAreNone) {
  for (const char* figures :
       {"mfu: 1e308", "mfu: 1e-300", "tflops_per_gpu: 1e300", "tokens_per_s: 1e-300",
        "samples_per_s_per_gpu: 1e300", "step_time_s: 1e-10", "layer_total_ms: 1e300"}) {
    EXPECT_EQ(measured(figures).step_time_s, std::nullopt) << figures;
    EXPECT_EQ(measured(figures).basis, TimeBasis::none) << figures;
  }
  EXPECT_EQ(measured("step_time_s: 1e5").step_time_s, 1e5);
}

// Backward takes twice the FLOPs of forward.
TEST(MeasuredRuns, StepTimesFromRatesOfFlops) {
  EXPECT_DOUBLE_EQ(measured("tflops_per_gpu: 50").step_time_s.value(), 3 * 64e15 / (50e12 * 64));
  EXPECT_DOUBLE_EQ(measured("mfu: 50").step_time_s.value(), 3 * 64e15 / (50e12 * 64));
  EXPECT_EQ(measured("mfu: 50").basis, TimeBasis::flops);
}

TEST(MeasuredRuns, RatesSayNothingOfAStepOfUnknownSize) {
  const auto unsized = [](const std::string& figures) {
    return measured_run(record_with("{step_time_s: 1.5}", '{' + figures + '}'), nullptr)
        .step_time_s;
  };
  EXPECT_EQ(unsized("tokens_per_s: 262144"), std::nullopt);
  EXPECT_EQ(unsized("mfu: 50"), std::nullopt);
  EXPECT_EQ(unsized("step_time_s: 2"), 2);
}

TEST(MeasuredRuns, KindsOfMemory) {
  const auto kind = [](const std::string& words) {
    return measured("peak_memory_gb: 2, peak_memory_kind: '" + words + '\'').memory_kind;
  };
  EXPECT_EQ(kind("torch max_memory_allocated of the LAST rank"), MemoryKind::last_allocated);
  EXPECT_EQ(kind("max_memory_allocated of rank 0"), MemoryKind::first_allocated);
  EXPECT_EQ(kind("nvidia-smi max"), MemoryKind::device);
  EXPECT_EQ(kind("written by rank 0 alone, reserved"), MemoryKind::first_reserved);
  EXPECT_EQ(kind("peak reserved memory"), MemoryKind::reserved);
  EXPECT_EQ(kind("not stated"), MemoryKind::allocated);
  EXPECT_DOUBLE_EQ(measured("peak_memory_gb: 2").peak_memory.value(), 2e9);
  EXPECT_DOUBLE_EQ(measured("peak_memory_gib: 2").peak_memory.value(), 2147483648.0);
}

TEST(MeasuredRuns, OutcomesAreKnownOfAllThatRan) {
  EXPECT_EQ(measured("outcome: OOM").out_of_memory, true);
  EXPECT_EQ(measured("step_time_s: 1").out_of_memory, false);
  EXPECT_EQ(measured("training_days: 3").out_of_memory, std::nullopt);
}

}  // namespace
}  // namespace stepcast::run_record_test
