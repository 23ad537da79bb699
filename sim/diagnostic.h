// SPDX-License-Identifier: Apache-2.0
// Public (cmake/Install.cmake).
//
// What is wrong with something the user gave us: a scenario, a table, a schedule file.
//
// Readers collect every problem they can find and throw them together as one InputError, so that a
// file is mended in one round.  The library only carries the facts; how they look on a terminal or
// in JSON is decided in report/.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <vector>

namespace stepcast {

struct Diagnostic {
  std::string code;         // "E102"; the families are listed in docs/errors.md
  std::string message;      // one line, no final full stop: "unknown key 'tpp' in 'parallel'"
  std::string file;         // as the user named it; empty if the problem has no place
  int line = 0;             // from 1; 0 = no position
  int column = 0;           // from 1
  int length = 1;           // characters to underline from `column`
  std::string source_line;  // text of that line, without its end; may be empty
  std::string label;        // short remark beside the underline: "did you mean 'tp'?"
  std::string help;         // what would be legal
  std::string note;         // background: "Megatron's --global-batch-size is batch.global here"
};

// All problems of one input.
struct InputError : std::exception {
  explicit InputError(std::vector<Diagnostic> all);
  explicit InputError(Diagnostic one);
  const char* what() const noexcept override { return text_.c_str(); }

  std::vector<Diagnostic> diagnostics;  // in order of file and position, at least one

 private:
  std::string
      text_;  // "file:line:col: CODE message", one line a problem; what is empty is left out
};

// What a command exits with for these problems: 7 if a file cannot be read or written, else 4 if a
// schedule deadlocks, else 2.
int exit_status_of(std::span<const Diagnostic> problems);

// Refuses what the caller hands on from the user: throws an InputError of one Diagnostic that has
// neither code nor place.  The layer that knows the file and the key that it came from adds them
// (with_code_and_file).  A search that wants to know without a throw asks the check behind it,
// which returns the Diagnostic.
[[noreturn]] void refuse(std::string message, std::string help = {});

// What is wrong with a file as a whole, or with what was asked of it: there is no line to show.  To
// be thrown.  `file` as the user named it; empty if none is at fault.
InputError file_error(std::string code, std::string message, std::string file,
                      std::string help = {});

// Gives `code` and `file` to each diagnostic of `error` that has none yet.
InputError with_code_and_file(InputError error, const std::string& code, const std::string& file);

}  // namespace stepcast
