// SPDX-License-Identifier: Apache-2.0
// Scenarios that are a little wrong, down the whole path: each is refused as a user's mistake or
// forecast, with all that holds of forecasts, in little memory and before the test's time is up.
// 500 by default (random_cases.h).
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "scenarios/scenario.h"
#include "scenarios/schema/keys.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/mutation.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/whole_path.h"
#include "tests/random_cases.h"

namespace stepcast::mutated_scenarios_test {
namespace {

using fuzz::Dice;
using fuzz::Seed;
using Texts = std::vector<std::string>;

constexpr uint64_t kUsual = 50;
constexpr int kParts = 10;    // that run side by side
constexpr int kOfPart = 500;  // numbers that a part has to itself
// Without sanitizers, which take a multiple of it.
constexpr long kMostKiB = 512 * 1024;
#ifdef STEPCAST_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// A value that the field might have, and now and then one that it cannot have.
std::string value_for(const Field& field, const Texts& words, Dice& dice) {
  if (dice.below(6) == 0) return fuzz::awkward_value(dice);
  const auto number = [&](auto... n) { return std::to_string(dice.one_of(std::array{n...})); };
  switch (field.type) {
    case FieldType::flag: return dice.below(2) == 0 ? "true" : "false";
    case FieldType::count:
    case FieldType::whole: return number(1, 2, 3, 4, 8, 16);
    case FieldType::number: return number(0, 1, 2, 64);
    case FieldType::tokens: return number(1, 512, 2048);
    case FieldType::bytes: return number(1, 40, 80) + "GiB";
    case FieldType::bandwidth: return number(1, 50, 400) + "GB/s";
    case FieldType::time: return number(0, 1, 20) + "us";
    case FieldType::flop_rate: return number(1, 300, 989) + "TFLOP/s";
    case FieldType::power: return number(100, 500, 700) + "W";
    case FieldType::share: return number(0, 1, 10, 50, 100) + "%";
    case FieldType::choice:
    case FieldType::choices: {
      Texts all;
      for (const Word& word : field.choices.words) all.emplace_back(word.text);
      return all.empty() ? "x" : dice.one_of(all);
    }
    default: return dice.one_of(words);
  }
}

// --set of a key that there is.
std::pair<std::string, std::string> any_setting(const Texts& words, Dice& dice) {
  const Field& field = dice.one_of(scenario_fields());
  std::string path(field.path);
  for (size_t star = path.find(".*"); star != std::string::npos; star = path.find(".*"))
    path.replace(star, 2, ".a");
  const std::string value = value_for(field, words, dice);
  const size_t item = path.find("[]");
  if (item == std::string::npos) return {path, value};
  // --set has no positions: the list is one item.
  const std::string key = path.substr(std::min(item + 3, path.size()));
  return {path.substr(0, item), "[" + (key.empty() ? value : "{" + key + ": " + value + "}") + "]"};
}

class MutatedScenarios : public ::testing::TestWithParam<int> {
 protected:
  MutatedScenarios() {
    for (const Seed& seed : seeds_)
      for (const auto& [begin, end] : fuzz::words_of(seed.text))
        words_.push_back(seed.text.substr(begin, end - begin));
    for (const Field& field : scenario_fields()) {
      for (const Word& word : field.choices.words) words_.emplace_back(word.text);
      words_.emplace_back(field.path.substr(field.path.rfind('.') + 1));
    }
  }

  // The whole path of scenario `number`; whether it got to its end.
  bool try_one(int number) {
    Dice dice(static_cast<uint64_t>(number));
    const Seed& seed = seeds_[static_cast<size_t>(number) % seeds_.size()];
    std::string text = seed.text;
    LoadOptions options;
    for (size_t changes = dice.below(3) == 0 ? 2 : 1; changes > 0; --changes) {
      if (dice.below(3) == 0)
        fuzz::change(text, words_, dice);
      else
        options.set.push_back(any_setting(words_, dice));
    }
    const bool whole = run(text, seed.name, options);
    if (HasFailure()) {
      for (const auto& [path, value] : options.set)
        text.insert(0, "#set " + path + '=' + value + '\n');
      ADD_FAILURE() << "scenario " << number << ", from " << seed.name << ":\n" << text;
    }
    return whole;
  }

  std::vector<Seed> seeds_ = fuzz::read_seeds({"scenarios/examples", "tests/fuzz/seeds/forecast"});
  Texts words_;

 private:
  static bool run(const std::string& text, const std::string& name, const LoadOptions& options) {
    try {
      const Scenario scenario = load_scenario_text(text, name, options);
      if (!fuzz::is_small(scenario)) return false;
      fuzz::check_whole_path(scenario);
      return true;
    } catch (const InputError& e) {
      EXPECT_NO_THROW(fuzz::check_refusal(e));
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    return false;
  }
};

TEST_P(MutatedScenarios, AreRefusedOrForecast) {
  // Others with each N: STEPCAST_FUZZ_ROUND=N, of which STEPCAST_TIMES=10 takes all.
  const int part = static_cast<int>(fuzz::round_wanted().value_or(0)) * kParts + GetParam();
  const auto scenarios = static_cast<int>(stepcast::testing::random_cases(kUsual));
  int whole = 0;
  for (int i = 0; i < scenarios && !HasFailure(); ++i) whole += try_one(part * kOfPart + i) ? 1 : 0;
  // Of a few scenarios the share that gets there says little: under sanitizers there are twenty.
  EXPECT_GT(whole, scenarios < 50 ? 0 : scenarios / 8) << "that got to the end of the path";
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  EXPECT_TRUE(kSanitized || usage.ru_maxrss < kMostKiB) << usage.ru_maxrss << " KiB";
}

INSTANTIATE_TEST_SUITE_P(Parts, MutatedScenarios, ::testing::Range(0, kParts));

}  // namespace
}  // namespace stepcast::mutated_scenarios_test
