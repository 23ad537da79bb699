// SPDX-License-Identifier: Apache-2.0
#include "scenarios/schema/keys.h"

#include <algorithm>

#include "sim/text.h"

namespace stepcast {

std::string Key::path() const {
  std::string path(row_->path);
  if (!name_.empty()) path.append(1, '.').append(name_);
  return path;
}

std::string last_word(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

bool is_label(std::string_view path) {
  const std::string_view section = path.substr(0, path.find('.'));
  constexpr std::array<std::string_view, 11> kLabels{"schema",   "name",     "description", "tags",
                                                     "software", "measured", "compare",     "env",
                                                     "job",      "sweep",    "search"};
  return std::find(kLabels.begin(), kLabels.end(), section) != kLabels.end();
}

std::string choices_text(const Choices& choices, bool modelled) {
  std::vector<std::string> words;
  for (const Word& w : choices.words)
    if (w.modelled || !modelled) words.emplace_back(w.text);
  return or_list(words);
}

}  // namespace stepcast
