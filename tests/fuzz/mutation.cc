// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutation.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace stepcast::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kValues[] = {"0",          "1",       "2",
                                        "-1",         "0.5",     "1.5",
                                        "null",       "true",    "~",
                                        "[]",         "{}",      "\"\"",
                                        ".nan",       "inf",     "1e9",
                                        "1e-9",       "1e400",   "65536",
                                        "2147483648", "5%",      "8GiB",
                                        "400Gb/s",    "1us",     "-1us",
                                        "[1]",        "&a [*a]", "9223372036854775807",
                                        "*b",         "!!int x", "18446744073709551616"};

void change_byte(std::string& text, Dice& dice) {
  constexpr std::string_view kMarks = "\n :{}[],'\"#&*!|>%@-0123456789.~\t<=/\xC3\xFF";
  const size_t at = dice.below(text.size());
  const char mark = dice.one_of(kMarks);
  switch (dice.below(4)) {
    case 0: text.erase(at, 1); break;
    case 1: text.insert(at, 1, mark); break;
    case 2: text[at] = mark; break;
    default: text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8)));
  }
}

void change_line(std::string& text, Dice& dice) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const size_t at = dice.below(lines.size()), other = dice.below(lines.size());
  switch (dice.below(5)) {
    case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(other), lines[at]); break;
    case 2: std::swap(lines[at], lines[other]); break;
    case 3: lines[at].insert(0, 1 + dice.below(4), ' '); break;
    default: lines.resize(at + 1);
  }
  text.clear();
  for (const std::string& line : lines) text += line + '\n';
}

void change_word(std::string& text, const std::vector<std::string>& words, Dice& dice) {
  const auto places = words_of(text);
  if (places.empty()) return;
  const auto [begin, end] = dice.one_of(places);
  text.replace(begin, end - begin, dice.one_of(words));
}

// One nearby, or anything at all.
void change_number(std::string& text, Dice& dice) {
  auto places = words_of(text);
  std::erase_if(places, [&](const auto& p) { return text[p.first] < '0' || text[p.first] > '9'; });
  if (places.empty()) return;
  const auto [begin, end] = dice.one_of(places);
  const std::string word = text.substr(begin, end - begin);
  const size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  const uint64_t number = digits < 18 ? std::stoull(word.substr(0, digits)) : 0;
  const uint64_t nearby[] = {number + 1, number - 1, number * 2,
                             number / 2, number * 3, number * 10};
  text.replace(begin, end - begin,
               dice.below(4) == 0 ? awkward_value(dice)
                                  : std::to_string(dice.one_of(nearby)) + word.substr(digits));
}

}  // namespace

std::vector<Seed> read_seeds(const std::vector<std::string>& folders) {
  constexpr uintmax_t kMostBytes = 65536;
  std::vector<Seed> seeds;
  for (const std::string& folder : folders) {
    for (const auto& file : fs::directory_iterator(STEPCAST_SOURCE_DIR "/" + folder)) {
      if (!file.is_regular_file() || file.file_size() > kMostBytes) continue;
      std::ifstream in(file.path(), std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      seeds.push_back({file.path().string(), text.str()});
    }
  }
  std::sort(seeds.begin(), seeds.end(),
            [](const Seed& a, const Seed& b) { return a.name < b.name; });
  return seeds;
}

std::optional<uint64_t> round_wanted() {
  const char* round = std::getenv("STEPCAST_FUZZ_ROUND");
  return round == nullptr ? std::nullopt : std::optional(std::strtoull(round, nullptr, 10));
}

std::vector<std::pair<size_t, size_t>> words_of(std::string_view text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_word(text[i])) continue;
    const size_t begin = i;
    while (i < text.size() && is_word(text[i])) ++i;
    words.emplace_back(begin, i);
  }
  return words;
}

std::string awkward_value(Dice& dice) {
  return std::string(dice.one_of(kValues));
}

void change(std::string& text, const std::vector<std::string>& words, Dice& dice) {
  if (text.empty()) text = "\n";
  switch (dice.below(4)) {
    case 0: return change_byte(text, dice);
    case 1: return change_line(text, dice);
    case 2: return change_word(text, words, dice);
    default: return change_number(text, dice);
  }
}

}  // namespace stepcast::fuzz
