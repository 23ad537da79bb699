// SPDX-License-Identifier: Apache-2.0
#include "model/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast::stages_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr bool kE = true, kL = true;

StageContent stage(int64_t layers, bool embedding = false, bool head = false) {
  return {layers, embedding, head};
}

int64_t layers_of(const std::vector<StageContent>& stages) {
  return std::accumulate(stages.begin(), stages.end(), int64_t{0},
                         [](int64_t n, const StageContent& s) { return n + s.layers; });
}

// The sentence that a layout is refused with; empty if it is accepted.
std::string refusal(const std::string& layout) {
  try {
    parse_stage_layout(layout);
  } catch (const InputError& e) {
    return e.diagnostics.front().message;
  }
  return {};
}

TEST(EvenStages, SpreadLayersWithEmbeddingFirstAndHeadLast) {
  EXPECT_THAT(even_stages(8, 2, 2),
              ElementsAre(stage(2, kE), stage(2), stage(2), stage(2, false, kL)));
}

TEST(EvenStages, OfOneStageHoldEverything) {
  EXPECT_THAT(even_stages(12, 1, 1), ElementsAre(stage(12, kE, kL)));
}

TEST(EvenStages, RefuseARestAsABug) {
  EXPECT_THROW(even_stages(10, 4, 1), InternalError);
  EXPECT_THROW(even_stages(8, 0, 1), InternalError);
}

// Embedding, norm and head are a module each: 43 of them on 4 stages are 11, 11, 11, 10.
TEST(StagesByModules, CountWhatIsNoLayerToo) {
  EXPECT_THAT(stages_by_modules(40, 4),
              ElementsAre(stage(10, kE), stage(11), stage(11), stage(8, false, kL)));
  EXPECT_THAT(stages_by_modules(40, 2), ElementsAre(stage(21, kE), stage(19, false, kL)));
  EXPECT_THAT(stages_by_modules(40, 1), ElementsAre(stage(40, kE, kL)));
  for (int64_t stages = 1; stages <= 13; ++stages)
    EXPECT_EQ(layers_of(stages_by_modules(10, stages)), 10) << stages;
}

TEST(StagesByModules, MayLeaveTheLastStagesWithoutLayers) {
  EXPECT_THAT(stages_by_modules(2, 5),
              ElementsAre(stage(0, kE), stage(1), stage(1), stage(0), stage(0, false, kL)));
}

TEST(LastStagesFullest, TakeWhatIsLeft) {
  EXPECT_THAT(last_stages_fullest(32, 5),
              ElementsAre(stage(6, kE), stage(6), stage(6), stage(7), stage(7, false, kL)));
  EXPECT_THAT(last_stages_fullest(8, 2), ElementsAre(stage(4, kE), stage(4, false, kL)));
}

TEST(Layout, OfLlama405bIsOneLayerAStage) {
  const auto stages = parse_stage_layout("E|(t|)*126L");
  ASSERT_EQ(stages.size(), 128u);
  EXPECT_EQ(stages.front(), stage(0, kE));
  for (size_t s = 1; s <= 126; ++s) EXPECT_EQ(stages[s], stage(1)) << s;
  EXPECT_EQ(stages.back(), stage(0, false, kL));
}

TEST(Layout, WithoutItsMtpLayerOfDeepSeekV3Has61Layers) {
  const auto stages = parse_stage_layout("Ettt|(tttt|)*14,ttL");
  ASSERT_EQ(stages.size(), 16u);
  EXPECT_EQ(stages[0], stage(3, kE));
  EXPECT_EQ(stages[7], stage(4));
  EXPECT_EQ(stages[15], stage(2, false, kL));
  EXPECT_EQ(layers_of(stages), 61);
}

TEST(Layout, MayHaveEmptyStages) {
  EXPECT_THAT(parse_stage_layout("E|t||tL"),
              ElementsAre(stage(0, kE), stage(1), stage(0), stage(1, false, kL)));
}

TEST(Layout, MayBeOneStage) {
  EXPECT_THAT(parse_stage_layout("EttL"), ElementsAre(stage(2, kE, kL)));
}

TEST(Layout, RepeatsSymbolsBarsAndGroups) {
  EXPECT_EQ(parse_stage_layout("Et*3|tL"), parse_stage_layout("Ettt|tL"));
  EXPECT_EQ(parse_stage_layout("Et|*3tL"), parse_stage_layout("Et|||tL"));
  EXPECT_EQ(parse_stage_layout("E(|tt)*2L"), parse_stage_layout("E|tt|ttL"));
  EXPECT_EQ(parse_stage_layout("E|(t*2|)*3L"), parse_stage_layout("E|tt|tt|tt|L"));
  EXPECT_EQ(parse_stage_layout("Et(t|t)*2L"), parse_stage_layout("Ett|tt|tL"));
}

TEST(Layout, IgnoresCommasAndBlanks) {
  EXPECT_EQ(parse_stage_layout("E,t t|,(t,|)*2, t*2,L"), parse_stage_layout("Ett|t|t|ttL"));
}

// The first is the example of Megatron-LM's --pipeline-model-parallel-layout.
TEST(Layout, PlacesPredictionModulesAfterTheLayers) {
  const std::vector<StageContent> stages = parse_stage_layout("E|(t|)*3,m|m||L");
  std::vector<int64_t> modules;
  for (const StageContent& s : stages) modules.push_back(s.predictions);
  EXPECT_THAT(modules, ::testing::ElementsAre(0, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_EQ(parse_stage_layout("Ettt|(tttt|)*14,ttmL").back().predictions, 1);
  EXPECT_THAT(refusal("E|(tm|)*3L"), HasSubstr("a t after an m"));
}

TEST(Layout, TooLargeIsRefusedBeforeItIsBuilt) {
  const std::string sentence = "the layout has more than 1,000,000 layers and stages";
  EXPECT_EQ(refusal("E|(t|)*999999999L"), sentence);
  EXPECT_EQ(refusal("E|(t|)*99999999999999999999999L"), sentence);
  EXPECT_EQ(refusal("E|(t*1000000|)*1000000L"), sentence);
  std::string many = "E";
  for (int i = 0; i < 11; ++i) many += "t*100000";
  EXPECT_EQ(refusal(many + "L"), sentence);
  EXPECT_EQ(layers_of(parse_stage_layout("E|(t|)*400000L")), 400'000);
}

TEST(Layout, NamesTheStrangeCharacterAndItsPlace) {
  EXPECT_THAT(refusal("E|x|L"), HasSubstr("'x' at character 3"));
  EXPECT_THAT(refusal("E|T|L"),
              HasSubstr("E (embedding), t (layer), m (multi-token prediction), L (loss)"));
  EXPECT_THAT(refusal(std::string("E|\0|L", 5)), HasSubstr("byte 0 at character 3"));
  EXPECT_THAT(refusal("E|\xc3\xa9|L"), HasSubstr("byte 195"));
}

TEST(Layout, WithBrokenRepetitionIsRefused) {
  EXPECT_THAT(refusal("E|(t|)*L"), HasSubstr("needs a count after '*' at character 8"));
  EXPECT_THAT(refusal("E|(t|)*"), HasSubstr("needs a count after '*'"));
  EXPECT_THAT(refusal("E|(t|)*-2L"), HasSubstr("needs a count after '*'"));
  EXPECT_THAT(refusal("E|(t|)*0L"), HasSubstr("0 times"));
  EXPECT_THAT(refusal("E|(t|)L"), HasSubstr("need a count"));
  EXPECT_THAT(refusal("E|(t|)"), HasSubstr("need a count"));
  EXPECT_THAT(refusal("*3E|tL"), HasSubstr("nothing to repeat"));
  EXPECT_THAT(refusal("Et*3*2L"), HasSubstr("nothing to repeat"));
  EXPECT_THAT(refusal("E|(t|L"), HasSubstr("'(' at character 3 is never closed"));
  EXPECT_THAT(refusal("E|t)*3L"), HasSubstr("closes nothing"));
  EXPECT_THAT(refusal("E|((t|)*2t)*2L"), HasSubstr("do not nest"));
  EXPECT_THAT(refusal("E|()*3tL"), HasSubstr("are empty"));
}

TEST(Layout, NeedsOneEmbeddingFirstAndOneLossLast) {
  EXPECT_THAT(refusal(""), HasSubstr("is empty"));
  EXPECT_THAT(refusal(",,"), HasSubstr("is empty"));
  EXPECT_THAT(refusal("t|t|L"), HasSubstr("has no E"));
  EXPECT_THAT(refusal("E|t|t"), HasSubstr("has no L"));
  EXPECT_THAT(refusal("E|tE|L"), HasSubstr("more than one E"));
  EXPECT_THAT(refusal("E|t|LL"), HasSubstr("more than one L"));
  EXPECT_THAT(refusal("tE|t|L"), HasSubstr("E must stand first"));
  EXPECT_THAT(refusal("|Et|L"), HasSubstr("E must stand first"));
  EXPECT_THAT(refusal("Et|Lt"), HasSubstr("L must stand last"));
  EXPECT_THAT(refusal("Et|L|"), HasSubstr("L must stand last"));
  EXPECT_THAT(refusal("E|L"), HasSubstr("no layers"));
}

}  // namespace
}  // namespace stepcast::stages_test
