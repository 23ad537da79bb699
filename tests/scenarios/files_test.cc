// SPDX-License-Identifier: Apache-2.0
// Reading files: `extends`, --set, and files that are none.
#include "scenarios/document/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/scenarios/loading.h"
#include "tests/temporary_folder.h"

namespace stepcast::files_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Failure;
using ::testing::HasSubstr;
using testing::kMinimal;
using ::testing::Not;

class ScenarioFilesTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    return folder_.write(name, text);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  Failure fail(const std::string& name) const {
    return testing::failure_of([&] { load_scenario(path(name)); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ScenarioFilesTest, AFileSaysTheSameAsItsText) {
  const Scenario s = load_scenario(write("a.yaml", kMinimal));
  EXPECT_EQ(s.hash, testing::load(kMinimal).hash);
  EXPECT_EQ(s.name, "a");
  EXPECT_EQ(s.file, path("a.yaml"));
}

TEST_F(ScenarioFilesTest, WhatCannotBeReadIsExitStatusSeven) {
  const Failure missing = fail("nothing.yaml");
  EXPECT_EQ(missing.exit_status, 7);
  EXPECT_THAT(missing.lines[0], HasSubstr("E101 0:0 cannot read"));
  fs::create_directory(folder_.path() / "dir.yaml");
  EXPECT_THAT(fail("dir.yaml").lines[0], HasSubstr("it is a directory"));
  EXPECT_EQ(fail("dir.yaml").exit_status, 7);
  ASSERT_EQ(::mkfifo(path("pipe.yaml").c_str(), 0600), 0);
  EXPECT_THAT(fail("pipe.yaml").lines[0],
              HasSubstr("it is not a regular file"));  // and does not wait
  EXPECT_THAT(testing::failure_of([] { load_scenario("/dev/zero"); }).codes, "E101");
}

TEST_F(ScenarioFilesTest, AFileWithoutPermissionIsExitStatusSeven) {
  write("secret.yaml", kMinimal);
  fs::permissions(folder_.path() / "secret.yaml", fs::perms::none);
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  EXPECT_EQ(fail("secret.yaml").exit_status, 7);
}

TEST_F(ScenarioFilesTest, AnEmptyFileLacksEverything) {
  write("empty.yaml", "");
  EXPECT_EQ(fail("empty.yaml").codes, "E126 E126 E126 E126");
  write("list.yaml", "- a\n");
  EXPECT_EQ(fail("list.yaml").codes, "E107");
}

TEST_F(ScenarioFilesTest, AnAnswerIsNoScenario) {
  write("step.html",
        "<!DOCTYPE html>\n<html><head><meta name=\"stepcast-sources\" content=\"1\"></head>"
        "pretrain_gpt.py --num-layers 32</html>\n");
  EXPECT_THAT(fail("step.html").lines,
              ElementsAre("E107 1:1 this is a report of Stepcast, not a scenario"));
  write("page.html", "<html>a: b</html>\n");
  EXPECT_THAT(fail("page.html").lines,
              ElementsAre("E107 1:1 this is a page (HTML), not a scenario"));
  write("train.json", "{\"schema_version\": 1, \"name\": \"a\", \"gpu\": \"b\", \"gpus\": 8}\n");
  EXPECT_THAT(fail("train.json").lines,
              ElementsAre("E107 1:1 this is an answer of Stepcast (--json), not a scenario"));
  write("other.yaml", "schema_version: 2\nversion: 3\nname: a\ngpus: 8\n");
  EXPECT_THAT(fail("other.yaml").lines, Not(Contains(HasSubstr("answer"))));
  write("refused.json", "{\"error\": {\"code\": \"E101\"}, \"errors\": []}\n");
  EXPECT_EQ(fail("refused.json").codes, "E107");
}

TEST_F(ScenarioFilesTest, AByteOrderMarkIsNoText) {
  EXPECT_EQ(load_scenario(write("bom.yaml", "\xEF\xBB\xBF" + kMinimal)).plan.tp, 2);
}

TEST_F(ScenarioFilesTest, ExtendsMergesMappingsAndReplacesTheRest) {
  write("base.yaml", kMinimal + "recompute: {granularity: selective, modules: [core_attn]}\n");
  const Scenario s =
      load_scenario(write("top.yaml", "extends: base.yaml\nparallel: {tp: 4}\nrecompute: full\n"));
  EXPECT_EQ(s.plan.tp, 4);
  EXPECT_EQ(s.plan.pp, 2);  // inherited
  EXPECT_EQ(s.plan.recompute, Recompute::full);
  EXPECT_EQ(testing::setting(s, "parallel.pp"), "2 (" + path("base.yaml") + ":3:23)");
  EXPECT_EQ(testing::setting(s, "parallel.tp"), "4 (" + path("top.yaml") + ":2:16)");
}

TEST_F(ScenarioFilesTest, LaterFilesWinAndNullDeletes) {
  write("a.yaml",
        "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 1, pp: 1, zero: 1}\n"
        "batch: {global: 256, seq: 8192}\nmeasured: {step_time: 1s}\n");
  write("b.yaml", "parallel: {tp: 2}\n");
  write("c.yaml", "parallel: {tp: 4}\nbatch: {micro: 2}\n");
  const Scenario s = load_scenario(write(
      "top.yaml", "extends: [a.yaml, b.yaml, c.yaml]\nmeasured: null\nparallel: {zero: null}\n"));
  EXPECT_EQ(s.plan.tp, 4);
  EXPECT_EQ(s.plan.micro_batch, 2);
  EXPECT_EQ(s.plan.zero, 0);
  EXPECT_TRUE(s.measured.empty());
}

TEST_F(ScenarioFilesTest, ExtendedIsTheSameAsFlattened) {
  write("sub/base.yaml", "model: llama3-8b\ncluster: dgx-h100 x 2\n");
  write("sub/mid.yaml", "extends: base.yaml\nparallel: {tp: 2, pp: 2}\n");  // relative to itself
  const Scenario s = load_scenario(
      write("top.yaml", "extends: sub/mid.yaml\nbatch: {global: 256, micro: 1, seq: 8192}\n"));
  EXPECT_EQ(s.hash, testing::load(kMinimal).hash);
}

TEST_F(ScenarioFilesTest, CyclesAreFoundAcrossFiles) {
  write("a.yaml", "extends: b.yaml\n");
  write("b.yaml", "extends: c.yaml\n");
  write("c.yaml", "extends: ./b.yaml\n");
  const Failure f = fail("a.yaml");
  EXPECT_EQ(f.codes, "E110");
  EXPECT_EQ(f.all[0].help, "b.yaml -> c.yaml -> b.yaml");
  EXPECT_EQ(f.all[0].file, path("c.yaml"));
}

TEST_F(ScenarioFilesTest, ADiamondIsNoCircle) {
  write("root.yaml", kMinimal);
  write("l.yaml", "extends: root.yaml\n");
  write("r.yaml", "extends: root.yaml\n");
  EXPECT_EQ(load_scenario(write("top.yaml", "extends: [l.yaml, r.yaml]\n")).plan.tp, 2);
}

TEST_F(ScenarioFilesTest, DepthAndNumberOfFilesAreLimited) {
  write("f0.yaml", kMinimal);
  for (int i = 1; i <= 9; ++i)
    write("f" + std::to_string(i) + ".yaml", "extends: f" + std::to_string(i - 1) + ".yaml\n");
  EXPECT_EQ(load_scenario(path("f7.yaml")).plan.tp, 2);  // eight files
  EXPECT_EQ(fail("f8.yaml").codes, "E111");
  EXPECT_THAT(fail("f8.yaml").lines[0], HasSubstr("more than 8 files deep"));
  // Each level names the one below it eight times: 8^7 files if each were read anew.
  const auto fan_out = [&](int copies) {
    write("g0.yaml", kMinimal);
    for (int i = 1; i <= 7; ++i) {
      std::string list;
      for (int k = 0; k < copies; ++k) list += (k ? ", g" : "g") + std::to_string(i - 1) + ".yaml";
      write("g" + std::to_string(i) + ".yaml", "extends: [" + list + "]\n");
    }
  };
  fan_out(8);
  EXPECT_EQ(load_scenario(path("g7.yaml")).plan.tp, 2);
  fan_out(10);
  EXPECT_THAT(fail("g7.yaml").lines[0], HasSubstr("E111"));
}

// A file that is named often is read and parsed once.
TEST_F(ScenarioFilesTest, AFileThatIsNamedOftenIsReadOnce) {
  const std::string text = kMinimal + "description: \"" + std::string(1 << 20, 'a') + "\"\n";
  write("big.yaml", text);
  std::string list = "big.yaml";
  for (int i = 1; i < 60; ++i) list += ", big.yaml";
  Problems problems;
  ScenarioFiles files(problems, "");
  const Value root = files.load(files.open_first(write("top.yaml", "extends: [" + list + "]\n")));
  EXPECT_EQ(root.find("description")->mark.source->number, 1u);
  EXPECT_EQ(problems.add_source({"next", ""})->number, 2u);
}

// What --set, a preset and `extends` say goes on to other loads, after the first one is gone.
TEST_F(ScenarioFilesTest, AMarkKnowsItsSourceWithoutTheProblemsOfItsLoad) {
  write("base.yaml", kMinimal);
  write("more.yaml", "recompute: full\n");
  Value root;
  {
    Problems problems;
    ScenarioFiles files(problems, "");
    root = files.load(files.open_first(write("top.yaml", "extends: [base.yaml, more.yaml]\n")));
  }
  Problems other;
  other.add("E1", "wrong", root.find("recompute")->mark);
  ASSERT_EQ(other.diagnostics().size(), 1u);
  EXPECT_EQ(other.diagnostics()[0].file, path("more.yaml"));
  EXPECT_EQ(other.diagnostics()[0].source_line, "recompute: full");
}

TEST_F(ScenarioFilesTest, ATooLargeFileIsRefusedWithItsSizeAndTheLimit) {
  const auto large = [&](const std::string& name, size_t mebibytes) {
    write(name, "");
    fs::resize_file(folder_.path() / name, mebibytes << 20);
  };
  large("large.csv", 65);
  write("run.yaml", kMinimal + "schedule: {file: large.csv}\n");
  EXPECT_THAT(
      fail("run.yaml").lines,
      ElementsAre(AllOf(HasSubstr("E106 5:18"), HasSubstr("68157440 bytes, more than 64 MiB"))));
  EXPECT_EQ(fail("large.csv").codes, "E106");
  large("a.yaml", 64);
  large("b.yaml", 64);
  write("both.yaml", "extends: [a.yaml, b.yaml]\n" + kMinimal);
  EXPECT_THAT(fail("both.yaml").lines,
              ::testing::Contains(HasSubstr("with 'b.yaml', more than 128 MiB")));
}

TEST_F(ScenarioFilesTest, ExtendsStaysBelowTheRoot) {
  write("in/top.yaml", "extends: ../out.yaml\n");
  write("out.yaml", kMinimal);
  EXPECT_THAT(fail("in/top.yaml").lines,
              ElementsAre("E111 1:10 '../out.yaml' is outside the folder of the scenario"));
  LoadOptions wider;
  wider.root = folder_.path().string();
  EXPECT_EQ(load_scenario(path("in/top.yaml"), wider).plan.tp, 2);
  EXPECT_THAT(fail("in/top.yaml").all[0].help, HasSubstr("--root DIR"));

  write("in/absolute.yaml", "extends: " + path("out.yaml") + "\n");
  EXPECT_EQ(fail("in/absolute.yaml").codes, "E111");
  EXPECT_EQ(load_scenario(path("in/absolute.yaml"), wider).plan.tp, 2);
  fs::create_symlink(path("out.yaml"), path("in/link.yaml"));
  write("in/by-link.yaml", "extends: link.yaml\n");
  EXPECT_EQ(fail("in/by-link.yaml").codes, "E111");
  write("in/etc.yaml", "extends: ../../../../../../../../etc/passwd\n");
  EXPECT_EQ(fail("in/etc.yaml").codes, "E111");
}

// One error with the command that takes the file.
TEST_F(ScenarioFilesTest, FilesOfOtherToolsAreNamed) {
  const auto refused = [&](const std::string& name, const std::string& text) {
    write(name, text);
    const testing::Failure f = fail(name);
    return f.codes + ' ' + f.all[0].message + ": " + f.all[0].help;
  };
  for (const char* config : {"{\"hidden_size\": 64, \"num_hidden_layers\": 2}",
                             "{\"model_type\": \"llama\", \"architectures\": [\"x\"]}"})
    EXPECT_THAT(refused("config.json", config),
                AllOf(HasSubstr("E107 this is a config.json"), HasSubstr("-s cluster="),
                      HasSubstr("model: {hf: ")));
  for (const char* script :
       {"#!/bin/bash\nset -e\npython train.py\n", "torchrun pretrain_gpt.py \\\n --bf16\n",
        "--num-layers 4 --bf16\n", "ARGS=\"\n  --num-layers 4\n\"\nrun: {\n"})
    EXPECT_THAT(refused("train.sh", script),
                AllOf(HasSubstr("E107 this is a script"), HasSubstr("import megatron-args ")));
  // A scenario may speak of them.
  write("run.yaml", "#!/usr/bin/env bash\n" + kMinimal +
                        "name: pretrain_gpt\ndescription: with --num-layers 32\n");
  EXPECT_EQ(load_scenario(path("run.yaml")).plan.tp, 2);
  write("model.yaml", kMinimal + "hidden_size: 64\n");
  EXPECT_EQ(fail("model.yaml").codes, "E102");
}

TEST_F(ScenarioFilesTest, ExtendsNamesRegularFilesThatAreThere) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  write("a.yaml", "extends: pipe\n");
  EXPECT_EQ(fail("a.yaml").codes, "E111");
  write("b.yaml", "extends: .\n");
  EXPECT_EQ(fail("b.yaml").codes, "E111");
  write("c.yaml", "extends: nowhere.yaml\n");
  EXPECT_EQ(fail("c.yaml").codes, "E101");
  EXPECT_EQ(fail("c.yaml").exit_status, 7);
  write("d.yaml", "extends: {a: b}\n" + kMinimal);
  EXPECT_EQ(fail("d.yaml").codes, "E107");
  write("e.yaml", "extends: [[x]]\n" + kMinimal);
  EXPECT_EQ(fail("e.yaml").codes, "E107");
}

TEST_F(ScenarioFilesTest, ProblemsOfAnExtendedFileAreItsOwn) {
  write("base.yaml", "model: llama3-8b\nparallel: {tpp: 2}\n");
  const Failure f = fail(fs::path(write("top.yaml", "extends: base.yaml\n" +
                                                        kMinimal.substr(kMinimal.find("cluster"))))
                             .filename());
  ASSERT_EQ(f.codes, "E102");
  EXPECT_EQ(f.all[0].file, path("base.yaml"));
  EXPECT_EQ(f.all[0].line, 2);
  EXPECT_EQ(f.all[0].source_line, "parallel: {tpp: 2}");
}

TEST(Set, ChangesOneValueAndSaysSo) {
  const Scenario s = testing::load_with({{"parallel.tp", "4"}, {"batch.global", "512"}});
  EXPECT_EQ(s.plan.tp, 4);
  EXPECT_EQ(s.plan.global_batch, 512);
  EXPECT_EQ(testing::setting(s, "parallel.tp"), "4 (--set)");
}

TEST(Set, LaterOnesWinAndNullDeletes) {
  EXPECT_EQ(testing::load_with({{"parallel.tp", "4"}, {"parallel.tp", "1"}}).plan.tp, 1);
  EXPECT_EQ(testing::load_with({{"parallel.tp", "null"}}).plan.tp, 1);
  EXPECT_EQ(testing::load_with({{"parallel.tp", "# two\n2"}}).plan.tp, 2);
}

TEST(Set, AMappingMergesIntoASection) {
  const Scenario s = testing::load_with({{"parallel", "{tp: 4}"}});
  EXPECT_EQ(s.plan.tp, 4);
  EXPECT_EQ(s.plan.pp, 2);
}

TEST(Set, ReachesIntoWhatWasWrittenShort) {
  const Scenario s = testing::load_with(
      {{"cluster.nodes", "4"}, {"cluster.node.nics.bw", "200Gb/s"}, {"schedule.kind", "gpipe"}});
  EXPECT_EQ(s.cluster.nodes, 4);
  EXPECT_EQ(s.cluster.node.gpu.name, "h100-sxm");
  EXPECT_EQ(s.cluster.node.nic_bandwidth.value, 25e9);
  EXPECT_EQ(s.schedule.name, "gpipe");
  EXPECT_EQ(testing::load_with({{"model.num_hidden_layers", "16"}}).model.layers, 16);
}

TEST(Set, ProblemsNameTheOption) {
  const Failure f = testing::failure_with({{"parallel.tp", "x"}, {"parallel.ttp", "2"}});
  ASSERT_EQ(f.all.size(), 2u);
  EXPECT_EQ(f.all[0].file, "--set parallel.tp");
  EXPECT_EQ(f.all[0].line, 1);
  EXPECT_EQ(f.all[0].source_line, "x");
  EXPECT_EQ(f.all[1].file, "--set parallel.ttp");
  EXPECT_EQ(f.all[1].code, "E102");
}

TEST(Set, AnEmptyValueIsRefused) {
  for (const char* empty : {"", " ", "# 4", "---", "!!int"}) {
    const Failure f = testing::failure_with({{"parallel.tp", empty}});
    EXPECT_THAT(f.lines, ElementsAre("E107 1:1 the value of 'parallel.tp' is empty")) << empty;
  }
  EXPECT_THAT(testing::failure_with({{"cluster", ""}}).lines,
              ElementsAre("E107 1:1 the value of 'cluster' is empty"));
  EXPECT_EQ(testing::load_with({{"parallel.tp", "null"}}).plan.tp, 1);
  EXPECT_EQ(testing::load_with({{"description", "''"}}).description, "");
}

TEST(Set, ACommandThatDropsTheNumberOfNodesSaysSo) {
  const testing::Sets one{{"parallel", "{tp: 2, pp: 2}"}, {"cluster", "dgx-h200"}};
  EXPECT_THAT(testing::load_with(one).warnings,
              Contains("--set cluster=dgx-h200 leaves 1 of 2 nodes: 'dgx-h200 x 2' keeps their "
                       "number"));
  EXPECT_THAT(testing::load_with({{"cluster", "dgx-h200 x 2"}}).warnings,
              Not(Contains(HasSubstr("nodes"))));
  EXPECT_THAT(testing::load_with({{"cluster.preset", "dgx-h200"}}).warnings,
              Not(Contains(HasSubstr("nodes"))));
  EXPECT_THAT(testing::load_with({{"cluster", "dgx-h200"}, {"cluster.nodes", "2"}}).warnings,
              Not(Contains(HasSubstr("nodes"))));
  const testing::Sets mapping{{"parallel", "{tp: 2, pp: 2}"}, {"cluster", "{preset: dgx-h200}"}};
  EXPECT_THAT(testing::load_with(mapping).warnings,
              Contains(HasSubstr("--set cluster.nodes=2 behind it keeps their number")));
  // Where what is left is too small, the advice has it.
  const testing::Sets large{{"parallel.pp", "8"}, {"cluster", "dgx-h200"}};
  EXPECT_THAT(testing::failure_with(large).all.back().help,
              HasSubstr("without a number of nodes the cluster is 1 node of 8 GPUs: dgx-h200 x 2"));
}

TEST_F(ScenarioFilesTest, AMissingFileIsNamedAsItWasLookedFor) {
  fs::create_directories(folder_.path() / "runs");
  LoadOptions options;
  options.set = {{"model.hf", "runs/config.json"}};
  const std::string scenario = write("runs/my.yaml", kMinimal);
  const Failure set = testing::failure_of([&] { load_scenario(scenario, options); });
  ASSERT_EQ(set.codes, "E101");
  EXPECT_EQ(set.all[0].help,
            "a path of --set is relative to the folder of the scenario, or to --root; tried: " +
                path("runs/runs/config.json"));
  options.root = folder_.path();
  const Failure root = testing::failure_of([&] { load_scenario(scenario, options); });
  EXPECT_THAT(root.all.at(0).help, HasSubstr("tried: " + path("runs/config.json")));
  write("runs/own.yaml", "extends: my.yaml\nmodel: {hf: none.json}\n");
  const Failure own = fail("runs/own.yaml");
  EXPECT_EQ(own.all.at(0).help,
            "paths are relative to the file they stand in; tried: " + path("runs/none.json"));
}

TEST(Set, PathsAreChecked) {
  for (const char* path : {"", ".", "a.", ".a", "a..b", "extends"})
    EXPECT_EQ(testing::failure_with({{path, "1"}}).codes, "E102") << path;
  EXPECT_EQ(testing::failure_with({{"batch.global.x", "1"}}).codes, "E107");
  EXPECT_EQ(testing::failure_with({{"parallel.tp", "{"}}).codes.substr(0, 4), "E100");
}

}  // namespace
}  // namespace stepcast::files_test
