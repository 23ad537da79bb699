// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/estimate.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

namespace stepcast::accuracy::estimate_test {
namespace {

// Runs of three sources, whose measured times are forecasts with `truth`, times what the source is
// off by.  Large models show the rates of kernels, small ones the host.
std::vector<ModelledRun> runs_of(const std::vector<InSituParameter>& truth,
                                 const std::vector<double>& off = {1, 1, 1}) {
  std::vector<ModelledRun> runs;
  for (size_t source = 0; source < off.size(); ++source)
    for (const char* cluster : {"dgx-a100-80g", "dgx-h100"})
      for (const char* shape :
           {"llama3-8b, micro: 1, seq: 8192, tp: 4", "llama3-8b, micro: 2, seq: 4096, tp: 8",
            "gpt2, micro: 1, seq: 512, tp: 1", "gpt2, micro: 2, seq: 512, tp: 2"}) {
        const std::string words = shape;
        const auto value = [&](const std::string& key) {
          const size_t at = words.find(key) + key.size();
          return words.substr(at, words.find(',', at) - at);
        };
        const std::string text = fmt::format(
            "model: {}\ncluster: {} x 1\nparallel: {{tp: {}}}\nbatch: {{global: {}, "
            "micro: {}, seq: {}}}\n",
            words.substr(0, words.find(',')), cluster, value("tp: "), 16 * (source + 1),
            value("micro: "), value("seq: "));
        RunModel model(text, "run.yaml", false);
        const double measured =
            model.seconds(in_situ_values(truth, model.node(), model.libraries())) * off[source];
        runs.push_back({fmt::format("{}-{}", source, runs.size()), fmt::format("source {}", source),
                        measured, std::move(model)});
      }
  return runs;
}

std::vector<InSituParameter> some(double products, double host) {
  return parse_in_situ(fmt::format(
      "term,scope,unit,value,sd,prior,prior_sd,runs,sources,prior_source\n"
      "products,Ampere,x,{0},1,1.05,0.2,0,0,s\nproducts,Hopper,x,{0},1,1.05,0.2,0,0,s\n"
      "host calls,Ampere,x,{1},1,1.2,0.5,0,0,s\nhost calls,Hopper,x,{1},1,1.2,0.5,0,0,s\n",
      products, host));
}

double value_of(const Estimate& e, size_t k) {
  return e.parameters[k].value;
}

TEST(Estimate, FindsTheValuesThatRunsWereMadeWith) {
  const Estimate e = estimate(runs_of(some(1.15, 2)), some(1, 1), 2);
  // Three sources that are off alike could be so for reasons of their own: a part is the effects'.
  EXPECT_NEAR(value_of(e, 0), 1.15, 0.05);
  EXPECT_NEAR(value_of(e, 1), 1.15, 0.05);
  EXPECT_NEAR(value_of(e, 2), 2, 0.1);
  EXPECT_NEAR(value_of(e, 3), 2, 0.1);
  for (const InSituParameter& p : e.parameters) {
    EXPECT_GT(p.runs, 0) << name_of(p.term);
    EXPECT_EQ(p.sources, 3);
    EXPECT_LT(p.sd, p.prior_sd);
  }
  for (const EstimatedRun& r : e.runs) {
    EXPECT_NEAR(r.seen / r.measured, 1, 0.03) << r.id;
    EXPECT_LT(r.without, r.measured) << r.id;
  }
}

TEST(Estimate, OneSourceThatIsOffMovesItsEffectMoreThanTheParameters) {
  const Estimate e = estimate(runs_of(some(1.1, 1.5), {1, 1, 1.3}), some(1, 1), 2);
  EXPECT_NEAR(value_of(e, 0), 1.1, 0.06);
  EXPECT_GT(e.effects.at("source 2"), 0.12);
  EXPECT_LT(std::abs(e.effects.at("source 0")), 0.06);
}

TEST(Estimate, ARunOfAnotherProgramHasNoSay) {
  const Estimate with = estimate(runs_of(some(1.1, 1.5), {1, 1, 1, 4}), some(1, 1), 2);
  const Estimate without = estimate(runs_of(some(1.1, 1.5), {1, 1, 1}), some(1, 1), 2);
  for (size_t k = 0; k < with.parameters.size(); ++k) {
    EXPECT_NEAR(value_of(with, k), value_of(without, k), 1e-3) << k;
    EXPECT_EQ(with.parameters[k].sources, 3) << k;
  }
}

TEST(Estimate, ALeftOutSourceHasNoPartInItsForecasts) {
  const Estimate e = estimate(runs_of(some(1.1, 1.5), {1, 1, 1.3}), some(1, 1), 2);
  const Estimate others = estimate(runs_of(some(1.1, 1.5), {1, 1}), some(1, 1), 2);
  for (size_t k = 0; k < e.parameters.size(); ++k)
    EXPECT_NEAR(e.left_out.at("source 2")[k], value_of(others, k), 0.02) << k;
}

TEST(Estimate, WithoutRunsThePriorsStand) {
  const Estimate e = estimate({}, some(1.3, 3), 1);
  EXPECT_NEAR(value_of(e, 0), 1.05, 1e-9);
  EXPECT_NEAR(e.parameters[2].sd, 0.5, 1e-6);
}

TEST(Estimate, ThreadsChangeNoDigit) {
  const std::vector<ModelledRun> runs = runs_of(some(1.15, 2));
  const Estimate one = estimate(runs, some(1, 1), 1), three = estimate(runs, some(1, 1), 3);
  EXPECT_EQ(estimated_runs_csv(one), estimated_runs_csv(three));
  EXPECT_EQ(left_out_csv(one), left_out_csv(three));
}

// The shipped values are what the estimator finds in runs that took what they forecast.
TEST(Estimate, TheShippedValuesAreFoundInASampleOfRunsMadeWithThem) {
  const std::span<const InSituParameter> shipped = in_situ_parameters();
  const std::vector<InSituParameter> values(shipped.begin(), shipped.end());
  const Estimate e = estimate(runs_of(values), values, 2);
  for (size_t k = 0; k < values.size(); ++k)
    EXPECT_NEAR(value_of(e, k), values[k].value, 1.5 * values[k].prior_sd)
        << name_of(values[k].term);
  for (const EstimatedRun& r : e.runs) EXPECT_NEAR(r.seen / r.measured, 1, 0.05) << r.id;
}

TEST(Estimate, FilesAreReadBackAsTheyWereWritten) {
  const Estimate e = estimate(runs_of(some(1.15, 2)), some(1, 1), 2);
  const std::vector<InSituParameter> again = parse_in_situ(in_situ_csv(e.parameters));
  EXPECT_EQ(stale_in_situ(again, e.parameters), "");
  EXPECT_NE(stale_in_situ(some(1, 1), e.parameters), "");
  const LeftOut left_out = parse_left_out(left_out_csv(e), again);
  ASSERT_EQ(left_out.size(), 3u);
  EXPECT_NEAR(left_out.at("source 1")[2].value, e.left_out.at("source 1")[2], 0.01);
}

}  // namespace
}  // namespace stepcast::accuracy::estimate_test
