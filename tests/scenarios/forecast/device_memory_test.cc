// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "scenarios/forecast/step.h"

namespace stepcast::device_memory_test {
namespace {

Scenario load(const std::string& more) {
  return load_scenario_text(
      "model: llama3-8b\ncluster: dgx-a100-80g x 2\nbatch: {global: 32, micro: 1, seq: 4096}\n" +
          more,
      "device.yaml");
}

bool has(const Scenario& s, const std::string& what) {
  const std::vector<DeviceMemory> lines = device_memory(s);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const DeviceMemory& line) { return line.what == what; });
}

TEST(DeviceMemory, HasACommunicatorForEachGroupThatTheRankIsIn) {
  const Scenario dp = load("parallel: {}\n");
  EXPECT_TRUE(has(dp, "CUDA context"));
  EXPECT_TRUE(has(dp, "communicator of the world"));
  EXPECT_TRUE(has(dp, "communicator of dp"));
  EXPECT_FALSE(has(dp, "communicator of tp"));
  const Scenario both = load("parallel: {tp: 4, pp: 2}\n");
  EXPECT_TRUE(has(both, "communicator of tp"));
  EXPECT_TRUE(has(both, "communicator of pp"));
  EXPECT_GT(device_reserve(both), device_reserve(dp));
}

// DeepEP's buffers are its own: an exchange by NCCL has none of them, and the other way round.
TEST(DeviceMemory, DispatchersOfExpertsHaveTheirOwnBuffers) {
  const auto with = [](const std::string& dispatcher) {
    return load_scenario_text(
        "model: qwen3-30b-a3b\ncluster: dgx-h100 x 4\nbatch: {global: 64, micro: 1, seq: 4096}\n"
        "parallel: {ep: 16}\nmoe: {dispatcher: " +
            dispatcher + "}\n",
        "device.yaml");
  };
  EXPECT_TRUE(has(with("alltoall"), "communicator of ep, exchange"));
  EXPECT_FALSE(has(with("alltoall"), "DeepEP"));
  EXPECT_TRUE(has(with("deepep"), "DeepEP"));
  EXPECT_FALSE(has(with("deepep"), "communicator of ep, exchange"));
  EXPECT_TRUE(has(with("allgather"), "communicator of ep"));
  EXPECT_FALSE(has(with("allgather"), "communicator of ep, exchange"));
  // Hidden size 2,048: 32 MiB, 10 channels x 8 peers x 288 tokens x (4,096 + 2,056) B for NVLink,
  // and one granule of 512 MiB.
  const std::vector<DeviceMemory> lines = device_memory(with("deepep"));
  const auto deepep =
      std::ranges::find_if(lines, [](const DeviceMemory& line) { return line.what == "DeepEP"; });
  ASSERT_NE(deepep, lines.end());
  EXPECT_EQ(deepep->bytes.value, (int64_t{32 + 512} << 20) + int64_t{10} * 8 * 288 * 6152);
}

TEST(DeviceMemory, IsWhatTheStepCannotUse) {
  const Scenario s = load("parallel: {tp: 4}\n");
  EXPECT_EQ(usable_memory(s), s.cluster.node.gpu.memory - device_reserve(s));
}

TEST(DeviceMemory, AStatedReserveStandsForAllOfIt) {
  LoadOptions options;
  options.set = {{"cluster.node.gpu.reserve", "2GiB"}};
  const Scenario stated = load_scenario_text(
      "model: llama3-8b\ncluster: dgx-a100-80g x 2\nbatch: {global: 32, micro: 1, seq: 4096}\n",
      "device.yaml", options);
  EXPECT_EQ(device_memory(stated).size(), 1U);
  EXPECT_EQ(device_reserve(stated).value, int64_t{2} << 30);
}

TEST(DeviceMemory, KernelsThatAreLoadedAtOnceTakeRoom) {
  const Scenario lazy = load("parallel: {}\n");
  const Scenario eager = load("parallel: {}\nkernels: {module_loading: eager}\n");
  EXPECT_EQ((device_reserve(eager) - device_reserve(lazy)).value, int64_t{900} << 20);
}

}  // namespace
}  // namespace stepcast::device_memory_test
