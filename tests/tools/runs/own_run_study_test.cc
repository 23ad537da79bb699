// SPDX-License-Identifier: Apache-2.0
// How well other runs of a source are forecast when some are known.
#include "tools/runs/own_run_study.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepcast::accuracy::own_run_study_test {
namespace {

using ::testing::HasSubstr;

struct Sample {
  std::vector<ModelledRun> runs;
  std::vector<RunRow> rows;
  LeftOut left_out;
};

// Sources whose products take `slower` times as long as everybody's.
Sample sample(const std::vector<double>& slower) {
  Sample s;
  for (size_t source = 0; source < slower.size(); ++source) {
    const std::string name = fmt::format("source {}", source);
    s.left_out[name] = {in_situ_parameters().begin(), in_situ_parameters().end()};
    for (const int nodes : {1, 2})
      for (const char* model : {"llama3-8b", "llama2-7b"})
        for (const int micro : {4, 8}) {
          const std::string text = fmt::format(
              "model: {}\ncluster: dgx-h100 x {}\nparallel: {{tp: 4}}\nbatch: {{global: {}, micro: "
              "{}, seq: 4096}}\n",
              model, nodes, 16 * nodes, micro);
          RunModel run(text, "run.yaml", false);
          InSituValues own = in_situ_values(in_situ_parameters(), run.node(), run.libraries());
          own[static_cast<size_t>(InSituTerm::products)] *= slower[source];
          const std::string id = fmt::format("{} {} {} {}", name, nodes, model, micro);
          RunRow row;
          row.id = id;
          row.run_class = "training / long kernels";
          s.rows.push_back(std::move(row));
          const double measured = run.seconds(own);
          s.runs.push_back({id, name, measured, std::move(run)});
        }
  }
  return s;
}

OwnRunStudy study_of(const Sample& s, int threads = 2) {
  return own_run_study(s.runs, s.rows, s.left_out, 10, threads);
}

TEST(OwnRunStudy, KnownRunsMakeTheOthersKnownBetter) {
  const OwnRunStudy study = study_of(sample({1.15, 1, 0.9}));
  for (const char* off : {"source 0", "source 2"}) {
    const std::map<int, KnownRuns>& known = study.by_source.at(off);
    ASSERT_EQ(known.size(), 2u);
    EXPECT_EQ(known.at(1).with.draws, 10);
    EXPECT_GT(known.at(1).without.median, 0.05);
    EXPECT_LT(known.at(1).with.median, 0.9 * known.at(1).without.median);
    EXPECT_LT(known.at(3).with.median, known.at(1).with.median);
  }
  // A source that is as everybody is.
  EXPECT_LT(study.by_source.at("source 1").at(1).with.median, 0.001);
}

TEST(OwnRunStudy, IsTheSameOnAnyNumberOfThreads) {
  const Sample s = sample({1.1});
  EXPECT_EQ(own_runs_markdown(study_of(s, 1)), own_runs_markdown(study_of(s, 3)));
}

TEST(OwnRunStudy, MakesTheTableOfIntervals) {
  const std::string csv = own_run_errors_csv(study_of(sample({1.1, 0.95, 1})));
  EXPECT_THAT(csv, HasSubstr("own_runs,class,runs,sources,low,high,cost_error\n"));
  EXPECT_THAT(csv, HasSubstr("\n1,training / long kernels,24,3,"));
  EXPECT_THAT(csv, HasSubstr("\n3,training,24,3,"));
  EXPECT_EQ(parse_own_run_errors(csv).size(), 4u);
}

TEST(OwnRunStudy, NothingIsLearntOfRunsThatAreDoubtful) {
  Sample s = sample({1});
  for (ModelledRun& run : s.runs) run.measured_s *= 3;
  const OwnRunStudy study = study_of(s);
  EXPECT_EQ(study.by_source.at("source 0").at(1).with.median,
            study.by_source.at("source 0").at(1).without.median);
  EXPECT_TRUE(study.observed.empty());
}

}  // namespace
}  // namespace stepcast::accuracy::own_run_study_test
