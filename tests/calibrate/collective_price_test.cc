// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/collective_price.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/calibrate/works.h"
#include "topology/nccl/collectives.h"

namespace stepcast::collective_price_test {
namespace {

using test::a100_cluster;
using test::us;
using ::testing::HasSubstr;

const GroupShape kNode{.ranks = 8, .nodes = 1, .ranks_per_node = 8, .tier = -1};
const GroupShape kTwoNodes{.ranks = 16, .nodes = 2, .ranks_per_node = 8, .tier = 0};
constexpr Bytes kMiB{1 << 20};

// The sources m and n have the wires given, if any.
CostTable make(const std::string& rows, const std::string& wires = "nvlink3 verbs",
               const std::string& others = "") {
  std::string text =
      "# stepcast cost table\n# format: 1\n# gpu: test\n# nvlink_gbs: 300\n"
      "# source: m measured here\n# source: n measured there\n";
  if (!wires.empty()) text += "# wires: m " + wires + "\n";
  if (!others.empty()) text += "# wires: n " + others + "\n";
  int count = 0;
  for (const char c : rows) count += c == '\n' ? 1 : 0;
  return CostTable::parse(text + fmt::format("# rows: {}\n{}", count, rows), "t.csv");
}

const std::string kRows =
    "collective,all_reduce,8,1,8,0,1024,20,m\ncollective,all_reduce,8,1,8,0,1048576,60,m\n"
    "collective,all_reduce,16,2,8,25,1048576,120,m\n"
    "collective,all_reduce,16,2,8,50,1048576,90,m\n";

double modelled(const Cluster& c, const GroupShape& shape, Bytes bytes = kMiB,
                WorkKind kind = WorkKind::all_reduce) {
  return us(collective_cost(c, kind, bytes, shape).time);
}

Price price(const CostTable& t, const Cluster& c, const GroupShape& shape, Bytes bytes = kMiB,
            WorkKind kind = WorkKind::all_reduce) {
  return collective_price(kind, bytes, shape, c, &t);
}

void drive(Cluster& c, NicDriver driver) {
  c.node.nic_driver = driver;
  c.node.nic_latency = nominal_latency(driver);
  c.fabric.hop_latency = nominal_hop_latency(driver);
}

TEST(CollectivePrice, AnswersTheExactGroupShape) {
  const CostTable t = make(kRows);
  const Cluster c = a100_cluster(2);
  const Price p = price(t, c, kNode);
  EXPECT_DOUBLE_EQ(us(p.time), 60);
  EXPECT_EQ(p.origin, Origin::measured);
  EXPECT_EQ(p.basis, "table test: all_reduce of 8 ranks on 1 node");
  EXPECT_NE(p.algorithm, Algorithm::none);
  EXPECT_EQ(price(t, c, kNode, kMiB, WorkKind::all_gather).origin, Origin::roofline);
  const GroupShape four{.ranks = 4, .nodes = 1, .ranks_per_node = 4, .tier = -1};
  EXPECT_EQ(price(t, c, four).origin, Origin::roofline);
  EXPECT_EQ(price(t, c, four).remark, "on one node neither NICs nor network switches take part");
}

TEST(CollectivePrice, TakesTheRowsOfTheClustersNics) {
  const CostTable t = make(kRows);
  Cluster c = a100_cluster(2);
  EXPECT_DOUBLE_EQ(us(price(t, c, kTwoNodes).time), 120);
  c.node.nic_bandwidth = {50e9};
  EXPECT_DOUBLE_EQ(us(price(t, c, kTwoNodes).time), 90);
  EXPECT_EQ(price(t, c, kTwoNodes).origin, Origin::measured);
  c.node.nics = 4;  // 25 GB/s a GPU again
  EXPECT_NEAR(us(price(t, c, kTwoNodes).time), 120, 1e-3);
}

// What drives the NICs is another network, whatever its speed.
TEST(CollectivePrice, OfAnotherNetworkIsTheModels) {
  const CostTable t = make(kRows, "nvlink3 efa");
  Cluster c = a100_cluster(2);
  const Price p = price(t, c, kTwoNodes);
  EXPECT_EQ(p.origin, Origin::roofline);
  EXPECT_DOUBLE_EQ(us(p.time), modelled(c, kTwoNodes));
  EXPECT_THAT(p.remark, HasSubstr("over NICs driven by efa, here verbs"));
  EXPECT_EQ(price(t, c, kNode).origin, Origin::measured) << "in one node no NIC takes part";
  drive(c, NicDriver::efa);
  EXPECT_DOUBLE_EQ(us(price(t, c, kTwoNodes).time), 120);
}

TEST(CollectivePrice, EachNetworkHasRowsOfItsOwn) {
  const CostTable t = make(
      "collective,all_reduce,16,2,8,25,1048576,120,m\n"
      "collective,all_reduce,16,2,8,25,1048576,200,n\n",
      "nvlink3 verbs", "nvlink3 roce");
  Cluster c = a100_cluster(2);
  EXPECT_DOUBLE_EQ(us(price(t, c, kTwoNodes).time), 120);
  drive(c, NicDriver::roce);
  EXPECT_DOUBLE_EQ(us(price(t, c, kTwoNodes).time), 200);
}

TEST(CollectivePrice, SwitchesThatReduceArePartOfTheKey) {
  const CostTable plain = make(kRows), sharp = make(kRows, "nvlink3 verbs sharp");
  Cluster c = a100_cluster(2);
  EXPECT_THAT(price(sharp, c, kTwoNodes).remark, HasSubstr("with network switches that reduce"));
  c.fabric.sharp = true;
  EXPECT_EQ(price(plain, c, kTwoNodes).origin, Origin::roofline);
  EXPECT_THAT(price(plain, c, kTwoNodes).remark, HasSubstr("without network switches that reduce"));
  EXPECT_DOUBLE_EQ(us(price(sharp, c, kTwoNodes).time), 120);
  EXPECT_EQ(price(plain, c, kNode).origin, Origin::measured);
  // No switch reduces what is only gathered.
  const CostTable gather = make("collective,all_gather,16,2,8,25,1048576,120,m\n");
  EXPECT_EQ(price(gather, c, kTwoNodes, kMiB, WorkKind::all_gather).origin, Origin::measured);
  c.node.sharp = true;
  EXPECT_THAT(price(plain, c, kNode).remark, HasSubstr("without NVSwitches that reduce"));
  EXPECT_EQ(price(gather, c, kTwoNodes, kMiB, WorkKind::all_gather).origin, Origin::measured);
}

TEST(CollectivePrice, LinksInsideNodesArePartOfTheKey) {
  Cluster mesh = a100_cluster(1);
  mesh.node.intra = IntraKind::nvlink_mesh;
  EXPECT_EQ(price(make(kRows), mesh, kNode).origin, Origin::roofline);
  EXPECT_THAT(price(make(kRows), mesh, kNode).remark,
              HasSubstr("over nvlink3 through NVSwitches inside nodes, here nvlink3-mesh"));
  EXPECT_EQ(price(make(kRows, ""), mesh, kNode).origin, Origin::roofline);
  EXPECT_EQ(price(make(kRows, "nvlink3-mesh"), mesh, kNode).origin, Origin::measured);
  EXPECT_EQ(price(make(kRows, "nvlink4"), a100_cluster(1), kNode).origin, Origin::roofline);
  EXPECT_EQ(price(make(kRows, "shm"), a100_cluster(1), kNode).origin, Origin::roofline);
  Cluster pcie = a100_cluster(1);
  pcie.node.intra = IntraKind::pcie;
  pcie.node.intra_bandwidth = {31.5e9};
  EXPECT_EQ(price(make(kRows, "pcie4"), pcie, kNode).origin, Origin::measured);
  EXPECT_EQ(price(make(kRows, "pcie5"), pcie, kNode).origin, Origin::roofline);
}

TEST(CollectivePrice, ANetworkThatIsNotNamedAnswersNothing) {
  const CostTable t = make(kRows, "");
  EXPECT_EQ(price(t, a100_cluster(2), kTwoNodes).origin, Origin::roofline);
  EXPECT_THAT(price(t, a100_cluster(2), kTwoNodes).remark, HasSubstr("do not name"));
  EXPECT_EQ(price(t, a100_cluster(2), kNode).origin, Origin::measured);
}

// One process has a floor of its calls, which training, a process a GPU, has not.
TEST(CollectivePrice, RowsOfOneProcessCountWhereItsCallsDoNot) {
  const std::string rows =
      "collective,all_gather,8,1,8,0,1024,34,m\ncollective,all_gather,8,1,8,0,1048576,60,m\n"
      "collective,all_gather,8,1,8,0,2097152,80,m\ncollective,all_gather,8,1,8,0,4194304,100,m\n";
  const CostTable one = make(rows, "nvlink3 one-process"), each = make(rows, "nvlink3");
  const Cluster c = a100_cluster(1);
  const auto at = [&](const CostTable& t, int64_t bytes) {
    return price(t, c, kNode, {bytes}, WorkKind::all_gather);
  };
  EXPECT_DOUBLE_EQ(us(at(each, 1024).time), 34);
  EXPECT_LT(us(at(one, 1024).time), 34);
  EXPECT_EQ(at(one, 1024).origin, Origin::extrapolated);
  EXPECT_THAT(at(one, 1024).remark, HasSubstr("below 2097152 bytes do not count: one process"));
  EXPECT_DOUBLE_EQ(us(at(one, 2 << 20).time), 80);
  EXPECT_EQ(at(one, 4 << 20).origin, Origin::measured);
  EXPECT_THAT(at(one, 4 << 20).remark, ::testing::Not(HasSubstr("one process")));
  // Rows of a process each go first.
  const CostTable both =
      make(rows + "collective,all_gather,8,1,8,0,1048576,40,n\n", "nvlink3 one-process", "nvlink3");
  EXPECT_DOUBLE_EQ(us(at(both, 1 << 20).time), 40);
}

// Whatever is measured, wherever the NICs leave the measured ones: no step, and never a step back.
TEST(CollectivePrice, AFasterNicNeverCostsMore) {
  for (const char* measured : {"60", "100", "120", "150", "300"}) {
    const CostTable t =
        make(fmt::format("collective,all_reduce,16,2,8,25,1048576,{},m\n", measured));
    Cluster c = a100_cluster(2);
    double before = 0, model_before = 0;
    for (double gbs = 5; gbs < 200; gbs *= 1.005) {
      c.node.nic_bandwidth = {gbs * 1e9};
      const Price p = price(t, c, kTwoNodes);
      const double model = modelled(c, kTwoNodes);
      if (before > 0) {
        EXPECT_LE(us(p.time), before * (1 + 1e-9)) << measured << " us, " << gbs << " GB/s";
        // The model itself falls where NCCL finds twice the channels (29 GB/s); nothing else does.
        EXPECT_GT(us(p.time), before * (model / model_before - 0.01))
            << measured << " us, " << gbs << " GB/s";
      }
      before = us(p.time);
      model_before = model;
      EXPECT_NE(p.origin, Origin::measured);
      EXPECT_THAT(p.basis, HasSubstr("by NICs of 25 GB/s a GPU"));
    }
  }
}

// Near ones and far ones.
TEST(CollectivePrice, AFasterNicNeverCostsMoreBetweenTwoMeasuredOnes) {
  for (const double factor : {1.1, 1.25, 1.7, 1.75, 2.0, 4.0}) {
    for (const auto& [slower, faster] :
         {std::pair{"60", "50"}, {"60", "59"}, {"120", "100"}, {"300", "60"}}) {
      const CostTable t =
          make(fmt::format("collective,all_reduce,16,2,8,25,1048576,{},m\n"
                           "collective,all_reduce,16,2,8,{},1048576,{},m\n",
                           slower, 25 * factor, faster));
      Cluster c = a100_cluster(2);
      // From row to row, as much a step of 0.2 % as the rows say.
      const double rows =
          std::pow(std::stod(faster) / std::stod(slower), std::log(1.002) / std::log(factor));
      double before = 0, model_before = 0;
      for (double gbs = 20; gbs < 30 * factor; gbs *= 1.002) {
        c.node.nic_bandwidth = {gbs * 1e9};
        const double time = us(price(t, c, kTwoNodes).time), model = modelled(c, kTwoNodes);
        if (before > 0) {
          EXPECT_LE(time, before * (1 + 1e-9)) << slower << ", " << faster << ", " << gbs;
          EXPECT_GT(time, before * rows * (model / model_before - 0.01))
              << slower << ", " << faster << ", " << gbs;
        }
        before = time;
        model_before = model;
      }
      c.node.nic_bandwidth = {25e9 * std::sqrt(factor)};
      EXPECT_EQ(price(t, c, kTwoNodes).origin, Origin::interpolated);
    }
  }
}

// Latency, NVLinks, oversubscription and sharing: the row, times what the model says of them.
TEST(CollectivePrice, TheModelCarriesRowsToOtherLinks) {
  const CostTable t = make(kRows);
  const Cluster c = a100_cluster(2);
  const auto carried = [&](const Cluster& other, const GroupShape& shape) {
    const Price p = price(t, other, shape);
    EXPECT_NEAR(us(p.time) / 120, modelled(other, shape) / modelled(c, kTwoNodes), 1e-5);
    EXPECT_THAT(p.basis, HasSubstr("by the model"));
    return us(p.time);
  };
  Cluster far = c;
  far.node.nic_latency = Time{20'000'000};
  EXPECT_GT(carried(far, kTwoNodes), 121);
  Cluster narrow = c;
  narrow.fabric.oversubscription = 4;
  GroupShape high = kTwoNodes;
  high.tier = 1;
  high.block_nodes[0] = 1;
  EXPECT_GT(carried(narrow, high), 121);
  Cluster links = c;
  links.node.intra_bandwidth = {100e9};
  EXPECT_GT(carried(links, kTwoNodes), 121);
  Cluster nearly = c;
  nearly.node.intra_bandwidth = {297e9};
  EXPECT_EQ(price(t, nearly, kNode).origin, Origin::interpolated);
}

TEST(CollectivePrice, WithoutATableIsTheModels) {
  const Cluster c = a100_cluster(2);
  const Price p = collective_price(WorkKind::all_reduce, kMiB, kTwoNodes, c, nullptr);
  EXPECT_DOUBLE_EQ(us(p.time), modelled(c, kTwoNodes));
  EXPECT_EQ(p.origin, Origin::roofline);
}

// Where another driver, or switches that reduce, leave the price as it is, it says so.
TEST(CollectivePrice, SaysWhatMakesNoDifference) {
  const CostTable t = make(kRows);
  for (const WorkKind kind : {WorkKind::all_reduce, WorkKind::all_gather}) {
    for (const int64_t bytes : {int64_t{4096}, int64_t{1} << 30}) {
      for (const GroupShape& shape : {kNode, kTwoNodes}) {
        const auto at = [&](const Cluster& c) {
          return collective_price(kind, {bytes}, shape, c, &t);
        };
        Cluster c = a100_cluster(2);
        for (int i = 0; i < kNicDriverCount; ++i) {
          c.node.nic_driver = static_cast<NicDriver>(i);
          const Price before = at(c);
          for (int k = 0; k < kNicDriverCount; ++k) {
            Cluster other = c;
            other.node.nic_driver = static_cast<NicDriver>(k);
            const Price after = at(other);
            if (k == i || after.time != before.time || shape.nodes == 1) continue;
            EXPECT_THAT(after.remark, HasSubstr(std::string(name_of(c.node.nic_driver))))
                << name_of(kind) << ' ' << bytes << ' ' << name_of(other.node.nic_driver);
          }
          Cluster sharp = c;
          sharp.fabric.sharp = true;
          if (at(sharp).time == before.time && shape.nodes > 1) {
            EXPECT_THAT(at(sharp).remark, HasSubstr("network switches"));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepcast::collective_price_test
