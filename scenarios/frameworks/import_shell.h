// SPDX-License-Identifier: Apache-2.0
// Arguments in a shell script: the line that starts a training, and the variables it is made of.
//
// Read are assignments (NAME=word, NAME="...", NAME=(...), NAME+=, export), $NAME, ${NAME},
// ${NAME[@]}, ${NAME:-default}, $((...)), both kinds of quotes, comments and continued lines.
// Nothing is run.  Of an `if` or `case` about values that are known the branch that holds is read;
// of one about a value that is not, all branches, and what they would set differently is not known
// either:
//
//   if [ $SIZE = 7B ]; then LAYERS=32; elif [ $SIZE = 13B ]; then LAYERS=40; fi
//   torchrun pretrain_gpt.py --num-layers $LAYERS
//
// leaves --num-layers open, and says that it hangs on SIZE.  Loops are read once, and $(...) stays
// as it is written.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"

namespace stepcast {

struct ShellWord {
  std::string text;
  Mark mark;
};

// What the words after the file say: "SIZE=7B" a variable, any other word the next of $1, $2, ...
using ShellGiven = std::span<const std::string>;

struct ShellScript {
  std::vector<std::vector<ShellWord>> commands;             // their words, expanded
  std::vector<std::pair<std::string, ShellWord>> exported;  // environment, in order
  // Variables without a value: what each hangs on, which is its own name or those of the values
  // that decide about it.
  std::map<std::string, std::set<std::string>, std::less<>> open;
  std::set<std::string, std::less<>> open_arguments;  // of these, what may hold "--name value"
};

// Never fails: what is no shell has commands without arguments.
ShellScript read_shell(const SourceRef& source, const ShellGiven& given = {});

// The names of what the text "$NAME" and "${NAME}" in it hang on.
std::set<std::string> hangs_on(const ShellScript& script, std::string_view text);

// The arguments of the words: "--name value value", "--name=value", "--flag".  Words before the
// first one are left out.
std::vector<Argument> arguments_of(const std::vector<ShellWord>& words);

}  // namespace stepcast
