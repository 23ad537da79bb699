// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include "calibrate/measure/collectives/processes.h"
#include "tests/measure/complaint.h"

namespace stepcast::measure::collectives_processes_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::optional<ProcessPlace> launched(const std::map<std::string, std::string>& environment) {
  return place_of_launcher([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Processes, LaunchersSayWhichOneThisIs) {
  const std::vector<std::pair<std::string, std::string>> launchers{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
      {"RANK", "WORLD_SIZE"}};
  for (const auto& [rank, ranks] : launchers) {
    const auto place = launched({{rank, "3"}, {ranks, "16"}});
    ASSERT_TRUE(place) << rank;
    EXPECT_EQ(place->rank, 3);
    EXPECT_EQ(place->ranks, 16);
  }
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}}));  // a batch script
}

TEST(Processes, ALauncherThatMakesNoSenseIsRefused) {
  EXPECT_THAT(complaint_of([] {
                launched({{"RANK", "x"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("RANK is not a number of a process: 'x'"));
  EXPECT_THAT(complaint_of([] {
                launched({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("process 2 of 2"));
  EXPECT_THAT(complaint_of([] {
                launched({{"RANK", "-1"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("'-1'"));
}

TEST(Processes, RecordsAreReadBack) {
  const ProcessRecord here{"node-17.cluster", 8, 49.99, "ab01"};
  const ProcessRecord back = read_record(write_record(here));
  EXPECT_EQ(back.host, here.host);
  EXPECT_EQ(back.devices, 8);
  EXPECT_EQ(back.nic_gbs, 49.99);
  EXPECT_EQ(back.token, "ab01");
  EXPECT_EQ(read_record(write_record({"a", 1, 0, ""})).token, "");
}

TEST(Processes, BrokenRecordsAreRefused) {
  for (const char* text : {"", "a", "a 1 0", "a x 0 -", "a -1 0 -", "a 1 -2 -", "a 1 0 - more"}) {
    EXPECT_THAT(complaint_of([&] { read_record(text); }), HasSubstr("not what a process")) << text;
  }
}

TEST(Processes, BytesAreOneWordAndBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(hex_of("\x0f\xf0 "), "0ff020");
  EXPECT_EQ(bytes_of_hex(hex_of(bytes)), bytes);
  EXPECT_THROW(bytes_of_hex("0"), InputError);
  EXPECT_THROW(bytes_of_hex("0g"), InputError);
}

std::vector<std::string> written(const std::vector<RankPlace>& ranks) {
  std::vector<std::string> all;
  for (const RankPlace& r : ranks) {
    all.push_back(std::to_string(r.process) + ":" + std::to_string(r.device) + "@" +
                  std::to_string(r.node));
  }
  return all;
}

TEST(Processes, OneProcessDrivesAllItsGpus) {
  const std::vector<ProcessRecord> one{{"a", 4, 0, ""}};
  EXPECT_THAT(written(place_ranks(one)), ElementsAre("0:0@0", "0:1@0", "0:2@0", "0:3@0"));
  EXPECT_THAT(written(place_ranks(one, 2)), ElementsAre("0:0@0", "0:1@0"));
  EXPECT_EQ(place_ranks(one, 9).size(), 4U);
}

TEST(Processes, RanksStandNodeByNodeHoweverTheLauncherCounts) {
  const std::vector<ProcessRecord> in_turn{
      {"b", 2, 0, ""}, {"a", 2, 0, ""}, {"b", 2, 0, ""}, {"a", 2, 0, ""}};
  EXPECT_THAT(written(place_ranks(in_turn)), ElementsAre("0:0@0", "2:1@0", "1:0@1", "3:1@1"));
}

TEST(Processes, AProcessThatSeesOneGpuTakesIt) {
  const std::vector<ProcessRecord> own{{"a", 1, 0, ""}, {"a", 1, 0, ""}};
  EXPECT_THAT(written(place_ranks(own)), ElementsAre("0:0@0", "1:0@0"));
}

TEST(Processes, SeveralHostsMayMakeANode) {
  const std::vector<ProcessRecord> hosts{{"a", 2, 0, ""}, {"b", 2, 0, ""}, {"c", 2, 0, ""},
                                         {"a", 2, 0, ""}, {"b", 2, 0, ""}, {"c", 2, 0, ""}};
  EXPECT_THAT(written(place_ranks(hosts, 0, 2)),
              ElementsAre("0:0@0", "3:1@0", "1:0@0", "4:1@0", "2:0@1", "5:1@1"));
}

TEST(Processes, WithoutEnoughGpusTheyAreRefused) {
  const std::vector<ProcessRecord> crowded{{"a", 2, 0, ""}, {"a", 2, 0, ""}, {"a", 2, 0, ""}};
  EXPECT_THAT(complaint_of([&] { place_ranks(crowded); }), HasSubstr("more processes on a"));
  const std::vector<ProcessRecord> blind{{"a", 2, 0, ""}, {"b", 0, 0, ""}};
  EXPECT_THAT(complaint_of([&] { place_ranks(blind); }), HasSubstr("on b sees no GPU"));
}

TEST(Processes, GpusShareTheNicsOfTheirHost) {
  const std::vector<ProcessRecord> alone{{"a", 8, 400, ""}};
  EXPECT_EQ(nic_share_gbs(alone), 50);
  // Each process sees one GPU: as many as there are processes.
  const std::vector<ProcessRecord> own{
      {"a", 1, 100, ""}, {"a", 1, 100, ""}, {"a", 1, 100, ""}, {"a", 1, 100, ""}};
  EXPECT_EQ(nic_share_gbs(own), 25);
}

TEST(Processes, TheHostWithTheLeastNicsDecides) {
  const std::vector<ProcessRecord> hosts{{"b", 8, 400, ""}, {"a", 8, 200, ""}};
  EXPECT_EQ(nic_share_gbs(hosts), 25);
  const std::vector<ProcessRecord> unknown{{"a", 8, 400, ""}, {"b", 8, 0, ""}};
  EXPECT_EQ(nic_share_gbs(unknown), 0);
  EXPECT_EQ(nic_share_gbs({}), 0);
}

// A folder of its own for each test, removed at the end.
class MeetingPlace : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("meeting_") + std::to_string(getpid()) +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Meeting meeting(int rank, int ranks, uint64_t nonce) const {
    return {(folder_ / "here").string(), {rank, ranks}, nonce, milliseconds(20000)};
  }
  void leave(const std::string& suffix, const std::string& text) const {
    std::ofstream(folder_ / ("here." + suffix)) << text;
  }

  fs::path folder_;
};

TEST_F(MeetingPlace, TwoProcessesLearnWhatEachSays) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int status = 1;
    try {
      const auto all = meet(meeting(1, 2, 22), "from one");
      status = all == std::vector<std::string>{"from zero", "from one"} ? 0 : 2;
    } catch (const std::exception&) {
    }
    _exit(status);
  }
  EXPECT_THAT(meet(meeting(0, 2, 11), "from zero"), ElementsAre("from zero", "from one"));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(MeetingPlace, FilesOfAnEarlierRunAreNotBelieved) {
  leave("open", "7");
  leave("1", "8 7 stale one\n");
  leave("2", "9 7 stale two\n");
  leave("all", "7 7 stale zero\n8 7 stale one\n9 7 stale two\n");
  std::vector<std::vector<std::string>> heard(3);
  std::vector<std::thread> threads;
  for (int rank = 2; rank >= 0; --rank) {
    threads.emplace_back([&, rank] {
      heard[static_cast<size_t>(rank)] =
          meet(meeting(rank, 3, 100 + static_cast<uint64_t>(rank)), "new " + std::to_string(rank));
    });
    std::this_thread::sleep_for(milliseconds(30));  // the stale files are read by those who wait
  }
  for (std::thread& t : threads) t.join();
  for (const auto& all : heard) EXPECT_THAT(all, ElementsAre("new 0", "new 1", "new 2"));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(MeetingPlace, OneProcessMeetsItself) {
  EXPECT_THAT(meet(meeting(0, 1, 5), "alone"), ElementsAre("alone"));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(MeetingPlace, WhoDoesNotComeIsNamed) {
  Meeting host = meeting(0, 3, 5);
  host.patience = milliseconds(50);
  EXPECT_THAT(complaint_of([&] { meet(host, "x"); }), HasSubstr("as process 1, 2 of 3"));
  Meeting guest = meeting(1, 3, 6);
  guest.patience = milliseconds(50);
  EXPECT_THAT(complaint_of([&] { meet(guest, "x"); }), HasSubstr("process 0 did not come"));
  leave("open", "77");
  EXPECT_THAT(complaint_of([&] { meet(guest, "x"); }), HasSubstr("not all processes came"));
}

TEST_F(MeetingPlace, AFolderThatIsNotThereIsNamed) {
  Meeting m = meeting(0, 2, 5);
  m.file = (folder_ / "nowhere" / "here").string();
  EXPECT_THAT(complaint_of([&] { meet(m, "x"); }), HasSubstr("nowhere"));
}

TEST_F(MeetingPlace, RanksBeyondTheirNumberAreRefused) {
  EXPECT_THAT(complaint_of([&] { meet(meeting(2, 2, 5), "x"); }), HasSubstr("process 2 of 2"));
  EXPECT_THAT(complaint_of([&] { meet(meeting(0, 2, 5), "two\nlines"); }), HasSubstr("one line"));
}

}  // namespace
}  // namespace stepcast::measure::collectives_processes_test
