// SPDX-License-Identifier: Apache-2.0
// Lines and words of a file that is imported, and what is wrong with them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {

struct ImportText {
  std::string file;
  std::vector<std::string_view> lines;  // without their ends
};

// Throws an InputError E320 about the file, or about a line of it (from 1).
[[noreturn]] void refuse_import(const std::string& file, std::string message, std::string help = {},
                                int line = 0);

// Refers to `text`.  Throws InputError E320 for an empty file and for one that is no text.
ImportText lines_of(std::string_view text, const std::string& file);

struct ImportWord {
  std::string_view text;
  int column = 0;  // from 1
};

// Parts of a line between blanks and tabs.
std::vector<ImportWord> words_of(std::string_view line);

std::string_view trimmed(std::string_view text);

// Digits only, below 2^31; -1 if not.
int64_t whole_number(std::string_view text);

// A problem at characters `column` to column + length of a line (from 1).
Diagnostic problem_at(const ImportText& text, const char* code, int line, int column, size_t length,
                      std::string message, std::string help = "");

// Throws `problems` if there are any; the first 20 of them.
void throw_if_any(std::vector<Diagnostic>& problems);

}  // namespace stepcast
