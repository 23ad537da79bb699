// SPDX-License-Identifier: Apache-2.0
#include "scenarios/spelling.h"

#include <algorithm>
#include <vector>

#include "sim/edit_distance.h"

namespace stepcast {
namespace {

std::string normal(std::string_view word) {
  std::string s = lower_case(word);
  std::replace(s.begin(), s.end(), '_', '-');
  return s;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string s(text);
  for (char& c : s)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return s;
}

std::string_view closest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLongest = 64;  // nothing that long is a misspelt name
  if (word.empty() || word.size() > kLongest) return {};
  const std::string from = normal(word);
  std::string_view best;
  size_t best_distance = std::max<size_t>(word.size() / 3, 1) + 1;
  bool best_begins = false;  // one begins as the other
  for (const std::string_view candidate : candidates) {
    const std::string to = normal(candidate);
    const size_t distance = edit_distance(from, to);
    const bool begins = to.starts_with(from) || from.starts_with(to);
    // Of a word of one or two letters nothing would be left to recognise.
    if (2 * distance >= std::max(from.size(), to.size())) continue;
    const bool nearer = distance < best_distance;
    if (!nearer && !(distance == best_distance && begins && !best_begins && !best.empty()))
      continue;
    best = candidate;
    best_distance = distance;
    best_begins = begins;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kMostNames = 4;
  const std::string from = normal(word);
  std::vector<std::string> longer, around;
  for (const std::string_view candidate : candidates) {
    const std::string to = normal(candidate);
    if (to.starts_with(from + '-')) longer.push_back('\'' + std::string(candidate) + '\'');
    if (('-' + to + '-').find('-' + from + '-') != std::string::npos)
      around.push_back('\'' + std::string(candidate) + '\'');
  }
  std::vector<std::string> names;
  if (const std::string_view near = closest(word, candidates); !near.empty())
    names.push_back('\'' + std::string(near) + '\'');
  if (names.empty() && around.size() <= kMostNames) names = std::move(around);
  if (!longer.empty() && longer.size() <= kMostNames) names = std::move(longer);
  return names.empty() || word.empty() ? "" : "did you mean " + or_list(names) + '?';
}

std::string comma_list(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view w : words) text += (text.empty() ? "" : ", ") + std::string(w);
  return text;
}

std::string or_list(std::span<const std::string> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace stepcast
