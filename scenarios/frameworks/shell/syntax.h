// SPDX-License-Identifier: Apache-2.0
// The commands of a shell script as they are written: nothing is expanded, and nothing is run.
//
// Words stay ranges of the text, quotes and all, because what they become hangs on the values of
// variables when their turn comes (reader.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/value.h"

namespace stepcast {

// Text, and where its words are written: each place holds from its offset to the next one, on one
// line.
struct ShellText {
  struct Place {
    size_t offset = 0;
    Mark mark;
  };
  std::string text;
  std::vector<Place> places;

  Mark mark_at(size_t offset) const;
  void append(char c, const Mark& mark);
  void append(const ShellText& other);
};

struct ShellRange {
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

struct ShellNode;
using ShellNodes = std::vector<ShellNode>;

// One branch: of an `if` or a loop what is asked and what is done, of a `case` the patterns.
struct ShellClause {
  std::vector<ShellRange> patterns{};
  ShellNodes condition;  // no initializer: what a node is, is not known yet
  ShellNodes body;
};

struct ShellNode {
  enum class Kind : uint8_t { command, branches, choice, each, loop, function, group };
  enum class Joined : uint8_t { next, if_yes, if_no, pipe };  // ";", "&&", "||", "|"
  Kind kind = Kind::command;
  Joined joined = Joined::next;  // to the command before it
  bool negated = false;          // "! command"
  bool until = false;            // of a loop
  const ShellText* in = nullptr;
  std::vector<ShellRange> words{};  // each: the name and what it goes through
  std::vector<ShellClause> clauses{};
  std::optional<ShellRange> document{};  // a here-document or here-string
  bool document_is_plain = false;        // nothing in it is expanded
  bool document_is_string = false;       // "<<< word"
  bool is_subshell = false;              // a group: "( ... )"
};

inline bool is_shell_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_shell_name(char c) {
  return is_shell_name_start(c) || (c >= '0' && c <= '9');
}
// Between the words of a line, and between words on any lines.
inline bool is_shell_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
inline bool is_shell_space(char c) {
  return is_shell_blank(c) || c == '\n';
}

// Behind the "<path to the data>" that begins at `at`, which stands for what the reader of a script
// has to write; `at` if there is none.  It ends on its line and at the end of a word, so that it is
// no redirection ("<in >out").
size_t end_of_placeholder(std::string_view text, size_t at, size_t end);

// The end of the word that begins at `at`: the first blank, line end or operator outside quotes and
// substitutions.  "A=(1 2)" and "<path to the data>" are one word.
size_t end_of_shell_word(std::string_view text, size_t at, size_t end);

// After "(" or "{" at `at`: behind what closes it, or `end`.
size_t end_of_shell_group(std::string_view text, size_t at, size_t end);

// Never fails: what is no shell becomes commands.  Statements that are nested more deeply than 100
// are left out, and so is what follows after `most` of them; `most` becomes what is left of it.
// REQUIRES: `in` lives as long as the result.
ShellNodes parse_shell(const ShellText& in, ShellRange range, size_t& most);

}  // namespace stepcast
