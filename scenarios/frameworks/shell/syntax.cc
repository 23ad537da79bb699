// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/shell/syntax.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

constexpr int kMostNested = 100;

bool is_shell_operator(char c) {
  return c == '\n' || c == ';' || c == '|' || c == '&' || c == '<' || c == '>' || c == '(' ||
         c == ')';
}

size_t end_of_group(std::string_view text, size_t at, size_t end, int depth);

// Behind the quote that closes the one at `at`.
size_t end_of_quotes(std::string_view text, size_t at, size_t end, int depth) {
  const char quote = text[at++];
  while (at < end && text[at] != quote) {
    if (quote != '\'' && text[at] == '\\') {
      at += 2;
    } else if (quote == '"' && text[at] == '$' && at + 1 < end &&
               (text[at + 1] == '(' || text[at + 1] == '{') && depth < kMostNested) {
      at = end_of_group(text, at + 1, end, depth + 1);
    } else {
      ++at;
    }
  }
  return std::min(at + 1, end);
}

size_t end_of_group(std::string_view text, size_t at, size_t end, int depth_of_quotes) {
  const char open = text[at], close = open == '(' ? ')' : '}';
  int depth = 0;
  bool word_begins = true;
  while (at < end) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
      word_begins = false;
      continue;
    }
    if (c == '\'' || c == '"' || c == '`') {
      at = end_of_quotes(text, at, end, depth_of_quotes);
      word_begins = false;
      continue;
    }
    if (open == '(' && c == '#' && word_begins) {
      at = std::min(text.find('\n', at), end);
      continue;
    }
    depth += c == open ? 1 : c == close ? -1 : 0;
    word_begins = is_shell_blank(c) || is_shell_operator(c);
    ++at;
    if (depth == 0) return at;
  }
  return end;
}

class ShellParser {
 public:
  ShellParser(const ShellText& in, ShellRange range, size_t& left)
      : in_(in), text_(in.text), at_(range.begin), end_(range.end), left_(left) {}

  ShellNodes read() {
    ShellNodes all;
    while (at_ < end_) {
      statements(all, 0);
      if (at_ < end_) ++at_;  // a ")" or "}" too many
    }
    return all;
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < end_ ? text_[at_ + ahead] : '\0'; }

  // Blanks, continued lines and comments; not line ends.
  void skip_blanks() {
    while (at_ < end_) {
      if (is_shell_blank(peek())) {
        ++at_;
      } else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        at_ += peek(1) == '\n' ? 2 : 3;
      } else if (peek() == '#') {
        at_ = std::min(text_.find('\n', at_), end_);
      } else {
        return;
      }
    }
  }

  void skip_lines() {
    for (skip_blanks(); peek() == '\n' || peek() == ';'; skip_blanks()) {
      if (peek() == '\n') {
        ++at_;
        read_documents();
      } else if (peek(1) == ';') {
        return;
      } else {
        ++at_;
      }
    }
  }

  std::string_view word_text(const ShellRange& r) const {
    return text_.substr(r.begin, r.end - r.begin);
  }

  ShellRange word() {
    const size_t begin = at_;
    at_ = end_of_shell_word(text_, at_, end_);
    if (at_ == begin && at_ < end_) ++at_;
    return {begin, at_};
  }

  // The word that comes next, without reading it.
  std::string_view coming() const {
    return text_.substr(at_, end_of_shell_word(text_, at_, end_) - at_);
  }

  static bool closes(std::string_view word) {
    constexpr std::array<std::string_view, 8> kClosing{"then", "else", "elif", "fi",
                                                       "do",   "done", "esac", "}"};
    return std::find(kClosing.begin(), kClosing.end(), word) != kClosing.end();
  }

  // Up to a word that closes something, ")" or ";;".
  void statements(ShellNodes& all, int depth) {
    ShellNode::Joined joined = ShellNode::Joined::next;
    bool negated = false;
    while (true) {
      skip_lines();
      if (at_ >= end_ || peek() == ')' || (peek() == ';' && peek(1) == ';')) return;
      if (peek() == '&' || peek() == '|' || peek() == '<' || peek() == '>') {
        const bool redirects = peek() == '<' || peek() == '>';
        if (!redirects) {
          ++at_;
          continue;
        }
      }
      const std::string_view next = coming();
      if (closes(next)) return;
      if (next == "!") {
        at_ += 1;
        negated = !negated;
        continue;
      }
      if (left_ == 0) {  // the rest is left out
        at_ = end_;
        return;
      }
      --left_;
      ShellNode node = statement(next, depth);
      node.in = &in_;
      node.joined = joined;
      node.negated = negated;
      negated = false;
      all.push_back(std::move(node));
      read_redirects(all.back());
      joined = read_join();
    }
  }

  ShellNode::Joined read_join() {
    skip_blanks();
    if (peek() == '&' && peek(1) == '&') {
      at_ += 2;
      return ShellNode::Joined::if_yes;
    }
    if (peek() == '|' && peek(1) == '|') {
      at_ += 2;
      return ShellNode::Joined::if_no;
    }
    if (peek() == '|') {
      at_ += peek(1) == '&' ? 2 : 1;
      return ShellNode::Joined::pipe;
    }
    if (peek() == '&') ++at_;
    return ShellNode::Joined::next;
  }

  ShellNode statement(std::string_view next, int depth) {
    ShellNode node;
    if (depth >= kMostNested) {  // its words without their meaning
      at_ = std::min(text_.find('\n', at_), end_);
      return node;
    }
    if (next.empty() && peek() == '(') {
      const size_t end = end_of_shell_group(text_, at_, end_);
      if (peek(1) == '(') {  // ((A > 2))
        node.words.push_back({at_, end});
        at_ = end;
        return node;
      }
      node.kind = ShellNode::Kind::group;
      node.is_subshell = true;
      ++at_;
      node.clauses.emplace_back();
      statements(node.clauses.back().body, depth + 1);
      if (peek() == ')') ++at_;
      return node;
    }
    if (next == "{") {
      at_ += 1;
      node.kind = ShellNode::Kind::group;
      node.clauses.emplace_back();
      statements(node.clauses.back().body, depth + 1);
      take_closing("}");
      return node;
    }
    if (next == "if") return branches(depth);
    if (next == "case") return choice(depth);
    if (next == "for" || next == "select") return each(depth);
    if (next == "while" || next == "until") {
      node.kind = ShellNode::Kind::loop;
      node.until = next == "until";
      at_ += next.size();
      node.clauses.emplace_back();
      statements(node.clauses.back().condition, depth + 1);
      take_closing("do");
      statements(node.clauses.back().body, depth + 1);
      take_closing("done");
      return node;
    }
    if (next == "function") {
      at_ += next.size();
      skip_blanks();
      return function(word(), depth);
    }
    return command(depth);
  }

  bool take_closing(std::string_view word) {
    if (at_ >= end_ || coming() != word) return false;
    at_ += word.size();
    return true;
  }

  ShellNode branches(int depth) {
    ShellNode node;
    node.kind = ShellNode::Kind::branches;
    at_ += 2;
    while (at_ < end_) {
      ShellClause clause;
      statements(clause.condition, depth + 1);
      take_closing("then");
      statements(clause.body, depth + 1);
      node.clauses.push_back(std::move(clause));
      if (take_closing("elif")) continue;
      if (take_closing("else")) {
        node.clauses.emplace_back();
        statements(node.clauses.back().body, depth + 1);
      }
      take_closing("fi");
      break;
    }
    return node;
  }

  ShellNode choice(int depth) {
    ShellNode node;
    node.kind = ShellNode::Kind::choice;
    at_ += 4;
    skip_blanks();
    node.words.push_back(word());
    skip_lines();
    take_closing("in");
    while (at_ < end_) {
      skip_lines();
      if (take_closing("esac")) break;
      ShellClause clause;
      if (peek() == '(') ++at_;
      while (at_ < end_ && peek() != ')' && peek() != '\n') {
        if (peek() == '|' || is_shell_blank(peek()))
          ++at_;
        else
          clause.patterns.push_back(word());
      }
      if (at_ < end_) ++at_;
      statements(clause.body, depth + 1);
      node.clauses.push_back(std::move(clause));
      if (peek() == ';' && peek(1) == ';') {
        at_ += 2;
        if (peek() == '&') ++at_;
      } else if (!take_closing("esac")) {
        if (at_ < end_) ++at_;  // a word that closes nothing here
        continue;
      } else {
        break;
      }
    }
    return node;
  }

  ShellNode each(int depth) {
    ShellNode node;
    node.kind = ShellNode::Kind::each;
    at_ = end_of_shell_word(text_, at_, end_);
    skip_blanks();
    if (peek() == '(') {  // for ((i = 0; i < 4; i++))
      const size_t close = end_of_shell_group(text_, at_, end_);
      const bool is_double = peek(1) == '(' && close >= at_ + 4;
      node.words.push_back({at_ + (is_double ? 2 : 1), is_double ? close - 2 : at_ + 1});
      at_ = close;
    } else {
      node.words.push_back(word());
      skip_blanks();
      if (take_closing("in")) {
        for (skip_blanks(); at_ < end_ && peek() != '\n' && peek() != ';'; skip_blanks())
          node.words.push_back(word());
      }
    }
    skip_lines();
    take_closing("do");
    node.clauses.emplace_back();
    statements(node.clauses.back().body, depth + 1);
    take_closing("done");
    return node;
  }

  ShellNode function(const ShellRange& name, int depth) {
    ShellNode node;
    node.kind = ShellNode::Kind::function;
    node.words.push_back(name);
    skip_blanks();
    if (peek() == '(') at_ = end_of_shell_group(text_, at_, end_);
    skip_lines();
    node.clauses.emplace_back();
    if (at_ < end_) {
      node.clauses.back().body.push_back(statement(coming(), depth + 1));
      node.clauses.back().body.back().in = &in_;
    }
    return node;
  }

  ShellNode command(int depth) {
    ShellNode node;
    while (at_ < end_) {
      skip_blanks();
      if (at_ >= end_) break;
      if (redirects()) {
        read_redirects(node);
        continue;
      }
      if (node.words.size() == 1 && at_parentheses()) return function(node.words.front(), depth);
      // "[[ $A > 2 && ($B = 1 || $C) ]]": what is between is not the shell's.
      if (!node.words.empty() && word_text(node.words.front()) == "[[" &&
          word_text(node.words.back()) != "]]" && is_shell_operator(peek()) && peek() != '\n' &&
          peek() != ';') {
        const size_t begin = at_;
        at_ += (peek() == '&' || peek() == '|') && peek(1) == peek() ? 2 : 1;
        node.words.push_back({begin, at_});
        continue;
      }
      if (is_shell_operator(peek()) && !at_placeholder()) break;
      node.words.push_back(word());
      // In "2>" the number is no argument.
      if ((peek() == '<' || peek() == '>') && word_text(node.words.back()).size() == 1 &&
          peek(static_cast<size_t>(-1)) >= '0' && peek(static_cast<size_t>(-1)) <= '9')
        node.words.pop_back();
    }
    return node;
  }

  // "()" behind the name of a function.
  bool at_parentheses() const {
    if (peek() != '(') return false;
    size_t ahead = 1;
    while (is_shell_blank(peek(ahead))) ++ahead;
    return peek(ahead) == ')';
  }
  bool at_placeholder() const { return end_of_placeholder(text_, at_, end_) > at_; }
  bool redirects() const {
    return peek() == '>' || (peek() == '<' && !at_placeholder()) ||
           (peek() == '&' && peek(1) == '>');
  }

  // "> file", "2>&1", "<<EOF", "<<< word".
  void read_redirects(ShellNode& node) {
    for (skip_blanks(); redirects(); skip_blanks()) {
      if (text_.substr(at_, end_ - at_).starts_with("<<<")) {
        at_ += 3;
        skip_blanks();
        node.document = word();
        node.document_is_string = true;
        continue;
      }
      if (peek() == '<' && peek(1) == '<') {
        at_ += 2;
        const bool indented = peek() == '-';
        if (indented) ++at_;
        skip_blanks();
        const std::string_view name = word_text(word());
        std::string plain;
        for (const char c : name)
          if (c != '"' && c != '\'' && c != '\\') plain += c;
        node.document_is_plain = plain != name;
        // A document begins on the next line, or behind the one before.
        if (pending_.empty()) next_document_ = text_.find('\n', at_);
        pending_.push_back({plain, indented});
        const size_t begin = next_document_ < end_ ? next_document_ + 1 : end_;
        std::tie(node.document, next_document_) = document(begin, pending_.back());
        continue;
      }
      while (peek() == '<' || peek() == '>' || peek() == '&') ++at_;
      skip_blanks();
      if (peek() == '(') at_ = end_of_shell_group(text_, at_, end_);
      // Nobody calls a file "--bf16".
      else if (at_ < end_ && !is_shell_operator(peek()) && !text_.substr(at_).starts_with("--"))
        word();
    }
  }

  struct Pending {
    std::string name;
    bool indented;
  };

  // What stands from `begin` to the line that ends the document, and where the next line begins.
  std::pair<ShellRange, size_t> document(size_t begin, const Pending& p) const {
    size_t at = begin;
    while (at < end_) {
      const size_t line_end = std::min(text_.find('\n', at), end_);
      std::string_view line = text_.substr(at, line_end - at);
      while (p.indented && line.starts_with('\t')) line.remove_prefix(1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line == p.name) return {{begin, at}, std::min(line_end, end_)};
      at = std::min(line_end + 1, end_);
    }
    return {{begin, end_}, end_};
  }

  // Behind the documents that begin on this line.
  void read_documents() {
    for (const Pending& p : pending_) {
      at_ = document(at_, p).second;
      if (at_ < end_) ++at_;
    }
    pending_.clear();
  }

  const ShellText& in_;
  std::string_view text_;
  size_t at_, end_;
  size_t& left_;
  std::vector<Pending> pending_;
  size_t next_document_ = 0;  // where the next one of this line begins
};

}  // namespace

Mark ShellText::mark_at(size_t offset) const {
  const auto after =
      std::upper_bound(places.begin(), places.end(), offset,
                       [](size_t wanted, const Place& place) { return wanted < place.offset; });
  if (after == places.begin()) return {};
  const Place& place = *std::prev(after);
  Mark mark = place.mark;
  if (mark.line > 0) mark.column += static_cast<int>(offset - place.offset);
  return mark;
}

void ShellText::append(char c, const Mark& mark) {
  const bool begins = text.empty() || text.back() == ' ' || text.back() == '\n';
  if (begins) places.push_back({text.size(), mark});
  text += c;
}

void ShellText::append(const ShellText& other) {
  for (const Place& place : other.places)
    places.push_back({text.size() + place.offset, place.mark});
  text += other.text;
}

size_t end_of_shell_group(std::string_view text, size_t at, size_t end) {
  return end_of_group(text, at, end, 0);
}

size_t end_of_placeholder(std::string_view text, size_t at, size_t end) {
  if (at + 1 >= end || text[at] != '<' || is_shell_space(text[at + 1])) return at;
  const size_t close = text.substr(0, end).find_first_of("\n<>()&;`\"'", at + 1);
  if (close >= end || text[close] != '>' || close == at + 1) return at;
  const std::string_view inside = text.substr(at + 1, close - at - 1);
  const char last = inside.back();
  // "<in >out", "<in 2> log", "<in | program> log" and "<in --flag> log" are the shell's.
  const bool number =
      last >= '0' && last <= '9' && inside.size() > 1 && is_shell_blank(inside[inside.size() - 2]);
  if (is_shell_blank(last) || last == '\\' || number || inside.find(" |") != inside.npos ||
      inside.find("| ") != inside.npos || inside.find(" -") != inside.npos)
    return at;
  const std::string_view behind = text.substr(0, end).substr(close + 1);
  const bool ends = behind.empty() || is_shell_space(behind.front()) || behind.front() == '\\' ||
                    behind.front() == ')' || behind.starts_with(".py");
  return ends ? close + 1 : at;
}

size_t end_of_shell_word(std::string_view text, size_t at, size_t end) {
  const size_t begin = at;
  while (at < end) {
    const char c = text[at];
    if (c == '\\') {
      if (at + 1 < end &&
          (text[at + 1] == '\n' || (text[at + 1] == '\r' && at + 2 < end && text[at + 2] == '\n')))
        return at;
      at += 2;
    } else if (c == '\'' || c == '"' || c == '`') {
      at = end_of_quotes(text, at, end, 0);
    } else if (c == '$' && at + 1 < end && (text[at + 1] == '(' || text[at + 1] == '{')) {
      at = end_of_shell_group(text, at + 1, end);
    } else if (c == '(' && at > begin && text[at - 1] == '=') {
      at = end_of_shell_group(text, at, end);
    } else if (const size_t behind = end_of_placeholder(text, at, end); behind > at) {
      at = behind;
    } else if (is_shell_blank(c) || is_shell_operator(c)) {
      return at;
    } else {
      ++at;
    }
  }
  return std::min(at, end);
}

ShellNodes parse_shell(const ShellText& in, ShellRange range, size_t& most) {
  return ShellParser(in, range, most).read();
}

}  // namespace stepcast
