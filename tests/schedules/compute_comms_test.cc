// SPDX-License-Identifier: Apache-2.0
#include "schedules/formats/compute_comms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "schedules/formats/action_text.h"
#include "schedules/formats/schedule_csv.h"
#include "tests/csv_rows.h"
#include "tests/schedules/vectors.h"

namespace stepcast::compute_comms_test {
namespace {

using testing::csv_cells;
using ::testing::HasSubstr;

std::string joined(const std::vector<std::string>& cells) {
  std::string row;
  for (const std::string& cell : cells) row += (row.empty() ? "" : ",") + cell;
  return row;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

// In which order several stages are resharded at one place means nothing.
std::string with_sorted_reshards(const std::string& row) {
  std::vector<std::string> cells = csv_cells(row);
  const auto reshards = [](const std::string& cell) { return cell.ends_with("RESHARD"); };
  for (auto from = cells.begin(); from != cells.end();) {
    from = std::find_if(from, cells.end(), reshards);
    const auto to = std::find_if_not(from, cells.end(), reshards);
    std::sort(from, to);
    from = to;
  }
  return joined(cells);
}

std::string without_comms(const std::string& row) {
  std::vector<std::string> cells = csv_cells(row);
  std::erase_if(cells, [](const std::string& cell) { return parse_comm_cell(cell).has_value(); });
  return joined(cells);
}

std::string csv_of(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\r\n";
  return text;
}

TEST(ComputeComms, EqualsWhatPyTorchMakesOfASchedule) {
  int count = 0;
  for (const std::string& line : lines_of(testing::read_file("comm/torch_compute_comms.jsonl"))) {
    const nlohmann::json json = nlohmann::json::parse(line);
    const std::vector<std::string> rows = json.at("ranks");
    std::vector<std::string> compute;
    for (const std::string& row : rows) compute.push_back(without_comms(row));
    const Schedule s = load_schedule_csv(csv_of(compute), "vector");
    const std::vector<std::string> ours = lines_of(write_compute_comms_csv(s));
    ASSERT_EQ(ours.size(), rows.size());
    for (size_t r = 0; r < rows.size(); ++r)
      EXPECT_EQ(with_sorted_reshards(ours[r]), with_sorted_reshards(rows[r])) << line.substr(0, 80);
    // And the rows themselves are such a schedule.
    EXPECT_EQ(write_schedule_csv(load_schedule_csv(csv_of(rows), "vector")), csv_of(compute));
    ++count;
  }
  EXPECT_EQ(count, 10);
}

TEST(ComputeComms, EqualsPyTorchsFiles) {
  for (const char* name : {"interleaved1f1b_pp2_v2_m4", "dualpipev_pp2_m4"}) {
    const std::string text = testing::read_file("csv/" + std::string(name) + "_compute_comms.csv");
    EXPECT_EQ(write_compute_comms_csv(load_schedule_csv(text, name)), text);
  }
}

TEST(ComputeComms, WhatIsWrittenOfEveryFamilyIsSound) {
  for (const ScheduleFamily& family : schedule_families())
    for (const int64_t vpp : {1, 2}) {
      const ScheduleParams params{4, vpp, 8, 0};
      if (check_params(family, params)) continue;
      const Schedule s = generate_schedule(family, params);
      const std::string text = write_compute_comms_csv(s);
      try {
        EXPECT_EQ(load_schedule_csv(text, "x").ranks, s.ranks) << family.name;
      } catch (const InputError& e) {
        ADD_FAILURE() << family.name << ": " << e.what();
      }
    }
}

TEST(ComputeComms, NoMoreThanThreeStagesAreUnsharded) {
  const Schedule s = generate_schedule(*find_schedule_family("interleaved-1f1b"), {2, 5, 4, 0});
  for (const std::string& row : lines_of(write_compute_comms_csv(s))) {
    int unsharded = 0, most = 0;
    for (const std::string& cell : csv_cells(row)) {
      if (cell.ends_with("UNSHARD")) most = std::max(most, ++unsharded);
      if (cell.ends_with("RESHARD")) --unsharded;
    }
    EXPECT_EQ(most, 3);
    EXPECT_EQ(unsharded, 0);
  }
}

TEST(ComputeComms, SequenceSplitsAreNamedInMessages) {
  const Schedule s = load_schedule_csv("0F0.0,0F0.1,0B0.1,0B0.0\n1F0.0,1F0.1,1B0.1,1B0.0", "x");
  const std::string text = write_compute_comms_csv(s);
  EXPECT_THAT(text, HasSubstr("0F0.0,0SEND_F0.0,0F0.1,0SEND_F0.1,0RECV_B0.1,0B0.1"));
  EXPECT_EQ(load_schedule_csv(text, "x").ranks, s.ranks);
}

Diagnostic problem_of(const std::string& text, int status = 2) {
  try {
    load_schedule_csv(text, "comms.csv");
  } catch (const InputError& e) {
    EXPECT_EQ(exit_status_of(e.diagnostics), status) << e.what();
    EXPECT_EQ(e.diagnostics.size(), 1u) << e.what();
    return e.diagnostics.front();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

struct Wrong {
  const char* text;
  const char* message;
  int line, column;
};

void expect_refused(std::initializer_list<Wrong> cases) {
  for (const Wrong& w : cases) {
    const Diagnostic d = problem_of(w.text);
    EXPECT_EQ(d.code, "E402") << w.text;
    EXPECT_EQ(d.message, w.message) << w.text;
    EXPECT_EQ(d.line, w.line) << w.text;
    EXPECT_EQ(d.column, w.column) << w.text;
  }
}

TEST(ComputeComms, EveryMessageIsSentAndReceivedOnceAtTheRightPlaces) {
  EXPECT_NO_THROW(load_schedule_csv("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", "x"));
  expect_refused(
      {{"0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", "`0SEND_F0` is missing after `0F0`", 1, 1},
       {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0", "`1RECV_F0` is missing before `1F0`", 2, 1},
       {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", "`0SEND_F0` comes before `0F0`", 1,
        1},
       {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0",
        "`1RECV_F0` comes after `1F0`, which needs it", 2, 5},
       {"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
        "`0SEND_F0` appears twice on rank 0", 1, 14},
       {"0F0,0SEND_F0,0RECV_B0,0B0,1SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0",
        "`1SEND_F0`: this message does not leave its rank, or does not exist", 1, 27},
       {"0F0,0SEND_F0,0RECV_B0,0B0,1RECV_F0\n1RECV_F0,1F0,1B0,1SEND_B0",
        "`1RECV_F0` is on rank 0, but stage 1 is on rank 1", 1, 27},
       {"0F0,0SEND_F0,0RECV_B0,0B0,0SEND_F1\n1RECV_F0,1F0,1B0,1SEND_B0",
        "`0SEND_F1`: the last microbatch of the schedule is 0", 1, 27},
       {"0F0,0SEND_F0,0RECV_B0,0B0,2SEND_B0\n1RECV_F0,1F0,1B0,1SEND_B0",
        "`2SEND_B0`: this message does not leave its rank, or does not exist", 1, 27},
       {"0F0,0SEND_F0,0RECV_B0,0B0,3RECV_F0\n1RECV_F0,1F0,1B0,1SEND_B0",
        "`3RECV_F0`: this message does not leave its rank, or does not exist", 1, 27},
       {"0F0,1F0,1SEND_F0,1B0,0B0",
        "`1SEND_F0`: this message does not leave its rank, or does not exist", 1, 9},
       {"0F0,0SEND_F0,0RECV_I0,0B0\n1F0,1B0",
        "`0RECV_I0` is not an action: write <stage><F, B, I, W, R, O, L, S, T, E or "
        "G><microbatch>, as in "
        "`5F12`",
        1, 14},
       {"0F0,0SEND_F,0B0\n1F0,1B0",
        "`0SEND_F` is not an action: write <stage><F, B, I, W, R, O, L, S, T, E or G><microbatch>, "
        "as in "
        "`5F12`",
        1, 5},
       {"0UNSHARD1,0F0,0B0",
        "`0UNSHARD1` is not a communication: UNSHARD is of a stage and has no microbatch", 1, 1}});
}

TEST(ComputeComms, WeightsAreThereWhenTheyAreUsedAndGradientsReducedAtTheEnd) {
  EXPECT_NO_THROW(load_schedule_csv("0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0,0REDUCE_GRAD", "x"));
  expect_refused({
      {"0F0,0UNSHARD,0B0", "`0F0` needs the weights: `0UNSHARD` is missing before it", 1, 1},
      {"0UNSHARD,0F0,0RESHARD,0B0", "`0B0` needs the weights: `0UNSHARD` is missing before it", 1,
       23},
      {"0UNSHARD,0UNSHARD,0F0,0B0", "`0UNSHARD`: its weights are there already", 1, 10},
      {"0RESHARD,0UNSHARD,0F0,0B0", "`0RESHARD`: its weights are not unsharded here", 1, 1},
      {"0UNSHARD,1UNSHARD,0F0,0B0", "`1UNSHARD`: stage 1 is not on rank 0", 1, 10},
      {"0F0,0REDUCE_GRAD,0B0", "`0B0` comes after `0REDUCE_GRAD`", 1, 18},
      {"0F0,0I0,0REDUCE_GRAD,0W0", "`0W0` comes after `0REDUCE_GRAD`", 1, 22},
      {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD", "`0REDUCE_GRAD` appears twice on rank 0", 1, 22},
      {"0F0,1F0,1B0,1REDUCE_GRAD,0B0", "`0REDUCE_GRAD` is missing after `0B0`", 1, 26},
  });
}

// Every sentence takes a search for its words, but only twenty are said.
TEST(ComputeComms, AFileThatIsWrongThroughoutIsRefusedSoon) {
  std::string first, second;
  const auto add = [](std::string& row, const std::string& cell) {
    row += (row.empty() ? "" : ",") + cell;
  };
  constexpr int kMicrobatches = 30'000;
  for (int m = 0; m < kMicrobatches; ++m) {
    const std::string id = std::to_string(m);
    for (const char* cell : {"0SEND_F", "0F"}) add(first, cell + id);
    add(second, "1F" + id);
  }
  for (int m = 0; m < kMicrobatches; ++m) {
    const std::string id = std::to_string(m);
    for (const char* cell : {"0B", "0RECV_B"}) add(first, cell + id);
    add(second, "1B" + id);
  }
  const std::clock_t begin = std::clock();
  try {
    load_schedule_csv(first + '\n' + second, "f.csv");
    ADD_FAILURE() << "accepted";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.size(), 20u);
    EXPECT_EQ(e.diagnostics.front().message, "`0SEND_F0` comes before `0F0`");
  }
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 2);
}

TEST(ComputeComms, BothEndsNameTheirTransfersInOneOrder) {
  const Diagnostic d = problem_of(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1",
      4);
  EXPECT_EQ(d.code, "E401");
  EXPECT_EQ(d.message,
            "transfer 3 between ranks 0 and 1 is `0RECV_B1` here, but `1SEND_B0` on the other");
  EXPECT_EQ(d.line, 1);
  EXPECT_EQ(d.column, 27);
  EXPECT_THAT(d.help, HasSubstr("line 2, column 31"));
}

// The actions alone would run, and each pair of ranks agrees on the order of its transfers; but
// ranks 0 and 1 send too late.
TEST(ComputeComms, ACycleThroughLateSendsIsNamed) {
  const Diagnostic d = problem_of(
      "0F0,0SEND_F0,0F1,3RECV_F0,3F0,0SEND_F1,3SEND_F0,3RECV_F1,3F1,3SEND_F1,3RECV_B0,3B0,3SEND_B0,"
      "3RECV_B1,3B1,3SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1SEND_F0,1SEND_F1,4RECV_F0,4F0,4SEND_F0,4RECV_F1,4F1,4SEND_F1,"
      "4RECV_B0,4B0,4SEND_B0,4RECV_B1,4B1,4SEND_B1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\n"
      "2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,5RECV_F0,5F0,5RECV_F1,5F1,5B0,5SEND_B0,5B1,"
      "5SEND_B1,2RECV_B0,2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1\n",
      4);
  EXPECT_EQ(d.code, "E401");
  EXPECT_EQ(d.message, "the schedule deadlocks");
  EXPECT_EQ(d.line, 1);
  EXPECT_EQ(d.column, 27);
  EXPECT_EQ(d.help,
            "rank 0 at `3F0` waits for `2SEND_F0`, which comes after `2F0`; rank 2 at `2F0` waits "
            "for `1SEND_F0`, which comes after `1F1`; rank 1 at `1F1` waits for `0SEND_F1`, which "
            "comes after `3F0`");
}

// Cells removed, doubled or moved at random: refused or sound, and never anything else.
TEST(ComputeComms, ChangedFilesAreJudgedWithoutFail) {
  const std::vector<std::string> rows =
      lines_of(testing::read_file("csv/dualpipev_pp2_m4_compute_comms.csv"));
  std::mt19937 random(3);
  int refused = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<std::string> changed = rows;
    std::string& row = changed[random() % changed.size()];
    std::vector<std::string> cells = csv_cells(row);
    const auto at = cells.begin() + static_cast<ptrdiff_t>(random() % cells.size());
    const bool was_comm = parse_comm_cell(*at).has_value();
    const unsigned how = static_cast<unsigned>(random() % 2);
    if (how == 0)
      cells.insert(at, *at);
    else
      cells.erase(at);
    row = joined(cells);
    try {
      load_schedule_csv(csv_of(changed), "x");
      // Without its last RESHARD a stage merely keeps its weights.
      EXPECT_TRUE(was_comm && how == 1) << row;
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 350);
}

}  // namespace
}  // namespace stepcast::compute_comms_test
