// SPDX-License-Identifier: Apache-2.0
// Arguments of another tool: names and values with their places, and tables that say which of them
// change the cost of a training step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/value.h"

namespace stepcast {

// One argument as a file gives it.
struct Argument {
  std::string name;     // normal form (argument_name)
  std::string written;  // as the file has it: "--num-layers", "parallelism.tp"
  Value value;          // null: stated to be unset; a flag without a value: "true"
};

// "--num-layers" -> "num_layers".
std::string argument_name(std::string_view written);

// An argument that changes the cost.
struct CostArgument {
  std::string_view name;       // normal form
  std::string_view path;       // what it sets, for people: "parallel.tp"
  std::string_view also{};     // other names of the same: "a|b"
  std::string_view inverse{};  // names of the opposite: "a|b"; no_NAME and disable_NAME always are
  // Known, and not modelled: left out with a word to the user, but for these values ("false|0").
  std::string_view neutral{};
};

// Whether `name` is on the list `list` of names without effect on the cost of a training step
// (scenarios/frameworks/imports/LIST.txt: one a line, '*' at the end stands for anything).
bool without_effect(std::string_view list, std::string_view name);

struct UnknownArgument {
  std::string written;
  Mark mark;
  std::string near{};  // the known one it may be meant for: "--num-experts"; empty if there is none
};

// What was found in a file, by the names of a table.  Reads values, with located problems:
//   E331 a value that cannot be read
class ArgumentReader {
 public:
  // Later arguments replace earlier ones of the same name, as on a command line.
  // REQUIRES: `table` lives as long.
  ArgumentReader(std::span<const CostArgument> table, std::string_view list,
                 const std::vector<Argument>& arguments, Problems& problems);

  // All of them REQUIRE a name of the table.  Unset and absent are alike.
  bool given(std::string_view name) const { return find(name) != nullptr; }
  const Value* value(std::string_view name) const;
  std::optional<int64_t> whole(std::string_view name) const;
  int64_t whole(std::string_view name, int64_t fallback) const;
  std::optional<double> real(std::string_view name) const;
  bool flag(std::string_view name, bool fallback = false) const;
  std::string word(std::string_view name, std::string_view fallback = {}) const;
  // "a b", "['a', 'b']", "a,b" and lists.
  std::vector<std::string> words(std::string_view name) const;

  // "--num-layers 32", or "default" where it was not given: for comments.
  std::string why(std::string_view name) const;
  Mark mark(std::string_view name) const;
  void refuse(std::string_view name, const std::string& message, std::string help = {}) const;

  // why() of all that is not modelled and has another value than a neutral one.
  std::vector<std::string> left_out() const;

  int64_t used() const { return static_cast<int64_t>(given_.size()); }
  int64_t ignored() const { return ignored_; }
  const std::vector<UnknownArgument>& unknown() const { return unknown_; }
  Problems& problems() const { return problems_; }

 private:
  // What an unknown argument may be meant for, of those that are not given; written as it is.
  std::string suggestion(const std::string& written) const;

  struct Given {
    Argument argument;
    bool negated = false;
  };
  const Given* find(std::string_view name) const;
  void refuse_value(const Given& g, const std::string& expected) const;

  std::span<const CostArgument> table_;
  Problems& problems_;
  std::map<std::string, Given, std::less<>> given_;  // by the name in the table
  std::vector<UnknownArgument> unknown_;
  int64_t ignored_ = 0;
};

}  // namespace stepcast
