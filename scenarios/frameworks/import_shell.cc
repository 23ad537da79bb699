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
  ShellReader(const SourceRef& source) : text_(source->text), source_(source) {}

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
      if (redirect) skip_target();
      if (redirect) return;
    }
    if (!command_.empty()) script_.commands.push_back(std::move(command_));
    command_.clear();
    exporting_ = false;
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
      if (quote == '\0' && c == '\\' && (peek(1) == '\n' || peek(1) == '\r')) break;
      if (c == '\\' && quote != '\'' && at_ + 1 < text_.size()) {
        step();
        if (peek() == '\r') step();
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
      if (inside[i] == '$' || inside[i] == '{' || inside[i] == '}') {
        ++i;
      } else if (is_name_start(inside[i])) {
        std::string name;
        while (i < inside.size() && is_name(inside[i])) name += inside[i++];
        const auto found = variables_.find(name);
        if (found == variables_.end()) return {};
        plain += joined(found->second);
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

bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && is_name_start(word[2]);
}

}  // namespace

ShellScript read_shell(const SourceRef& source) {
  return ShellReader(source).read();
}

std::vector<Argument> arguments_of(const std::vector<ShellWord>& words) {
  std::vector<Argument> all;
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
