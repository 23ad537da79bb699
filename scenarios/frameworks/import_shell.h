// SPDX-License-Identifier: Apache-2.0
// Arguments in a shell script: the line that starts a training, and the variables it is made of.
//
// Read are assignments (NAME=word, NAME="...", NAME=(...), NAME+=, export), $NAME, ${NAME},
// ${NAME[@]}, ${NAME:-default}, $((...)), both kinds of quotes, comments and continued lines.
// Nothing is run: branches of an `if` are read one after the other, loops once, and $(...) stays
// as it is written.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenarios/frameworks/import_arguments.h"

namespace stepcast {

struct ShellWord {
  std::string text;
  Mark mark;
};

struct ShellScript {
  std::vector<std::vector<ShellWord>> commands;             // their words, expanded
  std::vector<std::pair<std::string, ShellWord>> exported;  // environment, in order
};

// Never fails: what is no shell has commands without arguments.
ShellScript read_shell(const SourceRef& source);

// The arguments of the words: "--name value value", "--name=value", "--flag".  Words before the
// first one are left out.
std::vector<Argument> arguments_of(const std::vector<ShellWord>& words);

}  // namespace stepcast
