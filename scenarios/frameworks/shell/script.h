// SPDX-License-Identifier: Apache-2.0
// Arguments in a shell script: the line that starts a training, and the variables it is made of.
//
// The script is followed as the shell would, but nothing is run: of the programs that it calls only
// the words are kept.  What that leaves unknown (a variable that is set elsewhere, $1, what a
// program prints) stays in the text as an open value.  Of an `if` or `case` about open values all
// branches are followed, and what they set differently is open too, and hangs on them:
//
//   if [ $SIZE = 7B ]; then LAYERS=32; elif [ $SIZE = 13B ]; then LAYERS=40; fi
//   torchrun pretrain_gpt.py --num-layers $LAYERS
//
// leaves --num-layers open, which hangs on SIZE, one of 7B and 13B.  A branch that ends the script
// is not the one that is wanted.  Where a variable that nothing sets is only compared, it is taken
// to be empty, as the shell does, and ShellScript::empty says so.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"

namespace stepcast {

struct ShellOpen;

struct ShellWord {
  std::string text;  // what is open as it is written: "$NAME"
  Mark mark;
  std::shared_ptr<const ShellOpen> open{};  // null: all of it is known
};

// What is not known, and why.
struct ShellOpen {
  std::set<std::string> names;  // of variables, or "1" for $1; empty: what a program prints
  // If the whole word is open: the words that it may become.  Empty if they are not known.
  std::vector<std::vector<ShellWord>> may_be{};
  bool holds_options = false;  // one of those words, or of what they may be, is "--name"
  bool is_unset = false;       // a variable or argument that nothing sets: no word without quotes
};

// What the words after the file say: "SIZE=7B" a variable, any other word the next of $1, $2, ...
using ShellGiven = std::span<const std::string>;

// The text of a file that a script names, by its path from the script's folder; nothing if there is
// none.  Absolute paths are not asked for; of "$DIR/common.sh" it is "common.sh".
using ShellFiles = std::function<std::optional<std::string>(std::string_view path)>;

struct ShellCommand {
  std::vector<ShellWord> words;
  std::set<std::string> hangs_on{};  // whether it is called at all
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<std::pair<std::string, ShellWord>> exported;  // environment, in order
  std::map<std::string, std::string> variable_of;           // "2" -> "SIZE", where SIZE=$2
  std::map<std::string, std::vector<std::string>> choices;  // what each name is compared with
  std::set<std::string> empty;      // variables that are not set, and were taken to be empty
  std::vector<std::string> unread;  // variables that are given, and that nothing in it reads
  std::optional<ShellWord> nodes;   // of "sbatch --nodes=16 job.sh"
  std::optional<Mark> cut;          // where it became too long to be followed
};

// Never fails: what is no shell has commands without arguments.
ShellScript read_shell(const SourceRef& source, const ShellGiven& given = {},
                       const ShellFiles& files = {});

struct ShellArgument {
  Argument argument;
  bool is_open = false;
  bool only_unset = false;  // its value is a variable that nothing sets, and nothing else
  std::set<std::string> hangs_on{};
};

// The arguments of the words: "--name value value", "--name=value", "--flag".  Words before the
// first one are left out.
std::vector<ShellArgument> arguments_of(const std::vector<ShellWord>& words);

}  // namespace stepcast
