// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace stepcast::measure::collectives_network_test {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A folder like /sys/class/infiniband, removed at the end.
class Adapters : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            (std::string("adapters_") +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void add(const std::string& device, int port, const std::string& rate,
           const std::string& state = "4: ACTIVE\n") const {
    const fs::path folder = root_ / device / "ports" / std::to_string(port);
    fs::create_directories(folder);
    std::ofstream(folder / "rate") << rate;
    std::ofstream(folder / "state") << state;
  }

  fs::path root_;
};

TEST(CollectivesNetwork, ReadsRatesAsLinuxWritesThem) {
  EXPECT_EQ(gbits_of_rate("400 Gb/sec (4X NDR)\n"), 400);
  EXPECT_EQ(gbits_of_rate("100 Gb/sec (4X EDR)"), 100);
  EXPECT_EQ(gbits_of_rate("2.5 Gb/sec (1X SDR)\n"), 2.5);
}

TEST(CollectivesNetwork, RefusesWhatIsNoRate) {
  for (const char* text : {"", "\n", "fast", "400", "400 MB/sec", "-1 Gb/sec", "0 Gb/sec (4X)",
                           "nan Gb/sec", "1e99 Gb/sec"}) {
    EXPECT_FALSE(gbits_of_rate(text)) << text;
  }
}

TEST(CollectivesNetwork, AnActivePortSaysSo) {
  EXPECT_TRUE(is_active("4: ACTIVE\n"));
  EXPECT_FALSE(is_active("1: DOWN\n"));
  EXPECT_FALSE(is_active(""));
}

TEST_F(Adapters, AreReadInTheOrderOfTheirNumbers) {
  add("mlx5_10", 1, "400 Gb/sec (4X NDR)\n");
  add("mlx5_2", 1, "400 Gb/sec (4X NDR)\n");
  add("mlx5_0", 1, "100 Gb/sec (4X EDR)\n", "1: DOWN\n");
  const auto ports = read_network_ports(root_);
  ASSERT_THAT(ports, SizeIs(3));
  EXPECT_EQ(ports[0].device, "mlx5_0");
  EXPECT_FALSE(ports[0].active);
  EXPECT_EQ(ports[0].gbits, 100);
  EXPECT_EQ(ports[1].device, "mlx5_2");
  EXPECT_TRUE(ports[1].active);
  EXPECT_EQ(ports[2].device, "mlx5_10");
}

TEST_F(Adapters, ThatCannotBeReadAreLeftOut) {
  add("mlx5_0", 1, "no rate at all\n");
  fs::create_directories(root_ / "mlx5_1");
  fs::create_directories(root_ / "mlx5_2" / "ports" / "one");
  EXPECT_THAT(read_network_ports(root_), IsEmpty());
  EXPECT_THAT(read_network_ports(root_ / "nowhere"), IsEmpty());
}

TEST_F(Adapters, CountIfTheyAreActiveAndSelected) {
  for (int i = 0; i < 8; ++i) add("mlx5_" + std::to_string(i), 1, "400 Gb/sec (4X NDR)\n");
  add("mlx5_8", 1, "200 Gb/sec (4X HDR)\n", "1: DOWN\n");
  const auto ports = read_network_ports(root_);
  EXPECT_EQ(nic_total_gbs(ports, ""), 400);
  EXPECT_EQ(nic_total_gbs(ports, "mlx5_0,mlx5_1"), 100);
  EXPECT_EQ(nic_total_gbs(ports, "mlx5_9"), 0);
}

TEST(CollectivesNetwork, SettingsOfNcclSelectPorts) {
  const NetworkPort one{"mlx5_1", 1, true, 400};
  const NetworkPort ten{"mlx5_10", 1, true, 400};
  const NetworkPort second{"mlx5_1", 2, true, 400};
  EXPECT_TRUE(is_selected(one, ""));
  EXPECT_TRUE(is_selected(one, " mlx5_0 , mlx5_1 "));
  EXPECT_TRUE(is_selected(ten, "mlx5_1"));  // the beginning of its name
  EXPECT_FALSE(is_selected(ten, "=mlx5_1"));
  EXPECT_TRUE(is_selected(one, "=mlx5_1"));
  EXPECT_FALSE(is_selected(second, "=mlx5_1:1"));
  EXPECT_TRUE(is_selected(second, "=mlx5_1:2"));
  EXPECT_FALSE(is_selected(one, "^mlx5_1"));
  EXPECT_TRUE(is_selected(ten, "^=mlx5_1"));
  EXPECT_FALSE(is_selected(one, "bnxt"));
  EXPECT_FALSE(is_selected(one, ","));
  EXPECT_TRUE(is_selected(one, "^"));
}

TEST(CollectivesNetwork, LinkLayersTellWhatDrivesTheNics) {
  const NetworkPort ib{"mlx5_0", 1, true, 400, "InfiniBand"};
  const NetworkPort storage{"mlx5_9", 1, true, 200, "Ethernet"};
  const NetworkPort down{"mlx5_8", 1, false, 200, "Ethernet"};
  const NetworkPort efa{"rdmap16s27", 1, true, 100, "Unspecified"};
  const auto driver = [](std::vector<NetworkPort> ports, const char* hca = "") {
    return driver_of(ports, hca);
  };
  EXPECT_EQ(driver({ib, down}), NicDriver::verbs);
  EXPECT_EQ(driver({storage}), NicDriver::roce);
  EXPECT_EQ(driver({efa}), NicDriver::efa);
  EXPECT_EQ(driver({ib, storage}), std::nullopt);
  EXPECT_EQ(driver({ib, storage}, "^mlx5_9"), NicDriver::verbs);
  EXPECT_EQ(driver({}), std::nullopt);
}

TEST(CollectivesNetwork, NvlinksAreThoseOfTheDataSheet) {
  EXPECT_EQ(12 * nvlink_gbs_per_link(8, 0), 300);
  EXPECT_EQ(18 * nvlink_gbs_per_link(9, 0), 450);
  EXPECT_EQ(18 * nvlink_gbs_per_link(10, 0), 900);
  EXPECT_EQ(6 * nvlink_gbs_per_link(7, 0), 150);
  EXPECT_EQ(nvlink_gbs_per_link(12, 0), 0);
}

TEST(CollectivesNetwork, SwitchesReduceUnlessSomethingSpeaksAgainstIt) {
  const auto used = [](bool multicast, int version, const char* enable, const char* algo) {
    return switch_reduction(multicast, version, enable, algo).used;
  };
  EXPECT_TRUE(used(true, 22809, "", ""));
  EXPECT_TRUE(used(true, 22809, "2", "nvls,Ring"));
  EXPECT_TRUE(used(true, 22809, "1", "^Tree"));
  EXPECT_FALSE(used(false, 22809, "", ""));
  EXPECT_FALSE(used(true, 21602, "", ""));
  EXPECT_FALSE(used(true, 22809, "0", ""));
  EXPECT_FALSE(used(true, 22809, "", "Ring"));
  EXPECT_FALSE(used(true, 22809, "", "^NVLS,NVLSTree"));
  EXPECT_EQ(switch_reduction(true, 22809, "0", "").reason, "NCCL_NVLS_ENABLE=0");
}

}  // namespace
}  // namespace stepcast::measure::collectives_network_test
