// SPDX-License-Identifier: Apache-2.0
// What holds for every kind of file that is imported.
#include "scenarios/frameworks/import_run.h"
#include "scenarios/document/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sim/text.h"
#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::import_run_test {
namespace {

using ::testing::HasSubstr;
using testing::import_failure;
using testing::import_sample;
using testing::imported;
using ::testing::Not;
using testing::notes;
using testing::request;
using testing::value_of;

std::string refusal_help(const std::string& text) {
  try {
    imported("auto", text);
  } catch (const InputError& e) {
    return e.diagnostics.front().help;
  }
  return "";
}

TEST(ImportRun, WhatTheUserStatesIsNotAssumed) {
  ImportRequest r = request("hf", import_sample("llama3_8b.config.json"));
  r.cluster = {"dgx-a100-80g", "", false};
  r.set = {{"batch.global", "512"}, {"parallel.tp", "2"}};
  const ImportedRun run = import_run(r);
  EXPECT_EQ(value_of(run, "batch.global"), "512");
  EXPECT_EQ(value_of(run, "parallel.tp"), "2");
  EXPECT_EQ(value_of(run, "cluster.preset"), "dgx-a100-80g");
  EXPECT_THAT(notes(run), Not(HasSubstr("batch.global")));
  EXPECT_THAT(notes(run), Not(HasSubstr("cluster.preset")));
  EXPECT_EQ(testing::load(run.scenario).plan.tp, 2);
}

TEST(ImportRun, AKeyThatIsNullIsOfNoUnknownCost) {
  std::string text = import_sample("nanotron.yaml");
  const size_t at = text.find("  model_config:\n");
  ASSERT_NE(at, std::string::npos);
  text.insert(at + 16, "    odd_part: null\n    odd_size: 3\n");
  const ImportedRun run = imported("nanotron", text + "odd:\nodd_number: 4\n");
  EXPECT_THAT(testing::unknown(run), HasSubstr("odd_size@"));
  EXPECT_THAT(testing::unknown(run), HasSubstr("odd_number@"));
  EXPECT_THAT(testing::unknown(run), Not(HasSubstr("odd_part@")));
  EXPECT_THAT(testing::unknown(run), Not(HasSubstr("odd@")));
}

// A file that says the accumulation, and what a step then is on the replicas that there are.
struct Accumulating {
  std::string kind, text;
  std::string global;         // as it is imported
  std::string on_four_nodes;  // ... with -s cluster.nodes=4
  std::string with_micro;     // ... and -s batch.micro=3 beside it
};
const Accumulating kAccumulating[] = {
    {"gpt-neox",
     "num_layers: 4\nhidden_size: 512\nnum_attention_heads: 8\nseq_length: 2048\n"
     "max_position_embeddings: 2048\npipe_parallel_size: 2\nmodel_parallel_size: 2\n"
     "train_micro_batch_size_per_gpu: 2\ngradient_accumulation_steps: 32\n",
     "128", "512", "768"},
    {"axolotl",
     "base_model: NousResearch/Meta-Llama-3-8B\nmicro_batch_size: 2\n"
     "gradient_accumulation_steps: 4\nsequence_len: 4096\n",
     "64", "256", "384"},
    {"accelerate", "distributed_type: FSDP\nnum_processes: 8\ngradient_accumulation_steps: 4\n",
     "32", "128", "384"},
    {"deepspeed",
     "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4, "
     "\"zero_optimization\": {\"stage\": 1}}",
     "64", "256", "384"},
    {"torchtitan",
     "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\n"
     "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = -1\n",
     "16", "64", "96"},
    {"torchtitan",
     "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 12\n"
     "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = -1\n"
     "pipeline_parallel_degree = 2\n",
     "48", "192", "192"},
    {"megatron-args",
     "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 2048 "
     "--max-position-embeddings 2048 --micro-batch-size 2 --vocab-size 32000",
     "2", "64", "96"},
    {"nanotron",
     "model:\n  model_config: {is_llama_config: true, hidden_size: 512, num_hidden_layers: 4, "
     "num_attention_heads: 8, intermediate_size: 1024, vocab_size: 32000}\n"
     "parallelism: {dp: 2, tp: 2, pp: 2}\n"
     "tokens: {batch_accumulation_per_replica: 8, micro_batch_size: 2, sequence_length: 2048}\n",
     "32", "128", "192"},
};

TEST(ImportRun, ABatchThatFollowsFromAccumulationFollowsTheReplicasThatThereAre) {
  for (const Accumulating& row : kAccumulating) {
    ImportRequest r = request(row.kind, row.text);
    if (row.kind == "accelerate" || row.kind == "deepspeed") r.set = {{"model", "llama3-8b"}};
    EXPECT_EQ(value_of(import_run(r), "batch.global"), row.global) << row.text;
    r.set.emplace_back("cluster.nodes", "4");
    if (row.kind == "megatron-args") r.set.emplace_back("cluster.node.gpus", "8");
    EXPECT_EQ(value_of(import_run(r), "batch.global"), row.on_four_nodes) << row.text;
    ImportRequest more = r;
    more.set.emplace_back("batch.micro", "3");
    EXPECT_EQ(value_of(import_run(more), "batch.global"), row.with_micro) << row.text;
    more.set.emplace_back("batch.global", "1152");
    EXPECT_EQ(value_of(import_run(more), "batch.global"), "1152") << row.text;
  }
}

TEST(ImportRun, ABatchFollowsTheClusterHoweverItIsStated) {
  ImportRequest r = request("axolotl", kAccumulating[1].text);
  r.set = {{"cluster", "dgx-a100-40g x 12"}};
  EXPECT_EQ(value_of(import_run(r), "batch.global"), "768");
  r.set = {{"cluster", "{preset: dgx-h100, nodes: 2}"}, {"parallel.tp", "4"}};
  EXPECT_EQ(value_of(import_run(r), "batch.global"), "32");
}

TEST(ImportRun, ReplicasThatTheFileCountsFollowTheClusterThatIsStated) {
  ImportRequest r = request("nanotron", import_sample("nanotron.yaml"));
  EXPECT_EQ(value_of(import_run(r), "parallel.dp"), "4");
  r.set = {{"cluster.nodes", "16"}};
  EXPECT_EQ(import_run(r).gpus, 128);
  EXPECT_EQ(value_of(import_run(r), "parallel.dp"), "");
  EXPECT_EQ(value_of(import_run(r), "batch.global"), "256");
  r.set = {{"parallel.tp", "8"}};
  EXPECT_EQ(value_of(import_run(r), "parallel.dp"), "");
  EXPECT_EQ(value_of(import_run(r), "batch.global"), "32");
  r.set = {{"parallel.sp", "false"}};
  EXPECT_EQ(value_of(import_run(r), "parallel.dp"), "4");
  r.set = {{"parallel.dp", "4"}, {"cluster.nodes", "16"}};
  EXPECT_EQ(testing::failure_of([&] { import_run(r); }).codes, "E201");
}

// What a batch that is stated leaves to each replica follows, too.
TEST(ImportRun, ABatchThatTheFileStatesStays) {
  ImportRequest r =
      request("deepspeed", "{\"train_batch_size\": 256, \"gradient_accumulation_steps\": 4}");
  r.set = {{"model", "llama3-8b"}};
  EXPECT_EQ(value_of(import_run(r), "batch.micro"), "8");
  r.set.emplace_back("cluster.nodes", "4");
  EXPECT_EQ(value_of(import_run(r), "batch.global"), "256");
  EXPECT_EQ(value_of(import_run(r), "batch.micro"), "2");
  ImportRequest neox = request(
      "gpt-neox",
      "num_layers: 4\nhidden_size: 512\nnum_attention_heads: 8\nseq_length: 2048\n"
      "max_position_embeddings: 2048\ntrain_batch_size: 256\ngradient_accumulation_steps: 2\n");
  EXPECT_EQ(value_of(import_run(neox), "batch.micro"), "16");
  neox.set = {{"cluster.nodes", "4"}};
  EXPECT_EQ(value_of(import_run(neox), "batch.global"), "256");
  EXPECT_EQ(value_of(import_run(neox), "batch.micro"), "4");
}

TEST(ImportRun, TheNoteOnAnAssumedBatchSaysTheNumberThatIsWritten) {
  ImportRequest r = request("accelerate", kAccumulating[2].text);
  r.set = {{"model", "llama3-8b"}, {"cluster.nodes", "4"}};
  EXPECT_THAT(notes(import_run(r)), HasSubstr("batch.global: 128 is assumed: micro batch x "));
  r.set.emplace_back("batch", "{global: 64, micro: 1, seq: 4096}");
  EXPECT_THAT(notes(import_run(r)), Not(HasSubstr("batch.global")));
}

// Whatever the importer would miss in it.
TEST(ImportRun, AFileOfAnotherKindIsNamedForWhatItIs) {
  const auto refusal = [](const char* kind, std::string text) {
    const testing::Failure f = import_failure(kind, std::move(text));
    return f.all.empty() ? std::string()
                         : f.all[0].code + ' ' + f.all[0].message + " | " + f.all[0].help;
  };
  const std::string page =
      "<!doctype html>\n<html><head><meta name=\"stepcast-sources\" content=\"1\"></head>"
      "--num-layers 32 --moe-pad-expert-input-to-capacity</html>\n";
  EXPECT_THAT(refusal("megatron-args", page), HasSubstr("E330 this is a report of Stepcast"));
  EXPECT_THAT(refusal("auto", page), HasSubstr("E330 this is a report of Stepcast"));
  EXPECT_THAT(refusal("hf", "<html></html>"), HasSubstr("E330 this is a page (HTML)"));
  EXPECT_THAT(refusal("hf", R"({"schema_version": 2, "version": "1", "scenario": {"name": "a"}})"),
              HasSubstr("E330 this is an answer of Stepcast (--json)"));
  // Other tools have versions of their files, too.
  EXPECT_THAT(refusal("auto", "schema_version: 2\nversion: 1\nlauncher: slurm\n"),
              HasSubstr("cannot be told from its content"));
  for (const char* kind : {"hf", "megatron-args", "auto"})
    EXPECT_EQ(refusal(kind, testing::kMinimal),
              "E330 this is a scenario of Stepcast | it needs no import: stepcast run file");
  EXPECT_EQ(refusal("megatron-args", import_sample("llama3_8b.config.json")),
            "E330 this is a config.json | stepcast import hf file");
  EXPECT_EQ(kind_of_file(page), "");
}

struct Sample {
  const char *kind, *file;
};
constexpr Sample kSamples[] = {{"hf", "llama3_8b.config.json"},
                               {"hf", "deepseek_v3.config.json"},
                               {"megatron-args", "llama3_70b.args"},
                               {"megatron-args", "deepseek_v3.yaml"},
                               {"megatron-args", "train.log"},
                               {"megatron-log", "train.log"},
                               {"bridge", "bridge.yaml"},
                               {"torchtitan", "torchtitan.json"},
                               {"deepspeed", "deepspeed.json"},
                               {"nanotron", "nanotron.yaml"}};

ImportRequest sample_request(const Sample& sample) {
  ImportRequest r = request(sample.kind, import_sample(sample.file));
  if (r.kind == "deepspeed") {
    r.model_file = "config.json";
    r.model_text = import_sample("llama3_8b.config.json");
  }
  return r;
}

// Scenarios of models and layouts that are not modelled yet say so, and nothing else is wrong.
TEST(ImportRun, WhatIsWrittenIsAScenario) {
  for (const Sample& sample : kSamples) {
    const ImportedRun run = import_run(sample_request(sample));
    for (const std::string& line : testing::failure(run.scenario).lines)
      EXPECT_THAT(line,
                  ::testing::AnyOf(::testing::StartsWith("E130"), HasSubstr("not supported yet")))
          << sample.file << '\n'
          << run.scenario;
  }
}

// Bytes of the samples replaced, dropped and doubled.
TEST(ImportRun, DamagedFilesAreRefusedOrBecomeReadableScenarios) {
  uint32_t state = 1;
  const auto draw = [&](size_t below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<size_t>(state >> 8) % below;
  };
  constexpr std::string_view kBytes = "{}[]:,\"'$\\\n -#0()*|&";
  for (const Sample& sample : kSamples) {
    ImportRequest r = sample_request(sample);
    const std::string whole = r.text;
    for (int i = 0; i < 25; ++i) {
      r.text = whole;
      for (size_t n = draw(4) + 1; n > 0; --n) {
        const size_t at = draw(r.text.size()), length = draw(20);
        if (draw(3) == 0)
          r.text.erase(at, length);
        else if (draw(2) == 0)
          r.text[at] = kBytes[draw(kBytes.size())];
        else
          r.text.insert(at, whole.substr(draw(whole.size()), length));
      }
      testing::failure_of([&] {
        const ImportedRun run = import_run(r);
        Problems problems;
        parse_yaml(problems, problems.add_source({"written", run.scenario}));
        EXPECT_FALSE(problems.any()) << run.scenario;
      });
    }
  }
}

// --- wrong values

// One value after the other is replaced by a wrong one or left out.  The wrong values take turns:
// all of them on all values would take minutes.
constexpr std::array<const char*, 10> kWrongValues{
    "0", "-1", "null", "1000000000", "1000000000000000000", "many", ".inf", "2.5", "[1, 2]", ""};

// The texts of a mapping with one member after the other changed; "" leaves it out.
std::vector<std::string> wrong_mappings(const std::string& text) {
  Problems problems;
  Value root = parse_yaml(problems, problems.add_source({"sample", text}));
  problems.throw_if_any();
  std::vector<std::string> all;
  const auto change = [&](auto& self, Value& mapping) -> void {
    for (size_t i = 0; i < mapping.members.size(); ++i) {
      const std::vector<Member> whole = mapping.members;
      const std::string wrong = kWrongValues[all.size() % kWrongValues.size()];
      mapping.members[i].value = Value{};
      mapping.members[i].value.kind = Value::Kind::scalar;
      mapping.members[i].value.text = wrong;
      if (wrong.empty())
        mapping.members.erase(mapping.members.begin() + static_cast<std::ptrdiff_t>(i));
      all.push_back(to_flow(root));
      mapping.members = whole;
      self(self, mapping.members[i].value);
    }
  };
  change(change, root);
  return all;
}

// The same of the words after "--name" in a script, and of what stands after the dots of a list
// that Megatron prints.
std::vector<std::string> wrong_words(const std::string& text) {
  std::vector<std::string> all;
  const auto change = [&](size_t begin, size_t value, size_t end) {
    const std::string wrong = kWrongValues[all.size() % kWrongValues.size()];
    all.push_back((wrong.empty() ? text.substr(0, begin) : text.substr(0, value) + ' ' + wrong) +
                  text.substr(end));
  };
  size_t begin = 0;
  for (const std::string_view line : split_lines(text)) {
    const size_t dots = line.find(" ...");
    if (dots != std::string_view::npos)
      change(begin, begin + line.find_last_of('.', line.find(' ', dots + 1)) + 1,
             begin + line.size());
    for (size_t at = line.find("--"); dots == std::string_view::npos && at < line.size();
         at = line.find("--", at + 1)) {
      const size_t name = std::min(line.find_first_of(" \\)", at), line.size());
      const size_t end = std::min(line.find_first_of(" \\)", name + 1), line.size());
      const bool has_value = end > name + 1 && line[name + 1] != '-';
      change(begin + at, begin + name, begin + (has_value ? end : name));
    }
    begin += line.size() + 1;
  }
  return all;
}

void expect_finite(const Value& value, const std::string& scenario) {
  const std::string word = lower_case(value.text);
  if (value.is_scalar() && !value.quoted) {
    EXPECT_FALSE(word.ends_with("inf") || word.ends_with("nan")) << scenario;
  }
  for (const Value& item : value.items) expect_finite(item, scenario);
  for (const Member& m : value.members) expect_finite(m.value, scenario);
}

class ImportWrongValues : public ::testing::TestWithParam<Sample> {};

TEST_P(ImportWrongValues, AreRefusedOrBecomeAScenarioThatLoads) {
  ImportRequest r = sample_request(GetParam());
  const bool words = r.text.find("--num-layers ") != std::string::npos ||
                     r.text.find(" .....") != std::string::npos;
  size_t good = 0;
  for (const std::string& text : words ? wrong_words(r.text) : wrong_mappings(r.text)) {
    r.text = text;
    testing::failure_of([&] {
      const ImportedRun run = import_run(r);
      ++good;
      Problems problems;
      expect_finite(parse_yaml(problems, problems.add_source({"written", run.scenario})),
                    run.scenario);
      EXPECT_FALSE(problems.any()) << run.scenario;
      for (const std::string& line : testing::failure(run.scenario).lines) {
        EXPECT_THAT(line, ::testing::StartsWith("E130")) << run.scenario;
      }
    });
  }
  EXPECT_GT(good, 0U);
}

INSTANTIATE_TEST_SUITE_P(Samples, ImportWrongValues, ::testing::ValuesIn(kSamples),
                         [](const auto& sample) {
                           std::string name =
                               std::string(sample.param.kind) + '_' + sample.param.file;
                           for (char& c : name)
                             if (!is_digit(c) && (c < 'a' || c > 'z')) c = '_';
                           return name;
                         });

TEST(ImportRun, WhatDoesNotLoadIsRefusedWhereTheValueStands) {
  const auto nanotron = [](const std::string& from, const std::string& to) {
    std::string text = import_sample("nanotron.yaml");
    text.replace(text.find(from), from.size(), to);
    return import_failure("nanotron", text);
  };
  const auto zero = nanotron("sequence_length: 4096", "sequence_length: 0");
  ASSERT_EQ(zero.all.size(), 1U);
  EXPECT_EQ(zero.lines[0], "E121 54:20 'seq' must be above 0, not 0");
  EXPECT_EQ(
      zero.all[0].note,
      "the scenario would say batch.seq: 0; cluster.preset: dgx-h100 is assumed: the file names "
      "no hardware; -s cluster=PRESET chooses it");
  EXPECT_EQ(zero.all[0].help, "-s batch.seq=VALUE states another value");
  EXPECT_THAT(
      nanotron("num_key_value_heads: 8", "num_key_value_heads: .inf").lines,
      ::testing::ElementsAre(HasSubstr("E121 24:26 'num_key_value_heads' must be a finite")));
  // What the user states instead is what counts.
  ImportRequest r = request("nanotron", import_sample("nanotron.yaml"));
  r.text.replace(r.text.find("sequence_length: 4096"), 21, "sequence_length: 0");
  r.set = {{"batch.seq", "2048"}};
  EXPECT_EQ(value_of(import_run(r), "batch.seq"), "2048");
  // Neither may keys that loading passes on as they are be infinite.
  r.set.emplace_back("env.NCCL_DEBUG", "-.INF");
  EXPECT_THAT(
      testing::failure_of([&] { import_run(r); }).lines,
      ::testing::ElementsAre("E331 0:0 'env.NCCL_DEBUG' must be a finite number, not '-.INF'"));
}

TEST(ImportRun, StatedValuesMayLieDeep) {
  ImportRequest r = request("hf", import_sample("llama3_8b.config.json"));
  r.set = {{"cluster.node.nics.count", "4"}, {"cluster.node.gpus", "4"}, {"precision", "fp32"}};
  const ImportedRun run = import_run(r);
  const Scenario s = testing::load(run.scenario);
  EXPECT_EQ(s.cluster.node.nics, 4);
  EXPECT_EQ(s.cluster.node.gpus, 4);
  EXPECT_EQ(s.plan.precision.params, DType::fp32);
}

TEST(ImportRun, EveryKindRefusesWhatIsNoFileOfItsOwn) {
  for (const std::string_view kind : import_kinds())
    for (const char* text : {"", "\x01\x02", "just words\n", "[1, 2, 3]", "{", "a: &x 1"})
      EXPECT_FALSE(import_failure(std::string(kind), text).codes.empty()) << kind << ' ' << text;
}

TEST(ImportRun, AByteOrderMarkSaysNothing) {
  for (const char* name : {"corpus/llama3.1-8b.config.json", "corpus/deepspeed_1.json",
                           "corpus/neox_20b.yaml", "corpus/torchtitan_01.toml"}) {
    const std::string marked = "\xEF\xBB\xBF" + import_sample(name);
    EXPECT_EQ(kind_of_file(marked), kind_of_file(import_sample(name))) << name;
    ImportRequest plain = testing::request("auto", import_sample(name));
    plain.model_file = "config.json";
    plain.model_text = "\xEF\xBB\xBF" + import_sample("corpus/llama3.1-8b.config.json");
    ImportRequest with_mark = plain;
    with_mark.text = marked;
    EXPECT_EQ(import_run(with_mark).scenario, import_run(plain).scenario) << name;
  }
}

TEST(ImportRun, ManyByteOrderMarksAreATextOfNoKind) {
  std::string marks;
  for (int i = 0; i < 20'000; ++i) marks += "\xEF\xBB\xBF";
  EXPECT_EQ(kind_of_file(marks + "a: 1\n"), "");
  EXPECT_EQ(import_failure("auto", marks + "a: 1\n").codes, "E330");
  EXPECT_FALSE(import_failure("hf", marks + "a: 1\n").codes.empty());
}

TEST(ImportRun, TomlIsToldWhateverFollowsItsSections) {
  const std::string toml = "[training]  # what\t\nseq_len = 8192\n[parallelism]\t\nx = 1\n[job]\n";
  EXPECT_EQ(kind_of_file(toml), "torchtitan");
}

// A tab, or a second document, would else be a riddle.
TEST(ImportRun, WhatIsWrongWithATextOfNoKindIsSaid) {
  EXPECT_THAT(refusal_help("model:\n  num_layers: 4\n\thidden_size: 64\n"), HasSubstr("line 3"));
  EXPECT_THAT(refusal_help("a: 1\n---\nb: 2\n"), HasSubstr("second document"));
  EXPECT_THAT(refusal_help("plain words\n"), Not(HasSubstr("line")));
}

TEST(ImportRun, TextOfAFileStaysInItsComment) {
  const ImportedRun run =
      imported("megatron-args",
               "{\"num_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4,"
               "\"seq_length\": 128, \"vocab_size\": 1000, \"optimizer\": "
               "\"adam\\ncluster: dgx-a100-80g\", \"fp8\": null}");
  EXPECT_EQ(value_of(run, "cluster.preset"), "dgx-h100");
}

// What a tool keeps a run of its own tests in, and what evaluations write, have sections of that
// name, too.
TEST(ImportRun, ASectionOfArgumentsIsMegatronsByItsNames) {
  EXPECT_EQ(kind_of_file("MODEL_ARGS:\n  --use-checkpoint-args: true\n"), "megatron-args");
  EXPECT_EQ(kind_of_file("args: {num_layers: 2}\n"), "megatron-args");
  EXPECT_EQ(kind_of_file("MODEL_ARGS:\n  trainer.devices: 8\n  data.micro_batch_size: 1\n"), "");
  EXPECT_EQ(kind_of_file("{\"results\": {}, \"model_args\": {\"iteration\": 143000}}"), "");
  // transformers writes JSON.
  EXPECT_EQ(kind_of_file("{\"model_type\": \"llama\"}"), "hf");
  EXPECT_EQ(kind_of_file("model_type: mamba\nhidden_size: 64\nnum_attention_heads: 4\n"), "");
  // Models that NeMo's and Primus's files name; their keys are not all Megatron's.
  const std::string sizes = "num_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\n";
  EXPECT_EQ(kind_of_file(sizes), "megatron-args");
  EXPECT_EQ(kind_of_file("bases: [mamba_base.yaml]\n" + sizes), "");
  EXPECT_EQ(kind_of_file(sizes + "activation: fast-swiglu\ntokenizer: {library: megatron}\n"), "");
  EXPECT_EQ(kind_of_file("model_type: llama\nhidden_size: 64\nnum_hidden_layers: 4\n"), "hf");
}

}  // namespace
}  // namespace stepcast::import_run_test
