// SPDX-License-Identifier: Apache-2.0
#include "capi/stepcast_c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace {

constexpr const char* kSmall =
    R"({"text": "{model: llama3-8b, cluster: dgx-h100 x 1, batch: {global: 8, seq: 1024}}",
        "name": "small"})";

std::string bytes_of(stepcast_answer* answer) {
  size_t length = 0;
  const char* begin = stepcast_bytes(answer, &length);
  std::string bytes(begin, length);
  EXPECT_EQ(bytes, begin) << "ends with the zero";
  stepcast_free(answer);
  return bytes;
}

TEST(CInterface, AnswersInJsonAndOtherForms) {
  stepcast_answer* run = stepcast_run(kSmall, nullptr, nullptr);
  EXPECT_EQ(stepcast_status(run), 0) << stepcast_bytes(run, nullptr);
  EXPECT_THAT(bytes_of(stepcast_render(run, R"({"form": "text"})")),
              testing::HasSubstr("step time"));
  EXPECT_THAT(bytes_of(stepcast_render(run, R"({"form": "ops"})")),
              testing::StartsWith("{\"rank\""));
  stepcast_answer* none = stepcast_render(run, R"({"form": "picture"})");
  EXPECT_EQ(stepcast_status(none), 2);
  EXPECT_THAT(bytes_of(none), testing::HasSubstr("E004"));
  EXPECT_THAT(bytes_of(run), testing::HasSubstr("\"step_time_ps\""));
}

TEST(CInterface, TrainingRunsAreAnswersToo) {
  std::string request = kSmall;
  request.back() = ',';
  stepcast_answer* run = stepcast_train((request + R"("tokens": "1B", "gpus": [8]})").c_str());
  EXPECT_EQ(stepcast_status(run), 0) << stepcast_bytes(run, nullptr);
  EXPECT_THAT(bytes_of(stepcast_render(run, R"({"form": "text"})")),
              testing::HasSubstr("GPU-hours"));
  EXPECT_THAT(bytes_of(stepcast_render(run, R"({"form": "html"})")),
              testing::HasSubstr("id=\"waterfall\""));
  EXPECT_THAT(bytes_of(run), testing::HasSubstr("\"waterfall\""));
  for (const char* wrong :
       {R"("gpus": 8})", R"("gpus": [0]})", R"("days": 0})", R"("replicas": -1})",
        R"("replicas": 9223372036854775807})", R"("tokens": "0"})", R"("days": "long"})"}) {
    stepcast_answer* answer = stepcast_train((request + wrong).c_str());
    EXPECT_EQ(stepcast_status(answer), 2) << wrong;
    stepcast_free(answer);
  }
}

TEST(CInterface, NumbersOfGpusHaveALimit) {
  std::string request = kSmall;
  request.back() = ',';
  for (const char* wrong : {R"("fewest_gpus": 1, "most_gpus": 9223372036854775807})",
                            R"("fewest_gpus": 9223372036854775807})", R"("most_gpus": 64})"}) {
    stepcast_answer* answer = stepcast_search((request + wrong).c_str(), nullptr, nullptr);
    EXPECT_EQ(stepcast_status(answer), 2) << wrong;
    stepcast_free(answer);
  }
}

TEST(CInterface, WhatIsWrongIsAnAnswer) {
  for (const char* request : {"", "null", "[", "{\"file\": \"no such file\"}", "{\"model\": 3}"}) {
    stepcast_answer* answer = stepcast_run(request, nullptr, nullptr);
    EXPECT_NE(stepcast_status(answer), 0) << request;
    EXPECT_THAT(bytes_of(answer), testing::StartsWith("{\n  \"error\"")) << request;
  }
  stepcast_answer* answer = stepcast_run(nullptr, nullptr, nullptr);
  EXPECT_EQ(stepcast_status(answer), 2);
  stepcast_free(answer);
  stepcast_free(nullptr);
}

TEST(CInterface, ThreadsGetTheSameBytes) {
  const std::string expected = bytes_of(stepcast_run(kSmall, nullptr, nullptr));
  std::vector<std::string> found(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& bytes : found)
      threads.emplace_back([&] { bytes = bytes_of(stepcast_run(kSmall, nullptr, nullptr)); });
  }
  EXPECT_THAT(found, testing::Each(expected));
}

TEST(CInterface, ProgressEndsASearchWithWhatWasFound) {
  int calls = 0;
  const auto stop = [](void* context, int64_t, int64_t) { return ++*static_cast<int*>(context); };
  stepcast_answer* answer = stepcast_search(
      R"({"text": "{model: llama3-8b, cluster: dgx-h100 x 8, batch: {global: 256, seq: 8192}}",
          "name": "large", "jobs": 1})",
      stop, &calls);
  EXPECT_EQ(stepcast_status(answer), 0) << stepcast_bytes(answer, nullptr);
  EXPECT_EQ(calls, 1);
  stepcast_free(answer);
}

}  // namespace
