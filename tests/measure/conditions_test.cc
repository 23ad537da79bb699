// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/conditions.h"

#include <gtest/gtest.h>

namespace stepcast::measure::conditions_test {
namespace {

DeviceState state(double sm, double watts, uint64_t slowed = 0) {
  return {sm, 2619, 41, watts, 700, slowed};
}

TEST(Conditions, NameTheRangesOfARun) {
  ConditionLog log;
  log.add(state(1980, 95), state(1755, 690));
  log.add(state(1980, 120), state(1980, 300));
  EXPECT_EQ(log.text(), "SM 1755 to 1980 MHz, memory 2619 MHz, 41 C, 95 to 690 W of 700 W");
}

TEST(Conditions, FlagPointsWhoseClocksWereLowered) {
  ConditionLog log;
  log.add(state(1980, 95), state(1755, 690, 0x4));
  log.add(state(1980, 95), state(1980, 200, 0x1));
  log.add(state(1980, 95), state(1500, 600, 0x24));
  EXPECT_NE(log.text().find("clocks were lowered (power cap, heat) in 2 of 3 points"),
            std::string::npos)
      << log.text();
}

TEST(Conditions, IdlenessAndSetClocksAreNoSlowdown) {
  EXPECT_EQ(slowdowns(0x1 | 0x2 | 0x10 | 0x100), "");
  EXPECT_EQ(slowdowns(0x8 | 0x80), "hardware slow-down, power brake");
  ConditionLog log;
  log.add(state(1980, 95, 0x4), state(1980, 200, 0x2));
  EXPECT_EQ(log.text().find("lowered"), std::string::npos);
}

TEST(Conditions, NothingIsSaidOfWhatIsNotKnown) {
  ConditionLog log;
  EXPECT_EQ(log.text(), "");
  log.add({}, {});
  EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace stepcast::measure::conditions_test
