// SPDX-License-Identifier: Apache-2.0
// What a cluster's own runs say of its in-situ parameters.
#include "calibrate/fit/own_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calibrate/fit/own_runs_text.h"
#include "sim/diagnostic.h"

namespace stepcast::own_runs_test {
namespace {

using ::testing::HasSubstr;

const std::string kHeader = "term,scope,unit,value,sd,prior,prior_sd,runs,sources,prior_source\n";

std::vector<InSituParameter> shared() {
  return parse_in_situ(kHeader +
                       "products,all,x,1.1,0.03,1.1,0.06,9,3,s\n"
                       "host calls,all,x,1.5,0.2,1.5,0.3,9,3,s\n"
                       "bandwidth of the network,all,x,1.2,0.1,1.2,0.2,9,3,s\n");
}

double of(const InSituValues& v, InSituTerm t) {
  return v[static_cast<size_t>(t)];
}

// A second of products with the values of the prior.
OwnRun device_run(double excess, const std::string& model = "a") {
  const auto seconds = [](const InSituValues& v) { return of(v, InSituTerm::products) / 1.1; };
  return {std::exp(excess), model, seconds, false};
}

double products_of(const std::vector<InSituParameter>& own) {
  return own.at(0).value;
}

double learnt(const std::vector<OwnRun>& runs) {
  return products_of(estimate_own_values(runs, own_prior(shared(), Node{}, 0)).parameters) / 1.1 -
         1;
}

TEST(OwnRuns, ThePriorIsWhatPublishedRunsSayAndHowFarClustersLieApart) {
  const std::vector<InSituParameter> prior = own_prior(shared(), Node{}, 0);
  ASSERT_EQ(prior.size(), 3u);
  EXPECT_EQ(prior[0].value, 1.1);
  EXPECT_EQ(prior[0].prior, 1.1);
  EXPECT_GT(prior[0].prior_sd, 0.03);
  EXPECT_LT(prior[0].prior_sd, 0.06);
  // Without a run nothing is learnt.
  const std::vector<InSituParameter> none = own_values({}, prior);
  EXPECT_EQ(none[0].value, 1.1);
  EXPECT_EQ(none[0].sd, prior[0].prior_sd);
  EXPECT_EQ(none[0].runs, 0);
}

TEST(OwnRuns, OneRunMovesAValuePartOfTheWay) {
  const double one = learnt({device_run(0.06)});
  EXPECT_GT(one, 0.01);
  EXPECT_LT(one, 0.04);
  EXPECT_NEAR(learnt({device_run(-0.06)}), -one, 0.005);
}

TEST(OwnRuns, RunsOfSeveralModelsSayMoreThanRunsOfOne) {
  const double one = learnt({device_run(0.06)});
  const double of_one_model = learnt({device_run(0.06), device_run(0.06), device_run(0.06)});
  const double of_three =
      learnt({device_run(0.06, "a"), device_run(0.06, "b"), device_run(0.06, "c")});
  EXPECT_GT(of_one_model, one);
  EXPECT_GT(of_three, of_one_model + 0.005);
  EXPECT_LT(of_three, 0.062);
}

TEST(OwnRuns, AModelThatIsSomethingElseMovesLittle) {
  const double odd = learnt({device_run(0.0, "a"), device_run(0.0, "b"), device_run(0.5, "c")});
  EXPECT_LT(odd, 0.015);
}

TEST(OwnRuns, ARunWithExpertsSaysLess) {
  OwnRun with_experts = device_run(0.06);
  with_experts.experts = true;
  EXPECT_GT(learnt({with_experts}), 0);
  EXPECT_LT(learnt({with_experts}), 0.5 * learnt({device_run(0.06)}));
}

TEST(OwnRuns, ARunScattersByTheShareThatItsHostHas) {
  const auto seconds = [](double share) {
    return [share](const InSituValues& v) {
      return (1 - share) * of(v, InSituTerm::products) / 1.1 +
             share * of(v, InSituTerm::host_calls) / 1.5;
    };
  };
  const std::vector<InSituParameter> prior = own_prior(shared(), Node{}, 0);
  double last = 0;
  for (const double share : {0.0, 0.2, 0.5, 1.0}) {
    const OwnEvidence e = evidence_of({1.1, "a", seconds(share), false}, prior);
    EXPECT_GT(e.spread, last) << share;
    last = e.spread;
  }
}

TEST(OwnRuns, WhatTheHostHoldsUpSaysNothingOfTheDevice) {
  // Two seconds of host calls, one of products.
  const auto seconds = [](const InSituValues& v) {
    return std::max(of(v, InSituTerm::products) / 1.1, 2 * of(v, InSituTerm::host_calls) / 1.5);
  };
  const OwnEstimate e = estimate_own_values(std::vector<OwnRun>{{2.2, "a", seconds, false}},
                                            own_prior(shared(), Node{}, 0));
  EXPECT_EQ(products_of(e.parameters), 1.1);
  EXPECT_EQ(e.parameters[0].runs, 0);
  EXPECT_GT(e.parameters[1].value, 1.53);
  EXPECT_LT(e.parameters[1].sd, e.parameters[1].prior_sd);
  EXPECT_EQ(e.parameters[1].runs, 1);
  EXPECT_EQ(e.parameters[2].value, 1.2);  // no network in it
}

TEST(OwnRuns, LeavingARunOutNeedsNoSimulation) {
  const std::vector<InSituParameter> prior = own_prior(shared(), Node{}, 0);
  const std::vector<OwnRun> runs = {device_run(0.06, "a"), device_run(0.04, "b")};
  const OwnEstimate both = estimate_own_values(runs, prior);
  const OwnEstimate first = estimate_own_values(std::span(runs).first(1), prior);
  const std::vector<InSituParameter> without_second =
      own_values(std::span(both.runs).first(1), prior);
  EXPECT_NEAR(products_of(without_second), products_of(first.parameters), 1e-3);
}

OwnRunsText sample() {
  OwnRunsText own{
      "h100-sxm", {"h100-sxm 0123456789abcdef", "roofline"}, 2, {"run: a\nb"}, shared()};
  return own;
}

TEST(OwnRunsText, IsReadAsItIsWritten) {
  const std::string text = write_own_runs(sample());
  EXPECT_TRUE(is_own_runs(text));
  EXPECT_THAT(text, HasSubstr("# run: a b\n"));
  const OwnRunsText read = parse_own_runs(text, "mine.csv");
  EXPECT_EQ(read.gpu, "h100-sxm");
  EXPECT_THAT(text, HasSubstr("# prices: h100-sxm 0123456789abcdef, roofline\n"));
  EXPECT_EQ(read.prices, sample().prices);
  EXPECT_EQ(read.runs, 2);
  ASSERT_EQ(read.parameters.size(), 3u);
  EXPECT_EQ(read.parameters[1].value, 1.5);
}

std::string refusal(const std::string& text) {
  try {
    parse_own_runs(text, "mine.csv");
  } catch (const InputError& e) {
    return e.diagnostics.front().code + ' ' + e.diagnostics.front().message;
  }
  return "";
}

TEST(OwnRunsText, WhatIsNoneOrDamagedIsRefused) {
  const std::string text = write_own_runs(sample());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  EXPECT_THAT(refusal("# stepcast cost table\n"), HasSubstr("E312 this is no file of own runs"));
  EXPECT_THAT(refusal(with("format: 1", "format: 2")), HasSubstr("format 2"));
  EXPECT_THAT(refusal(with("# gpu: h100-sxm\n", "")), HasSubstr("'# gpu: ' is missing"));
  EXPECT_THAT(refusal(with("# runs: 2", "# runs: none")), HasSubstr("whole number"));
  EXPECT_THAT(refusal(with("products", "prodcts")), HasSubstr("prodcts"));
  EXPECT_THAT(refusal(text.substr(0, text.find("products"))), HasSubstr("cut off"));
  EXPECT_THAT(refusal(text.substr(0, text.find("term,"))), HasSubstr("E312"));
}

}  // namespace
}  // namespace stepcast::own_runs_test
