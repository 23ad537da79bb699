// SPDX-License-Identifier: Apache-2.0
// Logs of torchtitan, Megatron-Bridge and NeMo: the configuration among other lines, and what
// steps took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::run_log_test {
namespace {

using testing::expect_beginnings_read_or_refused;
using ::testing::HasSubstr;
using testing::import_failure;
using testing::import_sample;
using testing::imported;
using testing::value_of;

std::string prefixed(const std::string& text, const std::string& prefix) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all += prefix + line + '\n';
  return all;
}

// As torchtitan prints them, in colours.
std::string titan_steps() {
  std::string text;
  int step = 0;
  for (const char* tps : {"900", "5,700", "5,762", "5,800"})
    text += fmt::format(
        "[titan] 2025-01-01 10:00:0{0} - root - INFO - \x1b[31mstep: {1:2}  \x1b[32mloss: 12.2  "
        "\x1b[36mmemory: 47.65GiB(60.2%)  \x1b[34mtps: {2}  \x1b[35mmfu: 40.00%\x1b[39m\n",
        step, 10 * step, tps),
        ++step;
  return text + "[titan] 2025-01-01 - root - INFO - validate step: 40  loss: 9.1  tps: 99,000\n";
}

std::string nemo_steps() {
  std::string text;
  for (const char* step : {"30.1", "6.08", "6.06", "6.10"})
    text += fmt::format(
        "Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_batch_size: 128 | "
        "global_step: 45 | max_memory_allocated: 115792977920 | train_step_timing in s: {} | "
        "consumed_samples: 5888\n",
        step);
  return text;
}

// "https:" has no "tps:".
TEST(RunLog, ALineWithAnAddressIsNoStep) {
  EXPECT_EQ(kind_of_log("wandb: step: 12 view run at https://wandb.ai/x/y\n"), kind_of_log("x\n"));
}

TEST(RunLog, OfTorchtitanHasItsConfigurationAndRates) {
  const std::string config = import_sample("torchtitan.json");
  const std::string log =
      prefixed("[titan] 2025-01-01 - root - INFO - Running with configs: " + config + titan_steps(),
               "[rank0]:");
  EXPECT_EQ(kind_of_log(log), "torchtitan");
  const ImportedRun run = imported("torchtitan", log);
  EXPECT_EQ(value_of(run, "measured.tokens_per_gpu_s"), "5762");
  EXPECT_EQ(value_of(run, "measured.step_time"), "");
  EXPECT_THAT(run.measured, HasSubstr("3 of 4 iterations (median 5762 tokens a second"));
  const ImportedRun alone = imported("torchtitan", config);
  EXPECT_EQ(value_of(run, "parallel.tp"), value_of(alone, "parallel.tp"));
  EXPECT_EQ(run.used, alone.used);
  EXPECT_EQ(value_of(alone, "measured"), "");
}

TEST(RunLog, OfMegatronBridgeHasItsYaml) {
  const std::string config = import_sample("bridge.yaml");
  const std::string iterations =
      " [2026-01-05 10:00:14] iteration        2/     100 | elapsed time per iteration (ms): "
      "4000.0 | global batch size:    128 | lm loss: 1.1E+01 |\n";
  const std::string log =
      prefixed("INFO:megatron.bridge:starting\nrng: a word of another tool\n\n" + config +
                   "> setting random seeds to 1234 ...\n" + iterations + iterations,
               "0: ");
  EXPECT_EQ(kind_of_log(log), "bridge");
  const ImportedRun run = imported("bridge", log);
  EXPECT_EQ(value_of(run, "measured.step_time"), "4000000us");
  EXPECT_EQ(value_of(run, "model.num_hidden_layers"), "80");
  EXPECT_EQ(run.used, imported("bridge", config).used);
}

TEST(RunLog, OfNemoHasTimesInSeconds) {
  const std::string config = prefixed(import_sample("bridge.yaml"), "    ");
  const ImportedRun run = imported("bridge", config + "[NeMo I 2025 train:44]\n" + nemo_steps());
  EXPECT_EQ(value_of(run, "measured.step_time"), "6080000us");
  EXPECT_EQ(value_of(run, "measured.peak_memory"), "115792977920B");
}

TEST(RunLog, WithoutTheConfigurationSaysWhatIsMissingAndWhatWasMeasured) {
  EXPECT_EQ(kind_of_log(nemo_steps()), "bridge");
  const auto nemo = import_failure("bridge", nemo_steps());
  EXPECT_EQ(nemo.codes, "E330");
  EXPECT_THAT(nemo.lines.front(), HasSubstr("the configuration (model, layout, batch) is missing"));
  EXPECT_EQ(import_failure("torchtitan", titan_steps()).codes, "E330");
  // Cut off inside the configuration.
  EXPECT_EQ(import_failure("torchtitan", "Running with configs: {\"a\": {\n" + titan_steps()).codes,
            "E330");
}

TEST(RunLog, WithoutItsArgumentsSaysWhatItMeasuredAndWhatComparesThat) {
  std::string log;
  for (int i = 0; i < 20; ++i)
    log += " iteration " + std::to_string(i) +
           "/ 50 | elapsed time per iteration (ms): 4150.0 | global batch size: 64 |\n";
  const auto refused = import_failure("megatron-log", log);
  EXPECT_EQ(refused.codes, "E330");
  EXPECT_THAT(refused.all.front().help, HasSubstr("`stepcast check SCENARIO --log file`"));
  EXPECT_THAT(refused.all.front().help, HasSubstr("median 4.15 s"));
  EXPECT_THAT(refused.all.front().help, HasSubstr("`measured: {step_time: 4.15s}`"));
  const LogMeasurement found = measured_in_log("x.log", log);
  EXPECT_EQ(found.set.front(), (std::pair<std::string, std::string>{"step_time", "4150000us"}));
  EXPECT_EQ(found.global_batch, 64);
  EXPECT_EQ(testing::failure_of([] { measured_in_log("x.log", "nothing\n"); }).codes, "E330");
  EXPECT_EQ(testing::failure_of([] {
              measured_in_log("x.log", "elapsed time per iteration (ms): x |\n");
            }).codes,
            "E330 E331");
}

TEST(RunLog, OfMegatronSaysTheMostThatIsAllocatedAndReserved) {
  std::string log;
  for (const char* reserved : {"3000.0", "4000.5"})
    log += fmt::format(
        " iteration 5/ 50 | elapsed time per iteration (ms): 4150.0 | global batch size: 64 |\n"
        "[Rank 0] (after 5 iterations) memory (MB) | allocated: 10.0 | max allocated: 2000.0 | "
        "reserved: 4.0 | max reserved: {}\n",
        reserved);
  const LogMeasurement found = measured_in_log("x.log", log);
  const auto value = [&](const char* key) {
    for (const auto& [name, text] : found.set)
      if (name == key) return text;
    return std::string();
  };
  EXPECT_EQ(value("peak_memory"), "2097152000B");
  EXPECT_EQ(value("reserved_memory"), "4194828288B");
}

// As ranks write that share a file: one's line may begin before another's ends.
TEST(RunLog, OfMegatronMayHaveTheMemoryOfSeveralRanksOnALine) {
  const std::string step =
      " iteration 5/ 50 | elapsed time per iteration (ms): 4150.0 | global batch size: 64 |\n";
  const std::string memory =
      "[Rank 0] (after 5 iterations) memory (MB) | allocated: 10.0 | max allocated: 1000.0 | "
      "reserved: 4.0 | max reserved: 3000.0[Rank 1] (after 5 iterations) memory (MB) | "
      "allocated: 10.0 | max allocated: 2000.0 | reserved: 4.0 | max reserved: ";
  const LogMeasurement found = measured_in_log("x.log", step + memory + "2500.0\n");
  EXPECT_THAT(found.set, ::testing::IsSupersetOf(std::vector<std::pair<std::string, std::string>>{
                             {"peak_memory", "2097152000B"}, {"reserved_memory", "3145728000B"}}));
  EXPECT_EQ(testing::failure_of([&] { measured_in_log("x.log", step + memory + "x\n"); }).codes,
            "E331");
}

TEST(RunLog, OtherTextsAreNoLogs) {
  EXPECT_EQ(kind_of_log(""), "");
  EXPECT_EQ(kind_of_log(import_sample("bridge.yaml")), "");
  EXPECT_EQ(kind_of_log(import_sample("torchtitan.json")), "");
  EXPECT_EQ(kind_of_log(import_sample("train.log")), "megatron-log");
}

TEST(RunLog, EveryBeginningIsReadOrRefused) {
  const std::string text =
      "Running with configs: " + import_sample("torchtitan.json") + titan_steps();
  expect_beginnings_read_or_refused("torchtitan", text, 61);
  const std::string nemo = import_sample("bridge.yaml") + nemo_steps();
  expect_beginnings_read_or_refused("bridge", nemo, 131);
}

}  // namespace
}  // namespace stepcast::run_log_test
