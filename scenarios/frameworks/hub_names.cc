// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/hub_names.h"

#include <embedded/import_lists.h>

#include <algorithm>
#include <vector>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/import_arguments.h"
#include "sim/text.h"

namespace stepcast {
namespace {

Value embedded_list(std::string_view file) {
  Problems problems;
  for (const auto& [path, text] : import_lists())
    if (path.ends_with(file)) return parse_embedded(problems, std::string(file), text);
  return {};
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// In lower case and without the hyphens that people leave out or put elsewhere: "Llama2-7b-hf".
// Those behind a digit stay, since they end a number: Llama-2-7b is no Llama-27b.
std::string spelt_plainly(std::string_view name) {
  std::string plain;
  for (const char c : lower_case(name))
    if (c != '-' && c != '_')
      plain += c;
    else if (!plain.empty() && is_digit(plain.back()))
      plain += '-';
  return plain;
}

// Whether a name goes on with the rest of a version, as "_5-9B" behind "Qwen3"; in "-8B" and
// "-0.6B" a number has a unit.
bool goes_on_with_a_version(std::string_view rest) {
  if (!rest.starts_with('-')) return false;
  rest.remove_prefix(1);
  const std::string_view number = rest.substr(0, rest.find_first_not_of("0123456789."));
  rest.remove_prefix(number.size());
  return !number.empty() && (rest.empty() || rest.front() == '-');
}

// Whether `name` is `pattern`, however it is spelt; "Llama-2*" is any that begins so, but no
// Llama-20b, and "Qwen3-*" no Qwen3.5.
bool is_named(std::string_view name, std::string_view pattern) {
  std::string plain = spelt_plainly(pattern);
  const std::string spelt = spelt_plainly(name);
  if (!plain.ends_with('*')) return spelt == plain;
  plain.pop_back();
  const bool of_words = pattern.ends_with("-*");
  if (plain.ends_with('-')) plain.pop_back();
  if (!spelt.starts_with(plain)) return false;
  const std::string_view rest = std::string_view(spelt).substr(plain.size());
  if (!plain.empty() && is_digit(plain.back())) {
    if (!rest.empty() && is_digit(rest.front())) return false;
    if (of_words && !rest.empty() && rest.front() != '-') return false;
    return !of_words || !goes_on_with_a_version(rest);
  }
  return !of_words || !rest.starts_with('.');
}

// The parts of a path that name the tokenizer: the last one, and its folder where that is a file of
// a tokenizer.  Folders further up are named after anything.
std::vector<std::string_view> naming_parts(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::vector<std::string_view> all = split(path, '/');
  const bool file = all.back().ends_with(".model") || all.back().ends_with(".json");
  const size_t named = std::min(all.size(), size_t{file ? 2U : 1U});
  return {all.end() - static_cast<std::ptrdiff_t>(named), all.end()};
}

}  // namespace

std::optional<TokenizerSize> size_of_tokenizer(std::string_view name) {
  const Value file = embedded_list("tokenizers.yaml");
  const std::vector<std::string_view> naming = naming_parts(name);
  const bool two_names = std::ranges::count(name, '/') == 1 && name.find_first_of(".~$") != 0;
  for (const Member& list : file.members)
    for (const Member& m : list.value.members) {
      const std::string_view pattern = m.key;
      const std::string_view last = pattern.substr(pattern.rfind('/') + 1);
      const bool part = std::any_of(naming.begin(), naming.end(),
                                    [&](std::string_view p) { return is_named(p, last); });
      // Two names with one '/' are of the Hub: those of another organization are other models.
      const bool of_hub = two_names && pattern.find('/') != pattern.npos;
      if (of_hub ? is_named(name, pattern) : part)
        return TokenizerSize{python_whole(m.value.text).value_or(0), list.key == "tokens"};
    }
  return {};
}

std::string preset_of_hub_model(std::string_view name) {
  const Value models = embedded_list("hub_models.yaml");
  const Value* preset = models.find(name);
  return preset == nullptr ? "" : preset->text;
}

}  // namespace stepcast
