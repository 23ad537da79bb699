// SPDX-License-Identifier: Apache-2.0
// Mistakes that users of Megatron-LM make in their first scenarios: each gets one message, which
// says where it is, what is wrong, and what would be right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/scenarios/loading.h"

namespace stepcast::mistakes_test {
namespace {

using testing::Failure;

struct Mistake {
  std::string written;  // in place of the section of that name in kMinimal, or beside it
  std::string line;     // code, place and message of the only problem
  std::string remedy;   // in its label, help or note
};

std::string name_of_section(const std::string& text) {
  return text.substr(0, text.find(':') + 1);
}

// kMinimal with its sections replaced, one line each.
std::string scenario_with(const std::string& written) {
  std::string text, rest = testing::kMinimal;
  bool replaced = false;
  while (!rest.empty()) {
    std::string line = rest.substr(0, rest.find('\n') + 1);
    rest.erase(0, line.size());
    if (name_of_section(line) == name_of_section(written)) {
      line = written + '\n';
      replaced = true;
    }
    text += line;
  }
  return replaced ? text : text + written + '\n';
}

void expect_all(std::initializer_list<Mistake> mistakes) {
  for (const Mistake& m : mistakes) {
    SCOPED_TRACE(m.written);
    const testing::Failure f = testing::failure(scenario_with(m.written));
    ASSERT_THAT(f.lines, ::testing::ElementsAre(m.line));
    const Diagnostic& d = f.all[0];
    EXPECT_THAT(d.label + '\n' + d.help + '\n' + d.note, ::testing::HasSubstr(m.remedy));
  }
}

TEST(Mistakes, Spelling) {
  expect_all({
      {"paralell: {tp: 2}", "E102 5:1 unknown key 'paralell'", "did you mean 'parallel'?"},
      {"parallel: {tpp: 2}", "E102 3:12 unknown key 'tpp' in 'parallel'", "did you mean 'tp'?"},
      {"tensor-model-parallel-size: 2", "E102 5:1 unknown key 'tensor-model-parallel-size'",
       "Megatron's --tensor-model-parallel-size is parallel.tp here"},
      {"parallel: {tp: 2, sequence_parallel: true}",
       "E102 3:19 unknown key 'sequence_parallel' in 'parallel'", "did you mean 'sp'?"},
      {"overlap: {dp_grads: true}", "E102 5:11 unknown key 'dp_grads' in 'overlap'",
       "did you mean 'dp_grad'?"},
      {"optimizer: {kind: adam, lr: 3e-4}", "E102 5:25 unknown key 'lr' in 'optimizer'",
       "known here: kind, kernel, gradient_copies, whole_master, clip"},
      {"model: {preset: llama3-8b, num_layers: 16}",
       "E102 1:28 unknown key 'num_layers' in 'model'", "did you mean 'num_hidden_layers'?"},
      {"cluster: {preset: dgx-h100, nodes: 2, fabric: {bw: 400Gb/s}}",
       "E102 2:48 unknown key 'bw' in 'cluster.fabric'",
       "'cluster.node.intra.bw', 'cluster.node.nics.bw'"},
      {"compare: {cases: {a: {parallel.tpp: 4}}}",
       "E102 5:23 unknown key 'parallel.tpp' in a scenario", "did you mean 'parallel.tp'?"},
      {"schedule: {name: 1f1b}", "E102 5:12 unknown key 'name' in 'schedule'",
       "did you mean 'kind'?"},
      {"overlap: {name: mine}", "E102 5:11 unknown key 'name' in 'overlap'",
       "did you mean 'name' at the top level?"},
      {"schedule: {kind: seq1f1b, seq_splits: 4}",
       "E102 5:27 unknown key 'seq_splits' in 'schedule'",
       "did you mean 'schedule.params.seq_splits'?"},
      {"schedule: {kind: zb-v, params: {mem: 3}}", "E102 5:33 'mem' is not a parameter of zb-v",
       "it has none"},
  });
}

TEST(Mistakes, Names) {
  expect_all({
      {"model: llama-3-8b", "E125 1:8 there is no model preset 'llama-3-8b'",
       "did you mean 'llama3-8b'?"},
      {"model: meta-llama/Meta-Llama-3-8B",
       "E125 1:8 there is no model preset 'meta-llama/Meta-Llama-3-8B'", "{hf: FILE}"},
      {"cluster: h100 x 2", "E125 2:10 there is no cluster preset 'h100'",
       "did you mean 'dgx-h100'?"},
      {"cluster: dgx-a100 x 2", "E125 2:10 there is no cluster preset 'dgx-a100'",
       "did you mean 'dgx-a100-40g' or 'dgx-a100-80g'?"},
      {"cluster: dgx-h100x2", "E125 2:10 there is no cluster preset 'dgx-h100x2'",
       "two nodes: dgx-h100 x 2"},
      {"cluster: {nodes: 2, node: {gpu: H100}}", "E125 2:33 there is no GPU preset 'H100'",
       "did you mean 'h100-pcie', 'h100-sxm' or 'h100-sxm-96g'?"},
      {"schedule: interleave", "E125 5:11 there is no schedule 'interleave'",
       "did you mean 'interleaved-1f1b'?"},
      {"software: megatron-0.9", "E125 5:11 there is no software 'megatron-0.9'",
       "`stepcast presets software` lists them"},
      {"precision: bf16", "E125 5:12 'precision' cannot be 'bf16'", "did you mean 'bf16-mixed'?"},
      {"precision: \"bf16\"", "E125 5:12 'precision' cannot be 'bf16'",
       "did you mean 'bf16-mixed'?"},
      {"precision: fp8", "E125 5:12 'precision' cannot be 'fp8'", "'fp8-blockwise'"},
      {"precision: {params: bfloat16}", "E125 5:21 'params' cannot be 'bfloat16'", "bf16"},
      {"parallel: {tp: 2, pp: 2, zero: true}", "E125 3:32 'zero' cannot be 'true'", "0, 1, 2 or 3"},
      {"recompute: true", "E125 5:12 'recompute' cannot be 'true'",
       "none, selective, full or per-op"},
      {"parallel: {cp: 2, cp_comm: ring}", "E125 3:28 'cp_comm' cannot be 'ring'",
       "p2p, allgather, a2a or a2a+p2p"},
      {"mode: inference", "E125 5:7 'mode' cannot be 'inference'", "train, prefill or decode"},
      {"compare: {baseline: b, cases: {a: {parallel.tp: 4}}}", "E125 5:21 there is no case 'b'",
       "cases: a"},
      {"extends: base.yaml", "E101 5:10 cannot read 'base.yaml': No such file or directory", ""},
  });
}

TEST(Mistakes, NumbersAndUnits) {
  expect_all({
      {"batch: {global: 256, seq: 8,192}", "E100 4:29 '192' is a key without a value",
       "numbers are written without commas"},
      {"batch: {global: 0, seq: 8192}", "E121 4:17 'global' must be above 0, not 0", ""},
      {"batch: 256", "E107 4:8 'batch' must be a mapping", "its keys are: global, micro, seq"},
      {"parallel: {tp: \"2\"}", "E107 3:16 'tp' must be a number, not the text \"2\"",
       "leave the quotes out"},
      {"parallel: {tp: [2, 4]}", "E107 3:16 'tp' must be one number, not a list",
       "several values are the cases of `compare`"},
      {"parallel: {tp: -2}", "E122 3:16 'tp' must not be negative", ""},
      {"parallel: {tp: 1.5}", "E123 3:16 'tp' must be a whole number, not 1.5", ""},
      {"parallel: {tp: 2, sp: yes}", "E107 3:23 'sp' must be true or false, not 'yes'",
       "write true"},
      {"overlap: {bucket: 40M}", "E107 5:19 'bucket' must be a plain number, not '40M'",
       "write 40000000"},
      {"perturb: [{where: rank 3, compute: 80%}]",
       "E107 5:36 'compute' must be a plain number, not '80%'", "0.8 stands for 80%"},
      {"cluster: {preset: dgx-h100, node: {nics: {bw: 400G}}}", "E120 2:47 'bw' cannot be in 'G'",
       "write 400Gb/s (bits) or 400GB/s (bytes)"},
      {"cluster: {preset: dgx-h100, node: {gpu: {memory: 80}}}", "E120 2:50 'memory' needs a unit",
       "write 80GB or 80GiB"},
      {"measured: {step_time: 3.2}", "E120 5:23 'step_time' needs a unit", "3.2s"},
  });
}

TEST(Mistakes, WhatDoesNotFitTogether) {
  expect_all({
      {"parallel: {tp: 2, pp: 2, dp: 8}", "E201 3:30 tp*cp*pp*dp = 32, but the cluster has 16 GPUs",
       "dp = 4 fits, or leave dp out"},
      {"parallel: {pp: 2, vpp: 5}", "E202 3:24 32 layers are not a multiple of pp*vpp = 2*5",
       "vpp can be 1, 2, 4, 8 or 16"},
      {"batch: {global: 250, seq: 8192}",
       "E203 4:17 batch.global = 250 is not a multiple of micro*dp = 4",
       "the nearest are 248 and 252"},
      {"batch: {global: 256, seq: 8191}",
       "E204 4:27 batch.seq = 8191 is not a multiple of tp = 2, over which sequence parallelism "
       "splits it",
       "the nearest are 8190 and 8192; or set parallel.sp to false"},
      {"parallel: {tp: 2, ep: 2}", "E127 3:23 parallel.ep > 1, but the model has no experts",
       "leave it out"},
      {"schedule: interleaved-1f1b",
       "E205 5:11 interleaved-1f1b needs vpp >= 2 (Megatron's virtual pipeline size); with vpp = 1 "
       "the schedule is 1f1b",
       "parallel.vpp can be 2, 4, 8 or 16"},
      {"perturb: [{where: rank 99, compute: 0.8}]",
       "E240 5:19 there is no rank 99: the job has 16, 0 to 15", "the nearest is rank 15"},
  });
  EXPECT_THAT(testing::failure("model: mixtral-8x7b\ncluster: dgx-h100 x 3\n"
                               "parallel: {ep: 3}\nbatch: {global: 24, seq: 4096}\n")
                  .lines,
              ::testing::ElementsAre("E206 3:16 ep = 3 does not divide num_experts = 8"));
}

TEST(Mistakes, Yaml) {
  expect_all({
      {"parallel:\n\ttp: 2", "E100 4:4 this is not valid YAML: illegal map value",
       "indent with spaces"},
      {"cluster:\n  preset: dgx-h100\n nodes: 2",
       "E100 4:2 this is not valid YAML: end of map not found", "in the same column"},
      {"parallel: {tp: 2, order: tp,dp}", "E100 3:29 'dp' is a key without a value",
       "text with a comma in it stands in quotes"},
      {"batch: {global: 256, seq:8192}", "E100 4:22 'seq:8192' is a key without a value",
       "a space is missing after the ':'"},
  });
}

TEST(Mistakes, TwoValuesInOneSet) {
  const auto failure = [](const char* path, const char* value) {
    return testing::failure_with({{path, value}});
  };
  const testing::Failure f = failure("parallel.tp", "4,pp=2");
  EXPECT_THAT(f.lines,
              ::testing::ElementsAre("E107 1:1 the value of 'parallel.tp' has a second one in it: "
                                     "parallel.pp=2"));
  EXPECT_EQ(f.all.front().help, "--set (-s) takes one: -s parallel.tp=4 -s parallel.pp=2");
  EXPECT_THAT(failure("schedule", "1f1b, batch.micro=2").all.front().help,
              ::testing::HasSubstr("-s schedule=1f1b -s batch.micro=2"));
  EXPECT_EQ(testing::load_with({{"name", "a,b=c"}}).name, "a,b=c");
}

TEST(Mistakes, AFreeTextMayHaveTheNameOfAKeyInIt) {
  EXPECT_EQ(testing::load_with({{"name", "run lr=1e-4, seed=3"}}).name, "run lr=1e-4, seed=3");
  EXPECT_EQ(testing::load_with({{"description", "trial 2, seed=3"}}).name,
            testing::load_with({}).name);
  EXPECT_GT(testing::load_with({{"env.X", "a,name=b"}}).plan.grid.tp, 0);
}

// As pasted from a page; yaml-cpp would name the line behind it.
TEST(Mistakes, ABlankThatIsNoSpace) {
  const auto lines = [](const std::string& text) { return testing::failure(text).lines; };
  using ::testing::ElementsAre;
  EXPECT_THAT(
      lines("model: llama3-8b\ncluster:\u00a0dgx-h100 x 2\nbatch: {global: 64, seq: 8192}\n"),
      ElementsAre("E100 2:9 a no-break space (U+00A0) stands where YAML takes a space"));
  EXPECT_THAT(lines("model: llama3-8b\nbatch: {global:\u00a064, seq: 8192}\n"),
              ElementsAre("E100 2:16 a no-break space (U+00A0) stands where YAML takes a space"));
  EXPECT_THAT(lines("model: llama3-8b\nparallel:\n\u00a0\u00a0tp: 2\n"),
              ElementsAre("E100 3:2 a no-break space (U+00A0) stands where YAML takes a space"));
  // Inside a text and in a comment it is a letter, and another mistake is named.
  EXPECT_THAT(lines("name: a\u00a0b\nmodel: [\u2003x\n"),
              ElementsAre("E100 2:9 a blank (U+2003) stands where YAML takes a space"));
  EXPECT_THAT(lines("name: a\u00a0b #:\u00a0c\nparallel: {tp: 2\n"),
              ElementsAre(::testing::HasSubstr("this is not valid YAML")));
}

// In quotes, in a block text and within a plain one it is a letter, whatever is before it.
TEST(Mistakes, ABlankInATextIsNotBehindOtherMistakes) {
  const auto lines = [](const std::string& text) { return testing::failure(text).lines; };
  using ::testing::ElementsAre;
  using ::testing::HasSubstr;
  for (const char* text : {"\"see x:\u00a0y\"", "see x -\u00a0y", "|\n  a\n  \u00a0b"}) {
    const std::string description = std::string("description: ") + text + "\n";
    EXPECT_THAT(lines("model: llama3-8b\n" + description + "parallel: {tp: 2, zero: 1\nbatch: 1\n"),
                ElementsAre(HasSubstr("this is not valid YAML")))
        << text;
    // Nor does it hide the one that is.
    EXPECT_THAT(lines("batch: {global:\u00a064}\n" + description + "parallel: {tp: 2\n"),
                ElementsAre(HasSubstr("E100 1:16 ")))
        << text;
  }
}

// Each case, variant and replica is a run of its own.
TEST(Limits, NumbersOfRunsAreBounded) {
  const Failure replicas = testing::failure_with({{"replicas", "1000000"}});
  EXPECT_EQ(replicas.lines, std::vector<std::string>{"E123 1:1 'replicas' is too large: 1000000"});
  EXPECT_EQ(replicas.all[0].help, "at most 10000");
  std::string cases = "compare:\n  cases:\n", variants = "measured:\n  variants:\n";
  for (int i = 0; i <= 1000; ++i) {
    cases += "    c" + std::to_string(i) + ": {batch.micro: 1}\n";
    variants += "    v" + std::to_string(i) + ": {step_time: 1s}\n";
  }
  EXPECT_EQ(testing::failure(testing::kMinimal + cases).lines,
            std::vector<std::string>{"E123 1007:5 'cases' has 1001 names, more than 1000"});
  EXPECT_EQ(testing::failure(testing::kMinimal + variants).lines,
            std::vector<std::string>{"E123 1007:5 'variants' has 1001 names, more than 1000"});
}

TEST(Limits, AGpuHasMemory) {
  EXPECT_EQ(testing::failure_with({{"cluster.node.gpu.memory", "0GiB"}}).lines,
            std::vector<std::string>{"E121 1:1 'memory' must be above 0, not 0"});
}

// They would make a message, or the file itself, look like another one.
TEST(Limits, TextHasNoControlCharactersAndIsUtf8) {
  for (const auto& [bytes, why] :
       {std::pair{"\xe2\x80\xae", "there is a control character in the text: U+202E"},
        {"\xc2\x9b", "there is a control character in the text: U+009B"},
        {"\xe2\x81\xa6", "there is a control character in the text: U+2066"},
        {"\x1b", "there is a control character in the text: U+001B"},
        {"\xff", "this is not UTF-8 text"},
        {"\xc0\xaf", "this is not UTF-8 text"}}) {
    const Failure f = testing::failure("name: " + std::string(bytes) + "\n" + testing::kMinimal);
    EXPECT_EQ(f.lines, std::vector<std::string>{std::string("E100 1:7 ") + why});
  }
  EXPECT_EQ(testing::load("name: \xc3\x9f\xe4\xb8\xad\n" + testing::kMinimal).name,
            "\xc3\x9f\xe4\xb8\xad");
}

}  // namespace
}  // namespace stepcast::mistakes_test
