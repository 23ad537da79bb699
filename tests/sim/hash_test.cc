// SPDX-License-Identifier: Apache-2.0
#include "sim/text.h"

#include <gtest/gtest.h>

namespace stepcast {
namespace {

// Vectors of draft-eastlake-fnv, appendix C.
TEST(Hash, IsFnv1aOf64Bits) {
  EXPECT_EQ(hex_of(hash_text("")), "cbf29ce484222325");
  EXPECT_EQ(hex_of(hash_text("a")), "af63dc4c8601ec8c");
  EXPECT_EQ(hex_of(hash_text("foobar")), "85944171f73967e8");
}

TEST(Hash, GoesOnFromWhatStandsBefore) {
  EXPECT_EQ(hash_text("bar", hash_text("foo")), hash_text("foobar"));
}

}  // namespace
}  // namespace stepcast
