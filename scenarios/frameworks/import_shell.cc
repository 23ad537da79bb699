// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "scenarios/frameworks/shell_arithmetic.h"
#include "scenarios/frameworks/shell_syntax.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Limits of what is followed: characters of text that is made, and statements that are carried out.
constexpr size_t kMostCharacters = 16'000'000, kMostStatements = 400'000;
constexpr size_t kLongestText = 250'000;
constexpr int kMostCalls = 30;
constexpr size_t kMostRounds = 1000;
// What copying a variable or a name costs, in characters, and how many comparisons cost one.
constexpr size_t kCopied = 8, kComparisons = 8;

// An open value in a text: a number between these two, which no script has.
constexpr char kOpenBegins = '\x01', kOpenEnds = '\x02';

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}
// "--name".
bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && is_shell_name_start(word[2]);
}
bool has_open(std::string_view text) {
  return text.find(kOpenBegins) != std::string_view::npos;
}

// Whether `c` is one of the characters between "[" and "]"; "[!...]" is all others.
bool is_in_set(std::string_view set, char c) {
  const bool others = set.starts_with('!') || set.starts_with('^');
  if (others) set.remove_prefix(1);
  bool in = set.find(c) != set.npos;
  for (size_t i = 1; i + 1 < set.size(); ++i)
    in = in || (set[i] == '-' && set[i - 1] <= c && c <= set[i + 1]);
  return in != others;
}

// Patterns of `case`, `==` and ${NAME%...}: '*', '?', and [...] as any character.  Counts what it
// compares, and gives up at `most`.
bool fits_pattern(std::string_view pattern, std::string_view text, size_t& compared, size_t most) {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (++compared > most) return false;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
      continue;
    }
    size_t behind = p;  // of what this character fits
    if (p < pattern.size()) {
      const size_t close = pattern[p] == '[' ? pattern.find(']', p) : pattern.npos;
      if (pattern[p] == '[') compared += std::min(close, pattern.size()) - p;
      if (close != pattern.npos)
        behind = is_in_set(pattern.substr(p + 1, close - p - 1), text[t]) ? close + 1 : p;
      else if (pattern[p] == '?' || pattern[p] == text[t])
        behind = p + 1;
    }
    if (behind > p) {
      p = behind;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

class ShellReader {
 public:
  ShellReader(const SourceRef& source, const ShellGiven& given, const ShellFiles& files)
      : source_(source), files_(files) {
    Texts given_words;
    for (const std::string& word : given) {
      const size_t equals = word.find('=');
      const bool variable = equals != std::string::npos && equals > 0 &&
                            is_shell_name_start(word[0]) &&
                            std::all_of(word.begin(), word.begin() + static_cast<long>(equals),
                                        [](char c) { return is_shell_name(c); });
      ShellText value =
          plain(without_marks(variable ? word.substr(equals + 1) : word), Mark{source, 0, 0});
      if (variable) {
        variables_[word.substr(0, equals)] = scalar(value);
        fixed_.insert(word.substr(0, equals));
      } else {
        given_words.push_back(std::move(value));
      }
    }
    set_positional(std::move(given_words));
    read_scheduler_comments(source->text);
  }

  ShellScript read() {
    follow(whole(source_), nullptr);
    return std::move(script_);
  }

 private:
  using Texts = std::vector<ShellText>;
  using Items = std::vector<std::pair<std::string, ShellText>>;
  struct Variable {
    Items items{};
    bool is_array = false;
  };
  using Variables = std::map<std::string, Variable, std::less<>>;
  using Changes = std::map<std::string, std::optional<Variable>, std::less<>>;

  using Positional = std::shared_ptr<const Texts>;

  enum class Truth : uint8_t { no, yes, unknown };
  static Truth truth_of(bool b) { return b ? Truth::yes : Truth::no; }
  static Truth negated(Truth t) {
    return t == Truth::unknown ? t : t == Truth::yes ? Truth::no : Truth::yes;
  }
  // What a test says; `unset`: if the variables that nothing sets are empty.
  struct Outcome {
    Truth truth = Truth::yes, unset = Truth::yes;
    std::set<std::string> names{};
    bool is_test = false;
  };
  enum class Ends : uint8_t { no, round, loop, function, script };

  // An entry of the table of open values.
  struct Open {
    std::string written;
    std::set<std::string> names;
    bool is_unset = false;  // nothing sets it
    std::vector<std::vector<ShellText>> may_be{};
  };

  // --- texts

  static ShellText plain(std::string_view text, const Mark& mark) {
    ShellText t;
    for (const char c : text) t.append(c, mark);
    return t;
  }
  static Variable scalar(ShellText text) {
    Variable v;
    v.items.emplace_back("0", std::move(text));
    return v;
  }

  void set_positional(Texts words) {
    spend(words.size() * kCopied);
    positional_ = std::make_shared<const Texts>(std::move(words));
  }

  // Without what could be taken for an open value.
  static std::string without_marks(std::string text) {
    for (char& c : text)
      if (c == kOpenBegins || c == kOpenEnds || c == '\0') c = ' ';
    return text;
  }

  // A source as text with places.
  const ShellText& whole(const SourceRef& source) {
    ShellText& t = inputs_.emplace_back();
    t.text = without_marks(source->text);
    size_t at = 0;
    for (int line = 1; at < t.text.size(); ++line) {
      t.places.push_back({at, {source, line, 1}});
      const size_t end = t.text.find('\n', at);
      if (end == std::string::npos) break;
      at = end + 1;
    }
    return t;
  }

  bool spend(size_t characters) {
    spent_ += characters;
    return spent_ < kMostCharacters;
  }
  void spend_copy(const Variable& v) { spend((v.items.size() + 1) * kCopied); }
  bool fits(std::string_view pattern, std::string_view text) {
    size_t compared = 0;
    const bool fit = fits_pattern(pattern, text, compared, kMostCharacters * kComparisons);
    spend(compared / kComparisons);
    return fit;
  }
  bool may_go_on(const Mark& mark) {
    if (spent_ < kMostCharacters && ++statements_ < kMostStatements) return true;
    if (!script_.cut) script_.cut = mark;
    return false;
  }

  // --- open values

  ShellText open(Open o, const Mark& mark) {
    opens_.push_back(std::move(o));
    return plain(fmt::format("{}{}{}", kOpenBegins, opens_.size() - 1, kOpenEnds), mark);
  }

  ShellText unset(const std::string& name, const std::string& written, const Mark& mark) {
    const auto [known, is_new] = unset_.emplace(name, opens_.size());
    if (is_new) opens_.push_back({written, {name}, true});
    return plain(fmt::format("{}{}{}", kOpenBegins, known->second, kOpenEnds), mark);
  }

  // Calls use(open, begin, end) for each open value in the text.
  template <typename Use>
  void each_open(std::string_view text, Use use) const {
    for (size_t at = text.find(kOpenBegins); at != text.npos; at = text.find(kOpenBegins, at)) {
      const size_t end = text.find(kOpenEnds, at);
      if (end == text.npos) return;
      size_t index = 0;
      for (const char c : text.substr(at + 1, end - at - 1))
        index = index * 10 + static_cast<size_t>(c - '0');
      if (index < opens_.size()) use(index, at, end + 1);
      at = end + 1;
    }
  }

  void add_names(std::string_view text, std::set<std::string>& names) const {
    each_open(text, [&](size_t i, size_t, size_t) {
      names.insert(opens_[i].names.begin(), opens_[i].names.end());
    });
  }

  // The open value that the text is, if it is nothing else.
  std::optional<size_t> only_open(std::string_view text) const {
    std::optional<size_t> only;
    each_open(text, [&](size_t i, size_t begin, size_t end) {
      if (begin == 0 && end == text.size()) only = i;
    });
    return only;
  }

  // As it is written; unset variables may be left out.
  std::string shown(std::string_view text, bool without_unset = false) const {
    std::string all;
    size_t at = 0;
    each_open(text, [&](size_t i, size_t begin, size_t end) {
      all += text.substr(at, begin - at);
      if (!without_unset || !opens_[i].is_unset) all += opens_[i].written;
      at = end;
    });
    return all += text.substr(at);
  }

  // The text where variables that nothing sets are empty; $1 is meant to be given.
  std::string emptied(std::string_view text) const {
    std::string all;
    size_t at = 0;
    each_open(text, [&](size_t i, size_t begin, size_t end) {
      all += text.substr(at, begin - at);
      const bool is_empty = opens_[i].is_unset && !is_digits(*opens_[i].names.begin());
      if (!is_empty) all += text.substr(begin, end - begin);
      at = end;
    });
    return all += text.substr(at);
  }

  ShellWord word_of(const ShellText& t) {
    ShellWord w{shown(t.text), t.mark_at(0), nullptr};
    if (!has_open(t.text)) return w;
    if (const auto only = only_open(t.text)) {
      w.open = described(*only);
      return w;
    }
    auto o = std::make_shared<ShellOpen>();
    add_names(t.text, o->names);
    w.open = std::move(o);
    return w;
  }

  // An open value for the reader of the script, made once: values may hang on each other.
  std::shared_ptr<const ShellOpen> described(size_t index) {
    if (described_.size() <= index) described_.resize(opens_.size());
    if (described_[index]) return described_[index];
    auto o = std::make_shared<ShellOpen>();
    o->names = opens_[index].names;
    o->is_unset = opens_[index].is_unset;
    if (++nested_ < 100)
      for (const auto& words : opens_[index].may_be) {
        std::vector<ShellWord> all;
        for (const ShellText& word : words) {
          all.push_back(word_of(word));
          o->holds_options = o->holds_options || is_option(all.back().text) ||
                             (all.back().open && all.back().open->holds_options);
        }
        o->may_be.push_back(std::move(all));
      }
    --nested_;
    described_[index] = o;
    return o;
  }

  // --- variables

  const Variable* find(std::string_view name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : &found->second;
  }

  // The variable, to be changed.
  Variable& change(const std::string& name) {
    if (!journals_.empty() && !journals_.back().contains(name)) {
      const Variable* old = find(name);
      if (old != nullptr) spend_copy(*old);
      journals_.back()[name] = old == nullptr ? std::nullopt : std::optional(*old);
    }
    return variables_[name];
  }

  void assign(const std::string& name, Variable value) {
    if (fixed_.contains(name)) return;
    if (value.items.size() == 1 && !value.is_array) {
      ShellText& text = value.items.front().second;
      if (const auto only = only_open(text.text)) {
        const Open& o = opens_[*only];
        // X=$X and X=${X} leave open what is open.
        if (o.is_unset && *o.names.begin() == name) return;
        if (o.is_unset && is_digits(*o.names.begin()))
          script_.variable_of.emplace(*o.names.begin(), name);
      }
      // What a program prints can be given under the variable's name.
      std::set<std::string> names;
      add_names(text.text, names);
      if (names.empty() && has_open(text.text)) text = open({"$" + name, {name}}, text.mark_at(0));
    }
    change(name) = std::move(value);
  }

  void unset_variable(const std::string& name) {
    if (fixed_.contains(name)) return;
    change(name);
    variables_.erase(name);
  }

  static ShellText joined(const Items& items) {
    ShellText all;
    for (const auto& [key, text] : items) {
      if (!all.text.empty()) all.text += ' ';
      all.append(text);
    }
    return all;
  }

  // "#SBATCH --nodes=16" sets what Slurm tells the job.
  void read_scheduler_comments(std::string_view text) {
    for (size_t at = 0; at < text.size() && at < 100'000;) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      if (!line.starts_with("#SBATCH") && !line.starts_with("#PBS")) continue;
      const auto number = [&](std::initializer_list<std::string_view> options) -> std::string {
        for (const std::string_view option : options) {
          const size_t found = line.find(option);
          if (found == line.npos) continue;
          const std::string_view rest = line.substr(found + option.size());
          return std::string(rest.substr(0, rest.find_first_not_of("0123456789")));
        }
        return {};
      };
      const auto set = [&](std::string value, std::initializer_list<const char*> names) {
        if (value.empty()) return;
        for (const char* name : names)
          if (!variables_.contains(name))
            variables_[name] = scalar(plain(value, Mark{source_, 0, 0}));
      };
      set(number({"--nodes=", "--nodes ", "-N "}), {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
      set(number({"--gpus-per-node=", "--gres=gpu:"}),
          {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
      set(number({"--ntasks-per-node=", "--ntasks-per-node "}), {"SLURM_NTASKS_PER_NODE"});
      set(number({"--ntasks="}), {"SLURM_NTASKS", "SLURM_NPROCS"});
    }
  }

  // --- expansion

  enum class Split : uint8_t { words, no, document };

  static void put(ShellText& current, bool& any, char c, const Mark& mark) {
    current.append(c, mark);
    any = true;
  }

  // The words that a word of the script becomes.
  std::vector<ShellText> expand(const ShellText& in, ShellRange range, Split split) {
    std::vector<ShellText> done;
    ShellText current;
    bool any = false, quoted = false;
    const auto finish = [&] {
      if (any) done.push_back(std::move(current));
      current = {};
      any = false;
    };
    const std::string& text = in.text;
    spend(range.end - range.begin);
    for (size_t at = range.begin; at < range.end && !script_.cut;) {
      const char c = text[at];
      if (c == '\'' && !quoted && split != Split::document) {
        any = true;
        for (++at; at < range.end && text[at] != '\''; ++at)
          put(current, any, text[at], in.mark_at(at));
        ++at;
      } else if (c == '"' && split != Split::document) {
        quoted = !quoted;
        any = true;
        ++at;
      } else if (c == '\\' && at + 1 < range.end) {
        ++at;
        if (text[at] == '\r' && at + 1 < range.end && text[at + 1] == '\n') ++at;
        if (text[at] == '\n') {
          if (quoted || split != Split::words) put(current, any, ' ', in.mark_at(at));
        } else if (split == Split::document) {
          if (std::string_view("$`\\").find(text[at]) == std::string::npos)
            put(current, any, '\\', in.mark_at(at));
          put(current, any, text[at], in.mark_at(at));
        } else if (quoted && std::string_view("$`\"\\").find(text[at]) == std::string::npos) {
          if (!is_shell_space(text[at])) put(current, any, '\\', in.mark_at(at));
          put(current, any, text[at], in.mark_at(at));
        } else {
          put(current, any, text[at], in.mark_at(at));
        }
        ++at;
      } else if (c == '$' || c == '`') {
        std::vector<ShellText> values;
        bool is_list = false;
        const size_t before = at;
        at = substitute(in, at, range.end, values, is_list);
        if (at == before) {
          put(current, any, c, in.mark_at(at++));
          continue;
        }
        size_t made = 0;
        for (const ShellText& v : values)
          made += v.text.size() + 32;  // a word costs more than its text
        if (!spend(made) || current.text.size() + made > kLongestText) {
          if (!script_.cut) script_.cut = in.mark_at(before);
          break;
        }
        if (split != Split::words || (quoted && !is_list)) {
          for (size_t i = 0; i < values.size(); ++i) {
            if (i > 0) current.text += ' ';
            current.append(values[i]);
            any = true;
          }
        } else if (quoted) {
          for (size_t i = 0; i < values.size(); ++i) {
            if (i > 0) finish();
            current.append(values[i]);
            any = true;
          }
          if (values.empty() && current.text.empty()) any = false;
        } else {
          for (size_t i = 0; i < values.size(); ++i) {
            if (i > 0) finish();
            split_into(values[i], current, any, finish);
          }
        }
      } else {
        put(current, any, c, in.mark_at(at));
        ++at;
      }
    }
    finish();
    return done;
  }

  template <typename Finish>
  static void split_into(const ShellText& value, ShellText& current, bool& any, Finish finish) {
    for (size_t at = 0; at < value.text.size(); ++at) {
      if (is_shell_space(value.text[at]))
        finish();
      else
        put(current, any, value.text[at], value.mark_at(at));
    }
  }

  static std::vector<ShellText> split_text(const ShellText& value) {
    std::vector<ShellText> words;
    ShellText current;
    bool any = false;
    const auto finish = [&] {
      if (any) words.push_back(std::move(current));
      current = {};
      any = false;
    };
    split_into(value, current, any, finish);
    finish();
    return words;
  }

  ShellText one_text(const ShellText& in, ShellRange range, Split split = Split::no) {
    ShellText all;
    for (const ShellText& t : expand(in, range, split)) all.append(t);
    return all;
  }

  // At '$' or '`': what it becomes, and the place behind it; the same place if it stands for
  // itself.
  size_t substitute(const ShellText& in, size_t at, size_t end, std::vector<ShellText>& values,
                    bool& is_list) {
    const std::string& text = in.text;
    const Mark mark = in.mark_at(at);
    if (text[at] == '`') {
      size_t close = at + 1;
      while (close < end && text[close] != '`') ++close;
      values.push_back(printed(in, {at + 1, close}, {at, std::min(close + 1, end)}));
      return std::min(close + 1, end);
    }
    if (at + 1 >= end) return at;
    const char next = text[at + 1];
    if (next == '(') {
      const size_t close = end_of_shell_group(text, at + 1, end);
      const std::string_view inside(text.data() + at, close - at);
      if (inside.starts_with("$((") && inside.ends_with("))"))
        values.push_back(computed(in, {at + 3, close - 2}, {at, close}));
      else
        values.push_back(printed(in, {at + 2, std::max(close - 1, at + 2)}, {at, close}));
      return close;
    }
    if (next == '{') {
      const size_t close = end_of_shell_group(text, at + 1, end);
      if (++nested_ < 100)
        braces(in, {at + 2, std::max(close - 1, at + 2)}, {at, close}, values, is_list);
      --nested_;
      return close;
    }
    if (is_shell_name_start(next)) {
      size_t behind = at + 1;
      while (behind < end && is_shell_name(text[behind])) ++behind;
      value_of(text.substr(at + 1, behind - at - 1), mark, values);
      return behind;
    }
    if (next >= '0' && next <= '9') {
      value_of(std::string(1, next), mark, values);
      return at + 2;
    }
    if (next == '@' || next == '*') {
      values = *positional_;
      is_list = true;
      return at + 2;
    }
    if (next == '#') {
      values.push_back(plain(fmt::format("{}", positional_->size()), mark));
      return at + 2;
    }
    if (next == '?') {
      values.push_back(plain("0", mark));
      return at + 2;
    }
    if (next == '$' || next == '!' || next == '-') {
      values.push_back(open({std::string("$") + next, {}}, mark));
      return at + 2;
    }
    return at;
  }

  // The value of $NAME or $1, open if nothing sets it.
  void value_of(const std::string& name, const Mark& mark, std::vector<ShellText>& values) {
    if (is_digits(name)) {
      size_t index = 0;
      for (const char c : name)
        index = std::min<size_t>(index * 10 + static_cast<size_t>(c - '0'), 1'000'000);
      if (index == 0) {
        values.push_back(plain("./" + source_->name.substr(source_->name.rfind('/') + 1), mark));
        return;
      }
      if (index <= positional_->size()) {
        values.push_back((*positional_)[index - 1]);
      } else if (calls_ == 0) {
        values.push_back(unset(name, "$" + name, mark));
      }
      return;
    }
    const Variable* v = find(name);
    if (v == nullptr)
      values.push_back(unset(name, "$" + name, mark));
    else if (!v->items.empty())
      values.push_back(v->items.front().second);
  }

  // Inside ${...}.
  void braces(const ShellText& in, ShellRange inside, ShellRange all,
              std::vector<ShellText>& values, bool& is_list) {
    const std::string& text = in.text;
    const Mark mark = in.mark_at(all.begin);
    const auto as_written = [&](const std::set<std::string>& names) {
      values.push_back(open({text.substr(all.begin, all.end - all.begin), names}, mark));
    };
    size_t at = inside.begin;
    const bool counts = at + 1 < inside.end && text[at] == '#';
    const bool indirect = at + 1 < inside.end && text[at] == '!';
    if (counts || indirect) ++at;
    const size_t name_begin = at;
    while (at < inside.end && is_shell_name(text[at])) ++at;
    std::string name = text.substr(name_begin, at - name_begin);
    if (name.empty() && at < inside.end &&
        (text[at] == '@' || text[at] == '*' || text[at] == '#')) {
      if (text[at] == '#') {
        values.push_back(plain(fmt::format("{}", positional_->size()), mark));
        return;
      }
      name = "@";
      ++at;
    }
    if (name.empty()) return as_written({});
    Variable v;
    bool known = false;
    std::optional<ShellText> key;
    if (name == "@") {
      is_list = true;
      known = true;
      spend(positional_->size() * kCopied);
      for (const ShellText& p : *positional_) v.items.emplace_back("", p);
    } else if (is_digits(name)) {
      std::vector<ShellText> value;
      value_of(name, mark, value);
      known = !(value.size() == 1 && only_open(value.front().text) &&
                opens_[*only_open(value.front().text)].is_unset);
      if (known && !value.empty()) v = scalar(value.front());
    } else {
      if (indirect) {
        const Variable* which = find(name);
        const std::string target = which == nullptr ? "" : joined(which->items).text;
        if (target.empty() || has_open(target)) return as_written({name});
        name = target;
      }
      if (const Variable* found = find(name)) {
        spend_copy(*found);
        v = *found;
        known = true;
      }
    }
    if (at < inside.end && text[at] == '[') {
      size_t close = at + 1;
      for (int depth = 1; close < inside.end; ++close) {
        depth += text[close] == '[' ? 1 : text[close] == ']' ? -1 : 0;
        if (depth == 0) break;
      }
      const std::string_view index(text.data() + at + 1, close - at - 1);
      if (index == "@" || index == "*")
        is_list = index == "@";
      else
        key = one_text(in, {at + 1, close});
      at = std::min(close + 1, inside.end);
      if (!known) return as_written({name});
    } else if (!v.items.empty() && name != "@") {
      v.items.erase(v.items.begin() + 1, v.items.end());
    }
    if (key) {
      if (has_open(key->text)) {
        std::set<std::string> names;
        add_names(key->text, names);
        return as_written(names);
      }
      std::string wanted = key->text;
      if (const auto number = shell_number(wanted, {})) wanted = fmt::format("{}", *number);
      Items found;
      for (const auto& [k, item] : v.items)
        if (k == wanted) found.emplace_back("0", item);
      if (!wanted.empty() && wanted.front() == '-' && is_digits(wanted.substr(1))) {
        const size_t back = std::stoul(wanted.substr(1, 6));
        if (back >= 1 && back <= v.items.size())
          found.emplace_back("0", v.items[v.items.size() - back].second);
      }
      v.items = std::move(found);
      known = !v.items.empty();
    }
    if (counts) {
      if (!known) return as_written({name});
      const std::string value = joined(v.items).text;
      if (has_open(value)) return as_written(names_in(value));
      values.push_back(plain(fmt::format("{}", v.is_array ? v.items.size() : value.size()), mark));
      return;
    }
    const ShellRange rest{at, inside.end};
    const std::string_view operation(text.data() + rest.begin, rest.end - rest.begin);
    if (operation.empty() || !alter(in, rest, operation, v, known, values, mark)) {
      if (!known && operation.empty() && !key)
        values.push_back(unset(name, "$" + name, mark));
      else if (operation.empty() && known)
        for (auto& [k, item] : v.items) values.push_back(std::move(item));
      else if (!operation.empty())
        as_written(known ? names_in(joined(v.items).text) : std::set<std::string>{name});
    }
  }

  std::set<std::string> names_in(std::string_view text) const {
    std::set<std::string> names;
    add_names(text, names);
    return names;
  }

  // ${NAME:-word} and its relatives.  False if what it becomes is not known.
  bool alter(const ShellText& in, ShellRange rest, std::string_view operation, Variable& v,
             bool known, std::vector<ShellText>& values, const Mark& mark) {
    const bool colon = operation.front() == ':';
    const char kind = operation[colon && operation.size() > 1 ? 1 : 0];
    const ShellRange word{rest.begin + (colon ? 2 : 1), rest.end};
    const ShellText value = joined(v.items);
    if (kind == '-' || kind == '=' || kind == '+' || kind == '?') {
      if (colon && operation.size() < 2) return false;
      const bool is_set = known && (!colon || !value.text.empty());
      if (kind == '?') {
        if (!is_set) return false;
        for (auto& [k, item] : v.items) values.push_back(item);
      } else if (kind == '+') {
        if (is_set) values.push_back(one_text(in, word));
      } else if (is_set) {
        for (auto& [k, item] : v.items) values.push_back(item);
      } else {
        ShellText fallback = one_text(in, word);
        const size_t begin = in.text.rfind('{', rest.begin);
        if (kind == '=' && begin != std::string::npos)
          assign(in.text.substr(begin + 1, rest.begin - begin - 1), scalar(fallback));
        if (!fallback.text.empty() || !fallback.places.empty()) values.push_back(fallback);
      }
      return true;
    }
    if (!known || has_open(value.text)) return false;
    if (colon) {  // ${NAME:offset:length}
      const std::string range = one_text(in, {rest.begin + 1, rest.end}).text;
      const size_t second = range.find(':');
      const auto from = shell_number(range.substr(0, second), {});
      if (!from || *from < 0) return false;
      std::optional<int64_t> length;
      if (second != range.npos) {
        length = shell_number(range.substr(second + 1), {});
        if (!length || *length < 0) return false;
      }
      if (v.is_array || v.items.size() > 1) {
        for (size_t i = static_cast<size_t>(*from); i < v.items.size(); ++i)
          if (!length || i - static_cast<size_t>(*from) < static_cast<size_t>(*length))
            values.push_back(v.items[i].second);
      } else if (static_cast<size_t>(*from) <= value.text.size()) {
        const size_t count = length ? static_cast<size_t>(*length) : std::string::npos;
        values.push_back(plain(value.text.substr(static_cast<size_t>(*from), count), mark));
      }
      return true;
    }
    if (operation == "^^" || operation == ",,") {
      std::string changed = value.text;
      for (char& c : changed) {
        if (kind == '^' && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        if (kind == ',' && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      }
      values.push_back(plain(changed, mark));
      return true;
    }
    if (kind == '%' || kind == '#') {
      const bool longest = operation.size() > 1 && operation[1] == kind;
      const std::string pattern =
          one_text(in, {rest.begin + (longest ? size_t{2} : size_t{1}), rest.end}).text;
      if (has_open(pattern) || value.text.size() > 10'000) return false;
      const std::string& t = value.text;
      std::optional<size_t> cut;
      for (size_t i = 0; i <= t.size() && spent_ < kMostCharacters; ++i) {
        const size_t n = longest ? t.size() - i : i;  // characters that go
        const std::string_view part = kind == '#' ? std::string_view(t).substr(0, n)
                                                  : std::string_view(t).substr(t.size() - n);
        if (fits(pattern, part)) {
          cut = n;
          break;
        }
      }
      if (cut)
        values.push_back(plain(kind == '#' ? t.substr(*cut) : t.substr(0, t.size() - *cut), mark));
      if (!cut) values.push_back(value);
      return true;
    }
    if (kind == '/') {
      const bool everywhere = operation.size() > 1 && operation[1] == '/';
      const size_t from = rest.begin + (everywhere ? 2 : 1);
      size_t slash = from;
      while (slash < rest.end && in.text[slash] != '/') slash += in.text[slash] == '\\' ? 2 : 1;
      slash = std::min(slash, rest.end);
      const std::string what = one_text(in, {from, slash}).text;
      const std::string by = slash < rest.end ? one_text(in, {slash + 1, rest.end}).text : "";
      if (what.empty() || has_open(what) || has_open(by) || what.find_first_of("*?[") != what.npos)
        return false;
      std::string changed;
      size_t at = 0;
      for (size_t hit = value.text.find(what); hit != value.text.npos && spend(by.size());
           hit = value.text.find(what, at)) {
        changed += value.text.substr(at, hit - at) + by;
        at = hit + what.size();
        if (!everywhere) break;
      }
      values.push_back(plain(changed + value.text.substr(at), mark));
      return true;
    }
    return false;
  }

  // $((...)).
  ShellText computed(const ShellText& in, ShellRange inside, ShellRange all) {
    const Mark mark = in.mark_at(all.begin);
    std::set<std::string> names;
    if (const auto value = number_of(in, inside, names))
      return plain(fmt::format("{}", *value), mark);
    return open({in.text.substr(all.begin, all.end - all.begin), names}, mark);
  }

  // What an arithmetic text is; what it hangs on, if that is not known.
  std::optional<int64_t> number_of(const ShellText& in, ShellRange inside,
                                   std::set<std::string>& names, bool unset_is_0 = false) {
    std::string text;
    if (++nested_ < 100) text = one_text(in, inside).text;
    --nested_;
    if (unset_is_0) text = emptied(text);
    std::string plain_text;
    for (const char c : text)
      if (c != '"' && c != '\'') plain_text += c;
    if (has_open(plain_text)) {
      for (const std::string& name : shell_assigned(plain_text).names)
        assign(name, unknown(name, in.mark_at(inside.begin)));
      add_names(plain_text, names);
      add_names_in_arithmetic(plain_text, names);
      return {};
    }
    const ShellAssigned assigned = shell_assigned(plain_text);
    if (!assigned.names.empty()) return set_number(assigned, in.mark_at(inside.begin), names);
    const auto value =
        shell_number(plain_text, [&](const std::string& name) -> std::optional<std::string> {
          if (const Variable* v = find(name)) {
            const std::string t = joined(v->items).text;
            spend(t.size() / kCopied);
            if (!has_open(t)) return t;
            add_names(t, names);
            return {};
          }
          if (unset_is_0) return "0";
          names.insert(name);
          return {};
        });
    return value;
  }

  // "A *= 2" and "A++" as they are; of more than that the variables are open.
  std::optional<int64_t> set_number(const ShellAssigned& assigned, const Mark& mark,
                                    std::set<std::string>& names) {
    if (assigned.value) {
      const std::string& name = assigned.names.front();
      const auto value_of = [&](const std::string& wanted) -> std::optional<std::string> {
        const Variable* v = find(wanted);
        const std::string t = v == nullptr ? "" : joined(v->items).text;
        spend(t.size() / kCopied);
        add_names(t, names);
        if (v == nullptr) names.insert(wanted);
        return v == nullptr || has_open(t) ? std::nullopt : std::optional(t.empty() ? "0" : t);
      };
      if (const auto value = shell_number(*assigned.value, value_of)) {
        const auto before = assigned.is_before ? shell_number(name, value_of) : value;
        assign(name, scalar(plain(fmt::format("{}", *value), mark)));
        return before;
      }
    }
    for (const std::string& name : assigned.names) assign(name, unknown(name, mark));
    return {};
  }

  void add_names_in_arithmetic(std::string_view text, std::set<std::string>& names) const {
    for (size_t at = 0; at < text.size();) {
      if (!is_shell_name_start(text[at])) {
        ++at;
        continue;
      }
      const size_t begin = at;
      while (at < text.size() && is_shell_name(text[at])) ++at;
      const Variable* v = find(text.substr(begin, at - begin));
      if (v != nullptr) add_names(joined(v->items).text, names);
    }
  }

  // What the commands in $(...) print, where nothing has to be run for it.
  ShellText printed(const ShellText& in, ShellRange inside, ShellRange all) {
    const Mark mark = in.mark_at(all.begin);
    Capture capture;
    if (nested_ < 20) {
      ++nested_;
      const ShellNodes& nodes = parsed(in, inside);
      Capture* outer = capture_;
      capture_ = &capture;
      run_in_subshell([&] { run(nodes); });
      capture_ = outer;
      --nested_;
    } else {
      capture.is_known = false;
    }
    if (!capture.is_known)
      return open({in.text.substr(all.begin, all.end - all.begin), capture.names}, mark);
    while (!capture.text.text.empty() && is_shell_space(capture.text.text.back()))
      capture.text.text.pop_back();
    return capture.text;
  }

  // --- statements

  struct Capture {
    ShellText text{};
    bool is_known = true;
    std::set<std::string> names{};  // that what is not known hangs on
  };

  void follow(const ShellText& in, const std::vector<ShellText>* arguments) {
    const ShellNodes& nodes = parsed(in, {0, in.text.size()});
    const Positional before = positional_;
    if (arguments != nullptr) set_positional(*arguments);
    if (++follows_ < kMostCalls) run(nodes);
    --follows_;
    positional_ = before;
  }

  // The statements of a text.  They are kept: functions are defined by them, and what is in a loop
  // is read once.
  const ShellNodes& parsed(const ShellText& in, ShellRange range) {
    const auto [known, is_new] = parsed_.try_emplace({&in, range.begin, range.end});
    if (is_new) known->second = parse_shell(in, range, nodes_left_);
    if (nodes_left_ == 0 && !script_.cut) script_.cut = in.mark_at(range.begin);
    return known->second;
  }

  // In "( ... )" and "$( ... )": functions that are defined there are not known outside.
  template <typename What>
  void run_in_subshell(What what) {
    spend(functions_.size() * kCopied);
    const auto functions = functions_;
    run_apart(what);
    functions_ = functions;
  }

  // Carries `what` out, and undoes what it did to variables.
  template <typename What>
  Changes run_apart(What what) {
    const Ends ends = ends_;
    const Positional positional = positional_;
    journals_.emplace_back();
    what();
    Changes changes;
    const Changes journal = std::move(journals_.back());
    journals_.pop_back();
    for (const auto& [name, old] : journal) {
      const auto now = variables_.find(name);
      if (now != variables_.end()) spend_copy(now->second);
      changes[name] = now == variables_.end() ? std::nullopt : std::optional(now->second);
      if (old)
        variables_[name] = *old;
      else if (now != variables_.end())
        variables_.erase(now);
    }
    spend(journal.size());
    apart_positional_ = positional_;
    positional_ = positional;
    apart_ended_ = ends_;
    ends_ = ends;
    return changes;
  }

  void apply(const Changes& changes) {
    for (const auto& [name, value] : changes) {
      if (value) spend_copy(*value);
      change(name) = value ? *value : Variable{};
      if (!value) variables_.erase(name);
    }
  }

  Outcome run(const ShellNodes& nodes) {
    Outcome last;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const ShellNode& node = nodes[i];
      if (ends_ != Ends::no || script_.cut) return last;
      if (node.joined == ShellNode::Joined::if_yes || node.joined == ShellNode::Joined::if_no) {
        const bool wanted = node.joined == ShellNode::Joined::if_yes;
        if (last.truth == truth_of(!wanted)) continue;
        if (last.truth == Truth::unknown && !last.names.empty()) {
          // [ $A = 1 ] && B=2: a branch.
          Outcome condition = last;
          if (!wanted) {
            condition.truth = negated(condition.truth);
            condition.unset = negated(condition.unset);
          }
          Outcome inner;
          branch({{condition, [&] { inner = run_one(node); }}});
          if (inner.is_test) {
            last.names.insert(inner.names.begin(), inner.names.end());
            last.unset = both(last.unset, inner.unset, wanted);
          }
          continue;
        }
        if (last.truth == Truth::unknown && !wanted) continue;  // a program: it succeeds
        // "[ -f FILE ] || exit" is not what a training does.
        Outcome next;
        branch({{Outcome{}, [&] { next = run_one(node); }}});
        last = next;
        continue;
      }
      const bool in_pipe = node.joined == ShellNode::Joined::pipe ||
                           (i + 1 < nodes.size() && nodes[i + 1].joined == ShellNode::Joined::pipe);
      if (in_pipe)
        run_in_subshell([&] { last = run_one(node); });
      else
        last = run_one(node);
    }
    return last;
  }

  // "and" of two truths, or "or".
  static Truth both(Truth a, Truth b, bool is_and) {
    const Truth decides = is_and ? Truth::no : Truth::yes;
    if (a == decides || b == decides) return decides;
    return a == Truth::unknown || b == Truth::unknown ? Truth::unknown : negated(decides);
  }

  // What a list of commands in a condition says.
  Outcome condition(const ShellNodes& nodes, bool of_loop = false) {
    Outcome all;
    bool first = true;
    for (const ShellNode& node : nodes) {
      if (ends_ != Ends::no || script_.cut) break;
      const bool joins = !first && (node.joined == ShellNode::Joined::if_yes ||
                                    node.joined == ShellNode::Joined::if_no);
      const bool is_and = node.joined == ShellNode::Joined::if_yes;
      if (joins && all.truth == truth_of(!is_and)) continue;
      Outcome next = run_one(node);
      if (joins) {
        next.truth = both(all.truth, next.truth, is_and);
        next.unset = both(all.unset, next.unset, is_and);
        next.names.insert(all.names.begin(), all.names.end());
        if (next.truth != Truth::unknown) next.names.clear();
      }
      all = next;
      first = false;
    }
    // A program is not known to succeed: a branch about it is none that a training needs.
    if (all.truth == Truth::unknown && all.names.empty() && !of_loop) {
      all.truth = Truth::no;
      all.unset = Truth::no;
    }
    return all;
  }

  struct Branch {
    Outcome condition;
    std::function<void()> body;
  };

  // One of several branches: that which holds, or all that may.
  void branch(const std::vector<Branch>& branches) {
    std::set<std::string> names;
    std::vector<Changes> outcomes;
    std::optional<size_t> if_unset;
    bool maybe = false, exhaustive = false, unset_is_known = true;
    for (const Branch& b : branches) {
      if (script_.cut) return;
      if (b.condition.truth == Truth::no) continue;
      const bool is_sure = b.condition.truth == Truth::yes && !maybe;
      const bool trained = trains_;
      if (!is_sure) {
        names.insert(b.condition.names.begin(), b.condition.names.end());
        spend(names.size() * kCopied);
        maybe = true;
        under_.push_back(names);
      }
      const bool is_unset_one = unset_is_known && !if_unset && b.condition.unset == Truth::yes;
      if (b.condition.unset == Truth::unknown) unset_is_known = false;
      const Changes changes = run_apart(b.body);
      if (!is_sure) under_.pop_back();
      const Ends ended = apart_ended_;
      // A branch that ends the script is not that of a training, unless it has trained.
      if (ended == Ends::script && !(trains_ && !trained)) {
        if (is_sure) names = {};
        if (is_sure) maybe = false;
        if (b.condition.truth == Truth::yes && maybe) exhaustive = true;
        if (is_sure) continue;
        if (exhaustive) break;
        continue;
      }
      if (is_sure) {
        apply(changes);
        positional_ = apart_positional_;  // "shift" in a `case`
        ends_ = ended;
        return;
      }
      if (ended == Ends::loop || ended == Ends::round) may_leave_ = true;
      if (is_unset_one) if_unset = outcomes.size();
      outcomes.push_back(changes);
      if (b.condition.truth == Truth::yes) {
        exhaustive = true;
        break;
      }
    }
    if (!maybe) return;
    if (!exhaustive) {
      if (unset_is_known && !if_unset) if_unset = outcomes.size();
      outcomes.emplace_back();
    }
    merge(outcomes, names, unset_is_known ? if_unset : std::nullopt);
  }

  static std::string key_of(const std::optional<Variable>& v) {
    if (!v) return "-";
    std::string key = v->is_array ? "(" : "=";
    for (const auto& [k, text] : v->items) key += k + '\n' + text.text + '\n';
    return key;
  }

  // What branches of which any may hold leave.
  void merge(const std::vector<Changes>& outcomes, const std::set<std::string>& names,
             std::optional<size_t> if_unset) {
    if (outcomes.empty()) return;
    std::set<std::string> changed;
    for (const Changes& c : outcomes)
      for (const auto& [name, value] : c) changed.insert(name);
    for (const std::string& name : changed) {
      std::vector<std::optional<Variable>> values;
      for (const Changes& c : outcomes) {
        const auto found = c.find(name);
        if (found != c.end())
          values.push_back(found->second);
        else if (const Variable* v = find(name))
          values.push_back(*v);
        else
          values.emplace_back();
        if (values.back())
          for (const auto& [k, text] : values.back()->items) spend(text.text.size() + kCopied);
      }
      if (script_.cut) return;
      bool same = true;
      for (const auto& v : values) same = same && key_of(v) == key_of(values.front());
      if (same) {
        apply({{name, values.front()}});
        continue;
      }
      // Arguments that are added on demand are not asked for.
      if (if_unset && holds_options(values)) {
        const std::optional<Variable>& v = values[*if_unset];
        for (const std::string& n : names) script_.empty.insert(n);
        apply({{name, v ? v : std::optional(scalar({}))}});
        continue;
      }
      change(name) = one_of(values, name, names);
    }
  }

  bool holds_options(const std::vector<std::optional<Variable>>& values) const {
    for (const auto& v : values)
      if (v)
        for (const auto& [k, text] : v->items)
          if (text.text.find("--") != std::string::npos) return true;
    return false;
  }

  // A variable with one of these values.  What they begin with alike stays known.
  Variable one_of(const std::vector<std::optional<Variable>>& values, const std::string& name,
                  const std::set<std::string>& names) {
    bool array = false;
    for (const auto& v : values) array = array || (v && v->is_array);
    std::vector<std::vector<ShellText>> words;
    for (const auto& v : values) {
      std::vector<ShellText>& all = words.emplace_back();
      if (!v) continue;
      for (const auto& [k, text] : v->items) {
        if (array)
          all.push_back(text);
        else
          for (ShellText& t : split_text(text)) all.push_back(std::move(t));
      }
    }
    size_t alike = 0;
    const auto all_have = [&](size_t i) {
      return std::all_of(words.begin(), words.end(), [&](const std::vector<ShellText>& w) {
        return i < w.size() && w[i].text == words.front()[i].text;
      });
    };
    while (all_have(alike)) ++alike;
    Items kept;
    for (size_t i = 0; i < alike; ++i) kept.emplace_back(fmt::format("{}", i), words.front()[i]);
    Open o{"$" + name, names};
    for (std::vector<ShellText>& w : words) {
      w.erase(w.begin(), w.begin() + static_cast<long>(alike));
      for (const ShellText& t : w) spend(t.text.size());
    }
    const Mark mark = [&] {
      for (const auto& w : words)
        if (!w.empty()) return w.front().mark_at(0);
      return Mark{source_, 0, 0};
    }();
    o.may_be = std::move(words);
    kept.emplace_back(fmt::format("{}", alike), open(std::move(o), mark));
    Variable v;
    v.is_array = array;
    if (array)
      v.items = std::move(kept);
    else
      v = scalar(joined(kept));
    return v;
  }

  Outcome run_one(const ShellNode& node) {
    const size_t at = !node.words.empty()    ? node.words.front().begin
                      : node.clauses.empty() ? 0
                                             : place_of(node);
    if (node.in == nullptr || !may_go_on(node.in->mark_at(at))) return {};
    if (++depth_ > 300) {
      --depth_;
      return {};
    }
    Outcome outcome;
    switch (node.kind) {
      case ShellNode::Kind::command: outcome = command(node); break;
      case ShellNode::Kind::branches: {
        // Conditions are asked only as long as none holds.
        std::vector<Branch> branches;
        for (const ShellClause& clause : node.clauses) {
          const bool is_else = clause.condition.empty();
          branches.push_back({is_else ? Outcome{} : condition(clause.condition),
                              [this, &clause] { run(clause.body); }});
        }
        branch(branches);
        break;
      }
      case ShellNode::Kind::choice: choice(node); break;
      case ShellNode::Kind::each: each(node); break;
      case ShellNode::Kind::loop: loop(node); break;
      case ShellNode::Kind::function:
        functions_[std::string(node.in->text, node.words.front().begin,
                               node.words.front().end - node.words.front().begin)] = &node;
        break;
      case ShellNode::Kind::group: {
        const auto inside = [&] {
          for (const ShellClause& clause : node.clauses) outcome = run(clause.body);
        };
        if (node.is_subshell)
          run_in_subshell(inside);
        else
          inside();
        break;
      }
    }
    --depth_;
    if (node.negated) {
      outcome.truth = negated(outcome.truth);
      outcome.unset = negated(outcome.unset);
    }
    return outcome;
  }

  static size_t place_of(const ShellNode& node) {
    for (const ShellClause& c : node.clauses)
      for (const ShellNodes* nodes : {&c.condition, &c.body})
        for (const ShellNode& n : *nodes)
          if (!n.words.empty()) return n.words.front().begin;
    return 0;
  }

  void choice(const ShellNode& node) {
    const std::string subject =
        node.words.empty() ? "" : one_text(*node.in, node.words.front()).text;
    std::vector<Branch> branches;
    for (const ShellClause& clause : node.clauses) {
      Outcome any{Truth::no, Truth::no};
      for (const ShellRange& p : clause.patterns) {
        const std::string pattern = one_text(*node.in, p).text;
        const Outcome one = compared(subject, pattern);
        any.truth = both(any.truth, one.truth, false);
        any.unset = both(any.unset, one.unset, false);
        any.names.insert(one.names.begin(), one.names.end());
      }
      branches.push_back({any, [this, &clause] { run(clause.body); }});
    }
    branch(branches);
  }

  // Whether a text fits a pattern.
  Outcome compared(const std::string& text, const std::string& pattern) {
    if (pattern == "*") return {};
    if (!has_open(text) && !has_open(pattern)) {
      const Truth t = truth_of(fits(pattern, text));
      return {t, t};
    }
    Outcome o{Truth::unknown, Truth::unknown};
    add_names(text, o.names);
    add_names(pattern, o.names);
    const std::string a = emptied(text), b = emptied(pattern);
    if (!has_open(a) && !has_open(b)) o.unset = truth_of(fits(b, a));
    for (const auto& [open, other] : {std::pair(&text, &pattern), std::pair(&pattern, &text)}) {
      const auto only = only_open(*open);
      if (!only || has_open(*other) || other->empty() || opens_[*only].names.size() != 1) continue;
      std::vector<std::string>& known = script_.choices[*opens_[*only].names.begin()];
      if (opens_[*only].may_be.empty() && known.size() < 12 &&
          std::find(known.begin(), known.end(), *other) == known.end())
        known.push_back(*other);
    }
    return o;
  }

  void each(const ShellNode& node) {
    if (!node.words.empty() && node.in->text[node.words.front().begin - 1] == '(')
      return counted(node);
    const std::string name =
        node.words.empty()
            ? ""
            : node.in->text.substr(node.words.front().begin,
                                   node.words.front().end - node.words.front().begin);
    std::vector<ShellText> all;
    for (size_t i = 1; i < node.words.size(); ++i)
      for (ShellText& t : expand(*node.in, node.words[i], Split::words))
        all.push_back(std::move(t));
    size_t round = 0;
    for (const ShellText& t : all) {
      if (script_.cut) return;
      if (++round > kMostRounds) return follow_in_part(node, name);
      const bool trained = trains_;
      if (only_open(t.text) && opens_[*only_open(t.text)].names.empty())
        assign(name, unknown(name, t.mark_at(0)));
      else
        assign(name, scalar(t));
      for (const ShellClause& c : node.clauses) run(c.body);
      if (may_leave_) return follow_in_part(node, name);
      // A loop that trains again and again: its first run.
      if (leaves_loop() || (trains_ && !trained)) return;
    }
  }

  // After a round: whether it was the last.
  bool leaves_loop() {
    if (ends_ != Ends::round && ends_ != Ends::loop) return ends_ != Ends::no;
    const bool is_last = ends_ == Ends::loop || leaves_ > 1;
    if (--leaves_ == 0) ends_ = Ends::no;
    return is_last;
  }

  // for ((i = 0; i < 4; i++))
  void counted(const ShellNode& node) {
    const ShellRange all = node.words.front();
    std::vector<ShellRange> parts{{all.begin, all.begin}};
    for (size_t at = all.begin; at < all.end; ++at) {
      if (node.in->text[at] == ';')
        parts.push_back({at + 1, at + 1});
      else
        parts.back().end = at + 1;
    }
    if (parts.size() != 3) return follow_in_part(node, {});
    arithmetic(*node.in, parts[0]);
    for (size_t round = 0; !script_.cut; ++round) {
      const Outcome o = parts[1].empty() ? Outcome{} : arithmetic(*node.in, parts[1]);
      if (o.truth == Truth::no) return;
      const bool trained = trains_;
      if (o.truth == Truth::unknown || round >= kMostRounds) return follow_in_part(node, {});
      for (const ShellClause& c : node.clauses) run(c.body);
      if (may_leave_) return follow_in_part(node, {});
      if (leaves_loop() || (trains_ && !trained)) return;
      arithmetic(*node.in, parts[2]);
    }
  }

  void loop(const ShellNode& node) {
    const ShellClause& c = node.clauses.front();
    for (size_t round = 0; !script_.cut; ++round) {
      const Outcome asked = condition(c.condition, true);
      Outcome o = asked;
      if (node.until) o.truth = negated(o.truth);
      // `while true` goes on until something ends it.
      if (o.truth == Truth::no) return;
      const bool trained = trains_;
      if (o.truth == Truth::unknown && !o.names.empty()) {
        branch({{o, [&] { run(c.body); }}});
        leave_unknown_loop();
        return;
      }
      // How often a program succeeds is not known.
      if (o.truth == Truth::unknown || round >= kMostRounds) return follow_in_part(node, {});
      const size_t before = positional_->size();
      run(c.body);
      if (may_leave_) return follow_in_part(node, {});
      if (leaves_loop() || (trains_ && !trained)) return;
      if (o.is_test ? false : before == positional_->size()) return follow_in_part(node, {});
    }
  }

  void leave_unknown_loop() {
    may_leave_ = false;
    if (ends_ == Ends::round || ends_ == Ends::loop) ends_ = Ends::no;
  }

  // A loop of which is not known how often it goes round: what it sets is open.
  void follow_in_part(const ShellNode& node, const std::string& name) {
    Changes changes = run_apart([&] {
      for (const ShellClause& c : node.clauses) run(c.body);
    });
    leave_unknown_loop();
    if (!name.empty()) changes.try_emplace(name, std::nullopt);
    for (const auto& [changed, value] : changes) {
      if (fixed_.contains(changed)) continue;
      const Mark mark = node.in->mark_at(place_of(node));
      // Of arguments that are collected what they may be is kept.
      if (holds_options({value})) {
        const Variable* old = find(changed);
        change(changed) =
            one_of({old ? std::optional(*old) : std::nullopt, value}, changed, {changed});
      } else {
        const bool is_array = value && value->is_array;
        change(changed) = unknown(changed, mark);
        variables_[changed].is_array = is_array;
      }
    }
  }

  // A variable that is set to what is not known; it can be given under its name.
  Variable unknown(const std::string& name, const Mark& mark) {
    return scalar(open({"$" + name, {name}}, mark));
  }

  // --- tests

  // "[ a = b ]", "[[ a && b ]]", "test -n a"; `words` without the brackets.
  Outcome test(const std::vector<std::string>& words) {
    size_t at = 0;
    Outcome o = test_or(words, at, 0);
    o.is_test = true;
    if (o.truth != Truth::unknown) o.names.clear();
    return o;
  }

  Outcome test_or(const std::vector<std::string>& w, size_t& at, int depth) {
    Outcome all = test_and(w, at, depth);
    while (at < w.size() && (w[at] == "||" || w[at] == "-o"))
      all = join_tests(all, test_and(w, ++at, depth), false);
    return all;
  }
  Outcome test_and(const std::vector<std::string>& w, size_t& at, int depth) {
    Outcome all = test_one(w, at, depth);
    while (at < w.size() && (w[at] == "&&" || w[at] == "-a"))
      all = join_tests(all, test_one(w, ++at, depth), true);
    return all;
  }
  static Outcome join_tests(const Outcome& a, const Outcome& b, bool is_and) {
    Outcome o{both(a.truth, b.truth, is_and), both(a.unset, b.unset, is_and), a.names};
    o.names.insert(b.names.begin(), b.names.end());
    return o;
  }

  static bool is_binary(std::string_view op) {
    for (const std::string_view known : {"=", "==", "!=", "-eq", "-ne", "-gt", "-ge", "-lt", "-le",
                                         "<", ">", "=~", "-ef", "-nt", "-ot"})
      if (op == known) return true;
    return false;
  }

  Outcome test_one(const std::vector<std::string>& w, size_t& at, int depth) {
    if (at >= w.size()) return {Truth::no, Truth::no};
    if (w[at] == "!" && depth < 50) {
      Outcome o = test_one(w, ++at, depth + 1);
      return {negated(o.truth), negated(o.unset), o.names};
    }
    if (w[at] == "(" && depth < 50) {
      Outcome o = test_or(w, ++at, depth + 1);
      if (at < w.size() && w[at] == ")") ++at;
      return o;
    }
    if (at + 2 < w.size() && is_binary(w[at + 1])) {
      const std::string a = w[at], op = w[at + 1], b = w[at + 2];
      at += 3;
      return binary(a, op, b);
    }
    // "[ $NAME = ]" and "[ = 1 ]" come of empty variables.
    if (at + 1 < w.size() && is_binary(w[at])) {
      at += 2;
      return {Truth::no, Truth::no};
    }
    if (w[at].size() == 2 && w[at][0] == '-' && w[at] != "-a" && w[at] != "-o") {
      const char kind = w[at][1];
      ++at;
      const std::string value = at < w.size() ? w[at++] : "";
      if (kind == 'z' || kind == 'n') {
        const Outcome o = is_empty(value);
        return kind == 'z' ? o : Outcome{negated(o.truth), negated(o.unset), o.names};
      }
      if (kind == 'v') {
        const Truth t = truth_of(find(value) != nullptr);
        return {t, t};
      }
      return {Truth::no, Truth::no};  // about files
    }
    const Outcome o = is_empty(w[at++]);
    return {negated(o.truth), negated(o.unset), o.names};
  }

  // A variable that nothing sets is empty, and so is an argument that is not given.
  Outcome is_empty(const std::string& value) const {
    Outcome o{Truth::no, Truth::no};
    if (!has_open(value)) {
      const Truth t = truth_of(value.empty());
      return {t, t};
    }
    bool may_be_empty = false, all_unset = shown(value, true).empty();
    each_open(value, [&](size_t i, size_t, size_t) {
      for (const auto& words : opens_[i].may_be) may_be_empty = may_be_empty || words.empty();
    });
    if (all_unset) return {Truth::yes, Truth::yes};
    if (may_be_empty && only_open(value)) {
      o = {Truth::unknown, Truth::unknown};
      add_names(value, o.names);
    }
    return o;
  }

  Outcome binary(const std::string& a, const std::string& op, const std::string& b) {
    if (op == "=" || op == "==") return compared(a, b);
    if (op == "!=") {
      const Outcome o = compared(a, b);
      return {negated(o.truth), negated(o.unset), o.names};
    }
    if (op == "=~" && !has_open(a) && !has_open(b)) {
      // Of expressions only plain text, "^" and "$".
      std::string pattern = b;
      const bool begins = pattern.starts_with('^'), ends = pattern.ends_with('$');
      if (begins) pattern.erase(0, 1);
      if (ends && !pattern.empty()) pattern.pop_back();
      if (pattern.find_first_of(".*+?()[]{}|\\^$") != pattern.npos)
        return {Truth::unknown, Truth::unknown};
      const Truth t = truth_of(fits((begins ? "" : "*") + pattern + (ends ? "" : "*"), a));
      return {t, t};
    }
    if (op == "-ef" || op == "-nt" || op == "-ot") return {Truth::no, Truth::no};
    Outcome o{Truth::unknown, Truth::unknown};
    add_names(a, o.names);
    add_names(b, o.names);
    if (o.names.empty() && (has_open(a) || has_open(b))) return {Truth::no, Truth::no};
    if (o.names.empty()) o.truth = ordered(a, op, b);
    const std::string ea = emptied(a), eb = emptied(b);
    if (!has_open(ea) && !has_open(eb)) o.unset = ordered(ea, op, eb);
    return o;
  }

  Truth ordered(const std::string& a, const std::string& op, const std::string& b) {
    const auto names = [&](const std::string& name) -> std::optional<std::string> {
      const Variable* v = find(name);
      const std::string t = v == nullptr ? "" : joined(v->items).text;
      spend(t.size() / kCopied);
      return has_open(t) || t.empty() ? std::nullopt : std::optional(t);
    };
    const auto x = shell_number(a, names), y = shell_number(b, names);
    if (!x || !y) return Truth::no;
    if (op == "-eq") return truth_of(*x == *y);
    if (op == "-ne") return truth_of(*x != *y);
    if (op == "-gt" || op == ">") return truth_of(*x > *y);
    if (op == "-ge") return truth_of(*x >= *y);
    if (op == "-lt" || op == "<") return truth_of(*x < *y);
    if (op == "-le") return truth_of(*x <= *y);
    return Truth::unknown;
  }

  // --- commands

  // "NAME=", "NAME+=" or "NAME[key]=" at the front of a word.
  struct Assignment {
    std::string name;
    std::optional<ShellRange> key{};
    bool appends = false;
    ShellRange value{};
  };
  static std::optional<Assignment> assignment(const ShellText& in, ShellRange r) {
    const std::string& text = in.text;
    size_t at = r.begin;
    if (at >= r.end || !is_shell_name_start(text[at])) return {};
    while (at < r.end && is_shell_name(text[at])) ++at;
    Assignment a;
    a.name = text.substr(r.begin, at - r.begin);
    if (at < r.end && text[at] == '[') {
      const size_t close = text.find(']', at);
      if (close == text.npos || close >= r.end) return {};
      a.key = ShellRange{at + 1, close};
      at = close + 1;
    }
    a.appends = at + 1 < r.end && text[at] == '+' && text[at + 1] == '=';
    if (a.appends) ++at;
    if (at >= r.end || text[at] != '=') return {};
    a.value = {at + 1, r.end};
    return a;
  }

  void assign(const ShellText& in, const Assignment& a, bool exports) {
    const std::string& text = in.text;
    if (fixed_.contains(a.name)) return;
    Variable v;
    if (!a.value.empty() && text[a.value.begin] == '(') {
      v = array(in,
                {a.value.begin + 1, text[a.value.end - 1] == ')' ? a.value.end - 1 : a.value.end});
      if (a.appends) {
        Variable old = find(a.name) == nullptr ? Variable{} : *find(a.name);
        spend_copy(old);
        if (!old.is_array)
          std::erase_if(old.items, [](const auto& i) { return i.second.text.empty(); });
        for (auto& [k, item] : v.items) {
          const bool is_index = is_digits(k);
          old.items.emplace_back(is_index ? fmt::format("{}", old.items.size()) : k,
                                 std::move(item));
          spend(old.items.back().second.text.size() + 32);
        }
        v.items = std::move(old.items);
      }
    } else {
      ShellText value = one_text(in, a.value);
      if (value.places.empty()) value.places.push_back({0, in.mark_at(a.value.begin)});
      if (a.key) {
        std::string key = one_text(in, *a.key).text;
        if (const auto number = shell_number(key, {})) key = fmt::format("{}", *number);
        if (const Variable* old = find(a.name)) v = *old;
        v.is_array = true;
        const auto known = std::find_if(v.items.begin(), v.items.end(),
                                        [&](const auto& i) { return i.first == key; });
        if (known != v.items.end())
          known->second = value;
        else
          v.items.emplace_back(key, value);
        for (const auto& [k, t] : v.items) spend(t.text.size() / 16 + kCopied);
      } else if (a.appends) {
        if (const Variable* old = find(a.name)) v = *old;
        if (v.items.empty()) v = scalar({});
        if (v.items.front().second.text.size() + value.text.size() > kLongestText) {
          if (!script_.cut) script_.cut = in.mark_at(a.value.begin);
          return;
        }
        spend(v.items.front().second.text.size() / 16);
        v.items.front().second.append(value);
      } else {
        v = scalar(std::move(value));
      }
    }
    const Mark mark = in.mark_at(a.value.begin);
    if (exports || a.name.find("NCCL") != std::string::npos || a.name.starts_with("CUDA_") ||
        a.name.starts_with("NVTE_")) {
      const std::string value = shown(joined(v.items).text);
      spend(value.size());
      script_.exported.emplace_back(a.name, ShellWord{value, mark, nullptr});
    }
    assign(a.name, std::move(v));
  }

  // The elements between "(" and ")".
  Variable array(const ShellText& in, ShellRange inside) {
    Variable v;
    v.is_array = true;
    const std::string& text = in.text;
    for (size_t at = inside.begin; at < inside.end && !script_.cut;) {
      if (is_shell_space(text[at]) ||
          (text[at] == '\\' && at + 1 < inside.end && is_shell_space(text[at + 1]))) {
        at += text[at] == '\\' ? 2 : 1;
        continue;
      }
      if (text[at] == '#') {
        at = std::min(text.find('\n', at), inside.end);
        continue;
      }
      // "([0]*3+[1]*45)" is Python's, not the shell's.
      const size_t list = text[at] == '(' ? end_of_shell_group(text, at, inside.end) : at;
      size_t end = end_of_shell_word(text, list, inside.end);
      if (end == at) end = at + 1;
      const size_t close = text[at] == '[' ? text.find("]=", at) : text.npos;
      if (close != text.npos && close < end) {
        v.items.emplace_back(one_text(in, {at + 1, close}).text, one_text(in, {close + 2, end}));
      } else {
        for (ShellText& t : expand(in, {at, end}, Split::words))
          v.items.emplace_back(fmt::format("{}", v.items.size()), std::move(t));
      }
      at = end;
    }
    return v;
  }

  // ((...)): what it sets, and whether it is not 0.
  Outcome arithmetic(const ShellText& in, ShellRange inside) {
    std::set<std::string> names;
    Outcome o{Truth::unknown, Truth::unknown};
    o.is_test = true;
    if (const auto value = number_of(in, inside, names)) {
      o.truth = o.unset = truth_of(*value != 0);
    } else {
      o.names = names;
      std::set<std::string> ignored;
      if (const auto empty = number_of(in, inside, ignored, true)) o.unset = truth_of(*empty != 0);
    }
    return o;
  }

  Outcome command(const ShellNode& node) {
    const ShellText& in = *node.in;
    if (node.words.empty()) return {};
    const std::string_view first(in.text.data() + node.words.front().begin,
                                 node.words.front().end - node.words.front().begin);
    if (first.starts_with("((")) {
      return arithmetic(in, {node.words.front().begin + 2,
                             std::max(node.words.front().end - 2, node.words.front().begin + 2)});
    }
    if (first == "let") {
      Outcome o;
      for (size_t i = 1; i < node.words.size(); ++i) o = arithmetic(in, node.words[i]);
      return o;
    }
    if (first == "[" || first == "[[" || first == "test") return tested(node);
    size_t at = 0;
    bool exports = false, declares = false;
    if (first == "export" || first == "declare" || first == "local" || first == "readonly" ||
        first == "typeset") {
      exports = first == "export";
      declares = true;
      at = 1;
    }
    std::vector<Assignment> assignments;
    for (; at < node.words.size(); ++at) {
      const auto a = assignment(in, node.words[at]);
      if (a)
        assignments.push_back(*a);
      else if (!declares)
        break;
    }
    if (declares || at == node.words.size()) {
      const bool is_local = declares && !exports && first != "readonly" && !locals_.empty();
      for (const Assignment& a : assignments) {
        if (is_local) keep_for_caller(a.name);
        assign(in, a, exports);
      }
      for (size_t i = 1; is_local && i < node.words.size(); ++i) {
        const ShellRange w = node.words[i];
        const std::string name = in.text.substr(w.begin, w.end - w.begin);
        if (!std::all_of(name.begin(), name.end(), is_shell_name)) continue;
        keep_for_caller(name);
        unset_variable(name);
      }
      return {};
    }
    // "NAME=value program": for the program alone.
    std::vector<ShellText> words;
    const auto rest = [&] {
      for (; at < node.words.size() && !script_.cut; ++at)
        for (ShellText& t : expand(in, node.words[at], Split::words)) words.push_back(std::move(t));
    };
    if (assignments.empty()) {
      rest();
      return call(node, words);
    }
    Outcome o;
    rest();
    Changes changes = run_apart([&] {
      for (const Assignment& a : assignments) assign(in, a, false);
      o = call(node, words);
    });
    for (const Assignment& a : assignments) changes.erase(a.name);
    apply(changes);
    positional_ = apart_positional_;
    ends_ = apart_ended_;
    return o;
  }

  Outcome tested(const ShellNode& node) {
    std::vector<std::string> words;
    for (size_t i = 1; i < node.words.size(); ++i) {
      const std::string_view raw(node.in->text.data() + node.words[i].begin,
                                 node.words[i].end - node.words[i].begin);
      if (raw == "]" || raw == "]]") break;
      words.push_back(one_text(*node.in, node.words[i]).text);
    }
    return test(words);
  }

  static bool is_program(std::string_view word, std::string_view name) {
    return word == name || (word.size() > name.size() && word.ends_with(name) &&
                            word[word.size() - name.size() - 1] == '/');
  }

  // A program, a function or what the shell itself does.
  Outcome call(const ShellNode& node, std::vector<ShellText> words) {
    if (script_.cut) return {};
    while (!words.empty() && (words.front().text == "exec" || words.front().text == "command" ||
                              words.front().text == "time" || words.front().text == "nohup" ||
                              words.front().text == "builtin"))
      words.erase(words.begin());
    if (words.empty()) return {};
    const std::string first = words.front().text;
    std::vector<ShellText> arguments(words.begin() + 1, words.end());
    if (const auto function = functions_.find(first); function != functions_.end())
      return call_function(*function->second, arguments);
    if (first == "exit") {
      ends_ = Ends::script;
      return {};
    }
    if (first == "return") {
      ends_ = Ends::function;
      return {};
    }
    if (first == "true" || first == ":") return {};
    if (first == "false") return {Truth::no, Truth::no};
    if (first == "break" || first == "continue") {
      ends_ = first == "break" ? Ends::loop : Ends::round;
      leaves_ = arguments.empty() ? 1 : std::max(1, small_number(arguments[0].text));
      return {};
    }
    if (first == "shift") {
      size_t count = 1;
      if (!arguments.empty() && is_digits(arguments[0].text) && arguments[0].text.size() < 6)
        count = std::stoul(arguments[0].text);
      count = std::min(count, positional_->size());
      set_positional({positional_->begin() + static_cast<long>(count), positional_->end()});
      return {};
    }
    if (first == "set") {
      if (!arguments.empty() && arguments[0].text == "--")
        set_positional({arguments.begin() + 1, arguments.end()});
      return {};
    }
    if (first == "unset") {
      for (const ShellText& t : arguments) unset_variable(t.text);
      return {};
    }
    if (first == "read" || first == "mapfile" || first == "readarray") {
      read_input(node, arguments, words.front().mark_at(0), first != "read");
      return {Truth::unknown, Truth::unknown};
    }
    if (first == "getopts" && arguments.size() > 1) {
      for (const std::string& name : {arguments[1].text, std::string("OPTARG")})
        if (is_variable_name(name)) assign(name, unknown(name, words.front().mark_at(0)));
      return {Truth::unknown, Truth::unknown};
    }
    if (first == "printf" && arguments.size() > 1 && arguments[0].text == "-v") {
      const std::string& name = arguments[1].text;
      const bool is_plain =
          arguments.size() == 4 && (arguments[2].text == "%s" || arguments[2].text == "%d");
      if (is_variable_name(name))
        assign(name, is_plain ? scalar(arguments[3]) : unknown(name, words.front().mark_at(0)));
      return {};
    }
    if (first == "eval") {
      follow(joined_text(arguments), nullptr);
      return {};
    }
    if ((first == "source" || first == ".") && !arguments.empty()) {
      read_file(arguments.front(), nullptr);
      return {Truth::unknown, Truth::unknown};
    }
    if (is_program(first, "bash") || is_program(first, "sh") || first == "sbatch") {
      if (node.document) {  // "sbatch <<EOF"
        follow(inputs_.emplace_back(document_of(node)), nullptr);
        return {Truth::unknown, Truth::unknown};
      }
      if (first == "sbatch") tell_slurm(arguments);
      size_t i = 0;
      while (i < arguments.size() && arguments[i].text.starts_with('-') &&
             arguments[i].text.find('c') == std::string::npos)
        ++i;
      if (i < arguments.size() && !arguments[i].text.starts_with('-')) {
        const std::vector<ShellText> inner(arguments.begin() + static_cast<long>(i) + 1,
                                           arguments.end());
        bool known = false;
        run_apart([&] { known = read_file(arguments[i], &inner); });
        if (known) return {Truth::unknown, Truth::unknown};
      }
    }
    if (capture_ != nullptr) return print(node, words);
    if (first == "echo" || first == "printf" || first == "cd" || first == "mkdir" ||
        first == "rm" || first == "cat") {
      return {Truth::unknown, Truth::unknown};
    }
    // "bash -c 'torchrun ...'" and what a launcher gets as one word.
    for (const ShellText& t : arguments) {
      if (t.text.starts_with("--") || t.text.find(" --") == std::string::npos) continue;
      ShellText& inner = inputs_.emplace_back(t);
      follow(inner, nullptr);
    }
    ShellCommand c;
    for (const ShellText& t : words) {
      spend(t.text.size());
      c.words.push_back(word_of(t));
      if (t.text.starts_with("--num-layers") || t.text.starts_with("--hidden-size") ||
          t.text.starts_with("--micro-batch-size"))
        trains_ = true;
      if (const auto only = only_open(t.text); only && !trains_)
        for (const auto& may : opens_[*only].may_be)
          for (const ShellText& m : may) trains_ = trains_ || m.text.starts_with("--num-layers");
    }
    for (const auto& names : under_) {
      spend(names.size() * kCopied);
      c.hangs_on.insert(names.begin(), names.end());
    }
    script_.commands.push_back(std::move(c));
    return {Truth::unknown, Truth::unknown};
  }

  static bool is_variable_name(std::string_view name) {
    return !name.empty() && is_shell_name_start(name[0]) &&
           std::all_of(name.begin(), name.end(), is_shell_name);
  }
  static int small_number(const std::string& text) {
    return is_digits(text) && text.size() < 6 ? std::stoi(text) : 0;
  }

  // "read A B <<< text" and "mapfile A": of what is not in the script the names are open.
  void read_input(const ShellNode& node, const Texts& arguments, const Mark& mark, bool lines) {
    std::vector<std::string> names;
    bool is_array = lines, whole = false, known = node.document.has_value();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& word = arguments[i].text;
      if (word.size() > 1 && word[0] == '-') {
        const char last = word.back();
        is_array = is_array || word.find('a') != word.npos;
        whole = whole || last == 'd';
        // What follows a letter that takes a value is no name.
        if (std::string_view("dnNptuiOsCc").find(last) != std::string_view::npos &&
            !(lines && last == 't') && last != 's')
          ++i;
        known = known && (last == 'd' || last == 'r' || last == 'a' || (lines && last == 't'));
      } else if (is_variable_name(word)) {
        names.push_back(word);
      }
    }
    if (names.empty()) return;
    const ShellText text = document_of(node);
    std::string between = " \t\n";
    if (const Variable* ifs = find("IFS")) between = joined(ifs->items).text;
    if (between.find_first_of("0123456789") != between.npos || has_open(between)) known = false;
    if (has_open(text.text) && (names.size() > 1 || is_array)) known = false;
    if (!known) {
      for (const std::string& name : names) {
        assign(name, unknown(name, mark));
        if (find(name) != nullptr && is_array) variables_[name].is_array = true;
      }
      return;
    }
    const size_t end = lines || whole ? text.text.size() : text.text.find('\n');
    const auto field = [&](size_t from, size_t to) {
      while (from < to && is_shell_space(text.text[from])) ++from;
      while (to > from && is_shell_space(text.text[to - 1])) --to;
      ShellText t;
      for (; from < to; ++from) t.append(text.text[from], text.mark_at(from));
      return t;
    };
    const std::string& separators = lines ? "\n" : between;
    Texts fields;
    size_t at = 0;
    const size_t stop = std::min(end, text.text.size());
    while (at < stop) {
      const bool is_last = !is_array && fields.size() + 1 == names.size();
      const size_t to = is_last ? stop : std::min(text.text.find_first_of(separators, at), stop);
      ShellText t = field(at, to);
      const bool is_run = lines || (to < stop && !is_shell_space(text.text[to]));
      if (!t.text.empty() || is_run) fields.push_back(std::move(t));
      at = to + 1;
    }
    spend(text.text.size() + fields.size() * kCopied);
    if (is_array) {
      Variable v;
      v.is_array = true;
      for (ShellText& t : fields)
        v.items.emplace_back(fmt::format("{}", v.items.size()), std::move(t));
      assign(names.front(), std::move(v));
      return;
    }
    for (size_t i = 0; i < names.size(); ++i)
      assign(names[i], scalar(i < fields.size() ? fields[i] : plain("", mark)));
  }

  // "sbatch --nodes=16 job.sh".
  void tell_slurm(std::vector<ShellText>& arguments) {
    std::erase_if(arguments, [](const ShellText& t) {
      return !t.text.starts_with("--nodes=") && t.text.find(".s") == std::string::npos;
    });
    for (const ShellText& t : arguments) {
      if (!t.text.starts_with("--nodes=")) continue;
      change("SLURM_NNODES") = scalar(plain(t.text.substr(8), t.mark_at(0)));
      script_.nodes = word_of(plain(t.text.substr(8), t.mark_at(0)));
    }
  }

  // Several words as one text that is read again.
  const ShellText& joined_text(const std::vector<ShellText>& words) {
    ShellText& all = inputs_.emplace_back();
    for (const ShellText& w : words) {
      if (!all.text.empty()) all.text += ' ';
      all.append(w);
    }
    return all;
  }

  ShellText document_of(const ShellNode& node) {
    if (!node.document) return {};
    if (node.document_is_string) return one_text(*node.in, *node.document);
    if (!node.document_is_plain) return one_text(*node.in, *node.document, Split::document);
    ShellText t;
    for (size_t i = node.document->begin; i < node.document->end; ++i)
      t.append(node.in->text[i], node.in->mark_at(i));
    return t;
  }

  // In $(...): what echo and the like print.
  Outcome print(const ShellNode& node, const std::vector<ShellText>& words) {
    const std::string first = words.front().text;
    ShellText& out = capture_->text;
    const bool piped = node.joined == ShellNode::Joined::pipe;
    std::string all;
    for (size_t i = 1; i < words.size(); ++i) all += (i > 1 ? " " : "") + words[i].text;
    if (first == "echo" && !piped) {
      bool any = !out.text.empty();
      for (size_t i = 1; i < words.size(); ++i) {
        if (i == 1 && (words[i].text == "-n" || words[i].text == "-e")) continue;
        if (any) out.text += ' ';
        out.append(words[i]);
        any = true;
      }
      return {};
    }
    if (first == "cat" && node.document && !piped) {
      out.append(document_of(node));
      return {};
    }
    if (first == "true" || first == "cd") return {};
    // Blanks that are put together: between words they are one to the shell too.
    if (piped && ((first == "sed" && words.back().text.starts_with("s/ ") &&
                   words.back().text.ends_with("*/ /g")) ||
                  (first == "tr" && all == "-s  ") || (first == "xargs" && words.size() == 1)))
      return {};
    const auto number = [&](std::string text, NumberRules rules) -> bool {
      std::erase(text, '\\');
      const auto value = has_open(text) ? std::nullopt : shell_number(text, {}, rules);
      if (!value) return false;
      out = plain(fmt::format("{}", *value), words.front().mark_at(0));
      return true;
    };
    if (first == "expr" && !piped && number(all, NumberRules::decimal)) return {};
    if (first == "bc" && piped && number(out.text, NumberRules::decimal)) return {};
    if (first.starts_with("python") && !piped && words.size() == 3 && words[1].text == "-c") {
      std::string text = words[2].text;
      for (const std::string_view around : {"print(", "int("})
        if (text.starts_with(around) && text.ends_with(')'))
          text = text.substr(around.size(), text.size() - around.size() - 1);
      if (number(text, NumberRules::python)) return {};
    }
    if (first == "seq" && !piped && words.size() == 3 && is_digits(words[1].text) &&
        is_digits(words[2].text) && words[1].text.size() < 6 && words[2].text.size() < 6) {
      const int from = std::stoi(words[1].text), to = std::stoi(words[2].text);
      for (int i = from; i <= to && i < from + static_cast<int>(kMostRounds); ++i)
        out.append(plain(fmt::format("{} ", i), words.front().mark_at(0)));
      return {};
    }
    capture_->is_known = false;
    for (const ShellText& w : words) add_names(w.text, capture_->names);
    add_names(out.text, capture_->names);
    return {Truth::unknown, Truth::unknown};
  }

  // A variable that is local to the function: when that ends, it is what it was.
  void keep_for_caller(const std::string& name) {
    const Variable* old = find(name);
    if (old != nullptr) spend_copy(*old);
    locals_.back().try_emplace(name, old == nullptr ? std::nullopt : std::optional(*old));
  }

  Outcome call_function(const ShellNode& node, const std::vector<ShellText>& arguments) {
    if (calls_ >= kMostCalls || node.clauses.empty()) return {};
    const Positional before = positional_;
    set_positional(arguments);
    ++calls_;
    locals_.emplace_back();
    const Outcome o = run(node.clauses.front().body);
    apply(Changes(std::move(locals_.back())));
    locals_.pop_back();
    --calls_;
    positional_ = before;
    if (ends_ == Ends::function) ends_ = Ends::no;
    return o;
  }

  // Follows a file beside the script.  Only the last part of the name that is known counts.
  bool read_file(const ShellText& name, const std::vector<ShellText>* arguments) {
    if (!files_ || sourced_ >= kMostCalls) return false;
    std::string path = name.text;
    const size_t open_end = path.rfind(kOpenEnds);
    if (open_end != path.npos) path = path.substr(open_end + 1);
    if (open_end == path.npos && path.starts_with('/')) return false;  // not beside the script
    while (path.starts_with('/')) path.erase(0, 1);
    const std::optional<std::string> text = path.empty() ? std::nullopt : files_(path);
    if (!text) return false;
    ++sourced_;
    const SourceRef source = std::make_shared<const Source>(Source{path, *text});
    sources_.push_back(source);
    follow(whole(source), arguments);
    if (ends_ == Ends::function) ends_ = Ends::no;
    return true;
  }

  SourceRef source_;
  ShellFiles files_;
  std::vector<SourceRef> sources_;
  std::deque<ShellText> inputs_;
  std::map<std::tuple<const ShellText*, size_t, size_t>, ShellNodes> parsed_;
  size_t nodes_left_ = kMostStatements;
  std::vector<Open> opens_;
  std::vector<std::shared_ptr<const ShellOpen>> described_;
  std::map<std::string, size_t> unset_;  // open values of variables that nothing sets
  Variables variables_;
  std::vector<Changes> journals_;  // what variables were before each branch that is followed
  std::map<std::string, const ShellNode*, std::less<>> functions_;
  std::vector<Changes> locals_;  // what local variables were before each function that is followed
  Positional positional_;        // shared: it is put back after every call and branch
  std::set<std::string, std::less<>> fixed_;  // that the user gives
  std::vector<std::set<std::string>> under_;  // what the branches hang on that are followed
  Capture* capture_ = nullptr;
  Ends ends_ = Ends::no;
  Ends apart_ended_ = Ends::no;  // what run_apart() left, and the arguments
  Positional apart_positional_;
  int leaves_ = 0;          // loops that `break` or `continue` is about
  bool may_leave_ = false;  // a branch that may be taken ends a loop or its round
  bool trains_ = false;     // a command that trains has been met
  size_t spent_ = 0, statements_ = 0;
  int nested_ = 0, follows_ = 0, calls_ = 0, depth_ = 0, sourced_ = 0;
  ShellScript script_;
};

Value scalar_value(const ShellWord& word, std::string text) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.mark = word.mark;
  v.text = std::move(text);
  return v;
}

// "--fp8-format hybrid" in quotes is two words to whoever wrote it.
std::vector<ShellWord> apart(const std::vector<ShellWord>& words) {
  std::vector<ShellWord> all;
  for (const ShellWord& w : words) {
    if (!is_option(w.text) || w.text.find_first_of(" \n") == std::string::npos) {
      if (w.text != "\\") all.push_back(w);
      continue;
    }
    for (size_t begin = 0; begin < w.text.size();) {
      const size_t end = std::min(w.text.find_first_of(" \n", begin), w.text.size());
      if (end > begin) all.push_back({w.text.substr(begin, end - begin), w.mark, w.open});
      begin = end + 1;
    }
  }
  return all;
}

// Reads the arguments of words, each open value once: those of one may hang on each other.
class ShellArguments {
 public:
  std::vector<ShellArgument> read(const std::vector<ShellWord>& whole) {
    std::vector<ShellArgument> all;
    const std::vector<ShellWord> words = apart(whole);
    const auto holds_options = [](const ShellWord& w) { return w.open && w.open->holds_options; };
    for (size_t i = 0; i < words.size();) {
      const ShellWord& word = words[i++];
      if (holds_options(word)) {
        const std::vector<ShellArgument>& may = alternatives(*word.open);
        all.insert(all.end(), may.begin(), may.end());
        continue;
      }
      if (!is_option(word.text)) continue;
      const size_t equals = word.text.find('=');
      ShellArgument a;
      a.argument.written = word.text.substr(0, equals);
      a.argument.name = argument_name(a.argument.written);
      const auto add_open = [&](const ShellWord& w) {
        if (!w.open) return;
        a.is_open = true;
        a.hangs_on.insert(w.open->names.begin(), w.open->names.end());
      };
      if (equals != std::string::npos) {
        a.argument.value = scalar_value(word, word.text.substr(equals + 1));
        add_open(word);
      } else {
        std::vector<Value> values;
        while (i < words.size() && !is_option(words[i].text) && !holds_options(words[i])) {
          const ShellWord& w = words[i++];
          // A variable that nothing sets is no further word.
          if (!values.empty() && w.open && w.open->is_unset) continue;
          values.push_back(scalar_value(w, w.text));
          // A value from the command line has no place of its own.
          if (w.mark.line == 0) values.back().mark = word.mark;
          a.only_unset = w.open && w.open->is_unset;
          add_open(w);
        }
        if (values.empty()) {
          a.argument.value = scalar_value(word, "true");
        } else if (values.size() == 1) {
          a.argument.value = std::move(values.front());
        } else {
          a.argument.value.kind = Value::Kind::sequence;
          a.argument.value.mark = values.front().mark;
          a.argument.value.items = std::move(values);
        }
      }
      all.push_back(std::move(a));
    }
    return all;
  }

 private:
  using ByName = std::map<std::string, const ShellArgument*>;

  // Arguments that one of several lists of words may give: those that all of them give are known.
  const std::vector<ShellArgument>& alternatives(const ShellOpen& open) {
    const auto [known, is_new] = known_.try_emplace(&open);
    if (!is_new) return known->second;
    std::vector<std::vector<ShellArgument>> lists;
    for (const auto& may : open.may_be) lists.push_back(read(may));
    std::vector<ByName> last;
    for (const auto& list : lists) {
      ByName& by_name = last.emplace_back();
      for (const ShellArgument& a : list) by_name[a.argument.name] = &a;
    }
    std::vector<ShellArgument> all;
    std::set<std::string> done;
    for (size_t l = 0; l < lists.size(); ++l) {
      for (const ShellArgument& a : lists[l]) {
        if (!done.insert(a.argument.name).second) continue;
        ShellArgument one = *last[l].at(a.argument.name);
        const std::string flow = to_flow(one.argument.value);
        for (const ByName& other : last) {
          // What is too much to be compared counts as different.
          if (comparisons_left_ == 0) one.is_open = true;
          if (comparisons_left_ == 0) break;
          --comparisons_left_;
          const auto same = other.find(a.argument.name);
          const bool has = same != other.end();
          if (has) one.is_open = one.is_open || same->second->is_open;
          if (has)
            one.hangs_on.insert(same->second->hangs_on.begin(), same->second->hangs_on.end());
          if (has && to_flow(same->second->argument.value) == flow) continue;
          one.is_open = true;
          one.hangs_on.insert(open.names.begin(), open.names.end());
        }
        all.push_back(std::move(one));
      }
    }
    return known_.at(&open) = std::move(all);
  }

  std::map<const ShellOpen*, std::vector<ShellArgument>> known_;
  size_t comparisons_left_ = 100'000;
};

}  // namespace

ShellScript read_shell(const SourceRef& source, const ShellGiven& given, const ShellFiles& files) {
  return ShellReader(source, given, files).read();
}

std::vector<ShellArgument> arguments_of(const std::vector<ShellWord>& words) {
  return ShellArguments().read(words);
}

}  // namespace stepcast
