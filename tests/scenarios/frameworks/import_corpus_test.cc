// SPDX-License-Identifier: Apache-2.0
// Scripts and logs of the shapes that public repositories have: each gives the parameters and the
// layout that its table says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::import_corpus_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::import_sample;
using testing::value_of;

std::vector<std::string> fields(const std::string& line, char separator) {
  std::vector<std::string> all;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, separator);)
    if (separator == ',' || !field.empty()) all.push_back(field);
  return all;
}

std::vector<std::vector<std::string>> rows_of(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream in(import_sample(table));
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with('#') && !line.starts_with("file,")) rows.push_back(fields(line, ','));
  return rows;
}

ImportRequest script(const std::string& file, const std::string& given) {
  ImportRequest r;
  r.kind = "megatron-args";
  r.file = file;
  r.text = import_sample("scripts/" + file);
  r.given = fields(given, ' ');
  r.files = [](std::string_view path) -> std::optional<std::string> {
    const std::string name(path);
    std::ifstream in(STEPCAST_TEST_DATA "/imports/scripts/" + name, std::ios::binary);
    if (!in) return {};
    return import_sample("scripts/" + name);
  };
  return r;
}

std::string refusal(const ImportRequest& r) {
  try {
    import_run(r);
  } catch (const InputError& e) {
    const Diagnostic& d = e.diagnostics.front();
    return d.code + " " + d.message + " | " + d.help + " | " + d.note;
  }
  return "";
}

TEST(ImportCorpus, ScriptsGiveWhatTheirModelsHave) {
  const auto rows = rows_of("scripts/expected.csv");
  ASSERT_GE(rows.size(), 20U);
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0] + " " + row[1]);
    try {
      const ImportedRun run = import_run(script(row[0], row[1]));
      EXPECT_EQ(std::to_string(run.parameters), row[2]);
      EXPECT_EQ(std::to_string(run.gpus), row[3]);
      const auto size = [&](const char* path) {
        const std::string v = value_of(run, path);
        return v.empty() ? "1" : v;
      };
      EXPECT_EQ(size("parallel.tp"), row[4]);
      EXPECT_EQ(size("parallel.pp"), row[5]);
      EXPECT_EQ(size("batch.global"), row[6]);
      EXPECT_EQ(testing::unknown(run).find("--num"), std::string::npos);
    } catch (const InputError& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(ImportCorpus, LogsGiveWhatTheirModelsHaveAndWhatAStepTook) {
  const auto rows = rows_of("logs/expected.csv");
  ASSERT_GE(rows.size(), 10U);
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0]);
    const std::string text = import_sample("logs/" + row[0]);
    EXPECT_EQ(kind_of_file(text), "megatron-log");  // whatever it is called
    try {
      const ImportedRun run = testing::imported("auto", text);
      EXPECT_EQ(std::to_string(run.parameters), row[1]);
      EXPECT_EQ(std::to_string(run.gpus), row[2]);
      const auto size = [&](const char* path) {
        const std::string v = value_of(run, path);
        return v.empty() ? "1" : v;
      };
      EXPECT_EQ(size("parallel.tp"), row[3]);
      EXPECT_EQ(size("parallel.pp"), row[4]);
      const std::string time = value_of(run, "measured.step_time");  // "610500us"
      EXPECT_NEAR(std::stod(time.empty() ? "0" : time) * 1e-6, std::stod(row[5]), 1e-3) << time;
    } catch (const InputError& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(ImportCorpus, WhatIsOpenIsAskedForInOneMessageWithItsChoices) {
  EXPECT_THAT(
      refusal(script("llama_by_size.sh", "")),
      AllOf(HasSubstr("E332"), HasSubstr("MODEL_SIZE ($2), BATCH_SIZE ($3)"), HasSubstr("AC ($10)"),
            HasSubstr("MODEL_SIZE: 7B, 13B"), HasSubstr("AC: full, sel, none")));
  // Neither the port nor where results go.
  EXPECT_THAT(refusal(script("llama_by_size.sh", "")),
              ::testing::Not(::testing::AnyOf(HasSubstr("OUTPUT"), HasSubstr("RANK"),
                                              HasSubstr("SAVE_INTERVAL"), HasSubstr("$1)"))));
  EXPECT_THAT(refusal(script("open_environment.sh", "")),
              AllOf(HasSubstr("GBS"), HasSubstr("LAYERS"), HasSubstr("SEQ"),
                    ::testing::Not(HasSubstr("SEED"))));
}

TEST(ImportCorpus, ScriptsOfAnotherPurposeTrainNoModel) {
  EXPECT_THAT(refusal(script("convert_only.sh", "")), HasSubstr("E336"));
  EXPECT_THAT(refusal(script("evaluation_only.slurm", "")), HasSubstr("E336"));
}

}  // namespace
}  // namespace stepcast::import_corpus_test
