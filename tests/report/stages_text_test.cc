// SPDX-License-Identifier: Apache-2.0
#include "report/text/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

namespace stepcast {
namespace {

std::array<StageLine, 2> two_stages() {
  std::array<StageLine, 2> stages;
  stages[0] = {.rank = 1,
               .forward = Time{10'000'000'000},
               .backward = Time{19'500'000'000},
               .backward_input = Time{12'000'000'000},
               .backward_weight = Time{8'000'000'000},
               .after_forward = 300,
               .after_input = 200,
               .hop = Time{250'000'000}};
  stages[1] = stages[0];
  stages[1].rank = 0;
  stages[1].hop.reset();
  return stages;
}

TEST(StagesText, IsAFileForScheduleEval) {
  EXPECT_EQ(explain_stages("run", two_stages()),
            "# run, one microbatch: passes and transfers in ms, bytes held after F and I.\n"
            "# For stepcast schedule eval FAMILY --stages FILE --costs 0,0,0,0.250\n"
            "#       F        I       W  after F  after I       B  # stage  pp rank    hop\n"
            "  10.000,  12.000,  8.000,     300,     200,  19.500      # 0        1  0.250\n"
            "  10.000,  12.000,  8.000,     300,     200,  19.500      # 1        0      -\n");
}

TEST(StagesText, JsonHasTheTimesExactly) {
  const auto j = nlohmann::json::parse(
      json_document([&](JsonWriter& json) { write_stages(json, two_stages()); }))["stages"];
  ASSERT_EQ(j.size(), 2U);
  EXPECT_EQ(j[0]["stage"], 0);
  EXPECT_EQ(j[0]["pp_rank"], 1);
  EXPECT_EQ(j[0]["forward_ps"], 10'000'000'000);
  EXPECT_EQ(j[0]["backward_ps"], 19'500'000'000);
  EXPECT_EQ(j[0]["backward_input_ps"], 12'000'000'000);
  EXPECT_EQ(j[0]["backward_weight_ps"], 8'000'000'000);
  EXPECT_EQ(j[0]["bytes_after_forward"], 300);
  EXPECT_EQ(j[0]["bytes_after_input"], 200);
  EXPECT_EQ(j[0]["hop_ps"], 250'000'000);
  EXPECT_TRUE(j[1]["hop_ps"].is_null());
}

}  // namespace
}  // namespace stepcast
