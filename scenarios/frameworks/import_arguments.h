// SPDX-License-Identifier: Apache-2.0
// Arguments of another tool: names and values with their places, and the tables that say which of
// them change the cost of a training step and what each becomes in a scenario.
//
// A table has a row for each argument that changes the cost: its name, the key of the scenario, and
// As, how the value is converted.  draft_rows() (importers.h) writes the rows of a table in their
// order; a row that is no plain conversion calls a function of the importer when its turn comes. So
// {"optimizer.clip_grad", "optimizer.clip", As::positive()} writes `clip: true` for clip_grad 1.0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/frameworks/import_draft.h"

namespace stepcast {

// One argument as a file gives it.
struct Argument {
  std::string name;     // normal form (argument_name)
  std::string written;  // as the file has it: "--num-layers", "parallelism.tp"
  Value value;          // null: stated to be unset; a flag without a value: "true"
  bool listed = false;  // of a list of all arguments, whether or not somebody gave them
};

// "--num-layers" -> "num_layers".
std::string argument_name(std::string_view written);

struct Importing;  // importers.h

// What becomes of an argument's value.
struct As {
  enum class Kind : uint8_t {
    input,     // nothing: the code of another row reads it
    left_out,  // nothing: it is not modelled, and the user is told unless the value is in `words`
    code,      // code_of_row() is called, whether or not the argument is given
    whole,     // a number as it is
    flag,      // true or false
    positive,  // whether the number is above 0
    word,      // the text as it is
    lower,     // the text in lower case
  };
  Kind kind = Kind::input;
  // What flags and words become: "afab=gpipe|1f1b|*=auto".  "*" stands for all other words; without
  // it they are refused.  An empty right side writes nothing.  Without `words` a value stays as it
  // is.
  std::string_view words{};
  int64_t most = 0;                 // whole: a size from 1 to this; 0: any number
  bool above_one = false;           // whole: written only above 1
  bool is_needed = false;           // a file without it is refused (E332)
  std::string_view fallback{};      // the value where it is not given; empty: nothing is written
  std::string_view fallback_why{};  // "nanotron's default"
  std::string_view size{};          // the row counts only where the size of this name is above 1
  void (*code_of_row)(Importing&) = nullptr;

  static constexpr As input() { return {}; }
  static constexpr As left_out(std::string_view neutral) { return {Kind::left_out, neutral}; }
  static constexpr As code(void (*function)(Importing&)) {
    As as{Kind::code};
    as.code_of_row = function;
    return as;
  }
  static constexpr As whole() { return {Kind::whole}; }
  static constexpr As size_to(int64_t most) { return {Kind::whole, {}, most}; }
  static constexpr As flag(std::string_view words = {}) { return {Kind::flag, words}; }
  static constexpr As positive() { return {Kind::positive}; }
  static constexpr As word(std::string_view words = {}) { return {Kind::word, words}; }
  static constexpr As lower() { return {Kind::lower}; }

  constexpr As if_above_one() const {
    As as = *this;
    as.above_one = true;
    return as;
  }
  constexpr As needed() const {
    As as = *this;
    as.is_needed = true;
    return as;
  }
  constexpr As otherwise(std::string_view value, std::string_view why) const {
    As as = *this;
    as.fallback = value;
    as.fallback_why = why;
    return as;
  }
  constexpr As with(std::string_view name) const {
    As as = *this;
    as.size = name;
    return as;
  }
};

// An argument that changes the cost.
struct CostArgument {
  std::string_view name;  // normal form; empty: there is no such argument, code works the value out
  std::string_view path;  // the key: "parallel.tp"; only for the reader where code writes it
  As as{};
  std::string_view also{};     // other names of the same: "a|b"
  std::string_view inverse{};  // names of the opposite: "a|b"; no_NAME and disable_NAME always are
};

// Whether `name` is on the list `list` of names without effect on the cost of a training step
// (scenarios/frameworks/imports/LIST.txt: one a line, '*' at the end stands for anything).
bool without_effect(std::string_view list, std::string_view name);
// Whether the table or the list has it, under any of its names.
bool known_argument(std::span<const CostArgument> table, std::string_view list,
                    std::string_view name);

struct UnknownArgument {
  std::string written;
  Mark mark;
  std::string near{};  // the known one it may be meant for: "--num-experts"; empty if there is none
};

// What was found in a file, by the names of a table.  Reads values, with located problems:
//   E331 a value that cannot be read
class ArgumentReader {
 public:
  // Later arguments replace earlier ones of the same name, as on a command line; in a list of all
  // arguments what is off under one name does not replace what is on under another of the row.
  // REQUIRES: `table` lives as long.
  ArgumentReader(std::span<const CostArgument> table, std::string_view list,
                 const std::vector<Argument>& arguments, Problems& problems);

  // All of them REQUIRE a name of the table.  An argument that is unset counts as absent.
  bool given(std::string_view name) const { return find(name) != nullptr; }
  // The file has it, if only as unset: a list of all arguments names those of its version.
  bool named(std::string_view name) const { return given_.contains(name); }
  const Value* value(std::string_view name) const;
  std::optional<int64_t> whole(std::string_view name) const;
  int64_t whole(std::string_view name, int64_t fallback) const;
  // A number of things, however many: digits with Python's underscores between them, up to 10^18.
  // Nothing, and no problem, where it is anything else.
  std::optional<int64_t> count(std::string_view name) const;
  std::optional<double> real(std::string_view name) const;
  bool flag(std::string_view name, bool fallback = false) const;
  std::string word(std::string_view name, std::string_view fallback = {}) const;
  // "a b", "['a', 'b']", "a,b" and lists.
  std::vector<std::string> words(std::string_view name) const;

  // "--num-layers 32", or "default" where it was not given: for comments.
  std::string why(std::string_view name) const;
  // The same with its place; `otherwise` where it was not given.
  Origin origin(std::string_view name, std::string_view otherwise = "default") const;
  Mark mark(std::string_view name) const;
  // Adds E331 for an argument, given or what it is by default, unless it has been refused before.
  void refuse(std::string_view name, const std::string& message, std::string help = {}) const;

  // Notes all arguments that are not modelled and have an effect (As::left_out).
  void note_left_out(ScenarioDraft& draft) const;

  std::span<const CostArgument> table() const { return table_; }

  // How many of the file's arguments change the cost; what an importer adds has no place in a file.
  int64_t used() const;
  int64_t ignored() const { return ignored_; }
  const std::vector<UnknownArgument>& unknown() const { return unknown_; }
  Problems& problems() const { return problems_; }

 private:
  // The argument that an unknown one may be meant for, of those that are not given; in its
  // notation.
  std::string suggestion(const std::string& written) const;

  struct Given {
    Argument argument;
    bool negated = false;
  };
  const Given* find(std::string_view name) const;
  void refuse_value(std::string_view name, const std::string& expected) const;

  std::span<const CostArgument> table_;
  Problems& problems_;
  std::map<std::string, Given, std::less<>> given_;  // by the name in the table
  std::vector<UnknownArgument> unknown_;
  mutable std::set<std::string, std::less<>> refused_;  // names, so that each is refused once
  int64_t ignored_ = 0;
};

// What a word says of a flag, in letters of any case: true, yes, on and 1, and their opposites, as
// YAML 1.1 and Python have them.  Nothing for any other word.
std::optional<bool> truth(std::string_view word);
// "([0]*3+[1]*58)", "[0, 1]".  Nothing if it is no list, or longer than 100,000.
std::optional<std::vector<int64_t>> python_list(std::string_view text);
// "8*4", "32/8", "500_000".  Nothing if it is no whole number.
std::optional<int64_t> python_whole(std::string_view text);

}  // namespace stepcast
