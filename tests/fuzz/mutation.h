// SPDX-License-Identifier: Apache-2.0
// Small changes to texts, as a slip of the hand or a broken tool makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace stepcast::fuzz {

struct Seed {
  std::string name, text;
};

// The files of folders of the project, of at most 64 KiB, by name.
std::vector<Seed> read_seeds(const std::vector<std::string>& folders);

// STEPCAST_FUZZ_ROUND, which asks for other changes than those of every day.
std::optional<uint64_t> round_wanted();

// Random numbers that are the same on every machine, which the standard library's distributions are
// not.
struct Dice {
  std::mt19937_64 source;

  explicit Dice(uint64_t seed) : source(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(source() % n); }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }
};

// Begin and end of every word or number.
std::vector<std::pair<size_t, size_t>> words_of(std::string_view text);

// Values that programs stumble over: "0", "-1", "1e400", "null", ...
std::string awkward_value(Dice& dice);

// A byte or line is lost, doubled, moved or changed; a number becomes another one; a word becomes
// one of `words`.  REQUIRES: !words.empty().
void change(std::string& text, const std::vector<std::string>& words, Dice& dice);

}  // namespace stepcast::fuzz
