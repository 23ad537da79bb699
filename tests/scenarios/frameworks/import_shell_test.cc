// SPDX-License-Identifier: Apache-2.0
// Shell scripts as they are followed: what must not be taken, and what must end.
#include "scenarios/frameworks/import_shell.h"

#include <gtest/gtest.h>

#include <string>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"

namespace stepcast::import_shell_test {
namespace {

ShellScript followed(const std::string& script, const std::vector<std::string>& given = {}) {
  Problems problems;
  return read_shell(problems.add_source({"file", script}), given);
}

// The values of the arguments of all commands; "?" stands before those that are open.
std::string arguments(const std::string& script, const std::vector<std::string>& given = {}) {
  std::string all;
  for (const ShellCommand& command : followed(script, given).commands)
    for (const ShellArgument& a : arguments_of(command.words)) {
      if (!all.empty()) all += ' ';
      all += (a.is_open ? "?" : "") + a.argument.name + '=' + to_flow(a.argument.value);
    }
  return all;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Two loops that go round a thousand times each.
std::string in_loops(const std::string& body) {
  std::string words;
  for (int i = 0; i < 1000; ++i) words += ' ' + std::to_string(i);
  return "for i in" + words + "; do for j in" + words + "; do " + body + "; done; done\n";
}

TEST(ShellScripts, ArgumentZeroIsTheScript) {
  EXPECT_EQ(arguments("train --a ${00} --b $0"), "a=./file b=./file");
}

TEST(ShellScripts, FunctionsOfASubshellAreNotKnownOutside) {
  const std::string text = "X=$(f() { echo 24; }; f)\nf --b 1\ntrain --a $X\n";
  EXPECT_EQ(arguments(text), "b=1 a=24");
  EXPECT_EQ(arguments("f() { echo 1; }\nX=$(f() { echo 24; }; f)\ntrain --a $X --b $(f)\n"),
            "a=24 b=1");
}

TEST(ShellScripts, AlternativesWithinAlternativesAreReadOnce) {
  std::string choice = "case $1 in ";
  for (char c = 'a'; c <= 'j'; ++c) choice += std::string(1, c) + ") A=\"--" + c + c + " $A\";; ";
  const std::string script = repeated(choice + "esac\n", 13) + "train --x 1 $A\n";
  EXPECT_TRUE(arguments(script).starts_with("x=1 ?")) << arguments(script);
}

TEST(ShellScripts, WhatTakesTooLongIsCut) {
  const std::string a = std::string(5000, 'a');
  const std::string train = "train --a 1\n";
  for (const std::string& script : {
           // Patterns of long texts.
           "X=" + a + a.substr(0, 4999) + "\nY=${X##*" + a + "b}\n" + train,
           "X=" + repeated(a, 40) + "\ncase $X in *" + repeated(a, 20) + "b) Y=1;; esac\n" + train,
           // Copies of arrays and of arguments.
           in_loops("A+=(x)") + train,
           "set -- " + repeated("a ", 20'000) + "\n" + in_loops("shift; set -- $@ a") + train,
           // More statements than are read.
           repeated("a;", 500'000) + train,
           // What branches hang on.
           "if [ \"" +
               [] {
                 std::string names;
                 for (int i = 0; i < 3000; ++i) names += "$A" + std::to_string(i);
                 return names;
               }() +
               "\" = x ]; then " + in_loops("x") + "fi\n" + train,
       })
    EXPECT_TRUE(followed(script).cut) << script.substr(0, 60);
}

TEST(ShellScripts, WhatIsLongIsReadOnce) {
  const std::string train = "train --a 1\n";
  EXPECT_EQ(arguments("#\ncat " + repeated("<<A ", 20'000) + "\n" + repeated("x\n", 2000) + train),
            "");
  EXPECT_EQ(arguments("cat <<A <<B\n1\nA\n2\nB\n" + train), "a=1");
  EXPECT_EQ(arguments("set -- " + repeated("a ", 20'000) + "\n" + in_loops("X=$(:)").substr(0, 0) +
                      repeated("X=$(:)\n", 5000) + train),
            "a=1");
  // Texts of variables count towards the length of what is computed.
  const std::string sum = "B=\"" + repeated("1+", 20'000) + "1\"\n";
  EXPECT_EQ(arguments(sum + repeated("C=$((" + repeated("B+", 900) + "B))\n", 20) + train), "a=1");
  EXPECT_EQ(arguments(sum + "train --a $((B))\n"), "?a=$((B))");
}

TEST(ShellScripts, SlicesOfAnyLength) {
  EXPECT_EQ(arguments("A=(1 2 3)\ntrain --a ${A[@]:1:9223372036854775807}"), "a=[2, 3]");
}

TEST(ShellScripts, GivenWordsHoldNoMarksOfOpenValues) {
  EXPECT_EQ(arguments("train --a x$1", {"\x01"
                                        "0\x02"}),
            "a=[x, 0]");
}

}  // namespace
}  // namespace stepcast::import_shell_test
