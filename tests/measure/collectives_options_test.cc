// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "sim/diagnostic.h"
#include "tests/measure/complaint.h"

namespace stepcast::measure::collectives_options_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

CollectiveOptions read(const std::vector<std::string>& arguments) {
  return read_collective_options(arguments);
}

std::string refusal(const std::vector<std::string>& arguments) {
  return complaint_of([&] { read(arguments); });
}

std::function<const char*(const char*)> environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(CollectiveOptions, WithoutFlagsTheWholeGridIsMeasured) {
  const CollectiveOptions o = read({});
  EXPECT_EQ(o.grid, "full");
  EXPECT_EQ(o.output, "-");
  EXPECT_GT(o.budget_s, 1e300);
  EXPECT_EQ(o.largest, int64_t{4} << 30);
  EXPECT_FALSE(o.place);
}

TEST(CollectiveOptions, APlanIsMeasuredAloneUnlessAGridIsNamed) {
  EXPECT_EQ(read({"--plan", "p.csv"}).grid, "none");
  EXPECT_EQ(read({"--plan", "p.csv", "--grid", "small"}).grid, "small");
}

TEST(CollectiveOptions, EveryFlagIsRead) {
  const CollectiveOptions o = read({"-o",
                                    "t.csv",
                                    "--budget",
                                    "5min",
                                    "--largest",
                                    "512M",
                                    "--gpus",
                                    "4",
                                    "--ranks",
                                    "16",
                                    "--rank",
                                    "15",
                                    "--meeting",
                                    "/m",
                                    "--patience",
                                    "90s",
                                    "--gpu",
                                    "h100-sxm",
                                    "--nic-gbs",
                                    "50",
                                    "--nvlink-gbs",
                                    "450",
                                    "--in-network-reduction",
                                    "no",
                                    "--network",
                                    "roce",
                                    "--list",
                                    "--nodes",
                                    "2",
                                    "--hosts-per-node",
                                    "18"});
  EXPECT_EQ(o.output, "t.csv");
  EXPECT_EQ(o.budget_s, 300);
  EXPECT_EQ(o.largest, 512 << 20);
  EXPECT_EQ(o.gpus, 4);
  ASSERT_TRUE(o.place);
  EXPECT_EQ(o.place->rank, 15);
  EXPECT_EQ(o.place->ranks, 16);
  EXPECT_EQ(o.meeting, "/m");
  EXPECT_EQ(o.patience_s, 90);
  EXPECT_EQ(o.gpu, "h100-sxm");
  EXPECT_EQ(o.nic_gbs, 50);
  EXPECT_EQ(o.nvlink_gbs, 450);
  EXPECT_EQ(o.in_network_reduction, std::optional(false));
  EXPECT_EQ(o.network, NicDriver::roce);
  EXPECT_TRUE(o.list);
  EXPECT_EQ(o.nodes, 2);
  EXPECT_EQ(o.hosts_per_node, 18);
}

TEST(CollectiveOptions, WrongOnesAreRefusedWithASentence) {
  EXPECT_THAT(refusal({"--network", "ethernet"}), HasSubstr("one of verbs, roce"));
  EXPECT_THAT(refusal({"--fast"}), HasSubstr("there is no flag '--fast'"));
  EXPECT_THAT(refusal({"--plan"}), HasSubstr("--plan needs a value"));
  EXPECT_THAT(refusal({"--gpus", "0"}), HasSubstr("--gpus takes a whole number from 1, not '0'"));
  EXPECT_THAT(refusal({"--gpus", "4x"}), HasSubstr("not '4x'"));
  EXPECT_THAT(refusal({"--grid", "huge"}), HasSubstr("none, small or full"));
  EXPECT_THAT(refusal({"--grid", "none"}), HasSubstr("nothing to measure"));
  EXPECT_THAT(refusal({"--nic-gbs", "0"}), HasSubstr("GB/s above 0"));
  EXPECT_THAT(refusal({"--nic-gbs", "400Gb"}), HasSubstr("GB/s above 0"));
  EXPECT_THAT(refusal({"--in-network-reduction", "maybe"}), HasSubstr("yes or no"));
  EXPECT_THAT(refusal({"--largest", "8G"}), HasSubstr("4G at most"));
}

TEST(CollectiveOptions, RanksNeedEachOtherAndAMeetingPlace) {
  EXPECT_THAT(refusal({"--ranks", "2"}), HasSubstr("belong together"));
  EXPECT_THAT(refusal({"--rank", "0"}), HasSubstr("belong together"));
  EXPECT_THAT(refusal({"--ranks", "2", "--rank", "1"}), HasSubstr("--meeting"));
  EXPECT_THAT(refusal({"--ranks", "2", "--rank", "2", "--meeting", "m"}), HasSubstr("from 0 to 1"));
  EXPECT_EQ(refusal({"--ranks", "1", "--rank", "0"}), "");
}

TEST(CollectiveOptions, TimesAndSizesHaveUnits) {
  EXPECT_EQ(seconds_of("90"), 90);
  EXPECT_EQ(seconds_of("90s"), 90);
  EXPECT_EQ(seconds_of("2.5min"), 150);
  EXPECT_EQ(seconds_of("1h"), 3600);
  EXPECT_EQ(bytes_of("8"), 8);
  EXPECT_EQ(bytes_of("64KiB"), 65536);
  EXPECT_EQ(bytes_of("1.5M"), 3 << 19);
  EXPECT_EQ(bytes_of("4G"), int64_t{4} << 30);
  for (const char* text : {"", "min", "0s", "-1s", "5 min", "5m", "nan", "inf"}) {
    EXPECT_THAT(complaint_of([&] { seconds_of(text); }), HasSubstr("90s, 5min or 1h")) << text;
  }
  for (const char* text : {"", "G", "0", "-8", "8T", "8MB", "1e99"}) {
    EXPECT_THAT(complaint_of([&] { bytes_of(text); }), HasSubstr("64K, 512M or 4G")) << text;
  }
}

TEST(CollectiveOptions, ProcessesMeetAtAFileOrOverMpi) {
  const auto mpirun = environment({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  const auto nobody = environment({});
  EXPECT_EQ(gathering(read({}), nobody, true).meet, Meet::alone);
  EXPECT_EQ(gathering(read({}), mpirun, true).meet, Meet::mpi);
  EXPECT_EQ(gathering(read({"--meeting", "m"}), mpirun, true).meet, Meet::file);
  EXPECT_EQ(gathering(read({"--meeting", "m"}), mpirun, false).place.rank, 1);
  EXPECT_THAT(complaint_of([&] { gathering(read({}), mpirun, false); }),
              HasSubstr("process 1 of 4"));
  const Gathering stated =
      gathering(read({"--ranks", "2", "--rank", "0", "--meeting", "m"}), mpirun, true);
  EXPECT_EQ(stated.place.ranks, 2);
  EXPECT_EQ(stated.meet, Meet::file);
  const auto one = environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(gathering(read({}), one, false).meet, Meet::alone);
}

TEST(CollectiveOptions, AChoiceOfGpusIsThatOfOneProcessAlone) {
  const auto mpirun = environment({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  const auto nobody = environment({});
  EXPECT_EQ(gathering(read({"--gpus", "4"}), nobody, true).meet, Meet::alone);
  EXPECT_THAT(complaint_of([&] {
                gathering(read({"--gpus", "4"}), mpirun, true);
              }),
              HasSubstr("--gpus is of one process alone; here are 4"));
  const auto stated = read({"--gpus", "1", "--ranks", "2", "--rank", "0", "--meeting", "m"});
  EXPECT_THAT(complaint_of([&] { gathering(stated, nobody, false); }), HasSubstr("here are 2"));
}

std::vector<RankPlace> two_nodes() {
  return {{0, 0, 0}, {1, 1, 0}, {2, 0, 1}, {3, 1, 1}};
}

constexpr const char* kPlan =
    "# stepcast calibration plan\n"
    "# format: 1\n"
    "# gpu: h100-sxm\n"
    "collective,all_reduce,2,1,2,0,50331648,0.25,roofline\n"
    "collective,all_gather,4,2,2,50,4194304,0.5,roofline\n"
    "collective,all_gather,64,8,8,50,4194304,0.5,roofline\n";

TEST(CollectiveOptions, ThePlansPointsComeWithoutAGrid) {
  std::vector<std::string> left_out;
  const auto points = chosen_points(read({"--plan", "p.csv"}), kPlan, two_nodes(), 50, left_out);
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_TRUE(std::any_of(points.begin(), points.end(), [](const SweepPoint& p) {
    return p.key == "collective,all_gather,4,2,2,50,4194304";
  }));
  EXPECT_THAT(left_out, ElementsAre(HasSubstr("64 ranks on 8 nodes")));
}

TEST(CollectiveOptions, ThePlansShapesComeBeforeThoseOfTheGrid) {
  std::vector<std::string> left_out;
  const auto points =
      chosen_points(read({"--plan", "p.csv", "--grid", "small"}), kPlan, two_nodes(), 50, left_out);
  ASSERT_GT(points.size(), 100U);
  std::vector<std::string> first{points[0].key, points[1].key};
  std::sort(first.begin(), first.end());
  EXPECT_THAT(first, ElementsAre("collective,all_gather,4,2,2,50,4194304",
                                 "collective,all_reduce,2,1,2,0,50331648"));
}

TEST(CollectiveOptions, NothingIsLargerThanAsked) {
  std::vector<std::string> left_out;
  const auto points =
      chosen_points(read({"--plan", "p.csv", "--largest", "8M"}), kPlan, two_nodes(), 50, left_out);
  EXPECT_THAT(points, SizeIs(1));
  EXPECT_THAT(left_out, ElementsAre(HasSubstr("64 ranks"), HasSubstr("larger than --largest")));
}

TEST(CollectiveOptions, GroupsThatSpanNodesNeedToKnowTheNics) {
  std::vector<std::string> left_out;
  EXPECT_THAT(complaint_of([&] { chosen_points(read({}), "", two_nodes(), 0, left_out); }),
              HasSubstr("--nic-gbs"));
  const std::vector<RankPlace> one_node{{0, 0, 0}, {0, 1, 0}};
  EXPECT_FALSE(chosen_points(read({}), "", one_node, 0, left_out).empty());
  EXPECT_THAT(left_out, IsEmpty());
}

TEST(CollectiveOptions, ABrokenPlanIsRefusedWithItsPlace) {
  std::vector<std::string> left_out;
  try {
    chosen_points(read({"--plan", "p.csv"}), "not a plan\n", two_nodes(), 50, left_out);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics[0].file, "p.csv");
    EXPECT_EQ(e.diagnostics[0].code, "E340");
  }
}

}  // namespace
}  // namespace stepcast::measure::collectives_options_test
