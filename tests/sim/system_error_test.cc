// SPDX-License-Identifier: Apache-2.0
#include "sim/system_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace stepcast {
namespace {

TEST(SystemErrorText, IsThatOfTheSystem) {
  EXPECT_EQ(system_error_text(ENOENT), "No such file or directory");
  EXPECT_EQ(system_error_text(EACCES), "Permission denied");
}

TEST(SystemErrorText, OfANumberThatTheSystemDoesNotKnowIsTheNumber) {
  EXPECT_EQ(system_error_text(5000), "error 5000");
  EXPECT_EQ(system_error_text(-1), "error -1");
}

}  // namespace
}  // namespace stepcast
