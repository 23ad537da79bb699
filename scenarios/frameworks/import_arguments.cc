// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include <embedded/import_lists.h>

#include "scenarios/frameworks/importers.h"
#include "scenarios/schema/keys.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {

// Generated (cmake/EmbedFiles.cmake) from scenarios/frameworks/imports/*.txt.
namespace {

constexpr int64_t kMostWhole = 1'000'000'000;  // so that two of them can be multiplied

bool is_none(const Value& v) {
  return v.kind == Value::Kind::null ||
         (v.is_scalar() && (v.text == "None" || v.text == "null" || v.text == "~"));
}

bool is_off(const Value& v) {
  return v.is_scalar() && truth(v.text) == false;
}

// A command line may give a list where a single word is meant; its first item counts.
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

// A recursive-descent parser.  A number is a list of one item with `list` false.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  struct Result {
    bool list = false;
    std::vector<int64_t> items;
  };

  std::optional<Result> read() {
    Result r = sum();
    blanks();
    if (!ok_ || at_ != text_.size()) return {};
    return r;
  }

 private:
  static constexpr size_t kMost = 100'000;
  static constexpr int kMostLevels = 32;

  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result fail() {
    ok_ = false;
    return {};
  }

  Result sum() {
    Result left = product();
    while (ok_) {
      if (take('+'))
        left = add(left, product());
      else if (take('-'))
        left = subtract(left, product());
      else
        break;
    }
    return left;
  }

  Result product() {
    Result left = atom();
    while (ok_) {
      if (take('*')) {
        left = times(left, atom());
      } else if (take('%')) {
        const Result right = atom();
        if (!ok_ || left.list || right.list || right.items.front() < 1) return fail();
        left.items.front() %= right.items.front();
      } else if (take('/')) {
        take('/');
        const Result right = atom();
        if (!ok_ || left.list || right.list || right.items.front() < 1) return fail();
        left.items.front() /= right.items.front();
      } else {
        return left;
      }
    }
    return left;
  }

  Result atom() {
    if (++level_ > kMostLevels) return fail();
    Result r;
    if (take('(')) {
      r = sum();
      if (!take(')')) return fail();
    } else if (take('[')) {
      r.list = true;
      while (ok_ && !take(']')) {
        const Result item = sum();
        if (!ok_ || item.list || r.items.size() >= kMost) return fail();
        r.items.push_back(item.items.front());
        if (!take(',')) {
          if (!take(']')) return fail();
          break;
        }
      }
    } else {
      r = number();
    }
    --level_;
    return r;
  }

  Result number() {
    blanks();
    const auto is_digit = [&](size_t at) {
      return at < text_.size() && text_[at] >= '0' && text_[at] <= '9';
    };
    if (!is_digit(at_)) return fail();
    int64_t n = 0;
    for (; is_digit(at_); ++at_) {
      n = n * 10 + (text_[at_] - '0');
      if (n > 1'000'000'000) return fail();
      if (at_ + 1 < text_.size() && text_[at_ + 1] == '_' && is_digit(at_ + 2)) ++at_;  // 500_000
    }
    return {false, {n}};
  }

  Result add(Result a, const Result& b) {
    if (!ok_ || a.list != b.list || a.items.size() + b.items.size() > kMost) return fail();
    if (a.list)
      a.items.insert(a.items.end(), b.items.begin(), b.items.end());
    else
      ok_ = !__builtin_add_overflow(a.items.front(), b.items.front(), &a.items.front());
    return a;
  }

  Result subtract(Result a, const Result& b) {
    if (!ok_ || a.list || b.list ||
        __builtin_sub_overflow(a.items.front(), b.items.front(), &a.items.front()))
      return fail();
    return a;
  }

  Result times(const Result& a, const Result& b) {
    if (!ok_ || (a.list && b.list)) return fail();
    if (!a.list && !b.list) {
      int64_t product = 0;
      if (__builtin_mul_overflow(a.items.front(), b.items.front(), &product)) return fail();
      return {false, {product}};
    }
    const Result& list = a.list ? a : b;
    const int64_t n = (a.list ? b : a).items.front();
    Result r{true, {}};
    if (n > 0 && static_cast<uint64_t>(n) > kMost / std::max<size_t>(1, list.items.size()))
      return fail();
    for (int64_t i = 0; i < n; ++i)
      r.items.insert(r.items.end(), list.items.begin(), list.items.end());
    return r;
  }

  std::string_view text_;
  size_t at_ = 0;
  int level_ = 0;
  bool ok_ = true;
};

struct Match {
  const CostArgument* row = nullptr;
  bool negated = false;
};

Match match(std::span<const CostArgument> table, std::string_view name) {
  if (name.empty()) return {};
  for (const CostArgument& row : table) {
    if (row.name == name || among(name, row.also)) return {&row, false};
    if (among(name, row.inverse)) return {&row, true};
  }
  for (const std::string_view prefix : {"no_", "disable_"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    for (const CostArgument& row : table)
      if (!rest.empty() && (row.name == rest || among(rest, row.also))) return {&row, true};
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
  const std::string file = fmt::format("scenarios/frameworks/imports/{}.txt", list);
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

bool known_argument(std::span<const CostArgument> table, std::string_view list,
                    std::string_view name) {
  return match(table, name).row != nullptr || without_effect(list, name);
}

ArgumentReader::ArgumentReader(std::span<const CostArgument> table, std::string_view list,
                               const std::vector<Argument>& arguments, Problems& problems)
    : table_(table), problems_(problems) {
  for (const Argument& a : arguments) {
    const Match m = match(table, a.name);
    if (m.row == nullptr) {
      // What is stated to be unset is not there, whatever it would do.
      if (without_effect(list, a.name) || a.value.kind == Value::Kind::null)
        ++ignored_;
      else
        unknown_.push_back({a.written, a.value.mark});
      continue;
    }
    // An argument without a value does not erase what another name of the same argument says.
    const std::string name(m.row->name);
    const auto before = given_.find(name);
    const bool other = before != given_.end() && before->second.argument.name != a.name;
    if (other && (is_none(a.value) || (a.listed && is_off(a.value) != m.negated))) continue;
    given_[name] = {a, m.negated};
  }
  // Where thousands are unknown the file is of another kind, and nobody reads them all.
  constexpr size_t kMostSuggestions = 200;
  for (size_t i = 0; i < std::min(unknown_.size(), kMostSuggestions); ++i)
    unknown_[i].near = suggestion(unknown_[i].written);
}

int64_t ArgumentReader::used() const {
  return std::ranges::count_if(
      given_, [](const auto& g) { return g.second.argument.value.mark.source != nullptr; });
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

void ArgumentReader::refuse_value(std::string_view name, const std::string& expected) const {
  const std::string_view text = first_text(find(name)->argument.value);
  refuse(name, fmt::format("must be {}, not '{}'", expected, text),
         text.find('$') == std::string_view::npos
             ? ""
             : "the file does not say what the variable is: define it, or write the value");
}

std::optional<int64_t> ArgumentReader::whole(std::string_view name) const {
  const Given* g = find(name);
  if (g == nullptr) return {};
  const std::string_view text = first_text(g->argument.value);
  std::optional<int64_t> n = python_whole(text);
  // A list that is printed is one text.
  if (const auto list = n ? std::nullopt : python_list(text); list && !list->empty())
    n = list->front();
  if (!n) refuse_value(name, "a whole number");
  if (n && *n > kMostWhole) {
    refuse(name, "must be at most 10^9");
    return {};
  }
  return n;
}

int64_t ArgumentReader::whole(std::string_view name, int64_t fallback) const {
  return whole(name).value_or(fallback);
}

std::optional<int64_t> ArgumentReader::count(std::string_view name) const {
  constexpr int64_t kMost = 1'000'000'000'000'000'000;
  const Given* g = find(name);
  if (g == nullptr) return {};
  std::string digits;
  char last = '_';  // none may begin or end it, nor follow another
  for (const char c : first_text(g->argument.value)) {
    if (c == '_' && last == '_') return {};
    if (c != '_') digits += c;
    last = c;
  }
  int64_t n = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, n);
  if (error != std::errc() || at != end || last == '_' || n < 0 || n > kMost) return {};
  return n;
}

std::optional<double> ArgumentReader::real(std::string_view name) const {
  const Given* g = find(name);
  if (g == nullptr) return {};
  const std::string_view text = first_text(g->argument.value);
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error == std::errc() && end == text.data() + text.size() && x >= 0 && x <= 1e18) return x;
  refuse_value(name, "a number");
  return {};
}

bool ArgumentReader::flag(std::string_view name, bool fallback) const {
  const Given* g = find(name);
  if (g == nullptr) return fallback;
  const std::string_view text = first_text(g->argument.value);
  // The word after a flag on a command line may be a variable that has nothing to do with it.
  const std::optional<bool> on = text.starts_with('$') ? true : truth(text);
  if (!on) refuse_value(name, "true or false");
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

Origin ArgumentReader::origin(std::string_view name, std::string_view otherwise) const {
  return given(name) ? Origin(why(name), mark(name)) : Origin(std::string(otherwise));
}

void ArgumentReader::note_left_out(ScenarioDraft& draft) const {
  for (const CostArgument& row : table_) {
    if (row.as.kind != As::Kind::left_out) continue;
    const Given* g = find(row.name);
    if (g == nullptr) continue;
    std::string text = lower_case(first_text(g->argument.value));
    if (const auto on = truth(text); on && g->negated) text = *on ? "false" : "true";
    if (!among(text, row.as.words)) draft.left_out(why(row.name));
  }
}

void ArgumentReader::refuse(std::string_view name, const std::string& message,
                            std::string help) const {
  if (!refused_.emplace(name).second) return;
  const Given* g = find(name);
  if (g == nullptr)  // what it is by default is refused
    return problems_.add("E331", fmt::format("'{}', which is not given, {}", name, message), Mark{},
                         1, {}, std::move(help));
  const size_t length = first_text(g->argument.value).size();
  problems_.add("E331", fmt::format("'{}' {}", g->argument.written, message),
                g->argument.value.mark, static_cast<int>(std::max<size_t>(1, length)), {},
                std::move(help));
}

std::optional<bool> truth(std::string_view word) {
  const std::string low = lower_case(word);
  for (const std::string_view yes : {"true", "1", "yes", "on"})
    if (low == yes) return true;
  for (const std::string_view no : {"false", "0", "no", "off"})
    if (low == no) return false;
  return {};
}

std::optional<std::vector<int64_t>> python_list(std::string_view text) {
  const auto r = PythonReader(text).read();
  if (!r || !r->list) return {};
  return r->items;
}

std::optional<int64_t> python_whole(std::string_view text) {
  const auto r = PythonReader(text).read();
  if (!r || r->list) return {};
  return r->items.front();
}

// --- rows

namespace {

// The value as text, before it is looked up in the words of its row.
std::string text_of(const ArgumentReader& a, const CostArgument& row) {
  const auto yes_or_no = [](bool on) { return on ? "true" : "false"; };
  switch (row.as.kind) {
    case As::Kind::flag: return yes_or_no(a.flag(row.name));
    case As::Kind::positive: return yes_or_no(a.real(row.name).value_or(0) > 0);
    case As::Kind::lower: return lower_case(a.word(row.name));
    default: return a.word(row.name);
  }
}

// What `text` becomes by the words "afab=gpipe|1f1b|*=auto"; nothing if it is none of them.
std::optional<std::string> among_words(std::string_view words, const std::string& text) {
  if (words.empty()) return text;
  for (const std::string_view word : split(words, '|')) {
    const size_t equals = word.find('=');
    const std::string_view left = word.substr(0, equals);
    if (left != text && left != "*") continue;
    return equals == std::string_view::npos ? text : std::string(word.substr(equals + 1));
  }
  return {};
}

// "must be default, always or never"
std::string known_words(std::string_view words) {
  std::vector<std::string> known;
  for (const std::string_view word : split(words, '|'))
    known.emplace_back(word.substr(0, word.find('=')));
  return fmt::format("must be {}", or_list(known));
}

void draft_number(const ArgumentReader& a, const CostArgument& row, ScenarioDraft& draft) {
  const std::optional<int64_t> n = a.whole(row.name);
  if (!n) return;
  if (row.as.most > 0 && (*n < 1 || *n > row.as.most))
    return a.refuse(row.name, fmt::format("must be from 1 to {}", row.as.most));
  if (*n > 1 || !row.as.above_one) draft.set(std::string(row.path), *n, a.origin(row.name));
}

void draft_word(const ArgumentReader& a, const CostArgument& row, ScenarioDraft& draft) {
  const std::string path(row.path);
  const bool given = a.given(row.name);
  const std::string text = given ? text_of(a, row) : std::string(row.as.fallback);
  const std::optional<std::string> value = among_words(row.as.words, text);
  if (!value) return a.refuse(row.name, known_words(row.as.words));
  if (value->empty() && !row.as.words.empty()) return;
  const Origin origin = a.origin(row.name, row.as.fallback_why);
  const bool ours =
      row.as.kind == As::Kind::flag || row.as.kind == As::Kind::positive || !row.as.words.empty();
  if (ours && (*value == "true" || *value == "false" || is_digits(*value)))
    draft.set(path, *value, origin);
  else
    draft.set_text(path, *value, origin);
}

void draft_row(const CostArgument& row, Importing& i) {
  const ArgumentReader& a = i.a;
  if (row.as.kind == As::Kind::code) return row.as.code_of_row(i);
  if (row.as.kind == As::Kind::input || row.as.kind == As::Kind::left_out) return;
  if (!row.as.size.empty() && a.whole(row.as.size, 1) < 2) return;
  if (!a.given(row.name) && row.as.is_needed)
    return a.problems().add("E332", fmt::format("the file does not say {}", row.name), {});
  if (!a.given(row.name) && row.as.fallback.empty()) return;
  if (row.as.kind == As::Kind::whole)
    draft_number(a, row, i.draft);
  else
    draft_word(a, row, i.draft);
}

}  // namespace

void draft_rows(Importing& i) {
  for (const CostArgument& row : i.a.table()) draft_row(row, i);
  i.a.note_left_out(i.draft);
}

}  // namespace stepcast
