// SPDX-License-Identifier: Apache-2.0
#include "topology/import/imported_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/importing.h"

namespace stepcast::import_nvidia_smi_test {
namespace {

using test::devices;
using test::fact;
using test::link_between;
using test::problems;
using test::sample;
using test::warnings;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ImportedTopology import(const std::string& text, std::optional<GpuArch> arch = {}) {
  return import_nvidia_smi(text, "file", arch);
}

std::string refusal(const std::string& text) {
  return problems([&] { import(text); });
}

TEST(ImportNvidiaSmi, NvlinksBeyondWhatAGpuHasGoThroughSwitches) {
  const ImportedTopology t = import(sample("nvidia_smi/h100_p5_48xlarge.txt"));
  EXPECT_EQ(devices(t, DeviceKind::gpu), 8);
  EXPECT_EQ(devices(t, DeviceKind::nvswitch), 1);
  EXPECT_EQ(devices(t, DeviceKind::cpu), 2);  // NUMA nodes 0 and 1
  const Link l = link_between(t, "gpu3", "nvswitch");
  EXPECT_EQ(l.cables, 18);
  EXPECT_DOUBLE_EQ(l.bandwidth.value, 450e9);
  EXPECT_DOUBLE_EQ(l.back.value, 450e9);
  ASSERT_EQ(t.nccl.size(), t.graph.links().size());
  for (size_t i = 0; i < t.nccl.size(); ++i) {
    if (t.graph.links()[i].kind != LinkKind::nvlink) continue;
    EXPECT_DOUBLE_EQ(t.nccl[i].value, 370.8e9);
  }
  EXPECT_EQ(warnings(t), "");
  EXPECT_EQ(fact(t, "assumed_pcie_generation"), 5);
  for (const uint32_t g : t.graph.gpus()) EXPECT_EQ(t.graph.devices()[g].domain, 0);
}

TEST(ImportNvidiaSmi, AmpereHas12Links) {
  const ImportedTopology t = import(sample("nvidia_smi/a100_p4d_24xlarge.txt"));
  EXPECT_DOUBLE_EQ(link_between(t, "gpu0", "nvswitch").bandwidth.value, 300e9);
  EXPECT_EQ(fact(t, "assumed_pcie_generation"), 4);
}

TEST(ImportNvidiaSmi, BlackwellHasToBeNamed) {
  const ImportedTopology t = import(sample("nvidia_smi/h100_p5_48xlarge.txt"), GpuArch::blackwell);
  EXPECT_DOUBLE_EQ(link_between(t, "gpu0", "nvswitch").bandwidth.value, 900e9);
}

TEST(ImportNvidiaSmi, HybridCubeMeshHasNoSwitch) {
  const ImportedTopology t = import(sample("nvidia_smi/v100_p3_16xlarge.txt"));
  EXPECT_EQ(devices(t, DeviceKind::nvswitch), 0);
  EXPECT_EQ(devices(t, DeviceKind::cpu), 1);  // PHB throughout
  EXPECT_EQ(link_between(t, "gpu0", "gpu1").cables, 1);
  EXPECT_DOUBLE_EQ(link_between(t, "gpu0", "gpu4").bandwidth.value, 50e9);
  EXPECT_EQ(link_between(t, "gpu0", "gpu5").cables, Link{}.cables);
  EXPECT_EQ(link_between(t, "gpu0", "gpu5").bandwidth.value, 0);
  int64_t cables = 0;
  for (const Link& l : t.graph.links())
    if (l.kind == LinkKind::nvlink) cables += l.cables;
  EXPECT_EQ(cables, 8 * 6 / 2);
}

TEST(ImportNvidiaSmi, GpusWithoutNvlinkHaveNoDomain) {
  const ImportedTopology t = import(sample("nvidia_smi/a10g_g5_48xlarge.txt"));
  EXPECT_EQ(devices(t, DeviceKind::cpu), 1);
  for (const Device& d : t.graph.devices()) EXPECT_EQ(d.domain, -1);
  for (const Link& l : t.graph.links()) EXPECT_EQ(l.kind, LinkKind::pcie);
}

TEST(ImportNvidiaSmi, PixIsOneSwitchNodeOneCpu) {
  const ImportedTopology t = import(sample("nvidia_smi/h200_8nic_ansi.txt"));
  EXPECT_EQ(devices(t, DeviceKind::gpu), 8);
  EXPECT_EQ(devices(t, DeviceKind::nic), 8);
  EXPECT_EQ(devices(t, DeviceKind::pcie_switch), 4);
  EXPECT_EQ(devices(t, DeviceKind::cpu), 2);
  const uint32_t nic = test::device(t, "nic4 rocep198s0");
  EXPECT_EQ(t.graph.devices()[nic].rail, 4);
  // gpu4 and nic4 hang on the same switch.
  const auto way = t.graph.shortest_path(test::device(t, "gpu4"), nic);
  ASSERT_TRUE(way);
  EXPECT_EQ(way->size(), 2U);
  EXPECT_EQ(warnings(t), "");
}

constexpr const char* kFourGpus =
    "GPU0 GPU1 GPU2 NIC0 NIC1 CPU Affinity NUMA Affinity\n"
    "GPU0 X NV4 NV4 PIX SYS 0-7 0\n"
    "GPU1 NV4 X NV4 PXB SYS 0-7 0\n"
    "GPU2 NV4 NV4 X NODE SYS 0-7 0\n"
    "NIC0 PIX PXB NODE X SYS\n"
    "NIC1 SYS SYS SYS SYS X\n";

TEST(ImportNvidiaSmi, BlanksDoInPlaceOfTabs) {
  const ImportedTopology t = import(kFourGpus);
  EXPECT_EQ(devices(t, DeviceKind::pcie_switch), 2);  // of PIX, and of PXB above it
  EXPECT_EQ(devices(t, DeviceKind::cpu), 2);
  EXPECT_EQ(devices(t, DeviceKind::nvswitch), 0);  // 8 links: a mesh
  EXPECT_EQ(fact(t, "nics_beside_no_gpu"), 1);
  EXPECT_EQ(t.graph.devices()[test::device(t, "nic1")].rail, -1);
  EXPECT_EQ(t.graph.devices()[test::device(t, "nic0")].rail, 0);
}

TEST(ImportNvidiaSmi, LinesBeforeAndAfterAreNoMatter) {
  const std::string text =
      "$ nvidia-smi topo -m\r\n\x1b[4mGPU0\tGPU1\x1b[0m\r\n"
      "GPU0\t X \tSYS\r\nGPU1\tSYS\t X \r\n\r\nLegend:\r\n";
  const ImportedTopology t = import(text);
  EXPECT_EQ(devices(t, DeviceKind::gpu), 2);
  EXPECT_EQ(devices(t, DeviceKind::cpu), 2);
}

TEST(ImportNvidiaSmi, GpuWithDeadNvlinksIsTold) {
  std::string text = sample("nvidia_smi/h100_p5_48xlarge.txt");
  std::string broken;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // Row and column of GPU5.
    const bool row = line.starts_with("GPU5");
    std::vector<std::string> cells;
    std::istringstream fields(line);
    for (std::string cell; std::getline(fields, cell, '\t');) cells.push_back(cell);
    for (size_t c = 1; c < cells.size(); ++c)
      if (cells[c] == "NV18" && (row || c == 6)) cells[c] = "NODE";
    for (size_t c = 0; c < cells.size(); ++c) broken += (c > 0 ? "\t" : "") + cells[c];
    broken += '\n';
  }
  const ImportedTopology t = import(broken);
  EXPECT_THAT(warnings(t), HasSubstr("7: gpu5 has no NVLink, other GPUs have 18"));
}

TEST(ImportNvidiaSmi, RowsThatContradictEachOtherAreTold) {
  const ImportedTopology t = import("GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0\nGPU1 NV2 X 0\n");
  EXPECT_THAT(warnings(t), HasSubstr("3: the rows of GPU0 and GPU1 contradict each other"));
  EXPECT_EQ(link_between(t, "gpu0", "gpu1").cables, 4);
}

TEST(ImportNvidiaSmi, WordsThatRanTogetherArePointedAt) {
  EXPECT_THAT(refusal("GPU0 GPU1 NIC0 CPU Affinity\nGPU0 X SYSSYS 0\nGPU1 SYS X SYS\n"),
              StartsWith("E321 2:8 'SYSSYS' is two words that have run together"));
  EXPECT_THAT(refusal("GPU0 GPU1 NIC11CPU Affinity\nGPU0 X SYS SYS\n"),
              StartsWith("E321 1:11 'NIC11CPU' is two words"));
}

TEST(ImportNvidiaSmi, BrokenMatricesAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal(""), "E320 0:0 the file is empty\n");
  EXPECT_EQ(refusal("hello\nworld\n"), "E320 1:1 no matrix of `nvidia-smi topo -m` here\n");
  EXPECT_EQ(refusal(std::string("GPU0\0GPU1", 9)), "E320 1:1 the file is not a text\n");
  EXPECT_THAT(
      refusal("GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0\n"),
      HasSubstr("E322 2:1 the matrix has 1 rows for 2 devices: the row of GPU1 is missing"));
  EXPECT_THAT(refusal("GPU0 GPU1 GPU2\nGPU0 X NV4\n"), HasSubstr("has 2 cells, not 3"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU1 NV4 X\n"),
              HasSubstr("E321 2:1 the row of GPU0 should stand here"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X WAT\nGPU1 SYS X\n"),
              HasSubstr("E321 2:8 'WAT' is no cell of the matrix"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 SYS X\nGPU1 SYS X\n"), HasSubstr("itself should be X"));
  EXPECT_THAT(refusal("GPU0 GPU1\nGPU0 X NV99\nGPU1 SYS X\n"), HasSubstr("NV99"));
}

TEST(ImportNvidiaSmi, CutOffAnywhereIsReadOrRefused) {
  const std::string text = sample("nvidia_smi/h200_8nic_ansi.txt");
  test::expect_no_crash_when_cut(text, 1, [](const std::string& t) { import(t); });
}

TEST(ImportNvidiaSmi, WordsOfAnyLengthArePointedAtAtOnce) {
  const std::string head = "      GPU0 GPU1\nGPU0  X ", tail = "\nGPU1 NV1 X\n";
  for (const std::string& part : {std::string("1"), std::string("SYS"), std::string("NV1")}) {
    std::string word = "NV";
    while (word.size() < 300'000) word += part;
    EXPECT_THAT(refusal(head + word + tail), HasSubstr("E321 2:9")) << part;
  }
}

}  // namespace
}  // namespace stepcast::import_nvidia_smi_test
