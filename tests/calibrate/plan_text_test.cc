// SPDX-License-Identifier: Apache-2.0
#include "calibrate/plan/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/diagnostic.h"

namespace stepcast::plan_text_test {
namespace {

using ::testing::HasSubstr;

const std::string kHeader =
    "# stepcast calibration plan\n# format: 1\n# gpu: h100-sxm\n# scenario: run 0123\n";

const std::string kRows =
    "gemm,bf16,tn,4096,28672,8192,1,0.25,measured\n"
    "grouped_gemm,fp8,nt,128,2048,7168,32,0.125,roofline\n"
    "attention,fwd,bf16,1,32,8,4096,4096,128,2,0.0625,interpolated\n"
    "attention,bwd,bf16,0,128,128,4096,4096,192/128,1,0.03,extrapolated\n"
    "memory,rms_norm,67108864,0.01,measured\n"
    "copy,h2d,1048576,0.001,roofline\n"
    "collective,all_reduce,16,2,8,50,33554432,0.0001,roofline\n"
    "collective,send_recv,2,1,2,0,8388608,1.5e-05,roofline\n";

PlanText parse(const std::string& rows) {
  return parse_plan_text(kHeader + rows, "plan.csv");
}

std::string refused(const std::string& text) {
  try {
    parse_plan_text(text, "plan.csv");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(PlanText, WhatIsWrittenIsReadBack) {
  const PlanText plan = parse(kRows);
  ASSERT_EQ(plan.rows.size(), 8U);
  const std::string text = write_plan(plan);
  EXPECT_THAT(text, HasSubstr(kRows));
  EXPECT_EQ(write_plan(parse_plan_text(text, "again.csv")), text);
}

TEST(PlanText, RowsSayTheWholeShape) {
  const PlanText plan = parse(kRows);
  EXPECT_EQ(plan.gpu, "h100-sxm");
  EXPECT_EQ(plan.scenarios, std::vector<std::string>{"run 0123"});
  const Work& gemm = plan.rows[0].work;
  EXPECT_EQ(gemm.kind, WorkKind::gemm);
  EXPECT_EQ(gemm.flops.value, 2.0 * 4096 * 28672 * 8192);
  EXPECT_FALSE(gemm.accumulate);
  EXPECT_DOUBLE_EQ(plan.rows[0].weight, 0.25);
  EXPECT_EQ(plan.rows[0].origin, Origin::measured);
  EXPECT_EQ(plan.rows[1].work.kind, WorkKind::grouped_gemm);
  EXPECT_TRUE(plan.rows[1].work.accumulate);
  EXPECT_EQ(plan.rows[1].work.flops.value, 2.0 * 32 * 128 * 2048 * 7168);
  const Work& attention = plan.rows[2].work;
  EXPECT_EQ(attention.flops.value, 2.0 * 2 * 32 * 4096 * 4096 * 128);  // half of it: causal
  const Work& latent = plan.rows[3].work;
  EXPECT_EQ(latent.k, 192);
  EXPECT_EQ(latent.value_dim, 128);
  EXPECT_EQ(latent.flops.value, 2.5 * 2 * 128 * 4096 * 4096 * (192 + 128));
  const PlanRow& reduce = plan.rows[6];
  EXPECT_EQ(reduce.ranks, 16);
  EXPECT_EQ(reduce.nodes, 2);
  EXPECT_EQ(reduce.ranks_per_node, 8);
  EXPECT_EQ(reduce.nic_gbs, 50);
  EXPECT_EQ(reduce.work.bytes.value, 33554432);
}

TEST(PlanText, ForeignAndNewerFilesAreRefused) {
  EXPECT_THAT(refused(""), HasSubstr("E340"));
  EXPECT_THAT(refused("# stepcast cost table\n# format: 1\n"), HasSubstr("plan.csv:1"));
  EXPECT_THAT(refused("# stepcast calibration plan\n# format: 9\n"), HasSubstr("newer"));
  EXPECT_THAT(refused("# stepcast calibration plan\n# gpu: x\n"), HasSubstr("# format: 1"));
  EXPECT_THAT(refused("# stepcast calibration plan\n# format: 1\n"), HasSubstr("# gpu: NAME"));
}

TEST(PlanText, MistakesAreNamedWithTheirLines) {
  const auto problem = [](const std::string& row) { return refused(kHeader + row + '\n'); };
  EXPECT_THAT(problem("gem,bf16,tn,1,1,1,1,1,measured"),
              HasSubstr("plan.csv:5:1: E341 unknown kind of row 'gem'"));
  EXPECT_THAT(problem("gemm,bf16,tn,1,1,1,1,measured"), HasSubstr("has 9 fields, not 8"));
  EXPECT_THAT(problem("gemm,bf17,tn,1,1,1,1,1,measured"), HasSubstr("data type 'bf17'"));
  EXPECT_THAT(problem("gemm,bf16,tn,0,1,1,1,1,measured"), HasSubstr("m must be a whole number"));
  EXPECT_THAT(problem("gemm,bf16,tn,1,1,1,1,nan,measured"), HasSubstr("weight"));
  EXPECT_THAT(problem("gemm,bf16,tn,1,1,1,1,-1,measured"), HasSubstr("weight"));
  EXPECT_THAT(problem("gemm,bf16,tn,1,1,1,1,1,guessed"), HasSubstr("origin 'guessed'"));
  EXPECT_THAT(problem("attention,fwd,bf16,1,8,8,1,1,128/,1,1,measured"), HasSubstr("values"));
  EXPECT_THAT(problem("attention,both,bf16,1,8,8,1,1,128,1,1,measured"), HasSubstr("'both'"));
  EXPECT_THAT(problem("memory,none,1,1,measured"), HasSubstr("'none'"));
  EXPECT_THAT(problem("collective,gemm,2,1,2,0,8,1,measured"), HasSubstr("not a collective"));
  EXPECT_THAT(problem("collective,all_reduce,1,1,1,0,8,1,measured"), HasSubstr("ranks"));
  EXPECT_THAT(problem("copy,d2d,1,1,measured"), HasSubstr("'d2d'"));
}

TEST(PlanText, APlanThatWasCutAtTheEndOfALineIsNoticed) {
  const std::string text = write_plan(parse(kRows));
  EXPECT_THAT(text, HasSubstr("# shapes: 8\n"));
  const size_t last = text.rfind('\n', text.size() - 2);
  EXPECT_THAT(refused(text.substr(0, last + 1)),
              AllOf(HasSubstr("E340"), HasSubstr("8 shapes, and there are 7")));
  EXPECT_THAT(refused(text + "memory,add,8,0.1,measured\n"), HasSubstr("there are 9"));
  EXPECT_EQ(refused(kHeader + kRows), "");  // written by hand: nothing is counted
}

TEST(PlanText, AtMostTwentyProblemsAreNamed) {
  std::string rows;
  for (int i = 0; i < 50; ++i) rows += "x\n";
  try {
    parse(rows);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.size(), 20U);
  }
}

}  // namespace
}  // namespace stepcast::plan_text_test
