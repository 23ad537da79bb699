// SPDX-License-Identifier: Apache-2.0
// Scenarios whose schedule shares the vocabulary over the pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "scenarios/scenario.h"
#include "sim/diagnostic.h"

namespace stepcast::shared_vocabulary_test {
namespace {

using ::testing::HasSubstr;

Scenario with(const std::string& parallel, const std::string& schedule) {
  return load_scenario_text(
      "model: {preset: gpt, num_hidden_layers: 8, hidden_size: 512, num_attention_heads: 8,"
      " vocab_size: 32000, max_position_embeddings: 512}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {pp: 4, " +
          parallel + "}\nbatch: {seq: 512, global: 16}\nschedule: " + schedule + "\n",
      "x.yaml");
}

TEST(SharedVocabularyScenario, MethodIsAParameterOfTheSchedule) {
  EXPECT_EQ(with("dp: 2", "1f1b").plan.vocabulary, VocabularySplit::none);
  EXPECT_EQ(with("dp: 2", "vocab-1f1b").plan.vocabulary, VocabularySplit::one_barrier);
  EXPECT_EQ(with("dp: 2, zero: 1", "{kind: vocab-1f1b, params: {method: vocab-1}}").plan.vocabulary,
            VocabularySplit::two_barriers);
}

TEST(SharedVocabularyScenario, AnotherLossIsRemarkedOn) {
  const auto remarks = [](const char* schedule) {
    std::string all;
    for (const std::string& w : with("dp: 2}\nkernels: {loss: torch", schedule).warnings) all += w;
    return all;
  };
  EXPECT_THAT(remarks("vocab-1f1b"), HasSubstr("kernels.loss has no effect"));
  EXPECT_EQ(remarks("1f1b").find("kernels.loss"), std::string::npos);
}

TEST(SharedVocabularyScenario, WhatIsNotModelledIsRefusedWhereItStands) {
  try {
    with("dp: 2, zero: 2", "{kind: vocab-1f1b}");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.front().code, "E127");
    EXPECT_THAT(e.diagnostics.front().message, HasSubstr("parallel.zero 2 or 3"));
    EXPECT_EQ(e.diagnostics.front().line, 5);
  }
  EXPECT_THROW(with("dp: 2", "{kind: vocab-1f1b, p2p: megatron}"), InputError);
  EXPECT_THROW(with("dp: 2", "{kind: vocab-1f1b, params: {method: vocab-3}}"), InputError);
}

TEST(SharedVocabularyScenario, GoesNeitherWithATeacherNorWithAForwardAlone) {
  for (const char* more : {"\ndistill: {teacher: {preset: gpt, num_hidden_layers: 8, hidden_size: "
                           "512, num_attention_heads: 8, vocab_size: 32000, "
                           "max_position_embeddings: 512}}",
                           "\nmode: prefill"}) {
    EXPECT_NO_THROW(with("dp: 2", std::string("1f1b") + more));
    try {
      with("dp: 2", std::string("vocab-1f1b") + more);
      FAIL() << "accepted" << more;
    } catch (const InputError& e) {
      EXPECT_EQ(e.diagnostics.front().code, "E127");
      EXPECT_EQ(e.diagnostics.front().line, 5);
    }
  }
}

}  // namespace
}  // namespace stepcast::shared_vocabulary_test
