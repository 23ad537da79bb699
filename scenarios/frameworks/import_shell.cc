// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace stepcast {
namespace {

constexpr size_t kMostWords = 50'000;  // stops variables that double each other

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

class ShellReader {
 public:
  ShellReader(const SourceRef& source, const ShellGiven& given)
      : text_(source->text), source_(source) {
    int position = 0;
    for (const std::string& word : given) {
      const size_t equals = word.find('=');
      const bool variable = equals != std::string::npos && equals > 0 && is_name_start(word[0]);
      const std::string name = variable ? word.substr(0, equals) : fmt::format("{}", ++position);
      const std::string value = variable ? word.substr(equals + 1) : word;
      variables_[name] = {{value, Mark{source, 0, 0}}};
      if (variable) fixed_.insert(name);
    }
  }

  ShellScript read() {
    while (at_ < text_.size() && !full()) {
      skip_blanks();
      if (at_ >= text_.size()) break;
      if (is_separator(peek()))
        end_command();
      else
        read_word();
    }
    end_command();
    script_.open = std::move(open_);
    return std::move(script_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void step() {
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 0;
    }
    ++at_;
    ++column_;
  }
  Mark here() const { return {source_, line_, column_}; }
  bool full() const { return words_ > kMostWords; }

  static bool is_separator(char c) {
    return c == '\n' || c == ';' || c == '|' || c == '&' || c == '<' || c == '>' || c == '(' ||
           c == ')';
  }

  // Blanks, continued lines, comments.
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(peek())) {
        step();
      } else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        while (peek() != '\n') step();
        step();
      } else if (peek() == '#') {
        while (at_ < text_.size() && peek() != '\n') step();
      } else {
        return;
      }
    }
  }

  void end_command() {
    if (at_ < text_.size()) {
      const bool redirect = peek() == '<' || peek() == '>';
      // In "2>" the number is no argument.
      if (redirect && !command_.empty() && at_ > 0 && text_[at_ - 1] >= '0' &&
          text_[at_ - 1] <= '9' && command_.back().text.size() == 1)
        command_.pop_back();
      step();
      if (redirect && !is_condition()) skip_target();
      if (redirect) return;
      if (peek() == ';' && text_[at_ - 1] == ';') {
        finish_command();  // which may close an `if` or `case` in the branch that ends
        if (!branches_.empty() && branches_.back().is_case) {
          end_branch();
          branches_.back().pattern_next = true;
        }
        step();
        return;
      }
    }
    finish_command();
  }

  // --- branches

  enum class Truth : uint8_t { no, yes, unknown };
  // One `if` or `case`.
  struct Branching {
    bool is_case = false;
    bool reads_before = true;       // what is around it
    Truth done = Truth::no;         // a branch before this one was the one that holds
    std::set<std::string> about{};  // values that are not known
    std::string subject{};          // of a case
    bool pattern_next = false;
    // Values before it and after each branch, of an `if` that hangs on what is not known.
    std::map<std::string, std::vector<ShellWord>, std::less<>> before{};
    std::map<std::string, std::set<std::string>, std::less<>> values{};  // each variable got
    std::map<std::string, int, std::less<>> set_in{};  // how many of its branches set each
    int ended = 0;                                     // branches that may be the one that holds
    bool has_else = false;
  };

  static bool is_test(std::string_view word) {
    return word == "[" || word == "[[" || word == "test";
  }

  // Takes "!" off the front, as often as it stands there.
  static size_t take_nots(std::vector<std::string>& words) {
    const auto first =
        std::find_if(words.begin(), words.end(), [](const std::string& w) { return w != "!"; });
    const auto nots = static_cast<size_t>(first - words.begin());
    words.erase(words.begin(), first);
    return nots;
  }

  static Truth negated(Truth t, size_t nots) {
    if (t == Truth::unknown || nots % 2 == 0) return t;
    return t == Truth::yes ? Truth::no : Truth::yes;
  }

  // Whether the words of a test hold; what is not known goes to `about`.
  Truth holds(std::vector<std::string> words, std::set<std::string>& about) const {
    if (const size_t nots = take_nots(words); nots > 0)
      return negated(holds(std::move(words), about), nots);
    if (words.empty() || !is_test(words.front())) return Truth::no;  // a command
    words.erase(words.begin());
    if (!words.empty() && (words.back() == "]" || words.back() == "]]")) words.pop_back();
    if (const size_t nots = take_nots(words); nots > 0) {
      words.insert(words.begin(), "[");
      return negated(holds(std::move(words), about), nots);
    }
    const auto is_open = [](const std::string& w) { return w.find('$') != std::string::npos; };
    const auto truth = [](bool b) { return b ? Truth::yes : Truth::no; };
    if (words.size() <= 2 && !words.empty() && (words[0] == "-z" || words[0] == "-n")) {
      // A variable that nothing sets is empty.
      const bool empty = words.size() == 1 || words[1].empty() || is_open(words[1]);
      return truth(empty == (words[0] == "-z"));
    }
    if (words.size() == 1) return truth(!words[0].empty() && !is_open(words[0]));
    if (words.size() == 2) return Truth::no;  // about files
    if (words.size() != 3) return Truth::unknown;
    if (is_open(words[0]) || is_open(words[2])) {
      for (const std::string& w : words) add_names(w, about);
      return Truth::unknown;
    }
    const std::string& op = words[1];
    if (op == "=" || op == "==") return truth(fits_pattern(words[2], words[0]));
    if (op == "!=") return truth(!fits_pattern(words[2], words[0]));
    const auto a = python_whole(words[0]), b = python_whole(words[2]);
    if (!a || !b) return Truth::no;
    if (op == "-eq") return truth(*a == *b);
    if (op == "-ne") return truth(*a != *b);
    if (op == "-gt" || op == ">") return truth(*a > *b);
    if (op == "-ge" || op == ">=") return truth(*a >= *b);
    if (op == "-lt" || op == "<") return truth(*a < *b);
    if (op == "-le" || op == "<=") return truth(*a <= *b);
    return Truth::unknown;
  }

  // Of the pattern of a `case` or `==` only a '*' at its ends.
  static bool fits_pattern(std::string_view pattern, std::string_view text) {
    if (pattern == "*") return true;
    if (pattern.size() > 2 && pattern.starts_with('*') && pattern.ends_with('*'))
      return text.find(pattern.substr(1, pattern.size() - 2)) != std::string_view::npos;
    if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
    if (pattern.starts_with('*')) return text.ends_with(pattern.substr(1));
    return pattern == text;
  }

  // The values that "$NAME" in `text` hangs on.
  void add_names(std::string_view text, std::set<std::string>& names) const {
    for (size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
      size_t begin = at + 1;
      if (begin < text.size() && text[begin] == '{') ++begin;
      size_t end = begin;
      while (end < text.size() && is_name(text[end])) ++end;
      const std::string name(text.substr(begin, end - begin));
      if (name.empty()) continue;
      const auto found = open_.find(name);
      if (found == open_.end())
        names.insert(name);
      else
        names.insert(found->second.begin(), found->second.end());
    }
  }

  std::vector<std::string> command_texts(size_t from) const {
    std::vector<std::string> texts;
    for (size_t i = from; i < command_.size(); ++i) texts.push_back(command_[i].text);
    return texts;
  }

  void finish_command() {
    const std::string first = command_.empty() ? "" : command_.front().text;
    const char ended_by = at_ > 0 && at_ <= text_.size() ? text_[at_ - 1] : '\n';
    const bool joined_test = (ended_by == '&' || ended_by == '|') && peek() == ended_by;
    if (!branches_.empty() && branches_.back().is_case && branches_.back().pattern_next &&
        first != "esac") {
      if (!command_.empty()) pattern(ended_by == ')');
    } else if (first == "if" || first == "elif" || !condition_.empty()) {
      condition_.push_back(command_texts(condition_.empty() ? 1 : 0));
      joins_.push_back(joined_test ? ended_by : ' ');
      if (joined_test) {
        step();
        if (condition_.size() == 1) opens_ = first;
      } else {
        if (condition_.size() == 1) opens_ = first;
        decide();
      }
    } else if (first == "case") {
      open_case();
      // "case $SIZE in 7B)" on one line.
      if (command_.size() > 3) pattern(ended_by == ')');
    } else if (first == "fi" || first == "esac") {
      close_branches();
    } else if (!command_.empty() && reading_) {
      script_.commands.push_back(std::move(command_));
    }
    command_.clear();
    exporting_ = false;
  }

  // After the condition of an `if` or `elif`.
  void decide() {
    // "[[ A && B ]]" has been taken apart at "&&".
    for (size_t i = 1; i < condition_.size(); ++i)
      if (!condition_[i - 1].empty() && condition_[i - 1].front() == "[[" &&
          condition_[i - 1].back() != "]]")
        condition_[i].insert(condition_[i].begin(), "[[");
    std::set<std::string> about;
    Truth t = holds(condition_.front(), about);
    for (size_t i = 1; i < condition_.size(); ++i) {
      const Truth next = holds(condition_[i], about);
      const bool both = joins_[i - 1] == '&';
      const Truth decides = both ? Truth::no : Truth::yes;
      t = t == decides || next == decides                 ? decides
          : t == Truth::unknown || next == Truth::unknown ? Truth::unknown
                                                          : next;
    }
    if (opens_ == "if") {
      branches_.push_back({});
      branches_.back().reads_before = reading_;
    } else if (!branches_.empty()) {
      end_branch();
    }
    condition_.clear();
    joins_.clear();
    enter(t, about);
  }

  void enter(Truth t, const std::set<std::string>& about) {
    if (branches_.empty()) return;
    Branching& b = branches_.back();
    if (t == Truth::unknown && b.about.empty() && b.reads_before) {
      b.before = variables_;  // no branch has been read yet
      words_ += variables_.size();
    }
    if (t == Truth::unknown) {
      b.about.insert(about.begin(), about.end());
      if (b.about.empty()) b.about.insert("?");
    }
    reading_ = b.reads_before && b.done != Truth::yes && t != Truth::no;
    if (reading_ && (t == Truth::unknown || b.done == Truth::unknown)) variables_ = b.before;
    if (t == Truth::yes)
      b.done = Truth::yes;
    else if (t == Truth::unknown && b.done == Truth::no)
      b.done = Truth::unknown;
  }

  // Notes what the branch that ends set, if it is not sure that it is the one that holds.
  void end_branch() {
    Branching& b = branches_.back();
    if (b.about.empty() || !reading_) return;
    words_ += variables_.size() / 8;
    for (const auto& [name, words] : variables_) {
      const auto old = b.before.find(name);
      if (old != b.before.end() && joined(old->second) == joined(words)) continue;
      b.values[name].insert(joined(words));
      ++b.set_in[name];
    }
    // What a branch inside it left open.
    for (const auto& [name, words] : b.before)
      if (!variables_.contains(name)) b.values[name].insert("$" + name);
    ++b.ended;
  }

  void else_branch() {
    if (branches_.empty() || branches_.back().is_case) return;
    end_branch();
    branches_.back().has_else = true;
    enter(Truth::yes, {});
  }

  void open_case() {
    branches_.push_back({});
    Branching& b = branches_.back();
    b.is_case = true;
    b.reads_before = reading_;
    b.pattern_next = true;
    if (command_.size() > 1) b.subject = command_[1].text;
    reading_ = false;
  }

  // A pattern of a case: the last of those before ')' opens the branch.
  void pattern(bool last) {
    Branching& b = branches_.back();
    std::set<std::string> about;
    Truth t = Truth::no;
    if (b.subject.find('$') != std::string::npos) {
      t = Truth::unknown;
      add_names(b.subject, about);
    } else {
      t = fits_pattern(command_.back().text, b.subject) ? Truth::yes : Truth::no;
    }
    matched_ = matched_ == Truth::yes ? matched_ : t;
    if (!last) return;
    b.pattern_next = false;
    enter(matched_, about);
    matched_ = Truth::no;
  }

  void close_branches() {
    if (branches_.empty()) return;
    if (!branches_.back().pattern_next) end_branch();
    Branching b = std::move(branches_.back());
    branches_.pop_back();
    reading_ = b.reads_before;
    if (b.about.empty() || !reading_) return;
    variables_ = b.before;
    for (const auto& [name, values] : b.values) {
      if (values.size() == 1 && b.has_else && b.values.size() == 1 && b.set_in[name] == b.ended) {
        variables_[name] = {{*values.begin(), here()}};
        continue;
      }
      variables_.erase(name);
      for (const std::string& value : values)
        if (value.find("--") != std::string::npos) script_.open_arguments.insert(name);
      open_[name].insert(b.about.begin(), b.about.end());
    }
  }

  // In "[[ $A > 2 ]]" the '>' compares.
  bool is_condition() const {
    return !command_.empty() && (command_.front().text == "if" || command_.front().text == "elif");
  }

  void skip_target() {
    while (peek() == '>' || peek() == '&' || is_blank(peek())) step();
    while (at_ < text_.size() && !is_blank(peek()) && !is_separator(peek())) step();
  }

  // Reads a word, or an assignment where a command may begin.
  void read_word() {
    if (command_.empty() && is_name_start(peek())) {
      size_t end = at_;
      while (end < text_.size() && is_name(text_[end])) ++end;
      const bool appends = text_.substr(end).starts_with("+=");
      if (appends || text_.substr(end).starts_with("=")) return read_assignment(end, appends);
    }
    std::vector<ShellWord> words = word(false);
    for (ShellWord& w : words) {
      if (command_.empty() && (w.text == "export" || w.text == "declare" || w.text == "local" ||
                               w.text == "readonly")) {
        exporting_ = w.text == "export";
        continue;
      }
      if (command_.empty() && w.text == "else") else_branch();
      if (command_.empty() && (w.text == "then" || w.text == "do" || w.text == "else")) continue;
      if (full()) return;
      ++words_;
      command_.push_back(std::move(w));
    }
  }

  void read_assignment(size_t name_end, bool appends) {
    const std::string name(text_.substr(at_, name_end - at_));
    while (at_ < name_end + (appends ? 2 : 1)) step();
    std::vector<ShellWord> value;
    const Mark mark = here();
    if (peek() == '(') {
      step();
      while (at_ < text_.size() && peek() != ')' && !full()) {
        skip_blanks();
        if (peek() == '\n') {
          step();
          continue;
        }
        if (at_ >= text_.size() || peek() == ')') break;
        if (is_separator(peek())) {
          step();
          continue;
        }
        for (ShellWord& w : word(false)) value.push_back(std::move(w));
      }
      if (at_ < text_.size()) step();
    } else if (at_ < text_.size() && !is_blank(peek()) && !is_separator(peek())) {
      value = word(true);
    }
    words_ += value.size();
    if (!reading_ || fixed_.contains(name)) return;
    // X=$X and X=${X} leave open what is open.
    if (value.size() == 1 &&
        (value.front().text == "$" + name || value.front().text == "${" + name + "}"))
      return;
    if (!appends) open_.erase(name);
    if (appends && open_.contains(name)) return;
    std::vector<ShellWord>& variable = variables_[name];
    if (!appends) variable.clear();
    variable.insert(variable.end(), value.begin(), value.end());
    if (exporting_ || name.find("NCCL") != std::string::npos || name.starts_with("CUDA_") ||
        name.starts_with("NVTE_"))
      script_.exported.emplace_back(name, ShellWord{joined(variable), mark});
  }

  static std::string joined(const std::vector<ShellWord>& words) {
    std::string text;
    for (const ShellWord& w : words) text += (text.empty() ? "" : " ") + w.text;
    return text;
  }

  // The words that one word of the script becomes.  `split_quoted`: "a b" is two, as it will be
  // when the variable it is assigned to is expanded.
  std::vector<ShellWord> word(bool split_quoted) {
    std::vector<ShellWord> done;
    ShellWord current{{}, here()};
    bool any = false;
    const auto finish = [&] {
      if (any) done.push_back(current);
      any = false;
      current.text.clear();
    };
    const auto put = [&](char c, const Mark& mark) {
      if (!any) current.mark = mark;
      any = true;
      current.text += c;
    };
    char quote = '\0';
    while (at_ < text_.size()) {
      const char c = peek();
      const Mark mark = here();
      if (quote == '\0' && (is_blank(c) || is_separator(c))) break;
      if (quote == '\0' && c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n')))
        break;
      if (c == '\\' && quote != '\'' && at_ + 1 < text_.size()) {
        step();
        if (peek() == '\r' && peek(1) == '\n') step();
        if (peek() != '\n')
          put(peek(), mark);
        else if (split_quoted)
          finish();
        step();
      } else if (c == '$' && quote != '\'') {
        expand(quote == '"' && !split_quoted, done, current, any, mark);
      } else if (quote == '\0' && (c == '"' || c == '\'')) {
        quote = c;
        if (!any) current.mark = mark;
        any = any || !split_quoted;  // "" is a word
        step();
      } else if (c == quote) {
        quote = '\0';
        step();
      } else if (quote != '\0' && split_quoted && (is_blank(c) || c == '\n')) {
        finish();
        step();
      } else {
        put(c, mark);
        step();
      }
    }
    finish();
    return done;
  }

  // After '$': appends to `current`, or, where a variable of several words stands alone, to `done`.
  void expand(bool one_word, std::vector<ShellWord>& done, ShellWord& current, bool& any,
              const Mark& mark) {
    const size_t begin = at_;
    const std::optional<std::vector<ShellWord>> words = variable();
    std::string text(
        text_.substr(begin, at_ - begin));  // stays as written if the variable is unknown
    const bool ends = at_ >= text_.size() || is_blank(peek()) || is_separator(peek()) ||
                      peek() == '\\' || peek() == '"';
    if (words) {
      for (const ShellWord& w : *words)
        words_ += w.text.size() / 64;  // long text counts as several words
      if (words->empty() || full()) return;
    }
    if (words && (words->size() == 1 || (any && !current.text.empty()) || !ends ||
                  (one_word && !is_array_))) {
      if (!any) current.mark = words->size() == 1 ? words->front().mark : mark;
      any = true;
      current.text += joined(*words);
    } else if (words) {
      words_ += words->size();
      if (!full()) done.insert(done.end(), words->begin(), words->end());
      any = false;
      current.text.clear();
    } else {
      if (!any) current.mark = mark;
      any = true;
      current.text += text;
    }
  }

  // The words of $NAME, ${NAME...}, $((...)); nothing if they are not known.
  std::optional<std::vector<ShellWord>> variable() {
    const Mark mark = here();
    step();
    is_array_ = false;
    if (peek() == '(') return arithmetic(mark);
    std::string name;
    std::optional<std::string> fallback;
    if (peek() == '{') {
      step();
      while (is_name(peek())) name += take();
      std::string rest;
      while (at_ < text_.size() && peek() != '}' && peek() != '\n') rest += take();
      if (peek() == '}') step();
      is_array_ = rest == "[@]" || rest == "[*]";
      if (rest.starts_with(":-") || rest.starts_with(":="))
        fallback = rest.substr(2);
      else if (!rest.empty() && !is_array_)
        return {};
    } else {
      while (is_name(peek())) name += take();
      if (name.empty() && at_ < text_.size() && !is_blank(peek()) && peek() != '\n') take();  // $@
    }
    const auto found = variables_.find(name);
    if (!name.empty() && found != variables_.end() && !found->second.empty()) return found->second;
    if (fallback) {
      while (fallback->size() > 1 && (fallback->front() == '"' || fallback->front() == '\'') &&
             fallback->back() == fallback->front())
        fallback = fallback->substr(1, fallback->size() - 2);
      return std::vector<ShellWord>{{*fallback, mark}};
    }
    if (found != variables_.end()) return found->second;
    return {};
  }

  char take() {
    const char c = text_[at_];
    step();
    return c;
  }

  // $((A * 8)); $(command) is not known.
  std::optional<std::vector<ShellWord>> arithmetic(const Mark& mark) {
    int depth = 0;
    std::string inside;
    while (at_ < text_.size() && peek() != '\n') {
      const char c = take();
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      inside += c;
      if (depth == 0) break;
    }
    if (!inside.starts_with("((")) return {};
    std::string plain;
    for (size_t i = 0; i < inside.size();) {
      if (inside[i] == '$' && i + 1 < inside.size() && inside[i + 1] == '{') {
        const size_t end = std::min(inside.find('}', i), inside.size());
        std::string name = inside.substr(i + 2, end - std::min(end, i + 2));
        std::string value;
        const size_t dash = std::min(name.find(":-"), name.size());
        if (dash < name.size()) value = name.substr(dash + 2);
        name.erase(dash);
        const auto found = variables_.find(name);
        if (found != variables_.end()) value = joined(found->second);
        if (value.empty()) return {};
        plain += '(' + value + ')';
        i = end + 1;
      } else if (inside[i] == '$' || inside[i] == '{' || inside[i] == '}') {
        ++i;
      } else if (is_name_start(inside[i])) {
        std::string name;
        while (i < inside.size() && is_name(inside[i])) name += inside[i++];
        const auto found = variables_.find(name);
        if (found == variables_.end()) return {};
        // "A * B" with A = "1 + 1" multiplies 1 + 1.
        plain += '(' + joined(found->second) + ')';
      } else {
        plain += inside[i++];
      }
    }
    const std::optional<int64_t> value = python_whole(plain);
    if (!value) return {};
    return std::vector<ShellWord>{{fmt::format("{}", *value), mark}};
  }

  std::string_view text_;
  SourceRef source_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
  size_t words_ = 0;
  bool exporting_ = false;
  bool is_array_ = false;  // the last variable was ${NAME[@]}
  std::vector<Branching> branches_;
  bool reading_ = true;                              // not in a branch that does not hold
  Truth matched_ = Truth::no;                        // patterns of a case so far
  std::vector<std::vector<std::string>> condition_;  // tests that '&&' and '||' join
  std::vector<char> joins_;
  std::string opens_;            // "if" or "elif", before the condition
  std::set<std::string> fixed_;  // that the user gives
  std::map<std::string, std::set<std::string>, std::less<>> open_;
  std::vector<ShellWord> command_;
  std::map<std::string, std::vector<ShellWord>, std::less<>> variables_;
  ShellScript script_;
};

Value scalar(const ShellWord& word, std::string text) {
  Value v;
  v.kind = Value::Kind::scalar;
  v.mark = word.mark;
  v.text = std::move(text);
  return v;
}

bool is_option(std::string_view word);

// "--fp8-format hybrid" in quotes is two words to whoever wrote it.
std::vector<ShellWord> apart(const std::vector<ShellWord>& words) {
  std::vector<ShellWord> all;
  for (const ShellWord& w : words) {
    if (!is_option(w.text) || w.text.find(' ') == std::string::npos) {
      all.push_back(w);
      continue;
    }
    for (size_t begin = 0; begin < w.text.size();) {
      const size_t end = std::min(w.text.find(' ', begin), w.text.size());
      if (end > begin) all.push_back({w.text.substr(begin, end - begin), w.mark});
      begin = end + 1;
    }
  }
  return all;
}

bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && is_name_start(word[2]);
}

}  // namespace

ShellScript read_shell(const SourceRef& source, const ShellGiven& given) {
  return ShellReader(source, given).read();
}

std::set<std::string> hangs_on(const ShellScript& script, std::string_view text) {
  std::set<std::string> names;
  for (size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
    size_t begin = at + 1;
    while (begin < text.size() && (text[begin] == '{' || text[begin] == '(')) ++begin;
    size_t end = begin;
    while (end < text.size() && is_name(text[end])) ++end;
    const std::string name(text.substr(begin, end - begin));
    const auto found = script.open.find(name);
    if (found != script.open.end())
      names.insert(found->second.begin(), found->second.end());
    else if (!name.empty())
      names.insert(name);
  }
  return names;
}

std::vector<Argument> arguments_of(const std::vector<ShellWord>& whole) {
  std::vector<Argument> all;
  const std::vector<ShellWord> words = apart(whole);
  for (size_t i = 0; i < words.size();) {
    const ShellWord& word = words[i++];
    if (!is_option(word.text)) continue;
    const size_t equals = word.text.find('=');
    Argument a;
    a.written = word.text.substr(0, equals);
    a.name = argument_name(a.written);
    if (equals != std::string::npos) {
      a.value = scalar(word, word.text.substr(equals + 1));
    } else {
      std::vector<Value> values;
      while (i < words.size() && !is_option(words[i].text)) {
        values.push_back(scalar(words[i], words[i].text));
        ++i;
      }
      if (values.empty()) {
        a.value = scalar(word, "true");
      } else if (values.size() == 1) {
        a.value = std::move(values.front());
      } else {
        a.value.kind = Value::Kind::sequence;
        a.value.mark = values.front().mark;
        a.value.items = std::move(values);
      }
    }
    all.push_back(std::move(a));
  }
  return all;
}

}  // namespace stepcast
