// SPDX-License-Identifier: Apache-2.0
#include "topology/import/imported_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/topology/importing.h"

namespace stepcast::import_ibnetdiscover_test {
namespace {

using test::devices;
using test::fact;
using test::link_between;
using test::problems;
using test::sample;
using test::warnings;
using ::testing::HasSubstr;
using ::testing::Not;

ImportedTopology import(const std::string& text) {
  return import_ibnetdiscover(text, "file");
}

std::string refusal(const std::string& text) {
  return problems([&] { import(text); });
}

std::map<int32_t, int64_t> switches_by_tier(const ImportedTopology& t) {
  std::map<int32_t, int64_t> tiers;
  for (const Device& d : t.graph.devices())
    if (d.kind == DeviceKind::network_switch) ++tiers[d.tier];
  return tiers;
}

TEST(ImportIbnetdiscover, FabricOf576GpusIsCounted) {
  const ImportedTopology t = import(sample("ibnetdiscover/gb200_ndr_superpod.txt"));
  EXPECT_EQ(switches_by_tier(t), (std::map<int32_t, int64_t>{{0, 31}, {1, 9}}));
  // 582 adapters: 40 SHARP nodes, and 542 HCAs, of which two hosts with two each stand apart.
  EXPECT_EQ(fact(t, "sharp_nodes"), 40);
  EXPECT_EQ(fact(t, "managers"), 2);
  EXPECT_EQ(fact(t, "manager_hcas"), 4);
  EXPECT_EQ(fact(t, "host_hcas"), 538);
  EXPECT_EQ(devices(t, DeviceKind::nic), 538);
  EXPECT_EQ(fact(t, "uplinks_expected"), 558);
  EXPECT_EQ(fact(t, "uplinks_missing"), 26);
  EXPECT_EQ(fact(t, "rails"), 4);
  EXPECT_EQ(fact(t, "leaf_groups"), 8);
  EXPECT_EQ(fact(t, "degraded_cables"), 0);
  EXPECT_EQ(fact(t, "unnamed_hcas"), 69);
  EXPECT_THAT(warnings(t), HasSubstr("26 of 558 uplinks are missing, 18 being usual"));
  EXPECT_THAT(warnings(t), HasSubstr("LEAF-04-01, LEAF-02-01, LEAF-01-01 reach 3 leaves"));
}

TEST(ImportIbnetdiscover, CablesOfAPairAreOneLink) {
  const ImportedTopology t = import(sample("ibnetdiscover/gb200_ndr_superpod.txt"));
  const Link pair = link_between(t, "LEAF-04-08", "SPINE-01");
  EXPECT_EQ(pair.cables, 2);
  EXPECT_DOUBLE_EQ(pair.bandwidth.value, 100e9);
  EXPECT_DOUBLE_EQ(pair.back.value, 100e9);
  const Link host = link_between(t, "host0801/HCA-5", "LEAF-04-08");
  EXPECT_DOUBLE_EQ(host.bandwidth.value, 50e9);
  int64_t cables = 0;
  for (const Link& l : t.graph.links()) cables += l.cables;
  EXPECT_EQ(cables, 538 + 532);
}

TEST(ImportIbnetdiscover, RailsGoByTheNumbersOfTheHcas) {
  const ImportedTopology t = import(sample("ibnetdiscover/gb200_ndr_superpod.txt"));
  for (const Device& d : t.graph.devices()) {
    if (d.kind != DeviceKind::network_switch || d.tier != 0) continue;
    // LEAF-<rail>-<rack>
    EXPECT_EQ(d.rail, d.name[6] - '1') << d.name;
  }
}

TEST(ImportIbnetdiscover, ChipsOfADirectorAreSwitchesOfTheirOwn) {
  const ImportedTopology t = import(sample("ibnetdiscover/hdr_director_synthetic.txt"));
  EXPECT_EQ(switches_by_tier(t), (std::map<int32_t, int64_t>{{0, 5}, {1, 2}, {2, 1}}));
  EXPECT_EQ(devices(t, DeviceKind::nic), 10);
  EXPECT_EQ(fact(t, "sharp_nodes"), 1);
  EXPECT_EQ(fact(t, "rails"), 0);
  const Link l = link_between(t, "sw-0908-01ib1-A/L01", "sw-0908-01ib1-A/S01");
  EXPECT_DOUBLE_EQ(l.bandwidth.value, 25e9);
}

TEST(ImportIbnetdiscover, HostThatSeesOnlyItselfIsRefused) {
  EXPECT_EQ(refusal(sample("ibnetdiscover/single_hca_no_fabric.txt")),
            "E320 10:1 no switch: the host sees nothing but its own adapter\n");
}

// Two leaves with two hosts each, one spine with two cables to each leaf.
std::string small_fabric() {
  std::string s = "# Topology file\n";
  const auto port = [&](int p, const std::string& peer, int q, const std::string& name,
                        const std::string& speed) {
    s += "[" + std::to_string(p) + "]\t\"" + peer + "\"[" + std::to_string(q) + "]\t\t# \"" + name +
         "\" lid 1 " + speed + "\n";
  };
  for (const std::string leaf : {"1", "2"}) {
    s += "switchguid=0xa" + leaf + "\nSwitch\t4 \"S-a" + leaf + "\"\t# \"MF0;same-name:MQM/U1\" " +
         "enhanced port 0 lid 1 lmc 0\n";
    for (const int host : {1, 2})
      port(host, "H-" + leaf + std::to_string(host), 1,
           "h" + leaf + std::to_string(host) + " mlx5_0", "4xEDR");
    for (const int up : {3, 4}) port(up, "S-b1", 2 * (leaf[0] - '1') + up - 2, "spine", "4xEDR");
    s += '\n';
  }
  s += "Switch\t4 \"S-b1\"\t# \"MF0;spine:MQM/U1\" base port 0 lid 1 lmc 0\n";
  for (const int p : {1, 2, 3, 4})
    port(p, p < 3 ? "S-a1" : "S-a2", (p - 1) % 2 + 3, "same-name", "4xEDR");
  return s;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(ImportIbnetdiscover, SwitchesOfOneNameStayApart) {
  const ImportedTopology t = import(small_fabric());
  EXPECT_EQ(switches_by_tier(t), (std::map<int32_t, int64_t>{{0, 2}, {1, 1}}));
  EXPECT_EQ(link_between(t, "same-name (2)", "spine").cables, 2);
  // The hosts have no record of their own, but the switches name them.
  EXPECT_THAT(warnings(t), HasSubstr("4 adapters have no record of their own"));
}

TEST(ImportIbnetdiscover, DegradedCableIsListed) {
  std::string text = replaced(small_fabric(), "[3]\t\"S-b1\"[1]\t\t# \"spine\" lid 1 4xEDR",
                              "[3]\t\"S-b1\"[1]\t\t# \"spine\" lid 1 1xEDR");
  text = replaced(text, "[1]\t\"S-a1\"[3]\t\t# \"same-name\" lid 1 4xEDR",
                  "[1]\t\"S-a1\"[3]\t\t# \"same-name\" lid 1 1xEDR");
  const ImportedTopology t = import(text);
  EXPECT_EQ(fact(t, "degraded_cables"), 1);
  EXPECT_THAT(warnings(t), HasSubstr("6: same-name to spine: 1xEDR, where most have 100 Gb/s"));
  EXPECT_DOUBLE_EQ(link_between(t, "same-name", "spine").bandwidth.value, 12.5e9 + 3.125e9);
}

TEST(ImportIbnetdiscover, EndsThatTellDifferentSpeedsAreTold) {
  const ImportedTopology t =
      import(replaced(small_fabric(), "\"S-a2\"[4]\t\t# \"same-name\" lid 1 4xEDR",
                      "\"S-a2\"[4]\t\t# \"same-name\" lid 1 4xHDR"));
  EXPECT_THAT(warnings(t), HasSubstr("the other end of this cable tells of 4xEDR"));
}

TEST(ImportIbnetdiscover, CableFromASwitchToItselfIsTold) {
  const ImportedTopology t = import(replaced(small_fabric(), "\"S-b1\"[1]", "\"S-a1\"[9]"));
  EXPECT_THAT(warnings(t), HasSubstr("S-a1 is cabled to itself, ports 3 and 9"));
}

TEST(ImportIbnetdiscover, ExtrasBehindTheSpeedAndChassisPortsAreRead) {
  const ImportedTopology t = import(replaced(
      small_fabric(), "[1]\t\"H-11\"[1]\t\t# \"h11 mlx5_0\" lid 1 4xEDR",
      "[1][ext 13](a1)\t\"H-11\"[1](11) \t\t# \"h11 mlx5_0\" lid 1 4xEDR s=2 w=4 v=1 e=0"));
  EXPECT_DOUBLE_EQ(link_between(t, "h11/mlx5_0", "same-name").bandwidth.value, 12.5e9);
}

TEST(ImportIbnetdiscover, MistakesAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal(""), "E320 0:0 the file is empty\n");
  EXPECT_EQ(refusal("# nothing\n"), "E320 1:1 nothing of a fabric in this file\n");
  EXPECT_EQ(refusal("hello\n"), "E321 1:1 a line that ibnetdiscover does not print\n");
  EXPECT_THAT(refusal(small_fabric() + small_fabric()),
              HasSubstr("the record of S-a1 is there already, in line 3"));
  EXPECT_THAT(refusal(replaced(small_fabric(), "[2]", "[1]")),
              HasSubstr("port 1 of S-a1 is there already, in line 4"));
  EXPECT_THAT(refusal(replaced(small_fabric(), "lid 1 4xEDR", "lid 1 4xWDR")),
              HasSubstr("the speed, such as 4xNDR, should stand here"));
  EXPECT_THAT(refusal(replaced(small_fabric(), "\"H-11\"", "H-11")),
              HasSubstr("E321 4:5 the peer's GUID in quotes should stand here"));
  EXPECT_THAT(refusal("[1] \"S-a1\"[1] # \"x\" lid 1 4xEDR\n"),
              HasSubstr("a port before any record"));
}

TEST(ImportIbnetdiscover, CutOffFilesNameTheSwitchesTheyLack) {
  const std::string text = small_fabric();
  EXPECT_THAT(refusal(text.substr(0, text.find("Switch\t4 \"S-b1\""))),
              HasSubstr("E322 6:1 switch S-b1 is cabled here, but its record is missing"));
  const std::string whole = sample("ibnetdiscover/hdr_director_synthetic.txt");
  test::expect_no_crash_when_cut(whole, 1, [](const std::string& t) { import(t); });
}

TEST(ImportIbnetdiscover, AtMostTwentyProblemsAreTold) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "nonsense\n";
  EXPECT_THAT(refusal(text), Not(HasSubstr("E321 21:")));
}

}  // namespace
}  // namespace stepcast::import_ibnetdiscover_test
