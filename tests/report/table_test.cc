// SPDX-License-Identifier: Apache-2.0
#include "report/text/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stepcast::table_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TableView sample() {
  TableView v;
  v.title = "mine.csv";
  v.gpu = "h100-sxm";
  v.software = "CUDA 12.4";
  v.conditions = {"SM 1755 MHz", "61 C"};
  v.nvlink_gbs = 450;
  v.hash = "0123456789abcdef";
  v.groups = {{"gemm", "gemm bf16 tn", 812, 3, "m 64-8,192", 10.9, 34000, 0.012},
              {"gemm", "gemm bf16 nn", 0, 1, "m 64", 12, 12, 0}};
  v.fits = {{"gemm bf16", 4.1, 623, 2100, 812, 0.031, 0.0824, "scattered", "fit"}};
  v.lines = {{"all_reduce, 8 ranks on 1 node", 21.4, 0, 361, 24, 0.041, 0, "", ""}};
  v.numbers = {{"kernel launch, host", "4.1 us", "host"}};
  v.sources = {{"sweep", "stepcast-measure of \x1b[31mred", false, 815}};
  v.rows = {{"gemm", "bf16 tn 64 64 64 1", "sweep", false, 10.9, 10},
            {"collective", "all, \"reduce\"", "sweep", true, 1.5, 0}};
  return v;
}

TEST(TableView, TextSaysWhereRowsAreFromAndHowFitsHold) {
  const std::string text = table_text(sample());
  EXPECT_THAT(text, HasSubstr("h100-sxm   mine.csv"));
  EXPECT_THAT(text, HasSubstr("450.0 GB/s a GPU, one direction\n"));
  EXPECT_THAT(text,
              HasSubstr("gemm bf16 tn       812        3  m 64-8,192  10.9 us - 34.0 ms   1.2 %"));
  EXPECT_THAT(text, HasSubstr("3.1 %  8.2 %  ! scattered  fit"));
  EXPECT_THAT(text, HasSubstr("all_reduce, 8 ranks on 1 node"));
  EXPECT_THAT(text, HasSubstr("sweep  measured, 815 rows"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(TableView, SummaryLeavesSourcesOut) {
  const std::string text = table_summary(sample());
  EXPECT_THAT(text, HasSubstr("gemm bf16"));
  EXPECT_THAT(text, Not(HasSubstr("sources")));
}

TEST(TableView, AnEmptyTableIsNoError) {
  TableView v;
  v.gpu = "x";
  EXPECT_THAT(table_text(v), HasSubstr("no rows"));
  EXPECT_EQ(table_csv(v), "family,shape,time_us,fitted_us,time_over_fitted,origin,source\n");
}

TEST(TableView, JsonHasFiguresWithTheirUnits) {
  JsonWriter writer;
  writer.begin_object();
  write_table_view(writer, sample());
  writer.end_object();
  const json j = json::parse(writer.text());
  EXPECT_EQ(j["groups"][0]["measured"], 812);
  EXPECT_EQ(j["fits"][0]["flag"], "scattered");
  EXPECT_DOUBLE_EQ(j["fits"][0]["p90_error"], 0.0824);
  EXPECT_DOUBLE_EQ(j["lines"][0]["alpha_us"], 21.4);
  EXPECT_EQ(j["conditions"][1], "61 C");
  EXPECT_EQ(j["hash"], "0123456789abcdef");
}

TEST(TableView, CsvPutsTheFitBesideEachRow) {
  EXPECT_EQ(table_csv(sample()),
            "family,shape,time_us,fitted_us,time_over_fitted,origin,source\n"
            "gemm,bf16 tn 64 64 64 1,10.9,10.000,1.0900,measured,sweep\n"
            "collective,\"all, \"\"reduce\"\"\",1.5,,,derived,sweep\n");
}

TEST(TableView, TimesHaveThreeDigits) {
  EXPECT_EQ(micros_text(4.123), "4.12 us");
  EXPECT_EQ(micros_text(41.23), "41.2 us");
  EXPECT_EQ(micros_text(412.3), "412 us");
  EXPECT_EQ(micros_text(4123), "4.12 ms");
  EXPECT_EQ(micros_text(41234567), "41.2 s");
}

}  // namespace
}  // namespace stepcast::table_test
