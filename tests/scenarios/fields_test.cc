// SPDX-License-Identifier: Apache-2.0
#include "scenarios/document/files.h"
#include "scenarios/schema/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <set>

#include "scenarios/schema/tree.h"
#include "sim/text.h"
#include "tests/scenarios/loading.h"

namespace stepcast::fields_test {
namespace {

using ::testing::HasSubstr;

Value parse(const std::string& text) {
  Problems problems;
  Value v = parse_yaml(problems, problems.add_source({"t", text}));
  EXPECT_FALSE(problems.any()) << text;
  return v;
}

std::string merged(const std::string& base, const std::string& over) {
  Value v = parse(base);
  merge(v, parse(over));
  return to_flow(v);
}

TEST(Fields, PathsAreUniqueAndBelowTheirSections) {
  std::set<std::string_view> seen;
  for (const Field& f : scenario_fields()) {
    EXPECT_TRUE(seen.insert(f.path).second) << f.path;
    const size_t dot = f.path.rfind('.');
    if (dot == std::string_view::npos) continue;
    std::string_view around = f.path.substr(0, dot);
    if (around.ends_with("[]")) around.remove_suffix(2);
    if (around.ends_with(".*")) around.remove_suffix(2);
    EXPECT_EQ(seen.count(around), 1u) << f.path << " comes before its section";
  }
}

TEST(Fields, ADefaultHasAReasonAndChoicesHaveWordsOfTheirOwn) {
  for (const Field& f : scenario_fields()) {
    EXPECT_EQ(f.fallback.empty(), f.reason.empty()) << f.path;
    const bool listed = f.type == FieldType::choice || f.type == FieldType::choices;
    EXPECT_EQ(listed, !f.choices.empty()) << f.path;
    for (const Word& word : f.choices.words) EXPECT_EQ(f.choices.find(word.text), &word) << f.path;
  }
}

// What a resolver may bind is decided while it is compiled: Key and KeyOf ask these.
static_assert(find_field("parallel.tp") != nullptr && find_field("parallel.tpp") == nullptr);
static_assert(holds<int64_t>(*find_field("parallel.tp")));
static_assert(!holds<bool>(*find_field("parallel.tp")));
static_assert(holds<TpOverlap>(*find_field("overlap.tp")));
static_assert(!holds<CpComm>(*find_field("overlap.tp")));
static_assert(Key("schedule.p2p").row().choices.find("deepspeed")->meaning ==
              static_cast<int>(P2pStyle::deepspeed));

// Words of pipeline transfers are printed elsewhere too.
TEST(Fields, WordsOfTransfersAreTheirNames) {
  for (const P2pStyle style : kAllP2pStyles) {
    const Word* word = Key("schedule.p2p").row().choices.find(name_of(style));
    ASSERT_NE(word, nullptr) << name_of(style);
    EXPECT_EQ(word->meaning, static_cast<int>(style));
  }
}

TEST(Fields, ForeignNamesLeadToOurs) {
  for (const char* key : {"global_batch_size", "--global-batch-size", "Global-Batch-Size"}) {
    const ForeignName* name = find_foreign_name(key);
    ASSERT_NE(name, nullptr) << key;
    EXPECT_EQ(name->path, "batch.global");
    EXPECT_NE(find_field(name->path), nullptr);
  }
  EXPECT_EQ(find_foreign_name("global"), nullptr);
  for (const auto& [key, path] : {std::pair{"moe_token_dispatcher_type", "moe.dispatcher"},
                                  {"seqlen", "batch.seq"},
                                  {"num_layers_per_virtual_pipeline_stage", "parallel.vpp"}}) {
    ASSERT_NE(find_foreign_name(key), nullptr) << key;
    EXPECT_EQ(find_foreign_name(key)->path, path);
    EXPECT_NE(find_field(path), nullptr) << path;
  }
}

TEST(Fields, APathFindsItsRow) {
  EXPECT_EQ(field_of_path("parallel.tp")->path, "parallel.tp");
  EXPECT_EQ(field_of_path("schedule")->path, "schedule");
  EXPECT_EQ(field_of_path("model.hidden_size")->path, "model");
  EXPECT_EQ(field_of_path("measured.variants.full.step_time")->path,
            "measured.variants.*.step_time");
  EXPECT_EQ(field_of_path("sweep.axes.x")->path, "sweep.axes");
  for (const char* path : {"parallel.tpp", "parallel.tp.x", "x", "", ".", "measured.variants.a.b"})
    EXPECT_EQ(field_of_path(path), nullptr) << path;
}

// Memory that is left for half of the copy: what was never made is not destroyed.
TEST(Datum, IsNotCopiedWhereMemoryEnds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have memory of their own";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
#endif
  constexpr size_t kLarge = size_t{64} << 20;
  const Datum datum =
      std::vector<std::string>{"a word that is no short one", std::string(kLarge, 'x')};
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  struct rlimit little = before;
  little.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE)) + kLarge / 4;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  bool out_of_memory = false;
  try {
    const Datum copy = datum;
    EXPECT_EQ(copy.index(), datum.index());
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
  }
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_TRUE(out_of_memory);
}

TEST(Spelling, FindsTheClosestWord) {
  const std::string_view words[] = {"global", "micro", "seq", "tp", "pp"};
  EXPECT_EQ(closest("gobal", words), "global");
  EXPECT_EQ(closest("GLOBAL", words), "global");
  EXPECT_EQ(closest("mirco", words), "micro");  // neighbours swapped
  EXPECT_EQ(closest("tpp", words), "tp");
  EXPECT_EQ(closest("elephant", words), "");
  EXPECT_EQ(closest("", words), "");
  EXPECT_EQ(closest(std::string(100'000, 'g'), words), "");
}

TEST(Spelling, NamesThatGoOnComeBeforeTheClosest) {
  const std::string_view words[] = {"bf16-mixed", "fp16-mixed", "dgx-h100", "dgx-a100-40g",
                                    "dgx-a100-80g"};
  EXPECT_EQ(did_you_mean("bf16", words), "did you mean 'bf16-mixed'?");
  EXPECT_EQ(did_you_mean("dgx-a100", words), "did you mean 'dgx-a100-40g' or 'dgx-a100-80g'?");
  EXPECT_EQ(did_you_mean("DGX_H10", words), "did you mean 'dgx-h100'?");
  EXPECT_EQ(did_you_mean("h100", words), "did you mean 'dgx-h100'?");
  EXPECT_EQ(did_you_mean("elephant", words), "");
  EXPECT_EQ(did_you_mean("", words), "");
}

TEST(Tree, MergeReplacesScalarsAndListsAndMergesMappings) {
  EXPECT_EQ(merged("{a: 1, b: {c: 2, d: 3}}", "{b: {c: 4, e: 5}}"),
            "{a: 1, b: {c: 4, d: 3, e: 5}}");
  EXPECT_EQ(merged("{a: [1, 2]}", "{a: [3]}"), "{a: [3]}");
  EXPECT_EQ(merged("{a: {b: 1}}", "{a: 2}"), "{a: 2}");
  EXPECT_EQ(merged("{a: 2}", "{a: {b: 1}}"), "{a: {b: 1}}");
  EXPECT_EQ(merged("{a: 1, b: {c: 2, d: 3}}", "{a: ~, b: {c: null}}"), "{b: {d: 3}}");
  EXPECT_EQ(merged("{}", "{a: {b: null, c: 1}, d: null}"), "{a: {c: 1}}");
}

TEST(Tree, FlowTextReadsBackTheSame) {
  for (const char* text :
       {"{a: 1, b: [x, \"y, z\"], c: {d: \"5\"}}", "[]", "{}", "1f1b", "\"a \\\"b\\\" \\\\ c\"",
        "\"line\\nline\"", "[null, 5%, 400Gb/s]", "\"E|(t|)*126L\"", "\"#x\"",
        "\"a\\x09\\x01\\x7fb\"", "{\"a\\x0d\": \"b:\\x09c\"}"}) {
    const std::string once = to_flow(parse(text));
    EXPECT_EQ(once, text);
    EXPECT_EQ(to_flow(parse(once)), once);
  }
}

TEST(Tree, ShorthandIsWrittenOut) {
  const auto expanded = [](const char* path, const std::string& text) {
    Value v = parse(text);
    expand_shorthand(v, *find_field(path));
    return to_flow(v);
  };
  EXPECT_EQ(expanded("cluster", "dgx-h100 x 2"), "{preset: dgx-h100, nodes: 2}");
  EXPECT_EQ(expanded("cluster", "dgx-h100"), "{preset: dgx-h100}");
  EXPECT_EQ(expanded("cluster", "a x b x 3"), "{preset: a x b, nodes: 3}");
  EXPECT_EQ(expanded("schedule", "1f1b"), "{kind: 1f1b}");
  EXPECT_EQ(expanded("kernels.dropout", "0.1"), "{attention: 0.1, hidden: 0.1}");
  EXPECT_EQ(expanded("schedule", "{group: 4}"), "{group: 4}");
  EXPECT_EQ(expanded("parallel", "5"), "5");  // has no shorthand
}

// Walks the schema as a validator would and collects the keys of each object.
void collect(const Value& v, const std::string& path, std::set<std::string>& paths) {
  if (const Value* any = v.find("anyOf"); any != nullptr)
    for (const Value& item : any->items) collect(item, path, paths);
  if (const Value* items = v.find("items"); items != nullptr) collect(*items, path + "[]", paths);
  if (const Value* more = v.find("additionalProperties"); more != nullptr && more->is_mapping())
    collect(*more, path + ".*", paths);
  const Value* properties = v.find("properties");
  if (properties == nullptr) return;
  for (const Member& m : properties->members) {
    const std::string below = path.empty() ? m.key : path + '.' + m.key;
    paths.insert(below);
    collect(m.value, below, paths);
  }
}

TEST(Schema, IsJsonAndHasEveryRow) {
  const Value schema = parse(scenario_json_schema());
  EXPECT_EQ(schema.find("$schema")->text, "https://json-schema.org/draft/2020-12/schema");
  std::set<std::string> paths;
  collect(schema, "", paths);
  for (const Field& f : scenario_fields()) {
    if (f.path.ends_with(".*")) continue;
    EXPECT_EQ(paths.count(std::string(f.path)), 1u) << f.path;
  }
  EXPECT_EQ(paths.size() + 1, scenario_fields().size());  // compare.cases.*
}

TEST(Schema, StatesUnitsChoicesAndDefaults) {
  const std::string schema = scenario_json_schema();
  EXPECT_THAT(schema, HasSubstr("([kKMGTP]i?)?[bB]/s$"));
  EXPECT_THAT(schema, HasSubstr("\"enum\": [0, 1, 2, 3]"));
  EXPECT_THAT(schema, HasSubstr("default tp-cp-dp-pp: Megatron's order"));
}

}  // namespace
}  // namespace stepcast::fields_test
