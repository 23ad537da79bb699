// SPDX-License-Identifier: Apache-2.0
// What fuzzers begin with and a little beyond, with whichever compiler: every seed, then changed
// ones. Seeds that once broke something are named after it; those named by hashes reach code that
// no other does.
#include <gtest/gtest.h>

#include "tests/fuzz/mutation.h"
#include "tests/fuzz/readers.h"

namespace stepcast::seeds_test {
namespace {

struct Reader {
  const char* name;
  void (*read)(std::string_view);
  std::vector<std::string> folders;  // of files that it takes, beside its seeds
  // What is given changed inputs, if not the same.
  void (*read_changed)(std::string_view) = nullptr;
};

const Reader kReaders[] = {
    {"scenario", fuzz::scenario, {"tests/data/scenarios/bad"}},
    {"forecast", fuzz::forecast, {"scenarios/examples"}},
    {"schedule_csv", fuzz::schedule_csv, {"tests/data/schedules/csv"}},
    {"cost_table", fuzz::cost_table, {"calibrate/data/tables"}},
    {"measurements",
     fuzz::measurements,
     {"tests/data/measurements", "tests/data/measurements/nccl_tests"}},
    {"import", fuzz::import, {"tests/data/imports"}, fuzz::import_some},
    {"topology",
     fuzz::topology,
     {"tests/data/topology/nvidia_smi", "tests/data/topology/nccl_xml",
      "tests/data/topology/ibnetdiscover"}},
    {"small_tables", fuzz::small_tables, {"tests/data/scenarios/routing"}},
    {"search", fuzz::search, {}},
};

class Readers : public ::testing::TestWithParam<Reader> {};

TEST_P(Readers, TakeTheirSeeds) {
  const std::vector<fuzz::Seed> seeds =
      fuzz::read_seeds({std::string("tests/fuzz/seeds/") + GetParam().name});
  EXPECT_FALSE(seeds.empty());
  for (const fuzz::Seed& seed : seeds) EXPECT_NO_THROW(GetParam().read(seed.text)) << seed.name;
}

TEST_P(Readers, TakeChangedInputs) {
  // More of them, others with each N: STEPCAST_FUZZ_ROUND=N.
  const auto read = GetParam().read_changed ? GetParam().read_changed : GetParam().read;
  const uint64_t round = fuzz::round_wanted().value_or(0);
  const uint64_t count = fuzz::round_wanted() ? 5000 : 100;
  std::vector<std::string> folders = GetParam().folders;
  folders.push_back(std::string("tests/fuzz/seeds/") + GetParam().name);
  const std::vector<fuzz::Seed> seeds = fuzz::read_seeds(folders);
  std::vector<std::string> words;
  for (const fuzz::Seed& seed : seeds)
    for (const auto& [begin, end] : fuzz::words_of(seed.text))
      words.push_back(seed.text.substr(begin, end - begin));
  for (uint64_t i = 0; i < count; ++i) {
    fuzz::Dice dice(round * 1'000'000 + i);
    const fuzz::Seed& seed = dice.one_of(seeds);
    std::string text = seed.text;
    for (size_t changes = 1 + dice.below(4); changes > 0; --changes)
      fuzz::change(text, words, dice);
    ASSERT_NO_THROW(read(text)) << i << ", from " << seed.name << ":\n" << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Readers, ::testing::ValuesIn(kReaders),
                         [](const auto& reader) { return std::string(reader.param.name); });

}  // namespace
}  // namespace stepcast::seeds_test
