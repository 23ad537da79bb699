// SPDX-License-Identifier: Apache-2.0
// Words of other tools: lists of Python, and shell scripts.
#include "scenarios/frameworks/import_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/document/value.h"
#include "scenarios/frameworks/shell/script.h"

namespace stepcast::import_arguments_test {
namespace {

// --- python ---

TEST(PythonList, ReadsWhatPatternsOfLayersAreWrittenIn) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(python_list("[0, 1]"), (List{0, 1}));
  EXPECT_EQ(python_list("([0]*2+[1]*3)"), (List{0, 0, 1, 1, 1}));
  EXPECT_EQ(python_list("3*[1,]"), (List{1, 1, 1}));
  EXPECT_EQ(python_list("([1]+[0]*1)*2"), (List{1, 0, 1, 0}));
  EXPECT_EQ(python_list("[]"), List{});
  EXPECT_EQ(python_whole(" 8*4 + 1"), 33);
  EXPECT_EQ(python_whole("32/8"), 4);
  EXPECT_EQ(python_whole("500_000"), 500'000);
}

TEST(PythonList, RefusesEverythingElse) {
  for (const char* text :
       {"", "[0", "[0]*[1]", "[0]+1", "(1", "1 2", "__import__('os')", "[[0]]", "[0]*1000000",
        "1/0", "-1", "[0]*1000*1000", "1.5", "0x10", "1__0", "_1", "1_",
        "999999999*999999999*999999999", "[0,0,0,0]*(4*536870912*536870912*4)"}) {
    EXPECT_FALSE(python_list(text)) << text;
    EXPECT_FALSE(python_whole(text)) << text;
  }
  EXPECT_FALSE(python_whole(std::string(10'000, '(') + "1"));
}

// --- shell ---

std::string arguments_in(const std::string& script) {
  Problems problems;
  const ShellScript s = read_shell(problems.add_source({"file", script}));
  std::string all;
  for (const ShellCommand& command : s.commands)
    for (const auto& [a, is_open, only_unset, hangs_on] : arguments_of(command.words)) {
      all += a.name + '=' + to_flow(a.value) + '@' + std::to_string(a.value.mark.line) + ':' +
             std::to_string(a.value.mark.column) + ' ';
    }
  return all;
}

TEST(ShellArguments, AreReadWithTheirPlaces) {
  EXPECT_EQ(arguments_in("train --a 1 --b=2 --c\n"), "a=1@1:11 b=2@1:13 c=true@1:19 ");
  EXPECT_EQ(arguments_in("train \\\n  --a 1 \\\n  --b-c 2 3\n"), "a=1@2:7 b_c=[2, 3]@3:9 ");
  EXPECT_EQ(arguments_in("train --a '1 2' # --b 3\n"), "a=1 2@1:12 ");
}

TEST(ShellArguments, VariablesAreWhatTheFileSays) {
  EXPECT_EQ(arguments_in("N=8\ntrain --a $N --b ${N} --c \"$N\""), "a=8@1:3 b=8@1:3 c=8@1:3 ");
  EXPECT_EQ(arguments_in("A=(--x 1\n --y 2)\ntrain \"${A[@]}\""), "x=1@1:8 y=2@2:6 ");
  EXPECT_EQ(arguments_in("A=\"--x 1 \\\n --y 2\"\nA+=\" --z\"\ntrain $A"),
            "x=1@1:8 y=2@2:6 z=true@3:6 ");
  EXPECT_EQ(arguments_in("N=2\nM=$((N * 4))\ntrain --a $M"), "a=8@2:3 ");
  EXPECT_EQ(arguments_in("train --a ${N:-4}"), "a=4@1:16 ");
  EXPECT_EQ(arguments_in("N=2\ntrain --a ${N:-4}"), "a=2@1:3 ");
}

TEST(ShellArguments, WhatIsNotKnownStaysAsItIsWritten) {
  EXPECT_EQ(arguments_in("train --a $N --b $(nproc) --c x$N"),
            "a=$N@1:11 b=$(nproc)@1:18 c=x$N@1:31 ");
}

TEST(ShellArguments, RedirectedStreamsAreNoArguments) {
  EXPECT_EQ(arguments_in("train --a 1 2>&1 | tee --log x > y"), "a=1@1:11 log=x@1:30 ");
}

TEST(ShellArguments, TextThatGrowsWithoutEndIsCut) {
  std::string script = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) script += "A=$A$A\n";
  EXPECT_LT(arguments_in(script + "train --a $A").size(), size_t{100} << 20);
  std::string list = "A=(1 2)\n";
  for (int i = 0; i < 60; ++i) list += "A+=(\"${A[@]}\")\n";
  EXPECT_LT(arguments_in(list + "train --a \"${A[@]}\"").size(), size_t{100} << 20);
}

}  // namespace
}  // namespace stepcast::import_arguments_test
