// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/interpolation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"

namespace stepcast {
namespace {

constexpr int kDeepest = 16;           // of values that name each other
constexpr int kMostLookups = 100'000;  // of one file
constexpr size_t kLongest = 10'000;    // of a text that is built

using Path = std::vector<const Value*>;  // the mappings around a value, the root first

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Where the brace that closes the one before `begin` stands; npos: nowhere.
size_t closing_brace(std::string_view text, size_t begin) {
  int open = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return i;
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(by);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int64_t> arithmetic(std::string_view name, int64_t a, int64_t b) {
  int64_t result = 0;
  if (name == "multiply" || name == "mul") {
    if (__builtin_mul_overflow(a, b, &result)) return {};
    return result;
  }
  if (name == "add" || name == "sum") {
    if (__builtin_add_overflow(a, b, &result)) return {};
    return result;
  }
  if (name == "subtract" || name == "sub") {
    if (__builtin_sub_overflow(a, b, &result)) return {};
    return result;
  }
  const bool floors = name == "divide_floor" || name == "floor_div" || name == "int_div";
  if (b <= 0 || a < 0) return {};
  if (floors) return a / b;
  if (name == "divide_ceil") return a / b + (a % b != 0 ? 1 : 0);
  if (name == "divide" || name == "div")  // a true division: whole only where it leaves no rest
    return a % b == 0 ? std::optional(a / b) : std::nullopt;
  return {};
}

class Interpolation {
 public:
  Interpolation(const Value& root, std::span<const std::string> given)
      : root_(root), given_(given) {}

  // The text with its interpolations replaced; nothing if one is not known.
  std::optional<std::string> expand(std::string_view text, const Path& around, int depth) {
    std::string result;
    while (true) {
      const size_t begin = text.find("${");
      result += text.substr(0, begin);
      if (result.size() > kLongest) return {};
      if (begin == std::string_view::npos) return result;
      const size_t end = closing_brace(text, begin + 2);
      if (end == std::string_view::npos) return {};
      const auto value = evaluate(text.substr(begin + 2, end - begin - 2), around, depth);
      if (!value) return {};
      result += *value;
      text.remove_prefix(end + 1);
    }
  }

 private:
  std::optional<std::string> evaluate(std::string_view expression, const Path& around, int depth) {
    if (depth > kDeepest || ++lookups_ > kMostLookups) return {};
    const std::optional<std::string> inner = expand(expression, around, depth + 1);
    const size_t colon = expression.find(':');
    if (colon == std::string_view::npos || expression.find('$') < colon) {
      if (!inner) return {};
      return look_up(trimmed(*inner), around, depth);
    }
    const std::string_view name = trimmed(expression.substr(0, colon));
    // A default may be all that is known: ${oc.env:NAME,${.fallback}}.
    if (!inner) return {};
    std::vector<std::string_view> words =
        split(std::string_view(*inner).substr(inner->find(':') + 1), ',');
    for (std::string_view& word : words) word = trimmed(word);
    if (name == "oc.env" || name == "env") return environment(words);
    if (name == "oc.select") return select(words, around, depth);
    return calculate(name, words);
  }

  std::optional<std::string> environment(const std::vector<std::string_view>& words) const {
    for (const std::string& g : given_)
      if (g.size() > words[0].size() && g.starts_with(words[0]) && g[words[0].size()] == '=')
        return g.substr(words[0].size() + 1);
    if (words.size() < 2) return {};
    return std::string(words[1]);
  }

  std::optional<std::string> select(const std::vector<std::string_view>& words, const Path& around,
                                    int depth) {
    if (auto found = look_up(words[0], around, depth)) return found;
    if (words.size() < 2) return {};
    return std::string(words[1]);
  }

  static std::optional<std::string> calculate(std::string_view name,
                                              const std::vector<std::string_view>& words) {
    std::optional<int64_t> result;
    for (size_t i = 0; i < words.size(); ++i) {
      const auto n = python_whole(words[i]);
      if (!n) return {};
      result = i == 0 ? n : arithmetic(name, *result, *n);
      if (!result) return {};
    }
    if (words.size() < 2 || !result) return {};
    return fmt::format("{}", *result);
  }

  // "model.data.seq_length", ".x", "..x".
  std::optional<std::string> look_up(std::string_view path, const Path& around, int depth) {
    size_t up = 0;
    while (up < path.size() && path[up] == '.') ++up;
    Path at;
    if (up > 0) {
      if (up > around.size()) return {};
      at.assign(around.begin(), around.end() - static_cast<std::ptrdiff_t>(up - 1));
    } else {
      at.push_back(&root_);
    }
    std::vector<std::string_view> keys = split(path.substr(up), '.');
    // A file of the group `training` is put below that name.
    if (up == 0 && keys.size() > 1 && find_in(root_, keys[0]) == nullptr) keys.erase(keys.begin());
    const Value* found = at.back();
    for (size_t i = 0; i < keys.size(); ++i) {
      found = find_in(*found, keys[i]);
      if (found == nullptr) return {};
      if (i + 1 < keys.size()) at.push_back(found);
    }
    if (found->kind == Value::Kind::null) return std::string("null");
    if (!found->is_scalar()) return {};
    return expand(found->text, at, depth + 1);
  }

  // As Value::find(), for mappings that are looked into again and again.
  const Value* find_in(const Value& mapping, std::string_view key) {
    constexpr size_t kFew = 32;
    if (mapping.members.size() <= kFew) return mapping.find(key);
    auto [index, is_new] = of_large_.try_emplace(&mapping);
    if (is_new)
      for (const Member& m : mapping.members) index->second.emplace(m.key, &m.value);
    const auto at = index->second.find(key);
    return at == index->second.end() ? nullptr : at->second;
  }

  const Value& root_;
  std::map<const Value*, std::unordered_map<std::string_view, const Value*>> of_large_;
  std::span<const std::string> given_;
  int lookups_ = 0;
};

// Walks `value` beside the unchanged `original`, which is what interpolations look up.
void resolve(Value& value, const Value& original, Path& around, Interpolation& interpolation) {
  if (value.is_scalar()) {
    if (value.text.find("${") == std::string::npos) return;
    auto text = interpolation.expand(value.text, around, 0);
    if (!text) return;
    value.text = std::move(*text);
    if (value.text == "null") value.kind = Value::Kind::null;
    return;
  }
  for (size_t i = 0; i < value.items.size(); ++i)
    resolve(value.items[i], original.items[i], around, interpolation);
  if (!value.is_mapping()) return;
  around.push_back(&original);
  for (size_t i = 0; i < value.members.size(); ++i)
    resolve(value.members[i].value, original.members[i].value, around, interpolation);
  around.pop_back();
}

bool has_interpolation(const Value& value) {
  if (value.text.find("${") != std::string::npos) return true;
  return std::any_of(value.items.begin(), value.items.end(), has_interpolation) ||
         std::any_of(value.members.begin(), value.members.end(),
                     [](const Member& m) { return has_interpolation(m.value); });
}

}  // namespace

void resolve_interpolations(Value& root, std::span<const std::string> given) {
  if (!has_interpolation(root)) return;
  const Value original = root;
  Interpolation interpolation(original, given);
  Path around;
  resolve(root, original, around, interpolation);
}

}  // namespace stepcast
