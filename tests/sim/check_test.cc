// SPDX-License-Identifier: Apache-2.0
#include "sim/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stepcast::check_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string message_of(void (*fails)()) {
  try {
    fails();
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}

TEST(Check, NamesTheFileFromTheRootOfTheProject) {
  const std::string message = message_of([] { STEPCAST_CHECK(1 > 2, "numbers are in order"); });
  EXPECT_THAT(message, StartsWith("tests/sim/check_test.cc:"));
  EXPECT_THAT(message, HasSubstr(": numbers are in order (1 > 2)"));
}

TEST(Check, LeavesAFileOfAnotherProjectAsItIs) {
  EXPECT_THAT(message_of([] { fail_check("x", "/elsewhere/main.cc", 7, "what"); }),
              StartsWith("/elsewhere/main.cc:7: what (x)"));
}

}  // namespace
}  // namespace stepcast::check_test
