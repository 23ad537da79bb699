// SPDX-License-Identifier: Apache-2.0
// Files as other tools have them, told by their content: tests/data/imports/corpus, with the
// parameters and GPUs that each must give.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::corpus_test {
namespace {

using testing::import_sample;

struct Row {
  std::string file, kind, model, parameters, gpus;
};

std::vector<Row> rows() {
  std::istringstream lines(import_sample("corpus/expected.csv"));
  std::vector<Row> all;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#') || line.starts_with("file,")) continue;
    std::istringstream cells(line);
    Row r;
    for (std::string* cell : {&r.file, &r.kind, &r.model, &r.parameters, &r.gpus})
      std::getline(cells, *cell, ',');
    all.push_back(std::move(r));
  }
  return all;
}

TEST(Corpus, HasTwentyFilesOfEachKind) {
  std::map<std::string, int> files;
  for (const Row& r : rows()) {
    const bool of_nvidia = r.kind == "nemo" || r.kind == "bridge";
    const bool of_transformers =
        r.kind == "deepspeed" || r.kind == "accelerate" || r.kind == "axolotl";
    ++files[of_nvidia ? "nemo and bridge" : of_transformers ? "deepspeed and others" : r.kind];
  }
  EXPECT_EQ(files.size(), 6u);
  for (const auto& [kind, count] : files) EXPECT_GE(count, 20) << kind;
}

TEST(Corpus, EveryFileGivesItsParametersAndGpus) {
  for (const Row& r : rows()) {
    ImportRequest request = testing::request("auto", import_sample("corpus/" + r.file));
    request.file = r.file;
    if (!r.model.empty()) {
      request.model_file = r.model;
      request.model_text = import_sample("corpus/" + r.model);
    }
    const testing::Failure failure = testing::failure_of([&] {
      const ImportedRun run = import_run(request);
      EXPECT_EQ(run.kind, r.kind) << r.file;
      EXPECT_EQ(std::to_string(run.parameters), r.parameters) << r.file << '\n' << run.scenario;
      EXPECT_EQ(std::to_string(run.gpus), r.gpus) << r.file;
      EXPECT_EQ(testing::unknown(run), "") << r.file;
      EXPECT_EQ(run.unsupported, "") << r.file;
    });
    for (const std::string& line : failure.lines) ADD_FAILURE() << r.file << ' ' << line;
  }
}

}  // namespace
}  // namespace stepcast::corpus_test
