// SPDX-License-Identifier: Apache-2.0
#include "topology/import/imported_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/components.h"
#include "tests/topology/importing.h"

namespace stepcast::import_nccl_xml_test {
namespace {

using test::devices;
using test::fact;
using test::link_between;
using test::problems;
using test::sample;
using test::warnings;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ImportedTopology import(const std::string& text) {
  return import_nccl_xml(text, "file");
}

std::string refusal(const std::string& text) {
  return problems([&] { import(text); });
}

struct Expected {
  const char* file;
  int64_t gpus, nvswitches, pcie_switches, cpus, nics;
};

TEST(ImportNcclXml, CountsOfTheSamples) {
  for (const Expected& e : {Expected{"oci_h100_full_dump", 8, 4, 24, 2, 16},
                            {"rccl_mi300x_8gpu", 8, 0, 24, 2, 8},
                            {"azure_ndv2_v100", 8, 0, 0, 2, 1},
                            {"azure_ndv4_a100", 8, 0, 4, 4, 8},
                            {"azure_ndv5_h100", 8, 0, 8, 2, 8},
                            {"aws_p4d_a100", 8, 0, 4, 2, 4},
                            {"oci_bmgpu4_a100_flattened", 8, 0, 4, 4, 8}}) {
    const ImportedTopology t = import(sample(std::string("nccl_xml/") + e.file + ".xml"));
    EXPECT_EQ(devices(t, DeviceKind::gpu), e.gpus) << e.file;
    EXPECT_EQ(devices(t, DeviceKind::nvswitch), e.nvswitches) << e.file;
    EXPECT_EQ(devices(t, DeviceKind::pcie_switch), e.pcie_switches) << e.file;
    EXPECT_EQ(devices(t, DeviceKind::cpu), e.cpus) << e.file;
    EXPECT_EQ(devices(t, DeviceKind::nic), e.nics) << e.file;
    for (const uint32_t c : test::components(t.graph)) EXPECT_EQ(c, 0U) << e.file;
  }
}

TEST(ImportNcclXml, H100HasFourSwitchesWith5544Links) {
  const ImportedTopology t = import(sample("nccl_xml/oci_h100_full_dump.xml"));
  // In the order of their bus addresses 1a, 1b, 1c, 1d.
  const int links[] = {4, 5, 5, 4};
  for (int g = 0; g < 8; ++g) {
    for (int s = 0; s < 4; ++s) {
      const Link l = link_between(t, "gpu" + std::to_string(g), "nvswitch" + std::to_string(s));
      EXPECT_EQ(l.cables, links[s]);
      EXPECT_DOUBLE_EQ(l.bandwidth.value, links[s] * 25e9);
    }
  }
  EXPECT_EQ(fact(t, "nics_at_180000_mbps"), 16);
  EXPECT_EQ(t.graph.devices()[test::device(t, "nic15 mlx5_17")].rail, 15);
  EXPECT_THAT(warnings(t), HasSubstr("4: pcie0, pcie3, pcie6, pcie9 and 4 more reach upwards at "
                                     "PCIe 2.0 x16, slower than what is below"));
}

TEST(ImportNcclXml, PortsOfOneCardDivideItsPcie) {
  const ImportedTopology t = import(sample("nccl_xml/oci_h100_full_dump.xml"));
  const Link port = link_between(t, "nic0 mlx5_0", "pcie2"), gpu = link_between(t, "gpu0", "pcie1");
  EXPECT_NEAR(gpu.bandwidth.value, 63.0e9, 0.1e9);
  EXPECT_DOUBLE_EQ(port.bandwidth.value, gpu.bandwidth.value / 2);
}

TEST(ImportNcclXml, XgmiJoinsGpusDirectly) {
  const ImportedTopology t = import(sample("nccl_xml/rccl_mi300x_8gpu.xml"));
  EXPECT_DOUBLE_EQ(link_between(t, "gpu2", "gpu5").bandwidth.value, 64e9);
  EXPECT_EQ(std::ranges::count_if(t.graph.links(),
                                  [](const Link& l) { return l.kind == LinkKind::nvlink; }),
            28);
  EXPECT_EQ(warnings(t), "");
}

TEST(ImportNcclXml, HandWrittenFilesGoByPciClass) {
  const ImportedTopology t = import(sample("nccl_xml/aws_p4d_a100.xml"));
  EXPECT_EQ(fact(t, "cards_efa"), 4);
  EXPECT_EQ(fact(t, "written_by_hand"), 1);
  EXPECT_NEAR(link_between(t, "gpu0", "pcie0").bandwidth.value, 15.75e9, 0.01e9);  // 8 GT/s
  EXPECT_DOUBLE_EQ(link_between(t, "cpu0", "cpu1").bandwidth.value, 10e9);         // Skylake
}

TEST(ImportNcclXml, CpusAreJoinedAtNcclsFigures) {
  EXPECT_DOUBLE_EQ(
      link_between(import(sample("nccl_xml/azure_ndv5_h100.xml")), "cpu0", "cpu1").bandwidth.value,
      22e9);
  EXPECT_DOUBLE_EQ(
      link_between(import(sample("nccl_xml/azure_ndv4_a100.xml")), "cpu0", "cpu3").bandwidth.value,
      16e9);
}

std::string system_of(const std::string& inside) {
  return "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
         "familyid=\"6\" modelid=\"143\">\n" +
         inside + "</cpu>\n</system>\n";
}

constexpr const char* kGpu = "class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\"";

std::string gpu(const std::string& bus, int dev, const std::string& links,
                const std::string& width = "16") {
  return "<pci busid=\"" + bus + "\" " + kGpu + " link_width=\"" + width + "\"><gpu dev=\"" +
         std::to_string(dev) + "\" sm=\"90\" rank=\"0\" gdr=\"1\">" + links + "</gpu></pci>\n";
}

std::string nvlink(const std::string& target, int count, const std::string& tclass = "0x030200") {
  return "<nvlink target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" +
         tclass + "\"/>";
}

TEST(ImportNcclXml, WidthZeroIsSixteenAndAnUnknownSpeedGenerationThree) {
  const ImportedTopology t = import(system_of(gpu("0000:01:00.0", 0, "", "0") +
                                              "<pci busid=\"0000:02:00.0\" class=\"0x030200\" "
                                              "link_speed=\"Unknown\" link_width=\"8\"/>\n"));
  EXPECT_NEAR(link_between(t, "gpu0", "cpu0").bandwidth.value, 63e9, 0.1e9);
  EXPECT_NEAR(link_between(t, "gpu1", "cpu0").bandwidth.value, 7.88e9, 0.01e9);
}

TEST(ImportNcclXml, BridgesThatAVirtualMachineMadeUpAreNotNarrow) {
  const ImportedTopology t =
      import(system_of("<pci busid=\"0000:00:01.0\" class=\"0x060400\" link_speed=\"2.5 GT/s\" "
                       "link_width=\"1\">\n" +
                       gpu("0000:01:00.0", 0, "") + "</pci>\n"));
  EXPECT_NEAR(link_between(t, "pcie0", "cpu0").bandwidth.value, 63e9, 0.1e9);
  EXPECT_EQ(fact(t, "bridges_raised"), 1);
  EXPECT_EQ(warnings(t), "");
}

TEST(ImportNcclXml, HiddenSwitchesAreOne) {
  const std::string hidden = nvlink("fffffff:ff:ff.0", 18, "0x068000");
  const ImportedTopology t =
      import(system_of(gpu("0008:06:00.0", 0, hidden) + gpu("0009:06:00.0", 1, hidden)));
  EXPECT_EQ(devices(t, DeviceKind::nvswitch), 1);
  EXPECT_EQ(link_between(t, "gpu1", "nvswitch").cables, 18);
  EXPECT_EQ(fact(t, "hidden_nvswitches"), 1);
}

TEST(ImportNcclXml, GpuWhoseNvlinksAreMissingIsTold) {
  const std::string hidden = nvlink("fffffff:ff:ff.0", 18, "0x068000");
  const ImportedTopology t =
      import(system_of(gpu("0001:00:00.0", 0, hidden) + gpu("0002:00:00.0", 1, "") +
                       gpu("0003:00:00.0", 2, hidden)));
  EXPECT_THAT(warnings(t), HasSubstr("4: gpu1 has no NVLink, other GPUs have 18"));
}

TEST(ImportNcclXml, LinksToldByOneEndOnlyAreTold) {
  const ImportedTopology t = import(
      system_of(gpu("0001:00:00.0", 0, nvlink("0002:00:00.0", 4)) + gpu("0002:00:00.0", 1, "")));
  EXPECT_EQ(link_between(t, "gpu0", "gpu1").cables, 4);
  EXPECT_THAT(warnings(t), HasSubstr("gpu0 and gpu1 tell of 4 and 0 links"));
}

TEST(ImportNcclXml, LinksToGpusThatAreNotThereAndToItselfAreTold) {
  const ImportedTopology t = import(
      system_of(gpu("0001:00:00.0", 0, nvlink("0007:00:00.0", 4) + nvlink("0001:00:00.0", 2))));
  EXPECT_THAT(warnings(t), HasSubstr("gpu0 has a link to 0007:00:00.0, which is not in this file"));
  EXPECT_THAT(warnings(t), HasSubstr("gpu0 has a link to 0001:00:00.0, itself"));
}

TEST(ImportNcclXml, C2cJoinsAGpuAndItsCpu) {
  const ImportedTopology t =
      import(system_of(gpu("0001:00:00.0", 0, "<c2c bw=\"45000\" count=\"10\"/>")));
  double c2c = 0;
  for (const Link& l : t.graph.links())
    if (l.kind == LinkKind::c2c) c2c += l.bandwidth.value;
  EXPECT_DOUBLE_EQ(c2c, 450e9);
}

TEST(ImportNcclXml, NetUnderSeveralCpusIsOneNic) {
  const std::string net = "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\"/></nic>";
  const ImportedTopology t =
      import("<system version=\"1\"><cpu numaid=\"0\">" + gpu("0001:00:00.0", 0, "") + net +
             "</cpu><cpu numaid=\"1\">" + net + "</cpu></system>");
  EXPECT_EQ(devices(t, DeviceKind::nic), 1);
  EXPECT_DOUBLE_EQ(link_between(t, "nic0 mlx5_0", "cpu0").bandwidth.value, 50e9);
  EXPECT_DOUBLE_EQ(link_between(t, "nic0 mlx5_0", "cpu1").bandwidth.value, 50e9);
}

TEST(ImportNcclXml, NicFasterThanItsPcieIsTold) {
  const ImportedTopology t = import(
      system_of(gpu("0001:00:00.0", 0, "") +
                "<pci busid=\"0002:00:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" "
                "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\"/></nic>"
                "</pci>\n"));
  EXPECT_THAT(warnings(t), HasSubstr("nic0 mlx5_0 has less PCIe than network bandwidth"));
}

TEST(ImportNcclXml, HostsOfOneDomainAreNodes) {
  const std::string hidden = nvlink("fffffff:ff:ff.0", 18, "0x068000");
  const ImportedTopology t =
      import("<system version=\"1\"><cpu host_hash=\"0x1\" numaid=\"0\">" +
             gpu("0001:00:00.0", 0, hidden) + "</cpu><cpu host_hash=\"0x2\" numaid=\"0\">" +
             gpu("0001:00:00.0", 0, hidden) + "</cpu></system>");
  EXPECT_EQ(fact(t, "hosts"), 2);
  EXPECT_EQ(t.graph.devices()[test::device(t, "n1/gpu0")].node, 1);
  EXPECT_EQ(devices(t, DeviceKind::nvswitch), 1);
  EXPECT_EQ(t.graph.devices()[test::device(t, "n1/gpu0")].domain,
            t.graph.devices()[test::device(t, "gpu0")].domain);
}

TEST(ImportNcclXml, OtherFilesAreRefused) {
  EXPECT_THAT(refusal(sample("nccl_xml/azure_ncv4_graph.xml")),
              StartsWith("E320 1:1 this is what NCCL has chosen"));
  EXPECT_EQ(refusal("<html></html>"), "E320 1:1 <html> is no topology of NCCL\n");
  EXPECT_EQ(refusal("<system/>"), "E321 1:1 no GPU in this file\n");
  EXPECT_EQ(refusal(" \n\n"), "E320 0:0 the file is empty\n");
}

TEST(ImportNcclXml, MistakesAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal(system_of(gpu("0001:00:00.0", 0, "") + gpu("0001:00:00.0", 1, ""))),
            "E321 4:1 the GPU at 0001:00:00.0 is there already, in line 3\n");
  EXPECT_THAT(refusal(system_of(gpu("0001:00:00.0", 0, nvlink("0001:01:00.0", 0)))),
              HasSubstr("a GPU has 1 to 64 links"));
  EXPECT_THAT(refusal(system_of(gpu("0001:00:00.0", 0, "", "sixteen"))),
              HasSubstr("link_width should be a whole number"));
  EXPECT_THAT(refusal(system_of(gpu("0001:00:00.0", 0, "", "-4"))), HasSubstr("E321 3:"));
  EXPECT_THAT(refusal(system_of(gpu("0001:00:00.0", 0, "", "400"))), HasSubstr("32 lanes"));
}

TEST(ImportNcclXml, CutOffSaysWhatIsOpenAndWhere) {
  const std::string text = sample("nccl_xml/oci_h100_full_dump.xml");
  EXPECT_THAT(refusal(text.substr(0, text.find("</cpu>"))),
              HasSubstr("the file ends too early: <cpu> of line 3 is not closed"));
  EXPECT_THAT(refusal(text.substr(0, text.find("</cpu>"))), StartsWith("E322 83:"));
  test::expect_no_crash_when_cut(text, 7, [](const std::string& t) { import(t); });
}

TEST(ImportNcclXml, WhatIsNotWellFormedIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal("<a>\n  <b></a>"), "E321 2:8 <b> of line 2 should be closed here\n");
  EXPECT_THAT(refusal("<a x=1/>"), StartsWith("E321 1:"));
  EXPECT_THAT(refusal("<a x=1/>"), HasSubstr("in quotes should stand here"));
  EXPECT_EQ(refusal("<a x='1' x='2'/>"), "E321 1:10 'x' is given twice\n");
  EXPECT_EQ(refusal("<a/><b/>"), "E321 1:5 a second outermost element\n");
  EXPECT_THAT(refusal("</a>"), StartsWith("E321 1:"));
  EXPECT_EQ(refusal("hello <a/>"), "E321 1:1 text outside of any element\n");
  EXPECT_EQ(refusal("<a/>\n x"), "E321 2:2 text outside of any element\n");
  EXPECT_EQ(refusal("<a>x</a><!-- > -->y"), "E321 1:19 text outside of any element\n");
  EXPECT_EQ(refusal("<a/> x <b/>"), "E321 1:6 text outside of any element\n");
  EXPECT_EQ(refusal("<a b='>x</a>'/>"), "E321 1:9 '<' inside a value: a quote is missing before\n");
  EXPECT_EQ(refusal("<a b='<'/>"), "E321 1:7 '<' inside a value: a quote is missing before\n");
  EXPECT_THAT(refusal("<a b='&x;'/>"), StartsWith("E321 1:7 '&' that begins none of"));
  EXPECT_THAT(refusal("<!DOCTYPE a [<!ENTITY x \"y\">]><a/>"), HasSubstr("not read"));
  EXPECT_THAT(refusal("<!-- -->"), HasSubstr("E320"));
}

TEST(ImportNcclXml, CutOffNamesTheInnermostOpenElement) {
  EXPECT_EQ(refusal("<a>\n<b>\n\n"),
            "E322 2:3 the file ends too early: <b> of line 2 is not closed\n");
  EXPECT_THAT(refusal("<a>\n<b x=\"1"), StartsWith("E322 2:7 the file ends too early"));
  EXPECT_THAT(refusal("<!-- never closed"), StartsWith("E322 1:17"));
}

TEST(ImportNcclXml, DepthAndNumberOfElementsAreLimited) {
  std::string deep, close, many = "<a>";
  for (int i = 0; i < 65; ++i) deep += "<a>", close += "</a>";
  EXPECT_EQ(refusal(deep + close), "E321 1:193 more than 64 levels\n");
  // At once, and where nothing is closed too.
  for (int i = 0; i < 99'000 - 65; ++i) deep += "<a>";
  EXPECT_EQ(refusal(deep), "E321 1:193 more than 64 levels\n");
  for (int i = 0; i < 100'000; ++i) many += "<b/>";
  EXPECT_THAT(refusal(many), HasSubstr("more than 100,000 elements"));
  std::string wide = "<a";
  for (int i = 0; i < 65; ++i) wide += " b" + std::to_string(i) + "=''";
  EXPECT_THAT(refusal(wide + "/>"), HasSubstr("more than 64 attributes"));
}

}  // namespace
}  // namespace stepcast::import_nccl_xml_test
