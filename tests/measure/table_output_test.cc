// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/table_output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "sim/diagnostic.h"

namespace stepcast::measure::table_output_test {
namespace {

namespace fs = std::filesystem;

class TableOutputFile : public ::testing::Test {
 protected:
  TableOutputFile()
      : folder_(fs::temp_directory_path() /
                ("table_output_" + std::to_string(::getpid()) + '_' +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
    header_.gpu = "h100-sxm";
    header_.software = "CUDA 13.0";
    header_.sources.push_back({"here", false, "stepcast-measure on a test"});
  }
  ~TableOutputFile() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ / "table.csv"; }
  std::string partial() const { return path() + ".partial"; }
  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(file, std::ios::binary) << text;
  }

  fs::path folder_;
  TableText header_;
};

SweepPoint point(const std::string& key) {
  SweepPoint p;
  p.key = key;
  return p;
}

const std::string kFirst = "gemm,bf16,tn,512,512,512,1", kSecond = "memory,add,1048576";
const PointResult kTime{{10.5}, 0.02, {}};

std::string code_of(const InputError& e) {
  return e.diagnostics.front().code;
}

TEST_F(TableOutputFile, FinishedTableIsCanonicalAndTheOtherFileIsGone) {
  TableOutput out(path(), header_);
  out.append(point(kSecond), kTime);
  out.append(point(kFirst), kTime);
  out.append(point("interference"), {{1.2, 1.1}, 0, {}});
  out.add_condition("1980 MHz");
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(out.finish(), "");
  EXPECT_FALSE(fs::exists(partial()));
  const TableText table = parse_table_text(read(path()), "t");
  ASSERT_EQ(table.gemms.size(), 1U);
  EXPECT_DOUBLE_EQ(table.gemms[0].us, 10.5);
  EXPECT_EQ(table.memories.size(), 1U);
  EXPECT_EQ(table.conditions, std::vector<std::string>{"1980 MHz"});
  EXPECT_DOUBLE_EQ(table.interference->second, 1.1);
}

TEST_F(TableOutputFile, RowsAreOnDiskAtOnceAndTakenUpByTheNextRun) {
  {
    TableOutput out(path(), header_);
    out.append(point(kFirst), kTime);
  }  // as after a crash
  EXPECT_NE(read(partial()).find(kFirst + ",10.5,here,0.02\n"), std::string::npos);
  TableOutput again(path(), header_);
  EXPECT_TRUE(again.has(kFirst));
  EXPECT_FALSE(again.has(kSecond));
  again.append(point(kSecond), kTime);
  again.finish();
  EXPECT_EQ(parse_table_text(read(path()), "t").memories.size(), 1U);
  EXPECT_EQ(parse_table_text(read(path()), "t").gemms.size(), 1U);
}

TEST_F(TableOutputFile, AFinishedTableIsGoneOnWith) {
  for (const std::string& key : {kFirst, kSecond}) {
    TableOutput out(path(), header_);
    EXPECT_FALSE(out.has(key));
    out.append(point(key), kTime);
    out.finish();
  }
  EXPECT_EQ(TableOutput(path(), header_).rows(), 2);
}

TEST_F(TableOutputFile, AHalfWrittenLineIsDropped) {
  {
    TableOutput out(path(), header_);
    out.append(point(kFirst), kTime);
  }
  write(partial(), read(partial()) + "gemm,bf16,tn,1024,10");
  TableOutput again(path(), header_);
  EXPECT_TRUE(again.has(kFirst));
  EXPECT_EQ(again.rows(), 1);
  again.finish();
  EXPECT_EQ(parse_table_text(read(path()), "t").gemms.size(), 1U);
}

TEST_F(TableOutputFile, ARunThatEndedBeforeItsHeaderWasThereIsBegunAnew) {
  write(partial(), "# stepcast co");
  EXPECT_EQ(TableOutput(path(), header_).rows(), 0);
}

TEST_F(TableOutputFile, OtherHardwareOrSoftwareIsRefused) {
  {
    TableOutput out(path(), header_);
    out.append(point(kFirst), kTime);
  }
  TableText other = header_;
  other.gpu = "a100-sxm-80g";
  try {
    TableOutput out(path(), other);
    ADD_FAILURE() << "taken";
  } catch (const InputError& e) {
    EXPECT_EQ(code_of(e), "E310");
    EXPECT_NE(e.diagnostics.front().message.find("'a100-sxm-80g'"), std::string::npos);
  }
  other = header_;
  other.software = "CUDA 12.4";
  EXPECT_THROW(TableOutput(path(), other), InputError);
  other = header_;
  other.sources[0].text = "stepcast-measure on another machine";
  EXPECT_THROW(TableOutput(path(), other), InputError);
  EXPECT_NE(read(partial()).find(kFirst), std::string::npos);
}

const std::string kCollective = "collective,all_reduce,8,1,8,0,1048576";

TEST_F(TableOutputFile, CollectivesOfAnotherNetworkAreRefused) {
  header_.nvlink_gbs = 450.1;
  header_.in_network_reduction = true;
  {
    TableOutput out(path(), header_);
    out.append(point(kCollective), kTime);
  }
  EXPECT_TRUE(TableOutput(path(), header_).has(kCollective));
  const auto message_with = [&](const TableText& header) -> std::string {
    try {
      TableOutput out(path(), header);
    } catch (const InputError& e) {
      return code_of(e) + ' ' + e.diagnostics.front().message;
    }
    return "taken";
  };
  TableText other = header_;
  other.nvlink_gbs = 900;
  EXPECT_EQ(message_with(other), "E310 was measured with nvlink_gbs '450.1', this is '900'");
  other = header_;
  other.in_network_reduction = false;
  EXPECT_EQ(message_with(other), "E310 was measured with in_network_reduction 'yes', this is 'no'");
  other = header_;
  other.sources[0].wires.network = NicDriver::efa;
  EXPECT_EQ(message_with(other), "E310 was measured over '', this is 'efa'");
}

TEST_F(TableOutputFile, WithoutCollectivesTheNetworkIsThatOfTheLastRun) {
  header_.nvlink_gbs = 450;
  {
    TableOutput out(path(), header_);
    out.append(point(kFirst), kTime);
  }
  header_.nvlink_gbs = 900;
  header_.in_network_reduction = true;
  TableOutput again(path(), header_);
  EXPECT_TRUE(again.has(kFirst));
  again.append(point(kCollective), kTime);
  again.finish();
  const TableText table = parse_table_text(read(path()), "t");
  EXPECT_EQ(table.nvlink_gbs, 900);
  EXPECT_TRUE(table.in_network_reduction);
}

TEST_F(TableOutputFile, AForeignFileIsRefusedAndLeftAlone) {
  write(path(), "notes of mine\n");
  EXPECT_THROW(TableOutput(path(), header_), InputError);
  EXPECT_EQ(read(path()), "notes of mine\n");
}

TEST_F(TableOutputFile, AnEditedTableIsNotGoneOnWith) {
  {
    TableOutput out(path(), header_);
    out.append(point(kFirst), kTime);
    out.finish();
  }
  std::string text = read(path());
  text.replace(text.find("10.5"), 4, "10.6");
  write(path(), text);
  EXPECT_THROW(TableOutput(path(), header_), InputError);
}

TEST_F(TableOutputFile, AFolderThatIsNotThereIsAnErrorOfOutput) {
  try {
    TableOutput out((folder_ / "missing" / "t.csv").string(), header_);
    ADD_FAILURE() << "taken";
  } catch (const InputError& e) {
    EXPECT_EQ(code_of(e), "E502");
    EXPECT_EQ(exit_status_of(e.diagnostics), 7);
  }
}

TEST_F(TableOutputFile, StandardOutputGetsTheTextAtTheEnd) {
  TableOutput out("-", header_);
  out.append(point(kFirst), kTime);
  EXPECT_EQ(parse_table_text(out.finish(), "t").gemms.size(), 1U);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace stepcast::measure::table_output_test
