// SPDX-License-Identifier: Apache-2.0
// Clusters as tools found them, written as sections of scenarios: what is written can be loaded.
#include "scenarios/cluster_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/forecast/forecast.h"
#include "tests/scenarios/loading.h"
#include "tests/topology/importing.h"
#include "topology/import/imported_topology.h"

namespace stepcast::cluster_section_test {
namespace {

using test::problems;
using test::sample;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kJob = "model: llama3-8b\nparallel: {tp: 1}\nbatch: {global: 2880, seq: 2048}\n";

ClusterSource from(const std::string& kind, const std::string& preset,
                   const std::string& gpu = "") {
  return {"file", kind, preset, gpu};
}

Cluster loaded(const std::string& section) {
  return testing::load(kJob + section).cluster;
}

TEST(ClusterSection, MatrixOfNvidiaSmiIsANode) {
  const std::string section =
      cluster_section(import_nvidia_smi(sample("nvidia_smi/h200_8nic_ansi.txt"), "file"),
                      from("nvidia-smi", "dgx-h200"));
  const Cluster c = loaded(section);
  EXPECT_EQ(c.nodes, 1);
  EXPECT_EQ(c.node.gpu.name, "h200-sxm");
  EXPECT_EQ(c.node.gpus, 8);
  EXPECT_EQ(c.node.intra, IntraKind::nvswitch);
  EXPECT_EQ(c.node.intra_bandwidth.value, 450e9);
  EXPECT_EQ(c.node.nvlinks, 18);
  EXPECT_EQ(c.node.nics, 8);
  EXPECT_EQ(c.node.pcie_switches, 4);
  // What the matrix does not tell: those of the preset, and said to be.
  EXPECT_EQ(c.node.nic_bandwidth.value, 50e9);
  EXPECT_EQ(c.node.nvswitches, 4);
  EXPECT_THAT(section, HasSubstr("comes from cluster preset dgx-h200"));
  EXPECT_THAT(section, Not(HasSubstr("63GB/s")));  // a PCIe that the matrix does not name
}

TEST(ClusterSection, GpuDecidesWhatAnNvlinkCarries) {
  const std::string matrix = sample("nvidia_smi/h200_8nic_ansi.txt");
  const Node node = preset_node("", "b200-sxm");
  const Cluster c = loaded(cluster_section(import_nvidia_smi(matrix, "file", node.gpu.arch),
                                           from("nvidia-smi", "dgx-h200", "b200-sxm")));
  EXPECT_EQ(c.node.gpu.name, "b200-sxm");
  EXPECT_EQ(c.node.intra_bandwidth.value, 900e9);
}

TEST(ClusterSection, TopologyOfNcclIsANodeWithItsNetwork) {
  const std::string section =
      cluster_section(import_nccl_xml(sample("nccl_xml/oci_h100_full_dump.xml"), "file"),
                      from("nccl-topo", "dgx-h100"));
  const Cluster c = loaded(section);
  EXPECT_EQ(c.node.gpus, 8);
  EXPECT_EQ(c.node.nvswitches, 4);
  EXPECT_EQ(c.node.intra_bandwidth.value, 450e9);
  EXPECT_EQ(c.node.nics, 16);
  EXPECT_EQ(c.node.nic_bandwidth.value, 22.5e9);
  EXPECT_EQ(c.node.pcie_switches, 8);
  EXPECT_EQ(c.node.cpus, 2);
  EXPECT_THAT(section, HasSubstr("# - NICs of a node: 16, where dgx-h100 has 8\n"));
  EXPECT_THAT(section, HasSubstr("# - line 4: pcie0"));  // what looks wrong
}

TEST(ClusterSection, AFileWithoutNvlinksLeavesThemToThePreset) {
  const Cluster c =
      loaded(cluster_section(import_nccl_xml(sample("nccl_xml/azure_ndv5_h100.xml"), "file"),
                             from("nccl-topo", "azure-ndv5")));
  EXPECT_EQ(c.node.intra, IntraKind::nvswitch);
  EXPECT_EQ(c.node.intra_bandwidth.value, 450e9);
  EXPECT_EQ(c.node.nics, 8);
}

TEST(ClusterSection, GpusWithoutNvlinksTalkOverPcie) {
  const Cluster c =
      loaded(cluster_section(import_nvidia_smi(sample("nvidia_smi/a10g_g5_48xlarge.txt"), "file"),
                             from("nvidia-smi", "", "a100-pcie-80g")));
  EXPECT_EQ(c.node.intra, IntraKind::pcie);
  EXPECT_EQ(c.node.intra_bandwidth, c.node.gpu.host_bandwidth);
}

TEST(ClusterSection, FabricOfHostsIsWrittenOut) {
  const std::string section =
      cluster_section(import_ibnetdiscover(sample("ibnetdiscover/gb200_ndr_superpod.txt"), "file"),
                      from("ibnetdiscover", "dgx-h100"));
  const Cluster c = loaded(section);
  EXPECT_EQ(c.nodes, 120);
  ASSERT_NE(c.graph, nullptr);
  int64_t switches = 0, nics = 0;
  for (const Device& d : c.graph->devices()) {
    switches += d.kind == DeviceKind::network_switch;
    nics += d.kind == DeviceKind::nic;
  }
  EXPECT_EQ(switches, 40);
  EXPECT_EQ(nics, 538 - 69);
  EXPECT_THAT(section, HasSubstr("69 HCAs that name no host left out"));
  EXPECT_THAT(section, HasSubstr("26 of 558 uplinks are missing"));
}

TEST(ClusterSection, HostsOfARackAreANode) {
  const std::string section =
      cluster_section(import_ibnetdiscover(sample("ibnetdiscover/gb200_ndr_superpod.txt"), "file"),
                      from("ibnetdiscover", "gb200-nvl72"));
  const Cluster c = loaded(section);
  EXPECT_EQ(c.nodes, 8);
  EXPECT_EQ(c.gpus(), 576);
  const auto nics = std::ranges::count(c.graph->devices(), DeviceKind::nic, &Device::kind);
  EXPECT_EQ(nics, 538);  // those that name no host stand below the leaves of a rack
}

TEST(ClusterSection, OddNamesStayDifferent) {
  std::vector<Device> devices;
  for (const char* name : {"a\"b",
                           "a\x1b"
                           "b",
                           "10"})
    devices.push_back({.kind = DeviceKind::nic, .name = name, .node = 0});
  for (int32_t n = 0; n < 3; ++n) devices[static_cast<size_t>(n)].node = n;
  devices.push_back({.kind = DeviceKind::network_switch, .name = "10", .tier = 0});
  devices[2].name = "nic";
  std::vector<Link> links;
  for (uint32_t n = 0; n < 3; ++n)
    links.push_back({n, 3, LinkKind::network, {50e9}, {50e9}, {}, 1});
  ImportedTopology t{ClusterGraph(std::move(devices), std::move(links)), {}, {}, {}, {}, {}, {}};
  t.hosts = {"a\"b",
             "a\x1b"
             "b",
             "10"};
  t.leaf_group = {0, 0, 0, 0};
  const Cluster c = loaded(cluster_section(t, from("ibnetdiscover", "dgx-h100")));
  EXPECT_EQ(c.nodes, 3);
}

TEST(ClusterSection, HostsWithoutAWayToTheOthersAreLeftOut) {
  std::vector<Device> devices;
  for (int32_t n = 0; n < 3; ++n)
    devices.push_back({.kind = DeviceKind::nic, .name = "h" + std::to_string(n), .node = n});
  for (const char* name : {"leaf", "island"})
    devices.push_back({.kind = DeviceKind::network_switch, .name = name, .tier = 0});
  std::vector<Link> links;
  for (uint32_t n = 0; n < 3; ++n)
    links.push_back({n, n < 2 ? 3U : 4U, LinkKind::network, {50e9}, {50e9}, {}, 1});
  ImportedTopology t{ClusterGraph(std::move(devices), std::move(links)), {}, {}, {}, {}, {}, {}};
  t.hosts = {"h0", "h1", "h2"};
  t.leaf_group = {0, 0, 1, 0, 1};
  const std::string section = cluster_section(t, from("ibnetdiscover", "dgx-h100"));
  EXPECT_EQ(loaded(section).nodes, 2);
  EXPECT_THAT(section, HasSubstr("no way leads from the other nodes to h2: left out"));
  EXPECT_THAT(section, Not(HasSubstr("island")));
}

TEST(ClusterSection, WhatCannotBeAClusterIsRefused) {
  const auto refusal = [](const ImportedTopology& t, const ClusterSource& source) {
    return problems([&] { cluster_section(t, source); });
  };
  const ImportedTopology fabric =
      import_ibnetdiscover(sample("ibnetdiscover/hdr_director_synthetic.txt"), "file");
  EXPECT_THAT(refusal(fabric, from("ibnetdiscover", "dgx-h100")), "");
  // One host without NVLinks where the other has some.
  std::vector<Device> devices;
  for (const char* name : {"gpu0", "gpu1", "gpu2"})
    devices.push_back({.kind = DeviceKind::gpu, .name = name, .node = 0});
  const ImportedTopology dead{
      ClusterGraph(std::move(devices), {{0, 1, LinkKind::nvlink, {50e9}, {50e9}, {}, 2}}),
      {{}},
      {},
      {},
      {},
      {},
      {}};
  EXPECT_THAT(refusal(dead, from("nccl-topo", "dgx-h100")),
              HasSubstr("gpu2 has no NVLink, where other GPUs have 2"));
}

TEST(ClusterSection, UnknownPresetsAreNamed) {
  try {
    preset_node("dgx-h10", "");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.front().code, "E125");
    EXPECT_THAT(e.diagnostics.front().help, HasSubstr("dgx-h100"));
  }
}

}  // namespace
}  // namespace stepcast::cluster_section_test
