// SPDX-License-Identifier: Apache-2.0
// What is legal and probably not meant is remarked on; what cannot be is said where it was written,
// the real reason first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "scenarios/presets.h"
#include "tests/scenarios/loading.h"

namespace stepcast::remarks_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::failure_with;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::load_with;
using ::testing::Not;

TEST(Counts, AreShortInPowersOf1000And1024) {
  EXPECT_EQ(load_with({{"batch.seq", "8Ki"}}).plan.seq, 8192);
  EXPECT_EQ(load_with({{"batch.seq", "8K"}}).plan.seq, 8000);
  EXPECT_EQ(load_with({{"batch.seq", "0.5Mi"}}).plan.seq, 524'288);
  const testing::Failure f = failure_with({{"batch.seq", "8k"}});
  EXPECT_THAT(f.lines, ElementsAre("E120 1:1 'seq' is a count: '8k' is not"));
  EXPECT_EQ(f.all.front().help, "8K is 8000; 8Ki is 8192");
  EXPECT_THAT(failure_with({{"batch.seq", "8x"}}).all.front().help,
              HasSubstr("powers of 1000, Ki and Mi of 1024"));
}

TEST(Remarks, ASequenceInThousands) {
  EXPECT_THAT(load_with({{"batch.seq", "8K"}}).warnings,
              ElementsAre("batch.seq = 8K is 8000; 8Ki is 8192"));
  EXPECT_THAT(load_with({{"batch.seq", "1M"}}).warnings,
              ElementsAre("batch.seq = 1M is 1000000; 1Mi is 1048576"));
  EXPECT_THAT(load_with({{"batch.seq", "8Ki"}}).warnings, IsEmpty());
  EXPECT_THAT(load_with({{"batch.global", "4K"}}).warnings, IsEmpty());
}

TEST(Remarks, TokensForSequencesOfABatch) {
  EXPECT_THAT(load_with({{"batch.global", "400000"}, {"batch.seq", "8192"}}).warnings,
              Contains("batch.global counts sequences: 400000 of 8192 tokens are 3 billion "
                       "tokens a step; 400000 tokens are 48 sequences"));
  // The largest there are: BERT with LAMB, MiniMax-01, a context of a million.
  for (const auto& [global, seq] : std::vector<std::pair<const char*, const char*>>{
           {"65536", "512"}, {"16384", "8192"}, {"128", "1048576"}, {"98304", "4096"}})
    EXPECT_THAT(load_with({{"batch.global", global}, {"batch.seq", seq}}).warnings,
                Not(Contains(HasSubstr("counts sequences"))))
        << global;
}

TEST(Remarks, BytesForBitsOfANic) {
  EXPECT_THAT(load_with({{"cluster.node.nics.bw", "400GB/s"}}).warnings,
              Contains("cluster.node.nics.bw = 400GB/s is many times the fastest NIC of the "
                       "presets, 800Gb/s: did you mean 400Gb/s?"));
  for (const char* usual : {"50GB/s", "800Gb/s", "100GB/s"})
    EXPECT_THAT(load_with({{"cluster.node.nics.bw", usual}}).warnings,
                Not(Contains(HasSubstr("did you mean"))))
        << usual;
  double fastest = 0;
  for (const std::string_view name : preset_names(PresetKind::cluster)) {
    const Scenario s = testing::load("model: llama3-8b\ncluster: " + std::string(name) +
                                     "\nprecision: fp16-mixed\nbatch: {global: 1440, seq: 8192}\n");
    fastest = std::max(fastest, s.cluster.node.nic_bandwidth.value);
  }
  EXPECT_EQ(fastest, 100e9);  // bytes a second
}

TEST(Schedules, LayersThatDoNotSuitTheirChunksAreTheFirstReason) {
  const std::string text =
      "model: {preset: llama3-8b, num_hidden_layers: 60}\ncluster: dgx-h100 x 2\n"
      "parallel: {pp: 4, vpp: 3}\nbatch: {global: 256, seq: 8192}\nschedule: zb-v\n";
  for (const char* vpp : {"3", "2", "null"}) {
    const testing::Failure f = testing::failure(text, {{"parallel.vpp", vpp}});
    EXPECT_THAT(f.lines, ElementsAre("E202 5:11 60 layers are not a multiple of pp*vpp = 4*2, and "
                                     "zb-v runs 2 chunks on each rank"))
        << vpp;
    EXPECT_EQ(f.all.front().help,
              "with vpp = 2, pp can be 1, 2, 3, 5, 6, 10, 15 or 30; parallel.split: products takes "
              "any number of layers, parallel.layout states a split: "
              "'Et*7|(t*8|)*4(t*7|)*2t*7L'");
  }
  EXPECT_THAT(testing::failure(text, {{"model.num_hidden_layers", "24"}}).lines,
              ElementsAre(HasSubstr("vpp = 3")));
}

TEST(Cases, WhatIsWrongInOneIsShownWhereItIsWritten) {
  const std::string text = testing::kMinimal +
                           "compare:\n  cases:\n    base: {}\n"
                           "    odd: {parallel.tp: 3, parallel.layout: 'Et|tL'}\n";
  LoadOptions options;
  options.compare_case = "odd";
  const testing::Failure f =
      testing::failure_of([&] { load_scenario_text(text, "run.yaml", options); });
  ASSERT_FALSE(f.all.empty());
  for (const Diagnostic& d : f.all) EXPECT_EQ(d.file, "run.yaml") << d.message;
  EXPECT_THAT(f.lines, Contains(HasSubstr("E202 8:44 the layout holds 2 layers")));
  options.compare_case = "base";
  const Scenario base = load_scenario_text(text, "run.yaml", options);
  EXPECT_EQ(base.plan.tp, 2);
  EXPECT_TRUE(base.compare.empty());  // a case is no comparison
}

// What is said beside an unknown key.
std::string hint(const std::string& path) {
  const Diagnostic d = failure_with({{path, "8"}}).all.front();
  return d.label + '|' + d.help + '|' + d.note;
}

TEST(DidYouMean, NamesOfMegatronInTheModel) {
  EXPECT_THAT(hint("model.num_layers"), HasSubstr("did you mean 'num_hidden_layers'?|"));
  EXPECT_THAT(hint("model.num_layers"),
              HasSubstr("|Megatron's --num-layers is model.num_hidden_layers here"));
  EXPECT_THAT(hint("model.ffn_hidden_size"), HasSubstr("did you mean 'intermediate_size'?"));
  EXPECT_THAT(hint("model.num_query_groups"), HasSubstr("did you mean 'num_key_value_heads'?"));
  EXPECT_THAT(hint("model.kv_heads"), HasSubstr("did you mean 'num_key_value_heads'?"));
  EXPECT_THAT(hint("model.n_layers"), HasSubstr("did you mean 'num_hidden_layers'?"));
  EXPECT_THAT(hint("model.seq_length"),
              HasSubstr("did you mean 'batch.seq'?|keys are those of a Hugging Face config.json|"
                        "Megatron's --seq-length is batch.seq here"));
}

TEST(DidYouMean, WhatBeginsAlikeComesFirstAndWhatIsFarOffNot) {
  EXPECT_EQ(hint("parallel.vp"), "did you mean 'vpp'?||");
  EXPECT_EQ(hint("overlap.dp"), "did you mean 'dp_grad' or 'dp_param'?||");
  EXPECT_THAT(hint("parallel.xy"), ::testing::StartsWith("|known here: tp, cp, ep, "));
  EXPECT_EQ(hint("xy"), "|`stepcast schema` lists all keys|");
}

TEST(Set, AnUnknownKeyIsUnderlinedItself) {
  const Diagnostic first = failure_with({{"paralel.tp", "8"}}).all.front();
  EXPECT_EQ(first.source_line, "paralel.tp=8");
  EXPECT_EQ(first.column, 1);
  EXPECT_EQ(first.length, 7);
  const Diagnostic second = failure_with({{"parallel.tpp", "8"}}).all.front();
  EXPECT_EQ(second.source_line, "parallel.tpp=8");
  EXPECT_EQ(second.column, 10);
  EXPECT_EQ(second.length, 3);
}

}  // namespace
}  // namespace stepcast::remarks_test
