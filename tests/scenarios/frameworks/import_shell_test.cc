// SPDX-License-Identifier: Apache-2.0
// Shell scripts as they are followed: what must not be taken, and what must end.
#include "scenarios/frameworks/shell/script.h"

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

TEST(ShellScripts, ArithmeticSetsVariables) {
  EXPECT_EQ(arguments("TP=1\n((TP*=8))\ntrain --a $TP"), "a=8");
  EXPECT_EQ(arguments("L=16\nlet L=L*2\ntrain --a $L"), "a=32");
  EXPECT_EQ(arguments("L=16\nlet 'L += 2' L++\ntrain --a $L"), "a=19");
  EXPECT_EQ(arguments("L=16\n: $((L*=2))\ntrain --a $L"), "a=32");
  EXPECT_EQ(arguments("L=16\ntrain --a $((L++)) --b $L --c $((--L))"), "a=16 b=17 c=16");
  EXPECT_EQ(arguments("L=16\nM=$((L == 16))\ntrain --a $L --b $M --c $((L >= 17))"),
            "a=16 b=1 c=0");
  // What is not computed is asked for.
  EXPECT_EQ(arguments("L=16\n((L*=N))\ntrain --a $L"), "?a=$L");
  EXPECT_EQ(arguments("L=16; M=1\n((L=2, M=3))\ntrain --a $L --b $M"), "?a=$L ?b=$M");
  EXPECT_EQ(arguments("L=16\n((L*=N))\ntrain --a $L", {"L=4"}), "a=4");
}

TEST(ShellScripts, LoopsGoRoundAsOftenAsTheShellsDo) {
  EXPECT_EQ(arguments("L=8\nfor ((i=0; i<2; i++)); do L=$((L*2)); done\ntrain --a $L"), "a=32");
  EXPECT_EQ(arguments("L=8; i=0\nwhile ((i<2)); do L=$((L*2)); ((i++)); done\ntrain --a $L"),
            "a=32");
  EXPECT_EQ(arguments("for x in 16 32; do L=$x; if [ $x = 16 ]; then break; fi; done\n"
                      "train --a $L"),
            "a=16");
  EXPECT_EQ(arguments("for x in 16 32; do if [ $x = 16 ]; then continue; fi\ntrain --a $x\ndone"),
            "a=32");
  EXPECT_EQ(arguments("for x in 1 2; do for y in 3 4; do L=$x$y; break 2; done; done\n"
                      "train --a $L"),
            "a=13");
  EXPECT_EQ(arguments("while true; do L=4; break; done\ntrain --a $L"), "a=4");
  EXPECT_EQ(
      arguments("while [ $# -gt 0 ]; do case $1 in -l) L=$2; shift 2;; *) shift;; esac; done\n"
                "train --a $L",
                {"x", "-l", "24"}),
      "a=24");
}

TEST(ShellScripts, WhatALoopOfUnknownRoundsSetsIsOpen) {
  EXPECT_EQ(arguments("L=8\nfor ((i=0; i<N; i++)); do L=$((L*2)); done\ntrain --a $L"), "?a=$L");
  EXPECT_EQ(arguments("L=8\nwhile read y; do L=24; done < file\ntrain --a $L"), "?a=$L");
  EXPECT_EQ(arguments("for x in 16 32; do L=$x; if [ $U = 1 ]; then break; fi; done\n"
                      "train --a $L --b $x"),
            "?a=$L ?b=$x");
}

TEST(ShellScripts, SubshellsAndFunctionsKeepTheirVariables) {
  EXPECT_EQ(arguments("L=16\n( L=48; echo hi )\ntrain --a $L"), "a=16");
  EXPECT_EQ(arguments("( cd /x || exit 1; exit 0 )\ntrain --a 1"), "a=1");
  EXPECT_EQ(arguments("L=12\necho x | while read y; do L=24; done\ntrain --a $L"), "a=12");
  EXPECT_EQ(arguments("L=12\nf() { local L=48; M=$L; }\nf\ntrain --a $L --b $M"), "a=12 b=48");
  EXPECT_EQ(arguments("L=12\nf() { local L; L=48; }\nf\ntrain --a $L"), "a=12");
  EXPECT_EQ(arguments("f() { M=$L; }\nL=3 f\ntrain --a $M"), "a=3");
}

TEST(ShellScripts, ReadTakesItsFields) {
  EXPECT_EQ(arguments("read L H <<< \"24 2048\"\ntrain --a $L --b $H"), "a=24 b=2048");
  EXPECT_EQ(arguments("L=1; H=2\nIFS=, read -r L H <<< \"24,2048\"\ntrain --a $L --b $H"),
            "a=24 b=2048");
  EXPECT_EQ(arguments("read -ra A <<< \"3 4\"\ntrain --a ${A[1]}"), "a=4");
  EXPECT_EQ(arguments("mapfile -t A <<EOF\n3\n4\nEOF\ntrain --a ${A[1]}"), "a=4");
  EXPECT_EQ(arguments("L=1\nprintf -v L %d 24\ntrain --a $L"), "a=24");
  // What comes from elsewhere is asked for.
  EXPECT_EQ(arguments("L=1\nread L\ntrain --a $L"), "?a=$L");
  EXPECT_EQ(arguments("L=1\nprintf -v L %02d 24\ntrain --a $L"), "?a=$L");
  EXPECT_TRUE(arguments("L=(12)\nmapfile -t L < <(echo 24)\ntrain --a ${L[0]}").starts_with("?a="));
}

TEST(ShellScripts, NumbersAreThoseOfTheLanguageThatComputesThem) {
  EXPECT_EQ(arguments("train --a $((010*4)) --b $((0x10)) --c $((2**2**3))"), "a=32 b=16 c=256");
  EXPECT_EQ(arguments("train --a $(expr 010 + 4) --b $(echo 010*4 | bc)"), "a=14 b=40");
  EXPECT_EQ(arguments("train --a $(python -c 'print(-7//2)') --b $(python -c 'print(-7%4)')"),
            "a=\"-4\" b=1");
  EXPECT_EQ(arguments("train --a $(python -c 'print(8//3*2)') --b $(python -c 'print(-2**2)')"),
            "a=4 b=\"-4\"");
  EXPECT_TRUE(arguments("train --a $(python -c 'print(7/2)')").starts_with("?a="));
  EXPECT_TRUE(arguments("train --a $((08))").starts_with("?a="));
}

TEST(ShellScripts, PatternsMayExcludeCharacters) {
  EXPECT_EQ(arguments("A=llama\ncase $A in [!a]*) L=1;; *) L=2;; esac\ntrain --a $L"), "a=1");
  EXPECT_EQ(arguments("A=abc\ncase $A in [^a-c]*) L=1;; *) L=2;; esac\ntrain --a $L"), "a=2");
}

TEST(ShellScripts, DocumentsKeepTheirQuotes) {
  EXPECT_EQ(
      arguments("C=\"cd x; train --a 1 --b 2\"\n"
                "sbatch <<EOF\n#!/bin/bash\nsrun -l \\\n bash -c \"${C}\" > \\${ID}.log\nEOF\n"),
      "a=1 b=2");
}

TEST(ShellScripts, WhatALauncherGetsAsOneWordIsACommand) {
  EXPECT_EQ(arguments("launch -p 8 -c 'train --a 1 --b 2'"), "a=1 b=2");
  EXPECT_EQ(arguments("launch -p 8 -c 'train \\\n--a 1 \\\n--b 2\n'"), "a=1 b=2");
}

TEST(ShellScripts, APlaceholderInAngleBracketsTakesNoArgumentAway) {
  EXPECT_EQ(arguments("D=\"<path to data>\"\nC=\"train --data $D --a 1\"\neval $C"),
            "?data=<path to data> a=1");
  EXPECT_EQ(arguments("train --h <hosts> x --a 1"), "?h=[<hosts>, x] a=1");
  EXPECT_EQ(arguments("train --size <7B|13B> --b=<b> --a 1"), "?size=<7B|13B> ?b=<b> a=1");
  EXPECT_EQ(arguments("A=(--data <path to data> --a <n>)\ntrain ${A[@]}"),
            "?data=<path to data> ?a=<n>");
  EXPECT_EQ(arguments("train --a 1 > log --b 2 2>&1"), "a=1 b=2");
  EXPECT_EQ(arguments("D=<path> (e.g., /a)\ntrain --a 1"), "a=1");
  // Redirections are none.
  for (const char* plain : {"< in > out", "<in >out", "<in>out", "<in 2> log", "<in &> log",
                            "< in>out", "<in>/dev/null", "<(cat x)> log"})
    EXPECT_EQ(arguments(std::string("train --a 1 ") + plain + " --b 2"), "a=1 b=2") << plain;
  EXPECT_EQ(arguments("train --a 1 <in | train --b 2 > log"), "a=1 b=2");
  EXPECT_EQ(arguments("train --a 1 <in\ntrain --b 2 x>\ny"), "a=1 b=[2, x]");
  EXPECT_EQ(arguments("train --a 1 <"), "a=1");
  EXPECT_EQ(arguments("train --a 1 <>"), "a=1");
}

TEST(ShellScripts, TheProgramEndsTheLastValueOfALauncher) {
  EXPECT_EQ(arguments("launch --gpus 8 $DIR/train.py $@ --a 1"), "gpus=8 a=1");
  EXPECT_EQ(arguments("launch --standalone train.py --a 1"), "standalone=train.py a=1");
}

TEST(ShellScripts, AFileThatIsMissingHereEndsNothing) {
  EXPECT_EQ(arguments("[ -f \"$X\" ] || exit\n[ ! -d y ] && exit 1\ntrain --a 1"), "a=1");
}

TEST(ShellScripts, BlanksThatAreSqueezedChangeNoWords) {
  EXPECT_EQ(arguments("C=\"train  --a 1\"\nC=$(echo \"${C}\" | sed -e 's/  */ /g')\neval \"$C\""),
            "a=1");
}

TEST(ShellScripts, FilesAreReadByRelativePathsOnly) {
  Problems problems;
  std::vector<std::string> asked;
  read_shell(problems.add_source({"file", "source /../../etc/passwd\nsource $D/a.sh\n. ./b.sh\n"}),
             {}, [&](std::string_view path) -> std::optional<std::string> {
               asked.emplace_back(path);
               return {};
             });
  EXPECT_EQ(asked, (std::vector<std::string>{"a.sh", "./b.sh"}));
}

}  // namespace
}  // namespace stepcast::import_shell_test
