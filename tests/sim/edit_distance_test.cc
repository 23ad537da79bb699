// SPDX-License-Identifier: Apache-2.0
#include "sim/edit_distance.h"

#include <gtest/gtest.h>

namespace stepcast {
namespace {

TEST(EditDistance, CountsWhatIsToBeInsertedDeletedReplacedOrSwapped) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "ab"), 1u);
  EXPECT_EQ(edit_distance("mirco", "micro"), 1u);
  EXPECT_EQ(edit_distance("zb-h1", "zb-h1"), 0u);
}

}  // namespace
}  // namespace stepcast
