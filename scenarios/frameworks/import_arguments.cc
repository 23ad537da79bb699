// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_arguments.h"

#include <algorithm>
#include <charconv>

#include "scenarios/frameworks/python_list.h"
#include "scenarios/schema/keys.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {

// Generated (cmake/EmbedFiles.cmake) from scenarios/frameworks/imports/*.txt.
std::span<const std::pair<std::string_view, std::string_view>> import_lists();

namespace {

bool is_none(const Value& v) {
  return v.kind == Value::Kind::null ||
         (v.is_scalar() && (v.text == "None" || v.text == "null" || v.text == "~"));
}

std::optional<bool> truth(std::string_view word) {
  for (const std::string_view yes : {"true", "True", "1", "yes"})
    if (word == yes) return true;
  for (const std::string_view no : {"false", "False", "0", "no"})
    if (word == no) return false;
  return {};
}

// A command line gives lists where one word is meant: the first one counts.
std::string_view first_text(const Value& v) {
  if (v.is_scalar()) return v.text;
  if (v.kind == Value::Kind::sequence && !v.items.empty()) return first_text(v.items.front());
  return {};
}

void collect_words(const Value& v, std::vector<std::string>& words) {
  for (const Value& item : v.items) collect_words(item, words);
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (const char c : v.text) {
    if (c == ' ' || c == ',' || c == '[' || c == ']' || c == '\'' || c == '"' || c == '(' ||
        c == ')')
      finish();
    else
      word += c;
  }
  finish();
}

// Whether a word of "a|b" is `name`.
bool among(std::string_view name, std::string_view words) {
  const std::vector<std::string_view> all = split(words, '|');
  return std::find(all.begin(), all.end(), name) != all.end();
}

struct Match {
  const CostArgument* row = nullptr;
  bool negated = false;
};

Match match(std::span<const CostArgument> table, std::string_view name) {
  for (const CostArgument& row : table) {
    if (row.name == name || among(name, row.also)) return {&row, false};
    if (among(name, row.inverse)) return {&row, true};
  }
  for (const std::string_view prefix : {"no_", "disable_"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    for (const CostArgument& row : table)
      if (row.name == rest || among(rest, row.also)) return {&row, true};
  }
  return {};
}

}  // namespace

std::string argument_name(std::string_view written) {
  while (written.starts_with('-')) written.remove_prefix(1);
  std::string name(written);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

bool without_effect(std::string_view list, std::string_view name) {
  const std::string file = "scenarios/frameworks/imports/" + std::string(list) + ".txt";
  for (const auto& [path, text] : import_lists()) {
    if (path != file) continue;
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.empty() || line.front() == '#') continue;
      if (line == name) return true;
      if (line.back() == '*' && name.starts_with(line.substr(0, line.size() - 1))) return true;
    }
    return false;
  }
  STEPCAST_CHECK(false, "no list " + file);
  return false;
}

ArgumentReader::ArgumentReader(std::span<const CostArgument> table, std::string_view list,
                               const std::vector<Argument>& arguments, Problems& problems)
    : table_(table), problems_(problems) {
  for (const Argument& a : arguments) {
    const Match m = match(table, a.name);
    if (m.row == nullptr) {
      if (without_effect(list, a.name))
        ++ignored_;
      else
        unknown_.push_back({a.written, a.value.mark});
      continue;
    }
    // A name that says nothing does not take away what another name of the same says.
    const std::string name(m.row->name);
    if (is_none(a.value) && given_.count(name) != 0 && given_.at(name).argument.name != a.name)
      continue;
    given_[name] = {a, m.negated};
  }
  for (UnknownArgument& u : unknown_) u.near = suggestion(u.written);
}

std::string ArgumentReader::suggestion(const std::string& written) const {
  std::vector<std::string_view> open;
  for (const CostArgument& row : table_)
    if (given_.find(row.name) == given_.end()) open.push_back(row.name);
  std::string near(closest(argument_name(written), open));
  if (near.empty() || !written.starts_with("--")) return near;
  std::replace(near.begin(), near.end(), '_', '-');
  return "--" + near;
}

const ArgumentReader::Given* ArgumentReader::find(std::string_view name) const {
  STEPCAST_CHECK(std::any_of(table_.begin(), table_.end(),
                             [&](const CostArgument& row) { return row.name == name; }),
                 "no argument of the table: " + std::string(name));
  const auto found = given_.find(name);
  if (found == given_.end() || is_none(found->second.argument.value)) return nullptr;
  return &found->second;
}

const Value* ArgumentReader::value(std::string_view name) const {
  const Given* g = find(name);
  return g == nullptr ? nullptr : &g->argument.value;
}

void ArgumentReader::refuse_value(const Given& g, const std::string& expected) const {
  const std::string text(first_text(g.argument.value));
  const bool variable = text.find('$') != std::string::npos;
  problems_.add("E331",
                '\'' + g.argument.written + "' must be " + expected + ", not '" + text + '\'',
                g.argument.value.mark, static_cast<int>(std::max<size_t>(1, text.size())), {},
                variable ? "the file does not say what the variable is: define it, or write the "
                           "value"
                         : "");
}

std::optional<int64_t> ArgumentReader::whole(std::string_view name) const {
  const Given* g = find(name);
  if (g == nullptr) return {};
  const std::optional<int64_t> n = python_whole(first_text(g->argument.value));
  if (!n) refuse_value(*g, "a whole number");
  return n;
}

int64_t ArgumentReader::whole(std::string_view name, int64_t fallback) const {
  return whole(name).value_or(fallback);
}

std::optional<double> ArgumentReader::real(std::string_view name) const {
  const Given* g = find(name);
  if (g == nullptr) return {};
  const std::string_view text = first_text(g->argument.value);
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error == std::errc() && end == text.data() + text.size() && x >= 0 && x <= 1e18) return x;
  refuse_value(*g, "a number");
  return {};
}

bool ArgumentReader::flag(std::string_view name, bool fallback) const {
  const Given* g = find(name);
  if (g == nullptr) return fallback;
  const std::string_view text = first_text(g->argument.value);
  // What follows a flag on a command line may be something else that was not understood.
  const std::optional<bool> on = text.starts_with('$') ? true : truth(text);
  if (!on) refuse_value(*g, "true or false");
  return on.value_or(fallback) != g->negated;
}

std::string ArgumentReader::word(std::string_view name, std::string_view fallback) const {
  const Given* g = find(name);
  return std::string(g == nullptr ? fallback : first_text(g->argument.value));
}

std::vector<std::string> ArgumentReader::words(std::string_view name) const {
  std::vector<std::string> words;
  if (const Value* v = value(name)) collect_words(*v, words);
  return words;
}

std::string ArgumentReader::why(std::string_view name) const {
  const Given* g = find(name);
  if (g == nullptr) return "default";
  const Value& v = g->argument.value;
  std::string text = g->argument.written;
  if (v.is_scalar()) return truth(v.text) == true && v.text != "1" ? text : text + ' ' + v.text;
  std::vector<std::string> all;
  collect_words(v, all);
  for (const std::string& w : all) text += ' ' + w;
  return text;
}

Mark ArgumentReader::mark(std::string_view name) const {
  const Given* g = find(name);
  return g == nullptr ? Mark{} : g->argument.value.mark;
}

std::vector<std::string> ArgumentReader::left_out() const {
  std::vector<std::string> all;
  for (const CostArgument& row : table_) {
    if (row.neutral.empty()) continue;
    const Given* g = find(row.name);
    if (g == nullptr) continue;
    std::string text = lower_case(first_text(g->argument.value));
    if (const auto on = truth(text); on && g->negated) text = *on ? "false" : "true";
    if (!among(text, row.neutral)) all.push_back(why(row.name));
  }
  return all;
}

void ArgumentReader::refuse(std::string_view name, const std::string& message,
                            std::string help) const {
  const Given* g = find(name);
  STEPCAST_CHECK(g != nullptr, "refused without being there: " + std::string(name));
  const size_t length = first_text(g->argument.value).size();
  problems_.add("E331", '\'' + g->argument.written + "' " + message, g->argument.value.mark,
                static_cast<int>(std::max<size_t>(1, length)), {}, std::move(help));
}

}  // namespace stepcast
